"""The schedules of a region that multiplies matrices, with an elementwise epilogue (S8, S9.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from math import inf, prod
from typing import cast

from polyc.cost.products import Tiles, goes_by_rows
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import MERGED_ROWS, TURNED_STORE, Record, Value, record_of
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.exact import ANY, WIDE, ExactForm, ExactTiling
from polyc.families.facts import (
    DEPTH,
    ends_cleanly,
    fixed_symbols,
    holds_always,
    pointers_promised,
)
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.follow import width_of
from polyc.families.matmul import merged, padded, tensor_float
from polyc.families.matmul.conditions import (
    conditions,
    filled_facts,
    is_plain,
    may_run,
    pieces_cut,
    starts_on,
)
from polyc.families.matmul.loose import (
    check_flat,
    check_gather,
    flat_variants,
    gather_variants,
    loose_variants,
)
from polyc.families.matmul.partial_sums import fields as part_fields
from polyc.families.matmul.partial_sums import parted
from polyc.families.matmul.problems import compared_form, form_of, is_crowded, problem_of
from polyc.families.matmul.recognise import Contraction, MatrixOperand, find_contraction
from polyc.families.matmul.split import named, splits, tiles_of
from polyc.families.matmul.variants import (
    COPIED,
    FEW_TILES,
    PAIRS,
    ROWS_OF_REGISTERS,
    SHALLOW,
    VARIANTS,
    WGMMA,
    MatmulVariant,
    followed,
    of_few_tiles,
)
from polyc.families.remembered import Remembered, alike
from polyc.families.space import Tiling
from polyc.families.structure import check_multiplier, check_reduction, check_split, check_structure

FLAT, GATHER, MERGES = 6, 6, 6
"""Plans beside these that take rows of an operand as one, whose producers load it, or whose tiles
have rows of several matrices."""

WORTH_TURNING = 0.95
"""Of what others take, what plans take at most that turn what they store: it costs a little more
than the model has."""

MEASURED = 12
"""Plans of the space that are worth measuring."""


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
    if variant.where is not None and chosen["mma"] == "wgmma":
        chosen |= _raster(gemm, chosen)
    return {**chosen, **restated(gemm, chosen)}


def _raster(gemm: Contraction, fields: Mapping[str, Value]) -> Fields:
    """The order of the tiles of a plan of the space, where it is not that of open sizes."""
    own = as_fields(gemm, fields)
    rows, columns, _ = cast("list[int]", fields["tile"])
    fixed = fixed_symbols(gemm.kernel)
    known = [own.size(axis) for axis in (own.m, own.n)]
    if any(not fixed.keys() >= set(size.symbols()) for size in known):
        return {}
    m, n = (size.evaluate(fixed) for size in known)
    return {"raster": "row", "group": 1} if goes_by_rows(m, n, Tiles(rows, columns, 1)) else {}


def restated(gemm: Contraction, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the product and a schedule's other ``fields``."""
    gemm = as_fields(gemm, fields)
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


def as_fields(gemm: Contraction, fields: Mapping[str, Value]) -> Contraction:
    """A product as the kernels of a schedule's fields see it."""
    way = cast("dict[str, str]", fields.get("algo_choice", {})).get("matmul")
    if way in (MERGED_ROWS, TURNED_STORE):
        return merged.seen(gemm, way)
    return tensor_float.as_fields(gemm, fields)


def as_planned(gemm: Contraction, plan: ScheduleOp) -> Contraction:
    """A product as a schedule's kernel sees it."""
    if plan.turns_stores:
        return merged.seen(gemm, MERGED_ROWS if plan.merges_rows else TURNED_STORE)
    return tensor_float.as_planned(gemm, plan)


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


