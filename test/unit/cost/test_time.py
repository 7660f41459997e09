"""The model of time: what each part of it is, and how near it is to what was measured."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i64
from xdsl.ir import Attribute

from polyc.bench.modelled import RESULTS, measured, measured_kernels, modelled_times
from polyc.cost.device import DEVICES, H100, H200
from polyc.cost.time import Time, chosen, modelled, times_of
from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import AttentionOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import fitted
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import schedule_fields
from polyc.families.matmul.variants import MatmulVariant
from polyc.families.space import space
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse
from polyc.passes.pipeline import STAGES, build
from polyc.test.fuzz import random_models, random_programs
from polyc.test.support.attention_forms import FORMS
from polyc.test.support.model_programs import MODELS
from polyc.test.support.queries import fused, stored
from polyc.test.support.root import ROOT
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def planned(module: ModuleOp, arch: str = "sm_90a", fuse: Fuse = "cost") -> ModuleOp:
    """A graph with its regions and schedules."""
    ctx = make_context()
    for stage, names in STAGES.items():
        for name in names:
            mine = IndexToRegion(fuse) if name == "index-to-region" else None
            run_pass(ctx, mine or build(name, arch), module)
        if stage == "plan":
            return module
    raise AssertionError("there is a stage of plans")


def product(m: Size, k: Size, n: Size, element: Attribute = f16) -> ModuleOp:
    s = Sketch("product", element)
    return s.done(y=s.linear(s.input("x", m, k), "w", n))


def only_kernel(module: ModuleOp) -> KernelOp:
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    return kernel


def the_time(
    module: ModuleOp, sizes: Mapping[str, int] | None = None, arch: str = "sm_90a"
) -> Time:
    (time,) = times_of(planned(module, arch), sizes or {})
    return time


def total(module: ModuleOp, sizes: Mapping[str, int] | None = None) -> float:
    """The seconds of all kernels of a module with its plans."""
    return sum(t.seconds for t in times_of(module, sizes or {}))


# Tensor cores --------------------------------------------------------------------------


def test_a_large_product_is_bound_by_tensor_cores() -> None:
    time = the_time(product(4096, 4096, 4096))
    assert time.bound == "tensor cores"
    # The data sheet's rate is never reached, and 3/5 of it is.
    assert 2 * 4096**3 / 989e12 < time.seconds < 2 * 4096**3 / 600e12
    twice = the_time(product(8192, 4096, 4096))
    assert 1.9 < (twice.seconds - twice.launch) / (time.seconds - time.launch) < 2.1


def tiled(m: int, k: int, n: int, rows: int, columns: int, parts: int = 1) -> Time:
    """The time of a product under a plan of a block a tile, or of a cluster."""
    kernel = only_kernel(planned(product(m, k, n)))
    gemm = find_contraction(kernel)
    plan = next(
        p
        for p in space("sm_90a")
        if (p.rows, p.columns, p.parts) == (rows, columns, parts) and not p.summed
    )
    variant = MatmulVariant(plan.name, 8, plan.fields())
    fields = schedule_fields(gemm, "sm_90a", variant)
    return modelled(kernel, fitted(kernel.sym_name.data, plan.name, fields, ()), {})


def test_a_few_blocks_use_a_part_of_the_chip() -> None:
    """64 tiles of 64 rows: 64 SMs work, and time does not fall with fewer."""
    time = tiled(4096, 512, 128, 64, 128)
    assert time.waves == pytest.approx(64 / 132)
    fewer = tiled(1024, 512, 128, 64, 128)
    assert fewer.tensor == pytest.approx(time.tensor)
    whole = 2 * 4096 * 512 * 128
    assert time.tensor == pytest.approx(whole / (H200.tensor_peak * 64 / 132))


def test_clusters_that_split_k_use_more_of_the_chip() -> None:
    """32 tiles of 128 rows and 64 columns, each of two SMs, which bring their sums together."""
    time = tiled(4096, 4096, 64, 128, 64, 2)
    assert time.waves == pytest.approx(64 / 132)
    whole = 2 * 4096 * 4096 * 64
    assert time.tensor == pytest.approx(whole / min(H200.tensor_flops, H200.tensor_peak * 64 / 132))
    sums = 2 * 4096 * 64 * 4 / (H200.exchange * 64 / 132)
    assert time.after == pytest.approx(H200.fill + sums + 2 * H200.latency)
    # One step more than parts of equal length is one more for the longest part.
    longer = tiled(4096, 4096 + 8, 64, 128, 64, 2)
    assert longer.tensor == pytest.approx(time.tensor * (4104 / 4096) * (2 * 33 / 65))


def test_the_end_of_a_split_waits_for_no_rows_that_are_not_there() -> None:
    few, many = (tiled(m, 4096, 4096, 64, 128, 2) for m in (1, 16))
    assert many.after - few.after == pytest.approx(2 * 15 * 4096 * 4 / (H200.exchange * 64 / 132))


def test_one_tile_more_than_a_wave_is_a_wave_more() -> None:
    one, two = (tiled(128 * n, 4096, 256, 128, 256) for n in (132, 133))
    assert one.waves == 1.0
    assert two.waves == pytest.approx(133 / 264)
    assert two.tensor > 1.4 * one.tensor


def test_products_that_share_rows_bring_them_once() -> None:
    time = the_time(MODELS["swiglu_two"].module(large=True), {"T": 4096})
    tiles = (4096 // 128) * (14336 // 128)
    out = 4096 * 14336 * 2
    assert time.cache * H200.cache == pytest.approx(tiles * (128 + 2 * 128) * 4096 * 2 + out)


def test_a_row_of_tokens_is_bound_by_the_weights() -> None:
    time = the_time(product(1, 4096, 14336))
    assert time.bound == "memory"
    assert time.memory >= 4096 * 14336 * 2 / H200.memory


def attention(
    depth: int, width: int, causal: bool = False, masks: Sequence[Sequence[Size]] = ()
) -> ModuleOp:
    """Attention of 16 heads of so many features, those of V ``width``."""
    s = Sketch("attention")
    q, k, v = (s.input(n, 16, "T", f) for n, f in zip("qkv", (depth, depth, width), strict=True))
    more = [s.input(f"mask{i}", *shape, element=f32) for i, shape in enumerate(masks)]
    return s.done(y=s.add(AttentionOp(q, k, v, more, causal=causal)))


def test_heads_take_the_tensor_cores_as_long_as_their_tiles_do() -> None:
    """Of what fills a tile of 64 for a head of 40 nothing is brought from memory."""
    for heads, tiles in (((40, 40), (64, 64)), ((72, 40), (128, 64)), ((40, 248), (64, 256))):
        padded, whole = (the_time(attention(*sizes), {"T": 8192}) for sizes in (heads, tiles))
        assert padded.tensor == pytest.approx(whole.tensor)
        share = sum(heads) / sum(tiles)
        assert padded.memory == pytest.approx(share * whole.memory)
        assert padded.cache == pytest.approx(share * whole.cache)


def test_a_mask_of_keys_leaves_half_of_the_work() -> None:
    full, half = (the_time(attention(128, 128, c), {"T": 8192}) for c in (False, True))
    assert 0.5 <= half.tensor / full.tensor < 0.55
    assert half.threads < 0.75 * full.threads
    assert half.memory == full.memory


def test_a_mask_that_is_data_brings_the_values_no_more_often() -> None:
    """Where it forbids a key, the value is multiplied by 0; it is not another one a query."""
    for causal in (False, True):
        keys, both = (
            the_time(attention(128, 128, causal, [shape]), {"T": 8192})
            for shape in ((1, "T"), ("T", "T"))
        )
        assert both.threads < 1.5 * keys.threads  # a load of each score more
        # The mask itself, an f32 for each score.
        scores = 16 * 8192 * 8192 * 4 * (0.52 if causal else 1)
        assert both.cache < keys.cache + 1.1 * scores / H200.cache


def test_queries_that_are_computed_are_made_once_a_tile() -> None:
    """Beside nothing, at what their bytes and instructions take; by lanes that read apart, more."""
    sizes = {"T": 4096}

    def of(name: str) -> Time:
        with fused():
            *_, last = times_of(planned(FORMS[name].module()), sizes, H200)
        return last

    with stored():
        *before, plain = times_of(planned(FORMS["rope_halves"].module()), sizes, H200)
    halves, pairs = of("rope_halves"), of("rope_pairs")
    turns = -(-32 * 32 // 132)
    tile = 128 * 128
    each = H200.near + 3 * 2 * tile * 132 / H200.cache
    assert halves.seconds - plain.seconds > turns * each
    assert halves.seconds < plain.seconds + before[0].seconds
    assert pairs.seconds > plain.seconds + before[0].seconds
    assert len(times_of(planned(FORMS["rope_halves"].module()), sizes, H200)) == 2
    assert len(times_of(planned(FORMS["rope_pairs"].module()), sizes, H200)) == 3


def test_the_first_variant_whose_conditions_hold_is_taken() -> None:
    module = planned(product("M", "K", 512))
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    plans = [op for op in module.walk() if isinstance(op, ScheduleOp)]
    by_name: dict[str, Time] = {}
    every = [4096, 4098, 2, 1]
    for sizes in ({"M": 4096 if k > 2 else 64, "K": k} for k in every):
        plan = chosen(plans, sizes)
        assert plan is not None
        by_name[plan.variant.data] = modelled(kernel, plan, sizes)
    first, *others = by_name
    assert first.startswith("tma") and others == ["padded", "cp_async", "scalar"]
    assert by_name["padded"].seconds > by_name[first].seconds
    never = ScheduleOp.from_json({**plans[0].to_json(), "when": ["M - 5000 >= 0"]})
    assert chosen([never], {"M": 4096, "K": 1}) is None


def test_an_output_of_nothing_takes_no_time() -> None:
    time = the_time(product("M", 64, 64), {"M": 0})
    assert time.seconds == 0.0


def test_every_architecture_has_a_device() -> None:
    times = {arch: the_time(product(4096, 4096, 4096), arch=arch).seconds for arch in DEVICES}
    assert times["sm_80"] > 2 * times["sm_90a"]


# Threads -------------------------------------------------------------------------------


def test_threads_pay_for_each_multiply_add() -> None:
    """In tiles of f32, and in loops, which load what they multiply for each of them."""
    fast = the_time(product(1024, 1024, 1024))
    tiles = the_time(product(1024, 1024, 1024, f32))
    text = (ROOT / "examples" / "product_mixed.mlir").read_text("utf-8")
    loops = the_time(parse_text(make_context(), text, "m.mlir"), dict.fromkeys("MNK", 1024))
    for one in (tiles, loops):
        assert one.tensor == 0.0 and one.bound == "arithmetic"
        # An FMA of each at the data sheet's rate.
        assert one.seconds > 2 * 1024**3 / 60e12
    assert loops.seconds > 5 * tiles.seconds > 20 * fast.seconds


def test_a_block_that_has_all_of_a_reduction_waits_for_its_loads() -> None:
    """The maximum of a whole matrix: one block goes through it, and the chip stands still.

    Where blocks share it, and a second kernel combines their parts, it takes what memory takes.
    """
    s = Sketch("shifted")
    x = s.input("x", 4096, 4096)
    module = planned(s.done(y=s.fn("sub", x, s.reduce("max", x, 0, 1, keep=True))))
    shared, second = times_of(module, {})
    assert shared.bound == "memory" and shared.seconds < second.seconds
    plan = next(op for op in module.walk() if isinstance(op, ScheduleOp))
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    fields = plan.fields()
    fields |= {"split_k": 1, "algo_choice": {"loops": "serial"}, "vectorize": 1}
    fields |= {"tile": [1, 1024, 1], "warp_tile": [1, 128]}
    one = ScheduleOp(plan.region, "one", fields, ())
    first = modelled(kernel, one, {})
    assert first.waves == pytest.approx(1 / 132) and first.bound == "arithmetic"
    assert first.seconds > 100 * second.seconds
    assert first.waiting == pytest.approx(4096 * 4096 / 1024 * H200.latency)


def test_a_block_walks_an_axis_by_the_rows_of_its_tile() -> None:
    """Columns without their mean: a block goes through its rows twice, eight or more at a step.

    What is added tells the two axes of the columns apart.
    """
    s = Sketch("centred")
    x, b = s.input("x", 4096, 2, 2048), s.input("b", 2048)
    far = s.fn("sub", x, s.reduce("mean", x, 0, keep=True))
    module = planned(s.done(y=s.fn("add", far, b)), fuse="legal")
    (time,) = times_of(module, {})
    (plan,) = (op for op in module.walk() if isinstance(op, ScheduleOp))
    rows, columns, _ = plan.tile_sizes
    assert rows > 1 and time.waves == pytest.approx(4096 / columns / 132)
    assert time.waiting == pytest.approx(2 * 4096 / rows * H200.latency)


def test_what_is_computed_again_in_each_step_shows() -> None:
    """Fused, the mean of an image is summed again in each step of the norm of all channels."""

    def pooled() -> ModuleOp:
        s = Sketch("pooled")
        x = s.reduce("mean", s.input("x", 32, 56, 56, 256), 1, 2)
        return s.done(y=s.layer_norm(x, "norm"))

    (fused,) = times_of(planned(pooled(), fuse="legal"), {})
    apart = times_of(planned(pooled(), fuse="none"), {})
    assert fused.threads > 20 * sum(t.threads for t in apart)
    assert fused.seconds > 20 * sum(t.seconds for t in apart)
    # The mean once for each channel, and in both steps over the 256 of each of two sums.
    assert fused.waiting == pytest.approx(56 * 56 * (1 + 2 + 2) * H200.near, rel=0.01)


def test_a_product_in_the_steps_of_another_shows() -> None:
    """Fused, a squeeze-excite block sums the image in the steps of a product."""
    model = MODELS["squeeze_excite"]
    apart = total(planned(model.module(large=True)), model.large_sizes)
    fused = total(planned(model.module(large=True), fuse="legal"), model.large_sizes)
    assert fused > 4 * apart


def test_elementwise_work_is_bound_by_memory() -> None:
    s = Sketch("add")
    x, y = s.input("x", 8192, 4096), s.input("y", 8192, 4096)
    time = the_time(s.done(z=s.fn("add", x, y)))
    assert time.bound == "memory"
    assert time.memory == pytest.approx(3 * 8192 * 4096 * 2 / H200.memory)


def test_functions_of_several_instructions_take_longer() -> None:
    def one(name: str) -> float:
        s = Sketch("one")
        return the_time(s.done(z=s.fn(name, s.input("x", 8192, 4096)))).threads

    assert one("gelu") > one("silu") > one("relu")


def test_a_transposition_goes_through_shared_memory() -> None:
    """In tiles of two axes, or in boxes where one of them has few points."""

    def moved(inner: int, *order: int) -> float:
        s = Sketch("moved")
        y = s.permute(s.input("x", 64, (1 << 20) // inner, inner), *order)
        return the_time(s.done(z=s.fn("relu", y))).threads

    straight, turned, boxes = moved(1024, 1, 0, 2), moved(1024, 0, 2, 1), moved(2, 0, 2, 1)
    assert 1.2 * straight < turned
    assert straight < boxes < 1.2 * turned


def test_a_row_that_is_kept_is_read_once_and_a_longer_one_again() -> None:
    def rows(length: int) -> Time:
        s = Sketch("rows")
        return the_time(s.done(y=s.softmax(s.input("x", (1 << 28) // length, length))))

    short, kept, long = rows(4096), rows(1 << 16), rows(1 << 24)
    assert short.memory == kept.memory < long.memory
    assert short.cache == kept.cache
    assert long.cache > 1.4 * short.cache


def test_a_long_row_is_walked_once_for_each_sum_that_needs_another() -> None:
    """LayerNorm's mean, variance and output are three walks, RMSNorm's and softmax's two each."""

    def walks(name: str) -> float:
        s = Sketch("rows")
        x = s.input("x", 64, 1 << 24)
        y = s.softmax(x) if name == "softmax" else getattr(s, name)(x, "norm")
        return the_time(s.done(y=y)).cache * H200.cache / (64 * (1 << 24) * 2)

    assert walks("layer_norm") > walks("rms_norm") + 0.9
    assert walks("softmax") == pytest.approx(walks("rms_norm"), abs=0.05)


