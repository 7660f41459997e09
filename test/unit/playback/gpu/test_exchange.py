"""Atomics and shuffles: what they do, and what is wrong about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.playback.gpu import SimulationResult, simulate
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = NDArray[Any]


def kinds(result: SimulationResult) -> set[str]:
    return {f.kind for f in result.findings}


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


LINKED = """
gpu.module @linked arch "sm_80" symbols [N] {
  gpu.kernel @linked(
      %X: !gpu.global<[N], i32> = tensor 0, %Y: !gpu.global<[N], i32> = tensor 1,
      %heads: !gpu.global<[4], i32> = workspace "heads", %N: index = symbol N) threads 32 {
    %block = gpu.block_id
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %k = affine.apply affine_map<(d0, d1) -> (d0 * 32 + d1)> (%block, %thread)
    %here = arith.cmpi slt, %k, %N : index
    %x = gpu.load_global %X[%k : index] if %here : !gpu.global<[N], i32> -> i32
    %at = arith.index_cast %x : i32 to index
    %after = affine.apply affine_map<(d0) -> (d0 + 1)> (%k)
    %number = arith.index_cast %after : index to i32
    %was = gpu.exchange_global %number, %heads[%at : index] if %here : !gpu.global<[4], i32>
    gpu.store_global %was, %Y[%k : index] if %here : i32, !gpu.global<[N], i32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], i32>) -> (Y: !gpu.global<[N], i32>) {
    gpu.sequence @run align [4, 4] {
      gpu.workspace "heads" zeroed : !gpu.global<[4], i32>
      gpu.launch @linked grid [N ceildiv 32]
    }
  }
}
"""


ADDED = LINKED.replace("exchange_global %number", "exchange_global add %unit").replace(
    "    %zero =", "    %unit = arith.constant 1 : i32\n    %zero =", 1
)
"""The same where ones are added."""


def linked(text: str = LINKED) -> tuple[Array, SimulationResult]:
    module = parse_text(make_context(), text, "linked.mlir")
    x = (np.arange(70) * 7 % 4).astype(np.int32)
    x[:9] = 2
    return x, simulate(module, [x], {"N": 70})


def test_an_exchange_gives_what_was_there() -> None:
    """Each thread finds the one before it at its place, so that lists are whole."""
    x, result = linked()
    result.check()
    (links,) = result.outputs
    for row in range(4):
        own = set((np.nonzero(x == row)[0] + 1).tolist())
        before = {int(links[n - 1]) for n in own}
        assert len(before) == len(own) and before <= own | {0} and 0 in before


def test_one_that_adds_gives_what_was_there() -> None:
    """Each thread finds another count of those of its place, and none is missed."""
    x, result = linked(ADDED)
    result.check()
    (ranks,) = result.outputs
    for row in range(4):
        assert sorted(ranks[x == row].tolist()) == list(range((x == row).sum()))


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("%heads[%at : index] if %here", "%heads[%after : index] if %here", "OutOfBounds"),
        (
            "    gpu.store_global %was, %Y",
            "    gpu.store_global %was, %heads[%zero : index] : i32, !gpu.global<[4], i32>\n"
            "    gpu.store_global %was, %Y",
            "DataRace",
        ),
    ],
)
def test_faults_of_an_exchange(old: str, new: str, kind: str) -> None:
    assert old in LINKED
    assert kind in kinds(linked(LINKED.replace(old, new))[1])


def test_what_is_set_may_hold_anything_before_and_what_is_added_to_may_not() -> None:
    """The first to be linked is linked to anything, which its author asks nobody for."""
    open_heads = '"heads" zeroed', '"heads"'
    assert not kinds(linked(LINKED.replace(*open_heads))[1])
    assert kinds(linked(ADDED.replace(*open_heads))[1]) == {"Uninitialised"}


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
