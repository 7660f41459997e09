"""Sums of products: what regions that run on the tensor cores have in common (S5.2, S9).

A region computes ``epilogue(sum over some axes of A[..] * B[..])`` of two tensors of f16 or bf16,
or is refused with the reason.  The axes decide which family it is of: a product of matrices
(``families/matmul/``) or a convolution (``families/conv/``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, f32, i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    DimOp,
    IndexOp,
    InsideOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
    YieldOp,
)
from polyc.dialects.region.types import ValType
from polyc.poly.contraction import ContractionPattern, Refusal, classify
from polyc.poly.pieces import Concat, Piece, concat_of
from polyc.rewriting.postorder import operands_of, reached

POINTWISE = (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    DimOp,
    IndexOp,
    InsideOp,
    ReadOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
    YieldOp,
)
"""What runs at one point of the output, from reads and what is computed at that point."""


def unsupported(
    kernel: KernelOp,
    why: str,
    way_out: str,
    at: Operation | None = None,
    error: type[PolycError] = PolycError,
) -> PolycError:
    """The refusal at the op whose condition does not hold, or at the kernel."""
    return error(
        "UnsupportedProgram",
        f"region @{kernel.sym_name.data} has no schedule: {why}; {way_out}",
        at,
    ).located(kernel)


WAY_OUT = "plan-select takes one gemm with an elementwise epilogue a region"


@dataclass(frozen=True)
class Product:
    """A sum of products of two reads in a region, and which axes do what in it."""

    kernel: KernelOp
    reduce: ReduceOp
    lhs: Factor
    rhs: Factor
    pattern: ContractionPattern
    """The axes: dimensions are those of the output, then the summed ones."""
    domain: AffineSet
    """The points of the sum."""

    @property
    def names(self) -> tuple[str, ...]:
        """The axes by name, as the pattern numbers them."""
        return (*self.reduce.result.type.labels, *self.reduce.labels)


def find_product(
    kernel: KernelOp,
    outputs: int | None = 1,
    accesses: Mapping[ReadOp, AffineMap] | None = None,
    exact: bool = False,
) -> Product:
    """The only sum of products of a region; the conditions are those of ``find_products``.

    ``accesses`` are maps to take in the place of reads' own.
    """
    return find_products(kernel, 1, outputs, accesses, exact=exact)[0]


def find_products(
    kernel: KernelOp,
    most: int,
    outputs: int | None = None,
    accesses: Mapping[ReadOp, AffineMap] | None = None,
    follow: Collection[Operation] = (),
    computed: bool = False,
    exact: bool = False,
) -> list[Product]:
    """The sums of products of a region, at most so many, in the order of the text.

    The region has ``outputs`` outputs, any number where that is None, and holds no reductions, but
    for those that ``follow``, than sums of products whose two factors are reads of f16 or bf16
    tensors, moved and cast only; a read may be guarded.  With ``computed`` a factor may be what
    elementwise ops make of one such read; with ``exact`` both factors may be reads of f32.
    Raises PolycError ``UnsupportedProgram`` with the reason and the way out.
    """
    _check_tensors(kernel)
    ops = [op for op in kernel.body.block.ops if op not in follow]
    reductions = [op for op in ops if isinstance(op, ReduceOp)]
    for op in ops:
        if isinstance(op, ReduceTogetherOp):
            raise unsupported(kernel, "it has a softmax", WAY_OUT, op)
    if not 1 <= len(reductions) <= most:
        at = reductions[most] if reductions else kernel
        raise unsupported(kernel, f"it has {len(reductions)} reductions", WAY_OUT, at)
    return [
        _product(kernel, reduce, outputs, accesses or {}, computed, exact) for reduce in reductions
    ]


def following(kernel: KernelOp) -> list[ReduceOp | ReduceTogetherOp]:
    """The reductions of a region that need the result of another one, in the order of the text."""
    found: list[ReduceOp | ReduceTogetherOp] = []
    reduced: set[SSAValue] = set()
    for op in kernel.body.block.ops:
        reduction = isinstance(op, ReduceOp | ReduceTogetherOp)
        needs = any(operand in reduced for operand in op.operands)
        if reduction and needs:
            found.append(op)
        if reduction or needs:
            reduced.update(op.results)
    return found


def _product(
    kernel: KernelOp,
    reduce: ReduceOp,
    outputs: int | None,
    accesses: Mapping[ReadOp, AffineMap],
    computed: bool,
    exact: bool,
) -> Product:
    product = reduce.operand.owner
    if reduce.fn.data != "sum" or not isinstance(product, BinaryOp) or product.fn.data != "mul":
        raise unsupported(kernel, "its reduction is not a sum of products", WAY_OUT, reduce)
    if reduce.label is None:
        raise unsupported(
            kernel,
            "its reduction has no name for the plan to speak of",
            'write name "acc" after region.reduce',
            reduce,
        )
    if outputs is not None and len(kernel.yield_op.values) != outputs:
        why = f"it has {len(kernel.yield_op.values)} outputs"
        raise unsupported(kernel, why, WAY_OUT, reduce)
    element = product.result.type.element_type
    if not isinstance(element, Float32Type):
        raise unsupported(
            kernel,
            f"its products are {element}, and tensor cores do not round them",
            "cast the factors to f32",
            product,
        )
    left, right = (_factor(kernel, value, computed, exact) for value in (product.lhs, product.rhs))
    if left.element != right.element:
        raise unsupported(
            kernel,
            f"{left.name} holds {left.element} and {right.name} {right.element}",
            "store both in one type",
            product,
        )
    out = reduce.result.type.labels
    names = (*out, *reduce.labels)
    domain = _domain(reduce, names, kernel.symbol_names)
    pattern = classify(
        out,
        reduce.labels,
        access_of(left.read, names, accesses.get(left.read)),
        access_of(right.read, names, accesses.get(right.read)),
        domain,
    )
    if isinstance(pattern, Refusal):
        raise unsupported(kernel, pattern.reason, WAY_OUT, reduce)
    return Product(kernel, reduce, left, right, pattern, domain)


@dataclass(frozen=True)
class Factor:
    """One side of a sum of products: a tensor of name ``name``, and the read of it.

    ``value`` is what is multiplied: what is read, or what elementwise ops make of that at the same
    point and round to 16 bits.
    """

    name: str
    read: ReadOp
    value: SSAValue
    concat: Concat | None = None
    """Where several tensors are read one after another along an axis: ``read`` is the first's."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Those tensors; none where it is one."""
        return () if self.concat is None else self.concat.pieces

    @property
    def element(self) -> Attribute:
        """The type in which tensor cores take it."""
        taken = self.value if self.concat is None else self.read.result
        return cast("ValType", taken.type).element_type

    @property
    def is_computed(self) -> bool:
        """Whether something is computed between memory and the product."""
        return self.value is not self.read.result and self.concat is None

    def operations(self) -> list[Operation]:
        """The ops that it is made by, operands before users."""
        return _behind(self.value)

    def reads(self) -> list[ReadOp]:
        """All that is read for it, ``read`` among them."""
        return [op for op in self.operations() if isinstance(op, ReadOp)]


