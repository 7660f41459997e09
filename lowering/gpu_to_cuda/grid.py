"""The printer: signals between the CTAs of a grid."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.accesses import pointer_to
from polyc.lowering.gpu_to_cuda.asm import asm, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

define(
    device_function(
        "void signal_global(void* pointer)",
        asm("red.release.gpu.global.add.u32 [%0], 1;", ins='"l"(pointer)'),
    ),
    device_function(
        "void wait_global(const void* pointer, int count)",
        "int seen;\ndo {\n"
        + asm("ld.acquire.gpu.global.s32 %0, [%1];", '"=r"(seen)', '"l"(pointer)')
        + "\n} while (seen < count);",
    ),
)


@prints(hw.SignalGlobalOp)
def _signal_global(w: KernelWriter, op: hw.SignalGlobalOp) -> None:
    w.run("signal_global", pointer_to(w, op, op.counters, op.indices))


@prints(hw.WaitGlobalOp)
def _wait_global(w: KernelWriter, op: hw.WaitGlobalOp) -> None:
    w.run("wait_global", pointer_to(w, op, op.counters, op.indices), w.text(op.count))
