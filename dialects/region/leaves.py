"""Leaves of the ``region`` dialect: reads, constants, sizes, conditions on axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AffineSetAttr,
    IntegerType,
    f32,
    i1,
)
from xdsl.ir import (
    Attribute,
    SSAValue,
)
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.irdl import (
    IRDLOperation,
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

from polyc.dialects.common.dim import (
    Dim,
    DimAttr,
    parse_dim,
    shape_text,
)
from polyc.dialects.common.elements import Number, NumberAttr, is_integer, number_attr, number_of
from polyc.dialects.common.numbers import number_text, parse_number, typed_number
from polyc.dialects.common.signature import symbol_space
from polyc.dialects.region.scope import (
    KernelScope,
    parse_types,
    print_types,
    scope_of,
    set_type,
)
from polyc.dialects.region.types import (
    AxisAttr,
    MemRefType,
    ValType,
    axes_text,
    val_type,
)


def _not_quasi_affine(expr: AffineExpr) -> str | None:
    """The first operator in ``expr`` that S4.2 does not allow."""
    if isinstance(expr, AffineBinaryOpExpr):
        if expr.kind is AffineBinaryOpKind.Mod:
            return "mod"
        if expr.kind is AffineBinaryOpKind.CeilDiv:
            return "ceildiv"
        return _not_quasi_affine(expr.lhs) or _not_quasi_affine(expr.rhs)
    return None


@irdl_op_definition
class ReadOp(IRDLOperation):
    """Element ``map(axes)`` of a tensor, for every point of the result's axes.

    ``map`` takes the result's axes in order and the kernel's symbols, and gives one
    coordinate a dimension of the tensor; it is affine with floordiv (S4.2).  With a guard,
    points outside ``guard`` give ``fill`` and are not read: the form of a pad or mask
    (S6.4); a tensor of i1 is filled with 0.0 or 1.0.  Every other point lies inside the
    tensor, which isl proves (UnguardedAccess).
    """

    name = "region.read"

    tensor = operand_def(MemRefType)
    map = prop_def(AffineMapAttr)
    guard = opt_prop_def(AffineSetAttr)
    fill = opt_prop_def(NumberAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        tensor: SSAValue,
        map: AffineMap,
        axes: Iterable[AxisAttr],
        guard: AffineSet | None = None,
        fill: Number | None = None,
    ) -> None:
        element = cast(MemRefType, tensor.type).element_type
        super().__init__(
            operands=[tensor],
            properties={
                "map": AffineMapAttr(map),
                "guard": None if guard is None else AffineSetAttr(guard),
                "fill": None if fill is None else number_attr(fill, element),
            },
            result_types=[ValType.of(axes, element)],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.tensor)
        printer.print_string(" ")
        printer.print_attribute(self.map)
        if self.guard is not None and self.fill is not None:
            printer.print_string(" where ")
            printer.print_attribute(self.guard)
            printer.print_string(f" else {number_text(number_of(self.fill), self.fill.type)}")
        printer.print_op_attributes(self.attributes)
        print_types(printer, [self.tensor], self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReadOp:
        tensor = parser.parse_unresolved_operand()
        pos = parser.pos
        map = parser.parse_attribute()
        if not isinstance(map, AffineMapAttr):
            parser.raise_error(f"expected an affine_map, got {map}", pos)
        guard: AffineSet | None = None
        fill: Number | None = None
        start = parser.pos
        if parser.parse_optional_keyword("where") is not None:
            pos = parser.pos
            found = parser.parse_attribute()
            if not isinstance(found, AffineSetAttr):
                parser.raise_error(f"expected an affine_set, got {found}", pos)
            guard = found.data
            parser.parse_keyword("else")
            start = parser.pos
            fill = parse_number(parser)
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        operands, result = parse_types(parser, [tensor])
        if not isinstance(operands[0].type, MemRefType):
            parser.raise_error(f"expected a !region.memref, got {operands[0].type}", pos)
        if not isinstance(result, ValType):
            parser.raise_error(f"expected a !region.val, got {result}", pos)
        if fill is not None:
            fill = number_of(typed_number(parser, fill, operands[0].type.element_type, start))
        op = cls(operands[0], map.data, result.axes, guard, fill)
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        memref = cast(MemRefType, self.tensor.type)
        result = val_type(self.result)
        map = self.map.data
        if result.element_type != memref.element_type:
            raise VerifyException(
                f"a read of {memref} gives {memref.element_type}, not {result.element_type}; "
                "convert with region.cast"
            )
        if len(map.results) != len(memref.shape):
            raise VerifyException(
                f"the map gives {len(map.results)} coordinates and the tensor has "
                f"{len(memref.shape)} dimensions {shape_text(memref.shape)}; give one each"
            )
        if map.num_dims != len(result.axes):
            raise VerifyException(
                f"the map takes {map.num_dims} axes and the value has {len(result.axes)}, "
                f"{axes_text(result.axes)}; give one dimension an axis"
            )
        for expr in map.results:
            if (operator := _not_quasi_affine(expr)) is not None:
                raise VerifyException(
                    f"MissingDivGuard: the map has {operator} in {expr}; write it with floordiv "
                    "(e mod q is e - q * (e floordiv q))"
                )
        if (self.guard is None) != (self.fill is None):
            raise VerifyException("a guard and its fill stand together; give both or none")
        if (
            self.fill is not None
            and memref.element_type == IntegerType(1)
            and self.fill.value.data not in (0.0, 1.0)
        ):
            raise VerifyException(
                f"a tensor of i1 is filled with 0.0 or 1.0, not with {self.fill.value.data}"
            )
        kernel = scope_of(self)
        if kernel is None:
            return
        symbols = kernel.symbol_names
        if map.num_symbols != len(symbols):
            raise VerifyException(
                f"the map has {map.num_symbols} symbols and the kernel {len(symbols)}, "
                f"[{', '.join(symbols)}]; align it to the kernel's"
            )
        guard = None if self.guard is None else self.guard.data
        if guard is not None and (guard.num_dims, guard.num_symbols) != (
            map.num_dims,
            map.num_symbols,
        ):
            raise VerifyException(
                f"the guard has {guard.num_dims} dimensions and {guard.num_symbols} symbols, the "
                f"map {map.num_dims} and {map.num_symbols}; give both the same"
            )
        self._verify_inside(kernel, memref, result, guard)

    def _verify_inside(
        self, kernel: KernelScope, memref: MemRefType, result: ValType, guard: AffineSet | None
    ) -> None:
        for position, (expr, extent) in enumerate(
            zip(self.map.data.results, memref.shape, strict=True)
        ):
            if isinstance(expr, AffineDimExpr) and result.shape[expr.position] == extent:
                continue
            if (fault := _outside(kernel, result, expr, extent, guard)) is not None:
                raise VerifyException(
                    f"UnguardedAccess: coordinate {position} of the read, {expr} over "
                    f"{axes_text(result.axes)}, {fault}; 0 to {extent} - 1 is inside: guard the "
                    "read (where affine_set<…> else fill) or change the map"
                )


def _outside(
    kernel: KernelScope, value: ValType, expr: AffineExpr, extent: Dim, guard: AffineSet | None
) -> str | None:
    """How coordinate ``expr`` may leave ``[0, extent)``; None when isl proves that it does not."""
    from polyc.affine.isl import IslLimitExceeded, sample_point

    symbols = kernel.symbol_names
    known = [] if guard is None else list(guard.constraints)
    known += symbol_space(symbols, kernel.facts).constraints
    for i, size in enumerate(value.shape):
        known.append(_at_least(AffineExpr.dimension(i), 0))
        # A size that multiplies symbols is beyond isl: its axis then has no upper bound here.
        if (bound := size.as_affine(symbols)) is not None:
            known.append(_at_least(bound - AffineExpr.dimension(i), 1))
    limit = extent.as_affine(symbols)
    if limit is None:
        return f"is {expr}, which isl cannot compare with {extent}, a product of symbols"
    for bad in (_at_least(-expr, 1), _at_least(expr - limit, 0)):
        points = AffineSet(len(value.axes), len(symbols), (*known, bad))
        try:
            sample = sample_point(points)
        except IslLimitExceeded as error:
            return f"is {expr}, of which {error}"
        if sample is not None:
            at, where = sample
            coordinate = expr.eval(list(at), list(where))
            axes = ", ".join(f"{n} = {v}" for n, v in zip(value.labels, at, strict=True))
            sizes = ", ".join(f"{n} = {v}" for n, v in zip(symbols, where, strict=True))
            return f"is {coordinate} at [{axes}] when {sizes or 'run'}, outside the tensor"
    return None


def _at_least(expr: AffineExpr, bound: int) -> AffineConstraintExpr:
    return AffineConstraintExpr(AffineConstraintKind.ge, expr, AffineConstantExpr(bound))


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A number, as a value with no axes."""

    name = "region.constant"

    value = prop_def(NumberAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, value: Number, element_type: Attribute) -> None:
        super().__init__(
            properties={"value": number_attr(value, element_type)},
            result_types=[ValType.of((), element_type)],
        )

    @property
    def number(self) -> Number:
        return number_of(self.value)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {number_text(self.number, self.value.type)}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        start = parser.pos
        number = parse_number(parser)
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pos = parser.pos
        result = parser.parse_type()
        if not isinstance(result, ValType) or result.element_type == i1:
            parser.raise_error(f"expected a !region.val of numbers, got {result}", pos)
        given = typed_number(parser, number, result.element_type, start)
        op = cls(number_of(given), result.element_type)
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        result = val_type(self.result)
        if len(result.axes):
            raise VerifyException(
                f"a constant has no axes, and its type has {axes_text(result.axes)}; broadcast it"
            )
        if result.element_type != self.value.type:
            raise VerifyException(f"a constant of {self.value.type} cannot have the type {result}")


