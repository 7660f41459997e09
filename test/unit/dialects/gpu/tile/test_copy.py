"""gpu.copy from its parts, and the same copy with some of them replaced."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from polyc.dialects.gpu import tile
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import kernel, only, parsed, printed

ARGS = (
    "%X: !gpu.global<[M, K], f16> = tensor 0, %Y: !gpu.global<[M, K], f16> = tensor 1, "
    "%C: !gpu.global<[M, K, K, N], f16> = tensor 2"
)
HEAD = """
%0 = arith.constant 0 : index
%1 = arith.constant 1 : index
%s = gpu.shared_tile : !gpu.shared<[64, 64], f16, ring 3>
%w = gpu.fragment : !gpu.fragment<[64, 128], f16>
%r = gpu.ring consumers 1 : !gpu.ring<3>
"""
S, X = "!gpu.shared<[64, 64], f16, ring 3>", "!gpu.global<[M, K], f16>"
COPIES = {
    "a load": f"%X[%0, %1] to %s : {X}, {S}",
    "that travels": (
        f'%X[%0, %1] to %s slot %1 loader "tma" multicast cache "evict_last" : {X}, {S}'
    ),
    "that signals": f"%X[%0, %1] to %s slot %1 signal %r : !gpu.ring<3> at %0 : {X}, {S}",
    "a store": f'%s slot %0 to %Y[%1, %0] loader "tma" store_groups 2 : {S}, {X}',
    "a part": f"%w to %s slot %0 window <0, 64> : !gpu.fragment<[64, 128], f16>, {S}",
    "along axes": f"%C[%0, %0, %1, %1] to %s axes <1, 3> : !gpu.global<[M, K, K, N], f16>, {S}",
    "of an image": (
        "%C[%0, %0, %0, %1] to %s im2col #gpu.im2col<kernel [3, 3], strides [1, 1], "
        "padding [1, 1], dilation [1, 1]> tap [%0, %1] : "
        f"!gpu.global<[M, K, K, N], f16>, {S}"
    ),
}


def only_module(op: Operation) -> ModuleOp:
    """The module that an op is in."""
    found = op.get_toplevel_object()
    assert isinstance(found, ModuleOp)
    return found


def copy_of(text: str) -> tile.CopyOp:
    return only(parsed(kernel(f"{HEAD}gpu.copy {text}", ARGS)), tile.CopyOp)


@pytest.mark.parametrize("text", COPIES.values(), ids=COPIES)
def test_the_parts_make_the_copy(text: str) -> None:
    op = copy_of(text)
    module = only_module(op)
    before = printed(module)
    assert " ".join(text.split()) in " ".join(before.split())
    verify(module)
    source, target = op.ends
    made = tile.CopyOp(source, target, op.view, op.travel, op.signals)
    Rewriter.replace_op(op, made)
    assert printed(module) == before
    Rewriter.replace_op(made, made.like())
    assert printed(module) == before


def test_what_is_given_is_replaced_and_the_rest_kept() -> None:
    op = copy_of(f'%X[%0, %1] to %s cache "evict_last" {{note}} : {X}, {S} -> !gpu.token')
    zero, one = op.indices
    new = op.like(slot=one, loader="cp_async")
    assert (new.ends[1].slot, new.travel) == (one, tile.CopyTravel("cp_async", False, "evict_last"))
    assert new.token is not None and "note" in new.attributes and new.location == op.location
    ring = only(only_module(op), tile.RingOp).results[0]
    signalling = op.like(signal=tile.CopySignal(ring, zero))
    assert signalling.signals == tile.CopySignal(ring, zero)
    assert signalling.token is None
