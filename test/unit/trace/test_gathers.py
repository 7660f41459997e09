"""Values that read at indices give what NumPy's functions of the same name give."""

# pyright: basic
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.tracing import played, text

X = np.random.default_rng(5).standard_normal((4, 5, 6)).astype(np.float32)
ANY: Any = polyc
"""What is called with what it does not take."""

I = np.asarray([[0, 3, -1], [-4, 2, 1]], np.int64)  # noqa: E741


def test_take() -> None:
    for axis in (0, 1, -1):
        found = played(lambda x, i, axis=axis: polyc.take(x, i, axis), X, I)
        np.testing.assert_array_equal(found, np.take(X, I, axis))
    one = np.asarray(-2, np.int8)
    found = played(lambda x, i: polyc.take(x, i, 1), X, one)
    np.testing.assert_array_equal(found, X[:, -2])


def test_take_along_axis() -> None:
    i = np.argsort(X, 1).astype(np.int32)
    for axis in (1, -2):
        found = played(lambda x, i, axis=axis: polyc.take_along_axis(x, i, axis), X, i)
        np.testing.assert_array_equal(found, np.take_along_axis(X, i, 1))
    last = np.asarray([[[1, -1]]] * 4, np.int64).repeat(5, 1)
    found = played(polyc.take_along_axis, X, last)
    np.testing.assert_array_equal(found, np.take_along_axis(X, last, -1))


def test_gather_nd() -> None:
    i = np.asarray([[0, 1], [-1, 4], [2, -5]], np.int64)
    found = played(polyc.gather_nd, X, i, fixed=True)
    np.testing.assert_array_equal(found, X[i[:, 0], i[:, 1]])
    each = np.asarray([[0], [4], [2], [-1]], np.int64)
    found = played(lambda x, i: polyc.gather_nd(x, i, 1), X, each, fixed=True)
    np.testing.assert_array_equal(found, X[np.arange(4), each[:, 0]])


def test_embedding_counts_from_the_start_alone() -> None:
    table, i = X[0], np.asarray([[1, 0], [-1, 9]], np.int64)
    found = played(polyc.embedding, table, i)
    np.testing.assert_array_equal(found, table[np.clip(i, 0, 4)])
    found = played(lambda x, i: polyc.embedding(x, i, fill=0), table, i)
    assert not found[1].any() and found[0].any()


def test_what_is_outside() -> None:
    line, i = np.arange(6, dtype=np.float32), np.asarray([6, -7, -1], np.int64)
    assert played(polyc.take, line, i).tolist() == [5, 0, 5]
    found = played(lambda x, i: polyc.take(x, i, fill=0.1), line, i)
    assert found.tolist() == [np.float32(0.1), np.float32(0.1), 5]
    found = played(lambda x, i: ANY.take_along_axis(x, i, fill=np.float32(-2)), line, i)
    assert found.tolist() == [-2, -2, 5]
    found = played(lambda x, i: polyc.take(x, i, fill=True), line > 2, i)
    assert found.tolist() == [True, True, True]
    found = played(lambda x, i: polyc.take(x, i, fill=255), line.astype(np.uint8), i)
    assert found.dtype == np.uint8 and found.tolist() == [255, 255, 5]


def test_a_value_is_an_index_beside_slices() -> None:
    for function, wanted in (
        (lambda x, i: x[i], X[I]),
        (lambda x, i: x[:, i], X[:, I]),
        (lambda x, i: x[..., i], X[..., I]),
        (lambda x, i: x[1:, i, ::2], X[1:, I, ::2]),
    ):
        np.testing.assert_array_equal(played(function, X, I, fixed=True), wanted)


