"""Which tensor maps go along rows, a line of the L2 cache after another."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu.onward import goes_onward
from polyc.dialects.gpu.types import TensorMapType
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gemm_programs import Product
from polyc.test.support.split_programs import run
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

WALKS: dict[tuple[str, ...], dict[str, bool]] = {
    ("transpose_b",): {"A_map": True, "B_map": True},
    (): {"A_map": True, "B_map": False},
    ("transpose_a",): {"A_map": False, "B_map": False},
}


@pytest.mark.parametrize("k", [1024, 512 * 64])
@pytest.mark.parametrize("flags", WALKS, ids=str)
def test_operands_that_lie_along_the_steps_do(flags: tuple[str, ...], k: int) -> None:
    """Whole, and parted: then steps begin somewhere."""
    m, n = 256, 384
    a = (k, m) if "transpose_a" in flags else (m, k)
    b = (n, k) if "transpose_b" in flags else (k, n)
    module = parse_text(make_context(), Product(a, b, (m, n), flags).text, "t.mlir")
    kernel = gpu_module_of(run(module, "gpu")).kernels()[0]
    maps = [arg for arg in kernel.body.block.args if isinstance(arg.type, TensorMapType)]
    found = {
        str(arg.name_hint): goes_onward(arg, arg.type)
        for arg in maps
        if isinstance(arg.type, TensorMapType)
    }
    assert {name: found[name] for name in ("A_map", "B_map")} == WALKS[flags]


def test_one_step_goes_nowhere() -> None:
    module = parse_text(make_context(), Product((64, 64), (64, 64), (64, 64)).text, "t.mlir")
    (kernel,) = gpu_module_of(run(module, "gpu")).kernels()
    for arg in kernel.body.block.args:
        if isinstance(arg.type, TensorMapType):
            assert not goes_onward(arg, arg.type)
