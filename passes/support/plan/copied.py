"""What a plan expects of the launches that copy operands to other rows before its kernel (S8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.padded import COPY_COLUMNS, COPY_ROWS, COPY_THREADS, PANEL
from polyc.families.matmul.padded import copied
from polyc.families.matmul.recognise import Contraction, MatrixOperand


@dataclass(frozen=True)
class Copied:
    """Of all copies, in the words of the simulator's counters."""

    ctas: int = 0
    threads: int = 0
    read_bytes: int = 0
    write_bytes: int = 0

    @staticmethod
    def of(gemm: Contraction, plan: ScheduleOp, symbols: Mapping[str, int]) -> Copied:
        """Of a product under a plan; rows of whole panels are not copied."""
        ctas = read = written = 0
        for number in copied(gemm, plan):
            *outer, length = (size.evaluate(symbols) for size in gemm.kernel.seen[number].shape)
            if length % PANEL == 0:
                continue
            rows = prod(outer)
            ctas += -(-rows // COPY_ROWS) * -(-length // COPY_COLUMNS)
            read += rows * length * OPERAND_BYTES
            written += rows * -(-length // PANEL) * PANEL * OPERAND_BYTES
        return Copied(ctas, ctas * COPY_THREADS, read, written)


def points(
    gemm: Contraction, plan: ScheduleOp, side: MatrixOperand, sizes: Mapping[str, int]
) -> int:
    """The elements of an operand's matrix, with what its copy has behind rows."""
    first, last = (sizes[gemm.k if axis not in sizes else axis] for axis in side.tile_axes)
    numbers = copied(gemm, plan)
    tensors = [t for t in side.tensors if gemm.kernel.ins.index(t) in numbers] if numbers else []
    return first * (-(-last // PANEL) * PANEL if tensors else last)
