"""Divisions by the sum of a softmax in memory: where one reciprocal a row is made of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects import region
from polyc.passes.support.region.row_sums import InvertSoftmaxSum
from polyc.playback.region import run
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.notes import Report
from polyc.test.support.gpu_text import only
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

TEXT = """
region.kernel @f iters [m: M, n: N]
    ins(%x: !region.memref<[M, N], f32, align 16>, %l: !region.memref<[M], f32, align 16> {SAID})
    outs(y: !region.memref<[M, N], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)>
      : !region.memref<[M, N], f32, align 16> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %l affine_map<(d0)[s0, s1] -> (d0)> GUARD
      : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  MORE
  %2 = region.broadcast_in_dim DIVISOR dims [0]
      : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %3 = region.binary FN : !region.val<[m: M, n: N], f32>
  region.yield %3 : !region.val<[m: M, n: N], f32>
}
"""
PLAIN = {
    "SAID": "softmax_sum",
    "GUARD": "",
    "MORE": "",
    "DIVISOR": "%1",
    "FN": "div %0, %2",
}


def kernel(**changed: str) -> region.KernelOp:
    text = TEXT
    for key, value in {**PLAIN, **changed}.items():
        text = text.replace(key, value)
    return only(parse_text(make_context(), text, "t.mlir"), region.KernelOp)


def inverted(found: region.KernelOp) -> Report:
    report = Report()
    rewrite(found, [InvertSoftmaxSum(report)], recursive=True)
    verify(found)
    return report


def functions(found: region.KernelOp) -> list[str]:
    ops = found.body.block.ops
    return [op.fn.data for op in ops if isinstance(op, region.UnaryOp | region.BinaryOp)]


def test_a_row_is_multiplied_by_one_reciprocal() -> None:
    found = kernel()
    (note,) = inverted(found).fired
    assert note.kind == "reassociating" and functions(found) == ["reciprocal", "mul"]
    (inverse,) = (op for op in found.body.block.ops if isinstance(op, region.UnaryOp))
    assert inverse.result.type.labels == ("m",)


@pytest.mark.parametrize(
    "changed",
    [
        {"SAID": 'role = "param"'},
        {"GUARD": "where affine_set<(d0)[s0, s1] : (d0 - 1 >= 0)> else 1.0"},
        {
            "MORE": "%4 = region.unary sqrt %1 : !region.val<[m: M], f32>",
            "DIVISOR": "%4",
        },
        {"FN": "div %2, %0"},
        {"FN": "mul %0, %2"},
    ],
    ids=["other numbers", "a guard", "what is made of a sum", "divided by others", "no division"],
)
def test_others_are_divided(changed: dict[str, str]) -> None:
    found = kernel(**changed)
    before = functions(found)
    assert not inverted(found).fired and functions(found) == before


SUMS = st.one_of(st.floats(1, 2**31, width=32), st.sampled_from([0.0, float("nan")]))


@settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)
@given(sums=st.lists(SUMS, min_size=1, max_size=4), seed=st.integers(0, 9))
def test_quotients_stay_but_for_their_last_bits(sums: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (len(sums), 5)).astype(np.float32)
    x[:, 0], x[0, 1], x[0, 2] = 0, np.inf, np.nan
    row = np.array(sums, np.float32)
    sizes = {"M": len(sums), "N": 5}
    found = kernel()
    (before,) = run(found, [x, row], sizes)
    inverted(found)
    (after,) = run(found, [x, row], sizes)
    np.testing.assert_allclose(after, before, rtol=2.0**-22, atol=0)
