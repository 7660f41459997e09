"""Compilations with kernels by hand: what runs, what is said of each, and what is refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

import polyc as package
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.test.support.by_hand import add_relu, product, product_file, written
from polyc.test.support.gpu_text import parsed
from polyc.test.support.root import ROOT
from polyc.tools import polyc
from polyc.tools.kernels import by_hand as by_hand_module
from polyc.tools.kernels.by_hand import PLANNED, with_kernels
from polyc.tools.kernels.instance import Instance
from polyc.tools.kernels.regions import MATCHED
from polyc.tools.kernels.trial import tried
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

GEMM = str(ROOT / "examples" / "kernels" / "gemm.py")
BIASED = str(ROOT / "examples" / "gemm_bias_relu.mlir")
WON = ("--set", "M=1536", "--set", "N=1760", "--set", "K=4096")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A program that ``written`` replaces."""
    file = tmp_path / "program.mlir"
    file.write_text(add_relu(), "utf-8")
    return file


def compiled(
    capsys: pytest.CaptureFixture[str], *args: str | Path, command: str = "compile"
) -> tuple[int, str, str]:
    capsys.readouterr()
    code = polyc.main([command, *map(str, args)])
    found = capsys.readouterr()
    assert "Traceback" not in found.err and "InternalError" not in found.err
    return code, found.out, found.err


def kinds(err: str) -> list[str]:
    return re.findall(r"(?:remark|error)\[(\w+)\]", err)


def test_what_won_runs_and_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    args = (BIASED, "--arch", "sm_90a", "--kernels", GEMM, "--emit", "mlir", *WON)
    code, out, err = compiled(capsys, *args)
    assert code == 0
    assert kinds(err) == ["KernelByHand", "KernelSlower"]
    first, second = err.splitlines()
    assert "by_hand_128x160 runs region @gemm_bias_relu: " in first
    assert "% faster than the " in first and " us of plan " in first
    assert (
        "by_hand_128x176 does not run region @gemm_bias_relu: by_hand_128x160 takes all" in second
    )
    (module,) = parsed(out).ops
    assert isinstance(module, GpuModuleOp)
    variants = module.dispatch().variants()
    assert [v.variant_name for v in variants][:1] == ["gemm_bias_relu_by_hand_128x160"]
    assert len(variants) > 5


def test_what_lost_does_not_run(capsys: pytest.CaptureFixture[str]) -> None:
    args = (BIASED, "--arch", "sm_90a", "--emit", "mlir")
    code, out, err = compiled(capsys, *args, "--kernels", GEMM)
    assert code == 0
    assert kinds(err) == ["KernelSlower", "KernelSlower"]
    assert "at M=1024, K=1024, N=1024, " in err
    assert out == compiled(capsys, *args)[1]


def test_a_region_of_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("--set", "M=1536", "--set", "L=1760", "--set", "K=4096")
    file = product_file(tmp_path, "(128, 160)")
    mlp = str(ROOT / "examples" / "mlp.mlir")
    code, out, err = compiled(
        capsys, mlp, "--arch", "sm_90a", "--kernels", file, "--emit", "mlir", *sizes
    )
    assert code == 0
    assert kinds(err) == ["KernelByHand"]
    assert "runs region @mlp_0: " in err
    assert "gpu.sequence @mlp_tma_by_hand" in out
    assert "gpu.launch @mlp_0_by_hand_128x160" in out


def test_what_is_not_found_says_the_nearest_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "other.mlir"
    program.write_text(product(last="sigmoid"), "utf-8")
    code, _, err = compiled(
        capsys, program, "--arch", "sm_90a", "--kernels", product_file(tmp_path)
    )
    assert code == 0
    assert kinds(err) == ["KernelUnmatched"]
    assert err.startswith(f"{program}:3:3: remark[KernelUnmatched]: by_hand_128x64 computes no ")
    assert "the nearest is @f: it has region.unary sigmoid where the pattern has" in err


