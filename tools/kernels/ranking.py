"""A kernel written by hand beside the plans of its region, by the model of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from polyc.cost.tiles import tiles_time
from polyc.cost.time import TYPICAL, Time, chosen, microseconds
from polyc.dialects.common.dim import Assumption
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import GlobalType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.tools.check import sizes_text
from polyc.tools.kernels.instance import Instance

OTHERS = (TYPICAL, 4096, 512, 128, 64, 32, 16, 8, 1)
"""What a size that is not given is taken as: the first that the conditions allow."""

Launched = tuple[LaunchOp, GpuKernelOp]
"""A launch, and the kernel that it runs."""

MARGIN = 0.005
"""Of the time, less than which is no difference."""

TRIED = 20000
"""Sizes that are asked about until some fit."""


@dataclass(frozen=True)
class Ranked:
    """The modelled times of a variant by hand and of the plan's kernel that runs at these sizes."""

    instance: Instance
    sizes: Mapping[str, int]
    plan: str
    by_hand: Time
    derived: Time

    @property
    def won(self) -> bool:
        """Whether the kernel by hand is faster, by more than the model tells apart."""
        return self.by_hand.seconds < self.derived.seconds * (1 - MARGIN)

    def __str__(self) -> str:
        """Both times, and by how much they differ."""
        hand, plan = self.by_hand.seconds, self.derived.seconds
        share = abs(plan / hand - 1) if self.won else abs(hand / plan - 1)
        word = "faster" if self.won else "slower"
        compared = "no faster" if share < MARGIN else f"{share:.0%} {word}"
        where = f" at {sizes_text(self.sizes)}" if self.sizes else ""
        return (
            f"{microseconds(hand):g} us by the model{where}, {compared} than the "
            f"{microseconds(plan):g} us of plan {self.plan!r}"
        )


def ranked(
    instance: Instance,
    region: KernelOp,
    plans: Sequence[ScheduleOp],
    derived: Mapping[str, Launched],
    given: Mapping[str, int],
) -> Ranked | str:
    """A variant beside the plans of its ``region``, or a sentence that says why it is not compared.

    ``derived`` has the kernels of the plans, by name: what both do is counted in the same way, from
    their tiles.  ``given`` are sizes of some symbols; the others are ``OTHERS``, as far as the
    variant's conditions and the region's assumptions allow.
    """
    facts = [*region.facts, *instance.launch.facts.data]
    sizes = _sizes(region, facts, given)
    if sizes is None:
        wanted = ", ".join(map(str, facts))
        known = {s: given[s] for s in region.symbol_names if s in given}
        if known:
            return f"it wants {wanted}, and is asked about at {sizes_text(known)}"
        return f"it wants {wanted}, which no usual sizes satisfy; say at which it runs, by --set"
    plan = chosen(plans, sizes)
    if plan is None or plan.kernel_name not in derived:
        return f"no plan of the region runs at {sizes_text(sizes)}, to compare it with"
    kernels = {k.sym_name.data: k for k in instance.module.kernels()}
    launches = [(op, kernels[op.kernel_name]) for op in instance.launch.launches()]
    arch = instance.module.arch.data
    by_plan = tiles_time(region, _with_copies(derived, plan.kernel_names, sizes), sizes, arch)
    by_hand = tiles_time(region, launches, sizes, arch)
    used = {s for kind in region.tensors for size in kind.shape for s in size.symbols()}
    shown = {s: n for s, n in sizes.items() if s in used}
    return Ranked(instance, shown, plan.variant.data, by_hand, by_plan)


def _with_copies(
    derived: Mapping[str, Launched], names: Sequence[str], sizes: Mapping[str, int]
) -> list[Launched]:
    """A plan's kernels, behind those that copy their operands to other rows at some sizes."""
    own = [derived[name] for name in names]
    bound = {binding.workspace_name for _, kernel in own for binding in kernel.bindings}
    spaces = own[0][0].workspaces()
    rows = {w.sym_name.data: w.type.dims[-1].evaluate(sizes) for w in spaces}
    found: list[Launched] = []
    for other, copies in derived.values():
        fills = other.fills_name
        if fills is None or fills not in bound:
            continue
        source, copy = (a.type for a in copies.body.block.args[:2])
        assert isinstance(source, GlobalType) and isinstance(copy, GlobalType)
        if source.dims[-1].evaluate(sizes) != rows[fills]:
            found.append((other, copies))
    return [*found, *own]


def _sizes(
    region: KernelOp, facts: Sequence[Assumption], given: Mapping[str, int]
) -> dict[str, int] | None:
    """The sizes to compare at: those given, and the first others that satisfy all facts."""
    names = region.symbol_names
    pools = [(given[s],) if s in given else OTHERS for s in names]
    for values in islice(product(*pools), TRIED):
        sizes = dict(zip(names, values, strict=True))
        if all(fact.holds(sizes) for fact in facts):
            return sizes
    return None
