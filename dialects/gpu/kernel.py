"""The kernel of the gpu dialect: what it binds, its CTA's size, and its end."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Region
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
from xdsl.traits import HasParent, IsolatedFromAbove, IsTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.containers import Module
from polyc.dialects.gpu.loops import verify_unrolled
from polyc.dialects.gpu.types import IndexAttr, IntsAttr, index_attr


@irdl_op_definition
class KernelOp(IRDLOperation):
    """One kernel: its arguments as the host binds them, and its body.

    ``threads`` is the CTA's size; ``shared_bytes`` its dynamic shared memory, absent until
    ``gpu-plan-shared-memory``.  ``blocks_per_sm`` bounds registers through
    ``__launch_bounds__``.  ``cluster`` neighbouring CTAs run together and reach each other's
    shared memory (SM90); the grid is a multiple of it.  16 is more than every chip promises
    (CUDA C++ Programming Guide, "Thread Block Clusters"); the host asks for it by name.
    ``registers`` is what a thread of the producer and of a consumer shall have, until
    ``gpu-warp-specialize`` makes these roles.
    """

    name = "gpu.kernel"
    sym_name = prop_def(StringAttr)
    bindings = prop_def(ArrayAttr[BindAttr])
    threads = prop_def(IndexAttr)
    blocks_per_sm = prop_def(IndexAttr)
    shared_bytes = opt_prop_def(IndexAttr)
    cluster = opt_prop_def(IndexAttr)
    registers = opt_prop_def(IntsAttr)
    body = region_def("single_block")
    traits = traits_def(SymbolOpInterface(), IsolatedFromAbove(), HasParent(Module))

    def __init__(
        self,
        name: str,
        bindings: Sequence[BindAttr],
        threads: int,
        body: Region,
        blocks_per_sm: int = 1,
        shared_bytes: int | None = None,
        cluster: int = 1,
        registers: Sequence[int] = (),
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "registers": IntsAttr(tuple(registers)) if registers else None,
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
        registers: Sequence[int] = ()
        if parser.parse_optional_keyword("registers") is not None:
            registers = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, parser.parse_integer
            )
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region(arguments)
        op = cls(name, bindings, threads, body, blocks, shared, cluster, registers)
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
        if self.registers is not None:
            printer.print_string(f" registers [{', '.join(map(str, self.registers.data))}]")
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
        if self.cluster_size not in (1, 2, 4, 8, 16):
            raise VerifyException(f"a cluster has 1, 2, 4, 8 or 16 CTAs, not {self.cluster_size}")
        if self.cluster_size > 1 and isinstance(module, Module) and module.arch.data < "sm_90a":
            raise VerifyException(f"clusters need sm_90a, and the module is for {module.arch.data}")
        if threads % 32 or not 32 <= threads <= 1024:
            raise VerifyException(f"a CTA has 32 to 1024 threads in whole warps, not {threads}")
        if self.registers is not None and len(self.registers.data) != 2:
            raise VerifyException(
                f"registers are those of a producer's thread and of a consumer's, two numbers, not "
                f"{list(self.registers.data)}"
            )
        if len(args) != len(self.bindings):
            raise VerifyException(
                f"{len(self.bindings)} bindings do not fit {len(args)} kernel arguments"
            )
        verify_unrolled(self)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """End of a kernel."""

    name = "gpu.return"
    traits = traits_def(IsTerminator(), HasParent(KernelOp))
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


def kernels_of(module: Module) -> list[KernelOp]:
    """The kernels of a module, in the order of the text."""
    return [op for op in module.body.block.ops if isinstance(op, KernelOp)]
