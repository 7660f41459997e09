"""Masks of queries and keys on sm_90a: a producer brings them by TMA, with the keys."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.families.attention.gates import is_near
from polyc.families.attention.recognise import find_attention
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.gpu.share_reads import sizes_of
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import H64, Attention, passed
from polyc.test.support.gpu_text import find, only, parsed, printed, run
from polyc.test.support.split_programs import leave_only
from polyc.tools.play import play

H128, H192, H256 = (
    (f"[H, M, {size}]", f"[H, N, {size}]", f"[H, N, {size}]") for size in (128, 192, 256)
)
BYTES, HALVES, WORDS = (f"N mod {n} == 0" for n in (16, 8, 4))
SIZES = [{"H": 1, "M": 70, "N": 208}]

STAGED: Mapping[str, Attention] = {
    "conditions": Attention(*H64, SIZES, masks=["[M, N], i1"], assuming=BYTES),
    "a bias": Attention(*H64, SIZES, masks=["[H, M, N], f16"], assuming=HALVES),
    "a bias, causal": Attention(
        *H64, SIZES, " causal offset 100", ["[H, M, N], f16"], assuming=HALVES
    ),
    "a bias and a mask of keys": Attention(
        *H64, SIZES, masks=["[H, 1, N], i1", "[M, N], f16"], assuming=HALVES
    ),
    "both": Attention(*H64, SIZES, masks=["[H, M, N], i1", "[M, N], f16"], assuming=BYTES),
    "conditions, log-sum-exp": Attention(
        *H64, SIZES, " causal offset N - M", ["[M, N], i1"], lse=True, assuming=BYTES
    ),
    "a bias, shared heads, a cap": Attention(
        "[2 * H, M, 64]",
        "[H, N, 64]",
        "[H, N, 64]",
        SIZES,
        " cap 3.0 causal",
        ["[1, M, N], f16"],
        assuming=HALVES,
    ),
    "a bias 32": Attention(
        "[H, M, 32]", "[H, N, 32]", "[H, N, 32]", SIZES, masks=["[H, M, N], f16"], assuming=HALVES
    ),
    "conditions 128": Attention(*H128, SIZES, masks=["[H, M, N], i1"], assuming=BYTES),
    "a bias of words 128": Attention(*H128, SIZES, masks=["[M, N], f32"], assuming=WORDS),
    "bf16, log-sum-exp 128": Attention(
        *H128, SIZES, masks=["[H, M, N], bf16"], element="bf16", lse=True, assuming=HALVES
    ),
    "a bias 192": Attention(*H192, SIZES, masks=["[H, M, N], f16"], assuming=HALVES),
    "a bias 256": Attention(*H256, SIZES, masks=["[H, M, N], f16"], assuming=HALVES),
}
"""Each with rows of its masks that TMA takes, a tail of queries and one of keys."""


@cache
def tiles(name: str) -> ModuleOp:
    """The tma variant alone, at the tile level; not to be changed."""
    module = passed(printed(STAGED[name].region()), "plan-select", arch="sm_90a")
    leave_only(module, "tma")
    return passed(module, "region-to-gpu", arch="sm_90a")


@cache
def lowered(name: str) -> gpu.ModuleOp:
    """The variant at the hardware level; not to be changed."""
    module = tiles(name).clone()
    finish(module)
    return only(module, gpu.ModuleOp)


@pytest.mark.parametrize("name", STAGED)
def test_no_map_of_a_step_reads_a_mask_of_memory(name: str) -> None:
    """Each comes to a tile of its own, in front of the products, and from there to registers."""
    module = run(tiles(name).clone(), "gpu-assumptions", "gpu-share-reads", "gpu-prefetch-reads")
    (walk,) = find(module, tile.PipelineOp)
    over = [op for op in find(walk, tile.MapOp) if len(sizes_of(op.space)) == 2]
    assert not any(isinstance(v.type, GlobalType) for op in over for v in op.inputs)
    both = [mask for mask in STAGED[name].masks if ", 1, " not in mask]
    assert len(find(walk, tile.CopyOp)) == 2 + 2 * len(both)


def test_consumers_take_turns_and_read_their_own_rows() -> None:
    """A slot of the mask's ring becomes one of 64 rows for each of the three."""
    module = run(tiles("a bias").clone(), *GPU_PASSES[: GPU_PASSES.index("gpu-turns") + 1])
    assert len(find(module, tile.OrderEnterOp)) == 1
    reads = [c for c in find(module, tile.CopyOp) if isinstance(c.target.type, FragmentType)]
    inside = [c for c in reads if isinstance(c.source.type, SharedType)]
    assert {str(c.source.type) for c in inside} == {"!gpu.shared<[64, 96], f16, ring 6>"}
    assert all(c.source_slot is not None for c in inside)


@pytest.mark.parametrize("least", [-1000.0, -65504.0])
def test_a_bias_of_the_least_halves_leaves_what_the_scores_say(least: float) -> None:
    """Exponents are of one fused multiplication, whose base is rounded alike for all of a row."""
    (sizes,) = STAGED["a bias"].sizes
    q, k, v, bias = STAGED["a bias"].inputs(sizes)
    bias[0, 1], bias[0, 2, 5:], bias[0, 3, :100] = least, least, least
    inputs = [q, k, v, bias]
    found = play(tiles("a bias"), "attention", inputs, sizes)
    assert found is not None
    assert_agree(list(found), meant(parsed(STAGED["a bias"].text()), inputs, sizes))


def test_exponents_are_fused_where_what_is_added_is_small() -> None:
    """Of halves, and of what a tanh bounds; numbers of f32 and bf16 may be -1e9."""
    near = {name: is_near(find_attention(STAGED[name].kernel())) for name in STAGED}
    words = {"a bias of words 128", "bf16, log-sum-exp 128"}
    assert {name for name, found in near.items() if not found} == words
    capped = {cap: Attention(*H64, SIZES, f" cap {cap}").kernel() for cap in ("2.0", "1000000.0")}
    assert [is_near(find_attention(kernel)) for kernel in capped.values()] == [True, False]


ORDERS = (("round-robin", "late"), ("random", "random"))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "order"), [(name, ORDERS[i % 2]) for i, name in enumerate(STAGED)], ids=STAGED
)
def test_threads_give_what_the_region_does(name: str, order: tuple[str, str]) -> None:
    """No race, no access outside, no wait that is missing or that never ends."""
    schedule, completion = order
    (sizes,) = STAGED[name].sizes
    inputs = STAGED[name].inputs(sizes)
    result = simulate(lowered(name), inputs, sizes, schedule=schedule, completion=completion)
    assert not result.findings, "\n".join(map(str, result.findings))
    wanted = meant(parsed(STAGED[name].text()), inputs, sizes)
    assert_agree(list(result.outputs), wanted)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", STAGED)
def test_a_kernel_compiles_without_a_spill(name: str) -> None:
    result = nvrtc.compile_cuda(cuda_source(lowered(name)), "sm_90a")
    assert not result.warnings()
    (info,) = result.kernels.values()
    assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0)
