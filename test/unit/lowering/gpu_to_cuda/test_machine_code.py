"""Machine code of wgmma: no sums are read before they are there, by the NVRTC that is installed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.machine_code import early_reads
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.test.unit.families.conv.test_follow import text as conv_text
from polyc.tools.jit.compiled import disassembled
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

CODE = """
.text.own_kernel:
        /*0010*/                   WARPGROUP.ARRIVE ;
        /*0020*/                   HGMMA.64x16x16.F32 R8, R4, gdesc[UR4], R8, gsb0 ;
        /*0030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
{between}        /*0050*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0060*/                   F2FP.F16.F32.PACK_AB R2, R9, R8 ;
"""
OTHERS = "        /*0040*/              @!P0 IMAD.WIDE R2, R3, 0x2, R6 ;\n"


@pytest.mark.parametrize(
    "early",
    [
        "F2FP.F16.F32.PACK_AB R2, R15, R14",
        "@P0 STG.E.64 desc[UR4][R2.64], R14.64",
        "FADD R14, R2, R3",
    ],
)
def test_a_sum_that_is_taken_before_the_wait_is_found(early: str) -> None:
    between = OTHERS + f"        /*0048*/                   {early} ;\n"
    found = early_reads(CODE.format(between=between))
    assert found == {"own_kernel": [early.removeprefix("@P0 ")]}
    assert early_reads(CODE.format(between=OTHERS)) == {}


def flat() -> ModuleOp:
    """Rows of 49 pixels, which threads take to registers as 16 bits."""
    s = Sketch("flat")
    x, w = s.input("x", 32, 3072, 49), s.input("w", 768, 3072)
    return s.done(y=s.permute(s.gemm(s.permute(x, 0, 2, 1), w, turned=True), 0, 2, 1))


def followed() -> ModuleOp:
    return parse_text(make_context(), conv_text("f16", "softmax", (32, 64, 64, 64), 128), "c.mlir")


def product() -> ModuleOp:
    s = Sketch("product")
    return s.done(y=s.gemm(s.input("x", 4096, 4096), s.input("w", 4096, 4096)))


@pytest.mark.turns(2)
@pytest.mark.parametrize("make", [flat, followed, product])
def test_no_sum_is_taken_before_the_wait(make: Callable[[], ModuleOp]) -> None:
    kernels = gpu_module_of(run(make(), "gpu"))
    for result in nvrtc.compile_each(list(cuda_units(kernels)), "sm_90a"):
        try:
            code = disassembled(result.image)
        except PolycError as missing:
            if "nvdisasm, which is neither" not in missing.message:
                raise
            pytest.skip(missing.message)
        assert early_reads(code) == {}
