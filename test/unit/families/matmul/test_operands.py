"""Operands of a product that threads compute, and those that are parts of a tensor (S8, S9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import GEMM
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.passes.support.plan.given import user_schedule
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered as by_stages
from polyc.test.support.lowered import sizes_of, unbounded
from polyc.test.support.on_demand import Variants
from polyc.test.support.plans import leave_widest, one_of_each
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.tools.load import load
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")


def scaled(k: Size = "K", element: object = f16) -> ModuleOp:
    """A weight times the scales of its rows: the columns' operand."""
    s = Sketch("scaled", bf16 if element is bf16 else f16)
    x, w, scales = s.input("x", "M", k), s.input("w", "N", k), s.input("scales", "N", 1)
    return s.done(y=s.gemm(x, s.fn("mul", w, scales), turned=True))


def active() -> ModuleOp:
    """A function of the rows' operand, and an epilogue of the product."""
    s = Sketch("active")
    x, skip = s.input("x", "M", "K"), s.input("skip", "M", "N")
    return s.done(y=s.fn("add", s.linear(s.fn("relu", x), "w", "N", bias=True), skip))


def inverse() -> ModuleOp:
    """What makes infinities of the zeros beyond an end, with a scale for each of k, in a batch."""
    s = Sketch("inverse", bf16)
    x, w = s.input("x", "B", "M", "K"), s.input("w", "B", "K", "N")
    wide = s.fn("reciprocal", s.cast(x, f32))
    made = s.fn("mul", wide, s.input("scales", "K", element=f32))
    return s.done(y=s.cast(s.gemm(s.cast(made, bf16), w), f32))


def dropped() -> ModuleOp:
    """Elements of the rows' operand that another tensor chooses, one for each of k."""
    s = Sketch("dropped")
    x, keep = s.input("x", "M", "K"), s.input("keep", 1, "K")
    chosen = s.add(frontend.ElementwiseOp("max", [x, keep]))
    return s.done(y=s.linear(chosen, "w", "N"))


COMPUTED: dict[str, tuple[Callable[[], ModuleOp], str]] = {
    "a weight times scales": (scaled, "w"),
    "in bf16": (lambda: scaled(element=bf16), "w"),
    "a function": (active, "x"),
    "infinities beyond the end": (inverse, "x"),
    "a number for each of k": (dropped, "x"),
}
SIZES = (
    {"B": 1, "M": 70, "N": 40, "K": 72},
    {"B": 2, "M": 5, "N": 9, "K": 37},
    {"B": 1, "M": 5, "N": 9, "K": 133},
)


lowered = partial(by_stages, fuse="legal")
"""A program after a stage, all that may be fused in one kernel."""


# What threads compute --------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch"),
    # In turn, and one on both: what is computed is the same.
    [(name, ARCHS[i % 2]) for i, name in enumerate(COMPUTED)] + [("a function", "sm_80")],
)
def test_every_variant_computes_its_operand(name: str, arch: str) -> None:
    """With tails of all axes, no race, and what its plan foretells."""
    make, computed = COMPUTED[name]
    module = make()
    # Two programs have all variants, of each operand one.
    leave = None if name in ("a weight times scales", "a function") else one_of_each
    planned = lowered(module, arch, "plan", leave=leave)
    (region,) = find(planned, KernelOp)
    gemm = find_contraction(region)
    assert gemm.lhs.name == computed and gemm.lhs.factor.is_computed
    kernels = unbounded(gpu_module_of(lowered(module, arch, "gpu", leave=leave)))
    plans = {op.kernel_name: op for op in planned.ops if isinstance(op, ScheduleOp)}
    ran: set[str] = set()
    for given in SIZES:
        sizes = sizes_of(module, given)
        inputs = make_inputs(only(module, frontend.GraphOp), sizes, 4)
        wanted = meant(module, inputs, sizes)
        for variant in kernels.dispatch().variants():
            if not all(fact.holds(sizes) for fact in variant.facts.data):
                continue
            plan = plans[variant.variant_name]
            if plan.kernel_name in ran:
                continue
            result = simulate(kernels, inputs, sizes, plan.kernel_name, schedule="random", seed=2)
            assert not result.findings, "\n".join(map(str, result.findings))
            assert_agree(result.outputs, wanted, plan.kernel_name)
            ran.add(plan.kernel_name)
            if plan.integer("split_k") > 1:
                continue  # the parts of an uneven split take what they compute with as they need
            foretold = estimate(region, plan, sizes, MULTIPROCESSORS).as_dict()
            for field in ("global_read_bytes", "shared_read_bytes", "mma", "wgmma"):
                assert getattr(result.counters, field) == foretold[field], (plan.kernel_name, field)
    # Sums of parts are of sizes far larger: test_partial_sums has these operands.
    others = (name for name, plan in plans.items() if plan.pattern == "matmul")
    assert ran == {name for name in others if not plans[name].stores_sums}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "arch"),
    [("a weight times scales", "sm_90a"), ("a function", "sm_90a"), ("in bf16", "sm_80")],
)
def test_kernels_that_compute_an_operand_spill_nothing(name: str, arch: str) -> None:
    module = lowered(COMPUTED[name][0](), arch, "gpu", leave=leave_widest)
    program = load(str(module), arch)
    assert {k: i.spill_bytes for k, i in program.kernels.items() if i.spill_bytes or i.stack} == {}
    assert not program.warnings(), nvrtc.version()


