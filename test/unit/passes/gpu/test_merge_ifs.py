"""``gpu-merge-ifs``: neighbours on one condition, and what keeps branches apart."""

from __future__ import annotations

import pytest
from xdsl.dialects import scf

from polyc.test.support.gpu_text import find, kernel, only, run, unchanged

PASS = "gpu-merge-ifs"
ARGS = "%x: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M"
HEAD = """
    %v = arith.constant 1.0 : f32
    %thread = gpu.thread_id
    %first = arith.cmpi eq, %thread, %M : index
    %other = arith.cmpi slt, %thread, %M : index
"""
STORE = "gpu.store_global %v, %x[%M : index] : f32, !gpu.global<[M], f32>"
THEN = f"    scf.if %first {{ {STORE} }}\n"
BOTH = f"    scf.if %first {{ {STORE} }} else {{ gpu.barrier }}\n"


@pytest.mark.parametrize(
    ("branches", "then", "other"),
    [((THEN, THEN), 2, 0), ((THEN, BOTH), 2, 1), ((BOTH, THEN), 2, 1), ((BOTH, BOTH, THEN), 3, 2)],
)
def test_merge_ifs(branches: tuple[str, ...], then: int, other: int) -> None:
    op = only(run(kernel(HEAD + "".join(branches), ARGS), PASS), scf.IfOp)
    assert len(list(op.true_region.block.ops)) == then + 1
    blocks = op.false_region.blocks
    assert (len(list(blocks[0].ops)) - 1 if blocks else 0) == other


@pytest.mark.parametrize(
    "between",
    [
        "    gpu.barrier\n",
        f"    {STORE}\n",
        "    %y = gpu.load_global %x[%M : index] : !gpu.global<[M], f32> -> f32\n",
    ],
)
def test_merge_ifs_stops_at_effects(between: str) -> None:
    unchanged(kernel(HEAD + THEN + between + THEN, ARGS), PASS)


def test_merge_ifs_refuses_another_condition_and_results() -> None:
    unchanged(kernel(HEAD + THEN + THEN.replace("%first", "%other"), ARGS), PASS)
    result = "    %r = scf.if %first -> (f32) { scf.yield %v : f32 } else { scf.yield %v : f32 }\n"
    unchanged(kernel(HEAD + THEN + result, ARGS), PASS)
    unchanged(kernel(HEAD + result + THEN, ARGS), PASS)


def test_merge_ifs_moves_pure_ops_before_the_first() -> None:
    pure = "    %n = affine.apply affine_map<(d0) -> (d0 + 1)> (%M)\n"
    use = THEN.replace("%M", "%n")
    module = run(kernel(HEAD + THEN + pure + use, ARGS), PASS)
    op = only(module, scf.IfOp)
    assert op.prev_op is not None and op.prev_op.name == "affine.apply"
    assert len(find(op, scf.YieldOp)) == 1
