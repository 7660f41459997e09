"""``gpu-vectorize``: neighbouring elements of a thread in one access (T2, S8.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.context import Context
from xdsl.dialects import affine, arith, memref, scf
from xdsl.dialects.builtin import ModuleOp, VectorType, i1
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
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import GlobalType, element_bytes
from polyc.passes.driver import rewrite
from polyc.passes.emit import UNROLL, Emit, affine_dim, clone_into
from polyc.passes.gpu_symbols import constant_of, enclosing_kernel, is_size
from polyc.poly import isl
from polyc.poly.postorder import computed

WIDTHS = (8, 4, 2)
"""Elements that one access may take, widest first."""

LESS = (2, 6)
"""``slt`` and ``ult`` as arith.cmpi holds them."""


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
        return 1 if value is loop.ordinal else loop.tile.data[loop.coordinates.index(value)]
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


def guards_bounds(op: hw.LoadGlobalOp | hw.StoreGlobalOp) -> bool:
    """Whether what guards an access in its own block bounds the access's coordinates.

    The last coordinate's bounds are the row's length, which holds whole vectors, and, compared as
    an unsigned number, 0 too: a vector at a multiple of its width is whole on one side.  Those of
    the others may be anything, since they are the same for a vector's elements.  A guard from
    outside the block is the same for all iterations.
    """
    assert isinstance(op.tensor.type, GlobalType)
    work = [] if op.predicate is None else [op.predicate]
    while work:
        owner = work.pop().owner
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
            case _:
                return False
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
            # The number of a thread in its scope is one of the thread.
            if isinstance(owner, affine.ApplyOp) and all(
                isinstance(v.owner, hw.ThreadIdOp) for v in owner.mapOperands
            ):
                m, operands = owner.map.data, [position(v) for v in owner.mapOperands]
                return m.results[0].replace_dims_and_symbols(
                    operands[: m.num_dims], operands[m.num_dims :]
                )
            if value not in values:
                values.append(value)
            return affine_dim(values.index(value))

        exprs: list[AffineExpr] = []
        for index in indices:
            owner = index.owner
            if isinstance(owner, affine.ApplyOp):
                m = owner.map.data
                operands = [position(v) for v in owner.mapOperands]
                exprs.append(
                    m.results[0].replace_dims_and_symbols(
                        operands[: m.num_dims], operands[m.num_dims :]
                    )
                )
            else:
                exprs.append(position(index))
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

        dims = len(self.values)
        zero = AffineExpr.constant(0)
        ge = AffineConstraintKind.ge
        domain = [AffineConstraintExpr(ge, affine_dim(d), zero) for d in range(dims)]
        domain.append(AffineConstraintExpr(ge, -affine_dim(0) + (bound // width - 1), zero))
        return isl.all_zero(differences(), AffineSet(dims, 0, tuple(domain)))

    def at(self, given: Mapping[int, AffineExpr]) -> list[AffineExpr]:
        """The coordinates, with ``given`` for some values.

        The dimension of any other counts in steps of its divisor, so that the spelling shows what
        is divisible.
        """
        dims = [given.get(d, affine_dim(d) * by) for d, by in enumerate(self.divisors)]
        return [e.replace_dims_and_symbols(dims, []) for e in self.exprs]


class VectorizeLoop(RewritePattern):
    """Run an unrolled loop ``width`` iterations at a time, with one access for neighbours.

    Legality: isl proves that each store of the loop (and each load that becomes a vector)
    touches consecutive elements that start at a multiple of ``width``, and rows hold whole
    vectors (the tensor type's alignment), so that the first element's guard holds for all.
    Iterations are independent: the body has no other effect than these accesses and
    registers addressed by the loop's variable (or only read), it reads no tensor that it stores
    to, and an access is guarded by nothing but its own coordinates' bounds.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        bound = constant_of(op.ub)
        if UNROLL not in op.attributes or op.iter_args or bound is None:
            return
        if constant_of(op.lb) != 0 or constant_of(op.step) != 1:
            return
        stores = [o for o in op.body.block.ops if isinstance(o, hw.StoreGlobalOp)]
        if not stores or any(o.regions for o in op.body.block.ops):
            return
        variable = op.body.block.args[0]
        if not self.independent(op, stores):
            return
        for width in WIDTHS:
            if bound % width == 0 and all(
                self.is_vector(s, list(s.indices), variable, width, bound, s.value.type)
                for s in stores
            ):
                self.widen(op, width, bound, rewriter)
                return

    @staticmethod
    def independent(op: scf.ForOp, stores: list[hw.StoreGlobalOp]) -> bool:
        """Whether iterations may run side by side, and a first element's guard be all's."""
        variable, stored = op.body.block.args[0], {s.tensor for s in stores}
        written = {o.memref for o in op.body.block.ops if isinstance(o, memref.StoreOp)}
        set_here = {o.memref for o in op.body.block.ops if isinstance(o, memref.StoreOp)}
        for inner in op.body.block.ops:
            match inner:
                case hw.LoadGlobalOp():
                    fine = inner.tensor not in stored and guards_bounds(inner)
                case hw.StoreGlobalOp():
                    fine = guards_bounds(inner)
                case memref.LoadOp() if inner.memref not in set_here:
                    fine = True
                case memref.LoadOp() if inner.memref not in written:
                    fine = True
                case memref.LoadOp() | memref.StoreOp():
                    fine = list(inner.indices) == [variable]
                case _:
                    fine = is_side_effect_free(inner) or isinstance(inner, scf.YieldOp)
            if not fine:
                return False
        return True

    @staticmethod
    def is_vector(
        op: hw.StoreGlobalOp | hw.LoadGlobalOp,
        indices: list[SSAValue],
        variable: SSAValue,
        width: int,
        bound: int,
        value_type: object,
    ) -> bool:
        tensor = op.tensor.type
        assert isinstance(tensor, GlobalType)
        # Vectors of conditions are nothing that a register holds.
        if isinstance(value_type, VectorType) or value_type == i1:
            return False
        if len(tensor.dims) == 0 or width * element_bytes(tensor.element_type) > max(
            tensor.align.data, 1
        ):
            return False
        return Access.of(indices, variable).is_vector(width, bound)

    def widen(self, op: scf.ForOp, width: int, bound: int, rewriter: PatternRewriter) -> None:
        variable = op.body.block.args[0]
        body = [o for o in op.body.block.ops if not isinstance(o, scf.YieldOp)]
        wide_loads = {
            o
            for o in body
            if isinstance(o, hw.LoadGlobalOp)
            and self.is_vector(o, list(o.indices), variable, width, bound, o.result.type)
        }
        emit = Emit()

        def lanes(inner: Emit, first: SSAValue) -> None:
            maps: list[dict[SSAValue, SSAValue]] = []
            for lane in range(width):
                at = first if lane == 0 else inner.apply(affine_dim(0) + lane, [first])
                maps.append({variable: at})
            for o in body:
                self.clone_lanes(o, maps, o in wide_loads, inner)

        new = emit.loop(bound, lanes, step=width, unroll=True, hint=variable.name_hint)
        new.location = op.location
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def clone_lanes(
        op: Operation, maps: list[dict[SSAValue, SSAValue]], wide: bool, emit: Emit
    ) -> None:
        def at(value: SSAValue, lane: int) -> SSAValue:
            return maps[lane].get(value, value)

        def first(value: SSAValue | None) -> SSAValue | None:
            return None if value is None else at(value, 0)

        if isinstance(op, hw.LoadGlobalOp) and wide:
            vector = VectorType(op.result.type, [len(maps)])
            load = hw.LoadGlobalOp(
                op.tensor, [at(i, 0) for i in op.indices], vector, first(op.predicate)
            )
            loaded = emit.value(load, op.result.name_hint)
            for lane, values in enumerate(maps):
                values[op.result] = emit.value(hw.UnpackOp(loaded, lane))
        elif isinstance(op, hw.StoreGlobalOp):
            packed = emit.value(hw.PackOp([at(op.value, lane) for lane in range(len(maps))]))
            emit.op(
                hw.StoreGlobalOp(
                    packed, op.tensor, [at(i, 0) for i in op.indices], first(op.predicate)
                )
            )
        else:
            for values in maps:
                clone_into([op], values, emit)


class PackThenRound(RewritePattern):
    """Round a whole vector where its elements were rounded one by one.

    Exact: rounding is element by element; the hardware rounds two at once.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.PackOp, rewriter: PatternRewriter) -> None:
        rounds = [v.owner for v in op.values]
        sources: list[SSAValue] = []
        for owner in rounds:
            if not isinstance(owner, arith.TruncFOp):
                return
            sources.append(owner.input)
        wide = hw.PackOp(sources)
        rounded = arith.TruncFOp(wide.result, op.result.type)
        rewriter.replace(op, [wide, rounded], [rounded.result])
        for owner in dict.fromkeys(rounds):
            if isinstance(owner, Operation) and not any(r.uses.get_length() for r in owner.results):
                rewriter.erase(owner)


@dataclass(frozen=True)
class GpuVectorize(ModulePass):
    """Widen global accesses as far as alignment and layout allow."""

    name = "gpu-vectorize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [VectorizeLoop()])
        rewrite(op, [PackThenRound()])
        # It is built from the patterns above.
        from polyc.passes.gpu_round_pairs import RoundPairs

        rewrite(op, [RoundPairs()])
