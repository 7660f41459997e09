"""What a family of regions is, and what families have in common when schedules are chosen (S8).

A family is what a schedule's ``algo_choice`` names: ``matmul``, and others beside it.  It finds its
parts in a region or says why there are none, proposes schedules for what it found, and checks those
that users write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.dim import Assumption
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Record, Value
from polyc.dialects.region import KernelOp

Fields = dict[str, Value]
Found = TypeVar("Found")
Result = TypeVar("Result")


class Recognised(PolycError):
    """The refusal of a region by the family that its pattern is of: what to change to have it.

    The other families' refusals say only that the region is none of theirs.
    """


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
    """Refuses a user's schedule that does not suit the region; raises PolycError ``BadPlan``."""
    contracts: bool
    """Whether its kernels run sums of products on tensor cores."""

    def schedules(self, kernel: KernelOp, arch: str) -> list[ScheduleOp]:
        """The schedules of a region for an architecture, or PolycError ``UnsupportedProgram``."""
        return self.propose(self.recognise(kernel), arch)

    def attempt(self, kernel: KernelOp, arch: str) -> list[ScheduleOp] | PolycError:
        """The schedules of a region for an architecture, or the refusal of another family's."""
        return or_refusal(lambda: self.schedules(kernel, arch))

    def takes(self, kernel: KernelOp) -> bool:
        """Whether a region is one of this family's."""
        return not isinstance(or_refusal(lambda: self.recognise(kernel)), PolycError)

    def check(self, kernel: KernelOp, plan: ScheduleOp) -> None:
        """Refuse a user's schedule that does not suit ``kernel``; PolycError ``BadPlan``."""
        self.check_plan(self.recognise(kernel), plan)


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
