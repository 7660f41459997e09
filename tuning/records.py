"""Records of what was measured: one JSON file that is read strictly, merged, and written whole.

A record is of one region at certain sizes on one chip by one compiler, and holds the plan that was
the fastest there.  What is not of this chip or this compiler is kept and not used.
"""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, cast

from polyc.dialects.common.arch import ARCHS, arch_names
from polyc.dialects.common.diagnostic import Place, PolycError
from polyc.dialects.plan import plain_field
from polyc.dialects.plan.fields import RESTATED
from polyc.passes.support.json_text import JsonText, read_json
from polyc.tuning.chip import Chip, Compiler
from polyc.tuning.regions import Size, digest

FORMAT = 1
"""Changes when the layout of the file does."""

Key = tuple[str, tuple[tuple[str, Size], ...], Chip, str, Compiler]
"""Region, sizes, chip, architecture, compiler."""


@dataclass(frozen=True)
class Record:
    """The fastest plan that was measured of one region at certain sizes.

    ``region`` is the digest of its canonical text, ``name`` what it was called.  ``plan`` has the
    fields of a schedule but those that follow from others.  Times are in microseconds.
    """

    region: str
    name: str
    sizes: Mapping[str, Size]
    chip: Chip
    arch: str
    compiler: Compiler
    plan: Mapping[str, object]
    measured_us: float
    modelled_us: float
    rounds: int
    date: str
    at: Place | None = field(default=None, compare=False)
    path: tuple[str | int, ...] = field(default=(), compare=False)
    """Where the plan stands in the file that it was read from."""

    @property
    def key(self) -> Key:
        """What there is one record of."""
        return self.region, tuple(sorted(self.sizes.items())), self.chip, self.arch, self.compiler

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether it is of a region at these sizes."""
        return set(sizes) == set(self.sizes) and all(
            value == size if isinstance(size, int) else size[0] <= value <= size[1]
            for value, size in ((sizes[s], size) for s, size in self.sizes.items())
        )

    def as_dict(self) -> dict[str, object]:
        """The record as JSON data."""
        return {
            "region": self.region,
            "name": self.name,
            "sizes": {s: n if isinstance(n, int) else list(n) for s, n in self.sizes.items()},
            "device": self.chip.as_dict(),
            "arch": self.arch,
            "polyc": self.compiler.polyc,
            "nvrtc": self.compiler.nvrtc,
            "measured_us": self.measured_us,
            "modelled_us": self.modelled_us,
            "rounds": self.rounds,
            "date": self.date,
            "plan": dict(self.plan),
        }


@dataclass
class Records:
    """The records of a file, with the canonical text of each region that one is of."""

    regions: dict[str, str] = field(default_factory=dict[str, str])
    records: list[Record] = field(default_factory=list[Record])
    text: JsonText | None = field(default=None, repr=False)
    """The file that they were read from."""

    def merge(self, others: Records, raced: Iterable[tuple[Key, object]] = ()) -> None:
        """Take what ``others`` has: of one key the faster one stays.

        Where the one that is here ran beside the other, by ``raced``, which has keys with the plans
        that were measured in the same rounds, the other one's word counts.
        """
        seen = {(key, plan_text(plan)) for key, plan in raced}
        own = {record.key: record for record in self.records}
        for new in others.records:
            old = own.get(new.key)
            beaten = old is None or (new.key, plan_text(old.plan)) in seen
            if beaten or (old is not None and new.measured_us <= old.measured_us):
                own[new.key] = new
        self.records = list(own.values())
        self.regions |= others.regions

    def as_text(self) -> str:
        """The file's text, the same for the same records whatever their order."""
        ordered = sorted(self.records, key=_order)
        used = {record.region for record in ordered}
        data = {
            "format": FORMAT,
            "regions": {k: self.regions[k].split("\n") for k in sorted(used)},
            "records": [record.as_dict() for record in ordered],
        }
        return json.dumps(data, indent=1) + "\n"


