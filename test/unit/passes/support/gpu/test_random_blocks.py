"""Which neighbours share blocks of random numbers, and that they are what each would have."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.playback.gpu.simulate import simulate
from polyc.playback.philox import pair
from polyc.test.support.gpu_text import find, kernel, only, run

PASS = "gpu-vectorize"
SEED = 77

ROW = "%i = affine.apply affine_map<(t, r) -> (t * 8 + r)>(%t, %r)"
EVERY_OTHER = "%i = affine.apply affine_map<(t, r) -> (t * 16 + r * 2)>(%t, %r)"
NESTED = """%a = affine.apply affine_map<(t, r) -> (t * 8 + r)>(%t, %r)
      %i = affine.apply affine_map<(a) -> (a + 0)>(%a)"""
PLACE = "%p = arith.addi %w, %base : i64"


def loop(at: str = ROW, place: str = PLACE, base: str = "0", seed: str = "%seed") -> str:
    """A thread's eight random numbers, which it stores to C from a loop of its own."""
    return kernel(
        f"""
    %t = gpu.thread_id
    %low = arith.constant 0 : index
    %high = arith.constant 8 : index
    %step = arith.constant 1 : index
    %seed = arith.constant {SEED} : i64
    %base = {f"arith.constant {base} : i64" if base.isdigit() else base}
    %kept = memref.alloca() : memref<8xi64, #gpu<space register>>
    scf.for %r = %low to %high step %step {{
      {at}
      %n = arith.index_cast %i : index to i32
      %w = arith.extsi %n : i32 to i64
      {place}
      %v = gpu.philox %p, {seed} : i64
      memref.store %v, %kept[%r] : memref<8xi64, #gpu<space register>>
    }} {{unroll}}
    scf.for %r = %low to %high step %step {{
      {at}
      %v = memref.load %kept[%r] : memref<8xi64, #gpu<space register>>
      gpu.store_global %v, %C[%i : index] : i64, !gpu.global<[N], i64>
    }} {{unroll}}""",
        "%B: !gpu.global<[N], i64> = tensor 0, %C: !gpu.global<[N], i64> = tensor 1",
        threads=32,
        symbols="N",
        dispatch="""
  gpu.dispatch (B: !gpu.global<[N], i64>) -> (C: !gpu.global<[N], i64>) {
    gpu.launch @k align [8, 8] grid [1]
  }""",
    )


def shared(module: ModuleOp) -> list[tuple[int, int | None]]:
    return [
        (op.count, None if op.multiple is None else op.multiple.value.data)
        for op in find(module, hw.PhiloxOp)
    ]


LOADED = "gpu.load_global %B[%low : index] : !gpu.global<[N], i64> -> i64"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (loop(), [(8, 4)]),
        (loop(at=NESTED), [(8, 4)]),
        (loop(base="6"), [(8, 2)]),
        (loop(base=LOADED), [(8, 1)]),
        (loop(place="%m = arith.muli %base, %base : i64\n %p = arith.addi %w, %m : i64"), [(8, 4)]),
        # Every other place, a place times a number, and a seed of its own: each is alone.
        (loop(at=EVERY_OTHER), [(1, None)]),
        (loop(base="3", place="%p = arith.muli %w, %base : i64"), [(1, None)]),
        (loop(seed="%w"), [(1, None)]),
        (loop(place="%p = arith.xori %w, %base : i64"), [(1, None)]),
    ],
)
def test_neighbours_of_one_seed_share(text: str, found: list[tuple[int, int | None]]) -> None:
    assert shared(run(text, PASS)) == found


@pytest.mark.parametrize("base", [0, 6, 2**34 - 3, 2**63 + 5, 2**64 - 9, 2**64 - 10])
@pytest.mark.parametrize("known", [True, False])
def test_they_are_what_each_would_have(base: int, known: bool) -> None:
    """Across a wrap of 64 bits too; of a place that is known to be even, or not known."""
    signed = (base + 2**63) % 2**64 - 2**63
    text = loop(base=str(base) if known and signed >= 0 else LOADED)
    made = only(run(text, PASS), gpu.ModuleOp)
    result = simulate(made, [np.full(256, signed, np.int64)], {"N": 256}, "k")
    result.check()
    places = np.asarray([(base + i) % 2**64 for i in range(256)], np.uint64)
    wanted = pair(places, np.asarray(SEED, np.uint64)).view(np.int64)
    np.testing.assert_array_equal(result.outputs[0], wanted)
