"""The model of time for a kernel written in tiles: its ops are counted, and its tensors' bytes.

What a plan says of a derived kernel is read off the kernel here: blocks from the launch's grid,
steps from the loops, products, copies and elements from the ops.  An index that differs from block
to block counts as what it is in the middle of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from xdsl.dialects import affine, arith, math, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.cost.device import DEVICES, Device
from polyc.cost.time import Time, launch_time
from polyc.cost.values import SLOW, Values, size_in_bytes
from polyc.cost.work import COPY, LOAD, STORE, TAKE, Work, compulsory
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp, product
from polyc.dialects.gpu.tile import (
    AtomicOp,
    ContractOp,
    CopyOp,
    FragmentOp,
    MapOp,
    PipelineOp,
    ReduceOp,
    RolesOp,
    TileCoordinatesOp,
    TileLoopOp,
)
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.dialects.region import KernelOp as RegionOp

VECTOR = 16
"""Bytes that a thread moves at once."""

REGISTERS = 72
"""Of a thread, beside its fragments; with wgmma it has ``WIDE`` in all."""

WIDE = 168


def tiles_time(
    region: RegionOp,
    launches: Sequence[tuple[LaunchOp, KernelOp]],
    sizes: Mapping[str, int],
    arch: str,
    device: Device | None = None,
) -> Time:
    """The modelled time of kernels in tiles that together compute ``region``, one after another.

    ``launches`` are their launches, in the region's symbols, each with its kernel; ``sizes`` has
    these symbols.  What the kernels move at least are the region's tensors; each launch beside the
    first adds its own start and what it copies.  The name is the region's, the variant the last
    kernel's.
    """
    device = device or DEVICES[arch]
    least, whole = compulsory(Values(region, sizes), device)
    found: list[Time] = []
    for number, (launch, kernel) in enumerate(launches):
        count = _Count(kernel, launch, sizes, device)
        work = count.work
        last = number == len(launches) - 1
        work.memory = least if last else min(work.cache, least)
        work.cache = max(work.cache, whole if last else 0.0)
        found.append(launch_time(work, device, region.sym_name.data, launch.kernel_name, count.mma))
    *before, end = found
    if not before:
        return end
    return Time(
        end.kernel,
        end.variant,
        end.tensor,
        end.threads,
        end.memory,
        end.cache,
        end.waiting,
        end.launch + sum(time.seconds for time in before),
        end.waves,
        end.after,
        end.overlapped,
    )


class _Count:
    """The work of one launch."""

    def __init__(
        self, kernel: KernelOp, launch: LaunchOp, sizes: Mapping[str, int], device: Device
    ) -> None:
        self.kernel, self.device = kernel, device
        self.values: dict[SSAValue, float] = {}
        for arg, binding in zip(kernel.body.block.args, kernel.bindings, strict=True):
            if (symbol := binding.symbol_name) is not None:
                self.values[arg] = sizes[symbol]
        self.grid = max(0, product(launch.grid, sizes))
        self.mma = self._mma()
        self.persistent = launch.persistent is not None
        there = self._at_once()
        self.blocks = float(self.grid)
        if self.persistent:
            self.blocks = min(self.blocks, float(device.multiprocessors * there))
        # A persistent block does the work of several; the model counts in tiles.
        self.work = Work(float(self.grid), kernel.threads.value.data, there)
        self._in_ring: list[bool] = []
        self._block(kernel.body.block, self.blocks)
        # Of two products in a loop one runs beside what threads make of the other.
        loops = [op.parent_op() for op in kernel.walk() if isinstance(op, ContractOp)]
        self.work.overlapped = len(set(loops)) < len(loops)

    # What a block takes

    def _mma(self) -> str:
        kinds = [op.mma.data for op in self.kernel.walk() if isinstance(op, ContractOp)]
        return kinds[0] if kinds else "none"

    def _at_once(self) -> int:
        """Blocks that an SM holds: by threads, registers and shared memory."""
        threads = self.kernel.threads.value.data
        held = 0
        for op in self.kernel.walk():
            if isinstance(op, FragmentOp):
                kind = op.fragment.type
                assert isinstance(kind, FragmentType)
                held += prod(kind.sizes) * size_in_bytes(kind.element_type) // 4
        registers = WIDE if self.mma == "wgmma" else REGISTERS + held // threads
        shared = 0
        for op in self.kernel.walk():
            if isinstance(op, SharedTileOp):
                kind = op.tile.type
                assert isinstance(kind, SharedType)
                shared += kind.bytes * self._stages(op.tile)
        room = self.device.shared // (shared + 1024)
        by_registers = self.device.registers // (threads * min(registers, 255))
        return max(1, min(self.device.threads // threads, by_registers, room))

    @staticmethod
    def _stages(tile: SSAValue) -> int:
        """How many of a tile a pipeline keeps, of which one copy fills it."""
        for use in tile.uses:
            op = use.operation
            if isinstance(op, CopyOp) and op.target is tile:
                around = op.parent_op()
                if isinstance(around, PipelineOp):
                    return around.stages.value.data
        return 1

    # What it does

    def _block(self, block: Block, times: float) -> None:
        for op in block.ops:
            self._op(op, times)

    def _op(self, op: Operation, times: float) -> None:
        match op:
            case TileLoopOp():
                tiles = prod(
                    max(1.0, -(-self._of(size) // tile))
                    for size, tile in zip(op.sizes, op.tile.data, strict=True)
                )
                shares = 1 if op.shares is None else op.shares.value.data
                for value, size in zip(op.coordinates, op.sizes, strict=True):
                    self.values[value] = self._of(size) / 2
                self.values[op.ordinal] = 0
                self.work.blocks = max(self.work.blocks, tiles)
                self._block(op.body.block, times / max(1.0, self.blocks) * tiles / shares)
            case PipelineOp():
                trips = -(-self._of(op.bound) // op.step.value.data)
                self._loop(op, op.body.block, times, trips, op.stages.value.data > 1)
            case scf.ForOp():
                step = max(1.0, self._of(op.step))
                trips = -(-(self._of(op.ub) - self._of(op.lb)) // step)
                self.values[op.body.block.args[0]] = (self._of(op.ub) + self._of(op.lb)) / 2
                self._loop(op, op.body.block, times, trips, False)
            case RolesOp():
                self._block(op.producer.block, times)
                each = op.consumers.value.data if op.independent is not None else 1
                for value in op.consumer.block.args:
                    self.values[value] = 0
                self._block(op.consumer.block, times * each)
            case TileCoordinatesOp():
                for value, size in zip(op.results, op.sizes, strict=True):
                    self.values[value] = self._of(size) / 2
            case ContractOp():
                self.work.flops += 2 * prod(op.sizes) * times
            case CopyOp():
                self._copy(op, times)
            case MapOp():
                self._map(op, times)
            case ReduceOp():
                self.work.operations += _elements(op.source) * times
            case AtomicOp():
                self.work.operations += STORE * _elements(op.fragment) * times
                self.work.cache += 2 * _bytes(op.fragment) * times
            case _:
                self._value(op)
                for region in op.regions:
                    for block in region.blocks:
                        self._block(block, times)

    def _loop(self, op: Operation, body: Block, times: float, trips: float, ring: bool) -> None:
        trips = max(0.0, trips)
        waits = any(isinstance(o, CopyOp) and _is_read(o) for o in body.ops)
        ahead = ring or any(
            isinstance(o, CopyOp) and o.loader is not None and o.loader.data != "register"
            for o in op.walk()
        )
        self.work.ring = self.work.ring or (waits and ahead)
        if waits and not ahead:
            self.work.steps += trips
        self._in_ring.append(ahead)
        self._block(body, times * trips)
        self._in_ring.pop()

    def _copy(self, op: CopyOp, times: float) -> None:
        source, target = op.source.type, op.target.type
        tile = op.target if isinstance(source, GlobalType) else op.source
        elements, size = _elements(tile), _bytes(tile)
        by_engine = op.loader is not None and op.loader.data == "tma"
        if isinstance(source, GlobalType) or isinstance(target, GlobalType):
            shared = self.kernel.cluster_size if op.multicast is not None else 1
            self.work.cache += size * times / shared
            if not by_engine:
                each = COPY * size / VECTOR if _is_shared(tile) else LOAD * elements
                self.work.operations += (STORE * elements if _is_store(op) else each) * times
            if isinstance(source, GlobalType) and not self._in_ring:
                self.work.reads += 0 if by_engine else size * times
                if not self.work.flops and not by_engine:
                    self.work.steps += 1
        else:
            self.work.operations += TAKE * elements * times

    def _map(self, op: MapOp, times: float) -> None:
        elements = _elements(op.space) * times
        for value in op.inputs:
            if isinstance(value.type, GlobalType):
                size = elements * size_in_bytes(value.type.element_type)
                self.work.operations += LOAD * elements
                self.work.reads += size
                self.work.cache += size
            elif isinstance(value.type, SharedType):
                self.work.operations += TAKE * elements
        for value in op.outputs:
            if isinstance(value.type, GlobalType):
                self.work.operations += STORE * elements
                self.work.cache += elements * size_in_bytes(value.type.element_type)
        self.work.operations += elements * sum(_instructions(o) for o in op.body.walk())

    # Indices

    def _of(self, value: SSAValue) -> float:
        """An index where it is known, as one is in the middle; 1 where nothing is known of it."""
        return self.values.get(value, 1.0)

    def _value(self, op: Operation) -> None:
        """What an op on indices gives."""
        if not op.results or not isinstance(op.results[0].type, IndexType):
            return
        match op:
            case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                found = float(op.value.value.data)
            case affine.ApplyOp():
                operands = [self._of(v) for v in op.mapOperands]
                over = op.map.data
                dims, symbols = operands[: over.num_dims], operands[over.num_dims :]
                found = _evaluated(over.results[0], dims, symbols)
            case _ if (function := _INDEX_OPS.get(type(op))) is not None:
                found = function(*(self._of(v) for v in op.operands))
            case _:
                # What says where a block is: the middle of the grid.
                found = self.grid / 2 if not op.operands else 1.0
        self.values[op.results[0]] = found


_INDEX_OPS: Mapping[type[Operation], Callable[[float, float], float]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivSIOp: lambda a, b: a // b if b else 0.0,
    arith.DivUIOp: lambda a, b: a // b if b else 0.0,
    arith.FloorDivSIOp: lambda a, b: a // b if b else 0.0,
    arith.CeilDivSIOp: lambda a, b: -(-a // b) if b else 0.0,
    arith.RemSIOp: lambda a, b: a % b if b else 0.0,
    arith.RemUIOp: lambda a, b: a % b if b else 0.0,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}
"""The functions of two indices."""

_FUNCTIONS: Mapping[type[Operation], str] = {
    math.ExpOp: "exp",
    math.Exp2Op: "exp",
    math.LogOp: "log",
    math.Log2Op: "log",
    math.RsqrtOp: "rsqrt",
    math.SqrtOp: "sqrt",
    math.TanhOp: "tanh",
    math.ErfOp: "erf",
    math.PowFOp: "pow",
    arith.DivfOp: "div",
}
"""What takes several instructions, by its name in a region."""


def _instructions(op: Operation) -> float:
    """The instructions of a thread for one op of a map's body."""
    if not op.results or isinstance(op, arith.ConstantOp):
        return 0.0
    name = _FUNCTIONS.get(type(op))
    return 1.0 if name is None else SLOW[name]


def _evaluated(expr: AffineExpr, dims: Sequence[float], symbols: Sequence[float]) -> float:
    """An index expression at some values, rounded down to whole ones first."""
    found = expr.eval([int(x) for x in dims], [int(x) for x in symbols])
    return float(found)


def _is_shared(value: SSAValue) -> bool:
    return isinstance(value.type, SharedType)


def _is_store(op: CopyOp) -> bool:
    return isinstance(op.target.type, GlobalType)


def _is_read(op: CopyOp) -> bool:
    return isinstance(op.source.type, GlobalType)


def _elements(value: SSAValue) -> float:
    kind = value.type
    return float(prod(kind.sizes)) if isinstance(kind, FragmentType | SharedType) else 0.0


def _bytes(value: SSAValue) -> float:
    kind = value.type
    assert isinstance(kind, FragmentType | SharedType)
    return _elements(value) * size_in_bytes(kind.element_type)
