"""TMA copies of a convolution's pixels: what they read, what is wrong about them, the host."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import f16

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.playback.gpu import SimulationResult, simulate
from polyc.rewriting.driver import verify
from polyc.runtime import driver, nvrtc, tensor_maps
from polyc.runtime.program import Program
from polyc.test.support.gpu_text import parsed, run
from polyc.test.support.im2col_programs import GEOMETRIES, convolution, copy_kernel, rows

Array = NDArray[Any]


def taps(
    geometry: Im2colAttr, shape: tuple[int, int, int, int], more: int = 0, **options: Any
) -> tuple[Array, SimulationResult]:
    """The input, and the result of a kernel that copies every tap of every pixel."""
    module = parsed(copy_kernel(geometry, **options))
    verify(module)
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float16)
    images, height, width, channels = shape
    down, across = geometry.output(height, width)
    pixels = images * down * across + more
    symbols = dict(zip("NHWCPQT", (*shape, down, across, pixels), strict=True))
    assert channels % 8 == 0
    return x, simulate(module, [x], symbols)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", GEOMETRIES)
@pytest.mark.parametrize("shape", [(3, 9, 11, 72), (1, 7, 8, 64), (40, 4, 5, 8)])
def test_a_copy_reads_one_tap_of_consecutive_pixels(
    name: str, shape: tuple[int, int, int, int]
) -> None:
    geometry = GEOMETRIES[name]
    if min(geometry.output(*shape[1:3])) < 1:
        pytest.skip("the filter does not fit")
    x, result = taps(geometry, shape, more=5)
    result.check()
    wanted = rows(x, geometry)
    count = wanted.shape[1]
    np.testing.assert_array_equal(result.outputs[0][:, :count], wanted)
    # Past the last image there are zeros.
    assert not result.outputs[0][:, count:].any()
    # Only what is in the tensor is read, but all of the box counts as bytes.
    loads = result.counters.tma_loads
    assert loads == len(wanted) * -(-(count + 5) // 32) * -(-shape[3] // 64)
    assert result.counters.tma_bytes == loads * 32 * 128


def test_the_reference_is_a_convolution() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (2, 5, 6, 3)).astype(np.float16)
    weights = rng.integers(-3, 4, (4, 3, 3, 3)).astype(np.float16)
    padded = np.pad(x.astype(np.float32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = np.zeros((2, 5, 6, 4), np.float32)
    for r in range(3):
        for s in range(3):
            wanted += padded[:, r : r + 5, s : s + 6] @ weights[:, r, s].astype(np.float32).T
    got = convolution(x, weights, GEOMETRIES["same"])
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("(d0 * 2 - 1)> (%q)", "(d0 * 2)> (%q)", "column 0"),
        ("(d0 * 2 - 1)> (%p)", "(d0 * 2 - 2)> (%p)", "row -2"),
        ("(d0 * 2 - 1)> (%q)", "(d0 * 2 + 99)> (%q)", "column 99"),
        ("floordiv 3 * 1)> (%tap)", "floordiv 3 * 200)> (%tap)", "offsets"),
    ],
)
def test_a_copy_outside_the_bounding_box_is_found(old: str, new: str, words: str) -> None:
    geometry = GEOMETRIES["strided"]
    _, result = taps(geometry, (1, 9, 9, 64), edits=[(old, new)])
    assert {f.kind for f in result.findings} >= {"OutOfBounds"}
    assert any(words in f.message for f in result.findings)


def test_wrong_bytes_are_found() -> None:
    edit = ("%full[%zero] bytes 4096", "%full[%zero] bytes 4080")
    _, result = taps(GEOMETRIES["same"], (1, 9, 9, 64), edits=[edit])
    assert "MBarrierBytes" in {f.kind for f in result.findings}


@pytest.mark.parametrize(
    ("geometry", "shape", "words"),
    [
        (GEOMETRIES["same"], (1, 9, 9, 12), "24 bytes, no multiple of 16"),
        (GEOMETRIES["valid"], (1, 1, 9, 8), "does not fit"),
    ],
)
def test_a_map_that_cannot_be_made_is_found(
    geometry: Im2colAttr, shape: tuple[int, int, int, int], words: str
) -> None:
    module = parsed(copy_kernel(geometry).replace("when (C mod 8 == 0) ", ""))
    x = np.zeros(shape, np.float16)
    symbols = dict(zip("NHWCPQT", (*shape, 1, 1, 1), strict=True))
    result = simulate(module, [x], symbols)
    assert any(f.kind == "DescriptorMisaligned" and words in f.message for f in result.findings)


def test_the_geometry_makes_its_map() -> None:
    found = GEOMETRIES["uneven"].map_type(128, 64, f16, 128)
    assert (found.sizes, found.steps) == ((128, 64), (2, 3))
    assert (found.lower_corner, found.upper_corner) == ((0, -2), (-4, -2))


def test_nvrtc_takes_the_copy() -> None:
    program = Program.compile(run(copy_kernel(GEOMETRIES["strided"]), "gpu-linearize-access"))
    info = program.kernels["taps"]
    assert (info.spill_bytes, info.stack) == (0, 0)
    (source,) = program.sources
    assert nvrtc.compile_cuda(source, "sm_90a", "ptx").image.count(b".4d.") == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shape": (9, 9, 64)}, "four axes"),
        ({"pointer": 1032}, "no multiple of 16|not a multiple of 16"),
        ({"shape": (0, 9, 9, 64)}, "empty axis"),
        ({"shape": (1, 9, 9, 12)}, "pixels of 12 channels"),
        ({"shape": (1, 1, 9, 64), "lower": (0, 0), "upper": (-2, 0)}, "does not fit"),
    ],
)
def test_the_driver_refuses_what_tma_cannot_read(changes: dict[str, Any], words: str) -> None:
    good: dict[str, Any] = {
        "pointer": 1024,
        "element": "f16",
        "shape": (1, 9, 9, 64),
        "box": (128, 64),
        "swizzle": 128,
        "lower": (-1, -1),
        "upper": (-1, -1),
        "steps": (1, 1),
    }
    with pytest.raises(PolycError, match=words) as caught:
        tensor_maps.im2col_map(**good | changes)
    assert caught.value.kind == "TensorMapFailed"


def test_a_program_binds_an_im2col_map(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    bound: list[Any] = []

    class Loaded:
        """A loaded module, its kernel and its launch."""

        def __init__(self, *_: Any) -> None: ...

        def function(self, name: str) -> Loaded:
            return self

        def bind(self, *given: Any) -> Loaded:
            bound.extend(given[3])
            return self

        def run(self, stream: int) -> None: ...

    class Memory(Loaded):
        def __init__(self, size: int, index: int) -> None:
            self.pointer = 4096

        def upload(self, address: int) -> None: ...

        def download(self, address: int) -> None: ...

    def im2col_map(*args: Any) -> object:
        calls.append(args)
        return type("Map", (), {"argument": "map"})

    def device(index: int = 0) -> driver.Device:
        return driver.Device(0, "stand-in", (9, 0), 132, 232448, 50 << 20, "13.0")

    for name, fake in {
        "current": nullcontext,
        "device": device,
        "Module": Loaded,
        "Buffer": Memory,
        "wait": int,
    }.items():
        monkeypatch.setattr(driver, name, fake)
    monkeypatch.setattr(tensor_maps, "im2col_map", im2col_map)
    program = Program.compile(run(copy_kernel(GEOMETRIES["uneven"]), "gpu-linearize-access"))
    program.run([np.zeros((2, 9, 9, 64), np.float16)], {"T": 7, "P": 3, "Q": 3})
    assert bound[-1] == "map"
    assert calls == [(4096, "f16", (2, 9, 9, 64), (32, 64), 128, (0, -2), (-4, -2), (2, 3))]
