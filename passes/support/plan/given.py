"""A plan that the user gives to ``plan-select`` as JSON (S8.1, S8.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr

from polyc.dialects.common.diagnostic import Place, PolycError
from polyc.dialects.plan import ScheduleOp, plain_field
from polyc.dialects.plan.fields import record_of
from polyc.families.family import check_schedule, rings_of
from polyc.passes.support.json_text import JsonText, read_json


@dataclass(frozen=True)
class GivenPlan:
    """Some fields of one schedule, as a user's file gives them."""

    fields: Mapping[str, object]
    text: JsonText
    path: tuple[int, ...]
    """Where the object stands in the file: its position in the list, or nothing."""

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
    _check_entries(base, merged)
    return merged


ENTRIES = {
    "cache": ("tensor", "where", "at", "pingpong"),
    "local_edges": ("from", "to", "buffer", "depth"),
}
"""What each object in a list of objects says."""


def _check_entries(base: ScheduleOp, given: ScheduleOp) -> None:
    """Refuse an entry that no schedule of the region has: of another axis or tensor, or unknown."""
    rows: list[tuple[str, Iterable[str], Iterable[str]]] = [
        ("bind", _axes(given.bind), _axes(base.bind)),
        ("layout_hints", given.layout_hints.data, base.layout_hints.data),
        *(("cache", record.data, ENTRIES["cache"]) for record in given.cache),
        *(("local_edges", record.data, ENTRIES["local_edges"]) for record in given.local_edges),
    ]
    for field, names, known in rows:
        listed = list(dict.fromkeys(known))
        for name in names:
            if name not in listed:
                raise PolycError(
                    "BadPlan",
                    f"field {field!r} has no entry for {name!r}; its entries are for "
                    f"{', '.join(listed) or 'nothing'}",
                )


def _axes(bind: DictionaryAttr) -> list[str]:
    """The axes whose parts are bound: ``m`` of ``m.i.o``."""
    return [name.partition(".")[0] for name in bind.data]


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
