"""``gpu-warp-specialize``: contracts that wait for one another, early tiles and branches (T2)."""

from __future__ import annotations

import pytest
from xdsl.dialects import affine, arith, scf

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.passes.pipeline import GPU_PASSES
from polyc.test.support.chained_programs import (
    assert_right,
    chained,
    growing,
    in_columns,
    inputs,
    keys_first,
    meant,
)
from polyc.test.support.gpu_text import assert_refused, find, only, printed, refusal, run

PASS = "gpu-warp-specialize"
BEFORE = GPU_PASSES[: GPU_PASSES.index(PASS)]


def specialized(text: str) -> tile.RolesOp:
    return only(run(run(text, *BEFORE), PASS), tile.RolesOp)


def names(scope: tile.RolesOp, consumer: bool) -> list[str]:
    """What a role does at the tile level, but for maps and fills."""
    block = scope.consumer.block if consumer else scope.producer.block
    skipped = (tile.MapOp, tile.FillOp, tile.FragmentOp, tile.YieldOp)
    return [
        op.name.removeprefix("gpu.")
        for op in block.walk()
        if type(op) in tile.TILE_OPS and not isinstance(op, skipped)
    ]


def test_tiles_of_contracts_that_wait_for_one_another_have_rings() -> None:
    """K and V one each, of two slots; the queries one of one."""
    roles = specialized(chained())
    kernel = roles.parent_op()
    assert kernel is not None
    rings = [(str(r.ring.type), r.consumers.value.data) for r in find(kernel, tile.RingOp)]
    assert rings == [("!gpu.ring<1>", 2), ("!gpu.ring<2>", 2), ("!gpu.ring<2>", 2)]
    assert names(roles, consumer=False) == [
        "ring_acquire", "copy", "ring_acquire", "copy", "ring_acquire", "copy",
    ]  # fmt: skip
    assert names(roles, consumer=True) == [
        "ring_wait",
        "ring_wait", "contract", "await", "ring_release",
        "ring_wait", "contract", "await", "ring_release",
        "ring_release",
    ]  # fmt: skip


def test_a_tile_that_both_read_is_released_by_the_last() -> None:
    roles = specialized(chained().replace("%vt affine_map", "%kt affine_map"))
    assert names(roles, consumer=True) == [
        "ring_wait",
        "ring_wait", "contract", "await", "contract", "await", "ring_release",
        "ring_release",
    ]  # fmt: skip


def test_contracts_that_wait_for_none_have_one_ring() -> None:
    text = (
        chained()
        .replace("gpu.map %s", "gpu.map %o", 1)
        .replace("gpu.contract %p", "gpu.contract %w")
    )
    text = text.replace(
        "%o = gpu.fragment", "%w = gpu.fragment : !gpu.fragment<[128, 64], f16>\n%o = gpu.fragment"
    )
    roles = specialized(text)
    kernel = roles.parent_op()
    assert kernel is not None
    assert len(find(kernel, tile.RingOp)) == 2  # the queries, and both others


def test_a_branch_is_asked_by_both_roles() -> None:
    roles = specialized(chained())
    for side in (roles.producer, roles.consumer):
        assert [type(op) for op in side.block.ops if isinstance(op, scf.IfOp)] == [scf.IfOp]


@pytest.mark.parametrize("tiles", [False, True])
def test_what_roles_count_by_moves_in_front_of_them(tiles: bool) -> None:
    """A bound in a branch, and a condition in the tile loop, that all tiles share."""
    before = "%more = arith.cmpi sgt, %N, %c0 : index"
    text = chained(tiles=tiles, branch="%more", before=before, bound="%end").replace(
        "gpu.copy %Q", "%end = arith.addi %N, %c0 : index\ngpu.copy %Q"
    )
    roles = specialized(text)
    block = roles.parent_block()
    assert block is not None
    hints = [
        op.results[0].name_hint for op in block.ops if isinstance(op, arith.CmpiOp | arith.AddiOp)
    ]
    assert {"more", "end"} <= set(hints)
    assert_right(text, {"M": 200, "N": 130})


def test_a_condition_of_a_thread_is_refused() -> None:
    text = chained(
        branch="%yes",
        before="%thread = gpu.thread_id\n%yes = arith.cmpi sgt, %thread, %c0 : index",
    )
    message = (
        "this branch holds tile ops, which all threads run together, and its condition comes from "
        "gpu.thread_id, which differs between threads; let it depend on sizes, coordinates and "
        "tensors that the kernel only reads"
    )
    assert_refused(text, "VaryingCondition", message, "gpu.pipeline", *BEFORE, PASS)


SHAPES = [{"M": 70, "N": 200}, {"M": 200, "N": 64}, {"M": 5, "N": 1}, {"M": 3, "N": 0}]
KINDS = {
    "one consumer": chained(1),
    "three consumers": chained(3),
    "persistent": chained(tiles=True),
    "no branch": chained(branch=""),
    "persistent, no branch": chained(tiles=True, branch=""),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS)
def test_threads_find_what_is_meant(text: str) -> None:
    """With the passes behind it and without them."""
    for sizes in SHAPES:
        for without in ((), ("gpu-skew", "gpu-turns")):
            assert_right(text, sizes, *without)


@pytest.mark.parametrize("guard", ["%yes", "%some"])
def test_a_guarded_contract_is_awaited_in_its_branch(guard: str) -> None:
    """Of a branch nobody behind it knows whether its contract is pending."""
    text = chained(after_scores="%yes = arith.cmpi sge, %i, %c0 : index")
    start = text.index("gpu.contract %p")
    end = text.index("}", start)
    text = text[:start] + f"scf.if {guard} {{ {text[start:end]} }}" + text[end:]
    assert_right(text, {"M": 70, "N": 130})


