"""Random problems under the plans that the compiler would measure: each is right (S11.2, T2).

A problem is a program at random sizes; what is tried are the candidates of ``polyc tune``, of every
family, compared with all of playback on poisoned outputs, twice.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16

from polyc.dialects import frontend
from polyc.runtime import driver
from polyc.test.support.attention_programs import Attention
from polyc.test.support.gpu_text import parsed
from polyc.test.support.root import ROOT
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import gated
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context
from polyc.tools.steps import Steps
from polyc.tools.tuning.regions import regions_of
from polyc.tools.tuning.workshop import Workshop
from polyc.tuning.candidates import candidates

ARCHS = ("sm_90a", "sm_80")

PLANS = 12
"""Candidates of a problem at most."""

EACH = 2
"""Problems of a program on an architecture."""


def example(name: str) -> Callable[[], ModuleOp]:
    return lambda: parsed((ROOT / "examples" / f"{name}.mlir").read_text("utf-8"))


def product(element: object, turned: bool = False, batch: int | None = None) -> ModuleOp:
    s = Sketch("product", bf16 if element is bf16 else f16)
    many = () if batch is None else (batch,)
    x, w = (
        s.input("x", *many, "M", "K"),
        s.input("w", *many, *(("N", "K") if turned else ("K", "N"))),
    )
    return s.done(y=s.gemm(x, w, turned=turned))


def joined() -> ModuleOp:
    s = Sketch("joined")
    x = s.concat(1, s.input("x", "M", 128), s.input("z", "M", "K"))
    return s.done(y=s.linear(x, "w", "N", bias=True))


def strided(stride: int) -> ModuleOp:
    s = Sketch("strided")
    x, w = s.input("x", "B", "H", "W", "C"), s.input("w", "F", 3, 3, "C")
    op = frontend.Conv2dOp(
        x, w, layout="nhwc", stride=(stride,) * 2, padding=[1] * 4, dilation=(1, 1), groups=1
    )
    return s.done(y=s.fn("relu", s.add(op)))


def reduced(axes: list[int], *shape: str) -> ModuleOp:
    s = Sketch("reduced")
    return s.done(y=s.add(frontend.SoftmaxOp(s.input("x", *shape), axes)))


def attention(
    q: str, k: str, options: str = "", masks: tuple[str, ...] = ()
) -> Callable[[], ModuleOp]:
    return lambda: parsed(Attention(q, k, k, [], options=options, masks=masks).text())


PROGRAMS: Mapping[str, Callable[[], ModuleOp]] = {
    "bias and relu": example("gemm_bias_relu"),
    "bf16": lambda: product(bf16),
    "turned": lambda: product(f16, turned=True),
    "a batch": lambda: product(f16, batch=3),
    "two products": gated,
    "two pieces": joined,
    "convolution": lambda: strided(1),
    "a stride of two": lambda: strided(2),
    "attention": attention("[B, H, M, 64]", "[B, H, N, 64]"),
    "causal attention": attention("[H, M, 128]", "[H, N, 128]", options=" causal"),
    "one query": attention("[B, 8, 1, 128]", "[B, 2, N, 128]"),
    "softmax": example("softmax"),
    "layer_norm": example("layer_norm"),
    "rms_norm": example("rms_norm"),
    "softmax of columns": example("column_softmax"),
    "softmax of a middle axis": lambda: reduced([1], "B", "M", "N"),
}

MOST = {"B": 4, "C": 96, "F": 160, "H": 12, "W": 20, "M": 400, "N": 700, "K": 900}
"""Sizes at most."""

LONG = {"softmax": 9000, "layer_norm": 9000, "rms_norm": 9000, "one query": 3000}
"""The same of N where rows or caches are long."""


def drawn(module: ModuleOp, name: str, dice: random.Random) -> dict[str, int]:
    """Sizes log-uniform, in half of the problems such that vectors and TMA take them."""
    graph = next(op for op in module.ops if isinstance(op, frontend.GraphOp))
    symbols = {s for spec in graph.inputs for d in spec.type.dims for s in d.symbols()}
    even, found = dice.random() < 0.6, dict[str, int]()
    for symbol in sorted(symbols):
        most = LONG.get(name, MOST[symbol]) if symbol == "N" else MOST[symbol]
        size = round(math.exp(dice.uniform(math.log(min(5, most)), math.log(most))))
        found[symbol] = -(-size // 8) * 8 if even and most > 8 and symbol not in "HW" else size
    return found


def problems() -> Iterator[tuple[str, str, int]]:
    for name in PROGRAMS:
        for arch in ARCHS:
            for number in range(EACH):
                yield name, arch, number


@pytest.mark.parametrize(("name", "arch", "number"), list(problems()))
def test_every_candidate_is_right(name: str, arch: str, number: int) -> None:
    if not driver.device().runs(arch):
        pytest.skip(f"this GPU does not run {arch}")
    module = PROGRAMS[name]()
    dice = random.Random(f"{name} {arch} {number}")
    sizes = drawn(module, name, dice)
    job = Compilation(make_context(), module, arch)
    tried = 0
    for region in regions_of(job):
        own = {s: n for s, n in sizes.items() if s in region.symbol_names}
        plans = candidates(region, arch, own, PLANS)
        shop = Workshop(job, region, own, plans, number, Steps())
        for plan in plans:
            why = shop.wrong(shop.compile(plan))
            assert why is None, f"{plan.name} at {own}: {why}"
            tried += 1
    assert tried
    print(f"{name} {arch} {sizes}: {tried} plans")
