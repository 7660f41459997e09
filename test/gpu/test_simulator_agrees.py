"""The simulator and the GPU give the same numbers for the same kernels and inputs.

Every variant of the GEMM examples and every kernel written by hand, small shapes with tails.
The order of accumulation differs, so products of random values agree within rounding;
everything else is equal.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[2]
GEMMS = {"f16": "gemm_bias_relu", "bf16": "gemm_bias_relu_bf16"}
TYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
SHAPES = [(128, 256, 64), (136, 264, 200), (33, 48, 72), (65, 50, 34), (7, 9, 11)]
"""(M, N, K), such that every variant is the first that holds for some shape."""


@cache
def compiled(path: str, arch: str) -> tuple[ModuleOp, Program]:
    if arch == "sm_90a" and not driver.device().runs(arch):
        pytest.skip("this GPU does not run sm_90a")
    ctx = make_context()
    source = parse_text(ctx, (ROOT / path).read_text(), path)
    module = Compilation(ctx, source, arch).run().module
    return gpu_module_of(module), Program.compile(module)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", GEMMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_gemm(shape: tuple[int, int, int], element: str, arch: str) -> None:
    module, program = compiled(f"examples/{GEMMS[element]}.mlir", arch)
    m, n, k = shape
    rng = np.random.default_rng(shape)
    inputs = [
        rng.standard_normal(s).astype(np.float32).astype(TYPES[element])
        for s in ((m, k), (k, n), (n,))
    ]
    sizes = {"M": m, "N": n, "K": k}
    taken = [
        launch.kernel.root_reference.data
        for launch in module.dispatch().launches()
        if all(fact.holds(sizes) for fact in launch.when.data)
    ]
    assert taken
    for variant in taken:
        result = simulate(module, inputs, sizes, variant=variant)
        found: Array = np.asarray(program.run(inputs, variant=variant)[0])
        assert result.findings == []
        expected: Array = result.outputs[0]
        scale = float(np.abs(expected.astype(np.float32)).max())
        ulp = 2.0 ** (-10 if element == "f16" else -7)
        np.testing.assert_allclose(
            found.astype(np.float32), expected.astype(np.float32), rtol=ulp, atol=1e-5 * scale
        )


@pytest.mark.parametrize("shape", [(1, 8), (33, 40), (100, 264)])
@pytest.mark.parametrize(
    ("name", "arch", "kind"),
    [
        ("transpose", "sm_80", np.float32),
        ("row_sum", "sm_80", np.float32),
        ("pipelined_copy", "sm_90a", np.float16),
    ],
)
def test_written_by_hand(shape: tuple[int, int], name: str, arch: str, kind: type) -> None:
    module, program = compiled(f"examples/gpu/{name}.mlir", arch)
    x: Array = np.random.default_rng(shape).integers(-8, 9, shape).astype(kind)
    result = simulate(module, [x], {"M": shape[0], "N": shape[1]})
    assert result.findings == []
    (found,) = program.run([x])
    np.testing.assert_array_equal(found, result.outputs[0])