def is_ranked(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a schedule that the compiler proposed is one that the model of time ranked."""
    if plan.pattern != "matmul":
        return False
    gemm = find_contraction(kernel)
    ranked = plan.mma.data == "fma" or plan.tensor_float is not None
    return ranked or is_plain(gemm, plan.arch.data)


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
    # Those of one matrix were not timed: they may be measured, and are not chosen.
    if plans := merged.ranked(gemm, arch):
        time, plan = plans[0]
        if time < WORTH_TURNING * _apart(gemm, arch):
            return [merged.variant_of(gemm, plan)]
    if is_plain(gemm, arch):
        for copied in (False, True):
            if may_run(gemm, arch, copied):
                problem = problem_of(gemm, copied)
                form = form_of(gemm, arch, copied)
                plans = ranking.chosen(problem, arch, form, copied)
                where = ranking.conditions(problem, plans, arch, form)
                found += map(_of_space, plans, repeat(copied), where)
    return found


def _apart(gemm: Contraction, arch: str) -> float:
    """What the fastest plan of known sizes takes whose tiles lie in one matrix each, in ns."""
    batch, m, n, k = (size or 1 for size in ranking.known_sizes(problem_of(gemm)))
    times = [inf]
    for copied in (False, True):
        if is_plain(gemm, arch) and may_run(gemm, arch, copied):
            plans = ranking.ranked((batch, m, n, k), arch, compared_form(gemm, arch, copied))
            times += [time for time, _ in plans[:1]]
    return min(times)


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
    # Its formula does not know how rows lie in lines.
    problem, form = problem_of(gemm, copied=True), _exact_form(gemm)
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
        ways = tensor_float.fastest(gemm, arch, is_crowded(gemm, arch), MEASURED)
        fit = (list(_fitted(gemm, arch, way)) for way in ways)
        rounded = next((some for some in fit if some), list[ScheduleOp]())
        return [*rounded, *_measured_exact(gemm, arch)]
    found: list[ScheduleOp] = []
    for way in merged.NAMES:
        for _, plan in merged.ranked(gemm, arch, way)[:MERGES]:
            variant = merged.variant_of(gemm, plan, way)
            fields = schedule_fields(gemm, arch, variant)
            found.append(fitted(gemm.kernel.sym_name.data, variant.name, fields, ()))
    gathers = (v for late in (False, True) for v in gather_variants(gemm, arch, GATHER, late))
    for variant in (*gathers, *flat_variants(gemm, arch, FLAT)):
        fields = schedule_fields(gemm, arch, variant)
        found.append(fitted(gemm.kernel.sym_name.data, variant.name, fields, ()))
    if not is_plain(gemm, arch):
        return found
    copied = not may_run(gemm, arch, False)
    for plan in ranking.fastest(problem_of(gemm), arch, form_of(gemm, arch, copied), MEASURED):
        variant = _of_space(plan, copied, ())
        if (when := conditions(gemm, variant, arch)) is not None:
            fields = schedule_fields(gemm, arch, variant)
            found.append(fitted(gemm.kernel.sym_name.data, plan.name, fields, when))
    return found


def _fitted(gemm: Contraction, arch: str, found: Iterable[MatmulVariant]) -> Iterator[ScheduleOp]:
    """The schedules of variants that may run."""
    for variant in found:
        if (when := conditions(gemm, variant, arch)) is not None:
            fields = schedule_fields(gemm, arch, variant)
            yield fitted(gemm.kernel.sym_name.data, variant.name, fields, when)


def _measured_exact(gemm: Contraction, arch: str) -> Iterator[ScheduleOp]:
    for plan in ranking.fastest(problem_of(gemm), arch, _exact_form(gemm), MEASURED):
        for width in (WIDE, ANY):
            variant = _of_width(plan, width, ())
            if (when := conditions(gemm, variant, arch)) is not None:
                fields = schedule_fields(gemm, arch, variant)
                yield fitted(gemm.kernel.sym_name.data, variant.name, fields, when)
                break


def _has_few_tiles(gemm: Contraction, arch: str) -> bool:
    """Whether a product of known sizes, whose rows are read, has few tiles of single elements."""
    rows, columns, _ = cast("list[int]", SHALLOW["tile"])
    tiles = prod(tiles_of(gemm, rows, columns), start=Dim.const(1)).constant()
    chip = ARCHS[arch]
    few = tiles is not None and tiles <= FEW_TILES * chip.multiprocessors
    return few and chip.wgmma and not gemm.lhs.factor.is_computed and not gemm.follow


def variants(gemm: Contraction, arch: str) -> list[MatmulVariant]:
    """The variants whose registers suffice; without the larger tile a smaller one is for all.

    Those that split k come first: they are for outputs of so few tiles that others leave most of
    the chip idle.
    """
    if gemm.is_exact:
        ways = tensor_float.variants(gemm, arch, is_crowded(gemm, arch))
        return [*ways, *exact_variants(gemm, arch)]
    if gemm.beside:
        others = PAIRS[arch]
    else:
        others = [of_few_tiles(v) if _has_few_tiles(gemm, arch) else v for v in VARIANTS[arch]]
    if found := ranked_variants(gemm, arch):
        return [*found, *(v for v in others if v.fields["mma"] != "wgmma")]
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
    found = others
    if is_crowded(gemm, arch):
        found = [replace(v, larger=None) for v in found if v.crowded is not None]
    return [*few, *found]


def schedules(gemm: Contraction, arch: str) -> list[ScheduleOp]:
    """The schedules of a product of matrices, in order of dispatch.

    A condition that the graph's assumptions imply is dropped; a variant that they exclude is not
    emitted, nor is one after a variant without conditions on sizes or addresses.  Raises
    PolycError where the region is no such product.
    """
    kept = _KEPT.of(alike(gemm.kernel, arch), lambda: _schedules(gemm, arch))
    return [plan.clone() for plan in kept]


_KEPT = Remembered[list[ScheduleOp]]()
"""Schedules that stand nowhere."""


def _schedules(gemm: Contraction, arch: str) -> list[ScheduleOp]:
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
        check_flat(gemm, plan)
    if plan.gathers:
        check_gather(gemm, plan)
    if plan.turns_stores:
        merged.check(gemm, plan)
    kernel, given, gemm = gemm.kernel, gemm, as_planned(gemm, plan)
    check_reduction(gemm.names, plan)
    way, parts = record_of(plan.algo_choice)["matmul"], plan.integer("split_k")
    if way == "implicit_gemm":
        refuse_choice(plan, f"way of matmul ({way})", "belongs to convolutions", '"tiled"')
    if way == plan.summed_way and parts == 1:
        there = f'"{plan.whole_way}", or a split_k of 2 or more'
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
    for part in given.parts:
        for side in (part.lhs, part.rhs):
            _check_depth(given, side, part.k, plan)
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
