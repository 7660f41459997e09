"""What products end with in memory: reductions inside of them, windows of each channel, images' own
numbers, and factors that are joined."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr, f32, i64
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.precision import TF32
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.tools.play import play


def rounded(op: frontend.ConvOp | frontend.GemmOp) -> frontend.ConvOp | frontend.GemmOp:
    op.properties["precision"] = StringAttr(TF32)
    return op


def families(module: ModuleOp) -> list[tuple[str, str]]:
    """Family and multiplier of the first plan of each kernel."""
    found: dict[str, tuple[str, str]] = {}
    for op in find(lowered(module, "sm_90a", "plan"), ScheduleOp):
        found.setdefault(op.region.string_value(), (str(op.pattern), str(op.mma.data)))
    return list(found.values())


def agrees(module: ModuleOp) -> None:
    """The kernels of a small module give what its graph means."""
    inputs = make_inputs(only(module, frontend.GraphOp), {}, 3)
    found = play(lowered(module, "sm_90a", "region"), "g", inputs, {})
    assert found is not None
    assert_agree(list(found), meant(module, inputs, {}))


def squeezed(n: int, c: int, side: int, inner: int) -> ModuleOp:
    """Squeeze and excitation: two products of means, each inside of what follows."""
    s = Sketch("g", f32)
    x = s.input("x", n, c, side, side)
    mean = s.reduce("mean", x, 2, 3, keep=True)
    down = s.add(rounded(frontend.Conv2dOp(mean, s.input("d", inner, c, 1, 1))))
    down = s.fn("add", down, s.input("b", inner, 1, 1))
    up = s.add(rounded(frontend.Conv2dOp(s.fn("silu", down), s.input("u", c, inner, 1, 1))))
    return s.done(y=s.fn("mul", x, s.fn("sigmoid", up)))


def test_a_mean_inside_of_a_product_is_computed_once() -> None:
    kernels = find(lowered(squeezed(32, 256, 28, 64), "sm_90a", "region"), KernelOp)
    assert all(sum(1 for _ in find(kernel, ReduceOp)) <= 1 for kernel in kernels)
    agrees(squeezed(2, 16, 5, 4))


def similar(n: int, c: int, side: int, taps: int) -> ModuleOp:
    """Means of windows of each channel, and what several of them make."""
    s = Sketch("g", f32)
    x, y = s.input("x", n, c, side, side), s.input("y", n, c, side, side)
    w = s.input("w", c, 1, taps, taps)

    def mean(value: SSAValue) -> SSAValue:
        return s.add(rounded(frontend.Conv2dOp(value, w, groups=c)))

    a, b, both = mean(x), mean(y), mean(s.fn("mul", x, y))
    return s.done(z=s.reduce("mean", s.fn("sub", both, s.fn("mul", a, b)), 1, 2, 3))


def test_windows_of_each_channel_lie_where_they_are_read_by_several() -> None:
    found = find(lowered(similar(8, 3, 256, 11), "sm_90a", "plan"), ScheduleOp)
    assert sum(op.variant.data.startswith("line_") for op in found) >= 3
    agrees(similar(1, 2, 14, 5))


@pytest.mark.parametrize("op", ["mul", "add"])
def test_an_image_has_numbers_of_its_own_for_each_filter(op: str) -> None:
    """As a style or a time embedding: no windows are stored for them."""

    def styled(n: int, c: int, side: int) -> ModuleOp:
        s = Sketch("g", f32)
        x, w = s.input("x", n, c, side, side), s.input("w", c, c, 3, 3)
        y = s.add(rounded(frontend.Conv2dOp(x, w, padding=[1, 1, 1, 1])))
        return s.done(y=s.fn("silu", s.fn(op, y, s.reshape(s.input("t", n, c), n, c, 1, 1))))

    assert families(styled(4, 128, 64)).count(("conv", "wgmma")) == 1
    agrees(styled(2, 8, 5))


def test_a_concat_that_no_product_reads_in_parts_is_joined_once() -> None:
    def gram(b: int, m: int, d: int) -> ModuleOp:
        s = Sketch("g", f32)
        t = s.concat(1, s.input("one", b, 1, d), s.input("many", b, m, d))
        return s.done(y=s.add(rounded(frontend.GemmOp(t, s.permute(t, 0, 2, 1)))))

    assert [family for family, _ in families(gram(2048, 31, 64))] == ["loops", "matmul"]
    agrees(gram(3, 4, 8))


@pytest.mark.parametrize("what", ["argmin", "sort"])
def test_what_follows_a_product_ends_before_it_takes_more_bytes(what: str) -> None:
    """The places of the nearest of many: distances are stored, and not with their places beside
    each, as the keys are that are compared."""

    def nearest(rows: int, codes: int, features: int) -> ModuleOp:
        s = Sketch("g", f32)
        x, c = s.input("x", rows, features), s.input("c", codes, features)
        product = s.add(rounded(frontend.GemmOp(x, c, transpose_b=True)))
        far = s.fn("sqrt", s.fn("abs", s.fn("sub", s.number(1.0), product)))
        if what == "argmin":
            return s.done(y=s.add(frontend.ArgReduceOp("min", far, 1)))
        op = frontend.SortOp(far, 1, None)
        s.add(op)
        return s.done(y=op.places)

    kernels = find(lowered(nearest(4096, 256, 64), "sm_90a", "region"), KernelOp)
    kinds = [tensor.element_type for kernel in kernels[:-1] for tensor in kernel.outs]
    assert f32 in kinds
    assert what == "sort" or i64 not in kinds
    agrees(nearest(8, 20, 16))
