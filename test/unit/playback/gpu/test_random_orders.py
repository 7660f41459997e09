"""Programs drawn at random: if one interleaving finds a fault, all of them do.

Each is a list of meetings written into the programs of those who take part, so that it runs to its
end in one order at least.  About half of them are wrong: nothing orders one meeting after another.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from polyc.playback.gpu import SCHEDULES
from polyc.test.unit.playback.gpu.test_orders import kernel, result_of

NUMBERS = ("zero", "one", "two")
ORDERS = [(s, seed) for seed in range(2) for s in SCHEDULES] + [("random", 2), ("random", 3)]


def access(random: Random, memory: str) -> str:
    """A load or a store of one of two places, by lane 0."""
    place = random.randrange(2)
    if memory == "shared":
        stored, loaded = f"gpu.store_shared %word, %at{place} : i32", f"%at{place} : i32"
    else:
        where, kind = f"%P[%{NUMBERS[place]} : index]", "!gpu.global<[2], i32>"
        stored = f"gpu.store_global %word, {where} : i32, {kind}"
        loaded = f"{where} : {kind} -> i32"
    text = stored if random.random() < 0.5 else f"%got = gpu.load_{memory} {loaded}"
    return f"scf.if %alone {{ {text} }}"


def of_warps(random: Random) -> list[list[str]]:
    """The programs of three warps that meet at barriers and mbarriers."""
    code: list[list[str]] = [[], [], []]
    phases = [0, 0]
    for _ in range(random.randint(2, 5)):
        if random.random() < 0.5:
            code[random.randrange(3)].append(access(random, "shared"))
        kind = random.random()
        if kind < 0.4:
            group = random.sample(range(3), random.choice((2, 2, 3)))
            number, goes_on = random.choice((1, 2)), random.randrange(len(group))
            for i, warp in enumerate(group):
                op = "named_barrier_arrive" if i < goes_on else "named_barrier"
                code[warp].append(f"gpu.{op} {number} threads {32 * len(group)}")
        elif kind < 0.85:
            which = random.randrange(2)
            at = f"%b[%{NUMBERS[which]}]"
            # Barrier i counts i + 1 arrivals.
            for warp in random.sample(range(3), which + 1):
                arrival = f"gpu.mbarrier_arrive {at} : !gpu.mbarrier<2>"
                code[warp].append(f"scf.if %alone {{ {arrival} }}")
            parity = NUMBERS[phases[which] & 1]
            for warp in random.sample(range(3), random.randint(1, 2)):
                code[warp].append(f"gpu.mbarrier_wait {at} parity %{parity} : !gpu.mbarrier<2>")
            phases[which] += 1
        else:
            for program in code:
                program.append("gpu.barrier")
    return code


def of_ctas(random: Random) -> list[list[str]]:
    """The programs of three CTAs that signal two counters and wait for them."""
    code: list[list[str]] = [[], [], []]
    counts = [0, 0]
    for _ in range(random.randint(2, 4)):
        if random.random() < 0.3:
            code[random.randrange(3)].append(access(random, "global"))
        which = random.randrange(2)
        at, kind = f"%n[%{NUMBERS[which]} : index]", "!gpu.global<[2], i32>"
        for cta in random.sample(range(3), random.randint(1, 3)):
            code[cta].append(f"scf.if %alone {{ gpu.signal_global {at} : {kind} }}")
            counts[which] += 1
        wanted = counts[which] - (random.random() < 0.2)
        for cta in random.sample(range(3), random.choice((1, 3, 3))):
            wait = f"gpu.wait_global {at} until %many : {kind}"
            many = f"%many = arith.constant {wanted} : index"
            code[cta].append(f"scf.if %alone {{ {many} {wait} }}")
    return code


def branches(code: list[list[str]], who: str) -> str:
    """Each program under the condition that it is ``who``'s turn."""
    return "".join(
        f"    %is{i} = arith.cmpi eq, %{who}, %{NUMBERS[i]} : index\n    scf.if %is{i} {{\n"
        + "".join(f"      {line}\n" for line in program)
        + "    }\n"
        for i, program in enumerate(code)
    )


def warps(random: Random) -> str:
    return kernel(
        """
    %b = gpu.mbarrier at 2048 : !gpu.mbarrier<2>
    %far = arith.constant 1024 : i32
    %bytes = arith.constant 4 : i32
    %at0 = arith.addi %base, %far : i32
    %at1 = arith.addi %at0, %bytes : i32
    %is_first = arith.cmpi eq, %thread, %zero : index
    scf.if %is_first {
      gpu.mbarrier_init %b[%zero] count 1 : !gpu.mbarrier<2>
      gpu.mbarrier_init %b[%one] count 2 : !gpu.mbarrier<2>
      gpu.store_shared %word, %at0 : i32
      gpu.store_shared %word, %at1 : i32
    }
    gpu.barrier
"""
        + branches(of_warps(random), "warp")
        + "    gpu.store_global %word, %Y[%thread : index] : i32, !gpu.global<[N], i32>\n",
        96,
    )


def ctas(random: Random) -> str:
    return kernel(
        "    %block = gpu.block_id\n"
        + branches(of_ctas(random), "block")
        + """    scf.if %alone {
      gpu.store_global %word, %Y[%block : index] : i32, !gpu.global<[N], i32>
    }
""",
        32,
        '%n: !gpu.global<[2], i32> = workspace "arrived", '
        '%P: !gpu.global<[2], i32> = workspace "parts", ',
        """    gpu.sequence @all align [4] {
      gpu.workspace "arrived" zeroed : !gpu.global<[2], i32>
      gpu.workspace "parts" zeroed : !gpu.global<[2], i32>
      gpu.launch @k grid [3] cooperative
    }""",
    )


@pytest.mark.turns(2)
@pytest.mark.parametrize("draw", [warps, ctas], ids=lambda f: f.__name__)
def test_a_fault_is_found_in_every_order_or_in_none(draw: Callable[[Random], str]) -> None:
    faulty: list[bool] = []
    for number in range(12):
        text = draw(Random(number))
        size = {"N": 96 if draw is warps else 3}
        found = [bool(result_of(text, size, schedule=s, seed=i).findings) for s, i in ORDERS]
        assert all(found) or not any(found), f"program {number}:\n{text}"
        faulty.append(all(found))
    assert any(faulty) and not all(faulty)
