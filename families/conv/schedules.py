"""The schedules of a region that is a convolution with an elementwise epilogue (S8, S9.3, S15.2).

An implicit GEMM: a tile is [BM, BN, BK] of pixels, filters and channels, and a block goes through
the taps, and in each through the channels by BK.  Its plans on sm_90a are those of a product of
pixels and filters, ranked by the same model; those of narrow groups are a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import cast

from xdsl.utils.exceptions import VerifyException

from polyc.cost.products import CONV_RATES, Image, Stored
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.common.precision import TF32
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.fields import Record, Value, record_of
from polyc.dialects.plan.k_major import STEPS
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.conv.recognise import PIXELS, Convolution, find_convolution
from polyc.families.exact import ANY, FMA, FMA_SMALL, WIDE, ExactForm, ExactTiling
from polyc.families.facts import (
    DEPTH,
    ends_cleanly,
    holds_always,
    left_open,
    pointers_promised,
    power_of_two,
)
from polyc.families.family import Family, Fields, bad_plan, fitted, refuse_choice
from polyc.families.space import COLUMN_STEP, PIXEL_REGISTERS, Tiling, space
from polyc.families.structure import check_multiplier, check_reduction, check_split, check_structure


@dataclass(frozen=True)
class ConvVariant:
    """A kernel for channels that are multiples of ``channels``, and lines of the output, filters or
    pixels, of ``filters``.
    """

    name: str
    fields: Mapping[str, Value]
    channels: int = 1
    filters: int = 1
    pixels: int = 0
    """The least pixels of the output: with fewer, its tiles would leave multiprocessors idle."""
    most: int = 0
    """The most filters, known: with more, another tile wastes nothing."""
    where: tuple[Assumption, ...] = ()
    """Where the model of time takes it."""


_WGMMA: Fields = {
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 128, 64],
    "warp_tile": [64, 128],
    "stages": 6,
    "consumers": 2,
    "registers": [40, 232],
    "raster": "grouped",
    "group": 16,
    "persistent": True,
    "vectorize": 8,
}
_MMA_SYNC: Fields = {
    "mma": "mma.sync",
    "tile": [128, 128, 32],
    "warp_tile": [64, 32],
    "stages": 3,
    "raster": "grouped",
    "group": 8,
}
_TALL: Fields = {
    **_WGMMA,
    "tile": [192, 128, 64],
    "stages": 5,
    "consumers": 3,
    "registers": [32, 160],
}

VECTOR = MAX_VECTOR_BYTES // OPERAND_BYTES
"""Elements of the widest access: rows that TMA stores are multiples of it."""

LINE, SECTOR = 128 // OPERAND_BYTES, 32 // OPERAND_BYTES
"""Channels of a line of the L2 cache, and of a sector of one."""

DEPTHS = (64, 32, 16)
"""Channels of a step."""

SINGLY = "tma_small"
"""The plan that stores filters of any number where they are open."""

MMA_DEPTH = 16
"""Elements of 16 bits that an instruction of tensor cores multiplies and sums."""
MAX_STAGES = 8
"""Of a pipeline (S8.1)."""

_NARROW: Fields = {**_TALL, "tile": [192, 64, 64], "warp_tile": [64, 64], "stages": 6}

TMA: tuple[ConvVariant, ...] = (
    ConvVariant("tma_narrow", _NARROW, 8, 8, 85 * 192, most=64),
    ConvVariant("tma_tall", _TALL, 8, 8, 85 * 192),
    ConvVariant("tma", _WGMMA, 8, 8),
)
"""Pixels by im2col TMA in groups, for sm_90a, the largest tile first.  Larger tiles read less for
each product; they wait until an H100 has most of its 132 multiprocessors busy with 256 filters."""

PRODUCER_REGISTERS = 32
"""Of the thread that starts copies of pixels, at least: where a tap's pixels lie is counted there.
What consumers of the space have beside it leaves that."""

PIXEL_GRID = (64, 512, 2048, 8192, 32768, 131072)
"""Pixels at which kernels for open sizes are compared."""

PIXELS_OF_ONE = (49, 196, 784, 3136, 12544)
"""The same of one image."""

CHANNEL_GRID = (64, 128, 320, 512, 1280)
"""Channels and filters at which they are."""

MEASURED = 12
"""Plans of the space that are worth measuring."""

GATHERS: tuple[ConvVariant, ...] = (
    ConvVariant("cp_async16", {**_MMA_SYNC, "loader": "cp_async", "vectorize": 8}, 8, 8),
    ConvVariant("cp_async4", {**_MMA_SYNC, "loader": "cp_async", "vectorize": 2}, 2),
    ConvVariant("scalar", {**_MMA_SYNC, "loader": "register", "stages": 2, "vectorize": 1}),
)
"""Pixels that the threads gather themselves; the last one takes every shape."""

_PLANES: Fields = {**_MMA_SYNC, "loader": "gather", "stages": 2, "vectorize": 1}
"""Threads load pixels along the planes of an image, a step ahead."""

AWAITED = 800
"""What a producer's thread waits for the pixels that it loads at once, in ns (an H100)."""

