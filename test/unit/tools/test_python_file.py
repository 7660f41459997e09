"""Commands on a Python file: it is executed, its tile program taken, and its errors are its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import polyc as package
from polyc.dialects.common.diagnostic import PolycError
from polyc.test.support.root import ROOT
from polyc.tools import polyc, polyc_opt

COLUMN_SUM = str(ROOT / "examples" / "tile" / "column_sum.py")
SIZES = ("--set", "M=9", "--set", "N=16")


def outcome(
    capsys: pytest.CaptureFixture[str], tool: str, *args: str | Path
) -> tuple[int, str, str]:
    capsys.readouterr()
    main = polyc_opt.main if tool == "polyc-opt" else polyc.main
    code = main([*([] if tool == "polyc-opt" else [tool]), *map(str, args)])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err and "InternalError" not in captured.err
    return code, captured.out, captured.err


TWO = """import polyc.tile as T

(N,) = T.sizes("N")
print("executed")


def copies(label, arch, factor):
    @T.program(arch=arch, name=label)
    def made(A: T.Tensor[N, T.f32], B: T.Out[N, T.f32]):
        with T.kernel(threads=128, grid=[T.ceildiv(N, 128)]):
            i = T.block_id() * 128
            a = T.alloc_fragment(128, T.f32)
            T.copy(A[i], a)
            with T.parallel(a) as (j,):
                a[j] = a[j] * factor
            T.copy(a, B[i])

    return made


twice = copies("doubled", "sm_80", 2.0)
thrice = again = copies("triple", "sm_90a", 3.0)
"""


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with two programs, of which one has two names."""
    path = tmp_path / "two_programs.py"
    path.write_text(TWO)
    monkeypatch.delitem(sys.modules, "two_programs", raising=False)
    return path


