"""What the GPU tests share: programs from text, exact and rounded references."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import parsed
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
Build = Callable[[str, str], Program]

DTYPES: dict[str, Any] = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a GPU, and says so where there is none."""
    if driver.available():
        return
    here = __file__.rpartition("/")[0]
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU and driver on this machine"))


def gemm_text(element: str, epilogue: bool = True, flags: str = "") -> str:
    """A GEMM as a frontend graph; ``flags`` may have ``transpose_a`` and ``transpose_b``."""
    a = "[K, M]" if "transpose_a" in flags else "[M, K]"
    b = "[N, K]" if "transpose_b" in flags else "[K, N]"
    types = f"!frontend.tensor<{a}, {element}>, !frontend.tensor<{b}, {element}>"
    out = f"!frontend.tensor<[M, N], {element}>"
    bias = f"!frontend.tensor<[N], {element}>"
    inputs = f"%A: {types.replace(', !', ', %B: !')}" + (f", %bias: {bias}" if epilogue else "")
    tail = (
        f"""
  %1 = frontend.elementwise add %0, %bias : ({out}, {bias}) -> {out}
  %2 = frontend.elementwise relu %1 : {out}
  frontend.output %2 : {out}"""
        if epilogue
        else f"\n  frontend.output %0 : {out}"
    )
    attributes = "{acc = f32" + "".join(f", {f}" for f in flags.split()) + "}"
    return f"""frontend.graph @gemm({inputs}) -> (C: {out}) {{
  %0 = frontend.gemm %A, %B {attributes} : ({types}) -> {out}{tail}
}}
"""


@cache
def _program(text: str, arch: str) -> Program | str:
    """The compiled program, or why the compiler does not take the text yet."""
    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text, "gemm.mlir"), arch)
    try:
        return Program.compile(job.run().module)
    except PolycError as error:
        if error.kind == "UnsupportedProgram":
            return str(error)
        raise


@pytest.fixture(scope="session")
def build() -> Build:
    """Compile a text for an architecture, once; skips what this GPU or polyc cannot do."""

    def compiled(text: str, arch: str) -> Program:
        device = driver.device()
        if arch == "sm_90a" and not device.runs(arch):
            pytest.skip(f"{device.name} does not run sm_90a")
        found = _program(text, arch)
        if isinstance(found, str):
            pytest.skip(found)
        return found

    return compiled


def exact_inputs(element: str, m: int, n: int, k: int, seed: int = 0) -> list[Array]:
    """A, B and bias of small integers: every partial sum is exact in FP32, in any order."""
    rng = np.random.default_rng([seed, m, n, k])
    return [
        rng.integers(-2, 3, shape).astype(np.float32).astype(DTYPES[element])
        for shape in ((m, k), (k, n), (n,))
    ]


def reference(a: Array, b: Array, bias: Array | None) -> Array:
    """``relu(a @ b + bias)`` in FP32, or ``a @ b`` without a bias (S0.6)."""
    product = a.astype(np.float32) @ b.astype(np.float32)
    if bias is None:
        return product
    # NumPy's maximum propagates NaN, as relu does.
    return np.maximum(product + bias.astype(np.float32), np.float32(0.0))


def assert_equal(found: Array, expected: Array, element: str) -> None:
    """Exact: the output is the FP32 value rounded once."""
    want = expected.astype(DTYPES[element])
    wrong = np.argwhere(found.astype(np.float32) != want.astype(np.float32))
    if len(wrong):
        i, j = wrong[0]
        raise AssertionError(
            f"{len(wrong)} of {found.size} elements differ, first [{i}, {j}]: "
            f"{found[i, j]} for {want[i, j]}; rows {wrong[:, 0].min()} to {wrong[:, 0].max()}, "
            f"columns {wrong[:, 1].min()} to {wrong[:, 1].max()}"
        )


def assert_close(found: Any, inputs: list[Array], element: str) -> None:
    """Agrees with what the graph with an epilogue means (S0.6)."""
    m, k, n = *inputs[0].shape, inputs[1].shape[1]
    assert_agree([found], meant(parsed(gemm_text(element)), inputs, {"M": m, "N": n, "K": k}))


@pytest.fixture(scope="session")
def gemm() -> Any:
    """This file's functions, for tests that pytest imports without a package."""
    from types import SimpleNamespace

    return SimpleNamespace(
        text=gemm_text,
        inputs=exact_inputs,
        reference=reference,
        equal=assert_equal,
        close=assert_close,
        dtypes=DTYPES,
    )
