"""Device functions with one way have no branch; those of some elements ask once for all."""

from __future__ import annotations

import pytest

from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.gpu_to_cuda.asm import FUNCTIONS
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


def branches(name: str, body: str, count: int) -> int:
    text = KERNEL.format(function=FUNCTIONS[name].text, body=body, count=count)
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
        text = KERNEL.format(function=FUNCTIONS[name].text, body=f"r = {name}({given});", count=8)
        (info,) = compile_cuda(text, arch).kernels.values()
        assert info.spill_bytes == 0


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
    for part in ("sinf(", "cosine_each(", "invert_each(", "divide_each(", "square_root("):
        assert part in source
    assert "sine_each(V a)" not in source.replace("cosine_each(V a)", "")
