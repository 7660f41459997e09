"""``gpu-linearize-access``: coordinates as one element offset of 64 bits (S4.7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod

from xdsl.context import Context
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import IndexType, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.loops import is_unrolled
from polyc.dialects.gpu.types import GlobalType
from polyc.passes.support.gpu.symbols import enclosing_kernel, size_value
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit


def linear_offset(
    emit: Emit,
    op: Operation,
    tensor: SSAValue,
    indices: Sequence[SSAValue],
    last: bool = False,
    strides: bool = False,
) -> SSAValue | None:
    """Row-major offset of ``indices``; None when it is linear already.

    Coordinates are 32-bit, products 64-bit: a tensor may have more than 2^31 elements.  What an
    unrolled loop adds to the last coordinate is added in 64 bits, where it is a constant that the
    instruction holds: the rest of the offset is computed once for all of the loop.  With
    ``strides`` the other coordinates are parted too, and a product of each part is taken.

    The offsets of a tensor of known sizes that has less than ``SMALL`` elements are found in 32
    bits where nothing is parted, and widened once: products of 64 bits are several instructions,
    and take two registers each.
    """
    assert isinstance(tensor.type, GlobalType)
    if any(not isinstance(i.type, IndexType) for i in indices):
        return None
    kernel = enclosing_kernel(op)
    if not last and not strides and is_small(tensor.type):
        return widened(emit, _narrow(emit, indices, tensor.type))
    fixed: SSAValue | None = None
    moving: SSAValue | None = None
    for number, (index, dim) in enumerate(zip(indices, tensor.type.dims, strict=True), 1):
        apart = strides or (last and number == len(indices))
        rest, step = split(emit, op, index) if apart else (index, None)
        if fixed is None and moving is None:
            fixed, moving = widened(emit, rest), widened(emit, step)
            continue
        size = widened(emit, size_value(emit, dim, kernel))
        fixed = added(emit, times(emit, fixed, size), widened(emit, rest))
        moving = added(emit, times(emit, moving, size), widened(emit, step))
    total = added(emit, fixed, moving)
    return widened(emit, emit.index(0)) if total is None else total


SMALL = 1 << 30
"""Elements of a tensor from which on offsets are of 64 bits throughout: half of what 32 bits count,
as tiles at its end have coordinates beyond it, which nothing is read or written at."""


def is_small(kind: GlobalType) -> bool:
    """Whether a tensor's sizes are known, and it has so few elements that 32 bits count them."""
    sizes = [dim.constant() for dim in kind.dims]
    known = [size for size in sizes if size is not None]
    return len(known) == len(sizes) and prod(known) < SMALL


def _narrow(emit: Emit, indices: Sequence[SSAValue], kind: GlobalType) -> SSAValue:
    """The offset in 32 bits."""
    total: SSAValue | None = None
    for index, dim in zip(indices, kind.dims, strict=True):
        if total is not None:
            size = emit.index(dim.constant() or 0)
            total = emit.value(arith.AddiOp(emit.value(arith.MuliOp(total, size)), index))
        else:
            total = index
    return emit.index(0) if total is None else total


def with_roles(scope: Operation) -> frozenset[KernelOp]:
    """The kernels whose roles have registers of their own, of which accumulators take the most.

    What an epilogue loads beside them has no registers for addresses.  Elsewhere the compiler may
    choose, and does better.
    """
    splits = (op for op in scope.walk() if isinstance(op, hw.SetMaxRegistersOp))
    return frozenset(enclosing_kernel(op) for op in splits)


def split(emit: Emit, op: Operation, index: SSAValue) -> tuple[SSAValue | None, SSAValue | None]:
    """``index`` as what an unrolled loop around ``op`` leaves alone and what it adds.

    Nothing is split where either part is all of it.  Exact: a coordinate's terms stay in 32 bits,
    as it does itself.
    """
    loop, apply = op.parent_op(), index.owner
    if not (isinstance(loop, scf.ForOp) and is_unrolled(loop)):
        return index, None
    if not isinstance(apply, affine.ApplyOp) or apply.parent_op() is not loop:
        return index, None
    variable = loop.body.block.args[0]
    map_ = apply.map.data
    operands = list(apply.mapOperands)
    inside = {
        AffineExpr.dimension(i) if i < map_.num_dims else AffineExpr.symbol(i - map_.num_dims)
        for i, operand in enumerate(operands)
        if operand is variable or within(operand, loop)
    }
    parts: list[list[AffineExpr]] = [[], []]
    for term in terms(map_.results[0]):
        parts[any(e in inside for e in term.dfs())].append(term)
    if not parts[0] or not parts[1]:
        return index, None
    dims, symbols = operands[: map_.num_dims], operands[map_.num_dims :]
    rest, step = (emit.apply(reduce(AffineExpr.__add__, part), dims, symbols) for part in parts)
    return rest, step


def within(value: SSAValue, loop: scf.ForOp) -> bool:
    """Whether ``value`` is made in the loop's body."""
    owner = value.owner
    return isinstance(owner, Operation) and loop.is_ancestor(owner)


