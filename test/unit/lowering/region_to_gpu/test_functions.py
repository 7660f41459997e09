"""Every function of elements through all layers, in one kernel that chooses by a number a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32

from polyc.dialects import frontend
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback import tile as tiles
from polyc.playback.functions import Array
from polyc.playback.gpu.simulate import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import leave_only
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

FUNCTIONS = (*frontend.UNARY_FUNCTIONS, *frontend.BINARY_FUNCTIONS)
TO_REGION = ("frontend-to-tiny", "tiny-to-index", "index-to-region")


def every_function(names: Sequence[str]) -> ModuleOp:
    """Row i of the result is function i of two matrices' rows."""
    s = Sketch("f", f32)
    x, y, which = (s.input(n, len(names), w) for n, w in (("x", "N"), ("y", "N"), ("which", 1)))
    found = x
    for number, name in enumerate(names):
        made = s.fn(name, *((x,) if name in frontend.UNARY_FUNCTIONS else (x, y)))
        chosen = s.add(frontend.CompareOp("eq", which, s.number(float(number))))
        found = s.add(frontend.SelectOp(chosen, made, found))
    return s.done(z=found)


def inputs(rows: int, columns: int) -> list[Array]:
    """Numbers of sizes from 2**-20 to 2**20, and among them infinities, NaN and zeros."""
    rng = np.random.default_rng(5)
    shape = (rows, columns)
    pair = [
        (rng.uniform(-1, 1, shape) * np.exp2(rng.integers(-20, 20, shape))).astype(np.float32)
        for _ in range(2)
    ]
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -2.5], np.float32)
    for array in pair:
        at = rng.random(shape) < 0.15
        array[at] = rng.choice(special, int(at.sum()))
    return [*pair, np.arange(rows, dtype=np.float32)[:, None]]


def test_every_function_is_one_thing_at_every_layer() -> None:
    """Down to the threads; the kernel compiles for both architectures without a spill."""
    module, arch = every_function(FUNCTIONS), "sm_80"
    sizes, arrays = {"N": 24}, inputs(len(FUNCTIONS), 24)
    expected = meant(module, arrays, sizes)
    for name in TO_REGION:
        run_pass(make_context(), build(name, arch), module)
        found = play(module, "f", arrays, sizes)
        assert found is not None
        assert_agree(found, expected, name)
    run_pass(make_context(), build("plan-select", arch), module)
    variant = find(module, ScheduleOp)[-1].variant.data
    leave_only(module, variant)
    run_pass(make_context(), build("region-to-gpu", arch), module)
    found = tiles.run(only(module, gpu.ModuleOp), arrays, sizes, f"f_{variant}")
    assert_agree(found, expected, "tiles")
    finish(module)
    kernels = only(module, gpu.ModuleOp)
    result = simulate(kernels, arrays, sizes, f"f_{variant}")
    result.check()
    assert_agree(result.outputs, expected, "threads")
    source = cuda_source(kernels)
    calls = "__noinline__" in source  # The long way of a sine has a frame.
    for target in (arch, "sm_90a"):
        built = nvrtc.compile_cuda(source, target)
        assert not built.warnings()
        for info in built.kernels.values():
            assert info.spill_bytes == 0 and (calls or info.stack == 0)


def reduced(*axes: int) -> ModuleOp:
    """A product, and whether any, or all, elements are of a kind, over axes."""
    s = Sketch("f", f32)
    x = s.input("x", "M", "N")
    product = s.reduce("prod", x, *axes)
    some = s.reduce("any", s.add(frontend.ClassifyOp("isnan", x)), *axes)
    every = s.reduce("all", s.add(frontend.ClassifyOp("isfinite", x)), *axes)
    beyond = s.reduce("any", s.add(frontend.ClassifyOp("isinf", x)), *axes)
    return s.done(product=product, some=some, every=every, beyond=beyond)


def normed() -> ModuleOp:
    """Rows over their product, which one kernel keeps."""
    s = Sketch("f", f32)
    x = s.input("x", "M", "N")
    return s.done(y=s.fn("div", x, s.reduce("prod", x, 1, keep=True)))


CASES = {
    "rows": (reduced(1), "any", {"M": 37, "N": 45}),
    "columns": (reduced(0), "scalar", {"M": 37, "N": 45}),
    "all": (reduced(0, 1), "scalar_1x1024_by32_spread108", {"M": 5, "N": 6560}),
    "rows kept by warps": (normed(), "warp_256", {"M": 9, "N": 40}),
    "rows kept by blocks": (normed(), "block_2048", {"M": 3, "N": 1288}),
    "rows of any size": (normed(), "any", {"M": 3, "N": 45}),
}
"""Programs, the schedule of one kernel each, and sizes that it takes."""


@pytest.mark.parametrize("name", CASES)
def test_products_any_and_all_at_every_layer(name: str) -> None:
    """With NaN, infinities and zeros in some; in threads, with tails."""
    source, variant, sizes = CASES[name]
    module, arch = source.clone(), "sm_80"
    rng, shape = np.random.default_rng(1), (sizes["M"], sizes["N"])
    array = (rng.choice([-1, 1], shape) * rng.uniform(0.999, 1.001, shape)).astype(np.float32)
    if name != "all":
        array[0, 5], array[1, 6], array[-1, 8] = np.nan, np.inf, 0.0
    expected = meant(module, [array], sizes)
    for layer in TO_REGION:
        run_pass(make_context(), build(layer, arch), module)
        found = play(module, "f", [array], sizes)
        assert found is not None
        assert_agree(found, expected, layer)
    run_pass(make_context(), build("plan-select", arch), module)
    leave_only(module, variant)
    for layer in ("region-expand-together", "region-to-gpu"):
        run_pass(make_context(), build(layer, arch), module)
    kernel = f"f_{variant}"
    found = tiles.run(only(module, gpu.ModuleOp), [array], sizes, kernel)
    assert_agree(found, expected, "tiles")
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), [array], sizes, kernel)
    result.check()
    assert_agree(result.outputs, expected, "threads")
    if name == "rows kept by blocks":
        built = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
        assert not built.warnings()
        assert all((info.spill_bytes, info.stack) == (0, 0) for info in built.kernels.values())
