"""``gpu-double-buffer-fragments``: loads run a step ahead, and what they read is there."""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp, bf16

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.passes.finish import finished
from polyc.playback.functions import dtype_of
from polyc.playback.gpu.simulate import simulate
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.test.support.evaluate import Event, Machine
from polyc.test.support.gpu_programs import pipeline
from polyc.test.support.gpu_text import (
    assert_refused,
    body_of,
    find,
    kernel,
    only,
    parsed,
    run,
    unchanged,
)
from polyc.tools.pipeline import Compilation

PASS = "gpu-double-buffer-fragments"
BEFORE = ("gpu-layout-inference", "gpu-multi-version-buffers", "gpu-inject-pipeline")

Array = NDArray[Any]


def buffered(text: str, buffers: object = 2) -> str:
    """``text`` with its contract's buffers."""
    warp = text.index("warp_tile")
    end = text.index(">", warp) + 1
    return f"{text[:end]} fragment_buffers {buffers}{text[end:]}"


def steps(module: ModuleOp, k: int) -> list[Event]:
    machine = Machine(
        handlers={
            tile.FragmentOp: lambda event: [np.zeros(1)],
            memref.AllocaOp: lambda event: [np.zeros(1)],
        }
    )
    _, m, size = only(module, KernelOp).body.block.args
    machine.set(m, 0)
    machine.set(size, k)
    return machine.run(body_of(module)).events


@pytest.mark.parametrize("loader", ["cp_async", "register"])
@pytest.mark.parametrize("stages", range(2, 6))
def test_every_product_finds_its_own_operands(stages: int, loader: str) -> None:
    """Replay the order of one thread's ops, where every other thread takes the same ones."""
    module = run(buffered(pipeline(loader=loader, stages=stages)), *BEFORE, PASS)
    assert not find(module, tile.ContractOp)
    for iterations in (0, 1, stages - 1, stages, 2 * stages + 1):
        slots: dict[int, int] = {}
        landed: set[int] = set()
        reading: set[int] = set()
        buffers: dict[int, tuple[int, int]] = {}
        groups: list[list[int]] = [[]]
        products: list[tuple[int, int]] = []
        copied = waited = 0
        for event in steps(module, 64 * iterations):
            match event.op:
                case tile.CopyOp() as op:
                    assert op.slot is not None
                    slot = int(event[op.slot][0])
                    assert slot not in reading, "another thread may still read the slot"
                    slots[slot] = copied
                    groups[-1].append(copied)
                    copied += 1
                case hw.CpAsyncCommitOp():
                    groups.append([])
                case hw.CpAsyncWaitOp() as op:
                    waited = len(groups) - 1 - op.pending.value.data
                case hw.BarrierOp():
                    done = groups[:waited] if loader == "cp_async" else groups
                    landed = {i for group in done for i in group}
                    reading = set()
                case tile.LoadOperandsOp() as op:
                    assert op.lhs_slot is not None and op.rhs_slot is not None
                    slot = int(event[op.lhs_slot][0])
                    assert slot == int(event[op.rhs_slot][0])
                    assert slots[slot] in landed, "what it reads may not have arrived"
                    reading.add(slot)
                    buffers[op.buffer.value.data] = (slots[slot], op.step.value.data)
                case tile.MultiplyOp() as op:
                    products.append(buffers[op.buffer.value.data])
                case _:
                    pass
        assert products == [(i, step) for i in range(iterations) for step in range(4)]


def test_loads_stand_before_the_product_that_does_not_need_them() -> None:
    module = run(buffered(pipeline()), *BEFORE, PASS)
    loop = find(module, scf.ForOp)[-1]
    kinds = (tile.LoadOperandsOp, tile.MultiplyOp, hw.BarrierOp)
    order = [op for op in loop.body.block.ops if isinstance(op, kinds)]
    names = [type(op).__name__[0] for op in order]
    assert "".join(names) == "LMLMLMBLM"
    for load, product in pairwise(order):
        if isinstance(load, tile.LoadOperandsOp) and isinstance(product, tile.MultiplyOp):
            assert load.buffer != product.buffer


def test_one_buffer_or_none_said_is_left_alone() -> None:
    unchanged(pipeline(), PASS)
    unchanged(buffered(pipeline(), 1), PASS)


def in_loop(before: str = "", after: str = "", slot: str = "", step: int = 1) -> str:
    """A hand-written loop around one contract with two buffers."""
    shared, acc = "!gpu.shared<[64, 64], f16, swizzle 128, ring 2>", "!gpu.fragment<[64, 64], f32>"
    return kernel(
        f"""
    %t = gpu.shared_tile : {shared}
    %acc = gpu.fragment : {acc}
    %zero = arith.constant 0 : index
    %one = arith.constant {step} : index
    scf.for %i = %zero to %K step %one {{
      {before}
      gpu.contract %t {slot} affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)>"""
        f""" into %acc mma "mma.sync" warp_tile <32, 32> fragment_buffers 2 : """
        f"""{shared}, {shared}, {acc}
      {after}
    }}""",
        "%K: index = symbol K",
        arch="sm_80",
    )


