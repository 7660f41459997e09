"""The order of axes in memory: of what is read, and of what is reduced."""

from __future__ import annotations

import pytest

from polyc.dialects.region import KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.orders import innermost_first, neighbour_of
from polyc.families.loops.recognise import find_loops
from polyc.test.support.gpu_text import find, only
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

TEXT = """
region.kernel @sums iters [i: 4, g: 8]
    ins(%x: !region.memref<[4, PIECES, 8, 16], f32, align 16, noalias>)
    outs(y: !region.memref<[4, 8], f32, align 16, noalias> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)> :
      !region.memref<[4, PIECES, 8, 16], f32, align 16, noalias>
      -> !region.val<[i: 4, p: PIECES, g: 8, c: 16], f32>
  %1 = region.transpose %0 perm [0, 2, 3, 1] :
      !region.val<[i: 4, p: PIECES, g: 8, c: 16], f32>
      -> !region.val<[i: 4, g: 8, c: 16, p: PIECES], f32>
  %acc = region.reduce sum %1 over [c, p] init 0.0 acc f32 name "acc" :
      !region.val<[i: 4, g: 8, c: 16, p: PIECES], f32> -> !region.val<[i: 4, g: 8], f32>
  region.yield %acc : !region.val<[i: 4, g: 8], f32>
}
"""


def kernel(pieces: int) -> KernelOp:
    """Sums of groups of channels that lie last."""
    text = TEXT.replace("PIECES", str(pieces))
    return only(parse_text(make_context(), text, "sums.mlir"), KernelOp)


def test_what_lies_in_memory_comes_first() -> None:
    made = kernel(40)
    (reduce,), (read,) = find(made, ReduceOp), find(made, ReadOp)
    assert neighbour_of(read) == "c" and innermost_first(reduce) == ["c", "p"]


@pytest.mark.parametrize("pieces", [40, 2048])
def test_many_pieces_are_parted_beside_their_points(pieces: int) -> None:
    """Sixteen channels of a group lie together, and those of the next group behind them."""
    (space,) = find_loops(kernel(pieces)).spaces
    assert space.is_apart == (pieces == 2048)
    assert space.outer == (("i", "g") if space.is_apart else ("i",))
