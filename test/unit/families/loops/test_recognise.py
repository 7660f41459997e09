"""Which axes of a tile are a reduction's: what few results beside each other are of."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.recognise import find_loops
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.playback.functions import dtype_of
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch


def pairs(bodies: int, others: int, depth: int, fn: str, element: Attribute = f32) -> ModuleOp:
    """Distances from other bodies, weighed: what forces are summed of."""
    s = Sketch("pairs", element)
    x, y = s.input("x", bodies, depth), s.input("y", others, depth)
    weights = s.input("w", bodies, others)

    def spread(value: SSAValue, *shape: int) -> SSAValue:
        return s.reshape(value, *shape)

    apart = s.fn("sub", spread(y, 1, others, depth), spread(x, bodies, 1, depth))
    weighed = s.fn("mul", apart, spread(weights, bodies, others, 1))
    return s.done(f=s.add(frontend.ReduceOp(fn, weighed, [1])))


def column_of(module: ModuleOp) -> str | None:
    (kernel,) = (
        op for op in lowered(module, "sm_90a", "region").walk() if isinstance(op, KernelOp)
    )
    (space,) = find_loops(kernel).spaces
    return space.column


def test_few_results_beside_each_other_leave_a_warp_to_what_is_reduced() -> None:
    """Not many beside each other, nor many in all, nor of a reduction of few."""
    assert column_of(pairs(96, 1000, 3, "sum")) is None
    assert column_of(pairs(96, 1000, 32, "sum")) is not None
    assert column_of(pairs(40_000, 1000, 3, "sum")) is not None
    assert column_of(pairs(96, 8, 3, "sum")) is not None


@pytest.mark.parametrize(
    ("depth", "fn", "element", "arch"),
    [(3, "sum", f32, "sm_90a"), (2, "max", f16, "sm_80"), (4, "sum", bf16, "sm_90a")],
)
def test_pairs_are_reduced_by_warps(depth: int, fn: str, element: Attribute, arch: str) -> None:
    """Of odd sizes, with no spill; lanes have neighbouring points, of which others are near."""
    module = pairs(5, 301, depth, fn, element)
    rng = np.random.default_rng(depth)
    kernels = gpu_module_of(lowered(module, arch, "gpu"))
    (plan,) = (op for op in lowered(module, arch, "plan").walk() if isinstance(op, ScheduleOp))
    assert plan.integer("vectorize") == 1 and plan.tile_sizes[1] > depth
    shapes = ((5, depth), (301, depth), (5, 301))
    x, y, w = (rng.uniform(-1, 1, shape).astype(dtype_of(element)) for shape in shapes)
    result = simulate(kernels, [x, y, w], {}, schedule="random")
    result.check()
    far = (y[None] - x[:, None]).astype(np.float64) * w[..., None]
    wanted = far.sum(1) if fn == "sum" else far.max(1)
    found = np.asarray(result.outputs[0]).astype(np.float64)
    assert np.abs(found - wanted).max() < (1e-4 if element == f32 else 0.2)
    compiled = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert all(one.spill_bytes == 0 for one in compiled.kernels.values())
