"""Random graphs as kernels: infinities and NaN, fills at the reads, reductions computed once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32, i1
from xdsl.ir import SSAValue

from polyc.dialects import frontend, region, tiny
from polyc.dialects.frontend import GraphOp, tensor, tensor_of
from polyc.dialects.region.types import ValType
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import frontend as frontend_playback
from polyc.playback.functions import Array
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import verify
from polyc.test.support.turns import examples
from polyc.test.unit.playback.test_frontend_programs import add, closed, programs
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

FUSES: Sequence[Fuse] = ("none", "legal", "cost")


def sprinkled(arrays: Sequence[Array], seed: int) -> list[Array]:
    """The arrays with infinities and NaN in some places."""
    random = np.random.default_rng(seed)
    found: list[Array] = []
    for array in arrays:
        array = array.copy()
        if array.dtype != np.bool_:
            for value in (np.inf, -np.inf, np.nan):
                array[random.random(array.shape) < 0.05] = value
        found.append(array)
    return found


def kernels(module: ModuleOp, fuse: Fuse) -> ModuleOp:
    """The module's frontend or tiny graphs as kernels; the module itself stays."""
    module = module.clone()
    FrontendToTiny().apply(make_context(), module)
    TinyToIndex().apply(make_context(), module)
    IndexToRegion(fuse).apply(make_context(), module)
    verify(module)
    return module


def same(actual: Array, expected: Array, close: float = 1e-2) -> None:
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=close, atol=close)


@settings(max_examples=examples(60))
@given(programs(), st.integers(0, 3), st.integers(1, 3), st.integers(0, 3), st.integers(0, 9))
def test_infinities_and_nan(module: ModuleOp, m: int, n: int, k: int, seed: int) -> None:
    sizes = {"M": m, "N": n, "K": k}
    graph = cast(GraphOp, module.body.block.first_op)
    shapes = [tensor_of(r).dims for op in graph.body.block.ops for r in op.results]
    assume(all(np.prod([d.evaluate(sizes) for d in s]) < 20_000 for s in shapes))
    inputs = sprinkled(make_inputs(graph, sizes, seed), seed)
    expected = frontend_playback.run(graph, inputs, sizes)
    for fuse in FUSES:
        found = play(kernels(module, fuse), "f", inputs, sizes)
        assert found is not None
        for actual, wanted in zip(found, expected, strict=True):
            same(actual, wanted)


@settings(max_examples=examples(60))
@given(programs())
def test_a_reduction_is_computed_once(module: ModuleOp) -> None:
    """Each sum of the graph is one op of one kernel, however much is fused (S6.6)."""
    lowered = module.clone()
    FrontendToTiny().apply(make_context(), lowered)
    needed = set[object]()
    count = 0
    for op in reversed(list(cast(tiny.GraphOp, lowered.body.block.first_op).body.block.ops)):
        if isinstance(op, tiny.OutputOp) or any(r in needed for r in op.results):
            needed.update(op.operands)
            count += isinstance(op, tiny.ReduceOp)
    for fuse in FUSES:
        found = kernels(module, fuse).walk()
        assert sum(isinstance(op, region.ReduceOp) for op in found) == count


@cache
def masked(fuse: Fuse, causal: bool, boolean: bool) -> tuple[ModuleOp, ModuleOp]:
    """A masked attention with its log-sum-exp, and its kernels; neither is for changing."""
    mask = tensor(("M", "N"), i1 if boolean else f32)
    inputs = [tensor(("B", "H", s, 2), f32) for s in "MNN"]

    def make(graph: GraphOp) -> list[SSAValue]:
        q, k, v, allowed = graph.body.block.args
        op = frontend.AttentionOp(q, k, v, [allowed], causal=causal, lse=True)
        add(graph, op)
        return [*op.results]

    module = closed([*inputs, mask], make)
    return module, kernels(module, fuse)


