"""Kernels of integers: every function of every type in the simulator, and under NVRTC."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, f16, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import (
    INTEGERS,
    bounds,
    is_unsigned,
    ui8,
    ui64,
    width,
    without_sign,
)
from polyc.dialects.frontend import GraphOp, tensor
from polyc.dialects.gpu.scalars import wraps
from polyc.lowering.region_to_gpu import integers
from polyc.playback.functions import Array, dtype_of
from polyc.playback.gpu import simulate
from polyc.rewriting.emit import Emit
from polyc.runtime.nvrtc import compile_cuda
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
