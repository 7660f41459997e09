"""A maximum beside the sum of exponentials below it: rows of several kernels are read once."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of
from polyc.test.unit.families.loops.test_lines import lowered


def divergence(rows: int, points: int, element: Attribute = f32) -> ModuleOp:
    """Of two distributions along rows, over all of them: few blocks sum the last one."""
    s = Sketch("f", element)
    a, b = (s.add(frontend.LogSoftmaxOp(s.input(name, rows, points), [1])) for name in ("x", "y"))
    return s.done(z=s.reduce("sum", s.fn("mul", s.fn("exp", a), s.fn("sub", a, b)), 0, 1))


@pytest.mark.parametrize("points", [2600, 9000, 20000])
@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_both_numbers_of_a_row_come_of_one_kernel(points: int, element: Attribute) -> None:
    """Whether a block keeps the row, or finds both while it reads it."""
    module = lowered(divergence(256, points, element), "plan")
    assert [len(kernel.outs) for kernel in find(module, KernelOp)] == [2, 2, 1]
    first, *_ = find(module, ScheduleOp)
    assert first.pattern == "rows"


def test_kernels_compute_what_the_graph_means() -> None:
    module = divergence(40, 2600)
    inputs, wanted = wanted_of(module, {})
    built = lowered(module, "gpu")
    found = simulate(gpu_module_of(built), inputs, {}, schedule="random")
    found.check()
    assert_agree(found.outputs, wanted)
    kernels = Program.compile(built).kernels
    assert all(info.spill_bytes == 0 for info in kernels.values())
