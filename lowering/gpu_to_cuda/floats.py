"""The printer: arithmetic of floats that ``arith`` and ``math`` lack."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints


@prints(hw.ErfcOp, "x")
def _erfc(w: KernelWriter, op: hw.ErfcOp) -> None:
    w.define(op.result, f"erfcf({w.text(op.operand)})")


@prints(hw.FmodOp, "rest")
def _fmod(w: KernelWriter, op: hw.FmodOp) -> None:
    w.define(op.result, f"fmodf({w.text(op.lhs)}, {w.text(op.rhs)})")
