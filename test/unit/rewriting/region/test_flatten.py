"""Regions over one axis: which there are, and that they compute what they did."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import ORDER, build
from polyc.passes.region.merge_axes import LONG_LINE, merge_axes
from polyc.playback import region
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import verify
from polyc.rewriting.region.flatten import flattened, lines
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only, parsed
from polyc.tools.registry import make_context

Shape = tuple[int | str, ...]


def text(shape: Shape, small: Shape, kind: str = "f16") -> str:
    """A tensor less a number of each point of ``small``, whose axes of size 1 repeat."""
    x, g = (f"!frontend.tensor<[{', '.join(map(str, s))}], {kind}>" for s in (shape, small))
    return (
        f"frontend.graph @g(%X: {x}, %G: {g}) -> (Y: {x}) {{\n"
        f"  %e = frontend.elementwise exp %G : {g}\n"
        f"  %0 = frontend.elementwise sub %X, %e : ({x}, {g}) -> {x}\n"
        f"  frontend.output %0 : {x}\n}}\n"
    )


def ran(module: ModuleOp, last: str) -> ModuleOp:
    for name in ORDER[: ORDER.index(last) + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    verify(module)
    return module


FIRES: dict[str, tuple[Shape, Shape]] = {
    "digits in the middle": ((700, 28, 2), (700, 1, 2)),
    "channels last": ((90, 80, 3), (1, 1, 3)),
    "rows of eight": ((3000, 8), (3000, 1)),
    "three digits": ((30, 5, 40, 3), (1, 5, 1, 3)),
}


@pytest.mark.parametrize(("shape", "small"), FIRES.values(), ids=FIRES)
def test_a_region_over_one_axis_computes_the_same(shape: Shape, small: Shape) -> None:
    """In the simulator, with tails; nothing spills."""
    source = text(shape, small)
    kernel = only(ran(parsed(source), "region-merge-axes"), KernelOp)
    points = prod(int(n) for n in shape)
    assert [axis.size.constant() for axis in kernel.iters] == [points] and points >= LONG_LINE
    module = ran(parsed(source), "region-to-gpu")
    finish(module)
    threads = only(module, gpu.ModuleOp)
    inputs = make_inputs(only(parsed(source), GraphOp), {})
    expected = meant(parsed(source), inputs, {})
    for variant in threads.dispatch().variants():
        result = simulate(threads, inputs, {}, variant.variant_name, schedule="random", seed=1)
        result.check()
        assert_agree(result.outputs, expected)
    found = nvrtc.compile_cuda(cuda_source(threads), "sm_90a")
    assert all(info.spill_bytes == 0 for info in found.kernels.values())
    assert np.asarray(inputs[0]).size == points


OF_SOME = {
    # What lies outside of a long enough line is an axis of its own: the digits need no remainder.
    "inner axes": ((5, 9000, 2), (1, 9000, 1), [5, 18000]),
    # A line of 20004 elements is no whole vectors of eight.
    "all": ((4, 5001, 4), (4, 1, 4), [80016]),
    "until vectors are whole": ((4, 5002, 4, 1), (1, 5002, 1, 1), [4, 20008]),
}


@pytest.mark.parametrize(("shape", "small", "over"), OF_SOME.values(), ids=OF_SOME)
def test_some_inner_axes_are_one(shape: Shape, small: Shape, over: list[int]) -> None:
    source = text(shape, small)
    kernel = only(ran(parsed(source), "region-merge-axes"), KernelOp)
    assert [axis.size.constant() for axis in kernel.iters] == over
    inputs = make_inputs(only(parsed(source), GraphOp), {})
    expected = meant(parsed(source), inputs, {})
    assert_agree(region.run(kernel, inputs, {}), expected)


def test_what_is_reduced_over_outer_axes_keeps_whole_lines() -> None:
    """A sum over the first axis of what is less a number of each two neighbours."""
    x, g = "!frontend.tensor<[40, 9000, 2], f16>", "!frontend.tensor<[9000, 1], f16>"
    y = "!frontend.tensor<[9000, 2], f16>"
    source = (
        f"frontend.graph @g(%X: {x}, %G: {g}) -> (Y: {y}) {{\n"
        f"  %0 = frontend.elementwise sub %X, %G : ({x}, {g}) -> {x}\n"
        f"  %1 = frontend.elementwise exp %0 : {x}\n"
        f"  %2 = frontend.reduce sum %1 axes [0] : {x} -> {y}\n"
        f"  frontend.output %2 : {y}\n}}\n"
    )
    kernel = only(ran(parsed(source), "region-merge-axes"), KernelOp)
    assert [axis.size.constant() for axis in kernel.iters] == [18000]
    inputs = make_inputs(only(parsed(source), GraphOp), {})
    assert_agree(region.run(kernel, inputs, {}), meant(parsed(source), inputs, {}))


REFUSES: dict[str, tuple[Shape, Shape]] = {
    "of open size": (("N", 28, 2), ("N", 1, 2)),
    "one axis": ((60000,), (1,)),
}


@pytest.mark.parametrize(("shape", "small"), REFUSES.values(), ids=REFUSES)
def test_others_stay(shape: Shape, small: Shape) -> None:
    kernels = find(ran(parsed(text(shape, small)), "index-to-region"), KernelOp)
    assert kernels and all(flattened(kernel, lines(kernel)) is None for kernel in kernels)


def test_what_is_reduced_or_turned_stays() -> None:
    whole, out = "!frontend.tensor<[300, 80, 3], f16>", "!frontend.tensor<[300, 3], f16>"
    turned = "!frontend.tensor<[300, 3, 80], f16>"
    square = "!frontend.tensor<[300, 8, 8], f16>"
    for line, kind in (
        (f"frontend.reduce sum %X axes [1] : {whole} -> {out}", out),
        (f"frontend.permute %X perm [0, 2, 1] : {whole} -> {turned}", turned),
        (
            f"frontend.permute %X perm [0, 2, 1] : {square} -> {square}\n"
            f"  %1 = frontend.elementwise add %X, %0 : ({square}, {square}) -> {square}",
            square,
        ),
    ):
        module = parsed(
            f"frontend.graph @g(%X: {square if kind == square else whole}) -> (Y: {kind}) {{\n"
            f"  %0 = {line}\n  frontend.output %{int(kind == square)} : {kind}\n}}\n"
        )
        kernel = only(ran(module, "index-to-region"), KernelOp)
        axes = lines(kernel)
        assert all(flattened(kernel, axes[first:]) is None for first in range(len(axes)))


def reduction(shape: Shape, op: str, kind: str = "f16") -> str:
    """A reduction over the second axis."""
    out = (shape[0], *shape[2:])
    x, y = (f"!frontend.tensor<[{', '.join(map(str, s))}], {kind}>" for s in (shape, out))
    line = f"frontend.reduce {op} %X axes [1] : {x} -> {y}"
    if op == "argmax":
        y = y.replace(kind, "i64")
        line = f"frontend.arg_reduce max %X axis 1 : {x} -> {y}"
    return (
        f"frontend.graph @g(%X: {x}) -> (Y: {y}) {{\n"
        f"  %0 = {line}\n  frontend.output %0 : {y}\n}}\n"
    )


KEPT: dict[str, tuple[Shape, str]] = {
    "pairs": ((9000, 7, 2), "sum"),
    "threes": ((6001, 5, 3), "max"),
    "half of a tile": ((1000, 3, 17), "min"),
    "places": ((6000, 5, 3), "argmax"),
}


@pytest.mark.parametrize(("shape", "op"), KEPT.values(), ids=KEPT)
def test_results_with_few_neighbours_are_along_one_axis(shape: Shape, op: str) -> None:
    source = reduction(shape, op)
    kernel = only(ran(parsed(source), "region-merge-axes"), KernelOp)
    assert [axis.size.constant() for axis in kernel.iters] == [int(shape[0]) * int(shape[2])]
    inputs = make_inputs(only(parsed(source), GraphOp), {})
    assert_agree(region.run(kernel, inputs, {}), meant(parsed(source), inputs, {}))


@pytest.mark.parametrize(
    "shape",
    [(9000, 4099, 2), (1000, 3, 28), (300, 3, 70), ("N", 7, 2), (100, 7, 2)],
    ids=["far apart", "most of a tile", "many together", "of open size", "few results"],
)
def test_other_results_keep_their_axes(shape: Shape) -> None:
    kernel = only(ran(parsed(reduction(shape, "sum")), "region-merge-axes"), KernelOp)
    assert len(kernel.iters) == 2


def test_a_region_of_which_a_vector_alone_is_read_whole_keeps_its_axes() -> None:
    """As a bias is beside a part of a tensor: the axes of what is read whole are fewer."""
    module = parsed("""
