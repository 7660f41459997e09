"""Rows whose results lie across them in memory: a tile goes through shared memory (S8, S9)."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.rows.recognise import find_rows
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.lowering.index_to_region import IndexToRegion
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import inputs_of, tensor
from polyc.test.support.gpu_text import find, only
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context


def channels_last(n: int, high: int, wide: int, c: int, element: str) -> str:
    """A softmax over the channels of what lies channels last, stored as ``[N, C, H, W]``."""
    x, y = tensor((n, high, wide, c), element), tensor((n, c, high, wide), element)
    return f"""frontend.graph @g(%X: {x}) -> (Y: {y}) {{
  %0 = frontend.permute %X perm [0, 3, 1, 2] : {x} -> {y}
  %1 = frontend.softmax %0 axes [1] : {y}
  frontend.output %1 : {y}
}}
"""


def phases(n: int, size: int, c: int, element: str) -> str:
    """The same of pixels whose four phases lie side by side in ``[N, H, W, 4 C]``, as a transposed
    convolution stores them, with a bias of each channel behind."""
    more, out = size + 1, 2 * size + 1
    x, parts = (n, more, more, 4 * c), (n, more, more, 2, 2, c)
    apart, whole, y = (n, c, more, 2, more, 2), (n, c, 2 * more, 2 * more), (n, c, out, out)
    at = f"[0:{n}, 0:{c}, 1:{2 * more}, 1:{2 * more}]"
    X, P, A, W, Y, B = (tensor(s, element) for s in (x, parts, apart, whole, y, (c, 1, 1)))
    return f"""frontend.graph @g(%X: {X}, %B: {B}) -> (Y: {Y}) {{
  %0 = frontend.reshape %X : {X} -> {P}
  %1 = frontend.permute %0 perm [0, 5, 1, 3, 2, 4] : {P} -> {A}
  %2 = frontend.reshape %1 : {A} -> {W}
  %3 = frontend.slice %2 {at} : {W} -> {Y}
  %4 = frontend.softmax %3 axes [1] : {Y}
  %5 = frontend.elementwise add %4, %B : ({Y}, {B}) -> {Y}
  frontend.output %5 : {Y}
}}
"""


GRAPHS = {
    "lines of whole vectors": channels_last(2, 3, 24, 48, "f32"),
    "lines of any length": channels_last(1, 2, 19, 40, "f16"),
    "phases": phases(1, 8, 64, "f32"),
    "phases of 16 bits": phases(2, 5, 32, "f16"),
}


def region_of(text: str) -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, text, "t.mlir")
    for name in ("frontend-to-tiny", "tiny-to-index"):
        build(name, "").apply(ctx, module)
    IndexToRegion(fuse="legal").apply(ctx, module)
    for name in ("region-srnf", "region-inline-deferred", "region-merge-axes"):
        build(name, "").apply(ctx, module)
    return module


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", GRAPHS)
def test_results_are_turned_on_their_way(name: str, arch: str) -> None:
    """As the region's, without a race; a tile has a sector of neighbours at least."""
    module = region_of(GRAPHS[name])
    rows = find_rows(only(module, KernelOp))
    assert not rows.has_ones
    size = 4 if "f32" in GRAPHS[name] else 2
    assert rows.across == size and not rows.turned
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    build("plan-select", arch).apply(make_context(), module)
    plan = only(module, ScheduleOp)
    assert plan.pattern == "rows" and plan.tile_sizes[0] * size >= 32
    build("region-to-gpu", arch).apply(make_context(), module)
    kinds = [[value.type for value in op.inputs] for op in find(module, tile.MapOp)]
    assert sum(isinstance(kind, SharedType) for some in kinds for kind in some) == 1
    for one in STAGES["gpu"]:
        build(one, arch).apply(make_context(), module)
    kernels = gpu_module_of(module)
    found = simulate(kernels, inputs, {}, schedule="random", completion="random")
    found.check()
    np.testing.assert_allclose(
        np.asarray(found.outputs[0], np.float64), np.asarray(wanted[0], np.float64), atol=1e-6
    )
    for made in nvrtc.compile_each(cuda_units(kernels), arch):
        assert {(info.spill_bytes, info.stack) for info in made.kernels.values()} == {(0, 0)}
