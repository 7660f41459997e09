"""TMA stores, atomics, shuffles and stmatrix: what they do, and what is wrong about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.playback.gpu import SimulationResult, simulate
from polyc.test.support.root import ROOT
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


# Atomics -------------------------------------------------------------------------------

HISTOGRAM = """
gpu.module @histogram arch "sm_80" symbols [N] {
  gpu.kernel @histogram_shared(
      %X: !gpu.global<[N], i32> = tensor 0, %Y: !gpu.global<[8], i32> = tensor 1,
      %N: index = symbol N) threads 64 shared_bytes 32 {
    %thread = gpu.thread_id
    %bins = gpu.shared_tile at 0 : !gpu.shared<[8], i32, swizzle 0>
    %zero = arith.constant 0 : index
    %none = arith.constant 0 : i32
    %unit = arith.constant 1 : i32
    %eight = arith.constant 8 : index
    %threads = arith.constant 64 : index
    %base = gpu.shared_address %bins[%zero] : !gpu.shared<[8], i32, swizzle 0>
    %own = affine.apply affine_map<(d0) -> (d0 * 4)> (%thread)
    %own32 = arith.index_cast %own : index to i32
    %mine = arith.addi %base, %own32 : i32
    %few = arith.cmpi slt, %thread, %eight : index
    scf.if %few {
      gpu.store_shared %none, %mine : i32
    }
    gpu.barrier
    scf.for %k = %thread to %N step %threads {
      %x = gpu.load_global %X[%k : index] : !gpu.global<[N], i32> -> i32
      %four = arith.constant 4 : i32
      %byte = arith.muli %x, %four : i32
      %to = arith.addi %base, %byte : i32
      gpu.atomic_shared "add" %unit, %to : i32
    }
    gpu.barrier
    scf.if %few {
      %count = gpu.load_shared %mine : i32
      gpu.store_global %count, %Y[%thread : index] : i32, !gpu.global<[8], i32>
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], i32>) -> (Y: !gpu.global<[8], i32>) {
    gpu.launch @histogram_shared align [4, 4] grid [1]
  }
}
"""


def histogram(*edits: tuple[str, str]) -> tuple[Array, SimulationResult]:
    text = HISTOGRAM
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    module = parse_text(make_context(), text, "histogram.mlir")
    x = np.random.default_rng(0).integers(0, 8, 500).astype(np.int32)
    return x, simulate(module, [x], {"N": 500})


def test_atomics_meet_and_do_not_race() -> None:
    x, result = histogram()
    result.check()
    np.testing.assert_array_equal(result.outputs[0], np.bincount(x, minlength=8))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        # A plain store before, and a plain load after, that nothing orders with the updates.
        ("    gpu.barrier\n    scf.for", "    scf.for", "DataRace"),
        ("    gpu.barrier\n    scf.if", "    scf.if", "DataRace"),
        ("      gpu.store_shared %none, %mine : i32\n", "", "Uninitialised"),
        ("shared_bytes 32", "shared_bytes 16", "OutOfBounds"),
    ],
)
def test_faults_of_atomics(old: str, new: str, kind: str) -> None:
    assert kind in kinds(histogram((old, new))[1])


GLOBAL_SUM = """
gpu.module @total arch "sm_80" symbols [N] {
  gpu.kernel @total(
      %X: !gpu.global<[N], f32> = tensor 0, %Y: !gpu.global<[1], f32> = tensor 1) threads 32 {
    %block = gpu.block_id
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %k = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%block, %thread)
    %x = gpu.load_global %X[%k : index] : !gpu.global<[N], f32> -> f32
    gpu.atomic_global "add" %x, %Y[%zero : index] : f32, !gpu.global<[1], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[1], f32>) {
    gpu.launch @total when (N mod 32 == 0) align [4, 4] grid [N floordiv 32]
  }
}
"""


def test_an_atomic_into_an_output_needs_a_start() -> None:
    """CTAs may update one element; that nobody has set it is what is wrong."""
    module = parse_text(make_context(), GLOBAL_SUM, "total.mlir")
    x = np.arange(96, dtype=np.float32)
    result = simulate(module, [x], {"N": 96})
    assert kinds(result) == {"Uninitialised"}


# Between lanes -------------------------------------------------------------------------

LANES = """
gpu.module @lanes arch "sm_90a" symbols [N] {
  gpu.kernel @lanes(
      %X: !gpu.global<[N], f32> = tensor 0, %Y: !gpu.global<[N], f32> = tensor 1) threads 32 {
    %thread = gpu.thread_id
    %lane = arith.constant LANE : index
    %x = gpu.load_global %X[%thread : index] : !gpu.global<[N], f32> -> f32
    %y = gpu.shuffle "KIND" %x, %lane : f32 -> f32
    gpu.store_global %y, %Y[%thread : index] : f32, !gpu.global<[N], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[N], f32>) {
    gpu.launch @lanes align [4, 4] grid [1]
  }
}
"""


@pytest.mark.parametrize(
    ("kind", "lane", "source"),
    [
        ("xor", 5, [i ^ 5 for i in range(32)]),
        ("up", 3, [i - 3 if i >= 3 else i for i in range(32)]),
        ("down", 3, [i + 3 if i < 29 else i for i in range(32)]),
        ("index", 7, [7] * 32),
    ],
)
def test_shuffles(kind: str, lane: int, source: list[int]) -> None:
    text = LANES.replace("KIND", kind).replace("LANE", str(lane))
    x = np.arange(32, dtype=np.float32)
    result = simulate(parse_text(make_context(), text, "lanes.mlir"), [x], {"N": 32})
    result.check()
    np.testing.assert_array_equal(result.outputs[0], x[source])


MATRIX = """
gpu.module @matrix arch "sm_90a" symbols [N] {
  gpu.kernel @matrix(
      %X: !gpu.global<[N], f16, align 16> = tensor 0,
      %Y: !gpu.global<[N], f16, align 16> = tensor 1) threads 32 shared_bytes 1024 {
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[32, 8], f16, swizzle 0>
    %copy = gpu.shared_tile at 512 : !gpu.shared<[32, 8], f16, swizzle 0>
    %at = affine.apply affine_map<(d0) -> (d0 * 8)> (%thread)
    %byte = affine.apply affine_map<(d0) -> (d0 * 16)> (%thread)
    %byte32 = arith.index_cast %byte : index to i32
    %base = gpu.shared_address %tile[%zero] : !gpu.shared<[32, 8], f16, swizzle 0>
    %other = gpu.shared_address %copy[%zero] : !gpu.shared<[32, 8], f16, swizzle 0>
    %from = arith.addi %base, %byte32 : i32
    %to = arith.addi %other, %byte32 : i32
    %x = gpu.load_global %X[%at : index] : !gpu.global<[N], f16, align 16> -> vector<8xf16>
    gpu.store_shared %x, %from : vector<8xf16>
    gpu.barrier
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.ldmatrix LOAD %from to %r[%zero] : memref<4xi32, #gpu<space register>>
    gpu.stmatrix STORE %r[%zero] to %to : memref<4xi32, #gpu<space register>>
    gpu.barrier
    %y = gpu.load_shared %to : vector<8xf16>
    gpu.store_global %y, %Y[%at : index] : vector<8xf16>, !gpu.global<[N], f16, align 16>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f16>) -> (Y: !gpu.global<[N], f16>) {
    gpu.launch @matrix align [16, 16] grid [1]
  }
}
"""


@pytest.mark.parametrize("load", ["", "transpose"])
@pytest.mark.parametrize("store", ["", "transpose"])
def test_stmatrix_undoes_ldmatrix(load: str, store: str) -> None:
    text = MATRIX.replace("LOAD", load).replace("STORE", store)
    x = np.arange(256, dtype=np.float16)
    result = simulate(parse_text(make_context(), text, "matrix.mlir"), [x], {"N": 256})
    result.check()
    blocks = x.reshape(4, 8, 8)
    wanted = blocks if load == store else blocks.transpose(0, 2, 1)
    np.testing.assert_array_equal(result.outputs[0], wanted.reshape(-1))


def test_a_store_by_other_lanes_needs_a_barrier_before_ldmatrix() -> None:
    """Lanes of one warp do not know of each other's stores; each reads its own row here."""
    text = MATRIX.replace("LOAD", "").replace("STORE", "").replace("    gpu.barrier\n", "")
    x = np.arange(256, dtype=np.float16)
    module = parse_text(make_context(), text, "matrix.mlir")
    assert kinds(simulate(module, [x], {"N": 256})) == set()
    swapped = text.replace("-> (d0 * 16)> (%thread)", "-> (d0 * 16)> (%thread)", 1).replace(
        "gpu.ldmatrix  %from", "gpu.ldmatrix  %base"
    )
    assert swapped != text
    module = parse_text(make_context(), swapped, "matrix.mlir")
    assert "DataRace" in kinds(simulate(module, [x], {"N": 256}))


# The examples --------------------------------------------------------------------------


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
