"""Axes and dimensions in digits: which come apart, into what, and that nothing moves."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.region import KernelOp, ReadOp
from polyc.playback import region
from polyc.rewriting.driver import verify
from polyc.rewriting.region.digits import axes_apart, digits_apart
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.turns import examples


def reading(axes: Sequence[tuple[str, int | str]], shape: Sequence[int | str], *places: str) -> str:
    """A kernel over ``axes`` that adds up what it reads of one tensor at several places."""
    sizes = " ".join(str(n) for n in (*shape, *(n for _, n in axes)))
    symbols = sorted(set(re.findall("[A-Z]", sizes)))
    kind = f"!region.memref<[{', '.join(map(str, shape))}], f32, align 16>"
    value = f"!region.val<[{', '.join(f'{a}: {n}' for a, n in axes)}], f32>"
    dims = ", ".join(f"d{i}" for i in range(len(axes)))
    names = f"[{', '.join(f's{i}' for i in range(len(symbols)))}]" if symbols else ""
    lines = [
        f"%r{i} = region.read %x affine_map<({dims}){names} -> ({place})> : {kind} -> {value}"
        for i, place in enumerate(places)
    ]
    total = "%r0"
    for i in range(1, len(places)):
        lines.append(f"%t{i} = region.binary add {total}, %r{i} : {value}")
        total = f"%t{i}"
    lines.append(f"region.yield {total} : {value}")
    out = f"!region.memref<[{', '.join(str(n) for _, n in axes)}], f32, align 16>"
    body = "\n  ".join(lines)
    iters = ", ".join(f"{a}: {n}" for a, n in axes)
    ends = f"ins(%x: {kind})\n    outs(y: {out} gmem)"
    return f"region.kernel @g iters [{iters}] {ends} {{\n  {body}\n}}"


def kernel_of(text: str) -> KernelOp:
    return only(parsed(text), KernelOp)


def checked(kernel: KernelOp) -> KernelOp:
    """A kernel that stands in a module, and verifies."""
    verify(ModuleOp([kernel]))
    return kernel


def seen(kernel: KernelOp) -> list[list[str]]:
    """The shapes that a kernel sees its inputs in."""
    return [[str(n) for n in kind.shape] for kind in kernel.seen[: len(kernel.ins)]]


def places(kernel: KernelOp) -> list[str]:
    return [str(op.map.data).partition("-> ")[2] for op in find(kernel, ReadOp)]


HEADS = (("t", 5), ("h", 3), ("d", 8))
APART = {
    "heads": (HEADS, [5, 24], ["d0, d1 * 8 + d2"], [5, 3, 8], ["(d0, d1, d2)"]),
    "packed": (
        HEADS,
        [5, 72],
        ["d0, d1 * 8 + d2", "d0, d1 * 8 + d2 + 48"],
        [5, 9, 8],
        ["(d0, d1, d2)", "(d0, (d1 + 6), d2)"],
    ),
    "in each head": (
        HEADS,
        [5, 48],
        ["d0, d1 * 16 + d2", "d0, d1 * 16 + d2 + 8"],
        [5, 3, 2, 8],
        ["(d0, d1, 0, d2)", "(d0, d1, 1, d2)"],
    ),
    "a part of each head": (HEADS, [5, 36], ["d0, d1 * 12 + d2"], [5, 3, 12], ["(d0, d1, d2)"]),
    "open": (
        (("t", "T"), *HEADS[1:]),
        ["T", 24],
        ["d0, d1 * 8 + d2"],
        ["T", 3, 8],
        ["(d0, d1, d2)"],
    ),
    "of open heads": (
        (("t", 5), ("h", "H"), ("d", 8)),
        [5, "8 * H"],
        ["d0, d1 * 8 + d2"],
        [5, "H", 8],
        ["(d0, d1, d2)"],
    ),
}


@pytest.mark.parametrize(
    ("axes", "shape", "reads", "wanted", "where"), APART.values(), ids=list(APART)
)
def test_a_dimension_comes_apart(
    axes: Sequence[tuple[str, int | str]],
    shape: Sequence[int | str],
    reads: Sequence[str],
    wanted: Sequence[int | str],
    where: Sequence[str],
) -> None:
    kernel = kernel_of(reading(axes, shape, *reads))
    found = checked(digits_apart(kernel))
    assert seen(found) == [[str(n) for n in wanted]]
    assert [p.replace("d0, d1, d2) -> ", "") for p in places(found)] == list(where)
    assert found.tensors == kernel.tensors


STAY = {
    "a digit that is no part": (HEADS, [5, 25], ["d0, d1 * 8 + d2"]),
    "steps that do not divide each other": (HEADS, [5, 48], ["d0 * 1, d1 * 12 + d2 * 5"]),
    "beyond a digit": (HEADS, [5, 32], ["d0, d1 * 8 + d2 + 4"]),
    "windows": ((("t", 5), ("h", 7), ("d", 3)), [5, 16], ["d0, d1 * 2 + d2"]),
    "unlike digits": (HEADS, [5, 24], ["d0, d1 * 8 + d2", "d0, d2 * 3 + d1 + d1 * 0"]),
    "backwards": (HEADS, [5, 24], ["d0, d1 * -8 + d2 + 16"]),
    "axis by axis": (HEADS, [5, 3, 8], ["d0, d1, d2"]),
}


@pytest.mark.parametrize(("axes", "shape", "reads"), STAY.values(), ids=list(STAY))
def test_other_dimensions_stay(
    axes: Sequence[tuple[str, int | str]], shape: Sequence[int | str], reads: Sequence[str]
) -> None:
    kernel = kernel_of(reading(axes, shape, *reads))
    assert digits_apart(kernel) is kernel


DIVIDED = {
    "a batch of sequences and heads": (
        (("n", 12), ("t", 5), ("d", 8)),
        [4, 5, 24],
        "d0 floordiv 3, d1, (d0 mod 3) * 8 + d2",
        ["n_0", "n_1", "t", "d"],
    ),
    "with what is inside": (
        (("n", 12), ("t", 5), ("d", 8)),
        [4, 5, 24],
        "(d0 * 8 + d2) floordiv 24, d1, (d0 * 8 + d2) mod 24",
        ["n_0", "n_1", "t", "d"],
    ),
    "heads that share keys": (
        (("h", 12), ("t", 5)),
        [3, 5],
        "d0 floordiv 4, d1",
        ["h_0", "h_1", "t"],
    ),
    "three digits": (
        (("n", 24), ("t", 5)),
        [2, 3, 5],
        "d0 floordiv 12, (d0 floordiv 4) mod 3, d1",
        ["n_0", "n_1", "n_2", "t"],
    ),
    "an open batch": (
        (("n", "3 * B"), ("t", 5)),
        ["B", 3, 5],
        "d0 floordiv 3, d0 mod 3, d1",
        ["n_0", "n_1", "t"],
    ),
}


@pytest.mark.parametrize(("axes", "shape", "read", "wanted"), DIVIDED.values(), ids=list(DIVIDED))
def test_an_axis_comes_apart(
    axes: Sequence[tuple[str, int | str]],
    shape: Sequence[int | str],
    read: str,
    wanted: Sequence[str],
) -> None:
    kernel = kernel_of(reading(axes, shape, read))
    found = checked(digits_apart(axes_apart(kernel)))
    assert [axis.label for axis in found.iters] == list(wanted)
    assert all("floordiv" not in place for place in places(found))
    symbols = dict.fromkeys(kernel.symbol_names, 4)
    sizes = [n.evaluate(symbols) for n in kernel.tensors[0].shape]
    x = np.arange(prod(sizes), dtype=np.float32).reshape(sizes)
    for mine, theirs in zip(
        region.run(found, [x], symbols), region.run(kernel, [x], symbols), strict=True
    ):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


def test_an_axis_that_its_divisor_does_not_divide_stays() -> None:
    kernel = kernel_of(reading((("h", 10), ("t", 5)), [3, 5], "d0 floordiv 4, d1"))
    assert axes_apart(kernel) is kernel


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_any_digits_are_read_where_they_were(data: st.DataObject) -> None:
    """Reads at random sums of axes and offsets, inside of a tensor."""
    draw = data.draw
    sizes = [draw(st.integers(1, 6)) for _ in range(3)]
    steps = [draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 24])) for _ in range(3)]
    offsets = draw(st.lists(st.integers(0, 30), min_size=1, max_size=3))
    most = max(offsets) + sum(s * (n - 1) for s, n in zip(steps, sizes, strict=True))
    length = draw(st.integers(most + 1, most + 40))
    divisor = draw(st.sampled_from([1, 2, 3]))
    assume(sizes[0] % divisor == 0)
    axes = [*zip("abc", sizes, strict=True)]
    inner = " + ".join(f"d{i} * {s}" for i, s in enumerate(steps) if i or divisor == 1)
    first = "0" if divisor == 1 else f"d0 floordiv {divisor}"
    tail = "" if divisor == 1 else f" + (d0 mod {divisor}) * {steps[0]}"
    reads = [f"{first}, {inner}{tail} + {offset}" for offset in offsets]
    kernel = kernel_of(reading(axes, [sizes[0], length], *reads))
    found = digits_apart(axes_apart(kernel))
    if found is not kernel:
        checked(found)
    x = np.arange(sizes[0] * length, dtype=np.float32).reshape(sizes[0], length)
    np.testing.assert_array_equal(
        np.asarray(region.run(found, [x], {})[0]), np.asarray(region.run(kernel, [x], {})[0])
    )
