"""``gpu-inject-tma-barriers``: threads read what has come, and tokens that cannot be followed."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import ORDER, find, kernel, only, refusal, run, unchanged

PASS = "gpu-inject-tma-barriers"
X, TILE = "!gpu.global<[M, N], f16, align 16>", "!gpu.shared<[16, 64], f16, swizzle 128>"
ARGS = (
    f"%X: {X} = tensor 0, %y: !gpu.global<[128], f32> = tensor 1, "
    "%M: index = symbol M, %N: index = symbol N"
)
HEAD = f"""
    %zero = arith.constant 0 : index
    %step = arith.constant 64 : index
    %a = gpu.shared_tile : {TILE}
    %thread = gpu.thread_id
    %row = affine.apply affine_map<(d0) -> (d0 floordiv 8)> (%thread)
    %column = affine.apply affine_map<(d0) -> (d0 mod 8)> (%thread)
"""
COPY = f'gpu.copy %X[%zero, %i] to %a loader "tma" : {X}, {TILE}'
READ = f"""
      %at = gpu.element_address %a[%zero] [%row, %column] : {TILE}
      %h = gpu.load_shared %at : f16
      %f = arith.extf %h : f16 to f32
"""


def summed(copy: str, between: str = "") -> str:
    """y[t] = the sum over the blocks of columns of one element of each."""
    dispatch = f"""
  gpu.dispatch (X: {X}) -> (y: !gpu.global<[128], f32>) {{
    gpu.launch @k when (N mod 8 == 0, N >= 1, M >= 1) align [16, 4] grid [1]
  }}"""
    body = f"""{HEAD}
    %nothing = arith.constant 0.0 : f32
    %all = scf.for %i = %zero to %N step %step iter_args(%sum = %nothing) -> (f32) {{
      {copy}{between}{READ}
      %next = arith.addf %sum, %f : f32
      scf.yield %next : f32
    }}
    gpu.store_global %all, %y[%thread : index] : f32, !gpu.global<[128], f32>"""
    return kernel(body, ARGS, symbols="M, N", dispatch=dispatch)


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize(
    ("copy", "between"),
    [
        (COPY, ""),
        (f"%t = {COPY} -> !gpu.token", "\n      gpu.await %t"),
    ],
    ids=["at once", "token"],
)
def test_inject_tma_barrier_in_a_loop(copy: str, between: str, schedule: str) -> None:
    module = run(summed(copy, between), *ORDER)
    assert not find(module, tile.AwaitOp)
    x = np.random.default_rng(0).integers(-4, 5, (16, 328)).astype(np.float16)
    result = simulate(
        gpu_module_of(module),
        [x],
        {"M": 16, "N": 328},
        schedule=schedule,
        completion="late",
    )
    assert not result.findings, "\n".join(map(str, result.findings))
    padded = np.zeros((16, 384), np.float32)
    padded[:, :328] = x
    want = padded.reshape(16, 6, 64).sum(1)[:, :8].ravel()
    np.testing.assert_array_equal(result.outputs[0], want)


def test_without_the_meeting_the_simulator_finds_the_race() -> None:
    """The barrier before the second load is what keeps slow readers safe."""
    module = run(summed(COPY), *ORDER)
    loop = only(module, hw.MBarrierWaitOp).parent_op()
    assert loop is not None
    (meeting,) = find(loop, hw.BarrierOp)
    meeting.detach()
    meeting.erase()
    x = np.ones((16, 328), np.float16)
    result = simulate(gpu_module_of(module), [x], {"M": 16, "N": 328})
    assert result.findings


def test_inject_tma_barrier_takes_neighbours_together() -> None:
    once = COPY.replace("%i", "%M")
    other = once.replace("%a", "%b")
    tiles = f"{HEAD}    %b = gpu.shared_tile : {TILE}\n"
    module = run(kernel(f"{tiles}    {once}\n    {other}\n    gpu.barrier\n    {once}", ARGS), PASS)
    sizes = [op.bytes.value.data for op in find(module, hw.MBarrierExpectOp)]
    assert sorted(sizes) == [2048, 4096] and len(find(module, hw.MBarrierOp)) == 2


def test_inject_tma_barrier_loads_one_tile_again_when_it_has_come() -> None:
    """Of two loads of one tile the second begins behind the wait of the first."""
    once = COPY.replace("%i", "%M")
    module = run(kernel(f"{HEAD}    {once}\n    {once}", ARGS), PASS)
    kinds = (hw.MBarrierExpectOp, tile.CopyOp, hw.MBarrierWaitOp)
    order = [type(op) for op in module.walk() if isinstance(op, kinds)]
    assert order == [*kinds, *kinds]
    assert [op.bytes.value.data for op in find(module, hw.MBarrierExpectOp)] == [2048, 2048]


@pytest.mark.parametrize(
    ("slots", "waits"), [(("%zero", "%one"), 1), (("%zero", "%zero"), 2), (("%zero", "%i"), 2)]
)
def test_inject_tma_barrier_takes_slots_together_that_differ(
    slots: tuple[str, str], waits: int
) -> None:
    ring = "!gpu.shared<[16, 64], f16, swizzle 128, ring 2>"
    copies = "\n".join(
        f'gpu.copy %X[%zero, %M] to %r slot {s} loader "tma" : {X}, {ring}' for s in slots
    )
    tiles = f"    %r = gpu.shared_tile : {ring}\n    %one = arith.constant 1 : index\n"
    tiles += "    %i = arith.minsi %M, %one : index\n"
    module = run(kernel(f"{HEAD}{tiles}{copies}", ARGS), PASS)
    assert len(find(module, hw.MBarrierWaitOp)) == waits


def test_inject_tma_barrier_leaves_what_signals() -> None:
    signalled = COPY.replace('"tma"', '"tma" signal %full : !gpu.mbarrier<1> at %zero')
    full = "    %full = gpu.mbarrier : !gpu.mbarrier<1>\n"
    unchanged(kernel(f"{HEAD}{full}    {signalled.replace('%i', '%M')}", ARGS), PASS)
    unchanged(
        kernel(f"{HEAD}    {COPY.replace('tma', 'cp_async').replace('%i', '%M')}", ARGS), PASS
    )


@pytest.mark.parametrize(
    ("after", "kind", "marker"),
    [
        ("", "TokenNeverAwaited", "gpu.copy"),
        ("gpu.await %t\n    gpu.await %t", "TokenAwaitedTwice", "gpu.await"),
        ("scf.for %j = %zero to %N step %step { gpu.await %t }", "TokenCarried", "gpu.await"),
    ],
)
def test_inject_tma_barrier_refuses(after: str, kind: str, marker: str) -> None:
    text = kernel(f"{HEAD}    %t = {COPY.replace('%i', '%M')} -> !gpu.token\n    {after}", ARGS)
    error = refusal(text, PASS)
    assert error.kind == kind and error.place is not None
    assert marker in text.splitlines()[error.place.line - 1]
