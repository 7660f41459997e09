"""``region.graph``: a graph that several kernels compute, and how these are joined (S6.1).

    region.graph @f
        ins(x: !region.memref<[M, N], f32, align 16>)
        outs(y: !region.memref<[M], f32, align 16> from @f_1::@y)

It has no body: it stands before its kernels and is the signature of them all, which is the ABI
(S12.1).  The data flow is in the kernels' own signatures: an input that is not the program's says
``from = @kernel::@output`` for what another kernel makes, or ``from = @graph::@input`` for an input
of the graph.  Both sides of such an edge are one buffer; where their shapes differ, the reader sees
the elements in row-major order.  Kernels run in the order of the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.common.sizes import product
from polyc.dialects.region.kernel import KernelOp, KernelTensor
from polyc.dialects.region.scope import KernelScope
from polyc.dialects.region.signature import (
    check_signature,
    derived_symbols,
    parse_symbols,
    print_dict,
    print_symbols,
)
from polyc.dialects.region.types import MemRefType

FROM = "from"
"""The key, in the dictionary of a kernel's input, of where the input comes from."""

SOFTMAX_SUM = "softmax_sum"
"""The key, there, that says that the input holds sums of exponentials below the largest of each.

One of these is 1, so that each number is 1 or more; or there is none, and it is 0; or it is NaN.
"""


def edge(owner: str, name: str) -> SymbolRefAttr:
    """``@owner::@name``: an output of a kernel, or an input of a graph."""
    return SymbolRefAttr(owner, [name])


def ends(edge: Attribute | None) -> tuple[str, str] | None:
    """The owner and the name of an edge; None for anything else."""
    if not isinstance(edge, SymbolRefAttr) or len(edge.nested_references) != 1:
        return None
    return edge.root_reference.data, edge.nested_references.data[0].data


def source(kernel: KernelOp, position: int) -> tuple[str, str] | None:
    """The kernel and the output, or the graph and the input, that an input comes ``from``."""
    return ends(kernel.arg_attrs.data[position].data.get(FROM))


def kernels_beside(op: Operation) -> list[KernelOp]:
    """The kernels of the module around ``op``, in the order of the text."""
    block = op.parent_block()
    return [] if block is None else [o for o in block.ops if isinstance(o, KernelOp)]


