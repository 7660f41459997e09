"""tiny-gather-first: it fires, it refuses, and it changes no value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.dialects.region import GatherOp, KernelOp
from polyc.passes.pipeline import STAGES, build
from polyc.passes.tiny.gather_first import GatherFirst
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.tiny.elementwise import waits
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context


def tensor(*shape: object, kind: str = "f32") -> str:
    return f"!tiny.tensor<[{', '.join(map(str, shape))}], {kind}>"


def text(
    m: object = 4,
    n: object = 9,
    k: int = 1,
    *,
    axis: int = 1,
    outside: str = "clamp",
    ops: str = "tiny.unary exp %s",
    repeated: bool = True,
    stored: bool = False,
) -> str:
    """Elements of what is computed of rows [M, N] and a reduction of each."""
    whole, kept = tensor(m, n), tensor(n if axis == 0 else m)
    shape = (k, n) if axis == 0 else (m, k)
    part, at = tensor(*shape), tensor(*shape, kind="i64")
    source = "%r" if repeated else "%b"
    more = f", z: {whole}" if stored else ""
    out = f"%y, %g : {part}, {whole}" if stored else f"%y : {part}"
    return f"""tiny.graph @g(%x: {whole}, %b: {kept}, %i: {at}) -> (y: {part}{more}) {{
  %r = tiny.reduce max %x axes [{axis}] : {whole} -> {kept}
  %e = tiny.expand {source} dims [{1 - axis}] : {kept} -> {whole}
  %s = tiny.binary sub %x, %e : {whole}
  %g = {ops} : {whole}
  %y = tiny.gather %g at [%i] axes [{axis}] {outside} : ({whole}, {at}) -> {part}
  tiny.output {out}
}}
"""


def fired(source: str) -> ModuleOp | None:
    """A module after the pattern, where it fired; no op before then."""
    module = parsed(source)
    rewrite(module, [GatherFirst()], recursive=True)
    verify(module)
    read = [op.operand.owner for op in find(module, tiny.GatherOp)]
    return None if any(isinstance(op, tiny.UnaryOp | tiny.BinaryOp) for op in read) else module


@settings(max_examples=examples(40))
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 6)),
    axis=st.integers(0, 1),
    ops=st.sampled_from(("tiny.unary exp %s", "tiny.binary mul %s, %x", "tiny.binary div %s, %e")),
    seed=st.integers(0, 2**31),
)
def test_values_stay(shape: tuple[int, int], axis: int, ops: str, seed: int) -> None:
    dice = np.random.default_rng(seed)
    count = int(dice.integers(1, shape[axis] + 1))
    source = text(*shape, count, axis=axis, ops=ops)
    made = fired(source)
    assert made is not None
    x = dice.standard_normal(shape).astype(np.float32)
    x[0, 0] = dice.choice([1.0, np.nan, np.inf, -0.0])
    at = [count, shape[1]] if axis == 0 else [shape[0], count]
    args = [x, np.zeros(shape[1 - axis], np.float32), dice.integers(-2, 8, at)]
    (right,) = run(only(parsed(source), tiny.GraphOp), args, {})
    (found,) = run(only(made, tiny.GraphOp), args, {})
    assert found.tobytes() == right.tobytes()


@pytest.mark.parametrize(
    "source",
    [
        text(outside="fill 0.0"),
        text(repeated=False),
        text(stored=True),
        text(k=10),
        text(n="N"),
        text(n=0),
    ],
    ids=["filled", "no reduction", "an output", "more than there are", "open", "of nothing"],
)
def test_others_stay(source: str) -> None:
    assert fired(source) is None


@pytest.mark.parametrize("repeated", [True, False])
def test_graphs_are_deeper_than_calls_of_python(repeated: bool) -> None:
    whole = tensor(4, 9)
    steps = [f"tiny.unary exp %c{n} : {whole}" for n in range(1200)]
    ops = f"\n  %c0 = tiny.unary exp %s : {whole}"
    ops += "".join(f"\n  %c{n + 1} = {step}" for n, step in enumerate(steps))
    module = parsed(
        text(ops="tiny.unary exp %c1200", repeated=repeated).replace("\n  %g", f"{ops}\n  %g", 1)
    )
    (gather,) = find(module, tiny.GatherOp)
    assert waits(gather.operand, frozenset({1})) == repeated


def test_no_kernel_stores_what_is_gathered_of_rows() -> None:
    """Rows are read once, and of what is computed of them only the sums' results are stored."""
    source = text(4096, 512, ops="tiny.unary exp %s")
    module = parsed(source)
    for name in (*STAGES["tiny"][1:], *STAGES["index"], *STAGES["region"]):
        build(name, "sm_90a").apply(make_context(), module)
    assert len(find(only(module, KernelOp), GatherOp)) == 1