@irdl_op_definition
class DimOp(IRDLOperation):
    """A size as a value with no axes, rounded to f32, or an integer that wraps in its type.

    ``region.dim M * K : !region.val<[], f32>``.
    """

    name = "region.dim"

    size_attr = prop_def(DimAttr, prop_name="size")
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, size: Dim, element_type: Attribute = f32) -> None:
        super().__init__(
            properties={"size": DimAttr(size)}, result_types=[ValType.of((), element_type)]
        )

    @property
    def size(self) -> Dim:
        """The expression of the kernel's symbols."""
        return self.size_attr.data

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.size}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> DimOp:
        op = cls(parse_dim(parser))
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        set_type(op, parser.parse_type())
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        result = self.result.type
        if len(result.axes) or not (result.element_type == f32 or is_integer(result.element_type)):
            raise VerifyException(f"a size is an f32 or an integer with no axes, not {result}")
        kernel = scope_of(self)
        if kernel is None:
            return
        for name in self.size.symbols():
            if name not in kernel.symbol_names:
                raise VerifyException(
                    f"the size {self.size} names {name}, which is not among the kernel's symbols "
                    f"[{', '.join(kernel.symbol_names)}]"
                )


@irdl_op_definition
class IndexOp(IRDLOperation):
    """An affine expression of the point's place on its axes, as an integer.

    ``region.index affine_map<(d0)[s0] -> (d0 * 2 + 1)> : !region.val<[n: N], i32>``: dimensions are
    the axes in order, symbols those of the kernel.  It wraps where it is beyond the type.
    """

    name = "region.index"

    map = prop_def(AffineMapAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())
    assembly_format = "$map attr-dict `:` type($result)"

    def __init__(self, map: AffineMap, axes: Iterable[AxisAttr], element_type: Attribute) -> None:
        super().__init__(
            properties={"map": AffineMapAttr(map)}, result_types=[ValType.of(axes, element_type)]
        )

    @property
    def expr(self) -> AffineExpr:
        """The expression."""
        return self.map.data.results[0]

    def verify_(self) -> None:
        result, map = val_type(self.result), self.map.data
        if not is_integer(result.element_type):
            raise VerifyException(f"an index is an integer, not {result.element_type}; cast it")
        if len(map.results) != 1 or map.num_dims != len(result.axes):
            raise VerifyException(
                f"the map of an index takes the {len(result.axes)} axes {axes_text(result.axes)} "
                f"and gives one number; it takes {map.num_dims} and gives {len(map.results)}"
            )
        if (operator := _not_quasi_affine(self.expr)) is not None:
            raise VerifyException(
                f"MissingDivGuard: the index has {operator} in {self.expr}; write it with floordiv "
                "(e mod q is e - q * (e floordiv q))"
            )
        kernel = scope_of(self)
        if kernel is not None and map.num_symbols != len(kernel.symbol_names):
            raise VerifyException(
                f"the map has {map.num_symbols} symbols and the kernel "
                f"{len(kernel.symbol_names)}, [{', '.join(kernel.symbol_names)}]; align it to the "
                "kernel's"
            )


