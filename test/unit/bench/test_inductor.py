"""Which candidates of Inductor's are measured, and how."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from polyc.bench.inductor import KEPT, LAUNCHES, fewer, in_a_full_queue, tiles_of


@dataclass(frozen=True)
class Choice:
    """A choice as Inductor names it."""

    name: str
    description: str = ""


def triton(number: int, tile: tuple[int, int, int, int, int], template: str = "mm") -> Choice:
    rows, columns, depth, stages, warps = tile
    text = f"ALLOW_TF32=False, BLOCK_K={depth}, BLOCK_M={rows}, BLOCK_N={columns}, GROUP_M=8"
    text += f", num_stages={stages}, num_warps={warps}"
    return Choice(f"triton_{template}_{number}", text)


ATEN = Choice("bias_addmm")
OTHER = triton(40, (32, 16, 32, 1, 2))


def test_tiles_are_read() -> None:
    assert tiles_of(OTHER.description) == (32, 16, 32, 1, 2)
    assert tiles_of("alpha=1") is None


@pytest.mark.parametrize("template", KEPT)
def test_what_was_among_the_fastest_is_kept(template: str) -> None:
    known = [triton(i, tile, template) for i, tile in enumerate(sorted(KEPT[template]))]
    other = triton(40, (32, 16, 32, 1, 2), template)
    assert fewer([ATEN, *known, other]) == [ATEN, *known]


def test_all_are_kept_where_few_fit() -> None:
    """Of few rows: Inductor has made each tile smaller."""
    known = [triton(i, tile) for i, tile in enumerate(sorted(KEPT["mm"])[:3])]
    assert fewer([ATEN, *known, OTHER]) == [ATEN, *known, OTHER]
    assert fewer([ATEN, triton(1, (64, 64, 64, 3, 8), "flex")]) != [ATEN]


class Device:
    """A GPU that runs what is enqueued at once, and its clock; the host enqueues some launches
    while it spins, as many as ``ahead`` for each spin of the first length."""

    def __init__(self, ahead: int) -> None:
        self.now, self.ahead, self.left, self.spins = 0.0, ahead, 0, list[int]()
        device = self

        class Event:
            def __init__(self, enable_timing: bool = False) -> None:
                self.at = 0.0

            def record(self) -> None:
                self.at = device.now

            def query(self) -> bool:
                return device.left < 0

            def elapsed_time(self, other: Event) -> float:
                return other.at - self.at

        def spin(clocks: int) -> None:
            self.spins.append(clocks)
            self.left = ahead * clocks // 3_500_000

        properties = SimpleNamespace(L2_cache_size=64)
        self.cuda = SimpleNamespace(
            Event=Event,
            _sleep=spin,
            synchronize=lambda: None,
            get_device_properties=lambda: properties,
        )
        self.int32 = None

    def empty(self, size: int, dtype: Any, device: str) -> Any:
        assert size == 16 and device == "cuda"
        return SimpleNamespace(zero_=lambda: None)


@pytest.mark.parametrize(("ahead", "spins"), [(LAUNCHES + 1, 1), (LAUNCHES // 2, 2), (0, 3)])
def test_a_time_is_of_a_queue_that_the_host_had_filled(ahead: int, spins: int) -> None:
    device = Device(ahead)
    took = iter([9.0, *[2.0, 1.5, 3.0, *[2.5] * (LAUNCHES - 3)] * spins])

    def run() -> None:
        device.now += next(took)
        device.left -= 1

    def own(*args: Any, **named: Any) -> str:
        return "own"

    timed = in_a_full_queue(device, own)
    assert timed(run) == 1.5
    assert len(device.spins) == spins and next(took, None) is None
    assert timed(run, return_mode="all") == "own"
