"""``gpu-layout-inference``: the widest swizzle, one layout a fragment, and every conflict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.parser import Parser

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType, SharedType
from polyc.passes.gpu.layout_inference import widest_swizzle
from polyc.passes.support.gpu.free_layouts import layout_of, row_layout
from polyc.passes.support.gpu.layouts import mma_sync_accumulator, wgmma_accumulator
from polyc.passes.support.gpu.spread import Spread
from polyc.test.support.gpu_programs import pipeline
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, printed, refusal, run
from polyc.tools.registry import make_context

PASS = "gpu-layout-inference"
OTHER = (
    "#gpu.fragment_layout<threads 128, registers 32, "
    "affine_map<(t, r) -> (t floordiv 2, t mod 2 * 32 + r)>>"
)


@pytest.mark.parametrize(
    ("columns", "element", "span"),
    [
        (64, f16, 128),
        (128, f16, 128),
        (32, f16, 64),
        (96, f16, 64),
        (16, f16, 32),
        (48, f16, 32),
        (8, f16, 0),
        (20, f16, 0),
        (32, f32, 128),
        (8, f32, 32),
        (4, f32, 0),
    ],
)
def test_widest_swizzle(columns: int, element: Attribute, span: int) -> None:
    assert widest_swizzle(SharedType.of([16, columns], element)) == span


@pytest.mark.parametrize("mma", ["wgmma", "mma.sync"])
def test_lay_out_contract(mma: str) -> None:
    """One tile is both operands here; it is laid out once."""
    module = run(pipeline(mma), PASS)
    kind = only(module, SharedTileOp).tile.type
    assert isinstance(kind, SharedType) and kind.swizzle_bytes == 128
    acc = only(module, tile.FragmentOp).fragment.type
    assert isinstance(acc, FragmentType)
    expected = (
        wgmma_accumulator(64, 64, (64, 64))
        if mma == "wgmma"
        else mma_sync_accumulator(64, 64, (32, 32))
    )
    assert acc.layout == expected


def test_lay_out_contract_keeps_a_layout_that_fits() -> None:
    module = run(pipeline(), PASS)
    assert printed(run(module, PASS)) == printed(run(pipeline(), PASS))


@pytest.mark.parametrize("span", [0, 32, 64, 128])
def test_lay_out_contract_keeps_the_authors_swizzle(span: int) -> None:
    module = run(pipeline(tile=f"[64, 64], f16, swizzle {span}"), PASS)
    kind = only(module, SharedTileOp).tile.type
    assert isinstance(kind, SharedType) and kind.swizzle_bytes == span


REFUSED = {
    "an accumulator elsewhere": (
        pipeline(acc=f"[64, 64], f32, {OTHER}"),
        "gpu.contract needs the fragment in "
        f"{mma_sync_accumulator(64, 64, (32, 32))} and it is in "
        "#gpu.fragment_layout<threads 128, registers 32, "
        "affine_map<(d0, d1) -> ((d0 floordiv 2), (((d0 mod 2) * 32) + d1))>>; remove the "
        "annotation or copy to another fragment",
    ),
    "wgmma without a swizzle": (
        pipeline("wgmma", tile="[64, 64], f16, swizzle 0"),
        "wgmma reads swizzled operands here and !gpu.shared<[64, 64], f16, swizzle 0> has rows of "
        "128 bytes; make rows a multiple of 32 bytes",
    ),
    "a warpgroup with part of the width": (
        pipeline("wgmma", warp="<64, 32>"),
        "a wgmma warpgroup computes 64 rows and the whole width 64 of the tile, not 64x32",
    ),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_lay_out_contract_refuses(text: str, message: str) -> None:
    assert_refused(text, "LayoutConflict", message, "gpu.contract", PASS)


def test_wgmma_refuses_rows_that_no_swizzle_splits() -> None:
    """24 columns are 48 bytes; the tile is B, which is stored [k, n]."""
    text = kernel("""
    %a = gpu.shared_tile : !gpu.shared<[64, 16], f16>
    %b = gpu.shared_tile : !gpu.shared<[16, 24], f16>
    %acc = gpu.fragment : !gpu.fragment<[64, 24], f32>
    gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
      into %acc mma "wgmma" warp_tile <64, 24>
      : !gpu.shared<[64, 16], f16>, !gpu.shared<[16, 24], f16>, !gpu.fragment<[64, 24], f32>""")
    message = (
        "wgmma reads swizzled operands here and !gpu.shared<[16, 24], f16, swizzle 0> has rows of "
        "48 bytes; make rows a multiple of 32 bytes"
    )
    assert_refused(text, "LayoutConflict", message, "gpu.contract", PASS)


def mapped(space: str, out: str) -> str:
    return kernel(f"""
    %f = gpu.fragment : {space}
    %g = gpu.fragment : {out}
    gpu.map %f : {space} origin [] ins() outs(%g : {out} affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%x : f32):
      gpu.yield %x : f32
    }}""")


def test_lay_out_map() -> None:
    space = f"!gpu.fragment<[64, 64], f32, {OTHER}>"
    module = run(mapped(space, "!gpu.fragment<[64, 64], f32>"), PASS)
    first, second = find(module, tile.FragmentOp)
    assert first.fragment.type == second.fragment.type


def test_lay_out_map_goes_back_from_the_output() -> None:
    out = f"!gpu.fragment<[64, 64], f32, {OTHER}>"
    module = run(mapped("!gpu.fragment<[64, 64], f32>", out), PASS)
    first, second = find(module, tile.FragmentOp)
    assert first.fragment.type == second.fragment.type


def test_lay_out_map_knows_a_layout_in_other_words() -> None:
    space = f"!gpu.fragment<[64, 64], f32, {OTHER}>"
    text = mapped(space, space.replace("t floordiv 2,", "t floordiv 4 * 2 + t floordiv 2 mod 2,"))
    first, second = find(run(text, PASS), tile.FragmentOp)
    assert first.fragment.type != second.fragment.type


def test_lay_out_map_refuses_another_layout() -> None:
    space = f"!gpu.fragment<[64, 64], f32, {OTHER}>"
    text = mapped(
        space, space.replace("t floordiv 2, t mod 2 * 32 + r", "t mod 2 * 32 + r, t floordiv 2")
    )
    message = (
        "gpu.map needs the fragment in #gpu.fragment_layout<threads 128, registers 32, "
        "affine_map<(d0, d1) -> ((d0 floordiv 2), (((d0 mod 2) * 32) + d1))>> and it is in "
        "#gpu.fragment_layout<threads 128, registers 32, affine_map<(d0, d1) -> ((((d0 mod 2) * 32)"
        " + d1), (d0 floordiv 2))>>; remove the annotation or copy to another fragment"
    )
    assert_refused(text, "LayoutConflict", message, "gpu.map", PASS)


# The author's layouts ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (
            "(t floordiv 2, r)",
            "no thread holds element [0, 32] of [64, 64] in #gpu.fragment_layout<threads 128, "
            "registers 32, affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>>",
        ),
        (
            "(t, r)",
            "#gpu.fragment_layout<threads 128, registers 32, affine_map<(d0, d1) -> (d0, d1)>> "
            "places [127, 0], which is outside a tile of [64, 64]",
        ),
        (
            "((t + r) floordiv 4, r)",
            "a layout is a sum of a part of the thread and a part of the register, and "
            "((d0 + d1) floordiv 4) mixes thread and register",
        ),
    ],
)
def test_check_layout_refuses(layout: str, message: str) -> None:
    kind = (
        "!gpu.fragment<[64, 64], f32, #gpu.fragment_layout<threads 128, registers 32, "
        f"affine_map<(t, r) -> {layout}>>>"
    )
    text = kernel(f"    %f = gpu.fragment : {kind}")
    assert_refused(text, "LayoutConflict", message, "gpu.fragment", PASS)


def parse_layout(text: str) -> FragmentLayoutAttr:
    found = Parser(make_context(), text).parse_attribute()
    assert isinstance(found, FragmentLayoutAttr)
    return found


# The free level ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "vector", "along", "layout"),
    [
        # A row a CTA: as few registers as threads allow.
        ((1, 4096), 8, False, (32, "(0, t * 8 + r floordiv 8 * 1024 + r mod 8)")),
        # Four rows, four warps: a row a warp, though whole rows one after another need no more.
        ((4, 1024), 8, False, (32, "(t floordiv 32, t mod 32 * 8 + r floordiv 8 * 256 + r mod 8)")),
        # Columns are summed: a thread keeps its own.
        (
            (16, 1024),
            8,
            True,
            (128, "(r floordiv 8, t * 8 + r mod 8)"),
        ),
        # More threads than vectors: the others repeat them.
        ((1, 64), 8, False, (8, "(0, t mod 8 * 8 + r)")),
        # Narrow rows: 16 bytes a thread still.
        ((128, 8), 8, False, (8, "(t, r)")),
        # Elements that nothing proves aligned: neighbours in neighbouring threads.
        ((1, 256), 1, False, (2, "(0, t + r * 128)")),
        ((1, 384), 8, False, (24, "(0, t mod 16 * 8 + r floordiv 8 * 128 + r mod 8)")),
    ],
)
def test_rows_of_vectors(
    shape: tuple[int, int], vector: int, along: bool, layout: tuple[int, str]
) -> None:
    found, registers = row_layout(*shape, vector, 2, 128, along)
    spread = Spread.of(found)
    assert spread.outside(shape) is None and spread.uncovered(shape) is None
    assert registers == layout[0] == len(spread.registers)
    text = (
        f"#gpu.fragment_layout<threads 128, registers {registers}, "
        f"affine_map<(t, r) -> {layout[1]}>>"
    )
    assert spread == Spread.of(parse_layout(text))


@given(
    st.integers(1, 64),
    st.integers(1, 40),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([32, 96, 128, 256]),
    st.booleans(),
)
def test_rows_of_vectors_cover_the_tile(
    rows: int, chunks: int, vector: int, threads: int, along: bool
) -> None:
    shape = (rows, chunks * vector)
    found, registers = row_layout(*shape, vector, 2, threads, along)
    spread = Spread.of(found)
    assert spread.outside(shape) is None and spread.uncovered(shape) is None
    assert len(spread.threads) == threads and len(spread.registers) == registers
    assert registers <= rows * chunks * vector


STATISTICS = """
    %x = gpu.fragment : !gpu.fragment<[4, 1024], f32>
    %h = gpu.fragment : !gpu.fragment<[4, 1024], f16>
    %w = gpu.fragment : !gpu.fragment<[1024], f16>
    %m = gpu.fragment : !gpu.fragment<[4], f32>
    %zero = arith.constant 0 : index
    gpu.copy %X[%zero, %zero] to %h
      : !gpu.global<[M, N], f16, align 16>, !gpu.fragment<[4, 1024], f16>
    gpu.copy %W[%zero] to %w : !gpu.global<[N], f16, align 16>, !gpu.fragment<[1024], f16>
    gpu.map %h : !gpu.fragment<[4, 1024], f16> origin [] ins()
      outs(%x : !gpu.fragment<[4, 1024], f32> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e : f16):
      %f = arith.extf %e : f16 to f32
      gpu.yield %f : f32
    }
    gpu.reduce max %x by affine_map<(i, j) -> (i)> into %m
      : !gpu.fragment<[4, 1024], f32>, !gpu.fragment<[4], f32>
    gpu.map %x : !gpu.fragment<[4, 1024], f32> origin []
      ins(%m : !gpu.fragment<[4], f32> affine_map<(i, j) -> (i)>,
          %w : !gpu.fragment<[1024], f16> affine_map<(i, j) -> (j)>)
      outs(%x : !gpu.fragment<[4, 1024], f32> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e : f32, %top : f32, %weight : f16):
      %f = arith.subf %e, %top : f32
      gpu.yield %f : f32
    }"""
STATISTICS_ARGS = (
    "%X: !gpu.global<[M, N], f16, align 16> = tensor 0, "
    "%W: !gpu.global<[N], f16, align 16> = tensor 1"
)


def test_rows_statistics_and_weights() -> None:
    """The tile a row a warp; the row's statistic with its warp; weights where they are used."""
    module = run(kernel(STATISTICS, STATISTICS_ARGS), PASS)
    found = {op.fragment.name_hint: layout_of(op.fragment) for op in find(module, tile.FragmentOp)}
    rows = parse_layout(
        "#gpu.fragment_layout<threads 128, registers 32, affine_map<(t, r) -> "
        "(t floordiv 32, t mod 32 * 8 + r floordiv 8 * 256 + r mod 8)>>"
    )
    for name, by in (("x", None), ("h", None), ("m", 0), ("w", 1)):
        layout = found[name]
        assert isinstance(layout, FragmentLayoutAttr)
        wanted = Spread.of(rows)
        if by is not None:
            wanted = wanted.image(AffineMap(2, 0, (AffineExpr.dimension(by),)))
        assert Spread.of(layout) == wanted, name


