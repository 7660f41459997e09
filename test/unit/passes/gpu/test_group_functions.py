"""``gpu-group-functions``: functions that branch are one of a vector, where nothing is between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith, math, memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, kernel, run, unchanged
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of

PASS = "gpu-group-functions"
HELD = "memref<{count}xf32, #gpu<space register>>"
SINE = "%y = math.sin %x : f32"


def loop(body: str = SINE, count: int = 16, unroll: str = "{unroll}", place: str = "%r") -> str:
    """A kernel with a loop that has a function of each register, and stores it at ``place``."""
    held = HELD.format(count=count)
    return kernel(
        f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %one = arith.constant 1.0 : f32
    %third = arith.constant 0.3 : f32
    %count = arith.constant {count} : index
    %acc = memref.alloca() : {held}
    scf.for %r = %c0 to %count step %c1 {{
      %x = memref.load %acc[%r] : {held}
      {body}
      memref.store %y, %acc[{place}] : {held}
    }} {unroll}
    %end = memref.load %acc[%c0] : {held}
    gpu.store_shared %end, %s : f32""",
        "%A: !gpu.global<[M], f32> = tensor 0, %s: i32 = symbol N",
    )


def lengths(module: ModuleOp, kind: type[Operation] = math.SinOp) -> list[str]:
    return [str(op.results[0].type) for op in find(module, kind)]


@pytest.mark.parametrize(("count", "wanted"), [(16, "8"), (12, "6"), (4, "4"), (20, "5"), (8, "8")])
def test_turns_are_taken_together(count: int, wanted: str) -> None:
    """As many as eight elements have, of those that divide the loop."""
    module = run(loop(count=count), PASS)
    assert lengths(module) == [f"vector<{wanted}xf32>"]
    # Every sum is read before one is written, and all are written.
    assert len(find(module, memref.LoadOp)) == int(wanted) + 1
    assert len(find(module, memref.StoreOp)) == int(wanted)
    unchanged(str(module), PASS)


def test_functions_of_functions_are_groups_after_each_other() -> None:
    chain = "%w = math.cos %x : f32\n%z = math.sin %w : f32\n%y = arith.divf %one, %z : f32"
    module = run(loop(chain), PASS)
    assert lengths(module) == lengths(module, math.CosOp) == ["vector<8xf32>"]
    (inverse,) = find(module, arith.DivfOp)
    ones = inverse.lhs.owner
    assert isinstance(ones, hw.PackOp) and len(set(ones.values)) == 1


STAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "a function with one way": ("%y = math.exp %x : f32", {}),
    "a division by a number that is known": ("%y = arith.divf %x, %third : f32", {}),
    "a loop that is not unrolled": (SINE, {"unroll": ""}),
    "too few": (SINE, {"count": 3}),
    "a prime number of turns": (SINE, {"count": 13}),
}


@pytest.mark.parametrize(("body", "around"), STAYS.values(), ids=STAYS)
def test_others_stay(body: str, around: dict[str, Any]) -> None:
    unchanged(loop(body, **around), PASS)


APART: dict[str, tuple[str, str]] = {
    "a turn reads what the one before has stored": (
        f"{SINE}\n%p = affine.apply affine_map<(d) -> (d + 1)>(%r)",
        "%p",
    ),
    "threads meet": (f"{SINE}\ngpu.barrier", "%r"),
    "a tensor that is written is read": (
        "%i = arith.index_cast %r : index to i64\n"
        "%z = gpu.load_global %A[%i : i64] : !gpu.global<[M], f32> -> f32\n"
        "%w = arith.addf %x, %z : f32\n%y = math.sin %w : f32\n"
        "gpu.store_global %y, %A[%i : i64] : f32, !gpu.global<[M], f32>",
        "%r",
    ),
}


@pytest.mark.parametrize(("body", "place"), APART.values(), ids=APART)
def test_what_is_in_between_keeps_functions_apart(body: str, place: str) -> None:
    assert set(lengths(run(loop(body, place=place), PASS))) == {"f32"}


# Programs ------------------------------------------------------------------------------------

Made = Callable[[Sketch, SSAValue], SSAValue]


def waves(s: Sketch, y: SSAValue) -> SSAValue:
    return s.fn("mul", s.fn("cos", y), s.fn("sin", s.fn("add", y, s.input("b", "N"))))


def quotients(s: Sketch, y: SSAValue) -> SSAValue:
    return s.fn("div", s.fn("sin", y), s.fn("add", s.fn("exp", y), s.input("r", "M", "N")))


def inverse(s: Sketch, y: SSAValue) -> SSAValue:
    return s.fn("reciprocal", s.fn("exp", s.fn("add", y, s.input("b", "N"))))


def program(made: Made, product: bool) -> ModuleOp:
    s = Sketch("g")
    first = s.input("x", "M", "K" if product else "N")
    return s.done(out=made(s, s.gemm(first, s.input("w", "K", "N")) if product else first))


SIZES = {"M": 70, "N": 136, "K": 40}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("made", "arch", "product"),
    [
        (waves, "sm_90a", True),
        (quotients, "sm_90a", False),
        (quotients, "sm_80", True),
        (inverse, "sm_90a", True),
        (waves, "sm_80", False),
    ],
)
def test_kernels_compute_the_same(made: Made, arch: str, product: bool) -> None:
    """With tails and races; their code compiles with no spill."""
    module = program(made, product)
    inputs, wanted = wanted_of(module, SIZES)
    kernels = finished(gpu_module_of(lowered(module, arch, "tiles")))
    assert any("vector" in str(op.results[0].type) for op in _branching(kernels))
    found = simulate(kernels, inputs, SIZES, schedule="random")
    found.check()
    assert_agree(found.outputs, wanted, made.__name__)
    result = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert all(k.spill_bytes == 0 for k in result.kernels.values())


def _branching(scope: Operation) -> list[Operation]:
    kinds = (arith.DivfOp, math.SinOp, math.CosOp)
    return [op for op in scope.walk() if isinstance(op, kinds)]
