"""A second process runs what a first one compiled, and imports nothing that compiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from polyc.test.support.root import ROOT

TEXT = """
frontend.graph @twice(%x: !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32> {
  %0 = frontend.elementwise add %x, %x
      : (!frontend.tensor<[M, K], f32>, !frontend.tensor<[M, K], f32>) -> !frontend.tensor<[M, K], f32>
  frontend.output %0 : !frontend.tensor<[M, K], f32>
}
"""  # noqa: E501


def start(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "twice.mlir"
    path.write_text(TEXT)
    done = subprocess.run(
        [sys.executable, "-m", "polyc.test.support.warm_start", str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={
            **{k: v for k, v in os.environ.items() if k != "POLYC_CACHE"},
            "PYTHONPATH": str(ROOT / ".typecheck"),
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_new_process_lowers_and_imports_nothing(tmp_path: Path):
    first = start(tmp_path)
    assert "xdsl" in first["imported"] and first["retraced"] == [None, None]
    second = start(tmp_path)
    assert second["imported"] == []
    assert second == first | {"imported": []} and second["launches"] == 8