def test_the_loosest_tensor_sets_the_vectors() -> None:
    loose = STATISTICS.replace("<[M, N], f16, align 16>", "<[M, N], f16, align 4>")
    module = run(
        kernel(loose, STATISTICS_ARGS.replace("[M, N], f16, align 16", "[M, N], f16, align 4")),
        PASS,
    )
    layout = find(module, tile.FragmentOp)[0].fragment.type
    assert isinstance(layout, FragmentType) and isinstance(layout.layout, FragmentLayoutAttr)
    assert Spread.of(layout.layout).registers[2] == (0, 64)


def test_a_sum_of_columns_keeps_columns_together() -> None:
    text = kernel("""
    %x = gpu.fragment : !gpu.fragment<[16, 512], f32>
    %s = gpu.fragment : !gpu.fragment<[512], f32>
    gpu.reduce sum %x by affine_map<(i, j) -> (j)> into %s
      : !gpu.fragment<[16, 512], f32>, !gpu.fragment<[512], f32>""")
    _, total = find(run(text, PASS), tile.FragmentOp)
    kind = total.fragment.type
    assert isinstance(kind, FragmentType) and isinstance(kind.layout, FragmentLayoutAttr)
    assert Spread.of(kind.layout) == Spread(
        tuple((4 * t,) for t in range(128)), tuple((r,) for r in range(4))
    )