@settings(max_examples=examples(40))
@given(st.sampled_from(FUSES), st.booleans(), st.booleans(), st.integers(0, 9))
def test_what_a_forbidden_key_holds_counts_nothing(
    fuse: Fuse, causal: bool, boolean: bool, seed: int
) -> None:
    sizes = {"B": 1, "H": 2, "M": 4, "N": 5}
    module, lowered = masked(fuse, causal, boolean)
    graph = cast(GraphOp, module.body.block.first_op)
    arrays = make_inputs(graph, sizes, seed)
    if not boolean:
        arrays[3] = np.where(arrays[3] < 0, -np.inf, arrays[3]).astype(np.float32)
    arrays[1:3] = sprinkled(arrays[1:3], seed)
    expected = frontend_playback.run(graph, arrays, sizes)
    found = play(lowered, "f", arrays, sizes)
    assert found is not None
    for actual, wanted in zip(found, expected, strict=True):
        same(actual, wanted, 1e-4)


def test_the_log_sum_exp_comes_out_of_the_kernel_of_its_attention() -> None:
    def make(graph: GraphOp) -> list[SSAValue]:
        q, k, v = graph.body.block.args
        op = frontend.AttentionOp(q, k, v, causal=True, lse=True)
        add(graph, op)
        return [*op.results]

    module = kernels(closed([tensor(("H", s, 64), f16) for s in "MNN"], make), "cost")
    (kernel,) = module.ops
    assert isinstance(kernel, region.KernelOp)
    assert [len(cast(ValType, v.type).axes) for v in kernel.yield_op.values] == [3, 2]


P = "!tiny.tensor<[N + 2], f32>"
FILLS: Mapping[str, str] = {
    "max": "%r = tiny.reduce max %p axes [0] : {P} -> !tiny.tensor<[], f32>",
    "sum of exp": "%e = tiny.unary exp %p : {P}\n"
    "  %r = tiny.reduce sum %e axes [0] : {P} -> !tiny.tensor<[], f32>",
    "min of exp": "%e = tiny.unary exp %p : {P}\n"
    "  %r = tiny.reduce min %e axes [0] : {P} -> !tiny.tensor<[], f32>",
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("fuse", FUSES)
def test_a_pad_gives_its_own_fill_and_not_the_neutral_value(
    name: str, count: int, fuse: Fuse
) -> None:
    """The largest of a padded -1 is 0, and a sum of exponentials counts each padded one (S6.4)."""
    text = f"""tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[], f32>) {{
  %p = tiny.pad %x low [1] high [1] value 0.0 : !tiny.tensor<[N], f32> -> {P}
  {FILLS[name].format(P=P)}
  tiny.output %r : !tiny.tensor<[], f32>
}}"""
    module = kernels(parse_text(make_context(), text, "f.mlir"), fuse)
    x = np.full(count, -1, np.float32)
    found = play(module, "f", [x], {"N": count})
    padded = np.pad(x, 1)
    wanted = {
        "max": padded.max(),
        "sum of exp": np.exp(padded).sum(),
        "min of exp": np.exp(padded).min(),
    }[name]
    assert found is not None
    same(found[0], np.asarray(wanted), 1e-6)


@pytest.mark.parametrize(("function", "nothing"), [("sum", 0.0), ("max", -np.inf), ("min", np.inf)])
def test_a_reduction_over_nothing_is_neutral(function: str, nothing: float) -> None:
    text = f"""tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M], f32>) {{
  %e = tiny.unary exp %x : !tiny.tensor<[M, N], f32>
  %r = tiny.reduce {function} %e axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
  tiny.output %r : !tiny.tensor<[M], f32>
}}"""
    module = kernels(parse_text(make_context(), text, "f.mlir"), "cost")
    found = play(module, "f", [np.zeros((2, 0), np.float32)], {"M": 2, "N": 0})
    assert found is not None
    np.testing.assert_array_equal(found[0], [nothing, nothing])
