"""``gpu.any``: what it becomes, who has the answer, and that it is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import arith, scf

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.uniform import threads_agree
from polyc.playback import tile as playback
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, run
from polyc.test.support.turns import examples

SHORT = ("gpu-layout-inference", "gpu-lower-tile-ops")
Array = NDArray[Any]

ARGS = (
    "%X: !gpu.global<[M, N], i32> = tensor 0, %Y: !gpu.global<[M, C], i32> = tensor 1, "
    "%M: index = symbol M, %N: index = symbol N, %C: index = symbol C"
)
"""X has a row of numbers for each part of a CTA, and Y what they find out."""


def dispatch(ctas: str) -> str:
    return f"""
  gpu.dispatch (X: !gpu.global<[M, N], i32>) -> (Y: !gpu.global<[M, C], i32>) {{
    gpu.launch @k align [4, 4] grid [{ctas}]
  }}"""


def ask(rows: int, columns: int, row: str, layout: str = "") -> str:
    """Ask whether any number of a tile of X is positive; each element of Y's tile is the answer."""
    held, flags = (f"!gpu.fragment<[{rows}, {columns}], {kind}{layout}>" for kind in ("i32", "i1"))
    return f"""
    %x = gpu.fragment : {held}
    %flag = gpu.fragment : {flags}
    gpu.copy %X[{row}, %zero] to %x : !gpu.global<[M, N], i32>, {held}
    gpu.map %x : {held} origin [] ins() outs(%flag : {flags} affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%e: i32):
      %positive = arith.cmpi sgt, %e, %nothing : i32
      gpu.yield %positive : i1
    }}
    %any = gpu.any %flag : {flags}
    %y = gpu.fragment : !gpu.fragment<[{rows}, 128], i32>
    gpu.fill %nothing, %y : !gpu.fragment<[{rows}, 128], i32>
    scf.if %any {{
      gpu.fill %unit, %y : !gpu.fragment<[{rows}, 128], i32>
    }}
    gpu.copy %y to %Y[{row}, %zero]
      : !gpu.fragment<[{rows}, 128], i32>, !gpu.global<[M, C], i32>
"""


NUMBERS = """
    %zero = arith.constant 0 : index
    %nothing = arith.constant 0 : i32
    %unit = arith.constant 1 : i32
    %b = gpu.block_id
"""


def asking(rows: int, columns: int, threads: int = 128, layout: str = "") -> str:
    """Each CTA asks about as many rows of X."""
    place = f"    %row = affine.apply affine_map<(b) -> (b * {rows})> (%b)\n"
    body = NUMBERS + place + ask(rows, columns, "%row", layout)
    grid = dispatch(f"(M + {rows - 1}) floordiv {rows}")
    return kernel(body, ARGS, threads=threads, symbols="M, N, C", dispatch=grid)


def by_consumers(columns: int) -> str:
    """Each of the two consumers of a CTA asks about a row of its own."""
    place = "    %row = affine.apply affine_map<(b, w) -> (b * 2 + w)> (%b, %w)\n"
    body = f"""{NUMBERS}
    gpu.roles consumers 2 independent registers [0, 0] producer {{
      gpu.yield
    }} consumer (%w) {{
      {place}{ask(1, columns, "%row")}
      gpu.yield
    }}
"""
    grid = dispatch("(M + 1) floordiv 2")
    return kernel(body, ARGS, threads=384, symbols="M, N, C", dispatch=grid)


def check(text: str, x: Array, rows: int, schedule: str, seed: int) -> None:
    """Both levels find what NumPy does, of as many rows at a time."""
    sizes = {"M": x.shape[0], "N": x.shape[1], "C": 128}
    answers = (x.reshape(-1, rows, x.shape[1]) > 0).any(axis=(1, 2))
    wanted = np.broadcast_to(np.repeat(answers, rows)[:, None], (x.shape[0], 128))
    (played,) = playback.run(only(run(text), ModuleOp), [x], sizes)
    np.testing.assert_array_equal(played, wanted)
    module = only(run(text, *GPU_PASSES), ModuleOp)
    result = simulate(module, [x], sizes, schedule=schedule, seed=seed)
    result.check()
    np.testing.assert_array_equal(result.outputs[0], wanted)


SHAPES = ((1, 32, 128), (1, 64, 256), (2, 128, 128), (4, 256, 64), (16, 24, 128), (3, 40, 96))
"""Rows, columns and threads: fewer elements than threads, as many, and several a thread."""


@settings(max_examples=examples(20))
@given(
    st.sampled_from(SHAPES),
    st.integers(1, 4),
    st.lists(st.integers(0, 4095), max_size=3),
    st.sampled_from(SCHEDULES),
    st.integers(0, 99),
)
def test_any_of_a_tile(
    shape: tuple[int, int, int], ctas: int, places: list[int], schedule: str, seed: int
) -> None:
    """A few positive numbers at random places, of 1 to 4 CTAs, which do not hear of each other."""
    rows, columns, threads = shape
    x = np.zeros((ctas * rows, columns), np.int32)
    x.flat[[place % x.size for place in places]] = 1
    check(asking(rows, columns, threads), x, rows, schedule, seed)


