"""Kernels of graphs with pads, masks, windows and reshapes: guards, fills, selects (S6.4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import region
from polyc.dialects.frontend import GraphOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import region as region_playback
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import make_inputs, reference
from polyc.test.support.movement_chains import SIZES, Chain
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.play import play


@st.composite
def programs(draw: st.DrawFn) -> Chain:
    return Chain(draw, whole=True, more=("negate", "add", "sum"))


def composed(module: ModuleOp, ctx: Context) -> ModuleOp:
    module.verify()
    TinyToIndex().apply(ctx, module)
    module.verify()
    IndexToRegion().apply(ctx, module)
    module.verify()
    return module


def kernel_of(module: ModuleOp, ctx: Context) -> region.KernelOp:
    (kernel,) = composed(module, ctx).body.block.ops
    assert isinstance(kernel, region.KernelOp)
    return kernel


@settings(max_examples=examples(150), deadline=None)
@given(programs())
def test_kernels_compute_what_numpy_does(program: Chain) -> None:
    """Random chains, with arithmetic and sums between, from symbolic sizes."""
    block = program.graph.body.block
    inputs = [program.arrays[a].astype(np.float32) for a in block.args]
    want = program.arrays[program.last]
    graph = str(program.graph)
    module = composed(ModuleOp([program.graph]), Context())
    found = play(module, "f", inputs, SIZES)
    assert found is not None
    np.testing.assert_array_equal(found[0], want.astype(np.float32), err_msg=f"{graph}\n{module}")


def lowered(body: str, shape: str, ctx: Context, source: str = "f32") -> region.KernelOp:
    text = f"""
