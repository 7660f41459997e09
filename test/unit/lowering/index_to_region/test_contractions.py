"""Which products stay where their factors are computed: those of what is gathered once."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.region import GatherOp, KernelOp, ReduceOp
from polyc.playback.functions import dtype_of
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch


def gathered(tokens: int, rows: int, depth: int, out: int, element: Attribute = f32) -> ModuleOp:
    """Rows of each token times the weights that its index says."""
    s = Sketch("experts", element)
    x = s.input("x", tokens, rows, 1, depth)
    weights, at = s.input("w", 7, out, depth), s.input("i", tokens, element=i64)
    own = s.reshape(s.add(frontend.GatherOp(weights, at, 0)), tokens, 1, out, depth)
    return s.done(y=s.reduce("sum", s.fn("mul", x, own), 3))


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in lowered(module, "sm_90a", "region").walk() if isinstance(op, KernelOp)]


def test_what_is_gathered_for_one_row_is_read_where_it_lies() -> None:
    """For many rows it is stored, and a product on tensor cores reads it."""
    (only,) = kernels(gathered(64, 1, 512, 256))
    assert any(isinstance(op, GatherOp) for op in only.walk())
    assert any(isinstance(op, ReduceOp) for op in only.walk())
    assert len(kernels(gathered(64, 128, 512, 256))) > 1


@pytest.mark.parametrize(
    ("element", "arch", "sizes"),
    [
        (f32, "sm_90a", (5, 1, 130, 9)),
        (f16, "sm_80", (3, 1, 72, 33)),
        (bf16, "sm_90a", (4, 1, 65, 8)),
    ],
)
def test_each_token_has_its_own_weights(
    element: Attribute, arch: str, sizes: tuple[int, int, int, int]
) -> None:
    tokens, rows, depth, out = sizes
    module = gathered(*sizes, element)
    rng = np.random.default_rng(depth)
    x = rng.uniform(-1, 1, (tokens, rows, 1, depth)).astype(dtype_of(element))
    w = rng.uniform(-1, 1, (7, out, depth)).astype(dtype_of(element))
    at = rng.integers(0, 7, tokens)
    result = simulate(gpu_module_of(lowered(module, arch, "gpu")), [x, w, at], {})
    result.check()
    wanted = (x.astype(np.float64) * w.astype(np.float64)[at][:, None]).sum(-1)
    found = np.asarray(result.outputs[0]).astype(np.float64)
    assert np.abs(found - wanted).max() < (1e-4 if element == f32 else 0.1)
