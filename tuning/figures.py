"""The figures of a chip in a file: what ``polyc calibrate`` writes, and the model of time takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import cast

from polyc.cost.device import DEVICES, SHIPPED, Device
from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.support.json_text import read_json
from polyc.tuning.chip import Chip

FORMAT = 1

NAMES = tuple(f.name for f in fields(Device) if f.name != "name")
"""The figures of a chip."""

_WHOLE = ("multiprocessors", "threads", "registers", "shared")


@dataclass(frozen=True)
class Figures:
    """A chip as the model takes it; ``chip`` is what the driver calls it, where it was measured.

    ``measured`` are the names of the figures that were, the others being shipped ones.
    """

    arch: str
    device: Device
    chip: Chip | None = None
    measured: Sequence[str] = ()

    def as_text(self) -> str:
        """The file's text."""
        assert self.chip is not None
        data = {
            "format": FORMAT,
            "device": self.chip.as_dict(),
            "arch": self.arch,
            "measured": list(self.measured),
            "figures": {name: getattr(self.device, name) for name in NAMES},
        }
        return json.dumps(data, indent=1) + "\n"


def figures_of(given: str, arch: str) -> Figures:
    """The figures in a file, or those that come with polyc under a name.

    Raises PolycError ``BadDevice`` for a file that is none,
    and for figures of another architecture.
    """
    if given in SHIPPED:
        device = SHIPPED[given]
        own = "sm_80" if device is DEVICES["sm_80"] else "sm_90a"
        found = Figures(own, device)
    else:
        found = _read(given)
    if found.arch != arch:
        raise PolycError(
            "BadDevice",
            f"{given} has figures for {found.arch}, and this is for {arch}; give one of both",
        )
    return found


def _read(path: str) -> Figures:
    text = read_json(path, "BadDevice", "the device")

    def refuse(why: str, *at: str) -> PolycError:
        return PolycError(
            "BadDevice",
            f"the device {path} {why}; write it by polyc calibrate --out, or name one of "
            f"{', '.join(SHIPPED)}",
            text.place(*at),
        )

    whole = text.data
    if not isinstance(whole, dict):
        raise refuse("is no object")
    data = cast("dict[str, object]", whole)
    wanted = ("format", "device", "arch", "measured", "figures")
    if set(data) != set(wanted) or data["format"] != FORMAT:
        raise refuse(f"has not just {', '.join(wanted)}, with format {FORMAT}")
    arch, device, figures = data["arch"], data["device"], data["figures"]
    if not isinstance(arch, str) or arch not in DEVICES:
        raise refuse(f"is for {arch!r}, which is no architecture", "arch")
    if not isinstance(device, dict) or not isinstance(figures, dict):
        raise refuse("has no objects device and figures")
    named = cast("dict[str, object]", device)
    name = named.get("name")
    counts = [named.get(n) for n in ("multiprocessors", "clock_mhz")]
    if not isinstance(name, str) or not all(type(n) is int for n in counts):
        raise refuse("names no device by its name, SMs and clock", "device")
    values: dict[str, float] = {}
    for key, value in cast("dict[str, object]", figures).items():
        if key not in NAMES:
            raise refuse(f"has a figure {key!r}, and there are {', '.join(NAMES)}", "figures", key)
        if type(value) not in (int, float) or not 0 < cast("float", value) < 1e18:
            raise refuse(f"says {key} is {value!r}, and it is a number above 0", "figures", key)
        values[key] = cast("float", value)
    if missing := [n for n in NAMES if n not in values]:
        raise refuse(f"has no {', '.join(missing)}", "figures")
    listed = data["measured"]
    measured = cast("list[str]", listed) if isinstance(listed, list) else []
    counted: Mapping[str, float] = {k: int(v) if k in _WHOLE else v for k, v in values.items()}
    chip = Chip(name, *cast("list[int]", counts))
    return Figures(arch, Device(name=name, **counted), chip, measured)  # pyright: ignore[reportArgumentType]
