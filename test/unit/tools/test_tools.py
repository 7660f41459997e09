"""polyc-opt: what it reads and prints, and that every error is one sentence and exit code 1."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.root import ROOT
from polyc.tools.errors import guarded
from polyc.tools.parsing import parse_text
from polyc.tools.polyc_opt import main
from polyc.tools.registry import PassRegistry, make_context
from polyc.tools.steps import Steps

EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"


def opt(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of polyc-opt, run in this process."""
    capsys.readouterr()
    code = main([str(a) for a in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refusal(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    """The one line that a run is refused with."""
    code, _, err = opt(capsys, *args)
    assert code == 1
    assert err.endswith("\n") and err.count("\n") == 1, err
    assert "Traceback" not in err
    return err.rstrip()


def write(folder: Path, text: str | bytes, name: str = "in.mlir") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Reading and printing ----------------------------------------------------------------------


def test_example_prints_what_it_parses(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, first, _ = opt(capsys, EXAMPLE)
    assert code == 0
    code, second, _ = opt(capsys, write(tmp_path, first))
    assert code == 0
    assert second == first


def test_every_op_has_the_place_of_its_text():
    text = EXAMPLE.read_text()
    lines = text.splitlines()
    module = parse_text(make_context(), text, "x.mlir")
    for op in module.walk():
        assert isinstance(op.location, FileLineColLoc)
        assert op.location.filename.data == "x.mlir"
        if not isinstance(op, ModuleOp):
            line, column = op.location.line.data, op.location.column.data
            assert op.name in lines[line - 1][column - 1 :]


def test_a_location_in_the_text_is_kept():
    text = '%0 = arith.constant 1 : i32 loc("user.py":7:9)'
    op = parse_text(make_context(), text, "x.mlir").body.block.first_op
    assert op is not None
    assert str(op.location) == 'loc("user.py":7:9)'


def test_locations_are_printed_and_read_back(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    _, first, _ = opt(capsys, EXAMPLE, "--print-debuginfo")
    assert f'loc("{EXAMPLE}":8:3)' in first
    _, second, _ = opt(capsys, write(tmp_path, first), "--print-debuginfo")
    assert second == first


def test_split_input_counts_lines_of_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = write(tmp_path, "%0 = arith.constant 1 : i32\n// -----\n\n  nope.op\n// -----\n")
    code, out, _ = opt(
        capsys, path, "--split-input-file", "--parsing-diagnostics", "--verify-diagnostics"
    )
    assert code == 0
    assert f"{path}:4:3: error[ParseError]: " in out
    assert f"{path}:6:1: error[ParseError]: the text is empty" in out
    assert out.count("// -----") == 2


def test_diagnostic_flags_print_and_go_on(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = write(tmp_path, "%0 = arith.constant 1.0e10 : f16\n")
    code, out, err = opt(capsys, path, "--verify-diagnostics")
    assert (code, err) == (0, "")
    assert out.startswith(f"{path}:1:1: error[InvalidIR]: ")


def test_output_file_is_written_when_all_went_well(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    out = tmp_path / "out.mlir"
    assert opt(capsys, EXAMPLE, "-o", out)[0] == 0
    assert "frontend.graph" in out.read_text()
    refusal(capsys, write(tmp_path, "nope"), "-o", tmp_path / "other.mlir")
    assert not (tmp_path / "other.mlir").exists()


def test_upstream_passes_run(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    text = "%0 = arith.constant 1 : i32\n%1 = arith.constant 1 : i32\n"
    text += '"test.op"(%0, %1) : (i32, i32) -> ()\n'
    code, out, _ = opt(capsys, write(tmp_path, text), "-p", "cse,canonicalize")
    assert code == 0
    assert out.count("arith.constant") == 1


def test_passes_are_listed(capsys: pytest.CaptureFixture[str]):
    code, out, _ = opt(capsys, "--list-passes")
    assert code == 0
    assert {"frontend-to-tiny", "lower-to-gpu", "canonicalize"} <= set(out.split())


# Registration from outside -------------------------------------------------------------------

OUTSIDE = """
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass


@dataclass(frozen=True)
class Mark(ModulePass):
    name = "mark"
    text: str = "here"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        op.attributes["mark"] = StringAttr(self.text)


class Forgot(ModulePass):
    name = "forgot"
    limit: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


class Taken(ModulePass):
    name = "canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pass


something = 3
"""


def test_a_pass_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    outside = write(tmp_path, OUTSIDE, "outside_file.py")
    code, out, err = opt(capsys, EXAMPLE, "--load-pass", f"{outside}:Mark", "-p", "mark{text=hi}")
    assert (code, err) == (0, "")
    assert 'mark = "hi"' in out


def test_a_pass_from_a_module(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, OUTSIDE, "outside_module.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    code, out, _ = opt(capsys, EXAMPLE, "--load-pass", "outside_module:Mark", "-p", "mark")
    assert code == 0
    assert 'mark = "here"' in out


def test_a_pass_of_an_installed_package(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The entry-point group, as a package's metadata gives it."""
    write(tmp_path, OUTSIDE, "outside_plugin.py")
    info = tmp_path / "outside-1.0.dist-info"
    info.mkdir()
    write(info, "Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n", "METADATA")
    write(info, "[polyc.passes]\nmark = outside_plugin:Mark\n", "entry_points.txt")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    code, out, _ = opt(capsys, EXAMPLE, "-p", "mark")
    assert code == 0
    assert 'mark = "here"' in out
    assert "mark" in opt(capsys, "--list-passes")[1].split()


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("nothing", "not of the form"),
        ("no_such_module_here:P", "does not load"),
        ("{file}:Nope", "has no Nope"),
        ("{file}:something", "not a subclass"),
        ("{file}:Forgot", "add @dataclass(frozen=True)"),
        ("{file}:Taken", "which polyc has already"),
        ("missing_file.py:P", "does not load"),
    ],
)
def test_a_pass_that_cannot_be_added(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, reference: str, says: str
):
    outside = write(tmp_path, OUTSIDE, "outside_bad.py")
    line = refusal(capsys, EXAMPLE, "--load-pass", reference.format(file=outside))
    assert line.startswith("error[BadReference]: ")
    assert says in line


# Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "kind", "says"),
    [
        ("", ":1:1", "ParseError", "the text is empty"),
        ("% % %", ":1:1", "ParseError", "% begins a name, and no name follows"),
        ("\n  foo.bar", ":2:3", "ParseError", "there is no dialect foo"),
        ("%0 = arith.constnt 1 : i32", ":1:6", "ParseError", "did you mean arith.constant?"),
        ("frontnd.graph @f() {}", ":1:1", "ParseError", "did you mean frontend?"),
        ("builtin.module {", ":1:17", "ParseError", "is it cut off?"),
        (b"ab\ncd\xff", ":2:3", "NotText", "0xff"),
        ("%0 = arith.constant 1.0e10 : f16", ":1:1", "InvalidIR", "does not fit its type"),
        (
            '%0 = "arith.addi"(%1, %1) : (i32, i32) -> i32\n%1 = arith.constant 1 : i32',
            ":1:1",
            "UseBeforeDefinition",
            "define it earlier",
        ),
        ("\n%0 = arith.addi %1, %1 : i32", ":2:17", "ParseError", "used but not defined: [%1]"),
        (
            "%sum = arith.constant 1 : i32\n// %sun\n%0 = arith.addi %sum, %sun : i32",
            ":3:23",
            "ParseError",
            "used but not defined: [%sun]; did you mean %sum?",
        ),
        ("builtin.module {" * 2000, ":1:", "NestedTooDeep", "take a level out"),
    ],
)
def test_bad_text(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    text: str | bytes,
    place: str,
    kind: str,
    says: str,
):
    path = write(tmp_path, text)
    line = refusal(capsys, path)
    assert line.startswith(f"{path}{place}")
    assert re.match(rf"{re.escape(str(path))}:\d+:\d+: error\[{kind}\]: ", line), line
    assert says in line


@pytest.mark.parametrize("cut", range(150, EXAMPLE.stat().st_size - 2, 37))
def test_a_file_that_is_cut_off(capsys: pytest.CaptureFixture[str], tmp_path: Path, cut: int):
    path = write(tmp_path, EXAMPLE.read_bytes()[:cut])
    assert re.match(rf"{re.escape(str(path))}:\d+:\d+: error\[\w+\]: ", refusal(capsys, path))


def test_missing_file_and_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    missing = tmp_path / "nope.mlir"
    assert refusal(capsys, missing) == f"{missing}: error[FileNotFound]: there is no such file"
    assert refusal(capsys, tmp_path).startswith(f"{tmp_path}: error[NotAFile]: ")


@pytest.mark.parametrize(
    ("args", "kind", "says"),
    [
        (("-p", "frontend-to-tinny"), "UnknownPass", "did you mean frontend-to-tiny?"),
        (("-p", "qqqq"), "UnknownPass", "the passes are"),
        (("-p", "cse{a=1}"), "BadPassOption", "pass cse"),
        (("-p", "plan-select{arch=3}"), "BadPassOption", "expected <class 'str'>"),
        (("-p", "plan-select{arch=sm_80 arch=sm_90a}"), "BadPassOption", "the option arch twice"),
        (("-p", "cse{a"), "BadPipeline", "does not read"),
        (("-p", "cse, dce"), "BadPipeline", "without blanks"),
        (("-t", "nope"), "Usage", "invalid choice: 'nope'"),
        (("-t", "cuda{"), "BadPipeline", "without blanks"),
        (("--no-such-flag",), "Usage", "--no-such-flag"),
    ],
)
def test_bad_options(
    capsys: pytest.CaptureFixture[str], args: tuple[str, ...], kind: str, says: str
):
    line = refusal(capsys, EXAMPLE, *args)
    assert line.startswith(f"error[{kind}]: ")
    assert says in line


def test_errors_as_json(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = write(tmp_path, "foo.bar")
    data = json.loads(refusal(capsys, path, "--diagnostics", "json"))
    assert data["kind"] == "ParseError"
    assert (data["file"], data["line"], data["column"]) == (str(path), 1, 1)


BROKEN = '''
from dataclasses import dataclass

from xdsl.passes import ModulePass

from polyc.dialects.common.diagnostic import PolycError


@dataclass(frozen=True)
class Swap(ModulePass):
    """Leaves a value used before it is defined."""

    name = "swap"

    def apply(self, ctx, op):
        first, second = list(op.ops)[:2]
        second.detach()
        op.body.block.insert_op_before(second, first)


@dataclass(frozen=True)
class Refuse(ModulePass):
    name = "refuse"

    def apply(self, ctx, op):
        raise PolycError("NonSCoP", "because", list(op.ops)[1])


@dataclass(frozen=True)
class Fault(ModulePass):
    name = "fault"

    def apply(self, ctx, op):
        raise KeyError("x")
'''


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("Swap", "{path}:2:1: error[UseBeforeDefinition]: after swap: "),
        ("Refuse", "{path}:2:1: error[NonSCoP]: because"),
        ("Fault", "{passes}:34: error[PluginFailed]: pass fault, in Fault.apply, fails with Key"),
    ],
)
def test_a_pass_that_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, says: str
):
    passes = write(tmp_path, BROKEN, f"broken_{name}.py")
    path = write(tmp_path, "%0 = arith.constant 1 : i32\n%1 = arith.addi %0, %0 : i32\n")
    line = refusal(capsys, path, "--load-pass", f"{passes}:{name}", "-p", name.lower())
    assert line.startswith(says.format(path=path, passes=passes))
    data = json.loads(
        refusal(
            capsys,
            path,
            *("--load-pass", f"{passes}:{name}", "-p", name.lower(), "--diagnostics", "json"),
        )
    )
    assert data["layer"] == name.lower()


def test_faults_can_be_traced(monkeypatch: pytest.MonkeyPatch):
    def fault() -> int:
        raise KeyError("x")

    assert guarded(fault) == 1
    monkeypatch.setenv("POLYC_TRACEBACK", "1")
    with pytest.raises(KeyError):
        guarded(fault)


def test_unknown_pass_in_the_library():
    with pytest.raises(PolycError, match="UnknownPass"):
        PassRegistry().find("nope")


def test_slow_steps_say_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("polyc.tools.steps.SLOW", 0.02)
    steps = Steps(sys.stdout)
    with steps.step("slow"):
        time.sleep(0.1)
    with steps.step("quick") as step:
        step.note = "noted"
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["slow", "…"]
    assert lines[1].split()[0] == "slow" and lines[1].split()[2] == "ms"
    assert lines[2].endswith("ms  noted")
    assert len(lines) == 3


def run_module(module: str, *args: str, stdin: str | None = None) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", module, *args],
        capture_output=True,
        text=True,
        input=stdin,
        env={"PYTHONPATH": str(ROOT / ".typecheck")},
    )
    return done.returncode, done.stdout, done.stderr


def test_as_a_process():
    """The exit code and the streams, once through the operating system."""
    code, out, err = run_module("polyc.tools.polyc_opt", "-", stdin="")
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    code, out, err = run_module("polyc.tools.polyc_opt", stdin=EXAMPLE.read_text())
    assert (code, err) == (0, "")
    assert "frontend.graph @gemm_bias_relu" in out
