"""Python from outside that fails: a plug-in's fault is told at its own line, not as polyc's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from polyc.rewriting.driver import verify
from polyc.rewriting.outside import outside_error
from polyc.test.support.root import ROOT
from polyc.tools import polyc, polyc_opt
from polyc.tools.errors import as_polyc_error

EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"

PASSES = """from dataclasses import dataclass

from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.pattern_rewriter import op_type_rewrite_pattern

from polyc.dialects import frontend
from polyc.rewriting.driver import rewrite


class Odd(Exception):
    def __str__(self):
        raise ValueError


class Wrong(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GemmOp, rewriter: PatternRewriter) -> None:
        [][3]  # in a pattern


def forever(op):
    forever(op)  # without end


def fail(error):
    raise error  # by a function


class Named(ModulePass):
    def apply(self, ctx, op):
        run(type(self).name, op)


def run(name, op):
    if name == "key":
        {}["x"]  # a key
    if name == "file":
        open("/no/such/file")  # a file
    if name == "loop":
        forever(op)
    if name == "odd":
        fail(Odd())
    if name == "exit":
        fail(SystemExit(0))
    if name == "memory":
        fail(MemoryError("much"))
    if name == "polyc-pattern":
        rewrite(op, [Wrong()])
    if name == "xdsl-pattern":
        PatternRewriteWalker(Wrong()).rewrite_module(op)
    if name == "misuse":
        rewrite(op, [3])  # of polyc
    if name == "spoil":
        for graph in op.ops:
            graph.body.block._args = None
            graph.properties = 3


def named(name):
    return dataclass(frozen=True)(type(name, (Named,), {"name": name, "__module__": __name__}))


key, file, loop, odd = named("key"), named("file"), named("loop"), named("odd")
exit_, memory = named("exit"), named("memory")
own, upstream, misuse = named("polyc-pattern"), named("xdsl-pattern"), named("misuse")
spoil = named("spoil")


@dataclass(frozen=True)
class Options(ModulePass):
    name = "options"

    def __post_init__(self):
        {}["post"]  # in options

    def apply(self, ctx, op):
        pass
"""


def line_of(text: str, part: str) -> int:
    """The line, from 1, that holds ``part``."""
    return text[: text.index(part)].count("\n") + 1


def refusal(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    capsys.readouterr()
    assert polyc_opt.main([str(a) for a in args]) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "InternalError" not in err and "Traceback" not in err, err
    return err.rstrip()


@pytest.mark.parametrize(
    ("attribute", "name", "at", "says"),
    [
        ("key", "key", "# a key", "in run, fails with KeyError: 'x'"),
        ("file", "file", "# a file", "fails with FileNotFoundError: "),
        ("loop", "loop", "# without end", "in forever, fails with RecursionError: "),
        ("odd", "odd", "# by a function", "in fail, fails with Odd;"),
        ("exit_", "exit", "# by a function", "fails with SystemExit: 0"),
        ("memory", "memory", "# by a function", "fails with MemoryError: much"),
        ("own", "polyc-pattern", "# in a pattern", "in Wrong.match_and_rewrite, fails with Index"),
        ("upstream", "xdsl-pattern", "# in a pattern", "in Wrong.match_and_rewrite, fails with"),
        ("misuse", "misuse", "# of polyc", "fails in what it calls of polyc with AttributeError"),
        ("Options", "options", "# in options", "fails with KeyError: 'post'"),
    ],
)
def test_a_pass_that_fails(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    attribute: str,
    name: str,
    at: str,
    says: str,
) -> None:
    path = tmp_path / f"outside_{attribute}.py"
    path.write_text(PASSES)
    line = refusal(capsys, EXAMPLE, "--load-pass", f"{path}:{attribute}", "-p", name)
    assert line.startswith(f"{path}:{line_of(PASSES, at)}: error[PluginFailed]: pass {name}, ")
    assert says in line and "it is no part of polyc" in line
    assert f'"layer": "{name}"' in refusal(
        capsys,
        EXAMPLE,
        *("--load-pass", f"{path}:{attribute}", "-p", name, "--diagnostics=json"),
    ) or (name == "options")


def test_what_a_pass_leaves_broken_is_its_fault(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "outside_spoil.py"
    path.write_text(PASSES)
    line = refusal(capsys, EXAMPLE, "--load-pass", f"{path}:spoil", "-p", "spoil")
    assert line.startswith(f"{path}:{line_of(PASSES, 'def apply')}: error[PluginFailed]: ")
    assert "pass spoil leaves a module that no verifier can read" in line


DIALECT = """from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def
from xdsl.utils.exceptions import VerifyException


@irdl_op_definition
class Bad(IRDLOperation):
    name = "my.bad"
    how = prop_def()

    def verify_(self):
        match self.how.data:
            case "key":
                {}["k"]  # a key
            case "value":
                int("zz")  # a value
            case "assert":
                assert 0  # an assertion
            case "refuse":
                raise VerifyException("no good")
            case "zero":
                1 / 0  # a zero

    def print(self, printer):
        raise RuntimeError("cannot")  # in print


