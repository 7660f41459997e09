"""Which reductions one loop may have together."""

from __future__ import annotations

from functools import partial

from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from polyc.dialects.region import KernelOp, ReduceOp
from polyc.dialects.region.siblings import siblings
from polyc.dialects.region.types import val_type
from polyc.families.loops.recognise import made_by
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.unit.families.loops.test_lines import lowered


def groups(module: ModuleOp) -> list[list[str]]:
    """The functions of the reductions that go together."""
    kernel = only(lowered(module, "plan"), KernelOp)
    found = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    along = siblings(
        found, partial(made_by, into=True), lambda one: frozenset(val_type(one.result).labels)
    )
    return [[one.fn.data for one in group] for group in along]


def columns(*names: str) -> tuple[Sketch, SSAValue, dict[str, SSAValue]]:
    s = Sketch("f", f32)
    x = s.input("x", 4, 64, 48)
    return s, x, {name: s.reduce(name, x, 1) for name in names}


def test_reductions_of_the_same_go_together() -> None:
    s, _, parts = columns("sum", "max", "min")
    assert groups(s.done(**parts)) == [["sum", "max", "min"]]


def test_one_that_needs_another_comes_after_it() -> None:
    s, x, parts = columns("sum", "max")
    far = s.fn("sub", x, s.reshape(parts["sum"], 4, 1, 48))
    assert groups(s.done(y=s.fn("add", s.reduce("sum", far, 1), parts["max"]))) in (
        [["sum", "max"], ["sum"]],
        [["max", "sum"], ["sum"]],
        [["sum"], ["sum", "max"]],
        [["sum"], ["max", "sum"]],
    )


def test_those_of_unlike_tensors_do_not() -> None:
    s, _, parts = columns("sum")
    other = s.reduce("max", s.input("w", 4, 64, 48), 1)
    assert groups(s.done(y=s.fn("add", parts["sum"], other))) == [["sum"], ["max"]]


def test_those_over_unlike_axes_do_not() -> None:
    s, x, parts = columns("sum")
    other = s.reduce("max", x, 2)
    module = s.done(y=s.fn("add", s.reshape(parts["sum"], 4, 1, 48), s.reshape(other, 4, 64, 1)))
    kernels = [op for op in lowered(module, "plan").walk() if isinstance(op, KernelOp)]
    for kernel in kernels:
        found = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
        alike = siblings(found, partial(made_by, into=True), lambda _: None)
        assert [len(group) for group in alike] == [1] * len(found)
