"""Kernels that move boxes: what they give, what they ask of memory, and that nothing spills."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32

from polyc.dialects import frontend
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.families.loops.boxes import find_box
from polyc.families.loops.recognise import find_loops
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.boxes import box_grid
from polyc.passes.finish import finished
from polyc.passes.pipeline import ABOVE_GPU, ORDER, build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import leave_only
from polyc.tools.registry import make_context

MOVES: Sequence[tuple[tuple[int | str, ...], tuple[int, ...]]] = [
    ((70, 4, 32), (0, 2, 1)),
    (("N", 2), (1, 0)),
    ((40, 36, 3), (1, 0, 2)),
    ((5, 75, 3), (0, 2, 1)),
    ((3, 8, 16, 32), (3, 2, 1, 0)),
    ((33, 9, 7, 5), (2, 0, 3, 1)),
    ((1, 4, 32), (0, 2, 1)),
    ((0, 4, 32), (0, 2, 1)),
]
"""Boxes that go beyond the end of axes, lines across several, and more than two of them."""

NUMBERS = {"N": 600}


@cache
def tiles(shape: tuple[int | str, ...], order: tuple[int, ...], arch: str = "sm_80") -> ModuleOp:
    s = Sketch("moved", f16)
    module = s.done(y=s.permute(s.input("x", *shape), *order))
    for border in ABOVE_GPU:
        build(border, arch).apply(make_context(), module)
        if border == "plan-select":
            leave_only(module, "boxes")
    return module


def halves(shape: Sequence[int | str]) -> np.ndarray:
    sizes = [NUMBERS.get(str(n), n) for n in shape]
    count = int(np.prod([int(n) for n in sizes]))
    return np.arange(count, dtype=np.uint16).view(np.float16).reshape([int(n) for n in sizes])


@pytest.mark.parametrize(("shape", "order"), MOVES)
def test_boxes_move_every_element(shape: tuple[int | str, ...], order: tuple[int, ...]) -> None:
    """As tiles and as threads: whole bits, what lies beyond an axis left alone."""
    module, x = tiles(shape, order), halves(shape)
    sizes = {name: size for name, size in NUMBERS.items() if name in shape}
    found = only(module, gpu.ModuleOp)
    wanted = x.transpose(order).view(np.uint16)
    assert np.array_equal(np.asarray(tile.run(found, [x], sizes)[0]).view(np.uint16), wanted)
    for schedule in ("round-robin", "random"):
        result = simulate(finished(found), [x], sizes, schedule=schedule, seed=2)
        result.check()
        assert np.array_equal(result.outputs[0].view(np.uint16), wanted)


@pytest.mark.parametrize(
    ("shape", "order", "most"),
    [
        ((8192, 2), (1, 0), 1),
        ((4096, 8), (1, 0), 1),
        ((64, 128, 2), (1, 0, 2), 2),
        ((128, 4, 32), (0, 2, 1), 2),
        ((4096, 3), (1, 0), 2),
    ],
)
def test_boxes_move_whole_sectors(
    shape: tuple[int, ...], order: tuple[int, ...], most: int
) -> None:
    """All bytes of each sector, once, and banks that few threads meet in."""
    x = halves(shape)
    result = simulate(finished(only(tiles(shape, order), gpu.ModuleOp)), [x], {})
    result.check()
    counters = result.counters
    assert 32 * counters.global_read_sectors == counters.global_read_bytes == x.nbytes
    assert 32 * counters.global_write_sectors == counters.global_write_bytes == x.nbytes
    for access in counters.shared.values():
        assert access.wavefronts <= most * access.ideal, access.op


def test_blocks_are_boxes() -> None:
    """As many as there are of them along all axes."""
    s = Sketch("moved", f16)
    module = s.done(y=s.permute(s.input("x", 5, 75, 3), 0, 2, 1))
    for name in ORDER[: ORDER.index("plan-select") + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    kernel = only(module, KernelOp)
    box = find_box(find_loops(kernel), "sm_90a")
    assert box is not None
    blocks = [-(-a.size.evaluate({}) // box.extents[a.label]) for a in kernel.iters]
    grid = box_grid(kernel, box)
    assert [axis.tile for axis in grid.axes] == [box.extents[a.label] for a in kernel.iters]
    found = only(tiles((5, 75, 3), (0, 2, 1)), gpu.ModuleOp)
    result = simulate(finished(found), [halves((5, 75, 3))], {})
    assert result.counters.ctas == int(np.prod(blocks))


def test_what_is_computed_on_the_way() -> None:
    """The negation of what is read, in f32, and places of the region's axes beside."""
    s = Sketch("moved", f32)
    x = s.input("x", 64, 24, 2)
    module = s.done(y=s.permute(s.add(frontend.ElementwiseOp("neg", [x])), 1, 0, 2))
    for border in ABOVE_GPU:
        build(border, "sm_90a").apply(make_context(), module)
    found = only(module, gpu.ModuleOp)
    assert next(kernel.sym_name.data for kernel in found.kernels()) == "moved_boxes"
    x = np.arange(64 * 24 * 2, dtype=np.float32).reshape(64, 24, 2)
    result = simulate(finished(found), [x], {})
    result.check()
    assert np.array_equal(result.outputs[0], -x.transpose(1, 0, 2))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_nothing_spills(arch: str) -> None:
    for shape, order in (MOVES[2], MOVES[4]):
        module = finished(only(tiles(shape, order, arch), gpu.ModuleOp))
        found = nvrtc.compile_cuda(cuda_source(module), arch)
        assert [info.spill_bytes for info in found.kernels.values()] == [0]
