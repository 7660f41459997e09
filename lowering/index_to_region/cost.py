"""``index-to-region``: what fusing a value costs against storing it (S11.1's fusion delta).

A stored value is written once and read by each kernel that wants it.  A fused value is not, and
may be computed several times: at each point at which it is wanted, and again in each block along
the axes of the kernel that it does not have.  Both sides are counted in bytes of memory traffic
an element; arithmetic counts as the bytes that move while it runs.

The figures are SM80's, where memory is slow for the arithmetic least: what pays there pays on
SM90 too.  A size that is not known is taken as ``TYPICAL``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import Operation, SSAValue

from polyc.cost.time import TYPICAL
from polyc.cost.values import size_in_bytes
from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.signature import SizedTensorType
from polyc.dialects.index import value_op
from polyc.lowering.index_to_region.memory import stored_size

BLOCK = 256
"""Points of an axis that one block holds."""

ROW = 65536
"""Points of a reduced row that one block goes through where the others have nothing to do."""

FLOPS_A_BYTE = 10
"""f32 operations in the time that a byte of global memory takes: 19.5 TFLOP/s, 2 TB/s."""

TENSOR_FLOPS_A_BYTE = 150
"""The same on tensor cores: 312 TFLOP/s."""


BYTES_A_SECOND = 2e12
"""Of global memory."""

THREAD_FLOPS = FLOPS_A_BYTE * BYTES_A_SECOND
"""f32 operations a second that threads do without tensor cores."""

LIMIT = 256
"""What a kernel holds: an elementwise op, a choice of a fill or a read is 1."""

REDUCTION = 24
"""What a reduction is of it: the code around it, and a row that is kept or read again."""


def points(sizes: Iterable[Dim]) -> float:
    """The number of points of some axes, about."""
    total = 1.0
    for size in sizes:
        total *= _about(size)
    return total


def blocks(size: Dim) -> float:
    """How many blocks an axis takes."""
    return max(1.0, -(-_about(size) // BLOCK))


def _about(size: Dim) -> int:
    return max(0, size.evaluate(dict.fromkeys(size.symbols(), TYPICAL)))


def element_size(value: SSAValue) -> int:
    """The bytes of one element as it is computed."""
    return size_in_bytes(tiny.tensor_of(value).element_type)


def seconds_stored(value: SSAValue, readers: int) -> float:
    """What writing a value once and reading it so often takes, about."""
    count = points(tiny.tensor_of(value).dims)
    return count * stored_size(value) * (1 + readers) / BYTES_A_SECOND


def seconds_by_threads(product: SSAValue) -> float:
    """What a contraction takes without tensor cores, about."""
    reduce = cast(tiny.ReduceOp, product.owner)
    return 2 * points(tiny.tensor_of(reduce.operand).dims) / THREAD_FLOPS


def is_contraction(value: SSAValue) -> bool:
    """Whether a value is a sum of products, each factor repeated along a kept axis, or read in
    windows along one (S5.2).

    Tensor cores compute it; a row's sum of products is another reduction, and so is one of squares,
    of which an axis of one point may be said to repeat.  A matrix times a vector is such sums where
    it lies along what is summed, and nothing looks for the largest of them, as attention does.
    """
    op = value.owner
    if not isinstance(op, tiny.ReduceOp) or op.function != "sum":
        return False
    product = op.operand.owner
    if not isinstance(product, tiny.BinaryOp) or product.function != "mul":
        return False
    if product.lhs is product.rhs:
        return False
    factors = (product.lhs, product.rhs)
    if not all(_repeats(factor, op.axes) for factor in factors):
        return False
    if not any(_are_rows(factor, op.axes) for factor in factors):
        return True
    return any(map(_beside_maximum, (value, *factors)))


def _are_rows(value: SSAValue, gone: Sequence[int]) -> bool:
    """Whether a factor is rows beside one column: repeated along axes of one point alone, which are
    the last, and its neighbours in memory are summed."""
    entry = value_op(value)
    if entry is None or len(entry.axes) != tiny.tensor_of(value).rank:
        return False
    sizes = tiny.tensor_of(value).dims
    kept = [i for i in range(len(sizes)) if i not in gone]
    columns = [i for i in kept if entry.axes.data[i].repeats]
    others = [i for i in kept if sizes[i].constant() != 1]
    if not columns or not others or min(columns) < max(others) or set(columns) & set(others):
        return False
    summed = set(gone)
    while isinstance(op := value.owner, tiny.ExpandOp | tiny.PermuteOp | tiny.CastOp):
        if isinstance(op, tiny.ExpandOp):
            summed = {at for at, axis in enumerate(op.dims) if axis in summed}
        elif isinstance(op, tiny.PermuteOp):
            summed = {op.perm[axis] for axis in summed}
        value = op.operand
    wide = [i for i, size in enumerate(tiny.tensor_of(value).dims) if size.constant() != 1]
    return not isinstance(value.owner, tiny.WindowOp) and bool(wide) and wide[-1] in summed


def _beside_maximum(value: SSAValue) -> bool:
    """Whether elementwise ops make a value of what the largest of rows is looked for among, or the
    largest is looked for among what they make of it: as of scores, and of what they weigh."""
    ahead, behind = [value], [value]
    found: set[SSAValue] = set()
    while ahead and len(found) < NEAR:
        here = ahead.pop()
        found.add(here)
        for op in (use.operation for use in here.uses):
            if isinstance(op, tiny.ReduceOp):
                if op.function == "max":
                    return True
            elif op.results and op.results[0] not in found and op.results[0] is not value:
                ahead += op.results
    found.clear()
    while behind and len(found) < NEAR:
        here = behind.pop()
        found.add(here)
        op = here.owner
        if isinstance(op, tiny.ReduceOp) and here is not value:
            if op.function == "max":
                return True
        elif isinstance(op, Operation) and not isinstance(op, tiny.ReduceOp):
            behind += [operand for operand in op.operands if operand not in found]
    return False


NEAR = 64
"""Values around one at most that are asked so."""


def unmasked(value: SSAValue) -> SSAValue:
    """A value without the masks over it: by position, or by a condition that is data."""
    while True:
        match value.owner:
            case tiny.MaskOp() as op:
                value = op.operand
            case tiny.SelectOp() as op if _is_constant(op.otherwise):
                value = op.then
            case _:
                return value


def _is_constant(value: SSAValue) -> bool:
    while isinstance(op := value.owner, tiny.ExpandOp):
        value = op.operand
    return isinstance(value.owner, tiny.ConstantOp)


def _repeats(value: SSAValue, gone: Sequence[int]) -> bool:
    """Whether a value, but for a mask, is the same all along an axis that is not ``gone``, or has
    elements again there, as windows do.
    """
    value = unmasked(value)
    entry = value_op(value)
    axes = () if entry is None else entry.axes.data
    if any(axis.repeats for i, axis in enumerate(axes) if i not in gone):
        return True
    while isinstance(value.owner, tiny.PermuteOp):
        value = value.owner.operand
    return isinstance(value.owner, tiny.WindowOp)


@dataclass(frozen=True, slots=True)
class Delta:
    """Bytes an element: what fusing saves, and what computing it ``times`` times costs."""

    saved: float
    again: float
    times: float

    @property
    def pays(self) -> bool:
        return self.again <= self.saved

    def __str__(self) -> str:
        return (
            f"fused it would be computed {self.times:g} times, which takes as long as moving "
            f"{self.again:.3g} bytes an element; storing it moves {self.saved:g} (a size that is "
            f"not known is taken as {TYPICAL})"
        )


@dataclass
class Work:
    """The work behind each value of a graph, down to what is computed once anyway.

    ``elementwise`` holds, as bits, the elementwise ops between a value and the reductions and
    tensors that it is made of; ``heads`` the reductions that lead to it by elementwise ops of its
    own shape alone, but for axes of one point, each used once: the value is their epilogue.
    """

    elementwise: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    heads: dict[SSAValue, tuple[SSAValue, ...]] = field(
        default_factory=dict[SSAValue, tuple[SSAValue, ...]]
    )

    @staticmethod
    def of(
        graph: tiny.GraphOp,
        uses: Mapping[SSAValue, int],
        same: Mapping[SSAValue, SSAValue] | None = None,
    ) -> Work:
        """The work of a graph whose values are used so many times; ``same`` are equal values."""
        work = Work()
        for number, op in enumerate(graph.body.block.ops):
            if op.results and isinstance(op.results[0].type, SizedTensorType):
                work._add(op, 1 << number, uses, same or {})
        return work

    def _add(
        self,
        op: Operation,
        bit: int,
        uses: Mapping[SSAValue, int],
        same: Mapping[SSAValue, SSAValue],
    ) -> None:
        value = op.results[0]
        if isinstance(op, tiny.ReduceOp):
            self.elementwise[value] = 0
            self.heads[value] = (value,)
            return
        if isinstance(op, tiny.ScanOp):
            # What it is made of is no part of what follows it: it is never computed again.
            self.elementwise[value], self.heads[value] = 0, ()
            return
        bits, heads = 0, dict[SSAValue, None]()
        for operand in (same.get(o, o) for o in op.operands):
            bits |= self.elementwise.get(operand, 0)
            if uses.get(operand, 0) == 1:
                heads.update(dict.fromkeys(self.heads.get(operand, ())))
        computes = is_computed(value)
        self.elementwise[value] = bits | bit if computes else bits
        # What a gather reads is no epilogue of its indices, nor of what it reads them from.
        follows = computes and not isinstance(op, tiny.GatherOp | tiny.ScatterOp)
        follows = follows or (adds_points(op) and all(map(_is_of_rows, heads)))
        self.heads[value] = tuple(heads) if follows else ()

    def bytes_of(self, value: SSAValue) -> float:
        """What computing one element takes, its heads included, as bytes moved meanwhile."""
        total = self.elementwise.get(value, 0).bit_count() / FLOPS_A_BYTE
        for head in self.heads.get(value, ()):
            op = cast(tiny.ReduceOp, head.owner)
            sizes = tiny.tensor_of(op.operand).dims
            count = points(sizes[a] for a in op.axes)
            inner = self.elementwise.get(op.operand, 0).bit_count() + 1
            rate = TENSOR_FLOPS_A_BYTE if is_contraction(head) else FLOPS_A_BYTE
            total += count * inner / rate
        return total


def adds_points(op: Operation) -> bool:
    """Whether an op gives a value axes of one point, as a reduction that keeps its axes does."""
    if not isinstance(op, tiny.ExpandOp):
        return False
    sizes = tiny.tensor_of(op.result).dims
    return all(size.constant() == 1 for at, size in enumerate(sizes) if at not in op.dims)


def _is_of_rows(head: SSAValue) -> bool:
    """Whether a reduction is one along rows, which blocks keep, and no product."""
    op = cast(tiny.ReduceOp, head.owner)
    return op.axes == (tiny.tensor_of(op.operand).rank - 1,) and not is_contraction(head)


def is_computed(value: SSAValue) -> bool:
    """Whether arithmetic makes the value, or indices: no leaf, movement or widening cast."""
    op = value.owner
    match op:
        case tiny.CastOp():
            return element_size(value) < element_size(op.operand)
        case (
            tiny.UnaryOp() | tiny.BitcastOp() | tiny.BinaryOp() | tiny.CompareOp() | tiny.SelectOp()
        ):
            return True
        case tiny.GatherOp() | tiny.ScatterOp():
            return True
        case _:
            return isinstance(op, tiny.ReduceOp | tiny.ScanOp)


def is_small(value: SSAValue) -> bool:
    """Whether a value takes no more memory than what it is made of, or than its users.

    It is none of the products that a contraction sums, which are over more axes than both; nothing
    that repeats along an axis; and no window, which has an element several times.
    """
    op, entry = value.owner, value_op(value)
    if not isinstance(op, Operation) or entry is None:
        return False
    if isinstance(op, tiny.ConstantOp | tiny.DimOp | tiny.IotaOp | tiny.WindowOp):
        return False
    if any(axis.repeats for axis in entry.axes):
        return False
    return not any(
        isinstance(use.operation, tiny.ReduceOp) and is_contraction(use.operation.result)
        for use in value.uses
    )


def fusion_delta(
    value: SSAValue, work: Work, own: Sequence[Dim], wanted: float, kernels: int
) -> Delta:
    """Fusing ``value`` of sizes ``own``, which is computed at ``wanted`` points, in ``kernels``."""
    times = wanted / max(1.0, points(own))
    return Delta(
        stored_size(value) * (1.0 + kernels),
        max(0.0, times - 1) * work.bytes_of(value),
        times,
    )
