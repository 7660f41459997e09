"""A plan that the user gives to ``plan-select`` as JSON (S8.1, S8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, StringAttr

from polyc.dialects.common.diagnostic import Place, PolycError
from polyc.dialects.plan import ScheduleOp, plain_field
from polyc.dialects.plan.fields import record_of
from polyc.families.family import check_schedule
from polyc.passes.support.json_text import JsonText, read_json


@dataclass(frozen=True)
class GivenPlan:
    """Some fields of one schedule, as a user's file gives them."""

    fields: Mapping[str, object]
    text: JsonText
    path: tuple[str | int, ...]
    """Where the object stands in the file: its position in the list, what leads to it, or nothing.
    """

    @property
    def region(self) -> object:
        """What it names as its region, or None."""
        return self.fields.get("region")

    @property
    def said(self) -> set[str]:
        """The fields of a schedule that it gives."""
        found: set[str] = set()
        for name, value in self.fields.items():
            if name not in ("region", "variant", "when") and value is not None:
                found.update(plain_field(name, value))
        return found

    def place(self, field: str | None = None) -> Place:
        """Where a field, or the object, stands in the file."""
        return self.text.place(*self.path, *(() if field is None else (field,)))


def read_plan(path: str) -> list[GivenPlan]:
    """The schedules in a JSON file: an object, or a list of them as ``--dump=plan`` writes.

    Raises PolycError when the file is not there or holds something else, at its place in the file.
    """
    text = read_json(path, "BadPlan", "the plan")
    data = text.data
    listed = isinstance(data, list)
    schedules = cast("list[object]", data) if isinstance(data, list) else [data]
    found: list[GivenPlan] = []
    for number, schedule in enumerate(schedules):
        at = (number,) if listed else ()
        if not isinstance(schedule, dict):
            raise PolycError(
                "BadPlan",
                f"the plan {path} holds {type(schedule).__name__} where a schedule's object "
                "belongs; write one object, or a list of them",
                text.place(*at),
            )
        given = GivenPlan(cast("dict[str, object]", schedule), text, at)
        _check_fields(given)
        found.append(given)
    return found


def _check_fields(given: GivenPlan) -> None:
    """Refuse a field that a schedule does not have, or that holds another kind of value."""
    for name, value in given.fields.items():
        try:
            if name not in ("region", "variant"):
                plain_field(name, value)
        except ValueError as error:
            raise PolycError("BadPlan", str(error), given.place(name)) from error


WHOLE = {"matmul": "tiled", "conv": "implicit_gemm"}
"""Ways of tiles that are not parted, of what may be."""


def user_schedule(base: ScheduleOp, given: Mapping[str, object]) -> ScheduleOp:
    """``base`` with the fields that the user gave.

    Nothing is lowered to make it fit: a plan over a resource is refused with the numbers
    (S8.2).  Raises PolycError.
    """
    try:
        merged = ScheduleOp.from_json({**base.to_json(), **given})
    except ValueError as error:
        raise PolycError("BadPlan", str(error)) from error
    if merged.arch != base.arch:
        raise PolycError(
            "BadPlan",
            f"the plan is for {merged.arch.data}, the pass for {base.arch.data}; give one of both",
        )
    if "split_k" in given and "algo_choice" not in given and merged.pattern in WHOLE:
        merged.algo_choice = DictionaryAttr({merged.pattern: StringAttr(way_of_parts(merged))})
    check_schedule(merged)
    return merged


def way_of_parts(plan: ScheduleOp) -> str:
    """How the parts of a product or of a convolution are brought together where the user gives
    their number alone.
    """
    assert plan.pattern in WHOLE
    if plan.integer("split_k") == 1:
        return plan.whole_way
    chosen = str(record_of(plan.algo_choice)[plan.pattern])
    return chosen if plan.clusters_parts else plan.summed_way


def name_of(plan: GivenPlan, key: str, default: str, known: Sequence[str]) -> str:
    """The region or variant that the user's schedule names; raises PolycError for others."""
    name = plan.fields.get(key, default)
    if name not in known:
        raise PolycError(
            "BadPlan",
            f"there is no {key} {name!r} to schedule; the {key}s are {', '.join(known)}",
            plan.place(key),
        )
    return cast("str", name)
