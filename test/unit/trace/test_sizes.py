"""Sizes calculate as numbers do, and are compared where there is one answer."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polyc import PolycError
from polyc.dialects.common.dim import Dim
from polyc.trace.sizes import Size, dim_of, read_dim

M = Size(Dim.sym("M"))


def test_arithmetic():
    assert str(2 * M + 1 - M) == "M + 1" and str(1 - M) == "-M + 1"
    assert M - M == 0 and isinstance(M - M, int)
    assert str((M + 63) // 64) == "(M + 63) floordiv 64" and str(M % 8) == "M mod 8"
    assert str(-M) == "-M" and hash(M) == hash(Size(Dim.sym("M")))


def test_what_has_one_answer():
    assert Size(Dim.sym("M")) == M and M + 1 != M and M < M + 1 and M + 2 >= M
    assert not M > M and M <= M


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: M == 4, "whether M == 4 differs from call to call"),
        (lambda: M < 4, "whether M < 4"),
        (lambda: bool(M), "whether M is 0"),
        (lambda: range(M), "M has no value before a call"),  # pyright: ignore[reportArgumentType]
        (lambda: float(M), "a mean divides by a size"),
        (lambda: M // M, "divided by a positive number"),
        (lambda: M % 0, "divided by a positive number"),
        (lambda: M + 1.5, "1.5 is no size"),  # pyright: ignore[reportOperatorIssue]
        (lambda: read_dim("2 *"), "is no size"),
        (lambda: read_dim("M N"), "is no size"),
        (lambda: dim_of(True), "True is no size"),
    ],
)
def test_what_has_none_is_refused(asked: Callable[[], Any], message: str):
    with pytest.raises(PolycError, match=message):
        asked()


def test_texts():
    assert str(read_dim("2 * K + 1")) == "2 * K + 1"
    assert str(read_dim("H floordiv 2")) == "H floordiv 2"
