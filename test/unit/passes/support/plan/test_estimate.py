"""What a plan expects of a launch is what the simulator counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value
from polyc.dialects.region import KernelOp
from polyc.passes.support.plan.estimate import Estimate, estimate
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import MULTIPROCESSORS
from polyc.test.support.root import ROOT
from polyc.tools import polyc
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"

TEXTS = {
    "bias_relu": EXAMPLE.read_text(),
    "transposed": """
frontend.graph @g(%A: !frontend.tensor<[K, M], bf16>, %B: !frontend.tensor<[N, K], bf16>)
    -> (C: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.gemm %A, %B {acc = f32, transpose_a, transpose_b}
      : (!frontend.tensor<[K, M], bf16>, !frontend.tensor<[N, K], bf16>)
      -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}""",
    "batch": """
frontend.graph @g(%A: !frontend.tensor<[3, M, K], f16>, %B: !frontend.tensor<[3, K, N], f16>,
    %b: !frontend.tensor<[3, 1, N], f16>) -> (C: !frontend.tensor<[3, M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[3, M, K], f16>, !frontend.tensor<[3, K, N], f16>)
      -> !frontend.tensor<[3, M, N], f16>
  %1 = frontend.elementwise add %0, %b
      : (!frontend.tensor<[3, M, N], f16>, !frontend.tensor<[3, 1, N], f16>)
      -> !frontend.tensor<[3, M, N], f16>
  frontend.output %1 : !frontend.tensor<[3, M, N], f16>
}""",
    "residual": """
