"""Mbarriers, rings and registers that warpgroups share: each fault is found in every order.

``test_orders.py`` has named barriers, ``test_grid.py`` what CTAs share, ``test_memory.py`` what
copies read, and ``test_cluster.py`` the shared memory of clusters.
"""

from __future__ import annotations

import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.mutation import mutants, mutated
from polyc.test.support.gpu_text import only, parsed, printed
from polyc.test.unit.playback.gpu.test_findings import run
from polyc.test.unit.playback.gpu.test_orders import (
    ORDERS,
    SWAPPED,
    Edit,
    edited,
    found_in_all,
    result_of,
    right_in_all,
)
from polyc.test.unit.playback.gpu.test_orders import kernel as one_kernel

# Mbarriers and rings -------------------------------------------------------------------

WAIT_EMPTY = "          gpu.mbarrier_wait %empty[%slot_1] parity %parity_1 : !gpu.mbarrier<2>\n"
WAIT_FULL = "        gpu.mbarrier_wait %full[%slot] parity %parity : !gpu.mbarrier<2>\n"
ARRIVE = "        gpu.mbarrier_arrive %empty[%slot] : !gpu.mbarrier<2>\n"
EXPECT = "          gpu.mbarrier_expect %full[%slot_1] bytes 1024 : !gpu.mbarrier<2>\n"
ANNOUNCE = EXPECT.replace("expect", "announce")
ARRIVE_FULL = "          gpu.mbarrier_arrive %full[%slot_1] : !gpu.mbarrier<2>\n"
INIT_FENCE = "      gpu.fence_mbarrier_init\n"

REINIT = """    scf.if %first {
      gpu.mbarrier_init %full[%zero] count 1 : !gpu.mbarrier<2>
    }
    gpu.return"""

RING: list[tuple[str, list[Edit], set[str]]] = [
    ("copies that nobody waits for", [(WAIT_FULL, "")], {"Unfinished"}),
    (
        "the wait after the read",
        [(WAIT_FULL, ""), (ARRIVE, WAIT_FULL + ARRIVE)],
        {"UnwaitedCopy", "Uninitialised"},
    ),
    (
        "a slot given back before it was read",
        [(ARRIVE, ""), (WAIT_FULL, WAIT_FULL + ARRIVE)],
        {"StageOverwritten", "UnwaitedCopy"},
    ),
    ("a slot filled before it was given back", [(WAIT_EMPTY, "")], {"UnwaitedCopy"}),
    ("one reader is not waited for", [("count 32", "count 31")], {"StageOverwritten"}),
    (
        "bytes that come to another phase",
        [("to %to, %full[%slot_1]", "to %to, %full[%zero]")],
        {"MBarrierBytes"},
    ),
    ("nothing orders initialisation", [("    gpu.barrier\n", "")], {"MBarrierInit"}),
    ("no fence of initialisation", [(INIT_FENCE, "")], {"MBarrierInit"}),
    ("made ready again after use", [("    gpu.return", REINIT)], {"MBarrierInit"}),
]
"""A name, the edits, and kinds of which each order finds one."""


@pytest.mark.parametrize(("edits", "some"), [r[1:] for r in RING], ids=[r[0] for r in RING])
def test_faults_of_a_ring(edits: list[Edit], some: set[str]) -> None:
    for seed, (schedule, completion) in enumerate(ORDERS):
        result = run("tma_copy", *edits, schedule=schedule, completion=completion, seed=seed)
        kinds = {f.kind for f in result.findings}
        assert kinds & some, (schedule, completion, kinds)


def test_the_announcement_and_the_arrival_of_one_thread() -> None:
    for schedule, completion in ORDERS:
        result = run(
            "tma_copy", (EXPECT, ANNOUNCE + ARRIVE_FULL), schedule=schedule, completion=completion
        )
        result.check()


def test_a_second_fence_of_initialisation_does_not_hide_the_first() -> None:
    """Any fence will do that the copying thread knows of, whoever makes another one when."""
    meet = "    gpu.barrier\n"
    more = f"{meet}    %half_1 = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)\n"
    more += "    %later = arith.cmpi eq, %half_1, %one : index\n"
    more += "    scf.if %later {\n      gpu.fence_mbarrier_init\n    }\n"
    for schedule, completion in ORDERS:
        run("tma_copy", (meet, more), schedule=schedule, completion=completion).check()


