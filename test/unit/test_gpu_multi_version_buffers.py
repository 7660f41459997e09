"""``gpu-multi-version-buffers``: rings, and the uses that a ring cannot have."""

from __future__ import annotations

import pytest
from xdsl.dialects import affine

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.types import SharedType
from polyc.test.unit.gpu_programs import TENSOR, pipeline
from polyc.test.unit.gpu_text import assert_refused, only, printed, run, unchanged

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
    "a copy in a branch": (
        pipeline(inside=f"scf.if %p {{ {COPY} }}", before="%p = arith.constant true"),
        "gpu.copy",
        "scf.if",
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
