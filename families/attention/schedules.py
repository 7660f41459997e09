"""The schedules of a region that is attention with a streaming softmax (S6.10, S8, S9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineSymExpr

from polyc.dialects import region
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.attention import ELEMENT_BYTES, PATTERN, SHARED_KEYS, TWO_PASSES
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.plan.resources import RESERVED, SHARED_ALIGN, launch_registers
from polyc.dialects.region.types import MemRefType
from polyc.families.attention import ranking
from polyc.families.attention.few import few_queries
from polyc.families.attention.gates import (
    BOUNDED,
    KEPT_FEATURES,
    kind_of,
)
from polyc.families.attention.queries import ComputedQueries
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.attention.space import (
    MOST_AT_ONCE,
    Tiling,
    paired,
    space,
)
from polyc.families.attention.variants import (
    AS_READ,
    MAX_FEATURES,
    VARIANTS,
    AttentionVariant,
    made_how,
)
from polyc.families.facts import holds_always, left_open, pointers_promised
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.structure import MOST_PARTS, check_group, check_multiplier, check_reduction
from polyc.poly.why_not import TMA_RANK
from polyc.rewriting.notes import Note, show

NARROWER = 192
"""The most features whose kernels of wgmma leave registers for a loop over tiles and more outputs
than one, or for a second walk over the keys."""

PAIRED = "_paired"
"""What the name of a plan ends with whose CTAs take pairs of tiles, where others do not."""

FEW_ROWS = 16
"""Queries of f32 below which products of a row each take less time."""

EXACT_BYTES = 4
"""Of an element of f32."""


def keys_again(attention: StreamingAttention) -> int:
    """Keys of a step where sums are computed again, as they are not finite and keys are hidden.

    Wide heads leave few registers, and little shared memory.
    """
    few = max(attention.tile_features) > 128 and attention.element != f32
    return attention.step(16 if few else 32)


def bytes_again(attention: StreamingAttention) -> int:
    """The shared memory that this takes, of a warpgroup that has its own: tiles of K and of V."""
    size = EXACT_BYTES if attention.element == f32 else ELEMENT_BYTES
    return keys_again(attention) * sum(attention.tile_features) * size


LOW_KEYS, LOW_AT_ONCE = 64, 2
"""Keys of a step and CTAs of a multiprocessor that leave a thread of the lowest tiles registers for
what scores are made of beside products, as a bias or a mask."""

NARROWEST = 32
"""Features of which one more of these CTAs leaves them."""

LONG_FIRST = 16
"""Points of the batch whose tiles alternate where threads multiply by themselves and later queries
see more keys: a CTA has a multiprocessor to itself, and those of one point fill few of these, so
that the last ones would have many keys left."""

SIDE_BY_SIDE = 1024
"""Features of K and V that are walked at once: with 8192 keys 16 MB of an L2 cache of 50."""


def schedules(attention: StreamingAttention, arch: str) -> list[ScheduleOp]:
    """The schedules of attention, in order of dispatch.

    Raises PolycError where the region is something else.  What its kernels do otherwise where a
    value is not finite is reported on stderr (S6.5).
    """
    kernel = attention.kernel
    features = max(attention.depth, attention.width)
    if features > MAX_FEATURES:
        raise PolycError(
            "UnsupportedProgram",
            f"region @{kernel.sym_name.data} has no schedule as attention: its heads have "
            f"{features} features, and {MAX_FEATURES} are the most",
            kernel,
        )
    score = attention.score
    if attention.kept and features > KEPT_FEATURES and (score.scale is None or score.gates):
        raise PolycError(
            "UnsupportedProgram",
            f"region @{kernel.sym_name.data} has no schedule as attention: it keeps a part of its "
            f"weights, its scores are more than products of {features} features, and threads have "
            f"registers for both with {KEPT_FEATURES}",
            kernel,
        )
    show(Note("finite-only", text, kernel) for text in attention.finite_only)
    found: dict[str, ScheduleOp] = {}
    done: set[str] = set()
    size = attention.size(attention.m).constant()
    if attention.element == f32 and size is not None and size < FEW_ROWS:
        raise PolycError(
            "UnsupportedProgram",
            f"region @{kernel.sym_name.data} has no schedule as attention: it has {size} queries "
            f"of f32, of which threads multiply {FEW_ROWS} at once",
            kernel,
        )
    for few in few_queries(attention, arch):
        when = left_open(kernel, few.when)
        if when is not None:
            fields = completed_fields(attention, arch, few.fields)
            made = fitted(kernel.sym_name.data, few.name, fields, when)
            if lacking(attention, made) <= 0:
                found[few.name] = made
    for variant in VARIANTS[arch]:
        held = variant.held(attention)
        if variant.name in done or not variant.takes(held):
            continue
        variant = variant.in_pages(held)
        facts = conditions(held, variant.fields["loader"] == "tma")
        for name, fields, more in ranked(held, arch, variant):
            when = left_open(kernel, [*facts, *more])
            if when is None:
                continue
            made = fitted(kernel.sym_name.data, name, fields, when)
            if lacking(held, made) <= 0:
                found[name] = made
                done.add(variant.name)
        last = next(reversed(found.values()), None)
        if last is None or last.of_few_queries or last.when.data:
            continue
        if pointers_promised(kernel, last.integer("vectorize")):
            break
    return list(found.values())


def ranked(
    attention: StreamingAttention, arch: str, variant: AttentionVariant
) -> list[tuple[str, Fields, tuple[Assumption, ...]]]:
    """What a variant becomes, in order of dispatch: names, fields, and when each is the fastest.

    One of wgmma shares the sizes with others of the space (``families/attention/space.py``), or
    gives way to the fastest of them where sizes are known.
    """
    if variant.fields["mma"] != "wgmma":
        return [(variant.name, schedule_fields(attention, arch, variant), ())]
    every = all_of_space(attention, arch, variant)
    plans = ranking.chosen(attention, arch, list(every))
    where = ranking.conditions(attention, plans, arch)
    found = list(zip(plans, where, strict=True))
    if (ahead := ranking.ahead(attention, arch, list(every), plans)) is not None:
        found.insert(0, ahead)
    return [(*every[plan], facts) for plan, facts in found]


def all_of_space(
    attention: StreamingAttention, arch: str, variant: AttentionVariant | None = None
) -> dict[Tiling, tuple[str, Fields]]:
    """All plans of wgmma that an attention may have, with their names and fields.

    That of the ``variant`` is the first, or of the one that takes the attention.
    """
    if variant is None:
        takes = (v for v in VARIANTS[arch] if v.fields["mma"] == "wgmma" and v.takes(attention))
        variant = next(takes)
    base = tiling_of(variant, attention)
    found: dict[Tiling, tuple[str, Fields]] = {}
    for plan in (base, *others(attention, arch, base)):
        first = plan == replace(base, persistent=plan.persistent)
        name, fields = (variant.name, variant.fields) if first else (plan.name, plan.fields())
        if plan.persistent and not base.persistent:
            name += PAIRED
        own = {**fields, **_order(attention, plan.persistent)}
        found.setdefault(plan, (name, completed_fields(attention, arch, own)))
    return found


def tiling_of_plan(plan: ScheduleOp) -> Tiling:
    """A schedule of wgmma as a plan of the space."""
    rows, keys, _ = plan.tile_sizes
    consumers, at_once = plan.integer("consumers"), plan.at_once
    return Tiling(rows, keys, consumers, at_once, plan.flag("persistent"))


def tiling_of(variant: AttentionVariant, attention: StreamingAttention) -> Tiling:
    """A variant of wgmma as a plan of the space."""
    rows, keys = cast("list[int]", variant.fields["tile"])
    consumers = cast("int", variant.fields["consumers"])
    return Tiling(rows, keys, consumers, persistent=goes_on(attention))


def others(attention: StreamingAttention, arch: str, base: Tiling) -> Iterator[Tiling]:
    """The plans of the space for which a thread has registers beside what scores are made of."""
    if attention.stores_rows or made_how(attention) != AS_READ:
        return
    depth, width = attention.tile_features
    if kind_of(attention) > BOUNDED:
        low = (plan for plan in space(depth, width, arch, base.persistent) if plan.consumers == 1)
        most = LOW_AT_ONCE + (width <= NARROWEST) if ranking.is_known(attention) else 0
        lows = [plan for plan in low if plan.keys <= LOW_KEYS and plan.at_once <= most]
        # Half as high, where another CTA has the other half of the registers: for so few queries
        # that the other half of a tile would have none.
        half = Tiling(64, min(base.keys, LOW_KEYS), 1, 2)
        rows = attention.size(attention.m).constant()
        few = rows is not None and rows <= half.rows and ranking.is_known(attention)
        wide = base.consumers > 1 and max(depth, width) <= KEPT_FEATURES
        if few and wide and half not in lows:
            lows.append(half)
        yield from lows
        return
    # Bounds on both sides take registers that the widest steps of such tiles do not leave.
    most = MOST_AT_ONCE - places_more(attention)
    visible = attention.score.visible
    one_side = bool(visible.end_keys(1)) != bool(visible.first_keys(1))
    between = one_side and not places_more(attention)
    found = [
        plan
        for plan in space(depth, width, arch, base.persistent, between)
        if plan.keys <= base.keys or plan.consumers != base.consumers
        if plan.at_once <= most
    ]
    yield from found
    if not base.persistent and attention.score.visible.grows:
        pairs = (paired(plan, width, most - 1) for plan in (base, *found))
        yield from (plan for plan in pairs if plan is not None)


def places_more(attention: StreamingAttention) -> bool:
    """Whether threads hold more numbers of where hidden keys are than a head and a query: heads
    share keys, or what a query sees goes by the lengths."""
    visible = attention.score.visible
    bounds = (*visible.end_keys(1), *visible.first_keys(1))
    by_length = any(isinstance(part, AffineSymExpr) for bound in bounds for part in bound.dfs())
    return bool(bounds) and (by_length or attention.shared is not None)


def lacking(attention: StreamingAttention, plan: ScheduleOp) -> int:
    """Bytes of shared memory that a CTA does not have, 0 or less where it has all that it needs."""
    groups = plan.integer("consumers") if plan.mma.data == "wgmma" else 1
    more = bytes_again(attention) * groups if attention.hides else 0
    return plan.shared_bytes() + more - plan.target.shared_bytes


def conditions(attention: StreamingAttention, tma: bool) -> list[Assumption]:
    """What a variant needs beyond the assumptions: a tensor map has no empty axis (S9.3)."""
    if not tma:
        return []
    sizes: dict[Dim, None] = {}
    for operand in attention.copied:
        sizes |= dict.fromkeys(cast("MemRefType", operand.read.tensor.type).shape)
    return [Assumption(size - 1, ">=") for size in sizes]


def schedule_fields(attention: StreamingAttention, arch: str, variant: AttentionVariant) -> Fields:
    """Every field of a variant's schedule for this attention."""
    ordered: Fields = {}
    if variant.fields["mma"] == "wgmma":
        ordered = _order(attention, goes_on(attention))
    elif variant.fields["mma"] == "fma" and attention.score.visible.grows:
        ordered = {"raster": "grouped", "group": LONG_FIRST}
    return completed_fields(attention, arch, {**variant.fields, **ordered})


