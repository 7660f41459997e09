"""When a variant of a product may run: of which sizes, addresses and architectures (S8, S9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import cast

from polyc.dialects.common.arch import ARCHS, Arch
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.families.facts import holds_always, left_open
from polyc.families.matmul import flat, gathered, padded, tensor_float
from polyc.families.matmul.partial_sums import Parts
from polyc.families.matmul.partial_sums import facts as part_facts
from polyc.families.matmul.recognise import Contraction
from polyc.families.matmul.split import facts as split_facts
from polyc.families.matmul.split import tiles_of
from polyc.families.matmul.variants import COPIED, WGMMA, WGMMA_SMALL, MatmulVariant
from polyc.poly.pieces import Piece

TMA_AXES = 5
"""The most dimensions of a tensor that TMA copies boxes of (CUDA driver API,
cuTensorMapEncodeTiled)."""


def fills_better(
    gemm: Contraction,
    small: tuple[int, int],
    large: tuple[int, int],
    arch: Arch,
    lasts: tuple[int, int] = (5, 3),
) -> Assumption:
    """That waves of small tiles take less time than waves of large ones, where one of these lasts
    so many times, as a fraction, what a small one does.

    A wave is a tile for each multiprocessor; the last one may leave some idle.
    """

    def waves(tile: tuple[int, int]) -> Dim:
        return prod(tiles_of(gemm, *tile), start=Dim.const(1)).ceildiv(arch.multiprocessors)

    return Assumption(waves(large) * lasts[0] - waves(small) * lasts[1] - 1, ">=")


def conditions(
    gemm: Contraction, variant: MatmulVariant, arch: str
) -> tuple[Assumption, ...] | None:
    """What a variant needs beyond the assumptions, or None when it can never run."""
    kernel, loader = gemm.kernel, variant.fields["loader"]
    if loader == "flat":
        depth = cast("list[int]", variant.fields["tile"])[2]
        if arch != "sm_90a" or flat.flat_of(gemm, depth) is None:
            return None
    if str(loader).startswith("gather"):
        late = loader != "gather"
        if arch != "sm_90a" or gathered.gathered_of(gemm, late) is None:
            return None
    gemm = tensor_float.as_fields(gemm, variant.fields)
    by_tma = variant.fields["mma"] == "wgmma"
    if by_tma and gemm.rank > TMA_AXES:
        return None
    facts: list[Assumption] = []
    if tensor_float.way_of(variant) is not None:
        needs = tensor_float.facts(gemm, variant, arch)
        if needs is None:
            return None
        facts += needs
    elif loader == "padded":
        rows, columns, _ = cast(
            "list[int]", (variant.fields if variant.where is None else WGMMA_SMALL)["tile"]
        )
        worth = padded.facts(gemm, rows, columns, arch)
        if worth is None:
            return None
        facts += worth
    if variant.multiple > 1:
        outs = (
            out.shape[-1]
            for out, axes in zip(kernel.outs, gemm.outputs, strict=True)
            if gemm.n in axes
        )
        # What cp.async turns, it brings by elements.
        turned = variant.fields["mma"] == "fma" and variant.fields.get("fragment_buffers") == 2
        whole = [s for s in gemm.sides if not (turned and s.tile_axes[-1] == gemm.k)]
        rows = (size for side in whole for size in (*side.contiguous, side.first[-1]))
        for size in dict.fromkeys((*rows, *outs)):
            facts.append(Assumption(size.mod(variant.multiple), "=="))
    tile = cast("list[int]", variant.fields["tile"])
    facts += [starts_on(*one) for one in pieces_cut(gemm, tile)]
    rows, columns, _ = tile
    if variant.where is not None:
        facts += variant.where
    if variant.tiles:
        outputs = prod(map(gemm.size, (*gemm.batch, gemm.m, gemm.n)), start=Dim.const(1))
        facts.append(Assumption(outputs - variant.tiles * rows * columns, ">="))
    if variant.at_once:
        tiles = prod(tiles_of(gemm, rows, columns), start=Dim.const(1))
        facts.append(Assumption(-tiles + ARCHS[arch].multiprocessors, ">="))
    parts = cast("int", variant.fields.get("split_k", 1))
    if parts > 1 and variant.where is None:
        own = Parts(rows, columns, parts)
        summed = "algo_choice" in variant.fields
        facts += part_facts(gemm, own, arch) if summed else split_facts(gemm, tile, parts, arch)
    if variant.larger is not None:
        small = (rows, columns)
        facts.append(fills_better(gemm, small, variant.larger, ARCHS[arch], variant.lasts))
    if by_tma:
        known = AssumptionsAttr((*kernel.assumptions.data, *facts))
        facts += [f for f in filled_facts(gemm) if not holds_always(f, known, kernel.symbol_names)]
    return left_open(kernel, facts)


def pieces_cut(gemm: Contraction, tile: Sequence[int]) -> Iterator[tuple[Piece, int]]:
    """The pieces of each operand, with the points of its axis that a tile or a step has."""
    steps = {gemm.m: tile[0], gemm.n: tile[1], **{part.k: tile[2] for part in gemm.parts}}
    for side in gemm.sides:
        for piece in side.pieces:
            yield piece, steps.get(piece.axis, 1)


def starts_on(piece: Piece, step: int) -> Assumption:
    """That no tile of ``step`` points begins before a piece and ends in it."""
    return Assumption(piece.first.mod(step), "==")


def filled_facts(gemm: Contraction) -> list[Assumption]:
    """That what TMA copies has no empty axis where blocks have tiles."""
    pieces = (piece for side in gemm.sides for piece in side.pieces)
    return [Assumption(size - 1, ">=") for size in (gemm.size(gemm.k), *(p.size for p in pieces))]


def is_plain(gemm: Contraction, arch: str) -> bool:
    """Whether TMA brings the operands of one product, or of some that share that of their rows, as
    they are or from copies, and nothing is reduced behind it.
    """
    if gemm.follow or gemm.is_exact or gemm.lhs.factor.is_computed or not ARCHS[arch].wgmma:
        return False
    return any(may_run(gemm, arch, copied) for copied in (False, True))


def may_run(gemm: Contraction, arch: str, copied: bool) -> bool:
    """Whether there are sizes of which TMA takes the operands as they are, or ``copied``."""
    variant = MatmulVariant("tma", 8, WGMMA)
    if copied:
        variant = MatmulVariant("padded", 1, {**WGMMA_SMALL, **COPIED})
    return conditions(gemm, variant, arch) is not None
