"""Kernels written by hand put into a program of tiles, before those that plans made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.ir import Operation

from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.gpu.types import BindAttr
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


def _before_all(module: GpuModuleOp, chosen: Sequence[Instance]) -> None:
    """The variants of the only region of a program, as variants of the program."""
    dispatch = module.dispatch()
    first = dispatch.body.block.first_op
    for instance in chosen:
        for kernel in instance.module.kernels():
            module.body.block.insert_op_before(copied(kernel), dispatch)
        launch = copied(instance.launch)
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
    for region, instances in chosen.items():
        for instance in instances:
            for kernel in instance.module.kernels():
                new = copied(kernel)
                new.bindings = ArrayAttr(_bound(b, places[region]) for b in kernel.bindings)
                module.body.block.insert_op_before(new, dispatch)
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
    taken = {v.variant_name for v in dispatch.variants()}
    for variant in dispatch.variants():
        assert isinstance(variant, SequenceOp), "a graph of several regions runs sequences"
        for used in rounds:
            name = f"{variant.variant_name}_by_hand"
            number = 1
            while name in taken:
                number += 1
                name = f"{variant.variant_name}_by_hand_{number}"
            taken.add(name)
            new = _replaced(variant, name, used, regions, places)
            dispatch.body.block.insert_op_before(new, variant)


def _bound(binding: BindAttr, tensors: Sequence[BindAttr]) -> BindAttr:
    """What an argument of a region's kernel is in the graph's module."""
    index = binding.tensor_index
    return binding if index is None else tensors[index]


def _replaced(
    variant: SequenceOp,
    name: str,
    used: Mapping[str, Instance],
    regions: Mapping[str, str],
    places: Bindings,
) -> SequenceOp:
    """A sequence with the launches of kernels by hand in place of those of their regions."""
    facts = dict.fromkeys(variant.when.data)
    align = list(variant.align.data)
    workspaces: list[Operation] = [copied(op) for op in variant.workspaces()]
    launches: list[Operation] = []
    for launch in variant.launches():
        region = regions.get(launch.kernel_name)
        if region is None or region not in used:
            launches.append(copied(launch))
            continue
        by_hand = used[region].launch
        facts |= dict.fromkeys(by_hand.facts.data)
        for binding, wanted in zip(places[region], by_hand.alignments, strict=True):
            if (index := binding.tensor_index) is not None:
                align[index] = max(align[index], wanted)
        workspaces += [copied(op) for op in by_hand.workspaces()]
        for op in by_hand.launches():
            group = None if op.cooperative is None else op.cooperative.data
            new = LaunchOp.of_sequence(
                op.kernel_name,
                op.grid.data,
                op.persistent is not None,
                op.overlapped is not None,
                group,
            )
            launches.append(located(new, op))
    ops = [*workspaces, *launches]
    assert all(isinstance(op, WorkspaceOp | LaunchOp) for op in ops)
    return located(SequenceOp(name, AssumptionsAttr(tuple(facts)), align, ops), variant)
