"""Products whose heads lie inside of rows: they are read and stored where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.frontend import ExpandOp, tensor, tensor_of
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.schedules import GEMM
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.region.merge_axes import RegionMergeAxes
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gemm_programs import assert_tiles_agree, inputs_of, regions
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import assert_kernels_agree, lowered, sizes_of
from polyc.test.support.sketch import Sketch, dim
from polyc.test.support.split_programs import wanted_of
from polyc.test.support.turns import examples
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")


@dataclass(frozen=True)
class Sizes:
    """Sequences, positions, heads and features of a head."""

    batch: int | str = 2
    length: int | str = 40
    heads: int = 3
    features: int = 16
    element: Attribute = f16

    @property
    def row(self) -> int:
        return self.heads * self.features

    def sketch(self) -> Sketch:
        return Sketch("g", self.element)


def heads(s: Sketch, x: SSAValue, count: int, *order: int) -> SSAValue:
    """``[B, T, H * D]`` as heads of features, its axes in an order."""
    b, t, row = tensor_of(x).dims
    features = (row.constant() or 0) // count
    return s.permute(s.reshape(x, b, t, count, features), *order)


def scores(z: Sizes) -> ModuleOp:
    """Of queries and keys that each have a tensor."""
    s = z.sketch()
    q, k = (s.input(name, z.batch, z.length, z.row) for name in "qk")
    q, k = heads(s, q, z.heads, 0, 2, 1, 3), heads(s, k, z.heads, 0, 2, 3, 1)
    return s.done(y=s.gemm(q, k))


def packed(z: Sizes) -> ModuleOp:
    """Of queries and keys that follow each other in a row, as one projection makes them."""
    s = z.sketch()
    x = s.input("x", z.batch, z.length, 3 * z.row)
    q, k = (s.cut(x, 2, i * z.row, (i + 1) * z.row) for i in (0, 1))
    q, k = heads(s, q, z.heads, 0, 2, 1, 3), heads(s, k, z.heads, 0, 2, 3, 1)
    return s.done(y=s.gemm(q, k))


def by_head(z: Sizes) -> ModuleOp:
    """Of queries and keys that follow each other in a head."""
    s = z.sketch()
    x = s.input("x", z.batch, z.length, 3 * z.row)
    x = s.reshape(x, z.batch, z.length, z.heads, 3 * z.features)
    q, k = (s.cut(x, 3, i * z.features, (i + 1) * z.features) for i in (0, 1))
    return s.done(y=s.gemm(s.permute(q, 0, 2, 1, 3), s.permute(k, 0, 2, 3, 1)))


def shared_keys(z: Sizes) -> ModuleOp:
    """Of heads of queries of which four share keys."""
    s = z.sketch()
    q, k = s.input("q", z.batch, z.length, 4 * z.row), s.input("k", z.batch, z.length, z.row)
    k = s.reshape(k, z.batch, z.length, z.heads, 1, z.features)
    shape = tensor((z.batch, z.length, z.heads, 4, z.features), z.element)
    k = s.add(ExpandOp(k, range(5), shape))
    k = s.permute(s.reshape(k, z.batch, z.length, 4 * z.heads, z.features), 0, 2, 3, 1)
    return s.done(y=s.gemm(heads(s, q, 4 * z.heads, 0, 2, 1, 3), k))


def merged_batch(z: Sizes) -> ModuleOp:
    """Of a batch of sequences and heads, as ``bmm`` has them."""
    s, batch = z.sketch(), dim(z.batch) * z.heads
    q, k = (s.input(name, z.length, z.batch, z.row) for name in "qk")
    q, k = (s.reshape(x, z.length, batch, z.features) for x in (q, k))
    return s.done(y=s.gemm(s.permute(q, 1, 0, 2), s.permute(k, 1, 2, 0)))


def weighed(z: Sizes) -> ModuleOp:
    """Values by weights, merged in the rows of a token."""
    s = z.sketch()
    p = s.input("p", z.batch, z.heads, z.length, z.length)
    v = heads(s, s.input("v", z.batch, z.length, z.row), z.heads, 0, 2, 1, 3)
    y = s.permute(s.gemm(p, v), 0, 2, 1, 3)
    return s.done(y=s.reshape(y, z.batch, z.length, z.row))


def states(z: Sizes) -> ModuleOp:
    """Keys by values, summed over positions, as linear attention has them."""
    s = z.sketch()
    k, v = (s.input(name, z.batch, z.length, z.row) for name in "kv")
    k, v = heads(s, k, z.heads, 0, 2, 3, 1), heads(s, v, z.heads, 0, 2, 1, 3)
    return s.done(y=s.gemm(k, v))


def experts(z: Sizes) -> ModuleOp:
    """Parts of a row, each by a weight of its own, with what follows the merged rows."""
    s = z.sketch()
    x = s.permute(s.reshape(s.input("x", z.length, z.row), z.length, z.heads, z.features), 1, 0, 2)
    y = s.gemm(x, s.input("w", z.heads, z.features, 24))
    y = s.reshape(s.permute(y, 1, 0, 2), z.length, z.heads * 24)
    return s.done(y=s.fn("sigmoid", s.fn("add", y, s.input("b", z.heads * 24))))


PROGRAMS: tuple[Callable[[Sizes], ModuleOp], ...] = (
    *(scores, packed, by_head, shared_keys, merged_batch, weighed, states, experts),
)


def schedules(module: ModuleOp, arch: str = "sm_90a") -> list[ScheduleOp]:
    return find(lowered(module, arch, "plan"), ScheduleOp)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda f: f.__name__)
def test_heads_are_read_and_stored_where_they_lie(
    make: Callable[[Sizes], ModuleOp], arch: str
) -> None:
    """One kernel, of products, that computes what the graph means and spills nothing."""
    module = make(Sizes())
    plans = schedules(module, arch)
    assert {plan.pattern for plan in plans} == {"matmul"}
    assert len({plan.region.root_reference.data for plan in plans}) == 1
    assert all(plan.mma.data != "none" and plan.mma.data != "fma" for plan in plans)
    threads = assert_kernels_agree(module, arch)
    found = nvrtc.compile_cuda(cuda_source(threads), arch)
    assert all(info.spill_bytes == 0 for info in found.kernels.values())


def apart(module: ModuleOp) -> tuple[ModuleOp, ModuleOp]:
    """The regions of a graph before and after the pass."""
    before = regions(str(module))
    after = before.clone()
    RegionMergeAxes().apply(make_context(), after)
    verify(after)
    return before, after


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_heads_apart_compute_what_they_did(data: st.DataObject) -> None:
    """Regions over random sizes, before and after, and in tiles."""
    draw = data.draw
    make = draw(st.sampled_from(PROGRAMS))
    z = Sizes(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 70)),
        draw(st.integers(1, 5)),
        8 * draw(st.integers(1, 9)),
        draw(st.sampled_from([f16, f32])),
    )
    before, after = apart(make(z))
    inputs = inputs_of(before, {})
    wanted, found = (play(one, "g", inputs, {}) for one in (before, after))
    assert wanted is not None and found is not None
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))
    assert assert_tiles_agree(str(make(z)), draw(st.sampled_from(ARCHS)), {})


@pytest.mark.turns(3)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda f: f.__name__)
def test_batches_and_positions_may_be_open(make: Callable[[Sizes], ModuleOp]) -> None:
    module = make(Sizes("B", "T"))
    plans = schedules(module)
    # One position is a row, or a column, which other kernels have.
    assert {plan.pattern for plan in plans} <= {"matmul", "rows"} and plans[-1].pattern == "matmul"
    for number, sizes in enumerate(({"B": 2, "T": 72}, {"B": 1, "T": 9}, {"B": 3, "T": 130})):
        assert assert_tiles_agree(str(module), ARCHS[number % 2], sizes_of(module, sizes))


def cut_short(z: Sizes) -> ModuleOp:
    """Heads of the beginning of a row, which is no multiple of a head."""
    s = z.sketch()
    q, k = (s.cut(s.input(n, z.batch, z.length, z.row + 8), 2, 0, z.row) for n in "qk")
    q, k = heads(s, q, z.heads, 0, 2, 1, 3), heads(s, k, z.heads, 0, 2, 3, 1)
    return s.done(y=s.gemm(q, k))


def from_the_middle(z: Sizes) -> ModuleOp:
    """Heads that begin inside of a head of the row."""
    s = z.sketch()
    half = z.features // 2
    q, k = (
        s.cut(s.input(n, z.batch, z.length, z.row + z.features), 2, half, z.row + half)
        for n in "qk"
    )
    q, k = heads(s, q, z.heads, 0, 2, 1, 3), heads(s, k, z.heads, 0, 2, 3, 1)
    return s.done(y=s.gemm(q, k))


def narrow(z: Sizes) -> ModuleOp:
    """Heads whose rows are no whole vectors."""
    return scores(Sizes(z.batch, z.length, z.heads, 20, z.element))


def one_inside(z: Sizes) -> ModuleOp:
    """Heads that lie inside of features: rows go along no axis of a product."""
    s = z.sketch()
    q, k = (s.input(n, z.batch, z.length, z.row) for n in "qk")
    q, k = (s.reshape(x, z.batch, z.length, z.features, z.heads) for x in (q, k))
    return s.done(y=s.gemm(s.permute(q, 0, 3, 1, 2), s.permute(k, 0, 3, 2, 1)))


REFUSED = (cut_short, from_the_middle, narrow, one_inside)


@pytest.mark.parametrize("make", REFUSED, ids=lambda f: f.__name__)
def test_others_are_as_they_were(make: Callable[[Sizes], ModuleOp]) -> None:
    _, after = apart(make(Sizes()))
    assert not GEMM.takes(only(after, KernelOp))


LONG = Sizes(1, 128, 2, 64)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_graph_copies_no_heads(arch: str) -> None:
    """Scores that are an output, of projections, and values that they weigh: a kernel of products
    for each, and none else."""
    s = LONG.sketch()
    x = s.input("x", LONG.batch, LONG.length, LONG.row)
    q, k, v = (s.linear(x, name, LONG.row) for name in "qkv")
    q, v = (heads(s, y, LONG.heads, 0, 2, 1, 3) for y in (q, v))
    p = s.fn("sigmoid", s.gemm(q, heads(s, k, LONG.heads, 0, 2, 3, 1)))
    y = s.permute(s.gemm(p, v), 0, 2, 1, 3)
    y = s.linear(s.reshape(y, LONG.batch, LONG.length, LONG.row), "o", LONG.row)
    module = s.done(y=y)
    plans = schedules(module, arch)
    assert {plan.pattern for plan in plans} == {"matmul"}
    assert len({plan.region.root_reference.data for plan in plans}) == 6
    finish(built := lowered(module, arch, "gpu"))
    threads = gpu_module_of(built)
    inputs, wanted = wanted_of(module, {})
    result = simulate(threads, inputs, {}, threads.dispatch().variants()[0].variant_name)
    result.check()
    assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("arch", ARCHS)
def test_attention_of_a_merged_batch_copies_no_heads(arch: str) -> None:
    """By ``bmm`` over sequences and heads, whose end goes into rows at once."""
    s = LONG.sketch()
    batch, length, count, row = 2, LONG.length, LONG.heads, LONG.row
    x = s.input("x", length, batch, 3 * row)
    parts = (s.cut(x, 2, i * row, (i + 1) * row) for i in range(3))
    q, k, v = (s.reshape(part, length, batch * count, LONG.features) for part in parts)
    p = s.softmax(s.gemm(s.permute(q, 1, 0, 2), s.permute(k, 1, 2, 0)))
    y = s.permute(s.gemm(p, s.permute(v, 1, 0, 2)), 1, 0, 2)
    module = s.done(y=s.reshape(y, length * batch, row))
    plans = schedules(module, arch)
    assert {plan.pattern for plan in plans} == {"attention"}
    assert len({plan.region.root_reference.data for plan in plans}) == 1
    threads = assert_kernels_agree(module, arch)
    found = nvrtc.compile_cuda(cuda_source(threads), arch)
    assert all(info.spill_bytes == 0 for info in found.kernels.values())
