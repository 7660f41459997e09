"""``gpu-insert-barriers``: what authors leave out between accesses of shared tiles is put there."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import polyc.tile as T
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.passes.finish import finish
from polyc.passes.gpu.insert_barriers import planned
from polyc.playback import tile as tiles
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import ORDER, find, kernel, printed, refusal, run
from polyc.test.support.root import ROOT
from polyc.test.support.tile_cases import CASES
from polyc.test.support.unordered_programs import PROGRAMS, Unordered, in_a_loop, transposed
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

M, N, K = T.sizes("M", "N", "K")
BEFORE = ORDER[: ORDER.index("gpu-insert-barriers")]
BARRIERS = hw.BarrierOp | hw.NamedBarrierOp


def fresh(program: Any) -> Any:
    """A program's module, to be changed: the program keeps its own."""
    module = program.module()
    copy = module.clone()
    for old, new in zip(module.walk(), copy.walk(), strict=True):
        new.location = old.location
    return copy


def lowered(program: Any) -> Any:
    module = fresh(program)
    finish(module)
    return module


def barriers(module: Any) -> int:
    return sum(isinstance(op, BARRIERS) for op in module.walk())


@pytest.mark.turns(3)
@pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_without_its_barriers_is_right(case: Unordered) -> None:
    """In several schedules and completions, and the tiles played one after another say the same.

    Who goes on and when copies arrive are drawn apart, so each size takes two or three schedules,
    with a completion each, and the next size the others.
    """
    module = lowered(case.program)
    assert barriers(module) == case.barriers
    for turn, sizes in enumerate(case.sizes):
        inputs = case.inputs(sizes)
        expected = case.reference(*(x.astype(np.float32) for x in inputs))
        if case.in_tiles:
            played = tiles.run(gpu_module_of(fresh(case.program)), inputs, sizes)[0]
            np.testing.assert_array_equal(played.astype(np.float32), expected)
        for number, schedule in [*enumerate(SCHEDULES, turn)][turn % 2 :: 2]:
            completion = ("late", "early", "random")[number % 3]
            result = simulate(
                module, inputs, sizes, schedule=schedule, completion=completion, seed=5
            )
            assert result.findings == [], f"{sizes}, {schedule}, {completion}"
            np.testing.assert_array_equal(result.outputs[0].astype(np.float32), expected)


NEEDED = [
    name for name in PROGRAMS
    if not name.startswith(("TMA, tr", "TMA from", "multicast", "TMA, st"))
]  # fmt: skip
"""Those of which another pass does not order all."""


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", NEEDED[::2])
def test_without_the_pass_it_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = PROGRAMS[name]
    monkeypatch.setattr("polyc.passes.gpu.insert_barriers.planned", lambda kernel: {})
    module = lowered(case.program)
    found: set[str] = set()
    for sizes in case.sizes:
        result = simulate(module, case.inputs(sizes), sizes)
        found |= {f.kind for f in result.findings}
    assert found & {"DataRace", "UnwaitedCopy", "StageOverwritten", "ProxyFence"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_none_of_the_barriers_is_too_much(name: str) -> None:
    """With any one of what is planned taken away, the pass would plan it again."""
    module = run(fresh(PROGRAMS[name].program), *BEFORE)
    for found in find(module, KernelOp):
        plan = planned(found)
        assert planned(found) == plan
    after = run(module, "gpu-insert-barriers")
    assert all(not planned(found) for found in find(after, KernelOp))


# What is left alone -------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_of_examples_get_nothing(name: str) -> None:
    text = (ROOT / "examples" / "tile" / f"{name}.mlir").read_text(encoding="utf-8")
    module = run(parse_text(make_context(), text, name), *BEFORE)
    before = printed(module)
    assert printed(run(module, "gpu-insert-barriers")) == before


@T.program(arch="sm_80", assume="N mod 8 == 0")
def own(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
    """Each thread reads what it wrote, slot by slot."""
    with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
        r = T.block_id() * 64
        s = T.alloc_shared((64, 64), T.f16, ring=2)
        f = T.alloc_fragment((64, 64), T.f16)
        T.copy(X[r, 0], s.slot(0), loader="register")
        with T.serial(0, T.ceildiv(N, 64)) as n:
            T.copy(X[r, n * 64 + 64], s.slot((n + 1) % 2), loader="register")
            T.copy(s.slot(n % 2), f)
            T.copy(f, Y[r, n * 64])


def test_threads_that_read_their_own_do_not_meet() -> None:
    module = lowered(own)
    assert barriers(module) == 0
    x = np.random.default_rng(0).integers(-9, 9, (70, 200)).astype(np.float16)
    for schedule in SCHEDULES:
        result = simulate(module, [x], {"M": 70, "N": 200}, schedule=schedule)
        assert result.findings == []
        np.testing.assert_array_equal(result.outputs[0], x)


def test_a_pipeline_that_ends_at_the_less_of_two_numbers_keeps_its_copies_in_flight() -> None:
    """As the parts of a tile's keys do: no wait but the loop's own, which leaves one group."""

    @T.program(arch="sm_80", assume="K mod 8 == 0, N mod 8 == 0")
    def part(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)]):
            r, c = T.tile_coordinates(M, N, tile=(64, 64))
            a = T.alloc_shared((64, 32), T.f16)
            b = T.alloc_shared((32, 64), T.f16)
            acc = T.alloc_fragment((64, 64), T.f32)
            T.clear(acc)
            with T.pipelined(T.min(K, N), step=32, stages=3) as (k, _):
                T.copy(A[r, k], a, loader="cp_async")
                T.copy(B[k, c], b, loader="cp_async")
                T.gemm(a, b, acc)
            T.copy(acc, C[r, c])

    (wait,) = find(run(fresh(part), *BEFORE, "gpu-insert-barriers"), hw.CpAsyncWaitOp)
    assert wait.pending.value.data == 1


