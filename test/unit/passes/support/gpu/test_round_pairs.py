"""``RoundPairs`` of ``gpu-vectorize``: registers are rounded two at once."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType

from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import ORDER, find, run, up_to

LAYOUT = "#gpu.fragment_layout<threads 32, registers {0}, affine_map<(d0, d1) -> (d0 * {0} + d1)>>"


def rounded(count: int, body: str = "") -> str:
    x = f"!gpu.fragment<[{32 * count}], f32, {LAYOUT.format(count)}>"
    y = f"!gpu.fragment<[{32 * count}], f16, {LAYOUT.format(count)}>"
    return f"""gpu.module @m arch "sm_90a" symbols [N] {{
  gpu.kernel @k(%X: !gpu.global<[N], f32> = tensor 0, %Y: !gpu.global<[N], f16> = tensor 1,
      %N: index = symbol N) threads 32 {{
    %zero = arith.constant 0 : index
    %x = gpu.fragment : {x}
    %y = gpu.fragment : {y}
    gpu.copy %X[%zero] to %x : !gpu.global<[N], f32>, {x}
    gpu.map %x : {x} origin [] ins() outs(%y : {y} affine_map<(d0) -> (d0)>) {{
    ^bb0(%e: f32):
      %double = arith.addf %e, %e : f32
      %r = arith.truncf %double : f32 to f16{body}
      gpu.yield %r : f16
    }}
    gpu.copy %y to %Y[%zero] : {y}, !gpu.global<[N], f16>
    gpu.return
  }}
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[N], f16>) {{
    gpu.launch @k align [16, 16] grid [1]
  }}
}}
"""


def roundings(text: str) -> list[bool]:
    """Of each rounding whether it is of two at once."""
    found = find(run(text, *up_to("gpu-vectorize")), arith.TruncFOp)
    return [isinstance(op.result.type, VectorType) for op in found]


@pytest.mark.parametrize("count", [2, 6, 8])
def test_pairs_are_rounded_at_once(count: int) -> None:
    assert roundings(rounded(count)) == [True]
    x = np.random.default_rng(count).standard_normal(32 * count).astype(np.float32)
    x[:3] = np.inf, np.nan, 70000.0
    module = gpu_module_of(run(rounded(count), *ORDER))
    result = simulate(module, [x], {"N": 32 * count})
    assert result.findings == []
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result.outputs[0], (x + x).astype(np.float16))


def test_an_odd_number_of_registers_is_left_alone() -> None:
    assert roundings(rounded(3)) == [False]


def test_a_rounded_value_that_is_used_again_is_kept() -> None:
    """The value is rounded on its own for that other use."""
    text = rounded(2).replace("gpu.yield %r : f16", "%w = arith.extf %r : f16 to f32\n"
        "      %u = arith.addf %w, %e : f32\n      %v = arith.truncf %u : f32 to f16\n"
        "      gpu.yield %v : f16")  # fmt: skip
    assert sorted(roundings(text)) == [False, False, True]
