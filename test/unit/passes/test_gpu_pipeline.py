"""The gpu passes' order is the table in docs/passes/gpu-passes.md, and what a row says holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from xdsl.dialects import affine, scf
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, i64
from xdsl.ir import Block, Operation
from xdsl.traits import IsTerminator, is_side_effect_free

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
)
from polyc.dialects.gpu.waiting import OrderType, RingType, TokenType
from polyc.passes.gpu.insert_barriers import planned
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.pipeline import ORDER as PIPELINE
from polyc.passes.support.gpu.guards import acting, holds_tile_ops
from polyc.test.support.gpu_text import ORDER, find, printed, run
from polyc.test.support.plans import step as apply
from polyc.test.support.split_programs import leave_only
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ROW = re.compile(r"^\| `(gpu-[a-z0-9-]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)

Found = Iterator[Operation]
GLOBAL = (hw.LoadGlobalOp, hw.StoreGlobalOp, hw.CpAsyncOp)


def rows(root: Path) -> list[tuple[str, str, str]]:
    text = (root / "docs" / "passes" / "gpu-passes.md").read_text()
    return ROW.findall(text)


def test_the_table_is_the_order(root: Path) -> None:
    assert [name for name, _, _ in rows(root)] == list(GPU_PASSES)


def test_what_a_pass_needs_stands_above_it(root: Path) -> None:
    for name, needs, _ in rows(root):
        for other in re.findall(r"`(gpu-[a-z-]+)`", needs):
            assert ORDER.index(other) < ORDER.index(name), f"{name} needs {other}"


def test_every_pass_has_a_paragraph(root: Path) -> None:
    text = (root / "docs" / "passes" / "gpu-passes.md").read_text()
    assert re.findall(r"^\*\*`(gpu-[a-z-]+)`\*\*", text, re.MULTILINE) == ORDER


def test_every_pass_has_its_tests(root: Path) -> None:
    for name in GPU_PASSES:
        assert list((root / "test" / "filecheck" / "gpu" / name).glob("*.mlir")), name
        if name != "gpu-pipeline-planning":
            assert (
                root / "test/unit/passes/gpu" / f"test_{name[4:].replace('-', '_')}.py"
            ).exists(), name


# What holds after each pass: the ops that break it ------------------------------------------


def of(*kinds: type[Operation]) -> Callable[[Operation], Found]:
    return lambda module: (op for op in module.walk() if isinstance(op, kinds))


def without_target(module: Operation) -> Found:
    return (op for op in find(module, gpu.ModuleOp) if op.target is None)


def nothing(module: Operation) -> Found:
    """For what the verifier or another test holds."""
    return iter(())


def alone(module: Operation) -> Found:
    for op in find(module, gpu.ModuleOp):
        if op.arch.data == "sm_90a":
            for launch in op.dispatch().launches():
                if launch.overlapped is None and launch.cooperative is None:
                    yield launch


def named_parts(module: Operation) -> Found:
    for op in find(module, affine.ApplyOp):
        short = sum(1 for _ in op.map.data.results[0].dfs()) <= 4
        if short and any(isinstance(v.owner, affine.ApplyOp) for v in op.mapOperands):
            yield op


def silent_loads(module: Operation) -> Found:
    for op in find(module, tile.CopyOp):
        if op.is_load and op.loader is not None and op.loader.data == "tma" and op.signal is None:
            yield op


def split_ifs(module: Operation) -> Found:
    for op in find(module, scf.IfOp):
        following = op.next_op
        if not isinstance(following, scf.IfOp) or op.results or following.results:
            continue
        if following.cond == op.cond:
            yield op


def unbound(module: Operation) -> Found:
    for pipeline in find(module, tile.PipelineOp):
        for op in find(pipeline, scf.IfOp):
            whole = not op.false_region.blocks and len(acting(op.true_region.block)) == 1
            if holds_tile_ops(op) and not whole:
                yield op


def not_planned(module: Operation) -> Found:
    for op in module.walk():
        if isinstance(op, tile.CopyOp) and (op.is_load or op.is_store) and op.loader is None:
            yield op
        inside = isinstance(op.parent_op(), tile.PipelineOp)
        if inside and isinstance(op, tile.CopyOp | tile.ContractOp) and op.stage is None:
            yield op


def open_layouts(module: Operation) -> Found:
    for op in module.walk():
        if isinstance(op, tile.ContractOp | tile.MapOp):
            for value in op.operands:
                kind = value.type
                if isinstance(kind, SharedType) and kind.swizzle_bytes is None:
                    yield op
                if isinstance(kind, FragmentType) and not isinstance(
                    kind.layout, FragmentLayoutAttr
                ):
                    yield op


def without_slots(module: Operation) -> Found:
    for pipeline in find(module, tile.PipelineOp):
        stages = pipeline.stages.value.data
        for copy in find(pipeline, tile.CopyOp):
            kind = copy.target.type
            assert isinstance(kind, SharedType)
            if stages > 1 and (copy.slot is None or kind.ring.data != stages):
                yield copy
        for op in find(pipeline, tile.ContractOp):
            for value, slot in ((op.lhs, op.lhs_slot), (op.rhs, op.rhs_slot)):
                kind = value.type
                assert isinstance(kind, SharedType)
                if kind.ring.data > 1 and slot is None:
                    yield op


def unspecialised(module: Operation) -> Found:
    for op in find(module, tile.PipelineOp):
        copies, contracts = find(op, tile.CopyOp), find(op, tile.ContractOp)
        if all(c.loader and c.loader.data == "tma" for c in copies) and all(
            c.mma.data == "wgmma" for c in contracts
        ):
            yield op


def asks_for_two_buffers(module: Operation) -> Found:
    return (op for op in find(module, tile.ContractOp) if op.buffers > 1)


def unordered_stores(module: Operation) -> Found:
    for op in find(module, tile.CopyOp):
        by_tma = op.is_store and op.loader is not None and op.loader.data == "tma"
        if by_tma and op.token is None and op.store_groups is None:
            yield op


def tokens(module: Operation) -> Found:
    for op in module.walk():
        if any(isinstance(v.type, TokenType) for v in op.operands):
            yield op


def rings(module: Operation) -> Found:
    for op in module.walk():
        if isinstance(op, tile.GridSignalOp | tile.GridWaitOp):
            yield op
        if any(isinstance(v.type, RingType | OrderType) for v in (*op.operands, *op.results)):
            yield op


def unordered_tiles(module: Operation) -> Found:
    return (op for op in find(module, KernelOp) if planned(op))


def unordered_wgmma(module: Operation) -> Found:
    yield from find(module, tile.AwaitOp)
    for op in find(module, hw.WgmmaOp):
        before = isinstance(op.prev_op, hw.WgmmaOp | hw.WgmmaFenceOp)
        after = isinstance(op.next_op, hw.WgmmaOp | hw.WgmmaCommitOp)
        if not (before and after):
            yield op


def unguarded(module: Operation) -> Found:
    for op in module.walk():
        if isinstance(op, GLOBAL) and len(op.indices) and op.predicate is None:
            yield op


def changes(name: str) -> Callable[[Operation], Found]:
    """Whether the pass ``name``, run again, would change something."""

    def found(module: Operation) -> Found:
        before = printed(module)
        assert isinstance(module, ModuleOp)
        if printed(run(module.clone(), name)) != before:
            yield module

    return found


def with_budget(module: Operation) -> Found:
    return (op for op in find(module, tile.RolesOp) if any(op.register_split))


def at_coordinates(module: Operation) -> Found:
    for op in module.walk():
        if isinstance(op, GLOBAL) and [i.type for i in op.indices] != [i64]:
            yield op


def invariant(module: Operation) -> Found:
    for loop in find(module, scf.ForOp):
        for op in loop.body.block.ops:
            outside = all(not within(v.owner, loop) for v in op.operands)
            if outside and is_side_effect_free(op) and not op.has_trait(IsTerminator):
                yield op


def within(owner: Operation | Block, loop: scf.ForOp) -> bool:
    block = owner if isinstance(owner, Block) else owner.parent
    return block is loop.body.block


def not_placed(module: Operation) -> Found:
    for op in module.walk():
        if isinstance(op, hw.SharedTileOp | hw.MBarrierOp) and op.offset is None:
            yield op
        if isinstance(op, KernelOp) and op.shared_bytes is None:
            yield op
        if type(op) in tile.TILE_OPS:
            yield op


BREAKS: dict[str, Callable[[Operation], Found]] = {
    "gpu-share-kernels": changes("gpu-share-kernels"),
    "gpu-bind-target": without_target,
    "gpu-overlap-launches": alone,
    "gpu-assumptions": nothing,
    "gpu-inline-lets": named_parts,
    "gpu-bind-ifs": unbound,
    "gpu-pipeline-planning": not_planned,
    "gpu-cache-hints": nothing,
    "gpu-share-reads": changes("gpu-share-reads"),
    "gpu-prefetch-reads": changes("gpu-prefetch-reads"),
    "gpu-partial-lanes": changes("gpu-partial-lanes"),
    "gpu-multi-version-buffers": without_slots,
    "gpu-warp-specialize": unspecialised,
    "gpu-skew": changes("gpu-skew"),
    "gpu-turns": changes("gpu-turns"),
    "gpu-known-conditions": changes("gpu-known-conditions"),
    "gpu-split-steps": changes("gpu-split-steps"),
    "gpu-layout-inference": open_layouts,
    "gpu-inject-pipeline": of(tile.PipelineOp),
    "gpu-double-buffer-fragments": asks_for_two_buffers,
    "gpu-inject-tma-barriers": silent_loads,
    "gpu-resolve-tokens": tokens,
    "gpu-check-rings": nothing,
    "gpu-lower-barriers": rings,
    "gpu-store-waits": unordered_stores,
    "gpu-insert-barriers": unordered_tiles,
    "gpu-lower-tile-ops": of(
        tile.CopyOp,
        tile.ContractOp,
        tile.FillOp,
        tile.MapOp,
        tile.ReduceOp,
        tile.FragmentOp,
        UnrealizedConversionCastOp,
    ),
    "gpu-wgmma-sync": unordered_wgmma,
    "gpu-legalize-access": unguarded,
    "gpu-vectorize": changes("gpu-vectorize"),
    "gpu-coalesce-stores": changes("gpu-coalesce-stores"),
    "gpu-lower-coordinates": of(tile.TileCoordinatesOp, tile.TileLoopOp),
    "gpu-set-max-registers": with_budget,
    "gpu-lower-roles": of(tile.RolesOp),
    "gpu-linearize-access": at_coordinates,
    "gpu-lower-shared-layout": of(tile.ElementAddressOp),
    "gpu-hoist-invariants": invariant,
    "gpu-roll-maps": changes("gpu-roll-maps"),
    "gpu-load-ahead": changes("gpu-load-ahead"),
    "gpu-group-functions": changes("gpu-group-functions"),
    "gpu-merge-ifs": split_ifs,
    "gpu-plan-shared-memory": not_placed,
}
"""What a module may not have after a pass and after all later ones."""

LATER = {
    "gpu-known-conditions",
    "gpu-split-steps",
    "gpu-inline-lets",
    "gpu-insert-barriers",
    "gpu-vectorize",
    "gpu-coalesce-stores",
}
"""Checked right after the pass alone: later passes take away what it decides by."""


IDLE = {
    "gpu-assumptions",
    "gpu-bind-ifs",
    "gpu-cache-hints",
    "gpu-check-rings",
    "gpu-double-buffer-fragments",
    "gpu-group-functions",
    "gpu-hoist-invariants",
    "gpu-inline-lets",
    "gpu-insert-barriers",
    "gpu-legalize-access",
    "gpu-linearize-access",
    "gpu-load-ahead",
    "gpu-lower-barriers",
    "gpu-lower-roles",
    "gpu-lower-shared-layout",
    "gpu-merge-ifs",
    "gpu-partial-lanes",
    "gpu-prefetch-reads",
    "gpu-resolve-tokens",
    "gpu-roll-maps",
    "gpu-set-max-registers",
    "gpu-share-kernels",
    "gpu-share-reads",
    "gpu-skew",
    "gpu-split-steps",
    "gpu-store-waits",
    "gpu-turns",
    "gpu-wgmma-sync",
}
"""Passes of which the last column holds before them for these kernels, or is no op's."""


