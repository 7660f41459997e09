"""What a change of what is stored has nothing to do with stays as it is (S11.1)."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from polyc.dialects import tiny
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.contractions import Products
from polyc.lowering.index_to_region.cuts import Composing
from polyc.lowering.index_to_region.forms import equal_casts
from polyc.lowering.index_to_region.kernels import Kernels, NotApart, Part, Settled
from polyc.lowering.index_to_region.nearby import FEW, Standing, changed, part_of
from polyc.passes.pipeline import STAGES, build
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context

LAYERS = 20
SOME = settings(max_examples=examples(30), deadline=None, derandomize=True, database=None)


@cache
def network() -> tuple[Composing, Settled, Kernels, list[SSAValue]]:
    """Layers with norms, reshapes and residuals, their kernels, and what might be stored beside."""
    s = Sketch("network")
    x = s.input("x", "T", 256)
    for number in range(LAYERS):
        y = s.rms_norm(s.reshape(s.layer_norm(x, f"n{number}"), "T", 4, 64), f"m{number}")
        y = s.fn("gelu", s.linear(s.reshape(y, "T", 256), f"a{number}", 512, bias=True))
        x = s.fn("add", x, s.linear(y, f"b{number}", 256))
    module = s.done(y=s.fn("relu", x))
    for name in (*STAGES["tiny"], *STAGES["index"]):
        build(name, "sm_90a").apply(make_context(), module)
    graph = only(module, tiny.GraphOp)
    composing = Composing(graph, "cost", "none")
    settled = Products(graph, equal_casts(graph)).settled()
    base = composing.kernels(settled)
    made = [op.results[0] for op in composing.facts.ops if cost.is_computed(op.results[0])]
    return composing, settled, base, [value for value in made if cost.is_small(value)]


def keys(kernels: Kernels) -> set[object]:
    return {kernel.key for kernel in kernels.kernels}


def test_the_network_is_one_that_is_composed_in_parts():
    _, _, base, values = network()
    assert len(base.kernels) > FEW and len(values) > 8 * LAYERS


@SOME
@given(st.data())
def test_a_part_becomes_what_the_whole_does(data: st.DataObject):
    composing, settled, base, values = network()
    places = st.integers(0, len(values) - 1)
    stored = {values[i]: "asked for" for i in data.draw(st.lists(places, min_size=1, max_size=3))}
    other = settled.also(stored)
    assert changed(settled, other) == set(stored)
    near, whole = composing.kernels(other, base), composing.kernels(other)
    assert keys(near) == keys(whole)
    assert near.views == whole.views and near.stored.keys() == whole.stored.keys()
    assert {v: one.order for v, one in near.stored.items()} == {
        v: one.order for v, one in whole.stored.items()
    }
    # From there and back.
    assert keys(composing.kernels(settled, near)) == keys(base)


def test_most_kernels_stay():
    composing, settled, base, values = network()
    middle = values[len(values) // 2]
    near = composing.kernels(settled.also({middle: "asked for"}), base)
    assert len(set(near.kernels) & set(base.kernels)) >= len(base.kernels) - 6
    assert composing.parted


@pytest.mark.parametrize("always", [False, True])
def test_a_part_that_changes_its_neighbours_is_composed_with_them(
    monkeypatch: pytest.MonkeyPatch, always: bool
):
    composing, settled, base, values = network()
    middle, other = values[len(values) // 2], values[0]
    whole = composing.kernels(settled.also({middle: "asked for"}))
    parts: list[Part | None] = []
    composed = Composing._composed  # pyright: ignore[reportPrivateUsage]

    def changing(self: Composing, settled: Settled, part: Part | None = None) -> Kernels:
        parts.append(part)
        if part is not None and (always or len(parts) == 1):
            raise NotApart([other])
        return composed(self, settled, part)

    monkeypatch.setattr(Composing, "_composed", changing)
    near = composing.kernels(settled.also({middle: "asked for"}), base)
    assert keys(near) == keys(whole)
    first, second = parts[:2]
    assert first is not None and second is not None
    assert other.owner in second.ops and other.owner not in first.ops
    assert parts[2:] == ([None] if always else [])


def test_layers_stand_alike():
    _, _, base, _ = network()
    standing = Standing(lambda _: lambda kernel: (len(kernel.computed), len(kernel.reads)))
    found = Counter(standing.of(kernel, base) for kernel in base.kernels)
    assert max(found.values()) >= LAYERS - 2
    # What comes first reads an input of the graph, and what comes last is an output.
    ends = (base.kernels[0], base.kernels[-1])
    assert all(found[standing.of(kernel, base)] == 1 for kernel in ends)


@pytest.mark.parametrize("which", ["nothing", "all"])
def test_nothing_and_all_are_composed_whole(which: str):
    composing, settled, base, values = network()
    stored = {} if which == "nothing" else dict.fromkeys(values, "asked for")
    other = settled.also(stored)
    assert part_of(base, other, composing.places) is None
    assert keys(composing.kernels(other, base)) == keys(composing.kernels(other))
