"""``region-merge-axes``: which regions it rewrites, and that ``plan-select`` does so too (S6.1)."""

# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.schedules import GEMM
from polyc.families.rows.schedules import ROWS as of_rows
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.pipeline import build
from polyc.passes.plan.select import PlanSelectPass
from polyc.passes.region.merge_axes import (
    MergeAxes,
    QuotientsApart,
    RegionMergeAxes,
    RowsApart,
)
from polyc.playback import region
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.region.merge_axes import merged
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gemm_programs import Product, one_tap, regions, tensor
from polyc.test.support.gpu_text import parsed
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

BATCHES = Product(("B", "M", "K"), ("K", "N"), ("B", "M", "N")).text
PRODUCTS = {
    "a batched product": (BATCHES, ["bm", "n"]),
    "a batch of several axes": (
        Product(("B", "H", "M", "K"), ("B", "H", "K", "N"), ("B", "H", "M", "N")).text,
        ["bh", "m", "n"],
    ),
    "a 1x1 convolution": (one_tap("NHWC", ("F", 1, 1, "C"), "NHWF", "nhwc"), ["nhw", "f"]),
}
X, W, Y = (tensor(shape) for shape in (("N", "H", "W", "C"), ("F", 3, 3, "C"), tuple("NHWF")))
ROWS = f"""frontend.graph @g(%X: {X}) -> (Y: {tensor(("N", "H", "W"))}) {{
  %0 = frontend.reduce sum %X axes [3] {{acc = f32}} : {X} -> {tensor(("N", "H", "W"))}
  frontend.output %0 : {tensor(("N", "H", "W"))}
}}
"""
OTHERS = {
    "a 3x3 convolution": f"""frontend.graph @g(%X: {X}, %W: {W}) -> (Y: {Y}) {{
  %0 = frontend.conv2d nhwc %X, %W stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1
      {{acc = f32}} : ({X}, {W}) -> {Y}
  frontend.output %0 : {Y}
}}
""",
    "a product of two axes": Product(("M", "K"), ("K", "N"), ("M", "N")).text,
}


def kernel_in(module: ModuleOp) -> KernelOp:
    """The only region of a module."""
    (found,) = (op for op in module.ops if isinstance(op, KernelOp))
    return found


def labels(module: ModuleOp) -> list[str]:
    return [axis.label for axis in kernel_in(module).iters]


@pytest.mark.parametrize(("text", "wanted"), PRODUCTS.values(), ids=PRODUCTS)
def test_axes_of_a_product_become_one(text: str, wanted: list[str]) -> None:
    module = regions(text)
    before = kernel_in(module).clone()
    RegionMergeAxes().apply(make_context(), module)
    verify(module)
    after = kernel_in(module)
    assert labels(module) == wanted and len(wanted) < len(before.iters)
    assert before.held is None and after.tensors == before.tensors
    assert after.held == ArrayAttr(before.tensors)
    assert after.symbol_names == before.symbol_names and GEMM.takes(after)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_regions_are_as_they_were(text: str) -> None:
    module = regions(text)
    before = str(module)
    RegionMergeAxes().apply(make_context(), module)
    assert str(module) == before and kernel_in(module).held is None


def test_rows_are_over_as_few_axes_as_a_product() -> None:
    module = regions(ROWS)
    kernel = kernel_in(module).clone()
    assert merged(kernel) is not kernel and not GEMM.takes(merged(kernel))
    RegionMergeAxes().apply(make_context(), module)
    verify(module)
    assert labels(module) == ["nhw"]


def scaled(shape: tuple[int | str, ...]) -> str:
    """A tensor times a number of each of its outermost points."""
    x, g = tensor(shape), tensor((shape[0], *(1 for _ in shape[1:])))
    return f"""frontend.graph @g(%X: {x}, %G: {g}) -> (Y: {x}) {{
  %0 = frontend.elementwise mul %X, %G : ({x}, {g}) -> {x}
  frontend.output %0 : {x}
}}
"""


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [((4, 6, 331, 8), 2), ((4, 8, 331), 2), ((4, 2, 6, 2), 2), ((4, 7, 5), 3), (("N", 8, 331), 2)],
)
def test_axes_merge_where_vectors_get_wider(shape: tuple[int | str, ...], wanted: int) -> None:
    """Rows of 331 are no multiples of a vector, eight of them are; those of 8 are short."""
    module = regions(scaled(shape))
    RegionMergeAxes().apply(make_context(), module)
    verify(module)
    assert len(labels(module)) == wanted


def test_the_kernel_that_reads_a_deferred_output_is_still_to_come() -> None:
    module = regions(BATCHES)
    kernel_in(module).materialize = ArrayAttr([StringAttr("deferred")])
    before = str(module)
    rewrite(module, [MergeAxes()])
    assert str(module) == before


def test_merged_axes_are_not_merged_again() -> None:
    module = regions(PRODUCTS["a 1x1 convolution"][0])
    RegionMergeAxes().apply(make_context(), module)
    once = str(module)
    RegionMergeAxes().apply(make_context(), module)
    assert str(module) == once


