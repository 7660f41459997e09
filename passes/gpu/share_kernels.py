"""``gpu-share-kernels``: launches of kernels that are alike run one kernel (T2)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import BindAttr
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
        first: dict[Hashable, KernelOp] = {}
        for kernel in op.kernels():
            own = launches.get(kernel.sym_name.data, [])
            key = _key(op, kernel, own)
            if key is None:
                continue
            shared = first.setdefault(key, kernel)
            if shared is kernel:
                continue
            pairs = zip(_memories(shared), _memories(kernel), strict=True)
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


def _memories(kernel: KernelOp) -> list[BindAttr]:
    """The tensors and workspaces that it binds, each once."""
    found: dict[BindAttr, None] = {}
    for binding in kernel.bindings:
        if (index := binding.tensor_index) is not None:
            found[BindAttr.tensor(index)] = None
        elif (name := binding.workspace_name) is not None:
            found[BindAttr.workspace(name)] = None
    return list(found)


def _key(op: gpu.ModuleOp, kernel: KernelOp, launches: Sequence[LaunchOp]) -> Hashable | None:
    """What kernels that may be one have in common; None for one that stays by itself."""
    plain = all(x.sequence is not None and x.fills is None and x.rebinds is None for x in launches)
    if not launches or not plain:
        return None
    places = {binding: number for number, binding in enumerate(_memories(kernel))}
    bindings: list[Hashable] = []
    for binding in kernel.bindings:
        if binding.kind.data == "symbol":
            bindings.append(binding)
            continue
        index, name = binding.tensor_index, binding.workspace_name or ""
        memory = BindAttr.workspace(name) if index is None else BindAttr.tensor(index)
        bindings.append((binding.kind, binding.view, places[memory]))
    memories = [_memory(op, memory, launches) for memory in places]
    variants = [(launch.sequence, _said(launch)) for launch in launches]
    return (
        structure(kernel, ("sym_name", "bindings")),
        tuple(bindings),
        tuple(memories),
        tuple(variants),
    )


def _memory(op: gpu.ModuleOp, memory: BindAttr, launches: Sequence[LaunchOp]) -> Hashable:
    """What a kernel may know of a tensor or a workspace that it binds."""
    if (index := memory.tensor_index) is not None:
        aligned = tuple(launch.alignments[index] for launch in launches)
        return op.dispatch().arg_types.data[index], aligned
    found: list[Hashable] = []
    for launch in launches:
        for space in launch.workspaces():
            if space.sym_name.data == memory.workspace_name:
                found.append((space.type, space.zeroed, space.copies is None))
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
