"""Mbarriers, rings and registers that warpgroups share: each fault is found in every order.

``test_orders.py`` has named barriers, ``test_grid.py`` what CTAs share, ``test_memory.py`` what
copies read, and ``test_cluster.py`` the shared memory of clusters.
"""

from __future__ import annotations

import numpy as np
import pytest

from polyc.test.unit.playback.gpu.test_findings import run
from polyc.test.unit.playback.gpu.test_orders import (
    ORDERS,
    Edit,
    edited,
    found_in_all,
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
