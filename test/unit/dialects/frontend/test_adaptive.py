"""``frontend.adaptive_pool``: windows are NumPy's slices, and mean the same at every layer."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i32
from xdsl.ir import Attribute

from polyc.dialects.frontend import ADAPTIVE, AdaptivePoolOp, GraphOp
from polyc.dialects.region import KernelOp
from polyc.playback import frontend
from polyc.runtime.program import Program
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.support.gpu_text import only
from polyc.test.support.lowered import assert_kernels_agree, lowered
from polyc.test.support.sketch import Size, Sketch

Array = np.ndarray[Any, Any]


def pooled(
    fn: str, axes: list[int], counts: list[int], *shape: Size, element: Attribute = f32
) -> ModuleOp:
    s = Sketch("f", element)
    return s.done(y=s.add(AdaptivePoolOp(fn, s.input("x", *shape), axes, counts)))


@pytest.mark.parametrize("fn", ADAPTIVE)
@pytest.mark.parametrize(("size", "count"), [(7, 3), (5, 5), (4, 7), (12, 4), (1, 3), (13, 5)])
def test_windows_are_numpys_slices(fn: str, size: int, count: int) -> None:
    x = np.random.default_rng(size).random((2, size, 3), np.float32) - 0.5
    graph = only(pooled(fn, [1], [count], 2, size, 3), GraphOp)
    (found,) = frontend.run(graph, [x], {})
    parts = [x[:, i * size // count : -(-(i + 1) * size // count)] for i in range(count)]
    wanted = np.stack([getattr(np, fn)(part, 1) for part in parts], 1)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("fn", ["mean", "max"])
@pytest.mark.parametrize(
    ("axes", "counts", "shape"),
    [
        ([1, 2], [7, 5], ("M", 15, 12)),
        ([2, 3], [3, 2], (2, "M", 8, 7)),
        ([1, 2], [4, 6], (2, 4, 9, "M")),
        ([0], [0], (4, "M")),
        ([2, 3], [5, 7], (1, "M", 3, 4)),
    ],
)
def test_all_layers_agree(
    fn: str, axes: list[int], counts: list[int], shape: tuple[Size, ...]
) -> None:
    module = pooled(fn, axes, counts, *shape)
    for m in (0, 3):
        assert layers.failure(RandomProgram(module, {"M": m}), m) is None, m


def test_integers_have_the_largest_and_the_sum() -> None:
    x = np.arange(22, dtype=np.int32).reshape(2, 11)
    for fn, wanted in (("max", [[3, 7, 10], [14, 18, 21]]), ("sum", [[6, 25, 34], [50, 80, 78]])):
        (found,) = frontend.run(only(pooled(fn, [1], [3], 2, 11, element=i32), GraphOp), [x], {})
        np.testing.assert_array_equal(found, wanted)
        assert (
            layers.failure(RandomProgram(pooled(fn, [1], [3], "M", 11, element=i32), {"M": 2}), 1)
            is None
        )


@pytest.mark.parametrize("shape", [(4, 6, 15, 12), (3, 15, 12, 16)])
def test_kernels_compute_what_the_graph_means(shape: tuple[int, ...]) -> None:
    axes = [2, 3] if shape[-1] == 12 else [1, 2]
    for fn, element in product(("mean", "max"), (f32, f16)):
        module = pooled(fn, axes, [7, 5], *shape, element=element)
        assert_kernels_agree(module)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_windows_of_unlike_sizes_are_one_kernel_that_does_not_spill(arch: str) -> None:
    for axes, shape in (([2, 3], (64, 256, 30, 30)), ([1, 2], (64, 30, 30, 256))):
        module = lowered(pooled("mean", axes, [7, 7], *shape, element=f16), arch, "gpu")
        assert len([op for op in module.walk() if isinstance(op, KernelOp)]) <= 1
        program = Program.compile(module)
        assert all(info.spill_bytes == 0 for info in program.kernels.values())
