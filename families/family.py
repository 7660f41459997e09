"""What families of regions have in common when their schedules are chosen (S8).

A family is what a schedule's ``algo_choice`` names: ``matmul``, and others beside it.  Its
``Rule`` proposes schedules for a region, or refuses the region and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.dim import Assumption
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Record, Value
from polyc.dialects.region import KernelOp

Fields = dict[str, Value]


class Recognised(PolycError):
    """The refusal of a region by the family that its pattern is of: what to change to have it.

    The other families' refusals say only that the region is none of theirs.
    """


@dataclass(frozen=True)
class Rule:
    """How the regions of one family are scheduled."""

    pattern: str
    """The key of ``algo_choice`` by which its schedules are known."""
    schedules: Callable[[KernelOp, str], list[ScheduleOp]]
    """The schedules of a region for an architecture, in order of dispatch; the last takes every
    size.  Raises PolycError ``UnsupportedProgram`` for a region of another family."""
    check: Callable[[KernelOp, ScheduleOp], None]
    """Refuses a user's schedule that does not suit the region; raises PolycError ``BadPlan``."""


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
