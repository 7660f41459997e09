"""Lengths that are data: which masks are the end of the keys, and which are any condition."""

from __future__ import annotations

import pytest

from polyc.dialects.region import KernelOp
from polyc.families.attention.ends import End
from polyc.families.attention.gates import ends_walked, gates_asked, gates_left
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.attention.schedules import schedules
from polyc.test.support.attention_programs import TO_REGION, Attention, passed
from polyc.test.support.gpu_text import only

KV = "[B, 2, N, 64]"
TEXT = """
frontend.graph @attention(%q: !frontend.tensor<[B, 4, M, 64], f16>,
    %k: !frontend.tensor<[B, 2, N, 64], f16>, %v: !frontend.tensor<[B, 2, N, 64], f16>,
    %length: !frontend.tensor<LENGTH, KIND>) -> (O: !frontend.tensor<[B, 4, M, 64], f16>) {
  %n = frontend.iota axis 0 : !frontend.tensor<[N], KIND>
  %seen = frontend.compare HOW : (SIDES) -> !frontend.tensor<SEEN, i1>
  %o = frontend.attention %q, %k, %v mask %seen {acc = f32}
      : (!frontend.tensor<[B, 4, M, 64], f16>, !frontend.tensor<[B, 2, N, 64], f16>,
         !frontend.tensor<[B, 2, N, 64], f16>, !frontend.tensor<SEEN, i1>)
      -> !frontend.tensor<[B, 4, M, 64], f16>
  frontend.output %o : !frontend.tensor<[B, 4, M, 64], f16>
}
"""


def attention(
    how: str, length: str = "[B, 1, 1, 1]", kind: str = "i32", queries: str = "M"
) -> StreamingAttention:
    fn, first, second = how.split()
    types = {"n": "[N]", "length": length}
    sides = ", ".join(f"!frontend.tensor<{types[x]}, {kind}>" for x in (first, second))
    seen = f"{length.rpartition(',')[0]}, N]"
    text = TEXT.replace("HOW", f"{fn} %{first}, %{second}").replace("SIDES", sides)
    text = text.replace("LENGTH", length).replace("KIND", kind).replace("SEEN", seen)
    text = text.replace(", M,", f", {queries},")
    return find_attention(only(passed(text, *TO_REGION), KernelOp))


def ends(
    how: str, length: str = "[B, 1, 1, 1]", kind: str = "i32", queries: str = "M"
) -> tuple[End, ...]:
    return attention(how, length, kind, queries).score.ends


@pytest.mark.parametrize(
    ("how", "closed"),
    [("lt n length", False), ("le n length", True), ("gt length n", False), ("ge length n", True)],
)
def test_keys_before_a_length_are_seen(how: str, closed: bool) -> None:
    (end,) = ends(how)
    assert end.closed == closed and end.labels == ("b",)


def test_one_query_s_length_is_all_queries() -> None:
    (end,) = ends("lt n length", "[B, 1, M, 1]", "i64", "1")
    assert set(end.labels) == {"b", "i2"}
    assert ends("lt n length", "[B, 1, M, 1]", "i64", "2") == ()


def test_a_head_may_have_a_length_of_its_own() -> None:
    (end,) = ends("lt n length", "[B, 4, 1, 1]", "i64")
    assert set(end.labels) == {"b", "i1"}


@pytest.mark.parametrize(
    ("how", "length", "kind"),
    [
        ("gt n length", "[B, 1, 1, 1]", "i32"),  # keys behind it
        ("ne n length", "[B, 1, 1, 1]", "i32"),
        ("lt n length", "[B, 1, M, 1]", "i32"),  # queries of one tile have several
        ("lt n length", "[B, 1, 1, 1]", "i8"),  # the 128th key's number is -128
        ("lt n length", "[B, 1, 1, 1]", "ui32"),
    ],
)
def test_other_masks_are_asked_of_each_key(how: str, length: str, kind: str) -> None:
    assert ends(how, length, kind) == ()


def test_a_mask_that_is_read_is_no_length() -> None:
    program = Attention("[B, 4, M, 64]", KV, KV, [], masks=["[B, 1, 1, N], i1"])
    score = find_attention(program.kernel()).score
    assert len(score.gates) == 1 and score.ends == ()


@pytest.mark.parametrize(("length", "packed"), [("[B, 1, 1, 1]", True), ("[B, 4, 1, 1]", False)])
def test_a_tile_s_walk_ends_where_the_length_of_all_its_rows_does(
    length: str, packed: bool
) -> None:
    """By mma.sync, and not for heads that have several and share a tile: there it is a gate."""
    found = attention("lt n length", length)
    gates = list(found.score.gates)
    for plan in schedules(found, "sm_90a"):
        alone = "shared_keys" not in str(plan.algo_choice)
        walks = plan.mma.data == "mma.sync" and (packed or alone)
        assert [end.gate for end in ends_walked(found, plan)] == (gates if walks else [])
        assert list(gates_left(found, plan)) == ([] if walks else gates)
        assert list(gates_asked(found, plan)) == list(gates_left(found, plan))
