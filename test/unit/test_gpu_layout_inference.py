"""``gpu-layout-inference``: the widest swizzle, one layout a fragment, and every conflict."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.passes.gpu_layout_inference import widest_swizzle
from polyc.passes.gpu_layouts import mma_sync_accumulator, wgmma_accumulator
from polyc.test.unit.gpu_programs import pipeline
from polyc.test.unit.gpu_text import assert_refused, find, kernel, only, printed, run

PASS = "gpu-layout-inference"
OTHER = "#gpu.fragment_layout<threads 128, registers 32, affine_map<(t, r) -> (t floordiv 2, r)>>"


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
        "affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>>; remove the annotation or copy to "
        "another fragment",
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
    space = f"!gpu.fragment<[64, 32], f32, {OTHER}>"
    module = run(mapped(space, "!gpu.fragment<[64, 32], f32>"), PASS)
    first, second = find(module, tile.FragmentOp)
    assert first.fragment.type == second.fragment.type


def test_lay_out_map_refuses_another_layout() -> None:
    space = f"!gpu.fragment<[64, 32], f32, {OTHER}>"
    text = mapped(space, space.replace("t floordiv 2, r", "r, t floordiv 4"))
    message = (
        "gpu.map needs the fragment in #gpu.fragment_layout<threads 128, registers 32, "
        "affine_map<(d0, d1) -> ((d0 floordiv 2), d1)>> and it is in #gpu.fragment_layout<threads "
        "128, registers 32, affine_map<(d0, d1) -> (d1, (d0 floordiv 4))>>; remove the annotation "
        "or copy to another fragment"
    )
    assert_refused(text, "LayoutConflict", message, "gpu.map", PASS)


def test_lay_out_map_needs_a_layout_to_start_from() -> None:
    message = (
        "nothing says which thread holds which element of this map's fragment; "
        "annotate its type with a #gpu.fragment_layout"
    )
    kind = "!gpu.fragment<[64, 32], f32>"
    assert_refused(mapped(kind, kind), "NoLayout", message, "gpu.map", PASS)
