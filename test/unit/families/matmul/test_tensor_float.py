"""Products of f32 on tensor cores, as TF32, where their precision permits it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.utils.exceptions import VerifyException

from polyc.cost.time import chosen, modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.dialects.plan.k_major import rows
from polyc.dialects.region import KernelOp
from polyc.families.matmul.schedules import GEMM
from polyc.families.ranking import Form
from polyc.families.space import OWN, TAKING
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.passes.support.plan.given import user_schedule
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, regions
from polyc.test.support.gpu_text import find, only, printed
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import leave_only, run
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

LAYOUTS: tuple[tuple[str, ...], ...] = (
    (),
    ("transpose_a",),
    ("transpose_b",),
    ("transpose_a", "transpose_b"),
)
WHOLE = ["K mod 4 == 0", "M mod 4 == 0", "N mod 4 == 0", "K >= 1"]


def text(
    precision: str | None,
    flags: Sequence[str] = (),
    batch: Sequence[str] = (),
    sizes: Sequence[str | int] = ("M", "N", "K"),
) -> str:
    m, n, k = sizes
    a = (k, m) if "transpose_a" in flags else (m, k)
    b = (n, k) if "transpose_b" in flags else (k, n)
    more = () if precision is None else (f'precision = "{precision}"',)
    product = Product((*batch, *a), (*batch, *b), (*batch, m, n), (*flags, *more))
    return product.text.replace("f16", "f32")


def schedules(graph: str, arch: str = "sm_90a") -> list[ScheduleOp]:
    return GEMM.schedules(only(regions(graph), KernelOp), arch)


def kinds(found: Sequence[ScheduleOp]) -> set[tuple[str, str]]:
    return {(plan.tensor_float or "exact", plan.loader.data) for plan in found}


@pytest.mark.parametrize("flags", LAYOUTS)
def test_one_operand_that_lies_along_k_is_enough(flags: tuple[str, ...]) -> None:
    """The other one comes to registers; else, and where rows begin anywhere, it is copied."""
    exact = ("exact", "cp_async")
    lying = flags != ("transpose_a",)
    found = schedules(text("tf32", flags))
    copied = {("tf32", "padded"), exact}
    assert kinds(found) == copied | ({("tf32", "tma")} if lying else set())
    assert kinds(schedules(text("f32x3", flags))) == {("f32x3", "padded"), exact}
    # Of known sizes there is one.
    first = schedules(text("tf32", flags, sizes=(4096, 4096, 4096)))[0]
    assert (first.loader.data == "tma") == lying


@pytest.mark.parametrize("flags", [("transpose_b",), ()], ids=str)
def test_rows_that_are_no_vectors_are_stored_singly(flags: tuple[str, ...]) -> None:
    """Of known sizes, where the copy engine takes both operands: nothing is copied first."""
    m, n, k = 133, (69 if flags else 72), 64
    sizes = {"M": m, "N": n, "K": k}
    module = parse_text(make_context(), text("tf32", flags, sizes=(m, n, k)), "t.mlir")
    kernels = gpu_module_of(run(module, "gpu"))
    (name,) = [kernel.sym_name.data for kernel in kernels.kernels()]
    assert ("tf32_any" in name) == bool(flags) and "copied" not in name
    inputs = operands(flags, sizes)
    found = simulate(kernels, inputs, {}, schedule="random")
    found.check()
    assert off(found.outputs[0], flags, inputs) < 2.0**-9


def test_others_are_exact() -> None:
    for graph, arch in (
        (text(None), "sm_90a"),
        (text("f32"), "sm_90a"),
        (text("tf32"), "sm_80"),
        (text("f32x3"), "sm_80"),
    ):
        assert kinds(schedules(graph, arch)) == {("exact", "cp_async")}


@pytest.mark.parametrize(
    ("precision", "flags", "sizes", "way"),
    [
        ("tf32", (), (4096, 4096, 4096), "tf32"),
        ("f32x3", (), (4096, 4096, 4096), "f32x3"),
        ("tf32", (), (4095, 4095, 4095), "tf32"),
        ("tf32", ("transpose_a",), (64, 64, 64), None),
        ("tf32", (), (64, 64, 64), "tf32"),
        ("f32x3", (), (512, 512, 64), None),
        ("tf32", ("transpose_b",), (64, 64, 64), "tf32"),
    ],
)
def test_copies_are_made_where_they_pay(
    precision: str, flags: tuple[str, ...], sizes: tuple[int, int, int], way: str | None
) -> None:
    graph, known = text(precision, flags), dict(zip("MNK", sizes, strict=True))
    kernel = only(regions(graph), KernelOp)
    found = GEMM.schedules(kernel, "sm_90a")
    plan = chosen(found, known)
    assert plan is not None and plan.tensor_float == way
    if way is not None and sizes[0] > 1024:
        exact = next(p for p in found if p.variant.data == "fma_any")
        mine, theirs = (modelled(kernel, one, known).seconds for one in (plan, exact))
        assert mine < theirs / (6 if way == "tf32" else 2)


def lowered(
    graph: str, variant: str, when: Sequence[str], folder: Path
) -> tuple[KernelOp, ScheduleOp, gpu.ModuleOp]:
    """A product's kernels of one variant, whatever the model of time says of it, and its plan."""
    ctx, module = make_context(), regions(graph)
    build("region-merge-axes", "").apply(ctx, module)
    kernel = only(module, KernelOp)
    plan = next(p for p in GEMM.schedules(kernel, "sm_90a") if p.variant.data == variant)
    file = folder / "plan.json"
    file.write_text(json.dumps({**plan.fields(), "variant": variant, "when": when}))
    build("plan-select", "sm_90a", str(file)).apply(ctx, module)
    leave_only(module, variant)
    (plan,) = find(module, ScheduleOp)
    planned = module.clone()
    build("region-to-gpu", "sm_90a").apply(ctx, module)
    kernels = (only(planned, KernelOp), only(planned, ScheduleOp))
    return (*kernels, gpu_module_of(module))


