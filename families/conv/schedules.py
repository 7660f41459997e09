"""The schedules of a region that is a convolution with an elementwise epilogue (S8, S9.3, S15.2).

An implicit GEMM: a tile is [BM, BN, BK] of pixels, filters and channels, and a block goes through
the taps, and in each through the channels by BK.  Its plans on sm_90a are those of a product of
pixels and filters, ranked by the same model; those of narrow groups are a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.common.precision import TF32
from polyc.dialects.plan import MAX_VECTOR_BYTES, OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.fields import MERGED_ROWS, Record, Value, record_of
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.conv.convolution import PIXELS, Convolution
from polyc.families.conv.problems import (
    MMA_DEPTH,
    VECTOR,
    exact_form,
    form_of,
    has_space,
    problem_of,
    stored_width,
    takes_tensor_float,
    why_no_descriptor,
)
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.variants import (
    ConvVariant,
    exact_variant,
    planes_variants,
    stored_by,
    variant_of,
    variants,
)
from polyc.families.exact import ANY, WIDE
from polyc.families.facts import (
    DEPTH,
    ends_cleanly,
    holds_always,
    left_open,
    pointers_promised,
    power_of_two,
)
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.structure import check_multiplier, check_reduction, check_split, check_structure

MAX_STAGES = 8
"""Of a pipeline (S8.1)."""

MEASURED = 12
"""Plans of the space that are worth measuring."""

FMA_ROWS = 32
"""Rows that a warp has at least where threads multiply."""


def is_ranked(kernel: KernelOp, plan: ScheduleOp) -> bool:
    """Whether a schedule that the compiler proposed is one that the model of time ranked."""
    if plan.pattern != "conv":
        return False
    conv = find_convolution(kernel)
    if plan.mma.data == "fma":
        return not conv.groups.filters
    if plan.tensor_float:
        return True
    return plan.loader.data in ("tma", "gather") and has_space(conv)


def measured(conv: Convolution, arch: str) -> list[ScheduleOp]:
    """The plans of the space that the model has ahead, where all sizes are known: one of each
    tile, for what measures them.
    """
    if conv.is_exact and not conv.groups.filters:
        return list(_measured_exact(conv, arch))
    if conv.planes and ARCHS[arch].wgmma:
        return [
            fitted(conv.kernel.sym_name.data, v.name, schedule_fields(conv, arch, v), ())
            for v in planes_variants(conv, arch, MEASURED)
        ]
    if arch != "sm_90a" or not has_space(conv) or why_no_descriptor(conv, 128) is not None:
        return []
    found: list[ScheduleOp] = []
    for plan in ranking.fastest(problem_of(conv), arch, form_of(conv), MEASURED):
        variant = variant_of(plan, ())
        if (width := stored_width(conv)) < VECTOR:
            variant = stored_by(width, variant)
        if (when := conditions(conv, variant)) is not None:
            fields = schedule_fields(conv, arch, variant)
            found.append(fitted(conv.kernel.sym_name.data, plan.name, fields, when))
    return found


def _measured_exact(conv: Convolution, arch: str) -> Iterator[ScheduleOp]:
    for plan in ranking.fastest(problem_of(conv), arch, exact_form(conv), MEASURED):
        for width in (WIDE, ANY):
            variant = exact_variant(plan, (), width)
            if (when := conditions(conv, variant)) is not None:
                fields = schedule_fields(conv, arch, variant)
                yield fitted(conv.kernel.sym_name.data, variant.name, fields, when)
                break


def filled(conv: Convolution) -> list[Assumption]:
    """What makes the image's axes not empty, as a tensor map wants them (S9.3).

    The output has pixels, or nothing runs: then the image has rows and columns where the filter
    spans more than the padding.
    """
    _, height, width, channels = conv.image_dims
    found = [Assumption(channels - 1, ">=")]
    geometry = conv.geometry
    for size, taps, dilation, before, after in zip(
        (height, width),
        geometry.taps,
        geometry.dilations,
        geometry.pads,
        geometry.pads_after,
        strict=True,
    ):
        if before + after > (taps - 1) * dilation:
            found.append(Assumption(size - 1, ">="))
    return found


def conditions(conv: Convolution, variant: ConvVariant) -> tuple[Assumption, ...] | None:
    """What a variant needs beyond the assumptions, or None when it can never run."""
    together = conv.groups.filters or conv.size(conv.filters).constant() or 0
    if variant.most and not 0 < together <= variant.most:
        return None
    facts = list(variant.where)
    if variant.channels > 1:
        facts.append(Assumption(conv.size(conv.channels).mod(variant.channels), "=="))
    if variant.filters > 1:
        facts.append(Assumption(conv.line.mod(variant.filters), "=="))
    if variant.pixels:
        facts.append(Assumption(_all_pixels(conv) - variant.pixels, ">="))
    if variant.fields["loader"] in ("tma", "gather"):
        facts += filled(conv)
    return left_open(conv.kernel, facts)


def _all_pixels(conv: Convolution) -> Dim:
    images, rows, columns, _ = conv.output_dims
    return images * rows * columns


def schedule_fields(conv: Convolution, arch: str, variant: ConvVariant) -> Fields:
    """Every field of a variant's schedule for this convolution."""
    implicit: Record = {"conv": "implicit_gemm"}
    chosen: Fields = {"algo_choice": implicit, **variant.fields}
    conv = as_fields(conv, chosen)
    chosen |= _tile(conv, variant.fields)
    chosen |= {"arch": arch, "tensorize": cast("str", conv.reduce.label)}
    return {**chosen, **restated(conv, chosen)}


