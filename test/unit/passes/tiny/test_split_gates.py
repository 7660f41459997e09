"""tiny-split-gates: it fires, it refuses, and it changes no value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects import tiny
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import STAGES, build
from polyc.passes.tiny.split_gates import SplitGate
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context


def tensor(*shape: object) -> str:
    return f"!tiny.tensor<[{', '.join(map(str, shape))}], f32>"


def text(
    m: int = 4,
    k: int = 5,
    n: int = 16,
    halves: tuple[tuple[int, int], tuple[int, int]] | None = None,
    gate: str = "mul %l, %h",
    more: str = "",
    kind: str = "f16",
) -> str:
    """A product, of whose halves something is computed."""
    (a, b), (c, d) = halves or ((0, n // 2), (n // 2, n))
    whole, made, left, right = tensor(m, k, n), tensor(m, n), tensor(m, b - a), tensor(m, d - c)
    x, w = (tensor(*shape).replace("f32", kind) for shape in ((m, k), (k, n)))
    widened = [f"tiny.cast %{name} : {t} ->" for name, t in (("x", x), ("w", w))]
    if kind == "f32":
        widened = ["tiny.unary neg %x :", "tiny.unary neg %w :"]
    return f"""tiny.graph @g(%x: {x}, %w: {w}) -> (Y: {left}) {{
  %u = {widened[0]} {tensor(m, k)}
  %v = {widened[1]} {tensor(k, n)}
  %1 = tiny.expand %u dims [0, 1] : {tensor(m, k)} -> {whole}
  %2 = tiny.expand %v dims [1, 2] : {tensor(k, n)} -> {whole}
  %3 = tiny.binary mul %1, %2 : {whole}
  %4 = tiny.reduce sum %3 axes [1] : {whole} -> {made}
  %5 = tiny.unary tanh %4 : {made}
  %a = tiny.slice %5 [0:{m}, {a}:{b}] : {made} -> {left}
  %h = tiny.slice %5 [0:{m}, {c}:{d}] : {made} -> {right}
  %l = tiny.unary sigmoid %a : {left}
  {more}
  %y = tiny.binary {gate} : {left}
  tiny.output %y : {left}
}}
"""


def products(source: str) -> int:
    """The products afterwards."""
    module = parsed(source)
    rewrite(module, [SplitGate()])
    verify(module)
    return len(find(module, tiny.ReduceOp))


def test_it_is_a_product_of_each_half() -> None:
    assert products(text()) == 2
    assert products(text(halves=((8, 16), (0, 8)), kind="bf16")) == 2


KEPT = tensor(4, 16)
REFUSES = {
    "halves that overlap": text(halves=((0, 8), (7, 15))),
    "a part that nothing reads": text(n=24, halves=((0, 8), (8, 16))),
    "factors of f32, whose two products are two kernels": text(kind="f32"),
    "halves that do not meet": text(gate="mul %l, %l"),
    "another reader": text(more=f"%z = tiny.unary exp %5 : {KEPT}", gate="mul %l, %h"),
}


@pytest.mark.parametrize("source", REFUSES.values(), ids=REFUSES)
def test_it_stays(source: str) -> None:
    assert products(source) == 1


@settings(max_examples=examples(50), deadline=None)
@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 6), st.booleans())
def test_values_are_the_same(m: int, k: int, half: int, turned: bool) -> None:
    halves = ((0, half), (half, 2 * half))
    source = text(m, k, 2 * half, (halves[1], halves[0]) if turned else halves)
    module = parsed(source)
    rng = np.random.default_rng(m * k)
    inputs = [rng.standard_normal(s).astype(np.float16) for s in ((m, k), (k, 2 * half))]
    (wanted,) = run(only(module, tiny.GraphOp), inputs, {})
    assert rewrite(module, [SplitGate()])
    verify(module)
    (found,) = run(only(module, tiny.GraphOp), inputs, {})
    # The sums are the same; NumPy may add in another order at another width.
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", ["M", 4096, 1])
def test_one_kernel_has_both_products_and_the_gate(rows: str | int) -> None:
    x, w = f"!frontend.tensor<[{rows}, 320], f16>", "!frontend.tensor<[2560, 320], f16>"
    both, half = (f"!frontend.tensor<[{rows}, {n}], f16>" for n in (2560, 1280))
    module = parsed(
        f"frontend.graph @g(%x: {x}, %w: {w}) -> (Y: {half}) {{\n"
        f"  %p = frontend.gemm %x, %w {{acc = f32, transpose_b}} : ({x}, {w}) -> {both}\n"
        f"  %a = frontend.slice %p [0:{rows}, 0:1280] : {both} -> {half}\n"
        f"  %b = frontend.slice %p [0:{rows}, 1280:2560] : {both} -> {half}\n"
        f"  %g = frontend.elementwise gelu %b : {half}\n"
        f"  %y = frontend.elementwise mul %a, %g : ({half}, {half}) -> {half}\n"
        f"  frontend.output %y : {half}\n}}\n"
    )
    for stage in ("tiny", "index", "region", "plan"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(make_context(), module)
        verify(module)
    assert len(find(module, KernelOp)) == 1
    patterns = {op.pattern for op in find(module, ScheduleOp)}
    assert "loops" not in patterns