LARGE_TILE = 128
"""Pixels and filters of the largest tile of f32: where its pixels lie is in registers too."""
FMA_ROWS = 32
"""Rows that a warp has at least where threads multiply."""
ENOUGH_TILES = 2 * ARCHS["sm_90a"].multiprocessors
"""Larger tiles from which on they are taken: with fewer, the last round of an H100's leaves more of
it idle than smaller ones would."""


def exact_variants(conv: Convolution, arch: str) -> tuple[ConvVariant, ...]:
    """Those of f32, which tensor cores would round: the plans that the model of time chooses, and
    fewer for lines of any length.  In groups, whose tiles are as wide as these, larger tiles where
    they fill the chip.

    Channels may be any: all operands are turned on their way, element by element.
    """
    if conv.groups.filters:
        return _exact_in_groups(conv)
    found: list[ConvVariant] = []
    problem = problem_of(conv)
    for width in (WIDE, ANY):
        plans = ranking.chosen(problem, arch, exact_form(conv), width == ANY)
        where = ranking.conditions(problem, plans, arch, exact_form(conv))
        found += (exact_variant(*one, width) for one in zip(plans, where, strict=True))
    return tuple(found)


def exact_form(conv: Convolution) -> ExactForm:
    """What there is of a convolution of f32 beside its sizes."""
    return ExactForm(taps=conv.taps, largest=LARGE_TILE * LARGE_TILE)


def exact_variant(plan: Tiling, where: Sequence[Assumption], width: int) -> ConvVariant:
    """The variant of a plan of f32 for lines of so many elements, or multiples."""
    assert isinstance(plan, ExactTiling)
    fields = {**plan.fields("conv"), "vectorize": width}
    return ConvVariant(plan.of_width(width), fields, filters=width, where=tuple(where))


