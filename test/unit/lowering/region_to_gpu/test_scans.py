"""Scans through all layers, down to threads: every type, function and way, before and after ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, VectorType, bf16, f16, f32, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import FLOATS, INTEGERS, ui8
from polyc.dialects.common.scans import SCANS
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as kernels
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback import tile as tiles
from polyc.playback.functions import DTYPES, Array
from polyc.playback.gpu.simulate import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

BEFORE = ("frontend-to-tiny", "tiny-to-index", "index-to-region", "region-merge-axes")


def numbers(kind: Attribute, shape: Sequence[int]) -> Array:
    """Numbers of all of a type: integers that wrap, and among real ones infinities and NaN."""
    rng, dtype = np.random.default_rng(len(shape)), DTYPES[kind]
    if kind in INTEGERS:
        ends = np.iinfo(dtype)
        return rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    found = rng.standard_normal(shape).astype(np.float32)
    at = rng.random(shape) < 0.02
    found[at] = rng.choice(np.array([np.inf, -np.inf, np.nan, 0.0], np.float32), int(at.sum()))
    return found.astype(dtype)


def scanned(
    kind: Attribute, fn: str, shape: Sequence[Size], axis: int, reverse: bool, exclusive: bool
) -> ModuleOp:
    s = Sketch("f", kind)
    x = s.input("x", *shape)
    return s.done(y=s.add(frontend.ScanOp(fn, x, axis, reverse=reverse, exclusive=exclusive)))


def through(
    module: ModuleOp,
    arrays: Sequence[Array],
    sizes: dict[str, int],
    variant: str | None = None,
    arch: str = "sm_90a",
    compiles: bool = False,
) -> ModuleOp:
    """Every layer agrees with what is meant, under a variant; the module before the kernels."""
    expected = meant(module, arrays, sizes)
    for name in BEFORE:
        run_pass(make_context(), build(name, arch), module)
        found = play(module, "f", arrays, sizes)
        assert found is not None
        assert_agree(found, expected, name)
    run_pass(make_context(), build("plan-select", arch), module)
    plans = find(module, ScheduleOp)
    regions = module.clone()
    chosen = None
    if len(find(module, KernelOp)) == 1:
        chosen = f"f_{variant or plans[-1].variant.data}"
        for plan in plans:
            if f"f_{plan.variant.data}" != chosen and not compiles:
                plan.detach()
    run_pass(make_context(), build("region-to-gpu", arch), module)
    kernels = only(module, gpu.ModuleOp)
    assert_agree(tiles.run(kernels, arrays, sizes, chosen), expected, "tiles")
    finish(module)
    kernels = only(module, gpu.ModuleOp)
    result = simulate(kernels, arrays, sizes, chosen)
    result.check()
    assert_agree(result.outputs, expected, "threads")
    if compiles:
        built = nvrtc.compile_cuda(cuda_source(kernels), arch)
        assert not built.warnings()
        assert all((one.spill_bytes, one.stack) == (0, 0) for one in built.kernels.values())
    return regions


SHAPES: tuple[tuple[int, ...], ...] = ((3, 5, 7), (4,), (1, 3), (3, 1), (40, 9))
WAYS = list(product((False, True), (False, True)))


@pytest.mark.turns(4)
@pytest.mark.parametrize("number", range(len(FLOATS + INTEGERS) * 2))
def test_a_scan_is_one_thing_at_every_layer(number: int) -> None:
    """All types and functions, along any axis, forward or in reverse, with an element or before."""
    kind = (*FLOATS, *INTEGERS)[number // 2]
    shape, (reverse, exclusive) = SHAPES[number % 5], WAYS[number // 2 % 4]
    names = ["M", "N", "K"][: len(shape)]
    axis = number % len(shape)
    fn = SCANS[(number + number // 4) % len(SCANS)]
    module = scanned(kind, fn, names, axis, reverse, exclusive)
    through(module, [numbers(kind, shape)], dict(zip(names, shape, strict=True)))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (1, 1)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_axes_of_no_point_and_of_one(shape: tuple[int, ...], exclusive: bool) -> None:
    for axis in range(len(shape)):
        module = scanned(f16, "sum", list(shape), axis, False, exclusive)
        through(module, [numbers(f16, shape)], {})
    sizes = dict(zip("MN", shape, strict=False))
    module = scanned(i64, "max", list(sizes), 0, True, exclusive)
    through(module, [numbers(i64, shape)], sizes)


ROWS = {
    # A few lanes, a warp, a block, and tiles that go on from each other; by vectors and without.
    "vector4_128": 100,
    "vector4_512": 300,
    "vector4_1024": 600,
    "vector4": 5000,
    "scalar_32": 31,
    "scalar_128": 77,
    "scalar_256": 200,
    "scalar": 1100,
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("variant", list(ROWS))
def test_threads_share_lines(variant: str, reverse: bool) -> None:
    number = list(ROWS).index(variant) + reverse
    exclusive = number // 2 % 2 == 1
    kind, length = (f32, i32)[number % 2], ROWS[variant]
    shape = (2 if length > 1000 else 35, length)
    module = scanned(kind, SCANS[number % 4], ["M", "N"], 1, reverse, exclusive)
    through(module, [numbers(kind, shape)], {"M": shape[0], "N": length}, variant)


@pytest.mark.parametrize(
    ("kind", "fn", "shape", "variant"),
    [
        (f16, "sum", (9, 200), "vector8_256"),
        (bf16, "prod", (3, 2000), "vector8_2048"),
        (i8, "sum", (9, 200), "vector4_512"),
        (ui8, "max", (3, 5, 200), "vector4_512"),
    ],
)
def test_narrow_types_are_scanned_in_32_bits(
    kind: Attribute, fn: str, shape: tuple[int, ...], variant: str
) -> None:
    names = ["M", "N", "K"][: len(shape)]
    module = scanned(kind, fn, names, len(shape) - 1, True, True)
    through(module, [numbers(kind, shape)], dict(zip(names, shape, strict=True)), variant)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("axis", [0, 1])
def test_every_way_compiles_without_a_spill(axis: int, arch: str) -> None:
    module = scanned(f16, "max", ["M", "N"], axis, bool(axis), True)
    through(module, [numbers(f16, (6, 40))], {"M": 6, "N": 40}, None, arch, compiles=True)


# Around a scan --------------------------------------------------------------------------------


def _scan(s: Sketch, x: SSAValue, axis: int = 1, fn: str = "sum", **how: bool) -> SSAValue:
    return s.add(frontend.ScanOp(fn, x, axis, **how))


def _fused(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    return {"y": s.fn("add", s.fn("exp", _scan(s, s.fn("neg", x))), x)}


def _beside(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    found = _scan(s, x)
    return {"y": found, "z": s.fn("neg", x)}


def _two(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    return {"y": s.fn("mul", _scan(s, x), _scan(s, x, 0))}


def _nested(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    return {"y": _scan(s, _scan(s, x), 0, "max")}


def _of_sums(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    return {"y": _scan(s, s.add(frontend.SoftmaxOp(x, [1])))}


def _over_sums(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    return {"y": s.fn("div", _scan(s, x), s.reduce("sum", x, 1, keep=True))}


def _summed(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    found = _scan(s, x)
    return {"y": s.reduce("max", found, 1), "z": s.add(frontend.PermuteOp(found, [1, 0]))}


def _padded(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    before = s.add(frontend.PadOp(x, [0, 1], [0, 2], 1.0))
    return {"y": _scan(s, before), "z": s.add(frontend.PadOp(_scan(s, x), [0, 1], [0, 2], 1.0))}


def _turned(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    return {"y": _scan(s, s.add(frontend.PermuteOp(x, [1, 0])))}


def _repeated(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    row = s.reduce("sum", x, 0)
    wide = s.add(frontend.ExpandOp(row, [1], frontend.tensor(["M", "N"], f32)))
    return {"y": _scan(s, wide, 0), "z": _scan(s, wide)}


def _reshaped(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    flat = s.add(frontend.ReshapeOp(s.fn("exp", x), [Dim.sym("M") * Dim.sym("N")]))
    return {"y": _scan(s, flat, 0)}


def _multiplied(s: Sketch, x: SSAValue) -> dict[str, SSAValue]:
    w = s.input("w", "N", "K")
    return {"y": s.gemm(_scan(s, x), w), "z": _scan(s, s.gemm(x, w))}


Made = Callable[[Sketch, SSAValue], dict[str, SSAValue]]

AROUND: list[tuple[Made, int]] = [
    (_fused, 1),
    (_beside, 1),
    (_two, 2),
    (_nested, 2),
    (_of_sums, 3),
    (_over_sums, 2),
    (_summed, 3),
    (_padded, 2),
    (_turned, 1),
    (_repeated, 3),
    (_reshaped, 2),
    (_multiplied, 4),
]
"""What stands around scans, and the kernels that it takes: each has one scan, or none."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(("made", "count"), AROUND)
def test_a_kernel_has_one_scan_and_what_is_elementwise_around_it(made: Made, count: int) -> None:
    s = Sketch("f", f32)
    x = s.input("x", "M", "N")
    module = s.done(**made(s, x))
    rng: Any = np.random.default_rng(1)
    arrays = [rng.standard_normal((4, 6)).astype(np.float32)]
    sizes = {"M": 4, "N": 6}
    if len(s.names) > 1:
        arrays.append(rng.standard_normal((6, 5)).astype(np.float32))
        sizes["K"] = 5
    regions = through(module, arrays, sizes)
    assert len(find(regions, KernelOp)) == count


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [f16, f32])
def test_what_is_called_by_vectors_reads_and_writes_them(
    kind: Attribute, axis: int, reverse: bool
) -> None:
    """An element in an access of its own is right too, and slow: nothing else shows it."""
    module = scanned(kind, "sum", ["M", "N"], axis, reverse, False)
    for name in (*BEFORE, "plan-select", "region-to-gpu"):
        run_pass(make_context(), build(name, "sm_90a"), module)
    finish(module)
    widths: dict[str, set[int]] = {}
    for kernel in find(module, kernels.KernelOp):
        name = kernel.sym_name.data.removeprefix("f_")
        x, y = kernel.body.block.args[:2]
        accesses = [op.result for op in find(kernel, hw.LoadGlobalOp) if op.tensor is x]
        accesses += [op.value for op in find(kernel, hw.StoreGlobalOp) if op.tensor is y]
        assert accesses
        kinds = [one.type for one in accesses]
        widths[name] = {t.get_shape()[0] if isinstance(t, VectorType) else 1 for t in kinds}
    for name, found in widths.items():
        wide = int(name[6]) if name.startswith("vector") else 1
        assert found == {wide}, name
    assert any("chain" in name for name in widths)
