"""``plan.schedule`` as data: JSON both ways, estimates, and what degrades."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import FIELDS, Value
from polyc.families.family import fitted
from polyc.families.matmul.variants import VARIANTS
from polyc.passes.support.plan.given import user_schedule
from polyc.tools.parsing import parse_text

MMA_SYNC: dict[str, Value] = {
    "arch": "sm_80",
    "tensorize": "acc",
    "mma": "mma.sync",
    "loader": "cp_async",
    "tile": [128, 128, 32],
    "stages": 4,
    "warp_tile": [64, 64],
    "vectorize": 8,
}
WGMMA: dict[str, Value] = {
    "arch": "sm_90a",
    "tensorize": "acc",
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 256, 64],
    "stages": 4,
    "warp_tile": [64, 256],
    "consumers": 2,
    "registers": [40, 232],
}

NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
SCALARS = st.booleans() | st.integers(-(2**63), 2**63 - 1) | NAMES
RECORDS = st.dictionaries(NAMES, SCALARS, max_size=3)
BY_KIND: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int": st.integers(-(2**63), 2**63 - 1),
    "str": NAMES,
    "ints": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    "strs": st.lists(NAMES, max_size=3),
    "record": RECORDS,
    "records": st.lists(RECORDS, max_size=2),
}
ANY_FIELDS = st.fixed_dictionaries({f.name: BY_KIND[f.kind] for f in FIELDS}).map(
    lambda fields: {**fields, "warp_tile": [max(v, 0) for v in fields["warp_tile"]] or [1]}
)


def _size(a: int, b: int, c: int) -> Dim:
    return Dim.sym("K") * a + Dim.sym("N").mod(8) * b + c


SMALL = st.integers(-4, 4)
DIMS = st.builds(_size, SMALL, SMALL, SMALL)
FACTS = st.lists(st.builds(Assumption, DIMS, st.sampled_from(["==", ">="])), max_size=3)


@given(ANY_FIELDS, FACTS)
def test_json_loses_nothing(fields: dict[str, Value], when: list[Assumption]) -> None:
    """Every field of every value comes back, also through JSON's text (S8.1)."""
    op = ScheduleOp("gemm", "v", fields, when)
    again = ScheduleOp.from_json(json.loads(json.dumps(op.to_json())))
    assert again.is_structurally_equivalent(op)
    assert again.to_json() == op.to_json()
    assert {k: v for k, v in op.fields().items() if k != "notes"} == {
        k: v for k, v in fields.items() if k != "notes"
    }


def test_json_uses_the_specification_s_names() -> None:
    data = ScheduleOp(
        "gemm",
        "tma",
        {**WGMMA, "vectorize": 8, "vectorize_axis": "n.i.i"},
        [Assumption(Dim.sym("K").mod(8), "==")],
    ).to_json()
    assert data["warp_tile"] == "64x256"
    assert data["vectorize"] == {"axis": "n.i.i", "width": 8}
    assert data["when"] == ["K mod 8 == 0"]
    assert set(data) == {"region", "variant", "when", *(f.name for f in FIELDS)} - {
        "vectorize_axis",
        "notes",
    }


