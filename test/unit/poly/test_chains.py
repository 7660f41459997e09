"""Chains of blocks with one reader each (S4.10)."""

from __future__ import annotations

from itertools import pairwise

from polyc.poly.blocks import blocks_of
from polyc.poly.chains import chains
from polyc.test.support.book_needs import booked_text
from polyc.test.unit.poly.test_compute_at import SOFTMAX

TWO = """
tiny.graph @f(%x: !tiny.tensor<[N], f32>)
    -> (y: !tiny.tensor<[N], f32>, z: !tiny.tensor<[N], f32>) {
  %a = tiny.unary exp %x : !tiny.tensor<[N], f32>
  %b = tiny.unary neg %a : !tiny.tensor<[N], f32>
  %c = tiny.unary neg %x : !tiny.tensor<[N], f32>
  %d = tiny.binary add %b, %c : !tiny.tensor<[N], f32>
  %e = tiny.unary abs %d : !tiny.tensor<[N], f32>
  tiny.output %d, %e : !tiny.tensor<[N], f32>, !tiny.tensor<[N], f32>
}
"""


def names(text: str) -> list[list[str]]:
    return [[b.name for b in chain] for chain in chains(blocks_of(booked_text(text)))]


def test_what_has_two_readers_begins_no_chain():
    """In a softmax the scores go to the maximum and to the difference."""
    assert names(SOFTMAX) == [["m", "d", "e"]]


def test_chains_end_where_a_value_is_given_out():
    assert names(TWO) == [["a", "b", "d"]]


def test_each_link_has_one_reader():
    """By the uses themselves, on every block of every chain."""
    for text in (SOFTMAX, TWO):
        blocks = blocks_of(booked_text(text))
        for chain in chains(blocks):
            for block, after in pairwise(chain):
                assert [b for b in blocks.blocks if block.value in b.sources] == [after]
