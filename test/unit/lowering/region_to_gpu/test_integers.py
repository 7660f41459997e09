"""Kernels of integers: every function of every type in the simulator, and under NVRTC."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f16, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import (
    INTEGERS,
    bounds,
    is_unsigned,
    ui8,
    ui32,
    ui64,
    width,
    without_sign,
)
from polyc.dialects.frontend import GraphOp, tensor
from polyc.dialects.gpu.scalars import wraps
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu import integers
from polyc.playback.functions import Array, binary, dtype_of
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.rewriting.emit import Emit
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.support.agreeing import assert_agree, meant
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context


def everything(element: Attribute) -> ModuleOp:
    """A graph with each function, relation and conversion of two vectors of a type."""
    kind = tensor(("N",), element)
    graph = GraphOp("f", [kind, kind], [])
    x, y = graph.body.block.args
    ops = [frontend.ElementwiseOp(fn, [x, y]) for fn in frontend.BINARY.integers]
    ops += [frontend.ElementwiseOp(fn, [x]) for fn in frontend.UNARY.integers]
    ops += [frontend.CompareOp(fn, x, y) for fn in ("lt", "ge", "eq")]
    ops += [frontend.CastOp(x, other) for other in (*INTEGERS, f16) if other != element]
    graph.body.block.add_ops(ops)
    results = [op.results[0] for op in ops]
    graph.body.block.add_op(frontend.OutputOp(results))
    body = graph.detach_region(graph.body)
    return ModuleOp([GraphOp("f", [kind, kind], [r.type for r in results], body)])


def telling(element: Attribute) -> list[Array]:
    """Pairs of numbers that tell functions apart: the ends, 0, 1, -1, and some between."""
    least, most = bounds(element)
    bits = width(element)
    some = [least, least + 1, most, most - 1, 0, 1, 2, 7, bits - 1, bits, most // 3]
    some += [] if is_unsigned(element) else [-1, -2, -7, -bits, least // 3]
    pairs = np.asarray([*itertools.product(some, some)], dtype_of(element))
    return [np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])]


def test_a_constant_has_the_bits_of_its_type() -> None:
    emit = Emit()
    for value, element, bits in ((255, ui8, -1), (2**64 - 1, ui64, -1), (-5, i32, -5)):
        made = integers.number(emit, value, element).owner
        assert isinstance(made, arith.ConstantOp) and isinstance(made.value, IntegerAttr)
        assert made.value.value.data == bits and made.result.type == without_sign(element)


def test_arithmetic_of_64_bits_says_that_it_wraps() -> None:
    for element, wrapping in ((i64, True), (ui64, True), (i32, False)):
        emit = Emit()
        one = integers.number(emit, 1, element)
        made = integers.binary(emit, "add", one, one, element).owner
        assert isinstance(made, arith.AddiOp) and wraps(made) == wrapping


@pytest.mark.turns(2)
@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_every_function(element: Attribute) -> None:
    ctx, text = make_context(), str(everything(element))
    module = parse_text(ctx, text, "f.mlir")
    inputs = telling(element)
    sizes = {"N": len(inputs[0])}
    right = meant(module, inputs, sizes)
    arch = "sm_80" if is_unsigned(element) else "sm_90a"
    compiled = Compilation(ctx, module, arch).run("gpu")
    result = simulate(next(iter(compiled.module.ops)), inputs, sizes)
    result.check()
    assert_agree(result.outputs, right, str(element))
    for info in compile_cuda(compiled.cuda(), arch).kernels.values():
        assert not info.spill_bytes


@pytest.mark.turns(1)
@pytest.mark.parametrize("fn", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("element", [i32, i64, *INTEGERS[4:7:2]], ids=str)
def test_a_long_reduction(fn: str, element: Attribute) -> None:
    """Of many points, which threads part where they can bring together what they have."""
    kind = tensor(("M", "N"), element)
    graph = GraphOp("f", [kind], [])
    op = frontend.ReduceOp(fn, graph.body.block.args[0], [1])
    graph.body.block.add_ops([op, frontend.OutputOp(op.results)])
    body = graph.detach_region(graph.body)
    text = str(ModuleOp([GraphOp("f", [kind], [op.result.type], body)]))
    least, most = bounds(element)
    dice = np.random.default_rng(0)
    array = dice.integers(least, most, (3, 700), dtype_of(element), endpoint=True)
    for sizes, given in (({"M": 3, "N": 700}, array), ({"M": 3, "N": 0}, array[:, :0])):
        ctx = make_context()
        module = parse_text(ctx, text, "f.mlir")
        right = meant(module, [given], sizes)
        made = Compilation(ctx, module, "sm_90a").run("gpu").module
        result = simulate(next(iter(made.ops)), [np.ascontiguousarray(given)], sizes)
        result.check()
        assert_agree(result.outputs, right, fn)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("fn", "element"), [("sum", i8), ("prod", i32), ("max", ui32), ("sum", i64), ("prod", ui64)]
)
def test_any_number_of_blocks_share_a_whole_reduction(fn: str, element: Attribute) -> None:
    """What wraps in one block wraps in many; the parts are as wide as what a block has."""
    kind = tensor(("N",), element)
    graph = GraphOp("f", [kind], [])
    op = frontend.ReduceOp(fn, graph.body.block.args[0], [0])
    graph.body.block.add_ops([op, frontend.OutputOp(op.results)])
    body = graph.detach_region(graph.body)
    ctx, module = make_context(), ModuleOp([GraphOp("f", [kind], [op.result.type], body)])
    least, most = bounds(element)
    array = np.random.default_rng(0).integers(
        least, most, 65601, dtype_of(element), endpoint=True
    ) | dtype_of(element).type(1)
    right = meant(module, [array], {"N": len(array)})
    made = Compilation(ctx, module, "sm_90a").run("gpu").module
    kernels = gpu_module_of(made)
    parted = [v.variant_name for v in kernels.dispatch().variants()]
    name = next(v for v in parted if v.startswith("f_scalar") and "_spread" in v)
    result = simulate(kernels, [array], {"N": len(array)}, name)
    result.check()
    assert_agree(result.outputs, right, fn)
    assert all(
        not info.spill_bytes
        for info in compile_cuda(cuda_source(kernels), "sm_90a").kernels.values()
    )


def test_a_thread_has_the_largest_of_64_bits_without_a_sign_alone() -> None:
    for element, shared in ((i64, True), (ui64, False)):
        kind = tensor((1 << 20,), element)
        graph = GraphOp("f", [kind], [])
        op = frontend.ReduceOp("max", graph.body.block.args[0], [0])
        graph.body.block.add_ops([op, frontend.OutputOp(op.results)])
        body = graph.detach_region(graph.body)
        module = ModuleOp([GraphOp("f", [kind], [op.result.type], body)])
        made = Compilation(make_context(), module, "sm_90a").run("gpu").module
        names = [v.variant_name for v in gpu_module_of(made).dispatch().variants()]
        assert any("parts" in name for name in names) == shared, names


@pytest.mark.parametrize("element", INTEGERS, ids=str)
def test_a_power_is_that_of_python_in_the_low_bits(element: Attribute) -> None:
    base, by = telling(element)
    found = binary("pow", base, by)
    bits, (least, most) = width(element), bounds(element)
    numbers = zip(*(map(int, array.tolist()) for array in (base, by, found)), strict=True)
    for x, n, given in numbers:
        wanted: int = (x if n % 2 else 1) if x in (1, -1) else 0
        if n >= 0:
            wanted = pow(x % (1 << bits), n, 1 << bits)
        wanted %= 1 << bits
        assert given == (wanted if wanted <= most else wanted - (most - least + 1)), (x, n)


def test_a_power_of_integers_is_no_exponential() -> None:
    """Below a maximum too, where one of real numbers becomes an exponential."""
    text = """
frontend.graph @f(%x: !frontend.tensor<[M, N], i32>) -> !frontend.tensor<[M], i32> {
  %two = frontend.constant 2 : !frontend.tensor<[], i32>
  %m = frontend.reduce max %x axes [1] keepdims
      : !frontend.tensor<[M, N], i32> -> !frontend.tensor<[M, 1], i32>
  %d = frontend.elementwise sub %x, %m
      : (!frontend.tensor<[M, N], i32>, !frontend.tensor<[M, 1], i32>)
      -> !frontend.tensor<[M, N], i32>
  %p = frontend.elementwise pow %two, %d
      : (!frontend.tensor<[], i32>, !frontend.tensor<[M, N], i32>)
      -> !frontend.tensor<[M, N], i32>
  %s = frontend.reduce sum %p axes [1] : !frontend.tensor<[M, N], i32> -> !frontend.tensor<[M], i32>
  frontend.output %s : !frontend.tensor<[M], i32>
}"""
    module = parse_text(make_context(), text, "f.mlir")
    assert layers.failure(RandomProgram(module, {"M": 3, "N": 5}), 4) is None
