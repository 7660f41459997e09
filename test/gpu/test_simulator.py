"""The simulator and the hardware agree on the same kernels and inputs.

Small shapes with tails, every kernel that the dispatch can take, and the kernels written by
hand in ``test/simulator``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.playback.gpu import simulate
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.root import ROOT
from polyc.tools.check import Expected
from polyc.tools.commands.run_tiles import near
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("example", ["gemm_bias_relu", "gemm_bias_relu_bf16"])
@pytest.mark.parametrize(
    ("arch", "loader", "sizes"),
    [
        ("sm_80", "cp_async16", (136, 136, 232)),
        ("sm_80", "cp_async4", (136, 134, 230)),
        ("sm_80", "scalar", (136, 133, 229)),
        ("sm_90a", "tma", (72, 264, 584)),
        ("sm_90a", "tma", (200, 520, 72)),
        ("sm_90a", "cp_async", (136, 134, 230)),
        ("sm_90a", "scalar", (136, 133, 229)),
        ("sm_90a", "tma", (1, 8, 8)),
        ("sm_80", "scalar", (1, 1, 1)),
    ],
)
def test_every_kernel_path(
    arch: str, loader: str, sizes: tuple[int, int, int], example: str
) -> None:
    if arch == "sm_90a" and not driver.device().runs(arch):
        pytest.skip(f"this GPU does not run {arch}")
    job = Compilation.of_file(ROOT / "examples" / f"{example}.mlir", arch)
    symbols = dict(zip("MNK", sizes, strict=True))
    wanted = Expected.of(next(graphs(job.module)), symbols, 9)
    inputs = wanted.inputs
    module = job.run().module
    name = f"{example}_{loader}"
    simulated = simulate(module, inputs, symbols, name)
    simulated.check()
    wanted.compare("the simulator", simulated.outputs)
    hardware = Program.compile(module).run(list(inputs), symbols, variant=name)
    wanted.compare("the hardware", [np.asarray(x) for x in hardware])


@pytest.mark.parametrize(
    ("name", "arch", "symbols", "shapes", "dtype"),
    [
        ("pipelined_copy", "sm_80", {"N": 1700}, [(1700,)], np.float32),
        ("block_reduction", "sm_80", {"M": 3, "N": 300}, [(3, 300)], np.float32),
        ("row_votes", "sm_80", {"M": 9, "N": 300}, [(9, 300)], np.float32),
        ("transpose", "sm_80", {"M": 50, "N": 70}, [(50, 70)], np.float32),
        ("tma_copy", "sm_90a", {"M": 61, "N": 72}, [(61, 72)], np.float16),
        ("wgmma_tile", "sm_90a", {"M": 128}, [(128, 16), (8, 16)], np.float16),
    ],
)
def test_kernels_written_by_hand(
    name: str, arch: str, symbols: dict[str, int], shapes: list[tuple[int, ...]], dtype: Any
) -> None:
    if arch == "sm_90a" and not driver.device().runs(arch):
        pytest.skip(f"this GPU does not run {arch}")
    from polyc.passes.gpu.linearize_access import GpuLinearizeAccess

    path = ROOT / "test" / "simulator" / f"{name}.mlir"
    ctx = make_context()
    module = parse_text(ctx, path.read_text(), str(path))
    GpuLinearizeAccess().apply(ctx, module)
    random = np.random.default_rng(2)
    inputs = [random.uniform(-1, 1, shape).astype(dtype) for shape in shapes]
    simulated = simulate(module, inputs, symbols)
    simulated.check()
    hardware = Program.compile(module).run(list(inputs), symbols)
    assert_agree(hardware, [near(x) for x in simulated.outputs])
