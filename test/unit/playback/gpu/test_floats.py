"""Arithmetic of floats that ``arith`` and ``math`` lack, in the simulator."""

from __future__ import annotations

import math

import numpy as np

from polyc.dialects.gpu import module as gpu
from polyc.playback.gpu.simulate import simulate
from polyc.test.support.gpu_text import only, parsed

TEXT = """
gpu.module @rest arch "sm_80" symbols [M] {
  gpu.kernel @rest_each(%X: !gpu.global<[M], f32> = tensor 0, %Y: !gpu.global<[M], f32> = tensor 1,
      %Z: !gpu.global<[M], f32> = tensor 2, %M: index = symbol M) threads 32 {
    %thread = gpu.thread_id
    %inside = arith.cmpi slt, %thread, %M : index
    %five = arith.constant 5.5 : f32
    %two = arith.constant 2.0 : f32
    %same = gpu.fmod %five, %two : f32
    scf.if %inside {
      %x = gpu.load_global %X[%thread : index] : !gpu.global<[M], f32> -> f32
      %y = gpu.load_global %Y[%thread : index] : !gpu.global<[M], f32> -> f32
      %own = gpu.fmod %x, %y : f32
      %z = arith.mulf %own, %same : f32
      gpu.store_global %z, %Z[%thread : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M], f32>, Y: !gpu.global<[M], f32>) -> (Z: !gpu.global<[M], f32>) {
    gpu.launch @rest_each align [4, 4, 4] grid [1]
  }
}
"""


def test_fmod_of_lanes_and_of_numbers_that_all_have() -> None:
    x = np.array([5.5, -5.5, 7.0, -4.0, np.inf, 1.0, -3.0, np.nan], np.float32)
    y = np.array([2.0, 2.0, -2.5, 2.0, 2.0, 0.0, np.inf, 1.0], np.float32)
    result = simulate(only(parsed(TEXT), gpu.ModuleOp), [x, y], {"M": 8}, "rest_each")
    result.check()
    wanted = np.float32(1.5) * np.array([1.5, -1.5, 2, -0.0, np.nan, np.nan, -3, np.nan])
    np.testing.assert_array_equal(result.outputs[0], wanted)
    assert np.signbit(result.outputs[0][3])


def test_erfc_is_near_where_it_is_small() -> None:
    text = TEXT.replace("%same = gpu.fmod %five, %two : f32", "%same = arith.constant 1.0 : f32")
    text = text.replace("gpu.fmod %x, %y : f32", "gpu.erfc %x : f32")
    x = np.array([0.0, -0.0, 1.0, 9.0, -9.0, np.inf, -np.inf, np.nan], np.float32)
    made = only(parsed(text), gpu.ModuleOp)
    result = simulate(made, [x, np.ones_like(x)], {"M": 8}, "rest_each")
    result.check()
    wanted = np.array([math.erfc(v) for v in x.tolist()], np.float32)
    np.testing.assert_array_equal(result.outputs[0], wanted)
    assert 0 < result.outputs[0][3] < 1e-36
