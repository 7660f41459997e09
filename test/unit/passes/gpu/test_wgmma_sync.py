"""``gpu-wgmma-sync``: groups, waits and settled registers, and what is left alone."""

from __future__ import annotations

import pytest
from xdsl.dialects import scf

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.loops import is_rolled
from polyc.passes.gpu.wgmma_sync import FEW
from polyc.test.support.gpu_text import find, kernel, only, printed, run, unchanged

PASS = "gpu-wgmma-sync"
ACC = "memref<8xf32, #gpu<space register>>"
ARGS = "%a: i64 = symbol M, %b: i64 = symbol M, %n: index = symbol M"
WGMMA = f"gpu.wgmma n 16 %a plus 0, %b plus 0, %acc element f16 : {ACC}"
ALLOC = f"%acc = memref.alloca() : {ACC}\n    %zero = arith.constant 0.0 : f32\n    "
STORE = f"memref.store %zero, %acc[%n] : {ACC}"


def names(*lines: str) -> list[str]:
    """The gpu and memref ops of a kernel after the pass."""
    module = run(kernel("    " + ALLOC + "\n    ".join(lines), ARGS), PASS)
    return [op.name for op in module.walk() if op.name.split(".")[0] in ("gpu", "memref")][2:-1]


def test_group_wgmma_fences_and_commits_a_run() -> None:
    """One fence before and one commit after, also of a run of one."""
    start, end = ["memref.alloca", "gpu.wgmma_fence"], ["gpu.wgmma_commit"]
    assert names(WGMMA) == [*start, "gpu.wgmma", *end]
    assert names(WGMMA, WGMMA, WGMMA) == [*start, *["gpu.wgmma"] * 3, *end]
    apart = names(WGMMA, "gpu.barrier", WGMMA)
    assert apart == [*start, "gpu.wgmma", *end, "gpu.barrier", *start[1:], "gpu.wgmma", *end]


def test_group_wgmma_keeps_an_authors_group() -> None:
    unchanged(kernel(f"    {ALLOC}gpu.wgmma_fence\n    {WGMMA}\n    gpu.wgmma_commit", ARGS), PASS)


@pytest.mark.parametrize("pending", [0, 1, 7])
def test_lower_await_waits_for_groups(pending: int) -> None:
    module = run(kernel(f"    gpu.await pending {pending}"), PASS)
    assert only(module, hw.WgmmaWaitOp).pending.value.data == pending


def test_lower_await_leaves_a_wait_alone() -> None:
    unchanged(kernel("    gpu.wgmma_wait 1"), PASS)


def test_fence_accumulators_after_stores_and_after_the_last_wait() -> None:
    assert names(STORE, WGMMA, "gpu.await pending 1", WGMMA, "gpu.await pending 0") == [
        "memref.alloca",
        "memref.store",
        "gpu.register_fence",
        "gpu.wgmma_fence",
        "gpu.wgmma",
        "gpu.wgmma_commit",
        "gpu.wgmma_wait",
        "gpu.wgmma_fence",
        "gpu.wgmma",
        "gpu.wgmma_commit",
        "gpu.wgmma_wait",
        "gpu.register_fence",
    ]


def test_fence_accumulators_stands_outside_the_loop_that_stores() -> None:
    loop = f"scf.for %i = %n to %n step %n {{ {STORE} }}"
    assert names(loop, WGMMA)[:3] == ["memref.alloca", "memref.store", "gpu.register_fence"]
    module = run(kernel(f"    {ALLOC}{loop}\n    {WGMMA}", ARGS), PASS)
    fence = only(module, hw.RegisterFenceOp)
    assert fence.prev_op is not None and fence.prev_op.name == "scf.for"


def test_fence_accumulators_not_inside_the_loop_of_contracts() -> None:
    """There it would make ptxas serialise them (C7515)."""
    loop = f"scf.for %i = %n to %n step %n {{ {WGMMA}\n gpu.await pending 0 }}"
    module = run(kernel(f"    {ALLOC}{STORE}\n    {loop}\n    gpu.await pending 0", ARGS), PASS)
    before = [op.prev_op.name for op in find(module, hw.RegisterFenceOp) if op.prev_op]
    assert before == ["memref.store", "gpu.wgmma_wait"]


def test_fence_accumulators_runs_once() -> None:
    module = run(kernel(f"    {ALLOC}{STORE}\n    {WGMMA}\n    gpu.await pending 0", ARGS), PASS)
    text = printed(module)
    assert printed(run(module, PASS)) == text


def test_fence_accumulators_leaves_registers_that_wgmma_does_not_use_alone() -> None:
    unchanged(kernel(f"    {ALLOC}{STORE}\n    gpu.wgmma_wait 0", ARGS), PASS)


def steps(count: str, body: str = WGMMA, more: str = "", threads: int = 512) -> str:
    """A loop of steps."""
    return kernel(
        f"""    {ALLOC}%c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c{FEW * 64} = arith.constant {FEW * 64} : index
    %all = affine.apply affine_map<(d0) -> ((d0 + 63) floordiv 64)> (%c{FEW * 64})
    %more = affine.apply affine_map<(d0) -> (d0 + 1)> (%all)
    scf.for %i = %c0 to %{count} step %c1 {{ {body} }}{more}""",
        ARGS,
        threads=threads,
    )


@pytest.mark.parametrize(
    ("text", "rolled"),
    [
        (steps("all"), True),
        (steps("more"), False),  # the compiler unrolls no more than some of it
        (steps("n"), False),
        (steps("all", STORE), False),
        (steps("all", more=" {unroll}"), False),
        (steps("all", threads=384), False),
    ],
    ids=["few", "many", "open", "no products", "author's", "registers left"],
)
def test_roll_steps_of_wgmma_that_are_few(text: str, rolled: bool) -> None:
    module = run(text, PASS)
    assert is_rolled(only(module, scf.ForOp)) == rolled
    assert printed(run(module, PASS)) == printed(module)
