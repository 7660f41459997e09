"""Faults that most interleavings hide: happens-before finds each of them in every one.

Each kernel here is right, and wrong by one edit.  Here are named barriers, in small kernels and in
real ones; ``test_sync.py`` has what else is shared.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.dialects.gpu.hardware.sync import NamedBarrierOp
from polyc.dialects.gpu.types import index_attr
from polyc.playback.gpu import SCHEDULES, SimulationResult, simulate
from polyc.playback.gpu.simulate import COMPLETIONS
from polyc.test.support.gpu_text import find, parsed
from polyc.test.support.tile_cases import CASES, lowered

Array = NDArray[Any]
Edit = tuple[str, str]
ORDERS = list(product(SCHEDULES, COMPLETIONS))


def edited(text: str, *edits: Edit) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def result_of(text: str, sizes: dict[str, int], **options: Any) -> SimulationResult:
    return simulate(parsed(text), [], sizes, multiprocessors=4, **options)


def found_in_all(text: str, kind: str, **sizes: int) -> None:
    """Assert that every schedule and completion finds ``kind``, or one of several, in ``text``."""
    for seed, (schedule, completion) in enumerate(ORDERS):
        options = {"schedule": schedule, "completion": completion, "seed": seed}
        kinds = {f.kind for f in result_of(text, sizes, **options).findings}
        assert kinds & set(kind.split(" or ")), (options, kinds)


def right_in_all(text: str, wanted: Array, **sizes: int) -> None:
    for schedule, completion in ORDERS:
        result = result_of(text, sizes, schedule=schedule, completion=completion, seed=3)
        assert not result.findings, (schedule, completion, str(result.findings[0]))
        np.testing.assert_array_equal(result.outputs[0], wanted)


def kernel(body: str, threads: int, head: str = "", dispatch: str = "") -> str:
    """One kernel that writes the output ``Y``; its text knows %thread, %warp and small numbers."""
    numbers = "\n".join(
        f"    %{name} = arith.constant {i} : index"
        for i, name in enumerate(("zero", "one", "two", "three", "four"))
    )
    launch = dispatch or "    gpu.launch @k align [4] grid [1]"
    return f"""gpu.module @m arch "sm_90a" symbols [N] {{
  gpu.kernel @k({head}%Y: !gpu.global<[N], i32> = tensor 0, %N: index = symbol N)
      threads {threads} shared_bytes 4096 {{
    %thread = gpu.thread_id
    %which = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)
    %warp = gpu.warp_uniform %which
    %lane = affine.apply affine_map<(d0) -> (d0 mod 32)> (%thread)
    %alone = arith.cmpi eq, %lane, %zero : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[1, 512], i32, swizzle 0>
    %base = gpu.shared_address %tile[%zero] : !gpu.shared<[1, 512], i32, swizzle 0>
    %mine = affine.apply affine_map<(d0) -> (d0 * 4)> (%thread)
    %mine32 = arith.index_cast %mine : index to i32
    %own = arith.addi %base, %mine32 : i32
    %word = arith.index_cast %thread : index to i32
{body.strip(chr(10))}
    gpu.return
  }}
  gpu.dispatch () -> (Y: !gpu.global<[N], i32>) {{
{launch}
  }}
}}
""".replace("    %thread = gpu.thread_id\n", f"{numbers}\n    %thread = gpu.thread_id\n")


# Named barriers ------------------------------------------------------------------------

NEIGHBOUR = """
    %other = affine.apply affine_map<(d0) -> (d0 floordiv 64 * 64 + (d0 + 32) mod 64)> (%thread)
    %byte = affine.apply affine_map<(d0) -> (d0 * 4)> (%other)
    %byte32 = arith.index_cast %byte : index to i32
    %there = arith.addi %base, %byte32 : i32
"""

TWO_PAIRS = kernel(
    f"""{NEIGHBOUR}
    %pair = affine.apply affine_map<(d0) -> (d0 floordiv 2)> (%warp)
    gpu.store_shared %word, %own : i32
    gpu.named_barrier 1 plus %pair threads 64
    %got = gpu.load_shared %there : i32
    gpu.named_barrier 1 plus %pair threads 64
    gpu.store_global %got, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
    128,
)
"""Warps 0 and 1 exchange numbers, and warps 2 and 3."""

SWAPPED = np.arange(128).reshape(2, 2, 32)[:, ::-1].reshape(-1)


def test_pairs_of_warps_have_a_barrier_each() -> None:
    right_in_all(TWO_PAIRS, SWAPPED, N=128)


@pytest.mark.parametrize("which", ["first", "second", "both"])
def test_pairs_of_warps_that_share_a_barrier(which: str) -> None:
    """The first use alone, the second alone, and both: one id where nothing orders the pairs."""
    line = "    gpu.named_barrier 1 plus %pair threads 64\n"
    shared = "    gpu.named_barrier 5 threads 64\n"
    before, middle, after = TWO_PAIRS.split(line)
    text = {
        "first": before + shared + middle + line + after,
        "second": before + line + middle + shared + after,
        "both": before + shared + middle + shared + after,
    }[which]
    found_in_all(text, "BarrierPhase", N=128)


