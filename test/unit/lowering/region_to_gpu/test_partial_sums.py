"""Kernels that share a tile's steps through memory: what two launches compute, and how (S8, S9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.grid import Axis, Grid
from polyc.lowering.region_to_gpu.partial_sums import MANY, PartialSums, adding, parted
from polyc.passes.pipeline import build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.follow_programs import gate, highest, normed
from polyc.test.support.gpu_text import find, only
from polyc.test.support.root import ROOT
from polyc.test.support.sketch import Sketch, dim
from polyc.test.support.split_programs import (
    HIGH,
    SMALL,
    across,
    batched,
    gated,
    plain,
    residual,
    run,
    written,
)
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

PARTIAL = {"algo_choice": {"matmul": "partial_sums"}}
VECTORS = {"when": ["K mod 8 == 0", "N mod 8 == 0", "K >= 1"]}
PAIRS = {"when": ["K mod 2 == 0", "N mod 2 == 0"]}
DEEP = ["K mod 8 == 0", "K >= 1"]
ALL: dict[str, Any] = {"when": []}


def grouped(parts: int, tile: Mapping[str, Any] = SMALL, **more: Any) -> dict[str, Any]:
    """A plan of wgmma that stores sums of so many parts."""
    plan = {"variant": "tma", "split_k": parts, "stages": 4, "persistent": False}
    return {**plan, "registers": [], "cluster": [1, 1], **VECTORS, **PARTIAL, **tile, **more}


def synced(variant: str, parts: int, **more: Any) -> dict[str, Any]:
    """The same of mma.sync, where no cluster is the other way."""
    small = {"tile": [64, 64, 32], "warp_tile": [32, 32], "fragment_buffers": 1}
    return {"variant": variant, "split_k": parts, **small, **more}


def conv() -> ModuleOp:
    text = (ROOT / "examples" / "conv_silu.mlir").read_text("utf-8")
    return parse_text(make_context(), text, "conv.mlir")


def pieces() -> ModuleOp:
    """Rows of two tensors along k, of which one is computed of what it scales."""
    s = Sketch("pieces")
    x = s.concat(1, s.input("a", "M", 64), s.input("b", "M", 200))
    return s.done(y=s.gemm(x, s.input("w", 264, "N")))


def scaled() -> ModuleOp:
    """A weight times the scales of its rows."""
    s = Sketch("scaled")
    x, w, scales = s.input("x", "M", "K"), s.input("w", "N", "K"), s.input("scales", "N", 1)
    return s.done(y=s.gemm(x, s.fn("mul", w, scales), turned=True))


IMAGES = {"N": 2, "H": 5, "W": 4, "C": 24, "F": 72}
CONV: dict[str, Any] = {
    **{"variant": "tma", "split_k": 5, "persistent": False, "registers": [], **SMALL, "stages": 2},
    "when": ["C mod 8 == 0", "F mod 8 == 0", "C >= 1"],
}
"""The way of the parts follows: no cluster has 5."""
Case = tuple[Callable[[], ModuleOp], dict[str, Any], str, dict[str, int]]
CASES: dict[str, Case] = {
    "three parts": (plain, grouped(3), "sm_90a", {"M": 70, "N": 136, "K": 328}),
    "a cluster's number": (plain, grouped(4, HIGH), "sm_90a", {"M": 140, "N": 72, "K": 584}),
    "more than are added at once": (
        plain,
        grouped(MANY + 5),
        "sm_90a",
        {"M": 9, "N": 72, "K": 2376},
    ),
    "rows of many parts": (
        lambda: normed(40),
        grouped(MANY + 5, when=DEEP),
        "sm_90a",
        {"M": 6, "K": 2376},
    ),
    "fewer steps than parts": (residual, grouped(5), "sm_90a", {"M": 17, "N": 24, "K": 136}),
    "an output in f32": (across, grouped(2), "sm_90a", {"M": 70, "N": 56, "K": 456}),
    "a batch": (batched, grouped(3), "sm_90a", {"B": 3, "M": 45, "N": 72, "K": 200}),
    "two products": (gated, grouped(3, variant="tma"), "sm_90a", {"M": 21, "N": 88, "K": 328}),
    "pieces": (pieces, grouped(3, when=["N mod 8 == 0"]), "sm_90a", {"M": 20, "N": 72}),
    "a computed operand": (scaled, grouped(3), "sm_90a", {"M": 20, "N": 72, "K": 328}),
    "a softmax": (lambda: gate(200), grouped(3, when=DEEP), "sm_90a", {"M": 13, "K": 200}),
    "a norm": (lambda: normed(24), grouped(3, when=DEEP), "sm_90a", {"M": 13, "K": 200}),
    "vectors of 16 bytes": (
        residual,
        synced("cp_async16", 3, **VECTORS),
        "sm_80",
        {"M": 70, "N": 72, "K": 136},
    ),
    "pairs": (gated, synced("cp_async4", 3, **PAIRS), "sm_80", {"M": 33, "N": 70, "K": 202}),
    "single elements": (plain, synced("scalar", 7, **ALL), "sm_80", {"M": 33, "N": 71, "K": 203}),
    "numbers of the rows": (
        lambda: highest(71),
        synced("scalar", 2, **ALL),
        "sm_80",
        {"M": 13, "K": 67},
    ),
    "copied operands": (
        across,
        grouped(3, variant="padded", when=["K >= 1"]),
        "sm_90a",
        {"M": 71, "N": 57, "K": 459},
    ),
    "copied rows of two products": (
        gated,
        synced("padded", 3, tile=[64, 64, 64], when=[]),
        "sm_80",
        {"M": 33, "N": 71, "K": 203},
    ),
    "a convolution": (conv, CONV, "sm_90a", IMAGES),
    "a convolution's pairs": (
        conv,
        {"variant": "cp_async4", "split_k": 4},
        "sm_80",
        {**IMAGES, "C": 26, "F": 70},
    ),
}


def of_plan(name: str, stage: str, folder: Path) -> ModuleOp:
    make, fields, arch, _ = CASES[name]
    return run(make(), stage, written(folder, fields), arch)


def variant_of(module: GpuModule) -> SequenceOp:
    """The variant that stores sums as the plan says: the only one, or the first that does."""
    found = (v for v in module.dispatch().variants() if isinstance(v, SequenceOp))
    own = (v for v in found if "_parts" not in v.variant_name)
    return next(v for v in own if any(w.copies is None for w in v.workspaces()))


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_two_launches_compute_what_one_means(name: str, tmp_path: Path) -> None:
    """With no race; the same bits in another order of warps and copies."""
    make, _, _, sizes = CASES[name]
    module = parse_text(make_context(), str(make()), "sums.mlir")
    inputs = make_inputs(only(module, GraphOp), sizes, 4)
    kernels = gpu_module_of(of_plan(name, "gpu", tmp_path))
    variant = variant_of(kernels)
    assert [op.kernel_name for op in variant.launches() if op.fills is None] == [
        variant.variant_name,
        f"{variant.variant_name}_sum",
    ]
    first = simulate(kernels, inputs, sizes, variant.variant_name)
    assert not first.findings
    assert_agree(first.outputs, meant(module, inputs, sizes), name)
    second = simulate(
        kernels, inputs, sizes, variant.variant_name, "random", seed=3, completion="random"
    )
    assert not second.findings
    assert [a.tobytes() for a in first.outputs] == [b.tobytes() for b in second.outputs]


@pytest.mark.parametrize("name", ["a cluster's number", "two products", "a softmax", "pairs"])
def test_the_tiles_of_both_kernels_mean_the_same(name: str, tmp_path: Path) -> None:
    make, _, arch, sizes = CASES[name]
    module = parse_text(make_context(), str(make()), "sums.mlir")
    inputs = make_inputs(only(module, GraphOp), sizes, 4)
    tiles = of_plan(name, "plan", tmp_path)
    build("region-to-gpu", arch).apply(make_context(), tiles)
    variant = variant_of(gpu_module_of(tiles)).variant_name
    for other in list(find(tiles, SequenceOp)) + [
        op for op in find(tiles, LaunchOp) if op.sequence is None
    ]:
        if other.variant_name != variant:
            other.detach()
    found = play(tiles, only(module, GraphOp).sym_name.data, inputs, sizes)
    assert found is not None
    assert_agree(list(found), meant(module, inputs, sizes), name)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    "name",
    [
        "more than are added at once",
        "two products",
        "a softmax",
        "vectors of 16 bytes",
        "copied operands",
        "copied rows of two products",
        "a convolution",
    ],
)
def test_nothing_spills(name: str, tmp_path: Path) -> None:
    module = only(of_plan(name, "gpu", tmp_path), GpuModule)
    kept = {op.kernel_name for op in variant_of(module).launches()}
    for kernel in module.kernels():
        if kernel.sym_name.data not in kept:
            for variant in list(module.dispatch().variants()):
                if kernel.sym_name.data in [op.kernel_name for op in variant.launches()]:
                    variant.detach()
            kernel.detach()
    result = nvrtc.compile_cuda(cuda_source(module), module.arch.data)
    assert set(result.kernels) == kept and not result.warnings()
    assert not any(one.spill_bytes or one.stack for one in result.kernels.values())


def test_a_kernel_with_sums_binds_what_it_uses(tmp_path: Path) -> None:
    """The first one reads operands and writes no output; the second one the other way round."""
    module = gpu_module_of(of_plan("fewer steps than parts", "gpu", tmp_path))
    sequence = variant_of(module)
    kernels = {k.sym_name.data: k for k in module.kernels()}
    first, second = (kernels[op.kernel_name] for op in sequence.launches())
    names = [[a.name_hint for a in k.body.block.args] for k in (first, second)]
    assert {"x", "w", "sums"} <= set(names[0]) and not {"skip", "y"} & set(names[0])
    assert {"skip", "y", "sums"} <= set(names[1]) and not {"x", "w"} & set(names[1])
    assert (first.cluster, second.cluster, second.threads.value.data) == (None, None, 128)
    (space,) = sequence.workspaces()
    assert str(space.type.dims[0]) == "5"


def test_grids_have_parts_outermost_and_narrow_rows() -> None:
    grid = Grid((Axis("m", dim("M"), 64), Axis("n", dim("N"), 128)))
    blocks = [str(size) for size in parted(grid, 7).blocks()]
    assert blocks == ["7", "(M + 63) floordiv 64", "(N + 127) floordiv 128"]
    assert [axis.tile for axis in adding(grid, 32, MANY).axes] == [4, 32]
    assert [axis.tile for axis in adding(grid, 32, MANY + 1).axes] == [1, 32]
    assert [axis.tile for axis in adding(grid, 256, MANY + 1, reduced=True).axes] == [4, 256]
    assert str(PartialSums.kind(grid, 7)) == "!gpu.global<[7, M, N], f32>"


REFUSED: dict[str, tuple[Callable[[], ModuleOp], dict[str, Any], str]] = {
    "no parts": (plain, grouped(1), "adds sums of parts, and there is 1; use"),
    "persistent": (plain, grouped(3, persistent=True), "a persistent kernel does not have"),
    "a cluster": (plain, grouped(3, cluster=[1, 2]), "takes the CTAs of a cluster for itself"),
    "a convolution that goes on": (
        conv,
        {"variant": "tma_small", "split_k": 2, "stages": 4},
        "a persistent kernel does not have",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_has_is_refused(name: str, tmp_path: Path) -> None:
    make, plan, why = REFUSED[name]
    with pytest.raises(PolycError) as refused:
        run(make(), "gpu", written(tmp_path, plan))
    assert refused.value.kind == "UnsupportedPlan" and why in refused.value.message


def test_the_sums_of_a_graph_have_names_of_their_own() -> None:
    s = Sketch("chain")
    first = s.linear(s.input("x", 16, 8192), "a", 64)
    module = s.done(y=s.linear(s.fn("relu", first), "b", 64))
    (variant,) = gpu_module_of(run(module, "gpu", None, "sm_80")).dispatch().variants()
    assert len(variant.launches()) >= 3
    names = [op.sym_name.data for op in variant.workspaces()]
    assert len(set(names)) == len(names) and any(name.endswith("_sums") for name in names)
