"""Kernels that sort rows, or find places of extremes, in tiles and in threads, each way of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i8, i32, i64
from xdsl.ir import Attribute, Operation

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, ui8, ui64
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile as tiles
from polyc.playback.functions import Array, dtype_of
from polyc.playback.gpu.simulate import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def run_variant(
    module: ModuleOp, variant: str, arrays: Sequence[Array], sizes: dict[str, int], arch: str
) -> None:
    """One schedule of a program, in tiles, in threads, and compiled without a spill."""
    module = module.clone()
    expected = meant(module, arrays, sizes)
    for name in ("frontend-to-tiny", "tiny-to-index", "index-to-region", "plan-select"):
        run_pass(make_context(), build(name, arch), module)
    plans = find(module, ScheduleOp)
    having = {op.region for op in plans if op.variant.data == variant}
    assert having, [op.variant.data for op in plans]
    for op in plans:
        if op.region in having and op.variant.data != variant:
            op.detach()
    for layer in ("region-expand-together", "region-to-gpu"):
        run_pass(make_context(), build(layer, arch), module)
    kernels = only(module, gpu.ModuleOp)
    assert_agree(tiles.run(kernels, arrays, sizes), expected, "tiles")
    finish(module)
    result = simulate(kernels, arrays, sizes)
    result.check()
    assert_agree(result.outputs, expected, "threads")
    built = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert not built.warnings()
    assert all((info.spill_bytes, info.stack) == (0, 0) for info in built.kernels.values())


@dataclass(frozen=True)
class Case:
    """A sort along an axis, all of it or the first, and sizes that its way takes."""

    variant: str
    element: Attribute
    shape: tuple[Size, ...]
    axis: int
    first: int | None
    descending: bool
    sizes: dict[str, int]

    def program(self) -> ModuleOp:
        s = Sketch("f", self.element)
        size = None if self.first is None else Dim.const(self.first)
        x = s.input("x", *self.shape)
        op = frontend.SortOp(x, self.axis, size, descending=self.descending)
        s.add(op)
        return s.done(values=op.values, places=op.places)

    def array(self) -> Array:
        shape = [self.sizes[n] if isinstance(n, str) else int(str(n)) for n in self.shape]
        dice = np.random.default_rng(3)
        if is_integer(self.element):
            kind = np.iinfo(dtype_of(self.element))
            return dice.integers(kind.min, kind.max, shape, kind.dtype, endpoint=True)
        found = dice.integers(-40, 40, shape).astype(dtype_of(self.element))
        found.flat[::17] = np.nan
        return found


CASES = {
    "shared, a known row": Case("shared_256_vector", f16, (3, 72), 1, None, True, {}),
    "shared, an odd row": Case("shared_128", f32, (2, 101), 1, None, False, {}),
    "shared, any row": Case("shared_256", f32, ("M", "N"), 1, None, True, {"M": 2, "N": 77}),
    "shared, rows of one": Case("shared_256", f16, ("M", "N"), 1, None, True, {"M": 3, "N": 1}),
    "shared, one number": Case("shared_32", f32, (1, 1), 1, None, False, {}),
    "shared, columns": Case("shared_64", i8, (40, 3), 0, None, False, {}),
    "shared, without a sign": Case("shared_64_vector", ui64, (2, 40), 1, None, False, {}),
    "shared, between": Case("shared_32", i32, (2, 20, 8), 1, None, True, {}),
    "digits, a known row": Case("digits_1024_vector", f16, (2, 1000), 1, None, True, {}),
    "digits, an odd row": Case("digits_1280", f32, (1, 1101), 1, None, False, {}),
    "digits, any row": Case("digits_1024", i32, ("M", "N"), 1, None, True, {"M": 1, "N": 777}),
    "digits, columns": Case("digits_1024", i8, (900, 2), 0, None, False, {}),
    "digits, wide": Case("digits_1024_vector", ui64, (1, 1024), 1, None, True, {}),
    "digits, many": Case("digits_8192_vector", bf16, (1, 8000), 1, None, False, {}),
    "passes": Case("passes", f32, ("M", "N"), 1, None, False, {"M": 1, "N": 5200}),
    "passes, vectors": Case("passes_vector", f16, (1, 16640), 1, None, True, {}),
    "passes, columns": Case("passes", i8, ("M", 3, 2), 0, None, True, {"M": 40}),
    "passes, between": Case("passes", bf16, (2, "N", 3), 1, None, False, {"N": 33}),
    "pool": Case("pool_vector", f16, ("M", 4096), 1, 5, True, {"M": 2}),
    "pool, the first two": Case("pool_vector", f32, (1, 70), 1, 2, True, {}),
    "pool, many": Case("pool", f32, (1, 4097), 1, 200, False, {}),
    "pool, a short row": Case("pool", ui8, (3, 21), 1, 4, False, {}),
    "pool, of 64 bits": Case("pool_vector", i64, (2, 70), 1, 3, True, {}),
    "pool, columns": Case("pool", f32, (300, 2), 0, 7, True, {}),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_a_way_to_sort(name: str) -> None:
    case = CASES[name]
    arch = "sm_90a" if len(name) % 2 else "sm_80"
    run_variant(case.program(), case.variant, [case.array()], case.sizes, arch)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_beside_what_is_sorted_lies_what_moves_by_a_size(arch: str) -> None:
    """A slice is read so many elements behind the place where the last pass of a sort stores."""
    s, n = Sketch("sorted", f32), Dim.sym("N")
    x, y = s.input("x", n), s.input("y", n * 2)
    order = frontend.SortOp(x, 0)
    s.add(order)
    places = s.cast(order.results[1], f32)
    module = s.done(p=places, q=s.add(frontend.SliceOp(y, [n], [n * 2], [1])))
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(size).astype(np.float32) for size in (600, 1200)]
    run_variant(module, "passes", arrays, {"N": 600}, arch)


@pytest.mark.parametrize("turned", [False, True])
def test_a_pool_whose_row_falls_or_rises_all_the_way(turned: bool) -> None:
    """The worst rows: every element is below all before it, or none is."""
    case = Case("pool", f32, (1, 5001), 1, 3, False, {})
    row = np.arange(5001, dtype=np.float32)[None]
    run_variant(case.program(), "pool", [row[:, ::-1].copy() if turned else row], {}, "sm_90a")


def test_the_bound_of_a_pool_is_read_behind_a_barrier() -> None:
    """Of a pool that a warp sorts: one thread leaves the bound, all meet, and all read it.

    compute-sanitizer's racecheck calls these two accesses a hazard, with that barrier between them.
    Here no thread's access races in any order of warps, and without the barrier these two do.
    """
    case = Case("pool_vector", f32, (1, 600), 1, 17, True, {})
    module = case.program()
    for name in ABOVE_GPU:
        run_pass(make_context(), build(name, "sm_90a"), module)
    kernels = only(module, gpu.ModuleOp)
    finish(module)
    array = np.random.default_rng(0).random((1, 600)).astype(np.float32)
    for schedule in ("round-robin", "random", "one-warp-ahead"):
        simulate(kernels, [array], {}, schedule=schedule, seed=1).check()

    def leaves_the_bound(op: Operation | None) -> bool:
        """One thread says how many are left, and which is the last of these."""
        if not isinstance(op, scf.IfOp):
            return False
        kinds = [type(inner) for inner in op.true_region.block.ops]
        return kinds.count(hw.StoreSharedOp) == 2 and hw.LoadSharedOp in kinds

    behind = [op for op in find(module, hw.BarrierOp) if leaves_the_bound(op.prev_op)]
    assert behind
    for barrier in behind:
        barrier.detach()
    found = simulate(kernels, [array], {}).findings
    assert found and {one.error().kind for one in found} == {"DataRace"}


def test_a_pool_of_the_largest_number_alone() -> None:
    """It never comes in, and is what stands where nothing did."""
    case = Case("pool", i64, (2, 33), 1, 4, False, {})
    array = np.full((2, 33), np.iinfo(np.int64).max)
    array[1, 20] = 5
    run_variant(case.program(), "pool", [array], {}, "sm_80")


EXTREMES: dict[str, tuple[str, Attribute, tuple[Size, ...], int, dict[str, int]]] = {
    "rows": ("block_2048", f16, ("M", "N"), 1, {"M": 9, "N": 1048}),
    "rows, one by one": ("any", f32, ("M", "N"), 1, {"M": 9, "N": 301}),
    "columns": ("vector", f32, ("M", "N"), 0, {"M": 90, "N": 72}),
    "few rows": ("block", f32, (3, 5000), 1, {}),
    "all": ("scalar", i8, ("N",), 0, {"N": 1000}),
    "of 64 bits": ("scalar", ui64, ("M", "N"), 1, {"M": 9, "N": 72}),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", EXTREMES)
def test_a_way_to_find_a_place(name: str) -> None:
    variant, element, shape, axis, sizes = EXTREMES[name]
    s = Sketch("f", element)
    x = s.input("x", *shape)
    first = frontend.ArgReduceOp("max", x, axis)
    module = s.done(y=s.add(first))
    dims = [sizes[n] if isinstance(n, str) else int(str(n)) for n in shape]
    low = 0 if str(element).startswith("u") else -9
    array = np.random.default_rng(0).integers(low, 9, dims).astype(dtype_of(element))
    run_variant(module, variant, [array], sizes, "sm_80" if len(name) % 2 else "sm_90a")
