"""GEMM + bias + ReLU on the GPU: every shape, every variant, both architectures' kernels.

Most inputs are small integers.  Every partial sum is then exact in FP32, so the output
must equal the reference bit for bit, and a single element read from the wrong place
shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.each_variant import results

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")

SMALL = [
    (1, 1, 1),
    (1, 8, 8),
    (8, 1, 3),
    (5, 7, 0),
    (16, 8, 16),
    (33, 47, 29),
    (65, 40, 24),
    (64, 72, 72),
    (128, 128, 64),
    (129, 257, 65),
    (130, 264, 72),
    (127, 250, 62),
]
"""M, N, K for the sanitizer too: one block, tails in each axis, no K, each loader."""

LARGE = [
    (33, 47, 2044),
    (128, 256, 64),
    (256, 512, 128),
    (257, 512, 136),
    (100, 1000, 8),
    (1000, 1000, 1000),
    (1, 4096, 512),
    (4096, 1, 512),
    (4096, 8, 4096),
    (2047, 2048, 2056),
    (513, 1026, 334),
    (4095, 4097, 129),
    (1024, 1024, 0),
]


def names(shape: tuple[int, int, int]) -> str:
    return "x".join(map(str, shape))


SHAPES = [
    *(pytest.param(shape, id="small-" + names(shape)) for shape in SMALL),
    *(pytest.param(shape, id=names(shape)) for shape in LARGE),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_variant_at_every_shape(
    build: Build, gemm: Any, arch: str, element: str, shape: tuple[int, int, int]
) -> None:
    """Each variant that takes the shape gives the exact result; at least one takes it."""
    m, n, k = shape
    program = build(gemm.text(element), arch)
    inputs = gemm.inputs(element, m, n, k)
    expected = gemm.reference(*inputs)
    ran: list[str] = []
    for variant, (out,) in results(program, inputs):
        gemm.equal(np.asarray(out), expected, element)
        if variant is not None:
            ran.append(variant)
    assert ran


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("k", [*range(0, 34), 63, 64, 65, 127, 128, 129])
def test_small_reductions(build: Build, gemm: Any, arch: str, k: int) -> None:
    """Every K around a step, a swizzle row and a stage, with odd and even row lengths."""
    program = build(gemm.text("f16"), arch)
    for n in (24, 33):
        inputs = gemm.inputs("f16", 70, n, k)
        (out,) = program.run(inputs)
        gemm.equal(out, gemm.reference(*inputs), "f16")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("extent", [*range(1, 34), 63, 65, 127, 129, 191, 255, 257])
def test_rows_and_columns_around_a_tile(build: Build, gemm: Any, arch: str, extent: int) -> None:
    program = build(gemm.text("f16"), arch)
    for m, n in ((extent, 136), (136, extent)):
        inputs = gemm.inputs("f16", m, n, 72)
        (out,) = program.run(inputs)
        gemm.equal(out, gemm.reference(*inputs), "f16")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", [(0, 64, 64), (64, 0, 64), (0, 0, 0), (0, 64, 0)])
def test_empty_outputs(build: Build, gemm: Any, arch: str, shape: tuple[int, int, int]) -> None:
    m, n, _ = shape
    program = build(gemm.text("f16"), arch)
    (out,) = program.run(gemm.inputs("f16", *shape))
    result: Any = out
    assert result.shape == (m, n)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize(
    "shape", [(256, 512, 1024), (333, 777, 555), (1000, 1000, 1000)], ids=names
)
def test_random_values(
    build: Build, gemm: Any, arch: str, element: str, shape: tuple[int, int, int]
) -> None:
    """Against FP32 within the tolerance of S0.6."""
    m, n, k = shape
    rng = np.random.default_rng(7)
    inputs = [rng.standard_normal(s).astype(gemm.dtypes[element]) for s in ((m, k), (k, n), (n,))]
    program = build(gemm.text(element), arch)
    (out,) = program.run(inputs)
    gemm.close(out, inputs, element)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("k", [8, 63, 200])
def test_nan_and_infinity(build: Build, gemm: Any, arch: str, k: int) -> None:
    """NaN and infinity reach their rows and columns, through relu, and nothing else (S0.6)."""
    inputs = gemm.inputs("f16", 140, 72, k)
    a, b, bias = inputs
    a[3, k - 1], a[131, 0], b[k // 2, 70], bias[9] = np.nan, np.inf, -np.inf, np.nan
    program = build(gemm.text("f16"), arch)
    for variant in (None, program.variants[-1]):
        (out,) = program.run(inputs, variant=variant)
        gemm.close(out, inputs, "f16")


@pytest.mark.parametrize("arch", ARCHS)
def test_values_past_the_output_type_become_infinite(build: Build, gemm: Any, arch: str) -> None:
    """65504 is f16's largest; the FP32 accumulator holds more and is rounded once."""
    a = np.full((64, 64), 64.0, np.float16)
    b = np.full((64, 64), 64.0, np.float16)
    program = build(gemm.text("f16"), arch)
    (out,) = program.run([a, b, np.zeros(64, np.float16)])
    assert np.isposinf(np.asarray(out)).all()


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("epilogue", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("flags", ["", "transpose_a", "transpose_b", "transpose_a transpose_b"])
@pytest.mark.parametrize("shape", [(130, 264, 72), (127, 250, 62), (33, 47, 29)], ids=names)
def test_operand_orders(
    build: Build,
    gemm: Any,
    arch: str,
    epilogue: bool,
    flags: str,
    shape: tuple[int, int, int],
) -> None:
    a, b, bias = gemm.inputs("f16", *shape)
    program = build(gemm.text("f16", epilogue, flags), arch)
    given = [
        np.ascontiguousarray(a.T) if "transpose_a" in flags else a,
        np.ascontiguousarray(b.T) if "transpose_b" in flags else b,
    ]
    (out,) = program.run([*given, bias] if epilogue else given)
    gemm.equal(out, gemm.reference(a, b, bias if epilogue else None), "f16")


@pytest.mark.parametrize("arch", ARCHS)
def test_runs_are_deterministic(build: Build, gemm: Any, arch: str) -> None:
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(s).astype(np.float16) for s in ((300, 520), (520, 264), (264,))]
    program = build(gemm.text("f16"), arch)
    (first,) = program.run(inputs)
    for _ in range(5):
        (again,) = program.run(inputs)
        assert np.array_equal(np.asarray(first), np.asarray(again))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_no_kernel_spills(build: Build, gemm: Any, arch: str, element: str) -> None:
    program = build(gemm.text(element), arch)
    for name, info in program.kernels.items():
        assert info.spill_bytes == 0, f"{name} spills {info.spill_bytes} bytes"
    assert not program.warnings()


def test_the_device_is_described() -> None:
    found = driver.device()
    assert found.capability >= (8, 0)
    assert found.shared_bytes >= 99 * 1024
    assert found.multiprocessors > 0


def test_a_gpu_that_is_not_there(build: Build, gemm: Any) -> None:
    program = build(gemm.text("f16"), "sm_80")
    with pytest.raises(PolycError) as caught:
        program.run(gemm.inputs("f16", 8, 8, 8), gpu_index=driver.device_count())
    assert caught.value.kind == "NoGPU"
