"""Ops of ``frontend`` along axes: reduce, softmax, log_softmax, layer_norm, rms_norm (S2.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    StringAttr,
    UnitAttr,
    f32,
    i1,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.movements import numbers, numbers_attr, numbers_text, parse_numbers
from polyc.dialects.common.numbers import number_text, parse_f32
from polyc.dialects.common.signature import verify_symbols
from polyc.dialects.frontend.types import (
    TensorType,
    need_axes,
    need_element,
    need_float,
    need_number,
    need_shape,
    parse_typed,
    print_typed,
    tensor,
    tensor_of,
)

REDUCTIONS = ("max", "mean", "min", "prod", "sum")
"""Functions of ``frontend.reduce`` of numbers."""

REDUCTIONS_OF_CONDITIONS = ("all", "any")
"""Functions of ``frontend.reduce`` of conditions, which give conditions."""


class AlongAxes(IRDLOperation, ABC):
    """One operand and the axes along which the op works, named in increasing order."""

    axis_list = prop_def(DenseArrayBase, prop_name="axes")
    traits = traits_def(Pure())

    @property
    def axes(self) -> tuple[int, ...]:
        """The operand's axes that the op works along, increasing."""
        return numbers(self.axis_list)

    def verify_(self) -> None:
        verify_symbols(self)
        what = self.name.split(".")[1]
        self.need_elements(what)
        operand = tensor_of(self.operands[0])
        need_axes(what, self.axes, operand.dims)
        self.need_result(what)
        need_shape(self, f"the result of this {what}", self.results[0], self.result_shape())

    def need_elements(self, what: str) -> None:
        """Check the operands' element types."""
        need_float(what, self.operands)

    def need_result(self, what: str) -> None:
        """Check the result's element type, which is the operand's."""
        element = tensor_of(self.operands[0]).element_type
        need_element(f"the result of a {what}", self.results[0], element)

    @abstractmethod
    def result_shape(self) -> Shape:
        """The shape of the result, by the operand's."""


@irdl_op_definition
class ReduceOp(AlongAxes):
    """Sum, product, max, min or mean over axes, or all or any of conditions (S2.2).

    ``frontend.reduce sum %x axes [1] : [M, K] -> [M]``; with ``keepdims`` the axes stay
    with size 1.  Over nothing a sum is 0, a product 1, a max -inf, a min +inf, a mean NaN; of
    integers, which have no mean, a max is the least of the type and a min the most, and sums and
    products wrap.  All of no conditions hold, and not any.
    """

    name = "frontend.reduce"
    fn = prop_def(StringAttr)
    operand = operand_def(TensorType)
    keepdims = opt_prop_def(UnitAttr)
    result = result_def(TensorType)

    def __init__(
        self, fn: str, operand: SSAValue, axes: Sequence[int], *, keepdims: bool = False
    ) -> None:
        t = tensor_of(operand)
        super().__init__(
            operands=[operand],
            result_types=[tensor(reduced_shape(t.dims, axes, keepdims), t.element_type)],
            properties={
                "fn": StringAttr(fn),
                "axes": numbers_attr(axes),
                "keepdims": UnitAttr() if keepdims else None,
            },
        )

    @property
    def function(self) -> str:
        return self.fn.data

    @staticmethod
    def fault(fn: str) -> str | None:
        """What is wrong with a function's name, or None."""
        if fn in REDUCTIONS or fn in REDUCTIONS_OF_CONDITIONS:
            return None
        return (
            f"{fn} is not a function of frontend.reduce; there are {', '.join(REDUCTIONS)} "
            f"of numbers and {', '.join(REDUCTIONS_OF_CONDITIONS)} of conditions"
        )

    def need_elements(self, what: str) -> None:
        if self.function in REDUCTIONS_OF_CONDITIONS:
            need_element(f"the operand of {self.function}", self.operand, i1)
        elif self.function == "mean":
            need_float("a mean", self.operands)
        else:
            need_number(what, self.operands)

    def result_shape(self) -> Shape:
        return reduced_shape(tensor_of(self.operand).dims, self.axes, self.keepdims is not None)

    def verify_(self) -> None:
        if (fault := self.fault(self.function)) is not None:
            raise VerifyException(fault)
        super().verify_()

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        start = parser.pos
        fn = parser.parse_identifier("a reduction")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        unresolved = [parser.parse_unresolved_operand()]
        properties: dict[str, Attribute] = {"fn": StringAttr(fn), "axes": _parse_axes(parser)}
        if parser.parse_optional_keyword("keepdims") is not None:
            properties["keepdims"] = UnitAttr()
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.function} ")
        printer.print_operand(self.operand)
        printer.print_string(f" axes {numbers_text(self.axes)}")
        if self.keepdims is not None:
            printer.print_string(" keepdims")
        print_typed(printer, self, {})


