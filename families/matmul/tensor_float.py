"""Products of f32 on tensor cores, as TF32, where a precision permits it (S8, S9).

wgmma takes f32 as TF32, from shared tiles that are stored along k alone, or the left operand from
registers.  Where neither operand lies along k, or rows begin anywhere, they are copied ahead of the
product so that they do; the three products of ``f32x3`` read copies of a high and a low part each,
one after another along k.  What a copy takes a product of few or small tiles does not win back:
threads multiply that, exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import BlockArgument

from polyc.cost.products import H200_RATES, SHARED_RATES, Stored
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.common.precision import COARSER, F32X3, TF32
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.fields import IN_PARTS, PRECISION_OF, Value
from polyc.dialects.plan.k_major import ELEMENT_BYTES, PARTS, SEGMENTS, STEPS, VECTOR
from polyc.dialects.plan.k_major import rows as rows_of
from polyc.dialects.region import ReadOp
from polyc.families import ranking
from polyc.families.facts import holds_always, same_size
from polyc.families.family import Fields, refuse_choice
from polyc.families.matmul import flat
from polyc.families.matmul.recognise import Contraction, MatrixOperand
from polyc.families.matmul.split import tiles_of
from polyc.families.matmul.variants import MatmulVariant
from polyc.families.space import OWN, TAKING, Tiling

LAUNCH = 2500
"""What a launch that copies takes beside its bytes, in ns."""

BANDWIDTH = 2500
"""Bytes that it moves in a ns."""

SINGLY, SHARED_SINGLY = (
    replace(rates, turn=2 * rates.element) for rates in (H200_RATES, SHARED_RATES)
)
"""What a multiprocessor takes where threads store sums one by one: those of a block that goes on to
other tiles hold up its next products.  8205 by 5921 by 2949 takes 1170 us by such of 128x256, and
958 by blocks of one tile; of 128x192 1121 and 973, of 192x128 1136 and 1086 (an H100)."""

EXACT_TILE = 64
"""Rows and columns of the tiles in whose waves threads' time is reckoned."""

SAVED = {TF32: 22, F32X3: 14}
"""What such a wave takes longer by threads than on tensor cores for each point of k, in ns."""


def ways(gemm: Contraction) -> tuple[str, ...]:
    """The ways that a product's precision permits, the fastest first."""
    if gemm.lhs.factor.element != f32 or gemm.precision is None:
        return ()
    return COARSER[COARSER.index(gemm.precision) :]


def is_plain(gemm: Contraction, arch: str) -> bool:
    """Whether it is one product of what is read, on an architecture with wgmma."""
    alone = not gemm.beside and not gemm.follow and not gemm.lhs.factor.is_computed
    return ARCHS[arch].wgmma and alone


def lies_along_k(side: MatrixOperand, k: str) -> bool:
    """Whether an operand is stored along k."""
    return side.tile_axes[-1] == k


def oriented(gemm: Contraction, way: str | None, loader: str) -> Contraction:
    """A product as the kernels of a way see it that bring operands as they lie: one that does not
    lie along k is that of the rows, which wgmma takes from registers too.  So is one whose rows a
    loader takes as one."""
    if loader == "flat":
        return flat.oriented(gemm)
    if way != TF32 or loader != "tma" or lies_along_k(gemm.rhs, gemm.k):
        return gemm
    return replace(gemm, lhs=gemm.rhs, rhs=gemm.lhs, m=gemm.n, n=gemm.m)


def as_planned(gemm: Contraction, plan: ScheduleOp) -> Contraction:
    """A product as a schedule's kernel sees it, but for rows that it merges."""
    return oriented(gemm, plan.tensor_float, plan.loader.data)


def as_fields(gemm: Contraction, fields: Mapping[str, Value]) -> Contraction:
    """The same of a schedule's fields."""
    return oriented(gemm, _way(fields), str(fields["loader"]))


def _way(fields: Mapping[str, Value]) -> str | None:
    """The precision of products on tensor cores of a schedule's fields; None of others."""
    way = cast("dict[str, str]", fields.get("algo_choice", {})).get("matmul")
    return PRECISION_OF.get(way or "")


