"""The products of ``frontend``: gemm and conv2d (S2.2)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, Float32Type, StringAttr, UnitAttr, f32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, DimAttr, Shape, parse_dim, shape_text
from polyc.dialects.common.movements import numbers, numbers_attr, numbers_text, parse_numbers
from polyc.dialects.common.precision import verify as verify_precision
from polyc.dialects.common.signature import same_shape, same_size, verify_symbols
from polyc.dialects.common.sizes import (
    divided,
    inferred,
    never_negative,
    verify_known,
    window_count,
)
from polyc.dialects.frontend.types import (
    TensorType,
    broadcast,
    need_accumulator,
    need_float,
    parse_typed,
    parse_values,
    print_typed,
    tensor,
    tensor_of,
)


def need_product_types(what: str, operands: Sequence[SSAValue], result: SSAValue) -> None:
    """Check that operands have one float type, and the result that or f32."""
    need_float(what, operands)
    elements = [tensor_of(v).element_type for v in operands]
    for element in elements[1:]:
        if element != elements[0]:
            raise VerifyException(
                f"{what} operands have one element type, not {elements[0]} and {element}; cast "
                "one of them"
            )
    found = tensor_of(result).element_type
    if found not in (elements[0], f32):
        article = "an" if what[0] in "aeiou" else "a"
        raise VerifyException(
            f"{article} {what} of {elements[0]} gives {elements[0]} or f32, not {found}; cast the "
            "result"
        )


def need_precision(what: str, precision: StringAttr | None, operand: SSAValue) -> None:
    """Check that ``precision`` is one, and of a product of f32."""
    verify_precision(precision)
    element = tensor_of(operand).element_type
    if precision is not None and element != f32:
        raise VerifyException(
            f"{what} has a precision of {precision}, which is said of products of f32, and its "
            f"operands hold {element}; leave it out, or cast them to f32"
        )


@irdl_op_definition
class GemmOp(IRDLOperation):
    """The matrix product ``c[m, n] = sum over k of a[m, k] * b[k, n]`` (S2.2).

    Axes before the last two are a batch, broadcast right-aligned.  ``transpose_a`` reads
    ``a`` as [K, M], ``transpose_b`` reads ``b`` as [N, K].  The sum is accumulated in
    ``acc`` (f32); operands are rounded to their element type first, since tensor cores
    take them in it (S0.6).  ``precision`` says of operands of f32 how precise their products
    have to be at least: ``"f32"``, exact, which is what holds without it, ``"tf32"`` or
    ``"f32x3"`` (docs/semantics.md, *Precision*).
    """

    name = "frontend.gemm"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    acc = opt_prop_def(Float32Type)
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    precision = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$a `,` $b attr-dict `:` functional-type(operands, results)"

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        precision: str | None = None,
        result_type: TensorType | None = None,
    ) -> None:
        """The result type is inferred for matrices and for equal batches unless given."""
        if result_type is None:
            left, right = tensor_of(a), tensor_of(b)
            batch = max((left.dims[:-2], right.dims[:-2]), key=len)
            row, column = -1 if transpose_a else -2, -2 if transpose_b else -1
            shape = inferred(lambda: (*batch, left.dims[row], right.dims[column]))
            result_type = tensor(shape, left.element_type)
        super().__init__(
            operands=[a, b],
            result_types=[result_type],
            properties={
                "acc": f32,
                "transpose_a": UnitAttr() if transpose_a else None,
                "transpose_b": UnitAttr() if transpose_b else None,
                "precision": None if precision is None else StringAttr(precision),
            },
        )

    def verify_(self) -> None:
        verify_symbols(self)
        a, b, c = tensor_of(self.a), tensor_of(self.b), tensor_of(self.result)
        need_accumulator("gemm", self.acc)
        for what, t in (("a", a), ("b", b)):
            if t.rank < 2:
                raise VerifyException(
                    f"gemm multiplies matrices; operand {what} is {t} of rank {t.rank}, give 2 "
                    "axes or more"
                )
        need_product_types("gemm", self.operands, self.result)
        need_precision("gemm", self.precision, self.a)
        m, k = reversed(a.dims[-2:]) if self.transpose_a else a.dims[-2:]
        k_of_b, n = reversed(b.dims[-2:]) if self.transpose_b else b.dims[-2:]
        if not same_size(k, k_of_b, self):
            raise VerifyException(
                f"gemm contracts sizes {k} and {k_of_b}, which differ: a is "
                f"{shape_text(a.dims)}{_flag(self.transpose_a)}, b is "
                f"{shape_text(b.dims)}{_flag(self.transpose_b)}; transpose an operand or "
                "correct a shape"
            )
        batch = broadcast((a.dims[:-2], b.dims[:-2]), self)
        if batch is None:
            raise VerifyException(
                f"BroadcastMismatch: gemm cannot broadcast the batches {shape_text(a.dims[:-2])} "
                f"and {shape_text(b.dims[:-2])}, aligned at the right; sizes there are equal or "
                "one of them is 1"
            )
        if not same_shape(c.dims, (*batch, m, n), self):
            raise VerifyException(
                f"gemm of {shape_text(a.dims)}{_flag(self.transpose_a)} and "
                f"{shape_text(b.dims)}{_flag(self.transpose_b)} is "
                f"{shape_text((*batch, m, n))}; the result says {shape_text(c.dims)}"
            )


def _flag(transposed: UnitAttr | None) -> str:
    return " transposed" if transposed else ""


LAYOUTS = ("nchw", "nhwc")
"""Layouts of ``frontend.conv2d``; the weight is [F, C, R, S] or [F, R, S, C]."""


@irdl_op_definition
class Conv2dOp(IRDLOperation):
    """A convolution over two axes, as neural networks have it (a correlation; S2.2, S4.9).

    ``frontend.conv2d nchw %x, %w stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1]
    groups 1 {acc = f32} : (types) -> type``.

    In layout ``nchw`` the image is [N, C, H, W] and the weight [F, C / groups, R, S]; in
    ``nhwc`` they are [N, H, W, C] and [F, R, S, C / groups].  ``padding`` is before and
    after H, then before and after W, with zeros.  The result has
    ``(H + lo + hi - dilation * (R - 1) - 1) floordiv stride + 1`` rows.  Group ``g`` of the
    F filters reads group ``g`` of the channels.  Operands are rounded to their element
    type first, and the sum is accumulated in ``acc`` (S0.6).  ``precision`` is as of
    ``frontend.gemm``.
    """

    name = "frontend.conv2d"
    layout_attr = prop_def(StringAttr, prop_name="layout")
    image = operand_def(TensorType)
    weight = operand_def(TensorType)
    stride_list = prop_def(DenseArrayBase, prop_name="stride")
    padding_list = prop_def(DenseArrayBase, prop_name="padding")
    dilation_list = prop_def(DenseArrayBase, prop_name="dilation")
    groups_attr = prop_def(DimAttr, prop_name="groups")
    acc = opt_prop_def(Float32Type)
    precision = opt_prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        image: SSAValue,
        weight: SSAValue,
        *,
        layout: str = "nchw",
        stride: Sequence[int] = (1, 1),
        padding: Sequence[int] = (0, 0, 0, 0),
        dilation: Sequence[int] = (1, 1),
        groups: Dim | int = 1,
        precision: str | None = None,
        result_type: TensorType | None = None,
    ) -> None:
        if result_type is None:
            x, w = tensor_of(image), tensor_of(weight)
            shape = inferred(lambda: _conv_shape(layout, x.dims, w.dims, stride, padding, dilation))
            result_type = tensor(shape, x.element_type)
        super().__init__(
            operands=[image, weight],
            result_types=[result_type],
            properties={
                "layout": StringAttr(layout),
                "stride": numbers_attr(stride),
                "padding": numbers_attr(padding),
                "dilation": numbers_attr(dilation),
                "groups": DimAttr(Dim.of(groups)),
                "acc": f32,
                "precision": None if precision is None else StringAttr(precision),
            },
        )

    @property
    def layout(self) -> str:
        """``nchw`` or ``nhwc``."""
        return self.layout_attr.data

    @property
    def stride(self) -> tuple[int, ...]:
        """The distance between windows along H and W."""
        return numbers(self.stride_list)

    @property
    def padding(self) -> tuple[int, ...]:
        """Zeros before and after H, before and after W."""
        return numbers(self.padding_list)

    @property
    def dilation(self) -> tuple[int, ...]:
        """The distance between elements of a window along H and W."""
        return numbers(self.dilation_list)

    @property
    def groups(self) -> Dim:
        """How many groups channels and filters are in."""
        return self.groups_attr.data

    @staticmethod
    def fault(layout: str) -> str | None:
        """What is wrong with a layout's name, or None."""
        if layout in LAYOUTS:
            return None
        return f"{layout} is not a layout of conv2d; there are {', '.join(LAYOUTS)}"

    def verify_(self) -> None:
        verify_symbols(self)
        if (fault := self.fault(self.layout)) is not None:
            raise VerifyException(fault)
        need_accumulator("conv2d", self.acc)
        x, w = tensor_of(self.image), tensor_of(self.weight)
        for what, t in (("image", x), ("weight", w)):
            if t.rank != 4:
                raise VerifyException(
                    f"conv2d takes an {what} of rank 4, not {t} of rank {t.rank}"
                    if what == "image"
                    else f"conv2d takes a {what} of rank 4, not {t} of rank {t.rank}"
                )
        need_product_types("conv2d", self.operands, self.result)
        need_precision("conv2d", self.precision, self.image)
        self._verify_numbers()
        _, c, h, w_size = canonical(self.layout, x.dims)
        filters, inner, *window = canonical(self.layout, w.dims)
        groups = self.groups
        verify_known(self, (groups,), "the groups of a conv2d")
        if not same_size(groups * inner, c, self):
            raise VerifyException(
                f"conv2d in {groups} groups reads {groups} * {inner} channels, and the image has "
                f"{c}: image {shape_text(x.dims)}, weight {shape_text(w.dims)}; the weight's "
                "channels are those of one group"
            )
        if divided(filters, groups, self) is None:
            raise VerifyException(
                f"conv2d divides {filters} filters into {groups} groups, which does not come out "
                "even as far as the assumptions say; change the groups, or assume it"
            )
        for side, size, taps, low, high, spread in (
            ("H", h, window[0], *self.padding[:2], self.dilation[0]),
            ("W", w_size, window[1], *self.padding[2:], self.dilation[1]),
        ):
            if not never_negative(taps - 1, self):
                raise VerifyException(
                    f"conv2d has a window of {taps} along {side}, which may be none; give 1 or "
                    "more, or assume it"
                )
            reach = size + low + high - (taps - 1) * spread - 1
            if (room := reach.constant()) is not None and room < -1:
                raise VerifyException(
                    f"conv2d has a window that spans {(taps - 1) * spread + 1} along {side}, which "
                    f"is {size + low + high} with its padding; pad more or take a smaller window"
                )
        expected = _conv_shape(
            self.layout, x.dims, w.dims, self.stride, self.padding, self.dilation
        )
        found = tensor_of(self.result).dims
        if not same_shape(expected, found, self):
            raise VerifyException(
                f"conv2d of {shape_text(x.dims)} and {shape_text(w.dims)} is "
                f"{shape_text(expected)}; the result says {shape_text(found)}"
            )

    def _verify_numbers(self) -> None:
        for what, values, count, least in (
            ("stride", self.stride, 2, 1),
            ("padding", self.padding, 4, 0),
            ("dilation", self.dilation, 2, 1),
        ):
            if len(values) != count:
                raise VerifyException(
                    f"conv2d has {len(values)} numbers of {what}; give {count}, for H and then W"
                )
            for value in values:
                if value < least:
                    kind = "NegativeStrideUnsupported: " if what != "padding" and value < 0 else ""
                    raise VerifyException(
                        f"{kind}{what} {value} of a conv2d is too small; give {least} or more"
                    )

    @classmethod
    def parse(cls, parser: Parser) -> Conv2dOp:
        start = parser.pos
        layout = parser.parse_identifier("a layout")
        if (fault := cls.fault(layout)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = parse_values(parser)
        properties: dict[str, Attribute] = {"layout": StringAttr(layout)}
        for key in ("stride", "padding", "dilation"):
            parser.parse_keyword(key)
            properties[key] = numbers_attr(parse_numbers(parser, f"a {key} of a conv2d"))
        parser.parse_keyword("groups")
        properties["groups"] = DimAttr(parse_dim(parser))
        args, results, attributes = parse_typed(parser, unresolved)
        for key in ("acc", "precision"):
            if (found := attributes.pop(key, None)) is not None:
                properties[key] = found
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.layout} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(
            f" stride {numbers_text(self.stride)} padding {numbers_text(self.padding)} "
            f"dilation {numbers_text(self.dilation)} groups {self.groups}"
        )
        said = {"acc": self.acc, "precision": self.precision}
        print_typed(printer, self, {key: a for key, a in said.items() if a is not None})


def canonical(layout: str, dims: Shape) -> Shape:
    """The four sizes of an image, a weight or a result in the order of ``nchw``."""
    if layout == "nchw":
        return dims
    first, h, w, c = dims
    return (first, c, h, w)


def _conv_shape(
    layout: str,
    image: Shape,
    weight: Shape,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Shape:
    n, _, h, w = canonical(layout, image)
    f, _, r, s = canonical(layout, weight)
    rows = window_count(h + padding[0] + padding[1], r, stride[0], dilation[0])
    columns = window_count(w + padding[2] + padding[3], s, stride[1], dilation[1])
    return (n, f, rows, columns) if layout == "nchw" else (n, rows, columns, f)
