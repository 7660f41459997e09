"""The printer: the TMA copy of a convolution's pixels (PTX ISA, "im2col mode")."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.asm import asm, define, device_function
from polyc.lowering.gpu_to_cuda.sync import barrier_at
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

define(
    device_function(
        "void tma_load_im2col(u32 address, const TensorMap* map, u32 barrier, "
        "int c, int w, int h, int n, int s, int r)",
        asm(
            "cp.async.bulk.tensor.4d.shared::cluster.global.im2col"
            ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};",
            ins='"r"(address), "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), '
            '"h"((u16)s), "h"((u16)r)',
        ),
    ),
)


@prints(hw.TmaLoadIm2colOp)
def _tma_load_im2col(w: KernelWriter, op: hw.TmaLoadIm2colOp) -> None:
    inner_first = [w.text(v) for v in (*reversed(op.coordinates), *reversed(op.offsets))]
    barrier = barrier_at(w, op.barrier, op.index)
    w.run("tma_load_im2col", w.text(op.address), f"&{w.text(op.map)}", barrier, *inner_first)
