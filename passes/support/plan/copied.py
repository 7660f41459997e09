"""What a plan expects of the launches that copy operands to other rows before its kernel (S8)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp, k_major
from polyc.dialects.plan.padded import COPY_COLUMNS, COPY_ROWS, COPY_THREADS, PANEL
from polyc.families.matmul import tensor_float
from polyc.families.matmul.padded import copied
from polyc.families.matmul.recognise import Contraction, MatrixOperand


@dataclass(frozen=True)
class Copied:
    """Of all copies, in the words of the simulator's counters."""

    ctas: int = 0
    threads: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    turned: int = 0
    """CTAs that turn a tile in shared memory."""

    @staticmethod
    def of(gemm: Contraction, plan: ScheduleOp, symbols: Mapping[str, int]) -> Copied:
        """Of a product under a plan; rows of whole panels are not copied."""
        if plan.tensor_float:
            return Copied._along_k(gemm, plan, symbols)
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

    @staticmethod
    def _along_k(gemm: Contraction, plan: ScheduleOp, symbols: Mapping[str, int]) -> Copied:
        """Of a product of f32 on tensor cores."""
        ctas = turned = read = written = 0
        for side in tensor_float.copies(gemm, plan):
            shape = gemm.kernel.seen[tensor_float.number_of(side)].shape
            *outer, high, wide = (size.evaluate(symbols) for size in shape)
            turns = not tensor_float.lies_along_k(side, gemm.k)
            rows, depth = (wide, high) if turns else (high, wide)
            depth = -(-depth // k_major.ROW) * k_major.ROW
            matrices = prod(outer)
            one, along = k_major.TURN_TILE if turns else k_major.COPY_TILE
            blocks = matrices * -(-rows // one) if turns else -(-matrices * rows // one)
            blocks *= -(-depth // along)
            ctas, turned = ctas + blocks, turned + blocks * turns
            read += matrices * high * wide * plan.operand_bytes
            parts = k_major.PARTS[plan.tensor_float or ""]
            written += matrices * rows * depth * parts * plan.operand_bytes
        return Copied(ctas, ctas * k_major.COPY_THREADS, read, written, turned)

    @property
    def turned_bytes(self) -> int:
        """What turning writes to shared memory, and reads from it."""
        return self.turned * prod(k_major.TURN_TILE) * k_major.ELEMENT_BYTES

    @property
    def barriers(self) -> int:
        """Warps that meet at barriers of the CTAs that turn."""
        return self.turned * k_major.COPY_THREADS // 32


def points(
    gemm: Contraction, plan: ScheduleOp, side: MatrixOperand, sizes: Mapping[str, int]
) -> int:
    """The elements of an operand's matrix, with what its copy has behind rows."""
    if plan.tensor_float:
        whole = any(side is one for one in tensor_float.copied(gemm, plan))
        row = k_major.ROW if whole else 1
        (across,) = (axis for axis in side.tile_axes if axis != gemm.k)
        depth = -(-sizes[gemm.k] // row) * row * k_major.SEGMENTS[plan.tensor_float]
        return sizes[across] * depth
    first, last = (sizes[gemm.k if axis not in sizes else axis] for axis in side.tile_axes)
    numbers = copied(gemm, plan)
    tensors = [t for t in side.tensors if gemm.kernel.ins.index(t) in numbers] if numbers else []
    return first * (-(-last // PANEL) * PANEL if tensors else last)
