"""Printed ops on the GPU against NumPy: arithmetic, rounding, vectors, index arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyc.bench.function_errors import KERNEL
from polyc.playback.functions import erf, erfc
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]
F32, BF16 = np.float32, ml_dtypes.bfloat16
COUNT = 1024
ULP = 2.0**-23
"""An ulp of the numbers just above a power of two, the largest part of a number that one is."""


def in_f64(name: str) -> Callable[[Array, Array], Array]:
    """NumPy's function of ``math.name``, in f64."""
    function = getattr(np, name.replace("a", "arc", 1) if name.startswith("a") else name)
    return lambda x, y: function(x.astype(np.float64))


FLOATS: dict[str, tuple[str, Callable[[Array, Array], Array], float]] = {
    "add": ("arith.addf %x, %y", np.add, 0),
    "sub": ("arith.subf %x, %y", np.subtract, 0),
    "mul": ("arith.mulf %x, %y", np.multiply, 0),
    "div": ("arith.divf %x, %y", np.divide, 0),
    "reciprocal": ("arith.divf %one, %x fastmath<afn>", lambda x, y: 1 / x.astype(float), 2e-7),
    "neg": ("arith.negf %x", lambda x, y: -x, 0),
    "maximum": ("arith.maximumf %x, %y", np.maximum, 0),
    "minimum": ("arith.minimumf %x, %y", np.minimum, 0),
    "maxnum": ("arith.maxnumf %x, %y", np.fmax, 0),
    "minnum": ("arith.minnumf %x, %y", np.fmin, 0),
    "abs": ("math.absf %x", lambda x, y: np.abs(x), 0),
    "floor": ("math.floor %x", lambda x, y: np.floor(x), 0),
    "ceil": ("math.ceil %x", lambda x, y: np.ceil(x), 0),
    "roundeven": ("math.roundeven %x", lambda x, y: np.rint(x), 0),
    "sqrt": ("math.sqrt %x", lambda x, y: np.sqrt(x), 0),
    "exp": ("math.exp %x", lambda x, y: np.exp(x.astype(np.float64)), 1e-6),
    "exp2": ("math.exp2 %x", lambda x, y: np.exp2(x.astype(np.float64)), 1e-6),
    "log": ("math.log %x", lambda x, y: np.log(x.astype(np.float64)), 1e-6),
    "log2": ("math.log2 %x", lambda x, y: np.log2(x.astype(np.float64)), 1e-6),
    "rsqrt": ("math.rsqrt %x", lambda x, y: 1 / np.sqrt(x.astype(np.float64)), 1e-6),
    "tanh": ("math.tanh %x", lambda x, y: np.tanh(x.astype(np.float64)), 1e-6),
    "erf": ("math.erf %x", lambda x, y: erf(x).astype(np.float64), 3e-7),
    "trunc": ("math.trunc %x", lambda x, y: np.trunc(x), 0),
    "erfc": ("gpu.erfc %x", lambda x, y: erfc(x).astype(np.float64), KERNEL["erfc"][0] * ULP),
    "fmod": ("gpu.fmod %x, %y", np.fmod, 0),
    "atan2": (
        "math.atan2 %x, %y",
        lambda x, y: np.arctan2(x.astype(np.float64), y.astype(np.float64)),
        KERNEL["atan2"][0] * ULP,
    ),
    **{
        name: (f"math.{name} %x", in_f64(name), KERNEL[name][0] * ULP)
        for name in (
            *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh"),
            *("expm1", "log10", "log1p", "sin", "sinh", "tan"),
        )
    },
}
"""Name to the op, NumPy's function of (x, y), and the relative error allowed (0: exact)."""

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "oeq": lambda x, y: x == y,
    "ogt": lambda x, y: x > y,
    "oge": lambda x, y: x >= y,
    "olt": lambda x, y: x < y,
    "ole": lambda x, y: x <= y,
    "one": lambda x, y: (x < y) | (x > y),
    "ord": lambda x, y: ~(np.isnan(x) | np.isnan(y)),
    "ueq": lambda x, y: ~((x < y) | (x > y)),
    "ugt": lambda x, y: ~(x <= y),
    "uge": lambda x, y: ~(x < y),
    "ult": lambda x, y: ~(x >= y),
    "ule": lambda x, y: ~(x > y),
    "une": lambda x, y: x != y,
    "uno": lambda x, y: np.isnan(x) | np.isnan(y),
}

