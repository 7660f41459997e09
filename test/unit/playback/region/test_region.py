# ruff: noqa: E501 (lines of IR)
"""Playback of kernels (S6.9): each op's meaning, and agreement with the tiny layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.dialects.tiny import GraphOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.inline_deferred import RegionInlineDeferred
from polyc.playback import region as region_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.estimate import as_estimate
from polyc.playback.reference import known
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = NDArray[Any]


def kernel_of(text: str) -> KernelOp:
    module = parse_text(make_context(), text, "kernel.mlir")
    module.verify()
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    return kernel


def kernel(body: str, *, x: str = "[M, N], f32", y: str = "[M, N], f32", iters: str) -> KernelOp:
    """A kernel with an input ``x`` and an output ``y``; ``T`` in the body is the input's type."""
    memref = f"!region.memref<{x}, align 4>"
    return kernel_of(
        f"region.kernel @f iters {iters} ins(%x: {memref}) "
        f"outs(y: !region.memref<{y}, align 4> gmem) symbols [M, N] {{\n"
        + body.replace("TENSOR", memref)
        + "\n}"
    )


GEMM = """
frontend.graph @g(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>,
                  %bias: !frontend.tensor<[N], f16>) -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f16>
  %1 = frontend.elementwise add %0, %bias : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}
"""


def layers(text: str) -> tuple[GraphOp, KernelOp]:
    ctx = make_context()
    module = parse_text(ctx, text, "graph.mlir")
    FrontendToTiny().apply(ctx, module)
    TinyToIndex().apply(ctx, module)
    lowered = module.clone()
    IndexToRegion().apply(ctx, lowered)
    lowered.verify()
    graph, made = module.body.block.first_op, lowered.body.block.first_op
    assert isinstance(graph, GraphOp)
    assert isinstance(made, KernelOp)
    return graph, made


SIZES = st.integers(0, 4)


@given(m=SIZES, n=SIZES, k=SIZES, seed=st.integers(0, 99), special=st.booleans())
def test_gemm_agrees_with_the_tiny_layer(m: int, n: int, k: int, seed: int, special: bool) -> None:
    graph, made = layers(GEMM)
    random = np.random.default_rng(seed)
    shapes = ((m, k), (k, n), (n,))
    inputs = [random.standard_normal(s).astype(np.float16) for s in shapes]
    if special:
        for array in inputs:
            array[random.random(array.shape) < 0.2] = random.choice([np.inf, -np.inf, np.nan])
    sizes = {"M": m, "N": n, "K": k}
    (expected,) = tiny_playback.run(graph, inputs, sizes)
    (found,) = region_playback.run(made, inputs, sizes)
    assert found.dtype == np.float16
    # The order of a sum is open: one ulp of f16 around values below 8.
    assert np.allclose(found, expected, rtol=1e-3, atol=8e-3, equal_nan=True)


@pytest.mark.parametrize(("errors", "most"), [(False, 40e6), (True, 120e6)])
def test_gemm_of_the_issue_takes_no_product_in_memory(errors: bool, most: float) -> None:
    import tracemalloc

    _, made = layers(GEMM)
    random = np.random.default_rng(0)
    m, n, k = 512, 768, 320
    inputs = [random.standard_normal(s).astype(np.float16) for s in ((m, k), (k, n), (n,))]
    given = known(inputs) if errors else inputs
    tracemalloc.start()
    (made_of,) = region_playback.run(made, given, {"M": m, "N": n, "K": k})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    found = as_estimate(made_of).value
    # The product alone would take 503 MB.
    assert peak < most
    a, b, bias = (i.astype(np.float32) for i in inputs)
    assert np.allclose(found, np.maximum(a @ b + bias, 0), rtol=2e-3, atol=2e-3)


READ = "affine_map<(d0, d1)[s0, s1] -> (d0, d1)>"
VAL = "!region.val<[m: M, n: N], f32>"


