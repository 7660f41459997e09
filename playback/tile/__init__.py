"""What a tile program means, on NumPy: whole tiles, one CTA after another.

This is the reference for the lowered kernel, written from the tile ops' docstrings and nothing
below them: it knows no threads, no layouts and no barriers.  A contract is a matrix product,
a copy a slice with zeros outside the tensor, a map a function of whole tiles.  It plays what an
author writes and what ``region-to-gpu`` makes.  What is asynchronous happens when it is said;
roles wait for each other at rings and turns (``roles.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp, why_crowded
from polyc.dialects.gpu.module import ModuleOp
from polyc.dialects.gpu.types import GlobalType
from polyc.playback.estimate import Estimate
from polyc.playback.functions import dtype_of, row_major, zeros_like
from polyc.playback.gpu import arithmetic
from polyc.playback.tile.cta import Array, Cluster, Cta, Plays, undefined
from polyc.playback.tile.data import DATA
from polyc.playback.tile.digits import DIGITS
from polyc.playback.tile.flow import FLOW
from polyc.playback.tile.numbers import NUMBERS
from polyc.playback.tile.roles import Floor
from polyc.playback.tile.sorting import SORTING


def run(
    module: ModuleOp,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    variant: str | None = None,
    multiprocessors: int = 2,
) -> list[Array]:
    """The outputs of a ``gpu.module`` at tile level.

    What runs is ``variant``, or the first whose conditions hold.  ``multiprocessors`` bounds
    the grids of persistent kernels.  Elements that no kernel writes are NaN, integers -1.  Raises
    PolycError ``NotPlayed`` for an op below or beside the tile level, ``NoVariant`` when no kernel
    takes these sizes.
    """
    dispatch = module.dispatch()
    kinds = list(dispatch.arg_types)
    signed = [arithmetic.dtype_of(kind.element_type) for kind in kinds]
    tensors = [
        row_major(a) if a.dtype.kind != "u" else row_major(a).view(dtype)
        for a, dtype in zip(inputs, signed, strict=False)
    ]
    known = any(isinstance(a, Estimate) for a in inputs)
    for kind in kinds[dispatch.num_inputs.value.data :]:
        shape = tuple(d.evaluate(symbols) for d in kind.dims)
        tensors.append(undefined(shape, kind.element_type, known))
    outputs = tensors[dispatch.num_inputs.value.data :]
    ends = kinds[dispatch.num_inputs.value.data :]
    if all(out.size == 0 for out in outputs):
        return _as_stored(outputs, ends)
    chosen = _chosen(module, symbols, variant, multiprocessors)
    kernels = {k.sym_name.data: k for k in module.kernels()}
    workspaces: dict[str, Array] = {}
    there: set[str] = set()
    for op in chosen.workspaces():
        name = op.sym_name.data
        source = _copied(op, tensors, workspaces)
        if source is not None and op.is_source(source.size, 0, symbols):
            workspaces[name] = source.reshape([d.evaluate(symbols) for d in op.type.dims])
            there.add(name)
        else:
            counts = op.zeroed is not None and isinstance(op.type.element_type, IntegerType)
            workspaces[name] = _workspace(op, symbols, known and not counts)
    read: dict[Operation, Any] = {}
    for launch in chosen.launches():
        if launch.fills_name in there:
            continue
        kernel = kernels[launch.kernel_name]
        blocks = launch.blocks(symbols, multiprocessors, kernel)
        given = kernel, launch, tensors, workspaces, symbols
        if launch.cooperative is not None:
            floor, alone = Floor(), Cluster(1)
            every = (
                Cta(*given, block, blocks, alone, PLAYS, floor, read) for block in range(blocks)
            )
            floor.run([cta.run for cta in every])
            continue
        size = kernel.cluster_size
        for first in range(0, blocks, size):
            cluster = Cluster(size)
            some = range(first, first + size)
            cluster.run([Cta(*given, block, blocks, cluster, PLAYS, read=read) for block in some])
    return _as_stored(outputs, ends)


def _as_stored(arrays: Sequence[Array], kinds: Sequence[GlobalType]) -> list[Array]:
    """Integers as the host has them, which kernels see without a sign."""
    dtypes = [dtype_of(kind.element_type) for kind in kinds]
    return [
        array.view(dtype) if dtype.kind == "u" else array
        for array, dtype in zip(arrays, dtypes, strict=True)
    ]


def _chosen(
    module: ModuleOp, symbols: Mapping[str, int], variant: str | None, multiprocessors: int
) -> LaunchOp | SequenceOp:
    for found in module.dispatch().variants():
        named = variant in (None, found.variant_name)
        holds = named and all(f.holds(symbols) for f in found.facts.data)
        if holds and why_crowded(found, symbols, multiprocessors) is None:
            return found
    sizes = ", ".join(f"{k}={v}" for k, v in symbols.items())
    raise PolycError("NoVariant", f"no kernel of @{module.sym_name.data} takes {sizes}", module)


def _copied(
    op: WorkspaceOp, tensors: Sequence[Array], workspaces: Mapping[str, Array]
) -> Array | None:
    """What a workspace is a copy of."""
    if op.copies is None:
        return None
    index = op.copies.tensor_index
    return workspaces[op.copies.workspace_name or ""] if index is None else tensors[index]


def _workspace(op: WorkspaceOp, symbols: Mapping[str, int], known: bool) -> Array:
    shape = [d.evaluate(symbols) for d in op.type.dims]
    found = undefined(shape, op.type.element_type, known)
    return found if op.zeroed is None else zeros_like(found, shape)


PLAYS: Plays = {**NUMBERS, **DATA, **SORTING, **DIGITS, **FLOW}
"""How each op plays."""
