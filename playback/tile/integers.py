"""Arithmetic of integers in the body of a map, on whole tiles at once.

Kernels have types without a sign: arrays are signed, and are seen without one where an op says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from polyc.dialects.gpu.hardware import CutOp, PhiloxOp, PowerOp
from polyc.playback.estimate import Estimate
from polyc.playback.functions import Array, as_array, binary, element_of, power_of_bits, round_to
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.philox import pair

SIGNED: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.DivSIOp: lambda a, b: binary("div", a, b),
    arith.RemSIOp: lambda a, b: binary("fmod", a, b),
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
}
"""Functions of two signed integers."""

UNSIGNED: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.MaxUIOp: np.maximum,
    arith.MinUIOp: np.minimum,
    arith.DivUIOp: lambda a, b: binary("div", a, b),
    arith.RemUIOp: lambda a, b: binary("fmod", a, b),
    arith.ShRUIOp: np.right_shift,
    PhiloxOp: pair,
    PowerOp: power_of_bits,
}
"""Functions of two integers without a sign."""

COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    np.equal,
    np.not_equal,
    *(np.less, np.less_equal, np.greater, np.greater_equal) * 2,
)
"""The relations of ``arith.cmpi``; the last four are without a sign."""

UNSIGNED_RELATIONS = 6
"""The number of the first of these."""


def is_integer_op(op: Operation) -> bool:
    """Whether an op computes with integers or conditions that are no places."""
    kinds = [value.type for value in (*op.operands, *op.results)]
    if any(isinstance(kind, IndexType) for kind in kinds):
        return isinstance(op, arith.IndexCastOp)
    return any(isinstance(kind, IntegerType) for kind in kinds) and _is_known(op)


def _is_known(op: Operation) -> bool:
    known = (arith.CmpiOp, arith.TruncIOp, arith.ExtSIOp, arith.ExtUIOp, *CONVERSIONS)
    return type(op) in SIGNED or type(op) in UNSIGNED or isinstance(op, known)


CONVERSIONS = (arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp, CutOp)
"""From integers to real numbers, and back."""


def _unsigned(x: Array) -> Array:
    return x if x.dtype == np.bool_ else x.view(np.dtype(f"u{x.dtype.itemsize}"))


def _signed(x: Array, kind: Attribute) -> Array:
    return x.view(dtype_of(kind)) if x.dtype.kind == "u" else x


def _typed(value: Any, kind: Attribute) -> Array:
    """An operand in its own type; places are counted in 64 bits, and sizes are Python's ints."""
    dtype = dtype_of(kind)
    if isinstance(value, int) and dtype.kind == "i":
        return np.asarray(value, np.int64).astype(dtype)
    found = as_array(value)
    return found if found.dtype == dtype else found.astype(dtype)


def evaluated(op: Operation, operands: Sequence[Any]) -> Array:
    """The result of an integer op."""
    target = op.results[0].type
    if isinstance(op, arith.IndexCastOp):
        return _typed(operands[0], target)
    args = [_typed(x, v.type) for x, v in zip(operands, op.operands, strict=True)]
    with np.errstate(all="ignore"):
        match op:
            case arith.CmpiOp():
                relation = op.predicate.value.data
                if relation >= UNSIGNED_RELATIONS:
                    args = [_unsigned(a) for a in args]
                return as_array(COMPARE[relation](*args))
            case arith.TruncIOp() if target == IntegerType(1):
                return as_array(np.bitwise_and(args[0], args[0].dtype.type(1)) != 0)
            case arith.TruncIOp() | arith.ExtSIOp() | arith.SIToFPOp():
                return args[0].astype(dtype_of(target))
            case arith.ExtUIOp() | arith.UIToFPOp():
                return _unsigned(args[0]).astype(dtype_of(target))
            case CutOp() if op.unsigned is not None:
                return _signed(_whole(args[0], np.dtype(np.uint32)), target)
            case arith.FPToSIOp() | CutOp():
                return _whole(args[0], dtype_of(target))
            case arith.FPToUIOp():
                without = np.dtype(f"u{dtype_of(target).itemsize}")
                return _signed(_whole(args[0], without), target)
            case _ if type(op) in UNSIGNED:
                return _signed(as_array(UNSIGNED[type(op)](*map(_unsigned, args))), target)
            case _:
                return as_array(SIGNED[type(op)](*args))


def _whole(x: Array, dtype: np.dtype[Any]) -> Array:
    if isinstance(x, Estimate):
        return x.astype(dtype)
    return round_to(x, element_of(dtype))