def completed_fields(
    attention: StreamingAttention, arch: str, fields: Mapping[str, Value]
) -> Fields:
    """Every field of a schedule, of those that lack the features and what follows."""
    queries, keys = cast("list[int]", fields["tile"])
    (rows,) = cast("list[int]", fields["warp_tile"])
    depth, width = attention.tile_features
    chosen: Fields = {
        "algo_choice": {PATTERN: "streaming_softmax"},
        **fields,
        "arch": arch,
        "tensorize": cast("str", attention.scores.label),
        "tile": [queries, keys, depth],
        "warp_tile": [rows, width],
    }
    return {**chosen, **restated(attention, chosen)}


def restated(attention: StreamingAttention, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the attention and a schedule's other ``fields``."""
    m, n = attention.m, attention.n
    queries, keys, depth = cast("list[int]", fields["tile"])
    _, width = cast("list[int]", fields["warp_tile"])
    attention = attention.as_held(cast("str", fields["loader"]), (depth, width))
    scores = cast("str", attention.scores.label)
    out = attention.kernel.res_names.data[0].data
    sides = (attention.q, attention.k, attention.v)
    way = cast("Record", fields["algo_choice"]).get(PATTERN)
    shared = attention.shared if way == SHARED_KEYS else None
    tiles = {m: queries, n: keys, attention.depth_axis: depth, attention.width_axis: width}
    outer = [f"{x}.o" if shared is not None and shared.axis == x else x for x in attention.batch]
    return {
        "vectorize_axis": attention.width_axis,
        "bind": {
            **dict.fromkeys((*outer, f"{m}.o"), "block.x"),
            **({} if shared is None else {f"{shared.axis}.i": "warp"}),
            f"{m}.i.o": "warpgroup" if fields["mma"] == "wgmma" else "warp",
        },
        "cache": [
            {
                "tensor": attention.q.name,
                "where": "smem",
                "at": f"{m}.o",
                "pingpong": queries_ahead(attention, fields),
            },
            {"tensor": attention.k.name, "where": "smem", "at": f"{n}.o", "pingpong": True},
            {"tensor": attention.v.name, "where": "smem", "at": f"{n}.o", "pingpong": True},
        ],
        "predicate_tail": _tails(attention, tiles),
        "epilogue": list(_epilogue(attention)),
        "layout_hints": {
            **{f"{side.name}_swizzle": True for side in sides},
            **{f"{side.name}_major": side.feature for side in sides},
            f"{out}_stride": "row",
        },
        "local_edges": [{"from": scores, "to": out, "buffer": "reg"}],
    }


def queries_ahead(attention: StreamingAttention, fields: Mapping[str, Value]) -> bool:
    """Whether a CTA's next tile of queries comes while it works on one: where it goes on to others,
    a producer brings them, and shared memory has room beside as many CTAs as there are without."""
    by_producer = fields["mma"] == "wgmma" and not isinstance(attention.q, ComputedQueries)
    if not fields.get("persistent") or not by_producer:
        return False
    queries, keys, depth = cast("list[int]", fields["tile"])
    _, width = cast("list[int]", fields["warp_tile"])
    chip, groups = ARCHS[cast("str", fields["arch"])], cast("int", fields.get("consumers", 1))
    more = bytes_again(attention) * groups if attention.hides else 0
    tiles = keys * (depth + width) * cast("int", fields["stages"])
    least = (queries * depth + tiles) * ELEMENT_BYTES + more + 2 * SHARED_ALIGN
    room = chip.shared_bytes + RESERVED
    split = cast("list[int]", fields.get("registers", []))
    taken = launch_registers(split, groups) if split else chip.registers
    at_once = min(chip.registers // taken, room // least)
    return at_once > 0 and least + queries * depth * ELEMENT_BYTES <= room // at_once


def goes_on(attention: StreamingAttention) -> bool:
    """Whether a CTA of a kernel with a producer goes on to other tiles, by default.

    Where all queries see all keys, one that takes one tile after another loads the next while it
    ends the last, if threads have registers for that beside the widest heads and outputs that a
    query has one number of.
    """
    crowded = attention.stores_rows and max(attention.tile_features) > NARROWER
    return not attention.hides and not crowded


def _order(attention: StreamingAttention, persistent: bool) -> Fields:
    """The order of the tiles of a kernel with a producer.

    A CTA that has one tile stands beside those of other points of the batch: these alternate, as
    many as have their keys in the L2 cache together.
    """
    if persistent:
        return {"persistent": True}
    features = attention.depth + attention.width
    return {"raster": "grouped", "group": max(1, SIDE_BY_SIDE // features)}


def _tails(attention: StreamingAttention, tile: Mapping[str, int]) -> list[str]:
    """The axes whose size need not be a multiple of their tile."""
    kernel = attention.kernel
    return [
        axis
        for axis, step in tile.items()
        if not holds_always(
            Assumption(attention.size(axis).mod(step), "=="),
            kernel.assumptions,
            kernel.symbol_names,
        )
    ]


def _epilogue(attention: StreamingAttention) -> Sequence[str]:
    """What follows the softmax, function by function."""
    dependent: set[SSAValue] = set(attention.together.states)
    steps: list[str] = []
    for op in attention.kernel.body.block.ops:
        if not any(operand in dependent for operand in op.operands):
            continue
        dependent.update(op.results)
        match op:
            case region.UnaryOp() | region.BinaryOp() | region.CompareOp():
                steps.append(op.fn.data)
            case region.SelectOp():
                steps.append("select")
            case region.CastOp():
                steps.append("cast")
            case _:
                pass
    return steps


def check(attention: StreamingAttention, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose tiles are not the heads', or that loads empty axes by tma."""
    kernel, attention = attention.kernel, attention.as_planned(plan)
    check_reduction(attention.scores.label, plan)
    check_multiplier(attention.element, plan)
    _check_structure(attention, plan)
    if (misfit := attention.misfit((plan.tile_sizes[2], plan.warp_tile_sizes[1]))) is not None:
        raise bad_plan(plan, misfit)
    way = str(record_of(plan.algo_choice)[PATTERN])
    features = max(attention.tile_features)
    if way == TWO_PASSES and plan.mma.data == "wgmma" and features > NARROWER:
        raise bad_plan(
            plan,
            f"walks over the keys twice by wgmma, and threads have registers for that with heads "
            f"of {NARROWER} features, not of {features}; walk once, or use mma.sync",
        )
    if plan.loader.data == "tma" and attention.rank > TMA_RANK:
        raise bad_plan(
            plan,
            f"loads by tma, which reads at most {TMA_RANK} dimensions, and Q, K and V have up to "
            f"{attention.rank}, counting heads in a row as one; use cp_async and mma.sync",
        )
    if (bytes_over := lacking(attention, plan)) > 0:
        raise bad_plan(
            plan,
            f"lacks {bytes_over} bytes of shared memory for tiles of {keys_again(attention)} keys, "
            "by which sums that are not finite are computed again without the keys that the mask "
            "hides; take fewer keys at a step, or fewer stages",
        )
    if attention.pages and plan.loader.data != "cp_async":
        raise bad_plan(
            plan,
            f"loads by {plan.loader.data}, and keys and values lie in pages that data picks; use "
            "cp_async and mma.sync",
        )
    if not attention.fits_pages(plan.tile_sizes[1]):
        pages = " and ".join(sorted({str(one.keys) for one in attention.pages}))
        raise bad_plan(
            plan,
            f"has steps of {plan.tile_sizes[1]} keys, which are no whole pages of {pages} keys, "
            f"nor whole parts of one; take {attention.step(plan.tile_sizes[1])}",
        )
    if record_of(plan.algo_choice)[PATTERN] == SHARED_KEYS and attention.shared is None:
        raise bad_plan(
            plan,
            "takes heads that share keys together, and each head of the region has its own; choose "
            "streaming_softmax",
        )
    if attention.hides and plan.stores_sums and plan.tile_sizes[1] % keys_again(attention):
        raise bad_plan(
            plan,
            f"has steps of {plan.tile_sizes[1]} keys, of which each part has whole ones, and sums "
            f"that are not finite are computed again by {keys_again(attention)} keys; take a "
            f"multiple of {keys_again(attention)}",
        )
    known = AssumptionsAttr((*kernel.assumptions.data, *plan.when.data))
    for fact in conditions(attention, plan.loader.data == "tma"):
        if not holds_always(fact, known, kernel.symbol_names):
            raise bad_plan(
                plan,
                f'loads by tma, and a tensor map has no empty axis; add "{fact}" to its when',
            )


def _check_structure(attention: StreamingAttention, plan: ScheduleOp) -> None:
    """Refuse, with its name, a choice of the plan that no kernel of attention obeys yet."""
    way = str(record_of(plan.algo_choice)[PATTERN])
    persistent, raster = plan.flag("persistent"), plan.raster.data
    grouped = plan.mma.data == "wgmma"
    rasters = ("row", "grouped") if grouped or plan.mma.data == "fma" else ("row",)
    for field, taken, why, there in (
        (
            f"way of attention ({way})",
            way == SHARED_KEYS and grouped,
            "kernels of wgmma do not have",
            "streaming_softmax, or mma.sync",
        ),
        (
            "split_k",
            plan.integer("split_k") > 1 and grouped,
            "kernels of wgmma do not have",
            "1, or mma.sync",
        ),
        (
            "split_k",
            plan.integer("split_k") > MOST_PARTS,
            f"cuts the keys of a tile into {plan.integer('split_k')} parts",
            f"{MOST_PARTS} or less",
        ),
        (
            "raster",
            raster != "row" and plan.integer("split_k") > 1,
            "kernels whose CTAs share keys do not have",
            '"row"',
        ),
        ("cluster", plan.integers("cluster") != (1, 1), _UNBUILT, "[1, 1]"),
        ("persistent", persistent and not grouped, "kernels of mma.sync do not have", "false"),
        ("raster", raster not in rasters, _UNBUILT, " or ".join(f'"{one}"' for one in rasters)),
    ):
        if taken:
            refuse_choice(plan, field, why, there)
    check_group(plan)


_UNBUILT = f"region-to-gpu does not build yet for {PATTERN}"


MEASURED = 8
"""Plans of known sizes that are worth measuring, the fastest by the model."""


def measured(attention: StreamingAttention, arch: str) -> list[ScheduleOp]:
    """The first plans of the space for an attention of known sizes, of wgmma; none of open ones."""
    kernel, attention = attention.kernel, attention.in_whole_rows()
    if not ranking.is_known(attention) or not any(
        v.fields["mma"] == "wgmma" and v.takes(attention) for v in VARIANTS[arch]
    ):
        return []
    facts = left_open(kernel, conditions(attention, tma=True))
    if facts is None:
        return []
    every = all_of_space(attention, arch)
    plans = ranking.ordered(attention, arch, list(every))[:MEASURED]
    made = (fitted(kernel.sym_name.data, *every[plan], facts) for plan in plans)
    return [plan for plan in made if lacking(attention, plan) <= 0]


ATTENTION = Family(
    PATTERN, find_attention, schedules, check, restated, contracts=True, others=measured
)
"""Scores of queries and keys, a softmax over the keys, and the values weighted by it."""
