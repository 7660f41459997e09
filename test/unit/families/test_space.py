"""The space of plans of products: all are legal, and as the architecture's limits have it."""

from __future__ import annotations

import pytest

from polyc.bench.splits import regions
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.region import KernelOp
from polyc.families.family import fitted
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import GEMM, schedule_fields
from polyc.families.matmul.variants import MatmulVariant
from polyc.families.space import MOST_STAGES, space

PLANS = space("sm_90a")


def test_every_plan_is_legal_and_keeps_its_stages() -> None:
    kernel = next(op for op in regions((4096, 4096, 4096)).walk() if isinstance(op, KernelOp))
    gemm, chip = find_contraction(kernel), ARCHS["sm_90a"]
    for plan in PLANS:
        fields = schedule_fields(gemm, "sm_90a", MatmulVariant(plan.name, 8, plan.fields()))
        schedule = fitted("product", plan.name, fields, ())
        GEMM.check_found(gemm, schedule)
        assert schedule.integer("stages") == plan.stages, plan.name
        assert plan.at_once * schedule.shared_bytes() <= chip.shared_bytes + 1024
        assert plan.at_once * schedule.threads() <= 2048


def test_names_are_one_plan_each() -> None:
    assert len({plan.name for plan in PLANS}) == len(PLANS)


def test_it_has_all_kinds() -> None:
    assert any(p.persistent and p.columns == 192 for p in PLANS)
    assert {p.rows for p in PLANS} == {64, 128, 192, 256}
    assert {p.parts for p in PLANS if p.parts > 1 and not p.summed} == {2, 4, 8}
    assert any(p.summed for p in PLANS)
    assert any(p.at_once > 2 for p in PLANS)
    shared = {(p.below, p.beside) for p in PLANS if p.together > 1 and p.parts == 1}
    assert shared == {(2, 1), (1, 2)}
    deep = next(p for p in PLANS if p.name == "tma_64x128_once")
    assert deep.at_once == 1 and deep.stages == MOST_STAGES


def test_there_is_none_without_wgmma_and_few_with_little_room() -> None:
    assert space("sm_80") == ()
    narrow = space("sm_90a", most=64)
    assert narrow and max(plan.columns for plan in narrow) == 128
    assert max(plan.columns for plan in space("sm_90a", products=2)) == 128


@pytest.mark.parametrize("loose", [False, True])
def test_blocks_that_go_on_begin_with_registers_for_their_sums(loose: bool) -> None:
    """ptxas makes code for what a thread has at launch: three consumers of 192x224 would need 138
    registers, and blocks of 512 threads have 128.
    """
    found = {(p.rows, p.columns) for p in space("sm_90a", loose=loose) if p.persistent}
    assert (192, 192) in found and (192, 224) not in found
    for rows, columns in found:
        assert columns // 2 + 26 <= 65536 // (128 * (1 + rows // 64))
