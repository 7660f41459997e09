"""What the model of time asks of a convolution beside a plan: sizes, image, depths, groups."""

from __future__ import annotations

from dataclasses import replace
from math import gcd, prod

from xdsl.utils.exceptions import VerifyException

from polyc.cost.products import CONV_RATES, Image, Stored
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.precision import TF32
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, OPERAND_BYTES
from polyc.families import ranking
from polyc.families.conv.convolution import Convolution
from polyc.families.exact import ExactForm
from polyc.families.facts import DEPTH
from polyc.families.space import COLUMN_STEP, PIXEL_REGISTERS

VECTOR = MAX_VECTOR_BYTES // OPERAND_BYTES
"""Elements of the widest access: rows that TMA stores are multiples of it."""

LINE, SECTOR = 128 // OPERAND_BYTES, 32 // OPERAND_BYTES
"""Channels of a line of the L2 cache, and of a sector of one."""

DEPTHS = (64, 32, 16)
"""Channels of a step."""

MMA_DEPTH = 16
"""Elements of 16 bits that an instruction of tensor cores multiplies and sums."""

PIXEL_GRID = (64, 512, 2048, 8192, 32768, 131072)
"""Pixels at which kernels for open sizes are compared."""

PIXELS_OF_ONE = (49, 196, 784, 3136, 12544)
"""The same of one image."""

CHANNEL_GRID = (64, 128, 320, 512, 1280)
"""Channels and filters at which they are."""

AWAITED = 800
"""What a producer's thread waits for the pixels that it loads at once, in ns (an H100)."""

LARGE_TILE = 128
"""Pixels and filters of the largest tile of f32: where its pixels lie is in registers too."""


def takes_tensor_float(conv: Convolution, arch: str) -> bool:
    """Whether tensor cores multiply operands of f32 as TF32, which lie along the channels as wgmma
    takes them: where the precision permits that."""
    if conv.precision != TF32 or not ARCHS[arch].wgmma or conv.groups.filters % COLUMN_STEP:
        return False
    return why_no_descriptor(conv, 128) is None


def exact_form(conv: Convolution) -> ExactForm:
    """What there is of a convolution of f32 beside its sizes."""
    return ExactForm(taps=conv.taps, largest=LARGE_TILE * LARGE_TILE, pixels=int(conv.turned))


def merged_form(conv: Convolution) -> ranking.Form:
    """What there is beside its sizes of a convolution whose rows are pixels of all images.

    All of its tiles go through shared memory."""
    return replace(form_of(conv.merged), loose=True, sums=False)


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


def stored_width(conv: Convolution) -> int:
    """Elements of the output that are stored at once: fewer than a vector where its lines are known
    to be no multiple of that.
    """
    line = conv.line.constant()
    return VECTOR if line is None else gcd(line, VECTOR)


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


def why_no_descriptor(conv: Convolution, pixels: int) -> str | None:
    """Why no tensor map moves as the filter does, for tiles of so many pixels; None if one does."""
    element = conv.image.element
    columns = MAX_VECTOR_BYTES // element_bytes(element)
    try:
        conv.geometry.map_type(pixels, columns, element, 0)
    except VerifyException as error:
        return str(error)
    return None