def test_tiles_that_are_only_copied_are_plain() -> None:
    text = kernel("""
    %x = gpu.fragment : !gpu.fragment<[8, 64], f16>
    %t = gpu.shared_tile : !gpu.shared<[8, 64], f16, ring 2>
    %kept = gpu.shared_tile : !gpu.shared<[8, 64], f16, swizzle 64>
    %unused = gpu.shared_tile : !gpu.shared<[8, 64], f16>
    gpu.copy %x to %t : !gpu.fragment<[8, 64], f16>, !gpu.shared<[8, 64], f16, ring 2>
    gpu.copy %kept to %x : !gpu.shared<[8, 64], f16, swizzle 64>, !gpu.fragment<[8, 64], f16>""")
    kinds = [op.tile.type for op in find(run(text, PASS), SharedTileOp)]
    assert [k.swizzle_bytes for k in kinds if isinstance(k, SharedType)] == [0, 64, None]


def test_a_tile_of_three_axes_needs_an_annotation() -> None:
    text = kernel("""
    %x = gpu.fragment : !gpu.fragment<[4, 4, 64], f32>
    %zero = arith.constant 0.0 : f32
    gpu.fill %zero, %x : !gpu.fragment<[4, 4, 64], f32>""")
    message = (
        "nothing says how a tile of [4, 4, 64] is spread over threads; annotate its type with a "
        "#gpu.fragment_layout"
    )
    assert_refused(text, "NoLayout", message, "gpu.fill", PASS)


def test_threads_of_different_columns_have_no_image() -> None:
    """Threads 0 and 1 keep 1 and 2 parts of what they hold: no layout says that."""
    kind = (
        "!gpu.fragment<[1, 12], f32, #gpu.fragment_layout<threads 4, registers 3, "
        "affine_map<(t, r) -> (0, t * 3 + r)>>>"
    )
    text = kernel(f"""
    %x = gpu.fragment : {kind}
    %s = gpu.fragment : !gpu.fragment<[1, 3], f32>
    gpu.reduce sum %x by affine_map<(i, j) -> (i, j floordiv 4)> into %s
      : {kind}, !gpu.fragment<[1, 3], f32>""")
    error = refusal(text, PASS)
    assert error.kind == "LayoutConflict" and "does not treat threads alike" in error.message
