"""The plans that are worth trying for a region at certain sizes, in the order of the model (S11.2).

What families propose comes with its neighbours: plans that differ from one of these in a field or
two.  All are checked as a user's plan is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from polyc.cost.device import Device
from polyc.cost.time import Time, modelled, takes
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, AssumptionsAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import Family
from polyc.families.registry import FAMILIES
from polyc.passes.plan.select import checked, propose
from polyc.passes.region.im2col import stores_columns
from polyc.passes.support.json_text import JsonText
from polyc.passes.support.plan.given import GivenPlan, user_schedule
from polyc.passes.support.plan.single_row import single_rows
from polyc.rewriting.driver import copied
from polyc.rewriting.notes import unsaid
from polyc.tuning.columns import FIELDS, check_columns, columns_time
from polyc.tuning.records import plan_fields, plan_text
from polyc.tuning.regions import Sizes, facts, points_of

COUNT = 16
"""Candidates where nobody says how many."""

_SHAPE = ("mma", "loader", "tile", "warp_tile", "split_k", "cluster", "algo_choice")
"""The fields by which two plans are unlike each other."""


@dataclass(frozen=True)
class Candidate:
    """A plan for a region at certain sizes: its name, its schedule, and its modelled time."""

    name: str
    plan: ScheduleOp
    time: Time

    @property
    def fields(self) -> dict[str, object]:
        """What a record keeps of the plan."""
        if stores_columns(self.plan):
            return {"arch": self.plan.arch.data, **FIELDS}
        return plan_fields(self.plan.to_json())


def candidates(
    kernel: KernelOp,
    arch: str,
    sizes: Sizes,
    count: int = COUNT,
    device: Device | None = None,
    recorded: Mapping[str, object] | None = None,
) -> list[Candidate]:
    """So many plans at most, the best by the model first, after one that was ``recorded``.

    Of plans of one shape of tile only the best comes before those of other shapes, so that what
    the model is wrong about is tried too.  Each holds at these sizes alone.  The region's own
    choice is always one of them.  Raises PolycError where no family takes the region.
    """
    known = facts({s: n for s, n in sizes.items() if s in kernel.symbol_names})
    points = points_of(sizes)
    family, first, _ = propose(kernel, arch)
    chosen = next((plan for plan in first if takes(plan, points)), None)
    found: dict[str, Candidate] = {}
    own: list[str] = []
    if recorded is not None:
        base = next(iter(first))
        given = {**recorded, "variant": "recorded"}
        plan = _made(kernel, family, base, given, known)
        if plan is not None:
            own.append(_add(found, kernel, plan, points, device))
    if chosen is not None:
        plan = _made(kernel, family, chosen, {}, known)
        if plan is not None:
            own.append(_add(found, kernel, plan, points, device))
    with unsaid():
        if family.name == "conv":
            given = {**FIELDS, "variant": "columns"}
            plan = _made(kernel, family, next(iter(first)), given, known)
            if plan is not None:
                _add(found, kernel, plan, points, device)
        for base in _bases(kernel, family, arch, known, points):
            for fields in ({}, *_neighbours(base)):
                name = base.variant.data + "".join(f"_{k}{_short(v)}" for k, v in fields.items())
                plan = _made(kernel, family, base, {**fields, "variant": name}, known)
                if plan is not None:
                    _add(found, kernel, plan, points, device)
    ordered = sorted(found, key=lambda text: found[text].time.seconds)
    best: dict[str, str] = {}
    for text in ordered:
        best.setdefault(_shape(found[text].plan), text)
    apart = list(best.values())
    ahead = apart[: max(1, count * 2 // 3)]
    taken = list(dict.fromkeys([*own, *ahead, *ordered]))[:count]
    return [
        found[text] for text in sorted(taken, key=lambda t: (t not in own[:1], ordered.index(t)))
    ]


def laid(
    kernel: KernelOp,
    arch: str,
    fields: Mapping[str, object],
    when: Sequence[Assumption],
    name: str,
    text: JsonText | None = None,
    path: tuple[str | int, ...] = (),
) -> ScheduleOp:
    """The schedule of a region with these fields, checked as a user's plan is.

    ``text`` and ``path`` are where they come from.  Raises PolycError, at their place there.
    """
    family, first, _ = propose(kernel, arch)
    given = GivenPlan(
        {**fields, "variant": name, "when": [str(fact) for fact in when]},
        text or JsonText("the plan", {}, {}),
        path,
    )
    return _checked(kernel, family, first[0], given)


def _checked(
    kernel: KernelOp, family: Family[Any], base: ScheduleOp, given: GivenPlan
) -> ScheduleOp:
    try:
        chosen = user_schedule(base, given.fields)
        if stores_columns(chosen):
            check_columns(kernel, chosen)
            return chosen
        return checked(kernel, chosen, family, given)
    except PolycError as error:
        raise error.located(given.place()) from None


def _made(
    kernel: KernelOp,
    family: Family[Any],
    base: ScheduleOp,
    fields: Mapping[str, object],
    known: Sequence[Assumption],
) -> ScheduleOp | None:
    """A schedule for these sizes alone, or None where the region does not have it."""
    given = GivenPlan(
        {**fields, "when": [str(fact) for fact in known]}, JsonText("the plan", {}, {}), ()
    )
    try:
        return _checked(kernel, family, base, given)
    except PolycError:
        return None


def _add(
    found: dict[str, Candidate],
    kernel: KernelOp,
    plan: ScheduleOp,
    points: Mapping[str, int],
    device: Device | None,
) -> str:
    text = plan_text(plan_fields(plan.to_json()))
    if text not in found:
        time = columns_time if stores_columns(plan) else modelled
        found[text] = Candidate(plan.variant.data, plan, time(kernel, plan, points, device))
    return text


def _bases(
    kernel: KernelOp,
    family: Family[Any],
    arch: str,
    known: Sequence[Assumption],
    points: Mapping[str, int],
) -> Iterator[ScheduleOp]:
    """What the family proposes for the region as it is, and for one that has these sizes, with
    what else it has for these.
    """
    assert family in FAMILIES
    fixed = copied(kernel)
    fixed.assumptions = AssumptionsAttr((*kernel.assumptions.data, *known))
    for region in (kernel, fixed):
        plans = family.attempt(region, arch)
        if isinstance(plans, PolycError):
            continue
        others = family.others(family.recognise(region), arch)
        for plan in (*single_rows(region, arch), *plans, *others):
            if takes(plan, points):
                yield plan


def _neighbours(plan: ScheduleOp) -> Iterator[dict[str, object]]:
    """Fields by which a plan is changed, a step each way."""
    stages = plan.integer("stages")
    if stages > 1:
        for one in (stages - 1, stages + 1, stages - 2):
            if 2 <= one <= 8:
                yield {"stages": one}
    rows, columns, depth = plan.tile_sizes
    if plan.mma.data != "none":
        for group in (4, 8, 16):
            if plan.raster.data == "grouped" and group != plan.integer("group"):
                yield {"group": group}
    if plan.pattern == "matmul":
        parts = plan.integer("split_k")
        for more in (parts // 2, parts * 2) if parts > 1 else ():
            if more > 1:
                yield {"split_k": more}
        for tile, warp in _tiles(plan):
            for deep in (stages, stages + 2, stages - 1):
                if 2 <= deep <= 8:
                    yield {"tile": [*tile, depth], "warp_tile": list(warp), "stages": deep}
    if plan.pattern == "conv":
        for tile, warp in _tiles(plan):
            for deep in (stages, stages + 1, stages - 1):
                if 2 <= deep <= 8:
                    yield {"tile": [*tile, depth], "warp_tile": list(warp), "stages": deep}
    if plan.pattern == "attention":
        for keys in (columns // 2, columns * 2):
            if keys >= 16:
                yield {"tile": [rows, keys, depth]}
                for one in (2, 3):
                    yield {"tile": [rows, keys, depth], "stages": one}
    if plan.stores_sums and plan.pattern == "loops":
        parts = plan.integer("split_k")
        for more in (parts // 2, parts * 2):
            if more > 1:
                yield {"split_k": more}
    if plan.pattern in ("rows", "loops"):
        for tile in ([rows, columns * 2, depth], [rows, columns // 2, depth]):
            if tile[1] >= 1:
                yield {"tile": tile}
        for tile in ([rows * 2, columns, depth], [rows // 2, columns, depth]):
            if tile[0] >= 1:
                yield {"tile": tile}
        for warps in _warps(plan):
            yield {"warp_tile": warps}


def _tiles(plan: ScheduleOp) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Other tiles of a product, with what a warp or a warpgroup has of each."""
    rows, columns, _ = plan.tile_sizes
    high, wide = plan.warp_tile_sizes
    for tall, broad in (
        *((rows, columns // 2), (rows, columns * 2), (rows // 2, columns), (rows * 2, columns)),
        (rows // 2, columns * 2),
    ):
        if plan.mma.data == "wgmma":
            if tall == 64 * plan.integer("consumers") and 8 <= broad <= 256:
                yield (tall, broad), (64, broad)
        elif tall >= 16 and broad >= 8:
            ratio = (max(16, high * tall // rows), max(8, wide * broad // columns))
            yield (tall, broad), ratio


def _warps(plan: ScheduleOp) -> Iterator[list[int]]:
    """Other shares of a warp in a tile that threads compute."""
    high, wide = plan.warp_tile_sizes
    for one in ([high * 2, wide], [high, wide * 2], [high // 2, wide], [high, wide // 2]):
        if min(one) >= 1:
            yield one


def _shape(plan: ScheduleOp) -> str:
    fields = plan.fields()
    return plan_text({name: fields[name] for name in _SHAPE})


def _short(value: object) -> str:
    if isinstance(value, list):
        return "x".join(str(v) for v in cast("list[object]", value))
    return str(value)
