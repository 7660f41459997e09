"""Loads of planes: which pixels a thread reads at once, and what it cannot read."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.types import GlobalType
from polyc.passes.pipeline import build
from polyc.passes.support.gpu.planes import LowerPlanes
from polyc.test.support.gpu_text import parsed
from polyc.tools.registry import make_context

ONE = Im2colAttr.of((1, 1))
SKIPS = Im2colAttr.of((1, 1), (2, 2))
PATCHES = Im2colAttr.of((2, 2), (2, 2))
WIDE = Im2colAttr.of((3, 3), (2, 2), (1, 1))


@pytest.mark.parametrize(
    ("geometry", "width", "align", "found"),
    [
        (ONE, 196, 8, 4),
        (ONE, 49, 2, 1),
        (SKIPS, 56, 16, 4),
        (SKIPS, 28, 8, 2),
        (SKIPS, 14, 4, 1),
        (PATCHES, 56, 16, 4),
        (WIDE, 56, 16, 1),  # windows share pixels, and reach beyond the image
    ],
)
def test_pixels_that_are_read_together(
    geometry: Im2colAttr, width: int, align: int, found: int
) -> None:
    sizes = [Dim.const(n) for n in (2, 16, width, width)]
    kind = GlobalType.of(sizes, f16, align)
    assert LowerPlanes.width(kind, geometry, 64) == found


def test_taps_of_a_row_are_picked_of_what_is_read() -> None:
    assert LowerPlanes.taps(PATCHES, 8) == [1]
    assert LowerPlanes.taps(PATCHES, 1) == LowerPlanes.taps(SKIPS, 8) == []


TEXT = """gpu.module @m arch "sm_90a" symbols [N] {
  gpu.kernel @k(%X: !gpu.global<[N, 16, 7, 49], f16> = tensor 0, %N: index = symbol N) threads 32 {
    %x = gpu.shared_tile : !gpu.shared<[16, COLUMNS], f16, swizzle 64>
    gpu.copy %X[%N, %N, %N, %N] to %x im2col #gpu.im2col<kernel [1, 1], strides [1, 1], padding [0, 0], dilation [1, 1]> tap [%N, %N] planes loader "LOADER" : !gpu.global<[N, 16, 7, 49], f16>, !gpu.shared<[16, COLUMNS], f16, swizzle 64>
    gpu.return
  }
}"""  # noqa: E501


@pytest.mark.parametrize(
    ("loader", "columns", "why"),
    [
        ("cp_async", 32, "cp.async brings 4 bytes or more"),
        ("register", 96, "32 threads load 2 pixels each, and a row of"),
    ],
)
def test_what_threads_do_not_load(loader: str, columns: int, why: str) -> None:
    text = TEXT.replace("LOADER", loader).replace("COLUMNS", str(columns))
    with pytest.raises(PolycError, match=why):
        build("gpu-lower-tile-ops", "sm_90a").apply(make_context(), parsed(text))
