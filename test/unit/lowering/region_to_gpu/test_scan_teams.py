"""Scans of long lines by teams of blocks: what they give, what they ask, and how many there are."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.plan import ScheduleOp
from polyc.families.scans import schedules
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.unit.lowering.region_to_gpu.test_scans import BEFORE, numbers, scanned, through
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("kind", "fn", "shape", "reverse", "exclusive", "variant"),
    [
        (f32, "sum", (3, 9000), False, False, "vector4_team"),
        (i32, "max", (2, 2, 9000), True, True, "vector4_team"),
        (f16, "prod", (17000,), False, True, "vector8_team"),
        (f32, "min", (5, 8192), True, False, "vector4_team"),
    ],
)
def test_a_line_is_shared_by_blocks(
    monkeypatch: pytest.MonkeyPatch,
    kind: Attribute,
    fn: str,
    shape: tuple[int, ...],
    reverse: bool,
    exclusive: bool,
    variant: str,
) -> None:
    """Lines of two tiles and of several, the last of which is not whole."""
    monkeypatch.setattr(schedules, "LEAST_PARTS", 2)
    names = list("MNK"[: len(shape)])
    module = scanned(kind, fn, names, len(shape) - 1, reverse, exclusive)
    through(module, [numbers(kind, shape)], dict(zip(names, shape, strict=True)), variant)


def planned(module: ModuleOp) -> ModuleOp:
    """With the plan of teams alone."""
    for name in (*BEFORE, "plan-select"):
        run_pass(make_context(), build(name, "sm_90a"), module)
    for plan in find(module, ScheduleOp):
        if plan.variant.data != "vector4_team":
            plan.detach()
    return module


def test_teams_are_for_lines_whose_tiles_have_a_multiprocessor_each() -> None:
    module = planned(scanned(f32, "sum", ["M", "N"], 1, False, False))
    (plan,) = find(module, ScheduleOp)

    def taken(rows: int, columns: int) -> bool:
        return all(fact.holds({"M": rows, "N": columns}) for fact in plan.when.data)

    assert taken(5, 70000)
    assert taken(1, 132 * 4096)
    # More tiles than multiprocessors: chains overlap those of a block.
    assert not taken(1, 132 * 4096 + 4)
    assert not taken(5, 27 * 4096)
    assert not taken(32, 1 << 20)
    assert not taken(5, 20000)


def test_a_team_runs_at_once() -> None:
    module = planned(scanned(f32, "sum", ["M", "N"], 1, False, False))
    sizes = {"M": 32, "N": 1 << 20}
    run_pass(make_context(), build("region-to-gpu", "sm_90a"), module)
    launch = next(op for op in find(module, LaunchOp) if op.kernel_name == "f_vector4_team")
    kernel = next(op for op in find(module, gpu.KernelOp) if op.sym_name.data == launch.kernel_name)
    assert kernel.blocks_per_sm.value.data == schedules.ROOM
    assert launch.blocks(sizes, 132, kernel) == 512  # two teams of 256
    assert launch.crowded(sizes, 132, kernel) is None
    assert launch.crowded(sizes, 60, kernel) is not None


@pytest.mark.parametrize("long", [False, True])
def test_teams_compile_without_a_spill(long: bool) -> None:
    s = Sketch("f", f32)
    x, y = s.input("x", "M", "N"), s.input("y", "M", "N")
    first = s.fn("mul", s.fn("tanh", x), y) if long else x
    found = s.add(frontend.ScanOp("sum", first, 1, reverse=long))
    last = s.fn("add", s.fn("gelu", found), s.fn("exp", y)) if long else found
    module = planned(s.done(z=last))
    assert len(find(module, ScheduleOp)) == 1
    run_pass(make_context(), build("region-to-gpu", "sm_90a"), module)
    finish(module)
    built = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), "sm_90a")
    assert not built.warnings()
    assert all((one.spill_bytes, one.stack) == (0, 0) for one in built.kernels.values())
