"""Simulated kernels compute what the reference does, and wrong ones are caught."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.test.support.root import ROOT
from polyc.tools import polyc
from polyc.tools.check import Expected
from polyc.tools.commands import simulate as simulate_command
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context
from polyc.tools.steps import quiet

Array = NDArray[Any]
EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"
BF16 = ROOT / "examples" / "gemm_bias_relu_bf16.mlir"


@cache
def lowered(arch: str, path: Path = EXAMPLE) -> ModuleOp:
    return Compilation.of_file(path, arch).run().module


@cache
def expected(sizes: tuple[int, int, int], path: Path = EXAMPLE) -> Expected:
    source = Compilation.of_file(path, "sm_80").module
    return Expected.of(next(graphs(source)), dict(zip("MNK", sizes, strict=True)), 3)


# Kernels -------------------------------------------------------------------------------

KERNELS = [
    ("sm_80", "cp_async16", (72, 136, 200)),
    ("sm_80", "cp_async4", (72, 134, 102)),
    ("sm_80", "scalar", (70, 133, 69)),
    ("sm_90a", "tma_small", (72, 264, 328)),
    ("sm_90a", "tma", (72, 264, 328)),
    ("sm_90a", "cp_async", (72, 134, 102)),
    ("sm_90a", "scalar", (70, 133, 69)),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("arch", "loader", "sizes"), KERNELS)
@pytest.mark.parametrize(
    ("schedule", "completion"), [("round-robin", "late"), ("random", "random")]
)
def test_every_kernel_path_agrees_with_the_reference(
    arch: str, loader: str, sizes: tuple[int, int, int], schedule: str, completion: str
) -> None:
    wanted = expected(sizes)
    result = simulate(
        lowered(arch),
        wanted.inputs,
        wanted.symbols,
        schedule=schedule,
        completion=completion,
        seed=11,
        variant=f"gemm_bias_relu_{loader}",
    )
    result.check()
    wanted.compare(f"the simulated {loader}", result.outputs)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (8, 8, 8), (3, 264, 16), (136, 8, 0)])
def test_degenerate_sizes(arch: str, sizes: tuple[int, int, int]) -> None:
    wanted = expected(sizes)
    result = simulate(lowered(arch), wanted.inputs, wanted.symbols)
    result.check()
    wanted.compare("the simulated kernel", result.outputs)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_bf16(arch: str) -> None:
    wanted = expected((40, 72, 88), BF16)
    result = simulate(lowered(arch, BF16), wanted.inputs, wanted.symbols)
    result.check()
    wanted.compare("the simulated kernel", result.outputs)


@pytest.mark.turns(2)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule(schedule: str) -> None:
    wanted = expected((72, 264, 328))
    for completion in ("late", "early", "random"):
        result = simulate(
            lowered("sm_90a"),
            wanted.inputs,
            wanted.symbols,
            schedule=schedule,
            completion=completion,
            seed=5,
        )
        result.check()
        wanted.compare(f"{schedule}, {completion}", result.outputs)


def test_infinities_and_nan_stay_in_their_row_and_column() -> None:
    wanted = expected((72, 264, 328))
    a, b, bias = (np.array(x) for x in wanted.inputs)
    a[5, 0], b[7, 9] = np.nan, np.inf
    (c,) = simulate(lowered("sm_90a"), [a, b, bias], wanted.symbols).outputs
    bad = ~np.isfinite(c.astype(np.float32))
    assert bad[5].all()
    assert not bad[np.arange(72) != 5][:, np.arange(264) != 9].any()


def test_an_empty_output_needs_no_kernel() -> None:
    wanted = expected((0, 8, 8))
    result = simulate(lowered("sm_80"), wanted.inputs, wanted.symbols)
    assert (result.variant, result.grid, result.outputs[0].shape) == (None, 0, (0, 8))


def test_the_dispatch_is_the_runtimes() -> None:
    """A base address that is less aligned takes the kernel that accepts it."""
    wanted = expected((40, 72, 88))
    for alignment, loader in ((256, "cp_async16"), (4, "cp_async4"), (2, "scalar")):
        result = simulate(lowered("sm_80"), wanted.inputs, wanted.symbols, alignment=alignment)
        assert result.variant == f"gemm_bias_relu_{loader}"
        result.check()
        wanted.compare(loader, result.outputs)


def test_refusals() -> None:
    wanted = expected((40, 72, 88))
    module, inputs, symbols = lowered("sm_90a"), wanted.inputs, wanted.symbols

    def refused(**options: Any) -> PolycError:
        given_: dict[str, Any] = {"gpu_module": module, "inputs": inputs, "symbols": symbols}
        with pytest.raises(PolycError) as caught:
            simulate(**(given_ | options))
        return caught.value

    assert refused(schedule="fifo").kind == "Usage"
    assert refused(completion="never").kind == "Usage"
    assert refused(variant="no_such_kernel").kind == "BadArgument"
    assert refused(inputs=inputs[:2]).kind == "BadArgument"
    assert "[40, 88]" in refused(inputs=[inputs[1], *inputs[1:]]).message
    unfit = dict(symbols) | {"K": 87}
    a, b, bias = inputs
    error = refused(symbols=unfit, inputs=[a[:, :87], b[:87], bias], variant="gemm_bias_relu_tma")
    assert error.kind == "NoVariant" and "K mod 8 == 0" in error.notes[0]
    source = Compilation.of_file(EXAMPLE, "sm_80").module
    assert refused(gpu_module=source).kind == "NothingToRun"


def test_an_op_above_the_hardware_level_is_refused() -> None:
    text = """
    gpu.module @m arch "sm_80" symbols [N] {
      gpu.kernel @k(%Y: !gpu.global<[N], f32> = tensor 0) threads 32 {
        %tile = gpu.shared_tile : !gpu.shared<[8, 8], f32>
        gpu.return
      }
      gpu.dispatch () -> (Y: !gpu.global<[N], f32>) {
        gpu.launch @k align [4] grid [1]
      }
    }"""
    module = parse_text(make_context(), text, "m.mlir")
    with pytest.raises(PolycError, match="gpu-plan-shared-memory"):
        simulate(module, [], {"N": 4})


# Mutants -------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("arch", "loader", "shapes", "every"),
    [
        ("sm_90a", "tma", [(24, 520, 584), (24, 40, 40)], 52),
        ("sm_80", "cp_async16", [(24, 72, 232), (24, 72, 40)], 36),
    ],
)
def test_a_sample_of_mutants_is_caught(
    arch: str, loader: str, shapes: list[tuple[int, int, int]], every: int
) -> None:
    """The whole set is ``bench/mutation_rate.py``."""
    module = gpu_module_of(lowered(arch))
    name = f"gemm_bias_relu_{loader}"
    rows = [expected(s) for s in shapes]
    cases = [Case.of(module, name, e.symbols, e.inputs, e.outputs) for e in rows]
    mine = [m for m in mutants(module) if m.kernel == name][::every]
    verdicts = [judge(m, cases) for m in mine]
    assert [str(v.mutant) for v in verdicts if v.outcome == "survived"] == []
    assert sum(v.outcome == "caught" for v in verdicts) > len(verdicts) // 2


def test_a_mutant_that_changes_nothing_is_shown_to_be_harmless() -> None:
    """The leading offset of a swizzled operand that is contiguous along k is not used."""
    module = gpu_module_of(lowered("sm_90a"))
    wanted = expected((72, 264, 328))
    name = "gemm_bias_relu_tma"
    case = Case.of(module, name, wanted.symbols, wanted.inputs, wanted.outputs)
    leading = next(
        m
        for m in mutants(module)
        if m.kernel == name and m.op == "gpu.wgmma_descriptor" and m.change.startswith("leading 16")
    )
    assert judge(leading, [case]).outcome == "harmless"


# Examples written by hand -------------------------------------------------------------


@pytest.mark.parametrize("name", ["row_sum", "transpose"])
@pytest.mark.parametrize(("schedule", "seed"), [("round-robin", 0), ("random", 3)])
def test_examples_written_by_hand(name: str, schedule: str, seed: int) -> None:
    path = ROOT / "examples" / "gpu" / f"{name}.mlir"
    job = Compilation.of_file(path, "sm_80")
    module = simulate_command.lower(job, None, None, quiet())
    x = np.random.default_rng(1).standard_normal((37, 300)).astype(np.float32)
    result = simulate(module, [x], {"M": 37, "N": 300}, schedule=schedule, seed=seed)
    result.check()
    wanted = x.sum(axis=1) if name == "row_sum" else x.T
    np.testing.assert_allclose(result.outputs[0], wanted, rtol=1e-5, atol=1e-4)


# The command ---------------------------------------------------------------------------


def command(*arguments: str) -> int:
    return polyc.main(["simulate", *arguments])


SIZES = ("--set", "M=40", "--set", "N=72", "--set", "K=88")


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, timeline, layouts = tmp_path / "r.json", tmp_path / "t.svg", tmp_path / "layouts"
    options = ["--json", str(report), "--timeline", str(timeline), "--layouts", str(layouts)]
    random = ["--schedule", "random", "--seed", "7", "--check"]
    assert command(str(EXAMPLE), "--arch", "sm_90a", *SIZES, *random, *options) == 0
    out = capsys.readouterr().out
    ran = re.search(r"kernel gemm_bias_relu_tma_\w+, (\d+) CTAs", out)
    assert "agrees with the FP32 reference" in out
    data = json.loads(report.read_text())
    assert ran is not None and data["findings"] == []
    assert data["counters"]["tma_loads"] == 2 * 2 * int(ran[1])
    assert "TMA" in timeline.read_text()
    assert sorted(p.name for p in layouts.iterdir()) == [
        "A_tile.svg",
        "B_tile.svg",
    ]


def test_the_command_on_hardware_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = ROOT / "test" / "simulator" / "transpose.mlir"
    assert command(str(source), "--set", "M=50", "--set", "N=70") == 0
    broken = tmp_path / "broken.mlir"
    broken.write_text(source.read_text().replace("    gpu.barrier\n", ""))
    capsys.readouterr()
    assert command(str(broken), "--set", "M=50", "--set", "N=70", "--diagnostics", "json") == 1
    error = json.loads(capsys.readouterr().err)
    assert (error["kind"], error["file"], error["line"]) == ("DataRace", str(broken), 39)


def test_the_command_on_tile_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Text at tile level is lowered first."""
    job = Compilation.of_file(EXAMPLE, "sm_80")
    job.run("plan")
    from polyc.lowering.region_to_gpu import RegionToGpu

    RegionToGpu().apply(job.ctx, job.module)
    file = tmp_path / "tile.mlir"
    file.write_text(str(job.module))
    assert command(str(file), *SIZES) == 0
    assert "lower from tile level" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ([str(EXAMPLE), *SIZES], "Usage"),
        ([str(EXAMPLE), "--arch", "sm_90a", "--set", "M=1"], "MissingSize"),
        ([str(EXAMPLE), "--arch", "sm_80", *SIZES, "--schedule", "fifo"], "Usage"),
        ([str(EXAMPLE), "--arch", "sm_80", *SIZES, "--seed", "-1"], "Usage"),
        ([str(ROOT / "test/simulator/transpose.mlir"), "--set", "M=1"], "MissingSize"),
    ],
)
def test_the_command_refuses(
    arguments: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 1
    assert f"error[{kind}]" in capsys.readouterr().err