PHASES = one_kernel(
    """
    %b = gpu.mbarrier at 2048 : !gpu.mbarrier<1>
    %is_first = arith.cmpi eq, %thread, %zero : index
    scf.if %is_first {
      gpu.mbarrier_init %b[%zero] count 1 : !gpu.mbarrier<1>
    }
    gpu.barrier
    %tells = arith.cmpi eq, %warp, %one : index
    scf.if %tells {
      scf.if %alone {
        gpu.mbarrier_arrive %b[%zero] : !gpu.mbarrier<1>
      }
    }
    %hears = arith.cmpi eq, %warp, %zero : index
    scf.if %hears {
      gpu.mbarrier_wait %b[%zero] parity %zero : !gpu.mbarrier<1>
      gpu.named_barrier 1 threads 64
      gpu.mbarrier_wait %b[%zero] parity %one : !gpu.mbarrier<1>
    }
    %again = arith.cmpi eq, %warp, %two : index
    scf.if %again {
      gpu.named_barrier 1 threads 64
      scf.if %alone {
        gpu.mbarrier_arrive %b[%zero] : !gpu.mbarrier<1>
      }
    }
    gpu.store_global %word, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    96,
)
"""Warp 1 ends phase 0 of an mbarrier and warp 2 phase 1; warp 0 waits for both."""

MEET = "      gpu.named_barrier 1 threads 64\n"


def test_phases_that_different_warps_end() -> None:
    right_in_all(PHASES, np.arange(96), N=96)


def test_an_arrival_that_may_count_for_the_phase_before() -> None:
    found_in_all(edited(PHASES, (MEET, "")), "MBarrierPhase", N=96)


def test_a_wait_that_may_be_lapped() -> None:
    """Warp 2 knows that phase 0 is over; nobody knows that warp 0 has seen it."""
    before, middle, after = PHASES.split(MEET)
    alone = "      gpu.mbarrier_wait %b[%zero] parity %zero : !gpu.mbarrier<1>\n"
    found_in_all(before + middle + alone + after, "MBarrierPhase", N=96)


ANNOUNCED = one_kernel(
    """
    %full = gpu.mbarrier at 2048 : !gpu.mbarrier<1>
    %is_first = arith.cmpi eq, %thread, %zero : index
    scf.if %is_first {
      gpu.mbarrier_init %full[%zero] count 1 : !gpu.mbarrier<1>
      gpu.fence_mbarrier_init
    }
    gpu.barrier
    scf.if %is_first {
      gpu.mbarrier_announce %full[%zero] bytes 256 : !gpu.mbarrier<1>
      gpu.tma_load %map[%zero] to %base, %full[%zero] : !gpu.tensor_map<[64], i32, swizzle 0>, !gpu.mbarrier<1>
    }
    gpu.named_barrier 1 threads 64
    %tells = arith.cmpi eq, %warp, %one : index
    scf.if %tells {
      scf.if %alone {
        gpu.mbarrier_arrive %full[%zero] : !gpu.mbarrier<1>
      }
    }
    gpu.mbarrier_wait %full[%zero] parity %zero : !gpu.mbarrier<1>
    %old = gpu.load_shared %own : i32
    gpu.store_global %old, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",  # noqa: E501
    64,
    '%map: !gpu.tensor_map<[64], i32, swizzle 0> = tensor_map "parts", ',
    """    gpu.sequence @all align [16] {
      gpu.workspace "parts" zeroed : !gpu.global<[64], i32>
      gpu.launch @k grid [1]
    }""",
)
"""Warp 0 announces the bytes of a copy, and warp 1 is who arrives."""


def test_bytes_announced_by_one_and_the_arrival_of_another() -> None:
    right_in_all(ANNOUNCED, np.zeros(64), N=64)
    meet = "    gpu.named_barrier 1 threads 64\n"
    found_in_all(edited(ANNOUNCED, (meet, "")), "MBarrierPhase", N=64)


# Registers -----------------------------------------------------------------------------

