"""The printer: random numbers."""

from __future__ import annotations

from itertools import product

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.hardware.random import COUNTS, WORDS
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints

# The four words of a block of Philox 4x32-10, c0 to c3.
_BLOCK = """
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
}"""

_ONE = f"""
u64 block = (u64)place >> 2;{_BLOCK}
u32 even = place & 2 ? c2 : c0, odd = place & 2 ? c3 : c1;
return (i64)(place & 1 ? (u64)even << 32 | odd : (u64)odd << 32 | even);
"""

# A word stands beside its neighbour; where the first place begins inside of a block, all move.
_SEVERAL = """
u64 pairs[{words}];
#pragma unroll
for (int i = 0; i < {words}; i += 4) {{
  u64 block = ((u64)place + i) >> 2;{block}
  pairs[i] = (u64)c1 << 32 | c0;
  pairs[i + 1] = (u64)c0 << 32 | c1;
  pairs[i + 2] = (u64)c3 << 32 | c2;
  pairs[i + 3] = (u64)c2 << 32 | c3;
}}{moves}
i64x{count} found;
#pragma unroll
for (int i = 0; i < {count}; ++i) found.v[i] = (i64)pairs[i];
return found;
"""

_MOVE = """
#pragma unroll
for (int i = 0; i < {last}; ++i) pairs[i] = place & {by} ? pairs[i + {by}] : pairs[i];"""


def _several(count: int, multiple: int) -> DeviceFunction:
    words = -(-(count + WORDS - multiple) // WORDS) * WORDS
    moves = "".join(_MOVE.format(last=words - by, by=by) for by in (2, 1) if by >= multiple)
    block = _BLOCK.replace("\n", "\n  ")
    if count == WORDS // 2:
        # What accumulators have side by side: few registers are left there, and a loop keeps the
        # compiler from making all of a thread's blocks at once.
        block = block.replace("#pragma unroll", "#pragma unroll 5")
    text = _SEVERAL.format(words=words, block=block, moves=moves, count=count)
    name = f"philox_x{count}_by{multiple}"
    return device_function(f"i64x{count} {name}(i64 place, i64 seed)", text)


PAIRS = tuple(product(COUNTS, (1, 2, WORDS)))
"""How many neighbours a function has the numbers of, and what the first is a multiple of."""

define(
    device_function("i64 philox(i64 place, i64 seed)", _ONE),
    *(_several(count, multiple) for count, multiple in PAIRS),
)


@prints(hw.PhiloxOp, "random")
def _philox(w: KernelWriter, op: hw.PhiloxOp) -> None:
    several = "" if op.multiple is None else f"_x{op.count}_by{op.multiple.value.data}"
    w.define(op.result, w.call(f"philox{several}", w.text(op.place), w.text(op.seed)))
