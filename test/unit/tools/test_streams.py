"""Where an output cannot be written, the true reason is told, with the file."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.root import ROOT
from polyc.tools import polyc, polyc_opt, streams
from polyc.tools.errors import ENDED_BY_PIPE

EXAMPLE = str(ROOT / "examples" / "rms_norm.mlir")
LONG = str(ROOT / "examples" / "gemm_bias_relu.mlir")
"""An example whose kernels are more than a pipe holds."""
SIZES = ("--set", "M=8", "--set", "N=8")
COMPILE = ("compile", EXAMPLE, "--arch", "sm_80")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "dangling").symlink_to("nowhere/x")
    (tmp_path / "loop").symlink_to("loop")
    return tmp_path


PATHS = [
    ("/proc/x", "/proc/x: error[NoPermission]: the system lets nothing be made in /proc"),
    ("/proc/x/y", "/proc/x: error[NoPermission]: the system lets nothing be made in /proc"),
    ("/dev/full", "/dev/full: error[DiskFull]: no space left on the device"),
    ("folder", "folder: error[NotAFile]: it is a directory; name a file"),
    ("file/x", "file/x: error[FileNotFound]: a part of the path is not a directory"),
    ("dangling", "dangling: error[FileNotFound]: it is a link to nowhere/x, which is not there"),
    ("loop", "loop: error[InputOutput]: Too many levels of symbolic links"),
    ("a" * 300, f"{'a' * 300}: error[InputOutput]: File name too long"),
]


@pytest.mark.parametrize(("path", "says"), PATHS)
def test_a_file_that_cannot_be_written(
    here: Path, capsys: pytest.CaptureFixture[str], path: str, says: str
) -> None:
    assert polyc_opt.main([EXAMPLE, "-o", path]) == 1
    assert capsys.readouterr().err == says + "\n"
    with pytest.raises(PolycError) as caught:
        streams.write(path, b"0" * 10)
    assert caught.value.format() == says


@pytest.mark.parametrize(
    "args",
    [
        (*COMPILE, "-o", "/dev/full"),
        ("simulate", EXAMPLE, "--arch", "sm_80", *SIZES, "--json", "/dev/full"),
        ("simulate", EXAMPLE, "--arch", "sm_80", *SIZES, "--timeline", "/dev/full"),
    ],
)
def test_every_file_of_a_command(
    here: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    assert polyc.main(args) == 1
    assert capsys.readouterr().err == "/dev/full: error[DiskFull]: no space left on the device\n"


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("file", "file: error[NotAFolder]: it is a file; name a folder"),
        ("file/x", "file/x: error[FileNotFound]: a part of the path is not a directory"),
        ("/proc/x", "/proc/x: error[NoPermission]: the system lets nothing be made in /proc"),
        ("dangling", "dangling: error[FileNotFound]: it is a link to nowhere/x, which is not th"),
    ],
)
def test_a_folder_that_cannot_be_made(
    here: Path, capsys: pytest.CaptureFixture[str], folder: str, says: str
) -> None:
    assert polyc.main([*COMPILE, "-o", "k.cu", "--dump", "tiny", "--dump-dir", folder]) == 1
    assert capsys.readouterr().err.startswith(says)
    layouts = ["simulate", EXAMPLE, "--arch", "sm_80", *SIZES, "--layouts", folder]
    assert polyc.main(layouts) == 1
    assert capsys.readouterr().err.startswith(says)


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "error[NoPermission]: permission denied"),
        (errno.EPERM, "error[NoPermission]: the system does not permit it"),
        (errno.EROFS, "error[NoPermission]: the file system is read-only"),
        (errno.EDQUOT, "error[DiskFull]: the quota of the disk is used up"),
        (errno.EIO, "error[InputOutput]: Input/output error"),
        (errno.EMFILE, "error[InputOutput]: Too many open files"),
    ],
)
def test_what_the_system_answers(monkeypatch: pytest.MonkeyPatch, number: int, says: str) -> None:
    """Whoever runs the tests may be allowed everything, so the answers are made up."""

    def answered(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", answered)
    monkeypatch.setattr(os, "makedirs", answered)
    for write in (lambda: streams.write("k.cu", b""), lambda: streams.make_folder("k.cu")):
        with pytest.raises(PolycError) as caught:
            write()
        assert caught.value.format() == f"k.cu: {says}"


def test_a_pipe_whose_reader_leaves(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A named pipe is a file like any other: only stdout's reader may go away without a word."""
    os.mkfifo("pipe")

    def read() -> None:
        with open("pipe", "rb") as file:
            file.read(1)

    reader = threading.Thread(target=read)
    reader.start()
    assert polyc_opt.main([LONG, "-p", "lower-to-gpu{arch=sm_80}", "-o", "pipe"]) == 1
    reader.join()
    assert capsys.readouterr().err == "pipe: error[InputOutput]: Broken pipe\n"