def test_an_author_s_barriers_are_enough() -> None:
    @T.program(arch="sm_80")
    def ordered(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            with T.serial(0, N, 64) as c:
                T.barrier()
                T.copy(X[r, c], s, loader="register")
                T.barrier()
                with T.parallel(f) as (i, j):
                    Y[c + i, r + j] = s[j, i]

    said, inferred = lowered(ordered), lowered(in_a_loop("sm_80", "register"))
    assert barriers(said) == 2

    def ops(module: Any) -> list[str]:
        return [op.name for op in module.walk()]

    assert ops(said) == ops(inferred)


def test_a_group_of_the_author_s_is_enough_for_what_the_group_shares() -> None:
    """Each warpgroup reverses rows of its own; with other rows, all threads have to meet."""
    mine = "(t floordiv 4, t mod 4 * 16 + r)"
    layout = f"#gpu.fragment_layout<threads 256, registers 16, affine_map<(t, r) -> {mine}>>"
    fragment = f"!gpu.fragment<[64, 64], f32, {layout}>"
    shared = "!gpu.shared<[64, 64], f32, swizzle 0>"

    def text(rows: str) -> str:
        return kernel(
            f"""
    %s = gpu.shared_tile : {shared}
    %f = gpu.fragment : {fragment}
    %t = gpu.thread_id
    %g = affine.apply affine_map<(t) -> (t floordiv 128)> (%t)
    %w = gpu.warp_uniform %g
    gpu.copy %f to %s : {fragment}, {shared}
    gpu.named_barrier 6 plus %w threads 128
    gpu.map %f : {fragment} origin [] ins(%s : {shared} affine_map<(i, j) -> ({rows}, j)>)
        outs(%f : {fragment} affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%e: f32, %v: f32):
      gpu.yield %v : f32
    }}""",
            threads=256,
        )

    own_rows = "i floordiv 32 * 32 + 31 - i mod 32"
    assert not find(run(text(own_rows), "gpu-insert-barriers"), hw.BarrierOp)
    assert find(run(text("63 - i"), "gpu-insert-barriers"), hw.BarrierOp)


# Where a barrier stands ---------------------------------------------------------------------------


def test_one_barrier_orders_several_tiles() -> None:
    @T.program(arch="sm_80")
    def two(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64), T.ceildiv(N, 64)]):
            r, c = T.tile_coordinates(M, N, tile=(64, 64))
            s = T.alloc_shared((64, 64), T.f16)
            u = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            T.copy(X[r, c], s, loader="register")
            T.copy(X[r, c], u, loader="register")
            with T.parallel(f) as (i, j):
                Y[c + i, r + j] = (s[j, i] + u[j, i]) * 0.5

    assert barriers(lowered(two)) == 1


