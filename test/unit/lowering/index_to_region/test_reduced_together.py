"""What is reduced of the same: one kernel stores all of it, and reads it once."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.region import KernelOp
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of
from polyc.test.unit.families.loops.test_lines import lowered


def statistics(
    *shape: int, axis: int = 2, element: Attribute = f32, other: bool = False
) -> ModuleOp:
    """A mean, a deviation and a maximum along an axis, joined; the maximum of another tensor."""
    s = Sketch("f", element)
    x = s.input("x", *shape)
    wide = x if element == f32 else s.cast(x, f32)
    mean = s.reduce("mean", wide, axis)
    far = s.fn("sub", wide, s.reduce("mean", wide, axis, keep=True))
    square = s.reduce("mean", s.fn("mul", far, far), axis)
    top: SSAValue = s.reduce("max", s.input("w", *shape, element=f32) if other else wide, axis)
    return s.done(y=s.concat(1, mean, s.fn("sqrt", square), top))


def outs(module: ModuleOp) -> list[int]:
    """How many tensors each kernel stores."""
    return [len(kernel.outs) for kernel in find(lowered(module, "plan"), KernelOp)]


@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_rows_are_read_once_for_all(element: Attribute) -> None:
    assert outs(statistics(64, 256, 512, element=element)) == [3, 1]


def test_rows_of_another_tensor_are_read_by_another_kernel() -> None:
    assert sorted(outs(statistics(64, 256, 512, other=True))) == [1, 1, 2]


def test_columns_are_read_once_for_a_sum_and_a_maximum() -> None:
    """As the channels of an image are, where both are joined."""
    s = Sketch("f", f32)
    x = s.input("x", 32, 128, 56, 56)
    both = [s.reduce(name, x, 1, keep=True) for name in ("mean", "max")]
    gate = s.fn("sigmoid", s.reduce("mean", s.concat(1, *both), 1, keep=True))
    kernels = find(lowered(s.done(y=s.fn("mul", x, gate)), "plan"), KernelOp)
    reading = [kernel for kernel in kernels if "%x" in str(kernel).partition("outs")[0]]
    assert len(reading) == 2  # one reduces, and one multiplies


@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_kernels_compute_what_the_graph_means(element: Attribute) -> None:
    module = statistics(3, 8, 200, element=element)
    inputs, wanted = wanted_of(module, {})
    built = lowered(module, "gpu")
    found = simulate(gpu_module_of(built), inputs, {}, schedule="random")
    found.check()
    assert_agree(found.outputs, wanted)
    assert all(info.spill_bytes == 0 for info in Program.compile(built).kernels.values())
