"""``gpu-turns``: which consumers part, what is theirs, and that the result is the same (T2)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp, i1
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.passes.pipeline import GPU_PASSES
from polyc.rewriting.emit import Emit
from polyc.test.support.chained_programs import assert_right, chained, inputs, meant, simulated
from polyc.test.support.gpu_text import find, only, printed, run
from polyc.test.support.turns import examples

PASS = "gpu-turns"
BEFORE = GPU_PASSES[: GPU_PASSES.index(PASS)]


def parted(groups: int = 2) -> ModuleOp:
    return run(run(chained(groups), *BEFORE), PASS)


@pytest.mark.parametrize("groups", [2, 3])
def test_each_consumer_has_its_rows(groups: int) -> None:
    module = parted(groups)
    roles = only(module, tile.RolesOp)
    assert roles.independent is not None
    kinds = [op.fragment.type for op in find(module, tile.FragmentOp)]
    assert all(isinstance(k, FragmentType) and k.sizes[0] == 64 for k in kinds)
    (first, *_) = [op for op in roles.producer.walk() if isinstance(op, tile.CopyOp)]
    kind = first.target.type
    assert isinstance(kind, SharedType) and (kind.sizes, kind.ring.data) == ((64, 64), groups)
    assert len([u for u in first.target.uses if isinstance(u.operation, tile.CopyOp)]) == groups
    number = roles.consumer.block.args[0]
    contracts = [op for op in roles.consumer.walk() if isinstance(op, tile.ContractOp)]
    assert all(c.lhs_slot is number for c in contracts if isinstance(c.lhs.type, SharedType))


def test_a_turn_is_all_that_a_step_issues() -> None:
    roles = only(parted(), tile.RolesOp)
    (loop,) = [op for op in roles.consumer.walk() if isinstance(op, scf.ForOp)]
    kinds = (tile.OrderEnterOp, tile.OrderLeaveOp, tile.ContractOp, tile.AwaitOp, tile.RingWaitOp)
    names = [op.name.removeprefix("gpu.") for op in loop.body.block.ops if isinstance(op, kinds)]
    assert names == [
        "ring_wait", "order_enter", "contract", "ring_wait", "contract", "order_leave",
        "await", "await",
    ]  # fmt: skip
    assert len([op for op in roles.consumer.walk() if isinstance(op, tile.OrderEnterOp)]) == 1


ACC = "!gpu.fragment<[128, 64], f32>"

LEFT_ALONE = {
    "one consumer": chained(1),
    "a reduction across rows": chained(
        before="%c = gpu.fragment : !gpu.fragment<[64], f32>",
        after=f"gpu.reduce sum %o by affine_map<(i, j) -> (j)> into %c : {ACC}, "
        "!gpu.fragment<[64], f32>",
    ),
    "a map of other rows": chained(
        after=f"gpu.map %o : {ACC} origin [] ins(%s : {ACC} affine_map<(i, j) -> (j, i)>) "
        f"outs(%o : {ACC} affine_map<(i, j) -> (i, j)>) {{\n^bb0(%x: f32, %y: f32):\n"
        "  gpu.yield %x : f32\n}",
    ),
    "a fragment of other rows beside one of the rows": chained(
        before="%c = gpu.fragment : !gpu.fragment<[64, 64], f32>",
        after=f"gpu.map %o : {ACC} origin [] "
        "ins(%c : !gpu.fragment<[64, 64], f32> affine_map<(i, j) -> (i, j)>) "
        f"outs(%o : {ACC} affine_map<(i, j) -> (i, j)>) {{\n^bb0(%x: f32, %y: f32):\n"
        "  gpu.yield %x : f32\n}",
    ),
    "a load in the loop of turns": chained(
        before="%c = gpu.fragment : !gpu.fragment<[32, 64], f16>",
        after_scores="gpu.copy %K[%k, %c0] to %c "
        ": !gpu.global<[N, 64], f16>, !gpu.fragment<[32, 64], f16>",
    ),
    "a tile that others read": chained(
        before="%ct = gpu.shared_tile : !gpu.shared<[32, 64], f16>\n"
        "%c = gpu.fragment : !gpu.fragment<[32, 64], f16>",
        after="gpu.copy %c to %ct : !gpu.fragment<[32, 64], f16>, !gpu.shared<[32, 64], f16>\n"
        "gpu.copy %ct to %c : !gpu.shared<[32, 64], f16>, !gpu.fragment<[32, 64], f16>",
    ),
}

AGAIN = """%c = gpu.fragment : !gpu.fragment<[32, 64], f16>
%ct = gpu.shared_tile : !gpu.shared<[32, 64], f16>
%part = gpu.fragment : !gpu.fragment<[128, 32], f32>
%few = gpu.fragment : !gpu.fragment<[128, 32], f16>
%flag = gpu.fragment : !gpu.fragment<[128], i1>
%row_sum = gpu.fragment : !gpu.fragment<[128], f32>"""

ASKED = f"""gpu.reduce sum %o by affine_map<(i, j) -> (i)> into %row_sum
    : {ACC}, !gpu.fragment<[128], f32>
