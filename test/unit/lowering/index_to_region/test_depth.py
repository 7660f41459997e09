"""How the work of partitioning grows with the depth of a network of equal layers: counted in calls
of what is costly, not in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.lowering import index_to_region
from polyc.lowering.index_to_region.composition import Composition
from polyc.lowering.index_to_region.epilogues import Epilogues
from polyc.lowering.index_to_region.forms import Forms
from polyc.lowering.index_to_region.fusion import Composer
from polyc.lowering.index_to_region.kernels import Kernel
from polyc.passes.pipeline import STAGES, build
from polyc.test.support.sketch import Sketch
from polyc.tools.registry import make_context

LAYERS = 12
"""More kernels than are always composed whole."""

Network: TypeAlias = Callable[[Sketch, int], ModuleOp]


def gated(s: Sketch, layers: int) -> ModuleOp:
    """Layers with norms, a gate and residuals, as decoders have."""
    x = s.input("x", 64, 256)
    for number in range(layers):
        y = s.rms_norm(x, f"n{number}")
        gate = s.fn("silu", s.linear(y, f"g{number}", 512))
        x = s.fn(
            "add", x, s.linear(s.fn("mul", gate, s.linear(y, f"u{number}", 512)), f"d{number}", 256)
        )
    return s.done(y=s.layer_norm(x, "n"))


def moved(s: Sketch, layers: int) -> ModuleOp:
    """Layers whose norms read what a reshape gives, and whose products read what is computed."""
    x = s.input("x", 64, 256)
    for number in range(layers):
        y = s.rms_norm(s.reshape(s.layer_norm(x, f"n{number}"), 64, 4, 64), f"m{number}")
        y = s.fn("gelu", s.linear(s.reshape(y, 64, 256), f"a{number}", 512, bias=True))
        x = s.fn("add", x, s.linear(y, f"b{number}", 256))
    return s.done(y=s.fn("relu", x))


def calls(network: Network, layers: int) -> Counter[str]:
    """How often what is costly is called for a network of so many layers."""
    module = network(Sketch("network"), layers)
    for name in (*STAGES["tiny"], *STAGES["index"]):
        build(name, "sm_90a").apply(make_context(), module)
    found: Counter[str] = Counter()

    def counted(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            found[name] += 1
            return method(*args, **named)

        return call

    costly = [
        (Composer, "_visit"),
        (Forms, "_form"),
        (Kernel, "held"),
        (Epilogues, "_found_epilogue"),
        (Composition, "_kernel"),
        (index_to_region, "seconds"),
        (index_to_region, "contracts"),
    ]
    patches = [
        patch.object(owner, name, counted(name, getattr(owner, name))) for owner, name in costly
    ]
    for one in patches:
        one.start()
    try:
        build("index-to-region", "sm_90a").apply(make_context(), module)
    finally:
        for one in patches:
            one.stop()
    return found


@pytest.mark.parametrize("network", [gated, moved])
def test_twice_the_layers_take_twice_the_work(network: Network) -> None:
    few, many = calls(network, LAYERS), calls(network, 2 * LAYERS)
    for name, count in few.items():
        assert many[name] <= 2.5 * count, (name, count, many[name])
    # Kernels of equal layers are built and modelled once.
    assert few["contracts"] == many["contracts"] > 0
    assert few["seconds"] == many["seconds"]