def test_the_specification_s_example_loads() -> None:
    """Section 8's dump, with the fields that it lacks (and its 16-byte access)."""
    example: dict[str, object] = {
        "tile": [128, 64, 64],
        "stages": 2,
        "bind": {"m.o": "block.y", "n.o": "block.x", "m.i.o": "warp.y", "n.i.o": "warp.x"},
        "warp_tile": "64x64",
        "cache": [
            {"tensor": "A", "where": "smem", "at": "k.i", "pingpong": True},
            {"tensor": "B", "where": "smem", "at": "k.i", "pingpong": True},
        ],
        "vectorize": {"axis": "n.i.i", "width": 8},
        "predicate_tail": ["m.i.i", "n.i.i", "k.i.i"],
        "epilogue": ["bias", "relu"],
        "arch": "sm80",
        "layout_hints": {"A_swizzle": True, "B_swizzle": True, "C_stride": "row"},
        "algo_choice": {"matmul": "implicit_gemm"},
        "local_edges": [{"from": "sum_k", "to": "relu", "buffer": "reg"}],
    }
    op = ScheduleOp.from_json(
        {**example, "tensorize": "sum_k", "mma": "mma.sync", "loader": "cp_async"}, region="gemm"
    )
    op.verify()
    assert op.arch.data == "sm_80"
    out = op.to_json()
    assert {k: out[k] for k in example if k != "arch"} == {
        k: v for k, v in example.items() if k != "arch"
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"stages": "two"}, "field 'stages': expected an integer, got 'two'"),
        ({"stages": True}, "field 'stages': expected an integer, got True"),
        ({"stages": 2**70}, "field 'stages'"),
        ({"tile": [1.5]}, "field 'tile': expected a list of integers, got"),
        ({"tile": None}, "needs the field 'tile'"),
        ({"warp_tile": "64by64"}, "field 'warp_tile': expected sizes as in 64x64"),
        ({"vectorize": {"width": 8}}, "field 'vectorize': expected axis and width"),
        ({"bind": {"m": 1.5}}, "field 'bind': 'm' is 1.5"),
        ({"cache": [{"tensor": ["A"]}]}, "field 'cache': 'tensor' is"),
        ({"when": "K >= 1"}, "field 'when': expected a list of conditions"),
        ({"when": ["K ? 1"]}, "field 'when': 'K ? 1' is not a condition"),
        ({"when": ["K >= 1 and more"]}, "goes on after the condition K >= 1"),
        ({"stagez": 2}, "a schedule has no field 'stagez'"),
        ({"region": 3}, "names its region and variant by strings"),
    ],
)
def test_json_that_is_no_plan_is_refused(change: dict[str, object], sentence: str) -> None:
    data = ScheduleOp("gemm", "v", MMA_SYNC).to_json()
    with pytest.raises(ValueError) as caught:
        ScheduleOp.from_json({**data, **change})
    assert sentence in str(caught.value)


def test_estimates() -> None:
    """The ring is stages * (BM*BK + BK*BN) 16-bit elements; TMA adds barriers and alignment."""
    op = ScheduleOp("gemm", "v", MMA_SYNC)
    assert op.shared_bytes() == 4 * (128 * 32 + 32 * 128) * 2
    assert op.threads() == 128
    assert op.accumulator_registers() == 128
    op = ScheduleOp("gemm", "v", WGMMA)
    assert op.shared_bytes() == 4 * (128 * 64 + 64 * 256) * 2 + 4 * 16 + 1024
    assert op.threads() == 384
    assert op.accumulator_registers() == 128


def test_a_compiler_s_plan_gives_up_stages_with_a_note() -> None:
    op = fitted("gemm", "tma", {**WGMMA, "stages": 8}, [])
    assert op.integer("stages") == 4
    assert op.to_json()["notes"] == ["stages 8 -> 4: shared memory"]
    assert "notes" not in fitted("gemm", "tma", WGMMA, []).to_json()


def test_a_compiler_s_plan_that_cannot_fit_is_refused() -> None:
    fields: dict[str, Value] = {**MMA_SYNC, "tile": [256, 256, 128], "warp_tile": [64, 64]}
    with pytest.raises(PolycError) as caught:
        fitted("gemm", "cp_async", fields, [])
    assert caught.value.kind == "ResourceExceeded"
    assert "with 2 stages takes 262144 bytes" in caught.value.message


def test_a_user_s_plan_is_never_lowered() -> None:
    base = fitted("gemm", "tma", WGMMA, [])
    with pytest.raises(PolycError) as caught:
        user_schedule(base, {"stages": 5})
    assert caught.value.kind == "ResourceExceeded"
    assert user_schedule(base, {"stages": 3}).integer("stages") == 3


@pytest.mark.parametrize("arch", VARIANTS)
def test_variants_are_few_and_the_last_takes_every_shape(arch: str) -> None:
    variants = VARIANTS[arch]
    assert 1 <= len(variants) <= 6
    assert variants[-1].multiple == 1
    last = variants[-1]
    assert last.fields["loader"] != "tma" and not last.tiles and last.larger is None
    as_they_are = [v.multiple for v in variants if v.fields["loader"] != "padded"]
    assert as_they_are == sorted(as_they_are, reverse=True)


def test_text_comes_back_byte_for_byte(ctx: Context) -> None:
    good = str(ScheduleOp("gemm", "v", MMA_SYNC))
    module = parse_text(ctx, good, "good.mlir")
    module.verify()
    assert str(module.body.block.first_op) == good
