"""``gpu-share-kernels``: launches of kernels that are alike run one kernel, and launches that
compute the same, of the same, are one (T2)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Attribute, BlockArgument, Use
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import LoadGlobalOp
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
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


class ShareLaunches(RewritePattern):
    """A launch of a sequence that computes what one before it did, in workspaces of its own, is
    left out, and what reads these reads the other's.  So scatters at one index have one set of
    lists.

    Legality: what a launch writes follows from its kernel, its grid and the contents of all memory
    that it binds, which are numbered: memory has the contents of its launch, or those that it has
    at first.  All launches that are left find the contents that they found before, each memory
    of a launch is another one where it was, and no result of the program is written by a launch
    that is left out.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.ModuleOp, rewriter: PatternRewriter) -> None:
        for variant in op.dispatch().variants() if op.has_dispatch() else ():
            if isinstance(variant, SequenceOp):
                self.share(op, variant, rewriter)

    def share(self, op: gpu.ModuleOp, sequence: SequenceOp, rewriter: PatternRewriter) -> None:
        """The same of one sequence."""
        launches = [one for one in sequence.body.block.ops if isinstance(one, LaunchOp)]
        spaces = [one for one in sequence.body.block.ops if isinstance(one, WorkspaceOp)]
        contents = Contents(op, spaces)
        found = contents.of(launches, {})
        first: dict[int, LaunchOp] = {}
        again: list[LaunchOp] = []
        theirs: list[Mapping[BindAttr, BindAttr]] = []
        for launch, key in zip(launches, found, strict=True):
            other = first.setdefault(key, launch)
            if other is launch or not contents.writes_workspaces_alone(launch):
                continue
            again.append(launch)
            pairs = zip(contents.memories(launch), contents.memories(other), strict=True)
            theirs.append({own: its for own, its in pairs if own != its})
        # Where one launch reads the results of both, the last ones of the two stay apart.
        while again:
            instead = dict(pair for pairs in theirs for pair in pairs.items())
            kept = [launch for launch in launches if launch not in again]
            before = [key for launch, key in zip(launches, found, strict=True) if launch in kept]
            if contents.of(kept, instead) == before:
                break
            again.pop()
            theirs.pop()
        else:
            return
        for launch in kept:
            self.moved(launch, contents.kernels[launch.kernel_name], instead, rewriter)
        for gone in again:
            rewriter.erase(gone)
        for space in spaces:
            if BindAttr.workspace(space.sym_name.data) in instead:
                rewriter.erase(space)

    @staticmethod
    def moved(
        launch: LaunchOp,
        kernel: KernelOp,
        instead: Mapping[BindAttr, BindAttr],
        rewriter: PatternRewriter,
    ) -> None:
        """Let a launch run on other memory."""
        rebinds: dict[BindAttr, BindAttr] = {}
        for binding in kernel.bindings.data:
            if (own := _memory_of(binding)) is not None:
                its = _memory_of(launch.bound(binding))
                assert its is not None
                rebinds[own] = instead.get(its, its)
        pairs = [ArrayAttr(pair) for pair in rebinds.items() if pair[0] != pair[1]]
        new = ArrayAttr(pairs) if pairs else None
        if new != launch.rebinds:
            launch.rebinds = new
            rewriter.notify_op_modified(launch)


class Contents:
    """Numbers what memory holds when the launches of a sequence run."""

    def __init__(self, module: gpu.ModuleOp, spaces: Sequence[WorkspaceOp]) -> None:
        self.kernels = {kernel.sym_name.data: kernel for kernel in module.kernels()}
        self.numbers: dict[Hashable, int] = {}
        self.first: dict[BindAttr, Hashable] = {}
        for space in spaces:
            memory = BindAttr.workspace(space.sym_name.data)
            # A copy is known by its name.
            what = memory if space.copies is not None else space.zeroed
            self.first[memory] = (space.type, what)

    def number(self, what: Hashable) -> int:
        """A number of what is known of contents."""
        return self.numbers.setdefault(what, len(self.numbers))

    def memories(self, launch: LaunchOp) -> list[BindAttr]:
        """The memory of each argument of a launch's kernel that has any."""
        bound = map(launch.bound, self.kernels[launch.kernel_name].bindings.data)
        return [memory for one in bound if (memory := _memory_of(one)) is not None]

    def written(self, launch: LaunchOp) -> list[BindAttr]:
        """The memory that a launch may write."""
        kernel = self.kernels[launch.kernel_name]
        found: list[BindAttr] = []
        for argument, binding in zip(kernel.body.block.args, kernel.bindings.data, strict=True):
            memory = _memory_of(launch.bound(binding))
            if memory is not None and not all(map(_reads, argument.uses)):
                found.append(memory)
        return found

    def writes_workspaces_alone(self, launch: LaunchOp) -> bool:
        """Whether a launch may be left out, where another one has done what it does."""
        return launch.fills is None and all(one in self.first for one in self.written(launch))

    def of(self, launches: Sequence[LaunchOp], instead: Mapping[BindAttr, BindAttr]) -> list[int]:
        """A number for what each launch computes, with other memory ``instead`` of some."""
        now: dict[BindAttr, int] = {}
        found: list[int] = []
        for launch in launches:
            memories = [instead.get(one, one) for one in self.memories(launch)]
            places = tuple(memories.index(one) for one in memories)
            holds = tuple(
                now.setdefault(one, self.number(("first", self.first.get(one, one))))
                for one in memories
            )
            said = tuple((k, v) for k, v in _said(launch) if k != "rebinds")
            key = self.number((launch.kernel_name, said, places, holds))
            found.append(key)
            for own in self.written(launch):
                one = instead.get(own, own)
                now[one] = self.number((key, memories.index(one)))
        return found


def _memory_of(binding: BindAttr) -> BindAttr | None:
    """The tensor or the workspace that is bound; None of a symbol."""
    if binding.kind.data == "symbol":
        return None
    if (index := binding.tensor_index) is not None:
        return BindAttr.tensor(index)
    return BindAttr.workspace(binding.workspace_name or "")


def _reads(use: Use) -> bool:
    """Whether an op does no more with a memory than read it, as far as is known."""
    match use.operation:
        case LoadGlobalOp():
            return True
        case tile.MapOp() as op:
            return op.operands[use.index] not in op.outputs
        case tile.CopyOp() as op:
            return op.operands[use.index] is op.source and op.source is not op.target
        case _:
            return False


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
    """Launch one kernel for all that are alike, and once for all that compute the same."""

    name = "gpu-share-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ShareKernels()])
        rewrite(op, [ShareLaunches()])
