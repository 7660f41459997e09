"""``region.kernel``, the container of the ``region`` dialect, and its ``region.yield``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    StringAttr,
    SymbolNameConstraint,
)
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    Region,
    SSAValue,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import (
    AssumptionsAttr,
    Dim,
    shape_text,
)
from polyc.dialects.common.signature import fix_name
from polyc.dialects.common.views import is_view
from polyc.dialects.region.axes import ReduceOp
from polyc.dialects.region.scope import (
    MATERIALIZE,
    KernelScope,
    parse_fn,
    same_size,
    scope_of,
)
from polyc.dialects.region.signature import (
    check_signature,
    derived_symbols,
    parse_symbols,
    print_dict,
    print_symbols,
)
from polyc.dialects.region.types import (
    AxisAttr,
    MemRefType,
    ValType,
    axes_text,
    check_axes,
    parse_axes,
    val_type,
)

# The kernel ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """One input or output of a kernel; ``edge`` says where an output goes (``materialize``)."""

    name: str
    type: MemRefType
    attributes: DictionaryAttr = DictionaryAttr({})  # noqa: RUF009 (attributes do not change)
    edge: str = "gmem"

    @property
    def is_constant(self) -> bool:
        """Whether its storage says that an input keeps what it holds, so that what is made of it
        alone may be made once."""
        return self.attributes.data.get("storage") == StringAttr("const_pool")


@irdl_op_definition
class KernelOp(KernelScope):
    """One kernel: inputs to read, axes to run over, values to write (S6.1).

    ``iters`` is the output space.  ``symbols`` are the size names of the whole kernel, in
    the order of the signature; every affine map in the body has exactly these symbols.
    ``materialize`` says for each output whether it goes to global memory (``gmem``) or
    straight to the kernel that reads it (``deferred``).  An input that another kernel of
    the module makes carries ``from = @kernel::@output`` in its dictionary.

    ``held`` are the tensors as memory holds them, inputs and then outputs, where the kernel sees
    consecutive axes of some as one: the caller's shapes, which ``region-merge-axes`` keeps.
    """

    name = "region.kernel"

    sym_name = prop_def(SymbolNameConstraint())
    iters = prop_def(ArrayAttr[AxisAttr])
    outs = prop_def(ArrayAttr[MemRefType])
    materialize = prop_def(ArrayAttr[StringAttr])
    arg_names = prop_def(ArrayAttr[StringAttr])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    res_names = prop_def(ArrayAttr[StringAttr])
    res_attrs = prop_def(ArrayAttr[DictionaryAttr])
    held = opt_prop_def(ArrayAttr[MemRefType])
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(
        self,
        sym_name: str,
        iters: Iterable[AxisAttr],
        inputs: Sequence[KernelTensor],
        outputs: Sequence[KernelTensor],
        *,
        body: Region | None = None,
        symbols: Sequence[str] | None = None,
        assumptions: AssumptionsAttr | None = None,
        held: Sequence[MemRefType] | None = None,
    ) -> None:
        if body is None:
            body = Region(Block(arg_types=[t.type for t in inputs]))
        if symbols is None:
            whole = held or [t.type for t in (*inputs, *outputs)]
            symbols = derived_symbols(t.shape for t in whole)
        super().__init__(
            properties={
                "sym_name": StringAttr(sym_name),
                "iters": ArrayAttr(iters),
                "outs": ArrayAttr(t.type for t in outputs),
                "materialize": ArrayAttr(StringAttr(t.edge) for t in outputs),
                "symbols": ArrayAttr(StringAttr(s) for s in symbols),
                "assumptions": assumptions or AssumptionsAttr(()),
                "arg_names": ArrayAttr(StringAttr(t.name) for t in inputs),
                "arg_attrs": ArrayAttr(t.attributes for t in inputs),
                "res_names": ArrayAttr(StringAttr(t.name) for t in outputs),
                "res_attrs": ArrayAttr(t.attributes for t in outputs),
                "held": None if held is None else ArrayAttr(held),
            },
            regions=[body],
        )
        for arg, tensor in zip(self.ins, inputs, strict=False):
            if SSAValue.is_valid_name(tensor.name):
                arg.name_hint = tensor.name

    @property
    def ins(self) -> tuple[BlockArgument, ...]:
        """The tensors read, as the block's arguments."""
        return tuple(self.body.block.args)

    @property
    def inputs(self) -> tuple[KernelTensor, ...]:
        """The signature's inputs, in order."""
        return tuple(
            KernelTensor(name.data, cast(MemRefType, arg.type), attributes)
            for arg, name, attributes in zip(self.ins, self.arg_names, self.arg_attrs, strict=True)
        )

    @property
    def outputs(self) -> tuple[KernelTensor, ...]:
        """The signature's outputs, in order."""
        rows = zip(self.res_names, self.outs, self.res_attrs, self.materialize, strict=True)
        return tuple(KernelTensor(n.data, kind, attrs, to.data) for n, kind, attrs, to in rows)

    def name_of(self, tensor: SSAValue) -> str:
        """The name of an input, which is an argument of the body."""
        return self.arg_names.data[cast(BlockArgument, tensor).index].data

    @property
    def seen(self) -> tuple[MemRefType, ...]:
        """The tensors as the kernel sees them, inputs and then outputs."""
        return (*(cast(MemRefType, a.type) for a in self.ins), *self.outs)

    @property
    def tensors(self) -> tuple[MemRefType, ...]:
        """The tensors as memory holds them, inputs and then outputs."""
        return self.seen if self.held is None else tuple(self.held)

    @property
    def yield_op(self) -> YieldOp:
        last = self.body.block.last_op
        assert isinstance(last, YieldOp)
        return last

    def reduction(self, name: str) -> ReduceOp | None:
        """The reduction called ``name``, or None."""
        for op in self.body.block.ops:
            if isinstance(op, ReduceOp) and op.label == name:
                return op
        return None

    # Text

    def _derived(self) -> tuple[str, ...]:
        return derived_symbols(t.shape for t in self.tensors)

    def print(self, printer: Printer) -> None:
        for arg, name in zip(self.ins, self.arg_names, strict=True):
            fix_name(printer, arg, name.data)
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" iters {axes_text(self.iters)}\n    ins(")
        inputs = list(zip(self.ins, self.arg_attrs, strict=True))

        def print_in(item: tuple[BlockArgument, DictionaryAttr]) -> None:
            printer.print_block_argument(item[0])
            print_dict(printer, item[1])

        def print_out(i: int) -> None:
            printer.print_string(f"{self.res_names.data[i].data}: ")
            printer.print_attribute(self.outs.data[i])
            printer.print_string(f" {self.materialize.data[i].data}")
            print_dict(printer, self.res_attrs.data[i])

        printer.print_list(inputs, print_in)
        printer.print_string(")\n    outs(")
        printer.print_list(range(len(self.outs)), print_out)
        printer.print_string(")")
        if self.held is not None:
            printer.print_string("\n    held(")
            printer.print_list(self.held, printer.print_attribute)
            printer.print_string(")")
        print_symbols(printer, self.symbol_names, self._derived(), self.assumptions)
        if self.attributes:
            printer.print_string("\n    attributes ")
            printer.print_attr_dict(self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("iters")
        iters = parse_axes(parser)
        arguments: list[Parser.Argument] = []
        inputs: list[KernelTensor] = []
        outputs: list[KernelTensor] = []

        def memref(found: Attribute, pos: int) -> MemRefType:
            if not isinstance(found, MemRefType):
                parser.raise_error(f"expected a !region.memref, got {found}", pos)
            return found

        def parse_in() -> None:
            pos = parser.pos
            argument = parser.parse_argument()
            kind = memref(argument.type, pos)
            arguments.append(argument)
            attributes = DictionaryAttr(parser.parse_optional_attr_dict())
            inputs.append(KernelTensor(argument.name.text[1:], kind, attributes))

        def parse_out() -> None:
            label = parser.parse_identifier(" as the output's name")
            parser.parse_punctuation(":")
            pos = parser.pos
            kind = memref(parser.parse_type(), pos)
            to = parse_fn(parser, MATERIALIZE).data
            attributes = DictionaryAttr(parser.parse_optional_attr_dict())
            outputs.append(KernelTensor(label, kind, attributes, to))

        parser.parse_keyword("ins")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_in)
        parser.parse_keyword("outs")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_out)
        held: list[MemRefType] | None = None
        if parser.parse_optional_keyword("held") is not None:
            held = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: memref(parser.parse_type(), parser.pos)
            )
        symbols, assumptions = parse_symbols(parser)
        extra = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        op = cls(
            name,
            iters,
            inputs,
            outputs,
            body=body,
            symbols=symbols,
            assumptions=assumptions,
            held=held,
        )
        if extra is not None:
            op.attributes |= extra.data
        return op

    # Rules

    def verify_(self) -> None:
        check_axes(self.iters)
        for arg in self.ins:
            if not isinstance(arg.type, MemRefType):
                raise VerifyException(f"an input is a !region.memref, not {arg.type}")
        check_signature(
            "kernel",
            {
                "inputs": (len(self.ins), (self.arg_names, self.arg_attrs)),
                "outputs": (len(self.outs), (self.res_names, self.res_attrs, self.materialize)),
            },
            [n.data for n in (*self.arg_names, *self.res_names)],
            self.symbol_names,
            self._derived(),
        )
        for found in self.materialize:
            if found.data not in MATERIALIZE:
                raise VerifyException(
                    f"an output is materialised in gmem or deferred, not in {found.data}"
                )
        self._verify_held()
        for fact in self.assumptions.data:
            if fact not in self.facts:
                raise VerifyException(
                    f"the assumption {fact} names a symbol that is not one of the kernel's, "
                    f"[{', '.join(self.symbol_names)}]"
                )
        if not isinstance(self.body.block.last_op, YieldOp):
            raise VerifyException("the body ends with region.yield")
        self._verify_body()

    def _verify_held(self) -> None:
        if self.held is None:
            return
        if len(self.held) != len(self.seen):
            raise VerifyException(
                f"held has {len(self.held)} tensors and the kernel has {len(self.seen)}: give each "
                "input and output its own, or leave held out"
            )
        names = (*self.arg_names, *self.res_names)
        for name, seen, held in zip(names, self.seen, self.held, strict=True):
            same = (seen.element_type, seen.align, seen.noalias)
            if same != (held.element_type, held.align, held.noalias) or not is_view(
                seen.shape, held.shape
            ):
                raise VerifyException(
                    f"{name.data} is {held} in memory, and {seen} is no view of it: consecutive "
                    "axes are merged and split, and nothing else changes"
                )

    def _verify_body(self) -> None:
        sizes: dict[str, Dim] = {a.label: a.size for a in self.iters}
        reductions: set[str] = set()
        for op in self.body.walk():
            if isinstance(op, ReduceOp) and op.label is not None:
                if op.label in reductions:
                    raise VerifyException(
                        f'two reductions are named "{op.label}"; a plan names the one that '
                        "it means, give each its own name"
                    )
                reductions.add(op.label)
            for result in op.results:
                if not isinstance(result.type, ValType):
                    raise VerifyException(
                        f"{op.name} makes {result.type}; a kernel's values are !region.val"
                    )
                for axis in result.type.axes:
                    size = sizes.setdefault(axis.label, axis.size)
                    if not self.same_size(size, axis.size):
                        raise VerifyException(
                            f"AxisAlignmentMismatch: axis {axis.label} has size {size} in one "
                            f"place and {axis.size} in {op.name}; one name is one index, "
                            "rename one of the two"
                        )
                    for symbol in axis.size.symbols():
                        if symbol not in self.symbol_names:
                            raise VerifyException(
                                f"axis {axis} uses {symbol}, which is not one of the kernel's "
                                f"symbols [{', '.join(self.symbol_names)}]"
                            )


