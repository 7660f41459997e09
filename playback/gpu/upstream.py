"""Translators of the upstream ops: arith, affine, scf, memref and vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import affine, arith, memref, scf, vector
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i1,
)
from xdsl.ir import Attribute, Block, Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.hardware import vector_length
from polyc.dialects.gpu.loops import is_unrolled
from polyc.playback.gpu import arithmetic
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.translator import TRACKED, TRANSLATORS, Translator, simulates

# Constants and arithmetic --------------------------------------------------------------


@simulates(arith.ConstantOp)
def _constant(t: Translator, op: arith.ConstantOp) -> None:
    value, dtype = cast(Attribute, op.value), dtype_of(op.result.type)
    match value:
        case IntegerAttr():
            number = int(value.value.data)
            t.define(op.result, str(bool(number)) if dtype == np.bool_ else str(number))
        case FloatAttr():
            t.define(op.result, t.object(dtype.type(value.value.data), "c"))
        case DenseIntOrFPElementsAttr():
            row = np.asarray(value.get_values(), dtype)
            count = vector_length(op.result.type)
            t.define(op.result, t.object(np.broadcast_to(row, (32, count)), "c"))
        case _:
            raise PolycError("NotSimulated", f"the simulator has no constant like {value}", op)


def _call(t: Translator, op: Operation, function: Any) -> None:
    t.define(op.results[0], f"{t.object(function, 'f')}({t.values(op.operands)})")


def _integer(t: Translator, op: Operation) -> None:
    function = arithmetic.integer(type(op), dtype_of(op.results[0].type))
    assert function is not None
    _call(t, op, function)


for _kind in (
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.ShLIOp,
    arith.ShRSIOp,
    arith.ShRUIOp,
    arith.MinSIOp,
    arith.MaxSIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
):
    TRANSLATORS[_kind] = _integer


def _division(t: Translator, op: Operation) -> None:
    function = t.object(arithmetic.division(type(op), dtype_of(op.results[0].type)), "f")
    zero = t.fresh()
    t.line(f"{t.name(op.results[0])}, {zero} = {function}({t.values(op.operands)})")
    t.line(f"if np.any({zero}): w.core.divided_by_zero({t.number(op)}, {zero}, {t.mask})")


for _kind in arithmetic.DIVISIONS:
    TRANSLATORS[_kind] = _division


def _float(t: Translator, op: Operation) -> None:
    _call(t, op, arithmetic.FLOAT[type(op)])


for _kind in arithmetic.FLOAT:
    TRANSLATORS[_kind] = _float


@simulates(arith.CmpiOp)
def _cmpi(t: Translator, op: arith.CmpiOp) -> None:
    _call(t, op, arithmetic.compare_integers(op.predicate.value.data, dtype_of(op.lhs.type)))


@simulates(arith.CmpfOp)
def _cmpf(t: Translator, op: arith.CmpfOp) -> None:
    _call(t, op, arithmetic.compare_floats(op.predicate.value.data))


@simulates(arith.SelectOp)
def _select(t: Translator, op: arith.SelectOp) -> None:
    kind: Attribute = op.result.type
    if kind != i1 and isinstance(kind, IntegerType):
        _call(t, op, arithmetic.select(dtype_of(op.result.type)))
    else:
        t.define(op.result, f"choose({t.values([op.cond, op.lhs, op.rhs])})")


def _cast(t: Translator, op: Operation) -> None:
    _call(t, op, arithmetic.cast(dtype_of(op.results[0].type)))


for _kind in (
    arith.IndexCastOp,
    arith.ExtSIOp,
    arith.SIToFPOp,
    arith.ExtFOp,
    arith.TruncFOp,
):
    TRANSLATORS[_kind] = _cast


@simulates(arith.ExtUIOp, arith.UIToFPOp)
def _cast_unsigned(t: Translator, op: Operation) -> None:
    source, target = dtype_of(op.operands[0].type), dtype_of(op.results[0].type)
    _call(t, op, arithmetic.cast_unsigned(source, target))


@simulates(arith.FPToSIOp, arith.FPToUIOp)
def _cut(t: Translator, op: arith.FPToSIOp | arith.FPToUIOp) -> None:
    _call(t, op, arithmetic.cut(dtype_of(op.result.type), isinstance(op, arith.FPToUIOp)))


@simulates(arith.TruncIOp)
def _truncate(t: Translator, op: arith.TruncIOp) -> None:
    _call(t, op, arithmetic.truncate(dtype_of(op.input.type), dtype_of(op.result.type)))


@simulates(arith.BitcastOp)
def _bitcast(t: Translator, op: arith.BitcastOp) -> None:
    _call(t, op, arithmetic.bitcast(dtype_of(op.input.type), dtype_of(op.result.type)))


def affine_text(expr: AffineExpr, dims: Sequence[str], symbols: Sequence[str]) -> str:
    """``expr`` in Python, whose floor division and modulo are those of affine maps."""
    match expr:
        case AffineConstantExpr(value):
            return f"({value})"
        case AffineDimExpr(position):
            return dims[position]
        case AffineSymExpr(position):
            return symbols[position]
        case AffineBinaryOpExpr(kind, lhs, rhs):
            a, b = affine_text(lhs, dims, symbols), affine_text(rhs, dims, symbols)
            match kind:
                case AffineBinaryOpKind.Add:
                    return f"({a} + {b})"
                case AffineBinaryOpKind.Mul:
                    return f"({a} * {b})"
                case AffineBinaryOpKind.FloorDiv:
                    return f"({a} // {b})"
                case AffineBinaryOpKind.Mod:
                    return f"({a} % {b})"
                case AffineBinaryOpKind.CeilDiv:
                    return f"(-(-{a} // {b}))"
        case _:
            raise AssertionError(expr)


@simulates(affine.ApplyOp)
def _apply(t: Translator, op: affine.ApplyOp) -> None:
    operands = [t.name(v) for v in op.mapOperands]
    map_ = op.map.data
    dims, symbols = operands[: map_.num_dims], operands[map_.num_dims :]
    t.define(op.result, f"w32({affine_text(map_.results[0], dims, symbols)})")


# Control -------------------------------------------------------------------------------


def _nested(t: Translator, block: Block, mask: str) -> list[str]:
    """Translate a nested block under ``mask``; the variables that it yields."""
    outer, t.mask = t.mask, mask
    t.depth += 1
    t.block(block)
    t.depth -= 1
    t.mask = outer
    last = block.last_op
    return [t.name(v) for v in last.operands] if isinstance(last, scf.YieldOp) else []


@simulates(scf.IfOp)
def _if(t: Translator, op: scf.IfOp) -> None:
    yes, no = t.fresh("m"), t.fresh("m")
    taken = [(t.fresh(), t.fresh()) for _ in op.output]
    t.line(f"{yes}, {no} = split({t.mask}, {t.name(op.cond)})")
    for names in taken:
        t.line(f"{names[0]} = {names[1]} = 0")
    for mask, region, side in ((yes, op.true_region, 0), (no, op.false_region, 1)):
        block = region.blocks.first
        if block is None or (all(isinstance(o, scf.YieldOp) for o in block.ops) and not taken):
            continue
        t.line(f"if {mask} is not False:")
        sources = _nested(t, block, mask)
        for names, source in zip(taken, sources, strict=True):
            t.line(f"    {names[side]} = {source}")
    for result, names in zip(op.output, taken, strict=True):
        t.define(result, f"merge({yes}, {no}, {names[0]}, {names[1]})")


@simulates(scf.ForOp)
def _for(t: Translator, op: scf.ForOp) -> None:
    induction, *carried = op.body.block.args
    for argument, start in zip(carried, op.iter_args, strict=True):
        t.define(argument, t.name(start))
    mask = t.fresh("m")
    bounds = ", ".join(t.name(v) for v in (op.lb, op.ub, op.step))
    t.line(f"for {t.name(induction)}, {mask} in w.core.loop({t.mask}, {bounds}):")
    sources = _nested(t, op.body.block, mask)
    t.depth += 1
    if carried:
        outer = "" if t.mask == mask else f" if {mask} is not {t.mask} else "
        kept = [
            f"merge({mask}, None, {s}, {t.name(a)}){outer}{s}"
            for a, s in zip(carried, sources, strict=True)
        ]
        t.line(f"{', '.join(t.name(a) for a in carried)}, = {', '.join(kept)},")
    if not is_unrolled(op):
        t.line("yield None")
    t.depth -= 1
    for argument, result in zip(carried, op.res, strict=True):
        t.define(result, t.name(argument))


@simulates(scf.YieldOp)
def _yield(t: Translator, op: scf.YieldOp) -> None:
    """The op around it takes the values."""


# Registers -----------------------------------------------------------------------------


@simulates(memref.AllocaOp)
def _alloca(t: Translator, op: memref.AllocaOp) -> None:
    kind: MemRefType[Attribute] = op.memref.type
    shape = tuple(kind.get_shape())
    if -1 in shape:
        raise PolycError("NotSimulated", f"{kind} has no fixed number of registers", op)
    tracked = any(type(use.operation) in TRACKED for use in op.memref.uses)
    dtype = t.object(dtype_of(kind.element_type), "d")
    name = op.memref.name_hint or "registers"
    t.define(op.memref, f"w.registers.alloca({name!r}, {shape!r}, {dtype}, {tracked})")


@simulates(memref.LoadOp)
def _load(t: Translator, op: memref.LoadOp) -> None:
    at = t.values(op.indices)
    t.define(op.res, f"w.registers.load({t.number(op)}, {t.name(op.memref)}, ({at}), {t.mask})")


@simulates(memref.StoreOp)
def _store(t: Translator, op: memref.StoreOp) -> None:
    value, array, at = t.name(op.value), t.name(op.memref), t.values(op.indices)
    t.line(f"w.registers.store({t.number(op)}, {value}, {array}, ({at}), {t.mask})")


@simulates(vector.BitcastOp)
def _vector_bitcast(t: Translator, op: vector.BitcastOp) -> None:
    dtype = t.object(dtype_of(op.result.type), "d")
    t.define(op.result, f"np.ascontiguousarray({t.name(op.source)}).view({dtype})")
