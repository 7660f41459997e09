"""Queries that an attention's kernel computes: right on the simulator, and in registers."""

from __future__ import annotations

from contextlib import redirect_stderr
from io import StringIO

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.region import KernelOp as RegionOp
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_forms import FORMS, Heads
from polyc.test.support.gpu_text import find, only
from polyc.test.support.queries import fused
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

TOKENS = 70
"""No multiple of a tile's queries or keys."""


def kernels(module: ModuleOp, arch: str) -> ModuleOp:
    """The program's kernels at the tile level."""
    ctx = make_context()
    found = parse_text(ctx, str(module), "queries.mlir")
    with fused(), redirect_stderr(StringIO()):
        for stage in ("tiny", "index", "region", "plan"):
            for name in STAGES[stage]:
                build(name, arch).apply(ctx, found)
        build("region-to-gpu", arch).apply(ctx, found)
    return found


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "causal", "width", "arch"),
    [
        ("rope_halves", True, 16, "sm_90a"),
        ("rope_halves", False, 40, "sm_80"),
        ("rope_pairs", True, 40, "sm_90a"),
        ("qk_norm", False, 40, "sm_90a"),
        ("qk_norm", True, 16, "sm_80"),
    ],
)
def test_all_layers_agree(name: str, causal: bool, width: int, arch: str) -> None:
    """With heads that fill no tile, tails of queries and keys, and a kernel of several tiles."""
    ctx, module = make_context(), FORMS[name].module(causal, Heads(2, 1, width))
    found = parse_text(ctx, str(module), "queries.mlir")
    graph = only(found, GraphOp)
    sizes = {"T": TOKENS}
    inputs = make_inputs(graph, sizes, 5)
    wanted = meant(found, inputs, sizes)
    with np.errstate(all="ignore"), redirect_stderr(StringIO()), fused():
        for stage, names in STAGES.items():
            for one in names:
                build(one, arch).apply(ctx, found)
            if stage == "region":
                played = play(found, graph.sym_name.data, inputs, sizes)
                assert played is not None
                assert_agree(played, wanted, "regions")
        result = simulate(gpu_module_of(found), inputs, sizes, None, "random", 5)
    assert len(find(found, KernelOp)) > 1
    assert_agree(result.outputs, wanted, name)


def test_queries_are_made_once_a_tile_and_put_to_shared_memory() -> None:
    module = kernels(FORMS["rope_halves"].module(True, Heads(2, 1, 128)), "sm_90a")
    kernel = next(k for k in find(module, KernelOp) if k.sym_name.data.endswith("_1_tma"))
    (shared,) = [op for op in find(kernel, SharedTileOp) if op.tile.name_hint == "q_tile"]
    puts = [op for op in find(kernel, tile.CopyOp) if op.target is shared.tile]
    assert puts and all(op.loader is None for op in puts)
    (walk,) = find(kernel, tile.PipelineOp)
    assert all(not walk.is_ancestor(op) for op in puts)
    rows = [op.window for op in puts]
    assert len(rows) == len(set(map(str, rows))), "each part has rows of its own"


def test_rows_of_no_query_are_zeros_where_a_norm_would_make_them_others() -> None:
    """A NaN there would let the kernel compute its sums again."""
    normed = str(kernels(FORMS["qk_norm"].module(True, Heads(2, 1, 64)), "sm_90a"))
    turned = str(kernels(FORMS["rope_halves"].module(True, Heads(2, 1, 64)), "sm_90a"))
    maps = [text[text.index("q_tile") : text.index("gpu.pipeline")] for text in (normed, turned)]
    assert "arith.cmpi" in maps[0]
    assert "%T" in maps[0]


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "width"), [("rope_halves", 64), ("rope_halves", 128), ("qk_norm", 128)]
)
def test_kernels_keep_their_values_in_registers(name: str, width: int) -> None:
    with fused(), redirect_stderr(StringIO()):
        program = load(str(FORMS[name].module(True, Heads(2, 1, width))), "sm_90a")
    own = {k: info for k, info in program.kernels.items() if "_1_" in k}
    assert len(own) == 2 and not any(info.spill_bytes for info in own.values())


def test_heads_of_256_are_left_to_copies() -> None:
    """Threads of wgmma have no registers beside them, so that such queries are stored."""
    module = FORMS["rope_halves"].module(True, Heads(2, 1, 256))
    text = str(kernels(module, "sm_90a"))
    assert "_1_cp_async" in text and "_1_tma" not in text
    ctx = make_context()
    found = parse_text(ctx, str(module), "queries.mlir")
    with redirect_stderr(StringIO()):
        for stage in ("tiny", "index", "region"):
            for name in STAGES[stage]:
                build(name, "sm_90a").apply(ctx, found)
    *_, last = find(found, RegionOp)
    assert len(find(found, RegionOp)) == 3 and "%v0" in str(last)
