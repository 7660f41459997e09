"""Kernels by hand in programs: they run where their conditions hold, and others elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.launches import SequenceOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import GraphOp, KernelOp
from polyc.lowering.region_to_gpu import Places
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback.gpu import simulate
from polyc.rewriting.driver import verify
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.by_hand import (
    add_relu,
    instance,
    product_file,
    region,
    regions,
    sequence_file,
    variants,
    written,
)
from polyc.test.support.gpu_text import parsed
from polyc.test.support.root import ROOT
from polyc.tools.check import Expected
from polyc.tools.kernels.graft import graft
from polyc.tools.kernels.instance import Instance
from polyc.tools.kernels.registered import registered
from polyc.tools.pipeline import Compilation, graphs, run_pass
from polyc.tools.registry import make_context

MLP = (ROOT / "examples" / "mlp.mlir").read_text("utf-8")


def grafted(text: str, arch: str, chosen: Mapping[str, list[Instance]]) -> ModuleOp:
    """A program in tiles with kernels by hand, at tile level."""
    job = Compilation(make_context(), parsed(text), arch).run("plan")
    regions: dict[str, str] = {}
    places: dict[str, list[BindAttr]] = {}
    for op in job.module.ops:
        if isinstance(op, ScheduleOp):
            regions |= dict.fromkeys(op.kernel_names, op.region.string_value())
        elif isinstance(op, GraphOp):
            found = Places.of(op)
            places |= {k.sym_name.data: found.bindings(k) for k in op.kernels()}
    run_pass(job.ctx, build("region-to-gpu", arch), job.module)
    graft(job.module, chosen, regions, places)
    verify(job.module)
    return job.module


def module_of(module: ModuleOp) -> GpuModuleOp:
    (found,) = module.ops
    assert isinstance(found, GpuModuleOp)
    return found


def ran(module: ModuleOp, text: str, sizes: Mapping[str, int]) -> list[str]:
    """The kernels that run at some sizes; what they compute is compared with the reference."""
    (graph,) = graphs(parsed(text))
    expected = Expected.of(graph, sizes)
    result = simulate(module_of(module), expected.inputs, sizes)
    result.check()
    expected.compare("the program", result.outputs)
    return [name for name, _ in result.launches]


def cuda(module: ModuleOp, arch: str) -> str:
    return Compilation(make_context(), module, arch).cuda()


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_comes_before_the_plans_of_its_region(arch: str, tmp_path: Path) -> None:
    text = add_relu("[B, S, D]", "[D]")
    made = instance(written(tmp_path, when="N mod 8 == 0", arch=arch), region(text))
    module = grafted(text, arch, {"f": [made]})
    first, *others = module_of(module).dispatch().variants()
    assert first.variant_name == "f_by_hand"
    assert others
    finish(module)
    assert ran(module, text, {"B": 2, "S": 3, "D": 136}) == ["f_by_hand"]
    (plain,) = ran(module, text, {"B": 2, "S": 3, "D": 33})
    assert plain != "f_by_hand"
    printed = cuda(module, arch)
    assert "f_by_hand" in printed
    assert compile_cuda(printed, arch, "cubin").image


def test_it_runs_in_a_sequence_in_its_region_s_place(tmp_path: Path) -> None:
    first, _ = regions(MLP)
    made = instance(product_file(tmp_path), first)
    module = grafted(MLP, "sm_90a", {first.sym_name.data: [made]})
    variants = module_of(module).dispatch().variants()
    by_hand, plain = variants[::2], variants[1::2]
    assert len(by_hand) == len(plain)
    for new, old in zip(by_hand, plain, strict=True):
        assert isinstance(new, SequenceOp) and isinstance(old, SequenceOp)
        assert new.variant_name == f"{old.variant_name}_by_hand"
        own = [x.kernel_name for x in old.launches() if not x.kernel_name.startswith("mlp_0_")]
        assert [x.kernel_name for x in new.launches()][1:] == own
        assert new.launches()[0].kernel_name == "mlp_0_by_hand_128x64"
        # What only replaced kernels read is not there: copies of operands, and sums of parts.
        assert not any("mlp_0_" in op.sym_name.data for op in new.workspaces())
        assert {str(f) for f in new.when.data} >= {str(f) for f in old.when.data}
        assert {str(f) for f in new.when.data} >= {"K mod 8 == 0", "L mod 8 == 0", "K >= 1"}
    finish(module)
    launched = ran(module, MLP, {"M": 5, "K": 16, "L": 72, "N": 8})
    assert launched[0] == "mlp_0_by_hand_128x64"
    assert launched[1].startswith("mlp_1_")
    assert ran(module, MLP, {"M": 5, "K": 15, "L": 7, "N": 9})[0].startswith("mlp_0_scalar")


def test_kernels_for_two_regions_run_together_and_alone(tmp_path: Path) -> None:
    """Both where both may, and each by itself where the other one's conditions do not hold."""
    kind = "!frontend.tensor<[M, N], f16>"
    text = MLP
    first, second = regions(text)
    file = product_file(tmp_path)
    relu = instance(file, first)
    plain = tmp_path / "plain.py"
    body = file.read_text("utf-8").replace("T.max(x, 0.0)", "x").replace("product.mlir", "p.mlir")
    plain.write_text(body.replace("by_hand_", "plain_"), "utf-8")
    pattern = (tmp_path / "product.mlir").read_text("utf-8")
    pattern = pattern.replace(f"  %1 = frontend.elementwise relu %0 : {kind}\n", "")
    (tmp_path / "p.mlir").write_text(pattern.replace("output %1", "output %0"), "utf-8")
    chosen = {"mlp_0": [relu], "mlp_1": [instance(plain, second)]}
    module = grafted(text, "sm_90a", chosen)
    finish(module)
    names = ["mlp_0_by_hand_128x64", "mlp_1_plain_128x64"]
    assert ran(module, text, {"M": 5, "K": 16, "L": 8, "N": 8}) == names
    alone = ran(module, text, {"M": 5, "K": 15, "L": 8, "N": 8})
    assert alone[0].startswith("mlp_0_") and alone[0] != names[0]
    assert alone[1] == names[1]
    alone = ran(module, text, {"M": 5, "K": 16, "L": 8, "N": 7})
    assert alone[0] == names[0]
    assert alone[1].startswith("mlp_1_") and alone[1] != names[1]


