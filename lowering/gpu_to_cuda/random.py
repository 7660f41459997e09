"""The printer: random numbers."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda.asm import define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

# The words of Philox 4x32-10 at a place and beside it; neighbours share a block.
define(
    device_function(
        "i64 philox(i64 place, i64 seed)",
        """
u64 block = (u64)place >> 2;
u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = 0u, c3 = 0u;
u32 k0 = (u32)seed, k1 = (u32)((u64)seed >> 32);
#pragma unroll
for (int round = 0; round < 10; ++round) {
  u64 first = (u64)c0 * 0xD2511F53u, third = (u64)c2 * 0xCD9E8D57u;
  c0 = (u32)(third >> 32) ^ c1 ^ k0;
  c1 = (u32)third;
  c2 = (u32)(first >> 32) ^ c3 ^ k1;
  c3 = (u32)first;
  k0 += 0x9E3779B9u;
  k1 += 0xBB67AE85u;
}
u32 even = place & 2 ? c2 : c0, odd = place & 2 ? c3 : c1;
return (i64)(place & 1 ? (u64)even << 32 | odd : (u64)odd << 32 | even);
""",
    )
)


@prints(hw.PhiloxOp, "random")
def _philox(w: KernelWriter, op: hw.PhiloxOp) -> None:
    w.define(op.result, w.call("philox", w.text(op.place), w.text(op.seed)))