def test_what_is_beyond_whole_steps_is_not_asked() -> None:
    """Whether k ends is asked of each element only where a step may go beyond its end."""
    for k, conditions in ((256, 0), ("K", 1)):
        module = scaled(k)
        planned = lowered(module, "sm_90a", "plan")
        run_pass(make_context(), build("region-to-gpu", "sm_90a"), planned)
        for pipeline in find(planned, tile.PipelineOp):
            inside = [op.name for op in pipeline.body.walk()]
            assert inside.count("arith.select") == conditions


def both() -> ModuleOp:
    s = Sketch("both")
    x, w = s.input("x", "M", "K"), s.input("w", "N", "K")
    return s.done(y=s.gemm(s.fn("relu", x), s.fn("abs", w), turned=True))


def of_two() -> ModuleOp:
    s = Sketch("of_two")
    x, z = s.input("x", "M", "K"), s.input("z", "M", "K")
    return s.done(y=s.linear(s.fn("mul", x, z), "w", "N"))


def unrounded() -> ModuleOp:
    s = Sketch("unrounded")
    x, w = s.input("x", "M", "K", element=f32), s.input("w", "K", "N", element=f32)
    return s.done(y=s.gemm(s.fn("exp", x), w, element=f32))


def across() -> ModuleOp:
    s = Sketch("across")
    x, w = s.input("x", "K", "M"), s.input("w", "K", "N")
    made = s.fn("relu", x)
    return s.done(y=s.add(frontend.GemmOp(made, w, transpose_a=True)))


def pair() -> ModuleOp:
    s = Sketch("pair")
    x = s.fn("relu", s.input("x", "M", "K"))
    return s.done(y=s.fn("mul", s.linear(x, "a", "N"), s.linear(x, "b", "N")))


def reduced() -> ModuleOp:
    s = Sketch("reduced")
    return s.done(y=s.linear(s.softmax(s.input("x", "M", "K")), "w", "N"))