BUDGETS = one_kernel(
    """
    %group_half = affine.apply affine_map<(d0) -> (d0 floordiv 128)> (%thread)
    %group = gpu.warp_uniform %group_half
    %gives = arith.cmpi eq, %group, %zero : index
    scf.if %gives {
      gpu.set_max_registers "decrease" 120
    } else {
      gpu.set_max_registers "increase" 184
      // between
    }
    gpu.store_global %word, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    384,
)
"""One warpgroup gives 48 registers a thread, and two take 16 each."""

MORE = """      gpu.named_barrier 1 plus %group threads 128
      gpu.set_max_registers "increase" 208
      gpu.named_barrier 1 plus %group threads 128
      gpu.set_max_registers "decrease" 168
"""
SOME = """      %odd = affine.apply affine_map<(d0) -> (d0 mod 2)> (%warp)
      %few = arith.cmpi eq, %odd, %zero : index
      scf.if %few {
        gpu.set_max_registers "increase" 192
      }
"""


def test_warpgroups_give_each_other_registers() -> None:
    right_in_all(BUDGETS, np.arange(384), N=384)
    # 48 are enough for one group's 40 and the other one's first 16, but not both.
    enough = edited(BUDGETS, ('decrease" 120', 'decrease" 104'), ("      // between\n", MORE))
    right_in_all(enough, np.arange(384), N=384)


@pytest.mark.parametrize(
    "edit",
    [
        ("      // between\n", MORE),
        ("      // between\n", SOME),
        ("      // between\n", '      gpu.set_max_registers "increase" 192\n'),
    ],
    ids=["who comes first", "half of the warps", "without meeting"],
)
def test_faults_of_register_budgets(edit: Edit) -> None:
    found_in_all(edited(BUDGETS, edit), "Registers", N=384)


# Barriers that answer ------------------------------------------------------------------

PAIRS_ASK = one_kernel(
    """
    %pair = affine.apply affine_map<(d0) -> (d0 floordiv 2)> (%warp)
    %other = affine.apply affine_map<(d0) -> (d0 floordiv 64 * 64 + (d0 + 32) mod 64)> (%thread)
    %byte = affine.apply affine_map<(d0) -> (d0 * 4)> (%other)
    %byte32 = arith.index_cast %byte : index to i32
    %there = arith.addi %base, %byte32 : i32
    %number = affine.apply affine_map<(d0) -> (d0 mod 64)> (%thread)
    %place = affine.apply affine_map<(d0) -> (d0 * 17 + 50)> (%pair)
    %has = arith.cmpi eq, %number, %place : index
    %hundred = arith.constant 100 : i32
    gpu.store_shared %word, %own : i32
    %first = gpu.barrier_any %has at 1 plus %pair threads 64
    %got = gpu.load_shared %there : i32
    %more = arith.addi %got, %hundred : i32
    %told = arith.select %first, %more, %got : i32
    gpu.store_global %told, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    128,
)
"""Two pairs of warps exchange numbers where one asks; thread 50 of the first pair has something."""

ASK = "gpu.barrier_any %has at 1 plus %pair threads 64"


def test_warps_that_ask_have_one_answer_and_see_what_was_written() -> None:
    right_in_all(PAIRS_ASK, SWAPPED + np.where(np.arange(128) < 64, 100, 0), N=128)
    both = edited(PAIRS_ASK, ("d0 * 17 + 50", "d0 * 13 + 50"))
    right_in_all(both, SWAPPED + 100, N=128)
    all_ask = edited(PAIRS_ASK, (ASK, "gpu.barrier_any %has at 0 threads 128"))
    right_in_all(all_ask, SWAPPED + 100, N=128)


