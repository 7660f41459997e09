"""Accesses of a thread that neighbour each other: what a vector of them asks, and one made (T2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd, lcm

from xdsl.dialects import affine, arith, memref, scf
from xdsl.dialects.builtin import IndexType, VectorType
from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)
from xdsl.traits import is_side_effect_free

from polyc.affine import isl
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import GlobalType, element_bytes, vector_of
from polyc.passes.support.gpu.symbols import constant_of, dim_of, enclosing_kernel, is_size
from polyc.rewriting.emit import Emit, affine_dim, clone_into
from polyc.rewriting.postorder import computed, reached

LESS = (2, 6)
"""``slt`` and ``ult`` as arith.cmpi holds them."""

BOUNDS = (*LESS, 5, 9)
"""Those, and what they are not: ``sge`` and ``uge``."""


def divisor(value: SSAValue) -> int:
    """A number that ``value`` is known to be a multiple of, from the op that defines it."""
    return computed(value, _made_of, _divisor)


def _made_of(value: SSAValue) -> Sequence[SSAValue]:
    """What the divisor of ``value`` depends on."""
    owner = value.owner
    if isinstance(owner, affine.ApplyOp):
        return owner.mapOperands
    if isinstance(owner, Block) and isinstance(loop := owner.parent_op(), scf.ForOp):
        return [loop.lb, loop.step] if value is owner.args[0] else []
    return []


def _divisor(value: SSAValue, known: Sequence[int]) -> int:
    owner = value.owner
    if isinstance(owner, tile.TileCoordinatesOp) and isinstance(value, OpResult):
        return owner.tile_sizes[value.index]
    if isinstance(owner, Block) and isinstance(loop := owner.parent_op(), tile.TileLoopOp):
        place = owner.args.index(value)
        return loop.tile.data[place] if place < len(loop.coordinates) else 1
    if isinstance(owner, affine.ApplyOp):
        return _expr_divisor(owner.map.data.results[0], known, owner.map.data.num_dims)
    if (constant := constant_of(value)) is not None:
        return abs(constant)
    if isinstance(owner, Block) and isinstance(value, BlockArgument):
        return _loop_divisor(owner.parent_op(), value.index, known)
    return 1


def _loop_divisor(loop: Operation | None, position: int, known: Sequence[int]) -> int:
    """A number that a loop's variable is a multiple of: its start's and its step's."""
    match loop:
        case scf.ForOp() if position == 0:
            return gcd(*known)
        case tile.TileLoopOp() if position < len(loop.tile.data):
            return loop.tile.data[position]
        case tile.PipelineOp() if position == 0:
            return loop.step.value.data
        case _:
            return 1


def _expr_divisor(expr: AffineExpr, divisors: Sequence[int], dims: int) -> int:
    match expr:
        case AffineConstantExpr(value):
            return abs(value)
        case AffineDimExpr(position):
            return divisors[position]
        case AffineBinaryOpExpr(kind, lhs, rhs):
            a, b = _expr_divisor(lhs, divisors, dims), _expr_divisor(rhs, divisors, dims)
            if kind is AffineBinaryOpKind.Add:
                return gcd(a, b)
            return a * b if kind is AffineBinaryOpKind.Mul else 1
        case _:
            return 1