def test_another_architecture_and_impossible_conditions(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = (text, "--arch", "sm_80", "--kernels")
    _, _, err = compiled(capsys, *args, written(tmp_path))
    assert kinds(err) == ["KernelSkipped"]
    assert "by_hand is for sm_90a, and this is for sm_80" in err
    file = written(tmp_path, when="N mod 8 == 0", arch="sm_80")
    _, _, err = compiled(capsys, *args, file, "--set", "N=7")
    assert kinds(err) == ["KernelSkipped"]
    assert "it wants N mod 8 == 0, and is asked about at N=7" in err
    text.write_text(add_relu("[M, 30]", "[30]"), "utf-8")
    _, _, err = compiled(capsys, *args, file)
    assert kinds(err) == ["KernelSkipped"]
    assert "it wants N mod 8 == 0, and N is 30 here" in err


def test_regions_that_go_away(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some plans take a region apart; what computes all of it has no place then."""
    job = Compilation(make_context(), parsed(text.read_text("utf-8")), "sm_90a")
    by_hand = with_kernels(job, str(written(tmp_path)), {})
    follow = job.after
    assert follow is not None

    def after(module: ModuleOp, name: str) -> None:
        follow(module, name)
        if name == PLANNED:
            by_hand.after(ModuleOp([]), MATCHED)  # a program without regions
            by_hand._planned_regions.clear()  # pyright: ignore[reportPrivateUsage]

    job.after = after
    job.run()
    err = capsys.readouterr().err
    assert kinds(err) == ["KernelUnmatched", "KernelSkipped"]
    assert "by_hand: the program has no region" in err
    assert "by_hand does not run region @f: its plan takes it apart" in err
    assert by_hand.record == []


def test_a_wrong_kernel_ends_the_compilation(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, value="x[i, j] + b[j + j0]")
    code, out, err = compiled(capsys, text, "--arch", "sm_90a", "--kernels", file)
    assert (code, out) == (1, "")
    assert kinds(err) == ["WrongKernel"]
    assert err.startswith(f"{file}:")
    assert re.search(r"at M=\d+, N=\d+: output Y, element \[\d+, \d+\] is -\S+, expected 0 ", err)


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (("--kernels", "nowhere.py"), "FileNotFound"),
        (("--kernels", "nowhere.txt"), "BadReplacement"),
        (("--kernels", GEMM, "--set", "Q=3"), "UnknownSymbol"),
        (("--kernels", GEMM, "--set", "M=x"), "BadSize"),
        (("--set", "M=3"), "Usage"),
    ],
)
def test_bad_options(args: tuple[str, ...], kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = compiled(capsys, BIASED, "--arch", "sm_90a", *args)
    assert (code, out) == (1, "")
    assert kinds(err) == [kind]


@pytest.mark.parametrize("command", ["compile", "run", "simulate"])
def test_a_program_of_tiles_takes_none(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "examples" / "tile" / "gemm_pipelined.mlir")
    sizes = () if command == "compile" else ("--set", "M=1", "--set", "K=8", "--set", "N=8")
    args = (file, "--kernels", GEMM, *sizes)
    code, _, err = compiled(capsys, *args, command=command)
    assert code == 1
    assert kinds(err) == ["Usage"]
    assert "the text has no frontend.graph" in err


def test_simulate_runs_what_won(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether it wins is the model's to say; what runs is compared with the reference."""
    args = (text, "--arch", "sm_90a", "--set", "M=9", "--set", "N=130", "--check")
    code, out, err = compiled(capsys, *args, "--kernels", written(tmp_path), command="simulate")
    assert code == 0
    (kind,) = kinds(err)
    assert ("kernel f_by_hand" in out) == (kind == "KernelByHand")
    assert "agrees with the FP32 reference" in out


def test_run_plays_it_back_at_every_pass(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = (text, "--arch", "sm_90a", "--set", "M=9", "--set", "N=130", "--device", "cpu")
    file = written(tmp_path)
    code, out, err = compiled(capsys, *args, "--check", "--kernels", file, command="run")
    assert code == 0
    assert len(kinds(err)) == 1
    assert "compiled to cubins" in out


def test_regions_that_are_alike_are_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three products of one shape, one after another."""
    t, u = "!frontend.tensor<[M, 512], f16>", "!frontend.tensor<[512, 512], f16>"
    body = "".join(
        f"  %{2 * i} = frontend.gemm %{x}, %W{i} {{acc = f32}} : ({t}, {u}) -> {t}\n"
        f"  %{2 * i + 1} = frontend.elementwise relu %{2 * i} : {t}\n"
        for i, x in enumerate(("X", "1", "3"))
    )
    arguments = ", ".join([f"%X: {t}", *(f"%W{i}: {u}" for i in range(3))])
    text = f"frontend.graph @f({arguments}) -> (Y: {t}) {{\n{body}  frontend.output %5 : {t}\n}}\n"
    seen: list[str] = []

    def counted(made: Instance) -> list[str]:
        seen.append(made.region.sym_name.data)
        return tried(made)

    monkeypatch.setattr(by_hand_module, "tried", counted)
    job = Compilation(make_context(), parsed(text), "sm_90a")
    by_hand = with_kernels(job, str(product_file(tmp_path)), {})
    job.run("tiles")  # what is tried is on record there
    regions = [row.instance.region.sym_name.data for row in by_hand.record]
    assert len(regions) == 3
    assert seen == regions[:2]  # the first reads its factors in another order


def test_the_record_and_other_observers(text: Path, tmp_path: Path) -> None:
    seen: list[str] = []
    job = Compilation(make_context(), parsed(text.read_text("utf-8")), "sm_90a")
    job.after = lambda module, name: seen.append(name)
    by_hand = with_kernels(job, str(written(tmp_path)), {"M": 64})
    job.run()
    (row,) = by_hand.record
    assert row.instance.name == "by_hand"
    assert row.sizes == {"M": 64, "N": 1024}
    assert seen[0] == "frontend-to-tiny" and len(seen) > 40


def test_load_with_kernels(tmp_path: Path) -> None:
    sizes = {"M": 1536, "K": 4096, "N": 1760}
    file = product_file(tmp_path, "(128, 160)")
    program = package.load(product(), "sm_90a", kernels=file, sizes=sizes)
    assert program.chosen(sizes) == "f_by_hand_128x160"
    assert package.load(product(), "sm_90a").chosen(sizes) != "f_by_hand_128x160"
    with pytest.raises(PolycError) as caught:
        package.load(ROOT / "examples" / "tile" / "gemm_pipelined.mlir", kernels=file)
    assert caught.value.kind == "Usage"


def test_the_same_bytes_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    """In a new one, and in this one, which has compiled much before, by another order of hashes."""
    args = ["compile", BIASED, "--arch", "sm_90a", "--kernels", GEMM, "--emit", "cuda", *WON]
    other = subprocess.run(
        [sys.executable, "-m", "polyc.tools.polyc", *args],
        env={
            **os.environ,
            "PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1",
            "PYTHONPATH": str(ROOT / ".typecheck"),
        },
        capture_output=True,
        check=True,
        timeout=120,
    ).stdout
    code, own, _ = compiled(capsys, *args[1:])
    assert code == 0
    assert own.encode() == other
    assert "gemm_bias_relu_by_hand_128x160" in own
