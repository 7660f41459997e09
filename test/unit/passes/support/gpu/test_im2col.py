"""Lowering of im2col copies: a convolution by each loader, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import arith, scf

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile as tile_ops
from polyc.dialects.gpu.types import TensorMapType
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import assert_refused, find, kernel, refusal, run, up_to
from polyc.test.support.im2col_programs import GEOMETRIES, Array, convolution, convolution_program

LOWER = "gpu-lower-tile-ops"
TMA = {
    "arch": "sm_90a",
    "when": "C mod 8 == 0, C >= 1, K mod 8 == 0",
    "align": 16,
    "tile": (64, 32, 64),
    "threads": 256,
    "warp_tile": (64, 32),
}
CP_ASYNC: dict[str, object] = {}
WIDE = {"when": "C mod 8 == 0, K mod 8 == 0", "align": 16}
REGISTER = {"when": "C >= 1", "align": 2}


def operands(channels: int, filters: int, taps: int) -> tuple[Array, Array]:
    """Small integers: every sum is exact, in any order."""
    rng = np.random.default_rng(channels)
    x = rng.integers(-2, 3, (3, 6, 7, channels)).astype(np.float16)
    return x, rng.integers(-2, 3, (filters, taps, channels)).astype(np.float16)


LOADERS = {
    "tma": (TMA, 72, hw.TmaLoadIm2colOp),
    "cp_async16": (WIDE, 40, hw.CpAsyncOp),
    "cp_async4": (CP_ASYNC, 38, hw.CpAsyncOp),
    "register": (REGISTER, 35, hw.LoadGlobalOp),
}
"""The options of a program, its channels, and the op that loads."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "loader"),
    # Of the loaders by threads, which find their pixels alike, each geometry has one in turn.
    [(name, "tma") for name in GEOMETRIES]
    + [(name, list(LOADERS)[1 + i % 3]) for i, name in enumerate(GEOMETRIES)],
)
def test_every_loader_convolves(name: str, loader: str) -> None:
    options, channels, op = LOADERS[loader]
    geometry = GEOMETRIES[name]
    (r, s), filters = geometry.taps, 40
    x, f = operands(channels, filters, r * s)
    text = convolution_program(geometry, **options)  # pyright: ignore[reportArgumentType]
    values = {"N": 3, "H": 6, "W": 7, "C": channels, "K": filters}
    wanted = convolution(x, f.reshape(filters, r, s, channels), geometry).reshape(-1, filters)
    (played,) = tile.run(gpu_module_of(run(text)), [x, f], values)
    np.testing.assert_array_equal(played.astype(np.float32), wanted)
    module = run(text, *GPU_PASSES)
    assert find(module, op)
    result = simulate(module, [x, f], values)
    result.check()
    np.testing.assert_array_equal(result.outputs[0].astype(np.float32), wanted)


def test_a_gathered_pixel_is_found_once() -> None:
    """Where a pixel lies is computed before the loop over taps, not in it."""
    module = run(convolution_program(GEOMETRIES["same"]), *GPU_PASSES)
    loops = [loop for loop in find(module, scf.ForOp) if find(loop, hw.CpAsyncOp)]
    assert loops
    assert not any(find(loop, arith.FloorDivSIOp) for loop in loops)


@pytest.mark.parametrize(
    ("align", "arch", "loader"),
    [
        (16, "sm_90a", "tma"),
        (8, "sm_90a", "cp_async"),
        (16, "sm_80", "cp_async"),
        (4, "sm_80", "cp_async"),
        (2, "sm_80", "register"),
    ],
)
def test_planning_chooses_the_loader(align: int, arch: str, loader: str) -> None:
    text = convolution_program(GEOMETRIES["same"], when=f"C mod {align // 2} == 0", align=align)
    module = run(text.replace('arch "sm_80"', f'arch "{arch}"'), *up_to("gpu-pipeline-planning"))
    found = [c.loader for c in find(module, tile_ops.CopyOp)]
    assert [c.data for c in found if c is not None] == [loader, loader]


X = "!gpu.global<[N, H, W, C], f16, align 16>"
GEOMETRY = "#gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>"
ARGS = f"%X: {X} = tensor 0, " + ", ".join(f"%{s}: index = symbol {s}" for s in "NHWC")