def is_held(gemm: Contraction, plan: ScheduleOp) -> bool:
    """Whether threads bring the operand of the rows to registers, as it does not lie along k."""
    if plan.loader.data == "flat":
        return True
    brought = plan.tensor_float == TF32 and plan.loader.data == "tma"
    return brought and not lies_along_k(gemm.lhs, gemm.k)


def lies(gemm: Contraction, side: MatrixOperand, when: Sequence[Assumption] = ()) -> bool:
    """Whether the copy engine takes an operand as it lies, for what is known of the sizes."""
    if not lies_along_k(side, gemm.k):
        return False
    kernel = gemm.kernel
    known = AssumptionsAttr((*kernel.assumptions.data, *when))
    return all(
        holds_always(Assumption(size.mod(VECTOR), "=="), known, kernel.symbol_names)
        for size in (*side.contiguous, side.first[-1])
    )


def can_copy(gemm: Contraction, side: MatrixOperand, way: str) -> bool:
    """Whether an operand is all of a tensor that nothing else reads, k its last dimension or the
    one before that.

    Of TF32, whose copies are alike on either side, the other operand may be the same tensor, read
    with k along the same dimension.
    """
    tensor = side.read.tensor
    if side.pieces or not isinstance(tensor, BlockArgument):
        return False
    reads = [op for op in gemm.kernel.body.block.ops if isinstance(op, ReadOp)]
    sides = [s for s in gemm.sides if s.read.tensor is tensor]
    if sum(op.tensor is tensor for op in reads) != len(sides):
        return False
    if len(sides) > 1 and (way != TF32 or len({s.axes.index(gemm.k) for s in sides}) > 1):
        return False
    shape = gemm.kernel.seen[tensor.index].shape
    whole = all(
        axis is not None and first == Dim.const(0) and same_size(gemm.kernel, gemm.size(axis), size)
        for axis, first, size in zip(side.axes, side.first, shape, strict=True)
    )
    return whole and side.axes.index(gemm.k) >= len(side.axes) - 2


def copied(gemm: Contraction, plan: ScheduleOp) -> list[MatrixOperand]:
    """The operands of which a schedule's kernel reads copies that are stored along k."""
    way = plan.tensor_float
    if way is None or plan.loader.data != "padded":
        return []
    return [s for s in gemm.sides if way == F32X3 or not lies(gemm, s, plan.when.data)]


def copies(gemm: Contraction, plan: ScheduleOp) -> list[MatrixOperand]:
    """Of those the ones that are copied: one for each tensor."""
    return list({number_of(side): side for side in reversed(copied(gemm, plan))}.values())[::-1]


def as_copied(gemm: Contraction, side: MatrixOperand) -> MatrixOperand:
    """An operand as its copy has it, whose last dimension is k."""
    if lies_along_k(side, gemm.k):
        return side
    *outer, k, last = side.axes
    *places, at_k, at_last = side.first
    high, wide = side.along
    # k was the last but one of all dimensions, and so the first one of the tile.
    assert k == gemm.k and (high, wide) == (len(outer), len(outer) + 1)
    return replace(side, axes=(*outer, last, k), first=(*places, at_last, at_k))


def number_of(side: MatrixOperand) -> int:
    """The place of an operand's tensor in the signature."""
    return cast("BlockArgument", side.read.tensor).index


def depth_of(gemm: Contraction, plan: ScheduleOp) -> Dim:
    """The points that the steps over k go over: of three products those of their segments."""
    size, way = gemm.size(gemm.k), plan.tensor_float
    return rows_of(size) * SEGMENTS[way] if way == F32X3 else size


def alignments(gemm: Contraction, plan: ScheduleOp, others: Sequence[int]) -> list[int]:
    """How aligned every tensor's address must be, in bytes; ``others`` as the epilogue has them."""
    copies, found = [number_of(side) for side in copied(gemm, plan)], list(others)
    for side in gemm.sides:
        for tensor in side.tensors:
            number = cast("BlockArgument", tensor).index
            found[number] = ELEMENT_BYTES if number in copies else MAX_VECTOR_BYTES
    return found