ROWS, AT, REAL = Tensor["V", 4, "f16"], Tensor["N", "i64"], Tensor["N", "f16"]
REFUSED: dict[str, tuple[Any, Any, str, str]] = {
    "a real index": (polyc.take, REAL, "TypeMismatch", "take takes indices of an integer type, not <value [N] of f16>; cast them"),
    "a condition": (polyc.embedding, Tensor["N", "i1"], "TypeMismatch", "embedding takes indices of an integer type"),
    "a real one in brackets": (lambda x, i: x[i], REAL, "TypeMismatch", "is no index; cast it to an integer type"),
    "two values": (lambda x, i: x[i, i], AT, "BadArgument", "one index is a value beside slices; for more take polyc.gather_nd, or index again"),
    "a value and a number": (lambda x, i: x[i, 2], AT, "BadArgument", "one index is a value beside slices"),
    "too many": (lambda x, i: x[i, :, :], AT, "RankMismatch", "3 indices for <value [V, 4] of f16>"),
    "two ellipses": (lambda x, i: x[..., ...], AT, "BadArgument", "an index has one ..., not 2"),
    "a condition in brackets": (lambda x, i: x[x > 0], AT, "TypeMismatch", "how many elements a condition chooses is not known; use polyc.where"),
    "an element that is written": (lambda x, i: x.__setitem__(0, 1.0), AT, "BadArgument", "a value does not change; polyc.where"),
    "no axis": (lambda x, i: polyc.take(x, i, 2), AT, "BadArgument", "axis 2 is none of [V, 4], which has 2"),
    "another rank": (polyc.take_along_axis, AT, "RankMismatch", "a gather_elements of [V, 4] has indices of its rank, not [N]"),
    "more indices than elements": (polyc.take_along_axis, Tensor["N", 4, "i64"], "InvalidIR", "has N indices along axis 0, where the operand has V"),
    "an open tuple": (polyc.gather_nd, Tensor["N", "K", "i32"], "RankMismatch", "has a known number of indices, 1 or more, and they are [N, K]"),
    "a batch of all axes": (lambda x, i: polyc.gather_nd(x, i, 1), AT, "RankMismatch", "a known number of indices"),
    "a batch below 0": (lambda x, i: polyc.gather_nd(x, i, -1), Tensor["N", 1, "i64"], "RankMismatch", "a gather_nd at [N, 1] has 0 to 1 batch axes, not -1"),
    "a longer tuple": (polyc.gather_nd, Tensor["N", 3, "i64"], "RankMismatch", "has up to 2 indices a tuple"),
    "half a batch": (lambda x, i: ANY.gather_nd(x, i, 1.5), Tensor["N", 1, "i64"], "BadArgument", "gather_nd is given what it does not take"),
    "a text for a fill": (lambda x, i: ANY.take(x, i, fill="0"), AT, "BadArgument", "take fills with a number, not with '0'"),
    "a value for a fill": (lambda x, i: ANY.take(x, i, fill=x), AT, "BadArgument", "take fills with a number"),
    "numbers of Python": (lambda x, i: ANY.take(x, [1, 2]), AT, "BadArgument", "[1, 2] is a list, not a value of the graph"),
}  # fmt: skip


@pytest.mark.parametrize(("function", "index", "kind", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(function: Any, index: Any, kind: str, reason: str) -> None:
    with pytest.raises(PolycError) as caught:
        text(function, ROWS, index)
    assert caught.value.kind == kind and reason in caught.value.message
    assert caught.value.place is not None


def test_a_fill_is_one_of_the_type() -> None:
    for fill in (300, 0.5, float("nan")):
        with pytest.raises(PolycError) as caught:
            text(lambda x, i, fill=fill: polyc.take(x, i, fill=fill), Tensor["V", "i8"], AT)
        assert caught.value.kind == "TypeMismatch" and "is no i8" in caught.value.message
    with pytest.raises(PolycError, match="fills conditions with True or False, not with 2"):
        text(lambda x, i: polyc.take(x, i, fill=2), Tensor["V", "i1"], AT)
    assert "fill inf" in text(lambda x, i: polyc.take(x, i, fill=1e300), ROWS, AT)


def test_what_is_recorded() -> None:
    found = text(polyc.embedding, ROWS, Tensor["B", "S", "i32"])
    assert "frontend.gather %a, %b axis 0 clamp" in found and "[B, S, 4]" in found
    found = text(lambda x, i: polyc.take(x, i, -1, fill=0.5), ROWS, AT)
    assert "frontend.gather %a, %b axis 1 from_end fill 0.5" in found
    found = text(polyc.take_along_axis, ROWS, Tensor["V", "N", "ui8"])
    assert "frontend.gather_elements %a, %b axis 1 from_end clamp" in found
    found = text(lambda x, i: polyc.gather_nd(x, i, 1), ROWS, Tensor["V", "N", 1, "i64"])
    assert "frontend.gather_nd %a, %b batch 1 from_end clamp" in found


def test_traps() -> None:
    """What is outside is a fault that playback names, of each function that has indices."""
    far = np.asarray([0, 9], np.int64)
    with pytest.raises(PolycError, match="index 9 at place 1 of"):
        played(lambda x, i: polyc.take(x, i, 1, trap=True), X, far)
    with pytest.raises(PolycError, match="index 9 at place 1 of"):
        played(lambda x, i: polyc.embedding(x, i, fill=0.0, trap=True), X, far)
    kinds = Tensor["A", "B", "f32"], Tensor["A", 2, "i64"]
    assert "clamp trap" in text(lambda x, i: polyc.take_along_axis(x, i, trap=True), *kinds)
    assert "clamp trap" in text(lambda x, i: polyc.gather_nd(x, i, trap=True), *kinds)
    assert "trap" not in text(lambda x, i: polyc.gather_nd(x, i), *kinds)
