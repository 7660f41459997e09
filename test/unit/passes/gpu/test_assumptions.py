"""``gpu-assumptions``: alignment holds for every size that a launch's conditions let through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import GlobalType
from polyc.passes.gpu.assumptions import divides
from polyc.test.support.gpu_text import kernel, only, run
from polyc.test.support.turns import examples

PASS = "gpu-assumptions"

SHAPES = ["M, N", "M, K", "M, N + 4", "M, 2*N", "M, N*K", "M, 24", "N", "M, K, N", "16", "", "K, 3"]
FACTS = ["N mod 8 == 0", "N mod 4 == 0", "N mod 2 == 0", "K mod 8 == 0", "K mod 2 == 0", "N >= 1"]


def aligned(shape: str, element: str, base: int, facts: list[str], assuming: str = "") -> int:
    """The alignment that the pass gives to the one tensor of a kernel."""
    kind = f"!gpu.global<[{shape}], {element}>"
    when = f" when ({', '.join(facts)})" if facts else ""
    text = kernel(
        "",
        f"%A: {kind} = tensor 0",
        assuming=assuming,
        dispatch=f"  gpu.dispatch (A: {kind}) -> () {{\n"
        f"    gpu.launch @k{when} align [{base}] grid [1]\n  }}",
    )
    found = only(run(text, PASS), KernelOp).body.block.args[0].type
    assert isinstance(found, GlobalType)
    return found.align.data


@settings(max_examples=examples(60))
@given(
    shape=st.sampled_from(SHAPES),
    size=st.sampled_from([2, 4]),
    base=st.sampled_from([2, 4, 8, 16, 32, 128]),
    facts=st.lists(st.sampled_from(FACTS), max_size=3, unique=True),
)
def test_align_from_conditions_is_sound(shape: str, size: int, base: int, facts: list[str]) -> None:
    """Wherever the facts hold, base and row length are multiples of what the type says."""
    found = aligned(shape, {2: "f16", 4: "f32"}[size], base, facts)
    if found == 0:
        return
    assert found <= 16 and base % found == 0
    text = kernel("", f"%A: !gpu.global<[{shape}], f32> = tensor 0", assuming=", ".join(facts))
    module = run(text)
    kind = only(module, KernelOp).body.block.args[0].type
    assert isinstance(kind, GlobalType)
    conditions = only(run(launched(facts)), LaunchOp).when.data
    for n in range(0, 49):
        for k in range(0, 17):
            sizes = {"M": 3, "K": k, "N": n}
            if all(fact.holds(sizes) for fact in conditions) and kind.dims:
                assert kind.dims[-1].evaluate(sizes) * size % found == 0, sizes


def launched(facts: list[str]) -> str:
    when = f" when ({', '.join(facts)})" if facts else ""
    return kernel(
        "", dispatch=f"  gpu.dispatch () -> () {{\n    gpu.launch @k{when} align [] grid [1]\n  }}"
    )


@pytest.mark.parametrize(
    ("shape", "element", "base", "facts", "align"),
    [
        ("M, N", "f16", 16, ["N mod 8 == 0"], 16),
        ("M, N", "f16", 128, ["N mod 8 == 0"], 16),
        ("M, N", "f16", 8, ["N mod 8 == 0"], 8),
        ("M, N", "f16", 16, ["N mod 4 == 0"], 8),
        ("M, N", "f16", 16, ["N mod 16 == 0"], 16),
        ("M, N", "f32", 16, ["N mod 2 == 0"], 8),
        ("M, N", "f16", 16, [], 0),
        ("M, N", "f16", 16, ["M mod 8 == 0"], 0),
        ("M, N + 4", "f16", 16, ["N mod 8 == 0"], 8),
        ("M, 24", "f16", 16, [], 16),
        ("M, 20", "f16", 16, [], 8),
        ("M, N*K", "f16", 16, ["(N*K) mod 8 == 0"], 16),
        ("N", "f16", 16, ["N mod 8 == 0"], 16),
        ("N", "f16", 16, [], 0),
        ("64", "f16", 16, [], 16),
        ("", "f32", 16, [], 16),
    ],
)
def test_align_from_conditions_finds(
    shape: str, element: str, base: int, facts: list[str], align: int
) -> None:
    assert aligned(shape, element, base, facts) == align


def test_align_from_conditions_knows_the_graphs_assumptions() -> None:
    assert aligned("M, N", "f16", 16, [], assuming="N mod 8 == 0") == 16
    assert aligned("M, N", "f16", 16, ["N mod 4 == 0"], assuming="N mod 6 == 0") == 8


def test_a_dimension_is_one_of_facts_that_isl_cannot_read() -> None:
    """A product of symbols is no affine expression; the very same fact still counts."""
    facts = only(run(launched(["(N*K) mod 8 == 0"])), LaunchOp).when
    size = Dim.sym("N") * Dim.sym("K")
    assert divides(size, 8, facts, ("M", "K", "N"))
    assert divides(size, 4, facts, ("M", "K", "N"))
    assert not divides(size, 16, facts, ("M", "K", "N"))
