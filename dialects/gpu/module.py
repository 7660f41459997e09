"""Containers of the gpu dialect: a compiled graph, its kernels, and who runs when.

A ``gpu.module`` is one graph compiled for one architecture.  It holds kernels and one
``gpu.dispatch`` whose ``gpu.launch`` ops are tried in order by the host (S9.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, SymbolRefAttr
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.dim import (
    AssumptionsAttr,
    Dim,
    ShapeAttr,
    parse_assumptions,
    parse_shape,
    shape_text,
    unknown_symbol,
)
from polyc.dialects.gpu.types import BindAttr, GlobalType, IndexAttr, IntsAttr, index_attr


def _parse_optional_assumptions(parser: Parser, word: str) -> AssumptionsAttr:
    if parser.parse_optional_keyword(word) is None:
        return AssumptionsAttr(())
    return AssumptionsAttr(parse_assumptions(parser))


@irdl_op_definition
class ModuleOp(IRDLOperation):
    """One graph compiled for one architecture.

    ``arch`` is ``sm_80`` or ``sm_90a`` (S0.1); ``symbols`` are the sizes of the signature in
    order of appearance, ``assumptions`` the facts that the graph states about them (S2.1).
    """

    name = "gpu.module"
    sym_name = prop_def(StringAttr)
    arch = prop_def(StringAttr)
    symbols = prop_def(ArrayAttr[StringAttr])
    assumptions = prop_def(AssumptionsAttr)
    body = region_def("single_block")
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

    @property
    def symbol_names(self) -> tuple[str, ...]:
        return tuple(s.data for s in self.symbols)

    def kernels(self) -> list[KernelOp]:
        return [op for op in self.body.block.ops if isinstance(op, KernelOp)]

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
        assumptions = _parse_optional_assumptions(parser, "assuming")
        op = cls(name, arch, symbols, assumptions, [])
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
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        if self.arch.data not in ("sm_80", "sm_90a"):
            raise VerifyException(f'arch is "sm_80" or "sm_90a", not "{self.arch.data}"')
        for fact in self.assumptions.data:
            if (fault := unknown_symbol(fact, self.symbol_names)) is not None:
                raise VerifyException(f"{fault} of gpu.module @{self.sym_name.data}")
        dispatches = [op for op in self.body.block.ops if isinstance(op, DispatchOp)]
        if len(dispatches) > 1:
            raise VerifyException(
                f"gpu.module @{self.sym_name.data} has {len(dispatches)} gpu.dispatch; it has one"
            )
        for kernel in self.kernels() if dispatches else ():
            for binding in kernel.bindings:
                tensor, count = binding.tensor_index, len(dispatches[0].arg_types)
                if tensor is not None and tensor >= count:
                    raise VerifyException(
                        f"kernel @{kernel.sym_name.data} binds tensor {tensor} of a signature "
                        f"of {count} tensors"
                    )
                if tensor is None and binding.source.data not in self.symbol_names:
                    raise VerifyException(
                        f"kernel @{kernel.sym_name.data} binds the symbol {binding.source.data}, "
                        f"which is none of [{', '.join(self.symbol_names)}]"
                    )


@irdl_op_definition
class KernelOp(IRDLOperation):
    """One kernel: its arguments as the host binds them, and its body.

    ``threads`` is the CTA's size; ``shared_bytes`` its dynamic shared memory, absent until
    ``gpu-plan-shared-memory``.  ``blocks_per_sm`` bounds registers through
    ``__launch_bounds__``.  ``cluster`` neighbouring CTAs run together and reach each other's
    shared memory (SM90); the grid is a multiple of it.
    """

    name = "gpu.kernel"
    sym_name = prop_def(StringAttr)
    bindings = prop_def(ArrayAttr[BindAttr])
    threads = prop_def(IndexAttr)
    blocks_per_sm = prop_def(IndexAttr)
    shared_bytes = opt_prop_def(IndexAttr)
    cluster = opt_prop_def(IndexAttr)
    body = region_def("single_block")
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove(), HasParent(ModuleOp))

    def __init__(
        self,
        name: str,
        bindings: Sequence[BindAttr],
        threads: int,
        body: Region,
        blocks_per_sm: int = 1,
        shared_bytes: int | None = None,
        cluster: int = 1,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "cluster": None if cluster == 1 else index_attr(cluster),
                "bindings": ArrayAttr(bindings),
                "threads": index_attr(threads),
                "blocks_per_sm": index_attr(blocks_per_sm),
                "shared_bytes": None if shared_bytes is None else index_attr(shared_bytes),
            },
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> KernelOp:
        name = parser.parse_symbol_name().data
        bindings: list[BindAttr] = []
        arguments: list[Parser.Argument] = []

        def argument() -> None:
            arguments.append(parser.parse_argument())
            parser.parse_punctuation("=")
            bindings.append(BindAttr.parse_binding(parser))

        parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        parser.parse_keyword("threads")
        threads = parser.parse_integer()
        blocks = 1
        if parser.parse_optional_keyword("blocks_per_sm") is not None:
            blocks = parser.parse_integer()
        cluster = 1
        if parser.parse_optional_keyword("cluster") is not None:
            cluster = parser.parse_integer()
        shared: int | None = None
        if parser.parse_optional_keyword("shared_bytes") is not None:
            shared = parser.parse_integer()
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        op = cls(name, bindings, threads, body, blocks, shared, cluster)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string("(")
        for i, (arg, bind) in enumerate(zip(self.body.block.args, self.bindings, strict=True)):
            printer.print_string(", " if i else "")
            printer.print_block_argument(arg)
            printer.print_string(f" = {bind.text()}")
        printer.print_string(f") threads {self.threads.value.data}")
        if self.blocks_per_sm.value.data != 1:
            printer.print_string(f" blocks_per_sm {self.blocks_per_sm.value.data}")
        if self.cluster is not None:
            printer.print_string(f" cluster {self.cluster.value.data}")
        if self.shared_bytes is not None:
            printer.print_string(f" shared_bytes {self.shared_bytes.value.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster; 1 where there are none."""
        return 1 if self.cluster is None else self.cluster.value.data

    def verify_(self) -> None:
        threads, args = self.threads.value.data, self.body.block.args
        module = self.parent_op()
        if self.cluster_size not in (1, 2, 4, 8):
            raise VerifyException(f"a cluster has 1, 2, 4 or 8 CTAs, not {self.cluster_size}")
        if self.cluster_size > 1 and isinstance(module, ModuleOp) and module.arch.data < "sm_90a":
            raise VerifyException(f"clusters need sm_90a, and the module is for {module.arch.data}")
        if threads % 32 or not 32 <= threads <= 1024:
            raise VerifyException(f"a CTA has 32 to 1024 threads in whole warps, not {threads}")
        if len(args) != len(self.bindings):
            raise VerifyException(
                f"{len(self.bindings)} bindings do not fit {len(args)} kernel arguments"
            )


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """End of a kernel."""

    name = "gpu.return"
    traits = traits_def(IsTerminator(), HasParent(KernelOp))
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class DispatchOp(IRDLOperation):
    """The host's side of a module: the signature, and the launches in order of preference.

    The signature is the ABI (S12.1): ``arg_types`` are the inputs and then the outputs as
    ``!gpu.global`` types, ``arg_names`` their names, ``num_inputs`` where outputs begin.
    ``arg_attrs`` carries role, storage, mutability of each.  An output of which some size is
    0 needs no launch.
    """

    name = "gpu.dispatch"
    arg_names = prop_def(ArrayAttr[StringAttr])
    arg_types = prop_def(ArrayAttr[GlobalType])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    num_inputs = prop_def(IndexAttr)
    body = region_def("single_block")
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

    def launches(self) -> list[LaunchOp]:
        return [op for op in self.body.block.ops if isinstance(op, LaunchOp)]

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
        n = len(self.arg_types)
        if not len(self.arg_names) == len(self.arg_attrs) == n:
            raise VerifyException("a signature has one name, type and dictionary a tensor")
        if not 0 <= self.num_inputs.value.data <= n:
            raise VerifyException(f"{self.num_inputs.value.data} of {n} tensors cannot be inputs")
        for op in self.body.block.ops:
            if not isinstance(op, LaunchOp):
                raise VerifyException(f"gpu.dispatch holds gpu.launch only, not {op.name}")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Run ``kernel`` with ``grid`` CTAs (x only) if all of its conditions hold.

    ``when`` is about the symbols; ``align`` gives, a tensor of the signature, the bytes that
    its base address must be a multiple of.  The grid is the product of its expressions.
    """

    name = "gpu.launch"
    kernel = prop_def(SymbolRefAttr)
    when = prop_def(AssumptionsAttr)
    align = prop_def(IntsAttr)
    grid = prop_def(ShapeAttr)
    traits = traits_def(HasParent(DispatchOp))

    def __init__(
        self,
        kernel: str,
        when: AssumptionsAttr,
        align: Sequence[int],
        grid: Sequence[Dim | int | str],
    ) -> None:
        super().__init__(
            properties={
                "kernel": SymbolRefAttr(kernel),
                "when": when,
                "align": IntsAttr(tuple(align)),
                "grid": ShapeAttr.of(grid),
            }
        )

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        name = parser.parse_symbol_name().data
        when = _parse_optional_assumptions(parser, "when")
        parser.parse_keyword("align")
        align = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        parser.parse_keyword("grid")
        return cls(name, when, align, parse_shape(parser))

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel.root_reference.data)
        if self.when.data:
            printer.print_string(f" when {self.when.text()}")
        align = ", ".join(map(str, self.align.data))
        printer.print_string(f" align [{align}] grid {shape_text(self.grid.data)}")

    def verify_(self) -> None:
        dispatch = self.parent_op()
        assert isinstance(dispatch, DispatchOp)
        if len(self.align.data) != len(dispatch.arg_types):
            raise VerifyException(
                f"{len(self.align.data)} alignments do not fit {len(dispatch.arg_types)} tensors"
            )
        module = dispatch.parent_op()
        assert isinstance(module, ModuleOp)
        name = self.kernel.root_reference.data
        if name not in (k.sym_name.data for k in module.kernels()):
            raise VerifyException(f"gpu.module @{module.sym_name.data} has no kernel @{name}")
        for fact in self.when.data:
            if (fault := unknown_symbol(fact, module.symbol_names)) is not None:
                raise VerifyException(f"{fault} of gpu.module @{module.sym_name.data}")
        for size in self.grid.data:
            if unknown := [s for s in size.symbols() if s not in module.symbol_names]:
                raise VerifyException(
                    f"the grid {shape_text(self.grid.data)} of @{name} names {unknown[0]}, which "
                    f"is none of [{', '.join(module.symbol_names)}]"
                )


MODULE_OPS: list[type[Operation]] = [ModuleOp, KernelOp, ReturnOp, DispatchOp, LaunchOp]