@irdl_op_definition
class GraphOp(KernelScope):
    """The signature of a graph that several kernels compute.

    ``sources`` has for each output the kernel's output that it is.
    """

    name = "region.graph"

    sym_name = prop_def(SymbolNameConstraint())
    ins = prop_def(ArrayAttr[MemRefType])
    outs = prop_def(ArrayAttr[MemRefType])
    sources = prop_def(ArrayAttr[SymbolRefAttr])
    arg_names = prop_def(ArrayAttr[StringAttr])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    res_names = prop_def(ArrayAttr[StringAttr])
    res_attrs = prop_def(ArrayAttr[DictionaryAttr])

    traits = traits_def(SymbolOpInterface())

    def __init__(
        self,
        sym_name: str,
        inputs: Sequence[KernelTensor],
        outputs: Sequence[KernelTensor],
        sources: Sequence[SymbolRefAttr],
        *,
        symbols: Sequence[str] | None = None,
        assumptions: AssumptionsAttr | None = None,
    ) -> None:
        """An output's ``edge`` is its source's to say; every output of a graph lies in memory."""
        if symbols is None:
            symbols = derived_symbols(t.type.shape for t in (*inputs, *outputs))
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "ins": ArrayAttr(t.type for t in inputs),
                "outs": ArrayAttr(t.type for t in outputs),
                "sources": ArrayAttr(sources),
                "symbols": ArrayAttr(StringAttr(s) for s in symbols),
                "assumptions": assumptions or AssumptionsAttr(()),
                "arg_names": ArrayAttr(StringAttr(t.name) for t in inputs),
                "arg_attrs": ArrayAttr(t.attributes for t in inputs),
                "res_names": ArrayAttr(StringAttr(t.name) for t in outputs),
                "res_attrs": ArrayAttr(t.attributes for t in outputs),
            },
        )

    @property
    def inputs(self) -> tuple[KernelTensor, ...]:
        """The signature's inputs, in order."""
        rows = zip(self.arg_names, self.ins, self.arg_attrs, strict=True)
        return tuple(KernelTensor(name.data, kind, attrs) for name, kind, attrs in rows)

    @property
    def outputs(self) -> tuple[KernelTensor, ...]:
        """The signature's outputs, in order."""
        rows = zip(self.res_names, self.outs, self.res_attrs, strict=True)
        return tuple(KernelTensor(name.data, kind, attrs) for name, kind, attrs in rows)

    def kernels(self) -> list[KernelOp]:
        """The kernels that compute the outputs, in the order of the text."""
        beside = {k.sym_name.data: k for k in kernels_beside(self)}
        wanted = [found[0] for s in self.sources if (found := ends(s)) is not None]
        needed: set[str] = set()
        while wanted:
            name = wanted.pop()
            if name not in needed and name in beside:
                needed.add(name)
                kernel = beside[name]
                found = (source(kernel, i) for i in range(len(kernel.ins)))
                wanted += [edge[0] for edge in found if edge is not None]
        return [k for name, k in beside.items() if name in needed]

    # Text

    def _derived(self) -> tuple[str, ...]:
        return derived_symbols(t.shape for t in (*self.ins, *self.outs))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)

        def print_in(i: int) -> None:
            printer.print_string(f"{self.arg_names.data[i].data}: ")
            printer.print_attribute(self.ins.data[i])
            print_dict(printer, self.arg_attrs.data[i])

        def print_out(i: int) -> None:
            printer.print_string(f"{self.res_names.data[i].data}: ")
            printer.print_attribute(self.outs.data[i])
            printer.print_string(" from ")
            printer.print_attribute(self.sources.data[i])
            print_dict(printer, self.res_attrs.data[i])

        printer.print_string("\n    ins(")
        printer.print_list(range(len(self.ins)), print_in)
        printer.print_string(")\n    outs(")
        printer.print_list(range(len(self.outs)), print_out)
        printer.print_string(")")
        print_symbols(printer, self.symbol_names, self._derived(), self.assumptions)
        printer.print_op_attributes(self.attributes, print_keyword=True)

    @classmethod
    def parse(cls, parser: Parser) -> GraphOp:
        name = parser.parse_symbol_name().data
        sources: list[SymbolRefAttr] = []

        def parse_tensor(source: bool) -> KernelTensor:
            label = parser.parse_identifier(" as the tensor's name")
            parser.parse_punctuation(":")
            pos = parser.pos
            kind = parser.parse_type()
            if not isinstance(kind, MemRefType):
                parser.raise_error(f"expected a !region.memref, got {kind}", pos)
            if source:
                parser.parse_keyword(FROM)
                pos = parser.pos
                found = parser.parse_attribute()
                if not isinstance(found, SymbolRefAttr):
                    parser.raise_error(f"expected @kernel::@output, got {found}", pos)
                sources.append(found)
            return KernelTensor(label, kind, DictionaryAttr(parser.parse_optional_attr_dict()))

        def parse_tensors(word: str, source: bool) -> list[KernelTensor]:
            parser.parse_keyword(word)
            return parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: parse_tensor(source)
            )

        inputs, outputs = parse_tensors("ins", False), parse_tensors("outs", True)
        symbols, assumptions = parse_symbols(parser)
        extra = parser.parse_optional_attr_dict_with_keyword()
        op = cls(name, inputs, outputs, sources, symbols=symbols, assumptions=assumptions)
        if extra is not None:
            op.attributes |= extra.data
        return op

    # Rules

    def verify_(self) -> None:
        check_signature(
            "graph",
            {
                "inputs": (len(self.ins), (self.arg_names, self.arg_attrs)),
                "outputs": (len(self.outs), (self.res_names, self.res_attrs, self.sources)),
            },
            [n.data for n in (*self.arg_names, *self.res_names)],
            self.symbol_names,
            self._derived(),
        )
        beside = {k.sym_name.data: k for k in kernels_beside(self)}
        tensors: dict[tuple[str, str], MemRefType] = {
            (self.sym_name.data, name.data): kind
            for name, kind in zip(self.arg_names, self.ins, strict=True)
        }
        for kernel in self.kernels():
            for i, edge in enumerate(source(kernel, i) for i in range(len(kernel.ins))):
                who = f"input {kernel.arg_names.data[i].data} of @{kernel.sym_name.data}"
                kind = kernel.tensors[i]
                if edge is None:
                    raise VerifyException(
                        f"{who} does not say where it is from; write {{from = "
                        f"@{self.sym_name.data}::@input}} for an input of the graph"
                    )
                self._verify_edge(who, kind, edge, tensors, beside)
            outs = kernel.tensors[len(kernel.ins) :]
            for name, kind in zip(kernel.res_names, outs, strict=True):
                tensors[(kernel.sym_name.data, name.data)] = kind
        for name, kind, found in zip(self.res_names, self.outs, self.sources, strict=True):
            who, edge = f"output {name.data}", ends(found)
            if edge is None or edge[0] == self.sym_name.data:
                raise VerifyException(f"{who} is from @kernel::@output, not from {found}")
            self._verify_edge(who, kind, edge, tensors, beside)

    def _verify_edge(
        self,
        who: str,
        kind: MemRefType,
        edge: tuple[str, str],
        tensors: dict[tuple[str, str], MemRefType],
        beside: dict[str, KernelOp],
    ) -> None:
        text = f"@{edge[0]}::@{edge[1]}"
        made = tensors.get(edge)
        if made is None:
            later = edge[0] in beside and any(n.data == edge[1] for n in beside[edge[0]].res_names)
            why = "is made by a kernel further down" if later else "is not there"
            raise VerifyException(f"{who} is from {text}, which {why}")
        if made.element_type != kind.element_type or not self.same_size(
            product(made.shape), product(kind.shape)
        ):
            raise VerifyException(
                f"{who} is {kind} and {text} is {made}; both are one buffer: give them one element "
                "type and as many elements"
            )
