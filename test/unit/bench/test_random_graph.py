"""Random graphs of the benchmarks: their size, what is in them, and that they become regions."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.bench.random_graph import random_graph
from polyc.dialects import frontend
from polyc.passes.pipeline import build
from polyc.rewriting.driver import verify
from polyc.tools.registry import make_context

SMALL_OPS = {
    "frontend.elementwise",
    "frontend.compare",
    "frontend.select",
    "frontend.cast",
    "frontend.constant",
    "frontend.reshape",
    "frontend.permute",
    "frontend.expand",
    "frontend.pad",
    "frontend.slice",
    "frontend.concat",
    "frontend.reduce",
}
TO_REGION = (
    "frontend-to-tiny",
    "tiny-to-index",
    "index-to-region",
    "region-srnf",
    "region-inline-deferred",
)


def ops_of(module: ModuleOp) -> list[str]:
    (graph,) = module.ops
    return [op.name for op in graph.regions[0].block.ops if op.name != "frontend.output"]


def region_of(count: int, seed: int) -> ModuleOp:
    module = random_graph(count, seed)
    ctx = make_context()
    for name in TO_REGION:
        build(name, "sm_90a").apply(ctx, module)
        verify(module)
    return module


@pytest.mark.parametrize("count", [1, 7, 50, 101])
def test_a_graph_has_as_many_ops_as_asked_for(count: int) -> None:
    module = random_graph(count, 3)
    verify(module)
    assert len(ops_of(module)) == count


def test_a_seed_makes_one_graph() -> None:
    assert str(random_graph(60, 1)) == str(random_graph(60, 1))
    assert str(random_graph(60, 1)) != str(random_graph(60, 2))


def test_every_op_of_the_families_is_there() -> None:
    modules = [random_graph(200, seed) for seed in range(4)]
    assert {name for module in modules for name in ops_of(module)} == SMALL_OPS
    ops = [op for module in modules for op in module.walk()]
    functions = {op.function for op in ops if isinstance(op, frontend.ElementwiseOp)}
    assert functions == {*frontend.UNARY_FUNCTIONS, *frontend.BINARY_FUNCTIONS}


@pytest.mark.parametrize("seed", range(3))
def test_graphs_become_regions(seed: int) -> None:
    assert {op.name.split(".")[0] for op in region_of(80, seed).ops} == {"region"}


def test_regions_grow_with_their_graph() -> None:
    small, large = (sum(1 for _ in region_of(n, 0).walk()) for n in (30, 120))
    assert large <= 5 * small
