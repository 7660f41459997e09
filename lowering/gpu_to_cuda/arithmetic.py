"""The printer's device functions for upstream's arithmetic: conversions and what C lacks."""

from __future__ import annotations

from collections.abc import Sequence

from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, define, device_function

_F = '"=f"(r)'

_ONE_HALF = """{{
.reg .b32 pair;
.reg .b16 high;
cvt.rn.{0}x2.f32 pair, %1, %2;
mov.b32 {{%0, high}}, pair;
}}"""
"""Rounds one f32.  The scalar ``cvt.rn.f16.f32`` is the same machine instruction, but on a
wgmma accumulator it makes ptxas 13 serialise the loop before it (C7514)."""


def _pure(result: str, code: str, outs: str, ins: str) -> str:
    """A body that defines ``r`` by an asm statement without side effects."""
    return f"{result} r;\n{asm(code, outs, ins, volatile=False, memory=False)}\nreturn r;"


def _conversions() -> list[DeviceFunction]:
    found = [
        device_function(
            "float f16_to_f32(f16 x)", _pure("float", "cvt.f32.f16 %0, %1;", _F, '"h"(x)')
        ),
        device_function("float bf16_to_f32(bf16 x)", "return __uint_as_float((u32)x << 16);"),
    ]
    for t in ("f16", "bf16"):
        one = _pure(t, _ONE_HALF.format(t), '"=h"(r)', '"f"(0.0f), "f"(x)')
        two = _pure("u32", f"cvt.rn.{t}x2.f32 %0, %1, %2;", '"=r"(r)', '"f"(high), "f"(low)')
        found.append(device_function(f"{t} f32_to_{t}(float x)", one))
        found.append(device_function(f"u32 f32_to_{t}x2(float low, float high)", two))
    return found


_QUOTIENT = """float quotient = (a == 0.0f ? 0x1p-30f : a) / b;
return a == 0.0f ? a * quotient : quotient;"""
"""``a / b``, the same bits for every ``a`` and ``b``, without a numerator of 0.

Where one lane divides 0, as what a softmax masks or pads its rows with, ``div.rn.f32`` leaves its
short way, and the warp waits for a subroutine.  2**-30 stands in for 0: over every ``b`` but 0 and
NaN its quotient is finite (2**119 over the least denormal) and has the sign of ``b``, so that 0
times it is the 0 that 0 / b is.  Over 0 it is infinite and over NaN it is NaN, and 0 times these is
NaN, as 0 / b is.
"""

_PART = """float inverse = 1.0f / b, near = a * inverse, rest = fmaf(-near, b, a);
return fabsf(rest) > 0.0f ? fmaf(rest, inverse, near) : near;"""
"""``a / b`` for a whole ``b`` that is known: the compiler has its inverse, and no way is longer.

``div.rn.f32`` asks of each numerator whether its short way is exact, and branches around the long
one, so that nothing goes on beside it.  With n bits of a whole ``b`` below 2**22 ``rest`` is exact,
and a quotient is farther from the middle of two f32 than the error of ``rest * inverse`` is, but
where it is subnormal and that middle itself: of the two, which are equally near, it may be either
(P. Markstein, IA-64 and Elementary Functions, 2000, chapter 8).  Of what is infinite or NaN
``rest`` is NaN; where it is 0, ``near`` has the sign of a 0 too.
"""


ERF_NEAR = (
    0.12837912142276764,
    -0.37612324953079224,
    0.11280179768800735,
    -0.026711303740739822,
    0.004917541518807411,
    -0.0005631374660879374,
)
"""``erf(x) / x - 1`` for ``|x| <= 1``, as a polynomial of ``x * x``, lowest power first."""

ERF_FAR = (
    -0.003778644371777773,
    -1.612386703491211,
    -0.9438687562942505,
    -0.12811098992824554,
    0.021397849544882774,
    -0.0016695193480700254,
)
"""``log2(1 - erf(x))`` for ``x > 1``, as a polynomial of ``x``; it falls to -inf."""


def _polynomial(name: str, of: str, factors: Sequence[float]) -> str:
    """C that defines ``name`` by a polynomial, each step of it one rounding."""
    first, *rest = reversed(factors)
    steps = [f"{name} = fmaf({name}, {of}, {factor!r}f);" for factor in rest]
    return "\n".join([f"float {name} = {first!r}f;", *steps])


_ERF_END = """{
.reg .pred far;
.reg .f32 rest;
ex2.approx.ftz.f32 rest, %2;
sub.rn.f32 rest, 0f3F800000, rest;
copysign.f32 rest, %4, rest;
setp.gt.f32 far, %3, 0f3F800000;
selp.f32 %0, rest, %1, far;
}"""
"""The error function of what its two ways have; in C, the choice would become a branch."""


def _erf() -> str:
    """The body of the error function: both of its ways, and a choice, with no branch.

    Near 0 it is ``x`` and a part of ``x``, so that what is small is as near as what is not; further
    out it is 1 less an exponential.  With u = 2**-24 it is within 2.3 u of the true value, of that,
    over all ``x``, where ``ex2.approx`` is off by 2**-22 of itself at most.  The polynomials have
    the least relative error.  16 instructions; CUDA's own takes 25.
    """
    near, far = _polynomial("near", "square", ERF_NEAR), _polynomial("far", "size", ERF_FAR)
    ins = '"f"(fmaf(near, x, x)), "f"(far), "f"(size), "f"(x)'
    head = f"float size = fabsf(x), square = x * x;\n{near}\n{far}"
    return f"{head}\n{_pure('float', _ERF_END, _F, ins)}"


def _arithmetic() -> list[DeviceFunction]:
    found = [
        device_function(
            f"float {name}_nan(float a, float b)",
            _pure("float", f"{name}.NaN.f32 %0, %1, %2;", _F, '"f"(a), "f"(b)'),
        )
        for name in ("max", "min")
    ]
    found.append(device_function("float divide(float a, float b)", _QUOTIENT))
    found.append(device_function("float divide_by_whole(float a, float b)", _PART))
    found.append(
        device_function(
            "float exp2_approx(float x)",
            _pure("float", "ex2.approx.ftz.f32 %0, %1;", _F, '"f"(x)'),
        )
    )
    found.append(device_function("float error_function(float x)", _erf()))
    found.append(
        device_function(
            "float reciprocal_approx(float x)",
            _pure("float", "rcp.approx.f32 %0, %1;", _F, '"f"(x)'),
        )
    )
    for t in ("int", "i64"):
        suffix = "" if t == "int" else "_i64"
        found += [
            device_function(
                f"{t} floor_div{suffix}({t} a, {t} b)",
                f"{t} q = a / b, r = a % b;\nreturn q - (r != 0 && (r < 0) != (b < 0));",
            ),
            device_function(
                f"{t} ceil_div{suffix}({t} a, {t} b)",
                f"{t} q = a / b, r = a % b;\nreturn q + (r != 0 && (r < 0) == (b < 0));",
            ),
            device_function(
                f"{t} floor_mod{suffix}({t} a, {t} b)",
                f"{t} r = a % b;\nreturn r != 0 && (r < 0) != (b < 0) ? r + b : r;",
            ),
        ]
    return found


define(*_conversions(), *_arithmetic())
