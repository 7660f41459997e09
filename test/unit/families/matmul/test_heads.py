"""Products whose heads lie inside of rows: they are read and stored where they lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.frontend import tensor_of
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import assert_kernels_agree, lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples

ARCHS = ("sm_80", "sm_90a")


@dataclass(frozen=True)
class Sizes:
    """Sequences, positions, heads and features of a head."""

    batch: int = 2
    length: int = 40
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
    k = s.reshape(heads(s, k, z.heads, 0, 2, 3, 1), z.batch, z.heads, 1, z.features, z.length)
    k = s.concat(2, k, k, k, k)
    k = s.reshape(k, z.batch, 4 * z.heads, z.features, z.length)
    return s.done(y=s.gemm(heads(s, q, 4 * z.heads, 0, 2, 1, 3), k))


def merged_batch(z: Sizes) -> ModuleOp:
    """Of a batch of sequences and heads, as ``bmm`` has them."""
    s = z.sketch()
    q, k = (s.input(name, z.length, z.batch, z.row) for name in "qk")
    q, k = (s.reshape(x, z.length, z.batch * z.heads, z.features) for x in (q, k))
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
    *(scores, packed, by_head, merged_batch, weighed, states, experts),
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
