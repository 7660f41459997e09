"""``gpu-share-kernels``: launches of kernels that are alike run one kernel (T2)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, BlockArgument
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import BindAttr
from polyc.passes.gpu.assumptions import MAX_VECTOR_BYTES
from polyc.rewriting.driver import copied, rewrite
from polyc.rewriting.structure import structure


class ShareKernels(RewritePattern):
    """Kernels of a module that differ in the memory that they bind alone become one.

    A launch of another one says what it ``rebinds``.  Legality: the kernels are the same ops; each
    is launched by sequences only, all by the same ones, so that what holds of sizes is the same;
    what they bind has the same sizes, elements and promised alignment, and is the same memory where
    it is for the other; and no launch fills a copy, which is known by its name.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.ModuleOp, rewriter: PatternRewriter) -> None:
        if not op.has_dispatch():
            return
        launches: dict[str, list[LaunchOp]] = {}
        for launch in op.dispatch().launches():
            launches.setdefault(launch.kernel_name, []).append(launch)
        first: dict[Hashable, tuple[KernelOp, Sequence[BindAttr]]] = {}
        for kernel in op.kernels():
            own = launches.get(kernel.sym_name.data, [])
            if not own or not all(map(_is_plain, own)):
                continue
            key, memories = _read(op, kernel, own)
            shared, theirs = first.setdefault(key, (kernel, memories))
            if shared is kernel:
                continue
            pairs = zip(theirs, memories, strict=True)
            rebinds = {one: other for one, other in pairs if one != other}
            for launch in own:
                rewriter.replace(launch, _on(launch, shared, rebinds), [])
            rewriter.erase(kernel)


def _on(launch: LaunchOp, kernel: KernelOp, rebinds: Mapping[BindAttr, BindAttr]) -> LaunchOp:
    """The launch with another kernel in place of its own."""
    found = copied(launch)
    found.kernel = SymbolRefAttr(kernel.sym_name.data)
    if rebinds:
        found.rebinds = ArrayAttr(ArrayAttr(pair) for pair in rebinds.items())
    return found


def _is_plain(launch: LaunchOp) -> bool:
    return launch.sequence is not None and launch.fills is None and launch.rebinds is None


def _read(
    op: gpu.ModuleOp, kernel: KernelOp, launches: Sequence[LaunchOp]
) -> tuple[Hashable, Sequence[BindAttr]]:
    """What kernels that may be one have in common, and the memory that this one binds, in an order
    that they have in common too."""
    used: list[BlockArgument] = []
    written = structure(kernel, ("sym_name", "bindings"), used)
    places: dict[BindAttr, int] = {}
    bindings: list[Hashable] = []
    for arg in used:
        binding = kernel.bindings.data[arg.index]
        if binding.kind.data == "symbol":
            bindings.append(binding)
            continue
        index, name = binding.tensor_index, binding.workspace_name or ""
        memory = BindAttr.workspace(name) if index is None else BindAttr.tensor(index)
        place = places.setdefault(memory, len(places))
        bindings.append((binding.kind.data == "tensor_map", binding.view, place))
    memories = tuple(_memory(op, memory, launches) for memory in places)
    variants = tuple((launch.sequence, _said(launch)) for launch in launches)
    return (written, tuple(bindings), memories, variants), list(places)


def _memory(op: gpu.ModuleOp, memory: BindAttr, launches: Sequence[LaunchOp]) -> Hashable:
    """What a kernel may know of a tensor or a workspace that it binds: its sizes, its elements, and
    what its address is a multiple of, as far as any access asks."""
    found: list[Hashable] = []
    for launch in launches:
        if (index := memory.tensor_index) is not None:
            kind = op.dispatch().arg_types.data[index]
            aligned = gcd(launch.alignments[index], MAX_VECTOR_BYTES)
            found.append((kind.dims, kind.element_type, aligned))
        for space in launch.workspaces() if index is None else ():
            if space.sym_name.data == memory.workspace_name:
                found.append((space.type.dims, space.type.element_type, MAX_VECTOR_BYTES))
    return tuple(found)


def _said(launch: LaunchOp) -> tuple[tuple[str, Attribute], ...]:
    """What a launch says, but for its kernel's name."""
    return tuple((k, v) for k, v in sorted(launch.properties.items()) if k != "kernel")


@dataclass(frozen=True)
class GpuShareKernels(ModulePass):
    """Launch one kernel for all that are alike."""

    name = "gpu-share-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ShareKernels()])
