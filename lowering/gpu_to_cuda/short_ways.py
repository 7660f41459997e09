"""The printer's device functions of functions that CUDA's own branch for: ways without branches.

CUDA's division, square root, sine and cosine ask of each number whether the short way is right for
it, and branch around the long one.  Nothing moves across such a branch: a warp waits for each step
of each element, and the long way stands in the code once an element.  Where a few instructions more
are right for every number, the function has one way.  Where not, functions ending in ``_each`` take
some independent elements at once: the short way of all, one question, and a loop of the long way
that a warp enters where an element asks for it.  The long way of a sine, a hundred instructions, is
a function that is called: 128 of it beside a product's sums were more code than a multiprocessor
keeps.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import math
from xdsl.ir import Operation

from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, define, device_function
from polyc.lowering.gpu_to_cuda.upstream import elementwise, require_f32
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, prints


def _approximate(result: str, instruction: str, operand: str) -> str:
    """A statement that sets ``result`` to a special function of the hardware."""
    code = f"{instruction}.approx.ftz.f32 %0, %1;"
    return asm(code, f'"=f"({result})', f'"f"({operand})', volatile=False, memory=False)


_INFINITE = "__uint_as_float(0x7f800000u)"

LOG1P = (
    -0.04534861445426941,
    0.10546888411045074,
    -0.13229703903198242,
    0.14491446316242218,
    -0.16641564667224884,
    0.199888676404953,
    -0.25000196695327759,
    0.33333510160446167,
    -0.5,
)
"""The lower coefficients of ``(log(1 + x) - x) / x**2`` on [-1/4, 1/2], highest power first, as
CUDA's ``log1pf`` has them."""


def _log1p() -> str:
    """``log1pf`` of CUDA, the same bits for every number, its choices without a branch.

    1 + x is 2**n (1 + part), with 1 + part in [3/4, 3/2); what is infinite, NaN or below -1 takes
    ``x * inf + inf``, and at -1 the polynomial of a huge part falls to -inf by itself.
    """
    first, *rest = LOG1P
    steps = "\n".join(f"sum = fmaf(part, sum, {number!r}f);" for number in rest)
    return f"""int bits = __float_as_int(x);
int power = (__float_as_int(__fadd_rz(x, 1.0f)) - 0x3f400000) & 0xff800000;
float scaled = fmaf(__int_as_float(0x40800000 - power), 0.25f, -1.0f);
float part = __int_as_float(bits - power) + scaled, logs = (float)power * 0x1p-23f;
float sum = {first!r}f;
{steps}
float y = fmaf(logs, 0.69314718246459961f, fmaf(part, part * sum, part));
float beyond = fmaf(x, {_INFINITE}, {_INFINITE});
y = ((u32)bits >= 0x7f800000u) & (bits > (int)0xbf800000u) ? beyond : y;
return x == 0.0f ? x : y;"""


def _square_root() -> str:
    """``sqrtf`` rounded correctly, the same bits for every number, without a branch.

    One step of Newton's from ``rsqrt.approx`` is right from 2**-101 on (CUDA's own short way); what
    is smaller is scaled by an even power of two, and no root is subnormal.  0 and infinity are
    their own roots.
    """
    return f"""bool is_low = x < 0x1p-100f;
float scaled = is_low ? x * 0x1p100f : x, inverse;
{_approximate("inverse", "rsqrt", "scaled")}
float near = scaled * inverse;
near = fmaf(fmaf(-near, near, scaled), 0.5f * inverse, near);
near = is_low ? near * 0x1p-50f : near;
return (x == 0.0f) | (x == {_INFINITE}) ? x : near;"""


def _each(
    name: str,
    operands: str,
    short: str,
    long: str,
    where: str = "",
    far: DeviceFunction | None = None,
) -> DeviceFunction:
    """A function of the elements of vectors ``operands``, which ``short`` calls ``x`` and ``y``.

    ``short`` sets ``r``, and ``is_short`` to whether it is right; or C of ``where`` says of the
    operands where it is, and what the long way is asked of then needs no registers beside the
    short ways.  ``long`` is C of the function for every number.  The elements of its loop are
    chosen, since registers have no index.
    """
    own = "xy"[: len(operands)]

    def each(form: str) -> str:
        return " ".join(form.format(o=o, v=v) for o, v in zip(own, operands, strict=True))

    given, flag = each("float {o} = {v}.v[i];"), "" if where else "  bool is_short;\n"
    inner = "\n".join(f"  {line}" for line in short.strip().splitlines())
    asked = f"""#pragma unroll
for (int i = 0; i < count; ++i) {{
  {given}
  all_short &= {where};
}}
"""
    ways = f"""#pragma unroll
for (int i = 0; i < count; ++i) {{
  {given}
  float r;
{flag}{inner}
{"" if where else "  all_short &= is_short;" + chr(10)}  found.v[i] = r;
}}
"""
    one = f"""  #pragma unroll 1
  for (int i = 0; i < count; ++i) {{
    {each("float {o} = {v}.v[0];")}
    #pragma unroll
    for (int j = 1; j < count; ++j) {{
      {each("{o} = i == j ? {v}.v[j] : {o};")}
    }}
    float r = {long};
    #pragma unroll
    for (int j = 0; j < count; ++j)
      {operands[0]}.v[j] = i == j ? r : {operands[0]}.v[j];
  }}
  found = {operands[0]};
"""
    if where:
        indented = "".join(f"  {line}\n" for line in ways.splitlines())
        ways = f"{asked}if (all_short) {{\n{indented}}} else {{\n{one}}}\n"
    else:
        ways = f"{ways}if (!all_short) {{\n{one}}}\n"
    head = "constexpr int count = sizeof(V) / sizeof(float);\nV found;\nbool all_short = true;\n"
    of = ", ".join(f"V {v}" for v in operands)
    body = f"{head}{ways}return found;"
    return device_function(
        f"V {name}({of})", body, template="typename V", calls=() if far is None else (far,)
    )