@irdl_op_definition
class InsideOp(IRDLOperation):
    """Whether a point of the result's axes is in an affine set, as i1 (S6.4, S6.7).

    ``region.inside affine_set<(d0, d1)[s0] : (d0 - d1 >= 0)> : !region.val<[m: M, n: N], i1>``:
    dimensions are the axes in order, symbols those of the kernel.
    """

    name = "region.inside"

    set = prop_def(AffineSetAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, points: AffineSet, axes: Iterable[AxisAttr]) -> None:
        super().__init__(
            properties={"set": AffineSetAttr(points)},
            result_types=[ValType.of(axes, IntegerType(1))],
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.set)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> InsideOp:
        pos = parser.pos
        points = parser.parse_attribute()
        if not isinstance(points, AffineSetAttr):
            parser.raise_error(f"expected an affine_set, got {points}", pos)
        extra = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        pos = parser.pos
        result = parser.parse_type()
        if not isinstance(result, ValType):
            parser.raise_error(f"expected a !region.val of i1, got {result}", pos)
        op = cls(points.data, result.axes)
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        result, points = val_type(self.result), self.set.data
        if result.element_type != IntegerType(1):
            raise VerifyException(f"whether a point is inside is an i1, not {result.element_type}")
        if points.num_dims != len(result.axes):
            raise VerifyException(
                f"the set has {points.num_dims} dimensions and the value {len(result.axes)} axes, "
                f"{axes_text(result.axes)}; give one dimension an axis"
            )
        kernel = scope_of(self)
        if kernel is not None and points.num_symbols != len(kernel.symbol_names):
            raise VerifyException(
                f"the set has {points.num_symbols} symbols and the kernel "
                f"{len(kernel.symbol_names)}, [{', '.join(kernel.symbol_names)}]; align it to the "
                "kernel's"
            )