def test_a_pipeline_on_one_of_two_sides_stays() -> None:
    text = chained(other="else { gpu.fill %zero, %o : !gpu.fragment<[128, 64], f32> }")
    module = run(text, *BEFORE)
    before = printed(module)
    assert printed(run(module, PASS)) == before


# Pipelines that follow one another ---------------------------------------------------------------

TWO = {
    "one tile": chained(first=keys_first()),
    "persistent": chained(tiles=True, first=keys_first()),
    "three consumers": chained(3, tiles=True, first=keys_first(3)),
    "no branch": chained(branch="", first=keys_first()),
    "what is between computes a bound": chained(
        first=keys_first(before="%end = arith.addi %N, %c0 : index"), bound="%end"
    ),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("text", TWO.values(), ids=TWO)
def test_pipelines_that_follow_one_another_get_roles_together(text: str) -> None:
    """The tiles of keys are one ring, which counts on; with the passes behind it and without."""
    roles = specialized(text)
    kernel = roles.parent_op()
    assert kernel is not None and not find(kernel, tile.PipelineOp)
    assert [str(r.ring.type) for r in find(kernel, tile.RingOp)] == [
        "!gpu.ring<1>", "!gpu.ring<2>", "!gpu.ring<2>",
    ]  # fmt: skip
    for sizes in SHAPES[:2]:
        wanted = meant(inputs(sizes)) + in_columns(inputs(sizes))
        for without in ((), ("gpu-skew", "gpu-turns")):
            assert_right(text, sizes, *without, wanted=wanted)


def test_walks_of_bounds_that_vary_by_tile_carry_both_counts() -> None:
    """A tile's keys are those before its last row, and all of them in the first walk."""
    sizes = {"M": 330, "N": 260}
    given = inputs(sizes)
    text = growing_after(keys_first())
    loops = find(specialized(text), tile.TileLoopOp)
    assert [len(loop.iter_args) for loop in loops] == [3, 3]
    wanted = meant(given, 2, 100) + in_columns(given)
    assert_right(text, sizes, wanted=wanted)
    same = growing_after(keys_first(bound="%end"))
    assert [len(loop.iter_args) for loop in find(specialized(same), tile.TileLoopOp)] == [2, 2]


def growing_after(first: str, *, branch: bool = True) -> str:
    """``growing`` by 100 behind another loop."""
    head = "gpu.pipeline %k, %i"
    return growing(2, 100, branch=branch).replace(head, first + head)


ANY = """
%odd = gpu.fragment : !gpu.fragment<[128, 64], i1>
%any = gpu.any %odd : !gpu.fragment<[128, 64], i1>
%late = arith.select %any, %N, %c0 : index
"""
REFUSED_TWO = {
    "other stages": (
        chained(first=keys_first(stages=3)),
        "TileShared",
        "pipelines of 3 and of 2 stages use one tile, of which each would keep as many versions; "
        "give them as many stages, or each a tile of its own",
    ),
    "a bound that is known too late": (
        chained(first=keys_first(before=ANY), bound="%late"),
        "LateCondition",
        "a bound or a copy of this pipeline depends on what gpu.any gives, which is known only "
        "when the pipeline before has run, and the copies run ahead of it; let it depend on sizes, "
        "coordinates and tensors that the kernel only reads",
    ),
    "no branch, and tiles of no key": (
        growing_after(keys_first(bound="%end"), branch=False),
        "VaryingPipeline",
        "these pipelines may have no iteration in a tile, and tiles are brought for them alone in "
        "front; put both into a branch that asks whether there is one",
    ),
    "pingpong": (
        chained(tiles=True, first=keys_first()).replace(
            'raster "row" 1', 'raster "row" 1 pingpong'
        ),
        "NoTurns",
        "consumers that take turns run one pipeline a tile, and this tile loop has 2; drop "
        "pingpong, or make one of them",
    ),
}


@pytest.mark.parametrize(("text", "kind", "message"), REFUSED_TWO.values(), ids=REFUSED_TWO)
def test_pipelines_that_cannot_share_roles_are_refused(text: str, kind: str, message: str) -> None:
    found = refusal(text, *BEFORE, PASS)
    assert (found.kind, found.message) == (kind, message)
    assert found.place is not None and "gpu.pipeline" in text.splitlines()[found.place.line - 1]


def test_a_tile_that_another_kind_of_pipeline_fills_is_refused() -> None:
    """The producer would run ahead into it."""
    start = keys_first().replace("%q affine_map", "%h affine_map").replace("wgmma", "mma.sync")
    start = start.replace("!gpu.shared<[128, 64], f16>", "!gpu.fragment<[128, 64], f16>")
    start = start.replace('loader "tma"', 'loader "cp_async"')
    held = "%h = gpu.fragment : !gpu.fragment<[128, 64], f16>\n"
    message = (
        "gpu.contract uses a tile that a producer fills ahead for the pipelines of TMA copies and "
        "wgmma contracts; only these can"
    )
    text = chained(first=held + start)
    assert_refused(text, "TileShared", message, "gpu.contract", *BEFORE, PASS)


def test_one_slot_of_tiles_whose_rings_count_apart_is_refused() -> None:
    """K's ring goes on from the first walk, V's begins with the second."""
    module = run(chained(first=keys_first()), *BEFORE)
    one, other = find(find(module, tile.PipelineOp)[1], affine.ApplyOp)[:2]
    other.result.replace_all_uses_with(one.result)
    message = (
        "this value is a slot of tiles that another pipeline fills too and of tiles that it does "
        "not, so that their rings count apart; compute a slot for each"
    )
    with pytest.raises(PolycError) as found:
        run(module, PASS)
    assert (found.value.kind, found.value.message) == ("SlotShared", message)
