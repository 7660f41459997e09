"""``gpu-load-ahead``: loads of turns come before what they compute, where that branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.passes.gpu.load_ahead import MOST
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, kernel, run, unchanged
from polyc.test.support.lowered import lowered
from polyc.test.support.plans import leave_widest
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of

PASS = "gpu-load-ahead"
HELD = "memref<{count}xf32, #gpu<space register>>"
PLACE = "%p = affine.apply affine_map<(d)[s] -> (d * 128 + s)>(%r)[%t]"
INDEX = "%i = arith.index_cast %p : index to i64"
LOAD = "%y = gpu.load_global %A[%i : i64] : !gpu.global<[M], f32> -> f32"
DIVIDE = "%d = arith.divf %y, %x : f32"
BODY = "\n".join([PLACE, INDEX, LOAD, DIVIDE])


def loop(body: str = BODY, count: int = 64, unroll: str = "{unroll}", inside: str = "") -> str:
    """A kernel with a loop over registers ``%acc``, which a result ``%d`` goes back to."""
    held = HELD.format(count=count)
    return kernel(
        f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %count = arith.constant {count} : index
    %t = gpu.thread_id
    %acc = memref.alloca() : {held}
    scf.for %r = %c0 to %count step %c1 {{
      %x = memref.load %acc[%r] : {held}
      {body}
      memref.store %d, %acc[%r] : {held}
      {inside}
    }} {unroll}
    %end = memref.load %acc[%c0] : {held}
    gpu.store_shared %end, %s : f32""",
        "%A: !gpu.global<[M], f32> = tensor 0, %s: i32 = symbol N",
    )


def loads_first(op: scf.ForOp) -> bool:
    """Whether a loop has a loop of loads alone, and one behind it that computes."""
    inner = [one for one in op.body.block.ops if isinstance(one, scf.ForOp)]
    return len(inner) == 2 and not functions(inner[0]) and not find(inner[1], hw.LoadGlobalOp)


def functions(scope: Operation) -> list[Operation]:
    return [op for op in scope.walk() if isinstance(op, arith.DivfOp | math.SinOp)]


def test_loads_of_turns_come_first() -> None:
    module = run(loop(), PASS)
    (outer, *_) = find(module, scf.ForOp)
    assert loads_first(outer) and len(find(module, hw.LoadGlobalOp)) == 1
    # What registers have room for is less than all.
    loads, _ = (op for op in outer.body.block.ops if isinstance(op, scf.ForOp))
    assert loads.ub is not outer.ub
    unchanged(str(module), PASS)


def test_few_turns_come_at_once() -> None:
    module = run(loop(count=MOST), PASS)
    first, second = find(module, scf.ForOp)
    assert find(first, hw.LoadGlobalOp) and functions(second) and not functions(first)


STAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "what does not branch": (BODY.replace("arith.divf", "arith.mulf"), {}),
    "a loop that is not unrolled": (BODY, {"unroll": ""}),
    "a tensor that is written": (
        BODY,
        {"inside": "gpu.store_global %x, %A[%i : i64] : f32, !gpu.global<[M], f32>"},
    ),
    "a place that follows from a sum": (
        "\n".join(
            [
                "%q = arith.fptosi %x : f32 to i32",
                "%h = arith.extsi %q : i32 to i64",
                "%w = arith.index_cast %t : index to i64",
                "%i = arith.addi %h, %w : i64",
                LOAD,
                DIVIDE,
            ]
        ),
        {},
    ),
    "a branch": (
        BODY,
        {"inside": "%b = arith.cmpi eq, %r, %c1 : index\nscf.if %b { gpu.barrier }"},
    ),
    "no registers that are left": (BODY, {"count": 224}),
}


@pytest.mark.parametrize(("body", "around"), STAYS.values(), ids=STAYS)
def test_others_stay(body: str, around: dict[str, Any]) -> None:
    unchanged(loop(body, **around), PASS)


# Programs ------------------------------------------------------------------------------------

Made = Callable[[Sketch, SSAValue], SSAValue]


def reciprocal(s: Sketch, y: SSAValue) -> SSAValue:
    y = s.fn("add", y, s.input("b", "N"))
    return s.fn("reciprocal", s.fn("add", s.fn("exp", y), s.input("r", "M", "N")))


def softsign(s: Sketch, y: SSAValue) -> SSAValue:
    return s.fn("softsign", s.fn("add", y, s.input("r", "M", "N")))


def program(made: Made, kind: Attribute = f16) -> ModuleOp:
    s = Sketch("g", kind)
    return s.done(out=made(s, s.gemm(s.input("x", "M", "K"), s.input("w", "K", "N"))))


SIZES = {"M": 70, "N": 136, "K": 40}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("made", "arch", "kind"),
    [
        (reciprocal, "sm_90a", f16),
        (softsign, "sm_90a", f16),
        (softsign, "sm_80", f16),
        (softsign, "sm_90a", f32),
        (reciprocal, "sm_80", f32),
    ],
)
def test_kernels_compute_the_same(made: Made, arch: str, kind: Attribute) -> None:
    """With tails and races; their code compiles with no spill, and no array is in memory."""
    module = program(made, kind)
    inputs, wanted = wanted_of(module, SIZES)
    kernels = finished(gpu_module_of(lowered(module, arch, "tiles", leave=leave_widest)))
    holding = [op.results[0].name_hint or "" for op in kernels.walk() if op.name == "memref.alloca"]
    assert any(hint.startswith("ahead") for hint in holding)
    found = simulate(kernels, inputs, SIZES, schedule="random")
    found.check()
    assert_agree(found.outputs, wanted, made.__name__)
    result = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert all((k.spill_bytes, k.stack) == (0, 0) for k in result.kernels.values())
