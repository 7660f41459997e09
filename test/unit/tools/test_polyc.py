"""The `polyc` command: compile, dumps, run, and that a refusal is one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc import __version__
from polyc.dialects.common.diagnostic import PolycError
from polyc.families.ranking import MOST_KERNELS, MOST_PADDED
from polyc.test.support.root import ROOT
from polyc.tools import polyc_opt
from polyc.tools.check import EachPass, Expected, small_sizes
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import DUMPS, Compilation, graphs
from polyc.tools.play import play
from polyc.tools.polyc import main
from polyc.tools.registry import make_context
from polyc.tools.sizes import parse_sizes

EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"
SMALL = ("--set", "M=5", "--set", "N=7", "--set", "K=3")


def polyc(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(a) for a in args])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refusal(capsys: pytest.CaptureFixture[str], *args: str | Path) -> str:
    code, _, err = polyc(capsys, *args)
    assert code == 1
    assert err.endswith("\n") and err.count("\n") == 1, err
    return err.rstrip()


def module_of(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "t.mlir")


# Sizes ---------------------------------------------------------------------------------------

ASSUMING = """frontend.graph @f(%A: !frontend.tensor<[M, K], f16>)
    -> (C: !frontend.tensor<[M, K], f16>) assuming (K mod 8 == 0, M >= 2) {
  %0 = frontend.elementwise relu %A : !frontend.tensor<[M, K], f16>
  frontend.output %0 : !frontend.tensor<[M, K], f16>
}
"""


@pytest.mark.parametrize(
    ("settings", "kind", "says"),
    [
        ([], "MissingSize", "symbols M, K; add --set M=VALUE --set K=VALUE"),
        (["M=3"], "MissingSize", "symbol K; add --set K=VALUE"),
        (["M"], "BadSize", "not NAME=INTEGER"),
        (["M=1.5"], "BadSize", "not NAME=INTEGER"),
        (["M="], "BadSize", "not NAME=INTEGER"),
        (["M=-1"], "BadSize", "M is -1"),
        (["M=4", "M=5"], "BadSize", "4 and 5"),
        (["Q=1"], "UnknownSymbol", "no symbol 'Q'; it has M, K"),
        (["M=4", "K=12"], "AssumptionViolated", "K = 12"),
        (["M=1", "K=8"], "AssumptionViolated", "M >= 2"),
    ],
)
def test_sizes_that_are_refused(settings: list[str], kind: str, says: str):
    graph = next(graphs(module_of(ASSUMING)))
    with pytest.raises(PolycError) as caught:
        parse_sizes(settings, graph)
    assert caught.value.kind == kind
    assert says in caught.value.message
    assert caught.value.format().startswith("t.mlir:1:1: ")


def test_sizes_in_the_order_of_the_signature():
    graph = next(graphs(module_of(ASSUMING)))
    assert list(parse_sizes(["K=16", "M=2"], graph).items()) == [("M", 2), ("K", 16)]


def test_small_sizes_satisfy_the_assumptions():
    graph = next(graphs(module_of(ASSUMING)))
    sizes = small_sizes(graph)
    assert sizes["K"] % 8 == 0 and sizes["M"] >= 2
    with pytest.raises(PolycError, match="NoSizes"):
        small_sizes(next(graphs(module_of(ASSUMING.replace("M >= 2", "M >= 3000")))))


# Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "error[Usage]: the following arguments are required: COMMAND"),
        (("nope",), "error[Usage]: argument COMMAND: invalid choice: 'nope'"),
        (("compile", EXAMPLE), "error[Usage]: the following arguments are required: --arch"),
        (("compile", EXAMPLE, "--arch", "sm_70"), "error[UnknownArch]: there is no"),
        (("compile", EXAMPLE, "--arch", "sm_80", "--emit", "exe"), "error[Usage]: argument --emit"),
        (("compile", EXAMPLE, "--arch", "sm_80", "--dump", "a"), "error[Usage]: --dump has no 'a'"),
        (("compile", "no.mlir", "--arch", "sm_80"), "no.mlir: error[FileNotFound]: "),
        (("run", "no.mlir"), "no.mlir: error[FileNotFound]: "),
        (("run", EXAMPLE), f"{EXAMPLE}:3:1: error[MissingSize]: "),
        (("run", EXAMPLE, *SMALL, "--set", "X=1"), f"{EXAMPLE}:3:1: error[UnknownSymbol]: "),
        (("run", EXAMPLE, *SMALL, "--arch", "sm_1"), "error[UnknownArch]: "),
        (("run", EXAMPLE, *SMALL, "--device", "tpu"), "error[Usage]: argument --device"),
        (("run", EXAMPLE, *SMALL, "--graph", "g"), f"{EXAMPLE}:1:1: error[NothingToRun]: "),
        (("run", EXAMPLE, *SMALL, "--seed", "-1"), "error[Usage]: --seed -1"),
    ],
)
def test_refusals(capsys: pytest.CaptureFixture[str], args: tuple[str | Path, ...], says: str):
    assert refusal(capsys, *args).startswith(says)


def test_no_gpu(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("polyc.runtime.driver.available", lambda: False)
    line = refusal(capsys, "run", EXAMPLE, *SMALL, "--device", "cuda")
    assert line.startswith("error[NoGPU]: ") and "--device cpu" in line


def test_errors_as_json(capsys: pytest.CaptureFixture[str]):
    data = json.loads(refusal(capsys, "run", EXAMPLE, "--diagnostics", "json"))
    assert (data["kind"], data["line"], data["column"]) == ("MissingSize", 3, 1)


def test_two_graphs_need_a_name(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "two.mlir"
    path.write_text(ASSUMING + ASSUMING.replace("@f", "@g"))
    assert "the graphs f, g; choose one with --graph" in refusal(capsys, "run", path)


@pytest.mark.parametrize("command", ["run", "bench", "simulate", "tune"])
def test_of_two_graphs_only_the_one_that_is_named_is_compiled(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "two.mlir"
    path.write_text(ASSUMING + ASSUMING.replace("@f", "@g"))
    how = {"run": ("--device", "cpu"), "tune": ("--dry", "--records", tmp_path / "r.json")}
    asked = ("--graph", "g", "--arch", "sm_80", "--set", "M=4", "--set", "K=8")
    code, out, err = polyc(capsys, command, path, *asked, *how.get(command, ()))
    assert (code, err) == (0, "")
    assert "@g" in out and "@f" not in out
    if command == "bench":
        assert "in 1 launch\n" in out


@pytest.mark.parametrize("tool", [main, polyc_opt.main])
def test_the_version_is_that_of_polyc(
    tool: Callable[[Sequence[str]], int], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        tool(["--version"])
    assert ended.value.code == 0
    assert f"polyc {__version__}" in capsys.readouterr().out


def test_a_file_below_the_frontend(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "low.mlir"
    path.write_text("%0 = arith.constant 1 : i32")
    assert "has no frontend.graph" in refusal(capsys, "run", path)


# Compile -------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_compile_to_cuda(capsys: pytest.CaptureFixture[str], tmp_path: Path, arch: str):
    out = tmp_path / "k.cu"
    code, text, err = polyc(capsys, "compile", EXAMPLE, "--arch", arch, "-o", out)
    assert (code, err) == (0, "")
    assert text.splitlines()[-1].startswith(f"wrote {out}, ")
    assert "__global__" in out.read_text()
    code, to_stdout, err = polyc(capsys, "compile", EXAMPLE, "--arch", arch)
    assert (code, err) == (0, "")
    assert to_stdout == out.read_text()


def test_compile_to_mlir_reads_back(capsys: pytest.CaptureFixture[str]):
    code, text, _ = polyc(capsys, "compile", EXAMPLE, "--arch", "sm_90a", "--emit", "mlir")
    assert code == 0
    again = parse_text(make_context(), text, "t.mlir")
    assert str(again) + "\n" == text


def test_dumps(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    code, _, _ = polyc(
        capsys,
        "compile",
        EXAMPLE,
        *("--arch", "sm_80", "-o", tmp_path / "k.cu"),
        *("--dump", ",".join(DUMPS), "--dump-dir", tmp_path / "d"),
    )
    assert code == 0
    folder = tmp_path / "d"
    assert sorted(p.name for p in folder.iterdir()) == sorted(file for _, file in DUMPS.values())
    for _, file in DUMPS.values():
        text = (folder / file).read_text()
        assert text.endswith("\n")
        if file.endswith(".json"):
            assert json.loads(text)
        elif file.endswith(".mlir"):
            assert str(module_of(text)) + "\n" == text
    assert "index.value" not in (folder / "tiny.mlir").read_text()
    assert (folder / "kernel.cu").read_text() == (tmp_path / "k.cu").read_text()


def test_dumps_of_what_was_reached(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    """A plan that does not fit ends the compilation; the layers above it are there to read."""
    plan = tmp_path / "plan.json"
    plan.write_text('{"stages": 8, "tile": [256, 256, 128]}')
    code, _, err = polyc(
        capsys,
        "compile",
        EXAMPLE,
        *("--arch", "sm_90a", "-o", tmp_path / "k.cu", "--plan", plan),
        *("--dump", "tiny,gpu", "--dump-dir", tmp_path / "d"),
    )
    assert code == 1
    assert err.count("\n") == 1
    assert [p.name for p in (tmp_path / "d").iterdir()] == ["tiny.mlir"]


def test_a_plan_that_is_too_large(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    plan = tmp_path / "plan.json"
    plan.write_text('{"variant": "tma", "stages": 8}')
    line = refusal(capsys, "compile", EXAMPLE, "--arch", "sm_90a", "--plan", plan)
    assert "error[ResourceExceeded]: " in line
    assert "shared" in line


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_dumped_plan_is_read_back(capsys: pytest.CaptureFixture[str], tmp_path: Path, arch: str):
    """The list of all schedules, and a single object of one with a field changed."""
    first, second = tmp_path / "a.cu", tmp_path / "b.cu"
    dump = ("--dump", "plan", "--dump-dir", tmp_path)
    assert polyc(capsys, "compile", EXAMPLE, "--arch", arch, "-o", first, *dump)[0] == 0
    plan = tmp_path / "plan.json"
    schedules = json.loads(plan.read_text())
    assert len(schedules) == {"sm_80": 6, "sm_90a": MOST_KERNELS[3] + MOST_PADDED[3] + 2}[arch]
    again = ("compile", EXAMPLE, "--arch", arch, "-o", second, "--plan", plan)
    assert polyc(capsys, *again)[0] == 0
    assert second.read_text() == first.read_text()
    plan.write_text(json.dumps([schedules[1] | {"stages": 2}]))
    assert polyc(capsys, *again)[0] == 0
    of_a_list = second.read_text()
    assert of_a_list != first.read_text()
    plan.write_text(json.dumps(schedules[1] | {"stages": 2}))
    assert polyc(capsys, *again)[0] == 0
    assert second.read_text() == of_a_list


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON: Expecting value at line 1"),
        ("3", "holds int where a schedule's object belongs"),
        ("[[]]", "holds list where a schedule's object belongs"),
        ('{"stages": ' + "9" * 5000 + "}", "Exceeds the limit"),
        ('{"stages": 99999999999999999999}', "field 'stages': "),
        ('{"stages": 2.5}', "field 'stages': expected an integer, got 2.5"),
        ('{"stages": NaN}', "is not JSON: NaN is no number of it"),
        ('{"tile": [128, 256]}', "tile is [128, 256]; it needs 3 sizes of at least 1"),
        ('{"tile": [0, 0, 0]}', "it needs 3 sizes of at least 1"),
        ('{"region": "other"}', "there is no region 'other' to schedule; the regions are gemm"),
        ('{"region": 3}', "there is no region 3 to schedule"),
        ('{"variant": ["tma"]}', "there is no variant ['tma'] to schedule; the variants are tma"),
        ('{"when": []}', 'a tensor map has no empty axis; add "K >= 1" to its when'),
        ('{"when": ["K >= 1"]}', "needs rows aligned to 16 bytes"),
        ('{"when": ["K mod 0 == 0"]}', "field 'when': "),
        ('{"when": ["K"]}', "field 'when': 'K' is not a condition such as K mod 8 == 0"),
        ('{"when": ["Q >= 1", "K >= 1"]}', "names Q, which is not among the symbols M, K, N"),
        ('{"variant": "scalar", "vectorize": 8, "loader": "cp_async"}', "aligned to "),
        ('{"arch": "sm_80"}', "the plan is for sm_80, the pass for sm_90a"),
        ("\x00", "is not JSON"),
    ],
)
def test_plans_that_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
):
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    line = refusal(capsys, "compile", EXAMPLE, "--arch", "sm_90a", "--plan", plan)
    assert "InternalError" not in line
    assert says in line


def test_places_survive_to_the_gpu_layer():
    job = Compilation.of_file(EXAMPLE, "sm_90a").run()
    lost = [op.name for op in job.module.walk() if "gemm_bias_relu.mlir" not in str(op.location)]
    assert lost == []


def test_two_runs_give_the_same_bytes(capsys: pytest.CaptureFixture[str]):
    args = ("compile", EXAMPLE, "--arch", "sm_80")
    assert polyc(capsys, *args)[1] == polyc(capsys, *args)[1]


# Run and check -------------------------------------------------------------------------------


def test_run_on_the_cpu(capsys: pytest.CaptureFixture[str]):
    code, out, err = polyc(capsys, "run", EXAMPLE, *SMALL, "--device", "cpu", "--check")
    assert (code, err) == (0, "")
    last = out.splitlines()[-1]
    assert last == (
        "frontend, tiny, index and region agree with the FP32 reference; "
        "sm_80 and sm_90a compiled to cubins"
    )
    for step in ("parse", "compile sm_80", "compile sm_90a", "play back region"):
        assert step in out


@pytest.mark.parametrize("sizes", [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1)])
def test_layers_agree_at_edges(sizes: tuple[int, int, int], ctx: Context):
    job = Compilation.of_file(EXAMPLE, "sm_80")
    graph = next(graphs(job.module))
    expected = Expected.of(graph, dict(zip(graph.symbol_names, sizes, strict=True)))
    job.after = EachPass([expected]).after
    job.run("region")
    assert play(job.module, "gemm_bias_relu", expected.inputs, expected.symbols) is not None


def test_a_disagreement_names_layer_and_element():
    job = Compilation.of_file(EXAMPLE, "sm_80")
    expected = Expected.of(next(graphs(job.module)), {"M": 3, "K": 2, "N": 4})
    outputs = play(job.module, "gemm_bias_relu", expected.inputs, expected.symbols)
    assert outputs is not None
    assert expected.compare("the tiny layer", outputs) < 1e-2
    outputs[0][1, 2] += 1.0
    outputs[0][2, 3] += 1.0
    with pytest.raises(PolycError) as caught:
        expected.compare("the tiny layer", outputs)
    assert caught.value.kind == "Disagreement"
    assert "the tiny layer differs" in caught.value.message
    assert "M=3, K=2, N=4: output C, element [1, 2]" in caught.value.message
    assert "2 of 12 elements" in caught.value.message
