"""cp.async and boxes by TMA: what they do, and what is wrong about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.playback.gpu import SimulationResult, simulate
from polyc.test.support.root import ROOT
from polyc.test.unit.playback.gpu.test_orders import edited, found_in_all, right_in_all
from polyc.test.unit.playback.gpu.test_orders import kernel as one_kernel
from polyc.tools.commands import simulate as simulate_command
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.steps import quiet

Array = NDArray[Any]


def kinds(result: SimulationResult) -> set[str]:
    return {f.kind for f in result.findings}


# TMA stores ----------------------------------------------------------------------------


def copy_by_tma(*edits: tuple[str, str], **options: Any) -> tuple[Array, SimulationResult]:
    """``examples/gpu/pipelined_copy.mlir`` with pieces of its text exchanged."""
    text = (ROOT / "examples" / "gpu" / "pipelined_copy.mlir").read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text, "copy.mlir"), "sm_90a")
    module = simulate_command.lower(job, None, None, quiet())
    x = np.random.default_rng(0).standard_normal((100, 264)).astype(np.float16)
    return x, simulate(module, [x], {"M": 100, "N": 264}, **options)


@pytest.mark.parametrize("completion", ["late", "early", "random"])
def test_a_tma_store_writes_its_box(completion: str) -> None:
    x, result = copy_by_tma(completion=completion)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], x)
    # Two CTAs of five boxes; outside the tensor nothing is written.
    assert result.counters.tma_stores == 10
    assert result.counters.global_write_bytes == x.nbytes


WAIT = "gpu.bulk_wait read 0\n"
FULL = "%full[%slot] parity %parity : !gpu.mbarrier<2>"


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (f"          {WAIT}", "", "StageOverwritten"),
        (WAIT, "gpu.bulk_wait read 1\n", "StageOverwritten"),
        ("        gpu.bulk_commit\n", "", "StageOverwritten"),
        (f"        gpu.mbarrier_wait {FULL}\n", "", "UnwaitedCopy"),
        ("to %Y[%row, %place]", "to %Y[%row, %zero]", "DataRace"),
    ],
)
@pytest.mark.parametrize("completion", ["late", "early"])
def test_faults_of_tma_stores(old: str, new: str, kind: str, completion: str) -> None:
    _, result = copy_by_tma((old, new), completion=completion)
    assert kind in kinds(result)


def test_a_kernel_does_not_end_while_a_store_reads() -> None:
    text = (ROOT / "examples" / "gpu" / "pipelined_copy.mlir").read_text()
    last = next(
        line
        for line in reversed(text.splitlines())
        if "gpu.bulk_wait" in line and "//" not in line.split("gpu.bulk_wait")[0]
    )
    position = text.rindex(last)
    _, result = copy_by_tma((text[position:], text[position + len(last) :]))
    assert "Unfinished" in kinds(result)


# What copies read of global memory ----------------------------------------------------

REUSED = one_kernel(
    """
    gpu.cp_async %own, %P[%thread : index] bytes 4 : !gpu.global<[32], i32>
    gpu.cp_async_commit
    gpu.cp_async_wait 0
    gpu.store_global %word, %P[%thread : index] : i32, !gpu.global<[32], i32>
    %old = gpu.load_shared %own : i32
    gpu.store_global %old, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    32,
    '%P: !gpu.global<[32], i32> = workspace "parts", ',
    """    gpu.sequence @all align [4] {
      gpu.workspace "parts" zeroed : !gpu.global<[32], i32>
      gpu.launch @k grid [1]
    }""",
)


def test_a_place_is_written_while_a_copy_may_still_read_it() -> None:
    right_in_all(REUSED, np.zeros(32), N=32)
    wait = "    gpu.cp_async_wait 0\n"
    store = "    gpu.store_global %word, %P[%thread : index] : i32, !gpu.global<[32], i32>\n"
    found_in_all(edited(REUSED, (wait + store, store + wait)), "DataRace", N=32)


BY_TMA = one_kernel(
    """
    %full = gpu.mbarrier at 2048 : !gpu.mbarrier<1>
    %is_first = arith.cmpi eq, %thread, %zero : index
    scf.if %is_first {
      gpu.mbarrier_init %full[%zero] count 1 : !gpu.mbarrier<1>
      gpu.fence_mbarrier_init
    }
    // before
    gpu.barrier
    scf.if %is_first {
      gpu.mbarrier_expect %full[%zero] bytes 128 : !gpu.mbarrier<1>
      gpu.tma_load %map[%zero] to %base, %full[%zero] : !gpu.tensor_map<[32], i32, swizzle 0>, !gpu.mbarrier<1>
    }
    gpu.mbarrier_wait %full[%zero] parity %zero : !gpu.mbarrier<1>
    gpu.store_global %word, %P[%thread : index] : i32, !gpu.global<[32], i32>
    %old = gpu.load_shared %own : i32
    gpu.store_global %old, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",  # noqa: E501
    32,
    '%P: !gpu.global<[32], i32> = workspace "parts", '
    '%map: !gpu.tensor_map<[32], i32, swizzle 0> = tensor_map "parts", ',
    """    gpu.sequence @all align [16] {
      gpu.workspace "parts" zeroed : !gpu.global<[32], i32>
      gpu.launch @k grid [1]
    }""",
)


def test_tma_reads_global_memory_until_its_bytes_have_come() -> None:
    right_in_all(BY_TMA, np.zeros(32), N=32)
    wait = "    gpu.mbarrier_wait %full[%zero] parity %zero : !gpu.mbarrier<1>\n"
    store = "    gpu.store_global %word, %P[%thread : index] : i32, !gpu.global<[32], i32>\n"
    found_in_all(edited(BY_TMA, (wait + store, store + wait)), "DataRace", N=32)


def test_tma_does_not_see_what_code_wrote_in_the_same_launch() -> None:
    store = "    gpu.store_global %word, %P[%thread : index] : i32, !gpu.global<[32], i32>\n"
    text = edited(BY_TMA, (store, ""), ("    // before\n", store))
    found_in_all(text, "ProxyFence", N=32)
