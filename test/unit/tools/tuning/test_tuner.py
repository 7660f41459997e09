"""One region tuned with a workshop of the test's own: what is wrong, stopped, refused and kept."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.runtime.nvrtc import KernelInfo
from polyc.test.support.root import ROOT
from polyc.tools.pipeline import Compilation
from polyc.tools.steps import quiet
from polyc.tools.tuning.regions import regions_of
from polyc.tools.tuning.tuner import Tried, Tuner, log_text, regret_text, table
from polyc.tuning.candidates import Candidate, candidates
from polyc.tuning.chip import Chip

SIZES = {"M": 64, "N": 6000}


@cache
def listed() -> tuple[KernelOp, list[Candidate]]:
    job = Compilation.of_file(ROOT / "examples" / "softmax.mlir", "sm_90a")
    (region,) = regions_of(job)
    return region, candidates(region, "sm_90a", SIZES, 4)


@dataclass
class Timer:
    value: float
    tell: Callable[[], object]

    def seconds(self) -> float:
        self.tell()
        return self.value


class Shop:
    """Times by candidate, in order; what is text is what is wrong or refused."""

    def __init__(self, *given: float | str | PolycError) -> None:
        self.given = dict(zip([c.name for c in listed()[1]], given, strict=True))
        self.timed_names: list[str] = []
        self.count = 0

    def compile(self, candidate: Candidate) -> Any:
        found = self.given[candidate.name]
        if isinstance(found, PolycError) and found.kind == "UnsupportedPlan":
            raise found
        kernels: Mapping[str, KernelInfo] = {"k": KernelInfo(40, 8, 0, 0)}
        return SimpleNamespace(name=candidate.name, kernels=kernels)

    def wrong(self, program: Any) -> str | None:
        found = self.given[program.name]
        if isinstance(found, PolycError):
            raise found
        return found if isinstance(found, str) else None

    def fallen(self) -> list[tuple[Any, str]]:
        return []

    def timed(self, program: Any) -> Timer:
        self.timed_names.append(program.name)
        value = self.given[program.name]
        assert isinstance(value, float)
        return Timer(value, self.tick)

    def tick(self) -> None:
        self.count += 1


def tuned(shop: Shop, stop: Callable[[], bool] = lambda: False) -> Tuner:
    region, found = listed()
    made = Tuner(region, dict(SIZES), found, shop, quiet(), 60.0, lambda: 0.0, stop)  # type: ignore[arg-type]
    made.run()
    return made


CHIP = Chip("NVIDIA H200", 132, 1980)


def test_the_fastest_is_recorded_and_what_is_wrong_never_timed() -> None:
    shop = Shop(5e-6, "output Y is nan", 3e-6, PolycError("UnsupportedPlan", "no such plan"))
    found = tuned(shop)
    assert [one.state for one in found.tried] == ["measured", "wrong", "measured", "refused"]
    assert listed()[1][1].name not in shop.timed_names
    assert [one.why for one in found.wrong] == ["output Y is nan"]
    records, raced = found.record(CHIP, "sm_90a")
    (one,) = records.records
    assert one.plan == listed()[1][2].fields and one.measured_us == 3.0
    assert one.sizes == SIZES and one.region in records.regions
    assert len(raced) == 4
    text = "\n".join(table(found.tried))
    assert text.split()[7] == listed()[1][2].name  # behind the words of the header
    assert "1.667" in text and "wrong: output Y is nan" in text
    region = found.region
    rows = list(
        csv.DictReader(
            io.StringIO(log_text(region, dict(SIZES), SIZES, "sm_90a", found.tried, None))
        )
    )
    assert [r["state"] for r in rows] == ["measured", "wrong", "measured", "refused"]
    assert [r["order"] for r in rows] == ["1", "2", "3", "4"]
    assert rows[2]["actual_us"] == "3.000" and rows[1]["actual_us"] == ""
    assert float(rows[0]["flops"]) > 0 and rows[0]["bytes"] == str(2 * 2 * 64 * 6000)
    assert 0 < float(rows[0]["occupancy"]) <= 1 and rows[0]["spill_bytes"] == "8"


def test_where_all_are_wrong_nothing_is_recorded() -> None:
    found = tuned(Shop("a", "b", "c", "d"))
    assert found.best is None and not found.record(CHIP, "sm_90a")[0].records
    assert len(found.wrong) == 4


def test_a_stop_keeps_what_was_measured() -> None:
    shop = Shop(5e-6, 4e-6, 6e-6, 7e-6)
    found = tuned(shop, lambda: shop.count >= 2)
    assert [one.state for one in found.tried] == ["measured", "measured", *["not reached"] * 2]
    assert found.ended == "it was stopped"
    assert found.record(CHIP, "sm_90a")[0].records[0].measured_us == 4.0


def test_a_stop_before_anything_was_measured_records_nothing() -> None:
    found = tuned(Shop(5e-6, 4e-6, 6e-6, 7e-6), lambda: True)
    assert found.best is None and not found.record(CHIP, "sm_90a")[0].records


def test_a_short_budget_leaves_candidates_out_and_times_those_that_are_checked() -> None:
    shop = Shop(5e-6, 4e-6, 3e-6, 2e-6)
    region, found = listed()
    # Each look at the clock is 10 seconds after the last one.
    clock = iter(range(0, 10000, 10))
    made = Tuner(region, dict(SIZES), found, shop, quiet(), 60.0, lambda: float(next(clock)))  # type: ignore[arg-type]
    made.run()
    states = [one.state for one in made.tried]
    assert states[0] == "measured" and states[-1] == "not reached"
    assert made.ended == "the budget is used up" and made.best is not None


def test_a_kernel_that_fails_ends_the_checks() -> None:
    failed = PolycError("DriverFailed", "CUDA_ERROR_ILLEGAL_ADDRESS")
    found = tuned(Shop(5e-6, failed, 3e-6, 2e-6))
    assert found.lost and found.tried[1].state == "failed"
    assert [one.state for one in found.tried[2:]] == ["not reached"] * 2


def test_it_is_said_how_near_the_first_plans_came() -> None:
    candidate = listed()[1][0]
    times = [5e-6, None, 4e-6, 3e-6, 2e-6, 8e-6]
    tried = [Tried(candidate, seconds=seconds) for seconds in times]
    assert regret_text(tried) == (
        "the best of the first plans tried is 150.0% slower of 1, 50.0% slower of 4, than of all 6"
    )
    assert regret_text(tried[:1]) is None and regret_text([tried[1]] * 3) is None
