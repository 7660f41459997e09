"""The convolution of a region: what ``plan-select`` and the lowering schedule (S4.9, S5.2, S9).

A region computes ``C[n, p, q, f] = epilogue(sum over r, s, c of X[n, stride·p + dilation·r - pad,
stride·q + dilation·s - pad, c] * W[f, r, s, c])``, with zeros outside of X, or is refused with the
reason.  Taken pixel by pixel it is a product of matrices (an implicit GEMM): rows are pixels of the
output, columns filters, and the sum runs over the taps and the channels.  Where the output lies as
``C[n, f, p, q]``, rows are filters, and columns pixels of an image, which may lie as
``X[n, c, h, w]`` then: a plane for each channel.  As ``C[m, f, d, p, q]`` it has planes d of images
m, of an image ``n = m · planes + d`` each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation
from xdsl.ir.affine import AffineSet

from polyc.affine.expressions import linear_of
from polyc.dialects.common.dim import Assumption, Dim, shape_text
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.region import (
    IndexOp,
    InsideOp,
    KernelOp,
    ReadOp,
)
from polyc.dialects.region.types import MemRefType, ValType
from polyc.families.conv.convolution import (
    Convolution,
    labels_of,
    merged_pixels,
    reads_pixels,
)
from polyc.families.conv.groups import Groups, groups_of
from polyc.families.conv.refusal import WAY_OUT, refused
from polyc.families.conv.whole import MAX_PADDING, VECTOR, WholeWindows, taken_whole, whole_windows
from polyc.families.facts import DEPTH, ends_cleanly, holds_always, same_size, uses
from polyc.families.follow import (
    MOST_HELD,
    check_axes,
    check_rows,
    find_following,
    width_of,
)
from polyc.poly.contraction import Coordinate, Operand, Window
from polyc.poly.pieces import Concat, guard_of, is_within_bounds
from polyc.rewriting.region.products import (
    Factor,
    Product,
    epilogue_steps,
    find_products,
    following,
    unsupported,
)

LEAST_TILE = 16
"""Filters and channels of a group are multiples of it: a step of tensor cores has 16 channels."""


def find_convolution(kernel: KernelOp) -> Convolution:
    """The convolution of a region.

    The region holds one sum of products of an image, read in windows of two axes, and a filter,
    read as it lies; its output has filters innermost, or rows and columns.  Strides, padding and
    dilation are constants; the image's guard is its bounds, and what is outside is 0.  Filters of
    one group, of which there are few, may be reduced after it, where they are innermost.  Raises
    PolycError ``UnsupportedProgram`` with the reason and the way out.
    """
    follow = find_following(kernel)
    if not follow and (planes := whole_windows(kernel)) is not None:
        return _of_whole_windows(taken_whole(kernel, planes))
    groups = Groups() if follow else groups_of(kernel)
    (product,) = find_products(kernel, 1, 1, groups.accesses, follow, exact=True)
    if product.pattern.kind != "conv" and not groups.filters:
        why = "neither factor is read in windows"
        raise unsupported(kernel, why, WAY_OUT, product.reduce)
    if product.pattern.batch:
        shared = ", ".join(product.names[a] for a in product.pattern.batch)
        why = f"image and filter are both read along {shared}, so that it is in groups"
        raise refused(product, why, product.reduce)
    sides = {window.side for window in product.pattern.windows}
    if not sides:
        # Of filters of one tap in groups that is an image which is read pixel by pixel.
        sides = {"rhs" if product.rhs.read in groups.accesses else "lhs"}
    if len(sides) > 1:
        raise refused(product, "both factors are read in windows", product.reduce)
    swapped = sides == {"rhs"}
    image, filter = (product.lhs, product.rhs)[:: -1 if swapped else 1]
    windowed, plain = (product.pattern.lhs, product.pattern.rhs)[:: -1 if swapped else 1]
    rows, columns, channels = _image_axes(product, image, windowed, bool(groups.filters))
    planes = rows.coordinate == 2
    size = _size(product, channels)
    if planes:
        _check_planes(product, image, size)
    elif image.concat is not None:
        _check_concat(product, image.concat, product.names[channels])
    elif not groups.filters and not ends_cleanly(kernel, image.read, 3, size, Dim.const(0)):
        why = f"it reads {size} channels of {image.name}, with others behind them"
        raise refused(product, why, image.read)
    images, *inside = _axes_of(kernel)
    turned = product.names[rows.axis] != inside[0]
    filters = inside.pop(0 if turned else -1)
    _check_filter(product, filter, plain, (rows, columns, channels), filters)
    geometry = _geometry(product, image, rows, columns)
    _check_guards(product, image, (2, 3) if planes else (1, 2))
    found = Convolution(
        kernel,
        product.reduce,
        image,
        filter,
        geometry,
        (images, inside[-2], inside[-1]),
        filters,
        product.names[channels],
        epilogue_steps(kernel, product.reduce, transposed=True, follow=follow),
        groups,
        turned,
        planes,
        filters_first=turned,
        plane=inside[0] if len(inside) > 2 else None,
        follow=follow,
    )
    if follow:
        _check_follow(product, found)
    if planes and not turned:
        raise refused(product, f"the channels of {image.name} are not its last axis", image.read)
    if not groups.fits(LEAST_TILE, LEAST_TILE):
        why = f"groups of {groups.filters} filters and {groups.channels} channels are no tiles"
        raise refused(product, why, product.reduce)
    _check_epilogue(product, found)
    return found


def _of_whole_windows(whole: WholeWindows) -> Convolution:
    """The convolution of a region whose sum runs over the points of whole windows."""
    product = whole.product
    found = Convolution(
        product.kernel,
        product.reduce,
        whole.image,
        whole.filter,
        whole.geometry,
        whole.axes,
        whole.filters,
        whole.points,
        epilogue_steps(product.kernel, product.reduce, transposed=True),
        Groups(),
        turned=True,
        planes=True,
        filters_first=True,
        whole=True,
    )
    _check_epilogue(product, found)
    return found


def _check_epilogue(product: Product, found: Convolution) -> None:
    """Refuse what follows and does not run by pixels."""
    operands = {*found.image.operations(), *found.filter.operations()}
    for op in found.kernel.body.block.ops:
        if op not in operands and (why := _why_not_by_pixels(found, op)):
            raise refused(product, why, op)


def _check_follow(product: Product, found: Convolution) -> None:
    """Refuse reductions after a convolution that do not go along its filters, or along too many."""
    kernel, size = found.kernel, found.size(found.filters)
    if found.turned:
        why = f"what follows is reduced, and its output has {found.filters} outside of its pixels"
        raise refused(product, why, found.follow[0])
    check_axes(kernel, product.reduce.result)
    check_rows(kernel, found.follow, found.filters, size)
    if (width_of(kernel, size) or 0) > MOST_HELD:
        why = f"what follows is reduced over {found.filters}, which has {size} points"
        raise refused(product, why, found.follow[0])


def _axes_of(kernel: KernelOp) -> tuple[str, ...]:
    """The same with one that is reduced after the products of a region, innermost."""
    axes = labels_of(kernel)
    reduced = (label for op in following(kernel) for label in op.labels)
    return (*axes, *(label for label in dict.fromkeys(reduced) if label not in axes))


def _why_not_by_pixels(conv: Convolution, op: Operation) -> str | None:
    """Why an op does not run by pixels, where row and column are one axis, and image too unless the
    output is turned; None if it does.

    A read moves with all of them, beside each other in its tensor, where image too is one of them
    as its first axes, or with none.
    """
    axes = conv.inside
    if isinstance(op, InsideOp):
        rows = op.set.data.constraints
        if any(uses(op, side, axes) for row in rows for side in (row.lhs, row.rhs)):
            return "a condition of its epilogue is on rows and columns of its output"
        return None
    if isinstance(op, IndexOp):
        used = uses(op, op.expr, axes)
        return "its epilogue counts rows and columns of its output" if used else None
    if not isinstance(op, ReadOp):
        return None
    guard = () if op.guard is None else op.guard.data.constraints
    guarded = any(uses(op, side, axes) for row in guard for side in (row.lhs, row.rhs))
    if not guarded and not reads_pixels(conv, op):
        return None
    first = merged_pixels(conv, op)
    results = op.map.data.results
    rest = results if first < 0 else (*results[:first], *results[first + len(axes) :])
    if first >= 0 and not guarded and not any(uses(op, e, axes) for e in rest):
        return None
    return f"its epilogue reads {op.tensor.name_hint} at {op.map.data}, not pixel by pixel"


def _image_axes(
    product: Product, image: Factor, read: Operand, grouped: bool
) -> tuple[Window, Window, int]:
    """The windows along rows and columns, and the axis of the channels."""
    names, out = product.names, _axes_of(product.kernel)
    windows = {w.coordinate: w for w in product.pattern.windows}
    whole = len(read.coordinates) == 4 and sorted(windows) != [2, 3]
    for at, own in enumerate(read.coordinates[1:3] if whole else (), 1):
        # Rows or columns may be read as they are, by a filter that has one along them.
        if at not in windows and own.axis is not None and names[own.axis] in out:
            windows[at] = Window("lhs", at, own.axis, 1, None, 1, own.offset)
    how = f"it reads {image.name} at {image.read.map.data}"
    planes = len(read.coordinates) == 4 and sorted(windows) == [2, 3]
    if planes and (grouped or image.concat is not None or image.element == f32):
        raise refused(product, f"the channels of {image.name} are not its last axis", image.read)
    if len(read.coordinates) != 4 or (not planes and sorted(windows) != [1, 2]):
        raise refused(product, f"{how}, not in windows of rows and columns", image.read)
    rows, columns = windows[1 + planes], windows[2 + planes]
    first, channels = read.coordinates[0], read.coordinates[1 if planes else 3]
    depth = channels.axis
    images = _images(product, image, first)
    pixels = [*images, names[rows.axis], names[columns.axis]]
    if len(out) != len(pixels) + 1 or pixels not in ([*out[:-1]], [out[0], *out[2:]]):
        where = ", ".join(out)
        raise refused(
            product, f"{how}, and its output is [{where}]: pixels are not its rows", image.read
        )
    if depth is None or names[depth] in out:
        raise refused(product, f"{how}, whose last axis is not summed", image.read)
    if any(linear_of(c.offset).terms or linear_of(c.offset).constant for c in (first, channels)):
        raise refused(product, f"{how}, a part of its images or channels", image.read)
    return rows, columns, depth


def _check_planes(product: Product, image: Factor, size: Dim) -> None:
    """Refuse an image of planes that threads do not load: of open sizes, of channels in no vectors,
    or of which a sum has some."""
    shape = cast("MemRefType", image.read.tensor.type).shape
    channels, open_ones = shape[1], [size for size in shape if size.constant() is None]
    if open_ones or (channels.constant() or 0) % VECTOR:
        why = f"the channels of {image.name} are not its last axis"
        if open_ones:
            why += ", and its sizes are not known"
        raise refused(product, why, image.read)
    if not same_size(product.kernel, channels, size):
        why = f"it reads {size} channels of {image.name}, which has {channels}"
        raise refused(product, why, image.read)


def _images(product: Product, image: Factor, first: Coordinate) -> list[str | None]:
    """The axes of the output that count the image's first: one, or those of images and of planes in
    each, the outer one first."""
    if first.axis is None and _is_one_image(product, image):
        return [labels_of(product.kernel)[0]]
    match first.terms:
        case [(images, step), (planes, 1)] if _size(product, planes) == Dim.const(step):
            return [product.names[images], product.names[planes]]
        case _:
            return [None if first.axis is None else product.names[first.axis]]


def _is_one_image(product: Product, image: Factor) -> bool:
    """Whether there is one image, and one of the output: its axis may be read at 0 then."""
    out = product.kernel.outs.data[0].shape
    return cast("MemRefType", image.read.tensor.type).shape[0] == out[0] == Dim.const(1)


def _check_filter(
    product: Product,
    filter: Factor,
    read: Operand,
    axes: tuple[Window, Window, int],
    filters: str,
) -> None:
    """Refuse a filter that is not [F, R, S, C]: each coordinate one axis, in that order, whole."""
    if filter.read.guard is not None:
        why = f"it reads its filter {filter.name} under a guard, so that it is not read whole"
        raise refused(product, why, filter.read)
    rows, columns, channels = axes
    wanted = (product.names.index(filters), rows.tap, columns.tap, channels)
    shape = cast("MemRefType", filter.read.tensor.type).shape
    # Where an axis of one point stands says nothing, as those of one tap.
    own = [a for a, size in zip(read.axes, shape, strict=True) if size != Dim.const(1)]
    as_wanted = own == [a for a in wanted if a is not None and _size(product, a) != Dim.const(1)]
    if as_wanted:
        sizes = [Dim.const(1) if a is None else _size(product, a) for a in read.axes]
        if not all(map(partial(same_size, product.kernel), shape, sizes)):
            whole = f"{shape_text(sizes)} of its filter {filter.name}, which is {shape_text(shape)}"
            raise refused(product, f"it reads {whole}", filter.read)
    if not read.plain or not as_wanted:
        found = ", ".join("?" if a is None else product.names[a] for a in read.axes)
        why = (
            f"its filter {filter.name} is read as [{found}], not as [filter, row, column, channel]"
        )
        raise refused(product, why, filter.read)


def _geometry(product: Product, image: Factor, rows: Window, columns: Window) -> Im2colAttr:
    """Filter, strides, padding and dilation as constants."""
    taps: list[int] = []
    before: list[int] = []
    after: list[int] = []
    sizes = cast("MemRefType", image.read.tensor.type).shape
    for window in (rows, columns):
        name, offset = product.names[window.axis], linear_of(window.offset)
        along = Dim.const(1) if window.tap is None else _size(product, window.tap)
        count = along.constant()
        if count is None or offset.terms:
            why = f"its filter has {along} taps along {name}"
            if offset.terms:
                why = f"it reads {image.name} at {image.read.map.data}, from a symbolic place on"
            raise refused(product, f"{why}; taps and padding are numbers", image.read)
        if offset.constant > 0:
            why = f"it reads {image.name} along {name} from {offset.constant} on, not from its edge"
            raise refused(product, why, image.read)
        taps.append(count)
        before.append(-offset.constant)
        extent, wanted = sizes[window.coordinate], _size(product, window.axis)
        reach = (count - 1) * window.dilation + 1
        for padding in (before[-1], *range(MAX_PADDING + 1)):
            found = (extent + (before[-1] + padding - reach)).floordiv(window.stride) + 1
            if same_size(product.kernel, found, wanted):
                after.append(padding)
                break
        else:
            raise refused(
                product,
                f"its output has {wanted} points along {name}, which no padding of {extent} gives",
                image.read,
            )
    strides, dilations = (
        [getattr(w, what) for w in (rows, columns)] for what in ("stride", "dilation")
    )
    return Im2colAttr.of(taps, strides, before, dilations, after)


def _size(product: Product, axis: int) -> Dim:
    found = cast("ValType", product.reduce.operand.type).axis(product.names[axis])
    assert found is not None
    return found.size


def _check_concat(product: Product, concat: Concat, channels: str) -> None:
    """Refuse images that do not follow each other channel by channel, in whole steps."""
    known, symbols = product.kernel.assumptions, product.kernel.symbol_names
    for piece in concat.pieces:
        whole = Assumption(piece.first.mod(DEPTH), "==")
        if concat.axis != channels or not holds_always(whole, known, symbols):
            name = product.kernel.name_of(piece.read.tensor)
            where = f"along {concat.axis} from {piece.first}"
            why = f"it reads {name} {where} on, and a step has {DEPTH} channels"
            raise refused(product, why, piece.read)


def _check_guards(product: Product, image: Factor, dimensions: tuple[int, int]) -> None:
    """Refuse guards that are not exactly the image's bounds, and what is outside but zeros.

    ``dimensions`` are its rows and columns.
    """
    read, concat = image.read, image.concat
    _check_guard(product, read, dimensions, guard_of(read) if concat is None else concat.within)
    for piece in image.pieces:
        _check_guard(product, piece.read, (1, 2, 3), guard_of(piece.read))
    if concat is None and read.fill is not None and read.fill.value.data != 0.0:
        why = f"outside of the image it reads {read.fill.value.data}, and loaders fill in zeros"
        raise refused(product, why, read)


def _check_guard(
    product: Product, read: ReadOp, dimensions: Sequence[int], guard: AffineSet | None
) -> None:
    """Refuse a guard that is not exactly the image's bounds on some dimensions."""
    known, symbols = product.kernel.assumptions, product.kernel.symbol_names
    exact = is_within_bounds(read, dimensions, guard, known, symbols)
    if exact is None:
        sizes = shape_text(cast("MemRefType", read.tensor.type).shape)
        raise refused(product, f"whether its windows leave {sizes} is beyond isl", read)
    if not exact:
        why = "the guard of its windows is not what lies in the image"
        raise refused(product, why, read)
