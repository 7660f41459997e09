"""``gpu-share-reads``: which reads rows and columns share, and that they are the same (T2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerAttr, f16, f32, i32
from xdsl.dialects.builtin import ModuleOp as BuiltinModule
from xdsl.ir import Attribute, Operation

from polyc.dialects import frontend
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import KernelOp, ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.biased_sums import MATRIX, VECTOR, biased
from polyc.test.support.gpu_text import find, only, printed, run
from polyc.test.support.lowered import assert_kernels_agree, lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples

PASS = "gpu-share-reads"


def maps(text: str) -> list[tile.MapOp]:
    return find(run(text, PASS), tile.MapOp)


def test_a_bias_of_columns_is_read_behind_the_contract() -> None:
    """Its products run beside the loads."""
    read, add, _ = maps(biased())
    assert str(read.space.type) == "!gpu.fragment<[32], f32>"
    assert isinstance(read.prev_op, tile.ContractOp) and read.next_op is add
    assert add.inputs[0] is read.space
    assert str(add.input_maps[0]) == "(d0, d1)[s0] -> (d1)"


def stands_before_the_loop(op: Operation) -> bool:
    return isinstance(op.parent_op(), KernelOp) and isinstance(op.next_op, tile.PipelineOp)


@pytest.mark.parametrize(
    ("where", "origin"),
    [("(i, j)[s] -> (i + s)", "%c0"), ("(i, j)[s] -> (i)", "%k"), ("(i, j)[s] -> (s)", "%c0")],
    ids=["a row", "a row, the origin unused", "one number"],
)
def test_what_no_step_changes_is_read_before_the_loop(where: str, origin: str) -> None:
    read, add, _ = maps(biased(where, origin=origin))
    assert str(read.space.type) == "!gpu.fragment<[64], f32>"
    assert stands_before_the_loop(read)
    assert str(add.input_maps[0]) == "(d0, d1)[s0] -> (d0)"


def test_a_number_of_each_step_is_read_in_it() -> None:
    read, add, _ = maps(biased("(i, j)[s] -> (s)"))
    assert read.next_op is add and str(read.space.type) == "!gpu.fragment<[64], f32>"


def test_a_column_of_a_matrix() -> None:
    """A coordinate that is a constant is none of the tile's."""
    read, *_ = maps(biased("(i, j)[s] -> (3, j + s)", source=f"%w : {MATRIX}"))
    assert str(read.input_maps[0]) == "(d0)[s0] -> (3, (d0 + s0))"


@pytest.mark.parametrize("where", ["(i, j)[s] -> (i + s)", "(i, j)[s] -> (s)"])
def test_what_rows_take_at_the_end_is_read_there(where: str) -> None:
    read, add, _ = maps(biased(where, at="the end"))
    assert str(read.space.type) == "!gpu.fragment<[64], f32>"
    assert isinstance(read.parent_op(), KernelOp) and read.next_op is add
    assert str(add.input_maps[0]) == "(d0, d1)[s0] -> (d0)"


