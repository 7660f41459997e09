"""``gpu-cache-hints``: hints from what a load's place depends on, and their way to the text."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.gpu_text import ORDER, find, kernel, only, refusal, run, unchanged

PASS = "gpu-cache-hints"
X, TILE = "!gpu.global<[M, N], f16, align 16>", "!gpu.shared<[16, 64], f16, swizzle 128>"
ARGS = f"%X: {X} = tensor 0, %M: index = symbol M, %N: index = symbol N"
HEAD = f"""
    %zero = arith.constant 0 : index
    %a = gpu.shared_tile : {TILE}
    %block = gpu.block_id
    %row = affine.apply affine_map<(d0) -> (d0 * 16)> (%block)
"""


def copy(row: str, cache: str = "") -> str:
    return f'    gpu.copy %X[%{row}, %zero] to %a loader "tma"{cache} : {X}, {TILE}\n'


@pytest.mark.parametrize(("row", "hint"), [("row", "evict_first"), ("zero", "evict_last")])
def test_hint_loads_by_block(row: str, hint: str) -> None:
    found = only(run(kernel(HEAD + copy(row), ARGS), PASS), tile.CopyOp)
    assert found.cache is not None and found.cache.data == hint


def test_hint_loads_of_tile_coordinates_in_part_says_nothing() -> None:
    head = HEAD + '    %m, %n = gpu.tile_coordinates[%M, %N] tile <16, 64> raster "row" 1\n'
    unchanged(kernel(head + copy("m"), ARGS), PASS)


@pytest.mark.parametrize(
    "shared",
    [
        "%part = arith.divui %block, %M : index",
        "%part = arith.remui %block, %M : index",
        "%part = affine.apply affine_map<(d0) -> (d0 floordiv 4)> (%block)",
        "%part = affine.apply affine_map<(d0) -> (d0 * 2 + d0 mod 8)> (%block)",
    ],
)
def test_hint_loads_of_what_blocks_share_says_nothing(shared: str) -> None:
    """Several blocks read the keys of one attention: the cache should keep them."""
    row = "%place = affine.apply affine_map<(d0) -> (d0 * 16)> (%part)"
    unchanged(kernel(f"{HEAD}\n{shared}\n{row}\n{copy('place')}", ARGS), PASS)


def walk(place: str, by: str = "%m, %n, %p") -> str:
    """A loop over tiles, in each of which a pipeline copies from a place on."""
    inside = copy("place").replace("    gpu.copy", "        gpu.copy")
    return f"""{HEAD}
    gpu.tile_loop (%m, %n, %o) = [%M, %N] tile <16, 64> raster "row" 1 {{
      gpu.pipeline %p, %i = to %N step 16 stages 2 {{
        %place = affine.apply affine_map<{place}> ({by})
{inside}      }}
    }}
"""


def test_hint_loads_of_a_walk_that_a_tile_only_begins_says_nothing() -> None:
    """The keys that a tile of queries sees begin or end by it, and others see them too."""
    unchanged(kernel(walk("(d0, d1, d2) -> (d0 + d1 - d2)"), ARGS), PASS)
    found = only(run(kernel(walk("(d0, d1) -> (d0 + d1 * 16)", "%m, %n"), ARGS), PASS), tile.CopyOp)
    assert found.cache is not None and found.cache.data == "evict_first"


def test_hint_loads_keeps_the_authors() -> None:
    unchanged(kernel(HEAD + copy("row", ' cache "evict_last"'), ARGS), PASS)
    other = copy("row").replace("tma", "cp_async")
    unchanged(kernel(HEAD + other, ARGS), PASS)


@pytest.mark.parametrize("hint", ["evict_first", "evict_last"])
def test_a_hint_compiles(hint: str) -> None:
    dispatch = f"""
  gpu.dispatch (X: {X}) -> (y: !gpu.global<[M], f32>) {{
    gpu.launch @k when (N mod 8 == 0, N >= 1, M >= 1) align [16, 4] grid [1]
  }}"""
    text = kernel(HEAD + copy("row", f' cache "{hint}"'), ARGS, symbols="M, N", dispatch=dispatch)
    module = run(text, *ORDER)
    load = only(module, hw.TmaLoadOp)
    assert load.cache is not None and load.cache.data == hint
    source = cuda_source(gpu_module_of(module))
    assert f"createpolicy.fractional.L2::{hint}" in source
    result = compile_cuda(source, "sm_90a")
    assert result.warnings() == ()


def test_a_hint_is_one_that_the_cache_knows() -> None:
    error = refusal(kernel(HEAD + copy("row", ' cache "soon"'), ARGS), PASS)
    assert 'a cache hint is evict_first or evict_last, not "soon"' in error.message
    store = f'    gpu.copy %a to %X[%row, %zero] cache "evict_first" : {TILE}, {X}\n'
    error = refusal(kernel(HEAD + store, ARGS), PASS)
    assert "a cache hint is of a load" in error.message
    assert not find(run(kernel(HEAD, ARGS)), tile.CopyOp)
