"""What warps and CTAs share, beside barriers of the CTA: each fault is found in every order.

Mbarriers and rings, counters and partial sums in global memory, and the registers that warpgroups
give each other.  ``test_orders.py`` has named barriers, ``test_cluster.py`` the
shared memory of clusters.
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


# Counters and partial sums in global memory --------------------------------------------

SIGNAL = "      gpu.signal_global %n[%zero : index] : !gpu.global<[2], i32>\n"
WAIT = "      gpu.wait_global %n[%zero : index] until %three : !gpu.global<[2], i32>\n"

TOLD = one_kernel(
    f"""
    %block = gpu.block_id
    %name = affine.apply affine_map<(d0) -> (d0 + 5)> (%block)
    %told = arith.index_cast %name : index to i32
    scf.if %alone {{
      gpu.store_global %told, %P[%block : index] : i32, !gpu.global<[3], i32>
{SIGNAL}{WAIT}
      %a = gpu.load_global %P[%zero : index] : !gpu.global<[3], i32> -> i32
      %b = gpu.load_global %P[%one : index] : !gpu.global<[3], i32> -> i32
      %c = gpu.load_global %P[%two : index] : !gpu.global<[3], i32> -> i32
      %ab = arith.addi %a, %b : i32
      %abc = arith.addi %ab, %c : i32
      // the end
      gpu.store_global %abc, %Y[%block : index] : i32, !gpu.global<[N], i32>
    }}
""",
    32,
    '%n: !gpu.global<[2], i32> = workspace "arrived", '
    '%P: !gpu.global<[3], i32> = workspace "parts", ',
    """    gpu.sequence @all align [4] {
      gpu.workspace "arrived" zeroed : !gpu.global<[2], i32>
      gpu.workspace "parts" : !gpu.global<[3], i32>
      gpu.launch @k grid [3] cooperative
    }""",
)
"""Three CTAs add up what each of them tells."""

SUMS = np.full(3, 18)
STORE = "      gpu.store_global %told, %P[%block : index] : i32, !gpu.global<[3], i32>\n"
LAUNCH = "      gpu.launch @k grid [3] cooperative\n"
END_OF_SUM = "      // the end\n"
SECOND = WAIT.replace("%zero", "%one")
RESET = (
    "      %first = arith.cmpi eq, %block, %zero : index\n"
    "      scf.if %first {\n"
    "        %none = arith.constant 0 : i32\n"
    "        gpu.store_global %none, %n[%zero : index] : i32, !gpu.global<[2], i32>\n"
    "      }\n"
)
ATOMIC = (
    "      %unit = arith.constant 1 : i32\n"
    '      gpu.atomic_global "add" %unit, %n[%zero : index] : i32, !gpu.global<[2], i32>\n'
)
ONE_ATOMIC = (
    "      %last = arith.cmpi eq, %block, %two : index\n"
    f"      scf.if %last {{\n{ATOMIC}      }} else {{\n{SIGNAL}      }}\n"
)
AGAIN = "      %six = arith.constant 6 : index\n" + WAIT.replace("%three", "%six")
"""Another round at the same counter."""


def test_ctas_add_up_what_all_of_them_told() -> None:
    right_in_all(TOLD, SUMS, N=3)
    # Twice at one counter, and a counter set back once all have seen it.
    right_in_all(edited(TOLD, (END_OF_SUM, SIGNAL + AGAIN)), SUMS, N=3)
    told = SIGNAL.replace("%zero", "%one")
    right_in_all(edited(TOLD, (END_OF_SUM, told + SECOND + RESET)), SUMS, N=3)


@pytest.mark.parametrize(
    ("edits", "kind"),
    [
        ([(WAIT, WAIT.replace("%three", "%two"))], "SignalCount"),
        ([(WAIT, "")], "DataRace"),
        ([(SIGNAL, "")], "Deadlock"),
        ([(STORE, ""), (WAIT, STORE + WAIT)], "DataRace"),
        # Each comes for the second time before all have come once.
        ([(WAIT, SIGNAL + WAIT)], "SignalCount"),
        # What an earlier launch has counted lets the waits of the next one pass.
        ([(LAUNCH, 2 * LAUNCH)], "DataRace"),
        # Set back while others may still wait.
        ([(END_OF_SUM, RESET)], "DataRace or Deadlock"),
        ([(SIGNAL, ONE_ATOMIC)], "SignalCount"),
    ],
    ids=[
        "too few",
        "no wait",
        "no signal",
        "told after the signal",
        "a round early",
        "left over",
        "set back too early",
        "not a signal",
    ],
)
def test_faults_of_counters(edits: list[Edit], kind: str) -> None:
    found_in_all(edited(TOLD, *edits), kind, N=3)


def test_a_wait_for_too_few_says_whose_signals_it_may_take() -> None:
    text = edited(TOLD, (WAIT, WAIT.replace("%three", "%two")))
    found = result_of(text, {"N": 3}).findings
    message = next(f.message for f in found if f.kind == "SignalCount")
    assert message == (
        "arrived[0] is awaited to be 2, and nothing orders thread 64, which signals it after that, "
        "after the signal of thread 0: on another run the wait takes the one for the other; wait "
        "for all, or take a counter for each meeting"
    )


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
