"""A short run of programs as text against a second account of what their ops mean."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.dialects.frontend import Frontend
from polyc.playback import functions
from polyc.playback.mutation import mutants, mutated
from polyc.test.fuzz import layers, meanings, op_meanings
from polyc.test.fuzz.op_meanings import DTYPE
from polyc.test.support.turns import examples

NOT_DRAWN = {"graph", "output", "parameter", "classify", "grid_sample"}
"""Ops without numbers of their own, and those that have no second account."""


@pytest.mark.turns(4)
@pytest.mark.parametrize("part", range(4))
def test_programs_mean_what_their_ops_say(part: int) -> None:
    reached = Counter[str]()
    for number in range(100):
        why, also = meanings.attempt(number, 1000 + part)
        assert why is None, (part, number, why)
        reached += also
    # What agrees with everything would say nothing.
    assert reached[meanings.KNOWN] >= 95


def test_programs_at_every_layer() -> None:
    reached, each = Counter[str](), examples(10)
    for number in range(each):
        why, also = meanings.attempt(number, 2000, every_layer=True)
        assert why is None, (number, why)
        reached += also
    assert reached[meanings.TO_TILES] >= 0.75 * each


def test_programs_in_the_simulator() -> None:
    reached, each = Counter[str](), examples(8)
    for number in range(each):
        why, also = meanings.attempt(number, 3000, kernels=True)
        assert why is None, (number, why)
        reached += also
    assert reached[meanings.SIMULATED] >= 0.5 * each


def test_every_op_and_type_is_drawn() -> None:
    """An op that is new to the language is drawn, or is named as one that is not."""
    ops, types, ranks, sizes = set[str](), set[str](), set[int](), set[str]()
    for number in range(600):
        text = meanings.drawn(random.Random(f"all {number}")).text
        ops.update(re.findall(r"= frontend\.(\w+)", text))
        for dims, element in re.findall(r"tensor<\[(.*?)\], (\w+)>", text):
            types.add(element)
            ranks.add(len(dims.split(", ")) if dims else 0)
            sizes.update(dims.split(", "))
    named = {op.name.partition(".")[2] for op in Frontend.operations}
    assert ops == named - NOT_DRAWN
    assert types == set(DTYPE)
    assert ranks >= set(range(8))
    assert sizes >= {"0", "1", "M", "N", "K"}


def test_a_program_is_its_number() -> None:
    one, other = (meanings.drawn(random.Random("7"), wide=True) for _ in range(2))
    assert one.text == other.text and one.sizes == other.sizes
    for left, right in zip(one.inputs, other.inputs, strict=True):
        np.testing.assert_array_equal(left, right)


Two = Callable[[Any, Any], Any]
TABLES: dict[str, tuple[dict[str, Any], str, Two]] = {
    "a difference the other way": (op_meanings.BINARY, "sub", lambda x, y: np.subtract(y, x)),
    "a relation that is strict": (op_meanings.COMPARE, "le", np.less),
    "the last update alone": (op_meanings.COMBINE, "add", lambda _, new: new),
    "a product in place of a sum": (op_meanings.SCAN, "sum", np.multiply),
}
"""Mistakes in a table: where, and what one function is then."""


@pytest.mark.parametrize("name", TABLES)
def test_a_wrong_function_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table, fn, wrong = TABLES[name]
    monkeypatch.setitem(table, fn, wrong)
    assert "another meaning" in first_fault(400)


def clamped(index: int, size: int, from_end: bool, clamp: bool) -> int | None:
    """Counts from the end though the op does not say so."""
    place = index + size if index < 0 else index
    if 0 <= place < size:
        return place
    return min(max(place, 0), size - 1) if clamp and size else None


def first_pixels(x: Any, axis: int, size: int, half_pixel: bool) -> Any:
    """Takes each element from the one below, wherever centers are."""
    return np.take(x, [i * x.shape[axis] // size for i in range(size)], axis)


def counted(place: int, seed: int) -> int:
    """No random word, but its number."""
    return place % 2**32


def cut(x: Any, element: str) -> Any:
    """Rounds to a whole number."""
    return np.floor(x)


MEANINGS: dict[str, tuple[str, Any]] = {
    "indices from the end": ("at_index", clamped),
    "centers of elements": ("nearest", first_pixels),
    "a stream of random numbers": ("philox", counted),
    "a rounded operand": ("rounded", cut),
}
"""Mistakes in what an op means: where, and what stands there."""


@pytest.mark.parametrize("name", MEANINGS)
def test_a_wrong_meaning_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_meanings, *MEANINGS[name])
    assert "another meaning" in first_fault(400)


def test_a_mistake_of_playback_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the table that every layer reads, which no comparison of layers would see."""
    right = functions.UNARY["relu"]
    monkeypatch.setitem(functions.UNARY, "relu", lambda x: right(-x))
    assert "another meaning" in first_fault(400)


def first_fault(most: int, **options: bool) -> str:
    """What is found wrong first with the programs of a seed, or nothing."""
    found = (meanings.attempt(number, 1000, **options)[0] for number in range(most))
    return next((why for why in found if why is not None), "")


def test_a_wrong_pass_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run_pass = layers.run_pass

    def wrong(ctx: Context, instance: object, module: ModuleOp) -> None:
        run_pass(ctx, instance, module)  # pyright: ignore[reportArgumentType]
        for op in module.walk():
            if isinstance(op, tiny.ReduceOp) and op.function == "sum":
                op.properties["fn"] = tiny.ReduceOp("max", op.operand, op.axes).fn

    monkeypatch.setattr(layers, "run_pass", wrong)
    assert "changes the result" in first_fault(20, every_layer=True)


def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that stores nothing."""
    right = meanings.gpu_module_of

    def wrong(module: ModuleOp) -> Any:
        made = right(module)
        stores = [m for m in mutants(made) if m.op == "gpu.store_global"]
        return mutated(made, stores[0]) if stores else made

    monkeypatch.setattr(meanings, "gpu_module_of", wrong)
    assert first_fault(5, kernels=True)
