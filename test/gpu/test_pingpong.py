"""Consumers that take turns on the GPU: what the simulator's kernels compute, a GPU's do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyc.dialects.frontend import GraphOp
from polyc.playback.reference import make_inputs
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.pingpong_programs import CASES, turns
from polyc.test.support.split_programs import plain, run, written
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

LARGE: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "many tiles of each": (turns(256, stages=4), {"M": 1160, "N": 4104, "K": 520}),
    "many of three": (turns(consumers=3), {"M": 3000, "N": 3000, "K": 136}),
}


@pytest.mark.parametrize("name", [*CASES, *LARGE])
def test_consumers_in_turns(name: str, tmp_path: Path) -> None:
    """Three launches, which find the barriers as the first one left them, have the same bits."""
    if not driver.device().runs("sm_90a"):
        pytest.skip("this GPU has no WGMMA of sm_90a")
    make, fields, sizes = CASES[name] if name in CASES else (plain, *LARGE[name])
    module = make()
    parsed = parse_text(make_context(), str(module), "turns.mlir")
    inputs = make_inputs(only(parsed, GraphOp), sizes, 4)
    program = Program.compile(run(module, "gpu", written(tmp_path, fields)))
    variant = next(one for one in program.variants if one.endswith("_tma"))
    runs = [[np.asarray(a) for a in program.run(inputs, sizes, variant=variant)] for _ in range(3)]
    assert_agree(runs[0], meant(parsed, inputs, sizes), name)
    for again in runs[1:]:
        assert [a.tobytes() for a in again] == [a.tobytes() for a in runs[0]]
