"""Memory and tensor-core instructions on NumPy, from the figures of the PTX ISA.

``Simulator`` gives the ``Machine`` of ``evaluate.py`` tensors, shared memory, copies, ldmatrix,
mma.sync and wgmma on f16.  Threads run in lockstep and copies arrive at once, so it says where
data goes and not whether anything waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerType, VectorType
from xdsl.ir import SSAValue

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import SharedType, TensorMapType, element_bytes
from polyc.test.support.evaluate import Array, Event, Machine, dtype, element_of

Ints = NDArray[np.int64]


def swizzled(address: Array, span: int) -> Array:
    """The hardware's swizzle: address bits 4 and up XOR bits 7 and up, as many as the span has."""
    chunks = span // 16 if span else 1
    return address ^ ((address >> 7) % chunks << 4)


def place(kind: SharedType, slot: Array, row: Array, column: Array, base: int = 0) -> Array:
    """The address of an element of a shared tile, as the docstring of the type says it.

    Slots one after another, in each the panels one after another, in each rows of ``span``
    bytes; then the hardware's swizzle.
    """
    size = element_bytes(kind.element_type)
    rows, columns = kind.sizes
    span = kind.swizzle_bytes or columns * size
    byte = column * size
    start = base + slot * rows * columns * size + byte // span * span * rows
    return swizzled(start + row * span + byte % span, kind.swizzle_bytes or 0)


