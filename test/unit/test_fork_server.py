"""``test/support/fork_server.py``: a command in a fork is the command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from polyc.test.support import fork_server, forked
from polyc.test.support.root import ROOT

TYPES = str(ROOT / ".typecheck")
TOOL = fork_server.TOOLS[0]


@pytest.fixture(scope="module")
def socket() -> str:
    """A server that runs while the tests do."""
    return fork_server.start(TYPES)


def run(command: Sequence[str], text: str, cwd: Path = ROOT) -> tuple[int, str, str]:
    """The exit code and what is printed for standard input of ``text``."""
    environment = os.environ | {"PYTHONPATH": TYPES}
    done = subprocess.run(
        [sys.executable, *command],
        input=text,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "text"),
    [
        ("polyc.tools.polyc_opt", ["examples/gemm_bias_relu.mlir", "-p", "frontend-to-tiny"], ""),
        ("polyc.tools.polyc_opt", ["-p", "frontend-to-tiny"], "builtin.module {}"),
        ("polyc.tools.polyc_opt", [], "builtin.module {"),
        ("polyc.tools.polyc_opt", ["-p", "none-such"], "builtin.module {}"),
        ("polyc.tools.polyc", ["analyze", "missing.mlir"], ""),
        ("filecheck", ["test/filecheck/gpu/views.mlir"], "nothing that it checks"),
    ],
)
def test_a_fork_prints_and_ends_as_a_process_does(
    socket: str, module: str, arguments: list[str], text: str
):
    alone = run(["-m", module, *arguments], text)
    tool = "filecheck.main" if module == "filecheck" else module
    assert run(["-I", "-S", forked.__file__, socket, tool, *arguments], text) == alone


def test_it_runs_where_it_is_asked(socket: str, tmp_path: Path):
    (tmp_path / "x.mlir").write_text("builtin.module {}")
    code, out, _ = run(["-I", "-S", forked.__file__, socket, TOOL, "x.mlir"], "", tmp_path)
    assert (code, out) == (0, "builtin.module {\n}\n")


def test_another_module_is_refused(socket: str):
    code, _, err = run(["-I", "-S", forked.__file__, socket, "os"], "")
    assert code == 1
    assert "os is not one of polyc.tools.polyc_opt" in err


def test_it_ends_with_the_process_that_started_it():
    code = f"from polyc.test.support import fork_server; print(fork_server.start({TYPES!r}))"
    _, out, _ = run(["-c", code], "")
    path = Path(out.strip())
    for _ in range(100):
        if not path.exists():
            return
        time.sleep(0.1)
    pytest.fail(f"{path} is there after 10 s")
