"""Where reductions are of something: the parts of a concat, and what is filled outside of them."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.dialects.region.present import Present, present
from polyc.families.loops.recognise import made_by
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.unit.families.loops.test_lines import lowered


def found_in(s: Sketch, out: SSAValue) -> list[Present | None]:
    kernel = only(lowered(s.done(y=out), "plan"), KernelOp)
    found = [op for op in kernel.walk() if isinstance(op, ReduceOp)]
    return [present(one, list(made_by([one.operand], into=True))) for one in found]


def parts(*names: str, squared: bool = False) -> list[Present | None]:
    """Of pools of one image each, which are joined along their channels."""
    s = Sketch("f", f32)
    x: SSAValue = s.input("x", 2, 5, 32, 32)
    if squared:
        x = s.fn("mul", x, x)
    pools = [
        s.add(frontend.PoolOp(name, x, [2, 3], [3, 3], stride=[2, 2], padding=[0] * 4))
        for name in names
    ]
    return found_in(s, s.concat(1, *pools))


def padded(shift: float) -> list[Present | None]:
    """Of a pool of an image with channels of a number in front."""
    s = Sketch("f", f32)
    none, x = [Dim.const(0)] * 4, s.input("x", 2, 5, 32, 32)
    wide = s.add(frontend.PadOp(x, [none[0], Dim.const(5), *none[2:]], none, 0.0))
    wide = s.fn("add", wide, s.number(shift))
    return found_in(s, s.add(frontend.PoolOp("mean", wide, [2, 3], [3, 3])))


def test_each_part_of_a_concat_is_of_something_in_its_own() -> None:
    found = parts("mean", "max", "sum")
    assert [(p.first, p.last, p.size) for p in found if p is not None] == [
        (0, 4, 15),
        (5, 9, 15),
        (10, 14, 15),
    ]
    assert found[0] is not None and found[0].share == pytest.approx(1 / 3)


def test_squares_of_nothing_are_nothing() -> None:
    assert all(one is not None for one in parts("mean", "sum", squared=True))


def test_what_is_not_0_outside_is_something() -> None:
    """Nothing is chosen there, and nothing else is known of it."""
    assert padded(1.0) == [None]
    (found,) = padded(0.0)
    assert found is not None and (found.first, found.last, found.size) == (5, 9, 10)


def test_what_nothing_asks_for_may_be_anything() -> None:
    """A maximum of what is filled with 0 is chosen in its own part alone."""
    assert all(one is not None for one in parts("max", "min"))


def test_an_image_alone_is_of_something_everywhere() -> None:
    assert parts("mean") == [None]