def _behind(value: SSAValue) -> list[Operation]:
    """The ops that a value is made by, operands before users."""
    found = reached([value], operands_of)
    return [v.owner for v in found if isinstance(v.owner, Operation)]


def access_of(read: ReadOp, names: Sequence[str], access: AffineMap | None = None) -> AffineMap:
    """The read's map from the axes ``names``, by name; ``access`` where it is not its own."""
    access = access or read.map.data
    dims = [AffineDimExpr(names.index(label)) for label in read.result.type.labels]
    symbols = [AffineSymExpr(i) for i in range(access.num_symbols)]
    moved = tuple(e.replace_dims_and_symbols(dims, symbols) for e in access.results)
    return AffineMap(len(names), access.num_symbols, moved)


def _domain(reduce: ReduceOp, names: Sequence[str], symbols: Sequence[str]) -> AffineSet:
    """The points of the reduction: every axis from 0 to its size; sizes beyond isl are open."""
    rows: list[AffineConstraintExpr] = []
    zero = AffineConstantExpr(0)
    for i, name in enumerate(names):
        point = AffineDimExpr(i)
        rows.append(AffineConstraintExpr(AffineConstraintKind.ge, point, zero))
        size = axis_size(reduce, name).as_affine(symbols)
        if size is not None:
            last = size + -point + -1
            rows.append(AffineConstraintExpr(AffineConstraintKind.ge, last, zero))
    return AffineSet(len(names), len(symbols), tuple(rows))


