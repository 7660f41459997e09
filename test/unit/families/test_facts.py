"""What one fact about sizes says of another, also where isl cannot read them."""

from __future__ import annotations

import pytest

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.families.facts import holds_always

M, N = Dim.sym("M"), Dim.sym("N")
SIZE = M * N


def at_most(limit: int) -> Assumption:
    return Assumption(Dim.const(limit) - SIZE, ">=")


def at_least(limit: int) -> Assumption:
    return Assumption(SIZE - limit, ">=")


def equal(value: int, sign: int = 1) -> Assumption:
    return Assumption((SIZE - value) * sign, "==")


@pytest.mark.parametrize(
    ("known", "fact", "holds"),
    [
        (at_most(512), at_most(1024), True),
        (at_most(1024), at_most(512), False),
        (at_least(512), at_most(1024), False),
        (equal(1024), at_most(1024), True),
        (equal(1024), at_most(1023), False),
        (equal(1024), at_least(1000), True),
        (equal(1024), at_least(1025), False),
        (equal(1024, -1), at_most(1024), True),
        (equal(1024, -1), at_least(1024), True),
        (equal(1024, -1), at_least(1025), False),
        (equal(1024), equal(1024, -1), True),
        (equal(1024), equal(1023), False),
        (at_most(1024), equal(1024), False),
    ],
    ids=str,
)
def test_a_fact_about_a_product_of_sizes_says_what_a_stricter_one_does(
    known: Assumption, fact: Assumption, holds: bool
) -> None:
    assert holds_always(fact, AssumptionsAttr((known,)), ["M", "N"]) is holds