My = Dialect("my", [Bad], [])
"""


@pytest.mark.parametrize(
    ("how", "at", "says"),
    [
        ("key", "# a key", "Bad.verify_ fails for my.bad at {text}:1:1 with KeyError: 'k'"),
        ("value", "# a value", "with ValueError: invalid literal"),
        ("assert", "# an assertion", "with AssertionError"),
        ("zero", "# a zero", "with ZeroDivisionError"),
        ("print", "# in print", "Bad.print fails for my.bad at {text}:1:1 with RuntimeError"),
    ],
)
@pytest.mark.parametrize("tool", ["polyc-opt", "polyc"])
def test_an_op_that_fails(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    at: str,
    says: str,
    tool: str,
) -> None:
    """By ``--load-dialect``, and where the dialect is an installed plug-in's."""
    text = tmp_path / "in.mlir"
    text.write_text(f'"my.bad"() <{{how = "{how}"}}> : () -> ()\n')
    path = tmp_path / f"dialect_{tool.replace('-', '_')}_{how}.py"
    path.write_text(DIALECT)
    if tool == "polyc-opt":
        line = refusal(capsys, text, "--load-dialect", f"{path}:My")
    else:
        install(tmp_path, "polyc.dialects", f"my = {path.stem}:My")
        monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
        args = ["compile", str(text), "--arch", "sm_80", "--emit", "mlir"]
        assert polyc.main(args) == 1
        line = capsys.readouterr().err
    assert line.startswith(f"{path}:{line_of(DIALECT, at)}: error[PluginFailed]: "), line
    assert says.format(text=text) in line


def test_a_refusal_that_is_meant_stays_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = tmp_path / "in.mlir"
    text.write_text('"my.bad"() <{how = "refuse"}> : () -> ()\n')
    path = tmp_path / "dialect_refuse.py"
    path.write_text(DIALECT)
    line = refusal(capsys, text, "--load-dialect", f"{path}:My")
    assert line == f"{text}:1:1: error[InvalidIR]: no good"


def install(folder: Path, group: str, entry: str) -> None:
    """The metadata that installing a plug-in leaves behind."""
    info = folder / "outside-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")


BROKEN = {
    "name": ("import json\nx = nope\n", 2, "NameError: name 'nope' is not defined"),
    "syntax": ("x = (\n", 1, "SyntaxError: '(' was never closed"),
    "exit": ("import sys\n\nsys.exit(4)\n", 3, "SystemExit: 4"),
    "missing": ("\nimport no_such_module\n", 2, "No module named 'no_such_module'"),
    "chain": ("import broken_helper\n", 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("by", ["file", "module", "installed"])
@pytest.mark.parametrize("what", ["pass", "dialect"])
def test_a_plug_in_that_does_not_load(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    by: str,
    what: str,
) -> None:
    body, at, says = BROKEN[how]
    name = f"broken_{how}_{by}_{what}"
    path = tmp_path / f"{name}.py"
    path.write_text(body)
    (tmp_path / "broken_helper.py").write_text("\n\n1 / 0\n")
    text = tmp_path / "in.mlir"
    text.write_text("my.op\n" if what == "dialect" else EXAMPLE.read_text())
    monkeypatch.setattr(sys, "path", [*sys.path])
    if by != "file":
        sys.path.insert(0, str(tmp_path))
    if by == "installed":
        entry = f"my = {name}:X"
        install(tmp_path, "polyc.passes" if what == "pass" else "polyc.dialects", entry)
        args = [text, "-p", "my"] if what == "pass" else [text]
    else:
        args = [text, f"--load-{what}", f"{path if by == 'file' else name}:X"]
    line = refusal(capsys, *args)
    place = f"{tmp_path / 'broken_helper.py'}:3" if how == "chain" else f"{path}:{at}"
    assert line.startswith(place), line
    assert f"error[BadReference]: {what} " in line and says in line


def test_a_file_named_as_a_module_of_python(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It neither takes that module's place nor hides it from what polyc imports later."""
    import json

    path = tmp_path / "json.py"
    path.write_text(PASSES)
    assert "pass key, in run" in refusal(capsys, EXAMPLE, "--load-pass", f"{path}:key", "-p", "key")
    assert sys.modules["json"] is json
    assert sys.path[0] != str(tmp_path)


def test_two_passes_of_one_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("one_more", "two_more"):
        (tmp_path / f"{name}.py").write_text(PASSES)
    loads = [f"--load-pass={tmp_path / name}.py:key" for name in ("one_more", "two_more")]
    assert "name each by its own name" in refusal(capsys, EXAMPLE, *loads)
    assert "which polyc has already" in refusal(
        capsys, EXAMPLE, "--load-pass", _named(tmp_path, "gpu-vectorize")
    )


def _named(folder: Path, name: str) -> str:
    (folder / "taken.py").write_text(PASSES + f'\ntaken = named("{name}")\n')
    return f"{folder / 'taken.py'}:taken"


def test_faults_of_polyc_stay_its_own() -> None:
    """Who calls polyc is not at fault for what polyc does."""
    with pytest.raises(AttributeError) as caught:
        verify(3)  # pyright: ignore[reportArgumentType]
    assert outside_error(caught.value) is None
    assert as_polyc_error(caught.value).kind == "InternalError"
