"""How the patterns of ``frontend-to-tiny`` build tiny ops and find lowered values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import StringAttr, UnrealizedConversionCastOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import Number, is_integer
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.precision import coarser
from polyc.dialects.common.signature import SizedTensorType
from polyc.dialects.common.sizes import product
from polyc.rewriting.tiny.elementwise import is_product


class Builder:
    """Inserts tiny ops at one place and returns their results."""

    def __init__(self, rewriter: PatternRewriter, at: InsertPoint) -> None:
        self._rewriter = rewriter
        self._at = at

    @staticmethod
    def before(op: Operation, rewriter: PatternRewriter) -> Builder:
        return Builder(rewriter, InsertPoint.before(op))

    def add(self, op: Operation) -> SSAValue:
        self._rewriter.insert(op, self._at)
        return op.results[0]

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """``value`` in ``element``; itself when it is that already."""
        if tiny.tensor_of(value).element_type == element:
            return value
        return self.add(tiny.CastOp(value, element))

    def rounded(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The f32 ``value`` rounded to ``element``, in f32 again.

        A value that has been widened from ``element`` is itself, and one that was moved since is
        moved before it is widened.
        """
        moves, source = _moved(value)
        if element == f32 or (not moves and _is_widened(source, element)):
            return value
        return self.cast(self.narrowed(value, element), f32)

    def narrowed(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The f32 ``value`` rounded to ``element``.

        What was computed and then moved is rounded before it moves, which is the same: where it has
        to lie in memory to be moved, it lies there in ``element``.
        """
        moves, made = _moved(value)
        if isinstance(owner := made.owner, tiny.CastOp) and _is_widened(made, element):
            made = owner.operand
        made = self.cast(made, element)
        for move in reversed(moves):
            kind = tiny.tensor(move.result_type.dims, element)
            made = self._moved_before(made, move, kind) or self.add(
                type(move).create(
                    operands=[made], result_types=[kind], properties=dict(move.properties)
                )
            )
        return made

    def _moved_before(self, value: SSAValue, move: MovementOp, kind: Attribute) -> SSAValue | None:
        """``value`` moved as ``move`` does by an op that stands here by now, for another reader."""
        here = self._at.insert_before
        for use in value.uses:
            op = use.operation
            if type(op) is not type(move) or op.properties != move.properties:
                continue
            if op.results[0].type == kind and here is not None and op.is_before_in_block(here):
                return op.results[0]
        return None

    def splat(self, number: Number, shape: Shape, element: Attribute = f32) -> SSAValue:
        """A constant of ``shape``."""
        constant = tiny.ConstantOp(number, tiny.tensor((), element))
        return self.spread(self.add(constant), shape)

    def expand(self, value: SSAValue, dims: Sequence[int], shape: Shape) -> SSAValue:
        element = tiny.tensor_of(value).element_type
        return self.add(tiny.ExpandOp(value, dims, tiny.tensor(shape, element)))

    def aligned(self, value: SSAValue, shape: Shape) -> SSAValue:
        """``value`` broadcast right-aligned to ``shape``; itself when it has its axes."""
        dims = tiny.tensor_of(value).dims
        stretched = any(
            d.constant() == 1 and s.constant() != 1
            for d, s in zip(reversed(dims), reversed(shape), strict=False)
        )
        if len(dims) == len(shape) and not stretched:
            return value
        return self.expand(value, range(len(shape) - len(dims), len(shape)), shape)

    def size(self, size: Dim, element: Attribute = f32) -> SSAValue:
        """A size as a scalar."""
        kind, value = tiny.tensor((), element), size.constant()
        if value is None:
            return self.add(tiny.DimOp(size, kind))
        return self.add(tiny.ConstantOp(float(value) if element == f32 else value, kind))

    def spread(self, scalar: SSAValue, shape: Shape) -> SSAValue:
        """A scalar everywhere in ``shape``."""
        return scalar if not shape else self.expand(scalar, (), shape)

    def repeat(self, value: SSAValue, axes: Sequence[int], shape: Shape) -> SSAValue:
        """``value`` of ``shape`` without ``axes``, repeated along these."""
        return self.expand(value, [i for i in range(len(shape)) if i not in axes], shape)

    def permute(self, value: SSAValue, order: Sequence[int]) -> SSAValue:
        return self.add(tiny.PermuteOp(value, order))

    def reshape(self, value: SSAValue, shape: Shape) -> SSAValue:
        return self.add(tiny.ReshapeOp(value, shape))

    def slice(self, value: SSAValue, ends: Shape | Sequence[Dim]) -> SSAValue:
        """The elements of ``value`` from the first on, up to ``ends``."""
        zero = [Dim.const(0)] * len(ends)
        return self.add(tiny.SliceOp(value, zero, list(ends), [1] * len(ends)))

    def mask(self, value: SSAValue, condition: AffineSet, fill: float) -> SSAValue:
        return self.add(tiny.MaskOp(value, condition, fill))

    def reduce(self, fn: str, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """A reduction along ``axes``; of one element it is that one, but for a product of two
        values, which a kernel of products may sum.  0 and -0 are 0 as a sum."""
        dims = tiny.tensor_of(value).dims
        if is_product(value) or any(dims[axis].constant() != 1 for axis in axes):
            return self.add(tiny.ReduceOp(fn, value, axes))
        kept = tuple(size for axis, size in enumerate(dims) if axis not in axes)
        one = self.reshape(value, kept)
        if fn != "sum" or is_integer(tiny.tensor_of(value).element_type):
            return one
        return self.binary("add", one, self.splat(0.0, kept))

    def contract(
        self, lhs: SSAValue, rhs: SSAValue, axes: Sequence[int], precision: StringAttr | None
    ) -> SSAValue:
        """The sum of products along ``axes``, as precise as it has to be."""
        if coarser(precision) is None:
            precision = None
        product = self.binary("mul", lhs, rhs)
        return self.add(tiny.ReduceOp("sum", product, axes, precision=precision))

    def mean(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """The sum along ``axes`` over the number of elements; NaN over nothing."""
        total = self.reduce("sum", value, axes)
        dims = tiny.tensor_of(value).dims
        count = self.size(product(dims[a] for a in axes))
        return self.binary("div", total, self.spread(count, tiny.tensor_of(total).dims))

    def compare(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(tiny.CompareOp(fn, lhs, rhs))

    def select(self, condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        return self.add(tiny.SelectOp(condition, then, otherwise))

    def unary(self, fn: str, value: SSAValue) -> SSAValue:
        return self.add(tiny.UnaryOp(fn, value))

    def binary(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(tiny.BinaryOp(fn, lhs, rhs))


def _moved(value: SSAValue) -> tuple[list[MovementOp], SSAValue]:
    """The movements that any type has on the way to ``value``, the last first, and their source."""
    moves: list[MovementOp] = []
    while isinstance(
        owner := value.owner, tiny.PermuteOp | tiny.ReshapeOp | tiny.SliceOp | tiny.ExpandOp
    ):
        moves.append(owner)
        value = owner.operand
    return moves, value


def _is_widened(value: SSAValue, element: Attribute) -> bool:
    owner = value.owner
    return isinstance(owner, tiny.CastOp) and tiny.tensor_of(owner.operand).element_type == element


def stored(t: Attribute) -> tiny.TensorType:
    """The tiny type of a frontend tensor as it lies in memory."""
    t = cast(SizedTensorType, t)
    return tiny.TensorType(t.shape, t.element_type)


def known_sizes(value: SSAValue) -> list[int] | None:
    """The sizes of a tiny value's axes, where all are known and none is 0."""
    sizes = [dim.constant() for dim in tiny.tensor_of(value).dims]
    known = [size for size in sizes if size]
    return known if len(known) == len(sizes) else None


def lowered(value: SSAValue) -> SSAValue | None:
    """The tiny value that holds the frontend ``value``, once that has been lowered."""
    owner = value.owner
    if isinstance(owner, UnrealizedConversionCastOp) and len(owner.inputs) == 1:
        source = owner.inputs[0]
        return source if isinstance(source.type, tiny.TensorType) else None
    return None


def lowered_all(values: Sequence[SSAValue]) -> list[SSAValue] | None:
    found = [v for v in map(lowered, values) if v is not None]
    return found if len(found) == len(values) else None


STORABLE = "storable"
"""The attribute of a frontend op whose first result may be stored in its own type."""


def mark(op: Operation, value: SSAValue) -> None:
    """Say on the op that computes the tiny ``value`` in which type the result of ``op`` is stored.

    Nothing is said of what is read from memory, or is rounded already.
    """
    if STORABLE not in op.attributes:
        return
    made = value.owner
    while isinstance(made, MovementOp):
        made = made.source.owner
    if isinstance(made, tiny.UnaryOp | tiny.BinaryOp | tiny.SelectOp | tiny.ReduceOp | tiny.ScanOp):
        made.own = cast(SizedTensorType, op.results[0].type).element_type


def replace(op: Operation, value: SSAValue, rewriter: PatternRewriter) -> None:
    """Put the tiny ``value`` in the place of the result of ``op``."""
    hint = op.results[0].name_hint
    if hint is not None and value.name_hint is None:
        value.name_hint = hint
    mark(op, value)
    conversion = UnrealizedConversionCastOp.get([value], [op.results[0].type])
    rewriter.replace(op, conversion)


def replace_all(
    op: Operation, values: Sequence[SSAValue | None], rewriter: PatternRewriter
) -> None:
    """Put tiny values in the places of the results of ``op``; None where nothing reads one."""
    made: list[SSAValue | None] = []
    for result, value in zip(op.results, values, strict=True):
        if value is None:
            made.append(None)
            continue
        if result.name_hint is not None and value.name_hint is None:
            value.name_hint = result.name_hint
        conversion = UnrealizedConversionCastOp.get([value], [result.type])
        rewriter.insert(conversion, InsertPoint.before(op))
        made.append(conversion.results[0])
    rewriter.replace(op, [], made)
