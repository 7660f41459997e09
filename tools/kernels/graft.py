"""Kernels written by hand put into a program of tiles, before those that plans made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Operation

from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.rewriting.driver import copied, located
from polyc.tools.kernels.instance import Instance

Bindings = Mapping[str, Sequence[BindAttr]]
"""For each region of a graph, what its tensors are in the graph's module."""


def graft(
    module: ModuleOp,
    chosen: Mapping[str, Sequence[Instance]],
    regions: Mapping[str, str],
    places: Bindings,
) -> None:
    """Put kernels by hand into the programs of ``module``, before those that they are faster than.

    ``chosen`` are the variants for each region, in order of preference; ``regions`` says of each
    derived kernel whose it is, and ``places`` what the tensors of a graph's regions are.  A variant
    by hand runs where its conditions hold, and what it comes before where they do not.
    """
    for op in list(module.ops):
        if not isinstance(op, GpuModuleOp):
            continue
        alone = chosen.get(op.sym_name.data)
        if alone is not None and op.sym_name.data not in places:
            _before_all(op, alone)
            continue
        there = {k.sym_name.data for k in op.kernels()}
        own = {r: found for r, found in chosen.items() if any(regions.get(k) == r for k in there)}
        if own:
            _into_sequences(op, own, regions, places)


class _Names:
    """The kernels by hand of a module, each there once, under names that nothing else has."""

    def __init__(self, module: GpuModuleOp) -> None:
        self.module = module
        self._taken = {k.sym_name.data for k in module.kernels()}
        self._taken |= {v.variant_name for v in module.dispatch().variants()}
        self._names: dict[tuple[str, str, str], str] = {}

    def free(self, name: str) -> str:
        """``name``, with a number where it is taken; it is taken from then on."""
        found, number = name, 1
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def of(self, instance: Instance, kernel: str) -> str:
        """What a kernel of an instance is called here."""
        return self._names[self._key(instance, kernel)]

    @staticmethod
    def _key(instance: Instance, kernel: str) -> tuple[str, str, str]:
        return instance.region.sym_name.data, instance.registered.name, kernel

    def add(self, instance: Instance, tensors: Sequence[BindAttr] | None = None) -> None:
        """Put the kernels of an instance into the module; ``tensors`` are what it binds there.

        Variants of one program that run one kernel share it.
        """
        for kernel in instance.module.kernels():
            key = self._key(instance, kernel.sym_name.data)
            if key in self._names:
                continue
            new = copied(kernel)
            self._names[key] = self.free(kernel.sym_name.data)
            new.sym_name = StringAttr(self._names[key])
            if tensors is not None:
                new.bindings = ArrayAttr(_bound(b, tensors) for b in kernel.bindings)
            self.module.body.block.insert_op_before(new, self.module.dispatch())


def _before_all(module: GpuModuleOp, chosen: Sequence[Instance]) -> None:
    """The variants of the only region of a program, as variants of the program."""
    dispatch = module.dispatch()
    first = dispatch.body.block.first_op
    names = _Names(module)
    for instance in chosen:
        names.add(instance)
        launch = copied(instance.launch)
        if isinstance(launch, SequenceOp):
            launch.sym_name = StringAttr(names.free(launch.sym_name.data))
        for op in launch.launches():
            op.kernel = SymbolRefAttr(names.of(instance, op.kernel_name))
        if first is None:
            dispatch.body.block.add_op(launch)
        else:
            dispatch.body.block.insert_op_before(launch, first)


def _into_sequences(
    module: GpuModuleOp,
    chosen: Mapping[str, Sequence[Instance]],
    regions: Mapping[str, str],
    places: Bindings,
) -> None:
    """The variants of a graph again, with kernels by hand in place of those of some regions.

    With one for each region that has any, and then, as conditions may be unlike, for one region
    alone.
    """
    dispatch = module.dispatch()
    names = _Names(module)
    for region, instances in chosen.items():
        for instance in instances:
            names.add(instance, places[region])
    rounds: list[dict[str, Instance]] = []
    for row in zip_longest(*chosen.values()):
        rounds.append(
            {
                region: instance or chosen[region][-1]
                for region, instance in zip(chosen, row, strict=True)
            }
        )
    if len(chosen) > 1:
        rounds += [{region: one} for region, found in chosen.items() for one in found]
    for variant in dispatch.variants():
        assert isinstance(variant, SequenceOp), "a graph of several regions runs sequences"
        for used in rounds:
            new = _replaced(variant, used, regions, places, names)
            dispatch.body.block.insert_op_before(new, variant)


def _bound(binding: BindAttr, tensors: Sequence[BindAttr]) -> BindAttr:
    """What an argument of a region's kernel is in the graph's module."""
    index = binding.tensor_index
    return binding if index is None else tensors[index]


def _unread(
    variant: SequenceOp,
    used: Mapping[str, Instance],
    regions: Mapping[str, str],
    places: Bindings,
    module: GpuModuleOp,
) -> set[str]:
    """The workspaces, but for those of the graph's values, that only kernels of some regions read:
    copies of their operands, and sums of their parts."""
    readers: dict[str, set[str | None]] = {}
    kernels = {k.sym_name.data: k for k in module.kernels()}
    for launch in variant.launches():
        for binding in kernels[launch.kernel_name].bindings:
            name = launch.bound(binding).workspace_name
            if name is not None and name != launch.fills_name:
                readers.setdefault(name, set()).add(regions.get(launch.kernel_name))
    values = {binding.workspace_name for bound in places.values() for binding in bound}
    own = {op.sym_name.data for op in variant.workspaces()} - values
    return {name for name in own if readers.get(name, set()) <= set(used)}


def _replaced(
    variant: SequenceOp,
    used: Mapping[str, Instance],
    regions: Mapping[str, str],
    places: Bindings,
    names: _Names,
) -> SequenceOp:
    """A sequence with the launches of kernels by hand in place of those of their regions."""
    facts = dict.fromkeys(variant.when.data)
    align = list(variant.align.data)
    unread = _unread(variant, used, regions, places, names.module)
    kept = (op for op in variant.workspaces() if op.sym_name.data not in unread)
    workspaces: list[Operation] = [copied(op) for op in kept]
    launches: list[Operation] = []
    taken: set[str] = set()
    for launch in variant.launches():
        if launch.fills_name in unread:
            continue
        region = regions.get(launch.kernel_name)
        if region is None or region not in used:
            launches.append(copied(launch))
            continue
        if region in taken:
            continue  # A second kernel of what is replaced already.
        taken.add(region)
        by_hand = used[region].launch
        facts |= dict.fromkeys(by_hand.facts.data)
        for binding, wanted in zip(places[region], by_hand.alignments, strict=True):
            if (index := binding.tensor_index) is not None:
                align[index] = max(align[index], wanted)
        workspaces += [copied(op) for op in by_hand.workspaces()]
        for op in by_hand.launches():
            group = None if op.cooperative is None else op.cooperative.data
            new = LaunchOp.of_sequence(
                names.of(used[region], op.kernel_name),
                op.grid.data,
                op.persistent is not None,
                op.overlapped is not None,
                group,
            )
            launches.append(located(new, op))
    ops = [*workspaces, *launches]
    name = names.free(f"{variant.variant_name}_by_hand")
    return located(SequenceOp(name, AssumptionsAttr(tuple(facts)), align, ops), variant)
