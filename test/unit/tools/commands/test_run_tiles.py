"""A kernel author's path: the commands on tiles, and ``polyc.load``."""

from __future__ import annotations

from pathlib import Path

import pytest

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.finish import finished, is_finished
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.tools import polyc as command
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

GEMM = "examples/tile/gemm_pipelined.mlir"
PARTS = "examples/tile/gemm_split_k.mlir"
SIZES = ["--set", "M=33", "--set", "N=72", "--set", "K=520"]


def text_of(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


def test_tiles_and_threads_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["run", PARTS, *SIZES, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "@gemm_split_k for sm_90a at M=33, K=520, N=72" in out
    assert "CTAs: gemm_split_k_deep 2, gemm_split_k_deep_sum 27, agrees" in out
    assert "the tiles and the simulated threads agree" in out
    for step in ("play back tiles", "lower from tile level", "compile", "simulate"):
        assert step in out


def test_text_at_the_hardware_level_has_findings_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = finished(gpu_module_of(parse_text(make_context(), text_of(GEMM), GEMM)))
    path = tmp_path / "low.mlir"
    path.write_text(str(module), encoding="utf-8")
    assert command.main(["run", str(path), *SIZES, "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert "the simulated threads: no findings, and nothing to compare with" in out


@pytest.mark.parametrize(
    ("edit", "arguments", "sentence"),
    [
        (("", ""), ["--set", "M=1"], "@gemm_pipelined needs a value for the symbols K, N"),
        (("", ""), [*SIZES, "--arch", "sm_80"], "the text is for sm_90a, not for sm_80"),
        (("", ""), [*SIZES, "--graph", "other"], "error[NothingToRun]"),
        (("", ""), [*SIZES[:4], "--set", "K=7"], "no kernel of @gemm_pipelined takes M=33"),
        (("", ""), ["--set", "M=2147000000", *SIZES[2:]], "error[OutOfMemory]"),
        (("", ""), ["--set", "M=2147483647", *SIZES[2:]], "error[BadSize]"),
        (("", ""), [*SIZES, "--seed", "-1"], "a seed is 0 or more"),
        (("(i + m, j + n)", "(i + m, j + n + 1)"), SIZES, "never written"),
    ],
)
def test_refusals(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    edit: tuple[str, str],
    arguments: list[str],
    sentence: str,
) -> None:
    path = tmp_path / "t.mlir"
    path.write_text(text_of(GEMM).replace(*edit) if edit[0] else text_of(GEMM), encoding="utf-8")
    assert command.main(["run", str(path), *arguments, "--device", "cpu"]) == 1
    captured = capsys.readouterr()
    assert sentence in captured.err


def test_threads_that_differ_from_the_tiles_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from polyc.playback import tile

    def wrong(*args: object) -> object:
        found = played(*args)  # pyright: ignore[reportArgumentType]
        found[0][3, 5] += 100
        return found

    played = tile.run
    monkeypatch.setattr(tile, "run", wrong)
    assert command.main(["run", GEMM, *SIZES, "--device", "cpu"]) == 1
    err = capsys.readouterr().err
    assert "error[Disagreement]: the simulated kernel differs: output C, " in err
    assert "[3, 5]" in err


def test_compile_and_simulate_take_tiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "k.cu"
    assert command.main(["compile", PARTS, "--arch", "sm_90a", "-o", str(out)]) == 0
    assert "gemm_split_k_deep_sum(" in out.read_text()
    assert command.main(["simulate", PARTS, *SIZES]) == 0
    assert "no findings" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["path", "text", "module", "gpu.module"])
def test_load(kind: str) -> None:
    parsed = parse_text(make_context(), text_of(GEMM), GEMM)
    before = module_text(parsed)
    source = {
        "path": GEMM,
        "text": text_of(GEMM),
        "module": parsed,
        "gpu.module": gpu_module_of(parsed),
    }[kind]
    program = polyc.load(source)
    assert program.variants == ("gemm_pipelined_tma",)
    assert program.chosen({"M": 3, "K": 8, "N": 8}) == "gemm_pipelined_tma"
    assert is_finished(program.module)
    assert module_text(parsed) == before


def test_load_takes_a_graph_for_an_architecture() -> None:
    program = polyc.load("examples/gemm_bias_relu.mlir", "sm_80")
    assert program.arch == "sm_80" and program.variants[-1] == "gemm_bias_relu_scalar"


def test_what_cannot_be_loaded() -> None:
    with pytest.raises(PolycError, match="is for sm_90a, not for sm_80"):
        polyc.load(GEMM, "sm_80")
    with pytest.raises(PolycError, match="compiled for an arch; give both"):
        polyc.load("examples/gemm_bias_relu.mlir")
    with pytest.raises(FileNotFoundError):
        polyc.load("no_such_file.mlir")
    with pytest.raises(PolycError, match="values used but not defined"):
        polyc.load(text_of(GEMM).replace("    gpu.fill %zero", "    gpu.fill %nought"))