def test_a_loop_by_hand_needs_no_barrier() -> None:
    """Tiles that were filled before the loop: there is nothing to wait for in it."""
    module = run(in_loop(), PASS)
    assert len(find(module, tile.LoadOperandsOp)) == 5 and not find(module, hw.BarrierOp)


SECOND = (
    "gpu.contract %t {slot} affine_map<(m, n, k) -> (m, k)>, %u affine_map<(m, n, k) -> (k, n)> "
    'into %acc1 mma "mma.sync" warp_tile <32, 32> fragment_buffers 2 : '
    "!gpu.shared<[64, 64], f16, swizzle 128, ring 2>, !gpu.shared<[64, 64], f16, swizzle 128>, "
    "!gpu.fragment<[64, 64], f32>"
)


def two(second: str) -> str:
    """The loop with another contract behind the first."""
    made = (
        "%u = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>\n"
        "    %acc1 = gpu.fragment : !gpu.fragment<[64, 64], f32>\n    %zero = "
    )
    return in_loop(after=second, slot="slot %i").replace("%zero = ", made, 1)


def test_contracts_of_one_left_tile_are_taken_together() -> None:
    """The left operand of each step is loaded once."""
    module = run(two(SECOND.format(slot="slot %i")), PASS)
    loads = find(module, tile.LoadOperandsOp)
    assert [op.right is not None for op in loads] == [False, True] * 5
    assert len({op.lhs_registers for op in loads}) == 1
    assert len({op.rhs_registers for op in loads}) == 2
    assert len(find(module, tile.MultiplyOp)) == 8 and not find(module, tile.ContractOp)


def test_contracts_of_two_left_tiles_are_refused() -> None:
    text = two(SECOND.format(slot=""))
    assert_refused(text, "NoBuffers", f"gpu.contract{ORDER}", "gpu.contract %t  affine", PASS)


OUTSIDE = (
    "operands are loaded ahead from one iteration to the next; put the contract into a "
    "gpu.pipeline or into a loop of step 1 that carries no values"
)
ORDER = (
    " stands where the loop's order is waits and barriers, then copies, then one contract, or "
    "several of one left tile; move it out of the loop or between them"
)
REFUSED = {
    "three buffers": (
        buffered(pipeline(), 3),
        "BadBuffers",
        "fragment_buffers is 1 or 2, not 3",
        "gpu.contract",
    ),
    "wgmma": (
        buffered(pipeline("wgmma", loader="tma")),
        "NoBuffers",
        "wgmma reads its operands from shared memory by itself; fragment_buffers is for mma.sync "
        "and fma",
        "gpu.contract",
    ),
    "lines along k": (
        in_loop().replace("mma.sync", "fma").replace("f16", "f32"),
        "NoBuffers",
        "threads load neighbouring rows and columns of one k ahead; store both operands with these "
        "contiguous (turned copies do that), or drop fragment_buffers",
        "gpu.contract",
    ),
    "a contract that clears": (
        buffered(pipeline()).replace("into %acc mma", "into %acc clear mma"),
        "NoBuffers",
        "a contract that clears adds nothing up over a loop; drop fragment_buffers",
        "gpu.contract",
    ),
    "an odd number of steps": (
        buffered(pipeline(tile="[48, 48], f16", acc="[48, 48], f32", warp="<48, 48>")),
        "NoBuffers",
        "48 of k are 3 steps, and two buffers take turns in an even number of them; make k of the "
        "tile a multiple of 32",
        "gpu.contract",
    ),
    "a guard": (
        in_loop(before="scf.if %p {", after="}").replace(
            "%zero = ", "%p = arith.constant true\n    %zero = ", 1
        ),
        "NoBuffers",
        "operands are loaded ahead for every iteration, and a condition skips this contract in "
        "some; drop fragment_buffers",
        "gpu.contract",
    ),
    "no loop": (buffered(pipeline()), "NoBuffers", OUTSIDE, "gpu.contract"),
    "a loop of another step": (in_loop(step=2), "NoBuffers", OUTSIDE, "gpu.contract"),
    "a barrier after the contract": (
        in_loop(after="gpu.cp_async_commit"),
        "NoBuffers",
        f"gpu.cp_async_commit{ORDER}",
        "gpu.cp_async_commit",
    ),
    "a copy before the barrier": (
        in_loop(before="gpu.cp_async_commit\n      gpu.barrier"),
        "NoBuffers",
        f"gpu.cp_async_commit{ORDER}",
        "gpu.cp_async_commit",
    ),
    "a slot that is read from memory": (
        in_loop(
            before="%r = memref.alloca() : memref<1xindex, #gpu<space register>>\n      "
            "%s = memref.load %r[%zero] : memref<1xindex, #gpu<space register>>",
            slot="slot %s",
        ),
        "NoBuffers",
        "the contract's slot comes from memref.alloca, which cannot be computed for the next "
        "iteration; compute it from the loop's variable",
        "memref.alloca",
    ),
}


