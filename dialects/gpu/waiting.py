"""Types of what a kernel waits for: mbarriers, slots of rings, asynchronous ops and turns."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntAttr
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


@irdl_attr_definition
class MBarrierType(ParametrizedAttribute, TypeAttribute):
    """An array of mbarriers in shared memory: ``!gpu.mbarrier<4>``, eight bytes each."""

    name = "gpu.mbarrier"
    count: IntAttr

    @staticmethod
    def of(count: int) -> MBarrierType:
        return MBarrierType(IntAttr(count))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.count.data}>")

    def verify(self) -> None:
        if self.count.data < 1:
            raise VerifyException(f"an mbarrier array has at least one, not {self.count.data}")


@irdl_attr_definition
class RingType(ParametrizedAttribute, TypeAttribute):
    """The flow control of a ring of shared tiles: ``!gpu.ring<4>`` has four slots."""

    name = "gpu.ring"
    depth: IntAttr

    @staticmethod
    def of(depth: int) -> RingType:
        return RingType(IntAttr(depth))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.depth.data}>")

    def verify(self) -> None:
        if not 1 <= self.depth.data <= 8:
            raise VerifyException(f"a ring has 1 to 8 slots, not {self.depth.data}")


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """An asynchronous op under way, for ``gpu.await``: ``!gpu.token``."""

    name = "gpu.token"


@irdl_attr_definition
class OrderType(ParametrizedAttribute, TypeAttribute):
    """Turns between warpgroups: ``!gpu.order<2>`` has two participants."""

    name = "gpu.order"
    participants: IntAttr

    @staticmethod
    def of(participants: int) -> OrderType:
        return OrderType(IntAttr(participants))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer()),)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.participants.data}>")

    def verify(self) -> None:
        if not 2 <= self.participants.data <= 4:
            raise VerifyException(f"2 to 4 warpgroups take turns, not {self.participants.data}")


WAITING_TYPES: list[type[Attribute]] = [MBarrierType, RingType, TokenType, OrderType]
