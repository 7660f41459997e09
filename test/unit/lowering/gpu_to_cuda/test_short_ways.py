"""Device functions with one way have no branch; those of some elements ask once for all."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.gpu_to_cuda.asm import FUNCTIONS
from polyc.lowering.gpu_to_cuda.short_ways import FAR
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.gpu_text import kernel, parsed

KERNEL = """typedef unsigned int u32;
struct __align__(16) V {{ float v[{count}]; }};
{function}
extern "C" __global__ void k(const V* x, const V* y, V* z) {{
  V a = x[threadIdx.x], b = y[threadIdx.x], r;
  {body}
  z[threadIdx.x] = r;
}}
"""


def source(name: str, body: str, count: int) -> str:
    one = FUNCTIONS[name]
    text = "\n".join(each.text for each in (*one.calls, one))
    return KERNEL.format(function=text, body=body, count=count)


def branches(name: str, body: str, count: int) -> int:
    text = source(name, body, count)
    ptx = compile_cuda(text, "sm_90a", "ptx").image.decode()
    return sum(" bra" in line for line in ptx.splitlines())


@pytest.mark.parametrize("name", ["log_of_one_more", "square_root"])
def test_functions_with_one_way_have_no_branch(name: str) -> None:
    body = f"for (int i = 0; i < 4; ++i) r.v[i] = {name}(a.v[i]);"
    assert branches(name, body, 4) == 0


@pytest.mark.parametrize(
    ("name", "given"),
    [("divide_each", "a, b"), ("invert_each", "b"), ("sine_each", "a"), ("cosine_each", "b")],
)
def test_functions_of_some_elements_ask_once(name: str, given: str) -> None:
    """The long way is there once; of its operands one is chosen, perhaps by a branch each."""
    few, many = (branches(name, f"r = {name}({given});", count) for count in (4, 8))
    assert 0 < many <= few + 4
    for arch in ("sm_80", "sm_90a"):
        text = source(name, f"r = {name}({given});", 8)
        (info,) = compile_cuda(text, arch).kernels.values()
        assert info.spill_bytes == 0


@pytest.mark.parametrize("name", ["sine_of", "cosine_of"])
def test_the_long_way_of_a_sine_is_there_once(name: str) -> None:
    """What 32 sines more are is the short way of each, and a call."""
    body = f"for (int i = 0; i < {{}}; ++i) r.v[i] = {name}(a.v[i]);"
    sizes = [
        len(compile_cuda(source(name, f"#pragma unroll\n{body.format(n)}", n), arch).image)
        for n in (16, 48)
        for arch in ("sm_90a",)
    ]
    assert sizes[1] - sizes[0] < 32 * 48 * 16  # Bytes of an instruction; the long way has 100.


def test_quarters_of_turns_are_rounded_as_a_conversion_rounds() -> None:
    """A sum with 1.5 * 2**23 is the nearest even whole number, and its low bits are that one's."""
    rng = np.random.default_rng(0)
    given = rng.uniform(-FAR, FAR, 1 << 20).astype(np.float32)
    halves = (np.arange(-200_000, 200_000) / 2).astype(np.float32)
    scaled = np.concatenate([given * np.float32(0.63661975), halves, -halves[:1] * 0])
    shifted = scaled + np.float32(1.5 * 2**23)
    assert np.array_equal(shifted - np.float32(1.5 * 2**23), np.rint(scaled))
    assert np.array_equal(shifted.view(np.int32) & 3, np.rint(scaled).astype(np.int32) & 3)


def test_vectors_are_printed_as_groups_and_numbers_as_before() -> None:
    kinds = ", ".join(["f32"] * 4)
    body = f"""
    %x = arith.constant 2.5 : f32
    %one = arith.constant 1.0 : f32
    %y = math.sin %x : f32
    %v = gpu.pack %y, %y, %y, %y : {kinds} -> vector<4xf32>
    %u = gpu.pack %one, %one, %one, %one : {kinds} -> vector<4xf32>
    %a = math.cos %v : vector<4xf32>
    %b = arith.divf %u, %a : vector<4xf32>
    %c = arith.divf %a, %b : vector<4xf32>
    %d = math.sqrt %c : vector<4xf32>
    %e = gpu.unpack %d element 0 : vector<4xf32> -> f32
    gpu.store_shared %e, %s : f32"""
    source = cuda_source(gpu_module_of(parsed(kernel(body, "%s: i32 = symbol N"))))
    for part in ("sine_of(", "cosine_each(", "invert_each(", "divide_each(", "square_root("):
        assert part in source
    assert "sine_each(V a)" not in source.replace("cosine_each(V a)", "")
