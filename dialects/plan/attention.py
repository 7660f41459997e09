"""What a ``plan.schedule`` of attention takes of the hardware, and what its verifier asks (S8).

A block has BM queries and walks over the keys, BN at a step.  The scores of a step, BM x BN with BK
features each, become its weights in registers, and these multiply BN rows of V.  So ``warp_tile``
is of the output: [WM, features of V], and a warp (wgmma: a warpgroup) has whole rows of the scores.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.tile.compute import fma_lanes
from polyc.dialects.plan.fields import Record
from polyc.dialects.plan.schedule import Schedule

PATTERN = "attention"
"""The key of ``algo_choice``."""

TWO_PASSES = "streaming_softmax_2pass"
"""The way that walks over the keys twice."""

LOW_ROWS = 64
"""Queries of the lowest tiles for any number of these."""

SHARED_KEYS = "shared_keys"
"""The way in which rows of a tile are the queries of all heads that share keys."""

ELEMENT_BYTES = 2
"""Q, K, V and the weights are of 16 bits, but where threads multiply f32 by themselves."""


def is_attention(op: Schedule) -> bool:
    """Whether a schedule is one of attention."""
    return op.pattern == PATTERN


def of_few_queries(op: Schedule) -> bool:
    """Whether it is for few queries and many keys.

    Heads that share keys lie in one tile, CTAs share the keys of one, or tiles are lower than those
    for any number of queries.
    """
    if not is_attention(op) or op.mma.data != "mma.sync":
        return False
    shares = op.algo_choice.data[PATTERN] == StringAttr(SHARED_KEYS)
    return shares or op.integer("split_k") > 1 or op.tile_sizes[0] < LOW_ROWS


def threads(op: Schedule) -> int:
    """Threads of a block whose warps have rows; one of wgmma counts by warpgroups."""
    return op.target.warp * (op.tile_sizes[0] // op.warp_tile_sizes[0])


def tiles_ahead(op: Schedule) -> int:
    """Tiles of queries that a CTA has room for: a second one, which comes while it works on the
    first, where ``cache`` says that theirs are in turn."""
    entries = cast("list[Record]", op.fields()["cache"])
    return 2 if entries and entries[0].get("pingpong") else 1


def tile_bytes(op: Schedule) -> int:
    """Bytes of shared memory: Q, rings of K and V, two mbarriers of 8 bytes a slot of TMA."""
    queries, keys, depth = op.tile_sizes
    width, stages = op.warp_tile_sizes[1], op.integer("stages")
    ahead = tiles_ahead(op)
    elements = ahead * queries * depth + stages * keys * (depth + width)
    barriers = 16 * (ahead + 2 * stages) if op.loader.data == "tma" else 0
    return elements * op.operand_bytes + barriers


def accumulator_registers(op: Schedule) -> int:
    """32-bit registers of a thread that hold its scores and its part of the output."""
    rows, width = op.warp_tile_sizes
    together = 128 if op.mma.data == "wgmma" else op.target.warp
    return rows * (op.tile_sizes[1] + width) // together


def weight_registers(op: Schedule) -> int:
    """32-bit registers of a thread of wgmma that hold a step's weights, of 16 bits each."""
    return op.warp_tile_sizes[0] * op.tile_sizes[1] // 256


def check_tiles(op: Schedule) -> None:
    """The tiles against the instructions; raises VerifyException."""
    queries, keys, depth = op.tile_sizes
    rows, width = op.warp_tile_sizes
    if op.mma.data == "none":
        raise VerifyException(
            "attention runs on tensor cores, or by fma of f32; choose mma.sync, wgmma or fma"
        )
    if op.mma.data == "fma":
        check_lanes(op)
    step = 64 if op.mma.data == "wgmma" else 16
    if rows % step:
        raise VerifyException(f"warp_tile is {rows} queries; {op.mma.data} takes {step} at a time")
    groups = op.integer("consumers") if op.mma.data == "wgmma" else None
    if queries % rows or (groups is not None and groups * rows != queries):
        whose = "warps" if groups is None else f"{groups} consumers"
        raise VerifyException(f"{whose} of {rows} queries do not make up a tile of {queries}")
    for name, size in (("keys of a step", keys), ("features", depth), ("features of V", width)):
        if size % 16:
            raise VerifyException(f"{name} are {size}; {op.mma.data} takes a multiple of 16")
    if op.mma.data == "wgmma" and max(keys, width) > 256:
        raise VerifyException(
            f"keys and features of V are {keys} and {width}; one wgmma makes 256 columns at most"
        )
    if op.flag("pingpong") or op.integer("fragment_buffers") != 1:
        raise VerifyException(
            "pingpong and fragment_buffers belong to products of matrices; drop them"
        )


def check_lanes(op: Schedule) -> None:
    """That lanes share out a warp's scores and its part of the output, where threads multiply by
    themselves; the same ones have its rows of both.  Raises VerifyException."""
    rows, width = op.warp_tile_sizes
    for columns in (op.tile_sizes[1], width):
        try:
            fma_lanes(rows, columns)
        except ValueError as error:
            raise VerifyException(str(error)) from None
    if op.loader.data not in ("cp_async", "register"):
        raise VerifyException(f"fma is fed by cp_async or register, not by {op.loader.data}")
