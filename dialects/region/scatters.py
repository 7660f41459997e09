"""``region.scatter``: values combined where indices say so; see ``polyc.dialects.region``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr, f32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.gathers import SCATTERS
from polyc.dialects.region.scope import (
    axes_together,
    check_fn,
    has_axes,
    parse_fn,
    parse_types,
    print_types,
    set_type,
)
from polyc.dialects.region.types import AxisAttr, ValType, axes_text, val_type


@irdl_op_definition
class ScatterOp(IRDLOperation):
    """A value with updates combined into it, of those points of ``over`` whose indices are the
    places of the result's point (S4.5).

    ``region.scatter add %x, %u where [%i is %p] over [n] : !region.val<[v: V, d: D], f32>,
    !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> ->
    !region.val<[v: V, d: D], f32>``: at ``(v, d)`` it is ``x`` with each ``u(n, d)`` added of which
    ``i(n)`` is ``p(v)``, in the order of ``n``; the first of several axes is the outermost.  With
    several pairs all of them are equal.  ``set`` takes the last update.
    """

    name = "region.scatter"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    fn = prop_def(StringAttr)
    operand = operand_def(ValType)
    updates = operand_def(ValType)
    indices = var_operand_def(ValType)
    places = var_operand_def(ValType)
    over = prop_def(ArrayAttr[StringAttr])
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        updates: SSAValue,
        pairs: Sequence[tuple[SSAValue, SSAValue]],
        over: Sequence[str],
        axes: Iterable[AxisAttr],
    ) -> None:
        """``pairs`` are indices, each with its place; ``axes`` are the result's."""
        super().__init__(
            operands=[operand, updates, [i for i, _ in pairs], [p for _, p in pairs]],
            properties={"fn": StringAttr(fn), "over": ArrayAttr(map(StringAttr, over))},
            result_types=[ValType.of(axes, cast(ValType, operand.type).element_type)],
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The axes whose points have the updates."""
        return tuple(a.data for a in self.over)

    @property
    def pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """The indices, each with the place that it is compared with."""
        return list(zip(self.indices, self.places, strict=True))

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.fn.data} ")
        printer.print_list([self.operand, self.updates], printer.print_operand)
        printer.print_string(" where [")
        for number, (index, place) in enumerate(self.pairs):
            printer.print_string(", " if number else "")
            printer.print_operand(index)
            printer.print_string(" is ")
            printer.print_operand(place)
        printer.print_string(f"] over [{', '.join(self.labels)}]")
        printer.print_op_attributes(self.attributes)
        print_types(printer, self.operands, self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ScatterOp:
        fn = parse_fn(parser, SCATTERS).data
        names = [parser.parse_unresolved_operand()]
        parser.parse_punctuation(",")
        names.append(parser.parse_unresolved_operand())
        parser.parse_keyword("where")

        def pair() -> tuple[UnresolvedOperand, UnresolvedOperand]:
            index = parser.parse_unresolved_operand()
            parser.parse_keyword("is")
            return index, parser.parse_unresolved_operand()

        pairs = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, pair)
        parser.parse_keyword("over")
        over = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parser.parse_identifier(", an axis of the updates")
        )
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        names += [index for index, _ in pairs] + [place for _, place in pairs]
        operands, result = parse_types(parser, names)
        for kind in (*(value.type for value in operands), result):
            if not isinstance(kind, ValType):
                parser.raise_error(f"expected !region.val types, got {kind}", pos)
        assert isinstance(result, ValType)
        operand, updates, *rest = operands
        count = len(pairs)
        both = list(zip(rest[:count], rest[count:], strict=True))
        op = cls(fn, operand, updates, both, over, result.axes)
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        check_fn(self, self.fn.data, SCATTERS)
        source, updates, result = (val_type(v) for v in (self.operand, self.updates, self.result))
        labels = self.labels
        if not (source.element_type == f32 or is_integer(source.element_type)):
            raise VerifyException(
                f"a scatter combines in f32 or an integer type, not {source.element_type}"
            )
        if not source.element_type == updates.element_type == result.element_type:
            raise VerifyException(
                f"a scatter has one element type, not {source.element_type}, "
                f"{updates.element_type} and {result.element_type}; convert with region.cast"
            )
        if not labels or len(set(labels)) != len(labels):
            raise VerifyException(f"a scatter is over different axes, not [{', '.join(labels)}]")
        if not self.indices or len(self.indices) != len(self.places):
            raise VerifyException("a scatter compares one index or more, each with a place")
        for value in (*self.indices, *self.places):
            if not is_integer(val_type(value).element_type):
                raise VerifyException(
                    f"the indices and places of a scatter are integers, not {val_type(value)}"
                )
        for what, value in (
            ("what a scatter updates", self.operand),
            *(("a place of a scatter", p) for p in self.places),
        ):
            for label in labels:
                if val_type(value).axis(label) is not None:
                    raise VerifyException(f"{what} depends on {label}, which the updates are over")
        wanted = axes_together(self, [val_type(value) for value in self.operands])
        for label in labels:
            if wanted.pop(label, None) is None:
                raise VerifyException(f"a scatter over {label}, which no update or index has")
        if not has_axes(self, result, wanted):
            raise VerifyException(
                f"a scatter has the axes of its operands without those that it is over, "
                f"{axes_text(list(wanted.values()))}, not {axes_text(result.axes)}"
            )