tiny.graph @f(%x: !tiny.tensor<[M, N], {source}>) -> (y: !tiny.tensor<{shape}, f32>)
    assuming (M >= 3, N >= 3) {{
  {body}
  tiny.output %y : !tiny.tensor<{shape}, f32>
}}
"""
    return kernel_of(parse_text(ctx, text, "f.mlir"), ctx)


def ops(kernel: region.KernelOp) -> list[str]:
    return [op.name.removeprefix("region.") for op in kernel.body.block.ops]


PAD = "low [1, 0] high [1, 0] value"
X, P = "!tiny.tensor<[M, N], f32>", "!tiny.tensor<[M + 2, N], f32>"
H = "!tiny.tensor<[M, N], f16>"


def only_read(kernel: region.KernelOp) -> region.ReadOp:
    (found,) = [op for op in kernel.body.block.ops if isinstance(op, region.ReadOp)]
    return found


@pytest.mark.parametrize("value", ["0.0", "-inf", "2.5"])
def test_a_pad_of_a_tensor_is_a_guarded_read(value: str, ctx: Context) -> None:
    kernel = lowered(f"%y = tiny.pad %x {PAD} {value} : {X} -> {P}", "[M + 2, N]", ctx)
    assert ops(kernel) == ["read", "yield"]
    read = only_read(kernel)
    assert read.fill is not None and read.fill.value.data == float(value)
    assert read.guard is not None and len(read.guard.data.constraints) == 2


def test_a_fill_goes_through_a_cast_that_holds_it(ctx: Context) -> None:
    body = f"%c = tiny.cast %x : {H} -> {X}\n  %y = tiny.pad %c {PAD} VALUE : {X} -> {P}"
    kernel = lowered(body.replace("VALUE", "0.5"), "[M + 2, N]", ctx, "f16")
    assert ops(kernel) == ["read", "cast", "yield"]
    kernel = lowered(body.replace("VALUE", "0.1"), "[M + 2, N]", ctx, "f16")
    assert "select" in ops(kernel) and "inside" in ops(kernel)
    assert only_read(kernel).guard is not None


def test_a_pad_of_a_computed_value_selects(ctx: Context) -> None:
    body = f"%e = tiny.unary exp %x : {X}\n  %y = tiny.pad %e {PAD} 0.0 : {X} -> {P}"
    kernel = lowered(body, "[M + 2, N]", ctx)
    spread = ["broadcast_in_dim"] * 2
    assert sorted(ops(kernel)) == sorted(
        ["read", "unary", "inside", "constant", *spread, "select", "yield"]
    )


def test_a_mask_of_a_computed_value_adds_no_axes_to_it(ctx: Context) -> None:
    """The exponential of a row statistic stays one a row."""
    condition = "affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)>"
    body = f"""%r = tiny.reduce max %x axes [1] : {X} -> !tiny.tensor<[M], f32>
  %e = tiny.unary exp %r : !tiny.tensor<[M], f32>
  %b = tiny.expand %e dims [0] : !tiny.tensor<[M], f32> -> {X}
  %y = tiny.mask %b where {condition} fill -inf : {X} -> {X}"""
    kernel = lowered(body, "[M, N]", ctx)
    (made,) = [op for op in kernel.body.block.ops if isinstance(op, region.UnaryOp)]
    assert [a.label for a in made.result.type.axes] == ["m"]


def test_a_mask_of_a_tensor_is_a_guarded_read(ctx: Context) -> None:
    condition = "affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)>"
    kernel = lowered(f"%y = tiny.mask %x where {condition} fill -inf : {X} -> {X}", "[M, N]", ctx)
    assert ops(kernel) == ["read", "yield"]


def test_a_guard_that_the_sizes_imply_is_dropped(ctx: Context) -> None:
    """A slice that takes off what a pad put on reads the tensor itself."""
    body = f"""%p = tiny.pad %x {PAD} 0.0 : {X} -> {P}
  %y = tiny.slice %p [1:M + 1, 0:N] : {P} -> {X}"""
    kernel = lowered(body, "[M, N]", ctx)
    assert ops(kernel) == ["read", "yield"] and only_read(kernel).guard is None


def test_a_mean_divides_by_a_size(ctx: Context) -> None:
    body = """%s = tiny.reduce sum %x axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
  %d = tiny.dim N : !tiny.tensor<[], f32>
  %e = tiny.expand %d dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M], f32>
  %y = tiny.binary div %s, %e : !tiny.tensor<[M], f32>"""
    kernel = lowered(body, "[M]", ctx)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    (found,) = region_playback.run(kernel, [x], {"M": 5, "N": 3})
    np.testing.assert_array_equal(found, x.sum(1) / np.float32(3))


def test_several_pads_keep_their_own_fills(ctx: Context) -> None:
    body = f"""%p = tiny.pad %x {PAD} 1.0 : {X} -> {P}
  %y = tiny.pad %p low [1, 0] high [0, 0] value 2.0 : {P} -> !tiny.tensor<[M + 3, N], f32>"""
    kernel = lowered(body, "[M + 3, N]", ctx)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    (found,) = region_playback.run(kernel, [x], {"M": 5, "N": 3})
    inner: Any = np.pad(x, ((1, 1), (0, 0)), constant_values=1)
    want = np.pad(inner, ((1, 0), (0, 0)), constant_values=2)
    np.testing.assert_array_equal(found, want)


def test_a_chain_of_shifts_keeps_its_tightest_bound(ctx: Context) -> None:
    more = "!tiny.tensor<[M + 1, N], f32>"
    steps: list[str] = []
    for i in range(8):
        before, after = "%x" if i == 0 else f"%v{i}", "%y" if i == 7 else f"%v{i + 1}"
        steps.append(f"%p{i} = tiny.pad {before} low [0, 0] high [1, 0] value 0.0 : {X} -> {more}")
        steps.append(f"{after} = tiny.slice %p{i} [1:M + 1, 0:N] : {more} -> {X}")
    read = only_read(lowered("\n  ".join(steps), "[M, N]", ctx))
    assert read.guard is not None
    assert str(read.guard.data.constraints[0]) == "(((d0 * -1) + s0) + -9) >= 0"
    assert len(read.guard.data.constraints) == 1


EXAMPLES = [
    ("conv_silu", {"N": 2, "H": 5, "W": 4, "C": 3, "F": 6}),
    ("conv_silu", {"N": 1, "H": 1, "W": 1, "C": 1, "F": 1}),
    ("causal_attention", {"B": 2, "H": 3, "M": 5, "N": 7}),
    ("causal_attention", {"B": 1, "H": 1, "M": 4, "N": 0}),
    ("layer_norm", {"M": 3, "N": 17}),
    ("rms_norm", {"M": 3, "N": 17}),
    ("softmax", {"M": 3, "N": 17}),
]


@pytest.mark.parametrize(("name", "sizes"), EXAMPLES)
def test_the_kernels_of_the_examples(
    name: str, sizes: dict[str, int], ctx: Context, root: Path
) -> None:
    """What the frontend means, in one kernel of guarded reads."""
    module = parse_text(ctx, (root / "examples" / f"{name}.mlir").read_text(), name)
    (graph,) = module.body.block.ops
    assert isinstance(graph, GraphOp)
    inputs = make_inputs(graph, sizes)
    expected = reference(graph, inputs, sizes)
    FrontendToTiny().apply(ctx, module)
    found = region_playback.run(kernel_of(module, ctx), inputs, sizes)
    for spec, actual, wanted in zip(graph.outputs, found, expected, strict=True):
        assert tolerance_check(actual, wanted, spec.type.element_type) is None
