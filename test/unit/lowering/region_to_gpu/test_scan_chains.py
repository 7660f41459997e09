"""Scans by chains of tiles: what they give in every order of blocks, and what is a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i8, i32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import ui8
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.launches import LaunchOp, WorkspaceOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value
from polyc.families.scans import schedules
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback.gpu.schedule import SCHEDULES
from polyc.playback.gpu.simulate import SimulationResult, simulate
from polyc.rewriting.driver import verify
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.unit.lowering.region_to_gpu.test_scans import BEFORE, numbers, scanned, through
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("kind", "fn", "shape", "axis", "reverse", "exclusive", "variant"),
    [
        (f32, "sum", (3, 9000), 1, False, False, "vector4_chain"),
        (i32, "max", (2, 2, 8200), 2, True, True, "vector4_chain"),
        (i8, "sum", (2, 8200), 1, False, True, "vector4_chain"),
        # Before the first stands what is nothing of the type itself, which is posted in 32 bits.
        (i8, "min", (2, 8200), 1, False, True, "vector4_chain"),
        (i8, "max", (600, 36), 0, False, True, "vector4_chain"),
        (ui8, "min", (3, 2049), 1, True, True, "scalar_chain"),
        (f16, "prod", (17000,), 0, False, True, "vector8_chain"),
        (f32, "sum", (3, 2049), 1, True, True, "scalar_chain"),
        # Side by side, with strips that are not whole, and two axes of lines.
        (f32, "sum", (200, 132), 0, False, False, "vector4_chain"),
        (f32, "min", (550, 12), 0, True, False, "vector4_chain_32"),
        (i32, "max", (2, 140, 132), 1, True, True, "vector4_chain"),
        (f16, "prod", (600, 39), 0, False, True, "chain"),
        (f32, "sum", (2, 2100, 5), 1, True, False, "chain_8"),
    ],
)
def test_a_line_is_a_chain_of_tiles(
    monkeypatch: pytest.MonkeyPatch,
    kind: Attribute,
    fn: str,
    shape: tuple[int, ...],
    axis: int,
    reverse: bool,
    exclusive: bool,
    variant: str,
) -> None:
    monkeypatch.setattr(schedules, "LEAST_PARTS", 2)
    names = list("MNK"[: len(shape)])
    module = scanned(kind, fn, names, axis, reverse, exclusive)
    through(module, [numbers(kind, shape)], dict(zip(names, shape, strict=True)), variant)


# Groups of groups ------------------------------------------------------------------------------


def small(axis: int, reverse: bool, stages: int, loader: str = "register") -> ModuleOp:
    """Tiles of a warp: of lines side by side four rows, so that a group has as many tiles."""
    module = scanned(f32, "sum", ["M", "N"], axis, reverse, False)
    for name in (*BEFORE, "plan-select"):
        run_pass(make_context(), build(name, "sm_90a"), module)
    named = "vector4_chain" if axis else "vector4_chain_32"
    for plan in find(module, ScheduleOp):
        if plan.variant.data != named:
            plan.detach()
            continue
        fields = {**plan.fields(), "tile": [1, 128, 1] if axis else [4, 32, 1]}
        fields["warp_tile"] = [1, 128] if axis else [4, 32]
        fields["stages"], fields["loader"] = stages, loader
        kept: Value = {"tensor": "x", "where": "smem", "at": f"{'mn'[axis]}.o", "bytes": 4}
        fields["cache"] = [kept] if loader == "cp_async" else []
        mine = ScheduleOp("f", named, fields, ())
        parent = plan.parent_block()
        assert parent is not None
        parent.insert_op_before(mine, plan)
        plan.detach()
        plan.erase()
    return module


def lowered(
    axis: int, reverse: bool = False, stages: int = 2, loader: str = "register"
) -> gpu.ModuleOp:
    module = small(axis, reverse, stages, loader)
    run_pass(make_context(), build("region-to-gpu", "sm_90a"), module)
    verify(module)
    return only(module, gpu.ModuleOp)


def ran(kernels: gpu.ModuleOp, x: Any, **options: Any) -> SimulationResult:
    whole = kernels.parent_op()
    assert isinstance(whole, ModuleOp)
    finish(whole)
    sizes = {"M": x.shape[0], "N": x.shape[1]}
    return simulate(only(whole, gpu.ModuleOp), [x], sizes, **options)


@pytest.mark.parametrize(
    ("axis", "reverse", "stages", "loader"),
    [
        (0, False, 1, "register"),
        (0, True, 2, "register"),
        (1, False, 3, "register"),
        (1, True, 2, "register"),
        (1, False, 1, "register"),
        (0, False, 3, "cp_async"),
        (0, True, 4, "cp_async"),
        (1, False, 4, "cp_async"),
        (1, True, 3, "cp_async"),
    ],
)
def test_bits_do_not_depend_on_who_is_first(
    monkeypatch: pytest.MonkeyPatch, axis: int, reverse: bool, stages: int, loader: str
) -> None:
    """Three levels of groups where lines lie side by side, two where each lies in memory; whatever
    a block has begun at once."""
    monkeypatch.setattr(schedules, "WORDS", 1)
    shape = (1, 128 * 33 + 4) if axis else (4 * 4 * 4 + 9, 36)
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    module = scanned(f32, "sum", ["M", "N"], axis, reverse, False)
    expected = meant(module, [x], dict(zip("MN", shape, strict=True)))
    bits: set[bytes] = set()
    for seed, order in enumerate(SCHEDULES):
        found = ran(
            lowered(axis, reverse, stages, loader), x, schedule=order, seed=seed, multiprocessors=1
        )
        found.check()
        assert_agree(found.outputs, expected, order)
        bits.add(found.outputs[0].tobytes())
    assert len(bits) == 1


# Mistakes --------------------------------------------------------------------------------------


X = np.ones((67, 36), np.float32)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> gpu.ModuleOp:
    monkeypatch.setattr(schedules, "WORDS", 1)
    return lowered(0)


def test_a_post_that_is_missing_stops_all(kernels: gpu.ModuleOp) -> None:
    post = find(kernels, tile.PostOp)[0]
    post.detach()
    post.erase()
    found = ran(kernels, X).findings[0]
    assert found.kind == "Deadlock"
    assert "is not posted" in found.message


def test_a_word_is_posted_once(kernels: gpu.ModuleOp) -> None:
    post = find(kernels, tile.PostOp)[0]
    block = post.parent_block()
    assert block is not None
    block.insert_op_after(post.clone(), post)
    assert {one.kind for one in ran(kernels, X).findings} == {"PostedTwice"}


def test_words_are_nothing_at_first(kernels: gpu.ModuleOp) -> None:
    space = find(kernels, WorkspaceOp)[0]
    space.properties.pop("zeroed")
    found = ran(kernels, X).findings[0]
    assert found.kind == "Uninitialised"
    assert "make the workspace zeroed" in found.message


def test_blocks_that_look_back_run_at_once(kernels: gpu.ModuleOp) -> None:
    (launch,) = find(kernels, LaunchOp)
    launch.properties.pop("cooperative")
    with pytest.raises(PolycError, match="this launch does not run them at once"):
        ran(kernels, X)


# Schedules -------------------------------------------------------------------------------------


def planned(module: ModuleOp, arch: str = "sm_90a") -> ModuleOp:
    for name in (*BEFORE, "plan-select"):
        run_pass(make_context(), build(name, arch), module)
    return module


def test_chains_are_for_few_lines_and_long() -> None:
    def first(rows: int, columns: int, axis: int) -> str:
        module = planned(scanned(f32, "sum", [rows, columns], axis, False, False))
        return find(module, ScheduleOp)[0].variant.data

    assert first(32, 1 << 20, 1) == "vector4_chain"
    assert first(200, 1 << 20, 1) == "vector4_chain"
    assert first(300, 1 << 20, 1) == "vector4"
    assert first(32, 1 << 26, 1) == "vector4_chain"
    assert first(16384, 1 << 16, 1) == "vector4"
    assert first(32, 1 << 14, 1) == "vector4"
    assert first(16384, 4096, 0) == "vector4_chain"
    assert first(1 << 20, 30, 0) == "chain"
    assert first(1 << 20, 32, 0) == "vector4_chain_32"
    assert first(1 << 20, 3, 0) == "chain_8"
    assert first(256, 4096, 0) == "scalar"
    assert first(256, 1 << 20, 0) == "vector4"


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("long", [False, True])
def test_chains_compile_without_a_spill(axis: int, long: bool, arch: str) -> None:
    s = Sketch("f", f16 if long else f32)
    x, y = s.input("x", "M", "N"), s.input("y", "M", "N")
    first = s.fn("mul", s.fn("tanh", x), y) if long else x
    found = s.add(frontend.ScanOp("sum", first, axis, reverse=long))
    last = s.fn("add", s.fn("gelu", found), s.fn("exp", y)) if long else found
    module = planned(s.done(z=last), arch)
    for plan in find(module, ScheduleOp):
        if "chain" not in plan.variant.data:
            plan.detach()
    run_pass(make_context(), build("region-to-gpu", arch), module)
    finish(module)
    built = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not built.warnings()
    assert len(built.kernels) == (2 if axis else 4)
    for name, one in built.kernels.items():
        assert (one.spill_bytes, one.stack) == (0, 0), name
