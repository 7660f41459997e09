"""``gpu-inline-lets``: composed index expressions have the value of the steps."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import affine
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import hardware as hw
from polyc.passes.gpu.inline_lets import LONGEST
from polyc.test.support.gpu_text import find, kernel, only, run, unchanged
from polyc.test.support.turns import examples

PASS = "gpu-inline-lets"
USE = "gpu.load_global %X[%last : index] : !gpu.global<[M], f32> -> f32"
ARGS = "%X: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M"


def steps(*maps: AffineMap) -> str:
    """A kernel in which each map is applied to the two values before it, and the last one used."""
    values = ["block", "thread"]
    body = "    %block = gpu.block_id\n    %thread = gpu.thread_id\n"
    for i, m in enumerate(maps):
        name = "last" if i == len(maps) - 1 else f"v{i}"
        body += f"    %{name} = affine.apply affine_map<{m}> (%{values[-2]}, %{values[-1]})\n"
        values.append(name)
    return kernel(f"{body}    %x = {USE}", ARGS)


def value_at(value: SSAValue, block: int, thread: int) -> int:
    """What an index value is in one thread."""
    match value.owner:
        case hw.BlockIdOp():
            return block
        case hw.ThreadIdOp():
            return thread
        case affine.ApplyOp() as op:
            return op.map.data.eval([value_at(v, block, thread) for v in op.mapOperands], [])[0]
        case other:
            raise AssertionError(other)


D = (AffineExpr.dimension(0), AffineExpr.dimension(1))


@st.composite
def expressions(draw: st.DrawFn) -> AffineMap:
    a, b = draw(st.permutations(D))
    size = draw(st.integers(1, 9))
    expr = draw(
        st.sampled_from([a * size + b, a // size + b, a % size + b * 2, a + size, b - a * size])
    )
    return AffineMap(2, 0, (expr,))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(expressions(), min_size=2, max_size=6), st.integers(0, 40), st.integers(0, 127))
def test_inline_apply_keeps_the_value(maps: list[AffineMap], block: int, thread: int) -> None:
    text = steps(*maps)
    before = only(run(text), hw.LoadGlobalOp).indices[0]
    after = only(run(text, PASS), hw.LoadGlobalOp).indices[0]
    assert value_at(after, block, thread) == value_at(before, block, thread)


def test_inline_apply_merges_equal_operands() -> None:
    module = run(steps(AffineMap(2, 0, (D[0] * 2 + D[1],)), AffineMap(2, 0, (D[0] + D[1],))), PASS)
    (op,) = find(module, affine.ApplyOp)
    assert len(op.mapOperands) == 2


def test_inline_apply_leaves_what_would_grow_too_long() -> None:
    long = D[0]
    for i in range(LONGEST):
        long = long + D[1] // (i + 2)
    unchanged(steps(AffineMap(2, 0, (long,)), AffineMap(2, 0, (D[0] + D[1] * 2,))), PASS)


def test_drop_unused_apply_keeps_what_is_used() -> None:
    text = steps(AffineMap(2, 0, (D[0] * 2 + D[1],)))
    assert len(find(run(text, PASS), affine.ApplyOp)) == 1
