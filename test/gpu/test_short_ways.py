"""Functions of vectors on the GPU, short ways and long ones: numbers of all bit patterns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.bench.function_errors import KERNEL
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
COUNT = 1 << 20
KIND = "!gpu.global<[N], f32, align 16>"
EIGHT = "vector<8xf32>"

OPS = {
    "div": f"arith.divf %x, %y : {EIGHT}",
    "inverse": f"arith.divf %ones, %x : {EIGHT}",
    "sin": f"math.sin %x : {EIGHT}",
    "cos": f"math.cos %x : {EIGHT}",
    "sqrt": f"math.sqrt %x : {EIGHT}",
    "log1p": f"math.log1p %x : {EIGHT}",
}


def eight(name: str, tensor: str) -> str:
    """Eight numbers of a tensor as one vector."""
    lines: list[str] = []
    for half, at in (("a", "at"), ("b", "next")):
        lines.append(
            f"%{name}{half} = gpu.load_global %{tensor}[%{at} : index] if %in : {KIND}"
            " -> vector<4xf32>"
        )
        lines += [
            f"%{name}{half}{i} = gpu.unpack %{name}{half} element {i} : vector<4xf32> -> f32"
            for i in range(4)
        ]
    every = ", ".join(f"%{name}{half}{i}" for half in "ab" for i in range(4))
    kinds = ", ".join(["f32"] * 8)
    return "\n".join([*lines, f"%{name} = gpu.pack {every} : {kinds} -> {EIGHT}"])


def text(name: str) -> str:
    kinds, ones = ", ".join(["f32"] * 8), ", ".join(["%one"] * 8)
    parts = "\n".join(f"%r{i} = gpu.unpack %r element {i} : {EIGHT} -> f32" for i in range(8))
    stores = "\n".join(
        f"%s{half} = gpu.pack {', '.join(f'%r{first + i}' for i in range(4))} : f32, f32, f32, f32"
        f" -> vector<4xf32>\n"
        f"gpu.store_global %s{half}, %Z[%{at} : index] if %in : vector<4xf32>, {KIND}"
        for half, first, at in (("a", 0, "at"), ("b", 4, "next"))
    )
    return f"""gpu.module @ways arch "sm_80" symbols [N] {{
  gpu.kernel @ways(%X: {KIND} = tensor 0, %Y: {KIND} = tensor 1, %Z: {KIND} = tensor 2,
      %N: index = symbol N) threads 128 {{
    %thread = gpu.thread_id
    %block = gpu.block_id
    %at = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1 * 1024)>(%thread, %block)
    %next = affine.apply affine_map<(d0) -> (d0 + 4)>(%at)
    %in = arith.cmpi slt, %at, %N : index
    %one = arith.constant 1.0 : f32
    %ones = gpu.pack {ones} : {kinds} -> {EIGHT}
{eight("x", "X")}
{eight("y", "Y")}
    %r = {OPS[name]}
{parts}
{stores}
    gpu.return
  }}
  gpu.dispatch (X: {KIND}, Y: {KIND}) -> (Z: {KIND}) {{
    gpu.launch @ways align [16, 16, 16] grid [{COUNT // 1024}]
  }}
}}"""


def numbers(seed: int, ordinary: bool) -> Array:
    """Numbers of all bit patterns, or of ordinary sizes alone, so that all ways are short."""
    rng = np.random.default_rng(seed)
    if ordinary:
        sizes = np.exp2(rng.integers(-15, 15, COUNT))
        return (rng.standard_normal(COUNT) * sizes).astype(np.float32)
    every = rng.integers(0, 1 << 32, COUNT, dtype=np.uint64).astype(np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38], np.float32)
    every[: 1 << 18] = rng.choice(special, 1 << 18)
    # In half of the vectors nothing is odd but zeros.
    every[1 << 17 : 1 << 18] = rng.choice(special[:3], 1 << 17)
    return every


@pytest.mark.parametrize("ordinary", [True, False], ids=["ordinary", "all"])
@pytest.mark.parametrize("name", OPS)
def test_a_function_is_as_near_as_its_long_way(name: str, ordinary: bool) -> None:
    x, y, found = numbers(0, ordinary), numbers(1, ordinary), np.zeros(COUNT, np.float32)
    Program.compile(parse_text(make_context(), text(name), "ways.mlir")).run([x, y], out=[found])
    with np.errstate(all="ignore"):
        match name:
            case "div":
                wanted = x / y
            case "inverse":
                wanted = np.float32(1) / x
            case "sqrt":
                wanted = np.sqrt(x)
            case _:
                wanted = getattr(np, name)(x.astype(np.float64))
        rounded = wanted.astype(np.float32)
        good = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        if name in KERNEL and name != "sqrt":
            size = np.maximum(np.abs(wanted), np.finfo(np.float32).tiny)
            ulp = np.exp2(np.floor(np.log2(size)) - 23)
            good |= np.abs(found - wanted) <= KERNEL[name][0] * ulp
    wrong = np.flatnonzero(~good)
    assert len(wrong) == 0, (x[wrong[0]], y[wrong[0]], found[wrong[0]], wanted[wrong[0]])