def test_rows_of_copies_are_whole_lines() -> None:
    assert [rows(Dim.const(k)) for k in (1, 32, 33)] == [Dim.const(k) for k in (32, 32, 64)]


def operands(flags: Sequence[str], sizes: dict[str, int], batch: tuple[int, ...] = ()) -> list[Any]:
    rng = np.random.default_rng(sum(sizes.values()))
    a = ("K", "M") if "transpose_a" in flags else ("M", "K")
    b = ("N", "K") if "transpose_b" in flags else ("K", "N")
    shapes = ((*batch, *(sizes[x] for x in shape)) for shape in (a, b))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def off(found: Any, flags: Sequence[str], inputs: Sequence[Any]) -> float:
    """By how much of the sum of their sizes sums of products are off at most."""
    a, b = (x.astype(np.float64) for x in inputs)
    a = np.swapaxes(a, -1, -2) if "transpose_a" in flags else a
    b = np.swapaxes(b, -1, -2) if "transpose_b" in flags else b
    return float((np.abs(np.asarray(found) - a @ b) / (np.abs(a) @ np.abs(b))).max())


ODD, EVEN = {"M": 65, "K": 37, "N": 35}, {"M": 72, "K": 36, "N": 68}
DEEP = {"M": 68, "K": 420, "N": 72}

CASES: list[tuple[str, tuple[str, ...], str, dict[str, int], tuple[int, ...]]] = [
    ("tf32", ("transpose_b",), "tf32_64x32_once_by2", EVEN, ()),
    ("tf32", (), "tf32_64x32_once_by2", EVEN, ()),
    ("tf32", ("transpose_a", "transpose_b"), "tf32_128x128", EVEN, ()),
    ("tf32", ("transpose_a",), "tf32_copied_64x32_once_by2", EVEN, (2,)),
    ("tf32", ("transpose_a",), "tf32_copied_any_64x32_split4", ODD, ()),
    ("f32x3", (), "f32x3_copied_any_64x32_once_by2", ODD, ()),
    ("f32x3", ("transpose_a", "transpose_b"), "f32x3_copied_64x64_split2", EVEN, ()),
    ("f32x3", (), "f32x3_copied_128x128", EVEN, ()),
    ("tf32", ("transpose_b",), "tf32_64x64_parts32_by3", DEEP, ()),
    ("tf32", (), "tf32_64x64_parts3_by2", DEEP, (2,)),
    ("f32x3", (), "f32x3_copied_64x192_parts4", DEEP, ()),
]