region.kernel @g iters [i: 9000, j: 2]
    ins(%X: !region.memref<[9000, 7, 4], f32, align 16, noalias>,
        %B: !region.memref<[2], f32, align 16, noalias>)
    outs(Y: !region.memref<[9000, 2], f32, align 16, noalias> gmem) {
  %0 = region.read %X affine_map<(d0, d1, d2) -> (d0, d1, (d2 + 1))> : !region.memref<[9000, 7, 4], f32, align 16, noalias> -> !region.val<[i: 9000, r: 7, j: 2], f32>
  %1 = region.reduce sum %0 over [r] init 0.0 acc f32 name "acc" : !region.val<[i: 9000, r: 7, j: 2], f32> -> !region.val<[i: 9000, j: 2], f32>
  %2 = region.read %B affine_map<(d0) -> (d0)> : !region.memref<[2], f32, align 16, noalias> -> !region.val<[j: 2], f32>
  %3 = region.broadcast_in_dim %2 dims [1] : !region.val<[j: 2], f32> -> !region.val<[i: 9000, j: 2], f32>
  %4 = region.binary add %1, %3 : !region.val<[i: 9000, j: 2], f32>
  region.yield %4 : !region.val<[i: 9000, j: 2], f32>
}
""")  # noqa: E501
    merge_axes(module)
    kernel = only(module, KernelOp)
    assert len(lines(kernel)) == 1
    assert len(kernel.iters) == 2


def test_a_tensor_that_is_read_along_other_axes_too_keeps_its_own() -> None:
    """As a weight is that is divided by a number made of itself, read as a matrix."""
    module = parsed("""
