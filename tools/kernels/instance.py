"""A tile program for one region: its symbols are the region's sizes, its tensors the region's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import Rewriter

from polyc.affine.isl import IslLimitExceeded, implies, is_empty
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.common.signature import symbol_space
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
from polyc.dialects.gpu.module import DispatchOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.region import KernelOp
from polyc.lowering.region_to_gpu.frame import global_type
from polyc.rewriting.driver import copied, located
from polyc.rewriting.emit import INDEX, Emit
from polyc.rewriting.region.matching import Match
from polyc.tools.kernels.registered import Registered

LARGE = 512
"""From where on a size is more than some trials may have."""


@dataclass(frozen=True)
class Instance:
    """One variant of a program in a region's place, as a module of its own with one variant.

    The module's signature is the region's.  ``region`` is the form of the region that was matched.
    """

    registered: Registered
    number: int
    """Which of the program's variants it is."""
    region: KernelOp
    match: Match
    module: GpuModuleOp

    @property
    def name(self) -> str:
        """The program, and which of its variants where it has several."""
        variants = self.registered.module.dispatch().variants()
        own, variant = self.registered.name, variants[self.number].variant_name
        return own if len(variants) == 1 or variant == own else f"{own} ({variant})"

    @property
    def key(self) -> tuple[object, ...]:
        """What a kernel is made of, but for the region's name: what is alike does alike."""
        symbols = tuple((s, str(size)) for s, size in self.match.symbols.items())
        tensors = tuple(map(str, self.region.tensors))
        facts = (*self.region.facts, *self.launch.facts.data)
        own = (self.registered.name, self.number)
        return (*own, symbols, self.match.tensors, tensors, tuple(map(str, facts)))

    @property
    def launch(self) -> LaunchOp | SequenceOp:
        """The one variant of the module."""
        return self.module.dispatch().variants()[0]


def instances(registered: Registered, region: KernelOp, match: Match) -> list[Instance | str]:
    """The variants of a program for a region, in order; a sentence in place of one that never runs.

    A variant's conditions are its own, the program's assumptions, and what the pattern assumes,
    without those that the region's own assumptions imply.
    """
    made = _Making(registered, region, match)
    return [made.variant(i) for i in range(len(registered.module.dispatch().variants()))]


def of_pattern(instance: Instance) -> Instance:
    """The same variant for the region of its own pattern, whose sizes are open."""
    own, pattern = instance.registered, instance.registered.pattern
    symbols = {s: Dim.sym(s) for s in pattern.symbol_names}
    count = len(pattern.ins) + len(pattern.outs)
    made = _Making(own, pattern, Match(tuple(range(count)), symbols, pattern.facts))
    found = made.variant(instance.number)
    # What some sizes of a region satisfy, some of its pattern's do.
    assert isinstance(found, Instance)
    return found


def without_large_sizes(instance: Instance) -> Instance | None:
    """The same without conditions that sizes are ``LARGE`` or more; None where it has none.

    Such a condition says where a kernel is fast, and hardly ever where it is right.
    """
    facts = instance.launch.facts.data
    kept = [f for f in facts if f.kind == "==" or dict(f.expr.terms).get((), 0) > -LARGE]
    if len(kept) == len(facts):
        return None
    found = replace(instance, module=copied(instance.module))
    found.launch.when = AssumptionsAttr(tuple(kept))
    return found


