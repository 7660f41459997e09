"""Pools mean the same at every layer, and what a mean divides by costs no loop of its own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.elements import ui8
from polyc.dialects.frontend import tensor_of
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import Maker, RandomProgram
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.lowered import assert_kernels_agree, lowered
from polyc.test.support.sketch import Size, Sketch
from polyc.test.support.split_programs import wanted_of
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(2))
def test_all_layers_agree_on_random_pools(part: int) -> None:
    for number in range(10):
        dice = random.Random(f"pool {part} {number}")
        sizes = {s: dice.choice((0, 1, 2, 3, 4, 5, 7)) for s in "MNK"}
        maker = Maker(dice, sizes)
        maker.values.append(maker.pool(dice.choice(maker.values)))
        if maker.fits(tensor_of(maker.values[-1]).dims):
            program = RandomProgram(maker.closed(), sizes)
            assert layers.failure(program, dice.randrange(100)) is None, f"{part} {number}"


def pool(
    fn: str, layout: str, *shape: int | str, element: Attribute = f32, taps: int = 3, room: int = 1
) -> ModuleOp:
    """Every second window of some pixels, and a function after it."""
    s = Sketch("pooled", element)
    axes = (1, 2) if layout == "nhwc" else (2, 3)
    sizes, ends = [taps] * 2, [room] * 4
    x = s.input("x", *shape)
    return s.done(
        y=s.fn("relu", s.add(frontend.PoolOp(fn, x, axes, sizes, stride=[2, 2], padding=ends)))
    )


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
@pytest.mark.parametrize("fn", ["max", "mean"])
def test_a_pool_is_one_kernel(fn: str, layout: str) -> None:
    shape = (8, 112, 112, 64) if layout == "nhwc" else (8, 64, 112, 112)
    found = lowered(pool(fn, layout, *shape, element=f16), "sm_90a", "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1


def test_few_windows_are_outside_and_are_asked_for() -> None:
    module = pool("mean", "nchw", "N", "C", "H", "W", taps=7)
    FrontendToTiny().apply(make_context(), module)
    ops = [*module.walk()]
    # One room of 1 at either end of two axes; the sum of the elements is the one reduction.
    assert sum(isinstance(op, tiny.MaskOp) for op in ops) == 4
    assert sum(isinstance(op, tiny.ReduceOp) for op in ops) == 1


def test_many_are_summed() -> None:
    module = pool("mean", "nchw", "N", "C", "H", "W", taps=40, room=20)
    FrontendToTiny().apply(make_context(), module)
    ops = [*module.walk()]
    assert not any(isinstance(op, tiny.MaskOp) for op in ops)
    # Two of the windows, one axis after the other, and two of what counts.
    assert sum(isinstance(op, tiny.ReduceOp) for op in ops) == 4


@pytest.mark.parametrize("fn", ["max", "mean", "l2", "min"])
@pytest.mark.parametrize("taps", [9, 13])
def test_large_windows_are_reduced_along_one_axis_after_the_other(fn: str, taps: int) -> None:
    """So many steps are a sum of the windows' sizes; what lies between is as narrow as elements
    of which the extreme is one."""
    s = Sketch("f", f16)
    x = s.input("x", 2, 3, 14, 16)
    how: Any = {"stride": [1, 2], "padding": [taps // 2, 2, 3, taps // 2], "ceil_mode": True}
    module = s.done(y=s.add(frontend.PoolOp(fn, x, [2, 3], [taps, taps], **how)))
    assert layers.failure(RandomProgram(module, {}), taps) is None
    small = module.clone()
    FrontendToTiny().apply(make_context(), small)
    windows = [op for op in small.walk() if isinstance(op, tiny.WindowOp)]
    # Along the axis of the larger step first, which leaves less.
    assert [op.axes for op in windows][:2] == [(3,), (2,)]
    kernels = [op for op in lowered(module, "sm_90a", "region").walk() if isinstance(op, KernelOp)]
    kind = f16 if fn in ("max", "min") else f32
    assert len(kernels) == 2 and kernels[0].outs.data[0].element_type == kind
    assert_kernels_agree(module)


def test_places_of_large_windows_are_found_along_one_axis_after_the_other() -> None:
    s = Sketch("f", f16)
    x = s.input("x", 2, 3, 13, 12)
    how: Any = {"stride": [1, 2], "padding": [4, 4, 3, 4]}
    best, where = (
        kind("max", x, [2, 3], [9, 9], **how) for kind in (frontend.PoolOp, frontend.ArgPoolOp)
    )
    module = s.done(y=s.add(best), p=s.add(where))
    assert layers.failure(RandomProgram(module, {}), 5) is None
    FrontendToTiny().apply(make_context(), module)
    assert sum(isinstance(op, tiny.ReduceOp) for op in module.walk()) == 2


def test_windows_of_few_elements_or_large_steps_are_reduced_at_once() -> None:
    for taps, step in ((5, 1), (9, 9)):
        s = Sketch("few", f16)
        x = s.input("x", 2, 3, 36, 36)
        module = s.done(y=s.add(frontend.PoolOp("max", x, [2, 3], [taps, taps], stride=[step] * 2)))
        FrontendToTiny().apply(make_context(), module)
        assert sum(isinstance(op, tiny.ReduceOp) for op in module.walk()) == 1


@pytest.mark.parametrize(
    ("fn", "layout", "shape"),
    [("max", "nhwc", (2, 5, 9, 16)), ("mean", "nchw", (1, 3, 7, 10)), ("l2", "nhwc", (1, 7, 5, 3))],
)
def test_kernels_compute_what_the_graph_means(fn: str, layout: str, shape: tuple[int, ...]) -> None:
    module = pool(fn, layout, *shape)
    assert_kernels_agree(module)


@pytest.mark.parametrize(("layout", "arch"), [("nhwc", "sm_80"), ("nchw", "sm_90a")])
def test_kernels_compile_without_a_spill(layout: str, arch: str) -> None:
    shape = (8, 56, 56, 64) if layout == "nhwc" else (8, 64, 56, 56)
    for fn in ("max", "mean"):
        program = Program.compile(lowered(pool(fn, layout, *shape, element=f16), arch, "gpu"))
        assert all(info.spill_bytes == 0 for info in program.kernels.values())


def test_a_product_before_a_pool_is_a_kernel_of_its_own() -> None:
    s = Sketch("conv_pool", f16)
    x, w = s.input("x", 2, 32, 32, 64), s.input("w", 64, 3, 3, 64)
    made = s.fn("relu", s.add(frontend.Conv2dOp(x, w, layout="nhwc", padding=[1] * 4)))
    y = s.add(frontend.PoolOp("max", made, [1, 2], [2, 2], stride=[2, 2]))
    found = lowered(s.done(y=y), "sm_90a", "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 2


OPEN = """
frontend.graph @f(%x: !frontend.tensor<[N, W], f32>, %r: !frontend.tensor<[R], f32>)
    -> !frontend.tensor<[N, W - R + 3], f32> assuming (R >= 1) {
  %0 = frontend.pool mean %x axes [1] size [R] stride [1] padding [1, 1] dilation [1]
      : !frontend.tensor<[N, W], f32> -> !frontend.tensor<[N, W - R + 3], f32>
  frontend.output %0 : !frontend.tensor<[N, W - R + 3], f32>
}
"""


@pytest.mark.parametrize("taps", [1, 4])
def test_a_window_may_be_as_large_as_a_symbol(taps: int) -> None:
    module = parse_text(make_context(), OPEN, "open.mlir")
    assert layers.failure(RandomProgram(module, {"N": 3, "W": 5, "R": taps}), taps) is None


def whole(fn: str, element: Attribute, *shape: Size) -> ModuleOp:
    """Windows of integers, with room at both ends of one axis."""
    s = Sketch("f", element)
    x, axes = s.input("x", *shape), [len(shape) - 2, len(shape) - 1]
    op = frontend.PoolOp(fn, x, axes, [3, 2], stride=[1, 2], padding=[1, 1, 1, 0])
    return s.done(y=s.add(op))


@pytest.mark.turns(3)
@pytest.mark.parametrize("element", [i8, ui8, i32, i64], ids=str)
@pytest.mark.parametrize("fn", ["max", "min", "sum", "l1"])
def test_windows_of_integers_at_every_layer(fn: str, element: Attribute) -> None:
    for sizes in ({"M": 2}, {"M": 0}):
        program = RandomProgram(whole(fn, element, "M", 7, 9), sizes)
        assert layers.failure(program, 3) is None, sizes
    module = whole(fn, element, 2, 7, 9)
    assert_kernels_agree(module)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_windows_of_integers_compile_without_a_spill(arch: str) -> None:
    for element in (i8, i64):
        module = whole("max", element, 8, 64, 112, 112)
        program = Program.compile(lowered(module, arch, "gpu"))
        assert all(info.spill_bytes == 0 for info in program.kernels.values())


def with_places(
    element: Attribute, layout: str, *shape: Size, whole: bool = False, room: int = 1
) -> ModuleOp:
    """The largest of every second window, and where they stand."""
    s = Sketch("f", element)
    x, axes = s.input("x", *shape), [1, 2] if layout == "nhwc" else [2, 3]
    size, step, ends = [3, 3], [2, 2], [room] * 4
    best = frontend.PoolOp("max", x, axes, size, stride=step, padding=ends)
    where = frontend.ArgPoolOp("max", x, axes, size, stride=step, padding=ends, whole=whole)
    return s.done(y=s.add(best), p=s.add(where))


@pytest.mark.turns(3)
@pytest.mark.parametrize("element", [f16, bf16, f32, i8, ui8, i64], ids=str)
@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_places_of_maxima_at_every_layer(layout: str, element: Attribute) -> None:
    for room, sizes in ((1, {"H": 5}), (3, {"H": 1}), (1, {"H": 2})):
        shape = (2, "H", 4, 3) if layout == "nhwc" else (2, 3, "H", 4)
        module = with_places(element, layout, *shape, whole=room == 1, room=room)
        assert layers.failure(RandomProgram(module, sizes), 3) is None, (room, sizes)
    module = with_places(element, layout, 1, 5, 6, 4, whole=layout == "nhwc")
    assert_kernels_agree(module)


HOSTILE = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 6e-8, -6e-8, 1.0, -1.0, 65504.0)
"""Numbers among which ties, subnormal ones and what is no number meet in a window."""


@pytest.mark.parametrize("room", [0, 1])
@pytest.mark.parametrize("fn", ["max", "min"])
@pytest.mark.parametrize("element", [f16, bf16, f32], ids=str)
def test_places_of_hostile_numbers(element: Attribute, fn: str, room: int) -> None:
    """The first of equal ones, NaN before all; keys have the tap below the number."""
    s = Sketch("f", element)
    x = s.input("x", 2, 3, 12, 16)
    size, step, ends, spread = [3, 2], [2, 1], [room, 0, room, 1], [2, 3]
    how: dict[str, Any] = {"stride": step, "padding": ends, "dilation": spread}
    best = s.add(frontend.PoolOp(fn, x, [2, 3], size, **how))
    where = s.add(frontend.ArgPoolOp(fn, x, [2, 3], size, **how))
    module = s.done(y=best, p=where)
    draw = random.Random(f"{element} {fn} {room}")
    numbers = [draw.choice(HOSTILE) for _ in range(2 * 3 * 12 * 16)]
    (given,), _ = wanted_of(module, {})
    given[...] = np.array(numbers).reshape(given.shape).astype(given.dtype)
    wanted = meant(module, [given], {})
    built = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, [given], {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted, variant.variant_name)


def test_keys_of_halves_have_32_bits_where_a_window_is_reduced_at_once() -> None:
    def keys(element: Attribute, size: list[int], step: list[int]) -> set[str]:
        s = Sketch("f", element)
        x = s.input("x", 1, 2, 9000)
        op = frontend.ArgPoolOp("max", x, [1, 2], size, stride=step)
        found = lowered(s.done(p=s.add(op)), "sm_90a", "tiny")
        made = [o for o in found.walk() if isinstance(o, tiny.ReduceOp)]
        return {str(tiny.tensor_of(o.result).element_type) for o in made}

    assert keys(f16, [2, 3], [2, 2]) == keys(bf16, [2, 3], [2, 2]) == {"i32"}
    assert keys(f32, [2, 3], [2, 2]) == {"i64"}
    assert keys(f16, [1, 8192], [1, 4096]) == keys(bf16, [1, 8193], [1, 4096]) == {"i32"}
    assert keys(f16, [1, 8193], [1, 4096]) == {"i64"}


def test_maxima_and_their_places_are_a_kernel_or_two() -> None:
    """One has both, or, where windows slide in registers, each reduction has one: a key of 64 bits
    never lies in memory."""
    found = lowered(with_places(f16, "nchw", 8, 64, "H", "W"), "sm_90a", "region")
    assert len([op for op in found.walk() if isinstance(op, KernelOp)]) == 1
    for layout in ("nhwc", "nchw"):
        found = lowered(with_places(f16, layout, 8, 56, 56, 64), "sm_90a", "region")
        kernels = [op for op in found.walk() if isinstance(op, KernelOp)]
        assert len(kernels) <= 2
        read = [kind for kernel in kernels for kind in kernel.tensors[: len(kernel.ins)]]
        assert not any(kind.element_type == i64 for kind in read)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_places_compile_without_a_spill(arch: str) -> None:
    for element, layout in ((f16, "nhwc"), (i64, "nchw")):
        module = with_places(element, layout, 8, 56, 56, 64, whole=True)
        program = Program.compile(lowered(module, arch, "gpu"))
        assert all(info.spill_bytes == 0 for info in program.kernels.values())


def test_places_that_rounding_may_move_are_not_known() -> None:
    s = Sketch("f", f16)
    x = s.fn("exp", s.input("x", 3, 20))
    module = s.done(p=s.add(frontend.ArgPoolOp("max", x, [1], [4], stride=[2])))
    assert layers.failure(RandomProgram(module, {}), 4) is None


@pytest.mark.turns(2)
@pytest.mark.parametrize("element", [f16, f32, i8], ids=str)
@pytest.mark.parametrize("fn", ["max", "min"])
def test_extremes_of_windows_along_lines(fn: str, element: Attribute) -> None:
    """Outside of the tensor is what no element is below, which a thread puts into its vectors."""
    module = pool(fn, "nchw", 1, 2, 8, 16, element=element)
    variants = assert_kernels_agree(module).dispatch().variants()
    assert any(one.variant_name.startswith("pooled_line_") for one in variants)


@pytest.mark.parametrize("fn", ["max", "sum"])
def test_lines_shorter_than_a_vector_of_what_they_read(fn: str) -> None:
    module = pool(fn, "nchw", 1, 2, 6, 8, element=f16)
    assert_kernels_agree(module)
