"""The variants of a convolution's kernel: tables, and plans that the model of time chooses (S8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import cast

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption
from polyc.dialects.common.precision import TF32
from polyc.dialects.plan.fields import IN_PARTS, MERGED_ROWS, Value
from polyc.dialects.plan.k_major import STEPS
from polyc.families import ranking
from polyc.families.conv.convolution import Convolution
from polyc.families.conv.problems import (
    LARGE_TILE,
    VECTOR,
    exact_form,
    form_of,
    has_space,
    merged_form,
    planes_form,
    problem_of,
    stored_width,
    takes_tensor_float,
    why_no_descriptor,
)
from polyc.families.exact import ANY, FMA, FMA_SMALL, WIDE, ExactTiling
from polyc.families.exact import DEPTH as EXACT_DEPTH
from polyc.families.facts import holds_always
from polyc.families.family import Fields
from polyc.families.follow import width_of
from polyc.families.space import Tiling, registers_left, space


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

_NARROW: Fields = {**_TALL, "tile": [192, 64, 64], "warp_tile": [64, 64], "stages": 6}

_PLANES: Fields = {**_MMA_SYNC, "loader": "gather", "stages": 2, "vectorize": 1}
"""Threads load pixels along the planes of an image, a step ahead."""

FEW_FILTERS, FEW_DEEP, FEW_PIXELS = 32, 32, 128
"""Filters and depth of a convolution that warps have by 16 filters, and pixels of its tile: 3x3 of
3 planes with a step at 224², 16 filters and 32 images, took an H100 20 us so, tiles of 32 filters
23, and 36 by warpgroups."""

FEW_TILES = 8 * ARCHS["sm_90a"].multiprocessors
"""Tiles of them at least: fewer were not timed."""

SINGLY = "tma_small"
"""The plan that stores filters of any number where they are open."""

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

GATHERS: tuple[ConvVariant, ...] = (
    ConvVariant("cp_async16", {**_MMA_SYNC, "loader": "cp_async", "vectorize": 8}, 8, 8),
    ConvVariant("cp_async4", {**_MMA_SYNC, "loader": "cp_async", "vectorize": 2}, 2),
    ConvVariant("scalar", {**_MMA_SYNC, "loader": "register", "stages": 2, "vectorize": 1}),
)
"""Pixels that the threads gather themselves; the last one takes every shape."""

ENOUGH_TILES = 2 * ARCHS["sm_90a"].multiprocessors
"""Larger tiles from which on they are taken: with fewer, the last round of an H100's leaves more of
it idle than smaller ones would."""


def variants(conv: Convolution, arch: str) -> tuple[ConvVariant, ...]:
    """The variants of an architecture for this filter, fastest first."""
    if conv.follow:
        return tuple(followed(conv, arch))
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
    if first := merged_variants(conv, arch, 1):
        return (*first, *GATHERS[1:])
    plans = ranking.chosen(problem, arch, form)
    where = ranking.conditions(problem, plans, arch, form)
    width, found = stored_width(conv), tuple(map(variant_of, plans, where))
    if width < VECTOR:
        return (*(stored_by(width, variant) for variant in found), *GATHERS[1:])
    if not _has_lines(conv):
        small = variant_of(next(p for p in space(arch) if p.name == SINGLY), ())
        found += (replace(stored_by(1, small), name="tma_singly"),)
    return (*found, *GATHERS[1:])


def followed(conv: Convolution, arch: str) -> Iterator[ConvVariant]:
    """Those whose tiles have all filters of a pixel, which are reduced after the sums.

    A warpgroup has its rows whole, and so have threads that multiply; warps of tensor cores beside
    each other exchange what they reduce.
    """
    columns = width_of(conv.kernel, conv.size(conv.filters))
    assert columns is not None, "a convolution whose filters are more is refused"
    width = 1 if conv.reduces_filters else gcd(stored_width(conv), VECTOR // conv.halves)
    rounded = conv.is_exact and takes_tensor_float(conv, arch)
    if arch == "sm_90a" and (rounded or not conv.is_exact) and why_no_descriptor(conv, 128) is None:
        for fields, least in _whole_tiles(conv, arch, columns, rounded):
            rows, _, depth = cast("list[int]", fields["tile"])
            kept: Fields = {**fields, "tile": [rows, columns, depth // conv.halves]}
            kept["vectorize"] = width
            if rounded:
                kept["algo_choice"] = {"conv": TF32}
            name = f"{TF32 if rounded else 'tma'}_{rows}x{columns}_whole"
            yield ConvVariant(name, kept, VECTOR // conv.halves, pixels=least)
    if conv.is_exact:
        # Four columns are a lane's.
        warp = [max(16, 1024 // columns), columns]
        exact: Fields = {**FMA, "tile": [4 * warp[0], columns, EXACT_DEPTH], "vectorize": 1}
        yield ConvVariant("fma_whole", {**exact, "warp_tile": list(warp)})
        return
    whole: Fields = {"tile": [128, columns, 32], "warp_tile": [32, min(columns, 64)]}
    for variant in GATHERS:
        loads = cast("int", variant.fields.get("vectorize", 1))
        fields = {**variant.fields, **whole, "vectorize": loads}
        yield ConvVariant(f"{variant.name}_whole", fields, variant.channels, gcd(loads, width))


def _whole_tiles(
    conv: Convolution, arch: str, columns: int, rounded: bool
) -> Iterator[tuple[Fields, int]]:
    """Tiles of so many columns with the least pixels of each: of known sizes the one that the model
    of time has ahead, of those that leave registers for what becomes of the sums; of open ones two.
    """
    problem = problem_of(conv, STEPS[TF32] if rounded else 1)
    batch, m, n, k = ranking.known_sizes(problem)
    if batch is None or m is None or n is None or k is None:
        for groups, least in ((2, ENOUGH_TILES), (1, 0)):
            rows = 64 * groups
            fields: Fields = {**_WGMMA, "tile": [rows, columns, 64], "warp_tile": [64, columns]}
            split: Value = [40, 232] if groups > 1 else []
            yield {**fields, "consumers": groups, "registers": split}, least * rows
        return
    form = replace(form_of(conv), sums=False)
    needed = BESIDE_SUMS + (0 if conv.reduces_filters else columns // 2)
    for _, plan in ranking.ranked((batch, m, n, k), arch, form):
        alone = plan.columns == columns and plan.parts == plan.below == plan.beside == 1
        if alone and registers_left(plan) >= needed:
            yield dict(variant_of(plan, ()).fields), 0
            return


BESIDE_SUMS = 44
"""Registers of a thread beside its sums and what becomes of them."""


def merged_variants(conv: Convolution, arch: str, count: int) -> tuple[ConvVariant, ...]:
    """So many whose rows are pixels of all images, of an output with its filters first, where the
    model of time has the first of them ahead of those whose columns are pixels of one image."""
    if conv.why_not_merged is not None:
        return ()
    both = (conv, form_of(conv)), (conv.merged, merged_form(conv))
    times: list[int] = []
    for seen, form in both:
        batch, m, n, k = (size or 1 for size in ranking.known_sizes(problem_of(seen)))
        times.append(ranking.ranked((batch, m, n, k), arch, form)[0][0])
    if times[0] <= times[1]:
        return ()
    plans = ranking.fastest(problem_of(conv.merged), arch, merged_form(conv), count)
    return tuple(merged_of(conv, plan) for plan in plans)


def merged_of(conv: Convolution, plan: Tiling) -> ConvVariant:
    """The variant of a plan of the space whose rows are pixels of all images."""
    found = variant_of(plan, ())
    way: Value = {"conv": MERGED_ROWS}
    fields = {**found.fields, "algo_choice": way, "vectorize": stored_width(conv)}
    return replace(found, name=plan.named("merged"), fields=fields, filters=1)


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


def tensor_float_variants(conv: Convolution, arch: str) -> tuple[ConvVariant, ...]:
    """Those on tensor cores of a convolution of f32 whose precision permits TF32: the plans that
    the model of time chooses of the space, with as many bytes in a step as of 16 bits."""
    if not takes_tensor_float(conv, arch):
        return ()
    problem, form = problem_of(conv, STEPS[TF32]), form_of(conv)
    plans = ranking.chosen(problem, arch, form)
    where = ranking.conditions(problem, plans, arch, form)
    return tuple(tensor_float_of(conv, *one) for one in zip(plans, where, strict=True))


def tensor_float_of(conv: Convolution, plan: Tiling, where: Sequence[Assumption]) -> ConvVariant:
    """The variant of a plan of the space whose operands are of f32."""
    found, width = variant_of(plan, where), gcd(stored_width(conv), VECTOR // conv.halves)
    rows, columns, depth = cast("list[int]", found.fields["tile"])
    tile = [rows, columns, depth // conv.halves]
    way: Value = {"conv": IN_PARTS[TF32] if plan.summed else TF32}
    fields = {**found.fields, "tile": tile, "vectorize": width, "algo_choice": way}
    return replace(found, name=plan.named(TF32), fields=fields, channels=4, filters=width)


def planes_variants(conv: Convolution, arch: str, count: int) -> tuple[ConvVariant, ...]:
    """Those of an image of planes, which threads load, of the producer where there is one."""
    if not ARCHS[arch].wgmma:
        return (ConvVariant("gather", _PLANES),)
    plans = ranking.fastest(problem_of(conv), arch, planes_form(conv), count)
    return (*few_filters(conv), *(of_planes(conv, plan) for plan in plans))


def few_filters(conv: Convolution) -> Iterator[ConvVariant]:
    """That of an image of planes for few filters and one step: a warp has 16 of these, where a
    warpgroup's 64 would be mostly empty, and all threads load pixels."""
    filters, depth = (conv.size(axis).constant() for axis in (conv.filters, conv.channels))
    if not conv.whole or filters is None or depth is None:
        return
    if filters > FEW_FILTERS or depth > FEW_DEEP:
        return
    rows = 16 if filters <= 16 else FEW_FILTERS
    tile: Value = [rows, FEW_PIXELS, FEW_DEEP]
    fields: Fields = {**_PLANES, "tile": tile, "warp_tile": [16, 32]}
    yield ConvVariant("gather_few", fields, pixels=FEW_TILES * FEW_PIXELS)


def of_planes(conv: Convolution, plan: Tiling) -> ConvVariant:
    """The variant of a plan of the space whose producers load the pixels."""
    fields = {**plan.gathering("conv"), "vectorize": stored_width(conv)}
    return ConvVariant(plan.gather_name, fields)


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
