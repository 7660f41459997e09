"""``gpu-roll-maps``: long loops over registers become parts, after each of which registers move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from polyc.dialects.gpu.loops import is_unrolled
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.passes.gpu.roll_maps import LEAST, LONG, SHORT, instructions
from polyc.passes.support.gpu.symbols import constant_of
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, kernel, run, unchanged
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of

PASS = "gpu-roll-maps"
REGISTERS = "memref<{count}x{element}, #gpu<space register>>"

CHAIN = "\n".join(f"%e{i} = math.exp %e{i - 1} : f32" for i in range(1, 7))
"""Six functions of a number ``%e0``: of 128 it is long enough."""


def loop(
    body: str,
    *,
    count: int = 128,
    out: str = "f32",
    before: str = "",
    after: str = "",
    unroll: str = "{unroll}",
) -> str:
    """A kernel with a loop over registers ``%acc`` and ``%out``."""
    held, made = (REGISTERS.format(count=count, element=e) for e in ("f32", out))
    return kernel(
        f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %count = arith.constant {count} : index
    %acc = memref.alloca() : {held}
    %out = memref.alloca() : {made}
    {before}
    scf.for %r = %c0 to %count step %c1 {{
      {body}
    }} {unroll}
    {after}
    %end = memref.load %out[%c0] : {made}
    gpu.store_shared %end, %s : {out}""",
        "%s: i32 = symbol N",
    )


HELD = REGISTERS.format(count=128, element="f32")
LOAD = f"%e0 = memref.load %acc[%r] : {HELD}"
STORE = f"memref.store %e6, %out[%r] : {HELD}"


def test_a_long_loop_is_rolled() -> None:
    module = run(loop(f"{LOAD}\n{CHAIN}\n{STORE}"), PASS)
    outer, inner, *moves = find(module, scf.ForOp)
    assert not is_unrolled(outer) and all(is_unrolled(one) for one in (inner, *moves))
    code = sum(instructions(op) for op in inner.body.block.ops)
    turns = [(constant_of(one.ub) or 0) for one in (outer, inner)]
    assert turns[0] * turns[1] == 128 and turns[1] >= LEAST and code * turns[1] <= SHORT
    assert len(moves) == 3 and code * 128 > LONG
    # The results take the places of what was loaded.
    acc, out, *aside = (op.results[0] for op in find(module, memref.AllocaOp))
    assert acc.uses and not out.uses and len(aside) == 1


STAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "a short one": (f"{LOAD}\n%e6 = math.exp %e0 : f32\n{STORE}", {}),
    "one that is not unrolled": (f"{LOAD}\n{CHAIN}\n{STORE}", {"unroll": ""}),
    "what is read again": (
        f"{LOAD}\n{CHAIN}\n{STORE}",
        {"after": f"%z = memref.load %acc[%c1] : {HELD}\ngpu.store_shared %z, %s : f32"},
    ),
    "places that turn round": (
        "%p = affine.apply affine_map<(d) -> (127 - d)>(%r)\n"
        f"%e0 = memref.load %acc[%p] : {HELD}\n{CHAIN}\n{STORE}",
        {},
    ),
    "places that something else is part of": (
        "%t = gpu.thread_id\n%p = affine.apply affine_map<(d)[s] -> (d + s)>(%r)[%t]\n"
        f"%e0 = memref.load %acc[%p] : {HELD}\n{CHAIN}\n{STORE}",
        {},
    ),
    "a branch": (
        f"{LOAD}\n{CHAIN}\n%b = arith.cmpi eq, %r, %c1 : index\nscf.if %b {{ {STORE} }}",
        {},
    ),
    "an output that is nobody's": (
        f"{LOAD}\n{CHAIN}\n{STORE}\nmemref.store %e5, %other[%r] : {HELD}",
        {"before": f"%other = memref.alloca() : {HELD}"},
    ),
}


@pytest.mark.parametrize(("body", "around"), STAYS.values(), ids=STAYS)
def test_others_stay(body: str, around: dict[str, Any]) -> None:
    unchanged(loop(body, **around), PASS)


# Programs ------------------------------------------------------------------------------------


Made = Callable[[Sketch, SSAValue], SSAValue]


def twice(s: Sketch, y: SSAValue) -> SSAValue:
    return s.fn("mish", s.fn("mish", y))


def biased(s: Sketch, y: SSAValue) -> SSAValue:
    y = s.fn("add", y, s.input("b", "N"))
    return s.fn("softplus", s.fn("sigmoid", s.fn("softplus", s.fn("erf", y))))


def beside(s: Sketch, y: SSAValue) -> SSAValue:
    """A tensor of the output's shape is read."""
    return s.fn("mul", twice(s, y), s.fn("exp", s.input("r", "M", "N")))


def program(made: Made) -> ModuleOp:
    s = Sketch("g")
    return s.done(out=made(s, s.gemm(s.input("x", "M", "K"), s.input("w", "K", "N"))))


SIZES = {"M": 70, "N": 136, "K": 40}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("made", "arch"), [(twice, "sm_80"), (biased, "sm_90a"), (beside, "sm_90a")]
)
def test_kernels_compute_the_same(made: Made, arch: str) -> None:
    """With tails and races; their code compiles with no spill, and no array is in memory."""
    module = program(made)
    inputs, wanted = wanted_of(module, SIZES)
    kernels = finished(gpu_module_of(lowered(module, arch, "tiles")))
    rolled = [op for op in find(kernels, scf.ForOp) if not is_unrolled(op) and _holds_moves(op)]
    assert rolled
    found = simulate(kernels, inputs, SIZES, schedule="random")
    found.check()
    assert_agree(found.outputs, wanted, made.__name__)
    result = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert all((k.spill_bytes, k.stack) == (0, 0) for k in result.kernels.values())


def _holds_moves(op: scf.ForOp) -> bool:
    """Whether a loop moves registers after its part."""
    inner = [one for one in op.body.block.ops if isinstance(one, scf.ForOp)]
    return len(inner) >= 4 and all(map(is_unrolled, inner))
