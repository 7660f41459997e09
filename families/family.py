"""What a family of regions is, and what families have in common when schedules are chosen (S8).

A family is what a schedule's ``algo_choice`` names: ``matmul``, and others beside it.  It finds its
parts in a region or says why there are none, proposes schedules for what it found, and checks those
that users write.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NoReturn, TypeVar, cast

from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.dim import Assumption
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import BY_NAME, RESTATED, Record, Value
from polyc.dialects.region import KernelOp

Fields = dict[str, Value]
Found = TypeVar("Found")
Result = TypeVar("Result")


class Recognised(PolycError):
    """The refusal of a region by the family that its pattern is of: what to change to have it.

    The other families' refusals say only that the region is none of theirs.
    """


def _no_others(found: object, arch: str) -> list[ScheduleOp]:
    return []


@dataclass(frozen=True)
class Family(Generic[Found]):
    """Regions that are scheduled and built alike; ``Found`` is such a region, with its parts named.

    ``name`` is the key of ``algo_choice`` by which its schedules are known, the folder of its
    rules, and the file of its builder in ``lowering/region_to_gpu/``.
    """

    name: str
    recognise: Callable[[KernelOp], Found]
    """The parts of a region.  Raises PolycError ``UnsupportedProgram`` for another family's."""
    propose: Callable[[Found, str], list[ScheduleOp]]
    """The schedules for an architecture, in order of dispatch; the last takes every size.  Raises
    PolycError ``UnsupportedProgram`` where it has none after all."""
    check_plan: Callable[[Found, ScheduleOp], None]
    """Refuses a schedule that does not suit the region, as PolycError ``BadPlan``, or asks for what
    is not built, as ``UnsupportedPlan``."""
    restate: Callable[[Found, Mapping[str, Value]], Fields]
    """Those of the fields ``RESTATED`` that follow from the region and a schedule's other ones;
    the rest of them have their defaults."""
    contracts: bool
    """Whether its kernels run sums of products on tensor cores."""
    others: Callable[[Found, str], list[ScheduleOp]] = _no_others
    """Schedules of a region of known sizes that are worth measuring beside those proposed."""

    def schedules(self, kernel: KernelOp, arch: str) -> list[ScheduleOp]:
        """The schedules of a region for an architecture, or PolycError ``UnsupportedProgram``."""
        return self.propose(self.recognise(kernel), arch)

    def attempt(self, kernel: KernelOp, arch: str) -> list[ScheduleOp] | PolycError:
        """The schedules of a region for an architecture, or the refusal of another family's."""
        return or_refusal(lambda: self.schedules(kernel, arch))

    def takes(self, kernel: KernelOp) -> bool:
        """Whether a region is one of this family's."""
        return not isinstance(or_refusal(lambda: self.recognise(kernel)), PolycError)

    def restated(self, found: Found, plan: ScheduleOp) -> Fields:
        """The values that the ``RESTATED`` fields of a schedule must have."""
        return {**_UNSAID, **self.restate(found, plan.fields())}

    def completed(self, kernel: KernelOp, plan: ScheduleOp, said: Container[str]) -> ScheduleOp:
        """``plan`` with the fields that follow from others anew, but those that were ``said``."""
        anew = self.restated(self.recognise(kernel), plan).items()
        fields = {**plan.fields(), **{name: value for name, value in anew if name not in said}}
        return ScheduleOp(plan.region, plan.variant.data, fields, plan.when.data)

    def check(self, kernel: KernelOp, plan: ScheduleOp) -> None:
        """``check_found`` of the parts of ``kernel``."""
        self.check_found(self.recognise(kernel), plan)

    def check_found(self, found: Found, plan: ScheduleOp) -> None:
        """Refuse a schedule that does not suit the region, or says of it what is not so.

        Raises PolycError ``BadPlan``, or ``UnsupportedPlan`` for what is not built.
        """
        if plan.pattern != self.name:
            named = ", ".join(plan.algo_choice.data) or "nothing"
            raise bad_plan(plan, f"chooses a way for {named}, and the region is {self.name}")
        self.check_plan(found, plan)
        for name, why in self.misstated(found, plan):
            raise bad_plan(plan, f"says {name} {why}; leave {name} out")

    def misstated(self, found: Found, plan: ScheduleOp) -> Iterator[tuple[str, str]]:
        """The ``RESTATED`` fields that say otherwise than the region and the other fields do."""
        said = plan.fields()
        for name, value in self.restated(found, plan).items():
            if said[name] != value:
                there = json.dumps(value)
                yield name, f"{json.dumps(said[name])}, and under its other fields it is {there}"


_UNSAID: Fields = {name: cast("Value", BY_NAME[name].default) for name in RESTATED}


def or_refusal(call: Callable[[], Result]) -> Result | PolycError:
    """What ``call`` returns, or the PolycError ``UnsupportedProgram`` that it raises."""
    try:
        return call()
    except PolycError as error:
        if error.kind != "UnsupportedProgram":
            raise
        return error


def schedules_of(kernel: KernelOp) -> list[ScheduleOp]:
    """The schedules of a region, in order of dispatch."""
    block = kernel.parent_block()
    return [
        op
        for op in (() if block is None else block.ops)
        if isinstance(op, ScheduleOp) and op.region.string_value() == kernel.sym_name.data
    ]


def refuse_choice(plan: ScheduleOp, field: str, why: str, there: str) -> NoReturn:
    """Refuse a field of a plan that no kernel obeys; ``there`` is what to write instead.

    Raises PolycError ``UnsupportedPlan``.
    """
    raise PolycError(
        "UnsupportedPlan",
        f"plan {plan.variant.data!r} asks for a {field} that {why}; use {there}",
        plan,
    )


def bad_plan(plan: ScheduleOp, why: str) -> PolycError:
    """The refusal of a schedule, as ``BadPlan``."""
    return PolycError("BadPlan", f"plan {plan.variant.data!r} {why}")


def fitted(region: str, variant: str, fields: Fields, when: Sequence[Assumption]) -> ScheduleOp:
    """A schedule that the compiler chose, with fewer stages where it is too large (S8.2).

    ``notes`` says what was given up.  Raises PolycError when two stages do not fit.
    """
    stages = wanted = cast("int", fields["stages"])
    edges = cast("list[Record]", fields.get("local_edges", []))
    while True:
        notes = [] if stages == wanted else [f"stages {wanted} -> {stages}: shared memory"]
        chosen = {"stages": stages, "local_edges": rings_of(edges, stages), "notes": notes}
        op = ScheduleOp(region, variant, {**fields, **chosen}, when)
        if op.shared_bytes() <= op.target.shared_bytes or stages <= 2:
            check_schedule(op)
            return op
        stages -= 1


def rings_of(edges: Sequence[Record], stages: int) -> list[Record]:
    """Local edges with the depth that rings of shared memory have in so many stages."""
    return [{**e, "depth": stages} if e.get("buffer") == "smem_ring" else e for e in edges]


def check_schedule(op: ScheduleOp) -> None:
    """Verify a schedule before it is used; raises PolycError."""
    try:
        op.verify_()
    except VerifyException as error:
        refused = from_text(str(error), kind="BadPlan")
        name = f"plan {op.variant.data!r} of region @{op.region.string_value()}"
        raise PolycError(refused.kind, f"{name}: {refused.message}") from error
