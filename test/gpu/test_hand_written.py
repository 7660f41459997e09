"""The kernels of ``examples/gpu`` on the GPU against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

SHAPES = [(1, 8), (32, 32), (33, 40), (100, 264), (257, 1000)]
Array = np.ndarray[Any, Any]


def program(root: Path, name: str, arch: str) -> Program:
    if not driver.device().runs(arch) and arch == "sm_90a":
        pytest.skip("this GPU does not run sm_90a")
    path = root / "examples" / "gpu" / f"{name}.mlir"
    ctx = make_context()
    source = parse_text(ctx, path.read_text(), str(path))
    return Program.compile(Compilation(ctx, source, arch).run().module)


def values(shape: tuple[int, ...], kind: type) -> Array:
    rng = np.random.default_rng(list(shape))
    return rng.integers(-8, 9, shape).astype(kind)


@pytest.mark.parametrize("shape", SHAPES)
def test_transpose(root: Path, shape: tuple[int, int]) -> None:
    x = values(shape, np.float32)
    (y,) = program(root, "transpose", "sm_80").run([x])
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("shape", SHAPES)
def test_row_sum(root: Path, shape: tuple[int, int]) -> None:
    x = values(shape, np.float32)
    (y,) = program(root, "row_sum", "sm_80").run([x])
    np.testing.assert_array_equal(y, x.sum(axis=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_cluster_row_sum(root: Path, shape: tuple[int, int]) -> None:
    x = values(shape, np.float32)
    (y,) = program(root, "cluster_row_sum", "sm_90a").run([x])
    np.testing.assert_array_equal(y, x.sum(axis=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_pipelined_copy(root: Path, shape: tuple[int, int]) -> None:
    x = values(shape, np.float16)
    (y,) = program(root, "pipelined_copy", "sm_90a").run([x])
    np.testing.assert_array_equal(y, x)
