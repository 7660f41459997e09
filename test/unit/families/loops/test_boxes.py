"""Boxes of movements: which region has one, how it lies in both tensors, and which plans fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f16, f32

from polyc.bench.any_permutes import Problem, text_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.boxes import BOX, LINE, Box, find_box
from polyc.families.loops.recognise import find_loops
from polyc.passes.pipeline import ORDER, build
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.sketch import Sketch
from polyc.tools.registry import make_context

HALVES = LINE // 2
"""Of a line."""

Shape = Sequence[int | str]


def planned(
    shape: Shape, order: Sequence[int], kind: AnyFloat = f16, plan: str | None = None
) -> ModuleOp:
    s = Sketch("moved", kind)
    module = s.done(y=s.permute(s.input("x", *shape), *order))
    for name in ORDER[: ORDER.index("plan-select") + 1]:
        build(name, "sm_90a", plan).apply(make_context(), module)
    return module


def box_of(module: ModuleOp) -> Box | None:
    return find_box(find_loops(only(module, KernelOp)), "sm_90a")


def variants(module: ModuleOp) -> list[str]:
    return [op.variant.data for op in module.ops if isinstance(op, ScheduleOp)]


@pytest.mark.parametrize(
    ("shape", "order", "source", "result"),
    [
        # Pairs that stay pairs: lines of both go across the pairs of neighbours.
        ((512, 256, 2), (1, 0, 2), 128, 64),
        # Planes of 128: they lie together in both, many in a box.
        ((4096, 4, 32), (0, 2, 1), 4096, 4096),
        # Rows of three: lines of the source go across them, those of the result do not.
        ((8192, 3), (1, 0), 3072, 1024),
        ((16, 8, 16, 16, 32, 32), (5, 4, 3, 2, 1, 0), 64, 64),
        # Any number of pairs.
        (("N", 2), (1, 0), 4096, 2048),
    ],
)
def test_lines_of_a_box(shape: Shape, order: Sequence[int], source: int, result: int) -> None:
    module = planned(shape, order)
    box = box_of(module)
    assert box is not None
    assert (box.source.tile[1], box.result.tile[1]) == (source, result)
    assert min(source, result) >= HALVES and box.elements * 2 <= 2 * BOX
    assert box.source.tile[0] * source == box.result.tile[0] * result == box.elements
    assert box.elements % (box.threads * box.vector) == 0
    first, *_ = [op for op in module.ops if isinstance(op, ScheduleOp)]
    assert first.variant.data == "boxes" and first.tile_sizes == (*box.result.tile, 1)


def test_open_sizes_are_asked_for_whole_vectors() -> None:
    module = planned(("N", 2), (1, 0))
    first = next(op for op in module.ops if isinstance(op, ScheduleOp))
    assert [str(fact) for fact in first.when.data] == ["(2 * N) mod 8 == 0", "N mod 8 == 0"]
    assert variants(module) == ["boxes", "boxes_any"]


def test_wide_elements_have_shorter_lines() -> None:
    box = box_of(planned((512, 256, 2), (1, 0, 2), f32))
    assert box is not None and box.vector == 4 and box.result.tile[1] == HALVES // 2


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((128, 256), (1, 0)),  # lines of both are long: a tile of two axes has whole ones
        ((64, 16, 128), (1, 0, 2)),  # the innermost axis stays, and is long
        (("M", "N"), (1, 0)),
    ],
)
def test_long_lines_need_no_box(shape: Shape, order: Sequence[int]) -> None:
    module = planned(shape, order)
    assert box_of(module) is None and "boxes" not in variants(module)


def test_what_reads_more_than_it_moves_has_none() -> None:
    s = Sketch("moved", f16)
    x, z = s.input("x", 512, 256, 2), s.input("z", 256, 512, 2)
    module = s.done(y=s.fn("add", s.permute(x, 1, 0, 2), z))
    for name in ORDER[: ORDER.index("plan-select") + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    assert box_of(module) is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            '"tile": [32, 64, 1], "warp_tile": [32, 8]',
            "has a tile of 32x64x1, where a box of this region is 64x64x1",
        ),
        ('"vectorize": 8, "split_k": 2', "movements of boxes do not have"),
        ('"persistent": true', "movements of boxes do not have"),
    ],
)
def test_other_boxes_are_refused(fields: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(f'{{"variant": "boxes", {fields}}}')
    with pytest.raises(PolycError, match=why):
        planned((512, 256, 2), (1, 0, 2), plan=str(path))


def test_a_region_without_a_box_is_refused_one(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"variant": "vector", "algo_choice": {"loops": "boxes"}}')
    with pytest.raises(PolycError, match="moves boxes where axes of the region are not turned"):
        planned((128, 256), (1, 0), plan=str(path))


def test_bytes_have_half_lines_where_a_box_has_no_room_for_whole_ones() -> None:
    """Lines of 128 bytes of 1268 threes and of 9629 would be 24576 elements."""
    module = parsed(text_of(Problem((2, 3, 1268, 9629), (0, 3, 2, 1), "ui8")))
    for name in ORDER[: ORDER.index("plan-select") + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    box = box_of(module)
    assert box is not None and box.source.tile[1] == LINE // 2 <= box.result.tile[1]
    assert box.elements <= 2 * BOX