@pytest.mark.turns(2)
@pytest.mark.parametrize(("precision", "flags", "variant", "sizes", "batch"), CASES)
def test_tails_and_races(
    tmp_path: Path,
    precision: str,
    flags: tuple[str, ...],
    variant: str,
    sizes: dict[str, int],
    batch: tuple[int, ...],
) -> None:
    """Each layout, copied or not; the figures that a plan expects are those that are counted."""
    axes = "BCD"[: len(batch)]
    when = ["K >= 1"] if "any" in variant else WHOLE
    kernel, plan, kernels = lowered(text(precision, flags, axes), variant, when, tmp_path)
    inputs = operands(flags, sizes, batch)
    known = {**sizes, **dict(zip(axes, batch, strict=True))}
    bound = 2.0**-9 if precision == "tf32" else 2.0**-20
    played = tile.run(kernels, inputs, known)[0]
    found = simulate(finished(kernels), inputs, known, schedule="random")
    found.check()
    assert off(played, flags, inputs) < bound and off(found.outputs[0], flags, inputs) < bound
    if "parts" in variant:
        again = simulate(finished(kernels), inputs, known, schedule="random", seed=7)
        assert np.array_equal(again.outputs[0], found.outputs[0])
    elif "split" not in variant:
        expected = estimate(kernel, plan, known, MULTIPROCESSORS).as_dict()
        counted = {name: getattr(found.counters, name) for name in expected}
        if plan.loader.data == "tma" and flags != ("transpose_b",):
            # Two k of a warp's four are in the same banks.
            expected["bank_conflicts"] += expected["shared_read_bytes"] // 128
        assert counted == expected


@pytest.mark.parametrize("k", [32, 64, 96])
def test_steps_of_a_known_number(k: int) -> None:
    """One, two and three, by two buffers of registers in turns."""
    sizes = {"M": 70, "K": k, "N": 36}
    module = parse_text(make_context(), text("tf32", sizes=(70, 36, k)), "t.mlir")
    kernels = gpu_module_of(run(module, "gpu"))
    inputs = operands((), sizes)
    found = simulate(kernels, inputs, {}, schedule="random")
    found.check()
    assert off(found.outputs[0], (), inputs) < 2.0**-9


@pytest.fixture(scope="module")
def column(tmp_path_factory: pytest.TempPathFactory) -> gpu.ModuleOp:
    folder = tmp_path_factory.mktemp("column")
    return lowered(text("f32x3"), "f32x3_copied_any_64x32_once_by2", ["K >= 1"], folder)[2]


NORMAL = st.floats(2.0**-80, 2.0**126, width=32)


@given(values=st.lists(st.one_of(NORMAL, NORMAL.map(lambda x: -x)), min_size=64, max_size=64))
def test_two_parts_have_all_of_a_number_but_its_last_places(
    column: gpu.ModuleOp, values: list[float]
) -> None:
    """A factor of 1 has no low part, so that a product with it is the sum of the other's parts."""
    a, one = np.asarray(values, np.float32)[:, None], np.ones((1, 32), np.float32)
    found = np.asarray(tile.run(column, [a, one], {"M": 64, "K": 1, "N": 32})[0])
    assert (np.abs(found - a.astype(np.float64)) <= 2.0**-22 * np.abs(a)).all()


def test_infinities_stay_what_they_are_or_are_not_known(
    tmp_path: Path, column: gpu.ModuleOp
) -> None:
    a = np.asarray([[np.inf], [-np.inf], [np.nan], [3.4e38], [1.0]], np.float32)
    one = np.ones((1, 4), np.float32)
    known = {"M": 5, "K": 1, "N": 4}
    kernels = lowered(text("tf32"), "tf32_64x32_once_by2", [WHOLE[0], *WHOLE[2:]], tmp_path)[2]
    four = [np.tile(a, 4), np.ones((4, 4), np.float32)]
    lone = np.asarray(tile.run(kernels, four, {**known, "K": 4})[0])
    assert lone[:2, 0].tolist() == [np.inf, -np.inf] and np.isnan(lone[2]).all()
    found = np.asarray(tile.run(column, [a, one], known)[0])
    assert not np.isfinite(found[:3]).any() and np.isfinite(found[3:]).all()


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("precision", "flags", "variant"),
    [
        ("tf32", (), "tf32_128x256"),
        ("tf32", ("transpose_a",), "tf32_copied_any_128x128"),
        ("tf32", ("transpose_b",), "tf32_128x192_once"),
        ("f32x3", (), "f32x3_copied_128x256"),
        ("tf32", (), "tf32_64x64_parts32_by3"),
        ("f32x3", (), "f32x3_copied_64x192_parts4"),
    ],
)
def test_nothing_spills(precision: str, flags: tuple[str, ...], variant: str) -> None:
    module = parse_text(make_context(), text(precision, flags), "t.mlir")
    found = gpu_module_of(run(module, "gpu", variant=variant))
    for result in nvrtc.compile_each(list(cuda_units(found)), "sm_90a"):
        assert {info.spill_bytes for info in result.kernels.values()} == {0}


