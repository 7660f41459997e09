"""Multicast: one box to every CTA of a mask, whose barriers each expect it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants, mutated
from polyc.test.support.gpu_text import find, parsed, run

MAP = "!gpu.tensor_map<[4, 32], f32, swizzle 0>"
TILE = "!gpu.shared<[8, 32], f32, swizzle 0, ring 2>"

# Each CTA reads one half of the rows and sends it to both; each adds up the whole of every tile.
SUM = """gpu.module @m arch "sm_90a" symbols [T] {
  gpu.kernel @k(%Y: !gpu.global<[2, 32], f32> = tensor 1, %T: index = symbol T,
      %map: MAP = tensor_map 0)
      threads 64 cluster 2 shared_bytes 2080 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %four = arith.constant 4 : index
    %eight = arith.constant 8 : index
    %half = arith.constant 512 : i32
    %both = arith.constant 3 : i32
    %nothing = arith.constant 0.0 : f32
    %tile = gpu.shared_tile at 0 : TILE
    %full = gpu.mbarrier at 2048 : !gpu.mbarrier<2>
    %empty = gpu.mbarrier at 2064 : !gpu.mbarrier<2>
    %rank = gpu.cluster_rank
    %thread = gpu.thread_id
    %lane = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
    %warp = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      scf.for %s = %zero to %two step %one {
        gpu.mbarrier_init %full[%s] count 1 : !gpu.mbarrier<2>
        gpu.mbarrier_init %empty[%s] count 2 : !gpu.mbarrier<2>
      }
      gpu.fence_mbarrier_init
    }
    gpu.cluster_barrier
    %produces = arith.cmpi eq, %warp, %zero : index
    scf.if %produces {
      scf.if %first {
        scf.for %t = %zero to %T step %one {
          %slot = affine.apply affine_map<(d0) -> (d0 mod 2)> (%t)
          %free = affine.apply affine_map<(d0) -> ((d0 floordiv 2 + 1) mod 2)> (%t)
          gpu.mbarrier_wait %empty[%slot] parity %free : !gpu.mbarrier<2>
          gpu.mbarrier_expect %full[%slot] bytes 1024 : !gpu.mbarrier<2>
          %at = affine.apply affine_map<(d0, d1) -> (d0 * 8 + d1 * 4)> (%t, %rank)
          %start = gpu.shared_address %tile[%slot] : TILE
          %share = arith.index_cast %rank : index to i32
          %offset = arith.muli %share, %half : i32
          %to = arith.addi %start, %offset : i32
          gpu.tma_load %map[%at, %zero] to %to, %full[%slot] multicast %both : MAP, !gpu.mbarrier<2>
        }
      }
    } else {
      %sum = scf.for %t = %zero to %T step %one iter_args(%before = %nothing) -> (f32) {
        %slot = affine.apply affine_map<(d0) -> (d0 mod 2)> (%t)
        %filled = affine.apply affine_map<(d0) -> (d0 floordiv 2 mod 2)> (%t)
        gpu.mbarrier_wait %full[%slot] parity %filled : !gpu.mbarrier<2>
        %start = gpu.shared_address %tile[%slot] : TILE
        %added = scf.for %r = %zero to %eight step %one iter_args(%so_far = %before) -> (f32) {
          %byte = affine.apply affine_map<(d0, d1) -> (d0 * 128 + d1 * 4)> (%r, %lane)
          %offset = arith.index_cast %byte : index to i32
          %from = arith.addi %start, %offset : i32
          %x = gpu.load_shared %from : f32
          %next = arith.addf %so_far, %x : f32
          scf.yield %next : f32
        }
        gpu.named_barrier 1 threads 32
        %leads = arith.cmpi eq, %lane, %zero : index
        scf.if %leads {
          gpu.mbarrier_arrive_cluster %empty[%slot] rank %zero reads : !gpu.mbarrier<2>
          gpu.mbarrier_arrive_cluster %empty[%slot] rank %one reads : !gpu.mbarrier<2>
        }
        scf.yield %added : f32
      }
      gpu.store_global %sum, %Y[%rank, %lane : index, index] : f32, !gpu.global<[2, 32], f32>
    }
    gpu.cluster_barrier
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[T * 8, 32], f32>) -> (Y: !gpu.global<[2, 32], f32>) {
    gpu.launch @k align [16, 4] grid [2]
  }
}
""".replace("MAP", MAP).replace("TILE", TILE)

EXPECT = "          gpu.mbarrier_expect %full[%slot] bytes 1024 : !gpu.mbarrier<2>\n"


def simulated(text: str, tiles: int = 5, **options: Any) -> Any:
    x = np.random.default_rng(tiles).integers(-8, 9, (8 * tiles, 32)).astype(np.float32)
    result = simulate(gpu_module_of(run(text)), [x], {"T": tiles}, **options)
    return x, result


def kinds(text: str, **options: Any) -> set[str]:
    _, result = simulated(text, **options)
    return {finding.kind for finding in result.findings}


@pytest.mark.parametrize("completion", ["late", "early", "random"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_both_ctas_get_what_each_reads(schedule: str, completion: str) -> None:
    x, result = simulated(SUM, schedule=schedule, completion=completion, seed=5)
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], np.stack([x.sum(axis=0)] * 2))


def test_a_box_is_read_once_and_arrives_twice() -> None:
    x, result = simulated(SUM, tiles=3)
    assert result.counters.global_read_bytes == x.nbytes
    assert result.counters.tma_loads == 6
    assert result.counters.tma_bytes == 2 * x.nbytes


@pytest.mark.parametrize(("column", "found"), [(1, True), (2, True), (4, False), (-4, False)])
def test_lines_of_a_box_begin_at_multiples_of_16_bytes(column: int, found: bool) -> None:
    """In global memory too, inside of the tensor or outside."""
    zero = "    %zero = arith.constant 0 : index\n"
    text = SUM.replace(zero, f"{zero}    %column = arith.constant {column} : index\n")
    assert ("Misaligned" in kinds(text.replace("[%at, %zero]", "[%at, %column]"))) == found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_cta_that_does_not_expect_the_bytes(schedule: str) -> None:
    alone = (
        "          %leads0 = arith.cmpi eq, %rank, %zero : index\n          scf.if %leads0 {\n  "
        + EXPECT
        + "          } else {\n  "
        + EXPECT.replace("1024", "512")
        + "          }\n"
    )
    assert "MBarrierBytes" in kinds(SUM.replace(EXPECT, alone), schedule=schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_slot_that_the_peer_may_still_read(schedule: str) -> None:
    """Arrivals at home only: the other CTA's producer overwrites what this one reads."""
    home = SUM.replace("count 2 :", "count 1 :").replace(
        "          gpu.mbarrier_arrive_cluster %empty[%slot] rank %zero reads : !gpu.mbarrier<2>\n"
        "          gpu.mbarrier_arrive_cluster %empty[%slot] rank %one reads : !gpu.mbarrier<2>\n",
        "          gpu.mbarrier_arrive %empty[%slot] : !gpu.mbarrier<2>\n",
    )
    found = kinds(home, schedule=schedule)
    assert found & {"StageOverwritten", "MBarrierPhase", "MBarrierBytes"}, found


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_peer_that_may_not_have_started(schedule: str) -> None:
    early = SUM.replace("    gpu.cluster_barrier\n", "    gpu.barrier\n", 1)
    assert kinds(early, schedule=schedule) & {"PeerLifetime", "MBarrierInit"}


def test_a_mask_that_leaves_a_cta_out() -> None:
    some = SUM.replace("constant 3 : i32", "constant 1 : i32")
    assert kinds(some) & {"Deadlock", "MBarrierBytes"}


def test_a_mutant_keeps_the_box_to_itself() -> None:
    module = gpu_module_of(parsed(SUM))
    names = [m for m in mutants(module) if m.change == "to this CTA only"]
    assert len(names) == 1
    wrong = mutated(module, names[0])
    assert [op.mask for op in find(wrong, hw.TmaLoadOp)] == [None]