@pytest.mark.parametrize(("text", "kind", "message", "marker"), REFUSED.values(), ids=REFUSED)
def test_double_buffering_is_refused(text: str, kind: str, message: str, marker: str) -> None:
    assert_refused(text, kind, message, marker, PASS)


# On the simulator ------------------------------------------------------------------------


@cache
def gemm(root: Path, tmp: Path) -> GpuModuleOp:
    """The example's kernels; the one that small sizes take has small tiles and two buffers."""
    plan = {"variant": "cp_async16", "tile": [32, 32, 32], "warp_tile": [16, 32], "stages": 3}
    path = tmp / "plan.json"
    path.write_text(json.dumps(plan))
    job = Compilation.of_file(root / "examples" / "gemm_bias_relu.mlir", "sm_80")
    job.plan = str(path)
    return only(job.run().module, GpuModuleOp)


def inputs(m: int, n: int, k: int) -> tuple[list[Array], list[Array]]:
    """Small integers, of which products and sums are exact, and what they give."""
    source = np.random.default_rng(m + n + k)
    a, b, bias = (source.integers(-3, 4, s).astype(np.float16) for s in ((m, k), (k, n), (n,)))
    product = a.astype(np.float32) @ b.astype(np.float32)
    return [a, b, bias], [np.maximum(product + bias.astype(np.float32), 0)]


@pytest.mark.turns(1)
@pytest.mark.parametrize("k", [0, 8, 32, 64, 96, 104, 200])
@pytest.mark.parametrize(
    ("schedule", "completion"), [("random", "late"), ("one-warp-ahead", "early")]
)
def test_the_kernel_is_clean_and_exact(
    root: Path, tmp_path_factory: pytest.TempPathFactory, k: int, schedule: str, completion: str
) -> None:
    module = gemm(root, tmp_path_factory.getbasetemp())
    given, (expected,) = inputs(40, 56, k)
    result = simulate(
        module,
        given,
        {"M": 40, "N": 56, "K": k},
        schedule=schedule,
        completion=completion,
        seed=k,
    )
    result.check()
    assert (result.outputs[0] == expected.astype(np.float16)).all()


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_the_kernel_for_large_outputs_on_small_ones(root: Path, element: str) -> None:
    """examples/tile/gemm_sm80.mlir: the first kernel, without the condition on the size."""
    text = (root / "examples" / "tile" / "gemm_sm80.mlir").read_text()
    condition = ", M * N >= 3538944"
    assert condition in text
    text = re.sub(r"\bf16\b", element, text.replace(condition, ""))
    module = finished(only(parsed(text), GpuModuleOp))
    a, b = (np.random.default_rng(1).integers(-2, 3, s) for s in ((264, 200), (200, 136)))
    kind = np.float16 if element == "f16" else dtype_of(bf16)
    result = simulate(
        module, [a.astype(kind), b.astype(kind)], {"M": 264, "N": 136, "K": 200}, schedule="random"
    )
    result.check()
    assert result.variant == "gemm_sm80_256x128"
    assert (result.outputs[0].astype(np.float32) == (a @ b).astype(np.float32)).all()


def test_no_mutant_of_the_kernel_survives(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Waits, barriers, slots, loads and products of the rotated loop are needed: half are tried."""
    module = gemm(root, tmp_path_factory.getbasetemp())
    names = [variant.variant_name for variant in module.dispatch().variants()]
    first = next(name for name in names if name.endswith("_cp_async16"))
    cases = [
        Case.of(module, first, {"M": m, "N": n, "K": k}, *inputs(m, n, k))
        for m, n, k in ((40, 56, 136), (8, 8, 8))
    ]
    flow = ("gpu.barrier", "gpu.cp_async_wait", "gpu.cp_async_commit", "gpu.ldmatrix")
    flow += ("gpu.mma_sync", "gpu.shared_address")
    chosen = [m for m in mutants(module) if m.kernel == first and m.op in flow]
    assert len(chosen) > 30
    verdicts = [judge(mutant, cases) for mutant in chosen[::2]]
    assert [str(v.mutant) for v in verdicts if v.outcome != "caught"] == []