def test_pairs_may_share_a_barrier_where_they_meet_between() -> None:
    """The first pair uses barrier 1, then all meet, then the second one does."""
    use = """      gpu.store_shared %word, %own : i32
      gpu.named_barrier 1 threads 64
      %got{0} = gpu.load_shared %there : i32
      gpu.store_global %got{0}, %Y[%thread : index] : i32, !gpu.global<[N], i32>
    }}
"""
    text = kernel(
        f"{NEIGHBOUR}    %first = arith.cmpi slt, %warp, %two : index\n    scf.if %first {{\n"
        + use.format(0)
        + "    gpu.barrier\n    %second = arith.cmpi sge, %warp, %two : index\n"
        + "    scf.if %second {\n"
        + use.format(1),
        128,
    )
    right_in_all(text, SWAPPED, N=128)
    found_in_all(edited(text, ("    gpu.barrier\n", "")), "BarrierPhase", N=128)


def test_a_group_that_changes_meets_in_between() -> None:
    """Barrier 1 is warp 0's with warp 1, then with warp 2, who may come before warp 1 does."""
    text = kernel(
        """
    %late = arith.cmpi sle, %warp, %one : index
    scf.if %late {
      gpu.named_barrier 1 threads 64
    }
    gpu.barrier
    %not_one = arith.cmpi ne, %warp, %one : index
    scf.if %not_one {
      gpu.named_barrier 1 threads 64
    }
    gpu.store_global %word, %Y[%thread : index] : i32, !gpu.global<[N], i32>
""",
        96,
    )
    right_in_all(text, np.arange(96), N=96)
    found_in_all(edited(text, ("    gpu.barrier\n", "")), "BarrierPhase", N=96)


TURNS = kernel(
    """
    %none = arith.constant 0 : i32
    %unit = arith.constant 1 : i32
    %is_second = arith.cmpi eq, %warp, %one : index
    %is_first = arith.cmpi eq, %thread, %zero : index
    scf.if %is_first {
      gpu.store_shared %none, %base : i32
    }
    gpu.barrier
    scf.if %is_second {
      gpu.named_barrier_arrive 1 threads 64
    }
    scf.for %i = %zero to %three step %one {
      gpu.named_barrier 1 plus %warp threads 64
      scf.if %alone {
        %x = gpu.load_shared %base : i32
        %more = arith.addi %x, %unit : i32
        gpu.store_shared %more, %base : i32
      }
      %next = affine.apply affine_map<(d0) -> (1 - d0)> (%warp)
      gpu.named_barrier_arrive 1 plus %next threads 64
    }
    scf.if %is_second {
      scf.if %alone {
        %sum = gpu.load_shared %base : i32
        gpu.store_global %sum, %Y[%lane : index] : i32, !gpu.global<[N], i32>
      }
    }
""",
    64,
)
"""Two warps take turns: each waits at its own barrier and arrives at the other's."""


def test_turns_that_alternate_are_right() -> None:
    right_in_all(TURNS, np.array([6]), N=1)


def test_turns_that_are_given_without_having_been_had() -> None:
    """Who only arrives may come twice, and is then counted for the one that it hurries."""
    wait = "      gpu.named_barrier 1 plus %warp threads 64\n"
    hurry = (
        "      scf.if %is_second {\n"
        "      } else {\n        gpu.named_barrier 1 plus %warp threads 64\n      }\n"
    )
    found_in_all(edited(TURNS, (wait, hurry)), "BarrierPhase", N=1)


def test_a_finding_names_both_groups() -> None:
    text = edited(TWO_PAIRS, ("1 plus %pair", "5"))
    first = next(f for f in result_of(text, {"N": 128}).findings if f.kind == "BarrierPhase")
    assert first.message == (
        "threads 64 to 95 come to barrier 5 after threads 0 to 63 have met there, and nothing "
        "orders that: on another run they are counted in place of those; take another barrier, or "
        "meet between"
    )
    assert first.op is not None and first.op.name == "gpu.named_barrier"


def test_warpgroups_of_a_real_kernel_that_share_a_barrier() -> None:
    """A barrier's number shifted by one: a warpgroup then meets at its neighbour's."""
    name = "gemm_sm90_cluster"
    case, right = CASES[name], lowered(name)
    sizes = case.mutant_shapes[-1]
    inputs = case.inputs(sizes)
    launched = simulate(right, inputs, sizes).launches[0][0]
    wrong = right.clone()
    run = next(k for k in wrong.kernels() if k.sym_name.data == launched)
    last = find(run, NamedBarrierOp)[-1]
    last.id = index_attr(last.id.value.data + 1)
    for number, schedule in enumerate(SCHEDULES):
        completion = COMPLETIONS[number % len(COMPLETIONS)]
        found = simulate(wrong, inputs, sizes, schedule=schedule, completion=completion)
        assert "BarrierPhase" in {f.kind for f in found.findings}, (schedule, completion)