def test_what_a_loop_reads_is_ordered_in_front_of_it() -> None:
    @T.program(arch="sm_80")
    def read_often(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            T.copy(X[r, 0], s, loader="register")
            with T.serial(0, N, 64) as c, T.parallel(f) as (i, j):
                Y[r + i, c + j] = s[j, i]

    module = run(fresh(read_often), *BEFORE, "gpu-insert-barriers")
    (barrier,) = find(module, hw.BarrierOp)
    assert isinstance(barrier.parent_op(), KernelOp)


# What is refused ----------------------------------------------------------------------------------


def error_of(program: Any) -> PolycError:
    with pytest.raises(PolycError) as caught:
        finish(fresh(program))
    return caught.value


def in_a_branch(how: str) -> Any:
    @T.program(arch="sm_90a", assume="N mod 8 == 0")
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            with T.when(T.thread_id() < 64):
                T.copy(X[r, 0], s, loader=how)
                with T.parallel(f) as (i, j):
                    Y[i, r + j] = s[j, i]

    return program


@pytest.mark.parametrize("how", ["register", "cp_async"])
def test_no_barrier_is_put_into_a_branch_of_some_threads(how: str) -> None:
    error = error_of(in_a_branch(how))
    assert error.kind == "DivergentBarrier" and "branch that they do not take" in error.message
    assert error.place is not None and error.place.file.endswith("test_insert_barriers.py")


def test_a_store_s_meeting_is_not_put_there_either() -> None:
    @T.program(arch="sm_80")
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            T.copy(X[r, 0], s, loader="register")
            with T.when(T.thread_id() < 64):
                T.copy(s, Y[r, 0], loader="register")

    error = error_of(program)
    assert error.kind == "DivergentBarrier" and "lets all 128 threads meet" in error.message


def test_a_loop_that_threads_leave_one_by_one_is_such_a_place() -> None:
    @T.program(arch="sm_80")
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[N, M, T.f16]):
        with T.kernel(threads=128, grid=[T.ceildiv(M, 64)]):
            r = T.block_id() * 64
            s = T.alloc_shared((64, 64), T.f16)
            f = T.alloc_fragment((64, 64), T.f16)
            with T.serial(T.thread_id(), N, 64) as c:
                T.copy(X[r, 0], s, loader="register")
                with T.parallel(f) as (i, j):
                    Y[c + i, r + j] = s[j, i]

    error = error_of(program)
    assert error.kind == "DivergentBarrier" and "loop that they do not take" in error.message


def test_a_multicast_copy_is_for_all_of_a_cluster() -> None:
    @T.program(arch="sm_90a", assume="N mod 8 == 0")
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
        with T.kernel(threads=128, cluster=2, grid=[2]):
            s = T.alloc_shared((128, 128), T.f16)
            f = T.alloc_fragment((128, 128), T.f16)
            with T.when(T.cluster_rank() < 1):
                T.copy(X[0, 0], s, loader="tma", multicast=True)
            with T.parallel(f) as (i, j):
                Y[i, j] = s[i, j]

    error = error_of(program)
    assert error.kind == "DivergentBarrier" and "multicast" in error.message


def roles(kind: str) -> Any:
    @T.program(arch="sm_90a", assume="K mod 8 == 0, N mod 8 == 0, K >= 1")
    def program(A: T.Tensor[M, K, T.f16], B: T.Tensor[K, N, T.f16], C: T.Out[M, N, T.f32]):
        with T.kernel(threads=384, grid=[T.ceildiv(M, 128), T.ceildiv(N, 64)]):
            r, c = T.tile_coordinates(M, N, tile=(128, 64))
            a = T.alloc_shared((128, 64), T.f16, ring=2)
            b = T.alloc_shared((64, 64), T.f16, ring=2)
            o = T.alloc_shared((128, 64), T.f32)
            ring = T.ring(2, consumers=2)
            with T.roles(consumers=2, registers=(40, 232)) as split:
                with split.producer():
                    with T.serial(0, T.ceildiv(K, 64)) as i:
                        ring[i].acquire()
                        T.copy(A[r, i * 64], a.slot(i % 2), signal=ring[i], loader="tma")
                        if kind == "a copy beside the ring":
                            T.copy(B[i * 64, c], b.slot(i % 2), loader="register")
                        else:
                            T.copy(B[i * 64, c], b.slot(i % 2), signal=ring[i], loader="tma")
                    if kind == "a tile after the ring":
                        z = T.alloc_fragment((128, 64), T.f32)
                        T.copy(o, z)
                        T.copy(z, C[r, c])
                with split.consumer():
                    acc = T.alloc_fragment((128, 64), T.f32)
                    T.clear(acc)
                    with T.serial(0, T.ceildiv(K, 64)) as i:
                        ring[i].wait()
                        t = T.gemm(a.slot(i % 2), b.slot(i % 2), acc, mma="wgmma", token=True)
                        T.await_(t)
                        ring[i].release()
                    if kind == "a tile after the ring":
                        T.copy(acc, o)
                    else:
                        T.copy(acc, C[r, c])

    return program


