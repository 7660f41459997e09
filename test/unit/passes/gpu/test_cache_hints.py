"""``gpu-cache-hints``: hints from what a load's place depends on, and their way to the text."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware.checks import vector_length
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


def square(size: int) -> str:
    return f"!gpu.global<[{size}, {size}], f16, align 16>"


def stepped(
    place: str = "(d0 + s0, d1 * 2 + s1 * 2)",
    origin: str = "%m, %n",
    size: int = 4096,
    cache: str = "",
    loop: str = "",
) -> str:
    """A map of a kernel's tile that reads a square tensor of f16 at a place."""
    tensor, tile_of = square(size), "!gpu.fragment<[64, 64], f16>"
    of_tile = "affine_map<(d0, d1)[s0, s1] -> "
    reads, writes = f"%S : {tensor} {of_tile}{place}>", f"%f : {tile_of} {of_tile}(d0, d1)>"
    body = f"""
    gpu.map %f : {tile_of} origin [{origin}] ins({reads}) outs({writes}){cache} {{
    ^bb0(%x : f16, %y : f16):
      gpu.yield %y : f16
    }}"""
    if loop:
        body = f"scf.for %p = %zero to %half step %one {{ {body} }}"
    text = f"""
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %all = arith.constant {size} : index
    %half = arith.constant {size // 2} : index
    %f = gpu.fragment : {tile_of}
    gpu.tile_loop (%m, %n, %o) = [%all, %half] tile <64, 64> raster "row" 1 {{ {body} }}
"""
    dispatch = f"""
  gpu.dispatch (S: {tensor}) -> (y: !gpu.global<[1], f32>) {{
    gpu.launch @k when (1 >= 1) align [16, 4] grid [1]
  }}"""
    return kernel(text, f"%S: {tensor} = tensor 0", symbols="", dispatch=dispatch)


def test_hint_maps_of_steps_through_a_large_tensor() -> None:
    for place in ("(d0 + s0, d1 * 2 + s1 * 2)", "(d0 * 3 + s0 * 3, d1 + s1)"):
        found = only(run(stepped(place), PASS), tile.MapOp)
        assert found.cache is not None and found.cache.data == "evict_first"


@pytest.mark.parametrize(
    "text",
    [
        stepped("(d0 + s0, d1 + s1)"),
        stepped("(d0 + s0, d1 * 2 + s1)"),
        stepped("(d0 + s0, d1 * 2)"),
        stepped("(s0 * 2, d1 + s1)"),
        stepped("(d0 + s0, (d1 + s1) floordiv 2 * 2)"),
        stepped(origin="%m, %m"),
        stepped(size=3072),
        stepped(cache=' cache "evict_last"'),
        stepped(loop="%p"),
    ],
    ids=["all", "one", "column", "row", "floor", "tile", "small", "authors", "loop"],
)
def test_hint_maps_says_nothing(text: str) -> None:
    """Of what is read again, or without steps, or of a tensor that the cache has room for."""
    unchanged(text, PASS)


def test_a_hint_of_a_map_comes_to_each_load() -> None:
    """By vectors too, where steps are along rows."""
    for place, width in (("(d0 + s0, d1 * 2 + s1 * 2)", 1), ("(d0 * 2 + s0 * 2, d1 + s1)", 8)):
        module = run(stepped(place), *ORDER)
        loads = find(module, hw.LoadGlobalOp)
        assert loads and all(op.cache is not None for op in loads)
        assert {vector_length(op.result.type) for op in loads} == {width}


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
