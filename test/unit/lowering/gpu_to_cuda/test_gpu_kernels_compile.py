"""Every kernel of the compiler's own plans goes through NVRTC: no spill, no stack, no complaint.

Two architectures, each with both storage orders of both operands, every variant; bf16, which
differs by an instruction's name alone, in one.  An operand is loaded without regard to the other,
so that both as they are, both transposed, and each of the mixtures on one architecture are enough.
Registers are upper bounds, since the compiler chooses them; the rest is exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.loops import is_unrolled
from polyc.dialects.gpu.module import ModuleOp
from polyc.families.ranking import MOST_KERNELS, MOST_PADDED
from polyc.families.space import space
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.partial_sums import MANY
from polyc.passes.lower_to_gpu import LowerToGpu
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


@dataclass(frozen=True)
class Expected:
    """One variant: what it takes, and the tensor-core instructions of one step over k."""

    threads: int
    registers: int
    shared_bytes: int
    wgmma: int = 0
    mma: int = 0


PADDED = {"padded_A": Expected(256, 48, 0), "padded_B": Expected(256, 48, 0)}
"""Copies of the operands to rows of whole panels."""

KERNELS = {
    "sm_90a": {
        "tma_small": Expected(
            384, 168, 6 * (128 + 128) * 64 * 2 + 2 * 6 * 8 + 128 * 128 * 2, wgmma=4
        ),
        "tma": Expected(384, 168, 4 * (128 + 256) * 64 * 2 + 2 * 4 * 8 + 128 * 128 * 2, wgmma=4),
        **PADDED,
        "padded": Expected(384, 168, 6 * (128 + 128) * 64 * 2 + 2 * 6 * 8 + 128 * 128 * 2, wgmma=4),
        # Rows that begin anywhere are stored through shared memory.
        "cp_async": Expected(128, 255, 3 * (64 + 64) * 32 * 2 + 64 * 64 * 2, mma=16),
        "scalar": Expected(128, 255, 2 * (64 + 64) * 32 * 2 + 64 * 64 * 2, mma=16),
    },
    "sm_80": {
        "cp_async16_128x128_parts8": Expected(128, 255, 3 * (128 + 128) * 64 * 2, mma=128),
        "cp_async16_128x128_parts8_sum": Expected(128, 48, 0),
        "cp_async16_large": Expected(256, 255, 3 * (256 + 128) * 64 * 2, mma=128),
        "cp_async16": Expected(128, 255, 3 * (128 + 128) * 64 * 2, mma=128),
        **PADDED,
        "padded": Expected(128, 255, 3 * (128 + 128) * 64 * 2, mma=128),
        "cp_async4": Expected(128, 255, 3 * (128 + 128) * 32 * 2, mma=64),
        "scalar": Expected(128, 255, 2 * (128 + 128) * 32 * 2, mma=64),
    },
}
"""A warp's tile of 64 x 64 by 32 is 4 x 8 x 2 of m16n8k16, twice as many by 64, and one of 32 x 32
a quarter; 64 of k are 4 of
m64n256k16 or m64n128k16."""


def of_space(name: str) -> Expected:
    """What a variant of the space of plans takes, or the kernel that adds its sums."""
    loose = name.startswith("padded")
    found = space("sm_90a", loose=loose)
    plans = {p.padded_name if loose else p.name: p for p in found}
    if name.endswith("_sum"):
        own = plans[name.removesuffix("_sum")]
        assert own.summed
        # Of many parts each warp has some.
        return Expected(128, 48, 512 if own.parts > MANY else 0)
    plan = plans[name]
    ring = plan.stages * ((plan.rows + plan.columns) * 64 * 2 + 2 * 8)
    # The sums of a cluster's tile lie beside the ring, with an mbarrier for them.
    sums = 0 if plan.summed or plan.parts == 1 else plan.rows * plan.columns * 4 + 8
    own = plan.columns if plan.summed else plan.columns // plan.parts
    width = next(w for w in (128, 64, 32, 16, 8) if own % w == 0)
    # So do panels of what a block stores that goes on to other tiles, as wide as there is room.
    through = (loose or plan.persistent) and not plan.summed
    stored = plan.rows * width * 2 if through else 0
    threads = 128 * (1 + plan.rows // 64)
    most = 168 if plan.at_once > 1 or threads > 256 else 255
    return Expected(threads, most, ring + sums + stored, wgmma=4)


def gemm(element: str, order: str) -> str:
    """relu(A · B + bias) with operands stored in ``order``: n as they are, t transposed."""
    a = f"!frontend.tensor<{'[K, M]' if order[0] == 't' else '[M, K]'}, {element}>"
    b = f"!frontend.tensor<{'[N, K]' if order[1] == 't' else '[K, N]'}, {element}>"
    bias, out = f"!frontend.tensor<[N], {element}>", f"!frontend.tensor<[M, N], {element}>"
    flags = ["acc = f32"] + [
        f"transpose_{side}" for side, o in zip("ab", order, strict=True) if o == "t"
    ]
    return f"""frontend.graph @gemm(%A: {a}, %B: {b}, %bias: {bias}) -> (C: {out}) {{
  %0 = frontend.gemm %A, %B {{{", ".join(flags)}}} : ({a}, {b}) -> {out}
  %1 = frontend.elementwise add %0, %bias : ({out}, {bias}) -> {out}
  %2 = frontend.elementwise relu %1 : {out}
  frontend.output %2 : {out}
}}
"""


def runs(op: Operation) -> int:
    """How often the unrolled loops around ``op`` run it."""
    times = 1
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp) and is_unrolled(parent):
            bound = parent.ub.owner
            assert isinstance(bound, arith.ConstantOp) and isinstance(bound.value, IntegerAttr)
            times *= int(str(bound.value).split()[0])
        parent = parent.parent_op()
    return times


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("arch", "element", "order"),
    [
        # Each factor both ways; the element types differ in a word.
        ("sm_90a", "f16", "nn"),
        ("sm_90a", "bf16", "tt"),
        ("sm_80", "f16", "tn"),
    ],
)
def test_kernels_compile(
    arch: str, element: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYC_CACHE", "0")
    ctx = make_context()
    module = parse_text(ctx, gemm(element, order), "gemm.mlir")
    LowerToGpu(arch).apply(ctx, module)
    gpu_module = only(module, ModuleOp)
    kernels = {op.sym_name.data.removeprefix("gemm_"): op for op in find(gpu_module, KernelOp)}
    expected = KERNELS[arch]
    assert [name for name in kernels if name in expected] == list(expected)
    if arch == "sm_90a":
        more = {name: of_space(name) for name in kernels if name not in expected}
        plans = [name for name in more if not name.endswith("_sum")]
        assert 2 <= len(plans) < MOST_KERNELS[3] + MOST_PADDED[3]
        expected = {**expected, **more}
    for name, op in kernels.items():
        assert op.shared_bytes is not None
        found = (
            op.threads.value.data,
            op.shared_bytes.value.data,
            sum(runs(o) for o in find(op, hw.WgmmaOp)),
            sum(runs(o) for o in find(op, hw.MmaSyncOp)),
        )
        want = expected[name]
        assert found == (want.threads, want.shared_bytes, want.wgmma, want.mma), name
    result = nvrtc.compile_cuda(cuda_source(gpu_module), arch)
    assert not result.cached and not result.warnings()
    for word in ("serialized", "ignored", "warning", "Performance Loss"):
        assert word not in result.log
    infos = {name.removeprefix("gemm_"): info for name, info in result.kernels.items()}
    assert set(infos) == set(expected)
    for name, info in infos.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), name
        assert info.registers <= expected[name].registers, name