def copying(gemm: Contraction, way: str, sides: Collection[MatrixOperand]) -> Dim:
    """What copies of operands take, in ns."""
    moved = ELEMENT_BYTES * (1 + PARTS[way])
    numbers = {number_of(side) for side in sides}
    sizes = (prod(gemm.kernel.seen[n].shape, start=Dim.const(1)) for n in sorted(numbers))
    bytes_of = sum((size * moved for size in sizes), Dim.const(0))
    return bytes_of.floordiv(BANDWIDTH) + LAUNCH * len(numbers)


def pays(gemm: Contraction, way: str, sides: Collection[MatrixOperand], arch: str) -> Assumption:
    """That tensor cores save more than the copies take."""
    tiles = prod(tiles_of(gemm, EXACT_TILE, EXACT_TILE), start=Dim.const(1))
    waves = tiles.ceildiv(ARCHS[arch].multiprocessors)
    saved = waves * gemm.size(gemm.k) * SAVED[way]
    return Assumption(saved - copying(gemm, way, sides), ">=")


def _is_stored_singly(gemm: Contraction) -> bool:
    """Whether the copy engine takes both operands, and rows of the output are no whole vectors."""
    kernel = gemm.kernel
    sizes = (size for side in gemm.sides for size in (*side.contiguous, side.first[-1]))
    return stored_vector(gemm) == 1 and all(
        holds_always(Assumption(size.mod(VECTOR), "=="), kernel.assumptions, kernel.symbol_names)
        for size in sizes
    )


def facts(gemm: Contraction, variant: MatmulVariant, arch: str) -> list[Assumption] | None:
    """What a variant on tensor cores needs of the sizes; None where it can never run.

    One of vectors takes operands as they lie, of which one lies along k at least, and rows of whole
    vectors of the output, or of known sizes others too, which threads store; others copy what may
    have other rows, or what does not lie along k.
    """
    way = way_of(variant)
    if way is None or not is_plain(gemm, arch) or way not in ways(gemm):
        return None
    vectors = variant.multiple > 1
    if variant.fields["loader"] == "tma":
        lying = way == TF32 and any(lies_along_k(side, gemm.k) for side in gemm.sides)
        return [] if lying and (vectors or _is_stored_singly(gemm)) else None
    sides = [
        side
        for side in gemm.sides
        if way == F32X3 or not (lies(gemm, side) or (vectors and lies_along_k(side, gemm.k)))
    ]
    if not sides or not all(can_copy(gemm, side, way) for side in sides):
        return None
    return [pays(gemm, way, sides, arch)]


