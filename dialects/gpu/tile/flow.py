"""Tile level: pipelined loops, the rings that carry their flow, and roles (T2, T3)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    IndexType,
    UnitAttr,
)
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    Pure,
    SingleBlockImplicitTerminator,
    ensure_terminator,
)
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.types import (
    IndexAttr,
    IntsAttr,
    index_attr,
)
from polyc.dialects.gpu.waiting import OrderType, RingType


@irdl_op_definition
class YieldOp(IRDLOperation):
    """End of a ``gpu.map`` body with the values for its outputs, or of a loop or role."""

    name = "gpu.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "($values^ `:` type($values))? attr-dict"

    def __init__(self, values: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[list(values)])


@irdl_op_definition
class PipelineOp(IRDLOperation):
    """A loop whose copies may run ahead of its contracts by up to ``stages - 1`` iterations.

    The induction variable goes from 0 to ``bound`` by ``step``; the body sees the variable and
    the iteration's number.  ``gpu-pipeline-planning`` gives each op of the body its stage.
    """

    name = "gpu.pipeline"
    bound = operand_def(IndexType)
    step = prop_def(IndexAttr)
    stages = prop_def(IndexAttr)
    body = region_def("single_block")
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp))

    def __init__(self, bound: SSAValue, step: int, stages: int, body: Region) -> None:
        super().__init__(
            operands=[bound],
            properties={"step": index_attr(step), "stages": index_attr(stages)},
            regions=[body],
        )
        for trait in self.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(self, trait)

    @property
    def position(self) -> SSAValue:
        """The induction variable: 0, step, 2·step, …"""
        return self.body.block.args[0]

    @property
    def iteration(self) -> SSAValue:
        """The iteration's number: 0, 1, 2, …"""
        return self.body.block.args[1]

    @classmethod
    def parse(cls, parser: Parser) -> PipelineOp:
        position = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation(",")
        iteration = parser.parse_argument(expect_type=False).resolve(IndexType())
        parser.parse_punctuation("=")
        parser.parse_keyword("to")
        bound = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        parser.parse_keyword("step")
        step = parser.parse_integer()
        parser.parse_keyword("stages")
        stages = parser.parse_integer()
        body = parser.parse_region([position, iteration])
        return cls(bound, step, stages, body)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.position)
        printer.print_string(", ")
        printer.print_ssa_value(self.iteration)
        printer.print_string(" = to ")
        printer.print_ssa_value(self.bound)
        printer.print_string(f" step {self.step.value.data} stages {self.stages.value.data} ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=False)

    def verify_(self) -> None:
        if self.step.value.data < 1:
            raise VerifyException(f"a pipeline steps forward, not by {self.step.value.data}")
        if not 1 <= self.stages.value.data <= 8:
            raise VerifyException(f"a pipeline has 1 to 8 stages, not {self.stages.value.data}")
        if [a.type for a in self.body.block.args] != [IndexType(), IndexType()]:
            raise VerifyException("a pipeline's body takes the position and the iteration")


def verify_stage(op: Operation, stage: IndexAttr | None) -> None:
    """Check the stage that an op has in the pipeline around it."""
    if stage is None:
        return
    around = op.parent_op()
    while around is not None and not isinstance(around, PipelineOp):
        around = around.parent_op()
    last = None if around is None else around.stages.value.data - 1
    if stage.value.data < 0 or (last is not None and stage.value.data > last):
        has = "are 0 and up" if last is None else f"of this pipeline are 0 to {last}"
        raise VerifyException(f"stage {stage.value.data} is none: those {has}")


@irdl_op_definition
class RingOp(IRDLOperation):
    """Flow control between the roles that fill and that read the slots of shared tiles.

    ``consumers`` is how many releases (one a warpgroup) free a slot.  With ``peers`` the ring spans
    that many CTAs of a cluster, whose producers fill each other's tiles (multicast): a slot is
    free once the consumers of all of them have released it.
    """

    name = "gpu.ring"
    consumers = prop_def(IndexAttr)
    peers = opt_prop_def(IndexAttr)
    ring = result_def(base(RingType))
    assembly_format = "`consumers` $consumers (`peers` $peers^)? attr-dict `:` type($ring)"

    def __init__(self, depth: int, consumers: int, peers: int = 1) -> None:
        super().__init__(
            properties={
                "consumers": index_attr(consumers),
                "peers": None if peers == 1 else index_attr(peers),
            },
            result_types=[RingType.of(depth)],
        )

    @property
    def peer_count(self) -> int:
        """CTAs that share the ring; 1 where it is the CTA's own."""
        return 1 if self.peers is None else self.peers.value.data

    def verify_(self) -> None:
        if self.consumers.value.data < 1:
            raise VerifyException(
                f"a ring is read by 1 consumer or more, not {self.consumers.value.data}"
            )
        if self.peer_count not in (1, 2, 4, 8, 16):
            raise VerifyException(f"a ring spans 1, 2, 4, 8 or 16 CTAs, not {self.peer_count}")


class _RingStep(IRDLOperation):
    """Ops on a ring at an iteration's number; the slot is the number modulo the depth."""

    ring = operand_def(base(RingType))
    iteration = operand_def(IndexType)
    assembly_format = "$ring `[` $iteration `]` attr-dict `:` type($ring)"

    def __init__(self, ring: SSAValue, iteration: SSAValue) -> None:
        super().__init__(operands=[ring, iteration])


@irdl_op_definition
class RingAcquireOp(_RingStep):
    """Producer: wait until the iteration's slot is free, and announce the copies that fill it."""

    name = "gpu.ring_acquire"


@irdl_op_definition
class RingWaitOp(_RingStep):
    """Consumer: wait until the iteration's slot is full."""

    name = "gpu.ring_wait"


@irdl_op_definition
class RingReleaseOp(_RingStep):
    """Consumer: the iteration's slot has been read and may be overwritten."""

    name = "gpu.ring_release"


@irdl_op_definition
class RolesOp(IRDLOperation):
    """The CTA's warpgroups take roles: ``consumers`` of them compute, one more produces.

    The consumers are the CTA's first warpgroups, so a consumer's thread index is its index in
    the CTA.  ``registers`` is the budget a thread of [producer, consumer], 0 for no change.
    ``single_thread`` says that one thread of the producer does all of its work (TMA).

    Consumers work together, as one group of threads.  With ``independent`` each warpgroup runs the
    consumers' region on its own, and the region sees its number: 0, 1, …
    """

    name = "gpu.roles"
    consumers = prop_def(IndexAttr)
    registers = prop_def(IntsAttr)
    single_thread = opt_prop_def(UnitAttr)
    independent = opt_prop_def(UnitAttr)
    producer = region_def("single_block")
    consumer = region_def("single_block")

    def __init__(
        self,
        consumers: int,
        registers: Sequence[int],
        producer: Region,
        consumer: Region,
        single_thread: bool = True,
        independent: bool = False,
    ) -> None:
        super().__init__(
            properties={
                "consumers": index_attr(consumers),
                "registers": IntsAttr(tuple(registers)),
                "single_thread": UnitAttr() if single_thread else None,
                "independent": UnitAttr() if independent else None,
            },
            regions=[producer, consumer],
        )

    @property
    def register_split(self) -> tuple[int, int]:
        producer, consumer = self.registers.data
        return producer, consumer

    @classmethod
    def parse(cls, parser: Parser) -> RolesOp:
        parser.parse_keyword("consumers")
        consumers = parser.parse_integer()
        independent = parser.parse_optional_keyword("independent") is not None
        parser.parse_keyword("registers")
        registers = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        single = parser.parse_optional_keyword("single_thread") is not None
        parser.parse_keyword("producer")
        producer = parser.parse_region()
        parser.parse_keyword("consumer")
        args = parser.parse_optional_comma_separated_list(
            parser.Delimiter.PAREN,
            lambda: parser.parse_argument(expect_type=False).resolve(IndexType()),
        )
        consumer = parser.parse_region(args)
        return cls(consumers, registers, producer, consumer, single, independent)

    def print(self, printer: Printer) -> None:
        producer, consumer = self.register_split
        printer.print_string(
            f" consumers {self.consumers.value.data}"
            f"{' independent' if self.independent is not None else ''}"
            f" registers [{producer}, {consumer}]"
        )
        printer.print_string(" single_thread" if self.single_thread is not None else "")
        printer.print_string(" producer ")
        printer.print_region(self.producer)
        printer.print_string(" consumer ")
        if self.consumer.block.args:
            printer.print_string("(")
            printer.print_list(self.consumer.block.args, printer.print_ssa_value)
            printer.print_string(") ")
        printer.print_region(self.consumer, print_entry_block_args=False)

    def verify_(self) -> None:
        if len(self.registers.data) != 2:
            raise VerifyException("registers are [producer, consumer]")
        for count in self.register_split:
            if count and (count % 8 or not 24 <= count <= 256):
                raise VerifyException(
                    f"a register budget is 24 to 256 in steps of 8, or 0, not {count}"
                )
        if not 1 <= self.consumers.value.data <= 4:
            raise VerifyException(f"1 to 4 consumer warpgroups, not {self.consumers.value.data}")
        number = [IndexType()] if self.independent is not None else []
        if [a.type for a in self.consumer.block.args] != number:
            raise VerifyException(
                "independent consumers see their number, an index; consumers that work together "
                "see nothing"
            )


@irdl_op_definition
class OrderBarrierOp(IRDLOperation):
    """Turns that independent consumers take: ``participants`` of them, number 0 first."""

    name = "gpu.order_barrier"
    order = result_def(base(OrderType))
    assembly_format = "attr-dict `:` type($order)"

    def __init__(self, participants: int) -> None:
        super().__init__(result_types=[OrderType.of(participants)])


class _OrderStep(IRDLOperation):
    """Ops of one participant of an order barrier."""

    order = operand_def(base(OrderType))
    number = operand_def(IndexType)
    assembly_format = "$order `[` $number `]` attr-dict `:` type($order)"

    def __init__(self, order: SSAValue, number: SSAValue) -> None:
        super().__init__(operands=[order, number])


@irdl_op_definition
class OrderEnterOp(_OrderStep):
    """Wait for participant ``number``'s turn."""

    name = "gpu.order_enter"


@irdl_op_definition
class OrderLeaveOp(_OrderStep):
    """End participant ``number``'s turn: it is the next one's, round and round."""

    name = "gpu.order_leave"
