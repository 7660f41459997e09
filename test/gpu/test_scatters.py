"""Scatters on the GPU, each of their ways: what updates one after another give.

That is so to the bit, but for sums and products of long lists, which are of parts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import ui8
from polyc.dialects.common.gathers import SCATTERS
from polyc.playback.functions import Array
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.each_variant import results
from polyc.test.support.sketch import Sketch
from polyc.test.unit.lowering.region_to_gpu.test_scans import numbers
from polyc.test.unit.lowering.region_to_gpu.test_scatters import hostile, rows

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")


def skewed(rows: int, count: int) -> Array:
    """Of one row as many as there are places beside each other, and ever fewer of the others."""
    return np.minimum(np.random.default_rng(count).zipf(1.3, count), rows + 3) - 1


INDICES: dict[str, Callable[[int, int], Array]] = {
    "hostile": hostile,
    "skewed": skewed,
    "of one row": lambda rows, count: np.full(count, rows - 1),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fn", SCATTERS)
@pytest.mark.parametrize("kind", [f16, f32, i64, ui8], ids=str)
def test_rows(build: Build, kind: Attribute, fn: str, arch: str) -> None:
    module = rows(fn, kind, "V", "D")
    program, ran = build(str(module), arch), set[str | None]()
    for high, wide, count in ((50, 256, 2000), (3000, 33, 5000), (9, 8, 40), (700, 520, 1100)):
        for made in INDICES.values():
            i = made(high, count).astype(np.int64)
            arrays = [numbers(kind, (high, wide)), i, numbers(kind, (count, wide))]
            sizes = {"V": high, "D": wide, "N": count}
            wanted = meant(module, arrays, sizes)
            for variant, found in results(program, arrays, sizes):
                assert_agree(found, wanted, f"{variant} {high}x{wide}x{count}")
                ran.add(variant)
    assert len(ran) == len(program.variants) + 1


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fn", ["max", "min", "add"])
@pytest.mark.parametrize("kind", [f16, f32, i32, ui8], ids=str)
def test_elements_by_atomics(build: Build, kind: Attribute, fn: str, arch: str) -> None:
    """Of real numbers extremes alone, NaN and infinities among them."""
    if fn == "add" and kind in (f16, f32):
        return
    module = rows(fn, kind, "V")
    program = build(str(module), arch)
    assert any("atomic" in name for name in program.kernels)
    for high, count in ((50, 2000), (3000, 5000), (9, 40)):
        for made in INDICES.values():
            updates = numbers(kind, (count,))
            if kind in (f16, f32):
                updates[:4] = (np.nan, np.inf, -np.inf, -0.0)
            arrays = [numbers(kind, (high,)), made(high, count).astype(np.int64), updates]
            sizes = {"V": high, "N": count}
            wanted = meant(module, arrays, sizes)
            for variant, found in results(program, arrays, sizes):
                assert_agree(found, wanted, f"{variant} {high} {count}")


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fn", ["add", "set"])
def test_elements_at_places_of_their_own(build: Build, fn: str, arch: str) -> None:
    """Tuples of two indices, and an index for each update along either axis."""
    s = Sketch("f", f32)
    x, i, u = s.input("x", "V", "D"), s.input("i", "N", 2, element=i64), s.input("u", "N")
    module = s.done(y=s.add(frontend.ScatterNdOp(fn, x, i, u, 0, from_end=True)))
    at = np.stack([hostile(50, 3000, seed=1), hostile(64, 3000, seed=2)], 1)
    arrays = [numbers(f32, (50, 64)), at, numbers(f32, (3000,))]
    sizes = {"V": 50, "D": 64, "N": 3000}
    wanted = meant(module, arrays, sizes)
    for variant, found in results(build(str(module), arch), arrays, sizes):
        assert_agree(found, wanted, variant or "dispatch")
    for axis in (0, 1):
        s = Sketch("f", f16)
        shape = ("N", "D") if axis == 0 else ("V", "N")
        x, i, u = s.input("x", "V", "D"), s.input("i", *shape, element=i64), s.input("u", *shape)
        module = s.done(y=s.add(frontend.ScatterElementsOp(fn, x, i, u, axis, from_end=True)))
        there = (1500, 40) if axis == 0 else (30, 1500)
        at = hostile((30, 40)[axis], there[0] * there[1]).reshape(there)
        arrays = [numbers(f16, (30, 40)), at, numbers(f16, there)]
        sizes = {"V": 30, "D": 40, "N": 1500}
        wanted = meant(module, arrays, sizes)
        for variant, found in results(build(str(module), arch), arrays, sizes):
            assert_agree(found, wanted, f"{variant} along {axis}")
