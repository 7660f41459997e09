"""The model of time for a kernel written in tiles: its ops are counted, and its tensors' bytes.

What a plan says of a derived kernel is read off the kernel here: blocks from the launch's grid,
steps from the loops, products, copies and elements from the ops.  Some blocks are looked at, evenly
spread over the grid, and the others do as much.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from math import log2, prod

from xdsl.dialects import affine, arith, math, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from polyc.affine.expressions import uses_dim
from polyc.cost.device import Device, device_of
from polyc.cost.rows import CONVERT, EXCHANGE, MEETING
from polyc.cost.time import Time, launch_time
from polyc.cost.values import SLOW, Values, size_in_bytes
from polyc.cost.work import COPY, LOAD, STORE, TAKE, Work, compulsory
from polyc.dialects.common.grids import product
from polyc.dialects.gpu.hardware import (
    BlockIdOp,
    ClusterRankOp,
    ErfcOp,
    FmodOp,
    PhiloxOp,
    PowerOp,
    SharedTileOp,
)
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.tile import (
    AtomicOp,
    ContractOp,
    CopyOp,
    FragmentOp,
    MapOp,
    PipelineOp,
    ReduceOp,
    ReduceScatterOp,
    RolesOp,
    TileCoordinatesOp,
    TileIndexOp,
    TileLoopOp,
)
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.dialects.region import KernelOp as RegionOp

VECTOR = 16
"""Bytes that a thread moves at once."""

REGISTERS = 72
"""Of a thread, beside its fragments; with wgmma it has ``WIDE`` in all."""

WIDE = 168

SAMPLES = 16
"""Blocks that are looked at, and tiles of a block that goes through several."""

GOLDEN = 0.6180339887
"""Steps by which samples are spread evenly, and never in step with what repeats over the grid."""


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
    device = device or device_of(arch)
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
    """The work of one launch: what some of its blocks do, and as many others as there are."""

    def __init__(
        self, kernel: KernelOp, launch: LaunchOp, sizes: Mapping[str, int], device: Device
    ) -> None:
        self.kernel, self.device, self.launch = kernel, device, launch
        kinds = [op.mma.data for op in kernel.walk() if isinstance(op, ContractOp)]
        self.mma = kinds[0] if kinds else "none"
        self.threads = kernel.threads.value.data
        self.grid = max(0, product(launch.grid.data, sizes))
        self.blocks = self.grid
        there = self._at_once()
        if launch.persistent is not None:
            self.blocks = min(self.blocks, device.multiprocessors * there)
        # A persistent block does the work of several; the model counts in tiles.
        self.work = Work(float(self.grid), self.threads, there)
        # Of two products in a loop one runs beside what threads make of the other.
        loops = [op.parent_op() for op in kernel.walk() if isinstance(op, ContractOp)]
        self.work.overlapped = len(set(loops)) < len(loops)
        self._depth = 0
        self._first = True
        chosen = _samples(self.blocks)
        for number, block in enumerate(chosen):
            self.block, self.rank = block, number % kernel.cluster_size
            self.values: dict[SSAValue, int] = {}
            for arg, binding in zip(kernel.body.block.args, kernel.bindings, strict=True):
                if (symbol := binding.symbol_name) is not None:
                    self.values[arg] = sizes[symbol]
            self._block(kernel.body.block, self.blocks / len(chosen))
            self._first = False

    def _at_once(self) -> int:
        """Blocks that an SM holds: by threads, registers and shared memory."""
        held = shared = 0
        for op in self.kernel.walk():
            if isinstance(op, FragmentOp):
                held += int(_bytes(op.fragment)) // 4
            elif isinstance(op, SharedTileOp):
                kind = op.tile.type
                assert isinstance(kind, SharedType)
                shared += kind.bytes * _stages(op.tile)
        registers = WIDE if self.mma == "wgmma" else min(255, REGISTERS + held // self.threads)
        room = self.device.shared // (shared + 1024)
        by_registers = self.device.registers // (self.threads * registers)
        return max(1, min(self.device.threads // self.threads, by_registers, room))

    # What it does

    def _block(self, block: Block, times: float) -> None:
        for op in block.ops:
            self._op(op, times)

    def _op(self, op: Operation, times: float) -> None:
        match op:
            case TileLoopOp():
                self._tile_loop(op, times)
            case PipelineOp():
                trips = -(-self._of(op.bound, 1) // op.step.value.data)
                self._loop(op, times, trips, 0, op.step.value.data, op.stages.value.data > 1)
            case scf.ForOp():
                first, step = self._of(op.lb, 0), max(1, self._of(op.step, 1))
                trips = -(-(self._of(op.ub, 1) - first) // step)
                self._loop(op, times, trips, first, step, False)
            case scf.IfOp():
                known = self.values.get(op.cond)
                for taken, region in ((True, op.true_region), (False, op.false_region)):
                    if known is None or bool(known) == taken:
                        for block in region.blocks:
                            self._block(block, times)
            case RolesOp():
                self._block(op.producer.block, times)
                each = op.consumers.value.data if op.independent is not None else 1
                for value in op.consumer.block.args:
                    self.values[value] = 0
                self._block(op.consumer.block, times * each)
            case TileCoordinatesOp():
                number = self.block // (self.kernel.cluster_size if op.cluster is not None else 1)
                self._place(op.results, op.sizes, op.tile.data, number)
            case ContractOp():
                self.work.flops += 2 * prod(op.sizes) * times
            case CopyOp():
                self._copy(op, times)
            case MapOp():
                self._map(op, times)
            case ReduceOp():
                self._reduce(op, times)
            case ReduceScatterOp():
                self.work.exchanged += _bytes(op.source) * times
            case AtomicOp():
                self.work.operations += STORE * _elements(op.fragment) * times
                self.work.cache += 2 * _bytes(op.fragment) * times
            case _:
                self._value(op)
                for region in op.regions:
                    for block in region.blocks:
                        self._block(block, times)

    def _place(
        self,
        results: Sequence[SSAValue],
        sizes: Sequence[SSAValue],
        tile: Sequence[int],
        number: int,
    ) -> None:
        """The first coordinates of a tile, in the order of rows; the raster's only moves them."""
        for value, size, step in reversed([*zip(results, sizes, tile, strict=False)]):
            count = max(1, -(-self._of(size, 1) // step))
            self.values[value] = number % count * step
            number //= count

    def _tile_loop(self, op: TileLoopOp, times: float) -> None:
        tiles = prod(
            -(-self._of(size, 1) // tile)
            for size, tile in zip(op.sizes, op.tile.data, strict=False)
        )
        shares = 1 if op.shares is None else op.shares.value.data
        self.work.blocks = max(self.work.blocks, float(tiles))
        chosen = _samples(tiles)
        each = times * tiles / max(1, self.blocks) / shares / max(1, len(chosen))
        self.values[op.ordinal] = 0
        for tile in chosen:
            self._place(op.coordinates, op.sizes, op.tile.data, tile)
            self._block(op.body.block, each)

    def _loop(
        self, op: Operation, times: float, trips: int, first: int, step: int, ring: bool
    ) -> None:
        trips = max(0, trips)
        body = op.regions[0].block
        copies = [o for o in body.walk() if isinstance(o, CopyOp) and _is_read(o)]
        ahead = ring or any(o.loader is not None and o.loader.data != "register" for o in copies)
        self.work.ring = self.work.ring or (bool(copies) and ahead)
        if copies and not ahead and self._first:
            self.work.steps += trips
        middle = trips // 2
        for value, number in zip(body.args[:2], (first + middle * step, middle), strict=False):
            self.values[value] = number
        self._depth += 1
        self._block(body, times * trips)
        self._depth -= 1

    def _copy(self, op: CopyOp, times: float) -> None:
        tensor = op.source if _is_read(op) else op.target
        tile = op.target if _is_read(op) else op.source
        elements = _elements(tile) * times
        if not isinstance(tensor.type, GlobalType):
            self.work.operations += TAKE * elements
            return
        size = _bytes(tile) * times
        self.work.cache += size / (self.kernel.cluster_size if op.multicast is not None else 1)
        if op.loader is not None and op.loader.data == "tma":
            return
        if isinstance(tile.type, SharedType):
            self.work.operations += COPY * size / self._vector(tensor)
        else:
            self.work.operations += self._moved(tensor, elements, _is_read(op))
        if _is_read(op) and not self._depth:
            self.work.steps += self._first
            if self.mma != "none":
                self.work.reads += size

    def _vector(self, tensor: SSAValue) -> int:
        """The bytes that a thread moves at once of a tensor, by what its launch promises."""
        if isinstance(tensor, BlockArgument) and tensor.block is self.kernel.body.block:
            index = self.launch.bound(self.kernel.bindings.data[tensor.index]).tensor_index
            if index is not None:
                return min(VECTOR, max(1, self.launch.alignments[index]))
        return VECTOR

    def _moved(self, tensor: SSAValue, elements: float, load: bool) -> float:
        """Instructions by which elements get from a tensor to registers, or back."""
        kind = tensor.type
        assert isinstance(kind, GlobalType)
        each = LOAD if load else STORE
        if self.mma != "none":
            return each * elements  # A thread's elements of an accumulator lie apart.
        wide = max(1, self._vector(tensor) // size_in_bytes(kind.element_type))
        return (each / wide + (CONVERT if load else 0)) * elements

    def _map(self, op: MapOp, times: float) -> None:
        kind = op.space.type
        assert isinstance(kind, FragmentType)
        whole = _elements(op.space) * times
        # What differs along some axes of the tile alone is computed and read once for these.
        own: dict[SSAValue, float] = {op.body.block.args[0]: whole}
        for value, over, argument in zip(
            op.inputs, op.input_maps, op.body.block.args[1:], strict=True
        ):
            used = {i for e in over.results for i in range(len(kind.sizes)) if uses_dim(e, i)}
            points = prod(kind.sizes[i] for i in used) * times
            own[argument] = points
            if isinstance(value.type, GlobalType):
                size = points * size_in_bytes(value.type.element_type)
                self.work.operations += self._moved(value, points, True)
                self.work.reads += size if self.mma != "none" else 0
                self.work.cache += size
            elif isinstance(value.type, SharedType):
                self.work.operations += TAKE * points
        for inner in op.body.block.ops:
            points = max((own.get(v, 0.0) for v in inner.operands), default=0.0)
            if isinstance(inner, TileIndexOp):
                points = times
            for result in inner.results:
                own[result] = points
            self.work.operations += points * _instructions(inner)
        for value in op.outputs:
            if isinstance(value.type, GlobalType):
                self.work.operations += self._moved(value, whole, False)
                self.work.cache += whole * size_in_bytes(value.type.element_type)

    def _reduce(self, op: ReduceOp, times: float) -> None:
        rows = max(1.0, _elements(op.target))
        self.work.operations += _elements(op.source) * times
        if self.mma == "none":
            lanes = max(1.0, self.threads / rows)
            self.work.operations += rows * EXCHANGE * lanes * log2(min(32, lanes)) * times
            self.work.steps += MEETING if self._first and not self._depth else 0

    # Indices and conditions

    def _of(self, value: SSAValue, other: int) -> int:
        """An index in the block that is looked at; ``other`` where nothing is known of it."""
        return self.values.get(value, other)

    def _value(self, op: Operation) -> None:
        """What an op on indices and conditions gives, where its operands are known."""
        found: int | None = None
        operands = [self.values.get(v) for v in op.operands]
        known = [v for v in operands if v is not None]
        match op:
            case arith.ConstantOp() if isinstance(op.value, IntegerAttr):
                found = op.value.value.data
            case BlockIdOp():
                found = self.block
            case ClusterRankOp():
                found = self.rank
            case arith.SelectOp() if operands[0] is not None:
                found = operands[1] if operands[0] else operands[2]
            case _ if len(known) < len(operands):
                return
            case affine.ApplyOp():
                over = op.map.data
                found = over.eval(known[: over.num_dims], known[over.num_dims :])[0]
            case arith.CmpiOp():
                found = int(COMPARED[op.predicate.value.data % 10](*known))
            case _ if (function := _INDEX_OPS.get(type(op))) is not None:
                found = function(*known)
            case _:
                return
        if found is not None:
            self.values[op.results[0]] = found


def _samples(count: int) -> list[int]:
    """Some of so many blocks or tiles; all of them where they are few."""
    if count <= SAMPLES:
        return list(range(count))
    return [int(count * ((0.5 + i * GOLDEN) % 1)) for i in range(SAMPLES)]


COMPARED: Sequence[Callable[[int, int], bool]] = (
    *(operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.lt, operator.le, operator.gt, operator.ge),
)
"""The predicates of ``arith.cmpi``, by number."""

_INDEX_OPS: Mapping[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.MinSIOp: lambda a, b: min(a, b),
    arith.MaxSIOp: lambda a, b: max(a, b),
    arith.MinUIOp: lambda a, b: min(a, b),
    arith.MaxUIOp: lambda a, b: max(a, b),
    arith.DivSIOp: lambda a, b: a // (b or 1),
    arith.DivUIOp: lambda a, b: a // (b or 1),
    arith.FloorDivSIOp: lambda a, b: a // (b or 1),
    arith.CeilDivSIOp: lambda a, b: -(-a // (b or 1)),
    arith.RemSIOp: lambda a, b: a % (b or 1),
    arith.RemUIOp: lambda a, b: a % (b or 1),
}
"""The functions of two indices."""

_FUNCTIONS: Mapping[type[Operation], str] = {
    math.AcosOp: "acos",
    math.AcoshOp: "acosh",
    math.AsinOp: "asin",
    math.AsinhOp: "asinh",
    math.AtanOp: "atan",
    math.Atan2Op: "atan2",
    math.AtanhOp: "atanh",
    math.CbrtOp: "cbrt",
    math.CosOp: "cos",
    math.CoshOp: "cosh",
    math.ExpOp: "exp",
    math.Exp2Op: "exp2",
    math.ExpM1Op: "expm1",
    math.LogOp: "log",
    math.Log10Op: "log10",
    math.Log1pOp: "log1p",
    math.Log2Op: "log2",
    math.SinOp: "sin",
    math.SinhOp: "sinh",
    math.TanOp: "tan",
    math.FloorOp: "floor",
    math.CeilOp: "ceil",
    math.RoundEvenOp: "round",
    math.TruncOp: "trunc",
    math.RsqrtOp: "rsqrt",
    math.SqrtOp: "sqrt",
    math.TanhOp: "tanh",
    math.ErfOp: "erf",
    ErfcOp: "erfc",
    math.PowFOp: "pow",
    arith.DivfOp: "div",
    FmodOp: "fmod",
    PhiloxOp: "philox",
    PowerOp: "pow",
}
"""What takes several instructions, by its name in a region."""


def _instructions(op: Operation) -> float:
    """The instructions of a thread for one op of a map's body."""
    if not op.results or isinstance(op, arith.ConstantOp):
        return 0.0
    name = _FUNCTIONS.get(type(op))
    return 1.0 if name is None else SLOW[name]


def _stages(tile: SSAValue) -> int:
    """How many of a tile a pipeline keeps, of which one copy fills it."""
    for use in tile.uses:
        op = use.operation
        if isinstance(op, CopyOp) and op.target is tile:
            around = op.parent_op()
            if isinstance(around, PipelineOp):
                return around.stages.value.data
    return 1


def _is_read(op: CopyOp) -> bool:
    return isinstance(op.source.type, GlobalType)


def _elements(value: SSAValue) -> float:
    kind = value.type
    return float(prod(kind.sizes)) if isinstance(kind, FragmentType | SharedType) else 0.0


def _bytes(value: SSAValue) -> float:
    kind = value.type
    assert isinstance(kind, FragmentType | SharedType)
    return _elements(value) * size_in_bytes(kind.element_type)
