"""Distributed shared memory: peers are reached in order, while they live, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants, mutated
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
BARRIER = "    gpu.cluster_barrier\n"


@pytest.fixture
def text(root: Path) -> str:
    return (root / "examples" / "gpu" / "cluster_row_sum.mlir").read_text()


def lowered(text: str) -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, text, "cluster.mlir")
    return gpu_module_of(Compilation(ctx, module, "sm_90a").run().module)


def kinds(text: str, shape: tuple[int, int] = (3, 300), **options: Any) -> set[str]:
    x = np.ones(shape, np.float32)
    result = simulate(lowered(text), [x], {"M": shape[0], "N": shape[1]}, **options)
    return {finding.kind for finding in result.findings}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 128), (3, 300), (2, 1000)])
def test_a_row_sum_by_two_ctas(text: str, shape: tuple[int, int], schedule: str) -> None:
    x: Array = np.random.default_rng(shape).integers(-8, 9, shape).astype(np.float32)
    sizes = {"M": shape[0], "N": shape[1]}
    result = simulate(lowered(text), [x], sizes, schedule=schedule, seed=3)
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], x.sum(axis=1))


def test_reading_before_the_peer_has_written(text: str) -> None:
    first, _, rest = text.rpartition(BARRIER)
    for schedule in SCHEDULES:
        assert kinds(first + rest, schedule=schedule) & {"DataRace", "Uninitialised"}


def test_reaching_a_peer_that_may_not_have_started(text: str) -> None:
    for schedule in SCHEDULES:
        assert "PeerLifetime" in kinds(text.replace(BARRIER, "", 1), schedule=schedule)


def test_reaching_a_peer_that_may_have_ended(text: str) -> None:
    """The second CTA reads the first one's number at the very end, when that may be gone."""
    late = """    scf.if %hands_over {
      %peer = gpu.map_shared %mailbox, %zero
      %gone = gpu.load_cluster %peer : f32
      gpu.store_shared %gone, %mailbox : f32
    }
    gpu.return"""
    for schedule in SCHEDULES:
        assert kinds(text.replace("    gpu.return", late), schedule=schedule) == {"PeerLifetime"}


def test_a_rank_outside_the_cluster(text: str) -> None:
    broken = text.replace("gpu.map_shared %mailbox, %zero", "gpu.map_shared %mailbox, %four")
    assert "OutOfBounds" in kinds(broken)


def test_a_cluster_address_is_no_shared_address(text: str) -> None:
    broken = text.replace("gpu.store_cluster %total, %there", "gpu.store_shared %total, %there")
    assert "OutOfBounds" in kinds(broken)


def test_a_barrier_of_the_cluster_that_a_warp_misses(text: str) -> None:
    broken = text.replace(
        BARRIER,
        "    %few = arith.cmpi eq, %warp, %zero : index\n    scf.if %few {\n  "
        + BARRIER
        + "    }\n",
        1,
    )
    assert "BarrierMissing" in kinds(broken) or "Deadlock" in kinds(broken)


PING = """gpu.module @ping arch "sm_90a" symbols [M] {
  gpu.kernel @ping(%Y: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M)
      threads 32 cluster 2 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %value = arith.constant 7.0 : f32
    %box = gpu.shared_tile : !gpu.shared<[1, 4], f32, swizzle 0>
    %told = gpu.mbarrier : !gpu.mbarrier<1>
    %rank = gpu.cluster_rank
    %thread = gpu.thread_id
    %alone = arith.cmpi eq, %thread, %zero : index
    scf.if %alone {
      gpu.mbarrier_init %told[%zero] count 1 : !gpu.mbarrier<1>
      gpu.fence_mbarrier_init
    }
    gpu.cluster_barrier
    %mine = gpu.shared_address %box[%zero] : !gpu.shared<[1, 4], f32, swizzle 0>
    %second = arith.cmpi eq, %rank, %one : index
    %tells = arith.andi %alone, %second : i1
    scf.if %tells {
      %there = gpu.map_shared %mine, %zero
      gpu.store_cluster %value, %there : f32
      gpu.mbarrier_arrive_cluster %told[%zero] rank %zero : !gpu.mbarrier<1>
    }
    %first = arith.cmpi eq, %rank, %zero : index
    %hears = arith.andi %alone, %first : i1
    scf.if %hears {
      gpu.mbarrier_wait %told[%zero] parity %zero : !gpu.mbarrier<1>
      %heard = gpu.load_shared %mine : f32
      gpu.store_global %heard, %Y[%zero : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @ping align [4] grid [2 * M]
  }
}
"""


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_remote_arrival_hands_over_what_was_stored(schedule: str) -> None:
    result = simulate(lowered(PING), [], {"M": 1}, schedule=schedule)
    assert result.findings == []
    assert result.outputs[0].tolist() == [7.0]


def test_a_store_after_the_arrival_is_not_handed_over() -> None:
    arrive = "      gpu.mbarrier_arrive_cluster %told[%zero] rank %zero : !gpu.mbarrier<1>\n"
    store = "      gpu.store_cluster %value, %there : f32\n"
    broken = PING.replace(store + arrive, arrive + store)
    found = {f.kind for f in simulate(lowered(broken), [], {"M": 1}).findings}
    assert found & {"DataRace", "PeerLifetime", "Uninitialised"}


@pytest.mark.parametrize("source", ["row sum", "ping"])
def test_mutants_of_cluster_kernels_are_caught(text: str, source: str) -> None:
    """Without a barrier, a store or an arrival of the cluster the kernel is found wrong."""
    module = lowered(text if source == "row sum" else PING)
    inputs = [np.ones((2, 300), np.float32)] if source == "row sum" else []
    sizes = {"M": 2, "N": 300} if source == "row sum" else {"M": 1}
    (expected,) = simulate(module, inputs, sizes).outputs
    tried = [m for m in mutants(module) if "cluster" in m.op and m.change == "remove it"]
    assert len(tried) == 3
    for mutant in tried:
        result = simulate(mutated(module, mutant), inputs, sizes)
        assert result.findings or not np.array_equal(result.outputs[0], expected), mutant
