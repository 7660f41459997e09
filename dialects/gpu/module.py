"""Containers of the gpu dialect: a compiled graph, and who runs when.

A ``gpu.module`` is one graph compiled for one architecture.  It holds kernels and one
``gpu.dispatch`` whose ``gpu.launch`` ops are tried in order by the host (S9.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import (
    AssumptionsAttr,
    unknown_symbol,
)
from polyc.dialects.gpu.containers import Dispatch, Module
from polyc.dialects.gpu.kernel import KernelOp, ReturnOp, kernels_of
from polyc.dialects.gpu.launches import (
    LaunchOp,
    SequenceOp,
    WorkspaceOp,
    check_symbols,
    parse_optional_assumptions,
)
from polyc.dialects.gpu.target import Limits, TargetAttr
from polyc.dialects.gpu.types import GlobalType, index_attr
from polyc.dialects.gpu.views import check_bound


@irdl_op_definition
class ModuleOp(Module):
    """One graph compiled for one architecture; ``Module`` has its fields."""

    traits = traits_def(SymbolOpInterface(), SymbolTable(), NoTerminator(), IsolatedFromAbove())

    def __init__(
        self,
        name: str,
        arch: str,
        symbols: Sequence[str],
        assumptions: AssumptionsAttr,
        ops: Sequence[Operation],
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "arch": StringAttr(arch),
                "symbols": ArrayAttr(map(StringAttr, symbols)),
                "assumptions": assumptions,
            },
            regions=[Region(Block(ops))],
        )

    def kernels(self) -> list[KernelOp]:
        return kernels_of(self)

    def has_dispatch(self) -> bool:
        return any(isinstance(op, DispatchOp) for op in self.body.block.ops)

    def dispatch(self) -> DispatchOp:
        """The module's dispatch; raises VerifyException when it has none."""
        for op in self.body.block.ops:
            if isinstance(op, DispatchOp):
                return op
        raise VerifyException(f"gpu.module @{self.sym_name.data} has no gpu.dispatch")

    @classmethod
    def parse(cls, parser: Parser) -> ModuleOp:
        name = parser.parse_symbol_name().data
        parser.parse_keyword("arch")
        arch = parser.parse_str_literal()
        parser.parse_keyword("symbols")
        symbols = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, parser.parse_identifier
        )
        assumptions = parse_optional_assumptions(parser, "assuming")
        op = cls(name, arch, symbols, assumptions, [])
        if parser.parse_optional_keyword("target") is not None:
            op.target = TargetAttr(TargetAttr.parse_parameter(parser))
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op.detach_region(op.body)
        op.add_region(parser.parse_region())
        if not op.body.blocks:
            op.body.add_block(Block())
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f' arch "{self.arch.data}" symbols [{", ".join(self.symbol_names)}]')
        if self.assumptions.data:
            printer.print_string(f" assuming {self.assumptions.text()}")
        if self.target is not None:
            printer.print_string(" target ")
            self.target.print_parameter(printer)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        if self.arch.data not in ("sm_80", "sm_90a"):
            raise VerifyException(f'arch is "sm_80" or "sm_90a", not "{self.arch.data}"')
        limits = Limits.of(ARCHS[self.arch.data])
        if self.target is not None and self.target.data != limits:
            raise VerifyException(
                f"the target of {self.arch.data} is {limits}, not {self.target.data}; "
                "gpu-bind-target writes it"
            )
        for fact in self.assumptions.data:
            if (fault := unknown_symbol(fact, self.symbol_names)) is not None:
                raise VerifyException(f"{fault} of gpu.module @{self.sym_name.data}")
        dispatches = [op for op in self.body.block.ops if isinstance(op, DispatchOp)]
        if len(dispatches) > 1:
            raise VerifyException(
                f"gpu.module @{self.sym_name.data} has {len(dispatches)} gpu.dispatch; it has one"
            )
        for kernel in self.kernels() if dispatches else ():
            for argument in kernel.body.block.args:
                if isinstance(argument.type, GlobalType):
                    check_symbols(
                        f"@{kernel.sym_name.data}'s tensor", argument.type, self.symbol_names
                    )
            self._verify_bindings(kernel, dispatches[0])

    def _verify_bindings(self, kernel: KernelOp, dispatch: DispatchOp) -> None:
        """What a kernel binds is there, and tensors are views of the signature's."""
        where, signature = f"kernel @{kernel.sym_name.data} binds", dispatch.arg_types.data
        for argument, binding in zip(kernel.body.block.args, kernel.bindings, strict=True):
            if (tensor := binding.tensor_index) is not None:
                if tensor >= len(signature):
                    raise VerifyException(
                        f"{where} tensor {tensor} of a signature of {len(signature)} tensors"
                    )
                check_bound(f"{where} tensor {tensor}", binding, argument.type, signature[tensor])
            symbol = binding.symbol_name
            if symbol is not None and symbol not in self.symbol_names:
                raise VerifyException(
                    f"{where} the symbol {symbol}, which is none of "
                    f"[{', '.join(self.symbol_names)}]"
                )


