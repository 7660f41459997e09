"""What the ops of the ``region`` dialect share: text, function names, the kernel around."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    IntegerType,
    StringAttr,
    i64,
)
from xdsl.ir import (
    Attribute,
    Operation,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    prop_def,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim, parse_constant
from polyc.dialects.common.elements import COMPARE, Functions, is_integer
from polyc.dialects.common.signature import sizes_equal
from polyc.dialects.region.types import (
    AxisAttr,
    ValType,
)
from polyc.dialects.tiny import BINARY, UNARY

UNARY_FNS = UNARY
"""Functions of one value; ``docs/semantics.md`` says what each means."""

BINARY_FNS = BINARY
"""Functions of two values of the same type, to that type."""

COMPARE_FNS = COMPARE
"""Relations of two values of the same type, to i1."""

REDUCE_FNS = ("sum", "prod", "max", "min")
"""Reductions; ``NEUTRAL`` holds what each gives over nothing."""

NEUTRAL: dict[str, float] = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
"""What a reduction of real numbers gives over nothing; ``neutral`` says it of every type."""

MATERIALIZE = ("gmem", "deferred")
"""Where an output goes: global memory, or straight to the kernel that reads it."""


OpT = TypeVar("OpT", bound=IRDLOperation)


# Small pieces of text ------------------------------------------------------------------


def ints_of(values: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    return tuple(values.get_values())


def set_type(op: IRDLOperation, result: Attribute) -> None:
    """Give a freshly parsed op the result type that its text says, for the verifier to judge."""
    Rewriter.replace_value_with_new_type(op.results[0], result)


def parse_ints(parser: AttrParser) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(
        i64,
        parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_constant(parser, "the position of an axis")
        ),
    )


def print_types(
    printer: Printer, operands: Sequence[SSAValue], result: Attribute, short: bool = False
) -> None:
    """`` : T`` when ``short`` and all types are equal, else `` : T, … -> T``."""
    printer.print_string(" : ")
    if not short or any(o.type != result for o in operands):
        printer.print_list(operands, lambda o: printer.print_attribute(o.type))
        printer.print_string(" -> ")
    printer.print_attribute(result)


def parse_types(
    parser: Parser, operands: Sequence[UnresolvedOperand], short: bool = False
) -> tuple[Sequence[SSAValue], Attribute]:
    """What ``print_types`` prints, with the operands resolved."""
    parser.parse_punctuation(":")
    pos = parser.pos
    types: list[Attribute] = parser.parse_comma_separated_list(
        parser.Delimiter.NONE, parser.parse_type
    )
    if parser.parse_optional_punctuation("->") is not None:
        result: Attribute = parser.parse_type()
    elif short and len(types) == 1:
        result = types[0]
        types = types * len(operands)
    else:
        parser.raise_error("expected -> and the result type")
    return parser.resolve_operands(operands, types, pos), result


def parse_fn(parser: Parser, names: Sequence[str]) -> StringAttr:
    pos = parser.pos
    found = parser.parse_identifier(f", one of {', '.join(names)}")
    if found not in names:
        parser.raise_error(f"unknown function {found}; it is one of {', '.join(names)}", pos)
    return StringAttr(found)


def number_type(parser: AttrParser) -> Attribute:
    pos = parser.pos
    found = parser.parse_type()
    if not isinstance(found, AnyFloat) and not is_integer(found):
        parser.raise_error(f"expected a float or integer type, got {found}", pos)
    return found


def check_fn(op: Operation, fn: str, names: Sequence[str]) -> None:
    if fn not in names:
        raise VerifyException(f"{op.name}: unknown function {fn}; it is one of {', '.join(names)}")


def check_function(op: Operation, fn: str, functions: Functions) -> None:
    """Check that the op has a function, and that it is one of its operands' element type."""
    check_fn(op, fn, functions.names)
    operand = op.operands[0].type
    if isinstance(operand, ValType):
        fault = functions.fault(fn, operand.element_type)
        if fault is not None:
            raise VerifyException(f"{op.name}: {fault}")


# The kernel around an op ---------------------------------------------------------------


class KernelScope(IRDLOperation, ABC):
    """What an op of a kernel's body may ask of the kernel around it."""

    symbols = prop_def(ArrayAttr[StringAttr])
    assumptions = prop_def(AssumptionsAttr)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The size names, in the order in which every affine map has them."""
        return tuple(s.data for s in self.symbols)

    @property
    def facts(self) -> tuple[Assumption, ...]:
        """The assumptions about the kernel's symbols."""
        known = set(self.symbol_names)
        return tuple(f for f in self.assumptions.data if known.issuperset(f.expr.symbols()))

    def same_size(self, a: Dim, b: Dim) -> bool:
        """Whether two sizes are equal wherever the kernel's assumptions hold (S2.3)."""
        return sizes_equal(a, b, self.symbol_names, self.facts)


def scope_of(op: Operation) -> KernelScope | None:
    """The kernel around ``op``, or None."""
    around = op.parent_op()
    while around is not None and not isinstance(around, KernelScope):
        around = around.parent_op()
    return around


def same_size(op: Operation, a: Dim, b: Dim) -> bool:
    if a == b:
        return True
    kernel = scope_of(op)
    return kernel is not None and kernel.same_size(a, b)


def axes_together(op: Operation, values: Iterable[ValType]) -> dict[str, AxisAttr]:
    """The axes of several values by name, each once; raises VerifyException if sizes differ."""
    found: dict[str, AxisAttr] = {}
    for value in values:
        for axis in value.axes:
            known = found.setdefault(axis.label, axis)
            if not same_size(op, known.size, axis.size):
                raise VerifyException(
                    f"axis {axis.label} has {known.size} points and {axis.size}; it is one axis"
                )
    return found


def has_axes(op: Operation, value: ValType, wanted: Mapping[str, AxisAttr]) -> bool:
    """Whether a value has exactly the axes of ``wanted``, in any order."""
    have = {a.label: a for a in value.axes}
    return have.keys() == wanted.keys() and all(
        same_size(op, have[label].size, axis.size) for label, axis in wanted.items()
    )


def same_axes(op: Operation, a: ValType, b: ValType) -> bool:
    return a.labels == b.labels and all(
        same_size(op, x, y) for x, y in zip(a.shape, b.shape, strict=True)
    )


def behind(values: Iterable[SSAValue]) -> list[Operation]:
    """The ops that values are made by, reductions' operands included."""
    found: dict[Operation, None] = {}
    work = list(values)
    while work:
        op = work.pop().owner
        if isinstance(op, Operation) and op not in found:
            found[op] = None
            work += op.operands
    return list(found)
