"""Every kernel of the convolutions, not only those that the dispatch takes at small sizes."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.im2col_programs import GEOMETRIES, convolution
from polyc.test.support.tile_cases import CASES
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

FILES = {"conv3x3_sm90": "same", "conv3x3_stride2_sm90": "strided"}
"""A file, and how its filter moves."""


@cache
def unbounded(name: str) -> ModuleOp:
    """The file's kernels, whatever the numbers of pixels and filters."""
    text = re.sub(r", K mod (160|256) == 0|, N \* [^,\n]*>= \d+", "", CASES[name].text())
    module = parse_text(make_context(), text, f"{name}.mlir")
    finish(module)
    found = gpu_module_of(module)
    for launch in found.dispatch().launches():
        assert len(launch.facts.data) == 3
    return found


KERNELS = [
    (name, kernel)
    for name in FILES
    for kernel in re.findall(r"gpu.kernel @(\w+)", CASES[name].text())
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "kernel"), KERNELS)
def test_every_kernel_convolves(name: str, kernel: str) -> None:
    """Tails of pixels, of channels and of filters, and several tiles a CTA."""
    geometry = GEOMETRIES[FILES[name]]
    step = geometry.steps[0]
    images, height, width, channels, filters = 3, 8 * step, 9 * step - 1, 8, 264
    rng = np.random.default_rng(7)
    x = rng.integers(-2, 3, (images, height, width, channels)).astype(np.float16)
    f = rng.integers(-2, 3, (filters, 9, channels)).astype(np.float16)
    sizes = {"N": images, "H": height, "W": width, "C": channels, "K": filters}
    result = simulate(
        unbounded(name), [x, f], sizes, kernel, schedule="random", completion="random", seed=1
    )
    result.check()
    wanted = convolution(x, f.reshape(filters, 3, 3, channels), geometry)
    found = result.outputs[0].astype(np.float32)
    np.testing.assert_array_equal(found, wanted.reshape(found.shape))
