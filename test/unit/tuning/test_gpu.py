"""A wrong kernel is found: outputs, guards and workspaces hold NaN before it runs."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from weakref import ref

import numpy as np
import numpy.typing as npt
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import graphs
from polyc.runtime.program import Program
from polyc.test.support.running_cuda import RunningCuda
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.play import Signature
from polyc.tools.registry import make_context
from polyc.tools.tuning.regions import compiled, kinds, regions_of
from polyc.tuning.candidates import candidates
from polyc.tuning.gpu import Bench, Kind

Parts = tuple[Program, list[Expected], tuple[list[Kind], list[Kind]]]

TEXT = """
frontend.graph @f(%X: !frontend.tensor<[N], f32>) -> (Y: !frontend.tensor<[N], f32>) {
  %0 = frontend.elementwise neg %X : !frontend.tensor<[N], f32>
  frontend.output %0 : !frontend.tensor<[N], f32>
}
"""
SIZES = {"N": 100}


@pytest.fixture
def made(parts: Parts, running: RunningCuda) -> Iterator[Parts]:
    yield parts
    parts[0].close()  # its code was loaded by this test's driver


@pytest.fixture(scope="module")
def parts() -> Parts:
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, TEXT, "text"), "sm_90a")
    (region,) = regions_of(job)
    plan = candidates(region, "sm_90a", SIZES, 1)[0].plan
    signature = Signature.of(region)
    assert signature is not None
    expected = Expected.of_each_draw(signature, SIZES, 0, ["uniform", "special"])
    return compiled(job, region, plan), expected, kinds(region, SIZES)


def array(address: int, count: int = 100) -> npt.NDArray[np.float32]:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(address))


def right(values: list[int]) -> None:
    array(values[1])[:] = -array(values[0])


def unwritten(values: list[int]) -> None:
    array(values[1])[:99] = -array(values[0])[:99]


def outside(values: list[int]) -> None:
    array(values[1], 101)[:] = 0
    right(values)


class Second:
    """Right once: what is left behind by the first run makes the second one wrong."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, values: list[int]) -> None:
        self.count += 1
        right(values)
        if self.count == 2:
            array(values[1])[5] += 1


def test_mutants_of_a_kernel_are_found_and_the_kernel_is_right(
    running: RunningCuda, made: Parts
) -> None:
    program, expected, (inputs, outputs) = made
    bench = Bench([e.inputs for e in expected], inputs, outputs, SIZES)

    def said(kernel: Callable[[list[int]], object]) -> str | None:
        running.kernel = kernel
        return bench.wrong(program, expected)

    assert said(right) is None
    assert "output Y" in (said(unwritten) or "") and "nan" in (said(unwritten) or "")
    assert said(outside) == "it writes outside of Y"
    assert (said(Second()) or "").endswith("in its second run")
    assert "output Y" in (said(lambda values: None) or "")


def test_a_launch_is_timed_over_copies_and_one_that_does_not_end_is_told(
    running: RunningCuda,
    made: Parts,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program, expected, (inputs, outputs) = made
    running.each = 3e-6
    bench = Bench([e.inputs for e in expected], inputs, outputs, SIZES)
    timed = bench.timed(program)
    assert timed.seconds() == pytest.approx(3e-6)
    used = {launch.values[0] for launch in running.graph.launches}
    assert len(used) == len(bench.copies) == 32  # as many as exceed the cache, or the most
    running.busy = True
    monkeypatch.setattr(graphs.Stream.wait, "__defaults__", (0.0,))
    with pytest.raises(PolycError, match="KernelHangs"):
        timed.seconds()


def test_what_is_timed_keeps_its_tensors(running: RunningCuda, made: Parts) -> None:
    program, expected, (inputs, outputs) = made
    bench = Bench([expected[0].inputs], inputs, outputs, SIZES)
    buffer, timed = ref(bench.copies[0][0].buffer), bench.timed(program)
    del bench
    gc.collect()
    assert buffer() is not None
    assert timed.seconds() > 0


def test_tensors_that_do_not_fit_are_refused(running: RunningCuda, made: Parts) -> None:
    kind = ((1 << 28,), "f32")
    with pytest.raises(PolycError, match="OutOfMemory"):
        Bench([[np.zeros(1)]], [kind], [kind], {"N": 1 << 28})
