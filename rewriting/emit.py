"""Short spellings for the scalar code that the gpu passes make.

An ``Emit`` collects detached ops, so that a pattern can build a piece of code in reading
order and hand the list to the rewriter, which gives every op the matched op's location.
The ops that most code is made of come from ``create``, which takes their parts as they are: the
constructors look for optional and variadic ones, and take three times as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

from xdsl.dialects import affine, arith, memref, scf
from xdsl.dialects.arith import CMPI_COMPARISON_OPERATIONS as PREDICATES
from xdsl.dialects.builtin import (
    AffineMapAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from polyc.affine.expressions import linear_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.loops import mark_unrolled
from polyc.dialects.gpu.types import INDEX, index_attr, register_memref


@lru_cache(maxsize=4096)
def _map_attr(dims: int, symbols: int, expr: AffineExpr) -> AffineMapAttr:
    """A map of one result.  What is written alike is one object, and is verified once."""
    return AffineMapAttr(AffineMap(dims, symbols, (expr,)))


@cache
def _predicate(name: str) -> IntegerAttr[IntegerType]:
    return IntegerAttr(PREDICATES.index(name), i64)


class Emit:
    """A list of ops under construction; every method appends and returns the value."""

    def __init__(self, around: Emit | None = None) -> None:
        self.ops: list[Operation] = []
        self._constants: dict[int, SSAValue] = {} if around is None else dict(around._constants)

    def op(self, new: Operation) -> Operation:
        self.ops.append(new)
        return new

    def value(self, new: Operation, hint: str | None = None) -> SSAValue:
        """Append an op of one result and return that, named ``hint`` in the text."""
        self.ops.append(new)
        result = new.results[0]
        if hint is not None:
            result.name_hint = hint
        return result

    def index(self, value: int, hint: str | None = None) -> SSAValue:
        """A constant of type index."""
        if (known := self._constants.get(value)) is None or hint is not None:
            new = arith.ConstantOp.create(
                result_types=[INDEX], properties={"value": index_attr(value)}
            )
            known = self._constants[value] = self.value(new, hint)
        return known

    def int32(self, value: int) -> SSAValue:
        return self.value(arith.ConstantOp(IntegerAttr(value, i32)))

    def zero_f32(self) -> SSAValue:
        return self.value(arith.ConstantOp(FloatAttr(0.0, f32)))

    def apply(
        self,
        expr: AffineExpr,
        dims: Sequence[SSAValue],
        symbols: Sequence[SSAValue] = (),
        hint: str | None = None,
    ) -> SSAValue:
        """``expr`` at these operands; operands that it does not use are dropped.

        What is equal to one operand or a constant becomes that; anything else stays as
        written, since the canonical form spells ``mod`` out.
        """
        whole = linear_of(expr)
        match whole.terms:
            case ():
                return self.index(whole.constant)
            case (((("d" | "s") as kind, position), 1),) if not whole.constant:
                return (dims if kind == "d" else symbols)[position]
            case _:
                pass
        used = _variables(expr, set())
        kept_dims = [i for i in range(len(dims)) if ("d", i) in used]
        kept_symbols = [i for i in range(len(symbols)) if ("s", i) in used]
        if len(used) < len(dims) + len(symbols):
            place = {old: new for new, old in enumerate(kept_dims)}
            symbol_place = {old: new for new, old in enumerate(kept_symbols)}
            expr = expr.replace_dims_and_symbols(
                [AffineDimExpr(place.get(i, 0)) for i in range(len(dims))],
                [AffineSymExpr(symbol_place.get(i, 0)) for i in range(len(symbols))],
            )
        operands = [*(dims[i] for i in kept_dims), *(symbols[i] for i in kept_symbols)]
        new = affine.ApplyOp.create(
            operands=operands,
            result_types=[INDEX],
            properties={"map": _map_attr(len(kept_dims), len(kept_symbols), expr)},
        )
        return self.value(new, hint)

    def dim(self, dim: Dim, symbols: Sequence[str], values: Sequence[SSAValue]) -> SSAValue:
        """The value of a size expression, from the values of the symbols."""
        expr = dim.as_affine(symbols)
        if expr is not None:
            return self.apply(expr, [], values)
        total: SSAValue | None = None
        for mono, coef in dim.terms:
            product = self.index(coef)
            for atom in mono:
                if isinstance(atom, str):
                    factor = values[symbols.index(atom)]
                else:
                    number, by = self.dim(atom.num, symbols, values), AffineExpr.dimension(0)
                    divided = by // atom.den if atom.kind == "floordiv" else by % atom.den
                    factor = self.apply(divided, [number])
                product = self.value(arith.MuliOp(product, factor))
            total = product if total is None else self.value(arith.AddiOp(total, product))
        return self.index(0) if total is None else total

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.value(
            arith.CmpiOp.create(
                operands=[lhs, rhs],
                result_types=[i1],
                properties={"predicate": _predicate(predicate)},
            )
        )

    def over(self, value: SSAValue, parts: SSAValue) -> SSAValue:
        """``value`` in so many parts, rounded up: neither is negative, and ``parts`` is not 0."""
        more = self.apply(affine_dim(0) + affine_dim(1) - 1, [value, parts])
        return self.value(arith.DivUIOp(more, parts))

    def both(self, lhs: SSAValue | None, rhs: SSAValue) -> SSAValue:
        """The conjunction of two predicates; the first may be absent."""
        return rhs if lhs is None else self.value(arith.AndIOp(lhs, rhs))

    def loop(
        self,
        bound: SSAValue | int,
        body: Callable[[Emit, SSAValue], None],
        step: int = 1,
        unroll: bool = False,
        hint: str | None = None,
        start: SSAValue | int = 0,
    ) -> scf.ForOp:
        """``scf.for`` from ``start`` to ``bound`` without carried values."""
        low = self.index(start) if isinstance(start, int) else start
        high = self.index(bound) if isinstance(bound, int) else bound
        stride = self.index(step)
        block = Block(arg_types=[INDEX])
        block.args[0].name_hint = hint
        inner = Emit(self)
        body(inner, block.args[0])
        block.add_ops([*inner.ops, scf.YieldOp()])
        new = scf.ForOp(low, high, stride, [], block)
        if unroll:
            mark_unrolled(new)
        self.ops.append(new)
        return new

    def when(self, condition: SSAValue, body: Callable[[Emit], None]) -> scf.IfOp:
        """``scf.if`` without results or else branch."""
        inner = Emit(self)
        body(inner)
        new = scf.IfOp(condition, [], [*inner.ops, scf.YieldOp()])
        self.ops.append(new)
        return new

    def registers(self, count: int, element_type: Attribute, hint: str | None = None) -> SSAValue:
        """A fresh array of registers."""
        kind = register_memref(count, element_type)
        return self.value(
            memref.AllocaOp.get(element_type, shape=[count], memory_space=kind.memory_space),
            hint,
        )


def _variables(expr: AffineExpr, found: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """``found`` and the dimensions and symbols that ``expr`` names."""
    match expr:
        case AffineDimExpr(position):
            found.add(("d", position))
        case AffineSymExpr(position):
            found.add(("s", position))
        case AffineBinaryOpExpr(_, lhs, rhs):
            _variables(lhs, found)
            _variables(rhs, found)
        case _:
            pass
    return found


def region_of(ops: Sequence[Operation], arg_types: Sequence[Attribute] = ()) -> Region:
    """A region of one block."""
    return Region(Block(ops, arg_types=arg_types))


def applied(op: affine.ApplyOp, operands: Sequence[AffineExpr]) -> AffineExpr:
    """The expression of an ``affine.apply`` at these expressions of its operands."""
    m, dims = op.map.data, op.map.data.num_dims
    return m.results[0].replace_dims_and_symbols(list(operands[:dims]), list(operands[dims:]))


def ceil_div(expr: AffineExpr, den: int) -> AffineExpr:
    return (expr + (den - 1)) // den


def affine_dim(position: int) -> AffineExpr:
    return AffineExpr.dimension(position)


def clone_into(ops: Sequence[Operation], values: dict[SSAValue, SSAValue], target: Emit) -> None:
    """Append clones of ``ops`` with operands mapped by ``values``, which learns the results.

    Locations and attributes are kept.
    """
    for op in ops:
        copy = op.clone(value_mapper=values)
        for old, new in zip(op.walk(), copy.walk(), strict=True):
            new.location = old.location
        target.ops.append(copy)
