"""Ops of the ``region`` dialect that give, move and take axes; see ``polyc.dialects.region``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    StringAttr,
    f32,
    i1,
    i64,
)
from xdsl.ir import (
    Attribute,
    Operation,
    SSAValue,
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

from polyc.dialects.common import precision as precisions
from polyc.dialects.common.elements import (
    Number,
    NumberAttr,
    accumulation,
    is_integer,
    neutral,
    number_attr,
    number_of,
    ui64,
)
from polyc.dialects.common.numbers import number_text, parse_number, typed_number
from polyc.dialects.region.scope import (
    REDUCE_FNS,
    OpT,
    check_fn,
    ints_of,
    number_type,
    parse_fn,
    parse_ints,
    parse_types,
    print_types,
    same_size,
    set_type,
)
from polyc.dialects.region.types import (
    AxisAttr,
    ValType,
    axes_text,
    check_element,
    val_type,
)

# Axes ----------------------------------------------------------------------------------


@irdl_op_definition
class BroadcastInDimOp(IRDLOperation):
    """The operand repeated along new axes; nothing is stored (S6.3).

    ``dims[i]`` is the position in the result of the operand's axis ``i``; that axis keeps
    its name and size.  Axes of the result that no entry names are new.  The entries need
    not rise: ``b[n, k]`` in ``[m, k, n]`` has dims ``[2, 1]``.
    """

    name = "region.broadcast_in_dim"

    operand = operand_def(ValType)
    dims = prop_def(DenseArrayBase.constr(i64))
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, dims: Sequence[int], axes: Iterable[AxisAttr]) -> None:
        super().__init__(
            operands=[operand],
            properties={"dims": DenseArrayBase.from_list(i64, list(dims))},
            result_types=[ValType.of(axes, cast(ValType, operand.type).element_type)],
        )

    @property
    def positions(self) -> tuple[int, ...]:
        """For each operand axis, its position in the result."""
        return ints_of(self.dims)

    def print(self, printer: Printer) -> None:
        _print_axes_op(self, printer, "dims", self.positions)

    @classmethod
    def parse(cls, parser: Parser) -> BroadcastInDimOp:
        return _parse_axes_op(parser, "dims", lambda o, ints, axes: cls(o, ints, axes))

    def verify_(self) -> None:
        operand, result = val_type(self.operand), val_type(self.result)
        positions = self.positions
        if len(positions) != len(operand.axes):
            raise VerifyException(
                f"dims {list(positions)} has {len(positions)} entries and the operand "
                f"{len(operand.axes)} axes {axes_text(operand.axes)}; give one each"
            )
        if len(set(positions)) != len(positions) or any(
            not 0 <= p < len(result.axes) for p in positions
        ):
            raise VerifyException(
                f"dims {list(positions)} is not a choice of distinct positions of "
                f"{axes_text(result.axes)}"
            )
        _check_element_kept(self, operand, result)
        for axis, position in zip(operand.axes, positions, strict=True):
            _check_aligned(self, axis, result.axes.data[position])


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """The operand with its axes in another order; nothing is moved (S6.3).

    Axis ``i`` of the result is axis ``perm[i]`` of the operand.
    """

    name = "region.transpose"

    operand = operand_def(ValType)
    perm = prop_def(DenseArrayBase.constr(i64))
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, perm: Sequence[int]) -> None:
        source = cast(ValType, operand.type)
        axes = source.axes.data
        kept = [axes[p] for p in perm if 0 <= p < len(axes)]
        super().__init__(
            operands=[operand],
            properties={"perm": DenseArrayBase.from_list(i64, list(perm))},
            result_types=[ValType.of(dict.fromkeys(kept), source.element_type)],
        )

    @property
    def permutation(self) -> tuple[int, ...]:
        """For each result axis, its position in the operand."""
        return ints_of(self.perm)

    def print(self, printer: Printer) -> None:
        _print_axes_op(self, printer, "perm", self.permutation)

    @classmethod
    def parse(cls, parser: Parser) -> TransposeOp:
        return _parse_axes_op(parser, "perm", lambda o, ints, _: cls(o, ints))

    def verify_(self) -> None:
        operand, result = val_type(self.operand), val_type(self.result)
        perm = self.permutation
        if sorted(perm) != list(range(len(operand.axes))) or len(result.axes) != len(perm):
            raise VerifyException(
                f"perm {list(perm)} is not a permutation of the axes {axes_text(operand.axes)}"
            )
        _check_element_kept(self, operand, result)
        for axis, position in zip(result.axes, perm, strict=True):
            _check_aligned(self, operand.axes.data[position], axis)


def _check_element_kept(op: Operation, operand: ValType, result: ValType) -> None:
    if operand.element_type != result.element_type:
        raise VerifyException(
            f"{op.name} keeps the element type {operand.element_type}, and its result has "
            f"{result.element_type}; convert with region.cast"
        )


def _check_aligned(op: Operation, source: AxisAttr, target: AxisAttr) -> None:
    if source.label != target.label or not same_size(op, source.size, target.size):
        raise VerifyException(
            f"AxisAlignmentMismatch: {op.name} puts the operand's axis {source} on the result's "
            f"axis {target}; name and size stay the same"
        )


def _print_axes_op(op: IRDLOperation, printer: Printer, word: str, ints: Sequence[int]) -> None:
    printer.print_string(" ")
    printer.print_operand(op.operands[0])
    printer.print_string(f" {word} {list(ints)}")
    printer.print_op_attributes(op.attributes)
    print_types(printer, op.operands, op.results[0].type)


def _parse_axes_op(
    parser: Parser,
    word: str,
    build: Callable[[SSAValue, tuple[int, ...], ArrayAttr[AxisAttr]], OpT],
) -> OpT:
    unresolved = parser.parse_unresolved_operand()
    parser.parse_keyword(word)
    ints = ints_of(parse_ints(parser))
    extra = parser.parse_optional_attr_dict()
    pos = parser.pos
    operands, result = parse_types(parser, [unresolved])
    for found in (operands[0].type, result):
        if not isinstance(found, ValType):
            parser.raise_error(f"expected a !region.val, got {found}", pos)
    op = build(operands[0], ints, cast(ValType, result).axes)
    set_type(op, result)
    op.attributes |= extra
    return op


# Reduction -----------------------------------------------------------------------------


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """``fn`` over some axes of the operand, which the result lacks.

    ``init`` is the neutral value of ``fn`` (sum 0, max -inf or the least integer, min +inf or the
    most) and what a reduction over nothing gives.  ``acc`` is the type in which it accumulates,
    and the result's element type; without it that is the operand's.  ``name`` is how a plan
    speaks of the reduction (S6.7).  ``precision`` says of a sum how precise its terms have to be,
    where they are products (docs/semantics.md, *Precision*).
    """

    name = "region.reduce"

    fn = prop_def(StringAttr)
    operand = operand_def(ValType)
    axes = prop_def(ArrayAttr[StringAttr])
    init = prop_def(NumberAttr)
    acc = opt_prop_def(Attribute)
    label_attr = opt_prop_def(StringAttr, prop_name="label")
    precision = opt_prop_def(StringAttr)
    result = result_def(ValType)

    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        operand: SSAValue,
        axes: Sequence[str],
        *,
        init: Number | None = None,
        acc: Attribute | None = None,
        label: str | None = None,
        precision: StringAttr | None = None,
    ) -> None:
        source = cast(ValType, operand.type)
        element = acc or source.element_type
        start = neutral(fn, element) if init is None else init
        super().__init__(
            operands=[operand],
            properties={
                "fn": StringAttr(fn),
                "axes": ArrayAttr(StringAttr(a) for a in axes),
                "init": number_attr(start, element),
                "acc": acc,
                "label": None if label is None else StringAttr(label),
                "precision": precision,
            },
            result_types=[ValType.of((a for a in source.axes if a.label not in axes), element)],
        )

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the reduced axes."""
        return tuple(a.data for a in self.axes)

    @property
    def accumulator(self) -> Attribute:
        """The element type in which it accumulates."""
        return self.result.type.element_type

    @property
    def accumulates_in(self) -> Attribute:
        """The type in which kernels do: one that is as good, and that threads compute in."""
        return accumulation(self.fn.data, self.accumulator)

    @property
    def is_shared(self) -> bool:
        """Whether threads may part it and bring together what they have.

        That is done in f32, i32 and i64, not for the largest or smallest of ui64, which has no
        sign; a sum in a narrower float type keeps its order.
        """
        if is_integer(self.accumulator):
            return self.accumulator != ui64 or self.fn.data in ("sum", "prod")
        return self.fn.data != "sum" or self.accumulator == f32

    @property
    def label(self) -> str | None:
        """The reduction's own name."""
        return None if self.label_attr is None else self.label_attr.data

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.fn.data} ")
        printer.print_operand(self.operand)
        init = number_text(number_of(self.init), self.init.type)
        printer.print_string(f" over [{', '.join(self.labels)}] init {init}")
        if self.acc is not None:
            printer.print_string(" acc ")
            printer.print_attribute(self.acc)
        if self.label is not None:
            printer.print_string(" name ")
            printer.print_string_literal(self.label)
        precisions.print_precision(printer, self.precision)
        printer.print_op_attributes(self.attributes)
        print_types(printer, [self.operand], self.result.type)

    @classmethod
    def parse(cls, parser: Parser) -> ReduceOp:
        fn = parse_fn(parser, REDUCE_FNS).data
        unresolved = parser.parse_unresolved_operand()
        parser.parse_keyword("over")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier)
        parser.parse_keyword("init")
        start = parser.pos
        init = parse_number(parser)
        acc = number_type(parser) if parser.parse_optional_keyword("acc") is not None else None
        label: str | None = None
        if parser.parse_optional_keyword("name") is not None:
            label = parser.parse_str_literal()
        precision = precisions.parse(parser)
        extra = parser.parse_optional_attr_dict()
        pos = parser.pos
        operands, result = parse_types(parser, [unresolved])
        source = operands[0].type
        if not isinstance(source, ValType) or source.element_type == i1:
            parser.raise_error(f"expected a !region.val of numbers, got {source}", pos)
        given = typed_number(parser, init, acc or source.element_type, start)
        op = cls(
            fn, operands[0], axes, init=number_of(given), acc=acc, label=label, precision=precision
        )
        set_type(op, result)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        check_fn(self, self.fn.data, REDUCE_FNS)
        precisions.need_sum(self.fn.data, self.precision)
        operand, result = val_type(self.operand), val_type(self.result)
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise VerifyException(
                f"a reduction is over one or more distinct axes, not over "
                f"[{', '.join(self.labels)}]"
            )
        for label in self.labels:
            if operand.axis(label) is None:
                raise VerifyException(
                    f"the reduction is over {label}, and its operand has the axes "
                    f"{axes_text(operand.axes)}; name axes of the operand"
                )
        self._verify_accumulator(operand)
        element = operand.element_type if self.acc is None else self.acc
        expected = ValType.of((a for a in operand.axes if a.label not in self.labels), element)
        if result != expected:
            raise VerifyException(f"the reduction gives {expected}, not {result}")

    def _verify_accumulator(self, operand: ValType) -> None:
        element = operand.element_type
        if element == i1:
            raise VerifyException(f"a reduction of {element} is not there")
        if self.acc is not None:
            check_element(self.acc)
            if is_integer(self.acc) != is_integer(element):
                raise VerifyException(
                    f"a reduction of {element} does not accumulate in {self.acc}; convert the "
                    "operand with region.cast"
                )
        fn = self.fn.data
        whole = is_integer(element)
        if fn == "prod" and self.accumulator != f32 and not whole:
            raise VerifyException(
                f"AccDtypeMissing: a prod accumulates in f32, not in {self.accumulator}; write "
                "acc f32"
            )
        if fn == "sum" and self.acc is None and element != f32 and not whole:
            raise VerifyException(
                f"AccDtypeMissing: a sum of {element} does not say what it accumulates in; write "
                "acc f32"
            )
        wanted, init = neutral(fn, self.acc or element), number_of(self.init)
        if init != wanted or math.copysign(1.0, init) != math.copysign(1.0, wanted):
            raise VerifyException(
                f"NeutralInvalid: init of a {fn} is {number_text(wanted)}, what it gives over "
                f"nothing, not {number_text(init, self.init.type)}; another number in its place "
                "changes the result"
            )
