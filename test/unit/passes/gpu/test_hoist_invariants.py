"""``gpu-hoist-invariants``: what moves out of a loop, and what must stay."""

from __future__ import annotations

import pytest
from xdsl.dialects import scf

from polyc.test.support.gpu_text import body_of, find, kernel, run, unchanged

PASS = "gpu-hoist-invariants"
REGISTERS = "memref<8xf32, #gpu<space register>>"


def loop(body: str) -> str:
    return kernel(
        f"""
    %registers = memref.alloca() : {REGISTERS}
    scf.for %i = %n to %n step %n {{
      {body}
    }}""",
        "%n: index = symbol N, %A: !gpu.global<[N], f32> = tensor 0, "
        "%s: i32 = symbol N, %x: f32 = symbol N",
    )


USE = f"memref.store %x, %registers[%y] : {REGISTERS}"
SHOW = "gpu.store_shared %y, %s : f32"

MOVES = {
    "arithmetic": ("%y = arith.muli %n, %n : index", "arith.muli"),
    "a map": ("%y = affine.apply affine_map<(d) -> (d * 4)>(%n)", "affine.apply"),
    "a shuffle that all lanes agree on": ("%y = gpu.warp_uniform %n", "gpu.warp_uniform"),
    "a thread's number": ("%y = gpu.thread_id", "gpu.thread_id"),
}
STAYS = {
    "what uses the loop's variable": f"%y = arith.muli %n, %i : index\n{USE}",
    "a read of registers": f"%y = memref.load %registers[%n] : {REGISTERS}\n{SHOW}",
    "a read of global memory": (
        f"%y = gpu.load_global %A[%n : index] : !gpu.global<[N], f32> -> f32\n{SHOW}"
    ),
    "a read of shared memory": f"%y = gpu.load_shared %s : f32\n{SHOW}",
    "a barrier": "gpu.barrier",
    "a store": f"memref.store %x, %registers[%n] : {REGISTERS}",
    "an elected lane": "%y = gpu.elect\nscf.if %y { gpu.barrier }",
}


@pytest.mark.parametrize(("body", "name"), MOVES.values(), ids=MOVES)
def test_hoist_invariants_moves(body: str, name: str) -> None:
    module = run(loop(f"{body}\n{USE}"), PASS)
    (found,) = (op for op in module.walk() if op.name == name)
    assert found in list(body_of(module))
    (inner,) = find(module, scf.ForOp)
    assert found.is_before_in_block(inner)


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS)
def test_hoist_invariants_leaves_alone(body: str) -> None:
    unchanged(loop(body), PASS)


def test_hoist_invariants_goes_through_all_loops() -> None:
    body = "scf.for %j = %n to %n step %n { %y = arith.muli %n, %n : index\n" + USE + "}"
    module = run(loop(body), PASS)
    assert "arith.muli" in [op.name for op in body_of(module)]