def test_every_pass_says_what_holds() -> None:
    assert list(BREAKS) == ORDER


KINDS = ("tma", "padded", "cp_async", "cp_async16", "scalar")
"""Schedules of a product that are unlike in more than their tiles."""

BORDER = 13
"""After so many passes each what all before have promised is asked again."""


@pytest.mark.parametrize(
    ("name", "arch"), [("gemm_bias_relu.mlir", "sm_80"), ("gemm_bias_relu_bf16.mlir", "sm_90a")]
)
def test_what_a_pass_promises_holds_from_then_on(root: Path, name: str, arch: str) -> None:
    ctx = make_context()
    module = parse_text(ctx, (root / "examples" / name).read_text(), name)
    for border in PIPELINE:
        if border not in GPU_PASSES:
            apply(module, border, arch)
        if border == "plan-select":
            leave_only(module, *KINDS)
    if arch == "sm_90a":
        # What does not hold yet is what the pass has to do.
        for step in ORDER:
            if step not in IDLE | LATER:
                assert any(BREAKS[step](module)), f"{step} has nothing to do"
    for i, step in enumerate(ORDER):
        run(module, step)
        # All promises at some borders and at the end: what a pass breaks stays broken.
        whole = i % BORDER == 0 or step == ORDER[-1]
        for done in ORDER[: i + 1] if whole else [step]:
            if done not in LATER or done == step:
                broken = [op.name for op in BREAKS[done](module)]
                assert not broken, f"after {step}, {done} does not hold: {broken[:3]}"


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_pass_has_nothing_to_do_twice(root: Path, arch: str) -> None:
    """Each pass is run again on its own result, on the one way down."""
    text = (root / "examples" / "gemm_bias_relu.mlir").read_text()
    module = parse_text(make_context(), text, "g.mlir")
    for name in PIPELINE:
        apply(module, name, arch)
        if name in ORDER:
            assert printed(run(module.clone(), name)) == printed(module), name
