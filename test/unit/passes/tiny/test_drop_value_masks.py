"""tiny-drop-value-masks: it fires, it refuses, and it changes no finite value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.dialects.plan import ScheduleOp
from polyc.passes.pipeline import STAGES, build
from polyc.passes.tiny.drop_value_masks import DropValueMask
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context

MASKS = {
    "data": (" mask %m", "[H, M, N]", "i1"),
    "of one head": (" mask %m", "[1, M, N]", "i1"),
    "padding": (" mask %m", "[H, 1, N]", "i1"),
    "numbers": (" mask %m", "[1, M, N]", "f32"),
    "causal": (" causal", "[1]", "f32"),
    "both": (" mask %m causal window [3, 0]", "[1, 1, N]", "i1"),
}


def attention(
    masks: str, h: int, m: int, n: int, d: int = 4, precision: str = ', precision = "tf32"'
) -> str:
    options, shape, element = MASKS[masks]
    for name, size in {"H": h, "M": m, "N": n}.items():
        shape = shape.replace(name, str(size))
    q, k = (f"!frontend.tensor<[{h}, {size}, {d}], f32>" for size in (m, n))
    given = f"!frontend.tensor<{shape}, {element}>"
    more = f", {given}" if "%m" in options else ""
    return f"""frontend.graph @g(%q: {q}, %k: {k}, %v: {k}, %m: {given}) -> (o: {q}) {{
  %o = frontend.attention %q, %k, %v{options} {{acc = f32{precision}}}
    : ({q}, {k}, {k}{more}) -> {q}
  frontend.output %o : {q}
}}
"""


def lowered(source: str) -> ModuleOp:
    module = parsed(source)
    build("frontend-to-tiny", "sm_90a").apply(make_context(), module)
    return module


def fired(module: ModuleOp) -> int:
    pattern = DropValueMask()
    rewrite(module, [pattern], recursive=True)
    verify(module)
    return len(pattern.fired)


def arrays(module: ModuleOp, dice: np.random.Generator) -> list[np.ndarray]:
    graph = only(module, tiny.GraphOp)
    made: list[np.ndarray] = []
    for argument in graph.body.block.args:
        kind = tiny.tensor_of(argument)
        shape = [size.constant() or 1 for size in kind.dims]
        x = dice.standard_normal(shape).astype(np.float32)
        hidden = dice.random(shape) < 0.4
        last = len(made) == 3
        if last and str(kind.element_type) == "i1":
            made.append(~hidden)
        else:
            made.append(np.where(hidden, -np.inf, x).astype(np.float32) if last else x)
    return made


@settings(max_examples=examples(30))
@given(
    masks=st.sampled_from(sorted(MASKS)),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 6)),
    seed=st.integers(0, 2**31),
)
def test_values_stay(masks: str, shape: tuple[int, int, int], seed: int) -> None:
    module = lowered(attention(masks, *shape))
    args = arrays(module, np.random.default_rng(seed))
    (right,) = run(only(module, tiny.GraphOp), args, {})
    assert fired(module) == 1
    (found,) = run(only(module, tiny.GraphOp), args, {})
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-6)


def test_it_says_what_it_does_to_a_value_that_is_not_finite() -> None:
    module = lowered(attention("data", 1, 1, 2))
    args = arrays(module, np.random.default_rng(1))
    args[2][0, 1], args[3] = np.inf, np.array([[[True, False]]])
    (right,) = run(only(module, tiny.GraphOp), args, {})
    pattern = DropValueMask()
    rewrite(module, [pattern], recursive=True)
    (found,) = run(only(module, tiny.GraphOp), args, {})
    assert np.isfinite(right).all() and np.isnan(found).all()
    assert [note.kind for note in pattern.fired] == ["finite-only"]


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("precision", ["", ', precision = "f32"'])
def test_exact_products_keep_their_masks(masks: str, precision: str) -> None:
    assert not fired(lowered(attention(masks, 2, 3, 4, precision=precision)))


def weighted(
    *,
    scores: str = "tiny.select %c, %x, %i",
    values: str = "tiny.select %cw, %vw, %zw",
    weight: str = "tiny.unary exp %s",
) -> str:
    """A sum of values by weights of a condition, as tiny ops."""
    space, rows, four = (f"!tiny.tensor<[{shape}], f32>" for shape in ("3, 4", "3", "3, 4, 2"))
    one, wide = "!tiny.tensor<[3, 4], i1>", "!tiny.tensor<[3, 4, 2], i1>"
    number, kept = "!tiny.tensor<[], f32>", "!tiny.tensor<[4, 2], f32>"
    return f"""tiny.graph @g(%x: {space}, %v: {kept}, %c: {one}, %d: {one}) -> (o: !tiny.tensor<[3, 2], f32>) {{
  %i0 = tiny.constant -inf : {number}
  %i = tiny.expand %i0 dims [] : {number} -> {space}
  %h = {scores} : {space}
  %r = tiny.reduce max %x axes [1] : {space} -> {rows}
  %e = tiny.expand %r dims [0] : {rows} -> {space}
  %s = tiny.binary sub %h, %e : {space}
  %p = {weight} : {space}
  %w = tiny.expand %p dims [0, 1] : {space} -> {four}
  %vw = tiny.expand %v dims [1, 2] : {kept} -> {four}
  %z0 = tiny.constant 0.0 : {number}
  %zw = tiny.expand %z0 dims [] : {number} -> {four}
  %n0 = tiny.constant 1.0 : {number}
  %nw = tiny.expand %n0 dims [] : {number} -> {four}
  %cw = tiny.expand %c dims [0, 1] : {one} -> {wide}
  %dw = tiny.expand %d dims [0, 1] : {one} -> {wide}
  %m = {values} : {four}
  %y = tiny.binary mul %w, %m : {four}
  %o = tiny.reduce sum %y axes [1] precision tf32 : {four} -> !tiny.tensor<[3, 2], f32>
  tiny.output %o : !tiny.tensor<[3, 2], f32>
}}
"""  # noqa: E501


def test_a_sum_by_weights_loses_its_mask() -> None:
    assert fired(parsed(weighted())) == 1


@pytest.mark.parametrize(
    "source",
    [
        weighted(values="tiny.select %dw, %vw, %zw"),
        weighted(values="tiny.select %cw, %vw, %nw"),
        weighted(values="tiny.select %cw, %zw, %vw"),
        weighted(scores="tiny.select %c, %i, %x"),
        weighted(scores="tiny.binary add %x, %x"),
        weighted(weight="tiny.unary sigmoid %s"),
    ],
    ids=["another", "filled with 1", "the other side", "hidden there", "unmasked", "no exp"],
)
def test_others_stay(source: str) -> None:
    assert not fired(parsed(source))


@pytest.mark.parametrize("masks", ["data", "causal", "padding"])
def test_both_products_run_on_tensor_cores(masks: str) -> None:
    module = parsed(attention(masks, 4, 512, 512, 64))
    stages = (name for stage in ("tiny", "index", "region", "plan") for name in STAGES[stage])
    for name in stages:
        build(name, "sm_90a").apply(make_context(), module)
    first = {p.region.string_value(): p.mma.data for p in reversed(find(module, ScheduleOp))}
    assert sorted(first.values()) == ["none", "wgmma", "wgmma"]