def reduced_shape(dims: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """``dims`` without ``axes``, or with size 1 there."""
    if keepdims:
        return tuple(Dim.const(1) if i in axes else d for i, d in enumerate(dims))
    return tuple(d for i, d in enumerate(dims) if i not in axes)


def _parse_axes(parser: Parser) -> DenseArrayBase:
    parser.parse_keyword("axes")
    return numbers_attr(parse_numbers(parser, "an axis of a reduction"))


class SoftmaxBase(AlongAxes, ABC):
    """``op %x axes [1] : type``; the result has the operand's type."""

    def __init__(self, operand: SSAValue, axes: Sequence[int]) -> None:
        super().__init__(
            operands=[operand],
            result_types=[operand.type],
            properties={"axes": numbers_attr(axes)},
        )

    def result_shape(self) -> Shape:
        return tensor_of(self.operands[0]).dims

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = [parser.parse_unresolved_operand()]
        axes = _parse_axes(parser)
        args, results, attributes = parse_typed(parser, unresolved)
        return cls.create(
            operands=args,
            result_types=results,
            properties={"axes": axes},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operands[0])
        printer.print_string(f" axes {numbers_text(self.axes)}")
        print_typed(printer, self, {})


@irdl_op_definition
class SoftmaxOp(SoftmaxBase):
    """``exp(x - m) / sum(exp(x - m))`` with ``m = max(x)`` along the axes together (S2.2)."""

    name = "frontend.softmax"
    operand = operand_def(TensorType)
    result = result_def(TensorType)


@irdl_op_definition
class LogSoftmaxOp(SoftmaxBase):
    """``(x - m) - log(sum(exp(x - m)))`` with ``m = max(x)`` along the axes together (S2.2)."""

    name = "frontend.log_softmax"
    operand = operand_def(TensorType)
    result = result_def(TensorType)


class NormBase(AlongAxes, ABC):
    """A normalisation along axes, ``op %x weight %w axes [1] eps 1.0e-05 : types``.

    ``weight`` and what follows it are optional; their shape is the sizes of the axes, in
    order.  ``eps`` is an f32.
    """

    eps_attr = prop_def(FloatAttr[Float32Type], prop_name="eps")

    PARAMETERS: ClassVar[tuple[str, ...]]
    """The names of the optional operands after the first."""

    @property
    def eps(self) -> float:
        """What keeps the root from 0."""
        return float(self.eps_attr.value.data)

    def parameter(self, name: str) -> SSAValue | None:
        """The optional operand ``name``."""
        return cast("SSAValue | None", getattr(self, name))

    def result_shape(self) -> Shape:
        return tensor_of(self.operands[0]).dims

    def verify_(self) -> None:
        super().verify_()
        dims = tensor_of(self.operands[0]).dims
        sizes = tuple(dims[a] for a in self.axes)
        what = self.name.split(".")[1]
        for name in self.PARAMETERS:
            if (value := self.parameter(name)) is not None:
                need_shape(self, f"{name} of a {what} over axes {list(self.axes)}", value, sizes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        unresolved = [parser.parse_unresolved_operand()]
        given: list[bool] = []
        for name in cls.PARAMETERS:
            given.append(parser.parse_optional_keyword(name) is not None)
            if given[-1]:
                unresolved.append(parser.parse_unresolved_operand())
        properties: dict[str, Attribute] = {"axes": _parse_axes(parser)}
        parser.parse_keyword("eps")
        properties["eps"] = FloatAttr(parse_f32(parser), f32)
        args, results, attributes = parse_typed(parser, unresolved)
        if len(given) > 1:
            properties[AttrSizedOperandSegments.attribute_name] = numbers_i32([1, *map(int, given)])
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operands[0])
        for name in self.PARAMETERS:
            if (value := self.parameter(name)) is not None:
                printer.print_string(f" {name} ")
                printer.print_operand(value)
        printer.print_string(f" axes {numbers_text(self.axes)} eps {number_text(self.eps)}")
        print_typed(printer, self, {})


def numbers_i32(values: Sequence[int]) -> DenseArrayBase:
    """Operand segment sizes, as xDSL keeps them."""
    from xdsl.dialects.builtin import i32

    return DenseArrayBase.from_list(i32, values)


@irdl_op_definition
class LayerNormOp(NormBase):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` along the axes together (S2.2).

    ``var`` is the mean of ``(x - mean)**2``.  Without ``weight`` nothing multiplies,
    without ``bias`` nothing is added.
    """

    name = "frontend.layer_norm"
    operand = operand_def(TensorType)
    weight = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    PARAMETERS: ClassVar[tuple[str, ...]] = ("weight", "bias")

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        eps: float,
        *,
        weight: SSAValue | None = None,
        bias: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[operand, weight, bias],
            result_types=[operand.type],
            properties={"axes": numbers_attr(axes), "eps": FloatAttr(eps, f32)},
        )


@irdl_op_definition
class RmsNormOp(NormBase):
    """``x / sqrt(mean(x * x) + eps) * weight`` along the axes together (S2.2)."""

    name = "frontend.rms_norm"
    operand = operand_def(TensorType)
    weight = opt_operand_def(TensorType)
    result = result_def(TensorType)

    PARAMETERS: ClassVar[tuple[str, ...]] = ("weight",)

    def __init__(
        self,
        operand: SSAValue,
        axes: Sequence[int],
        eps: float,
        *,
        weight: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[operand, weight],
            result_types=[operand.type],
            properties={"axes": numbers_attr(axes), "eps": FloatAttr(eps, f32)},
        )
