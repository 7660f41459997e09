"""Every field of a plan changes the kernel, or is refused before code is made (S8.1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.bench.splits import TEXT
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import FIELDS, RESTATED
from polyc.dialects.region import KernelOp
from polyc.families.family import Family
from polyc.families.registry import BY_NAME
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.passes.plan import select
from polyc.passes.plan.select import propose
from polyc.test.support.attention_programs import Attention
from polyc.test.support.gpu_text import find, parsed, printed, refusal
from polyc.test.support.root import ROOT
from polyc.test.support.split_programs import leave_only
from polyc.tools.registry import make_context

PLANS = (
    ("gemm_bias_relu", "sm_90a", "tma"),
    ("gemm_bias_relu", "sm_90a", "tma_*_split*"),
    ("gemm_bias_relu", "sm_90a", "padded"),
    ("deep", "sm_90a", "tma_*_parts*"),
    ("gemm_bias_relu", "sm_80", "cp_async16"),
    ("gemm_bias_relu", "sm_80", "cp_async16_128x128_parts8"),
    ("conv_silu", "sm_90a", "tma"),
    ("conv_silu", "sm_80", "cp_async4"),
    ("causal_attention", "sm_90a", "tma"),
    ("causal_attention", "sm_80", "cp_async"),
    ("decode", "sm_90a", "few_parts16"),
    ("softmax", "sm_90a", "warp"),
    ("softmax", "sm_90a", "chunks"),
    ("softmax", "sm_90a", "team"),
    ("column_softmax", "sm_90a", "panel_team8"),
    ("column_mean", "sm_90a", "vector_split8"),
)
"""An example, an architecture, and a variant of its first region: every family, several ways."""

MORE: Mapping[str, str] = {
    "decode": Attention("[B, 8, 1, 128]", "[B, 2, N, 128]", "[B, 2, N, 128]", []).text(),
    "column_mean": """
frontend.graph @column_mean(%X: !frontend.tensor<[M, N], f16>) -> (Y: !frontend.tensor<[N], f16>) {
  %0 = frontend.reduce mean %X axes [0]
      : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[N], f16>
  frontend.output %0 : !frontend.tensor<[N], f16>
}
""",
    "deep": TEXT.format(m=128, n=136, k=65544),
}
"""Programs beside those of examples/."""

Values = Callable[[Any], list[Any]]

ALGORITHMS = [
    {},
    {"matmul": "implicit_gemm"},
    {"matmul": "tiled"},
    {"matmul": "partial_sums"},
    {"attention": "streaming_softmax_2pass"},
    {"attention": "shared_keys"},
    {"rows": "resident"},
    {"rows": "streaming"},
    {"loops": "serial"},
]

OTHERS: dict[str, Values] = {
    "arch": lambda v: ["sm_80" if v == "sm_90a" else "sm_90a"],
    "tensorize": lambda v: [f"{v}x"],
    "mma": lambda _: ["wgmma", "mma.sync", "none"],
    "loader": lambda _: ["tma", "cp_async", "register", "padded"],
    "tile": lambda v: [
        [v[0] * 2, v[1], v[2]],
        [max(1, v[0] // 2), v[1], v[2]],
        [v[0], v[1] * 2, v[2]],
        [v[0], v[1] // 2, v[2]],
        [v[0], v[1], v[2] * 2],
        [v[0], v[1], max(1, v[2] // 2)],
    ],
    "stages": lambda v: [max(1, v - 1), v + 1],
    "warp_tile": lambda v: [
        [v[0] * 2, v[1]],
        [max(1, v[0] // 2), v[1]],
        [v[0], v[1] // 2],
        [v[0] * 2, v[1] // 2],
        [max(1, v[0] // 2), v[1] * 2],
    ],
    "fragment_buffers": lambda v: [3 - v],
    "consumers": lambda v: [v + 1, max(1, v - 1)],
    "pingpong": lambda v: [not v],
    "registers": lambda v: [[], [24, 240], [40, 216]],
    "cluster": lambda _: [[2, 1], [1, 2], [2, 2]],
    "multicast": lambda v: [not v],
    "raster": lambda _: ["row", "column", "grouped", "shorter", "hilbert"],
    "group": lambda v: [v + 1],
    "split_k": lambda v: [1, 2, 3, 4, 8],
    "persistent": lambda v: [not v],
    "vectorize": lambda v: [1, 2, 4, 8],
    "vectorize_axis": lambda v: ["", f"{v}.i"],
    "bind": lambda v: [{}, dict.fromkeys(v, "block.y"), {**v, "z": "block.x"}],
    "cache": lambda v: [
        [],
        [{**e, "pingpong": not e.get("pingpong", False)} for e in v],
        [{**e, "at": "z"} for e in v],
        [*v, {"tensor": "Z", "where": "smem", "at": "z", "pingpong": False}],
    ],
    "predicate_tail": lambda v: [[], v[1:], [*v, "z"]],
    "epilogue": lambda v: [[], v[1:], [*v, "tanh"]],
    "layout_hints": lambda v: [
        {},
        {k: not x if isinstance(x, bool) else x for k, x in v.items()},
        {**v, "Z_stride": "row"},
    ],
    "algo_choice": lambda _: ALGORITHMS,
    "local_edges": lambda v: [
        [],
        [*v, {"from": "a", "to": "b", "buffer": "reg"}],
        [{**e, "buffer": "smem_ring", "depth": 7} for e in v],
    ],
}
"""Other values of a field, some possible and some not; ``notes`` are the compiler's."""