def test_rows_that_are_stored_apart_take_longer() -> None:
    """Each element is a store of part of a sector where the row's neighbours lie apart, and a tile
    has few rows; of more it goes through shared memory."""

    def seconds(length: int, turned: bool) -> float:
        s = Sketch("rows")
        y = s.softmax(s.input("x", (1 << 25) // length, length))
        module = s.done(y=s.permute(y, 1, 0) if turned else y)
        return total(planned(module, fuse="legal"))

    assert seconds(8192, True) > 3 * seconds(8192, False)
    assert seconds(128, True) < 1.5 * seconds(128, False)


def test_what_the_kernel_before_wrote_is_in_the_cache() -> None:
    def mlp(tokens: int) -> float:
        s = Sketch("mlp")
        x = s.fn("gelu", s.input("x", tokens, 1024))
        _, second = times_of(planned(s.done(y=s.linear(x, "w", 1024))), {})
        return second.memory

    read = 1024 * 1024 * 2 + 4096 * 1024 * 2
    assert mlp(4096) == pytest.approx(read / H200.memory)
    whole = 1024 * 1024 * 2 + 2 * 65536 * 1024 * 2
    assert mlp(65536) == pytest.approx(whole / H200.memory)


def test_unlike_outputs_are_counted_each() -> None:
    s = Sketch("two")
    x = s.input("x", 4096, 4096)
    y, z = s.fn("relu", x), s.reduce("max", x, 0)
    assert (
        sum(t.seconds for t in times_of(planned(s.done(y=y, z=z)), {})) > 2 * 4096**2 * 2 / 4.2e12
    )


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", range(8))
def test_any_region_has_a_time(number: int) -> None:
    """Of graphs of every op, at the sizes that they are drawn with, at none and at many."""
    for drawn in (random_models.drawn, random_programs.drawn):
        program = drawn(random.Random(f"times {number}"))
        module = planned(program.module, "sm_80" if number % 2 else "sm_90a")
        for sizes in (program.sizes, *(dict.fromkeys(program.sizes, n) for n in (0, 1024))):
            times = times_of(module, sizes)
            assert times and all(0 <= t.seconds < math.inf for t in times)
            assert {t.bound for t in times} <= {"tensor cores", "arithmetic", "memory", "launch"}


# What was measured ---------------------------------------------------------------------


STABLE = (
    *("norm_gemm", "gelu_mlp", "mlp_residual", "dequant_gemm", "basic_down", "preact"),
    *("lora", "classifier", "vit", "decoder"),
)
KERNELS = (
    "gemm 4096x4096x4096",
    "gemm 4096x14336x4096",
    "attention d128 full 2048",
    "attention d64 causal 8192",
    "conv 128x256x56x256",
    "softmax 16384x4096",
)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", [*STABLE, *KERNELS])
def test_a_graph_takes_what_it_was_measured_to_take(name: str) -> None:
    run = (measured() if name in MODELS else measured_kernels())[name]
    seconds = sum(t.seconds for t in modelled_times(name, run))
    assert 1 / 1.25 < seconds / run.seconds < 1.25


@pytest.mark.parametrize("file", ["modelled", "modelled-kernels"])
def test_the_tables_have_what_was_measured(file: str) -> None:
    runs = measured() if file == "modelled" else measured_kernels()
    rows = json.loads((RESULTS / f"{file}.json").read_text("utf-8"))["rows"]
    there = {row["case"]: row for row in rows}
    assert there.keys() == runs.keys()
    for name, run in runs.items():
        assert there[name]["measured_us"] == round(run.seconds * 1e6, 1)
    near = [row for row in rows if 1 / 1.25 < row["ratio"] < 1.25]
    assert len(near) >= (0.8 if file == "modelled" else 0.7) * len(rows)


def test_a_chip_may_be_named() -> None:
    s = Sketch("add")
    x, y = s.input("x", 8192, 4096), s.input("y", 8192, 4096)
    module = planned(s.done(z=s.fn("add", x, y)))
    one, other = (times_of(module, {}, device)[0].memory for device in (H100, H200))
    assert one / other == pytest.approx(H200.memory / H100.memory)


def test_filters_in_groups_multiply_and_read_their_own_channels() -> None:
    """Four groups have a quarter of the products; what is read from memory is the image once."""

    def conv(groups: int) -> ModuleOp:
        s = Sketch("conv")
        x, w = s.input("x", 32, 56, 56, 128), s.input("w", 128, 3, 3, 128 // groups)
        op = frontend.Conv2dOp(
            x,
            w,
            layout="nhwc",
            stride=(1, 1),
            padding=[1, 1, 1, 1],
            dilation=(1, 1),
            groups=groups,
        )
        return s.done(y=s.add(op))

    whole, parts = the_time(conv(1)), the_time(conv(4))
    assert parts.tensor == pytest.approx(whole.tensor / 4, rel=0.1)
    assert parts.seconds < 2 * whole.seconds and parts.memory <= whole.memory
    assert parts.cache < 3 * whole.cache


def test_rows_that_repeat_and_a_gather_picks_have_a_time() -> None:
    """A read by floors is gathered along the axis of a warp's neighbours, which it has not."""
    s = Sketch("picked")
    x, at = s.input("x", 64, 512), s.input("at", 4096, element=i64)
    twice = frontend.tensor([Dim.const(n) for n in (64, 2, 512)], f16)
    rows = s.reshape(s.add(frontend.ExpandOp(x, [0, 2], twice)), 128, 512)
    picked = s.permute(s.add(frontend.GatherOp(rows, at, 0)), 1, 0)
    time = the_time(s.done(y=picked))
    assert time.memory > 4096 * 512 * 2 / H100.memory / 2
