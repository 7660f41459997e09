"""The unit of simulation is a cluster: CTAs of one run together and know of each other's events."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.gpu import SCHEDULES, Counters, SimulationResult, simulate
from polyc.playback.gpu.cta import Cluster
from polyc.playback.gpu.findings import Report
from polyc.playback.gpu.schedule import Running, Scheduler
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.gpu.storage import WINDOW
from polyc.playback.gpu.translate import translate
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

Array = NDArray[Any]
FOLDER = ROOT / "test" / "simulator"


def reduction(cluster: int, *edits: tuple[str, str]) -> ModuleOp:
    """The sum of each row by a CTA, in clusters, with pieces of its text exchanged."""
    text = (FOLDER / "block_reduction.mlir").read_text()
    size = "" if cluster == 1 else f" cluster {cluster}"
    for old, new in (('arch "sm_80"', 'arch "sm_90a"'), ("threads 128", f"threads 128{size}")):
        assert old in text
        text = text.replace(old, new)
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    return parse_text(make_context(), text, "block_reduction.mlir")


def sums(cluster: int, *edits: tuple[str, str], rows: int = 4, **options: Any) -> SimulationResult:
    x = np.random.default_rng(0).standard_normal((rows, 300)).astype(np.float32)
    return simulate(reduction(cluster, *edits), [x], {"M": rows, "N": 300}, **options)


@cache
def gemm(cluster: int) -> ModuleOp:
    path = ROOT / "examples" / "gemm_bias_relu.mlir"
    text = str(Compilation.of_file(path, "sm_90a").run().module)
    size = "" if cluster == 1 else f" cluster {cluster}"
    return parse_text(
        make_context(), text.replace(" threads 384 shared", f" threads 384{size} shared"), "g.mlir"
    )


def product(cluster: int, **options: Any) -> SimulationResult:
    """Two CTAs with TMA, mbarriers, wgmma and setmaxnreg, alone or in one cluster."""
    dice = np.random.default_rng(1)
    shapes = ((192, 72), (72, 160), (160,))
    inputs = [dice.standard_normal(s).astype(np.float16) for s in shapes]
    return simulate(gemm(cluster), inputs, {"M": 192, "N": 160, "K": 72}, **options)


def counted(counters: Counters) -> dict[str, object]:
    """What does not depend on who ran when."""
    return {k: v for k, v in counters.as_dict().items() if k != "switches"}


@pytest.mark.turns(3)
@pytest.mark.parametrize("program", [sums, product])
@pytest.mark.parametrize(
    ("schedule", "completion"),
    # Who goes on and when copies arrive are drawn apart.
    [(schedule, ("late", "random")[i % 2]) for i, schedule in enumerate(SCHEDULES)],
)
def test_independent_ctas_do_in_a_cluster_what_they_do_alone(
    program: Any, schedule: str, completion: str
) -> None:
    options: dict[str, Any] = {"schedule": schedule, "completion": completion, "seed": 3}
    alone, together = program(1, **options), program(2, **options)
    together.check()
    assert together.grid == alone.grid
    for a, b in zip(alone.outputs, together.outputs, strict=True):
        np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    assert counted(together.counters) == counted(alone.counters)


def test_the_ctas_of_a_cluster_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    step = Scheduler.step

    def noted(self: Scheduler, chosen: Running) -> None:
        turns.append(chosen.warp.cta.block)
        step(self, chosen)

    monkeypatch.setattr(Scheduler, "step", noted)
    for schedule in ("round-robin", "random"):
        turns.clear()
        sums(2, schedule=schedule, seed=5)
        half = turns.index(2)
        # Clusters one after another; in each, both CTAs begin before either ends.
        assert set(turns[:half]) == {0, 1} and set(turns[half:]) == {2, 3}
        for part, first in ((turns[:half], 0), (turns[half:], 2)):
            ends = [len(part) - part[::-1].index(block) for block in (first, first + 1)]
            assert max(part.index(first), part.index(first + 1)) < min(ends)
    other = list(turns)
    turns.clear()
    sums(2, schedule="random", seed=6)
    assert turns != other
    turns.clear()
    sums(2, schedule="random", seed=5)
    assert turns == other


def test_clocks_cover_the_cluster_and_shared_memories_are_apart() -> None:
    kernel = next(k for k in gpu_module_of(gemm(2)).kernels() if k.cluster_size == 2)
    _, info = translate(kernel)
    cluster = Cluster(info, 3, Counters(), Report(), "late", random.Random(0))
    first, second = cluster.ctas
    assert (first.block, second.block) == (6, 7)
    assert cluster.clocks.now.shape == (2 * kernel.threads.value.data, cluster.components.count)
    assert first.clocks is second.clocks is cluster.clocks
    assert first.window == WINDOW and second.window > first.window + info.shared_bytes
    first.shared.bytes[:] = 1
    assert (second.shared.bytes == 0xFF).all()
    columns = [b.component for cta in cluster.ctas for b in cta.mbarriers]
    assert len(columns) == len(set(columns)) == 2 * info.mbarriers
    names = [cluster.components.who(c) for c in columns]
    assert len(set(names)) == len(names) and "of CTA 1 of the cluster" in names[-1]
    warps = {cluster.components.who(cluster.components.first_warp + w) for w in range(24)}
    assert len(warps) == 24 and "the wgmma of warp 2 of CTA 1 of the cluster" in warps


ONE_PLACE = ("%Y[%row : index]", "%Y[%zero : index]")


def test_ctas_of_a_cluster_race_as_threads_do() -> None:
    """Barriers of the CTA, which both have passed, do not order one CTA after the other."""
    (race,) = [f for f in sums(2, ONE_PLACE, rows=2).findings if f.kind == "DataRace"]
    assert "thread 128 writes Y[0], and nothing orders that after thread 0 wrote it" in race.message
    assert (race.block, race.threads) == (1, (128, 0))


def test_clusters_race_with_each_other() -> None:
    """Whatever is first within a cluster is not ordered with another one."""
    (race,) = [f for f in sums(1, ONE_PLACE).findings if f.kind == "DataRace"]
    assert "after thread 0 of CTA 0 wrote it" in race.message
    only_even = """%own = arith.remui %row, %two : index
    %even = arith.cmpi eq, %own, %zero : index
    %both = arith.andi %first, %even : i1
    scf.if %both {"""
    edits = (ONE_PLACE, ("scf.if %first {", only_even))
    edits = (*edits, ("%one = arith", "%two = arith.constant 2 : index\n    %one = arith"))
    assert not [f for f in sums(2, *edits, rows=2).findings if f.kind == "DataRace"]
    (race,) = [f for f in sums(2, *edits).findings if f.kind == "DataRace"]
    assert "after thread 0 of cluster 0 wrote it" in race.message


def test_a_finding_names_the_cta() -> None:
    """Warp 0 of CTA 1 waits at one barrier more than the others come to."""
    more = """%warp = arith.constant 32 : index
    %low = arith.cmpi slt, %thread, %warp : index
    %odd = arith.cmpi eq, %row, %one : index
    %extra = arith.andi %low, %odd : i1
    scf.if %extra {
      gpu.barrier
    }
    %half ="""
    found = sums(2, ("%half =", more), rows=2).findings
    missing = next(f for f in found if f.kind == "BarrierMissing")
    assert "warp 0 of CTA 1 of the cluster waits at gpu.barrier" in missing.message
    assert missing.block == 1
    assert {f.block for f in found if f.kind == "DataRace"} <= {1}


def test_the_grid_is_a_multiple_of_the_cluster() -> None:
    with pytest.raises(PolycError) as caught:
        sums(2, rows=3)
    assert caught.value.kind == "BadGrid"
    assert "clusters of 2 CTAs, and a grid of 3" in caught.value.message