def check(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a user's schedule on tensor cores whose way the product does not permit, or whose
    operands are not as it takes them."""
    way, permitted = plan.tensor_float, ways(gemm)
    if way not in permitted:
        there = ", ".join(f'"{one}"' for one in permitted) or 'no such way; use "tiled"'
        said = "nothing" if gemm.precision is None else f'"{gemm.precision}"'
        why = f"is not permitted by a product of {gemm.lhs.factor.element} of precision {said}"
        refuse_choice(plan, f"way of matmul ({way})", why, there)
    if not is_plain(gemm, plan.arch.data):
        why = "is of one product of operands that are read"
        refuse_choice(plan, f"way of matmul ({way})", why, '"tiled"')
    if plan.loader.data == "tma" and not any(lies_along_k(s, gemm.k) for s in gemm.sides):
        names = " and ".join(side.name for side in gemm.sides)
        why = f"takes one operand along {gemm.k} at least, and {names} are stored along other axes"
        refuse_choice(plan, "loader (tma)", why, '"padded"')
    for side in copied(gemm, plan):
        if not can_copy(gemm, side, way):
            why = (
                f"copies {side.name}, of which it multiplies a part, or which it reads elsewhere "
                "too"
            )
            refuse_choice(plan, "loader (padded)", why, '"tma"')


def way_of(variant: MatmulVariant) -> str | None:
    """The way of a variant on tensor cores; None of others."""
    return _way(variant.fields)


def stored_vector(gemm: Contraction) -> int:
    """Elements that a kernel may store at once, as far as sizes are known."""
    kernel = gemm.kernel
    outs = (
        out.shape[-1] for out, axes in zip(kernel.outs, gemm.outputs, strict=True) if gemm.n in axes
    )
    whole = (
        holds_always(Assumption(size.mod(VECTOR), "=="), kernel.assumptions, kernel.symbol_names)
        for size in outs
    )
    return VECTOR if all(whole) else 1


def problem_of(gemm: Contraction, way: str) -> ranking.Problem:
    """What of a product plans are ranked for: tensor cores take as long as for products of 16 bits
    that are so much deeper, and operands have as many bytes.
    """
    batch = prod(map(gemm.size, gemm.batch), start=Dim.const(1))
    sizes = (batch, gemm.size(gemm.m), gemm.size(gemm.n), gemm.size(gemm.k) * STEPS[way])
    return ranking.Problem(gemm.kernel, sizes)


WAYS = (("tma", VECTOR), ("tma", 1), ("padded", VECTOR), ("padded", 1))
"""Loaders, and what rows are multiples of, in order of dispatch."""


def fastest(
    gemm: Contraction, arch: str, crowded: bool, count: int
) -> Iterator[list[MatmulVariant]]:
    """So many variants of a product of known sizes that the model of time has ahead, of each way to
    load in turn: the first that may run are those to take."""
    if not is_plain(gemm, arch) or not (permitted := ways(gemm)):
        return
    way = permitted[0]
    for loader, multiple in WAYS:
        seen = oriented(gemm, way, loader)
        form = _form(seen, crowded, loader)
        plans = ranking.fastest(problem_of(seen, way), arch, form, count)
        yield [_variant(gemm, way, loader, multiple, plan, ()) for plan in plans]


def variants(gemm: Contraction, arch: str, crowded: bool) -> list[MatmulVariant]:
    """The variants on tensor cores that the model of time chooses, in order of dispatch.

    ``crowded`` is whether an epilogue holds much beside the sums.
    """
    if not is_plain(gemm, arch) or not (permitted := ways(gemm)):
        return []
    way, found = permitted[0], list[MatmulVariant]()
    for loader, multiple in WAYS:
        seen = oriented(gemm, way, loader)
        problem, form = problem_of(seen, way), _form(seen, crowded, loader)
        if loader == "padded" and multiple > 1 and found:
            continue  # What lies as it is taken, whose rows these have too, needs no copies.
        probe = _variant(gemm, way, loader, multiple, Tiling(128, 128, 4), ())
        if facts(gemm, probe, arch) is None:
            continue
        plans = ranking.chosen(problem, arch, form, multiple == 1)
        for plan, where in zip(plans, ranking.conditions(problem, plans, arch, form), strict=True):
            found.append(_variant(gemm, way, loader, multiple, plan, where))
    return found


def _form(gemm: Contraction, crowded: bool, loader: str) -> ranking.Form:
    """What there is of a product beside its sizes, as a loader's kernels see it."""
    taken = loader == "tma" and not lies_along_k(gemm.lhs, gemm.k)
    cut = {piece.axis for side in gemm.sides for piece in side.pieces}
    reads = [op for op in gemm.kernel.body.block.ops if isinstance(op, ReadOp)]
    whole = stored_vector(gemm) > 1
    shared = SHARED_RATES if whole else SHARED_SINGLY
    return ranking.Form(
        crowded,
        stored=Stored(along=False),
        cut=(gemm.m in cut, gemm.n in cut),
        joined=bool(cut),
        reads=any(op not in gemm.reads for op in reads),
        own=TAKING if taken else OWN,
        rates=H200_RATES if whole else SINGLY,
        # Threads that take rows to registers pace the steps of their own block.
        known=None if taken else shared,
    )


def _variant(
    gemm: Contraction,
    way: str,
    loader: str,
    multiple: int,
    plan: Tiling,
    where: Sequence[Assumption],
) -> MatmulVariant:
    """The variant of a plan of the space, whose steps have as many bytes of f32 as of 16 bits."""
    chosen: Fields = {
        "tile": [plan.rows, plan.columns, plan.depth // 2],
        "loader": loader,
        "vectorize": multiple if multiple > 1 else stored_vector(gemm),
        "algo_choice": {"matmul": IN_PARTS[way] if plan.summed else way},
    }
    name = {"tma": way, "padded": f"{way}_copied"}[loader] + ("" if multiple > 1 else "_any")
    fields = {**plan.fields(), **chosen}
    return MatmulVariant(plan.named(name), multiple, fields, where=tuple(where))