class Simulator:
    """A kernel's memory.

    ``tensors`` are the signature's, by number; ``written`` counts the stores to each element.
    """

    def __init__(
        self,
        kernel: KernelOp,
        tensors: Sequence[Array],
        symbols: Mapping[str, int],
        block: int = 0,
        shared_bytes: int = 1 << 18,
    ) -> None:
        assert all(t.flags.c_contiguous for t in tensors)
        self.tensors = tensors
        self.written = [np.zeros(t.size, np.int64) for t in tensors]
        self.shared = np.full(shared_bytes, 0xFF, np.uint8)
        self.of: dict[SSAValue, int] = {}
        self.machine = Machine(
            kernel.threads.value.data,
            block,
            {
                hw.LoadGlobalOp: self.load_global,
                hw.StoreGlobalOp: self.store_global,
                hw.CpAsyncOp: self.cp_async,
                hw.LoadSharedOp: self.load_shared,
                hw.StoreSharedOp: self.store_shared,
                hw.ShuffleOp: self.shuffle,
                hw.TmaLoadOp: self.tma_load,
                hw.LdmatrixOp: self.ldmatrix,
                hw.MmaSyncOp: self.mma_sync,
                hw.WgmmaDescriptorOp: self.descriptor,
                hw.WgmmaOp: self.wgmma,
            },
        )
        for arg, binding in zip(kernel.body.block.args, kernel.bindings, strict=True):
            if (index := binding.tensor_index) is not None:
                self.of[arg] = index
            else:
                self.machine.set(arg, symbols[str(binding.source.data)])
        self.body = kernel.body.block.ops

    def run(self) -> Simulator:
        self.machine.run(self.body)
        return self

    # Global memory

    def places(
        self, event: Event, tensor: SSAValue, indices: Sequence[SSAValue], width: int
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Offsets ``[width, thread]`` of an access, and which threads make it."""
        op = event.op
        assert isinstance(op, hw.LoadGlobalOp | hw.StoreGlobalOp | hw.CpAsyncOp)
        active = event.active
        if op.predicate is not None:
            active = active & self.machine.get(op.predicate).astype(np.bool_)
        at = [self.machine.get(i)[active] for i in indices]
        shape = self.tensors[self.of[tensor]].shape
        linear = len(indices) == 1 and isinstance(indices[0].type, IntegerType)
        first = at[0] if linear else np.ravel_multi_index(tuple(at), shape) if at else np.asarray(0)
        offsets = np.broadcast_to(first, (int(active.sum()),)) + np.arange(width)[:, None]
        return offsets.astype(np.int64), active

    def load_global(self, event: Event) -> Sequence[Array]:
        op = event.op
        assert isinstance(op, hw.LoadGlobalOp)
        vector = isinstance(op.result.type, VectorType)
        width = hw.vector_length(op.result.type)
        offsets, active = self.places(event, op.tensor, op.indices, width)
        loaded = np.zeros((width, self.machine.threads), dtype(element_of(op.result.type)))
        loaded[:, active] = self.tensors[self.of[op.tensor]].ravel()[offsets]
        return [loaded if vector else loaded[0]]

    def store_global(self, event: Event) -> Sequence[Array]:
        op = event.op
        assert isinstance(op, hw.StoreGlobalOp)
        width = hw.vector_length(op.value.type)
        offsets, active = self.places(event, op.tensor, op.indices, width)
        values = np.reshape(self.machine.get(op.value), (width, -1))
        index = self.of[op.tensor]
        self.tensors[index].reshape(-1)[offsets] = values[:, active]
        np.add.at(self.written[index], offsets.ravel(), 1)
        return []

    # Shared memory

    def tile(self, kind: SharedType, base: int = 0, slot: int = 0) -> Array:
        """Addresses ``[row, column]`` of a shared tile."""
        rows, columns = kind.sizes
        r, c = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        return place(kind, np.asarray(slot), r, c, base)

    def read(self, address: Array, count: int, kind: Any = np.float16) -> Array:
        """``[..., count]`` values of ``kind`` at these addresses."""
        size = np.dtype(kind).itemsize
        at = np.asarray(address)[..., None] + np.arange(count * size)
        return np.ascontiguousarray(self.shared[at]).view(kind)

    def write(self, address: Array, values: Array) -> None:
        """Put ``values [..., count]`` at these addresses, each aligned to what it gets."""
        raw = np.ascontiguousarray(values).view(np.uint8)
        assert (np.asarray(address) % raw.shape[-1] == 0).all(), "misaligned shared store"
        self.shared[np.asarray(address)[..., None] + np.arange(raw.shape[-1])] = raw

    def cp_async(self, event: Event) -> Sequence[Array]:
        op = event.op
        assert isinstance(op, hw.CpAsyncOp)
        source = self.tensors[self.of[op.tensor]]
        width = op.bytes.value.data // source.itemsize
        offsets, active = self.places(event, op.tensor, op.indices, width)
        assert (offsets[0] % width == 0).all(), "misaligned cp.async"
        chunk = np.zeros((self.machine.threads, width), source.dtype)
        chunk[active] = source.ravel()[offsets].T
        self.write(event[op.address], chunk[event.active])
        return []

    def load_shared(self, event: Event) -> Sequence[Array]:
        op = event.op
        assert isinstance(op, hw.LoadSharedOp)
        width = hw.vector_length(op.result.type)
        found = self.read(self.machine.get(op.address), width, dtype(element_of(op.result.type)))
        return [found.T if isinstance(op.result.type, VectorType) else found[:, 0]]

    def store_shared(self, event: Event) -> Sequence[Array]:
        op = event.op
        assert isinstance(op, hw.StoreSharedOp)
        values = np.reshape(event[op.value], (hw.vector_length(op.value.type), -1))
        self.write(event[op.address], values.T)
        return []

    def shuffle(self, event: Event) -> Sequence[Array]:
        """By the lane's number."""
        op = event.op
        assert isinstance(op, hw.ShuffleOp) and op.kind.data == "index"
        warps = self.machine.get(op.value).reshape(-1, 32)
        lanes = np.broadcast_to(self.machine.get(op.lane), (warps.size,)).reshape(-1, 32)
        return [np.take_along_axis(warps, lanes.astype(np.int64), 1).ravel()]

    def tma_load(self, event: Event) -> Sequence[Array]:
        """One box by one thread; the destination's pattern follows its address."""
        op = event.op
        assert isinstance(op, hw.TmaLoadOp) and isinstance(op.map.type, TensorMapType)
        assert event.active.sum() == 1, "a TMA copy is issued by one thread"
        source = self.tensors[self.of[op.map]]
        rows, columns = op.map.type.sizes
        span, size = op.map.type.swizzle.data, element_bytes(op.map.type.element_type)
        row, column = (int(event[c][0]) for c in op.coordinates)
        box = np.zeros((rows, columns), source.dtype)
        inside = source[row : row + rows, column : column + columns]
        box[: inside.shape[0], : inside.shape[1]] = inside
        target = int(event[op.address][0])
        assert target % max(128, 8 * span) == 0, "a box starts where its pattern does"
        place = np.arange(rows)[:, None] * columns * size + np.arange(columns) * size
        self.write(swizzled(target + place, span), box[..., None])
        return []

    # Tensor cores

    def ldmatrix(self, event: Event) -> Sequence[Array]:
        """Lane l points at row l mod 8 of block l / 8; lane t gets a pair of row t / 4."""
        op = event.op
        assert isinstance(op, hw.LdmatrixOp)
        address = self.machine.get(op.address).reshape(-1, 4, 8)
        assert (address % 16 == 0).all()
        blocks = self.read(address, 8)
        if op.transpose is not None:
            blocks = blocks.swapaxes(-1, -2)
        pairs = np.ascontiguousarray(blocks).view(np.uint32).astype(np.int64)
        first = self.machine.uniform(op.offset)
        registers = pairs.reshape(-1, 4, 32).swapaxes(0, 1).reshape(4, -1)
        self.machine.values[op.registers][first : first + 4] = registers
        return []

    def mma_sync(self, event: Event) -> Sequence[Array]:
        """m16n8k16 a warp (PTX ISA, matrix fragments for mma.m16n8k16)."""
        op = event.op
        assert isinstance(op, hw.MmaSyncOp)
        values, uniform = self.machine.values, self.machine.uniform
        a0, b0, c0 = uniform(op.a_offset), uniform(op.b_offset), uniform(op.acc_offset)
        lane = np.arange(32)
        g, t = lane // 4, lane % 4
        pair = np.arange(2)[:, None]

        def halves(registers: Array) -> Array:
            """``[register, half, warp, lane]`` of packed 16-bit pairs."""
            raw = np.ascontiguousarray(registers.astype(np.uint32).T).view(np.float16)
            return raw.reshape(-1, 32, registers.shape[0], 2).transpose(2, 3, 0, 1)

        fa, fb = halves(values[op.a][a0 : a0 + 4]), halves(values[op.b][b0 : b0 + 2])
        warps = fa.shape[2]
        a = np.zeros((warps, 16, 16), np.float32)
        b = np.zeros((warps, 16, 8), np.float32)
        for r in range(4):
            for h in range(2):
                a[:, g + 8 * (r % 2), 2 * t + h + 8 * (r // 2)] = fa[r, h]
        for r in range(2):
            for h in range(2):
                b[:, 2 * t + h + 8 * r, g] = fb[r, h]
        product = a @ b
        acc = values[op.acc]
        for r in range(2):
            rows, columns = np.broadcast_arrays(g + 8 * r, 2 * t + pair)
            at = slice(c0 + 2 * r, c0 + 2 * r + 2)
            acc[at] += product[:, rows, columns].swapaxes(0, 1).reshape(2, -1)
        return []

    def descriptor(self, event: Event) -> Sequence[Array]:
        """Its start address; the other fields are on the op."""
        op = event.op
        assert isinstance(op, hw.WgmmaDescriptorOp)
        return [self.machine.get(op.address)]

    def operand(self, start: int, op: hw.WgmmaDescriptorOp, transposed: bool, count: int) -> Array:
        """``[count, 16]``: an operand along m or n, and k (PTX ISA, wgmma shared layouts)."""
        leading, stride, span = (f.value.data for f in (op.leading, op.stride, op.swizzle))
        line, k = np.arange(count)[:, None], np.arange(16)
        if transposed:
            wide = span // 2
            place = line // wide * leading + k // 8 * stride + k % 8 * span + line % wide * 2
        else:
            place = line // 8 * stride + line % 8 * span + k * 2
        return self.read(swizzled(start + place, span), 1)[..., 0].astype(np.float32)

    def wgmma(self, event: Event) -> Sequence[Array]:
        """m64nNk16 a warpgroup."""
        op = event.op
        assert isinstance(op, hw.WgmmaOp)
        n = op.n.value.data
        thread, i = np.arange(128), np.arange(n // 2)[:, None]
        row = 16 * (thread // 32) + thread % 32 // 4 + 8 * (i // 2 % 2)
        column = 8 * (i // 4) + 2 * (thread % 4) + i % 2
        a_start, b_start = self.machine.get(op.a), self.machine.get(op.b)
        a_op, b_op = op.a.owner, op.b.owner
        assert isinstance(a_op, hw.WgmmaDescriptorOp) and isinstance(b_op, hw.WgmmaDescriptorOp)
        for first in range(0, self.machine.threads, 128):
            group = slice(first, first + 128)
            if not event.active[group].any():
                continue
            assert event.active[group].all(), "wgmma takes a whole warpgroup"
            assert len(set(a_start[group])) == len(set(b_start[group])) == 1
            a = self.operand(
                int(a_start[first]) + op.a_offset.value.data, a_op, op.transpose_a is not None, 64
            )
            b = self.operand(
                int(b_start[first]) + op.b_offset.value.data, b_op, op.transpose_b is not None, n
            )
            self.machine.values[op.acc][:, group] += (a @ b.T)[row, column]
        return []
