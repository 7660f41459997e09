"""Dependences between kernels against every pair of their instances (S7.1)."""

from __future__ import annotations

import itertools
from typing import Any

import islpy
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.region import KernelOp
from polyc.poly.regions import region_dependences, region_json, region_statements
from polyc.test.unit.poly.test_dependences import touched
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

N = 4
STENCIL = """
region.kernel @first iters [n: N]
    ins(%x: !region.memref<[N], f32, align 16>) outs(a: !region.memref<[N], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)>
      : !region.memref<[N], f32, align 16> -> !region.val<[n: N], f32>
  region.yield %0 : !region.val<[n: N], f32>
}
region.kernel @second iters [n: N]
    ins(%a: !region.memref<[N], f32, align 16> {from = @first::@a})
    outs(y: !region.memref<[N], f32, align 16> gmem) {
  %0 = region.read %a affine_map<(d0, d1)[s0] -> (d0 + d1 - 1)>
      where affine_set<(d0, d1)[s0] : (d0 + d1 - 1 >= 0, s0 - d0 - d1 >= 0)> else 0.0
      : !region.memref<[N], f32, align 16> -> !region.val<[n: N, r0: 3], f32>
  %1 = region.reduce sum %0 over [r0] init 0.0 acc f32 name "acc"
      : !region.val<[n: N, r0: 3], f32> -> !region.val<[n: N], f32>
  region.yield %1 : !region.val<[n: N], f32>
}
"""


def kernels(text: str) -> list[KernelOp]:
    module: ModuleOp = parse_text(make_context(), text, "f.mlir")
    module.verify()
    return [op for op in module.ops if isinstance(op, KernelOp)]


def test_a_kernel_after_the_one_that_it_reads():
    (found,) = region_dependences(kernels(STENCIL))
    assert (found["kind"], found["from"], found["to"]) == ("true", "first", "second")
    assert found["tensor"] == "@first::@a"
    relation: Any = found["relation"]
    (piece,) = relation
    pairs = islpy.Set(piece.replace("'", "_"))
    first, second = region_statements(kernels(STENCIL))
    for n, m, tap in itertools.product(range(N), range(N), range(3)):
        read = touched(second.reads[0], (m, tap))
        wanted = read is not None and read == touched(first.writes[0], (n,))
        at = islpy.Set(f"[N] -> {{ [{n}, {m}, {tap}] : N = {N} }}")
        assert (not at.intersect(pairs).is_empty()) == wanted


def test_an_output_of_some_of_the_axes_is_written_along_these():
    """As an attention's sums are, which another kernel reads."""
    text = """
region.kernel @first iters [m: M, n: N]
    ins(%x: !region.memref<[M, N], f32, align 16>, %l: !region.memref<[M], f32, align 16>)
    outs(a: !region.memref<[M, N], f32, align 16> gmem,
         b: !region.memref<[M], f32, align 16> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)>
      : !region.memref<[M, N], f32, align 16> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %l affine_map<(d0)[s0, s1] -> (d0)>
      : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  region.yield %0, %1 : !region.val<[m: M, n: N], f32>, !region.val<[m: M], f32>
}
region.kernel @second iters [m: M, n: N]
    ins(%b: !region.memref<[M], f32, align 16> {from = @first::@b},
        %x: !region.memref<[M, N], f32, align 16>)
    outs(y: !region.memref<[M, N], f32, align 16> gmem) {
  %0 = region.read %b affine_map<(d0)[s0, s1] -> (d0)>
      : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  %1 = region.broadcast_in_dim %0 dims [0]
      : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
"""
    found = kernels(text)
    assert [d["tensor"] for d in region_dependences(found)] == ["@first::@b"]
    first, _ = region_statements(found)
    assert [len(write.map.results) for write in first.writes] == [2, 1]


def test_a_view_of_another_shape_needs_all_of_it():
    one, row = "!region.memref<[N], f32, align 16>", "!region.memref<[1, N], f32, align 16>"
    first, second = STENCIL.split("region.kernel @second")
    second = second.replace(f"%a: {one}", f"%a: {row}").replace(f"      : {one}", f"      : {row}")
    second = second.replace("-> (d0 + d1 - 1)>", "-> (0, d0 + d1 - 1)>")
    text = f"{first}region.kernel @second{second}"
    (found,) = region_dependences(kernels(text))
    relation: Any = found["relation"]
    pairs = islpy.Set(relation[0].replace("'", "_"))
    # Outside of the guard nothing is read.
    assert islpy.Set("[N] -> { [0, 3, 2] : N = 4 }").is_disjoint(pairs)
    assert not islpy.Set("[N] -> { [3, 0, 1] : N = 4 }").is_disjoint(pairs)


def test_kernels_that_share_nothing_have_no_order():
    text = STENCIL.replace(" {from = @first::@a}", "")
    assert region_dependences(kernels(text)) == []


@pytest.mark.parametrize(("number", "reduced"), [(0, []), (1, ["r0"])])
def test_a_region_in_the_report(number: int, reduced: list[str]):
    found = region_json(kernels(STENCIL)[number])
    assert (found["parallel_axes"], found["reduce_axes"]) == (["n"], reduced)
