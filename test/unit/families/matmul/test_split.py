"""Products of few tiles: which plans split k, and what their kernels compute (S8, S9)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import tile
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import STAGES, build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.polyc import main
from polyc.tools.registry import make_context

SMALL = {"tile": [64, 64, 64], "warp_tile": [64, 64], "consumers": 1}
WIDE = {"tile": [64, 128, 64], "warp_tile": [64, 128], "consumers": 1}
HIGH = {"tile": [128, 64, 64], "warp_tile": [64, 64], "consumers": 2}


def split(parts: int, tile: Mapping[str, Any] = WIDE, **more: Any) -> dict[str, Any]:
    """A plan over the first one, by which clusters of ``parts`` CTAs share a tile of any depth."""
    when = ["K mod 8 == 0", "N mod 8 == 0", "K >= 1"]
    return {"variant": "tma_split8", "split_k": parts, "stages": 4, "when": when, **tile, **more}


# Programs ------------------------------------------------------------------------------


def plain(m: Size = "M", n: Size = "N", k: Size = "K", element: object = f16) -> ModuleOp:
    s = Sketch("plain", bf16 if element is bf16 else f16)
    return s.done(y=s.linear(s.input("x", m, k), "w", n))


def residual() -> ModuleOp:
    """A bias of the columns, a function, and a residual."""
    s = Sketch("residual")
    x, skip = s.input("x", "M", "K"), s.input("skip", "M", "N")
    return s.done(y=s.fn("add", s.fn("gelu", s.linear(x, "w", "N", bias=True)), skip))


def across() -> ModuleOp:
    """The second factor's rows lie along k, and the output is f32."""
    s = Sketch("across")
    x, w = s.input("x", "M", "K"), s.input("w", "K", "N")
    return s.done(y=s.cast(s.fn("relu", s.gemm(x, w)), f32))


def batched() -> ModuleOp:
    s = Sketch("batched")
    x, w = s.input("x", "B", "M", "K"), s.input("w", "B", "N", "K")
    return s.done(y=s.fn("tanh", s.gemm(x, w, turned=True)))


def gated() -> ModuleOp:
    """Two products that share the operand of their rows."""
    s = Sketch("gated")
    x = s.input("x", "M", "K")
    return s.done(y=s.fn("mul", s.fn("silu", s.linear(x, "a", "N")), s.linear(x, "b", "N")))


CASES: dict[str, tuple[Callable[[], ModuleOp], dict[str, Any], dict[str, int]]] = {
    "whole tiles": (plain, split(2), {"M": 64, "N": 128, "K": 512}),
    "tails": (plain, split(4), {"M": 70, "N": 136, "K": 328}),
    "one row": (plain, split(8, SMALL), {"M": 1, "N": 72, "K": 1032}),
    "fewer steps than parts": (plain, split(8), {"M": 17, "N": 24, "K": 136}),
    "one step": (plain, split(4), {"M": 9, "N": 8, "K": 8}),
    "two warpgroups": (plain, split(8, HIGH), {"M": 70, "N": 64, "K": 584}),
    "bf16": (lambda: plain(element=bf16), split(2, HIGH), {"M": 100, "N": 40, "K": 264}),
    "a residual": (residual, split(2, HIGH), {"M": 129, "N": 72, "K": 200}),
    "an output in f32": (across, split(4, HIGH), {"M": 77, "N": 56, "K": 456}),
    "a batch": (batched, split(2, SMALL), {"B": 3, "M": 45, "N": 72, "K": 200}),
    "two products": (gated, split(2, SMALL), {"M": 21, "N": 88, "K": 328}),
}


def run(module: ModuleOp, last: str, plan: str | None = None, arch: str = "sm_90a") -> ModuleOp:
    """A program after the stage ``last``, with a user's plan."""
    ctx = make_context()
    found = parse_text(ctx, str(module), "split.mlir")
    for stage, names in STAGES.items():
        for name in names:
            build(name, arch, plan).apply(ctx, found)
        if stage == last:
            break
    return found


def written(folder: Path, plan: Mapping[str, Any]) -> str:
    """The file of a plan."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    return str(file)


def wanted_of(module: ModuleOp, sizes: Mapping[str, int]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Inputs, and what the program means on them."""
    frontend = parse_text(make_context(), str(module), "split.mlir")
    inputs = make_inputs(only(frontend, GraphOp), sizes, 4)
    return inputs, meant(frontend, inputs, sizes)


