"""Which values of a region are read in pieces, and whether guards are bounds (S2.2, S6.4)."""

from __future__ import annotations

import pytest
from xdsl.ir import SSAValue

from polyc.dialects.region import CastOp, KernelOp, ReadOp
from polyc.poly.pieces import concat_of, guard_of, is_within_bounds
from polyc.test.support.gpu_text import find, only, parsed

HEAD = """region.kernel @k iters [m: M, i1: 12]
    ins(%a: !region.memref<[M, 4], f16, align 16>, %b: !region.memref<[M, 8], f16, align 16>)
    outs(y: !region.memref<[M, 12], f16, align 16> gmem) {
"""
A = "(d0, d1)[s0] -> (d0, d1)", "(d0, d1)[s0] : (-d1 + 3 >= 0)"
B = "(d0, d1)[s0] -> (d0, d1 - 4)", "(d0, d1)[s0] : (d1 - 4 >= 0)"


def kernel(*reads: tuple[str, str, str], fill: str = "-inf", fn: str = "max") -> KernelOp:
    """The maximum of guarded reads of [M, 12] points."""
    text, kind = HEAD, "!region.val<[m: M, i1: 12], f16>"
    for i, (tensor, where, guard) in enumerate(reads):
        width = 4 if tensor == "a" else 8
        text += (
            f"  %r{i} = region.read %{tensor} affine_map<{where}> where affine_set<{guard}> "
            f"else {fill} : !region.memref<[M, {width}], f16, align 16> -> {kind}\n"
            f"  %w{i} = region.cast %r{i} : {kind} -> !region.val<[m: M, i1: 12], f32>\n"
        )
    text += f"  %all = region.binary {fn} %w0, %w1 : !region.val<[m: M, i1: 12], f32>\n"
    text += f"  %y = region.cast %all : !region.val<[m: M, i1: 12], f32> -> {kind}\n"
    text += f"  region.yield %y : {kind}\n}}"
    return only(parsed(text), KernelOp)


def joined(region: KernelOp) -> SSAValue:
    """What is rounded to be the output."""
    return find(region, CastOp)[-1].operand


PIECES = [("a", *A), ("b", *B)]


@pytest.mark.parametrize("reads", [PIECES, PIECES[::-1]])
def test_guarded_reads_that_follow_each_other_are_pieces(
    reads: list[tuple[str, str, str]],
) -> None:
    """In the order of the axis, whatever the order of the text."""
    region = kernel(*reads)
    concat = concat_of(joined(region), region.symbol_names)
    assert concat is not None and concat.axis == "i1" and concat.within is None
    assert [
        (region.name_of(p.read.tensor), p.dimension, str(p.first), str(p.size))
        for p in concat.pieces
    ] == [("a", 1, "0", "4"), ("b", 1, "4", "8")]
    for piece in concat.pieces:
        guard, known = guard_of(piece.read), region.assumptions
        assert is_within_bounds(piece.read, [1], guard, known, region.symbol_names)
        assert not is_within_bounds(piece.read, [1], None, known, region.symbol_names)


@pytest.mark.parametrize(
    ("reads", "fill", "fn"),
    [
        (PIECES, "0.0", "max"),
        (PIECES, "-inf", "add"),
        ([PIECES[0], PIECES[0]], "-inf", "max"),
        ([("b", A[0], "(d0, d1)[s0] : (-d1 + 7 >= 0)"), PIECES[1]], "-inf", "max"),
        ([PIECES[0], ("b", "(d0, d1)[s0] -> (d1 - 4, 0)", B[1])], "-inf", "max"),
        ([PIECES[0], ("b", "(d0, d1)[s0] -> (d0, 11 - d1)", B[1])], "-inf", "max"),
    ],
    ids=["other fill", "a sum", "one twice", "overlapping", "another axis", "backwards"],
)
def test_what_else_is_read_under_guards_is_no_concat(
    reads: list[tuple[str, str, str]], fill: str, fn: str
) -> None:
    region = kernel(*reads, fill=fill, fn=fn)
    assert concat_of(joined(region), region.symbol_names) is None


@pytest.mark.parametrize(
    ("guard", "exact"),
    [
        ("(d0, d1)[s0] : (-d1 + 3 >= 0)", True),
        ("(d0, d1)[s0] : (-d1 + 2 >= 0)", False),
        ("(d0, d1)[s0] : (-d1 + 3 >= 0, d1 - 1 >= 0)", False),
        ("(d0, d1)[s0] : (-d1 * 2 + 7 >= 0, d1 + 5 >= 0)", True),
    ],
)
def test_a_guard_is_compared_as_a_set(guard: str, exact: bool) -> None:
    """However its rows are written."""
    region = kernel(("a", A[0], guard), PIECES[1])
    read = next(op for op in region.body.block.ops if isinstance(op, ReadOp))
    known, symbols = region.assumptions, region.symbol_names
    assert is_within_bounds(read, [1], guard_of(read), known, symbols) is exact