def size_divisor(size: SSAValue, kernel: KernelOp) -> int:
    """What a size is a multiple of: rows hold whole vectors of what their tensor is aligned to."""
    if isinstance(owner := size.owner, arith.MuliOp):
        return size_divisor(owner.lhs, kernel) * size_divisor(owner.rhs, kernel)
    found = max(divisor(size), 1)
    dim = dim_of(size, kernel)
    for argument in kernel.body.block.args:
        kind = argument.type
        if dim is not None and isinstance(kind, GlobalType) and kind.dims[-1:] == (dim,):
            found = lcm(found, max(kind.align.data // element_bytes(kind.element_type), 1))
    return found


def guards_bounds(
    op: hw.LoadGlobalOp | hw.StoreGlobalOp, alike: Callable[[SSAValue], bool] = lambda _: False
) -> bool:
    """Whether what guards an access in its own block bounds the access's coordinates, or is
    ``alike`` for the elements of a vector.

    The last coordinate's bounds are the row's length, which holds whole vectors, and, compared as
    an unsigned number, 0 too: a vector at a multiple of its width is whole on one side.  Those of
    the others may be anything, since they are the same for a vector's elements.  A guard from
    outside the block is the same for all iterations.
    """
    assert isinstance(op.tensor.type, GlobalType)
    work = [] if op.predicate is None else [op.predicate]
    while work:
        value = work.pop()
        owner = value.owner
        match owner:
            case arith.AndIOp():
                work += owner.operands
            case arith.CmpiOp() if owner.lhs in op.indices and owner.predicate.value.data in LESS:
                row = op.tensor.type.dims[-1]
                if owner.lhs is op.indices[-1] and not is_size(
                    owner.rhs, row, enclosing_kernel(op)
                ):
                    return False
            case Operation() if owner.parent is not op.parent:
                pass
            case Block() if owner is not op.parent:
                pass
            case _ if not alike(value):
                return False
            case _:
                pass
    return True


@dataclass(frozen=True)
class Access:
    """Coordinates of an access as affine functions of a loop's variable and of other values."""

    exprs: tuple[AffineExpr, ...]
    values: tuple[SSAValue, ...]
    """What the dimensions stand for; dimension 0 is the loop's variable."""
    divisors: tuple[int, ...]
    """A number that each value is a multiple of; 1 for the loop's variable."""

    @staticmethod
    def of(indices: list[SSAValue], variable: SSAValue) -> Access:
        values: list[SSAValue] = [variable]

        def position(value: SSAValue) -> AffineExpr:
            owner = value.owner
            # The number of a thread in its scope is one of the thread; what the loop computes may
            # be one of its variable.
            if isinstance(owner, affine.ApplyOp) and (
                owner.parent is variable.owner
                or all(isinstance(v.owner, hw.ThreadIdOp) for v in owner.mapOperands)
            ):
                return applied(owner)
            if value not in values:
                values.append(value)
            return affine_dim(values.index(value))

        def applied(op: affine.ApplyOp) -> AffineExpr:
            m, operands = op.map.data, [position(v) for v in op.mapOperands]
            return m.results[0].replace_dims_and_symbols(
                operands[: m.num_dims], operands[m.num_dims :]
            )

        exprs: list[AffineExpr] = []
        for index in indices:
            owner = index.owner
            exprs.append(applied(owner) if isinstance(owner, affine.ApplyOp) else position(index))
        divisors = (1, *(max(divisor(v), 1) for v in values[1:]))
        return Access(tuple(exprs), tuple(values), divisors)

    def is_vector(self, width: int, bound: int) -> bool:
        """Whether ``width`` steps of the variable from any multiple of it are one vector.

        The last coordinate goes up by one a step from a multiple of ``width``, the others stay.
        Decided by isl over all values of the other operands.
        """
        first = self.at({0: affine_dim(0) * width})

        def differences() -> Iterator[AffineExpr]:
            yield first[-1] % width
            for lane in range(1, width):
                here = self.at({0: affine_dim(0) * width + lane})
                yield here[-1] - first[-1] - lane
                yield from (a - b for a, b in zip(here[:-1], first[:-1], strict=True))

        return self._all_zero(differences(), width, bound)

    def is_constant(self, width: int, bound: int) -> bool:
        """Whether ``width`` steps of the variable from any multiple of it are at one place."""
        first = self.at({0: affine_dim(0) * width})
        later = (self.at({0: affine_dim(0) * width + lane}) for lane in range(1, width))
        apart = (a - b for here in later for a, b in zip(here, first, strict=True))
        return self._all_zero(apart, width, bound)

    def _all_zero(self, exprs: Iterator[AffineExpr], width: int, bound: int) -> bool:
        dims = len(self.values)
        zero = AffineExpr.constant(0)
        ge = AffineConstraintKind.ge
        domain = [AffineConstraintExpr(ge, affine_dim(d), zero) for d in range(dims)]
        domain.append(AffineConstraintExpr(ge, -affine_dim(0) + (bound // width - 1), zero))
        return isl.all_zero(exprs, AffineSet(dims, 0, tuple(domain)))

    def at(self, given: Mapping[int, AffineExpr]) -> list[AffineExpr]:
        """The coordinates, with ``given`` for some values.

        The dimension of any other counts in steps of its divisor, so that the spelling shows what
        is divisible.
        """
        dims = [given.get(d, affine_dim(d) * by) for d, by in enumerate(self.divisors)]
        return [e.replace_dims_and_symbols(dims, []) for e in self.exprs]


def is_vector(
    op: hw.StoreGlobalOp | hw.LoadGlobalOp,
    indices: list[SSAValue],
    variable: SSAValue,
    width: int,
    bound: int,
    value_type: object,
) -> bool:
    """Whether ``width`` iterations of a loop access neighbours, at a multiple of the width."""
    tensor = op.tensor.type
    assert isinstance(tensor, GlobalType)
    if isinstance(value_type, VectorType):
        return False
    if len(tensor.dims) == 0 or width * element_bytes(tensor.element_type) > max(
        tensor.align.data, 1
    ):
        return False
    loop, access = variable.owner, Access.of(indices, variable)
    assert isinstance(loop, Block)
    inside = [
        v for v in access.values[1:] if isinstance(v.owner, Operation) and v.owner.parent is loop
    ]
    if not all(is_shared(v, loop, width, bound) for v in inside):
        return False
    return access.is_vector(width, bound)


def is_shared(value: SSAValue, loop: Block, width: int, bound: int) -> bool:
    """Whether ``width`` iterations of a loop from any multiple of it compute one value alike.

    They read at one place a tensor that the loop does not write to, or a register.
    """
    return shared([value], loop, width, bound)[value]


def shared(
    values: Sequence[SSAValue], loop: Block, width: int, bound: int
) -> Mapping[SSAValue, bool]:
    """``is_shared`` of several values, and of all that they are made of.

    So is whether neighbours that begin at a multiple of ``width`` are before a bound that is one.
    """
    stored = {op.tensor for op in loop.ops if isinstance(op, hw.StoreGlobalOp)}
    known: dict[SSAValue, bool] = {}

    def operands(here: SSAValue) -> Sequence[SSAValue]:
        owner = here.owner
        return owner.operands if isinstance(owner, Operation) and owner.parent is loop else ()

    for here in reached(values, operands):
        owner = here.owner
        if not isinstance(owner, Operation) or owner.parent is not loop:
            known[here] = here is not loop.args[0]
            continue
        match owner:
            case affine.ApplyOp():
                place = Access.of([here], loop.args[0])
                alike = all(known.get(v, not _is_inside(v, loop)) for v in place.values[1:])
                known[here] = alike and place.is_constant(width, bound)
            case hw.LoadGlobalOp():
                known[here] = owner.tensor not in stored and all(
                    known[v] for v in owner.operands[1:]
                )
            case memref.LoadOp():
                known[here] = all(known[v] for v in owner.indices)
            case arith.CmpiOp() if (
                isinstance(owner.lhs.type, IndexType)
                and owner.predicate.value.data in BOUNDS
                and known[owner.rhs]
                and not known[owner.lhs]
            ):
                place = Access.of([owner.lhs], loop.args[0])
                known[here] = (
                    size_divisor(owner.rhs, enclosing_kernel(owner)) % width == 0
                    and all(known.get(v, not _is_inside(v, loop)) for v in place.values[1:])
                    and place.is_vector(width, bound)
                )
            case _:
                pure = is_side_effect_free(owner) and not owner.regions
                known[here] = pure and all(known[v] for v in owner.operands)
    return known


def _is_inside(value: SSAValue, loop: Block) -> bool:
    return isinstance(value.owner, Operation) and value.owner.parent is loop


def clone_lanes(
    op: Operation, maps: list[dict[SSAValue, SSAValue]], wide: bool, emit: Emit
) -> None:
    """``op`` of several iterations, whose values ``maps`` hold: one access where it is a vector."""

    def at(value: SSAValue, lane: int) -> SSAValue:
        return maps[lane].get(value, value)

    def first(value: SSAValue | None) -> SSAValue | None:
        return None if value is None else at(value, 0)

    if isinstance(op, hw.LoadGlobalOp) and wide:
        vector = vector_of(op.result.type, len(maps))
        load = hw.LoadGlobalOp(
            op.tensor,
            [at(i, 0) for i in op.indices],
            vector,
            first(op.predicate),
            op.fill,
            op.cache,
        )
        loaded = emit.value(load, op.result.name_hint)
        for lane, values in enumerate(maps):
            values[op.result] = emit.value(hw.UnpackOp(loaded, lane))
    elif isinstance(op, hw.StoreGlobalOp):
        packed = emit.value(hw.PackOp([at(op.value, lane) for lane in range(len(maps))]))
        emit.op(
            hw.StoreGlobalOp(packed, op.tensor, [at(i, 0) for i in op.indices], first(op.predicate))
        )
    else:
        for values in maps:
            clone_into([op], values, emit)