COUNTED = (
    *("ctas", "threads", "global_write_bytes", "shared_read_bytes", "shared_write_bytes"),
    *("bank_conflicts", "peak_shared_bytes", "tma_loads", "tma_bytes", "wgmma", "barriers"),
    "mbarrier_waits",
)
"""What a plan foretells, and the simulator counts."""


# What they compute ---------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_split_product_computes_what_it_means(name: str, tmp_path: Path) -> None:
    """With no race, with what its plan foretells, and the same bits in another interleaving."""
    make, fields, sizes = CASES[name]
    module, plan = make(), written(tmp_path, fields)
    inputs, wanted = wanted_of(module, sizes)
    kernels = gpu_module_of(run(module, "gpu", plan))
    kernel = kernels.kernels()[0]
    assert kernel.cluster_size == fields["split_k"]
    first = simulate(kernels, inputs, sizes)
    assert first.variant == kernel.sym_name.data and not first.findings
    assert_agree(first.outputs, wanted, name)
    planned = run(module, "plan", plan)
    schedule = next(op for op in planned.ops if isinstance(op, ScheduleOp))
    foretold = estimate(only(planned, KernelOp), schedule, sizes, MULTIPROCESSORS).as_dict()
    counted = {field: getattr(first.counters, field) for field in COUNTED}
    assert counted == {field: foretold[field] for field in COUNTED}
    second = simulate(kernels, inputs, sizes, schedule="random", seed=3, completion="random")
    assert not second.findings
    assert [a.tobytes() for a in first.outputs] == [b.tobytes() for b in second.outputs]


@pytest.mark.parametrize("name", CASES)
def test_the_tiles_of_a_split_product_mean_the_same(name: str, tmp_path: Path) -> None:
    make, fields, sizes = CASES[name]
    module, plan = make(), written(tmp_path, fields)
    inputs, wanted = wanted_of(module, sizes)
    tiles = run(module, "plan", plan)
    build("region-to-gpu", "sm_90a").apply(make_context(), tiles)
    assert find(gpu_module_of(tiles).kernels()[0], tile.ReduceScatterOp)
    found = play(tiles, only(module, GraphOp).sym_name.data, inputs, sizes)
    assert found is not None
    assert_agree(list(found), wanted, name)


def test_splits_spill_nothing() -> None:
    """The kernels that the compiler offers, by the compiler's own report."""
    for make in (plain, residual, batched, gated):
        program = load(str(make()), "sm_90a")
        found = {k: info for k, info in program.kernels.items() if "split" in k}
        assert len(found) == 2
        assert {k: i.spill_bytes for k, i in found.items() if i.spill_bytes} == {}, nvrtc.version()
        assert not program.result.warnings()


# Which plans split ---------------------------------------------------------------------


@cache
def plans(m: Size, n: Size, k: Size, arch: str = "sm_90a") -> list[ScheduleOp]:
    return find(run(plain(m, n, k), "plan", arch=arch), ScheduleOp)


def runs(m: int, n: Size, k: Size, sizes: Mapping[str, int]) -> tuple[str, tuple[int, ...]]:
    """The variant that a product with M rows runs at ``sizes``, and its tile."""
    found = plans("M", n, k)
    plan = next(p for p in found if all(f.holds({"M": m, **sizes}) for f in p.when.data))
    return plan.variant.data, plan.tile_sizes


@pytest.mark.parametrize(
    ("m", "n", "k", "variant"),
    [
        (1, 4096, 4096, "tma_split4"),
        (16, 4096, 4096, "tma_split4"),
        (128, 4096, 4096, "tma_split4"),
        (129, 4096, 4096, "tma_split2"),
        (256, 4096, 4096, "tma_split2"),
        (257, 4096, 4096, "tma_small"),
        (4096, 4096, 4096, "tma"),
        (1, 64, 4096, "tma_split8"),
        (2048, 64, 4096, "tma_split8"),
        (4096, 64, 4096, "tma_split4"),
        (4225, 64, 4096, "tma_small"),
        (1, 1024, 4096, "tma_split8"),
        (1, 14336, 4096, "tma_small"),
        # One tile of 8 steps is not worth it, nor 16 steps of a tile that two CTAs share.
        (1, 4096, 512, "tma_small"),
        (1, 4096, 1024, "tma_split4"),
        (256, 4096, 1024, "tma_small"),
    ],
)
def test_sizes_decide_which_kernel_runs(m: int, n: int, k: int, variant: str) -> None:
    """Rows are a symbol; where all sizes are one, the same conditions decide on some."""
    assert runs(m, n, k, {})[0] == variant
    every = runs(m, "N", "K", {"N": n, "K": k})[0]
    assert ("split" in every) == ("split" in variant) or n == 4096