def axis_size(reduce: ReduceOp, label: str) -> Dim:
    """The number of points of an axis of what is reduced."""
    axis = cast("ValType", reduce.operand.type).axis(label)
    assert axis is not None
    return axis.size


def _check_tensors(kernel: KernelOp) -> None:
    """Refuse outputs of conditions."""
    for name, kind in zip(kernel.res_names, kernel.outs, strict=True):
        if kind.element_type == i1:
            raise unsupported(
                kernel,
                f"{name.data} is a tensor of i1, and kernels of products make f16, bf16 and f32",
                "cast it to one of these outside",
            )


def _factor(kernel: KernelOp, value: SSAValue, computed: bool, exact: bool) -> Factor:
    """Follow a factor to its read; axis names are the same all along (S6.2)."""
    whole, owner = value, value.owner
    rounded: set[Attribute] = set()
    while isinstance(owner, CastOp | BroadcastInDimOp | TransposeOp):
        if isinstance(owner, CastOp):
            rounded.add(owner.result.type.element_type)
        value = owner.operand
        owner = value.owner
    if not isinstance(owner, ReadOp) or not isinstance(owner.tensor, BlockArgument):
        if (concat := concat_of(value, kernel.symbol_names)) is not None:
            reads = [piece.read for piece in concat.pieces]
            name = "_".join(kernel.name_of(read.tensor) for read in reads)
            return _read_factor(kernel, Factor(name, reads[0], value, concat), rounded, exact)
        if computed and isinstance(owner, POINTWISE):
            return _computed_factor(kernel, whole)
        what = getattr(owner, "name", "a block argument")
        raise unsupported(
            kernel,
            f"a factor of its sum is computed by {what}, and tensor cores read memory",
            "make that value an output of a graph of its own",
            owner if isinstance(owner, Operation) else None,
        )
    found = Factor(kernel.name_of(owner.tensor), owner, owner.result)
    return _read_factor(kernel, found, rounded, exact)


def _read_factor(
    kernel: KernelOp, found: Factor, rounded: Collection[Attribute], exact: bool
) -> Factor:
    """A factor as it is read, which is ``rounded`` to other types after that."""
    name = found.name
    taken = isinstance(found.element, Float16Type | BFloat16Type)
    if not taken and not (exact and found.element == f32):
        raise unsupported(
            kernel,
            f"{name} holds {found.element}, and tensor cores take f16 or bf16",
            "store it as f16 or bf16",
            found.read,
        )
    for element in rounded:
        if element != found.element and not isinstance(element, Float32Type):
            raise unsupported(
                kernel,
                f"it rounds {name} from {found.element} to {element} on its way to the product",
                f"store it as {element}",
                found.read,
            )
    return found