def test_folders_on_the_way_are_made(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert polyc_opt.main([EXAMPLE, "-o", "a/b/out.mlir"]) == 0
    assert (here / "a" / "b" / "out.mlir").read_text().startswith("builtin.module {")
    assert polyc.main([*COMPILE, "-o", "c/k.cu", "--dump", "tiny", "--dump-dir", "d/e"]) == 0
    assert (here / "c" / "k.cu").exists() and (here / "d" / "e" / "tiny.mlir").exists()


def shell(command: str) -> tuple[int, str]:
    """The exit code and the stderr of a line of bash; ``opt`` and ``polyc`` are the tools."""
    python = f"{sys.executable} -m polyc.tools."
    text = command.replace("opt ", f"{python}polyc_opt ").replace("polyc ", f"{python}polyc ")
    done = subprocess.run(
        ["bash", "-c", text],
        env={**os.environ, "PYTHONPATH": str(ROOT / ".typecheck")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


FULL = "<stdout>: error[DiskFull]: no space left on the device\n"
CLOSED = "error[InputOutput]: it is closed\n"


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (f"opt {EXAMPLE} > /dev/full", 1, FULL),
        ("opt --list-passes > /dev/full", 1, FULL),
        (f"opt {EXAMPLE} -p frontend-to-tiny,dce --print-between-passes > /dev/full", 1, FULL),
        (f"polyc {' '.join(COMPILE)} > /dev/full", 1, FULL),
        (f"polyc {' '.join(COMPILE)} -o /dev/null > /dev/full", 1, FULL),
        (f"polyc analyze {EXAMPLE} > /dev/full", 1, FULL),
        (f"polyc analyze {EXAMPLE} --json > /dev/full", 1, FULL),
        (f"opt {EXAMPLE} >&-", 1, f"<stdout>: {CLOSED}"),
        (f"polyc {' '.join(COMPILE)} >&-", 1, f"<stdout>: {CLOSED}"),
        (f"polyc {' '.join(COMPILE)} --emit ptx >&-", 1, f"<stdout>: {CLOSED}"),
        ("opt <&-", 1, f"<stdin>: {CLOSED}"),
        ("opt no_such_file.mlir 2>&-", 1, ""),
        ("opt no_such_file.mlir >&-", 1, "no_such_file.mlir: error[FileNotFound]: there is no"),
        (f"opt {EXAMPLE} -p lower-to-gpu | true; exit ${{PIPESTATUS[0]}}", ENDED_BY_PIPE, ""),
        (
            f"polyc {' '.join(COMPILE)} -o /dev/null | true; exit ${{PIPESTATUS[0]}}",
            ENDED_BY_PIPE,
            "",
        ),
    ],
)
def test_standard_streams(command: str, code: int, says: str) -> None:
    """The interpreter flushes stdout once more at its end, and must have nothing left to do."""
    found, err = shell(command)
    assert found == code
    assert err.startswith(says) and err.count("\n") == (1 if says else 0), err


def test_an_input_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert polyc_opt.main(["/proc/self/mem"]) == 1
    assert polyc.main(["analyze", "/proc/self/mem"]) == 1
    line = "/proc/self/mem: error[InputOutput]: Input/output error\n"
    assert capsys.readouterr().err == line * 2


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_has_not_is_escaped(
    encoding: str, here: Path, monkeypatch: pytest.MonkeyPatch
):
    name = "ü….mlir"
    (here / name).write_text("nothing")
    how = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT / ".typecheck")}
    command = [sys.executable, "-m", "polyc.tools.polyc", "run", name]
    done = subprocess.run(command, env=how, capture_output=True, check=False)
    said = "Operation nothing is not registered\n"
    assert done.returncode == 1
    assert done.stderr.decode(encoding).endswith("\\u2026.mlir:1:1: error[ParseError]: " + said)


def test_a_long_step_announces_itself_in_any_encoding(monkeypatch: pytest.MonkeyPatch):
    file = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(file, "ascii"))
    streams.mend_standard_streams()
    streams.say("…\n")
    streams.flush_stdout()
    assert file.getvalue() == b"\\u2026\n"


def test_a_stdout_of_text_alone_is_written_to(monkeypatch: pytest.MonkeyPatch):
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    streams.write("-", "kernel …\n".encode())
    streams.write("-", b"\xff")
    assert text.getvalue() == "kernel …\n\\xff"