def _exact_in_groups(conv: Convolution) -> tuple[ConvVariant, ...]:
    filters = conv.groups.filters or conv.size(conv.filters).constant() or LARGE_TILE
    waits = -(-ENOUGH_TILES // -(-filters // LARGE_TILE)) * LARGE_TILE
    return tuple(
        ConvVariant(name, {**fields, "vectorize": width}, filters=width, pixels=pixels)
        for width, kind in ((4, ""), (1, "_any"))
        for name, fields, pixels in (
            (f"fma{kind}", FMA, waits),
            (f"fma{kind}_small", FMA_SMALL, 0),
        )
    )


def variants(conv: Convolution, arch: str) -> tuple[ConvVariant, ...]:
    """The variants of an architecture for this filter, fastest first."""
    if conv.is_exact:
        return (*tensor_float_variants(conv, arch), *exact_variants(conv, arch))
    if conv.planes:
        return planes_variants(conv, arch, 1)
    if arch != "sm_90a" or why_no_descriptor(conv, 128) is not None:
        return GATHERS
    if not has_space(conv):
        return (*TMA, *GATHERS[1:])
    problem = problem_of(conv)
    form = form_of(conv)
    plans = ranking.chosen(problem, arch, form)
    where = ranking.conditions(problem, plans, arch, form)
    width, found = stored_width(conv), tuple(map(variant_of, plans, where))
    if width < VECTOR:
        return (*(stored_by(width, variant) for variant in found), *GATHERS[1:])
    if not _has_lines(conv):
        small = variant_of(next(p for p in space(arch) if p.name == SINGLY), ())
        found += (replace(stored_by(1, small), name="tma_singly"),)
    return (*found, *GATHERS[1:])


def takes_tensor_float(conv: Convolution, arch: str) -> bool:
    """Whether tensor cores multiply operands of f32 as TF32, which lie along the channels as wgmma
    takes them: where the precision permits that."""
    if conv.precision != TF32 or not ARCHS[arch].wgmma or conv.groups.filters % COLUMN_STEP:
        return False
    return why_no_descriptor(conv, 128) is None


def tensor_float_variants(conv: Convolution, arch: str) -> tuple[ConvVariant, ...]:
    """Those on tensor cores of a convolution of f32 whose precision permits TF32: the plans that
    the model of time chooses of the space, with as many bytes in a step as of 16 bits."""
    if not takes_tensor_float(conv, arch):
        return ()
    problem, form = problem_of(conv, STEPS[TF32]), replace(form_of(conv), sums=False)
    plans = ranking.chosen(problem, arch, form)
    where = ranking.conditions(problem, plans, arch, form)
    return tuple(tensor_float_of(conv, *one) for one in zip(plans, where, strict=True))


def tensor_float_of(conv: Convolution, plan: Tiling, where: Sequence[Assumption]) -> ConvVariant:
    """The variant of a plan of the space whose operands are of f32."""
    found, width = variant_of(plan, where), gcd(stored_width(conv), VECTOR // conv.halves)
    rows, columns, depth = cast("list[int]", found.fields["tile"])
    tile = [rows, columns, depth // conv.halves]
    fields = {**found.fields, "tile": tile, "vectorize": width, "algo_choice": {"conv": TF32}}
    return replace(found, name=plan.named(TF32), fields=fields, channels=4, filters=width)


def planes_variants(conv: Convolution, arch: str, count: int) -> tuple[ConvVariant, ...]:
    """Those of an image of planes, which threads load, of the producer where there is one."""
    if not ARCHS[arch].wgmma:
        return (ConvVariant("gather", _PLANES),)
    plans = ranking.fastest(problem_of(conv), arch, planes_form(conv), count)
    return tuple(of_planes(conv, plan) for plan in plans)


def planes_form(conv: Convolution) -> ranking.Form:
    """What there is beside its sizes of a convolution whose image has planes."""
    pixels, step = pixels_at_once(conv), conv.geometry.steps[1]
    stored = Stored(along=False, pixels=pixels, waits=AWAITED, passed=step if pixels > 1 else 1)
    return replace(form_of(conv), gathers=PIXEL_REGISTERS[False], stored=stored)


def pixels_at_once(conv: Convolution) -> int:
    """Pixels of an image's planes that a thread reads together."""
    *_, width, _ = conv.image_dims
    row, made = width.constant(), conv.output_dims[2].constant()
    if row is None or made is None or conv.whole or not conv.geometry.is_apart:
        return 1
    return max(1, gcd(VECTOR // conv.geometry.steps[1], row // conv.geometry.steps[1], made))


def of_planes(conv: Convolution, plan: Tiling) -> ConvVariant:
    """The variant of a plan of the space whose producers load the pixels."""
    fields = {**plan.gathering("conv"), "vectorize": stored_width(conv)}
    return ConvVariant(plan.gather_name, fields)


def stored_width(conv: Convolution) -> int:
    """Elements of the output that are stored at once: fewer than a vector where its lines are known
    to be no multiple of that.
    """
    line = conv.line.constant()
    return VECTOR if line is None else gcd(line, VECTOR)


def _has_lines(conv: Convolution) -> bool:
    """Whether rows of the output are always whole vectors."""
    fact = Assumption(conv.line.mod(VECTOR), "==")
    return holds_always(fact, conv.kernel.assumptions, conv.kernel.symbol_names)


def stored_by(width: int, variant: ConvVariant) -> ConvVariant:
    """A variant whose threads store so many elements at once, of any lines: not TMA."""
    return replace(variant, fields={**variant.fields, "vectorize": width}, filters=1)


def variant_of(plan: Tiling, where: Sequence[Assumption]) -> ConvVariant:
    """The variant of a plan of the space."""
    fields = plan.fields("conv")
    if registers := cast("list[int]", fields["registers"]):
        fields["registers"] = [max(registers[0], PRODUCER_REGISTERS), registers[1]]
    return ConvVariant(plan.name, fields, 8, 8, where=tuple(where))


def has_space(conv: Convolution) -> bool:
    """Whether plans of the space, which are of tensor cores, have tiles inside of its groups."""
    return not conv.is_exact and conv.groups.filters % COLUMN_STEP == 0


def problem_of(conv: Convolution, steps: int = 1) -> ranking.Problem:
    """What of a convolution plans are ranked for, whose products take ``steps`` times as long as
    those of 16 bits."""
    filters, channels = conv.size(conv.filters), conv.size(conv.channels) * steps
    if conv.turned:
        sizes = (conv.output_dims[0], filters, conv.pixels, channels)
        grid = (ranking.BATCHES, CHANNEL_GRID, PIXELS_OF_ONE, CHANNEL_GRID)
        return ranking.Problem(conv.kernel, sizes, grid)
    sizes = (Dim.const(1), conv.pixels, filters, channels)
    return ranking.Problem(conv.kernel, sizes, ((1,), PIXEL_GRID, CHANNEL_GRID, CHANNEL_GRID))


def form_of(conv: Convolution) -> ranking.Form:
    """What there is of a convolution beside its sizes: in groups tiles and steps lie in one."""
    groups = conv.groups
    halves, channels = conv.halves, conv.size(conv.channels).constant()
    depths = depths_of(None if channels is None else channels * halves)
    if groups.filters:
        depths = tuple(depth for depth in DEPTHS if groups.channels * halves % depth == 0)
    return ranking.Form(
        conv.reads_by_pixels,
        taps=conv.taps,
        depths=depths,
        within=groups.filters,
        alone=True,
        rates=CONV_RATES,
        stored=stored_of(conv),
        image=image_of(conv),
    )


def stored_of(conv: Convolution) -> Stored:
    """How pixels and filters lie in memory, as far as the channels are known."""
    pixels, filters = (
        0 if count is None or count % LINE == 0 else 1 if count % SECTOR == 0 else 2
        for count in (
            None if size is None else size * conv.halves
            for size in (conv.image_dims[-1].constant(), conv.size(conv.channels).constant())
        )
    )
    return Stored(*((filters, pixels) if conv.turned else (pixels, filters)), along=False)


def image_of(conv: Convolution) -> Image | None:
    """The image of a convolution, where all sizes are known and a tap has its pixels again."""
    sizes = [size.constant() for size in conv.image_dims]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or conv.taps == 1 or conv.groups.filters:
        return None
    return Image(prod(known) * OPERAND_BYTES * conv.halves, conv.turned)


def depths_of(channels: int | None) -> tuple[int, ...]:
    """Depths of a step over so many channels of each tap, the one first that suits most plans.

    That is as deep as the channels are, where they are known to be few; others leave fewer zeros
    beyond them.
    """
    if channels is None:
        return (DEPTH,)
    first = DEPTH
    while first > MMA_DEPTH and channels <= first // 2:
        first //= 2
    found, least = [first], -(-channels // first) * first
    for depth in (first // 2, first // 4):
        if depth >= MMA_DEPTH and -(-channels // depth) * depth < least:
            found.append(depth)
            least = -(-channels // depth) * depth
    return tuple(found)


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


def why_no_descriptor(conv: Convolution, pixels: int) -> str | None:
    """Why no tensor map moves as the filter does, for tiles of so many pixels; None if one does."""
    element = conv.image.element
    columns = MAX_VECTOR_BYTES // element_bytes(element)
    try:
        conv.geometry.map_type(pixels, columns, element, 0)
    except VerifyException as error:
        return str(error)
    return None


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
    chosen = {"algo_choice": implicit, **variant.fields, **_tile(conv, variant.fields)}
    chosen |= {"arch": arch, "tensorize": cast("str", conv.reduce.label)}
    return {**chosen, **restated(conv, chosen)}


def restated(conv: Convolution, fields: Mapping[str, Value]) -> Fields:
    """The fields that follow from the convolution and a schedule's other ``fields``."""
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
    check_structure(plan, follows=False)
    way, parts = record_of(plan.algo_choice)["conv"], plan.integer("split_k")
    if way == "partial_sums" and parts == 1:
        there = '"implicit_gemm", or a split_k of 2 or more'
        refuse_choice(plan, f"way of conv ({way})", "adds sums of parts, and there is 1", there)
    if way == "im2col":
        why = "stores the columns of the image first; run region-im2col, and plan-select again"
        raise bad_plan(plan, why)
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
