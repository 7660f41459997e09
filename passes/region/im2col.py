"""``region-im2col``: a convolution as a kernel that stores columns and a product of them (S6.11).

The implicit form reads the image where each product wants it.  Here a first kernel stores that
reading, [rows..., taps and channels...], padding included, and the second multiplies it as it
lies: every coordinate of its operands is one axis.  A ``plan.schedule`` of the region decides, by
``algo_choice = {"conv" = "im2col"}``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import region
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region.graph import FROM, edge, source
from polyc.dialects.region.types import AxisAttr, MemRefType, val_type
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, Report, show
from polyc.rewriting.region.building import ComposeBroadcasts, ComposeTransposes
from polyc.rewriting.region.points import composed, moved_set

Choose = Literal["plan", "all"]
COLUMNS = "columns"
BOUNDARY = "im2col: the plan stores the columns of the image for a product of matrices"


# Legality ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convolution:
    """A sum of products of an image, read in windows, and a filter, read as it lies."""

    kernel: region.KernelOp
    reduce: region.ReduceOp
    image: region.ReadOp
    axes: tuple[AxisAttr, ...]
    """The axes of the columns: those of the output in its order, then the summed ones."""


def convolution(kernel: region.KernelOp) -> Convolution | str:
    """The convolution of a kernel, or why ``MaterializeColumns`` leaves it."""
    sums = [op for op in kernel.body.block.ops if _factors(op) is not None]
    if len(sums) != 1:
        return f"it has {len(sums)} sums of products, and one is taken apart"
    reduce = cast(region.ReduceOp, sums[0])
    reads = [_read_behind(v) for v in _factors(reduce) or ()]
    if None in reads:
        return "a factor is computed in the kernel, and what is stored is read"
    windows = [read for read in reads if read is not None and not _is_plain(read)]
    if not windows:
        return "its factors are read as they lie already: it is a product of matrices"
    if len(windows) == 2:
        return "both factors are read in windows or under a guard"
    (image,) = windows
    (filter,) = (read for read in reads if read is not None and read is not image)
    have = val_type(image.result)
    if missing := [label for label in reduce.labels if have.axis(label) is None]:
        return f"the image is not read along {missing[0]}, which is summed"
    rows = [a for a in reduce.result.type.axes if have.axis(a.label) is not None]
    if shared := [a for a in rows if val_type(filter.result).axis(a.label) is not None]:
        return (
            f"image and filter are both read along {shared[0].label} (groups), so that the columns "
            "would be stored for each of its points; give a graph for each group"
        )
    order = [label for label in val_type(filter.result).labels if label in reduce.labels]
    order += [label for label in reduce.labels if label not in order]
    taps = [cast(AxisAttr, have.axis(label)) for label in order]
    if len(rows) + len(taps) != len(have.axes):
        return "the image is read along an axis that is neither of the output nor summed"
    return Convolution(kernel, reduce, image, (*rows, *taps))


def _factors(op: Operation) -> tuple[SSAValue, SSAValue] | None:
    """The factors of a sum of products; None for anything else."""
    if not isinstance(op, region.ReduceOp) or op.fn.data != "sum":
        return None
    body = op.operand.owner
    if not isinstance(body, region.BinaryOp) or body.fn.data != "mul":
        return None
    return body.lhs, body.rhs


def _read_behind(value: SSAValue) -> region.ReadOp | None:
    """The read of a tensor behind casts and views."""
    owner = value.owner
    while isinstance(owner, region.CastOp | region.BroadcastInDimOp | region.TransposeOp):
        owner = owner.operand.owner
    return owner if isinstance(owner, region.ReadOp) else None


def _is_plain(read: region.ReadOp) -> bool:
    """Whether each coordinate is an axis of its own, with no guard."""
    found = [e.position for e in read.map.data.results if isinstance(e, AffineDimExpr)]
    dims = len(read.map.data.results)
    return read.guard is None and len(found) == dims and len(set(found)) == dims


# Building ------------------------------------------------------------------------------


def _identity(dims: int, symbols: int) -> AffineMap:
    return AffineMap(dims, symbols, tuple(AffineDimExpr(i) for i in range(dims)))


def _turned(read: region.ReadOp, tensor: SSAValue, axes: Sequence[AxisAttr]) -> region.ReadOp:
    """The read of ``tensor`` with its axes in the order of ``axes``."""
    labels = [a.label for a in axes]
    into = [AffineDimExpr(labels.index(label)) for label in val_type(read.result).labels]
    access = read.map.data
    map = AffineMap(len(axes), access.num_symbols, composed(access, into))
    guard = None if read.guard is None else moved_set(read.guard.data, into, len(axes))
    fill = None if read.fill is None else read.fill.value.data
    return located(region.ReadOp(tensor, map, axes, guard, fill), read)


def _columns(conv: Convolution, name: str, attrs: DictionaryAttr) -> region.KernelOp:
    """The kernel that stores the columns."""
    kernel = conv.kernel
    image = cast(BlockArgument, conv.image.tensor)
    block = Block(arg_types=[image.type])
    read = _turned(conv.image, block.args[0], conv.axes)
    block.add_ops([read, located(region.YieldOp([read.result]), conv.image)])
    kind = val_type(read.result)
    return located(
        region.KernelOp(
            name,
            conv.axes,
            [replace(kernel.inputs[image.index], attributes=attrs)],
            [
                region.KernelTensor(
                    COLUMNS,
                    MemRefType.of(kind.shape, kind.element_type),
                    DictionaryAttr({"boundary": StringAttr(BOUNDARY)}),
                )
            ],
            body=Region(block),
            symbols=kernel.symbol_names,
            assumptions=kernel.assumptions,
        ),
        conv.reduce,
    )


def _free_name(kernel: region.KernelOp) -> str:
    """A name for the columns that the signature does not have."""
    taken = {n.data for n in (*kernel.arg_names, *kernel.res_names)}
    name, number = COLUMNS, 0
    while name in taken:
        name, number = f"{COLUMNS}_{number}", number + 1
    return name


def _product(
    conv: Convolution, name: str, columns: region.KernelOp, attrs: Sequence[DictionaryAttr]
) -> region.KernelOp:
    """The kernel that multiplies the columns; what else read the image still does."""
    kernel, image = conv.kernel, conv.image
    tensor = cast(BlockArgument, image.tensor)
    kept = [a for a in kernel.ins if a is not tensor or len(list(tensor.uses)) > 1]
    made = columns.outs.data[0]
    block = Block(arg_types=[made, *(a.type for a in kept)])
    values: dict[SSAValue, SSAValue] = dict(zip(kept, block.args[1:], strict=True))
    for old, new in zip(kept, block.args[1:], strict=True):
        new.location = old.location
    for op in kernel.body.block.ops:
        if op is not image:
            copy = op.clone(value_mapper=values)
            copy.location = op.location
            block.add_op(copy)
            continue
        rank, symbols = len(conv.axes), len(kernel.symbol_names)
        read = region.ReadOp(block.args[0], _identity(rank, symbols), conv.axes)
        labels = [a.label for a in conv.axes]
        turned = region.TransposeOp(
            read.result, [labels.index(label) for label in val_type(image.result).labels]
        )
        block.add_ops([located(read, image), located(turned, image)])
        values[image.result] = turned.result
    source_of = DictionaryAttr({FROM: edge(columns.sym_name.data, COLUMNS)})
    found = region.KernelOp(
        name,
        kernel.iters,
        [
            region.KernelTensor(_free_name(kernel), made, source_of),
            *(replace(kernel.inputs[a.index], attributes=attrs[a.index]) for a in kept),
        ],
        kernel.outputs,
        body=Region(block),
        symbols=kernel.symbol_names,
        assumptions=kernel.assumptions,
    )
    found.attributes |= kernel.attributes
    rewrite(found, [ComposeTransposes(), ComposeBroadcasts()], recursive=True)
    return located(found, kernel)


def _signature(kernel: region.KernelOp, product: str) -> region.GraphOp:
    """The graph that a kernel computed alone, as two kernels will."""
    found = region.GraphOp(
        kernel.sym_name.data,
        kernel.inputs,
        kernel.outputs,
        [edge(product, n.data) for n in kernel.res_names],
        symbols=kernel.symbol_names,
        assumptions=kernel.assumptions,
    )
    return located(found, kernel)


# The pattern and the pass --------------------------------------------------------------


def _schedules(kernel: region.KernelOp) -> list[ScheduleOp]:
    """The schedules of a region."""
    block, name = kernel.parent_block(), kernel.sym_name.data
    if block is None:
        return []
    return [o for o in block.ops if isinstance(o, ScheduleOp) and o.region.string_value() == name]


def _planned(kernel: region.KernelOp) -> bool:
    return any(map(stores_columns, _schedules(kernel)))


def stores_columns(plan: ScheduleOp) -> bool:
    """Whether a schedule has its region taken apart."""
    return plan.algo_choice.data.get("conv") == StringAttr("im2col")


def _reads_columns(kernel: region.KernelOp) -> bool:
    """Whether a kernel is the product of columns that are stored already."""
    found = (source(kernel, i) for i in range(len(kernel.ins)))
    return any(edge is not None and edge[1] == COLUMNS for edge in found)


@dataclass
class MaterializeColumns(RewritePattern):
    """A kernel that convolves → a kernel that stores the columns, and one that multiplies them.

    Legal where the kernel has one sum of products, of an image that is read in windows, with any
    stride, dilation and padding, in either layout, and of a filter that is read as it lies; with
    groups, where the two share an axis of the output, it is refused.  The image must be a tensor:
    what is computed in the kernel is not stored.  Exact: the columns have the image's element
    type, and the fills of its guard.

    With ``choose`` ``plan`` a schedule of the region has to say so (``algo_choice``), and one that
    cannot be obeyed is an error of kind ``BadPlan``.  The region's schedules go: they are of a
    convolution, and ``plan-select`` has others for the two kernels.
    """

    choose: Choose = "plan"
    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.KernelOp, rewriter: PatternRewriter, /) -> None:
        planned = _planned(op)
        if (self.choose == "plan" and not planned) or _reads_columns(op):
            return
        conv, name = convolution(op), op.sym_name.data
        if isinstance(conv, str):
            if planned:
                raise PolycError(
                    "BadPlan",
                    f"the plan of @{name} asks for im2col, and that is not possible: {conv}; "
                    'choose "conv" = "implicit_gemm"',
                    op,
                )
            if self.report is not None:
                self.report.refused.append(Note("NotConvolution", f"@{name}: {conv}", op))
            return
        alone = all(source(op, i) is None for i in range(len(op.ins)))
        product = f"{name}_product" if alone else name
        attrs = op.arg_attrs.data
        if alone:
            names = [n.data for n in op.arg_names]
            attrs = tuple(
                DictionaryAttr({**a.data, FROM: edge(name, n)})
                for a, n in zip(attrs, names, strict=True)
            )
        image = cast(BlockArgument, conv.image.tensor).index
        columns = _columns(conv, f"{name}_{COLUMNS}", attrs[image])
        multiply = _product(conv, product, columns, attrs)
        for schedule in _schedules(op):
            rewriter.erase(schedule)
        new: list[Operation] = [_signature(op, product)] if alone else []
        if self.report is not None:
            axes = region.axes_text(conv.axes)
            note = Note("exact", f"@{name} stores columns over {axes} and multiplies them", columns)
            self.report.fired.append(note)
        rewriter.replace(op, [*new, columns, multiply], [])


@dataclass(frozen=True)
class RegionIm2col(ModulePass):
    """Convolutions as columns and products of matrices (S6.11).

    ``choose`` is ``plan``, where the schedules say so, or ``all``.  With ``report`` each
    use and each refusal is reported on stderr.
    """

    name = "region-im2col"

    choose: Choose = "plan"
    report: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        done = Report()
        rewrite(op, [MaterializeColumns(self.choose, done)])
        show([*done.fired, *done.refused] if self.report else [])