def _computed_factor(kernel: KernelOp, value: SSAValue) -> Factor:
    """A factor that is computed of one tensor as large as it is, and of smaller ones."""
    while isinstance(op := value.owner, BroadcastInDimOp | TransposeOp) or (
        isinstance(op, CastOp) and op.result.type.element_type == f32
    ):
        value = op.operand
    way_out = "make that value an output of a graph of its own"
    kind, at = cast("ValType", value.type), cast(Operation, value.owner)
    if not isinstance(kind.element_type, Float16Type | BFloat16Type):
        why = f"a factor of its sum is {kind.element_type}, which tensor cores would round"
        raise unsupported(kernel, why, "cast it to f16 or bf16", at)
    for op in _behind(value):
        if not isinstance(op, POINTWISE):
            why = f"a factor of its sum is computed by {op.name}, and tensor cores read memory"
            raise unsupported(kernel, why, way_out, op)
    reads = [op for op in _behind(value) if isinstance(op, ReadOp)]
    whole = [op for op in reads if set(op.result.type.labels) == set(kind.labels)]
    if len(whole) != 1 or not isinstance(whole[0].tensor, BlockArgument):
        why = f"a factor of its sum is computed of {len(whole)} tensors as large as it is"
        raise unsupported(kernel, why, way_out, at)
    found = Factor(kernel.name_of(whole[0].tensor), whole[0], value)
    held = whole[0].result.type.element_type
    if not isinstance(held, Float16Type | BFloat16Type):
        why = f"{found.name}, of which a factor of its sum is computed, holds {held}"
        raise unsupported(kernel, why, "store it as f16 or bf16", whole[0])
    return found


def _adds_points(op: BroadcastInDimOp) -> bool:
    """Whether a broadcast adds axes of one point each, and so moves nothing."""
    dims = {int(dim) for dim in op.dims.get_values()}
    axes = op.result.type.axes.data
    return all(i in dims or axis.size == Dim.const(1) for i, axis in enumerate(axes))


def epilogue_steps(
    kernel: KernelOp,
    *reduces: ReduceOp,
    transposed: bool = False,
    follow: Collection[Operation] = (),
) -> tuple[str, ...]:
    """What happens to the accumulators on their way to the output, in order.

    An added vector is ``bias``, a maximum with 0 is ``relu``; other steps have their function's
    name, and reductions that ``follow`` their kind's behind ``reduce_``.  With ``transposed`` its
    axes may change their order, and some of one point be added.  Raises PolycError when a step
    needs more than the element's own value, reads, and what those reductions give.
    """
    dependent: set[SSAValue] = {reduce.result for reduce in reduces}
    steps: list[str] = []
    for op in kernel.body.block.ops:
        if op not in reduces and op not in follow and not isinstance(op, POINTWISE):
            why = f"it holds {op.name}, which does not run at one point of the output"
            raise unsupported(kernel, why, WAY_OUT, op)
        if not any(operand in dependent for operand in op.operands):
            continue
        dependent.update(op.results)
        spread = isinstance(op, BroadcastInDimOp) and not (transposed and _adds_points(op))
        if (spread and not follow) or (isinstance(op, TransposeOp) and not transposed):
            why = f"its epilogue moves the accumulator by {op.name}"
            raise unsupported(kernel, why, WAY_OUT, op)
        if isinstance(op, ReduceTogetherOp):
            args = zip(op.chunk.block.args, op.operands, strict=True)
            inside: set[SSAValue] = {arg for arg, operand in args if operand in dependent}
            for inner in op.chunk.block.ops:
                if any(operand in inside for operand in inner.operands):
                    inside.update(inner.results)
                    steps += _steps(inner, inside)
        elif not isinstance(op, CastOp) or any(
            use.operation is not kernel.yield_op for use in op.result.uses
        ):
            steps += _steps(op, dependent)
    return tuple(steps)


def _steps(op: Operation, dependent: Collection[SSAValue]) -> list[str]:
    """What an op does to what is ``dependent`` on the accumulators; nothing where it moves it."""
    match op:
        case BinaryOp():
            return [_step(op.fn.data, op.rhs if op.lhs in dependent else op.lhs)]
        case UnaryOp():
            return [op.fn.data]
        case ReduceOp():
            return [f"reduce_{op.fn.data}"]
        case CastOp():
            return ["cast"]
        case _:
            return []


def _step(fn: str, other: SSAValue) -> str:
    owner = other.owner
    while isinstance(owner, CastOp | BroadcastInDimOp):
        owner = owner.operand.owner
    if isinstance(owner, ReadOp) and fn == "add":
        return "bias" if len(owner.result.type.axes) == 1 else "residual"
    if isinstance(owner, ConstantOp) and fn == "max" and owner.value.value.data == 0.0:
        return "relu"
    return fn