def test_every_field_has_others() -> None:
    assert [*OTHERS, "notes"] == [field.name for field in FIELDS]


@cache
def regions(example: str, arch: str) -> ModuleOp:
    """An example's regions; not to be changed."""
    path = ROOT / "examples" / f"{example}.mlir"
    module = parsed(MORE[example] if example in MORE else path.read_text("utf-8"))
    for step in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        build(step, arch).apply(make_context(), module)
    return module


def kernels(example: str, arch: str, plan: Path, base: ScheduleOp) -> str:
    """The text of an example's kernels under a plan over ``base``, of its region no others; raises
    PolycError."""
    module = regions(example, arch).clone()
    build("plan-select", arch, str(plan)).apply(make_context(), module)
    leave_only(module, base.variant.data)
    for step in ("region-expand-together", "region-to-gpu"):
        build(step, arch).apply(make_context(), module)
    return printed(module)


@cache
def planned(example: str, arch: str) -> ModuleOp:
    """An example's regions and the compiler's schedules; not to be changed."""
    module = regions(example, arch).clone()
    build("plan-select", arch).apply(make_context(), module)
    return module


def schedule(module: ModuleOp, variant: str) -> ScheduleOp:
    return next(op for op in find(module, ScheduleOp) if fnmatch(op.variant.data, variant))


@cache
def own(example: str, arch: str, variant: str) -> str:
    """The text of an example's kernels under the compiler's own plan."""
    base = schedule(planned(example, arch), variant)
    names = {"region": base.region.string_value(), "variant": base.variant.data}
    with NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps(names))
        file.flush()
        return kernels(example, arch, Path(file.name), base)


@pytest.fixture(autouse=True)
def proposed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region's schedules are found once: what is asked here is what becomes of them then."""

    def once(kernel: KernelOp, arch: str) -> Proposed:
        key = printed(kernel), arch
        if key not in PROPOSED:
            PROPOSED[key] = propose(kernel, arch)
        family, schedules, refused = PROPOSED[key]
        return family, [one.clone() for one in schedules], refused

    monkeypatch.setattr(select, "propose", once)


Proposed = tuple[Family[Any], list[ScheduleOp], PolycError | None]

PROPOSED: dict[tuple[str, str], Proposed] = {}


TURNS = [
    (*plan, field)
    for i, plan in enumerate(PLANS)
    for j, field in enumerate(OTHERS)
    if (i + j) % 2 == 0
]
"""Each field with every other plan: a family has several."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(("example", "arch", "variant", "field"), TURNS)
def test_a_field_acts_or_is_refused(
    tmp_path: Path, example: str, arch: str, variant: str, field: str
) -> None:
    base = schedule(planned(example, arch), variant)
    variant = base.variant.data
    names: dict[str, object] = {"region": base.region.string_value(), "variant": variant}
    plan = tmp_path / "plan.json"
    value = base.fields()[field]
    for other in OTHERS[field](value):
        if other == value:
            continue
        given = {field: other}
        if field.startswith("vectorize"):
            axis = base.vectorize_axis.data
            width = {"axis": axis, "width": base.integer("vectorize"), field[10:] or "width": other}
            given = {"vectorize": width}
        plan.write_text(json.dumps({**names, **given}), "utf-8")
        try:
            made = kernels(example, arch, plan, base)
        except PolycError as error:
            assert error.kind in ("BadPlan", "UnsupportedPlan", "ResourceExceeded")
            assert error.place is not None and error.place.file == str(plan)
            assert field not in RESTATED or field == "cache" or f"says {field} " in error.message
        else:
            assert made != own(example, arch, variant), f"{field} = {other} does nothing"
            assert field not in RESTATED or field == "cache", f"{field} = {other} is believed"


@pytest.mark.turns(3)
@pytest.mark.parametrize("field", RESTATED)
@pytest.mark.parametrize(("example", "arch", "variant"), PLANS)
def test_a_schedule_in_the_text_is_asked_too(
    example: str, arch: str, variant: str, field: str
) -> None:
    """No pass believes what a schedule says of its region; not even where it says nothing."""
    module = planned(example, arch).clone()
    plan = schedule(module, variant)
    variant = plan.variant.data
    if plan.pattern != "rows":  # Of a region that is expanded for all schedules they say anew.
        leave_only(module, variant)
    if not plan.fields()[field] or (plan.pattern, field) == ("loops", "cache"):
        return
    emptied = {**plan.fields(), field: type(plan.fields()[field])()}
    empty = ScheduleOp(plan.region, variant, emptied, plan.when.data)
    plan.properties[field] = empty.properties[field]
    error = refusal(printed(module), "region-expand-together", "region-to-gpu")
    assert error.kind == "BadPlan" and f"plan {variant!r} says {field} " in error.message


@pytest.mark.parametrize(("example", "arch"), sorted({plan[:2] for plan in PLANS}))
def test_what_the_compiler_says_holds(example: str, arch: str) -> None:
    """No field of any variant says otherwise than the region and its other fields do."""
    module = planned(example, arch)
    regions = {op.sym_name.data: op for op in find(module, KernelOp)}
    for plan in find(module, ScheduleOp):
        assert plan.pattern is not None
        BY_NAME[plan.pattern].check(regions[plan.region.string_value()], plan)