def test_copies_of_a_known_count_spill_nothing_beside_held_rows() -> None:
    """Of 16 steps the places of all would be kept, where threads hold rows that lie across k."""
    module = parse_text(
        make_context(),
        text("tf32", ("transpose_a", "transpose_b"), ("32",), (900, 512, 512)),
        "t.mlir",
    )
    kernels = gpu_module_of(run(module, "gpu"))
    (name,) = [kernel.sym_name.data for kernel in kernels.kernels()]
    assert name.startswith("g_tf32_192x128")
    for result in nvrtc.compile_each(list(cuda_units(kernels)), "sm_90a"):
        assert {info.spill_bytes for info in result.kernels.values()} == {0}


def test_blocks_of_one_tile_have_registers_for_rows_that_threads_bring() -> None:
    names = [
        {plan.named("tf32") for plan in Form(sums=False, own=own).space("sm_90a")}
        for own in (OWN, TAKING)
    ]
    assert names[0] - names[1] >= {"tf32_128x256_once", "tf32_192x192_once", "tf32_256x128_once"}
    assert names[1] >= {"tf32_128x256", "tf32_192x160_once", "tf32_128x224_once"}


BESIDE = text("tf32", ("transpose_a",))
COPIED = schedules(BESIDE)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"mma": "mma.sync", "consumers": 1, "registers": [], "warp_tile": [64, 64]},
            "one of wgmma",
        ),
        ({"tile": [128, 256, 36]}, "BK is 36; a wgmma step takes a multiple of 8"),
        ({"algo_choice": {"matmul": "f32x3"}, "loader": "tma"}, "whose parts are copied"),
        ({"vectorize": 8}, "vectorize is 8 elements, 32 bytes"),
    ],
)
def test_a_plan_of_tf32_that_is_refused(changes: dict[str, Any], sentence: str) -> None:
    first = next(p for p in COPIED if p.variant.data == "tf32_copied_128x256")
    with pytest.raises(VerifyException) as caught:
        ScheduleOp(first.region, "own", {**first.fields(), **changes}).verify_()
    assert sentence in str(caught.value)


def test_a_user_gives_the_number_of_parts_alone() -> None:
    """Clusters share out what they can, and other parts are added by a second kernel."""
    first = next(p for p in COPIED if p.variant.data == "tf32_copied_128x128")
    alone: dict[str, Any] = {"persistent": False, "registers": []}

    def way(parts: int, base: ScheduleOp = first) -> tuple[str, bool]:
        found = user_schedule(base, {**alone, "stages": 3, "split_k": parts})
        return str(record_of(found.algo_choice)["matmul"]), found.stores_sums

    assert (way(2), way(5)) == (("tf32", False), ("tf32_partial_sums", True))
    five = user_schedule(first, {**alone, "stages": 3, "split_k": 5})
    assert (five.tensor_float, way(1, five)) == ("tf32", ("tf32", False))
    one = ScheduleOp(first.region, "own", {**five.fields(), "split_k": 1})
    with pytest.raises(PolycError, match='adds sums of parts, and there is 1; use "tf32"'):
        GEMM.check(only(regions(BESIDE), KernelOp), one)