def plan_text(plan: object) -> str:
    """A plan as one text, whatever the order of its fields."""
    return json.dumps(plan, sort_keys=True)


def plan_fields(plan: Mapping[str, object]) -> dict[str, object]:
    """Of a schedule's JSON object, what a record keeps: no names, conditions, nor what follows."""
    left_out = {"region", "variant", "when", "notes", *RESTATED}
    kept = {k: v for k, v in plan.items() if k not in left_out}
    width = kept.get("vectorize")
    if isinstance(width, dict):
        kept["vectorize"] = cast("dict[str, object]", width)["width"]
    return kept


def today() -> str:
    """The date as records have it."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def _order(record: Record) -> tuple[object, ...]:
    sizes = tuple(
        (s, n if isinstance(n, tuple) else (n, n)) for s, n in sorted(record.sizes.items())
    )
    chip = (record.chip.name, record.chip.multiprocessors, record.chip.clock_mhz)
    compiler = (record.compiler.polyc, record.compiler.nvrtc)
    return record.name, record.region, record.arch, *chip, sizes, *compiler


# Writing ---------------------------------------------------------------------------------


def save(path: str | Path, new: Records, raced: Iterable[tuple[Key, object]] = ()) -> Records:
    """Merge ``new`` into the file ``path``, and return what it holds now.

    The file is there whole, as it was or as it is to be, at every moment; who writes at the same
    time waits.  Raises PolycError ``BadRecord`` for a file that is broken, which stays as it is,
    and OSError.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.parent):
        whole = read(target) if target.exists() else Records()
        whole.merge(new, raced)
        handle, part = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(whole.as_text().encode())
                file.flush()
                os.fsync(file.fileno())
            os.chmod(part, target.stat().st_mode & 0o777 if target.exists() else 0o644)
            os.replace(part, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
    return whole


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """One writer of records in ``folder`` at a time."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


# Reading ---------------------------------------------------------------------------------


def read(path: str | Path) -> Records:
    """The records in the file ``path``, every one of them checked.

    Raises PolycError ``BadRecord`` at the place of what is broken: no JSON, another format, a field
    that is missing, unknown or of another kind, a region whose text was changed, a plan with a
    field that schedules do not have, two records of one key.
    """
    text = read_json(path, "BadRecord", "the records")
    return _Reading(text).records()


class _Reading:
    def __init__(self, text: JsonText) -> None:
        self.text = text

    def refuse(self, why: str, *at: str | int) -> NoReturn:
        number = at[1] if len(at) > 1 and at[0] == "records" else None
        where = "the file of records" if number is None else f"record {int(number) + 1} of"
        raise PolycError(
            "BadRecord",
            f"{where} {self.text.file} {why}; mend it, or delete it and tune again",
            self.text.place(*at),
        )

    def records(self) -> Records:
        data = self.object(self.text.data, ("format", "regions", "records"))
        if data["format"] != FORMAT:
            self.refuse(f"is of format {data['format']!r}, and this polyc reads {FORMAT}", "format")
        regions: dict[str, str] = {}
        for name, lines in self.object(data["regions"], None, "regions").items():
            whole = cast("list[object]", lines) if isinstance(lines, list) else [None]
            if not all(isinstance(line, str) for line in whole):
                self.refuse("has a region that is no list of lines", "regions", name)
            joined = "\n".join(cast("list[str]", whole))
            if digest(joined) != name:
                self.refuse(
                    f"has a region {name} whose text is of {digest(joined)}: it was changed",
                    *("regions", name),
                )
            regions[name] = joined
        listed = data["records"]
        if not isinstance(listed, list):
            self.refuse("has no list of records", "records")
        found = Records(regions, [], self.text)
        keys: dict[Key, int] = {}
        for number, item in enumerate(cast("list[object]", listed)):
            record = self.record(item, number, regions)
            if (other := keys.setdefault(record.key, number)) != number:
                self.refuse(f"has the key of record {other + 1} too", "records", number)
            found.records.append(record)
        return found

    def object(
        self, value: object, names: Sequence[str] | None, *at: str | int
    ) -> dict[str, object]:
        """An object with just the fields ``names``, where these are given."""
        if not isinstance(value, dict):
            self.refuse(f"has {type(value).__name__} where an object belongs", *at)
        found = cast("dict[str, object]", value)
        for name in () if names is None else names:
            if name not in found:
                self.refuse(f"has no {name!r}", *at)
        for name in found:
            if names is not None and name not in names:
                self.refuse(f"has {name!r}, which is not known", *at, name)
        return found

    def record(self, item: object, number: int, regions: Mapping[str, str]) -> Record:
        at = ("records", number)
        data = self.object(item, _FIELDS, *at)
        for name, (holds, what) in _KINDS.items():
            if not holds(data[name]):
                self.refuse(f"says {name} is {data[name]!r}, and it is {what}", *at, name)
        if data["region"] not in regions:
            self.refuse(f"is of region {data['region']}, whose text is not here", *at, "region")
        device = self.object(
            data["device"], ("name", "multiprocessors", "clock_mhz"), *at, "device"
        )
        if not isinstance(device["name"], str) or not all(
            _is_count(device[n]) for n in ("multiprocessors", "clock_mhz")
        ):
            self.refuse("names no device by its name, SMs and clock", *at, "device")
        sizes: dict[str, Size] = {}
        for symbol, size in self.object(data["sizes"], None, *at, "sizes").items():
            if (known := _size(size)) is None:
                self.refuse(
                    f"says {symbol} is {size!r}, and it is a size, or the least and the largest",
                    *(*at, "sizes", symbol),
                )
            sizes[symbol] = known
        plan = self.object(data["plan"], None, *at, "plan")
        for name, value in plan.items():
            try:
                plain_field(name, value)
            except ValueError as error:
                self.refuse(f"has a plan that is none: {error}", *at, "plan", name)
            if name in ("when", *RESTATED):
                self.refuse(f"has a plan that gives {name}, which follows", *at, "plan", name)
        if plan.get("arch") != data["arch"]:
            self.refuse(
                f"is for {data['arch']}, and its plan for {plan.get('arch')}", *at, "plan", "arch"
            )
        return Record(
            cast("str", data["region"]),
            cast("str", data["name"]),
            sizes,
            Chip(
                device["name"],
                cast("int", device["multiprocessors"]),
                cast("int", device["clock_mhz"]),
            ),
            cast("str", data["arch"]),
            Compiler(cast("str", data["polyc"]), cast("str", data["nvrtc"])),
            plan,
            float(cast("float", data["measured_us"])),
            float(cast("float", data["modelled_us"])),
            cast("int", data["rounds"]),
            cast("str", data["date"]),
            self.text.place(*at),
            (*at, "plan"),
        )


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_time(value: object) -> bool:
    return type(value) in (int, float) and 0 < cast("float", value) < 1e12


def _is_date(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.date.fromisoformat(value))
    except ValueError:
        return False


def _size(value: object) -> Size | None:
    if _is_count(value):
        return cast("int", value)
    if isinstance(value, list):
        ends = cast("list[object]", value)
        if len(ends) == 2 and all(map(_is_count, ends)):
            least, most = cast("list[int]", ends)
            return (least, most) if least <= most else None
    return None


_FIELDS = (
    *("region", "name", "sizes", "device", "arch", "polyc", "nvrtc"),
    *("measured_us", "modelled_us", "rounds", "date", "plan"),
)

_KINDS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "region": (_is_text, "a digest"),
    "name": (_is_text, "a name"),
    "arch": (lambda value: value in ARCHS, arch_names()),
    "polyc": (_is_text, "a version"),
    "nvrtc": (_is_text, "a version"),
    "measured_us": (_is_time, "a time in microseconds"),
    "modelled_us": (_is_time, "a time in microseconds"),
    "rounds": (lambda value: _is_count(value) and value != 0, "a number of rounds"),
    "date": (_is_date, "a date such as 2026-11-25"),
}