region.kernel @g iters [i: 4100, j: 2, k: 2]
    ins(%W: !region.memref<[4100, 2, 2], f32, align 16, noalias>)
    outs(Y: !region.memref<[4100, 2, 2], f32, align 16, noalias> gmem) {
  %0 = region.read %W affine_map<(d0, d1, d2) -> (d0, d1, d2)> : !region.memref<[4100, 2, 2], f32, align 16, noalias> -> !region.val<[i: 4100, j: 2, k: 2], f32>
  %1 = region.read %W affine_map<(d0, d1) -> (d0, (d1 floordiv 2), (d1 - (d1 floordiv 2) * 2))> : !region.memref<[4100, 2, 2], f32, align 16, noalias> -> !region.val<[r: 5, s: 4], f32>
  %2 = region.reduce max %1 over [r, s] init -inf name "m" : !region.val<[r: 5, s: 4], f32> -> !region.val<[], f32>
  %3 = region.broadcast_in_dim %2 dims [] : !region.val<[], f32> -> !region.val<[i: 4100, j: 2, k: 2], f32>
  %4 = region.binary div %0, %3 : !region.val<[i: 4100, j: 2, k: 2], f32>
  region.yield %4 : !region.val<[i: 4100, j: 2, k: 2], f32>
}
""")  # noqa: E501
    merge_axes(module)
    verify(module)
    assert len(only(module, KernelOp).iters) == 3
