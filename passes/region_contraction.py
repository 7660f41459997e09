"""The contraction of a region: what ``plan-select`` and the lowering schedule (S8, S9).

A region computes ``C[m, n] = epilogue(sum over k of A[m, k] * B[k, n])``, or is refused
with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from polyc.dialects.dim import Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp
from polyc.dialects.region_types import MemRefType, ValType
from polyc.passes.region_products import WAY_OUT, epilogue_steps, find_product, unsupported


@dataclass(frozen=True)
class Operand:
    """One side of a contraction: a tensor, the read of it, and the axes of its dimensions."""

    name: str
    read: ReadOp
    axes: tuple[str, ...]
    """The axis that walks each dimension of the tensor, outermost first."""

    @property
    def contiguous(self) -> Dim:
        """The size of the innermost dimension."""
        return cast("MemRefType", self.read.tensor.type).shape[-1]


def staged_tile(gemm: Contraction, plan: ScheduleOp) -> tuple[int, int] | None:
    """The part of the output that a kernel stores at once by TMA; None where threads store.

    The copy engine takes one output of 16-bit elements that lies as the accumulator does.
    """
    outs = gemm.kernel.outs
    if len(outs) != 1 or element_bytes(outs.data[0].element_type) != OPERAND_BYTES:
        return None
    if [axis.label for axis in gemm.kernel.iters] != [gemm.m, gemm.n]:
        return None
    return plan.staged_tile


@dataclass(frozen=True)
class Contraction:
    """``C[m, n] = epilogue(sum over k of A[m, k] * B[k, n])`` in a region.

    ``lhs`` carries m and ``rhs`` carries n, where n is the innermost axis of the output.
    """

    kernel: KernelOp
    reduce: ReduceOp
    lhs: Operand
    rhs: Operand
    m: str
    n: str
    k: str
    epilogue: tuple[str, ...]

    def size(self, axis: str) -> Dim:
        """The number of points of an axis."""
        found = cast("ValType", self.reduce.operand.type).axis(axis)
        assert found is not None
        return found.size


def find_contraction(kernel: KernelOp) -> Contraction:
    """The contraction of a region.

    The region holds one sum of products whose two factors are reads of f16 or bf16
    tensors, moved and cast only.  Raises PolycError ``UnsupportedProgram`` with the
    reason and the way out.
    """
    product = find_product(kernel)
    reduce, pattern = product.reduce, product.pattern
    factors = (product.lhs, product.rhs)
    for side in factors:
        if side.read.guard is not None:
            why = f"it reads {side.name} under a guard"
            raise unsupported(kernel, why, "pad the tensor outside", side.read)
    if len(reduce.labels) != 1:
        raise unsupported(kernel, f"it reduces {len(reduce.labels)} axes", WAY_OUT, reduce)
    out = reduce.result.type.labels
    if pattern.batch or not len(pattern.lhs_axes) == len(pattern.rhs_axes) == 1:
        raise unsupported(
            kernel,
            f"it contracts {product.lhs.name} with {product.rhs.name} into [{', '.join(out)}], "
            "which is no product of two matrices",
            WAY_OUT,
            reduce,
        )
    for side, found in zip(factors, (pattern.lhs, pattern.rhs), strict=True):
        if not found.plain:
            raise unsupported(
                kernel,
                f"it reads {side.name} at {side.read.map.data}, not along its axes",
                WAY_OUT,
                side.read,
            )
    names = product.names
    walked = [tuple(names[a] for a in o.axes if a is not None) for o in (pattern.lhs, pattern.rhs)]
    sides = [Operand(s.name, s.read, axes) for s, axes in zip(factors, walked, strict=True)]
    # The innermost axis of the output is n, whichever factor carries it.
    lhs, rhs = sides if pattern.lhs_axes == (0,) else sides[::-1]
    m, n = out
    steps = epilogue_steps(kernel, reduce)
    return Contraction(kernel, reduce, lhs, rhs, m, n, reduce.labels[0], steps)
