"""``region-fold-indices``: what a folded index is, and where none is folded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.region import BinaryOp, IndexOp, KernelOp
from polyc.passes.region.fold_indices import RegionFoldIndices
from polyc.playback.region import run
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context

Step = tuple[str, int]


def chained(
    steps: list[Step], size: int, element: str = "i32", place: str = "(d0 * 3 + -5)"
) -> str:
    """A kernel whose output is an index, with a function and a number after another."""
    axes = f"!region.val<[i: {size}], {element}>"
    lines = [f"  %v0 = region.index affine_map<(d0) -> ({place})> : {axes}"]
    for at, (fn, number) in enumerate(steps):
        lines += [
            f"  %c{at} = region.constant {number} : !region.val<[], {element}>",
            f"  %b{at} = region.broadcast_in_dim %c{at} dims [] : "
            f"!region.val<[], {element}> -> {axes}",
            f"  %v{at + 1} = region.binary {fn} %v{at}, %b{at} : {axes}",
        ]
    outs = f"outs(C: !region.memref<[{size}], {element}, align 4> gmem)"
    end = f"  region.yield %v{len(steps)} : {axes}"
    body = "\n".join([*lines, end])
    return f"region.kernel @f iters [i: {size}] ins() {outs} {{\n{body}\n}}"


def folded(text: str) -> tuple[ModuleOp, ModuleOp]:
    """A module, and it after the pass."""
    module = parsed(text)
    other = module.clone()
    RegionFoldIndices().apply(make_context(), other)
    verify(other)
    return module, other


def value_of(module: ModuleOp) -> np.ndarray:
    (found,) = run(only(module, KernelOp), [], {})
    return np.asarray(found)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "sub", "mul", "mod"]), st.integers(1, 9)),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 17),
    st.sampled_from(["i32", "i64"]),
)
def test_an_index_is_what_its_ops_give(steps: list[Step], size: int, element: str) -> None:
    module, other = folded(chained(steps, size, element))
    assert (value_of(other) == value_of(module)).all()
    # Every index here is within its type, so that no rest is left.
    assert "mod" not in [op.fn.data for op in find(other, BinaryOp)] or steps[0][0] != "mod"


@pytest.mark.parametrize(
    ("steps", "element", "place"),
    [
        ([("mod", -4)], "i32", "d0"),  # the rest has the divisor's sign
        ([("mod", 4)], "i32", "d0 * 2000000000"),  # beyond the type
        ([("mod", 4)], "ui32", "d0 + -1"),  # below it
        ([("add", 4), ("mul", 3)], "i32", "d0"),  # no rest
    ],
)
def test_what_is_no_index_stays(steps: list[Step], element: str, place: str) -> None:
    module, other = folded(chained(steps, 9, element, place))
    assert len(find(other, BinaryOp)) == len(steps) and len(find(other, IndexOp)) == 1
    assert (value_of(other) == value_of(module)).all()