class _Making:
    def __init__(self, registered: Registered, region: KernelOp, match: Match) -> None:
        self.registered, self.region, self.match = registered, region, match
        self.places = [match.tensors[i] for i in registered.tensors]
        """For each tensor of the program, the region's."""
        self.bindings = match.symbols

    def _dim(self, size: Dim) -> Dim:
        return size.substitute(self.bindings)

    def variant(self, number: int) -> Instance | str:
        op = self.registered.module.dispatch().variants()[number]
        stated = self.registered.module.assumptions.data
        conditions = self._needed((*op.facts.data, *stated, *self.registered.pattern.facts))
        if isinstance(conditions, str):
            return conditions
        if any(launch.rebinds is not None for launch in op.launches()):
            return "a launch of it rebinds memory, which no launch of a program of tiles does"
        prefix = re.sub(r"\W", "_", f"{self.region.sym_name.data}_{self.registered.name}")
        kernels = {k.sym_name.data: k for k in self.registered.module.kernels()}
        names = self._names(prefix, [launch.kernel_name for launch in op.launches()])
        made = [self._kernel(kernels[old], new, prefix) for old, new in names.items()]
        tensors, outputs = self.region.tensors, len(self.region.outs)
        align = [1] * len(tensors)
        for place, wanted in zip(self.places, op.alignments, strict=True):
            align[place] = max(1, wanted)
        dispatch = DispatchOp(
            [n.data for n in (*self.region.arg_names, *self.region.res_names)],
            [global_type(t) for t in tensors],
            [*self.region.arg_attrs, *self.region.res_attrs],
            len(tensors) - outputs,
            [self._launched(op, names, prefix, conditions, align)],
        )
        module = GpuModuleOp(
            self.region.sym_name.data,
            self.registered.program.arch,
            self.region.symbol_names,
            self.region.assumptions,
            [*made, located(dispatch, self.registered.program.location)],
        )
        module.location = self.registered.program.location
        return Instance(self.registered, number, self.region, self.match, module)

    def _names(self, prefix: str, kernels: Sequence[str]) -> dict[str, str]:
        """Names of a program's kernels in the region's place, shorter where they are told apart."""
        own = self.registered.name
        labels = {k: k.removeprefix(own).strip("_") for k in kernels}
        if len(set(labels.values())) < len(labels):
            labels = {k: k for k in kernels}
        return {k: f"{prefix}_{label}" if label else prefix for k, label in labels.items()}

    def _needed(self, facts: Sequence[Assumption]) -> list[Assumption] | str:
        """The facts that the region does not promise; a sentence where one never holds."""
        names, known = self.region.symbol_names, self.region.facts
        kept: list[Assumption] = []
        for stated in dict.fromkeys(facts):
            fact = Assumption(self._dim(stated.expr), stated.kind)
            if fact.expr.constant() is not None:
                if not fact.holds({}):
                    sizes = (f"{s} is {self.bindings[s]}" for s in stated.expr.symbols())
                    return f"it wants {stated}, and {', '.join(sizes)} here"
                continue
            points = AssumptionsAttr((fact,)).as_affine_set(names)
            try:
                if points.constraints and implies(symbol_space(names, known), points):
                    continue
            except IslLimitExceeded:
                pass
            kept.append(fact)
        try:
            if is_empty(symbol_space(names, (*known, *kept))):
                wanted = ", ".join(map(str, kept))
                return f"it wants {wanted}, which no sizes of the region satisfy"
        except IslLimitExceeded:
            pass
        return kept

    def _launched(
        self,
        op: LaunchOp | SequenceOp,
        names: Mapping[str, str],
        prefix: str,
        conditions: Sequence[Assumption],
        align: Sequence[int],
    ) -> LaunchOp | SequenceOp:
        when = AssumptionsAttr(tuple(conditions))
        alone = isinstance(op, LaunchOp)
        ops: list[Operation] = []
        for workspace in op.workspaces():
            name = f"{prefix}_{workspace.sym_name.data}"
            kind = self._global(workspace.type)
            ops.append(located(WorkspaceOp(name, kind, workspace.zeroed is not None), workspace))
        for launch in op.launches():
            group = None
            if launch.cooperative is not None:
                group = [self._dim(size) for size in launch.cooperative.data]
            new = LaunchOp(
                names[launch.kernel_name],
                when if alone else AssumptionsAttr(()),
                align if alone else (),
                [self._dim(size) for size in launch.grid.data],
                launch.persistent is not None,
                launch.overlapped is not None,
                group,
            )
            if alone:
                return located(new, op)
            ops.append(located(new, launch))
        return located(SequenceOp(f"{prefix}_{op.variant_name}", when, align, ops), op)

    def _global(self, kind: GlobalType) -> GlobalType:
        return GlobalType.of([self._dim(d) for d in kind.dims], kind.element_type, kind.align.data)

    def _kernel(self, kernel: GpuKernelOp, name: str, prefix: str) -> GpuKernelOp:
        """A copy of a kernel with the region's sizes in place of the program's symbols."""
        made = copied(kernel)
        made.sym_name = StringAttr(name)
        block = made.body.block
        bindings: list[BindAttr] = []
        kept: list[SSAValue] = []
        of_symbol: list[tuple[str, BlockArgument]] = []
        needed: dict[str, None] = {}
        for arg, binding in zip(list(block.args), kernel.bindings, strict=True):
            if (symbol := binding.symbol_name) is not None:
                of_symbol.append((symbol, arg))
                needed |= dict.fromkeys(self.bindings[symbol].symbols())
                continue
            kind = arg.type
            assert isinstance(kind, GlobalType)
            moved = self._global(kind)
            needed |= {s: None for size in moved.dims for s in size.symbols()}
            kept.append(Rewriter.replace_value_with_new_type(arg, moved))
            if (index := binding.tensor_index) is not None:
                bindings.append(BindAttr.tensor(self.places[index]))
            else:
                bindings.append(BindAttr.workspace(f"{prefix}_{binding.workspace_name}"))
        values: list[SSAValue] = []
        for symbol in needed:
            new = block.insert_arg(INDEX, len(block.args))
            new.name_hint, new.location = symbol, kernel.location
            values.append(new)
            bindings.append(BindAttr.symbol(symbol))
        emit = Emit()
        for symbol, old in of_symbol:
            size = emit.dim(self.bindings[symbol], list(needed), values)
            old.replace_all_uses_with(size)
            block.erase_arg(old)
        first = block.first_op
        assert first is not None
        block.insert_ops_before([located(op, kernel) for op in emit.ops], first)
        made.bindings = ArrayAttr(bindings)
        return made
