"""The schedules of a region that multiplies matrices, with an elementwise epilogue (S8, S9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, repeat
from math import prod
from typing import cast

from xdsl.dialects.builtin import i1

from polyc.cost.products import Stored
from polyc.dialects.common.arch import ARCHS, Arch
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.plan.flat import rows as flat_rows
from polyc.dialects.region import KernelOp, ReadOp
from polyc.dialects.region.types import val_type
from polyc.families import ranking
from polyc.families.exact import ANY, WIDE, ExactForm, ExactTiling
from polyc.families.facts import (
    DEPTH,
    ends_cleanly,
    holds_always,
    left_open,
    pointers_promised,
)
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.matmul import flat, gathered, padded, tensor_float
from polyc.families.matmul.follow import width_of
from polyc.families.matmul.partial_sums import Parts, parted
from polyc.families.matmul.partial_sums import facts as part_facts
from polyc.families.matmul.partial_sums import fields as part_fields
from polyc.families.matmul.recognise import Contraction, MatrixOperand, find_contraction
from polyc.families.matmul.split import facts as split_facts
from polyc.families.matmul.split import named, splits, tiles_of
from polyc.families.matmul.variants import (
    COPIED,
    PAIRS,
    ROWS_OF_REGISTERS,
    VARIANTS,
    WGMMA,
    WGMMA_SMALL,
    MatmulVariant,
    followed,
)
from polyc.families.space import PIXEL_REGISTERS, Tiling
from polyc.families.structure import check_multiplier, check_reduction, check_split, check_structure
from polyc.poly.pieces import Piece

TMA_AXES = 5
"""The most dimensions of a tensor that TMA copies boxes of (CUDA driver API,
cuTensorMapEncodeTiled)."""

LINE = 64
"""Elements of a line of the L2 cache."""

LEAST_TILE, LOOSE_TILES = 64, 96
"""Rows and columns of a tile of which an output has so many at least where rows that no tensor map
begins at are not copied: of fewer none was timed."""

FLAT, GATHER = 6, 6
"""Plans beside these that take rows of an operand as one, or whose producers load it."""

MEASURED = 12
"""Plans of the space that are worth measuring."""


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


def schedule_fields(gemm: Contraction, arch: str, variant: MatmulVariant) -> Fields:
    """Every field of a variant's schedule for this contraction."""
    chosen = {
        **variant.fields,
        **(variant.in_batches if gemm.counts_more else {}),
        **(variant.crowded or {} if is_crowded(gemm, arch) else {}),
    }
    if gemm.lhs.factor.is_computed and chosen["mma"] == "mma.sync":
        columns = cast("list[int]", chosen["tile"])[1]
        chosen |= {"warp_tile": [ROWS_OF_REGISTERS, columns], "fragment_buffers": 1}
    if chosen["loader"] in ("padded", "gather", "gather_async") and not gemm.is_exact:
        chosen |= {"vectorize": padded.stored_vectors(gemm)}
    tiled: Record = {"matmul": "tiled"}
    chosen = {"algo_choice": tiled, **chosen, "arch": arch, "tensorize": gemm.names}
    return {**chosen, **restated(gemm, chosen)}