def test_read_transposed_and_shifted() -> None:
    made = kernel(
        "%0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d1, d0)> : TENSOR -> "
        "!region.val<[n: N, m: M], f32>\n"
        "region.yield %0 : !region.val<[n: N, m: M], f32>",
        y="[N, M], f32",
        iters="[n: N, m: M]",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(region_playback.run(made, [x], {"M": 2, "N": 3})[0], x.T)
    made = kernel(
        "%0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0 floordiv 2, -d1 + s1 - 1)> : "
        "TENSOR -> !region.val<[i0: 2 * M, n: N], f32>\n"
        "region.yield %0 : !region.val<[i0: 2 * M, n: N], f32>",
        y="[2 * M, N], f32",
        iters="[i0: 2 * M, n: N]",
    )
    found = region_playback.run(made, [x], {"M": 2, "N": 3})[0]
    assert np.array_equal(found, np.repeat(x, 2, axis=0)[:, ::-1])


def test_guarded_read_gives_its_fill_also_from_an_empty_tensor() -> None:
    made = kernel(
        "%0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1 - 1)> where "
        "affine_set<(d0, d1)[s0, s1] : (d1 - 1 >= 0, -d1 + s1 >= 0)> else -2.5 : "
        "TENSOR -> !region.val<[m: M, i1: N + 2], f32>\n"
        "region.yield %0 : !region.val<[m: M, i1: N + 2], f32>",
        y="[M, N + 2], f32",
        iters="[m: M, i1: N + 2]",
    )
    x = np.full((1, 2), np.nan, np.float32)
    found = region_playback.run(made, [x], {"M": 1, "N": 2})[0]
    assert np.array_equal(found, [[-2.5, np.nan, np.nan, -2.5]], equal_nan=True)
    found = region_playback.run(made, [np.zeros((1, 0), np.float32)], {"M": 1, "N": 0})[0]
    assert np.array_equal(found, [[-2.5, -2.5]])


@pytest.mark.parametrize(("acc", "expected"), [("f16", 2048), ("f32", 4096), ("bf16", 256)])
def test_sum_accumulates_in_its_type(acc: str, expected: int) -> None:
    made = kernel(
        "%0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)> : TENSOR -> "
        "!region.val<[m: M], f16>\n"
        f"%1 = region.reduce sum %0 over [m] init 0.0 acc {acc} : !region.val<[m: M], f16> -> "
        f"!region.val<[], {acc}>\n"
        f"region.yield %1 : !region.val<[], {acc}>",
        x="[M], f16",
        y=f"[], {acc}",
        iters="[]",
    )
    ones = np.ones(4096, np.float16)
    assert float(region_playback.run(made, [ones], {"M": 4096, "N": 0})[0]) == expected


@pytest.mark.parametrize(("fn", "expected"), [("sum", 0.0), ("max", -np.inf), ("min", np.inf)])
def test_reduction_over_nothing_is_its_init(fn: str, expected: float) -> None:
    init = {"sum": "0.0", "max": "-inf", "min": "inf"}[fn]
    made = kernel(
        f"%0 = region.read %x {READ} : TENSOR -> {VAL}\n"
        f"%1 = region.reduce {fn} %0 over [n] init {init} : {VAL} -> !region.val<[m: M], f32>\n"
        "region.yield %1 : !region.val<[m: M], f32>",
        y="[M], f32",
        iters="[m: M]",
    )
    found = region_playback.run(made, [np.zeros((3, 0), np.float32)], {"M": 3, "N": 0})[0]
    assert np.array_equal(found, np.full(3, expected))
    values = np.array([[1, np.nan]], np.float32)
    assert np.isnan(region_playback.run(made, [values], {"M": 1, "N": 2})[0][0])


def test_select_ignores_the_branch_that_is_not_taken() -> None:
    made = kernel(
        f"%0 = region.read %x {READ} : TENSOR -> {VAL}\n"
        "%c = region.constant 0.0 : !region.val<[], f32>\n"
        f"%z = region.broadcast_in_dim %c dims [] : !region.val<[], f32> -> {VAL}\n"
        f"%p = region.compare ge %0, %z : {VAL}, {VAL} -> !region.val<[m: M, n: N], i1>\n"
        f"%1 = region.unary sqrt %0 : {VAL}\n"
        f"%2 = region.select %p, %1, %z : !region.val<[m: M, n: N], i1>, {VAL}, {VAL} -> {VAL}\n"
        f"region.yield %2 : {VAL}",
        iters="[m: M, n: N]",
    )
    x = np.array([[4, -4, np.nan]], np.float32)
    assert np.array_equal(region_playback.run(made, [x], {"M": 1, "N": 3})[0], [[2, 0, 0]])


def test_product_summed_along_an_axis_of_one_factor() -> None:
    # Factoring the sum would give inf * 0 = NaN here.
    made = kernel(
        f"%0 = region.read %x {READ} : TENSOR -> {VAL}\n"
        "%s = region.constant 0.0 : !region.val<[], f32>\n"
        f"%z = region.broadcast_in_dim %s dims [] : !region.val<[], f32> -> {VAL}\n"
        f"%1 = region.binary mul %0, %z : {VAL}\n"
        f"%2 = region.reduce sum %1 over [n] init 0.0 : {VAL} -> !region.val<[m: M], f32>\n"
        "region.yield %2 : !region.val<[m: M], f32>",
        y="[M], f32",
        iters="[m: M]",
    )
    x = np.full((1, 4), 3e38, np.float32)
    assert np.array_equal(region_playback.run(made, [x], {"M": 1, "N": 4})[0], [0])


IDENTITY = f"%0 = region.read %x {READ} : TENSOR -> {VAL}\nregion.yield %0 : {VAL}"


@pytest.mark.parametrize(
    ("x", "sizes", "message"),
    [
        (np.zeros((2, 3), np.float32), {"M": 2}, "needs a size for N"),
        (
            np.zeros((2, 3), np.float32),
            {"M": 2, "N": 4},
            r"\[2, 4\]; the array is float32 \[2, 3\]",
        ),
        (np.zeros((2, 3), np.float16), {"M": 2, "N": 3}, "the array is float16"),
    ],
)
def test_argument_that_does_not_fit(x: Array, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(PolycError, match=message) as error:
        region_playback.run(kernel(IDENTITY, iters="[m: M, n: N]"), [x], sizes)
    assert error.value.kind == "BadArgument"


def test_assumption_and_count_are_checked() -> None:
    made = kernel_of(
        "region.kernel @f iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) "
        "outs(y: !region.memref<[M], f32, align 4> gmem) assuming (M mod 8 == 0) {\n"
        "%0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> "
        "-> !region.val<[m: M], f32>\nregion.yield %0 : !region.val<[m: M], f32>\n}"
    )
    with pytest.raises(PolycError, match="assumes M mod 8 == 0, which M=3 does not satisfy"):
        region_playback.run(made, [np.zeros(3, np.float32)], {"M": 3})
    with pytest.raises(PolycError, match="takes 1 inputs, not 0"):
        region_playback.run(made, [], {"M": 8})


# Merging kernels is exact ----------------------------------------------------------------

PAIR = """
region.kernel @p iters [i0: M, i1: N] ins(%x: !region.memref<[M, N, K], f32, align 4>)
    outs(P: !region.memref<[M, N], f16, align 4> deferred) symbols [M, N, K] {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, N, K], f32, align 4> -> !region.val<[i0: M, i1: N, n: K], f32>
  %1 = region.reduce sum %0 over [n] init 0.0 : !region.val<[i0: M, i1: N, n: K], f32> -> !region.val<[i0: M, i1: N], f32>
  %2 = region.cast %1 : !region.val<[i0: M, i1: N], f32> -> !region.val<[i0: M, i1: N], f16>
  region.yield %2 : !region.val<[i0: M, i1: N], f16>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f16, align 4> {from = @p::@P}, %s: !region.memref<[N], f32, align 4>)
    outs(y: !region.memref<[N, M], f32, align 4> gmem) symbols [M, N, K] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1, s2] -> (d1, d0)> : !region.memref<[M, N], f16, align 4> -> !region.val<[n: N, m: M], f16>
  %1 = region.cast %0 : !region.val<[n: N, m: M], f16> -> !region.val<[n: N, m: M], f32>
  %2 = region.read %s affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f32, align 4> -> !region.val<[n: N], f32>
  %3 = region.broadcast_in_dim %2 dims [0] : !region.val<[n: N], f32> -> !region.val<[n: N, m: M], f32>
  %4 = region.binary mul %1, %3 : !region.val<[n: N, m: M], f32>
  region.yield %4 : !region.val<[n: N, m: M], f32>
}
"""


@given(m=SIZES, n=SIZES, k=SIZES, seed=st.integers(0, 99))
def test_merged_kernel_gives_what_the_two_give(m: int, n: int, k: int, seed: int) -> None:
    ctx: Context = make_context()
    module: ModuleOp = parse_text(ctx, PAIR, "pair.mlir")
    first, second = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    random = np.random.default_rng(seed)
    x = random.standard_normal((m, n, k)).astype(np.float32)
    s = random.standard_normal(n).astype(np.float32)
    if s.size:
        s[0] = np.inf
    sizes = {"M": m, "N": n, "K": k}
    (between,) = region_playback.run(first, [x], sizes)
    (expected,) = region_playback.run(second, [between, s], sizes)
    RegionInlineDeferred().apply(ctx, module)
    module.verify()
    (merged,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    (found,) = region_playback.run(merged, [x, s], sizes)
    assert np.array_equal(found, expected, equal_nan=True)
