"""Pipelines with guards, as kernels: right under every schedule, and compiled without a loss."""

# The types of a program's arguments are values.
# pyright: reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

import polyc.tile as T
from polyc.dialects.gpu.module import ModuleOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import parsed
from polyc.test.support.guarded_programs import BlockSparse

SEPARATE = "LOAD B scf.if %used { LOAD A CONTRACT }"
NESTED = "scf.if %used { LOAD A scf.if %used { LOAD B CONTRACT } }"
OPPOSITE = "scf.if %used { LOAD A } else { LOAD A }\n LOAD B\n scf.if %used { CONTRACT } else { }"

KERNELS = {
    "cp.async": BlockSparse("sm_80"),
    "cp.async of 4 bytes": BlockSparse("sm_80", align=4),
    "registers": BlockSparse("sm_80", align=2, stages=2),
    "cp.async, B always": BlockSparse("sm_80", body=SEPARATE),
    "TMA": BlockSparse(),
    "TMA, B always": BlockSparse(body=SEPARATE),
    "TMA, a guard in a guard": BlockSparse(body=NESTED),
    "TMA, two copies into one tile": BlockSparse(body=OPPOSITE),
    "TMA, persistent": BlockSparse(persistent=True),
    "TMA, persistent, stored by TMA": BlockSparse(persistent=True, stored=True),
    "TMA, multicast": BlockSparse(persistent=True, cluster=2),
    "TMA, multicast, B always": BlockSparse(persistent=True, cluster=2, body=SEPARATE),
}
SHAPES = ((200, 136, 456), (70, 40, 40))
"""M, N, K: many steps with tails, and fewer steps than the pipeline is deep."""

SCHEDULES = (("round-robin", "late"), ("random", "random"))


@cache
def written(program: BlockSparse) -> ModuleOp:
    """The module as its author wrote it; not to be changed."""
    return gpu_module_of(parsed(program.text()))


@cache
def lowered(program: BlockSparse) -> ModuleOp:
    """The module at hardware level; not to be changed."""
    module = parsed(program.text())
    finish(module)
    return gpu_module_of(module)


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k}