IN_TURN = one_kernel(
    """
    %no = arith.constant 0 : i32
    %sum = scf.for %i = %zero to %four step %one iter_args(%so_far = %no) -> (i32) {
      %at = affine.apply affine_map<(d0) -> (d0 * 19)> (%i)
      %mine_now = arith.cmpi eq, %thread, %at : index
      %odd = affine.apply affine_map<(d0) -> (d0 mod 2)> (%i)
      %is_odd = arith.cmpi eq, %odd, %one : index
      %has = arith.andi %mine_now, %is_odd : i1
      %any = gpu.barrier_any %has at 2 threads 64
      %bit = arith.index_cast %i : index to i32
      %told = arith.select %any, %bit, %no : i32
      %next = arith.addi %so_far, %told : i32
      scf.yield %next : i32
    }
    gpu.store_global %sum, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    64,
)
"""The threads ask four times; the second and the last time one has something."""


def test_each_time_that_threads_ask_is_its_own() -> None:
    right_in_all(IN_TURN, np.full(64, 1 + 3), N=64)


LATE = one_kernel(
    """
    %yes = arith.constant true
    %no = arith.constant false
    %hundred = arith.constant 100 : i32
    %nothing = arith.constant 0 : i32
    %old = arith.cmpi sle, %warp, %one : index
    %asks = arith.select %old, %yes, %no : i1
    scf.if %old {
      %any = gpu.barrier_any %asks at 1 threads 64
      %told = arith.select %any, %hundred, %nothing : i32
      gpu.store_global %told, %Y[%thread : index] : i32, !gpu.global<[N], i32>
    }
    %passes_on = arith.cmpi sge, %warp, %one : index
    scf.if %passes_on {
      gpu.named_barrier 2 threads 96
    }
    %new = arith.cmpi sge, %warp, %two : index
    scf.if %new {
      %any = gpu.barrier_any %asks at 1 threads 64
      %told = arith.select %any, %hundred, %nothing : i32
      gpu.store_global %told, %Y[%thread : index] : i32, !gpu.global<[N], i32>
    }
""",
    128,
)
"""Warps 0 and 1 ask; 1 tells 2 and 3 that they have, and these ask at the same barrier."""


def test_who_wakes_late_has_the_answer_of_its_own_time() -> None:
    right = np.repeat([100, 0], 64)
    right_in_all(LATE, right, N=128)
    for seed in range(12):
        result = result_of(LATE, {"N": 128}, schedule="random", seed=seed)
        result.check()
        np.testing.assert_array_equal(result.outputs[0], right)
    meet = "    scf.if %passes_on {\n      gpu.named_barrier 2 threads 96\n    }\n"
    found_in_all(edited(LATE, (meet, "")), "BarrierPhase", N=128)


@pytest.mark.parametrize(
    ("edit", "kinds"),
    [
        ((ASK, "gpu.barrier_any %has at 1 threads 64"), "BarrierPhase"),
        ((ASK, "gpu.barrier_any %has at 1 plus %warp threads 32"), "DataRace"),
        ((ASK, "gpu.barrier_any %has at 1 plus %pair threads 96"), "BarrierMissing"),
        (("1 plus %pair", "15 plus %pair"), "OutOfBounds"),
        ((f"%first = {ASK}", "%first = arith.constant true"), "DataRace"),
    ],
    ids=["pairs that share a barrier", "each warp alone", "more than come", "no barrier", "none"],
)
def test_faults_of_barriers_that_answer(edit: Edit, kinds: str) -> None:
    found_in_all(edited(PAIRS_ASK, edit), kinds, N=128)


MIXED = one_kernel(
    """
    %has = arith.cmpi eq, %thread, %zero : index
    %half = arith.cmpi eq, %warp, %zero : index
    scf.if %half {
      %any = gpu.barrier_any %has at 3 threads 64
    } else {
      gpu.named_barrier 3 threads 64
    }
    gpu.store_global %word, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    64,
)
"""One warp asks where the other one only meets it."""


@pytest.mark.parametrize("plain", ["gpu.named_barrier 3", "gpu.named_barrier_arrive 3"])
def test_a_barrier_that_answers_and_one_that_does_not(plain: str) -> None:
    found_in_all(edited(MIXED, ("gpu.named_barrier 3", plain)), "BarrierMismatch", N=64)
    right = edited(MIXED, ("gpu.named_barrier 3", "%other = gpu.barrier_any %has at 3"))
    right_in_all(right, np.arange(64), N=64)


def test_a_part_of_a_warp_that_asks() -> None:
    few = edited(MIXED, ("eq, %warp, %zero", "sge, %lane, %one"))
    found_in_all(few, "BarrierDivergence", N=64)


def test_mutants_of_a_barrier_that_answers() -> None:
    """More threads than come are missed; both pairs at the next barrier are right."""
    module = only(parsed(PAIRS_ASK), ModuleOp)
    found = {m.change: m for m in mutants(module) if m.op == "gpu.barrier_any"}
    assert set(found) == {"barrier 1 -> 2", "threads 64 -> 96"}
    found_in_all(printed(mutated(module, found["threads 64 -> 96"])), "BarrierMissing", N=128)
    right = SWAPPED + np.where(np.arange(128) < 64, 100, 0)
    right_in_all(printed(mutated(module, found["barrier 1 -> 2"])), right, N=128)