def terms(expr: AffineExpr) -> list[AffineExpr]:
    """The terms of a sum."""
    found: list[AffineExpr] = []
    work = [expr]
    while work:
        expr = work.pop()
        if isinstance(expr, AffineBinaryOpExpr) and expr.kind is AffineBinaryOpKind.Add:
            work += (expr.rhs, expr.lhs)
        else:
            found.append(expr)
    return found


def widened(emit: Emit, value: SSAValue | None) -> SSAValue | None:
    return None if value is None else emit.value(arith.IndexCastOp(value, i64))


def times(emit: Emit, value: SSAValue | None, size: SSAValue | None) -> SSAValue | None:
    return None if value is None or size is None else emit.value(arith.MuliOp(value, size))


def added(emit: Emit, one: SSAValue | None, other: SSAValue | None) -> SSAValue | None:
    if one is None or other is None:
        return one or other
    return emit.value(arith.AddiOp(one, other))


@dataclass(frozen=True)
class LinearizeLoad(RewritePattern):
    """A load at coordinates becomes a load at an offset, split in the kernels ``apart``."""

    apart: Collection[KernelOp] = ()

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.LoadGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        last = enclosing_kernel(op) in self.apart
        offset = linear_offset(emit, op, op.tensor, op.indices, last=last)
        if offset is not None:
            guard, kind = op.predicate, op.result.type
            new = hw.LoadGlobalOp(op.tensor, [offset], kind, guard, op.fill, op.cache)
            rewriter.replace(op, [*emit.ops, new], [new.result])


class LinearizeStore(RewritePattern):
    """A store at coordinates becomes a store at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.StoreGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            promised = op.promised or None
            new = hw.StoreGlobalOp(op.value, op.tensor, [offset], op.predicate, promised)
            rewriter.replace(op, [*emit.ops, new], [])


class LinearizeCpAsync(RewritePattern):
    """A cp.async at coordinates becomes one at an offset.

    The copies of an unrolled loop are a fixed number of rows apart, so that each address is the
    one before plus a stride.  (Loads and stores are not split: what they load or store takes the
    registers that the strides would need.)
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.CpAsyncOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices, strides=True)
        if offset is not None:
            size = op.bytes.value.data
            new = hw.CpAsyncOp(op.address, op.tensor, [offset], size, op.predicate)
            rewriter.replace(op, [*emit.ops, new], [])


class LinearizeAtomic(RewritePattern):
    """An atomic update at coordinates becomes one at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.AtomicGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            function = op.function.data
            new = hw.AtomicGlobalOp(function, op.value, op.tensor, [offset], op.predicate)
            rewriter.replace(op, [*emit.ops, new], [])


class LinearizeExchange(RewritePattern):
    """An exchange at coordinates becomes one at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.ExchangeGlobalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.tensor, op.indices)
        if offset is not None:
            new = hw.ExchangeGlobalOp(op.value, op.tensor, [offset], op.predicate, add=op.adds)
            rewriter.replace(op, [*emit.ops, new], [new.result])


class LinearizeCounter(RewritePattern):
    """A counter at coordinates becomes one at an offset."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: hw.SignalGlobalOp | hw.WaitGlobalOp, rewriter: PatternRewriter
    ) -> None:
        emit = Emit()
        offset = linear_offset(emit, op, op.counters, op.indices)
        if offset is None:
            return
        if isinstance(op, hw.SignalGlobalOp):
            new = hw.SignalGlobalOp(op.counters, [offset])
        else:
            new = hw.WaitGlobalOp(op.counters, [offset], op.count)
        rewriter.replace(op, [*emit.ops, new], [])


class LinearizePost(RewritePattern):
    """Words at coordinates become words at offsets."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: hw.PostGlobalOp | hw.AwaitPostsGlobalOp, rewriter: PatternRewriter
    ) -> None:
        emit = Emit()
        places = [list(op.indices)] if isinstance(op, hw.PostGlobalOp) else op.places
        offsets: list[SSAValue] = []
        for place in places:
            offset = linear_offset(emit, op, op.words, place)
            if offset is None:
                return
            offsets.append(offset)
        if isinstance(op, hw.PostGlobalOp):
            new = hw.PostGlobalOp(op.value, op.words, offsets, op.predicate)
        else:
            new = hw.AwaitPostsGlobalOp(op.words, offsets, op.predicates, op.registers, op.offset)
        rewriter.replace(op, [*emit.ops, new], [])


@dataclass(frozen=True)
class GpuLinearizeAccess(ModulePass):
    """Turn coordinates into linear offsets by the symbolic strides."""

    name = "gpu-linearize-access"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(
            op,
            [
                LinearizeLoad(with_roles(op)),
                LinearizeStore(),
                LinearizeCpAsync(),
                LinearizeAtomic(),
                LinearizeExchange(),
                LinearizeCounter(),
                LinearizePost(),
            ],
        )