@pytest.mark.parametrize("text", [t for t, _ in PRODUCTS.values()], ids=PRODUCTS)
def test_plan_select_merges_what_has_not_been_merged(text: str) -> None:
    with_pass, without = regions(text), regions(text)
    build("region-merge-axes", "").apply(make_context(), with_pass)
    assert labels(with_pass) != labels(without)
    for module in (with_pass, without):
        PlanSelectPass("sm_90a").apply(make_context(), module)
        verify(module)
    assert str(with_pass) == str(without)
    plans = [op for op in without.ops if isinstance(op, ScheduleOp)]
    assert {plan.pattern for plan in plans if "one_" not in plan.variant.data} == {"matmul"}


def groups(*, kept: bool) -> str:
    """Rows of 8 elements of [6, 32], each without its maximum, or the maxima alone."""
    x, y = "[6, 32]", "[6, 4, 8]" if kept else "[6, 4]"
    write = (
        "%3 = region.broadcast_in_dim %1 dims [0, 1] : !region.val<[m: 6, g: 4], f32> -> "
        "!region.val<[m: 6, g: 4, c: 8], f32>\n"
        "    %2 = region.binary sub %0, %3 : !region.val<[m: 6, g: 4, c: 8], f32>"
    )
    made = "!region.val<[m: 6, g: 4, c: 8], f32>" if kept else "!region.val<[m: 6, g: 4], f32>"
    iters = "m: 6, g: 4, c: 8" if kept else "m: 6, g: 4"
    return f"""region.kernel @k iters [{iters}]
    ins(%x: !region.memref<{x}, f32, align 16, noalias>)
    outs(y: !region.memref<{y}, f32, align 16, noalias> gmem) {{
    %0 = region.read %x affine_map<(d0, d1, d2) -> (d0, ((d1 * 8) + d2))> : !region.memref<{x}, f32, align 16, noalias> -> !region.val<[m: 6, g: 4, c: 8], f32>
    %1 = region.reduce max %0 over [c] init -inf acc f32 : !region.val<[m: 6, g: 4, c: 8], f32> -> !region.val<[m: 6, g: 4], f32>
    {write if kept else ""}
    region.yield {"%2" if kept else "%1"} : {made}
}}
"""


def test_rows_that_lie_behind_each_other_are_seen_apart() -> None:
    """What makes rows is one of rows then; what makes a number of each stays."""
    for kept in (True, False):
        module = parsed(groups(kept=kept))
        verify(module)
        rewrite(module, [RowsApart()])
        verify(module)
        kernel = kernel_in(module)
        shapes = [str(kind) for kind in kernel.body.block.arg_types]
        assert ("[6, 4, 8]" in shapes[0]) == kept == of_rows.takes(kernel)
        assert len(kernel.tensors) == 2


def overlapped(samples: int, x: str = "[2, 64, 40]") -> str:
    """Frames that overlap by half, added where they lie in time: their number is innermost."""
    kind, hop = f"!region.memref<{x}, f32, align 16, noalias>", 32
    val = f"!region.val<[n: 2, t: {samples}], f32>"
    digit = f"(d1 - ((d1 floordiv {hop}) * {hop}))"
    return f"""
region.kernel @g iters [n: 2, t: {samples}]
    ins(%X: {kind})
    outs(Y: !region.memref<[2, {samples}], f32, align 16, noalias> gmem) {{
  %0 = region.read %X affine_map<(d0, d1) -> (d0, {digit}, (d1 floordiv {hop}))> where affine_set<(d0, d1) : (((d1 * -1) + 1279) >= 0)> else 0.0 : {kind} -> {val}
  %1 = region.read %X affine_map<(d0, d1) -> (d0, ({digit} + {hop}), ((d1 floordiv {hop}) + -1))> where affine_set<(d0, d1) : ((d1 + -{hop}) >= 0)> else 0.0 : {kind} -> {val}
  %2 = region.binary add %0, %1 : {val}
  region.yield %2 : {val}
}}
"""


def test_a_quotient_that_lies_innermost_is_an_axis() -> None:
    """Loops bring a tile of frames then, and compute the same."""
    before, module = parsed(overlapped(1312)), parsed(overlapped(1312))
    verify(before)
    assert rewrite(module, [QuotientsApart()])
    verify(module)
    kernels = [op for one in (before, module) for op in one.ops if isinstance(op, KernelOp)]
    assert [axis.size.constant() for axis in kernels[1].iters] == [2, 41, 32]
    x = np.random.default_rng(1).standard_normal((2, 64, 40)).astype(np.float32)
    first, second = (region.run(kernel, [x], {})[0] for kernel in kernels)
    assert_agree([np.asarray(second)], [np.asarray(first)])
    for arch in ("sm_80", "sm_90a"):
        assert_kernels_agree_of(module, x, np.asarray(first), arch)


def assert_kernels_agree_of(
    module: ModuleOp, x: np.ndarray[Any, Any], right: np.ndarray[Any, Any], arch: str
) -> None:
    """Each variant of a region's kernel computes the same in the simulator, and none spills."""
    job = Compilation(make_context(), module.clone(), arch)
    job.run("gpu")
    built = gpu_module_of(job.module)
    for variant in built.dispatch().variants():
        result = simulate(built, [x], {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, [right], variant.variant_name)
    found = nvrtc.compile_cuda(cuda_source(built), arch)
    assert all(info.spill_bytes == 0 for info in found.kernels.values())


@pytest.mark.parametrize("samples", [1311, 1300], ids=["prime", "no whole frames"])
def test_a_quotient_that_does_not_part_its_axis_stays(samples: int) -> None:
    assert not rewrite(parsed(overlapped(samples)), [QuotientsApart()])
