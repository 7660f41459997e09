"""``gpu.scan`` by threads: tiles of kernels written by hand, and layouts that it does not take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.passes.finish import finish
from polyc.passes.support.gpu.tile_scan import Line, Stack, line_of
from polyc.playback import functions
from polyc.playback import tile as tiles
from polyc.playback.gpu.simulate import simulate
from polyc.test.support.gpu_text import find, only, parsed

ROWS, COLUMNS = 4, 256


def scanned(layout: str, words: str = "", carried: bool = True, kind: str = "sum") -> ModuleOp:
    """Two tiles of four lines, one after another, each scanned in place."""
    fragment = f"!gpu.fragment<[{ROWS}, {COLUMNS}], f32{layout}>"
    carry = f"!gpu.fragment<[{ROWS}, 1], f32>"
    both = f"{fragment}, {carry}" if carried else fragment
    own = "affine_map<(d0, d1)[s0] -> (d0, d1 + s0)>"
    tensor = "!gpu.global<[4, 512], f32>"
    return parsed(f"""
gpu.module @m arch "sm_80" symbols [] {{
  gpu.kernel @k(%x: {tensor} = tensor 0, %y: {tensor} = tensor 1) threads 128 {{
    %zero = arith.constant 0 : index
    %end = arith.constant 512 : index
    %step = arith.constant 256 : index
    %start = arith.constant 1.5 : f32
    %c = gpu.fragment : {carry}
    gpu.fill %start, %c : {carry}
    scf.for %at = %zero to %end step %step {{
      %f = gpu.fragment : {fragment}
      gpu.map %f : {fragment} origin [%at] ins(%x : {tensor} {own})
          outs(%f : {fragment} affine_map<(d0, d1)[s0] -> (d0, d1)>) {{
      ^bb0(%a: f32, %b: f32):
        gpu.yield %b : f32
      }}
      gpu.scan {kind} %f axis 1 {"carry %c" if carried else ""} {words} : {both}
      gpu.map %f : {fragment} origin [%at] ins() outs(%y : {tensor} {own}) {{
      ^bb0(%a: f32):
        gpu.yield %a : f32
      }}
    }}
    gpu.return
  }}
  gpu.dispatch (x: {tensor}) -> (y: {tensor}) {{
    gpu.launch @k align [16, 16] grid [1]
  }}
}}""")


def laid(places: str) -> str:
    map = f"affine_map<(d0, d1) -> ({places})>"
    return f", #gpu.fragment_layout<threads 128, registers 8, {map}>"


BY_LANES = laid("d0 floordiv 32, d0 mod 32 * 4 + d1 floordiv 4 * 128 + d1 mod 4")
ACROSS = laid("d1 floordiv 2, d0 * 2 + d1 mod 2")
APART = laid("d0 floordiv 32, d0 mod 32 + d1 * 32")
SPREAD = laid("d1 floordiv 2, d0 + d1 mod 2 * 128")
WIDE = laid("d0 mod 2 + d1 mod 2 * 2, (63 - d0 floordiv 2) * 4 + d1 floordiv 2")
TURNED = laid("d0 mod 4, d0 floordiv 4 * 8 + d1")


@pytest.mark.turns(1)
@pytest.mark.parametrize("words", ["", "reverse", "exclusive", "reverse exclusive"])
@pytest.mark.parametrize("layout", [BY_LANES, APART, ACROSS, TURNED])
@pytest.mark.parametrize("carried", [True, False])
def test_a_scan_of_tiles(words: str, layout: str, carried: bool) -> None:
    module = scanned(layout, words, carried)
    x: Any = np.random.default_rng(2).integers(-9, 9, (4, 512)).astype(np.float32)
    reverse, exclusive = "reverse" in words, "exclusive" in words
    parts: list[Any] = []
    before: Any = np.full((4, 1), 1.5, np.float32)
    for part in (x[:, :256], x[:, 256:]):
        found = functions.scan("sum", part, 1, reverse=reverse, exclusive=exclusive)
        parts.append(found + before if carried else found)
        before = before + part.sum(1, keepdims=True)
    wanted = np.concatenate(parts, 1)
    kernels = only(module, gpu.ModuleOp)
    np.testing.assert_array_equal(tiles.run(kernels, [x], {})[0], wanted)
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), [x], {})
    result.check()
    np.testing.assert_array_equal(result.outputs[0], wanted)


def test_how_lines_lie() -> None:
    (op,) = find(scanned(BY_LANES), tile.ScanOp)
    assert line_of(op) == Line(32, ((0, 1, 2, 3), (4, 5, 6, 7)))
    (op,) = find(scanned(APART), tile.ScanOp)
    assert line_of(op) == Line(32, tuple((i,) for i in range(8)))
    (op,) = find(scanned(ACROSS), tile.ScanOp)
    assert line_of(op) == Stack(128, 1, ((0, 1), (2, 3), (4, 5), (6, 7)))
    (op,) = find(scanned(TURNED), tile.ScanOp)
    assert line_of(op) == Stack(32, 4, (tuple(range(8)),))


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (SPREAD, "a thread's elements of a line are not neighbours"),
        (WIDE, "threads with parts of a line do not follow each other"),
        (laid("d0 floordiv 32, d0 mod 32 * 8 + d1 * 0"), "neighbouring threads do not have"),
    ],
)
def test_layouts_that_it_does_not_take(layout: str, message: str) -> None:
    (op,) = find(scanned(layout), tile.ScanOp)
    with pytest.raises(PolycError, match=message) as caught:
        line_of(op)
    assert caught.value.kind == "LayoutConflict"