def kernel_of(op: Operation) -> KernelOp | None:
    """The kernel around ``op``, or None."""
    around = scope_of(op)
    return around if isinstance(around, KernelOp) else None


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The values that the kernel writes, in the order of ``outs``."""

    name = "region.yield"

    values = var_operand_def(ValType)

    traits = traits_def(IsTerminator())

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[values])

    def print(self, printer: Printer) -> None:
        if self.values:
            printer.print_string(" ")
            printer.print_list(self.values, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        if self.values:
            printer.print_string(" : ")
            printer.print_list(self.values, lambda v: printer.print_attribute(v.type))

    @classmethod
    def parse(cls, parser: Parser) -> YieldOp:
        unresolved = (
            parser.parse_optional_undelimited_comma_separated_list(
                parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
            )
            or []
        )
        extra = parser.parse_optional_attr_dict()
        values: Sequence[SSAValue] = []
        if unresolved:
            parser.parse_punctuation(":")
            pos = parser.pos
            types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
            values = parser.resolve_operands(unresolved, types, pos)
        op = cls(values)
        op.attributes |= extra
        return op

    def verify_(self) -> None:
        kernel = kernel_of(self)
        if kernel is None:
            return
        if len(self.values) != len(kernel.outs):
            raise VerifyException(
                f"{len(self.values)} values are yielded to {len(kernel.outs)} outputs; yield one "
                "each"
            )
        iters = {a.label for a in kernel.iters}
        for value, out, name in zip(self.values, kernel.outs, kernel.res_names, strict=True):
            found = val_type(value)
            for label in found.labels:
                if label not in iters:
                    raise VerifyException(
                        f"output {name.data} depends on axis {label}, which is not one of the "
                        f"kernel's iters {axes_text(kernel.iters)}; reduce it or add it"
                    )
            if len(found.shape) != len(out.shape) or not all(
                same_size(self, a, b) for a, b in zip(found.shape, out.shape, strict=True)
            ):
                raise VerifyException(
                    f"output {name.data} has shape {shape_text(out.shape)} and is given "
                    f"{axes_text(found.axes)}; make the sizes equal"
                )
            if found.element_type != out.element_type:
                raise VerifyException(
                    f"output {name.data} holds {out.element_type} and is given "
                    f"{found.element_type}; convert with region.cast"
                )
