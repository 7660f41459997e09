"""``gpu-turns``: which consumers part, what is theirs, and that the result is the same (T2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.passes.pipeline import GPU_PASSES
from polyc.test.support.chained_programs import assert_right, chained, inputs, meant, simulated
from polyc.test.support.gpu_text import find, only, printed, run

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
    "a fragment of other rows": chained(
        before="%c = gpu.fragment : !gpu.fragment<[64], f32>\n"
        "gpu.fill %zero, %c : !gpu.fragment<[64], f32>"
    ),
}


@pytest.mark.parametrize("text", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_consumers_that_stay_together(text: str) -> None:
    module = run(text, *BEFORE)
    before = printed(module)
    assert printed(run(module, PASS)) == before


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


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 300), st.integers(0, 200), st.sampled_from([2, 3]), st.booleans())
def test_the_result_is_the_same(m: int, n: int, groups: int, tiles: bool) -> None:
    for without in ((), (PASS,)):
        assert_right(chained(groups, tiles=tiles), {"M": m, "N": n}, *without, seed=n)
