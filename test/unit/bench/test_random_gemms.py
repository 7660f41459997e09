"""Random products: what is drawn, and that all of it is compiled to products."""

from __future__ import annotations

import pytest

from polyc.bench.random_gemms import (
    LAYOUTS,
    Problem,
    modelled,
    parse_problem,
    parsed,
    problems,
)
from polyc.dialects.frontend.elementwise import UNARY_FUNCTIONS

DRAWN = problems(3, 240)


def test_all_classes_layouts_and_functions_are_drawn() -> None:
    assert {one.kind for one in DRAWN} == {"64", "8", "odd"}
    assert {one.layout for one in DRAWN} == set(LAYOUTS)
    assert {one.element for one in DRAWN} == {"f16", "bf16"}
    assert {one.sizes[0] > 1 for one in DRAWN} == {False, True}
    behind = {step for one in DRAWN for step in one.epilogue}
    assert behind == {"bias", "residual", *UNARY_FUNCTIONS}
    assert problems(3, 240) == DRAWN != problems(4, 240)


@pytest.mark.parametrize("problem", DRAWN[:40])
def test_a_problem_is_what_it_says(problem: Problem) -> None:
    assert parse_problem(problem.said)[1:] == problem[1:]
    parsed(problem).verify()


@pytest.mark.parametrize("said", ["64x64x64:xx:f16:", "64x64x64:nn:f32:"])
def test_what_it_does_not_have_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="is none of"):
        parse_problem(said)


@pytest.mark.turns(4)
@pytest.mark.parametrize("problem", DRAWN[4:60:3])
def test_what_stands_behind_a_product_is_part_of_it(problem: Problem) -> None:
    us, kernels = modelled(problem)
    assert len(kernels) == 1 and us > 0
