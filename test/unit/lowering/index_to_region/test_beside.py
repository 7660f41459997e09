"""What a kernel stores beside its own: steps of a recurrence, and what rows have of each."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.region import KernelOp
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.lowered import assert_kernels_agree, lowered
from polyc.test.support.sketch import Sketch
from polyc.tools.play import play


def kernels(module: ModuleOp) -> list[KernelOp]:
    found = lowered(module, "sm_90a", "region")
    return [op for op in found.walk() if isinstance(op, KernelOp)]


def recurrence(
    steps: int, element: Attribute = f32, fn: str = "tanh", stack: bool = True
) -> ModuleOp:
    """States of a recurrence whose steps are all there, joined."""
    s = Sketch("states", element)
    x = s.input("x", 6, steps, 40)
    state: SSAValue | None = None
    seen: list[SSAValue] = []
    for step in range(steps):
        part = s.cut(x, 1, step, step + 1)
        state = part if state is None else s.fn("add", s.fn("tanh", state), part)
        seen.append(state)
    return s.done(y=s.concat(1, *seen))


@pytest.mark.parametrize(("steps", "element"), [(12, f32), (9, f16), (16, bf16)])
def test_states_of_a_recurrence_are_one_kernels(steps: int, element: Attribute) -> None:
    """And one that joins them, which takes the first ones again."""
    module = recurrence(steps, element)
    first, last = kernels(module)
    assert len(first.outs) > 2 and len(last.outs) == 1
    assert_kernels_agree(module)


def test_a_recurrence_of_many_steps_is_parted_where_a_kernel_is_full() -> None:
    """By what it stores and by what it holds; of 120 steps few kernels are left."""
    module = recurrence(120)
    found = kernels(module)
    assert 3 <= len(found) <= 12
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, {}, 1)
    played = play(lowered(module, "sm_90a", "region"), "states", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))


def test_what_a_kernel_reads_of_others_is_not_made_of_what_it_stores() -> None:
    """A sum over all of a state comes between it and the next one: each is a kernel."""
    s = Sketch("states")
    x = s.input("x", 8, 64)
    first = s.fn("exp", x)
    total = s.reduce("sum", s.reduce("sum", s.fn("mul", first, x), 1), 0)
    second = s.fn("add", s.fn("mul", first, total), x)
    module = s.done(y=s.concat(0, first, second), z=s.fn("tanh", second))
    assert len(kernels(module)) > 2
    assert_kernels_agree(module)


def statistics(rows: int, row: int, element: Attribute = f32) -> ModuleOp:
    """A mean, a variance about it and a maximum of rows of which some elements count."""
    s = Sketch("rows", element)
    x, m = s.input("x", 3, rows, row), s.input("m", 3, row)
    mask = s.reshape(m, 3, 1, row)
    mean = s.reduce("mean", s.fn("mul", x, mask), 2)
    away = s.fn("sub", x, s.reshape(mean, 3, rows, 1))
    spread = s.reduce("mean", s.fn("mul", s.fn("mul", away, away), mask), 2)
    most = s.reduce("max", s.fn("add", x, mask), 2)
    return s.done(y=s.concat(1, mean, s.fn("sqrt", spread), most))


@pytest.mark.parametrize(("rows", "row", "element"), [(5, 70, f32), (4, 257, f16), (9, 64, bf16)])
def test_a_block_has_all_of_a_row_at_hand(rows: int, row: int, element: Attribute) -> None:
    module = statistics(rows, row, element)
    first, last = kernels(module)
    assert len(first.outs) == 3 and len(last.outs) == 1
    assert_kernels_agree(module)


def test_rows_that_no_block_keeps_and_others_are_apart() -> None:
    """Of other tensors, or too long: a kernel each."""
    assert len(kernels(statistics(4, 70_000))) > 2
    s = Sketch("rows")
    x, y = s.input("x", 6, 80), s.input("y", 6, 80)
    one, other = s.reduce("max", x, 1), s.reduce("max", y, 1)
    assert len(kernels(s.done(z=s.concat(0, one, other, one)))) > 1