def restated(conv: Convolution, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the convolution and a schedule's other ``fields``."""
    conv = as_fields(conv, fields)
    grouped = fields["mma"] == "wgmma"
    out, acc = conv.kernel.res_names.data[0].data, cast("str", conv.reduce.label)
    (rows, columns), c = conv.tile_axes, conv.channels
    sides = (conv.image.name, conv.filter.name)
    cache: list[Record] = [
        {"tensor": side, "where": "smem", "at": f"{c}.i", "pingpong": True} for side in sides
    ]
    edges: list[Record] = [
        {"from": side, "to": acc, "buffer": "smem_ring", "depth": cast("int", fields["stages"])}
        for side in sides
    ]
    last = conv.epilogue[-1] if conv.epilogue else out
    return {
        "vectorize_axis": f"{c}.i",
        "bind": {
            **dict.fromkeys(conv.batch, "block.x"),
            f"{rows}.o": "block.x",
            f"{columns}.o": "block.x",
            f"{rows}.i.o": "warpgroup" if grouped else "warp.y",
            **({} if grouped else {f"{columns}.i.o": "warp.x"}),
        },
        "cache": cache,
        "predicate_tail": _tails(conv, cast("list[int]", fields["tile"])),
        "epilogue": list(conv.epilogue),
        "layout_hints": {
            **{f"{side}_swizzle": True for side in sides},
            **{f"{side}_major": c for side in sides},
            f"{out}_stride": "row",
        },
        "local_edges": [*edges, {"from": acc, "to": last, "buffer": "reg"}],
    }


def as_fields(conv: Convolution, fields: Mapping[str, Value]) -> Convolution:
    """A convolution as the kernels of a schedule's fields see it."""
    way = cast("dict[str, str]", fields["algo_choice"]).get("conv")
    return conv.merged if way == MERGED_ROWS else conv


def as_planned(conv: Convolution, plan: ScheduleOp) -> Convolution:
    """A convolution as a schedule's kernel sees it."""
    return conv.merged if plan.merges_rows else conv


def _tile(conv: Convolution, fields: Mapping[str, Value]) -> Fields:
    """A tile as deep as the channels are, where they are known to be few, and stages for it.

    A step has the channels of one tap, and multiplies zeros beyond them.  In groups a tile has
    filters and channels of one, and as many warps lie along the pixels as find no filters.
    """
    rows, columns, depth = cast("list[int]", fields["tile"])
    channels = conv.size(conv.channels).constant()
    wide, deep = columns, depth
    least = MMA_DEPTH // (conv.halves if fields["mma"] == "wgmma" else 1)
    if channels and channels <= depth // 2:
        deep = max(least, power_of_two(channels))
    if conv.groups.filters:
        wide, deep = conv.groups.tile(columns, deep)
    if (wide, deep) == (columns, depth):
        return {}
    stages = min(MAX_STAGES, cast(int, fields["stages"]) * depth // deep)
    high, across = cast("list[int]", fields["warp_tile"])
    narrow = min(across, wide)
    if fields["mma"] != "wgmma":
        least = min(high, FMA_ROWS if fields["mma"] == "fma" else MMA_DEPTH)
        high = max(high * wide * across // (columns * narrow), least)
    return {"tile": [rows, wide, deep], "warp_tile": [high, narrow], "stages": stages}


def _tails(conv: Convolution, tile: Sequence[int]) -> list[str]:
    """The axes whose size need not be a multiple of their tile."""
    known, symbols = conv.kernel.assumptions, conv.kernel.symbol_names
    return [
        axis
        for axis, step in zip((*conv.tile_axes, conv.channels), tile, strict=True)
        for size in [conv.pixels if axis == PIXELS else conv.size(axis)]
        if not holds_always(Assumption(size.mod(step), "=="), known, symbols)
    ]


def schedules(conv: Convolution, arch: str) -> list[ScheduleOp]:
    """The schedules of a convolution, in order of dispatch.

    A condition that the graph's assumptions imply is dropped; a variant that they exclude is not
    emitted, nor is one after a variant without conditions on sizes or addresses.  Raises
    PolycError where the region is no convolution.
    """
    kernel = conv.kernel
    found: list[ScheduleOp] = []
    seen: list[tuple[Fields, tuple[Assumption, ...]]] = []
    for variant in variants(conv, arch):
        when = conditions(conv, variant)
        if when is None:
            continue
        fields = schedule_fields(conv, arch, variant)
        if (fields, when) in seen:
            continue  # In groups tiles of several widths are as wide as a group.
        seen.append((fields, when))
        found.append(fitted(kernel.sym_name.data, variant.name, fields, when))
        by_tma = fields["loader"] in ("tma", "gather")
        width = VECTOR if by_tma else cast("int", fields["vectorize"])
        if not when and pointers_promised(kernel, width):
            break
    return found


def _check_tensor_float(conv: Convolution, plan: ScheduleOp) -> None:
    """Refuse a user's schedule on tensor cores of operands that are not to be TF32."""
    if takes_tensor_float(conv, plan.arch.data) and plan.loader.data == "tma":
        return
    said = "nothing" if conv.precision is None else f'"{conv.precision}"'
    why = (
        f"is of filters that tma moves over an image of f32, of precision {TF32}, and this one of "
        f"{conv.image.element} has precision {said} and the loader {plan.loader.data}"
    )
    refuse_choice(plan, f"way of conv ({TF32})", why, '"implicit_gemm"')


def _check_whole(conv: Convolution, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose tiles have not all filters, where these are reduced, or whose
    sums go through memory ahead of that."""
    if not conv.follow:
        return
    columns, filters = plan.tile_sizes[1], conv.size(conv.filters)
    known, symbols = conv.kernel.assumptions, conv.kernel.symbol_names
    if plan.stores_sums or not holds_always(Assumption(-filters + columns, ">="), known, symbols):
        raise bad_plan(
            plan,
            f"has {columns} columns in a tile and {plan.integer('split_k')} parts, and {filters} "
            "filters are reduced after the convolution; have all in a tile, and one part",
        )


def _check_merged(conv: Convolution, plan: ScheduleOp) -> None:
    """Refuse a user's schedule that merges pixels which are no rows of one matrix."""
    if (why := conv.why_not_merged) is not None:
        refuse_choice(plan, f"way of conv ({MERGED_ROWS})", why, '"implicit_gemm"')
    if plan.loader.data != "tma":
        why = f"is of pixels that tma brings, and the loader is {plan.loader.data}"
        refuse_choice(plan, f"way of conv ({MERGED_ROWS})", why, '"implicit_gemm"')
    if plan.integer("vectorize") > (width := stored_width(conv)):
        raise bad_plan(
            plan,
            f"stores {plan.integer('vectorize')} pixels at once, and an image has {conv.line}; "
            f"store {width}",
        )


def fault(conv: Convolution, plan: ScheduleOp) -> str | None:
    """What of a schedule does not suit the convolution, or None."""
    _, columns, depth = plan.tile_sizes
    if not conv.groups.fits(columns, depth):
        return (
            f"has tiles of {columns} filters and {depth} channels, and groups have "
            f"{conv.groups.filters} and {conv.groups.channels}; give both a part of a group"
        )
    if (why := _behind(conv, depth)) is not None:
        return f"goes along {conv.channels} in steps of {depth}, and {why}"
    if conv.planes:
        if plan.loader.data == "gather":
            return None
        return f"loads by {plan.loader.data}, and {conv.image.name} has planes; use gather"
    if plan.loader.data == "gather":
        return f"loads planes, and the channels of {conv.image.name} are its last axis; use tma"
    if plan.loader.data == "tma":
        why = why_no_descriptor(conv, plan.tile_sizes[conv.turned])
        return None if why is None else f"loads by tma, and {why}"
    return _unsplit(conv, plan)


def _behind(conv: Convolution, depth: int) -> str | None:
    """What steps of ``depth`` channels would find beside those that are multiplied, or None."""
    kernel, image, channels = conv.kernel, conv.image, conv.size(conv.channels)
    for piece in image.pieces:
        whole = Assumption(piece.first.mod(depth), "==")
        if not holds_always(whole, kernel.assumptions, kernel.symbol_names):
            name = kernel.name_of(piece.read.tensor)
            return f"{name} begins at {piece.first} there; use a depth that divides that"
    if conv.groups.filters or image.pieces or conv.planes:
        return None
    if ends_cleanly(kernel, image.read, 3, channels, Dim.const(0), depth):
        return None
    return (
        f"{image.name} has others behind the {channels} channels that are multiplied; use a depth "
        f"that divides {DEPTH}"
    )


def _unsplit(conv: Convolution, plan: ScheduleOp) -> str | None:
    """Why the threads do not share the gathering of a tile of pixels evenly, or None."""
    depth, pixels = plan.tile_sizes[2], plan.tile_sizes[conv.turned]
    wide = MAX_VECTOR_BYTES // OPERAND_BYTES
    width = plan.integer("vectorize") if plan.loader.data == "cp_async" else wide
    width = 1 if plan.loads_lines else width
    if depth % width or pixels * (depth // width) % plan.threads():
        return (
            f"gathers {pixels}x{depth} elements by {width} with {plan.threads()} threads, which "
            "does not come out even; change the tile or the warp_tile"
        )
    return None


def check(conv: Convolution, plan: ScheduleOp) -> None:
    """Refuse a user's schedule that does not suit the convolution, or may meet an empty image."""
    kernel = conv.kernel
    check_reduction(conv.reduce.label, plan)
    check_structure(plan, bool(conv.follow))
    _check_whole(conv, plan)
    way, parts = record_of(plan.algo_choice)["conv"], plan.integer("split_k")
    if way == plan.summed_way and parts == 1:
        there = f'"{plan.whole_way}", or a split_k of 2 or more'
        refuse_choice(plan, f"way of conv ({way})", "adds sums of parts, and there is 1", there)
    if way == "im2col":
        why = "stores the columns of the image first; run region-im2col, and plan-select again"
        raise bad_plan(plan, why)
    if plan.merges_rows:
        _check_merged(conv, plan)
        conv = conv.merged
    if plan.tensor_float:
        _check_tensor_float(conv, plan)
    else:
        check_multiplier(conv.image.element, plan)
    check_split(plan)
    if plan.integers("cluster") != (1, 1):
        why = "region-to-gpu does not build yet for a convolution"
        refuse_choice(plan, "cluster", why, "[1, 1]")
    if (why := fault(conv, plan)) is not None:
        raise bad_plan(plan, why)
    if plan.brings != "tma":
        return
    known = AssumptionsAttr((*kernel.assumptions.data, *plan.when.data))
    for fact in filled(conv):
        if not holds_always(fact, known, kernel.symbol_names):
            raise bad_plan(
                plan,
                f'loads by tma, and a tensor map has no empty axis; add "{fact}" to its when',
            )


CONV = Family("conv", find_convolution, schedules, check, restated, contracts=True, others=measured)
"""One convolution with an elementwise epilogue."""
