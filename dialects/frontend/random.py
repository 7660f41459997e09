"""Random numbers of ``frontend``, each a function of its place and a seed (S12.6)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping

from xdsl.dialects.builtin import Float32Type, FloatAttr, StringAttr, bf16, f16, f32, i1
from xdsl.ir import Attribute, SSAValue
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

from polyc.dialects.common.elements import is_integer, ui32
from polyc.dialects.common.numbers import number_text, parse_f32
from polyc.dialects.common.signature import verify_symbols
from polyc.dialects.frontend.types import (
    TensorType,
    need_element,
    need_float,
    need_shape,
    parse_typed,
    parse_values,
    print_typed,
    tensor_of,
)

UNIFORM_BITS: Mapping[Attribute, int] = {f16: 11, bf16: 8, f32: 24}
"""The bits of a uniform number of each type: as many as it holds of every number below 1."""

WORD = 32
"""The bits of a random word."""

DISTRIBUTIONS: Mapping[str, tuple[Attribute, ...]] = {
    "bernoulli": (i1,),
    "bits": (ui32,),
    "normal": (f16, bf16, f32),
    "uniform": (f16, bf16, f32),
}
"""Distributions of ``frontend.random``, and the element types that each has."""


def chances(p: float) -> int:
    """How many of the 2³² words stand for a condition that holds with a chance of ``p``."""
    return round(p * 2.0**WORD)


class SeededOp(IRDLOperation, ABC):
    """An op whose random numbers come of a seed and an offset, integers of rank 0.

    The number of an element comes of the seed and its place in row-major order plus the offset,
    and of nothing else: docs/semantics.md says how.
    """

    def _verify_seed(self, seed: SSAValue, offset: SSAValue) -> None:
        verify_symbols(self)
        for what, value in (("seed", seed), ("offset", offset)):
            kind = tensor_of(value)
            if kind.rank or not is_integer(kind.element_type):
                raise VerifyException(
                    f"the {what} of {self.name} is an integer of rank 0, not {kind}; add a "
                    "frontend.reshape or a frontend.cast"
                )


def chance_fault(what: str, p: float) -> str | None:
    """What is wrong with a chance, or None."""
    if 0 <= p <= 1:
        return None
    return f"the p of {what} is a chance from 0 to 1, not {number_text(p)}"


@irdl_op_definition
class RandomOp(SeededOp):
    """A tensor of random numbers, ``frontend.random uniform %seed, %offset : (…) -> [M, N], f16``.

    ``bits`` are words of ui32; ``uniform`` numbers are 0 or more and below 1; ``normal`` ones have
    mean 0 and variance 1; ``bernoulli %seed, %offset p 0.25`` is a condition that holds with a
    chance of p, an f32.  Element e is made of the random number at place e plus the offset, under
    the seed: the same in every kernel, on every device.
    """

    name = "frontend.random"
    fn = prop_def(StringAttr)
    seed = operand_def(TensorType)
    offset = operand_def(TensorType)
    p_attr = opt_prop_def(FloatAttr[Float32Type], prop_name="p")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(
        self,
        fn: str,
        seed: SSAValue,
        offset: SSAValue,
        result_type: TensorType,
        p: float | None = None,
    ) -> None:
        """``p`` is of ``bernoulli`` alone."""
        super().__init__(
            operands=[seed, offset],
            result_types=[result_type],
            properties={"fn": StringAttr(fn), "p": None if p is None else FloatAttr(p, f32)},
        )

    @property
    def distribution(self) -> str:
        """One of ``DISTRIBUTIONS``."""
        return self.fn.data

    @property
    def p(self) -> float | None:
        """The chance of a condition."""
        return None if self.p_attr is None else float(self.p_attr.value.data)

    @staticmethod
    def fault(fn: str) -> str | None:
        """What is wrong with the name of a distribution, or None."""
        if fn in DISTRIBUTIONS:
            return None
        return f"{fn} is no distribution of frontend.random; there are {', '.join(DISTRIBUTIONS)}"

    def verify_(self) -> None:
        fn = self.distribution
        if (fault := self.fault(fn)) is not None:
            raise VerifyException(fault)
        self._verify_seed(self.seed, self.offset)
        element = tensor_of(self.result).element_type
        if element not in (kinds := DISTRIBUTIONS[fn]):
            raise VerifyException(
                f"{fn} numbers are {' or '.join(map(str, kinds))}, not {element}; add a "
                "frontend.cast"
            )
        if (self.p is None) == (fn == "bernoulli"):
            raise VerifyException(
                "bernoulli has its chance, as in p 0.5"
                if self.p is None
                else f"{fn} has no p; bernoulli has one"
            )
        if self.p is not None and (fault := chance_fault(fn, self.p)) is not None:
            raise VerifyException(fault)

    @classmethod
    def parse(cls, parser: Parser) -> RandomOp:
        start = parser.pos
        fn = parser.parse_identifier("a distribution")
        if (fault := cls.fault(fn)) is not None:
            parser.raise_error(fault, start, parser.pos)
        properties: dict[str, Attribute] = {"fn": StringAttr(fn)}
        values = parse_values(parser)
        if parser.parse_optional_keyword("p") is not None:
            properties["p"] = FloatAttr(parse_f32(parser), f32)
        args, results, attributes = parse_typed(parser, values)
        return cls.create(
            operands=args, result_types=results, properties=properties, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.distribution} ")
        printer.print_list(self.operands, printer.print_operand)
        if self.p is not None:
            printer.print_string(f" p {number_text(self.p)}")
        print_typed(printer, self, {})


@irdl_op_definition
class DropoutOp(SeededOp):
    """``x / (1 - p)`` where it is kept, with a chance of 1 - p, and 0 elsewhere (S12.6).

    ``frontend.dropout %x, %seed, %offset p 0.1 : (…) -> type``.  Element e is kept where a
    ``frontend.random bernoulli`` of 1 - p holds at e, of the same seed and offset.  What is dropped
    is 0, NaN and infinities too.
    """

    name = "frontend.dropout"
    operand = operand_def(TensorType)
    seed = operand_def(TensorType)
    offset = operand_def(TensorType)
    p_attr = prop_def(FloatAttr[Float32Type], prop_name="p")
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, seed: SSAValue, offset: SSAValue, p: float) -> None:
        """``p`` is the chance of being dropped."""
        super().__init__(
            operands=[operand, seed, offset],
            result_types=[operand.type],
            properties={"p": FloatAttr(p, f32)},
        )

    @property
    def p(self) -> float:
        """The chance of an element to be dropped."""
        return float(self.p_attr.value.data)

    @property
    def scale(self) -> float:
        """What is kept is multiplied by this; 1 where nothing is kept."""
        return 1.0 if self.p == 1 else 1 / (1 - self.p)

    def verify_(self) -> None:
        self._verify_seed(self.seed, self.offset)
        need_float("dropout", (self.operand,))
        need_element("the result of a dropout", self.result, tensor_of(self.operand).element_type)
        need_shape(self, "the result of a dropout", self.result, tensor_of(self.operand).dims)
        if (fault := chance_fault("dropout", self.p)) is not None:
            raise VerifyException(fault)

    @classmethod
    def parse(cls, parser: Parser) -> DropoutOp:
        values = parse_values(parser)
        parser.parse_keyword("p")
        p = FloatAttr(parse_f32(parser), f32)
        args, results, attributes = parse_typed(parser, values)
        return cls.create(
            operands=args, result_types=results, properties={"p": p}, attributes=attributes
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" p {number_text(self.p)}")
        print_typed(printer, self, {})