LEFT_ALONE = {
    "a matrix": biased("(i, j)[s] -> (i, j + s)", source=f"%w : {MATRIX}"),
    "a diagonal": biased("(i, j)[s] -> (i - j + s)"),
    "no loop": biased(at="once"),
    "a row, and no loop": biased("(i, j)[s] -> (i + s)", at="once"),
    "columns at the end": biased(at="the end"),
    "a fragment": biased("(i, j)[s] -> (i)", source="%l : !gpu.fragment<[64], f32>"),
    "a tensor that the map writes": biased(
        outs=f", %v : {VECTOR} affine_map<(i, j)[s] -> (j + s)>", value=", %t : f32, f32"
    ),
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_reads_that_stay(text: str) -> None:
    before = printed(run(text))
    assert printed(run(text, PASS)) == before


def test_twice_is_once() -> None:
    once = printed(run(biased(), PASS))
    assert printed(run(once, PASS)) == once


def loads(*without: str) -> int:
    """How many loads of f32 a kernel's text has of each thread's step, by unrolled registers."""
    module = run(biased(), *(name for name in GPU_PASSES if name not in without))
    unrolled = [op for op in find(module, hw.LoadGlobalOp) if str(op.result.type) == "f32"]
    found: set[int] = set()
    for load in unrolled:
        loop = load.parent_op()
        assert loop is not None
        bound = loop.operands[1].owner
        assert isinstance(bound, arith.ConstantOp) and isinstance(bound.value, IntegerAttr)
        found.add(bound.value.value.data)
    (count,) = found
    return count


def test_a_thread_loads_a_column_once() -> None:
    """16 elements of an accumulator are of two rows and 8 columns."""
    assert (loads(PASS), loads()) == (16, 8)


@settings(max_examples=examples(8), deadline=None)
@given(
    st.integers(1, 150),
    st.integers(0, 1000),
    st.sampled_from(["(i, j)[s] -> (j + s)", "(i, j)[s] -> (i + s)", "(i, j)[s] -> (s)"]),
    st.sampled_from(["each step", "the end"]),
)
def test_the_numbers_are_the_same(n: int, seed: int, where: str, at: str) -> None:
    """To the bit, also for what is beyond the end of the tensor."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((m, 32)).astype(np.float16) for m in (64, n))
    v = rng.standard_normal(n).astype(np.float32)
    w = np.zeros((64, n), np.float32)
    once, each = (
        simulate(only(run(biased(where, at=at), *passes), ModuleOp), [a, b, v, w], {"N": n})
        for passes in (GPU_PASSES, [name for name in GPU_PASSES if name != PASS])
    )
    assert not once.findings and not each.findings
    np.testing.assert_array_equal(once.outputs[0], each.outputs[0])


def gated(element: Attribute, m: int, n: int, k: int) -> BuiltinModule:
    """A product whose rows are weighed by functions of a number each."""
    s = Sketch("gated", element)
    x, w, d = s.input("x", m, k), s.input("w", k, n), s.input("d", m, 1, element=f32)
    wave = s.fn("add", s.fn("cos", s.fn("mul", d, s.number(3.0, f32))), s.number(1.0, f32))
    inverse = s.fn("div", s.number(1.0, f32), s.fn("add", s.fn("mul", d, d), s.number(0.5, f32)))
    product = s.cast(s.gemm(x, w), f32)
    return s.done(y=s.fn("add", s.fn("mul", product, wave), inverse))


@pytest.mark.parametrize(
    ("element", "arch", "sizes"),
    [(f16, "sm_90a", (70, 64, 40)), (f16, "sm_80", (130, 72, 48)), (f32, "sm_90a", (96, 40, 33))],
)
def test_functions_of_rows_are_computed_once_for_each(
    element: Attribute, arch: str, sizes: tuple[int, int, int]
) -> None:
    module = gated(element, *sizes)
    tiles = gpu_module_of(lowered(module, arch, "tiles"))
    before = len(find(tiles, math.CosOp))
    kernels = only(run(str(tiles), PASS), ModuleOp)
    rows = [op for op in find(kernels, tile.MapOp) if find(op, math.CosOp)]
    assert before and len(rows) >= before
    assert all(str(op.space.type).count(",") == 1 for op in rows)
    assert_kernels_agree(module, arch)


def test_what_columns_have_a_part_in_stays() -> None:
    """A function of a row's number and a column's is of each element, and a short one of rows is
    no map of its own."""
    s = Sketch("gated", f16)
    x, w = s.input("x", 64, 32), s.input("w", 32, 64)
    d, b = s.input("d", 64, 1, element=f32), s.input("b", 64, element=f32)
    product = s.cast(s.gemm(x, w), f32)
    module = s.done(y=s.fn("mul", product, s.fn("cos", s.fn("add", s.fn("neg", d), b))))
    tiles = gpu_module_of(lowered(module, "sm_90a", "tiles"))
    kernels = only(run(str(tiles), PASS), ModuleOp)
    made = [op for op in find(kernels, tile.MapOp) if find(op, math.CosOp)]
    assert made and all(len(op.body.block.args) > 2 for op in made)
    assert_kernels_agree(module)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_follows_from_a_place_is_of_each_element(axis: int) -> None:
    """A function of where in the tile an element is follows from no row's number."""
    s = Sketch("placed", f16)
    x, w, d = s.input("x", 64, 32), s.input("w", 32, 64), s.input("d", 64, 1, element=f32)
    product = s.cast(s.gemm(x, w), f32)
    place = s.cast(s.add(frontend.IotaOp(frontend.tensor((64, 64), i32), axis)), f32)
    wave = s.fn("cos", s.fn("mul", place, s.number(0.25, f32)))
    module = s.done(y=s.fn("add", s.fn("mul", product, wave), s.fn("cos", d)))
    assert_kernels_agree(module)
