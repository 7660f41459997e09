"""``gpu-skew``: which contracts run one step late, and that the result is the same (T2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.pipeline import GPU_PASSES
from polyc.test.support.chained_programs import assert_right, chained
from polyc.test.support.gpu_text import only, printed, run
from polyc.test.support.turns import examples

PASS = "gpu-skew"
BEFORE = GPU_PASSES[: GPU_PASSES.index(PASS)]

FLOW = (tile.RingWaitOp, tile.RingReleaseOp, tile.AwaitOp, tile.ContractOp, tile.MapOp)


def consumers_loop(module: ModuleOp) -> scf.ForOp:
    """The loop of the consumers."""
    (loop,) = [o for o in only(module, tile.RolesOp).consumer.walk() if isinstance(o, scf.ForOp)]
    return loop


def flow(module: ModuleOp, loop: bool) -> list[str]:
    """What a consumer does in its loop, or beside it: waits, contracts and maps, by name."""
    walk = consumers_loop(module)
    block = walk.body.block if loop else walk.parent_block()
    assert block is not None
    return [op.name.removeprefix("gpu.") for op in block.ops if isinstance(op, FLOW)]


def stays(module: ModuleOp) -> None:
    """Assert that the pass leaves a module alone."""
    before = printed(module)
    assert printed(run(module, PASS)) == before


def test_the_last_contract_is_one_step_late() -> None:
    module = run(run(chained(), *BEFORE), PASS)
    assert flow(module, loop=True) == [
        "ring_wait", "contract",  # this step's scores
        "ring_wait", "contract",  # the values of the step before
        "await", "ring_release",
        "await", "ring_release", "map",
    ]  # fmt: skip
    assert flow(module, loop=False) == [
        "ring_wait",  # the queries
        "ring_wait", "contract", "await", "ring_release", "map",
        "ring_release",  # the queries, before the last values
        "ring_wait", "contract", "await", "ring_release",
    ]  # fmt: skip


def test_a_loop_that_may_have_no_step_asks() -> None:
    """What is around the loop says that it has one, or a branch does."""
    for branch, asked in (("%some", 0), ("", 1)):
        module = run(run(chained(branch=branch), *BEFORE), PASS)
        loop = consumers_loop(module)
        guards = 0
        parent = loop.parent_op()
        while isinstance(parent, scf.IfOp):
            guards += 1
            parent = parent.parent_op()
        assert guards - bool(branch) == asked


ACC = "!gpu.fragment<[128, 64], f32>"
SCALE = f"""gpu.map %o : {ACC} origin [] ins() outs(%o : {ACC} affine_map<(i, j) -> (i, j)>) {{
^bb0(%x: f32):
  gpu.yield %x : f32
}}"""


def test_what_touches_the_late_sums_waits_for_them() -> None:
    """Maps of the sums stand behind the await of the step before."""
    text = chained(after_weights=SCALE)
    module = run(run(text, *BEFORE), PASS)
    assert flow(module, loop=True) == [
        "ring_wait", "contract", "ring_wait", "contract", "await", "ring_release",
        "await", "ring_release", "map", "map",
    ]  # fmt: skip
    assert_right(text, {"M": 70, "N": 200})
    text = chained(after_scores=SCALE)
    module = run(run(text, *BEFORE), PASS)
    assert flow(module, loop=True) == [
        "ring_wait", "contract", "ring_wait", "contract", "await", "ring_release", "map",
        "await", "ring_release", "map",
    ]  # fmt: skip
    assert_right(text, {"M": 70, "N": 200})


def test_a_loop_by_other_steps_stays() -> None:
    module = run(chained(), *BEFORE)
    loop = consumers_loop(module)
    loop.operands[2] = loop.ub
    stays(module)


def test_contracts_that_wait_for_none_stay() -> None:
    """The second product's left operand comes from elsewhere: its step could issue both at once."""
    module = run(chained(), *BEFORE)
    (rounding,) = [o for o in consumers_loop(module).walk() if isinstance(o, tile.MapOp)]
    rounding.detach()
    rounding.erase()
    stays(module)


def test_a_late_contract_on_the_first_ones_ring_stays() -> None:
    """Both products read one tile: its slot is free when the last of them is done."""
    stays(run(chained().replace("%vt affine_map", "%kt affine_map"), *BEFORE))


def test_a_first_product_into_the_late_sums_stays() -> None:
    """What is issued first may not touch what is under way."""
    text = chained().replace("into %s clear", "into %o").replace("gpu.map %s", "gpu.map %o")
    stays(run(text, *BEFORE))


def test_a_tile_that_threads_write_waits_for_who_reads_it() -> None:
    """Weights that go by shared memory are written when the late contract has read them."""
    half, held = "!gpu.fragment<[128, 64], f16>", "!gpu.shared<[128, 64], f16>"
    text = chained(after_weights=f"gpu.copy %p to %st : {half}, {held}")
    text = text.replace("gpu.contract %p", "gpu.contract %st").replace(
        f": {half}, !gpu.shared<[64, 64], f16>, !gpu", f": {held}, !gpu.shared<[64, 64], f16>, !gpu"
    )
    text = text.replace("%s = gpu.fragment", f"%st = gpu.shared_tile : {held}\n%s = gpu.fragment")
    module = run(run(text, *BEFORE), PASS)
    (copy,) = [o for o in consumers_loop(module).walk() if isinstance(o, tile.CopyOp)]
    awaits = [o for o in consumers_loop(module).walk() if isinstance(o, tile.AwaitOp)]
    assert len(awaits) == 2 and all(o.is_before_in_block(copy) for o in awaits)


@pytest.mark.parametrize(
    "op", [tile.AwaitOp(1), hw.NamedBarrierOp(1, 256)], ids=["a count", "a barrier"]
)
def test_steps_that_operands_do_not_order_stay(op: Operation) -> None:
    module = run(chained(), *BEFORE)
    body = consumers_loop(module).body.block
    contract = next(o for o in body.ops if isinstance(o, tile.ContractOp))
    body.insert_op_after(op.clone(), contract)
    stays(module)


def test_twice_is_once() -> None:
    once = printed(run(run(chained(), *BEFORE), PASS))
    assert printed(run(once, PASS)) == once


@settings(max_examples=examples(12), deadline=None)
@given(
    st.integers(1, 140),
    st.integers(0, 200),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from(["%some", ""]),
)
def test_the_result_is_the_same(m: int, n: int, groups: int, tiles: bool, branch: str) -> None:
    """With the pass and without it; small integers, whose sums are exact."""
    text = chained(groups, tiles=tiles, branch=branch)
    for without in ((), (PASS,)):
        assert_right(text, {"M": m, "N": n}, *without, seed=m)