def copied(loader: str, tile_type: str = "[16, 64], f16, swizzle 128", threads: int = 32) -> str:
    shared = f"!gpu.shared<{tile_type}>"
    return kernel(
        f"""    %x = gpu.shared_tile : {shared}
    gpu.copy %X[%N, %H, %W, %C] to %x im2col {GEOMETRY} tap [%H, %W] {loader} : {X}, {shared}""",
        ARGS,
        threads=threads,
        symbols="N, H, W, C",
    )


def test_copies_that_cannot_be_lowered_are_refused() -> None:
    message = "a TMA copy signals an mbarrier; none is given"
    assert_refused(copied('loader "tma"'), "NoBarrier", message, "gpu.copy", LOWER)
    message = "!gpu.shared<[16, 64], f16> has no layout; run gpu-layout-inference"
    for loader in ("tma", "cp_async", "register"):
        text = copied(f'loader "{loader}"', "[16, 64], f16")
        assert_refused(text, "NoLayout", message, "gpu.copy", LOWER)
    message = (
        "96 threads gather whole chunks of 8 channels each, and !gpu.shared<[16, 64], f16, "
        "swizzle 128> does not split so; change the tile or the number of threads"
    )
    text = copied('loader "cp_async"', threads=96)
    assert_refused(text, "UnsupportedCopy", message, "gpu.copy", LOWER)
    missing = copied('loader "cp_async"').replace(", %H: index = symbol H", "")
    missing = missing.replace("%H", "%W")
    message = "kernel @k needs the size H; add an argument bound to symbol H"
    assert_refused(missing, "MissingSymbol", message, "gpu.kernel", LOWER)


def test_a_geometry_that_no_descriptor_holds_is_refused() -> None:
    text = copied('loader "tma" signal %b : !gpu.mbarrier<1> at %N').replace(
        "strides [1, 1]", "strides [9, 1]"
    )
    text = text.replace("    gpu.copy", "    %b = gpu.mbarrier : !gpu.mbarrier<1>\n    gpu.copy")
    message = "TMA strides are 1 to 8, not [9, 1]"
    assert_refused(text, "BadTmaSource", message, "gpu.copy", LOWER)


def test_loose_pixels_are_refused_by_tma() -> None:
    text = copied('loader "tma"').replace("f16, align 16", "f16, align 8")
    message = (
        "tma needs rows aligned to 16 bytes and !gpu.global<[N, H, W, C], f16, align 8> promises "
        "8; use a narrower loader or assume the row length"
    )
    assert_refused(text, "MisalignedCopy", message, "gpu.copy", "gpu-pipeline-planning")


def shared_rows(rows: int, cluster: int, panels: int = 1) -> str:
    """A multicast copy of ``rows`` rows, of as many panels of 64 columns."""
    shared = f"!gpu.shared<[{rows}, {64 * panels}], f16, swizzle 128>"
    text = kernel(
        f"""    %x = gpu.shared_tile : {shared}
    %full = gpu.mbarrier : !gpu.mbarrier<1>
    gpu.copy %F[%N, %H, %C] to %x axes <0, 2> loader "tma" multicast
        signal %full : !gpu.mbarrier<1> at %N : !gpu.global<[N, H, C], f16, align 16>, {shared}""",
        ARGS.replace(f"%X: {X} = tensor 0", "%F: !gpu.global<[N, H, C], f16, align 16> = tensor 0"),
        symbols="N, H, W, C",
    )
    return text.replace("threads 128", f"threads 128 cluster {cluster}")


@pytest.mark.parametrize(("cluster", "box"), [(2, [64, 1, 64]), (4, [32, 1, 64])])
def test_ctas_share_the_rows_of_a_panel(cluster: int, box: list[int]) -> None:
    module = run(shared_rows(128, cluster), LOWER)
    loads = find(module, hw.TmaLoadOp)
    assert [load.mask is not None for load in loads] == [True]
    kind = loads[0].map.type
    assert isinstance(kind, TensorMapType) and list(kind.sizes) == box


def test_whole_panels_are_shared_where_they_split() -> None:
    module = run(shared_rows(128, 2, panels=2), LOWER)
    kinds = [load.map.type for load in find(module, hw.TmaLoadOp)]
    assert [list(k.sizes) for k in kinds if isinstance(k, TensorMapType)] == [[128, 1, 64]]


def test_rows_that_do_not_split_are_refused() -> None:
    """Bands of 12 rows would begin inside the swizzle's pattern."""
    error = refusal(shared_rows(24, 2), LOWER)
    assert error.kind == "BadMulticast"
