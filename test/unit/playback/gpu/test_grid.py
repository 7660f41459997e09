"""CTAs of a grid that wait for each other: what is refused, played, simulated and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.schedule import SCHEDULES
from polyc.playback.gpu.simulate import SimulationResult, gpu_module_of
from polyc.playback.mutation import mutants, mutated
from polyc.runtime.nvrtc import compile_cuda
from polyc.test.support.gpu_text import assert_refused, find, parsed, run
from polyc.test.unit.playback.gpu.test_orders import (
    Edit,
    edited,
    found_in_all,
    result_of,
    right_in_all,
)
from polyc.test.unit.playback.gpu.test_orders import kernel as one_kernel

Array = NDArray[Any]

TEXT = """
gpu.module @ring arch "sm_80" symbols [G, R] {
  // In each of R rounds every CTA tells its number times the round, and adds up what all told.
  gpu.kernel @ring(%P: !gpu.global<[R, G], f32> = workspace "parts",
      %n: !gpu.global<[R], i32> = workspace "arrived", %Y: !gpu.global<[R, G], f32> = tensor 0,
      %G: index = symbol G, %R: index = symbol R) threads 64 blocks_per_sm 4 {
    %block = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %own = gpu.fragment : !gpu.fragment<[1, 1], f32>
    %all = gpu.fragment : !gpu.fragment<[1, 64], f32>
    %sum = gpu.fragment : !gpu.fragment<[1], f32>
    scf.for %r = %zero to %R step %one {
      %value = arith.muli %block, %r : index
      %word = arith.index_cast %value : index to i32
      %told = arith.sitofp %word : i32 to f32
      gpu.fill %told, %own : !gpu.fragment<[1, 1], f32>
      gpu.copy %own to %P[%r, %block] : !gpu.fragment<[1, 1], f32>, !gpu.global<[R, G], f32>
      gpu.grid_signal %n[%r] : !gpu.global<[R], i32>
      gpu.grid_wait %n[%r] until %G : !gpu.global<[R], i32>
      gpu.copy %P[%r, %zero] to %all : !gpu.global<[R, G], f32>, !gpu.fragment<[1, 64], f32>
      gpu.reduce sum %all by affine_map<(i, j) -> (i)> into %sum : !gpu.fragment<[1, 64], f32>, !gpu.fragment<[1], f32>
      gpu.map %own : !gpu.fragment<[1, 1], f32> origin [] ins(%sum : !gpu.fragment<[1], f32> affine_map<(i, j) -> (i)>) outs(%own : !gpu.fragment<[1, 1], f32> affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f32, %s: f32):
        gpu.yield %s : f32
      }
      gpu.copy %own to %Y[%r, %block] : !gpu.fragment<[1, 1], f32>, !gpu.global<[R, G], f32>
    }
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[R, G], f32>) {
    gpu.sequence @rounds align [4] {
      gpu.workspace "parts" : !gpu.global<[R, G], f32>
      gpu.workspace "arrived" zeroed : !gpu.global<[R], i32>
      gpu.launch @ring grid [G] cooperative
    }
  }
}
"""  # noqa: E501

SIZES = {"G": 5, "R": 3}


def expected() -> Array:
    return np.outer(np.arange(3), np.full(5, 10)).astype(np.float32)


def simulated(*edits: tuple[str, str], **options: Any) -> SimulationResult:
    module = parsed(edited(TEXT, *edits))
    finish(module)
    return simulate(module, [], SIZES, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ctas_tell_each_other(schedule: str) -> None:
    result = simulated(schedule=schedule, seed=3)
    assert not result.findings
    assert np.array_equal(result.outputs[0], expected())
    assert result.launches == [("ring", 5)]


def test_the_tile_level_plays_it() -> None:
    (out,) = tile.run(gpu_module_of(parsed(TEXT)), [], SIZES)
    assert np.array_equal(out, expected())


def test_played_ctas_stop_where_a_signal_is_missing() -> None:
    lone = edited(
        TEXT,
        ("until %G", "until %more"),
        ("    %own =", "    %more = arith.addi %G, %one : index\n    %own ="),
    )
    with pytest.raises(PolycError, match=r"every role that has not ended waits: gpu\.grid_wait"):
        tile.run(gpu_module_of(parsed(lone)), [], SIZES)


def test_played_ctas_of_another_launch_are_not_waited_for() -> None:
    module = gpu_module_of(parsed(edited(TEXT, ("] cooperative", "]"))))
    with pytest.raises(PolycError, match="a CTA waits for others that do not run beside it"):
        tile.run(module, [], SIZES)


def test_a_missing_signal_is_a_deadlock() -> None:
    line = "      gpu.grid_signal %n[%r] : !gpu.global<[R], i32>\n"
    found = simulated((line, "")).findings[0]
    assert found.kind == "Deadlock"
    assert (
        "0 of CTA 4 of the grid wait at gpu.wait_global (arrived[0] is 0, and 5 are awaited)"
        in (found.message)
    )


def test_a_missing_wait_is_a_race() -> None:
    line = "      gpu.grid_wait %n[%r] until %G : !gpu.global<[R], i32>\n"
    kinds = {f.kind for f in simulated((line, "")).findings}
    assert "DataRace" in kinds


def test_a_wait_for_too_few_is_found_in_every_order() -> None:
    fewer = ("until %G", "until %one")
    for schedule in SCHEDULES:
        found = simulated(fewer, schedule=schedule, seed=1).findings
        assert "SignalCount" in {f.kind for f in found}, schedule


def test_counters_begin_at_nothing_unless_they_are_zeroed() -> None:
    first = simulated((' "arrived" zeroed', ' "arrived"')).findings[0]
    assert first.kind == "Uninitialised"
    assert first.message.startswith("the counter arrived[0] is used where nothing has set it")


def test_a_counter_is_not_plain_data() -> None:
    plain = (
        "    scf.for %r",
        "    %i = arith.constant 0 : i32\n"
        "    gpu.store_global %i, %n[%zero : index] : i32, !gpu.global<[R], i32>\n"
        "    scf.for %r",
    )
    assert "DataRace" in {f.kind for f in simulated(plain).findings}


def test_every_mutant_of_the_exchange_is_killed() -> None:
    module = parsed(TEXT)
    finish(module)
    gpu = gpu_module_of(module)
    steps = (hw.SignalGlobalOp.name, hw.WaitGlobalOp.name)
    chosen = [m for m in mutants(gpu) if m.op in steps]
    assert len(chosen) == 2
    for mutant in chosen:
        assert simulate(mutated(gpu, mutant), [], SIZES).findings, mutant


def test_more_ctas_than_run_at_once() -> None:
    module = parsed(TEXT)
    finish(module)
    with pytest.raises(PolycError, match="no kernel of ring takes G = 9, R = 1") as caught:
        simulate(module, [], {"G": 9, "R": 1}, multiprocessors=2)
    assert caught.value.notes == (
        "rounds: 9 CTAs of @ring wait for each other, and the chip runs 8 at once",
    )


def test_a_wait_needs_ctas_that_run_at_once() -> None:
    assert_refused(
        edited(TEXT, ("] cooperative", "]")),
        "NotCooperative",
        "CTAs of @ring wait for each other, and this launch does not run them at once; say "
        "cooperative",
        "gpu.launch",
        "gpu-lower-barriers",
    )


def test_a_signal_alone_needs_no_more() -> None:
    line = "      gpu.grid_wait %n[%r] until %G : !gpu.global<[R], i32>\n"
    module = run(edited(TEXT, ("] cooperative", "]"), (line, "")), "gpu-lower-barriers")
    assert len(find(module, hw.SignalGlobalOp)) == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_it_compiles(arch: str) -> None:
    module = parsed(edited(TEXT, ('"sm_80"', f'"{arch}"')))
    finish(module)
    result = compile_cuda(cuda_source(gpu_module_of(module)), arch)
    assert not result.warnings()


# Counters and partial sums, in every order --------------------------------------------

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


# Posts ----------------------------------------------------------------------------------------

POSTS = """
gpu.module @posts arch "sm_80" symbols [G] {
  // Every CTA leaves a number, and posts another; the last one takes all posts.
  gpu.kernel @posts(%P: !gpu.global<[G], f32> = workspace "parts",
      %w: !gpu.global<[G], i64> = workspace "words", %Y: !gpu.global<[G], f32> = tensor 0,
      %G: index = symbol G) threads 32 blocks_per_sm 4 {
    %block = gpu.block_id
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %left = arith.constant 5.0 : f32
    %word = arith.index_cast %block : index to i32
    %told = arith.sitofp %word : i32 to f32
    %first = arith.cmpi eq, %thread, %zero : index
    scf.if %first {
      gpu.store_global %left, %P[%block : index] : f32, !gpu.global<[G], f32>
      gpu.post_global %told, %w[%block : index] : f32, !gpu.global<[G], i64>
    }
    %end = arith.subi %G, %one : index
    %last = arith.cmpi eq, %block, %end : index
    %here = arith.cmpi slt, %thread, %G : index
    %asks = arith.andi %last, %here : i1
    %r = memref.alloca() : memref<1xf32, #gpu<space register>>
    gpu.await_posts_global %w[%thread : index] if %asks to %r[%zero] : !gpu.global<[G], i64>, memref<1xf32, #gpu<space register>>
    %x = memref.load %r[%zero] : memref<1xf32, #gpu<space register>>
    gpu.store_global %x, %Y[%thread : index] if %asks : f32, !gpu.global<[G], f32>
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[G], f32>) {
    gpu.sequence @rounds align [4] {
      gpu.workspace "parts" : !gpu.global<[G], f32>
      gpu.workspace "words" zeroed : !gpu.global<[G], i64>
      gpu.launch @posts grid [G] cooperative
    }
  }
}
"""  # noqa: E501

POST = "      gpu.post_global %told, %w[%block : index] : f32, !gpu.global<[G], i64>\n"
TAKE = "    %x = memref.load"
READ = """    %q = gpu.load_global %P[%thread : index] if %asks : !gpu.global<[G], f32> -> f32
    gpu.store_global %q, %Y[%thread : index] if %asks : f32, !gpu.global<[G], f32>
