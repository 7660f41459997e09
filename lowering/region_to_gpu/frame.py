"""``region-to-gpu``: what the kernels of all families have in common.

A ``Lowering`` is a region with what its family knows of it.  It says how wide each of its schedules
is launched, and builds the schedule's kernel in a ``Frame``: the kernel's block, with the tensors
and the symbols of the region as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from xdsl.ir import Block, BlockArgument, Region, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.launches import LaunchOp, WorkspaceOp
from polyc.dialects.gpu.types import GlobalType, IntsAttr, element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.dialects.region.types import MemRefType
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit
from polyc.rewriting.region.chunks import together


@dataclass(frozen=True)
class Space:
    """A workspace of a schedule's kernels.

    ``name``    what it is called in the module, if nothing else is
    ``kind``    its type
    ``copies``  the number of the tensor of the signature that it is a copy of, or None
    ``zeroed``  whether it is all zeros at first
    ``shared``  whether one kernel writes it for all schedules that have one of its name
    """

    name: str
    kind: GlobalType
    copies: int | None = None
    zeroed: bool = False
    shared: bool = False

    def workspace(self, name: str, bindings: Sequence[BindAttr]) -> WorkspaceOp:
        """The workspace as it is called; ``bindings`` say what each tensor of the signature is."""
        copies = None if self.copies is None else bindings[self.copies]
        return WorkspaceOp(name, self.kind, self.zeroed, copies)


class Lowering(Protocol):
    """A region of one family, on its way to kernels."""

    @property
    def kernel(self) -> KernelOp:
        """The region."""
        ...

    def check_form(self, plan: ScheduleOp) -> None:
        """Raises PolycError where the region does not have the form that the schedule builds of."""
        ...

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        """When and how wide to run each kernel of a schedule, in their order; each has all
        conditions, and says which of the ``spaces`` it fills with a copy."""
        ...

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        """The workspaces that these write and read."""
        ...

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        """The kernels of a schedule; ``bindings`` say what each tensor of the signature is, and
        ``spaces`` what each workspace.

        Raises PolycError ``UnsupportedPlan`` for a choice that is not built.
        """
        ...


class CopyFrame:
    """The block of a kernel that copies a tensor to a workspace for another kernel to read.

    ``tensor`` and ``filled`` are its arguments for the two, and ``emit`` collects its ops.
    """

    def __init__(
        self, region: KernelOp, name: str, kinds: Sequence[GlobalType], sizes: Sequence[Dim]
    ) -> None:
        """``name`` is what the region calls the tensor, ``kinds`` are the types of it and of the
        copy; ``sizes`` have the symbols that the kernel takes.
        """
        used = {name for size in sizes for name in size.symbols()}
        self.symbols = [name for name in region.symbol_names if name in used]
        self.block = Block(arg_types=[*kinds, *(INDEX for _ in self.symbols)])
        self.tensor, self.filled, *self._values = self.block.args
        for arg, hint in zip(self.block.args, (name, "copy", *self.symbols), strict=True):
            arg.name_hint = hint
        self.emit = Emit()
        self._region = region

    def size(self, dim: Dim) -> SSAValue:
        """A size as an index value."""
        return self.emit.dim(dim, self.symbols, self._values)

    def finish(self, name: str, bindings: Sequence[BindAttr], threads: int) -> gpu.KernelOp:
        """The kernel, of so many threads, whose two tensors are bound so."""
        self.emit.op(gpu.ReturnOp())
        self.block.add_ops(self.emit.ops)
        every = [*bindings, *map(BindAttr.symbol, self.symbols)]
        return located(gpu.KernelOp(name, every, threads, Region(self.block)), self._region)


class Frame:
    """The block of a kernel under construction.

    ``emit`` collects its ops; ``symbols`` are the sizes by name.
    """

    def __init__(
        self, kernel: KernelOp, copies: Mapping[int, GlobalType] = MappingProxyType({})
    ) -> None:
        """``copies`` are the types of tensors of which it reads a copy, by number."""
        self.kernel = kernel
        seen = enumerate(map(global_type, kernel.seen))
        self.types = [copies.get(number, kind) for number, kind in seen]
        names = [n.data for n in (*kernel.arg_names, *kernel.res_names)]
        symbols = kernel.symbol_names
        self.block = Block(arg_types=[*self.types, *(INDEX for _ in symbols)])
        for arg, name in zip(self.block.args, (*names, *symbols), strict=True):
            arg.name_hint = name
        for arg, tensor in zip(self.block.args, kernel.ins, strict=False):
            arg.location = tensor.location
        self.symbols = dict(zip(symbols, self.block.args[len(names) :], strict=True))
        self.emit = Emit()
        self._tensors = list(self.block.args[: len(names)])
        self._views: dict[tuple[int, Shape], BlockArgument] = {}
        self._spaces: dict[SSAValue, BindAttr] = {}

    def size(self, dim: Dim) -> SSAValue:
        """A size as an index value."""
        return self.emit.dim(dim, list(self.symbols), list(self.symbols.values()))

    def argument(self, tensor: SSAValue) -> SSAValue:
        """The kernel's argument for a tensor that the region reads."""
        assert isinstance(tensor, BlockArgument)
        return self._tensors[tensor.index]

    @property
    def outputs(self) -> list[SSAValue]:
        """The kernel's arguments for what the region writes."""
        return list(self._tensors[len(self.kernel.arg_names) :])

    def view(self, number: int, dims: Shape) -> SSAValue:
        """An argument for tensor ``number`` of the signature, with axes merged or split.

        Arguments of which only views are used do not stay.
        """
        whole = self._tensors[number]
        if self.types[number].dims == dims:
            return whole
        if (number, dims) not in self._views:
            kind = GlobalType.of(dims, self.types[number].element_type)
            found = self.block.insert_arg(kind, whole.index + 1)
            found.name_hint, found.location = whole.name_hint, whole.location
            self._views[number, dims] = found
        return self._views[number, dims]

    def space(self, kind: GlobalType, binding: BindAttr, hint: str = "sums") -> SSAValue:
        """An argument for a workspace.  A kernel with one has no tensor that it does not use."""
        place = len(self.block.args) - len(self.symbols)
        found = self.block.insert_arg(kind, place)
        found.name_hint = hint
        self._spaces[found] = binding
        return found

    def finish(
        self,
        plan: ScheduleOp,
        bindings: Sequence[BindAttr],
        cluster: int = 1,
        adding: int | None = None,
        ahead: tuple[str, int] | None = None,
    ) -> gpu.KernelOp:
        """The kernel of what was emitted, under the schedule's name; or, of so many threads, the
        one that is ``adding`` what that left, or one that runs ``ahead``, of a name and threads."""
        self.emit.op(gpu.ReturnOp())
        self.block.add_ops(self.emit.ops)
        bound = {arg: BindAttr.symbol(name) for name, arg in self.symbols.items()}
        bound |= dict(zip(self._tensors, bindings, strict=True))
        bound |= {arg: bindings[number] for (number, _), arg in self._views.items()}
        bound |= self._spaces
        unused = range(len(self._tensors)) if self._spaces else {n for n, _ in self._views}
        for number in unused:
            if not self._tensors[number].uses.get_length():
                self.block.erase_arg(self._tensors[number])
        name, threads = plan.kernel_name, plan.threads()
        if adding is not None:
            name, threads = plan.kernel_names[1], adding
        name, threads = ahead or (name, threads)
        kernel = gpu.KernelOp(
            name,
            [bound[arg] for arg in self.block.args],
            threads,
            Region(self.block),
            cluster=cluster,
        )
        if adding is None and ahead is None and (split := plan.integers("registers")):
            kernel.registers = IntsAttr(tuple(split))
        return located(kernel, self.kernel)


def check_whole(kernel: KernelOp, plan: ScheduleOp) -> None:
    """Raises PolycError where a schedule that takes reductions whole has one in parts before it."""
    if (op := next(iter(together(kernel)), None)) is not None:
        raise PolycError(
            "UnsupportedPlan",
            f"plan {plan.variant.data!r} takes the reductions of @{kernel.sym_name.data} whole, "
            "and this one goes in parts; run region-expand-together first",
            op,
        )


def alignments(kernel: KernelOp, plan: ScheduleOp) -> list[int]:
    """How aligned every tensor's base address must be, in bytes: as the plan's vectors are wide."""
    width = plan.integer("vectorize")
    return [min(width * element_bytes(t.element_type), MAX_VECTOR_BYTES) for t in kernel.seen]


def signature_type(memref: MemRefType) -> GlobalType:
    """The tensor as the host has it, which says whether its integers are signed."""
    return GlobalType.of(memref.shape, memref.element_type)


def global_type(memref: MemRefType) -> GlobalType:
    """The tensor as a kernel has it, whose integers have no sign."""
    return GlobalType.of(memref.shape, without_sign(memref.element_type))
