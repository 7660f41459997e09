"""A plan that the user gives to ``plan-select`` as JSON (S8.1, S8.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan_fields import record_of
from polyc.passes.plan_rules import check_schedule, rings_of


def read_plan(path: str) -> list[dict[str, object]]:
    """The schedules in a JSON file: an object, or a list of them as ``--dump=plan`` writes.

    Raises PolycError when the file is not there or holds something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            data: object = json.load(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolycError("BadPlan", f"the plan {path} cannot be read: {reason}") from error
    except json.JSONDecodeError as error:
        raise PolycError(
            "BadPlan", f"the plan {path} is not JSON: {error.msg} at line {error.lineno}"
        ) from error
    except ValueError as error:
        raise PolycError("BadPlan", f"the plan {path} cannot be read: {error}") from error
    schedules = cast("list[object]", data) if isinstance(data, list) else [data]
    for schedule in schedules:
        if not isinstance(schedule, dict):
            raise PolycError(
                "BadPlan",
                f"the plan {path} holds {type(schedule).__name__} where a schedule's object "
                "belongs; write one object, or a list of them",
            )
    return cast("list[dict[str, object]]", schedules)


def user_schedule(base: ScheduleOp, given: Mapping[str, object]) -> ScheduleOp:
    """``base`` with the fields that the user gave.

    Nothing is lowered to make it fit: a plan over a resource is refused with the numbers
    (S8.2).  Rings of shared memory are as deep as the stages that the user gave, where the user
    says no depth.  Raises PolycError.
    """
    fields = {**base.to_json(), **given}
    stages = fields["stages"]
    if "local_edges" not in given and type(stages) is int:
        fields["local_edges"] = rings_of([record_of(e) for e in base.local_edges.data], stages)
    try:
        merged = ScheduleOp.from_json(fields)
    except ValueError as error:
        raise PolycError("BadPlan", str(error)) from error
    if merged.arch != base.arch:
        raise PolycError(
            "BadPlan",
            f"the plan is for {merged.arch.data}, the pass for {base.arch.data}; give one of both",
        )
    check_schedule(merged)
    return merged


def name_of(given: Mapping[str, object], key: str, default: str, known: Sequence[str]) -> str:
    """The region or variant that the user's schedule names; raises PolycError for others."""
    name = given.get(key, default)
    if name not in known:
        raise PolycError(
            "BadPlan",
            f"there is no {key} {name!r} to schedule; the {key}s are {', '.join(known)}",
        )
    return cast("str", name)
