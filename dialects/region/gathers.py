"""``region.gather``: values at places that are data; see ``polyc.dialects.region``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.elements import Number, is_integer
from polyc.dialects.common.gathers import (
    fill_number,
    outside,
    outside_of,
    parse_outside,
    print_outside,
    verify_fill,
)
from polyc.dialects.common.numbers import PlainAttr
from polyc.dialects.region.scope import (
    axes_together,
    has_axes,
    parse_types,
    print_types,
    set_type,
)
from polyc.dialects.region.types import AxisAttr, ValType, axes_text, val_type


@irdl_op_definition
class GatherOp(IRDLOperation):
    """A value at the places along some of its axes that indices say, one index an axis (S4.5).

    ``region.gather %x at [%i] along [v] clamp : !region.val<[v: V, d: D], f16>,
    !region.val<[n: N], i64> -> !region.val<[n: N, d: D], f16>``: at ``(n, d)`` it is ``x`` at
    ``v = i(n)``.  The result has the other axes of the operand and those of the indices.  An index
    outside of its axis is that of the nearest place with ``clamp``, and the result the number with
    ``fill 0.0``; along an axis without places it is 0, or the fill.
    """

    name = "region.gather"

    operand = operand_def(ValType)
    indices = var_operand_def(ValType)
    along = prop_def(ArrayAttr[StringAttr])
    fill = opt_prop_def(PlainAttr, prop_name="value")
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        operand: SSAValue,
        indices: Sequence[SSAValue],
        along: Sequence[str],
        axes: Iterable[AxisAttr],
        fill: Number | None = None,
    ) -> None:
        """``axes`` are the result's; ``fill`` None clamps."""
        element = cast(ValType, operand.type).element_type
        super().__init__(
            operands=[operand, list(indices)],
            properties={
                "along": ArrayAttr(map(StringAttr, along)),
                "value": outside(fill, element),
            },
            result_types=[ValType.of(axes, element)],
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The axes of the operand that indices are along."""
        return tuple(a.data for a in self.along)

    @property
    def number(self) -> Number | None:
        """What is outside; None where places are clamped."""
        return fill_number(self)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.operand)
        printer.print_string(" at [")
        printer.print_list(self.indices, printer.print_operand)
        printer.print_string(f"] along [{', '.join(self.labels)}]")
        print_outside(printer, self.fill)
        printer.print_op_attributes(self.attributes)
        print_types(printer, self.operands, self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> GatherOp:
        names = [parser.parse_unresolved_operand()]
        parser.parse_keyword("at")
        names += parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_unresolved_operand
        )
        parser.parse_keyword("along")
        along = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_identifier(", an axis of the operand")
        )
        fill = parse_outside(parser)
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        operands, result = parse_types(parser, names)
        for kind in (operands[0].type, result):
            if not isinstance(kind, ValType):
                parser.raise_error(f"expected !region.val types, got {kind}", pos)
        assert isinstance(operands[0].type, ValType) and isinstance(result, ValType)
        op = cls(operands[0], operands[1:], along, result.axes)
        fill = outside_of(fill, operands[0].type.element_type)
        if fill is not None:
            op.properties["value"] = fill
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        source, result = val_type(self.operand), val_type(self.result)
        indices = [val_type(index) for index in self.indices]
        labels = self.labels
        if result.element_type != source.element_type:
            raise VerifyException(
                f"a gather of {source.element_type} gives that, not {result.element_type}; "
                "convert with region.cast"
            )
        if not labels or len(set(labels)) != len(labels):
            raise VerifyException(f"a gather is along different axes, not [{', '.join(labels)}]")
        if len(indices) != len(labels):
            raise VerifyException(
                f"a gather along {len(labels)} axes has {len(indices)} indices; give one each"
            )
        for label in labels:
            if source.axis(label) is None:
                raise VerifyException(
                    f"a gather along {label}, which is no axis of {axes_text(source.axes)}"
                )
            if any(i.axis(label) is not None for i in indices):
                raise VerifyException(
                    f"an index of a gather depends on {label}, whose place it is to say"
                )
        for index in indices:
            if not is_integer(index.element_type):
                raise VerifyException(
                    f"the indices of a gather are of an integer type, not {index.element_type}; "
                    "convert with region.cast"
                )
        kept = ValType.of([a for a in source.axes if a.label not in labels], source.element_type)
        wanted = axes_together(self, [kept, *indices])
        if not has_axes(self, result, wanted):
            raise VerifyException(
                f"a gather has the other axes of its operand and those of its indices, "
                f"{axes_text(list(wanted.values()))}, not {axes_text(result.axes)}"
            )
        verify_fill("a gather", self, source.element_type)
