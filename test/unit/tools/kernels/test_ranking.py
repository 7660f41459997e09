"""Kernels by hand beside plans: which is faster by the model, at which sizes, in which words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import build
from polyc.test.support.by_hand import add_relu, instance, product, product_file, region, written
from polyc.test.support.gpu_text import parsed
from polyc.tools.kernels.instance import Instance
from polyc.tools.kernels.ranking import Ranked, ranked
from polyc.tools.pipeline import Compilation, run_pass
from polyc.tools.registry import make_context


def beside(made: Instance, text: str, given: Mapping[str, int], arch: str) -> Ranked | str:
    """A variant beside the plans of the only region of a graph."""
    job = Compilation(make_context(), parsed(text), arch).run("plan")
    plans = job.module.clone()
    (own,) = (op for op in plans.ops if isinstance(op, KernelOp))
    schedules = [op for op in plans.ops if isinstance(op, ScheduleOp)]
    run_pass(job.ctx, build("region-to-gpu", arch), job.module)
    (tiles,) = job.module.ops
    assert isinstance(tiles, GpuModuleOp)
    kernels = {k.sym_name.data: k for k in tiles.kernels()}
    derived = {v.kernel_name: (v, kernels[v.kernel_name]) for v in tiles.dispatch().launches()}
    return ranked(made, own, schedules, derived, given)


def compared(made: Instance, text: str, given: Mapping[str, int], arch: str = "sm_90a") -> Ranked:
    found = beside(made, text, given, arch)
    assert isinstance(found, Ranked), found
    return found


def test_tiles_that_fill_the_chip_win(tmp_path: Path) -> None:
    """12 by 11 tiles of 128 x 192 are one for each of 132 SMs."""
    made = instance(product_file(tmp_path, "(128, 160)"), region(product()))
    found = compared(made, product(), {"M": 1536, "N": 1760, "K": 4096})
    assert found.won
    assert found.by_hand.seconds < found.derived.seconds
    assert "us by the model at M=1536, K=4096, N=1760, " in str(found)
    assert "% faster than the " in str(found)
    assert str(found).endswith(f"us of plan {found.plan!r}")


def test_tiles_that_leave_most_of_it_idle_lose(tmp_path: Path) -> None:
    made = instance(product_file(tmp_path, "(128, 256)"), region(product()))
    found = compared(made, product(), {})
    assert not found.won
    assert found.sizes == {"M": 1024, "K": 1024, "N": 1024}
    assert "% slower than the " in str(found)


def test_the_same_kernel_is_no_faster(tmp_path: Path) -> None:
    """What a plan makes, written by hand, takes as long."""
    made = instance(product_file(tmp_path, "(128, 256)"), region(product()))
    found = compared(made, product(), dict.fromkeys("MKN", 8192))
    assert found.plan == "tma"
    assert not found.won
    assert "no faster than" in str(found)


def test_sizes_are_those_that_conditions_allow(tmp_path: Path) -> None:
    made = instance(written(tmp_path, when="M <= 100, N mod 512 == 0"), region(add_relu()))
    assert compared(made, add_relu(), {}).sizes == {"M": 64, "N": 1024}
    assert compared(made, add_relu(), {"M": 77}).sizes == {"M": 77, "N": 1024}


@pytest.mark.parametrize(
    ("when", "given", "text"),
    [
        ("N mod 8 == 0", {"N": 7}, "it wants N mod 8 == 0, and is asked about at N=7"),
        ("M == 77", {}, "which no usual sizes satisfy; say at which it runs, by --set"),
    ],
)
def test_sizes_that_conditions_refuse(
    when: str, given: Mapping[str, int], text: str, tmp_path: Path
) -> None:
    made = instance(written(tmp_path, when=when), region(add_relu()))
    found = beside(made, add_relu(), given, "sm_90a")
    assert isinstance(found, str)
    assert text in found


def test_numbers_need_no_sizes(tmp_path: Path) -> None:
    text = add_relu("[6, 40]", "[40]")
    found = compared(instance(written(tmp_path), region(text)), text, {})
    assert found.sizes == {}
    assert " at " not in str(found)
