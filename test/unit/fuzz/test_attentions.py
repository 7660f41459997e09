"""The search for slow attention: what it draws, what it finds, and layers that it has found."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from polyc.lowering.frontend_to_tiny.joined import SplitJoinedSoftmax
from polyc.lowering.frontend_to_tiny.known_places import SliceAtKnownPlaces
from polyc.test.fuzz import attentions, cliffs
from polyc.test.fuzz.cliffs import planned
from polyc.test.support.attention_layers import Layer, drawn
from polyc.tools.printing import module_text

PARTS, EACH = 6, 4

KNOWN = (9,)
"""Layers of the first that are slow now, attention of f32 at few keys: it only goes down."""

FOUND: Mapping[str, tuple[Layer, int, float]] = {
    "a mask that is looked up": (
        Layer(
            batch=8,
            heads=16,
            groups=16,
            queries=4,
            keys=1024,
            depth=48,
            width=48,
            scale="both",
            soft="cast",
            masks=("looked up",),
            hidden=-10000.0,
        ),
        1,
        3.0,
    ),
    "one head of keys, heads in rows": (
        Layer(
            batch=1,
            heads=12,
            groups=1,
            queries=197,
            keys=197,
            depth=192,
            width=192,
            masks=("looked up",),
            chosen=True,
        ),
        1,
        3.0,
    ),
    "a sink of narrow scores": (
        Layer(
            element="bf16",
            batch=8,
            heads=16,
            groups=2,
            queries=577,
            keys=577,
            repeat="viewed",
            soft="cast",
            masks=("per head",),
            sink=True,
        ),
        1,
        3.0,
    ),
    "a query of one token that is projected": (
        Layer(
            batch=1,
            heads=12,
            groups=12,
            queries=1,
            keys=77,
            depth=80,
            width=80,
            projected=True,
            scale="both",
            returned=True,
        ),
        9,
        2.5,
    ),
}
"""Layers that were slow, the most kernels that they are now, and of their roofline the most."""


@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_layer_is_slow(part: int) -> None:
    """But for those that are known."""
    counts = Counter[str]()
    for number in range(part * EACH, (part + 1) * EACH):
        why, also = attentions.attempt(number, 1)
        counts += also
        assert (why is not None) == (number in KNOWN), f"{number}: {why}"
    assert counts["planned"] == EACH


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", FOUND)
def test_a_layer_that_was_slow_is_not(name: str, arch: str) -> None:
    layer, most, limit = FOUND[name]
    assert attentions.failure(layer, arch, limit=limit) is None
    found = planned(module_text(layer.module()), tuple(layer.sizes.items()), arch)
    assert len(found.times) <= most and not found.by_threads


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", (1, 2, 4))
def test_small_ones_are_right(number: int) -> None:
    why, _ = attentions.attempt(number, 2, numbers=True)
    assert why is None, why


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("a mask that is looked up", SliceAtKnownPlaces),
        ("a sink of narrow scores", SplitJoinedSoftmax),
    ],
)
def test_a_layer_is_slow_without_what_mends_it(
    name: str, pattern: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        """The pattern left out."""

    monkeypatch.setattr(pattern, "match_and_rewrite", never)
    cliffs.planned.cache_clear()
    layer, _, limit = FOUND[name]
    assert attentions.failure(layer, limit=limit) is not None
    cliffs.planned.cache_clear()


def test_what_is_drawn_is_known_by_its_number_and_fits() -> None:
    kinds = Counter[str]()
    for number in range(200):
        layer = drawn(random.Random(f"3 {number}"))
        assert layer == drawn(random.Random(f"3 {number}"))
        assert layer.heads % layer.groups == 0
        small = layer.small
        assert small.heads % small.groups == 0 and max(small.queries, small.keys) < 32
        kinds.update((layer.kind, layer.layout, layer.soft, layer.bias, *layer.masks))
    assert {"softmax", "features", "linear", "packed", "looked up", "buckets"} <= set(kinds)
