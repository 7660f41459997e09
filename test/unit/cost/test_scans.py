"""The modelled time of scans: bound by memory where there are threads enough, and else not."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.ir import Attribute

from polyc.cost.time import Time, modelled
from polyc.dialects import frontend
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def scanned(rows: int, columns: int, axis: int, kind: Attribute = f32) -> ModuleOp:
    s = Sketch("f", kind)
    return s.done(y=s.add(frontend.ScanOp("sum", s.input("x", rows, columns), axis)))


def time_of(module: ModuleOp) -> Time:
    for name in ABOVE_GPU[: ABOVE_GPU.index("plan-select") + 1]:
        run_pass(make_context(), build(name, "sm_90a"), module)
    return modelled(only(module, KernelOp), find(module, ScheduleOp)[0], {})


def test_many_lines_are_bound_by_memory() -> None:
    time = time_of(scanned(16384, 4096, 1))
    assert time.bound == "memory"
    assert 100e-6 < time.seconds < 250e-6


def test_columns_of_many_threads_are_as_well() -> None:
    assert time_of(scanned(256, 1 << 18, 0)).seconds < 2 * time_of(scanned(1 << 18, 256, 1)).seconds


def test_a_thread_waits_for_each_of_its_points() -> None:
    short, long = (time_of(scanned(points, 40000, 0, i64)) for points in (1 << 10, 1 << 14))
    assert long.seconds > 8 * short.seconds


def test_a_block_waits_for_each_of_its_tiles() -> None:
    short, long = (time_of(scanned(512, columns, 1)) for columns in (1 << 13, 1 << 17))
    assert long.waiting > 8 * short.waiting


def test_chains_of_tiles_use_the_chip_for_few_lines() -> None:
    chain, alone = (time_of(scanned(lines, 1 << 20, 1)) for lines in (32, 265))
    assert chain.variant == "vector4_chain" and alone.variant == "vector4"
    assert chain.seconds < alone.seconds / 8


def test_chains_of_tiles_use_the_chip_for_few_columns() -> None:
    chain = time_of(scanned(16384, 4096, 0))
    assert chain.variant == "vector4_chain"
    assert chain.bound == "memory" and chain.seconds < 300e-6
    longer = time_of(scanned(4, 1 << 24, 1))
    assert longer.variant == "vector4_chain" and longer.bound == "memory"


def test_a_gather_beside_a_scan_reads_one_element_for_each_of_its_own() -> None:
    """Of rows of 128 KB as fast as of short ones."""
    times: list[float] = []
    for wide in (1 << 15, 64):
        s = Sketch("f", f32)
        indices = s.input("i", 32, 8, element=i64)
        taken = s.add(frontend.GatherElementsOp(s.input("x", 32, wide), indices, 1))
        times.append(time_of(s.done(y=s.add(frontend.ScanOp("sum", taken, 1)))).seconds)
    assert times[0] < 2 * times[1] < 40e-6