def test_deep_sums_of_few_tiles_are_parted() -> None:
    """Each multiprocessor has a block, and no two parts are more than a step apart."""
    for precision, flags in (("tf32", ()), ("tf32", ("transpose_b",)), ("f32x3", ())):
        plan = schedules(text(precision, flags, sizes=(256, 256, 65536)))[0]
        assert plan.stores_sums and plan.tensor_float == precision
        rows, columns, _ = plan.tile_sizes
        tiles = -(-256 // rows) * -(-256 // columns)
        assert 120 <= tiles * plan.integer("split_k") <= 264


def both_ways() -> ModuleOp:
    """A product of a tensor by itself, which is both operands."""
    s = Sketch("own", f32)
    x = s.input("x", "M", "M")
    return s.done(y=s.gemm(x, x))


@pytest.mark.parametrize(
    ("graph", "changes", "sentence"),
    [
        (
            text(None),
            {},
            "is not permitted by a product of f32 of precision nothing; use no such way",
        ),
        (
            text("f32x3"),
            {},
            'is not permitted by a product of f32 of precision "f32x3"; use "f32x3"',
        ),
        (text("tf32").replace("f32>", "f16>").replace(', precision = "tf32"', ""), {}, "of f16"),
        (BESIDE, {"loader": "tma"}, "takes one operand along k at least"),
    ],
)
def test_a_product_refuses_a_way_that_is_not_its_own(
    graph: str, changes: dict[str, Any], sentence: str
) -> None:
    first = next(p for p in COPIED if p.variant.data == "tf32_copied_128x256")
    plan = ScheduleOp(first.region, "own", {**first.fields(), **changes})
    with pytest.raises(PolycError) as caught:
        GEMM.check(only(regions(graph), KernelOp), plan)
    assert sentence in str(caught.value)


SQUARE = """frontend.graph @g(%y: !frontend.tensor<[K, M], f32>) -> (c: !frontend.tensor<[M, M], f32>) {
  %0 = frontend.gemm %y, %y {acc = f32, transpose_a, precision = "tf32"} : (!frontend.tensor<[K, M], f32>, !frontend.tensor<[K, M], f32>) -> !frontend.tensor<[M, M], f32>
  frontend.output %0 : !frontend.tensor<[M, M], f32>
}
"""  # noqa: E501


def test_a_tensor_times_itself_is_copied_once(tmp_path: Path) -> None:
    """Both operands lie across k, in one tensor: of TF32 one copy is both."""
    variant, sizes = "tf32_copied_any_64x32_once_by2", {"M": 70, "K": 37}
    kernel, plan, kernels = lowered(SQUARE, variant, ["K >= 1"], tmp_path)
    y = np.random.default_rng(2).standard_normal((37, 70)).astype(np.float32)
    found = simulate(finished(kernels), [y], sizes, schedule="random")
    found.check()
    assert len(kernels.kernels()) == 2 and off(found.outputs[0], ("transpose_a",), [y, y]) < 2**-9
    expected = estimate(kernel, plan, sizes, MULTIPROCESSORS).as_dict()
    for name in ("ctas", "global_write_bytes"):
        assert getattr(found.counters, name) == expected[name], name
    large = schedules(SQUARE.replace("K,", "8192,").replace("M", "512"))
    assert large[0].tensor_float == "tf32"
    three = schedules(SQUARE.replace("tf32", "f32x3"))
    assert kinds(three) == {("exact", "cp_async")}


def test_an_operand_that_is_read_twice_is_not_copied() -> None:
    module = run(both_ways(), "region")
    for op in module.walk():
        assert op.name != "plan.schedule"
    text_of = str(module).replace('name "acc"', 'name "acc" precision f32x3')
    kernel = only(parse_text(make_context(), text_of, "t.mlir"), KernelOp)
    assert kinds(GEMM.schedules(kernel, "sm_90a")) == {("exact", "cp_async")}


@pytest.mark.parametrize(
    ("flags", "variant"),
    [(("transpose_b",), "tf32_64x32_once_by2"), ((), "tf32_64x32_once_by2")],
    ids=["both along k", "one held in registers"],
)
def test_operands_are_rounded_on_their_way(
    tmp_path: Path, flags: tuple[str, ...], variant: str
) -> None:
    """Sums of positive numbers are off by no more than roundings that cancel: cut off, each factor
    is too small by 2**-12 of it in the mean, and the sums by twice that."""
    _, _, kernels = lowered(text("tf32", flags), variant, WHOLE, tmp_path)
    rng = np.random.default_rng(7)
    sizes = {"M": 64, "N": 32, "K": 256}
    shapes = [(64, 256), (32, 256) if flags else (256, 32)]
    a, b = (rng.uniform(0.5, 1.0, shape).astype(np.float32) for shape in shapes)
    found = simulate(finished(kernels), [a, b], sizes)
    found.check()
    right = a.astype(np.float64) @ (b.T if flags else b).astype(np.float64)
    bias = float(np.mean(found.outputs[0] / right - 1))
    assert abs(bias) < 2.0**-15


def test_maps_say_what_they_round(tmp_path: Path) -> None:
    """Both operands of a product, and nothing that threads multiply exactly."""
    _, _, kernels = lowered(text("tf32", ("transpose_b",)), "tf32_64x32_once_by2", WHOLE, tmp_path)
    assert printed(finished(kernels)).count(", tf32> = tensor_map") == 2
    s = Sketch("exact", f32)
    module = s.done(y=s.gemm(s.input("x", 128, 256), s.input("w", 256, 128)))
    assert ", tf32>" not in printed(finished(gpu_module_of(run(module, "tiles"))))