@pytest.mark.parametrize(
    ("m", "n", "k", "variant", "sizes"),
    [
        (1, 4096, 4096, "tma_split4", (64, 128, 64)),
        (64, 4096, 4096, "tma_split4", (64, 128, 64)),
        (65, 4096, 4096, "tma_split4", (128, 128, 64)),
        (1, 1024, 4096, "tma_split8", (64, 64, 64)),
        (256, 1024, 4096, "tma_split8", (128, 128, 64)),
        (4096, 16, 4096, "tma_split4", (128, 64, 64)),
        (1, 4096, 14336, "tma_split4", (64, 128, 64)),
        (128, 128, 65536, "tma_split8", (128, 64, 64)),
        (1024, 1024, 1024, "tma_small", (128, 128, 64)),
    ],
)
def test_sizes_that_are_known_leave_one_plan(
    m: int, n: int, k: int, variant: str, sizes: tuple[int, int, int]
) -> None:
    (plan,) = plans(m, n, k)
    assert (plan.variant.data, plan.tile_sizes) == (variant, sizes)
    assert not plan.when.data and not plan.notes


def test_a_product_has_two_splits_at_most_and_they_fit() -> None:
    for m, n, k in (("M", "N", "K"), ("M", 4096, 4096), ("M", 64, "K"), (8, "N", 4096)):
        found = [p for p in plans(m, n, k) if p.integer("split_k") > 1]
        assert 1 <= len(found) <= 2
        for plan in found:
            assert plan.shared_bytes() <= plan.target.shared_bytes
            assert plan.integer("stages") >= 4 and not plan.flag("persistent")


def test_only_clusters_split() -> None:
    assert all(p.integer("split_k") == 1 for p in plans(1, 4096, 4096, "sm_80"))


# Refusals ------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "three": (split(3), "does not share out 128 columns by 8; use 2, 4 or 8, of a tile of a multi"),
    "narrow": (
        split(8, {"tile": [64, 32, 64], "warp_tile": [64, 32], "consumers": 1}),
        "does not share out 32 columns by 8; use 2, 4 or 8, of a tile of a multiple of 64 columns",
    ),
    "persistent": (split(2, persistent=True), "a persistent kernel does not have; use persistent"),
    "a cluster": (split(2, cluster=[2, 1]), "takes the CTAs of a cluster for itself; use it with"),
    "no wgmma": (
        {"variant": "cp_async", "split_k": 2},
        "asks for a split_k that only kernels of wgmma have; use 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_split_that_no_kernel_has_is_refused(name: str, tmp_path: Path) -> None:
    plan, why = REFUSED[name]
    with pytest.raises(PolycError) as refused:
        run(plain(), "gpu", written(tmp_path, plan))
    assert refused.value.kind == "UnsupportedPlan" and why in refused.value.message


def test_a_convolution_does_not_split(tmp_path: Path) -> None:
    text = (Path(__file__).parents[4] / "examples" / "conv_silu.mlir").read_text()
    module = parse_text(make_context(), text, "conv.mlir")
    with pytest.raises(PolycError, match="a split_k that no convolution has") as refused:
        run(module, "gpu", written(tmp_path, {"split_k": 2, "persistent": False, "stages": 2}))
    assert refused.value.kind == "UnsupportedPlan"


def test_sums_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    plan = written(tmp_path, split(2, {"tile": [128, 128, 64], "warp_tile": [64, 128]}, stages=6))
    with pytest.raises(PolycError) as refused:
        run(plain(), "plan", plan)
    assert refused.value.kind == "ResourceExceeded"
    # 6 stages of 32784 bytes, 65544 for the sums, and 1024 to align them.
    assert "takes 263272 bytes of shared memory" in refused.value.message


def test_a_users_plan_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program, out = tmp_path / "plain.mlir", tmp_path / "plain.cu"
    program.write_text(str(plain()))
    plan = written(tmp_path, split(4))
    options = ["--arch", "sm_90a", "--plan", plan, "--emit", "cuda", "-o", str(out)]
    assert main(["compile", str(program), *options]) == 0
    capsys.readouterr()
    assert "__cluster_dims__(4, 1, 1)" in out.read_text()
