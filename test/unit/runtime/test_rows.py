"""Tensors whose rows are dense and lie anywhere: taken where a kernel sees them by tensor maps."""

# pyright: basic

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import gpu_module_of
from polyc.runtime.program import PLAIN, Program
from polyc.runtime.views import TensorView
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.gpu_producers import FakeTorch, Tensor
from polyc.tools.parsing import parse_text

MODULE = """
gpu.module @rows arch "sm_90a" symbols [B, M, N] {
  gpu.kernel @first(%x: !gpu.global<[B, M, N], f32> = tensor 0,
                    %y: !gpu.tensor_map<[1, 1, 4], f32, swizzle 0> = tensor_map 1) threads 32 {
    %c = arith.constant 0 : index
    %v = gpu.load_global %x[%c, %c, %c : index, index, index]
        : !gpu.global<[B, M, N], f32> -> f32
    gpu.return
  }
  gpu.kernel @second(%unused: !gpu.global<[B, M, N], f32> = tensor 0,
                     %x: !gpu.tensor_map<[1, 1, 4], f32, swizzle 0> = tensor_map 0,
                     %y: !gpu.tensor_map<[1, 1, 4], f32, swizzle 0> = tensor_map 1) threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[B, M, N], f32>) -> (Y: !gpu.global<[B, M, N], f32>) {
    gpu.launch @first when (N mod 4 == 0) align [16, 16] grid [M]
    gpu.launch @second when (N mod 4 == 0) align [16, 16] grid [M]
  }
}
"""
SOURCE = 'extern "C" __global__ void first() {} extern "C" __global__ void second() {}'


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorch:
    made = FakeTorch(cuda)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.fixture
def job(ctx: Context, torch: FakeTorch) -> Program:
    return Program.of_module(gpu_module_of(parse_text(ctx, MODULE, "m.mlir")), [SOURCE])


def tensor(cuda: FakeCuda, strides: tuple[int, ...] | None, shape: Any = (2, 3, 4)) -> Tensor:
    return Tensor(cuda.allocate(4096), shape, strides=strides)


@pytest.mark.parametrize("strides", [(24, 8, 1), (12, 4, 1), (4, 8, 1), (100, 32, 1)])
def test_the_first_kernel_that_sees_it_by_a_map_takes_it(
    job: Program, cuda: FakeCuda, strides: tuple[int, ...]
) -> None:
    dense = strides == (12, 4, 1)
    x, y = tensor(cuda, strides), tensor(cuda, (96, 32, 1))
    for _ in range(2):
        job.run([x], out=[y])
    assert [one.kernel for one in cuda.launches] == ["first" if dense else "second"] * 2
    shown = [([4, 3, 2], [4 * step for step in steps]) for steps in (strides[1::-1], (32, 96))]
    assert cuda.maps == shown[dense:]
    assert not job.repeated(PLAIN)._calls  # pyright: ignore[reportPrivateUsage]


def test_its_plan_is_its_own(job: Program, cuda: FakeCuda) -> None:
    y = tensor(cuda, None)
    for strides in ((24, 8, 1), None, (48, 16, 1), (24, 8, 1)):
        job.run([tensor(cuda, strides)], out=[y])
    assert [one.kernel for one in cuda.launches] == ["second", "first", "second", "second"]
    assert [strides for _, strides in cuda.maps] == [
        *([32, 96], [16, 48]),
        *([16, 48],),
        *([64, 192], [16, 48]),
    ]
    bound = job.launch([tensor(cuda, (40, 8, 1))], [y])
    assert bound.name == "second" and cuda.maps[-2][1] == [32, 160]


def test_an_axis_of_one_element_has_any_stride(job: Program, cuda: FakeCuda) -> None:
    job.run([tensor(cuda, (8, 7, 1), (2, 1, 4))], out=[tensor(cuda, None, (2, 1, 4))])
    assert cuda.maps[0] == ([4, 1, 2], [16, 32])


@pytest.mark.parametrize(
    ("strides", "sentence", "note"),
    [
        ((24, 6, 1), "dimension 0 steps by 24 elements", "dimension 1 of tensor 0 steps by 24"),
        ((24, 8, 2), "dimension 0 steps by 24 elements, and kernels by 12", None),
        ((0, 4, 1), "dimension 0 steps by 0 elements", None),
        ((12, 0, 1), "dimension 1 steps by 0 elements", None),
        ((4, 4, 1), "dimension 0 steps by 4 elements", None),
        ((12, -4, 1), "dimension 1 steps by -4 elements", None),
    ],
)
def test_what_no_kernel_takes_is_refused_as_ever(
    job: Program, cuda: FakeCuda, strides: tuple[int, ...], sentence: str, note: str | None
) -> None:
    with pytest.raises(PolycError) as caught:
        job.run([tensor(cuda, strides)], out=[tensor(cuda, None)])
    assert caught.value.kind == "NotContiguous" and sentence in caught.value.message
    assert "pass X.contiguous()" in caught.value.message
    assert any(note in one for one in caught.value.notes) if note else not caught.value.notes
    assert not cuda.launches


def test_outputs_and_the_named_variant(job: Program, cuda: FakeCuda) -> None:
    x = tensor(cuda, (24, 8, 1))
    with pytest.raises(PolycError, match=r"NotContiguous.*\n.*is read by its address"):
        job.run([x], out=[tensor(cuda, None)], variant="first")
    # Beside each other in one piece of memory, each row of one after a row of the other.
    beside = Tensor(x.pointer + 16, (2, 3, 4), strides=(24, 8, 1))
    with pytest.raises(PolycError, match="Overlap"):
        job.run([x], out=[beside])
    last = Tensor(x.pointer + 4 * (24 + 16 + 4), (2, 3, 4))
    job.run([x], out=[last])
    assert cuda.launches[-1].values[2] == last.pointer


AXES = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=4)


@given(AXES, st.permutations(range(4)))
def test_rows_and_reach_are_those_of_elements(axes: list[tuple[int, int]], order: Any) -> None:
    """By NumPy's views of a buffer: steps, slices and turned axes."""
    whole = np.empty([n * step + 1 for n, step in axes], np.float32)
    part = whole[tuple(slice(0, n * step, step) for n, step in axes)]
    part = part.transpose([axis for axis in order if axis < part.ndim])
    strides = tuple(step // 4 for step in part.strides)
    view = TensorView(0, part.shape, strides, "f32", 0, None)
    places = sum(
        (
            np.arange(n).reshape([-1 if i == j else 1 for j in range(part.ndim)]) * step
            for i, (n, step) in enumerate(zip(part.shape, strides, strict=True))
        ),
        start=np.zeros((1,) * part.ndim, int),
    )
    assert view.reach == (4 * (int(places.max()) + 1) if part.size else 0)
    if part.size:
        apart = len(set(places.ravel().tolist())) == part.size
        inner = part.shape[-1] <= 1 or strides[-1] == 1
        assert view.is_of_rows == (apart and inner)
        twice = TensorView(0, (2, *part.shape), (0, *strides), "f32", 0, None)
        assert not twice.is_of_rows
