"""Ctrl-C: one line and exit code 130, in imports, passes, NVRTC, the simulator and the output."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.root import ROOT
from polyc.tools.errors import guarded
from polyc.tools.interrupt import EXIT_CODE, MESSAGE, line, wants_json

EXAMPLE = str(ROOT / "examples" / "gemm_bias_relu.mlir")
SIZES = ("--set", "M=256", "--set", "N=256", "--set", "K=256")
SIMULATE = ("simulate", EXAMPLE, "--arch", "sm_80", *SIZES)
ROOM = 4096
"""Bytes that a small pipe holds before who writes to it has to wait."""
LINE = f"error[Interrupted]: {MESSAGE}\n"


def interrupted(
    args: tuple[str, ...], until: str, delay: float = 0.0, folder: Path | None = None
) -> tuple[str, str]:
    """What a process wrote to stdout and stderr that got SIGINT ``delay`` after stderr or stdout
    said ``until``."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT / ".typecheck"),
        "PYTHONPROFILEIMPORTTIME": "1",
        "POLYC_CACHE": "0",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if until.startswith("  ") else subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    )
    stream = process.stdout if until.startswith("  ") else process.stderr
    assert stream is not None
    for text in stream:
        if until in text:
            break
    else:
        pytest.fail(f"the process ended before {until!r}")
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 2
    assert process.returncode == EXIT_CODE, (out, err)
    return tuple(  # pyright: ignore[reportReturnType]
        "".join(s for s in (text or "").splitlines(True) if not s.startswith("import time:"))
        for text in (out, err)
    )


@pytest.mark.parametrize(
    "until", ["_thread", "polyc.dialects.common.diagnostic", "xdsl.ir", "argparse"]
)
@pytest.mark.parametrize("tool", ["polyc", "polyc_opt"])
def test_in_imports(tool: str, until: str) -> None:
    if until == "_thread":
        until, delay = "polyc.tools.interrupt", 0.01
    else:
        delay = 0.0
    assert interrupted((f"polyc.tools.{tool}", EXAMPLE), until, delay) == ("", LINE)


@pytest.mark.parametrize(
    ("args", "until", "delay"),
    [
        (
            ("polyc", "compile", EXAMPLE, "--arch", "sm_90a"),
            "polyc.passes.support.gpu.vectors",
            0.0,
        ),
        (("polyc_opt", EXAMPLE, "-p", "lower-to-gpu"), "polyc.families.family", 0.01),
        (("polyc", *SIMULATE), "polyc.playback.gpu.warp", 0.2),
        (("polyc", "compile", EXAMPLE, "--arch", "sm_90a", "--emit", "cubin"), "nvrtc", 0.3),
    ],
)
def test_at_work(args: tuple[str, ...], until: str, delay: float) -> None:
    """NVRTC is a long call of C, in which Python would not see the signal before it returns."""
    tool, *rest = args
    assert interrupted((f"polyc.tools.{tool}", *rest), until, delay) == ("", LINE)


def test_as_json() -> None:
    args = ("polyc.tools.polyc_opt", EXAMPLE, "--diagnostics=json", "-p", "lower-to-gpu")
    _, err = interrupted(args, "xdsl.ir")
    assert json.loads(err) == PolycError("Interrupted", MESSAGE).as_dict()


def test_while_the_output_is_written() -> None:
    """Nobody reads the pipe, so that the process waits in a write."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, ROOM)
    process = subprocess.Popen(
        [sys.executable, "-m", "polyc.tools.polyc_opt", EXAMPLE, "-p", "lower-to-gpu{arch=sm_80}"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".typecheck")},
    )
    os.close(writing)
    size = 0
    while size < ROOM and process.poll() is None:
        time.sleep(0.05)
        size = _waiting(reading)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    os.close(reading)
    assert (process.returncode, err) == (EXIT_CODE, LINE)


def _waiting(pipe: int) -> int:
    """The bytes in a pipe that nobody has read."""
    found = fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(found, sys.byteorder)


def test_where_it_is_ignored_it_stays_ignored() -> None:
    """As under nohup, and for the jobs in the background of a script."""
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from polyc.tools.interrupt import watch; watch([])\n"
        "signal.raise_signal(signal.SIGINT); print('alive')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".typecheck")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_a_run_in_this_process(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> int:
        raise KeyboardInterrupt

    assert guarded(stopped) == EXIT_CODE
    assert capsys.readouterr().err == LINE == line(False)
    assert wants_json(["--diagnostics", "json"]) and not wants_json(["json"])


def test_something_to_keep_is_asked_first_and_the_next_ctrl_c_ends_it() -> None:
    program = """
import sys, threading, time
from polyc.tools.interrupt import instead, watch
watch([])
asked = threading.Event()
with instead(asked.set):
    print("ready", flush=True)
    assert asked.wait(20)
    print("kept", flush=True)
    time.sleep(20)
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".typecheck")}
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    for word in ("ready", "kept"):
        assert process.stdout.readline() == f"{word}\n"
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (EXIT_CODE, LINE)
