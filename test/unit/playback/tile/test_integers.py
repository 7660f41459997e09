"""Ops on integers in a map's body mean what the functions of all layers do."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, i8, i16, i32
from xdsl.dialects.test import TestOp

from polyc.playback import functions
from polyc.playback.estimate import Estimate
from polyc.playback.functions import posing
from polyc.playback.tile.integers import evaluated, is_integer_op

A = np.asarray([-7, 7, 100, -128, 127, 0], np.int8)
B = np.asarray([2, -3, 3, 1, 127, 5], np.int8)

OPS = {
    "add": (arith.AddiOp, False),
    "div": (arith.DivSIOp, False),
    "fmod": (arith.RemSIOp, False),
    "max": (arith.MaxSIOp, False),
    "mul": (arith.MuliOp, False),
    "xor": (arith.XOrIOp, False),
}


@pytest.mark.parametrize("fn", OPS)
def test_signed(fn: str) -> None:
    x, y = TestOp(result_types=[i8, i8]).results
    op = OPS[fn][0](x, y)
    assert is_integer_op(op)
    wanted = functions.binary(fn, A, B)
    assert evaluated(op, [A, B]).tolist() == wanted.tolist()
    known = evaluated(op, [posing(Estimate(A)), posing(Estimate(B))])
    assert isinstance(known, Estimate) and known.value.tolist() == wanted.tolist()


def test_without_a_sign() -> None:
    x, y = TestOp(result_types=[i8, i8]).results
    most = evaluated(arith.MaxUIOp(x, y), [A, B])
    assert most.dtype == np.int8
    assert most.tolist() == np.maximum(A.view(np.uint8), B.view(np.uint8)).view(np.int8).tolist()
    below = evaluated(arith.CmpiOp(x, y, "ult"), [A, B])
    assert below.tolist() == (A.view(np.uint8) < B.view(np.uint8)).tolist()


def test_conversions() -> None:
    x, r = TestOp(result_types=[i8, f32]).results
    assert evaluated(arith.ExtSIOp(x, i32), [A]).tolist() == A.tolist()
    assert evaluated(arith.ExtUIOp(x, i32), [A]).tolist() == A.view(np.uint8).tolist()
    assert evaluated(arith.TruncIOp(x, IntegerType(1)), [A]).tolist() == (A & 1 != 0).tolist()
    assert evaluated(arith.UIToFPOp(x, f32), [A]).tolist() == A.view(np.uint8).tolist()
    numbers = np.asarray([3.7, -3.7], np.float32)
    assert evaluated(arith.FPToSIOp(r, i16), [numbers]).tolist() == [3, -3]
    assert evaluated(arith.FPToUIOp(r, i8), [np.asarray([200.5], np.float32)]).tolist() == [-56]
