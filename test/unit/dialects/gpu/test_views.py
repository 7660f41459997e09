"""Views at a kernel's border: what the host binds, with consecutive axes as one (S4.7, S9.3)."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from polyc.dialects.gpu.module import ModuleOp, gpu_module_of
from polyc.passes.finish import finish
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.runtime.program import Program
from polyc.test.support.im2col_programs import GEOMETRIES, convolution
from polyc.test.support.tile_cases import CASES
from polyc.test.unit.runtime import test_program as host
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

log = host.log


@cache
def convolved(lowered: bool) -> ModuleOp:
    """A convolution whose host has [N, H, W, K] and [K, 3, 3, C]; its kernels see matrices."""
    text = CASES["conv3x3_sm90"].text()
    start = text.index("gpu.dispatch")
    seen = text[start:].replace("[N * H * W, K], f16", "[N, H, W, K], f16")
    seen = seen.replace("[K, 9, C]", "[K, 3, 3, C]")
    module = parse_text(make_context(), text[:start] + seen, "conv.mlir")
    if lowered:
        finish(module)
    found = gpu_module_of(module)
    found.verify()
    return found


@pytest.mark.parametrize("lowered", [False, True], ids=["tiles", "threads"])
def test_a_kernel_of_views_computes_what_the_host_sees(lowered: bool) -> None:
    images, height, width, channels, filters = 2, 5, 7, 8, 40
    rng = np.random.default_rng(3)
    x = rng.integers(-2, 3, (images, height, width, channels)).astype(np.float16)
    f = rng.integers(-2, 3, (filters, 3, 3, channels)).astype(np.float16)
    sizes = {"N": images, "H": height, "W": width, "C": channels, "K": filters}
    if lowered:
        result = simulate(convolved(True), [x, f], sizes)
        result.check()
        found = result.outputs[0]
    else:
        (found,) = tile.run(convolved(False), [x, f], sizes)
    wanted = convolution(x, f, GEOMETRIES["same"])
    assert found.shape == (images, height, width, filters)
    np.testing.assert_array_equal(found.astype(np.float32), wanted.reshape(found.shape))


def test_an_input_of_another_memory_order_is_viewed_by_its_elements() -> None:
    x = np.asfortranarray(np.arange(2 * 3 * 4 * 8).reshape(2, 3, 4, 8) % 5, np.float16)
    f = np.asfortranarray(np.arange(8 * 9 * 8).reshape(8, 3, 3, 8) % 3 - 1, np.float16)
    (found,) = tile.run(convolved(False), [x, f], {"N": 2, "H": 3, "W": 4, "C": 8, "K": 8})
    wanted = convolution(x, f, GEOMETRIES["same"])
    np.testing.assert_array_equal(found.astype(np.float32), wanted.reshape(found.shape))


# The host --------------------------------------------------------------------------------

MODULE = """
gpu.module @views arch "sm_90a" symbols [N, H, F] {
  gpu.kernel @views(%x: !gpu.global<[H * N, F], f16> = tensor 0,
                    %y: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 1 view [H * N, F],
                    %H: index = symbol H) threads 128 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N, H, F], f16>) -> (Y: !gpu.global<[N, H, F], f16>) {
    gpu.launch @views align [2, 16] grid [N]
  }
}
"""


def viewed(ctx: Context) -> Program:
    source = 'extern "C" __global__ void views() {}'
    return Program.of_module(gpu_module_of(parse_text(ctx, MODULE, "m.mlir")), [source])


def test_the_host_passes_the_address_and_the_sizes_of_the_view(
    ctx: Context, log: list[Any]
) -> None:
    viewed(ctx).run([host.halves(2, 3, 8)])
    ((_, grid, _, _, (x, made, size), _),) = log
    assert grid == (2,)
    assert x.value % 256 == 0
    assert made[1:4] == ["f16", (6, 8), (8, 1)]
    assert size.value == 3


def test_a_view_too_long_for_an_index_is_refused(ctx: Context, log: list[Any]) -> None:
    program = viewed(ctx)
    reason = program._variants[0].refuses({"N": 2**16, "H": 2**16, "F": 1}, [])  # pyright: ignore[reportPrivateUsage]
    assert reason == ("H * N is 4294967296; kernels index with 32 bits, sizes up to 2147479552")


def test_tiles_play_beside_tensor_maps(ctx: Context) -> None:
    """Between the passes a kernel has both; what no tile op reads is not looked at."""
    module = gpu_module_of(parse_text(ctx, MODULE, "m.mlir"))
    (found,) = tile.run(module, [host.halves(2, 3, 8)], {"N": 2, "H": 3, "F": 8})
    assert found.shape == (2, 3, 8)
