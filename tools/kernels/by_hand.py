"""A compilation with kernels written by hand: matched, tried, compared, and put in where they win.

The stages of the compilation stay as they are; ``ByHand`` looks at the module between its passes.
Regions are matched before softmax is joined; where plans have become tiles, their kernels and those
by hand are compared, and the faster ones put in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from polyc.cost.time import microseconds
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import GraphOp, KernelOp
from polyc.lowering.region_to_gpu import Places
from polyc.passes.pipeline import STAGES
from polyc.rewriting.driver import copied, verify
from polyc.rewriting.notes import Note, show
from polyc.rewriting.region.matching import Difference, match
from polyc.tools.kernels.graft import graft
from polyc.tools.kernels.instance import Instance, instances
from polyc.tools.kernels.ranking import Launched, Ranked, ranked
from polyc.tools.kernels.regions import MATCHED, forms
from polyc.tools.kernels.registered import Registered, registered
from polyc.tools.kernels.trial import refused, tried
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.sizes import check_names

PLANNED = STAGES["plan"][-1]
"""The pass after which every region has its plans."""

TILED = "region-to-gpu"
"""The pass after which regions are tiles."""


@dataclass
class ByHand:
    """The kernels of one file on the way of one compilation.

    ``sizes`` are those at which kernels and plans are compared.  ``record`` has, once regions are
    tiles, what was compared, in order.
    """

    kernels: list[Registered]
    arch: str
    sizes: Mapping[str, int]
    record: list[Ranked] = field(default_factory=list[Ranked])
    _matched: list[Instance] = field(default_factory=list[Instance])
    _tried: set[tuple[object, ...]] = field(default_factory=set[tuple[object, ...]])
    _planned: ModuleOp | None = None
    _planned_regions: dict[str, KernelOp] = field(default_factory=dict[str, KernelOp])
    _schedules: dict[str, list[ScheduleOp]] = field(default_factory=dict[str, list[ScheduleOp]])
    _owners: dict[str, str] = field(default_factory=dict[str, str])
    """Of each kernel that a plan makes, the region."""
    _places: dict[str, list[BindAttr]] = field(default_factory=dict[str, list[BindAttr]])

    def after(self, module: ModuleOp, name: str) -> None:
        """Called after each pass of the compilation with the module that it left."""
        if name == MATCHED:
            self._match(module)
        elif name == PLANNED:
            self._plans(module)
        elif name == TILED and (chosen := self._compare(module)):
            graft(module, chosen, self._owners, self._places)
            verify(module)

    def _match(self, module: ModuleOp) -> None:
        regions = forms(module)
        for kernel in self.kernels:
            if kernel.program.arch != self.arch:
                text = f"{kernel.name} is for {kernel.program.arch}, and this is for {self.arch}"
                show([Note("KernelSkipped", text, module)])
                continue
            nearest: tuple[Difference, KernelOp] | None = None
            count = 0
            for region in regions:
                found = match(kernel.pattern, region)
                if isinstance(found, Difference):
                    if nearest is None or found.depth > nearest[0].depth:
                        nearest = found, region
                    continue
                count += 1
                for one in instances(kernel, region, found):
                    why = one if isinstance(one, str) else refused(one)
                    if isinstance(one, str) or why is not None:
                        name = region.sym_name.data
                        text = f"{kernel.name} does not run region @{name}: {why}"
                        show([Note("KernelSkipped", text, region)])
                        continue
                    if one.key not in self._tried:
                        tried(one)
                        self._tried.add(one.key)
                    self._matched.append(one)
            if not count:
                self._unmatched(kernel, nearest, module)

    def _unmatched(
        self, kernel: Registered, nearest: tuple[Difference, KernelOp] | None, module: ModuleOp
    ) -> None:
        if nearest is None:
            show([Note("KernelUnmatched", f"{kernel.name}: the program has no region", module)])
            return
        difference, region = nearest
        text = (
            f"{kernel.name} computes no region of the program; the nearest is "
            f"@{region.sym_name.data}: {difference.text}"
        )
        show([Note("KernelUnmatched", text, difference.at)])

    def _plans(self, module: ModuleOp) -> None:
        """Keep the regions with their plans, which become tiles together."""
        self._planned = copied(module)
        for op in self._planned.ops:
            if isinstance(op, KernelOp):
                self._planned_regions[op.sym_name.data] = op
            elif isinstance(op, ScheduleOp):
                self._schedules.setdefault(op.region.string_value(), []).append(op)
                owner = op.region.string_value()
                self._owners.update(dict.fromkeys(op.kernel_names, owner))
            elif isinstance(op, GraphOp):
                places = Places.of(op)
                for kernel in op.kernels():
                    self._places[kernel.sym_name.data] = places.bindings(kernel)

    def _compare(self, module: ModuleOp) -> dict[str, list[Instance]]:
        """For each region the variants that are faster than its plans, in order of preference."""
        derived = _launched(module)
        won: dict[str, list[Ranked]] = {}
        for instance in self._matched:
            name = instance.region.sym_name.data
            if (region := self._planned_regions.get(name)) is None:
                text = f"{instance.name} does not run region @{name}: its plan takes it apart"
                show([Note("KernelSkipped", text, instance.region)])
                continue
            found = ranked(instance, region, self._schedules.get(name, []), derived, self.sizes)
            if isinstance(found, str):
                text = f"{instance.name} does not run region @{name}: {found}"
                show([Note("KernelSkipped", text, region)])
                continue
            self.record.append(found)
            if found.won:
                won.setdefault(name, []).append(found)
            else:
                text = f"{instance.name} does not run region @{name}: {found}"
                show([Note("KernelSlower", text, region)])
        return {name: self._preferred(name, rows) for name, rows in won.items()}

    def _preferred(self, region: str, rows: list[Ranked]) -> list[Instance]:
        """The fastest program first, and its variants in the order that it gives them.

        What another one leaves no sizes for is not there.
        """
        best: dict[str, float] = {}
        for row in rows:
            own, time = row.instance.registered.name, row.by_hand.seconds
            best[own] = min(time, best.get(own, time))
        kept: list[Ranked] = []
        for row in sorted(rows, key=lambda row: best[row.instance.registered.name]):
            name, at = row.instance.name, self._planned_regions[region]
            before = next((other for other in kept if _covers(other.instance, row.instance)), None)
            if before is None:
                kept.append(row)
                show([Note("KernelByHand", f"{name} runs region @{region}: {row}", at)])
                continue
            text = (
                f"{name} does not run region @{region}: {before.instance.name} takes all of its "
                f"sizes, with {microseconds(before.by_hand.seconds):g} us by the model for its "
                f"{microseconds(row.by_hand.seconds):g}"
            )
            show([Note("KernelSlower", text, at)])
        return [row.instance for row in kept]


def _covers(first: Instance, second: Instance) -> bool:
    """Whether a variant takes all sizes and addresses that another one takes."""
    mine, theirs = first.launch, second.launch
    aligned = zip(mine.alignments, theirs.alignments, strict=True)
    return set(mine.facts.data) <= set(theirs.facts.data) and all(a <= b for a, b in aligned)


def _launched(module: ModuleOp) -> dict[str, Launched]:
    """Each kernel of a module of tiles, by its name, and one of its launches."""
    found: dict[str, Launched] = {}
    for op in module.ops:
        if isinstance(op, GpuModuleOp):
            kernels = {k.sym_name.data: k for k in op.kernels()}
            for launch in op.dispatch().launches():
                found.setdefault(launch.kernel_name, (launch, kernels[launch.kernel_name]))
    return found


def with_kernels(job: Compilation, path: str, sizes: Mapping[str, int]) -> ByHand:
    """Have ``job``, which has not run yet, use the kernels of the Python file ``path``.

    ``sizes`` are those of some symbols, at which kernels and plans are compared; others are taken
    as 1024, or what conditions allow.  What becomes of each kernel is said in remarks:
    ``KernelByHand``, ``KernelSlower``, ``KernelUnmatched``, ``KernelSkipped``.

    Raises PolycError: ``BadReplacement`` and ``PythonFailed`` as ``registered`` does,
    ``UnknownSymbol`` for a size of no symbol; while the job runs, ``WrongKernel`` and ``NoTrial``.
    """
    programs = list(graphs(job.module))
    if not programs:
        raise PolycError(
            "Usage",
            "--kernels is about a program of the frontend, and the text has no frontend.graph",
            job.module,
        )
    check_names(sizes, programs, job.module)
    by_hand = ByHand(registered(path), job.arch, sizes)
    before = job.after

    def after(module: ModuleOp, name: str) -> None:
        by_hand.after(module, name)
        if before is not None:
            before(module, name)

    job.after = after
    return by_hand
