"""Programs of rows under plans of the user's own, and what is unlike the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.frontend import GraphOp
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import reference
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import parsed
from polyc.test.support.split_programs import leave_only
from polyc.tools.registry import make_context


def asked(text: str, folder: Path, arch: str = "sm_90a", **fields: object) -> ModuleOp:
    """A program under a plan of the user's own, at the tile level; its variant alone where the plan
    names one.
    """
    path = folder / "plan.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    module = parsed(text)
    for border in ABOVE_GPU:
        build(border, arch, str(path)).apply(make_context(), module)
        if border == "plan-select" and "variant" in fields:
            leave_only(module, str(fields["variant"]))
    verify(module)
    return module


def mismatch(source: GraphOp, sizes: dict[str, int], inputs: Any, found: Any) -> str | None:
    """What is unlike the reference, if anything is (S0.6)."""
    for spec, one, want in zip(
        source.outputs, found, reference(source, inputs, sizes), strict=True
    ):
        unlike = tolerance_check(np.asarray(one), want, spec.type.element_type)
        if unlike is not None:
            return str(unlike)
    return None
