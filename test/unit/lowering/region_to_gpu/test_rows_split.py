"""Rows that the blocks of a cluster share: they take its chunks in turn, and meet after a walk."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.families.rows.variants import VARIANTS
from polyc.passes.finish import finish
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.rewriting.emit import Emit
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.row_plans import asked, mismatch
from polyc.test.support.row_programs import PROGRAMS
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run

SPLIT = next(variant for variant in VARIANTS if variant.name == "chunks_split8")
SMALL: dict[str, Any] = {
    "variant": SPLIT.name,
    "when": ["N mod 8 == 0"],
    "tile": [1, 512, 1],
    "warp_tile": "1x256",
}
"""The variant in chunks that the simulator walks quickly, for rows of every length."""
LENGTHS = (8, 520, 4096, 4104, 9008)
SPLIT_NAMES = ("softmax", "log_softmax", "layer_norm", "extremes", "one_row", "parts_of_a_sum")


@cache
def programs(name: str, folder: Path) -> tuple[gpu.ModuleOp, gpu.ModuleOp]:
    """A program in small chunks, at the tile level and as threads."""
    module = asked(PROGRAMS[name].text, folder, **SMALL)
    tiles = only(module, gpu.ModuleOp)
    done = module.clone()
    finish(done)
    return tiles, only(done, gpu.ModuleOp)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plans")


def variant_of(module: gpu.ModuleOp) -> str:
    names = [v.variant_name for v in module.dispatch().variants()]
    (found,) = [name for name in names if name.endswith(SPLIT.name)]
    return found


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "length"),
    # In turn: each program at some lengths, each length of two programs at least.
    [(n, LENGTHS[(2 * i + j) % 5]) for i, n in enumerate(SPLIT_NAMES) for j in (0, 1)],
)
def test_blocks_of_a_cluster_compute_the_graph(name: str, length: int, folder: Path) -> None:
    """One block has all there is, two have some, all have as much, one has more, and a tail."""
    tiles, threads = programs(name, folder)
    source = only(parsed(PROGRAMS[name].text), GraphOp)
    sizes, variant = PROGRAMS[name].sizes(length), variant_of(tiles)
    inputs = make_inputs(source, sizes)
    assert mismatch(source, sizes, inputs, tile.run(tiles, inputs, sizes, variant)) is None
    result = simulate(threads, inputs, sizes, variant, schedule="random", seed=length)
    result.check()
    assert result.grid % SPLIT.parts == 0
    assert mismatch(source, sizes, inputs, result.outputs) is None


@pytest.mark.turns(3)
@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, 65504.0])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "extremes"])
def test_numbers_that_are_apart(name: str, value: float, folder: Path) -> None:
    """In the chunks of a few blocks, or of all."""
    tiles, _ = programs(name, folder)
    source = only(parsed(PROGRAMS[name].text), GraphOp)
    sizes = PROGRAMS[name].sizes(5000)
    first, *rest = make_inputs(source, sizes)
    first[0] = value
    first[1, 512:2048] = value
    with np.errstate(all="ignore"):
        found = tile.run(tiles, [first, *rest], sizes, variant_of(tiles))
        assert mismatch(source, sizes, [first, *rest], found) is None


def test_every_meeting_of_the_cluster_is_needed(folder: Path) -> None:
    """Without the barrier at the start, or one of those between sending and reading, it races."""
    _, threads = programs("softmax", folder)
    name = variant_of(threads)
    source = only(parsed(PROGRAMS["softmax"].text), GraphOp)
    sizes = {"M": 1, "N": 4104}
    inputs = make_inputs(source, sizes)
    kernel = next(k for k in threads.kernels() if k.sym_name.data == name)
    count = len(find(kernel, hw.ClusterBarrierOp))
    assert count == 3
    for i in range(count):
        mutant = threads.clone()
        kernel = next(k for k in mutant.kernels() if k.sym_name.data == name)
        find(kernel, hw.ClusterBarrierOp)[i].detach()
        result = simulate(mutant, inputs, sizes, name, schedule="random", seed=i)
        assert result.findings, i


@pytest.mark.parametrize("walk", [0, 1])
def test_each_block_has_chunks_of_its_own(walk: int, folder: Path) -> None:
    """Blocks that all begin with the first chunk count it often, or leave others unwritten."""
    tiles, _ = programs("softmax", folder)
    source = only(parsed(PROGRAMS["softmax"].text), GraphOp)
    sizes = {"M": 1, "N": 4104}
    inputs = make_inputs(source, sizes)
    mutant = tiles.clone()
    kernel = next(k for k in mutant.kernels() if k.sym_name.data == variant_of(mutant))
    loop = find(kernel, scf.ForOp)[walk]
    emit = Emit()
    loop.operands[0] = emit.index(0)
    block = loop.parent
    assert block is not None
    block.insert_ops_before(emit.ops, loop)
    found = tile.run(mutant, inputs, sizes, variant_of(mutant))
    assert mismatch(source, sizes, inputs, found) is not None


# Plans -----------------------------------------------------------------------------------------


def proposed(arch: str, *shape: int | str) -> list[ScheduleOp]:
    """The schedules of a softmax that walk rows in chunks and share them."""
    s = Sketch("rows")
    found = find(run(s.done(y=s.softmax(s.input("x", *shape))), "plan", arch=arch), ScheduleOp)
    return [plan for plan in found if plan.variant.data == SPLIT.name]


def test_few_rows_that_are_long_are_shared() -> None:
    """Fewer than fill the chip, and a chunk for each block; Ampere has no clusters."""
    (plan,) = proposed("sm_90a", "B", "M", "N")
    facts = ["N mod 8 == 0", "-B * M >= -66", "N >= 65536"]
    assert [str(fact) for fact in plan.when.data] == facts
    assert not proposed("sm_80", "B", "M", "N")


@pytest.mark.parametrize(
    ("shape", "shared"),
    [
        ((32, 1 << 25), True),
        (("M", 1 << 23), True),
        ((265, 1 << 25), False),
        (("M", 65528), False),
    ],
)
def test_rows_of_known_lengths(shape: tuple[int | str, ...], shared: bool) -> None:
    assert len(proposed("sm_90a", *shape)) == shared


@pytest.mark.parametrize(
    ("variant", "fields", "arch", "kind", "reason"),
    [
        ("block", {}, "sm_90a", "UnsupportedPlan", "a split_k that a kernel that keeps rows"),
        (
            "chunks",
            {"tile": [2, 4096, 1], "warp_tile": [1, 4096]},
            "sm_90a",
            "UnsupportedPlan",
            "its tile has several",
        ),
        ("chunks", {}, "sm_80", "ResourceExceeded", "of as many blocks, sm_80 allows 1"),
    ],
)
def test_a_plan_that_cannot_share_is_refused(
    tmp_path: Path, variant: str, fields: dict[str, object], arch: str, kind: str, reason: str
) -> None:
    with pytest.raises(PolycError) as caught:
        asked(PROGRAMS["softmax"].text, tmp_path, arch, variant=variant, split_k=8, **fields)
    assert caught.value.kind == kind and reason in caught.value.message
