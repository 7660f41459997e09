"""Merged axes of regions: which merge, which do not, and that every element is where it was."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp, ReduceTogetherOp, SortOp
from polyc.dialects.region.types import MemRefType, ValType
from polyc.passes.pipeline import build
from polyc.playback import region
from polyc.playback.functions import dtype_of
from polyc.rewriting.region.merge_axes import merged, without_unread
from polyc.test.fuzz.layers import REFUSED
from polyc.test.fuzz.random_programs import drawn
from polyc.test.support.gemm_programs import ABOVE, Product, one_tap, regions
from polyc.test.support.gpu_text import find, only, parsed


def kernel_of(text: str) -> KernelOp:
    """The only region of a graph."""
    (found,) = regions(text).ops
    assert isinstance(found, KernelOp)
    found.detach()
    return found


def axes(kernel: KernelOp) -> list[str]:
    """The axes of the output, and the shapes of the tensors."""
    kinds = [cast(MemRefType, a.type) for a in kernel.ins]
    shapes = [[str(size) for size in kind.shape] for kind in (*kinds, *kernel.outs)]
    return [", ".join(a.label for a in kernel.iters), *("x".join(s) or "1" for s in shapes)]


MERGED = {
    "rows of several axes": (
        Product(("N", "H", "W", "C"), ("C", "F"), ("N", "H", "W", "F")).text,
        ["nhw, f", "H * N * WxC", "CxF", "H * N * WxF"],
    ),
    "with what the epilogue reads": (
        Product(
            ("N", "H", "C"),
            ("C", "F"),
            ("N", "H", "F"),
            more=((("N", "H", "F"), "add"), (("N", "H", 1), "mul"), (("F",), "max")),
        ).text,
        ["nh, f", "H * NxC", "CxF", "H * NxF", "H * N", "F", "H * NxF"],
    ),
    "a batch of several axes": (
        Product(("B", "H", "M", "K"), ("B", "H", "K", "N"), ("B", "H", "M", "N")).text,
        ["bh, m, n", "B * HxMxK", "B * HxKxN", "B * HxMxN"],
    ),
    "a batch and the rows of one factor": (
        Product(("B", "M", "K"), ("K", "N"), ("B", "M", "N")).text,
        ["bm, n", "B * MxK", "KxN", "B * MxN"],
    ),
    "the pixels of one tap": (
        one_tap("NHWC", ("F", 1, 1, "C"), "NHWF", "nhwc"),
        ["nhw, f", "H * N * WxC", "FxC", "H * N * WxF"],
    ),
    "the pixels of an image's planes": (
        one_tap("NCHW", ("F", "C", 1, 1), "NFHW", "nchw"),
        ["n, f, hw", "NxCxH * W", "FxC", "NxFxH * W"],
    ),
}


@pytest.mark.parametrize(("text", "wanted"), MERGED.values(), ids=MERGED)
def test_axes_that_lie_together_everywhere_are_one(text: str, wanted: list[str]) -> None:
    found = merged(kernel_of(text))
    found.verify()
    assert axes(found) == wanted


SEVERAL = """frontend.graph @soft(%X: !frontend.tensor<[B, H, W, C], f32>)
    -> (Y: !frontend.tensor<[B, H, W, C], f32>) {
  %y = frontend.softmax %X axes [1, 2] : !frontend.tensor<[B, H, W, C], f32>
  frontend.output %y : !frontend.tensor<[B, H, W, C], f32>
}"""


def test_the_axes_of_a_softmax_are_one() -> None:
    """Its maximum and its sum are one reduction, whose parts and states merge with it."""
    kernel = kernel_of(SEVERAL)
    (joined,) = find(kernel, ReduceTogetherOp)
    assert joined.labels == ("h", "w")
    found = merged(kernel)
    found.verify()
    assert axes(found) == ["b, hw, c", "BxH * WxC", "BxH * WxC"]
    (joined,) = find(found, ReduceTogetherOp)
    assert joined.labels == ("hw",)
    assert_same(kernel, {"B": 2, "H": 3, "W": 5, "C": 4})


GROUPS = """
region.kernel @k iters [n: 1, g: 4] ins(%A: !region.memref<[{shape}], f32, align 16>)
    outs(M: !region.memref<[1, 4], f32, align 16> gmem) {{
  %a = region.read %A affine_map<(d0, d1, d2) -> ({places})> : !region.memref<[{shape}], f32, align 16> -> !region.val<[g: 4, c: 3, p: {pixels}], f32>
  %m = region.reduce sum %a over [c, p] init 0.0 acc f32 name "acc" : !region.val<[g: 4, c: 3, p: {pixels}], f32> -> !region.val<[g: 4], f32>
  %c = region.broadcast_in_dim %m dims [1] : !region.val<[g: 4], f32> -> !region.val<[n: 1, g: 4], f32>
  region.yield %c : !region.val<[n: 1, g: 4], f32>
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("shape", "places", "wanted"),
    [
        ("12, 10", "((d0 * 3) + d1), d2", ["g", "4x30", "4"]),
        ("120", "((d0 * 30) + (d1 * 10)) + d2", ["g", "4x30", "4"]),
        # Channels inside: what a group sums does not lie together.
        ("100, 12", "d2, ((d0 * 3) + d1)", ["g", "100x4x3", "4"]),
        # Few points are a window, which a thread has alone, and which lies along a line.
        ("10, 12", "d2, ((d0 * 3) + d1)", ["g", "10x12", "4"]),
        # Neighbours are one channel of each group: no two axes that are summed follow each other.
        ("12, 10", "(d0 + (d1 * 4)), d2", ["g", "3x4x10", "4"]),
        # Pixels that are a part of a line do not follow the next one.
        ("12, 12", "((d0 * 3) + d1), (d2 + 1)", ["g", "12x12", "4"]),
    ],
)
def test_channels_of_a_group_are_one_with_their_pixels(
    shape: str, places: str, wanted: list[str]
) -> None:
    """A dimension that groups and channels count is seen as one of each; the image is one point
    along which nothing is summed."""
    text = GROUPS.format(shape=shape, places=places, pixels=100 if "100" in shape else 10)
    kernel = next(op for op in parsed(text).walk() if isinstance(op, KernelOp))
    kernel.detach()
    found = merged(kernel)
    found.verify()
    assert axes(found) == wanted
    assert_same(kernel, {})


APART = {
    "a plain product": Product(("M", "K"), ("K", "N"), ("M", "N")).text,
    "rows stored across": Product(
        ("B", "K", "M"), ("K", "N"), ("B", "M", "N"), ("transpose_a",)
    ).text,
    "an epilogue that reads one of two": Product(
        ("B", "M", "K"), ("K", "N"), ("B", "M", "N"), more=((("M", 1), "add"),)
    ).text,
    "factors with an axis each": Product(
        ("B", 1, "M", "K"), ("H", "K", "N"), ("B", "H", "M", "N"), more=((("H", "M", 1), "add"),)
    ).text,
}


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_axes_that_some_tensor_tells_apart_stay(text: str) -> None:
    kernel = kernel_of(text)
    assert merged(kernel) is kernel


WINDOWS = """
region.kernel @k iters [n: N, m: M] ins(%A: !region.memref<[N + 1, M], f32, align 16>, %B: !region.memref<[N, M], f32, align 16>)
    outs(C: !region.memref<[N, M], f32, align 16> gmem) {{
  %a = region.read %A {read} : !region.memref<[N + 1, M], f32, align 16> -> !region.val<[n: N, m: M], f32>
  %b = region.read %B {other} : !region.memref<[N, M], f32, align 16> -> !region.val<[n: N, m: M], f32>
  %c = region.binary add %a, %b : !region.val<[n: N, m: M], f32>
  region.yield %c : !region.val<[n: N, m: M], f32>
}}
"""  # noqa: E501
PLAIN = "affine_map<(d0, d1)[s0, s1] -> (d0, d1)>"


@pytest.mark.parametrize(
    ("read", "other", "joined"),
    [
        (PLAIN, PLAIN, True),
        (PLAIN.replace("(d0, d1)>", "(d0 + 1, d1)>"), PLAIN, False),
        (PLAIN, f"{PLAIN} where affine_set<(d0, d1)[s0, s1] : (d0 - 1 >= 0)> else 0.0", False),
        (PLAIN, f"{PLAIN} where affine_set<(d0, d1)[s0, s1] : (s0 - 5 >= 0)> else 0.0", True),
    ],
    ids=["as they lie", "an offset", "a guard of an axis", "a guard of a size"],
)
def test_offsets_and_guards_of_an_axis_keep_it(read: str, other: str, joined: bool) -> None:
    (kernel,) = parsed(WINDOWS.format(read=read, other=other)).ops
    assert isinstance(kernel, KernelOp)
    kernel.detach()
    found = merged(kernel)
    assert (found is not kernel) == joined
    assert_same(kernel, {"N": 6, "M": 4})


ONE_POINT = """
region.kernel @k iters [n: N, i: 1, m: M, j: 1]
    ins(%A: !region.memref<[M, 2 * N], f16, align 16>)
    outs(C: !region.memref<[N, 1, M, 1], f16, align 16> gmem) {
  %a = region.read %A affine_map<(d0, d1, d2, d3)[s0, s1] -> (d2 + d1, d0 * 2 + d3)> : !region.memref<[M, 2 * N], f16, align 16> -> !region.val<[n: N, i: 1, m: M, j: 1], f16>
  region.yield %a : !region.val<[n: N, i: 1, m: M, j: 1], f16>
}
"""  # noqa: E501


def test_axes_of_one_point_of_a_copy_are_left_out() -> None:
    """Its innermost axis is then one that loops turn."""
    (kernel,) = parsed(ONE_POINT).ops
    assert isinstance(kernel, KernelOp)
    kernel.detach()
    assert [axis.label for axis in merged(kernel).iters] == ["n", "m"]
    assert_same(kernel, {"N": 6, "M": 4})


def test_a_sort_keeps_its_axes_of_one_point() -> None:
    """A row of one element is sorted into an axis of one point."""
    found = regions("""
frontend.graph @f(%x: !frontend.tensor<[1, 1], f16>) -> !frontend.tensor<[1, 1], i64> {
  %v, %p = frontend.sort %x axis 1:
    (!frontend.tensor<[1, 1], f16>) -> (!frontend.tensor<[1, 1], f16>, !frontend.tensor<[1, 1], i64>)
  frontend.output %p : !frontend.tensor<[1, 1], i64>
}
""")  # noqa: E501
    kernel = find(found, SortOp)[0].parent_op()
    assert isinstance(kernel, KernelOp)
    kernel.detach()
    assert [axis.size.constant() for axis in merged(kernel).iters] == [1, 1]
    merged(kernel).verify()


@pytest.mark.parametrize("images", ["N", "1"])
def test_axes_of_one_point_of_what_is_summed_are_left_out(images: str) -> None:
    """The mean of an image's pixels, whose sizes are kept: but for the outermost axis."""
    kernel = kernel_of(f"""
frontend.graph @f(%x: !frontend.tensor<[{images}, 6, 7, 5], f16>) -> !frontend.tensor<[{images}, 6, 1, 1], f16> {{
  %0 = frontend.reduce mean %x axes [2, 3] keepdims : !frontend.tensor<[{images}, 6, 7, 5], f16> -> !frontend.tensor<[{images}, 6, 1, 1], f16>
  frontend.output %0 : !frontend.tensor<[{images}, 6, 1, 1], f16>
}}
""")  # noqa: E501
    found = merged(kernel)
    assert all(axis.size.constant() != 1 for axis in list(found.iters)[1:])
    assert_same(kernel, {"N": 3} if images == "N" else {})


def test_a_copy_of_one_point_keeps_an_axis() -> None:
    text = ONE_POINT.replace("n: N", "n: 1").replace("m: M", "m: 1")
    text = text.replace("[N, 1, M, 1]", "[1, 1, 1, 1]").replace("[M, 2 * N]", "[1, 2]")
    (kernel,) = parsed(text.replace("[s0, s1]", "")).ops
    assert isinstance(kernel, KernelOp)
    kernel.detach()
    assert [axis.label for axis in merged(kernel).iters] == ["n"]
    assert_same(kernel, {})


def labels(kernel: KernelOp) -> set[str]:
    """The axes of all that a region reads and computes."""
    kinds = (value.type for op in kernel.walk() for value in op.results)
    return {label for kind in kinds if isinstance(kind, ValType) for label in kind.labels}


def assert_same(kernel: KernelOp, sizes: Mapping[str, int]) -> bool:
    """The merged region gives the same bytes for the same bytes; whether anything merged."""
    found = merged(kernel)
    if found is kernel:
        return False
    rng = np.random.default_rng(0)
    inputs: list[NDArray[Any]] = []
    for arg in kernel.ins:
        kind = cast(MemRefType, arg.type)
        made = rng.standard_normal([d.evaluate(sizes) for d in kind.shape])
        inputs.append(made.astype(dtype_of(kind.element_type)))
    assert found.tensors == kernel.tensors
    # A summed axis of one point is left out of tensors that stay as they are seen.
    assert found.seen != kernel.seen or labels(found) < labels(kernel)
    wanted, others = region.run(kernel, inputs, sizes), region.run(found, inputs, sizes)
    for mine, theirs in zip(others, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    return True


def test_random_programs_compute_the_same(ctx: Context) -> None:
    """Every region of random graphs, whose slices, pads, windows and splits keep axes apart."""
    joined = 0
    for number in range(60):
        program = drawn(random.Random(f"merge {number}"))
        module = program.module
        try:
            for name in ABOVE:
                build(name, "").apply(ctx, module)
        except PolycError as error:
            assert error.kind in REFUSED
            continue
        for op in list(module.ops):
            if isinstance(op, KernelOp):
                op.detach()
                joined += assert_same(op, program.sizes)
    assert joined >= 10


@pytest.mark.parametrize(
    ("op", "x", "i", "y", "wanted"),
    [
        ("gather %x, %i axis 1 clamp", "2, 5, 3, 4", "7", "2, 7, 3, 4", "i0, i1, i2i3"),
        ("gather_nd %x, %i batch 0 clamp", "4, 5, 2, 3", "6, 2", "6, 2, 3", "i0, i1i2"),
        ("gather_elements %x, %i axis 0 clamp", "4, 5, 3", "4, 5, 3", "4, 5, 3", "i0, i1i2"),
    ],
)
def test_axes_beside_those_of_indices_are_one(op: str, x: str, i: str, y: str, wanted: str) -> None:
    """What indices go along, one axis or several, lies as it lay."""
    one, at, out = (
        f"!frontend.tensor<[{s}], {t}>" for s, t in ((x, "f32"), (i, "i64"), (y, "f32"))
    )
    text = f"""frontend.graph @g(%x: {one}, %i: {at}) -> {out} {{
  %y = frontend.{op} : ({one}, {at}) -> {out}
  frontend.output %y : {out}
}}"""
    kernel = kernel_of(text)
    found = merged(kernel)
    found.verify()
    assert axes(found)[0] == wanted
    draw = np.random.default_rng(7)
    shapes = [[int(n) for n in s.split(", ")] for s in (x, i)]
    arrays = [draw.random(shapes[0], np.float32), draw.integers(-2, 9, shapes[1])]
    (before,) = region.run(kernel, arrays, {})
    (after,) = region.run(found, arrays, {})
    np.testing.assert_array_equal(np.asarray(before).reshape(-1), np.asarray(after).reshape(-1))


def unread(rows: int, guard: str = "") -> KernelOp:
    """One sequence, ``b``, of which no read says where it is; a tensor of rows is read twice."""
    x, out = (f"!region.memref<[1, {n}, 8], f32, align 16>" for n in (rows, 4))
    two, one = "!region.val<[t: 4, d: 8], f32>", "!region.val<[d: 8], f32>"
    every = "!region.val<[b: 1, t: 4, d: 8], f32>"
    return only(
        parsed(f"""
region.kernel @g iters [b: 1, t: 4, d: 8] ins(%x: {x}) outs(y: {out} gmem) {{
  %0 = region.read %x affine_map<(d0, d1) -> (0, d0, d1)> {guard} : {x} -> {two}
  %1 = region.read %x affine_map<(d0) -> (0, 0, d0)> : {x} -> {one}
  %2 = region.broadcast_in_dim %1 dims [1] : {one} -> {two}
  %3 = region.binary add %0, %2 : {two}
  %4 = region.broadcast_in_dim %3 dims [1, 2] : {two} -> {every}
  region.yield %4 : {every}
}}
"""),
        KernelOp,
    )


def test_an_axis_of_one_point_that_nothing_reads_is_left_out() -> None:
    kernel = unread(4)
    found = without_unread(kernel)
    assert [axis.label for axis in found.iters] == ["t", "d"]
    inputs = [np.arange(32, dtype=np.float32).reshape(1, 4, 8)]
    np.testing.assert_array_equal(
        np.asarray(region.run(found, inputs, {})[0]), np.asarray(region.run(kernel, inputs, {})[0])
    )


def test_it_stays_where_a_tensor_would_be_seen_in_two_shapes() -> None:
    """One read goes along a dimension of one point under a guard, the other one does not."""
    kernel = unread(1, "where affine_set<(d0, d1) : (d0 == 0)> else 0.0")
    assert without_unread(kernel) is kernel
