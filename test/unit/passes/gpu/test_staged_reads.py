"""``gpu-prefetch-reads``: which reads a producer brings by TMA, and which stay (T2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import find, printed, run
from polyc.test.support.turns import examples

PASS = "gpu-prefetch-reads"
FILECHECK = Path(__file__).parents[3] / "filecheck/gpu" / PASS / "by_tma.mlir"
TEXT = FILECHECK.read_text()
BOTH = "(d0, d1)[s0] -> (d0, d1 + s0)"


def test_a_tensor_of_rows_and_columns_gets_a_tile() -> None:
    """Its copy stands behind that of the keys, so that no later product's slot holds it up."""
    module = run(TEXT, PASS)
    keys, bias, values, read = (
        copy for copy in find(module, tile.CopyOp) if isinstance(copy.parent_op(), tile.PipelineOp)
    )
    assert [copy.source.name_hint for copy in (keys, bias, values)] == ["k", "bias", "v"]
    assert bias.loader is not None and bias.loader.data == "tma" and bias.stage is not None
    assert read.source is bias.target and isinstance(read.source.type, SharedType)
    (first, *_) = [op for op in find(module, tile.MapOp) if op.inputs]
    assert list(first.inputs) == [read.target]


def changed(*edits: tuple[str, str]) -> str:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


GLOBAL = "!gpu.global<[64, 200], f16, align 16>"
TILE = "%q_tile = gpu.shared_tile : !gpu.shared<[64, 64], f16>"
LARGE = "gpu.shared_tile : !gpu.shared<[768, 64], f16>"
LEFT_ALONE = {
    "rows that TMA does not take": changed((GLOBAL, GLOBAL.replace("align 16", "align 8"))),
    "columns alone": changed((BOTH, "(d0, d1)[s0] -> (0, d1 + s0)")),
    "columns that are two apart": changed((BOTH, "(d0, d1)[s0] -> (d0, d1 * 2 + s0)")),
    "a turned tensor": changed((BOTH, "(d0, d1)[s0] -> (d1 + s0, d0)")),
    "elements that no tensor map has": changed(
        (GLOBAL, GLOBAL.replace("f16", "i16")),
        ("%b: f16", "%b: i16"),
        ("arith.extf %b : f16 to f32", "arith.sitofp %b : i16 to f32"),
        ("bias: !gpu.global<[64, 200], f16>", "bias: !gpu.global<[64, 200], i16>"),
    ),
    "products that threads wait for": changed(
        ('loader "tma"', 'loader "cp_async"'),
    ),
    "no room": changed(("stages 2", "stages 8"), (TILE, f"{TILE}\n    %more = {LARGE}")),
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_reads_that_stay(text: str) -> None:
    before = printed(run(text))
    assert printed(run(before, PASS)) == before


def test_there_is_room_without_the_large_tile() -> None:
    assert len(find(run(changed(("stages 2", "stages 8")), PASS), tile.CopyOp)) == 5


@settings(max_examples=examples(4), deadline=None)
@given(st.sampled_from([8, 56, 64, 120, 200]), st.integers(0, 1000))
def test_the_numbers_are_the_same(keys: int, seed: int) -> None:
    """To the bit, also for what is beyond the end of the tensor."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal((n, 64)).astype(np.float16) for n in (64, keys, keys))
    bias = rng.standard_normal((64, keys)).astype(np.float16)
    text = changed(("200", str(keys)))
    staged, plain = (
        run(text, *GPU_PASSES) if by_tma else run(text, *(p for p in GPU_PASSES if p != PASS))
        for by_tma in (True, False)
    )
    found = [simulate(module, [q, k, v, bias], {}) for module in (staged, plain)]
    for one in found:
        assert not one.findings, "\n".join(map(str, one.findings))
    np.testing.assert_array_equal(found[0].outputs[0], found[1].outputs[0])
