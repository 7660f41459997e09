"""Bank-conflict hints, barrier hints and affine closure against enumeration (S7.1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim
from polyc.playback.gpu.counters import wavefronts
from polyc.poly.banks import BankHint, Pattern, bank_hint, lanes, swizzled, turns
from polyc.poly.barriers import CommitWait, MBarriers, barrier_hint
from polyc.poly.closure import open_at
from polyc.test.support.book_needs import booked_text, named
from polyc.test.support.simulate import swizzled as place_swizzled


@given(st.lists(st.integers(0, 255), min_size=32, max_size=32), st.sampled_from([1, 2, 4, 8, 16]))
def test_turns_are_the_simulator_s_wavefronts(at: list[int], width: int):
    """Each request alone, as the simulator counts it from the same addresses."""
    addresses = [a * width for a in at]
    together = 32 if width <= 4 else 128 // width
    counted = [
        wavefronts(np.asarray(addresses[f : f + together]), width, np.arange(f, f + together))
        for f in range(0, 32, together)
    ]
    assert turns(addresses, width) == max(counted)


@given(st.integers(0, 1 << 14), st.sampled_from([32, 64, 128]))
def test_the_swizzle_is_the_hardware_s(address: int, span: int):
    assert swizzled(address, span) == int(place_swizzled(np.asarray(address), span))


@pytest.mark.parametrize(
    ("pitch", "element", "pattern", "want"),
    [
        (128, 2, "ldmatrix", BankHint(8, 128, 144)),
        (64, 2, "ldmatrix", BankHint(4, 64, 80)),
        (32, 2, "ldmatrix", BankHint(2, 32, 48)),
        (16, 2, "ldmatrix", BankHint(1, None, None)),
        (144, 2, "ldmatrix", BankHint(1, None, None)),
        (256, 2, "ldmatrix", BankHint(8, 128, 272)),
        (128, 4, "row", BankHint(1, None, None)),
        (128, 4, "column", BankHint(32, None, 132)),
        (132, 4, "column", BankHint(1, None, None)),
        (64, 4, "column", BankHint(16, None, 68)),
    ],
)
def test_known_hints(pitch: int, element: int, pattern: Pattern, want: BankHint):
    assert bank_hint(pitch, element, pattern) == want


@given(
    st.integers(1, 40), st.sampled_from([2, 4, 8]), st.sampled_from(["ldmatrix", "row", "column"])
)
def test_a_hint_keeps_its_promise(pitch: int, element: int, pattern: Pattern):
    found = bank_hint(pitch * 16, element, pattern)
    width = 16 if pattern == "ldmatrix" else element
    assert (found.turns == 1) == (turns(lanes(pitch * 16, element, pattern), width) == 1)
    if found.pitch is not None:
        assert found.pitch > pitch * 16
        assert turns(lanes(found.pitch, element, pattern), width) == 1
    if found.swizzle is not None:
        assert pitch * 16 % found.swizzle == 0
        at = [swizzled(a, found.swizzle) for a in lanes(found.swizzle, element, pattern)]
        assert turns(at, width) == 1


def test_a_pitch_holds_whole_elements():
    with pytest.raises(ValueError, match="a pitch of 6 bytes does not hold elements of 4"):
        bank_hint(6, 4, "row")


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
def test_commit_and_wait_keep_both_dependences(stages: int):
    """A run of the ring: the group that is read is complete, no unread tile is overwritten."""
    hint = barrier_hint(ARCHS["sm_80"], stages, Dim.const(1))
    assert isinstance(hint, CommitWait)
    iterations = 20
    issued, slots, read = 0, dict[int, int](), -1

    def issue() -> None:
        nonlocal issued
        if issued < iterations:
            held = slots.get(issued % stages)
            assert held is None or held <= read, "an unread tile is overwritten"
            slots[issued % stages] = issued
        issued += 1

    for _ in range(hint.ahead):
        issue()
    looser: list[bool] = []
    for i in range(iterations):
        complete = issued - hint.pending
        looser.append(complete - 1 > i)
        assert complete > i, "the tile is still in flight"
        read = i - 1  # the block barrier: every thread has read the iteration before
        assert slots[i % stages] == i
        issue()
    assert not any(looser), "one more group could fly"


def test_barriers_of_a_ring_of_tma_copies():
    hint = barrier_hint(ARCHS["sm_90a"], 4, Dim.const(32768))
    assert hint == MBarriers(4, 4, 4, Dim.const(32768))
    with pytest.raises(ValueError, match="a ring has 2 stages or more, not 1"):
        barrier_hint(ARCHS["sm_90a"], 1, Dim.const(1))


def test_closure():
    text = """
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> (y: !tiny.tensor<[M * M + M], f32>) {
  %s = tiny.unary exp %x : !tiny.tensor<[M], f32>
  %p = tiny.pad %s low [M * M] high [0] value 0.0
      : !tiny.tensor<[M], f32> -> !tiny.tensor<[M * M + M], f32>
  %n = tiny.unary neg %p : !tiny.tensor<[M * M + M], f32>
  tiny.output %n : !tiny.tensor<[M * M + M], f32>
}
"""
    values = named(booked_text(text))
    assert open_at(values["s"]) == {}
    found = open_at(values["n"])
    assert list(found) == [values["p"]]
    assert "multiplies symbols" in found[values["p"]]