def test_a_sequence_in_a_region_s_place(tmp_path: Path) -> None:
    text = add_relu("[B, S, D]", "[D]")
    made = instance(sequence_file(tmp_path), region(text))
    module = grafted(text, "sm_90a", {"f": [made]})
    finish(module)
    assert ran(module, text, {"B": 2, "S": 3, "D": 136}) == ["f_twice_first", "f_twice_second"]
    assert compile_cuda(cuda(module, "sm_90a"), "sm_90a", "cubin").image


def test_names_that_are_taken(tmp_path: Path) -> None:
    """A program that is called as a plan's variant, and two variants of one kernel."""
    text = add_relu()
    file = written(tmp_path)
    plan = module_of(grafted(text, "sm_90a", {})).kernels()[0].sym_name.data
    name = plan.removeprefix("f_")
    body = file.read_text("utf-8").replace("replaces=", f'name="{name}", replaces=')
    body = body.replace("    with T.kernel(", "    with T.kernel(name=None, ").replace(
        "        T.copy(x, Y[i0, j0])\n",
        "        T.copy(x, Y[i0, j0])\n"
        "    T.launch(k, grid=[T.ceildiv(M, 4), T.ceildiv(N, 128)])\n",
    )
    body = body.replace('when=""):', 'when="N mod 8 == 0") as k:')
    file.write_text(body, "utf-8")
    (own,) = registered(str(file))
    both = [v for v in variants(own, region(text)) if isinstance(v, Instance)]
    assert len(both) == 2
    module = grafted(text, "sm_90a", {"f": both})
    kernels = [k.sym_name.data for k in module_of(module).kernels()]
    assert kernels.count(plan) == 1 and kernels.count(f"{plan}_2") == 1
    assert f"{plan}_3" not in kernels
    finish(module)
    assert ran(module, text, {"M": 3, "N": 8}) == [f"{plan}_2"]
    assert ran(module, text, {"M": 3, "N": 7}) == [f"{plan}_2"]


def test_regions_that_nothing_replaces_stay(tmp_path: Path) -> None:
    made = instance(written(tmp_path), region(add_relu()))
    plain = grafted(MLP, "sm_90a", {})
    assert str(grafted(MLP, "sm_90a", {"f": [made]})) == str(plain)
    assert not any(isinstance(op, KernelOp) for op in plain.ops)
