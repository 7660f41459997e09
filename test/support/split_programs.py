"""Products whose plans split k: the programs, the plans, and both through the passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

from polyc.dialects.frontend import GraphOp
from polyc.dialects.plan import ScheduleOp
from polyc.passes.pipeline import STAGES, build
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

SMALL = {"tile": [64, 64, 64], "warp_tile": [64, 64], "consumers": 1}
WIDE = {"tile": [64, 128, 64], "warp_tile": [64, 128], "consumers": 1}
HIGH = {"tile": [128, 64, 64], "warp_tile": [64, 64], "consumers": 2}


def split(parts: int, tile: Mapping[str, Any] = WIDE, **more: Any) -> dict[str, Any]:
    """A plan by which clusters of ``parts`` CTAs share a tile of any depth."""
    when = ["K mod 8 == 0", "N mod 8 == 0", "K >= 1"]
    return {
        "variant": "tma",
        "persistent": False,
        "registers": [],
        "split_k": parts,
        "stages": 4,
        "when": when,
        **tile,
        **more,
    }


# Programs ------------------------------------------------------------------------------


def plain(m: Size = "M", n: Size = "N", k: Size = "K", element: object = f16) -> ModuleOp:
    s = Sketch("plain", bf16 if element is bf16 else f16)
    return s.done(y=s.linear(s.input("x", m, k), "w", n))


def residual() -> ModuleOp:
    """A bias of the columns, a function, and a residual."""
    s = Sketch("residual")
    x, skip = s.input("x", "M", "K"), s.input("skip", "M", "N")
    return s.done(y=s.fn("add", s.fn("gelu", s.linear(x, "w", "N", bias=True)), skip))


def across() -> ModuleOp:
    """The second factor's rows lie along k, and the output is f32."""
    s = Sketch("across")
    x, w = s.input("x", "M", "K"), s.input("w", "K", "N")
    return s.done(y=s.cast(s.fn("relu", s.gemm(x, w)), f32))


def batched() -> ModuleOp:
    s = Sketch("batched")
    x, w = s.input("x", "B", "M", "K"), s.input("w", "B", "N", "K")
    return s.done(y=s.fn("tanh", s.gemm(x, w, turned=True)))


def gated() -> ModuleOp:
    """Two products that share the operand of their rows."""
    s = Sketch("gated")
    x = s.input("x", "M", "K")
    return s.done(y=s.fn("mul", s.fn("silu", s.linear(x, "a", "N")), s.linear(x, "b", "N")))


def run(
    module: ModuleOp,
    last: str,
    plan: str | None = None,
    arch: str = "sm_90a",
    variant: str | None = None,
    leave: Callable[[ModuleOp], None] | None = None,
) -> ModuleOp:
    """A program after the stage ``last``, with a user's plan, whose region has no other then; or
    with one of the compiler's, of this ``variant``, or with those that ``leave`` leaves.
    """
    ctx = make_context()
    found = parse_text(ctx, str(module), "split.mlir")
    for stage, names in STAGES.items():
        for name in names:
            build(name, arch, plan).apply(ctx, found)
            if name == "plan-select" and plan is not None:
                variant = str(json.loads(Path(plan).read_text("utf-8"))["variant"])
            if name == "plan-select" and variant is not None:
                leave_only(found, variant)
            if name == "plan-select" and leave is not None:
                leave(found)
        if stage == last:
            break
    return found


def leave_only(module: ModuleOp, *variants: str) -> None:
    """Leave regions that have a schedule of these names without others."""
    found = find(module, ScheduleOp)
    having = {op.region for op in found if op.variant.data in variants}
    for op in found:
        if op.region in having and op.variant.data not in variants:
            op.detach()


def written(folder: Path, plan: Mapping[str, Any]) -> str:
    """The file of a plan."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    return str(file)


def wanted_of(module: ModuleOp, sizes: Mapping[str, int]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Inputs, and what the program means on them."""
    frontend = parse_text(make_context(), str(module), "split.mlir")
    inputs = make_inputs(only(frontend, GraphOp), sizes, 4)
    return inputs, meant(frontend, inputs, sizes)
