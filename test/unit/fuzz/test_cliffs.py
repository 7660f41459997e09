"""The search for cliffs: what it draws, what it finds, and how many finds are known."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from xdsl.passes import ModulePass

from polyc.dialects.frontend import tensor_of
from polyc.lowering.index_to_region import IndexToRegion
from polyc.test.fuzz import cliffs
from polyc.test.fuzz.compositions import PIECES, Composition, Piece, composed
from polyc.tools import pipeline
from polyc.tools.printing import module_text

RUNS = 20
KNOWN = 3
"""The finds among the first ``RUNS`` that are there now; it only goes down."""


@pytest.fixture
def fresh() -> Iterator[None]:
    """Nothing planned is remembered, before and after."""
    cliffs.planned.cache_clear()
    yield
    cliffs.planned.cache_clear()


def gemm(takes: int, size: int) -> Piece:
    return Piece(f"gemm {size}", (takes,), lambda s, xs: s.dense(xs[0], size), "tokens")


TWO = Composition((("T", 1024),), (gemm(0, 1024), gemm(1, 1024)))


def test_there_are_no_more_cliffs_than_are_known() -> None:
    found: list[str] = []
    counts = Counter[str]()
    for number in range(RUNS):
        why, also = cliffs.attempt(number, 0, show=False)
        counts += also
        if why is not None:
            found.append(f"{number}: {why}")
    assert counts["modelled"] >= RUNS - 2, counts
    assert sum(counts[what] for what in ("over the limit", "without tensor cores")) >= len(found)
    assert len(found) <= KNOWN, "\n".join(found)


def test_two_products_are_no_cliff() -> None:
    assert cliffs.failure(TWO) is None
    whole = cliffs.planned(module_text(TWO.whole()))
    assert len(whole.times) == 2 and not whole.by_threads


@pytest.mark.usefixtures("fresh")
def test_a_product_that_loops_compute_again_is_a_cliff(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both products in one region, as no cost would have it: seen by time, and by what runs it."""
    build = pipeline.build

    def fused(name: str, arch: str, plan: str | None = None) -> ModulePass:
        if name == "index-to-region":
            return IndexToRegion("legal", "none")
        return build(name, arch, plan)

    monkeypatch.setattr(pipeline, "build", fused)
    why = cliffs.failure(TWO)
    assert why is not None
    assert "of its pieces" in why and "bound by arithmetic" in why
    assert "without tensor cores" in why


def test_a_piece_alone_has_inputs_of_its_own() -> None:
    residual = Piece("add", (1, 0), lambda s, xs: s.fn("add", xs[0], xs[1]), "tokens")
    both = Composition(((64, 1024),), (gemm(0, 1024), residual))
    first, second = both.alone()
    (graph,) = second.ops
    assert [str(tensor_of(a)) for a in graph.regions[0].block.args] == [
        "!frontend.tensor<[64, 1024], f16>"
    ] * 2
    assert "frontend.gemm" in str(first) and "frontend.gemm" not in str(second)
    assert str(both.whole()).count("frontend.gemm") == 1
    assert both.title == "[64, 1024]: gemm 1024 -> add (of 0)"


def test_a_part_has_inputs_for_what_it_takes() -> None:
    residual = Piece("add", (2, 0), lambda s, xs: s.fn("add", xs[0], xs[1]), "tokens")
    three = Composition(((64, 1024),), (gemm(0, 2048), gemm(1, 1024), residual))
    part = three.part(1, 3)
    assert part.title == "[64, 1024], [64, 2048]: gemm 1024 -> add (of 0)"
    assert str(part.whole()).count("frontend.gemm") == 1
    assert three.part(0, 3).title == three.title
    assert [str(m) for m in part.alone()] == [str(m) for m in three.alone()][1:]


@pytest.mark.usefixtures("fresh")
def test_the_least_part_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four pieces those two that are slow together."""

    def judged(composition: Composition, counts: Counter[str] | None = None) -> str | None:
        return "slow" if "gemm 2048 -> gemm 512" in composition.title else None

    monkeypatch.setattr(cliffs, "failure", judged)
    pieces = (gemm(0, 1024), gemm(1, 2048), gemm(2, 512), gemm(3, 1024))
    part = cliffs.least(Composition(((64, 1024),), pieces))
    assert part.title == "[64, 1024]: gemm 2048 -> gemm 512"


def test_every_piece_is_drawn() -> None:
    found = Counter[str]()
    sizes = Counter[int]()
    for number in range(300):
        one = composed(random.Random(f"kinds {number}"))
        found.update(piece.name.split()[0] for piece in one.pieces)
        sizes[len(one.pieces)] += 1
    assert sizes.keys() == {2, 3, 4, 5, 6}
    assert found.keys() >= {
        *("gemm", "conv", "attention", "rms_norm", "layer_norm", "softmax", "rope", "merge"),
        *("heads", "transpose", "concat", "pad", "scale", "mean", "squeeze-excite", "pixels"),
        *("packed", "silu", "gelu", "add", "mul", "minus", "tanh", "sigmoid"),
    }
    assert all(PIECES.values())
    one, other = (composed(random.Random("7")) for _ in range(2))
    assert str(one.whole()) == str(other.whole())
    assert [str(m) for m in one.alone()] == [str(m) for m in other.alone()]