def test_what_goes_from_role_to_role_needs_a_ring() -> None:
    lowered(roles("the ring"))
    error = error_of(roles("a tile after the ring"))
    assert error.kind == "RolesUnordered" and "uses %o" in error.message


def consumers(slot: str) -> Any:
    """Independent consumers, each with a tile of its own where ``slot`` tells them apart."""

    @T.program(arch="sm_90a", assume="N mod 8 == 0")
    def program(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]):
        with T.kernel(threads=384, grid=[T.ceildiv(M, 128), T.ceildiv(N, 64)]):
            r, c = T.tile_coordinates(M, N, tile=(128, 64))
            a = T.alloc_shared((128, 64), T.f16)
            ring = T.ring(1, consumers=2)
            s = T.alloc_shared((64, 64), T.f16, ring=2)
            with T.roles(
                consumers=2, independent=True, registers=(40, 232), single_thread=True
            ) as split:
                with split.producer():
                    one = T.const(0)
                    ring[one].acquire()
                    T.copy(X[r, c], a, signal=ring[one], loader="tma")
                with split.consumer() as w:
                    other = T.const(0)
                    ring[other].wait()
                    f = T.alloc_fragment((64, 64), T.f16)
                    T.copy(X[r + 64 * w, c], f)
                    first = {"own": w, "shifted": (w + 1) % 2, "one": 0, "swapped": w}[slot]
                    second = (w + 1) % 2 if slot == "swapped" else first
                    T.copy(f, s.slot(first))
                    T.copy(s.slot(second), Y[r + 64 * w, c], loader="tma")
                    ring[other].release()

    return program


@pytest.mark.parametrize("slot", ["own", "shifted"])
def test_independent_consumers_have_slots_of_their_own(slot: str) -> None:
    module = lowered(consumers(slot))
    x = np.random.default_rng(0).integers(-9, 9, (200, 72)).astype(np.float16)
    for schedule in SCHEDULES:
        result = simulate(module, [x], {"M": 200, "N": 72}, schedule=schedule)
        assert result.findings == []
        np.testing.assert_array_equal(result.outputs[0], x)


@pytest.mark.parametrize("slot", ["one", "swapped"])
def test_independent_consumers_with_one_slot_are_refused(slot: str) -> None:
    error = error_of(consumers(slot))
    assert error.kind == "RolesUnordered" and "2 independent consumers" in error.message


def test_a_load_that_signals_an_author_s_mbarrier_is_waited_for() -> None:
    tensor, shared = "!gpu.global<[M, N], f16, align 16>", "!gpu.shared<[64, 64], f16, swizzle 0>"
    layout = (
        "#gpu.fragment_layout<threads 128, registers 32, "
        "affine_map<(t, r) -> (t floordiv 2, t mod 2 * 32 + r)>>"
    )
    fragment = f"!gpu.fragment<[64, 64], f16, {layout}>"

    def text(wait: str) -> str:
        return kernel(
            f"""
    %z = arith.constant 0 : index
    %s = gpu.shared_tile : {shared}
    %f = gpu.fragment : {fragment}
    %bar = gpu.mbarrier : !gpu.mbarrier<1>
    gpu.copy %A[%z, %z] to %s loader "tma" signal %bar : !gpu.mbarrier<1> at %z : {tensor}, {shared}
    {wait}
    gpu.copy %s to %f : {shared}, {fragment}""",
            f"%A: {tensor} = tensor 0",
        )

    run(text("gpu.mbarrier_wait %bar[%z] parity %z : !gpu.mbarrier<1>"), "gpu-insert-barriers")
    error = refusal(text(""), "gpu-insert-barriers")
    assert error.kind == "LoadUnawaited" and "gpu.mbarrier_wait" in error.message


def test_a_finished_kernel_is_left_alone() -> None:
    module = lowered(transposed("sm_80", "register"))
    (barrier,) = find(module, hw.BarrierOp)
    barrier.detach()
    before = printed(module)
    assert printed(run(module, "gpu-insert-barriers")) == before