INTEGERS: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "floordiv 32": ("affine.apply affine_map<(d0) -> (d0 floordiv 32)>(%i)", lambda i: i // 32),
    "mod 32": ("affine.apply affine_map<(d0) -> (d0 mod 32)>(%i)", lambda i: i % 32),
    "ceildiv 32": ("affine.apply affine_map<(d0) -> (d0 ceildiv 32)>(%i)", lambda i: -(-i // 32)),
    "floordiv 7": ("affine.apply affine_map<(d0) -> (d0 floordiv 7)>(%i)", lambda i: i // 7),
    "mod 7": ("affine.apply affine_map<(d0) -> (d0 mod 7)>(%i)", lambda i: i % 7),
    "ceildiv 7": ("affine.apply affine_map<(d0) -> (d0 ceildiv 7)>(%i)", lambda i: -(-i // 7)),
    "divui": ("arith.divui %i, %seven : index", lambda i: i.astype(np.uint32) // 7),
    "remui": ("arith.remui %i, %seven : index", lambda i: i.astype(np.uint32) % 7),
    "divsi": ("arith.divsi %i, %seven : index", lambda i: np.trunc(i / 7)),
    "remsi": ("arith.remsi %i, %seven : index", lambda i: np.fmod(i, 7)),
    "shrsi": ("arith.shrsi %i, %seven : index", lambda i: i >> 7),
    "shrui": ("arith.shrui %i, %seven : index", lambda i: i.astype(np.uint32) >> 7),
    "minui": ("arith.minui %i, %seven : index", lambda i: np.minimum(i.astype(np.uint32), 7)),
    "maxsi": ("arith.maxsi %i, %seven : index", lambda i: np.maximum(i, 7)),
}


def module_text() -> str:
    """One kernel: a thread writes row after row of each output's column of its own."""
    lines: list[str] = []

    def put(value: str, tensor: str, row: int, kind: str) -> None:
        # The runtime's tensors hold floats; integers travel as their bits.
        if kind == "i32":
            lines.append(f"%b{len(lines)} = arith.bitcast {value} : i32 to f32")
            value = lines[-1].split()[0]
        lines.append(f"%r{len(lines)} = arith.constant {row} : i64")
        base = lines[-1].split()[0]
        lines.append(f"%p{len(lines)} = arith.muli {base}, %n : i64")
        start = lines[-1].split()[0]
        lines.append(f"%p{len(lines)} = arith.addi {start}, %at : i64")
        place = lines[-1].split()[0]
        lines.append(
            f"gpu.store_global {value}, {tensor}[{place} : i64] : f32, !gpu.global<[R, N], f32>"
        )

    for row, (op, _, _) in enumerate(FLOATS.values()):
        lines.append(f"%f{row} = {op} : f32")
        put(f"%f{row}", "%F", row, "f32")
    for row, predicate in enumerate(COMPARE):
        lines.append(f"%c{row} = arith.cmpf {predicate}, %x, %y : f32")
        lines.append(f"%e{row} = arith.extui %c{row} : i1 to i32")
        put(f"%e{row}", "%I", row, "i32")
    for row, (op, _) in enumerate(INTEGERS.values(), len(COMPARE)):
        lines.append(f"%i{row} = {op}")
        lines.append(f"%j{row} = arith.index_cast %i{row} : index to i32")
        put(f"%j{row}", "%I", row, "i32")
    body = "\n    ".join(lines)
    return f"""gpu.module @ops arch "sm_80" symbols [N, R] {{
  gpu.kernel @ops_each(%X: !gpu.global<[N], f32> = tensor 0, %Y: !gpu.global<[N], f32> = tensor 1,
      %J: !gpu.global<[N], f32> = tensor 2, %F: !gpu.global<[R, N], f32> = tensor 3,
      %I: !gpu.global<[R, N], f32> = tensor 4, %N: index = symbol N) threads 128 {{
    %thread = gpu.thread_id
    %block = gpu.block_id
    %at32 = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 128)>(%thread, %block)
    %seven = arith.constant 7 : index
    %at = arith.index_cast %at32 : index to i64
    %n = arith.index_cast %N : index to i64
    %x = gpu.load_global %X[%at : i64] : !gpu.global<[N], f32> -> f32
    %y = gpu.load_global %Y[%at : i64] : !gpu.global<[N], f32> -> f32
    %j = gpu.load_global %J[%at : i64] : !gpu.global<[N], f32> -> f32
    %k = arith.bitcast %j : f32 to i32
    %i = arith.index_cast %k : i32 to index
    %one = arith.constant 1.0 : f32
    {body}
    gpu.return
  }}
  gpu.dispatch (X: !gpu.global<[N], f32>, Y: !gpu.global<[N], f32>, J: !gpu.global<[N], f32>)
      -> (F: !gpu.global<[R, N], f32>, I: !gpu.global<[R, N], f32>) {{
    gpu.launch @ops_each align [4, 4, 4, 4, 4] grid [N floordiv 128]
  }}
}}"""


def vectors_text(element: str) -> str:
    """Round 8 floats to ``element`` and store them in reverse order, as vectors."""
    unpack = "\n".join(
        f"    %e{i} = gpu.unpack %v element {i} : vector<8x{element}> -> {element}"
        for i in range(8)
    )
    packed = ", ".join(f"%e{7 - i}" for i in range(8))
    out = f"!gpu.global<[N], {element}, align 16>"
    return f"""gpu.module @vectors arch "sm_80" symbols [N] {{
  gpu.kernel @reverse_{element}(%X: !gpu.global<[N], f32, align 16> = tensor 0,
      %H: {out} = tensor 1, %N: index = symbol N) threads 128 {{
    %thread = gpu.thread_id
    %at = affine.apply affine_map<(d0) -> (d0 * 8)>(%thread)
    %next = affine.apply affine_map<(d0) -> (d0 * 8 + 4)>(%thread)
    %in = arith.cmpi slt, %at, %N : index
    %a = gpu.load_global %X[%at : index] if %in : !gpu.global<[N], f32, align 16> -> vector<4xf32>
    %b = gpu.load_global %X[%next : index] if %in : !gpu.global<[N], f32, align 16> -> vector<4xf32>
    %low = arith.truncf %a : vector<4xf32> to vector<4x{element}>
    %exact = arith.extf %low : vector<4x{element}> to vector<4xf32>
{lanes("exact", "a")}
{lanes("b", "b")}
    %f = gpu.pack %a0, %a1, %a2, %a3, %b0, %b1, %b2, %b3 : {", ".join(["f32"] * 8)} -> vector<8xf32>
    %v = arith.truncf %f : vector<8xf32> to vector<8x{element}>
{unpack}
    %w = gpu.pack {packed} : {", ".join([element] * 8)} -> vector<8x{element}>
    gpu.store_global %w, %H[%at : index] if %in : vector<8x{element}>, {out}
    gpu.return
  }}
  gpu.dispatch (X: !gpu.global<[N], f32, align 16>) -> (H: {out}) {{
    gpu.launch @reverse_{element} align [16, 16] grid [1]
  }}
}}"""


def lanes(vector: str, name: str) -> str:
    return "\n".join(
        f"    %{name}{i} = gpu.unpack %{vector} element {i} : vector<4xf32> -> f32"
        for i in range(4)
    )


def program(text: str) -> Program:
    return Program.compile(parse_text(make_context(), text, "ops.mlir"))


def sample(seed: int) -> Array:
    """Floats of every size, with the special ones against each other."""
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(COUNT) * np.exp2(rng.integers(-30, 30, COUNT))).astype(F32)
    x[::5] = rng.integers(-9, 10, len(x[::5])).astype(F32) / F32(2)
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 65520.0], F32)
    grid = np.repeat(special, 8) if seed else np.tile(special, 8)
    x[: len(grid)] = grid
    x[len(grid) : len(grid) + 3] = [3e38, -1e30, 2.0**100]  # angles that f32 holds few bits of
    return x


@pytest.fixture(scope="module")
def results() -> dict[str, Array]:
    x, y = sample(0), sample(1)
    i = np.random.default_rng(2).integers(-5000, 5000, COUNT).astype(np.int32)
    i[:4] = [0, -1, -(2**31) + 200, 2**31 - 1]
    rows = max(len(FLOATS), len(COMPARE) + len(INTEGERS))
    f, n = np.zeros((rows, COUNT), F32), np.zeros((rows, COUNT), np.int32)
    program(module_text()).run([x, y, i.view(F32)], out=[f, n.view(F32)])
    return {"x": x, "y": y, "i": i, "f": f, "n": n}


@pytest.mark.parametrize("name", FLOATS)
def test_float_op(name: str, results: dict[str, Array]) -> None:
    _, function, error = FLOATS[name]
    with np.errstate(all="ignore"):
        want = np.asarray(function(results["x"], results["y"]))
        rounded = want.astype(F32)
    found = results["f"][list(FLOATS).index(name)]
    good = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    if error:
        with np.errstate(all="ignore"):
            good |= np.abs(found - want) <= error * np.abs(want) + 1e-37
    wrong = np.flatnonzero(~good)
    assert len(wrong) == 0, (results["x"][wrong[0]], results["y"][wrong[0]], found[wrong[0]])


@pytest.mark.parametrize("name", COMPARE)
def test_comparison(name: str, results: dict[str, Array]) -> None:
    found = results["n"][list(COMPARE).index(name)]
    np.testing.assert_array_equal(found, COMPARE[name](results["x"], results["y"]))


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_op(name: str, results: dict[str, Array]) -> None:
    found = results["n"][len(COMPARE) + list(INTEGERS).index(name)]
    want = INTEGERS[name][1](results["i"].astype(np.int64 if "ui" not in name else np.int32))
    np.testing.assert_array_equal(found, np.asarray(want).astype(np.int32))


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_vectors(element: str) -> None:
    kind: Any = np.dtype(np.float16 if element == "f16" else BF16)
    x = sample(0)[:1000]
    (found,) = program(vectors_text(element)).run([x])
    with np.errstate(over="ignore"):
        want = x.astype(kind).reshape(-1, 8)[:, ::-1].reshape(-1)
    got = np.asarray(found).astype(F32)
    np.testing.assert_array_equal(got, want.astype(F32))