def gpu_module_of(module: Operation, name: str | None = None) -> ModuleOp:
    """The ``gpu.module`` that ``module`` is or holds, of a name where one is given.

    Raises PolycError ``NothingToRun`` where that is not just one.
    """
    if isinstance(module, ModuleOp):
        return module
    found = [
        op
        for op in (module.ops if isinstance(module, BuiltinModuleOp) else ())
        if isinstance(op, ModuleOp) and name in (None, op.sym_name.data)
    ]
    if len(found) != 1:
        names = ", ".join(op.sym_name.data for op in found) or "none"
        raise PolycError(
            "NothingToRun",
            f"expected one gpu.module{'' if name is None else ' ' + name}, and there is {names}; "
            "lower the program, and name one of several",
            module,
        )
    return found[0]


@irdl_op_definition
class DispatchOp(Dispatch):
    """The host's side of a module; ``Dispatch`` has its fields."""

    traits = traits_def(NoTerminator(), HasParent(ModuleOp))

    def __init__(
        self,
        arg_names: Sequence[str],
        arg_types: Sequence[GlobalType],
        arg_attrs: Sequence[DictionaryAttr],
        num_inputs: int,
        launches: Sequence[Operation],
    ) -> None:
        super().__init__(
            properties={
                "arg_names": ArrayAttr(map(StringAttr, arg_names)),
                "arg_types": ArrayAttr(arg_types),
                "arg_attrs": ArrayAttr(arg_attrs),
                "num_inputs": index_attr(num_inputs),
            },
            regions=[Region(Block(launches))],
        )

    def variants(self) -> list[LaunchOp | SequenceOp]:
        """What may run, in order of preference."""
        return [op for op in self.body.block.ops if isinstance(op, LaunchOp | SequenceOp)]

    def launches(self) -> list[LaunchOp]:
        """Every launch, those of sequences among them."""
        return [launch for variant in self.variants() for launch in variant.launches()]

    @classmethod
    def parse(cls, parser: Parser) -> DispatchOp:
        names: list[str] = []
        types: list[GlobalType] = []
        attrs: list[DictionaryAttr] = []

        def tensor() -> None:
            names.append(parser.parse_identifier())
            parser.parse_punctuation(":")
            pos = parser.pos
            parsed = parser.parse_type()
            if not isinstance(parsed, GlobalType):
                parser.raise_error("a signature is of !gpu.global types", pos, parser.pos)
            types.append(parsed)
            attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, tensor)
        inputs = len(names)
        parser.parse_punctuation("->")
        parser.parse_comma_separated_list(parser.Delimiter.PAREN, tensor)
        body = parser.parse_region()
        op = cls(names, types, attrs, inputs, [])
        op.detach_region(op.body)
        op.add_region(body)
        if not body.blocks:
            body.add_block(Block())
        return op

    def print(self, printer: Printer) -> None:
        inputs = self.num_inputs.value.data
        rows = list(zip(self.arg_names, self.arg_types, self.arg_attrs, strict=True))
        for start, group in ((" (", rows[:inputs]), (" -> (", rows[inputs:])):
            printer.print_string(start)
            for i, (name, tensor, attrs) in enumerate(group):
                printer.print_string(f"{', ' if i else ''}{name.data}: ")
                printer.print_attribute(tensor)
                if attrs.data:
                    printer.print_string(" ")
                    printer.print_attr_dict(attrs.data)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        module = self.parent_op()
        if isinstance(module, ModuleOp):
            for tensor in self.arg_types:
                check_symbols("the signature's tensor", tensor, module.symbol_names)
        n = len(self.arg_types)
        if not len(self.arg_names) == len(self.arg_attrs) == n:
            raise VerifyException("a signature has one name, type and dictionary a tensor")
        if not 0 <= self.num_inputs.value.data <= n:
            raise VerifyException(f"{self.num_inputs.value.data} of {n} tensors cannot be inputs")
        for op in self.body.block.ops:
            if not isinstance(op, LaunchOp | SequenceOp):
                raise VerifyException(
                    f"gpu.dispatch holds gpu.launch and gpu.sequence only, not {op.name}"
                )
        plain = {v.variant_name for v in self.variants() if isinstance(v, LaunchOp)}
        taken: set[str] = set()
        for variant in self.variants():
            name = variant.variant_name
            if isinstance(variant, SequenceOp):
                if name in plain or name in taken:
                    raise VerifyException(
                        f"the dispatch has another variant @{name}; give the sequence its own name"
                    )
                taken.add(name)


def is_overlapped_next(launch: LaunchOp, arch: str) -> bool:
    """Whether the launch that comes after one may overlap its end: the next of its sequence, or
    else one of any call, which does where it has no need of the whole chip."""
    sequence = launch.sequence
    if sequence is not None:
        launches = sequence.launches()
        place = next(i for i, other in enumerate(launches) if other is launch)
        if place + 1 < len(launches):
            return launches[place + 1].overlapped is not None
    marked = launch.overlapped is not None or launch.cooperative is not None
    return marked and ARCHS[arch].overlapped


MODULE_OPS: list[type[Operation]] = [
    ModuleOp,
    KernelOp,
    ReturnOp,
    DispatchOp,
    SequenceOp,
    WorkspaceOp,
    LaunchOp,
]
