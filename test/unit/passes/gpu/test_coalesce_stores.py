"""``gpu-coalesce-stores``: quads exchange words, the same elements land in the same places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu.simulate import SimulationResult, gpu_module_of, simulate
from polyc.test.support.gpu_text import find, run, unchanged
from polyc.test.support.turns import examples

PASS = "gpu-coalesce-stores"
LOWER = ("gpu-linearize-access", "gpu-plan-shared-memory")
COLUMN = "(r floordiv 4) * 8 + (t mod 4) * 2 + r mod 2"
ROW = "(t floordiv 32) * 16 + (t mod 32) floordiv 4 + ((r floordiv 2) mod 2) * 8"


def program(
    row: str = ROW,
    column: str = COLUMN,
    align: int = 16,
    element: str = "f16",
    step: int = 2,
    bound: int = 32,
    guard: str = "%inside",
    bound_of_rows: str = "%M",
    bound_of_columns: str = "%N",
    attributes: str = "{unroll}",
    extra: str = "",
) -> str:
    """Registers of two warps, each the number 64·thread + register, stored through a layout."""
    c = f"!gpu.global<[M, N], {element}, align {align}>"
    narrow = "f16" if element == "f16" else "f32"
    rounded = (
        "%half = arith.truncf %pair : vector<2xf32> to vector<2xf16>"
        if narrow == "f16"
        else "%half = arith.addf %pair, %pair : vector<2xf32>"
    )
    return f"""gpu.module @m arch "sm_80" symbols [M, N] {{
  gpu.kernel @k(%C: {c} = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 64 {{
    %t = gpu.thread_id
    %low = arith.constant 0 : index
    %one = arith.constant 1 : index
    %step = arith.constant {step} : index
    %high = arith.constant {bound} : index
    %always = arith.cmpi slt, %low, %M : index
    %acc = memref.alloca() : memref<{bound}xf32, #gpu<space register>>
    scf.for %r = %low to %high step %one {{
      %n = affine.apply affine_map<(t, r) -> (t * 32 + r)> (%t, %r)
      %i = arith.index_cast %n : index to i32
      %f = arith.sitofp %i : i32 to f32
      memref.store %f, %acc[%r] : memref<{bound}xf32, #gpu<space register>>
    }} {{unroll}}
    scf.for %r = %low to %high step %step {{
      %next = affine.apply affine_map<(d0) -> (d0 + 1)> (%r)
      %x = memref.load %acc[%r] : memref<{bound}xf32, #gpu<space register>>
      %y = memref.load %acc[%next] : memref<{bound}xf32, #gpu<space register>>
      {extra}
      %pair = gpu.pack %x, %y : f32, f32 -> vector<2xf32>
      {rounded}
      %i = affine.apply affine_map<(t, r) -> ({row})> (%t, %r)
      %j = affine.apply affine_map<(t, r) -> ({column})> (%t, %r)
      %in_rows = arith.cmpi slt, %i, {bound_of_rows} : index
      %in_columns = arith.cmpi slt, %j, {bound_of_columns} : index
      %inside = arith.andi %in_rows, %in_columns : i1
      gpu.store_global %half, %C[%i, %j : index, index] if {guard} : vector<2x{narrow}>, {c}
    }} {attributes}
    gpu.return
  }}
  gpu.dispatch () -> (C: {c}) {{
    gpu.launch @k when (N mod 8 == 0) align [{align}] grid [1]
  }}
}}
"""


def stored(text: str) -> list[int]:
    return [hw.vector_length(op.value.type) for op in find(run(text, PASS), hw.StoreGlobalOp)]


def test_transpose_quads_fires_on_an_accumulator() -> None:
    assert stored(program()) == [8]
    assert len(find(run(program(), PASS), hw.ShuffleOp)) == 4


def test_a_bound_that_is_computed_in_the_loop_leaves_it() -> None:
    """As that of a tensor whose first size is a product."""
    text = program(bound_of_rows="%rows", extra="%rows = arith.muli %M, %one : index")
    assert stored(text) == [8]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"align": 8}, id="rows_of_8_bytes"),
        pytest.param({"element": "f32"}, id="elements_of_4_bytes"),
        pytest.param({"bound": 24}, id="no_whole_groups"),
        pytest.param({"bound_of_columns": "%M"}, id="another_bound_of_the_row"),
        pytest.param({"bound_of_rows": "%next"}, id="a_bound_that_changes"),
        pytest.param({"attributes": ""}, id="not_unrolled"),
        pytest.param({"column": COLUMN + " + 2"}, id="lines_that_start_off_a_multiple"),
        pytest.param({"column": "(r floordiv 4) * 16 + (t mod 4) * 2 + r mod 2"}, id="gaps"),
        pytest.param({"row": ROW + " + t mod 4"}, id="a_row_a_lane"),
        pytest.param({"row": ROW + " + r floordiv 8"}, id="a_row_a_block"),
        pytest.param(
            {"extra": "memref.store %x, %acc[%next] : memref<32xf32, #gpu<space register>>"},
            id="registers_written",
        ),
    ],
)
def test_transpose_quads_refuses(change: dict[str, Any]) -> None:
    unchanged(program(**change), PASS)


def test_a_guard_from_outside_stays() -> None:
    """An empty matrix has its guard false from before the loop: nothing is stored."""
    module = gpu_module_of(run(program(guard="%always"), PASS, *LOWER))
    (store,) = find(module, hw.StoreGlobalOp)
    assert store.predicate is not None and store.predicate.name_hint == "always"


@settings(max_examples=examples(25), deadline=None)
@given(rows=st.integers(1, 32), lines=st.integers(1, 8))
def test_the_same_elements_land_in_the_same_places(rows: int, lines: int) -> None:
    columns = 8 * lines
    found: list[SimulationResult] = []
    for passes in (LOWER, (PASS, *LOWER)):
        module = gpu_module_of(run(program(), *passes))
        result = simulate(module, [], {"M": rows, "N": columns})
        assert result.findings == []
        found.append(result)
    plain, wide = found
    np.testing.assert_array_equal(wide.outputs[0], plain.outputs[0])
    assert wide.counters.global_write_bytes == plain.counters.global_write_bytes
    sectors = [r.counters.global_write_sectors for r in found]
    assert sectors[1] <= sectors[0]


def test_a_quarter_of_the_instructions_write_half_the_sectors() -> None:
    """32 x 64 elements are 4096 bytes, 128 sectors; a pair a thread asks for each twice."""
    sectors = [
        simulate(
            gpu_module_of(run(program(), *passes)), [], {"M": 32, "N": 64}
        ).counters.global_write_sectors
        for passes in (LOWER, (PASS, *LOWER))
    ]
    assert sectors == [256, 128]
