"""docs/tutorials/tile-python.md: its files print what is below them, and has every name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import polyc.tile
from polyc.playback import tile
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT

DOC = ROOT / "docs" / "tutorials" / "tile-python.md"
FILE = re.compile(
    r"^```python file=(\S+)\n(.*?)^```$\n\n^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
FILES = {name: (body, shown) for name, body, shown in FILE.findall(DOC.read_text("utf-8"))}


def test_the_page_has_its_files() -> None:
    assert list(FILES) == ["gemm.py", "on_cpu.py", "sequence.py", "mask.py", "wrong.py"]
    assert DOC.read_text("utf-8").count("```python") == len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_file_prints_what_the_page_shows(name: str, tmp_path: Path) -> None:
    body, shown = FILES[name]
    (tmp_path / "gemm.py").write_text(FILES["gemm.py"][0], "utf-8")
    (tmp_path / name).write_text(body, "utf-8")
    done = subprocess.run(
        [sys.executable, name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".typecheck")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.replace(f"{tmp_path}/", "")
    if name == "on_cpu.py":  # what it imports prints too
        printed = printed.splitlines(keepends=True)[-1]
    assert printed.startswith(shown)
    if name != "gemm.py":  # the page shows the first lines of that
        assert printed == shown


@pytest.mark.parametrize(("command", "shown"), blocks(DOC.read_text("utf-8"), "shows"))
def test_commands_print_what_the_page_shows(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    shown: str,
) -> None:
    (tmp_path / "gemm.py").write_text(FILES["gemm.py"][0], "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "gemm", raising=False)
    check_shown(command, shown, capsys)


def kernel(name: str, program: str) -> Any:
    """A program of the page."""
    scope: dict[str, object] = {"__name__": "page"}
    exec(compile(FILES[name][0], name, "exec"), scope)
    return gpu_module_of(cast("Any", scope[program]).module())


def test_kernels_compute_what_the_page_says() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (37, 200)).astype(np.float32)
    (sums,) = tile.run(kernel("sequence.py", "column_sum"), [x], {"M": 37, "N": 200})
    np.testing.assert_array_equal(sums, x.sum(0))
    x = rng.standard_normal((3, 77)).astype(np.float16)
    (found,) = tile.run(kernel("mask.py", "softmax"), [x], {"M": 3, "N": 77})
    power = np.exp(x.astype(np.float32))
    np.testing.assert_allclose(found, power / power.sum(1, keepdims=True), atol=1e-3)
    a, b = (rng.integers(-2, 3, s).astype(np.float16) for s in ((70, 24), (24, 40)))
    (c,) = tile.run(kernel("gemm.py", "gemm"), [a, b], {"M": 70, "K": 24, "N": 40})
    np.testing.assert_array_equal(c, np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0))


@pytest.mark.parametrize("name", [n for n in FILES if n not in ("on_cpu.py", "wrong.py")])
def test_kernels_are_compiled(name: str) -> None:
    program = {"gemm.py": "gemm", "sequence.py": "column_sum", "mask.py": "softmax"}[name]
    scope: dict[str, object] = {"__name__": "page"}
    exec(compile(FILES[name][0], name, "exec"), scope)
    compiled = cast("Any", scope[program]).compile()
    assert all(info.spill_bytes == 0 for info in compiled.kernels.values())


def test_every_name_on_the_page_is_offered() -> None:
    named = set(re.findall(r"\bT\.(\w+)", DOC.read_text("utf-8")))
    assert named - set(polyc.tile.__all__) == set()


def test_every_name_that_is_offered_has_its_meaning() -> None:
    for name in polyc.tile.__all__:
        thing = getattr(polyc.tile, name)
        assert not callable(thing) or thing.__doc__, name
