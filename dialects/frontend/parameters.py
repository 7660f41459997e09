"""``frontend.parameter``: a tensor that an entry of a parameter file holds (S2.1, S12.2).

It stands for an input of the constant pool: ``rewriting/frontend/parameters.py`` makes it one
before anything else looks at the graph, so that lower layers have inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.movements import parse_tensor
from polyc.dialects.common.signature import SignatureOp, entry_fault
from polyc.dialects.frontend.types import TensorType, tensor_of


@irdl_op_definition
class ParameterOp(IRDLOperation):
    """An entry of a parameter file, ``frontend.parameter "conv1.weight" : type`` (S12.2).

    Its sizes are numbers, and its element type is that of the entry: nothing is converted.  Ops
    that name one entry have one type.
    """

    name = "frontend.parameter"
    entry = prop_def(StringAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, entry: str, result_type: TensorType) -> None:
        super().__init__(properties={"entry": StringAttr(entry)}, result_types=[result_type])

    def verify_(self) -> None:
        if (fault := entry_fault(self.entry)) is not None:
            raise VerifyException(fault)
        kind = tensor_of(self.result)
        if any(size.constant() is None for size in kind.dims):
            raise VerifyException(
                f'parameter "{self.entry.data}" is {kind}; what a file holds has sizes that are '
                "numbers, so give them, or take the tensor as an input"
            )

    @classmethod
    def parse(cls, parser: Parser) -> ParameterOp:
        entry = parser.parse_str_literal(" naming an entry of a parameter file")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        return cls.create(
            result_types=[parse_tensor(parser, TensorType)],
            properties={"entry": StringAttr(entry)},
            attributes=attributes,
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.entry)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.result.type)


def parameters(graph: SignatureOp) -> Iterator[ParameterOp]:
    """The ops of a graph that name entries, in their order."""
    for op in graph.body.block.ops:
        if isinstance(op, ParameterOp):
            yield op


def verify_entries(graph: SignatureOp) -> None:
    """Check that one entry has one type, among the inputs of a graph and the ops that name it."""
    known: dict[str, Attribute] = {
        spec.entry: spec.type for spec in graph.inputs if spec.entry is not None
    }
    for op in parameters(graph):
        name, kind = op.entry.data, op.result.type
        if (first := known.setdefault(name, kind)) != kind:
            raise VerifyException(
                f'entry "{name}" of the parameter file is {first} here and {kind} there in '
                f"@{graph.sym_name.data}; it has one type"
            )