def test_run(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = outcome(capsys, "run", COLUMN_SUM, *SIZES, "--device", "cpu")
    assert code == 0 and "the tiles and the simulated threads agree" in out


def test_the_other_commands_do_what_they_do_with_its_text(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The text that the Python prints as, and the Python, give the same bytes."""
    text = str(Path(COLUMN_SUM).with_suffix(".mlir"))
    for args in (("polyc-opt",), ("compile", "--arch", "sm_90a"), ("compile", "--emit", "mlir")):
        tool, *rest = args
        of_python = outcome(capsys, tool, COLUMN_SUM, *rest)
        assert of_python[0] == 0 and of_python == outcome(capsys, tool, text, *rest)
    code, out, _ = outcome(capsys, "simulate", COLUMN_SUM, *SIZES, "--check")
    assert code == 0 and "no findings; agrees with the tiles, largest error " in out


def test_a_program_is_chosen(capsys: pytest.CaptureFixture[str], two: Path) -> None:
    code, _, err = outcome(capsys, "run", two)
    assert code == 1 and "has the programs twice, thrice, again; choose one with --program" in err
    for name, label in (("twice", "doubled"), ("doubled", "doubled"), ("again", "triple")):
        code, out, err = outcome(capsys, "polyc-opt", two, "--program", name)
        assert (code, err.count("executed")) == (0, 0), "it is executed once in a process"
        assert f"gpu.module @{label} " in out and "executed" not in out
    code, _, err = outcome(capsys, "compile", two, "--program", "four")
    assert code == 1 and "has no one program 'four' at its top level; it has twice" in err
    sizes = ("--set", "N=200", "--device", "cpu")
    code, out, _ = outcome(capsys, "run", two, "--program", "thrice", *sizes)
    assert code == 0 and "@triple for sm_90a at N=200" in out


def test_what_a_file_prints_is_not_in_the_output(
    capsys: pytest.CaptureFixture[str], two: Path
) -> None:
    code, out, err = outcome(capsys, "compile", two, "--program", "twice")
    assert code == 0 and err == "executed\n" and out.startswith("// doubled for sm_80")


def test_a_file_that_imports_another_means_its_own(
    capsys: pytest.CaptureFixture[str], two: Path
) -> None:
    own = two.parent / "own_program.py"
    own.write_text(
        "from two_programs import copies, twice\n\nimport polyc.tile as T\n\n"
        "(N,) = T.sizes('N')\n\n\n@T.program(arch='sm_80')\n"
        "def mine(A: T.Tensor[N, T.f32], B: T.Out[N, T.f32]):\n"
        "    with T.kernel(threads=128, grid=[1]):\n"
        "        a = T.alloc_fragment(128, T.f32)\n"
        "        T.copy(A[0], a)\n        T.copy(a, B[0])\n"
    )
    assert "@mine" in outcome(capsys, "polyc-opt", own)[1]
    assert "@doubled" in outcome(capsys, "polyc-opt", own, "--program", "twice")[1]


HEAD = 'import polyc.tile as T\n\n(M,) = T.sizes("M")\n\n\n@T.program()\n'
KERNEL = (
    f"{HEAD}def f(A: T.Tensor[M, T.f16], B: T.Out[M, T.f16]):\n"
    "    with T.kernel(threads=128, grid=[M]):\n        "
)


@pytest.mark.parametrize(
    ("name", "body", "at", "says"),
    [
        ("name", KERNEL + "nope()\n", ":9", "PythonFailed]: NameError: name 'nope' is not"),
        ("zero", "x = 3\ny = 1 / 0\n", ":2", "PythonFailed]: ZeroDivisionError: division by zero"),
        ("syntax", "def f(:\n", ":1:7", "PythonFailed]: SyntaxError: invalid syntax"),
        ("exit", "import sys\nsys.exit(0)\n", ":2", "PythonFailed]: SystemExit: 0"),
        ("deep", "def f():\n    f()\n\n\nf()\n", ":2", "PythonFailed]: RecursionError: "),
        ("file", "open('/no/such/file')\n", ":1", "PythonFailed]: FileNotFoundError: "),
        ("null", "\0", "", "PythonFailed]: SyntaxError: source code string cannot contain null"),
        ("missing", "import no_such_module\n", ":1", "PythonFailed]: ModuleNotFoundError: No mo"),
        ("tile", KERNEL + "T.copy(3, A)\n", ":9:9", "NotATile]: 3 is neither a place"),
        ("empty", "", "", "NothingToRun]: {path} has no program at its top level; decorate"),
        ("arch", "import polyc.tile as T\nT.program(arch='sm_70')\n", ":2:1", "UnknownArch]: "),
        ("outputs", HEAD + "def f(A): pass\n", ":6:2", "UnknownType]: parameter A of f is a"),
    ],
)
@pytest.mark.parametrize("tool", ["run", "simulate", "compile", "polyc-opt", "analyze"])
def test_errors_are_the_files(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    tool: str,
    name: str,
    body: str,
    at: str,
    says: str,
) -> None:
    path = tmp_path / f"wrong_{tool.replace('-', '_')}_{name}.py"
    path.write_text(body)
    code, _, err = outcome(capsys, tool, path)
    assert code == 1 and err.count("\n") == 1
    assert err.startswith(f"{path}{at}: error[{says.format(path=path)}"), err


def test_a_helper_of_the_users_is_the_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "tiles_helper.py").write_text("def size(n):\n    return n // 0\n")
    path = tmp_path / "with_helper.py"
    path.write_text("from tiles_helper import size\nimport polyc.tile\n\nsize(3)\n")
    helper = tmp_path / "tiles_helper.py"
    assert outcome(capsys, "run", path)[2].startswith(f"{helper}:2: error[PythonFailed]: ZeroDiv")


def test_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    missing = tmp_path / "none.py"
    assert outcome(capsys, "run", missing)[2] == (
        f"{missing}: error[FileNotFound]: there is no such file\n"
    )
    text = str(ROOT / "examples" / "gemm_bias_relu.mlir")
    for tool in ("compile", "polyc-opt"):
        err = outcome(capsys, tool, text, "--program", "x")[2]
        assert err.endswith(f"--program x is for a Python file, and {text} is text\n")
    assert (
        "is for sm_90a, and --arch is sm_80"
        in outcome(capsys, "compile", COLUMN_SUM, "--arch", "sm_80")[2]
    )
    assert "NothingToAnalyze" in outcome(capsys, "analyze", COLUMN_SUM)[2]
    with pytest.raises(SystemExit):
        polyc.main(["run", "--help"])
    assert "which is executed" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(SystemExit):
        polyc_opt.main(["--help"])
    assert "is executed for its tile program" in " ".join(capsys.readouterr().out.split())


def test_load(two: Path) -> None:
    assert package.load(COLUMN_SUM).arch == "sm_90a"
    assert package.load(two, name="twice").arch == "sm_80"
    with pytest.raises(PolycError, match="choose one with --program"):
        package.load(two)
