"""``--set`` is checked before any work is done, in every command that takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyc.passes import finish
from polyc.test.support.root import ROOT
from polyc.tools import check, polyc, polyc_opt
from polyc.tools.pipeline import Compilation

ALIGNED = str(ROOT / "examples" / "gemm_bias_relu_aligned.mlir")
TILES = str(ROOT / "examples" / "tile" / "gemm_sm90_cluster.mlir")
PYTHON = str(ROOT / "examples" / "tile" / "gemm_sm90_cluster.py")

RIGHT = {"M": "8", "N": "8", "K": "8"}
"""Sizes that every program here takes."""

COMMANDS = {
    "run": ["run", "--device", "cpu"],
    "simulate": ["simulate"],
    "simulate --check": ["simulate", "--check"],
    "polyc-opt": ["--check-each", "-p", "lower-to-gpu{arch=sm_90a}"],
}
PROGRAMS = {"graph": ALIGNED, "tiles": TILES, "python": PYTHON}


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lowers, compiles, simulates or plays back fails."""

    def work(*_: object, **__: object) -> None:
        pytest.fail("work was done before the sizes were checked")

    monkeypatch.setattr(Compilation, "run", work)
    monkeypatch.setattr(finish, "finish", work)
    monkeypatch.setattr(check.Expected, "of", work)
    monkeypatch.setattr("polyc.playback.reference.make_inputs", work)
    monkeypatch.setattr("polyc.playback.gpu.simulate", work)
    monkeypatch.setattr("polyc.playback.tile.run", work)


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        (["Q=1"], "UnknownSymbol", "has no symbol 'Q'; it has "),
        (["m=1"], "UnknownSymbol", "has no symbol 'm'; it has "),
        (["M=-1"], "BadSize", "--set M=-1: a size is 0 or more"),
        (["M=x"], "BadSize", "--set M=x is not NAME=INTEGER"),
        (["M=1.0"], "BadSize", "--set M=1.0 is not NAME=INTEGER"),
        (["M=1e3"], "BadSize", "--set M=1e3 is not NAME=INTEGER"),
        (["M=nan"], "BadSize", "--set M=nan is not NAME=INTEGER"),
        (["M=0x10"], "BadSize", "--set M=0x10 is not NAME=INTEGER"),
        (["M=٣"], "BadSize", "is not NAME=INTEGER"),
        (["M="], "BadSize", "--set M= is not NAME=INTEGER"),
        (["M"], "BadSize", "--set M is not NAME=INTEGER"),
        (["=3"], "BadSize", "--set =3 is not NAME=INTEGER"),
        (["M=8", "M=8"], "BadSize", "--set gives M twice, 8 and 8"),
        (["M=4294967296"], "BadSize", "which is 4294967296 at M = 4294967296; sizes are 0 to"),
        (["M=999999999999999999"], "BadSize", "sizes are 0 to"),
        (["M=9999999999999999999999"], "BadSize", "is not NAME=INTEGER"),
        (["M=2000000000"], "OutOfMemory", "use smaller sizes"),
        (["K=12"], "AssumptionViolated", "assumes K mod 8 == 0, which does not hold at K = 12"),
    ],
)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("no_work")
def test_sizes_are_refused_first(
    capsys: pytest.CaptureFixture[str],
    command: str,
    program: str,
    settings: list[str],
    kind: str,
    says: str,
) -> None:
    names = {setting.partition("=")[0] for setting in settings}
    given = [*settings, *(f"{k}={v}" for k, v in RIGHT.items() if k not in names)]
    args = [*COMMANDS[command], PROGRAMS[program], *(w for s in given for w in ("--set", s))]
    if "simulate" in command and program == "graph":
        args += ["--arch", "sm_90a"]
    main = polyc_opt.main if command == "polyc-opt" else polyc.main
    assert main(args) == 1
    err = capsys.readouterr().err
    assert f"error[{kind}]: " in err and says in err, err
    assert err.count("\n") == 1


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("command", ["run", "simulate"])
@pytest.mark.usefixtures("no_work")
def test_a_size_that_is_missing(
    capsys: pytest.CaptureFixture[str], command: str, program: str
) -> None:
    arch = ["--arch", "sm_90a"] if command == "simulate" else []
    assert polyc.main([*COMMANDS[command], PROGRAMS[program], "--set", "M=8", *arch]) == 1
    assert "add --set K=VALUE --set N=VALUE" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        (["--schedule", "fast"], "there is no schedule 'fast'; use round-robin, "),
        (["--completion", "never"], "there is no completion 'never'; use late, "),
        (["--seed", "-1"], "a seed is 0 or more"),
    ],
)
@pytest.mark.usefixtures("no_work")
def test_options_too(capsys: pytest.CaptureFixture[str], option: list[str], says: str) -> None:
    sizes = [w for k, v in RIGHT.items() for w in ("--set", f"{k}={v}")]
    assert polyc.main(["simulate", ALIGNED, "--arch", "sm_90a", *sizes, *option]) == 1
    assert says in capsys.readouterr().err


def test_set_without_a_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert polyc_opt.main([ALIGNED, "--set", "M=8"]) == 1
    assert capsys.readouterr().err == (
        "error[Usage]: --set gives sizes to --check-each; add that\n"
    )
    assert polyc.main(["compile", ALIGNED, "--arch", "sm_80", "--set", "M=8"]) == 1
    assert "error[Usage]: --set is about kernels by hand" in capsys.readouterr().err


def test_sizes_that_no_small_ones_join(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "two.mlir"
    path.write_text(
        Path(ALIGNED).read_text().replace("K mod 8 == 0", "K mod 8 == 0, M == 1000 * K")
    )
    assert polyc_opt.main([str(path), "--check-each", "--set", "K=16"]) == 1
    assert "error[NoSizes]: no small sizes satisfy" in capsys.readouterr().err


def test_the_hardware_level_has_nothing_to_compare_with(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "low.mlir"
    assert polyc_opt.main([TILES, "-p", "gpu-bind-target", "-o", str(tmp_path / "x")]) == 0
    assert polyc.main(["compile", TILES, "--emit", "mlir", "-o", str(path)]) == 0
    capsys.readouterr()

    def simulated(*_: object, **__: object) -> None:
        pytest.fail("it was simulated first")

    monkeypatch.setattr("polyc.playback.gpu.simulate", simulated)
    sizes = [w for k, v in RIGHT.items() for w in ("--set", f"{k}={v}")]
    assert polyc.main(["simulate", str(path), *sizes, "--check"]) == 1
    err = capsys.readouterr().err
    assert err.startswith(f"{path}:2:3: error[NothingToCompare]: @gemm_sm90_cluster is of the hard")
    assert "leave --check out, or give the frontend.graph or the tiles that it comes from" in err


def test_tiles_are_compared_with_what_they_mean(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyc.playback import tile

    sizes = [w for k, v in RIGHT.items() for w in ("--set", f"{k}={v}")]
    assert polyc.main(["simulate", TILES, *sizes, "--check"]) == 0
    assert "no findings; agrees with the tiles, largest error" in capsys.readouterr().out
    played = tile.run

    def wrong(*args: object) -> object:
        found = played(*args)  # pyright: ignore[reportArgumentType]
        found[0][3, 5] += 100
        return found

    monkeypatch.setattr(tile, "run", wrong)
    assert polyc.main(["simulate", TILES, *sizes, "--check"]) == 1
    assert "error[Disagreement]: the kernel gemm_sm90_cluster" in capsys.readouterr().err
