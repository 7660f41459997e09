"""``gpu-multi-version-buffers``: rings, and the uses that a ring cannot have."""

from __future__ import annotations

import pytest
from xdsl.dialects import affine

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import SharedType
from polyc.test.support.gpu_programs import TENSOR, pipeline
from polyc.test.support.gpu_text import assert_refused, find, only, printed, run, unchanged

PASS = "gpu-multi-version-buffers"
TILE = "!gpu.shared<[64, 64], f16>"


@pytest.mark.parametrize("stages", [2, 3, 8])
def test_version_tiles(stages: int) -> None:
    module = run(pipeline(stages=stages), PASS)
    kind = only(module, SharedTileOp).tile.type
    assert isinstance(kind, SharedType) and kind.ring.data == stages
    copy, contract = only(module, tile.CopyOp), only(module, tile.ContractOp)
    assert copy.slot is not None
    assert copy.slot is contract.lhs_slot is contract.rhs_slot
    assert isinstance(copy.slot.owner, affine.ApplyOp)
    assert f"(d0 mod {stages})" in printed(copy.slot.owner)


def test_version_tiles_keeps_what_the_ops_say() -> None:
    """Loader, swizzle, stage and place go over to the new op."""
    text = pipeline(tile="[64, 64], f16, swizzle 64")
    planned = run(text, "gpu-pipeline-planning")
    before = only(planned, tile.CopyOp)
    location, attributes = before.location, dict(before.attributes)
    after = only(run(planned, PASS), tile.CopyOp)
    assert (after.location, after.attributes) == (location, attributes)
    assert after.loader == before.loader
    assert isinstance(after.target.type, SharedType) and after.target.type.swizzle_bytes == 64


def test_version_tiles_of_one_stage_stay() -> None:
    unchanged(pipeline(stages=1), PASS)


def test_version_tiles_of_a_pipeline_without_copies_stay() -> None:
    unchanged(pipeline(copies=False), PASS)


def test_version_tiles_runs_once() -> None:
    once = run(pipeline(), PASS)
    text = printed(once)
    assert printed(run(once, PASS)) == text


COPY = f'gpu.copy %A[%M, %M] to %t loader "cp_async" : {TENSOR}, {TILE}'
USES = {
    "a copy before the loop": (pipeline(before=COPY), "gpu.copy", "gpu.copy"),
    "a copy in a loop": (
        pipeline(inside=f"scf.for %j = %M to %K step %M {{ {COPY} }}"),
        "gpu.copy",
        "scf.for",
    ),
    "an address": (
        pipeline(inside=f"%e = gpu.element_address %t[%M] [%M, %M] : {TILE}"),
        "gpu.element_address",
        "gpu.element_address",
    ),
}


@pytest.mark.parametrize(("text", "name", "marker"), USES.values(), ids=USES)
def test_version_tiles_refuses_another_use(text: str, name: str, marker: str) -> None:
    message = (
        f"{name} uses a tile that the pipeline keeps 3 versions of; "
        "only copies and contracts of the loop itself can"
    )
    assert_refused(text, "TileShared", message, marker, PASS)


# Guards ------------------------------------------------------------------------------------------

CONDITIONS = """%p = arith.cmpi slt, %M, %K : index
    %q = arith.cmpi eq, %M, %K : index
    %true = arith.constant true
    %not = arith.xori %p, %true : i1"""
LOAD = f'gpu.copy %A[%M, %k] to %t loader "cp_async" : {TENSOR}, {TILE}'
READ = (
    "gpu.contract %t affine_map<(m, n, k) -> (m, k)>, %t affine_map<(m, n, k) -> (k, n)> "
    f'into %acc mma "mma.sync" warp_tile <32, 32> : {TILE}, {TILE}, !gpu.fragment<[64, 64], f32>'
)


def under(condition: str, what: str) -> str:
    return f"scf.if {condition} {{ {what} }}"


def guarded(*ops: str) -> str:
    """A pipeline of these ops, which may use the conditions %p, %q and %not (which is not p)."""
    return pipeline(copies=False, contracts=False, inside="\n".join(ops), before=CONDITIONS)


RIGHT = {
    "both under one condition": (under("%p", LOAD), under("%p", READ)),
    "the reader under one more": (under("%p", LOAD), under("%p", under("%q", READ))),
    "opposite copies": (under("%p", LOAD), under("%not", LOAD), READ),
    "a bare copy": (LOAD, under("%q", READ)),
    "a condition computed twice": (
        "%r = arith.cmpi slt, %M, %K : index",
        under("%p", LOAD),
        under("%r", READ),
    ),
}


@pytest.mark.parametrize("ops", RIGHT.values(), ids=RIGHT)
def test_version_tiles_under_conditions(ops: tuple[str, ...]) -> None:
    module = run(guarded(*ops), PASS)
    for copy in find(module, tile.CopyOp):
        assert copy.slot is only(module, tile.ContractOp).lhs_slot is not None


WRONG = {
    "a bare reader": (under("%p", LOAD), READ),
    "a reader under another condition": (under("%p", LOAD), under("%q", READ)),
    "a reader under the opposite": (under("%p", LOAD), under("%not", READ)),
    "a copy under one more": (under("%p", under("%q", LOAD)), under("%p", READ)),
}


@pytest.mark.parametrize("ops", WRONG.values(), ids=WRONG)
def test_version_tiles_refuses_a_reader_of_what_was_skipped(ops: tuple[str, ...]) -> None:
    message = (
        "gpu.contract reads a tile in iterations whose copy is skipped, where its slot still "
        "holds the tile of 3 iterations before; put both under one condition"
    )
    assert_refused(guarded(*ops), "TileStale", message, "gpu.contract", PASS)


@pytest.mark.parametrize("second", [LOAD, under("%q", LOAD)])
def test_version_tiles_refuses_two_copies_into_one_tile(second: str) -> None:
    message = (
        "an iteration may copy into this tile twice, and nothing says which copy comes last; "
        "give each a tile of its own, or opposite conditions"
    )
    text = guarded(under("%p", LOAD), f"// second\n{second} // here", under("%p", READ))
    assert_refused(text, "TileFilledTwice", message, "// here", PASS)