@pytest.mark.parametrize("used", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("program", KERNELS.values(), ids=KERNELS)
def test_tiles_mean_the_sparse_product(program: BlockSparse, used: float) -> None:
    for shape in SHAPES:
        inputs = program.inputs(*shape, used=used)
        (found,) = tile.run(written(program), inputs, sizes(*shape))
        assert (found == program.expected(inputs)).all()


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", range(len(KERNELS)), ids=KERNELS)
def test_threads_compute_the_sparse_product(number: int) -> None:
    """Each with some blocks; half of them with none of the blocks, and half with all."""
    program = [*KERNELS.values()][number]
    cases = [(SHAPES[number % 2], 0.4), (SHAPES[1 - number % 2], float(number // 2 % 2))]
    for seed, (shape, used) in enumerate(cases):
        schedule, completion = SCHEDULES[(number + seed) % 2]
        inputs = program.inputs(*shape, used=used, seed=seed)
        result = simulate(
            lowered(program),
            inputs,
            sizes(*shape),
            schedule=schedule,
            completion=completion,
            seed=seed,
        )
        result.check()
        assert (result.outputs[0] == program.expected(inputs)).all(), (shape, used)


def test_what_is_skipped_is_not_copied() -> None:
    """Bytes by TMA are those of the blocks that S keeps, and B's where it is always loaded."""
    shape = (128, 128, 640)
    for body, always in ((KERNELS["TMA"].body, 0), (SEPARATE, 1)):
        program = BlockSparse(body=body)
        inputs = program.inputs(*shape)
        blocks, kept = inputs[2].size, int(inputs[2].sum())
        assert 0 < kept < blocks
        result = simulate(lowered(program), inputs, sizes(*shape))
        a, b = 128 * 64 * 2, 64 * 128 * 2
        assert result.counters.tma_bytes == kept * a + (blocks if always else kept) * b


@pytest.mark.turns(2)
@pytest.mark.parametrize("program", KERNELS.values(), ids=KERNELS)
def test_guards_cost_no_spill_and_serialise_no_wgmma(program: BlockSparse) -> None:
    module = lowered(program)
    result = nvrtc.compile_cuda(cuda_source(module), module.arch.data, name="sparse.cu")
    assert not result.warnings()
    for word in ("serialized", "ignored", "warning", "Performance Loss"):
        assert word not in result.log
    info = result.kernels["sparse"]
    assert (info.spill_bytes, info.stack) == (0, 0)


FLOW = (
    "gpu.mbarrier_announce",
    "gpu.mbarrier_arrive",
    "gpu.mbarrier_arrive_cluster",
    "gpu.mbarrier_expect",
    "gpu.mbarrier_wait",
    "gpu.tma_load",
    "gpu.wgmma_wait",
    "gpu.cp_async_commit",
    "gpu.cp_async_wait",
    "gpu.barrier",
)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "shape", "ops"),
    [
        ("cp.async", (40, 72, 456), FLOW),
        ("TMA", (40, 72, 456), FLOW),
        ("TMA, B always", (40, 72, 456), FLOW),
        ("TMA, multicast", (40, 136, 456), FLOW[:3]),
    ],
)
def test_no_mutant_of_the_flow_survives(
    name: str, shape: tuple[int, int, int], ops: Sequence[str]
) -> None:
    """Every wait, arrival, announcement and copy of a guarded pipeline is needed."""
    program = KERNELS[name]
    module = lowered(program)
    inputs = program.inputs(*shape)
    # Slots are filled again where the contract before was pending, and where it was skipped.
    inputs[2][:] = [0, 1, 1, 0, 1, 1, 0, 1]
    cases = [Case.of(module, None, sizes(*shape), inputs, [program.expected(inputs)])]
    chosen = [m for m in mutants(module) if m.op in ops]
    assert len(chosen) > 4
    verdicts = [judge(mutant, cases) for mutant in chosen]
    assert [str(v.mutant) for v in verdicts if v.outcome != "caught"] == []


def test_a_slot_that_is_announced_too_early_is_seen() -> None:
    """What the slots' full barriers of a cluster would miss if only one producer arrived."""
    program = KERNELS["TMA, multicast"]
    module = lowered(program)
    chosen = [m for m in mutants(module) if m.op == "gpu.mbarrier_init" and "2 -> 1" in m.change]
    inputs = program.inputs(40, 40, 456)
    cases = [Case.of(module, None, sizes(40, 40, 456), inputs, [program.expected(inputs)])]
    assert [judge(m, cases).outcome for m in chosen] == ["caught"]


def test_the_position_in_a_persistent_pipeline_is_its_tile_s_own() -> None:
    """Only slots count on from tile to tile; S is asked at the pipeline's own iteration."""
    program = KERNELS["TMA, persistent"]
    shape = (384, 256, 320)
    inputs = program.inputs(*shape, seed=1)
    inputs[2][:] = np.arange(inputs[2].size).reshape(inputs[2].shape) % 2
    result = simulate(lowered(program), inputs, sizes(*shape), seed=1)
    result.check()
    assert (result.outputs[0] == program.expected(inputs)).all()


def test_python_skips_blocks_too() -> None:
    """The kernel in one stream, written with T.when and T.read."""
    m, n, k = T.sizes("M", "N", "K")

    @T.program(arch="sm_80")
    def sparse(
        A: T.Tensor[m, k, T.f16],
        B: T.Tensor[k, n, T.f16],
        S: T.Tensor[T.ceildiv(m, 64), T.ceildiv(k, 64), T.i32],
        C: T.Out[m, n, T.f32],
    ) -> None:
        with T.kernel(
            "sparse",
            threads=128,
            grid=[T.ceildiv(m, 64), T.ceildiv(n, 64)],
            when="K mod 8 == 0, N mod 8 == 0, K >= 1",
        ):
            m0, n0 = T.tile_coordinates(m, n, tile=(64, 64), raster="row", group=1)
            acc = T.alloc_fragment((64, 64), T.f32)
            T.clear(acc)
            a = T.alloc_shared((64, 64), T.f16)
            b = T.alloc_shared((64, 64), T.f16)
            with T.pipelined(k, step=64, stages=3) as (k0, i):
                used = T.read(S[m0 // 64, i])
                with T.when(used != 0):
                    T.copy(A[m0, k0], a)
                    T.copy(B[k0, n0], b)
                    T.gemm(a, b, acc, warp_tile=(32, 32))
            T.copy(acc, C[m0, n0])

    module = parsed(str(sparse.module()))
    program = KERNELS["cp.async"]
    inputs = program.inputs(*SHAPES[0])
    (found,) = tile.run(gpu_module_of(module), inputs, sizes(*SHAPES[0]))
    assert (found == program.expected(inputs)).all()
    finish(module)
    result = simulate(gpu_module_of(module), inputs, sizes(*SHAPES[0]), schedule="random", seed=1)
    result.check()
    assert (result.outputs[0] == program.expected(inputs)).all()
