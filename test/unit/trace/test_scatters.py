"""Values written at indices are what NumPy's functions of the same meaning give."""

# pyright: basic
# ruff: noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.tracing import played, text

DICE = np.random.default_rng(5)
X = DICE.standard_normal((4, 5, 6)).astype(np.float32)
ANY: Any = polyc
"""What is called with what it does not take."""

AT = {
    "add": np.add.at,
    "mul": np.multiply.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def written(reduce: str, place: Any, updates: Any, x: Any = X) -> Any:
    """What NumPy has of one place for each update."""
    found = x.copy()
    if reduce == "set":
        found[place] = updates
    else:
        AT[reduce](found, place, updates)
    return found


@pytest.mark.parametrize("reduce", ["set", *AT])
def test_scatter(reduce: str) -> None:
    """Some indices are alike, and some are counted from the end."""
    i = np.asarray([0, 3, -1, 1, -4, 0], np.int64)
    for axis in (0, 1, -1):
        shape = [*X.shape]
        shape[axis] = len(i)
        u = DICE.standard_normal(shape).astype(np.float32)
        place: list[Any] = [slice(None)] * 3
        place[axis] = i
        found = played(
            lambda x, i, u, axis=axis: polyc.scatter(x, i, u, axis, reduce=reduce), X, i, u
        )
        np.testing.assert_allclose(found, written(reduce, tuple(place), u), 1e-5)


def test_one_index_has_updates_of_one_row() -> None:
    u = DICE.standard_normal((4, 6)).astype(np.float32)
    found = played(lambda x, i, u: polyc.scatter(x, i, u, 1), X, np.asarray(-2, np.int8), u)
    np.testing.assert_array_equal(found, written("set", (slice(None), -2), u))


@pytest.mark.parametrize("reduce", ["add", "max"])
def test_scatter_along_axis(reduce: str) -> None:
    i = DICE.integers(-5, 5, (4, 7, 6)).astype(np.int32)
    u = DICE.standard_normal(i.shape).astype(np.float32)
    wanted = written(reduce, (np.arange(4)[:, None, None], i, np.arange(6)), u)
    for axis in (1, -2):
        found = played(
            lambda x, i, u, axis=axis: polyc.scatter_along_axis(x, i, u, axis, reduce=reduce),
            X, i, u,
        )  # fmt: skip
        np.testing.assert_allclose(found, wanted, 1e-5)
    last = DICE.permuted(np.tile(np.arange(6), (4, 5, 1)), axis=2)
    found = played(polyc.scatter_along_axis, X, last, X)
    wanted = X.copy()
    np.put_along_axis(wanted, last, X, -1)
    np.testing.assert_array_equal(found, wanted)


def test_scatter_nd() -> None:
    i = np.asarray([[0, 1], [-1, 4], [2, -5], [0, 1]], np.int64)
    u = DICE.standard_normal((4, 6)).astype(np.float32)
    found = played(lambda x, i, u: polyc.scatter_nd(x, i, u, reduce="add"), X, i, u, fixed=True)
    np.testing.assert_allclose(found, written("add", (i[:, 0], i[:, 1]), u), 1e-5)
    each = np.asarray([[0], [4], [2], [-1]], np.int64)
    found = played(lambda x, i, u: polyc.scatter_nd(x, i, u, 1), X, each, u, fixed=True)
    np.testing.assert_array_equal(found, written("set", (np.arange(4), each[:, 0]), u))


def test_what_is_outside_is_left_out() -> None:
    line, i = np.arange(3, dtype=np.float32), np.asarray([3, -4, -1], np.int64)
    u = np.asarray([7, 8, 9], np.float32)
    assert played(polyc.scatter, line, i, u, fixed=True).tolist() == [0, 1, 9]
    assert played(polyc.scatter_along_axis, line, i, u, fixed=True).tolist() == [0, 1, 9]
    assert played(polyc.scatter_nd, line, i[:, None], u, fixed=True).tolist() == [0, 1, 9]


def test_every_type_of_element() -> None:
    i = np.asarray([1, 1, 0], np.uint8)
    bytes_ = np.asarray([200, 1, 2], np.uint8)
    found = played(
        lambda x, i, u: polyc.scatter(x, i, u, reduce="add"), bytes_, i, bytes_, fixed=True
    )
    assert found.dtype == np.uint8 and found.tolist() == [202, (1 + 200 + 1) % 256, 2]
    conditions = np.asarray([True, False, False])
    found = played(polyc.scatter, conditions, i, np.asarray([False, True, False]), fixed=True)
    assert found.dtype == np.bool_ and found.tolist() == [False, True, False]


ROWS, INDEX, NEW = Tensor["V", 4, "f16"], Tensor["N", "i64"], Tensor["N", 4, "f16"]
REFUSED: dict[str, tuple[Any, tuple[Any, Any, Any], str, str]] = {
    "a real index": (polyc.scatter, (ROWS, Tensor["N", "f16"], NEW), "TypeMismatch", "scatter takes indices of an integer type, not <value [N] of f16>; cast them"),
    "a condition": (polyc.scatter_nd, (ROWS, Tensor["N", 1, "i1"], NEW), "TypeMismatch", "scatter_nd takes indices of an integer type"),
    "other elements": (polyc.scatter, (ROWS, INDEX, Tensor["N", 4, "f32"]), "TypeMismatch", "f32"),
    "no function": (lambda x, i, u: polyc.scatter(x, i, u, reduce="mean"), (ROWS, INDEX, NEW), "BadArgument", "mean is no function of a scatter; there are add, max, min, mul, set"),
    "a sum of conditions": (lambda x, i, u: polyc.scatter(x, i, u, reduce="add"), (Tensor["V", "i1"], INDEX, Tensor["N", "i1"]), "InvalidIR", "a scatter of i1 is set, not add; use a cast"),
    "no axis": (lambda x, i, u: polyc.scatter(x, i, u, 2), (ROWS, INDEX, NEW), "BadArgument", "axis 2 is none of [V, 4], which has 2"),
    "other updates": (polyc.scatter, (ROWS, INDEX, Tensor["N", 3, "f16"]), "InvalidIR", "takes updates [N, 4], not [N, 3]"),
    "another rank": (polyc.scatter_along_axis, (ROWS, INDEX, Tensor["N", "f16"]), "RankMismatch", "a scatter_elements of [V, 4] has indices of its rank, not [N]"),
    "an open tuple": (polyc.scatter_nd, (ROWS, Tensor["N", "K", "i32"], NEW), "RankMismatch", "has a known number of indices, 1 or more, and they are [N, K]"),
    "a longer tuple": (polyc.scatter_nd, (ROWS, Tensor["N", 3, "i64"], Tensor["N", "f16"]), "RankMismatch", "has up to 2 indices a tuple"),
    "half a batch": (lambda x, i, u: ANY.scatter_nd(x, i, u, 1.5), (ROWS, Tensor["N", 1, "i64"], NEW), "BadArgument", "scatter_nd is given what it does not take"),
    "numbers of Python": (lambda x, i, u: ANY.scatter(x, [1, 2], u), (ROWS, INDEX, NEW), "BadArgument", "[1, 2] is a list, not a value of the graph"),
    "a number to write": (lambda x, i, u: ANY.scatter(x, i, 1.0), (ROWS, INDEX, NEW), "BadArgument", "1.0"),
}  # fmt: skip


@pytest.mark.parametrize(("function", "given", "kind", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(function: Any, given: Any, kind: str, reason: str) -> None:
    with pytest.raises(PolycError) as caught:
        text(function, *given)
    assert caught.value.kind == kind and reason in caught.value.message, caught.value
    assert caught.value.place is not None


def test_what_is_recorded() -> None:
    found = text(polyc.scatter, ROWS, INDEX, NEW)
    assert "frontend.scatter set %a, %b, %c axis 0 from_end" in found
    found = text(
        lambda x, i, u: polyc.scatter_along_axis(x, i, u, reduce="max"),
        ROWS,
        Tensor["V", "N", "ui8"],
        Tensor["V", "N", "f16"],
    )
    assert "frontend.scatter_elements max %a, %b, %c axis 1 from_end" in found
    found = text(
        lambda x, i, u: polyc.scatter_nd(x, i, u, 1, reduce="mul"),
        ROWS,
        Tensor["V", "N", 1, "i64"],
        Tensor["V", "N", "f16"],
    )
    assert "frontend.scatter_nd mul %a, %b, %c batch 1 from_end" in found


def test_traps() -> None:
    """What is outside is a fault that playback names, of each function that has indices."""
    x, far = np.zeros(4, np.float32), np.asarray([0, -5], np.int64)
    with pytest.raises(PolycError, match=r"index -5 at place 1 of .* which has -4 to 3"):
        played(lambda x, i, u: polyc.scatter(x, i, u, trap=True), x, far, np.ones(2, np.float32))
    kinds = Tensor["A", "f32"], Tensor["N", 1, "i64"], Tensor["N", "f32"]
    assert "trap" in text(lambda x, i, u: polyc.scatter_nd(x, i, u, trap=True), *kinds)
    kinds = Tensor["A", "B", "f32"], Tensor["A", 2, "i64"], Tensor["A", 2, "f32"]
    assert "trap" in text(lambda x, i, u: polyc.scatter_along_axis(x, i, u, trap=True), *kinds)