REFUSED: dict[str, tuple[Callable[[], ModuleOp], str]] = {
    "both operands": (both, "whose axis is that of the columns"),
    "two tensors": (of_two, "computed of 2 tensors as large as it is"),
    "not rounded": (unrounded, "which tensor cores would round"),
    "rows across": (across, "which does not lie along"),
    "two products": (pair, "which two products have"),
    "a softmax": (reduced, "has a softmax|2 reductions|reduce"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_what_else_is_computed_is_refused(make: Callable[[], ModuleOp], why: str) -> None:
    (region, *_) = find(lowered(make(), "sm_90a", "region"), KernelOp)
    with pytest.raises(PolycError, match=why):
        find_contraction(region)


def kernels_of(module: ModuleOp) -> int:
    return len(find(by_stages(module, "sm_90a", "region"), KernelOp))


def of_function(name: str) -> ModuleOp:
    s = Sketch("of_function")
    return s.done(y=s.linear(s.fn(name, s.input("x", "M", 4096)), "w", 4096))


def test_the_model_says_whether_an_operand_is_stored() -> None:
    """Sixteen tiles of columns would compute silu of the same elements, and a relu is nothing."""
    assert kernels_of(of_function("silu")) == 2
    assert kernels_of(of_function("relu")) == 1
    assert kernels_of(scaled(4096)) == 1


# Parts of tensors ------------------------------------------------------------------------


def of_parts(start: Size, other: Size, count: int) -> Callable[[], ModuleOp]:
    """A product of ``count`` columns of two tensors, from ``start`` and from ``other`` on."""

    def make() -> ModuleOp:
        s = Sketch("of_parts")
        wide = 256 if isinstance(other, int) else dim(other) + 128
        x, w = s.input("x", "M", 256), s.input("w", "N", wide)
        sides = (s.cut(x, 1, start, dim(start) + count), s.cut(w, 1, other, dim(other) + count))
        return s.done(y=s.gemm(*sides, turned=True))

    return make


PARTS: dict[str, tuple[Callable[[], ModuleOp], int, int, int, bool]] = {
    "whole steps": (of_parts(0, 72, 64), 0, 72, 64, True),
    "from an odd place on": (of_parts(5, 72, 64), 5, 72, 64, True),
    "from a symbol on": (of_parts(0, "S", 64), 0, 128, 64, True),
    "up to the end": (of_parts(216, 216, 40), 216, 216, 40, True),
    "with others behind": (of_parts(0, 72, 72), 0, 72, 72, False),
}
"""Products of parts: their first columns, how many these are, and whether they are read there."""


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PARTS)
def test_what_is_beside_a_part_changes_nothing(name: str, arch: str) -> None:
    """An infinity beside a part stays out of its sum: zeros of the other side would not do that."""
    make, start, other, count, alone = PARTS[name]
    module = make()
    found = gpu_module_of(by_stages(module, arch, "tiles"))
    assert (len(found.kernels()) == len(found.dispatch().variants())) == alone
    sizes = sizes_of(module, {"M": 70, "N": 72, "S": other})
    inputs = make_inputs(only(module, frontend.GraphOp), sizes, 4)
    wanted = meant(module, inputs, sizes)
    for array, first in zip(inputs, (start, other), strict=True):
        beside = np.ones(array.shape[1], bool)
        beside[first : first + count] = False
        array[:, beside] = np.inf
    result = simulate(Variants(found).at(sizes), inputs, sizes)
    assert not result.findings
    assert_agree(result.outputs, wanted, name)


def test_parts_of_one_tensor_are_two_operands() -> None:
    s = Sketch("halves")
    x = s.input("x", "M", 128)
    sides = [s.cut(x, 1, first, first + 64) for first in (0, 64)]
    made = s.done(y=s.fn("mul", *(s.linear(x, n, "N") for x, n in zip(sides, "ab", strict=True))))
    (region,) = find(lowered(made, "sm_90a", "region"), KernelOp)
    with pytest.raises(PolycError, match="are not one operand"):
        find_contraction(region)


def test_a_tile_begins_where_the_part_does() -> None:
    module = of_parts(8, 72, 64)()
    (region,) = find(lowered(module, "sm_90a", "region"), KernelOp)
    gemm = find_contraction(region)
    assert [side.first for side in gemm.sides] == [
        (Dim.const(0), Dim.const(8)),
        (Dim.const(0), Dim.const(72)),
    ]


# Plans of the user's own -----------------------------------------------------------------


def asked(module: ModuleOp, arch: str, variant: str, **fields: object) -> PolycError | None:
    """What a plan that differs from one of the compiler's is refused by."""
    planned = lowered(module, arch, "plan")
    (region,) = find(planned, KernelOp)
    (base,) = [p for p in find(planned, ScheduleOp) if p.variant.data == variant]
    GEMM.check(region, base)
    try:
        GEMM.check(region, user_schedule(base, fields))
    except PolycError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("count", "depth", "refused"),
    [(64, 32, False), (64, 48, True), (64, 128, True), (192, 48, False), (64, 16, False)],
)
def test_steps_that_end_behind_a_part_are_refused(count: int, depth: int, refused: bool) -> None:
    """Of 64 points with others behind them: 48 do not divide them, and do 192."""
    fields: dict[str, object] = {"tile": [128, 64, depth], "stages": 2, "fragment_buffers": 1}
    error = asked(of_parts(0, 40, count)(), "sm_80", "cp_async16", **fields)
    assert (error is not None) == refused
    if error is not None:
        assert error.kind == "BadPlan" and f"in steps of {depth}" in error.message


@pytest.mark.parametrize(
    "fields", [{"warp_tile": [32, 128]}, {"warp_tile": [16, 64]}, {"fragment_buffers": 2}], ids=str
)
def test_warps_have_the_rows_that_they_compute(fields: dict[str, object]) -> None:
    wide: dict[str, object] = {"tile": [64, 128, 32], "warp_tile": [16, 128]}
    assert asked(active(), "sm_80", "cp_async4", **wide) is None
    error = asked(active(), "sm_80", "cp_async4", **{**wide, **fields})
    assert error is not None and error.kind == "BadPlan"
    assert "use a warp_tile of [16, 128]" in error.message
