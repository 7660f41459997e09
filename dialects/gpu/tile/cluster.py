"""Tile level: the CTAs of a cluster bring together what each of them has of one tile."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.tile.compute import verify_reduction
from polyc.dialects.gpu.types import FragmentType


@irdl_op_definition
class ReduceScatterOp(IRDLOperation):
    """``target[..., j] = kind over the CTAs of the cluster of source[..., j + rank * width]``.

    All CTAs of the cluster have a fragment of the same sizes, which they combine element by
    element; each keeps a part, ``width`` neighbours of the last axis, as many as the target has.
    The CTA of rank r gets part r.  CTAs are combined in the order of their ranks, so that the
    result is the same on every run.  Products that share the steps of one tile end so (split-K).
    With ``rows`` only that many of the first axis matter, as many as lie inside the output: what
    the target has of later ones is unspecified, and need not travel.

    The parts travel through distributed shared memory.  There are as many as the kernel's clusters
    have CTAs.  The op belongs to all threads of its scope in all of these, once a kernel.  max and
    min propagate NaN (S0.6).
    """

    name = "gpu.reduce_scatter"
    kind = prop_def(StringAttr)
    source = operand_def(base(FragmentType))
    rows = opt_operand_def(IndexType)
    target = operand_def(base(FragmentType))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self, kind: str, source: SSAValue, target: SSAValue, rows: SSAValue | None = None
    ) -> None:
        super().__init__(operands=[source, rows, target], properties={"kind": StringAttr(kind)})

    @property
    def parts(self) -> int:
        """How many parts the source has; as many CTAs have a cluster."""
        source, target = self.source.type, self.target.type
        assert isinstance(source, FragmentType) and isinstance(target, FragmentType)
        return source.sizes[-1] // target.sizes[-1]

    def misfit(self, cluster: int) -> str | None:
        """Why clusters of so many CTAs do not take the parts; None where they do."""
        if cluster == self.parts:
            return None
        return (
            f"{self.name} makes {self.parts} parts and the kernel's clusters have {cluster} CTAs; "
            "give both the same number"
        )

    @classmethod
    def parse(cls, parser: Parser) -> ReduceScatterOp:
        kind = parser.parse_identifier()
        source = parser.parse_unresolved_operand()
        rows: SSAValue | None = None
        if parser.parse_optional_keyword("rows") is not None:
            rows = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        parser.parse_keyword("into")
        target = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        source_type = parser.parse_type()
        parser.parse_punctuation(",")
        op = cls(
            kind,
            parser.resolve_operand(source, source_type),
            parser.resolve_operand(target, parser.parse_type()),
            rows,
        )
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_ssa_value(self.source)
        if self.rows is not None:
            printer.print_string(" rows ")
            printer.print_ssa_value(self.rows)
        printer.print_string(" into ")
        printer.print_ssa_value(self.target)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.source.type)
        printer.print_string(", ")
        printer.print_attribute(self.target.type)

    def verify_(self) -> None:
        source, target = verify_reduction(self.kind.data, self.source, self.target)
        if (
            not source.sizes
            or len(source.sizes) != len(target.sizes)
            or source.sizes[:-1] != target.sizes[:-1]
            or source.sizes[-1] % target.sizes[-1]
        ):
            raise VerifyException(
                f"parts of {list(source.sizes)} have its sizes, but for the last axis, which they "
                f"divide; {list(target.sizes)} are no such part"
            )
