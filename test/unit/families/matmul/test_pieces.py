"""Operands that lie in several tensors, one after another along an axis (S2.2, S8, S9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import GEMM
from polyc.passes.support.plan.estimate import estimate
from polyc.passes.support.plan.given import user_schedule
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.lowered import lowered, sizes_of, unbounded
from polyc.test.support.plans import leave_widest, one_of_each
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.tools.load import load

ARCHS = ("sm_80", "sm_90a")


def along_k(*sizes: Size) -> Callable[[], ModuleOp]:
    """Features of several tensors beside each other, and a weight for all of them."""

    def make() -> ModuleOp:
        s = Sketch("along_k")
        x = s.concat(1, *(s.input(f"x{i}", "M", size) for i, size in enumerate(sizes)))
        return s.done(y=s.linear(x, "w", "N", bias=True))

    return make


def both_sides() -> ModuleOp:
    """Each operand of three pieces, which are not the same ones; the weight lies with k first."""
    s = Sketch("both_sides", bf16)
    x = s.concat(1, *(s.input(n, "M", k) for n, k in (("a", 64), ("b", 128), ("c", 40))))
    w = s.concat(0, *(s.input(n, k, "N") for n, k in (("d", 128), ("e", 64), ("f", 40))))
    return s.done(y=s.gemm(x, w))


def of_rows(first: Size = 128) -> ModuleOp:
    """Tokens of two tensors, one after another."""
    s = Sketch("of_rows")
    x = s.concat(0, s.input("text", first, "K"), s.input("image", "M", "K"))
    return s.done(y=s.fn("relu", s.linear(x, "w", "N")))


def of_columns() -> ModuleOp:
    """Weights of two projections, one after another."""
    s = Sketch("of_columns")
    x = s.input("x", "M", "K")
    w = s.concat(0, s.input("q", 256, "K"), s.input("k", "N", "K"))
    return s.done(y=s.gemm(x, w, turned=True))


def of_batches() -> ModuleOp:
    """Matrices of two batches, one after another: each lies in one of them."""
    s = Sketch("of_batches")
    x = s.concat(0, s.input("a", 1, "M", "K"), s.input("b", "B", "M", "K"))
    return s.done(y=s.gemm(x, s.input("w", dim("B") + 1, "K", "N")))


def gated() -> ModuleOp:
    """Two products that share the operand of pieces."""
    s = Sketch("gated")
    x = s.concat(1, s.input("a", "M", 64), s.input("b", "M", 72))
    return s.done(y=s.fn("mul", s.linear(x, "u", "N"), s.linear(x, "v", "N")))


def followed() -> ModuleOp:
    """Rows of the product that are reduced after it."""
    s = Sketch("followed")
    x = s.concat(1, s.input("a", "M", 64), s.input("b", "M", "K"))
    return s.done(y=s.softmax(s.linear(x, "w", 64)))


PIECES: dict[str, Callable[[], ModuleOp]] = {
    "two along k": along_k(64, "K"),
    "both sides": both_sides,
    "rows": of_rows,
    "columns": of_columns,
    "batches": of_batches,
    "a pair": gated,
    "rows reduced": followed,
}
BOTH = ("two along k", "both sides")
"""Programs that every variant is run on, for both architectures; of the others one of each kind."""

SIZES = {"B": 2, "M": 70, "N": 72, "K": 40}, {"B": 1, "M": 9, "N": 33, "K": 37}


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch"),
    [
        (name, arch)
        for i, name in enumerate(PIECES)
        for arch in (ARCHS if name in BOTH else ARCHS[i % 2 :][:1])
    ],
)
def test_every_variant_takes_each_tile_from_its_piece(name: str, arch: str) -> None:
    """One kernel, with tails of all axes, no race, and what its plan foretells."""
    module = PIECES[name]()
    leave = None if name in BOTH else one_of_each
    planned = lowered(module, arch, "plan", leave=leave)
    (region,) = find(planned, KernelOp)
    assert any(side.pieces for side in find_contraction(region).sides)
    kernels = unbounded(gpu_module_of(lowered(module, arch, "gpu", leave=leave)))
    plans = {op.kernel_name: op for op in planned.ops if isinstance(op, ScheduleOp)}
    ran: set[str] = set()
    for given in SIZES:
        sizes = sizes_of(module, given)
        inputs = make_inputs(only(module, frontend.GraphOp), sizes, 4)
        wanted = meant(module, inputs, sizes)
        for variant in kernels.dispatch().variants():
            plan = plans[variant.variant_name]
            takes = all(fact.holds(sizes) for fact in variant.facts.data)
            if not takes or plan.kernel_name in ran:
                continue
            result = simulate(kernels, inputs, sizes, plan.kernel_name, schedule="random", seed=2)
            assert not result.findings, "\n".join(map(str, result.findings))
            assert_agree(result.outputs, wanted, plan.kernel_name)
            ran.add(plan.kernel_name)
            foretold = estimate(region, plan, sizes, MULTIPROCESSORS).as_dict()
            for field in ("tma_bytes", "mma", "wgmma"):
                assert getattr(result.counters, field) == foretold[field], (plan.kernel_name, field)
    # Sums of parts are of sizes far larger: test_partial_sums has these operands.
    others = (name for name, plan in plans.items() if plan.pattern == "matmul")
    assert ran == {name for name in others if not plans[name].stores_sums}


@pytest.mark.turns(2)
@pytest.mark.parametrize(("name", "arch"), [("both sides", "sm_90a"), ("rows", "sm_80")])
def test_kernels_of_pieces_spill_nothing(name: str, arch: str) -> None:
    program = load(str(lowered(PIECES[name](), arch, "gpu", leave=leave_widest)), arch)
    assert {k: i.spill_bytes for k, i in program.kernels.items() if i.spill_bytes or i.stack} == {}
    assert not program.warnings(), nvrtc.version()


def of_unlike_layouts() -> ModuleOp:
    s = Sketch("of_unlike_layouts")
    x = s.concat(1, s.input("a", "M", 64), s.permute(s.input("b", 64, "M"), 1, 0))
    return s.done(y=s.linear(x, "w", "N"))


def of_a_function() -> ModuleOp:
    s = Sketch("of_a_function")
    x = s.fn("relu", s.concat(1, s.input("a", "M", 64), s.input("b", "M", 64)))
    return s.done(y=s.linear(x, "w", "N"))


def reduced_columns() -> ModuleOp:
    s = Sketch("reduced_columns")
    w = s.concat(0, s.input("a", 128, "K"), s.input("b", 128, "K"))
    return s.done(y=s.softmax(s.gemm(s.input("x", "M", "K"), w, turned=True)))


def of_unlike_types() -> ModuleOp:
    s = Sketch("of_unlike_types")
    x = s.concat(1, s.input("a", "M", 64), s.cast(s.input("b", "M", 64, element=bf16), s.element))
    return s.done(y=s.linear(x, "w", "N"))


REFUSED: dict[str, tuple[Callable[[], ModuleOp], str]] = {
    "inside of a step": (along_k(40, "K"), "reads x1 along r0 from 40 on, .* no multiple of 64"),
    "from a symbol on": (
        partial(of_rows, "S"),
        "reads image along i0 from S on, .* no multiple of 128",
    ),
    "unlike layouts": (of_unlike_layouts, "computed of 2 tensors"),
    "of unlike types": (of_unlike_types, "computed of 2 tensors"),
    "a function of them": (of_a_function, "computed of 2 tensors"),
    "reduced after it": (reduced_columns, "which is reduced after the product"),
}


@pytest.mark.parametrize(("make", "why"), REFUSED.values(), ids=REFUSED)
def test_pieces_that_a_tile_may_lie_across_are_joined_first(
    make: Callable[[], ModuleOp], why: str
) -> None:
    (region,) = find(lowered(make(), "sm_90a", "region", fuse="legal"), KernelOp)
    with pytest.raises(PolycError, match=why):
        find_contraction(region)
    assert len(find(lowered(make(), "sm_90a", "region"), KernelOp)) == 2


def test_a_symbol_whose_multiple_is_known_will_do() -> None:
    module = of_rows(dim("S") * 128)
    (region,) = find(lowered(module, "sm_80", "region"), KernelOp)
    assert [str(p.first) for p in find_contraction(region).lhs.pieces] == ["0", "128 * S"]


def test_guards_say_where_pieces_are() -> None:
    """What one more point of a piece is read for is no concat."""
    (region,) = find(lowered(along_k(64, 64)(), "sm_90a", "region", fuse="legal"), KernelOp)
    find_contraction(region)
    text = str(region).replace("(((d1 * -1) + 63) >= 0)", "(((d1 * -1) + 62) >= 0)")
    assert text != str(region)
    (other,) = find(parsed(text), KernelOp)
    with pytest.raises(PolycError, match="it reads x0 under a guard"):
        find_contraction(other)


@pytest.mark.parametrize(
    ("make", "variant", "fields", "why"),
    [
        (
            along_k(64, "K"),
            "scalar",
            {"tile": [128, 128, 128]},
            "along r0 by 128, and x1 begins at 64 there",
        ),
        (
            of_rows,
            "scalar",
            {"tile": [256, 128, 32]},
            "along i0 by 256, and image begins at 128 there",
        ),
        (
            of_columns,
            "tma_small",
            {"tile": [128, 96, 64], "warp_tile": [64, 96]},
            "by 96, and k begins",
        ),
        (
            along_k(64, "K"),
            "tma_small",
            {"when": ["K mod 8 == 0", "N mod 8 == 0"]},
            "no empty axis; add .K >= 1. to its when",
        ),
    ],
)
def test_a_users_tiles_lie_inside_of_pieces(
    make: Callable[[], ModuleOp], variant: str, fields: dict[str, object], why: str
) -> None:
    planned = lowered(make(), "sm_90a", "plan")
    (region,) = find(planned, KernelOp)
    (base,) = [p for p in find(planned, ScheduleOp) if p.variant.data == variant]
    GEMM.check(region, base)
    with pytest.raises(PolycError, match=why):
        GEMM.check(region, user_schedule(base, fields))


# Where they come from --------------------------------------------------------------------


def chained(activation: str | None) -> ModuleOp:
    """A tensor beside what a product before gives, or elementwise ops make of it."""
    s = Sketch("chained")
    made = s.linear(s.input("x", "M", 512), "u", 640)
    other = s.input("a", "M", 320)
    if activation is not None:
        other = s.fn(activation, other)
    return s.done(y=s.linear(s.linear(s.concat(1, other, made), "v", 512), "w", 256))


def test_products_give_pieces_and_elementwise_ops_join_them() -> None:
    """What has to be computed is written where it belongs; a product's output is read there."""
    for activation, kernels in ((None, 3), ("silu", 4)):
        found = find(lowered(chained(activation), "sm_90a", "region"), KernelOp)
        assert len(found) == kernels
        joined = [side.pieces for k in found[-2:] for side in find_contraction(k).sides]
        assert sum(map(len, joined)) == (2 if activation is None else 0)
