"""``gpu-prefetch-reads``: which reads come a step ahead, and that they are the same (T2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import KernelOp, ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.test.support.biased_sums import MATRIX, VECTOR, biased
from polyc.test.support.gpu_text import find, only, printed, run
from polyc.test.support.turns import examples

SHARE, PASS = "gpu-share-reads", "gpu-prefetch-reads"
BOTH = {"where": "(i, j)[s] -> (i, j + s)", "source": f"%w : {MATRIX}"}


def maps(text: str, *passes: str) -> list[tile.MapOp]:
    return find(run(text, *passes), tile.MapOp)


@pytest.mark.parametrize(
    ("how", "kind"),
    [({}, "!gpu.fragment<[32], f32>"), (BOTH, "!gpu.fragment<[64, 32], f32>")],
    ids=["columns", "rows and columns"],
)
def test_the_next_step_is_read_behind_the_map(how: dict[str, str], kind: str) -> None:
    """The first one's elements in front of the pipeline, and then each step the next one's."""
    first, add, ahead, _ = maps(biased(**how), SHARE, PASS)
    assert isinstance(first.parent_op(), KernelOp)
    assert isinstance(add.parent_op(), tile.PipelineOp) and add.next_op is not ahead
    assert first.space is ahead.space is add.inputs[0]
    assert str(first.space.type) == kind
    (place,) = ahead.origin
    assert "(d0 + 32)" in str(place.owner)


def test_what_no_step_changes_stays_before_the_loop() -> None:
    text = printed(run(biased("(i, j)[s] -> (i + s)", origin="%c0"), SHARE))
    assert printed(run(text, PASS)) == text


WIDE = "(i, j)[s] -> (i, j + s)"
LEFT_ALONE = {
    "no loop": biased(**BOTH, at="once"),
    "the end": biased(**BOTH, at="the end"),
    "more than threads have registers for": biased(**BOTH).replace("threads 128", "threads 32"),
    "products that run beside": biased()
    .replace('"mma.sync"', '"wgmma"')
    .replace("<16, 32>", "<64, 32>"),
    "a tensor that the map writes": biased(
        **BOTH, outs=f", %w : {MATRIX} affine_map<{WIDE}>", value=", %t : f32, f32"
    ),
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_reads_that_stay(text: str) -> None:
    before = printed(run(text, SHARE))
    assert printed(run(before, PASS)) == before


def test_twice_is_once() -> None:
    once = printed(run(biased(**BOTH), SHARE, PASS))
    assert printed(run(once, PASS)) == once


@settings(max_examples=examples(6), deadline=None)
@given(st.integers(1, 150), st.integers(0, 1000), st.booleans())
def test_the_numbers_are_the_same(n: int, seed: int, both: bool) -> None:
    """To the bit, also for what is beyond the end of the tensor."""
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((m, 32)).astype(np.float16) for m in (64, n))
    v, w = (rng.standard_normal(s).astype(np.float32) for s in (n, (64, n)))
    text = biased(**BOTH) if both else biased(source=f"%v : {VECTOR}")
    ahead, each = (
        simulate(only(run(text, *passes), ModuleOp), [a, b, v, w], {"N": n})
        for passes in (GPU_PASSES, [name for name in GPU_PASSES if name != PASS])
    )
    assert not ahead.findings and not each.findings
    np.testing.assert_array_equal(ahead.outputs[0], each.outputs[0])