_DIVIDE = f"""{_approximate("r", "rcp", "y")}
bool is_zero = x == 0.0f, by_zero = y == 0.0f;
float inverse = by_zero ? r : fmaf(r, fmaf(-y, r, 1.0f), r), first = x * inverse;
float near = fmaf(fmaf(-first, y, x), inverse, first);
r = fmaf(fmaf(-near, y, x), inverse, near);
is_short = (fabsf(y) >= 0x1p-126f) & (fabsf(y) <= 0x1p126f) & (fabsf(r) <= 0x1p126f);
is_short &= is_zero | ((fabsf(x) >= 0x1p-100f) & (fabsf(r) >= 0x1p-125f));
is_short |= by_zero;
r = is_zero | by_zero ? first : r;"""
"""``x / y`` rounded correctly, as ``div.rn.f32`` begins (P. Markstein, IA-64 and Elementary
Functions, 2000, chapter 8): right where neither the inverse nor the quotient overflows or is
subnormal, and the rest that a quotient leaves is not either.  0 takes the first quotient, which has
its sign; so does what is divided by 0, as lanes beyond a tensor often do, by way of the infinite
``rcp.approx`` of that."""

_INVERT = f"""{_approximate("r", "rcp", "x")}
r = x == 0.0f ? r : fmaf(r, fmaf(-x, r, 1.0f), r);"""
"""``1 / x`` rounded correctly, where neither is subnormal; over 0 it is infinite."""

FAR = 105615
"""From this size on three parts of pi / 2 leave too little of x, as CUDA's own functions say."""

_TURN = """float shifted = __fadd_rn(__fmul_rn(x, 0.63661975f), 0x1.8p23f);
int quarter = __float_as_int(shifted);
float turns = shifted - 0x1.8p23f;
r = fmaf(turns, -1.5707962512969971f, x);
r = fmaf(turns, -7.5497894158615964e-08f, r);
r = fmaf(turns, -5.3903029534742384e-15f, r);
{start}bool is_odd = quarter & 1;
float square = r * r;
float sum = fmaf(square, 2.4279579520225525e-05f, -0.0013887860113754869f);
sum = is_odd ? sum : -0.00019574658654164523f;
sum = fmaf(square, sum, is_odd ? 0.041666727513074875f : 0.00833270326256752f);
sum = fmaf(square, sum, is_odd ? -0.49999997019767761f : -0.16666662693023682f);
r = is_odd ? 1.0f : r;
r = fmaf(sum, fmaf(r, square, 0.0f), r);
r = quarter & 2 ? fmaf(r, -1.0f, 0.0f) : r;"""
"""The sine of x, as CUDA's own ``sinf`` has it: the rest of quarters of a turn, and a polynomial of
a sine or a cosine; ``start`` moves by a quarter for the cosine.  A sum with 1.5 * 2**23 rounds to
the nearest even whole number as a conversion does, which takes a slower unit."""


def _turns() -> Iterator[DeviceFunction]:
    """Sines and cosines: of any number, of a number, and of each of some."""
    near = f"fabsf(x) < {FAR}.0f"
    for name, c, start in (("sine", "sinf", ""), ("cosine", "cosf", "quarter += 1;\n")):
        short = _TURN.format(start=start)
        far = device_function(f"float far_{name}(float x)", f"return {c}(x);", inline=False)
        one = f"float r;\n{short}\nif (!({near})) r = far_{name}(x);\nreturn r;"
        yield far
        yield device_function(f"float {name}_of(float x)", one, calls=(far,))
        yield _each(f"{name}_each", "a", short, f"far_{name}(x)", near, far)


def _functions() -> list[DeviceFunction]:
    normal = "(x == 0.0f) | ((fabsf(x) >= 0x1p-126f) & (fabsf(x) <= 0x1p126f))"
    return [
        device_function("float log_of_one_more(float x)", _log1p()),
        device_function("float square_root(float x)", _square_root()),
        _each("divide_each", "ab", _DIVIDE, "x / y"),
        _each("invert_each", "a", _INVERT, "1.0f / x", normal),
        *_turns(),
    ]


define(*_functions())


def _in_one_way(w: KernelWriter, op: Operation, function: str) -> None:
    require_f32(op)
    elementwise(w, op, lambda row: w.call(function, *row))


@prints(math.Log1pOp, "x")
def _print_log1p(w: KernelWriter, op: math.Log1pOp) -> None:
    _in_one_way(w, op, "log_of_one_more")


@prints(math.SqrtOp, "x")
def _print_sqrt(w: KernelWriter, op: math.SqrtOp) -> None:
    _in_one_way(w, op, "square_root")


def _of_each(w: KernelWriter, op: Operation, function: str) -> None:
    """Of a vector the short ways of all elements at once; of a number its own."""
    (operand,), (result,) = op.operands, op.results
    require_f32(op)
    many = w.type(result.type, op).is_vector
    w.define(result, w.call(f"{function}_{'each' if many else 'of'}", w.text(operand)))


@prints(math.SinOp, "x")
def _print_sin(w: KernelWriter, op: math.SinOp) -> None:
    _of_each(w, op, "sine")


@prints(math.CosOp, "x")
def _print_cos(w: KernelWriter, op: math.CosOp) -> None:
    _of_each(w, op, "cosine")