@settings(max_examples=examples(10))
@given(st.lists(st.booleans(), min_size=4, max_size=4), st.sampled_from(SCHEDULES))
def test_independent_consumers_ask_each_its_own(held: list[bool], schedule: str) -> None:
    x = np.zeros((4, 64), np.int32)
    x[np.arange(4), [0, 63, 31, 32]] = held
    check(by_consumers(64), x, 1, schedule, seed=1)


def test_one_place_for_each_thread() -> None:
    """Whichever thread has it, all hear of it."""
    module = only(run(asking(1, 128), *GPU_PASSES), ModuleOp)
    for place in range(0, 128, 9):
        x = np.zeros((1, 128), np.int32)
        x[0, place] = 1
        result = simulate(module, [x], {"M": 1, "N": 128, "C": 128}, seed=place)
        result.check()
        assert (result.outputs[0] == 1).all(), place


# What it becomes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [(asking(2, 128), (0, 128, False)), (by_consumers(128), (1, 128, True))],
    ids=["the whole CTA", "independent consumers"],
)
def test_threads_of_a_scope_meet_once(text: str, where: tuple[int, int, bool]) -> None:
    module = run(text, *SHORT)
    asked = only(module, hw.BarrierAnyOp)
    assert (asked.id.value.data, asked.threads.value.data, asked.offset is not None) == where
    assert not find(module, tile.AnyOp)
    assert not find(module, hw.BarrierOp) and not find(module, hw.NamedBarrierOp)


def test_a_thread_asks_all_its_registers() -> None:
    """Of 256 elements each of 128 threads has two."""
    module = run(asking(2, 128), *SHORT)
    assert len(find(module, arith.OrIOp)) == 1
    assert not find(run(asking(1, 128), *SHORT), arith.OrIOp)


FEW = ", #gpu.fragment_layout<threads 64, registers 1, affine_map<(t, r) -> (0, t)>>"


def test_threads_that_hold_nothing_have_no_condition() -> None:
    """What is in their registers is no element, and is not asked."""
    text = asking(1, 64, layout=FEW)
    few_hold = only(run(text, *SHORT), hw.BarrierAnyOp)
    assert isinstance(few_hold.condition.owner, arith.AndIOp)
    all_hold = only(run(asking(1, 128), *SHORT), hw.BarrierAnyOp)
    assert not isinstance(all_hold.condition.owner, arith.AndIOp)
    for place in (None, 0, 63):
        x = np.zeros((2, 64), np.int32)
        if place is not None:
            x[1, place] = 1
        check(text, x, 1, "random", seed=2)


def test_a_branch_that_threads_do_not_take_together() -> None:
    text = kernel("""
    %flag = gpu.fragment : !gpu.fragment<[128], i1>
    %half = arith.constant 64 : index
    %thread = gpu.thread_id
    %low = arith.cmpi slt, %thread, %half : index
    scf.if %low {
      %any = gpu.any %flag : !gpu.fragment<[128], i1>
      scf.if %any {
        gpu.barrier
      }
    }""")
    message = (
        "gpu.any lets all 128 threads meet, in a branch that they do not take together; move it "
        "out, or let the condition depend on sizes and coordinates alone"
    )
    assert_refused(text, "DivergentBarrier", message, "gpu.any", *SHORT)


# Who has the same answer ---------------------------------------------------------------


def test_threads_of_a_cta_agree_and_those_of_a_cluster_do_not() -> None:
    asked = only(run(asking(1, 128)), tile.AnyOp).result
    assert threads_agree(asked) and not threads_agree(asked, cluster=True)
    lowered = only(run(asking(1, 128), *SHORT), hw.BarrierAnyOp).result
    assert threads_agree(lowered) and not threads_agree(lowered, cluster=True)


def test_threads_that_ask_at_other_barriers_do_not_agree() -> None:
    """Halves of a CTA have a barrier, and an answer, each."""
    module = run(
        kernel("""
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %first = arith.cmpi eq, %thread, %zero : index
    %half = affine.apply affine_map<(t) -> (t floordiv 64)> (%thread)
    %any = gpu.barrier_any %first at 1 plus %half threads 64
    %all = gpu.barrier_any %any at 0 threads 128
    scf.if %any {
      scf.if %all {
      }
    }""")
    )
    halves, whole = find(module, hw.BarrierAnyOp)
    assert not threads_agree(halves.result) and threads_agree(whole.result)
    assert [threads_agree(op.cond) for op in find(module, scf.IfOp)] == [False, True]


def test_each_consumer_agrees_with_itself() -> None:
    asked = only(run(by_consumers(64)), tile.AnyOp).result
    assert threads_agree(asked)
    assert threads_agree(only(run(by_consumers(64), *SHORT), hw.BarrierAnyOp).result)