frontend.graph @g(%A: !frontend.tensor<[M, K], f16>, %B: !frontend.tensor<[K, N], f16>,
    %R: !frontend.tensor<[M, N], f16>, %s: !frontend.tensor<[M, 1], f32>)
    -> (C: !frontend.tensor<[M, N], f16>) {
  %0 = frontend.gemm %A, %B {acc = f32}
      : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>)
      -> !frontend.tensor<[M, N], f16>
  %1 = frontend.elementwise add %0, %R
      : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, N], f16>)
      -> !frontend.tensor<[M, N], f16>
  %2 = frontend.elementwise mul %1, %s
      : (!frontend.tensor<[M, N], f16>, !frontend.tensor<[M, 1], f32>)
      -> !frontend.tensor<[M, N], f16>
  frontend.output %2 : !frontend.tensor<[M, N], f16>
}""",
}


@cache
def compiled(text: str, arch: str, plan: str | None = None) -> tuple[ModuleOp, ModuleOp, ModuleOp]:
    """The program, its plans, and its kernels."""
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text, "t.mlir"), arch, plan, keep=("frontend", "plan"))
    job.run()
    return job.kept["frontend"], job.kept["plan"], job.module


def both(
    name: str, arch: str, variant: str, sizes: tuple[int, int, int], plan: str | None = None
) -> tuple[Estimate, Mapping[str, object]]:
    """What a plan expects and what a run counts, which has no findings."""
    program, planned, kernels = compiled(TEXTS[name], arch, plan)
    wanted = Expected.of(next(graphs(program)), dict(zip("MNK", sizes, strict=True)), 3)
    region = next(op for op in planned.ops if isinstance(op, KernelOp))
    schedule = next(
        op for op in planned.ops if isinstance(op, ScheduleOp) and op.variant.data == variant
    )
    result = simulate(kernels, wanted.inputs, wanted.symbols, schedule.kernel_name)
    result.check()
    planned_counts = estimate(region, schedule, wanted.symbols, MULTIPROCESSORS)
    return planned_counts, result.counters.as_dict()


def differing(planned: Estimate, counted: Mapping[str, object]) -> set[str]:
    return {name for name, value in planned.as_dict().items() if counted[name] != value}


def cases() -> Iterator[tuple[str, str, str, tuple[int, int, int]]]:
    """Every variant of both architectures that takes small shapes, on shapes with tails."""
    multiples = {
        "sm_80": {"cp_async16": 8, "cp_async4": 2, "scalar": 1},
        "sm_90a": {"tma_small": 8, "tma": 8, "cp_async": 2, "scalar": 1},
    }
    for arch, variants in multiples.items():
        for variant, multiple in variants.items():
            for m, n, k in ((8, 1, 1), (136, 33, 25)):
                yield "bias_relu", arch, variant, (m, n * multiple, k * multiple)
            for name in ("transposed", "residual", "batch"):
                if (name, variant) == ("residual", "tma"):
                    continue  # Two tensors that it reads leave that tile no registers.
                yield name, arch, variant, (72, 17 * multiple, 9 * multiple)
    yield "bias_relu", "sm_80", "cp_async16", (130, 264, 520)
    yield "bias_relu", "sm_90a", "tma", (130, 264, 520)
    yield "bias_relu", "sm_90a", "scalar", (5, 3, 0)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "arch", "variant", "sizes"), list(cases()))
def test_the_compilers_plans_expect_what_is_counted(
    name: str, arch: str, variant: str, sizes: tuple[int, int, int]
) -> None:
    """All figures: also those that ``Estimate`` does not promise hold for these plans."""
    planned, counted = both(name, arch, variant, sizes)
    assert not differing(planned, counted)


USERS: list[tuple[str, dict[str, Value], set[str]]] = [
    ("sm_90a", {"variant": "tma", "tile": [64, 64, 32], "warp_tile": [64, 64]}, set()),
    ("sm_90a", {"variant": "tma", "cluster": [2, 1], "multicast": True}, set()),
    ("sm_90a", {"variant": "tma", "cluster": [4, 1], "multicast": True}, set()),
    ("sm_90a", {"variant": "tma", "cluster": [2, 1]}, set()),
    # Rows of 96 elements are three panels of 64 bytes.
    ("sm_90a", {"variant": "tma", "tile": [128, 96, 64], "warp_tile": [64, 96]}, set()),
    ("sm_80", {"variant": "scalar", "tile": [64, 64, 16], "warp_tile": [16, 32]}, set()),
    (
        "sm_80",
        {"variant": "cp_async16", "tile": [128, 64, 64], "stages": 3, "fragment_buffers": 2},
        set(),
    ),
    # The tile that large outputs get.
    ("sm_80", {"variant": "cp_async16", "tile": [256, 128, 64]}, set()),
    # Their swizzles are 64 and 32 bytes wide, and do not keep all accesses apart.
    (
        "sm_80",
        {"variant": "cp_async16", "tile": [64, 96, 64], "warp_tile": [32, 48]},
        {"bank_conflicts"},
    ),
    (
        "sm_80",
        {"variant": "cp_async4", "tile": [64, 64, 48], "warp_tile": [32, 16], "stages": 5},
        {"bank_conflicts"},
    ),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("arch", "fields", "differ"), USERS)
def test_other_plans(tmp_path: Path, arch: str, fields: dict[str, Value], differ: set[str]) -> None:
    if fields.get("tile") == [64, 64, 32]:
        fields = {**fields, "consumers": 1, "registers": []}
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(fields))
    planned, counted = both("bias_relu", arch, str(fields["variant"]), (72, 136, 200), str(path))
    assert differing(planned, counted) == differ


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", ["transposed", "residual"])
@pytest.mark.parametrize("sizes", [(72, 136, 200), (392, 264, 456)])
def test_clusters_share_what_has_no_rows(
    tmp_path: Path, name: str, sizes: tuple[int, int, int]
) -> None:
    """Both kinds of right operands, which are shared by panels and by rows; several tiles a CTA."""
    path = tmp_path / "plan.json"
    variant = "tma_small" if name == "residual" else "tma"
    path.write_text(json.dumps({"variant": variant, "cluster": [2, 1], "multicast": True}))
    planned, counted = both(name, "sm_90a", variant, sizes, str(path))
    assert not differing(planned, counted)


def test_the_figures_of_one_launch_written_out() -> None:
    """M=192, N=160, K=200 in tiles of 128x256x64: 2 CTAs, 4 steps."""
    planned, _ = both("bias_relu", "sm_90a", "tma", (192, 160, 200))
    assert planned == Estimate(
        ctas=2,
        threads=2 * 384,
        # A once, B by two rows of tiles, the bias in 256 rows.
        global_read_bytes=2 * (192 * 200 + 2 * 200 * 160 + 256 * 160),
        global_write_bytes=2 * 192 * 160,
        shared_read_bytes=0,
        # The output goes out through half a tile.
        shared_write_bytes=2 * 2 * 128 * 256,
        bank_conflicts=0,
        peak_shared_bytes=4 * 2 * (128 * 64 + 64 * 256) + 4 * 16 + 2 * 128 * 128,
        cp_async_bytes=0,
        tma_loads=2 * 4 * 5,
        tma_bytes=2 * 4 * 2 * (128 * 64 + 64 * 256),
        mma=0,
        wgmma=2 * 4 * 2 * 4,
        barriers=2 * 12 + 2 * 2 * 2 * 8,
        mbarrier_waits=2 * 4 * (8 + 1),
    )


def test_the_command_shows_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "r.json"
    sizes = [f"--set={name}={value}" for name, value in zip("MNK", (40, 72, 88), strict=True)]
    command = ["simulate", str(EXAMPLE), "--arch", "sm_80", *sizes, "--json", str(report)]
    assert polyc.main(command) == 0
    out = capsys.readouterr().out
    assert "tensor cores: 1024 (plan 1024) mma, 0 wgmma\n" in out
    assert "barriers: 12 (plan 12) waits of a warp, 0 at mbarriers\n" in out
    data = json.loads(report.read_text())
    assert data["plan"]["mma"] == data["counters"]["mma"] == 2 * 512
    # Text of the gpu dialect says nothing of a plan.
    copy = ROOT / "test" / "simulator" / "transpose.mlir"
    assert polyc.main(["simulate", str(copy), *sizes[:2], "--json", str(report)]) == 0
    assert "plan" not in capsys.readouterr().out
    assert json.loads(report.read_text())["plan"] is None