"""


def posted(*edits: tuple[str, str], **options: Any) -> SimulationResult:
    return simulate(parsed(edited(POSTS, *edits)), [], {"G": 5}, **options)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_posts_are_taken(schedule: str) -> None:
    result = posted(schedule=schedule, seed=2)
    assert not result.findings
    assert np.array_equal(result.outputs[0], np.arange(5, dtype=np.float32))


def test_nothing_goes_along_with_a_post() -> None:
    """What the CTA wrote before is not there yet for who has taken its post."""
    assert {f.kind for f in posted((TAKE, READ + TAKE)).findings} == {"DataRace"}


def test_a_word_is_posted_once_and_not_plain_data() -> None:
    assert {f.kind for f in posted((POST, POST + POST)).findings} == {"PostedTwice"}
    plain = (
        POST,
        POST
        + "      %n = arith.constant 3 : i64\n"
        + "      gpu.store_global %n, %w[%block : index] : i64, !gpu.global<[G], i64>\n",
    )
    assert "DataRace" in {f.kind for f in posted(plain).findings}


def test_a_post_that_is_not_there_is_a_deadlock() -> None:
    found = posted((POST, "")).findings[0]
    assert found.kind == "Deadlock" and "words[0] is not posted" in found.message


def test_words_begin_at_nothing_where_they_are_zeroed() -> None:
    found = posted((' "words" zeroed', ' "words"')).findings[0]
    assert found.kind == "Uninitialised"
    assert found.message.startswith("the word words[0] is used where nothing has set it")
