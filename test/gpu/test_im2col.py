"""TMA copies of a convolution's pixels: the hardware reads what the simulator reads."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.playback.gpu import simulate
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.gpu_text import run
from polyc.test.support.im2col_programs import GEOMETRIES, copy_kernel, rows


@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("shape", [(3, 9, 11, 72), (1, 7, 8, 64), (40, 4, 5, 8), (2, 30, 33, 136)])
def test_the_taps_of_every_pixel(name: str, shape: tuple[int, int, int, int]) -> None:
    if not driver.device().runs("sm_90a"):
        pytest.skip("this GPU has no TMA of sm_90a")
    geometry = GEOMETRIES[name]
    down, across = geometry.output(*shape[1:3])
    if min(down, across) < 1:
        pytest.skip("the filter does not fit")
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float16)
    count = shape[0] * down * across
    symbols = dict(zip("NHWCPQT", (*shape, down, across, count + 40), strict=True))
    module = run(copy_kernel(geometry), "gpu-linearize-access")
    (got,) = Program.compile(module).run([x], symbols)
    result = simulate(module, [x], symbols)
    result.check()
    np.testing.assert_array_equal(np.asarray(got), result.outputs[0])
    np.testing.assert_array_equal(np.asarray(got)[:, :count], rows(x, geometry))
