"""The region dialect and the lowering to it: what text tests do not reach."""

from __future__ import annotations

import io

import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import tiny
from polyc.dialects.common.diagnostic import place_of
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.common.numbers import number_text
from polyc.dialects.region import (
    BINARY_FNS,
    COMPARE_FNS,
    NEUTRAL,
    REDUCE_FNS,
    UNARY_FNS,
    BinaryOp,
    KernelOp,
    KernelTensor,
    ReadOp,
    ReduceOp,
    UnaryOp,
    YieldOp,
)
from polyc.dialects.region.types import AxisAttr, MemRefType
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import functions
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def text(module: ModuleOp) -> str:
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def copy_kernel(axis: Dim, extent: Dim, facts: tuple[Assumption, ...] = ()) -> ModuleOp:
    """``y[axis] = x[axis]`` with an input of size ``extent``."""
    memref, out = MemRefType.of([extent], f32), MemRefType.of([axis], f32)
    block = Block(arg_types=[memref])
    axes = [AxisAttr.of("i0", axis)]
    read = ReadOp(block.args[0], AffineMap(1, 1, (AffineDimExpr(0),)), axes)
    block.add_ops([read, YieldOp([read.result])])
    kernel = KernelOp(
        "copy",
        axes,
        [KernelTensor("x", memref)],
        [KernelTensor("y", out)],
        body=Region(block),
        symbols=["M"],
        assumptions=AssumptionsAttr(facts),
    )
    return ModuleOp([kernel])


SYMBOL = Dim.sym("M")


def test_sizes_are_equal_when_isl_says_so() -> None:
    split = SYMBOL.floordiv(4) * 4 + SYMBOL.mod(4)
    assert split != SYMBOL
    verify(copy_kernel(split, SYMBOL))


def test_read_inside_by_an_assumption() -> None:
    whole = SYMBOL.floordiv(8) * 8
    with pytest.raises(VerifyException, match="UnguardedAccess"):
        copy_kernel(SYMBOL, whole).verify()
    copy_kernel(SYMBOL, whole, (Assumption(SYMBOL.mod(8), "=="),)).verify()
    # The other way round nothing is needed.
    copy_kernel(whole, SYMBOL).verify()


def test_read_that_isl_cannot_judge_is_refused() -> None:
    with pytest.raises(VerifyException, match="isl cannot compare with M \\* M"):
        copy_kernel(SYMBOL, SYMBOL * SYMBOL).verify()


@pytest.mark.parametrize("value", [0.1, 1e-30, 3e38, -1.5, 16777217.0, 1e-45, float("inf"), -0.0])
def test_number_text_reads_back(value: float) -> None:
    import numpy as np

    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    found = number_text(single)
    assert np.float32(found) == np.float32(single)
    assert "." in found or "inf" in found


def test_every_function_has_a_meaning() -> None:
    assert set(UNARY_FNS.floats) <= set(functions.UNARY)
    assert set(BINARY_FNS.floats) <= set(functions.BINARY)
    assert set(UNARY_FNS.integers) <= set(functions.INTEGER_UNARY)
    integers = {*BINARY_FNS.integers, *BINARY_FNS.counters}
    assert integers == set(functions.INTEGER_BINARY)
    assert set(UNARY_FNS.conditions) == set(functions.CONDITION_UNARY)
    assert set(BINARY_FNS.conditions) == set(functions.CONDITION_BINARY)
    assert set(COMPARE_FNS.names) == set(functions.COMPARE)
    assert functions.IDENTITY == NEUTRAL
    assert set(NEUTRAL) == set(REDUCE_FNS) == set(tiny.REDUCTIONS)


def test_signature_names_keep_their_spelling() -> None:
    source = """
region.kernel @f iters [m: M] ins(%x_1: !region.memref<[M], f32, align 4>, %x_2: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x_2 affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}
"""  # noqa: E501
    once = text(parse_text(make_context(), source, "names.mlir"))
    assert "ins(%x_1: " in once
    assert "region.read %x_2 " in once
    assert text(parse_text(make_context(), once, "names.mlir")) == once


def graph_of(body: str, inputs: str = "%x: !tiny.tensor<[N], f32>") -> ModuleOp:
    source = f"tiny.graph @g({inputs}) -> (y: !tiny.tensor<[N], f32>) {{\n{body}\n}}"
    module = parse_text(make_context(), source, "graph.mlir")
    TinyToIndex().apply(make_context(), module)
    return module


def lowered(module: ModuleOp) -> KernelOp:
    IndexToRegion().apply(make_context(), module)
    verify(module)
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    return kernel


def test_a_graph_deeper_than_the_stack_is_lowered(capsys: pytest.CaptureFixture[str]) -> None:
    depth = 1200
    lines = ["%v0 = tiny.unary exp %x : !tiny.tensor<[N], f32>"]
    lines += [
        f"%v{i + 1} = tiny.unary neg %v{i} : !tiny.tensor<[N], f32>" for i in range(depth - 1)
    ]
    lines.append(f"tiny.output %v{depth - 1} : !tiny.tensor<[N], f32>")
    module = graph_of("\n".join(lines))
    IndexToRegion().apply(make_context(), module)
    verify(module)
    # It is more than one kernel takes; nothing of it is lost or done twice.
    assert sum(isinstance(op, UnaryOp) for op in module.walk()) == depth
    assert "remark[KernelCut]" in capsys.readouterr().err


def test_a_shared_value_is_computed_once() -> None:
    # Without sharing this would be 2**40 additions.
    lines = ["%v0 = tiny.unary exp %x : !tiny.tensor<[N], f32>"]
    lines += [
        f"%v{i + 1} = tiny.binary add %v{i}, %v{i} : !tiny.tensor<[N], f32>" for i in range(40)
    ]
    lines.append("tiny.output %v40 : !tiny.tensor<[N], f32>")
    kernel = lowered(graph_of("\n".join(lines)))
    assert sum(isinstance(op, BinaryOp) for op in kernel.body.block.ops) == 40


def test_locations_are_those_of_the_graph() -> None:
    body = (
        "%s = tiny.reduce max %z axes [1] : !tiny.tensor<[N, K], f32> -> !tiny.tensor<[N], f32>\n"
        "%y = tiny.binary add %x, %s : !tiny.tensor<[N], f32>\n"
        "tiny.output %y : !tiny.tensor<[N], f32>"
    )
    inputs = "%x: !tiny.tensor<[N], f32>, %z: !tiny.tensor<[N, K], f32>"
    kernel = lowered(graph_of(body, inputs))
    lines = {
        type(op): None if (place := place_of(op)) is None else place.line
        for op in kernel.body.block.ops
    }
    assert lines[ReduceOp] == 2
    assert lines[BinaryOp] == 3
    assert lines[YieldOp] == 4
    # A read is placed where its value is wanted.
    reads = [place_of(op) for op in kernel.body.block.ops if isinstance(op, ReadOp)]
    assert [p.line if p else None for p in reads] == [3, 2]


def test_lowering_is_deterministic() -> None:
    body = (
        "%y = tiny.binary add %x, %x : !tiny.tensor<[N], f32>\n"
        "tiny.output %y : !tiny.tensor<[N], f32>"
    )
    first, second = graph_of(body), graph_of(body)
    lowered(first)
    lowered(second)
    assert text(first) == text(second)