def restated(gemm: Contraction, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the product and a schedule's other ``fields``."""
    gemm = tensor_float.as_fields(gemm, fields)
    m, n, k = gemm.m, gemm.n, gemm.k
    grouped = fields["mma"] == "wgmma"
    steps = gemm.epilogue
    target = steps[-1] if steps else gemm.kernel.res_names.data[0].data
    acc = cast("str", gemm.reduce.label)
    operands = list(dict.fromkeys(side.name for side in gemm.sides))
    cache: list[Record] = [
        {"tensor": name, "where": "smem", "at": f"{k}.i", "pingpong": True} for name in operands
    ]
    return {
        "vectorize_axis": f"{n}.i.i",
        "bind": {
            **dict.fromkeys((*gemm.batch, f"{m}.o", f"{n}.o"), "block.x"),
            f"{m}.i.o": "warpgroup" if grouped else "warp.y",
            **({} if grouped else {f"{n}.i.o": "warp.x"}),
        },
        "cache": cache,
        "predicate_tail": _tails(gemm, cast("list[int]", fields["tile"])),
        "epilogue": list(steps),
        "layout_hints": {
            **{f"{name}_swizzle": True for name in operands},
            **{f"{side.name}_major": side.tile_axes[-1] for side in gemm.sides},
            **{f"{name.data}_stride": "row" for name in gemm.kernel.res_names},
        },
        "local_edges": [{"from": acc, "to": target, "buffer": "reg"}],
    }


def _tails(gemm: Contraction, tile: Sequence[int]) -> list[str]:
    """The axes whose size need not be a multiple of their tile."""
    kernel = gemm.kernel
    return [
        axis
        for axis, step in zip((gemm.m, gemm.n, gemm.k), tile, strict=True)
        if not holds_always(
            Assumption(gemm.size(axis).mod(step), "=="), kernel.assumptions, kernel.symbol_names
        )
    ]


def _reads(gemm: Contraction) -> list[ReadOp]:
    """What a product's region reads."""
    return [op for op in gemm.kernel.body.block.ops if isinstance(op, ReadOp)]


def is_crowded(gemm: Contraction, arch: str) -> bool:
    """Whether an epilogue reads two tensors or more that move with the rows, as residuals do.

    Where warps load the operands into registers too, one of 32 bits counts as two.  An operand that
    is computed counts as one, two numbers that each row has one of as one where there are no more,
    and conditions beside these alone as none.
    """
    epilogue = [op for op in _reads(gemm) if op not in gemm.reads]
    by_rows = [op for op in epilogue if val_type(op.result).axis(gemm.m) is not None]
    if ARCHS[arch].wgmma and not gemm.lhs.factor.is_computed and _are_of_rows(gemm, by_rows):
        return False
    wide = 1 if ARCHS[arch].wgmma else 2
    bits = (element_bytes(op.result.type.element_type) for op in by_rows)
    held = sum(wide if size > OPERAND_BYTES else 1 for size in bits)
    return held + gemm.lhs.factor.is_computed > 1


def in_parts(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The variants that store sums of parts, by the widest loads that sizes allow, and, of known
    sizes, those that copy operands to rows of wider ones first.
    """
    copying = [v for v in VARIANTS[arch] if v.fields["loader"] == "padded"]
    others = (v for v in VARIANTS[arch] if v not in copying)
    for base in {variant.multiple: variant for variant in others}.values():
        found = _parts_of(gemm, arch, base)
        if gemm.kernel.symbol_names:
            return found
        if found:
            return [*found, *(one for v in copying for one in _parts_of(gemm, arch, v))]
    return []


def _parts_of(gemm: Contraction, arch: str, base: MatmulVariant) -> list[MatmulVariant]:
    """The variants of parts that load as ``base`` does."""
    found = [
        MatmulVariant(
            f"{base.name}_{own.name}", base.multiple, part_fields(gemm, own, base.fields, arch)
        )
        for own in parted(gemm, arch)
    ]
    return [one for one in found if conditions(gemm, one, arch) is not None]


def _are_of_rows(gemm: Contraction, reads: Sequence[ReadOp]) -> bool:
    """Whether reads are of two numbers of each row at most, and of one tensor of conditions."""
    large = [op for op in reads if val_type(op.result).axis(gemm.n) is not None]
    kinds = [op.result.type.element_type for op in large]
    return len(reads) - len(large) <= 2 and len(large) <= 1 and all(k == i1 for k in kinds)


def _is_plain(gemm: Contraction, arch: str) -> bool:
    """Whether TMA brings the operands of one product, or of some that share that of their rows, as
    they are or from copies, and nothing is reduced behind it.
    """
    if gemm.follow or gemm.is_exact or gemm.lhs.factor.is_computed or not ARCHS[arch].wgmma:
        return False
    return any(_may_run(gemm, arch, copied) for copied in (False, True))


def _is_flat(gemm: Contraction, arch: str) -> bool:
    """Whether rows of an operand are taken as one."""
    return ARCHS[arch].wgmma and any(flat.flat_of(gemm, depth) for depth in (DEPTH, DEPTH // 2))


def _flat_form(gemm: Contraction, depths: Sequence[int]) -> ranking.Form:
    """What there is of a product beside its sizes, whose rows are lines that are taken as one."""
    return ranking.Form(
        is_crowded(gemm, "sm_90a"),
        stored=Stored(along=False, held=True),
        depths=tuple(depths),
        alone=True,
        reads=any(op not in gemm.reads for op in _reads(gemm)),
        sums=False,
        held=flat_rows(gemm.size(gemm.m).constant() or 0),
    )


def flat_variants(gemm: Contraction, arch: str, count: int) -> list[MatmulVariant]:
    """So many plans of the space that take rows of an operand as one; none where they are not, or
    where sizes are open.
    """
    if not _is_flat(gemm, arch):
        return []
    seen = flat.oriented(gemm)
    depths = [depth for depth in (DEPTH, DEPTH // 2) if flat.flat_of(gemm, depth)]
    problem, form = problem_of(seen), _flat_form(seen, depths)
    k = gemm.size(gemm.k).constant() or 0
    # Each part has two steps at least, as its threads hold two.
    known = ranking.fastest(problem, arch, form, len(form.space(arch, every=True)))
    fit = (p for p in known if p.parts == 1 or p.parts * p.depth * 2 <= k)
    return [
        MatmulVariant(plan.flat_name, 1, {**plan.fields(), "loader": "flat"}, where=())
        for plan in islice(fit, count)
    ]


def _gather_form(gemm: Contraction, arch: str, late: bool) -> ranking.Form:
    """What there is of a product beside its sizes, of whose columns' operand threads load rows."""
    found = gathered.gathered_of(gemm, late)
    assert found is not None
    registers = PIXEL_REGISTERS[late]
    form = _form(gemm, arch, True)
    return replace(form, stored=found.stored, alone=True, sums=False, gathers=registers)


def gather_variants(
    gemm: Contraction, arch: str, count: int, late: bool = False
) -> list[MatmulVariant]:
    """So many plans of the space whose producers load the operand of the columns, ``late`` by
    cp.async; none where they do not, or where sizes are open.
    """
    if not ARCHS[arch].wgmma or gathered.gathered_of(gemm, late) is None:
        return []
    loader = "gather_async" if late else "gather"
    plans = ranking.fastest(problem_of(gemm), arch, _gather_form(gemm, arch, late), count)
    return [
        MatmulVariant(p.named(loader), 1, {**p.gathering(), "loader": loader}, where=())
        for p in plans
    ]


def loose_variants(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The plan for an operand of the columns whose rows no tensor map begins at, of known sizes:
    threads load it, by registers or cp.async, or TMA takes its rows as one, as the model says; none
    where copies are faster than these, or an output has few tiles, of which none was timed.
    """
    seen = flat.oriented(gemm)
    batch, m, n, k = (size or 0 for size in ranking.known_sizes(problem_of(gemm)))
    if batch * -(-m // LEAST_TILE) * -(-n // LEAST_TILE) < LOOSE_TILES:
        return []
    both: list[tuple[int, MatmulVariant]] = []
    for late in (False, True):
        if first := gather_variants(gemm, arch, 1, late):
            form = _gather_form(gemm, arch, late)
            both.append((_modelled(gemm, arch, form, first[0]), first[0]))
    if first := flat_variants(gemm, arch, 1):
        depths = [depth for depth in (DEPTH, DEPTH // 2) if flat.flat_of(gemm, depth)]
        time = _modelled(seen, arch, _flat_form(seen, depths), first[0])
        sizes = (size or 1 for size in ranking.known_sizes(problem_of(seen))[:3])
        both.append((time + prod(sizes) * OPERAND_BYTES // flat.STORED, first[0]))
    if not both:
        return []
    time, best = min(both, key=lambda one: one[0])
    if _is_plain(gemm, arch) and _may_run(gemm, arch, True):
        form = _form(gemm, arch, True)
        if plans := ranking.fastest(problem_of(gemm), arch, form, 1):
            copied = form.of_known((batch, m, n, k), plans[0], arch)
            moved = batch * k * n * 2 * OPERAND_BYTES
            if copied + tensor_float.LAUNCH + moved // tensor_float.BANDWIDTH < time:
                return []
    return [best]


def _modelled(gemm: Contraction, arch: str, form: ranking.Form, variant: MatmulVariant) -> int:
    """The modelled time of a plan of known sizes, in ns, the first that a form has."""
    batch, m, n, k = (size or 1 for size in ranking.known_sizes(problem_of(gemm)))
    names = {
        plan.named(str(variant.fields["loader"])): plan for plan in form.space(arch, every=True)
    }
    plan = names[variant.name]
    return form.of_known((batch, m, n, k), plan, arch)


def _may_run(gemm: Contraction, arch: str, copied: bool) -> bool:
    """Whether there are sizes of which TMA takes the operands as they are, or ``copied``."""
    variant = MatmulVariant("tma", 8, WGMMA)
    if copied:
        variant = MatmulVariant("padded", 1, {**WGMMA_SMALL, **COPIED})
    return conditions(gemm, variant, arch) is not None


def is_ranked(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a schedule that the compiler proposed is one that the model of time ranked."""
    if plan.pattern != "matmul":
        return False
    gemm = find_contraction(kernel)
    return plan.mma.data == "fma" or _is_plain(gemm, plan.arch.data)


def problem_of(gemm: Contraction) -> ranking.Problem:
    """What of a product plans are ranked for."""
    batch = prod(map(gemm.size, gemm.batch), start=Dim.const(1))
    sizes = (batch, gemm.size(gemm.m), gemm.size(gemm.n), gemm.size(gemm.k))
    return ranking.Problem(gemm.kernel, sizes)


def _form(gemm: Contraction, arch: str, copied: bool) -> ranking.Form:
    """What there is of a product beside its sizes, of operands as they are or ``copied``."""

    def uneven(side: MatrixOperand) -> bool:
        rows = (size.constant() for size in side.contiguous)
        return not copied and any(size is not None and size % LINE for size in rows)

    cut = {piece.axis for side in gemm.sides for piece in side.pieces}
    return ranking.Form(
        is_crowded(gemm, arch),
        loose=copied and padded.stored_vectors(gemm) < padded.VECTOR,
        stored=Stored(
            uneven(gemm.lhs),
            any(uneven(part.rhs) for part in gemm.parts),
            along=gemm.rhs.tile_axes[-1] == gemm.n,
        ),
        products=len(gemm.parts),
        cut=(gemm.m in cut, gemm.n in cut),
        joined=bool(cut),
        reads=any(op not in gemm.reads for op in _reads(gemm)),
    )


def _of_space(plan: Tiling, copied: bool, where: Sequence[Assumption]) -> MatmulVariant:
    """The variant of a plan of the space, of operands as they are or ``copied``."""
    if copied:
        fields = {**plan.fields(), **COPIED}
        return MatmulVariant(plan.padded_name, 1, fields, where=tuple(where))
    return MatmulVariant(plan.name, 8, plan.fields(), where=tuple(where))


def ranked_variants(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The plans of the space that the model of time chooses; none for a product that the space is
    not for.

    Those that read copies of the operands come behind those that read them as they are.
    """
    found: list[MatmulVariant] = []
    if loose := loose_variants(gemm, arch):
        return loose
    if _is_plain(gemm, arch):
        problem = problem_of(gemm)
        for copied in (False, True):
            if _may_run(gemm, arch, copied):
                form = _form(gemm, arch, copied)
                plans = ranking.chosen(problem, arch, form, copied)
                where = ranking.conditions(problem, plans, arch, form)
                found += map(_of_space, plans, repeat(copied), where)
    return found


def _exact_form(gemm: Contraction) -> ExactForm:
    """What there is of a product of f32 beside its sizes."""
    cut = {piece.axis for side in gemm.sides for piece in side.pieces}
    return ExactForm(cut=(gemm.m in cut, gemm.n in cut), joined=bool(cut))


def _of_width(plan: Tiling, width: int, where: Sequence[Assumption]) -> MatmulVariant:
    """The variant of a plan of f32 for rows of so many elements, or multiples."""
    assert isinstance(plan, ExactTiling)
    fields = {**plan.fields(), "vectorize": width}
    return MatmulVariant(plan.of_width(width), width, fields, where=tuple(where))


def exact_variants(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The plans of f32 that the model of time chooses, and fewer for rows of any length."""
    found: list[MatmulVariant] = []
    problem, form = problem_of(gemm), _exact_form(gemm)
    for width in (WIDE, ANY):
        plans = ranking.chosen(problem, arch, form, width == ANY)
        where = ranking.conditions(problem, plans, arch, form)
        found += map(_of_width, plans, repeat(width), where)
    return found


def measured(gemm: Contraction, arch: str) -> list[ScheduleOp]:
    """The plans of the space that the model has ahead, where all sizes are known: one of each
    tile, for what measures them.
    """
    if gemm.is_exact:
        return list(_measured_exact(gemm, arch))
    found: list[ScheduleOp] = []
    gathers = (v for late in (False, True) for v in gather_variants(gemm, arch, GATHER, late))
    for variant in (*gathers, *flat_variants(gemm, arch, FLAT)):
        fields = schedule_fields(gemm, arch, variant)
        found.append(fitted(gemm.kernel.sym_name.data, variant.name, fields, ()))
    if not _is_plain(gemm, arch):
        return found
    copied = not _may_run(gemm, arch, False)
    for plan in ranking.fastest(problem_of(gemm), arch, _form(gemm, arch, copied), MEASURED):
        variant = _of_space(plan, copied, ())
        if (when := conditions(gemm, variant, arch)) is not None:
            fields = schedule_fields(gemm, arch, variant)
            found.append(fitted(gemm.kernel.sym_name.data, plan.name, fields, when))
    return found


def _measured_exact(gemm: Contraction, arch: str) -> Iterator[ScheduleOp]:
    for plan in ranking.fastest(problem_of(gemm), arch, _exact_form(gemm), MEASURED):
        for width in (WIDE, ANY):
            variant = _of_width(plan, width, ())
            if (when := conditions(gemm, variant, arch)) is not None:
                fields = schedule_fields(gemm, arch, variant)
                yield fitted(gemm.kernel.sym_name.data, variant.name, fields, when)
                break


def variants(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The variants whose registers suffice; without the larger tile a smaller one is for all.

    Those that split k come first: they are for outputs of so few tiles that others leave most of
    the chip idle.
    """
    if gemm.is_exact:
        ways = tensor_float.variants(gemm, arch, is_crowded(gemm, arch))
        return [*ways, *exact_variants(gemm, arch)]
    others = PAIRS if gemm.beside else VARIANTS
    if found := ranked_variants(gemm, arch):
        return [*found, *(v for v in others[arch] if v.fields["mma"] != "wgmma")]
    few = [
        *in_parts(gemm, arch),
        *(
            MatmulVariant(name, 8, {**WGMMA, **split.fields()})
            for name, split in named(splits(gemm, arch)).items()
        ),
    ]
    if gemm.beside:
        return [*few, *PAIRS[arch]]
    if gemm.follow:
        columns = width_of(gemm.kernel, gemm.size(gemm.n))
        assert columns is not None, "a product whose rows are longer is refused"
        return [*few, *followed(columns, arch)]
    found = VARIANTS[arch]
    if is_crowded(gemm, arch):
        found = [replace(v, larger=None) for v in found if v.crowded is not None]
    return [*few, *found]


def schedules(gemm: Contraction, arch: str) -> list[ScheduleOp]:
    """The schedules of a product of matrices, in order of dispatch.

    A condition that the graph's assumptions imply is dropped; a variant that they exclude is not
    emitted, nor is one after a variant without conditions on sizes or addresses.  Raises
    PolycError where the region is no such product.
    """
    kernel = gemm.kernel
    found: list[ScheduleOp] = []
    for variant in variants(gemm, arch):
        when = conditions(gemm, variant, arch)
        if when is None:
            continue
        fields = schedule_fields(gemm, arch, variant)
        plan = fitted(kernel.sym_name.data, variant.name, fields, when)
        found.append(plan)
        if "algo_choice" in variant.fields and variant.where is None:
            continue  # The model of time says whether it stays.
        if not when and pointers_promised(kernel, plan.widest):
            break
    return found


def check(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a user's schedule that the product does not have.

    It loads by tma where K or a piece may be empty, parts rows to reduce, goes beyond a part or a
    piece of an operand, or has warps that would compute one twice.
    """
    if plan.loader.data == "flat":
        _check_flat(gemm, plan)
    if plan.gathers:
        _check_gather(gemm, plan)
    kernel, gemm = gemm.kernel, tensor_float.as_planned(gemm, plan)
    check_reduction(gemm.names, plan)
    way, parts = record_of(plan.algo_choice)["matmul"], plan.integer("split_k")
    if way == "implicit_gemm":
        refuse_choice(plan, f"way of matmul ({way})", "belongs to convolutions", '"tiled"')
    if way == "partial_sums" and parts == 1:
        there = '"tiled", or a split_k of 2 or more'
        refuse_choice(plan, f"way of matmul ({way})", "adds sums of parts, and there is 1", there)
    if plan.tensor_float:
        tensor_float.check(gemm, plan)
    else:
        check_multiplier(gemm.lhs.factor.element, plan)
    check_split(plan)
    check_structure(plan, bool(gemm.follow))
    known = AssumptionsAttr((*kernel.assumptions.data, *plan.when.data))
    columns = plan.tile_sizes[1] * plan.integers("cluster")[1]
    whole = Assumption(-gemm.size(gemm.n) + columns, ">=")
    if gemm.follow and not plan.stores_sums and not holds_always(whole, known, kernel.symbol_names):
        raise bad_plan(
            plan,
            f"has {columns} columns in a tile, with those beside it in its cluster, and rows of "
            f"{gemm.size(gemm.n)} are reduced after the product; make either wider",
        )
    for part in gemm.parts:
        for side in (part.lhs, part.rhs):
            _check_depth(gemm, side, part.k, plan)
    _check_computed(gemm, plan)
    for piece, step in pieces_cut(gemm, plan.tile_sizes):
        if not holds_always(starts_on(piece, step), known, kernel.symbol_names):
            raise bad_plan(
                plan,
                f"goes along {piece.axis} by {step}, and {kernel.name_of(piece.read.tensor)} "
                f"begins at {piece.first} there; use a tile that divides that",
            )
    if plan.brings != "tma":
        return
    for filled in filled_facts(gemm):
        if not holds_always(filled, known, kernel.symbol_names):
            raise bad_plan(
                plan,
                f'loads by tma, and a tensor map has no empty axis; add "{filled}" to its when',
            )


def _check_flat(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a schedule that takes rows of an operand as one where it cannot."""
    found = flat.flat_of(gemm, plan.tile_sizes[2])
    if found is None or plan.tensor_float:
        raise bad_plan(
            plan,
            f"takes rows of {gemm.rhs.name} as one, which is for an operand of 16 bits that lies "
            f"along {gemm.n}, all of it, in rows of at most {flat.MOST_ROWS} elements, no multiple "
            f"of {flat.VECTOR}, beside one that lies along {gemm.k} in rows of such multiples; "
            "use padded",
        )
    if plan.tile_sizes[0] != (wanted := flat_rows(found.length)):
        raise bad_plan(
            plan,
            f"has tiles of {plan.tile_sizes[0]} rows, and one has all {found.length} points of "
            f"{gemm.n}; make them {wanted}",
        )


def _check_gather(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a schedule whose producer's threads load an operand where they cannot."""
    if gathered.gathered_of(gemm, plan.loader.data != "gather") is None or plan.tensor_float:
        raise bad_plan(
            plan,
            f"lets threads load {gemm.rhs.name}, which is for an operand of 16 bits that lies "
            f"along {gemm.n}, all of it, in rows of a known number that is no multiple of "
            f"{flat.VECTOR}, beside one that lies along {gemm.k} in rows of such multiples; use "
            "padded",
        )


def _check_depth(gemm: Contraction, side: MatrixOperand, k: str, plan: ScheduleOp) -> None:
    """Refuse steps over ``k`` that end behind the part of a tensor that is multiplied."""
    at, size, depth = side.axes.index(k), gemm.size(k), plan.tile_sizes[2]
    for read in side.reads_along(k):
        if ends_cleanly(gemm.kernel, read, at, size, side.first[at], depth):
            continue
        raise bad_plan(
            plan,
            f"goes along {k} in steps of {depth}, and {side.name} has others behind the {size} "
            f"points that are multiplied; use a depth that divides {DEPTH}",
        )


def _check_computed(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse warps that do not have the rows that they compute to themselves."""
    wanted = (ROWS_OF_REGISTERS, plan.tile_sizes[1])
    if not gemm.lhs.factor.is_computed or plan.mma.data != "mma.sync":
        return
    if plan.warp_tile_sizes != wanted or plan.integer("fragment_buffers") > 1:
        rows, columns = plan.warp_tile_sizes
        raise bad_plan(
            plan,
            f"has warps of {rows}x{columns} and {plan.integer('fragment_buffers')} buffers of "
            f"fragments, and a warp multiplies rows of {gemm.lhs.name} that it computes; use a "
            f"warp_tile of {list(wanted)} and fragment_buffers 1",
        )


GEMM = Family(
    "matmul", find_contraction, schedules, check, restated, contracts=True, others=measured
)
"""One product of matrices, or of as many as a batch has, with an elementwise epilogue."""
