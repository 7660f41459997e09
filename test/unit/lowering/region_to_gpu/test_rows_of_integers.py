"""Rows of integers and conditions: reduced by every variant, alone and with what is around."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import INTEGERS, ui8, ui32, ui64
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import record_of
from polyc.playback.functions import Array
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Size, Sketch
from polyc.test.unit.lowering.region_to_gpu.test_scans import numbers, through

FUNCTIONS = ("sum", "prod", "max", "min")

LENGTHS = {
    "lanes": 40,
    "warp_128": 104,
    "warp_256": 200,
    "warp_512": 512,
    "warp": 1000,
    "block_2048": 1600,
    "block": 8192,
    "chunks_split8": 72000,
    "chunks": 9000,
    "any": 1029,
}
"""Of variants for open sizes a length of rows each."""


def reduced(fn: str, kind: Attribute, *shape: Size) -> ModuleOp:
    """A reduction of rows."""
    s = Sketch("f", kind)
    return s.done(y=s.add(frontend.ReduceOp(fn, s.input("x", *shape), [len(shape) - 1])))


def chained(kind: Attribute, *shape: Size) -> ModuleOp:
    """What is left of rows that their largest element, and then their sum, are taken from."""
    s = Sketch("f", kind)
    x = s.input("x", *shape)
    largest = s.add(frontend.ReduceOp("max", x, [len(shape) - 1], keepdims=True))
    less = s.fn("sub", x, largest)
    total = s.add(frontend.ReduceOp("sum", less, [len(shape) - 1], keepdims=True))
    return s.done(y=s.fn("sub", less, total), z=total)


def ways(regions: ModuleOp) -> set[str]:
    """The families' choices of a module's schedules."""
    found = (record_of(plan.algo_choice) for plan in find(regions, ScheduleOp))
    return {name for record in found for name in record}


@pytest.mark.turns(4)
@pytest.mark.parametrize("number", range(len(INTEGERS)))
@pytest.mark.parametrize("variant", LENGTHS)
def test_rows_of_every_variant(variant: str, number: int) -> None:
    """Each type with each function in turn; what wraps does so whatever threads have."""
    turn = number + list(LENGTHS).index(variant)
    kind, fn = INTEGERS[number], FUNCTIONS[turn % 4]
    if kind == ui64 and fn in ("max", "min"):
        fn = "sum"
    high = 1 if LENGTHS[variant] > 8192 else 3
    x = numbers(kind, (high, LENGTHS[variant]))
    module = reduced(fn, kind, "M", "N")
    sizes = {"M": high, "N": LENGTHS[variant]}
    regions = through(module, [x], sizes, variant, ("sm_90a", "sm_80")[turn % 2 * (high > 1)])
    assert ways(regions) == {"rows"}


@pytest.mark.turns(2)
@pytest.mark.parametrize("kind", [i8, ui8, i32, i64, ui32], ids=str)
@pytest.mark.parametrize("variant", ["warp", "kept", "kept_split2", "team", "chunks", "any"])
def test_chains_of_integers(variant: str, kind: Attribute) -> None:
    """A reduction of what another one's result is taken from, and what is left of the rows."""
    length = {"kept": 8968, "kept_split2": 16000, "team": 20000, "chunks": 9000}.get(variant, 1000)
    if variant in ("kept", "team") and kind == i64:
        length = 16000
        variant = "kept_split2"
    high = 1 if length > 8192 else 3
    x = numbers(kind, (high, length))
    regions = through(chained(kind, "M", "N"), [x], {"M": high, "N": length}, variant)
    assert ways(regions) == {"rows"}


def test_no_team_has_rows_of_64_bits() -> None:
    """Threads have no registers for a row that follows another."""
    for kind in (i32, i64):
        regions = through(chained(kind, "M", "N"), [numbers(kind, (1, 40))], {"M": 1, "N": 40})
        names = [plan.variant.data for plan in find(regions, ScheduleOp)]
        assert ("team" in names) == (kind == i32)


@pytest.mark.turns(2)
@pytest.mark.parametrize("variant", ["lanes", "block_2048", "chunks", "any"])
@pytest.mark.parametrize("fn", ["any", "all"])
def test_conditions_of_rows(fn: str, variant: str) -> None:
    """Of tensors of conditions, and of what is compared; no row, one that has some, and all."""
    length = LENGTHS[variant]
    x: Array = np.zeros((4, length), np.bool_)
    x[1, length - 1], x[2] = True, True
    s = Sketch("f", f32)
    x0, x1 = s.input("x", "M", "N", element=i1), s.input("i", "M", "N", element=i32)
    more = s.add(frontend.CompareOp("gt", x1, s.number(0, i32)))
    made = {
        "y": s.add(frontend.ReduceOp(fn, x0, [1])),
        "z": s.add(frontend.ReduceOp(fn, more, [1])),
    }
    arrays = [x, x.astype(np.int32)]
    through(s.done(**made), arrays, {"M": 4, "N": length}, variant)


@pytest.mark.parametrize("kind", [i8, ui8], ids=str)
def test_rows_that_are_real_numbers_in_a_scale(kind: Attribute) -> None:
    """A softmax of what is stored in 8 bits."""
    s = Sketch("f", f16)
    x = s.input("x", "M", "N", element=kind)
    real = s.fn("mul", s.cast(x, f16), s.number(0.125, f16))
    module = s.done(y=s.add(frontend.SoftmaxOp(real, [1])))
    regions = through(module, [numbers(kind, (3, 1000))], {"M": 3, "N": 1000}, "warp")
    assert ways(regions) == {"rows"}


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", [i8, i32, i64, ui32], ids=str)
def test_every_variant_compiles_without_a_spill(kind: Attribute, arch: str) -> None:
    x = numbers(kind, (2, 40))
    through(chained(kind, "M", "N"), [x], {"M": 2, "N": 40}, None, arch, compiles=True)
    through(reduced("sum", kind, "M", "N"), [x], {"M": 2, "N": 40}, None, arch, compiles=True)


def test_the_largest_of_64_bits_without_a_sign_are_left_to_loops() -> None:
    """Threads bring signed numbers together."""
    x = numbers(ui64, (3, 40))
    for fn, family in (("max", "loops"), ("sum", "rows")):
        regions = through(reduced(fn, ui64, "M", "N"), [x], {"M": 3, "N": 40})
        assert ways(regions) == {family}
