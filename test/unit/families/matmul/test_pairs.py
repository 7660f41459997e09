"""Two products that share the operand of their rows: one kernel with two accumulators (S8, S9)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import tile
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.recognise import find_contraction
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.lowering.index_to_region import IndexToRegion
from polyc.passes.pipeline import STAGES, build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered as by_stages
from polyc.test.support.plans import leave_widest
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")


def gated(activation: str = "silu", element: object = f16) -> ModuleOp:
    """An activation of one product, times the other."""
    s = Sketch("gated", bf16 if element is bf16 else f16)
    x = s.input("x", "T", 64)
    return s.done(y=s.fn("mul", s.fn(activation, s.linear(x, "a", 88)), s.linear(x, "b", 88)))


def biased() -> ModuleOp:
    """Biases of both, a residual, and two outputs."""
    s = Sketch("biased")
    x, skip = s.input("x", "T", 64), s.input("skip", "T", 88)
    a, b = s.linear(x, "a", 88, bias=True), s.linear(x, "b", 88, bias=True)
    y = s.fn("add", s.fn("mul", s.fn("gelu", a), b), skip)
    return s.done(y=y, z=s.fn("relu", y))


def wide() -> ModuleOp:
    """An output in f32, which threads store."""
    s = Sketch("wide")
    x = s.input("x", "T", 64)
    made = s.fn("sub", s.linear(x, "a", 88), s.linear(x, "b", 88))
    return s.done(y=s.cast(made, f32))


def batched() -> ModuleOp:
    """Rows of a batch, and columns stored across."""
    s = Sketch("batched")
    x = s.input("x", "B", "T", 64)
    a, b = s.input("a", 64, 88), s.input("b", 88, 64)
    return s.done(y=s.fn("add", s.gemm(x, a), s.fn("tanh", s.gemm(x, b, turned=True))))


PROGRAMS: dict[str, tuple[Callable[[], ModuleOp], dict[str, int]]] = {
    "gated": (gated, {"T": 150}),
    "gated by gelu, bf16": (lambda: gated("gelu", bf16), {"T": 37}),
    "biases and a residual": (biased, {"T": 70}),
    "an output in f32": (wide, {"T": 129}),
    "a batch": (batched, {"B": 3, "T": 45}),
}


def lowered(module: ModuleOp, arch: str, last: str) -> ModuleOp:
    """A program after the stage ``last``."""
    ctx = make_context()
    found = parse_text(ctx, str(module), "pair.mlir")
    for stage, names in STAGES.items():
        for name in names:
            build(name, arch).apply(ctx, found)
        if stage == last:
            break
    return found


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_products_are_one_kernel_that_computes_both(name: str, arch: str) -> None:
    make, sizes = PROGRAMS[name]
    module = make()
    (region,) = find(lowered(module, arch, "plan"), KernelOp)
    assert len(find_contraction(region).parts) == 2
    frontend = parse_text(make_context(), str(module), "pair.mlir")
    inputs = make_inputs(only(frontend, GraphOp), sizes, 4)
    wanted = meant(frontend, inputs, sizes)
    kernels = gpu_module_of(lowered(module, arch, "gpu"))
    for variant in kernels.dispatch().variants():
        if all(fact.holds(sizes) for fact in variant.facts.data):
            result = simulate(kernels, inputs, sizes, variant.variant_name)
            assert not result.findings
            assert_agree(result.outputs, wanted, variant.variant_name)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_of_pairs_spill_nothing(name: str, arch: str) -> None:
    program = load(str(by_stages(PROGRAMS[name][0](), arch, "gpu", leave=leave_widest)), arch)
    assert {k: info.spill_bytes for k, info in program.kernels.items() if info.spill_bytes} == {}
    assert not program.warnings(), nvrtc.version()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_plan_foretells_what_two_products_take(arch: str) -> None:
    module = lowered(gated(), arch, "plan")
    sizes = {"T": 150}
    plans = (op for op in module.ops if isinstance(op, ScheduleOp))
    plan = next(op for op in plans if all(fact.holds(sizes) for fact in op.when.data))
    assert plan.tensorize.data == "acc, acc1" and plan.products == 2
    frontend = parse_text(make_context(), str(gated()), "pair.mlir")
    inputs = make_inputs(only(frontend, GraphOp), sizes, 4)
    kernels = gpu_module_of(lowered(gated(), arch, "gpu"))
    counted = simulate(kernels, inputs, sizes, plan.kernel_name).counters
    foretold = estimate(only(module, KernelOp), plan, sizes, MULTIPROCESSORS).as_dict()
    names = ("global_read_bytes", "peak_shared_bytes", "mma", "wgmma", "tma_loads")
    for name in (*names, *(("shared_read_bytes",) if arch == "sm_80" else ())):
        assert getattr(counted, name) == foretold[name], name


@pytest.mark.parametrize("name", ["gated", "a batch"])
def test_two_products_load_ahead_together(name: str, tmp_path: Path) -> None:
    """With two buffers of registers, of which that of the rows is for both products."""
    make, sizes = PROGRAMS[name]
    plans = find(lowered(make(), "sm_80", "plan"), ScheduleOp)
    plan = next(one for one in plans if one.loader.data == "cp_async")
    file = tmp_path / "plan.json"
    own = {"fragment_buffers": 2, "tile": [128, 128, 64], "warp_tile": [64, 32]}
    when = [str(fact) for fact in plan.when.data]
    file.write_text(json.dumps({"variant": plan.variant.data, "when": when, **own}))
    kernels = gpu_module_of(run(make(), "gpu", str(file), "sm_80"))
    frontend = parse_text(make_context(), str(make()), "pair.mlir")
    inputs = make_inputs(only(frontend, GraphOp), sizes, 4)
    result = simulate(kernels, inputs, sizes, plan.kernel_name, schedule="random")
    assert not result.findings
    assert_agree(result.outputs, meant(frontend, inputs, sizes), name)
    for one in nvrtc.compile_each(list(cuda_units(kernels)), "sm_80"):
        assert {info.spill_bytes for info in one.kernels.values()} == {0}


def test_both_products_are_contracted_in_one_pipeline() -> None:
    ctx = make_context()
    module = lowered(gated(), "sm_90a", "plan")
    build("region-to-gpu", "sm_90a").apply(ctx, module)
    for pipeline in find(module, tile.PipelineOp):
        inside = [type(op) for op in pipeline.body.walk()]
        assert (inside.count(tile.CopyOp), inside.count(tile.ContractOp)) == (3, 2)


def unlike() -> ModuleOp:
    """Two products of other rows, which meet all the same."""
    s = Sketch("unlike")
    x, z = s.input("x", "T", 64), s.input("z", "T", 64)
    return s.done(y=s.fn("mul", s.linear(x, "a", 88), s.linear(z, "b", 88)))


def deeper() -> ModuleOp:
    """Two products of one factor's parts of unlike depth."""
    s = Sketch("deeper")
    x = s.input("x", "T", 128)
    return s.done(y=s.fn("mul", s.linear(x, "a", 88), s.linear(s.cut(x, 1, 0, 64), "b", 88)))


@pytest.mark.parametrize(
    ("make", "why"),
    [(unlike, "x and z are not one operand"), (deeper, "two products over unlike axes")],
    ids=["other rows", "another depth"],
)
def test_unlike_products_are_refused(make: Callable[[], ModuleOp], why: str) -> None:
    ctx = make_context()
    module = parse_text(ctx, str(make()), "pair.mlir")
    for name in ("frontend-to-tiny", "tiny-to-index"):
        build(name, "sm_80").apply(ctx, module)
    IndexToRegion(fuse="legal").apply(ctx, module)
    with pytest.raises(PolycError, match=why):
        find_contraction(only(module, KernelOp))


def test_the_first_of_three_products_is_stored() -> None:
    """Registers hold two accumulators."""
    s = Sketch("three")
    x = s.input("x", "T", 64)
    a, b, c = (s.linear(x, name, 88) for name in "abc")
    module = s.done(y=s.fn("add", s.fn("mul", a, b), c))
    parts = [
        len(find_contraction(k).parts) for k in find(lowered(module, "sm_90a", "plan"), KernelOp)
    ]
    assert sorted(parts) == [1, 2]
