"""A short run of the epilogues that ``make fuzz`` takes to CUDA text for long: every function, of
every element type, behind one of what gives large values."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute

from polyc.dialects.gpu.hardware.checks import vector_length
from polyc.passes.gpu import load_ahead
from polyc.test.fuzz import epilogues
from polyc.test.fuzz.epilogues import ARCHS, ELEMENTS, FUNCTIONS, PRODUCERS

KNOWN = [name for name in PRODUCERS if name != "any rows"]
"""Those of known sizes: one plan is made, and not one for each kind of sizes."""


def dealt(producer: str, element: int) -> list[str]:
    """The functions of a case: those of all producers, with one element type, are all."""
    dice = random.Random(f"dealt {element}")
    order = dice.sample(FUNCTIONS, len(FUNCTIONS))
    return order[KNOWN.index(producer) :: len(KNOWN)]


@pytest.mark.parametrize("element", range(len(ELEMENTS)))
@pytest.mark.parametrize("producer", KNOWN)
def test_every_function_has_a_text(producer: str, element: int) -> None:
    dice = random.Random(f"{producer} {element}")
    module = epilogues.program(dice, producer, ELEMENTS[element], dealt(producer, element))
    assert epilogues.failure(module, dice.choice(ARCHS)) is None, module


def test_what_the_printer_refuses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four words of f32 that one pass leaves as four of i32, which it never was asked of f16."""

    def words(kind: Attribute) -> Sequence[Attribute]:
        count = vector_length(kind)
        return [kind] if count == 1 else [i32] * count

    dice = random.Random(1)
    module = epilogues.program(dice, "product", f32, ["div", "sqrt"])
    assert epilogues.failure(module, "sm_90a") is None
    monkeypatch.setattr(load_ahead, "_kinds", words)
    assert "vector.bitcast turns" in (epilogues.failure(module, "sm_90a") or "")


def test_every_kind_is_drawn() -> None:
    """A program is its number; each element type, function and architecture is drawn."""
    found = Counter[str]()
    for number in range(150):
        module, arch = epilogues.drawn(random.Random(f"kinds {number}"))
        found.update({*re.findall(r"\w+", str(module)), arch})
    assert found.keys() >= {*FUNCTIONS, *ARCHS, *map(str, ELEMENTS)}
    one, other = (epilogues.drawn(random.Random("7")) for _ in range(2))
    assert str(one[0]) == str(other[0]) and one[1] == other[1]
