"""On which chip, and by which compiler, something was measured."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from polyc.runtime import driver, nvrtc

ROOMS = ("affine", "cost", "dialects", "families", "lowering", "passes", "poly", "rewriting")
"""The rooms whose source decides which kernel a plan becomes."""

CLOCK = 0.05
"""By which part the highest clocks of two chips of one class may differ."""


@dataclass(frozen=True, slots=True)
class Chip:
    """What tells one kind of GPU from another: name, SMs and the highest clock."""

    name: str
    multiprocessors: int
    clock_mhz: int

    @staticmethod
    def here(index: int = 0) -> Chip:
        """The GPU ``index``.  Raises PolycError ``NoGPU``."""
        found = driver.device(index)
        return Chip(found.name, found.multiprocessors, found.clock_mhz)

    def is_like(self, other: Chip) -> bool:
        """Whether times of one are times of the other: a clock of one class counts as the same."""
        apart = abs(self.clock_mhz - other.clock_mhz)
        return (self.name, self.multiprocessors) == (other.name, other.multiprocessors) and (
            apart <= CLOCK * max(self.clock_mhz, other.clock_mhz)
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.multiprocessors} SMs, {self.clock_mhz} MHz)"

    def as_dict(self) -> dict[str, object]:
        """The chip as JSON data."""
        return {
            "name": self.name,
            "multiprocessors": self.multiprocessors,
            "clock_mhz": self.clock_mhz,
        }


@dataclass(frozen=True, slots=True)
class Compiler:
    """The versions by which a plan became a kernel."""

    polyc: str
    nvrtc: str

    @staticmethod
    @cache
    def here() -> Compiler:
        """Those of this process: a digest of polyc's source, and NVRTC's version."""
        return Compiler(_source_digest(), ".".join(nvrtc.compiler_version()[1:]))

    def __str__(self) -> str:
        return f"polyc {self.polyc} and NVRTC {self.nvrtc}"


def _source_digest() -> str:
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for room in ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]