gpu.map %row_sum : !gpu.fragment<[128], f32> origin [] ins()
    outs(%flag : !gpu.fragment<[128], i1> affine_map<(i) -> (i)>) {{
^bb0(%x: f32):
  %much = arith.cmpf ogt, %x, %zero : f32
  gpu.yield %much : i1
}}
%any = gpu.any %flag : !gpu.fragment<[128], i1>
scf.if %any {{
  gpu.copy %K[%c0, %c0] to %c : !gpu.global<[N, 64], f16>, !gpu.fragment<[32, 64], f16>
  gpu.copy %c to %ct : !gpu.fragment<[32, 64], f16>, !gpu.shared<[32, 64], f16>
  %begun = gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %ct affine_map<(m, n, k) -> (n, k)>
      into %part clear mma "wgmma" warp_tile <64, 32>
      : !gpu.shared<[128, 64], f16>, !gpu.shared<[32, 64], f16>, !gpu.fragment<[128, 32], f32>
      -> !gpu.token
  gpu.await %begun
  gpu.reduce max %part by affine_map<(i, j) -> (i)> into %row_sum
      : !gpu.fragment<[128, 32], f32>, !gpu.fragment<[128], f32>
  gpu.map %o : {ACC} origin [] ins(%row_sum : !gpu.fragment<[128], f32> affine_map<(i, j) -> (i)>)
      outs(%o : {ACC} affine_map<(i, j) -> (i, j)>) {{
  ^bb0(%x: f32, %y: f32):
    gpu.yield %y : f32
  }}
}}"""


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_consumers_that_stay_together(text: str) -> None:
    module = run(text, *BEFORE)
    before = printed(module)
    assert printed(run(module, PASS)) == before


def test_what_consumers_load_beside_the_turns_each_loads_for_itself() -> None:
    """Rows of Q that are asked for take part in another product, each consumer's by themselves."""
    text = chained(before=AGAIN, after=ASKED)
    module = run(run(text, *BEFORE), PASS)
    roles = only(module, tile.RolesOp)
    assert roles.independent is not None
    number = roles.consumer.block.args[0]
    kinds = {op.fragment.name_hint: op.fragment.type for op in find(module, tile.FragmentOp)}
    assert isinstance(whole := kinds["c"], FragmentType) and whole.sizes == (32, 64)
    assert isinstance(own := kinds["part"], FragmentType) and own.sizes == (64, 32)
    (filled,) = [c for c in find(roles, tile.CopyOp) if c.slot is number]
    held = filled.target.type
    assert isinstance(held, SharedType) and (held.sizes, held.ring.data) == ((32, 64), 2)
    (again,) = [c for c in find(roles, tile.ContractOp) if c.rhs is filled.target]
    assert again.lhs_slot is again.rhs_slot is number
    sizes = {"M": 256, "N": 130}
    result = simulated(text, sizes)
    assert not result.findings
    q, k, _ = inputs(sizes)
    wanted = meant(inputs(sizes))
    scores = (q.astype(np.float32) @ k[:32].astype(np.float32).T).max(axis=1, keepdims=True)
    for first in range(0, 256, 64):
        rows = slice(first, first + 64)
        if (wanted[rows].sum(axis=1) > 0).any():
            wanted[rows] = scores[rows]
    assert (result.outputs[0] == wanted).all()


def test_a_loop_that_the_threads_ask_each_other_about_takes_no_turns() -> None:
    """Consumers of their own may decide otherwise, and one would wait for its turn for ever."""
    module = run(chained(), *BEFORE)
    (loop,) = [op for op in only(module, tile.RolesOp).consumer.walk() if isinstance(op, scf.ForOp)]
    emit = Emit()
    flag = emit.value(tile.FragmentOp(FragmentType.of([128], i1)))
    emit.op(tile.FillOp(emit.value(arith.ConstantOp.from_int_and_width(1, 1)), flag))
    asked = emit.value(tile.AnyOp(flag))
    emit.when(asked, lambda then: None)
    *before, branch = emit.ops
    Rewriter.insert_op([*before, branch], InsertPoint.before(loop))
    loop.detach()
    assert isinstance(branch, scf.IfOp)
    Rewriter.insert_op(loop, InsertPoint.at_start(branch.true_region.block))
    module.verify()
    text = printed(module)
    assert printed(run(module, PASS)) == text
    asked.replace_all_uses_with(emit.ops[1].results[0])
    assert only(run(module, PASS), tile.RolesOp).independent is not None


def test_products_one_after_another_take_no_turn() -> None:
    """Without the skew a step waits between its products."""
    module = run(chained(), *(name for name in BEFORE if name != "gpu-skew"))
    before = printed(module)
    assert printed(run(module, PASS)) == before


def test_coordinates_in_a_map_are_the_consumers_own() -> None:
    """A map that asks for its row gets that of the whole tile."""
    scale = f"""gpu.map %o : {ACC} origin [] ins() outs(%o : {ACC} affine_map<(i, j) -> (i, j)>) {{
^bb0(%x: f32):
  %r = gpu.tile_index 0
  %c64 = arith.constant 64 : index
  %low = arith.cmpi slt, %r, %c64 : index
  %y = arith.select %low, %x, %zero : f32
  gpu.yield %y : f32
}}"""
    text = chained(after=scale)
    module = run(run(text, *BEFORE), PASS)
    assert only(module, tile.RolesOp).independent is not None
    sizes = {"M": 256, "N": 130}
    result = simulated(text, sizes)
    wanted = meant(inputs(sizes))
    wanted[64:128] = 0
    wanted[192:] = 0
    assert not result.findings
    assert (result.outputs[0] == wanted).all()


@settings(max_examples=examples(12), deadline=None)
@given(st.integers(1, 300), st.integers(0, 200), st.sampled_from([2, 3]), st.booleans())
def test_the_result_is_the_same(m: int, n: int, groups: int, tiles: bool) -> None:
    for without in ((), (PASS,)):
        assert_right(chained(groups, tiles=tiles), {"M": m, "N": n}, *without, seed=n)
