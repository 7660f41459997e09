"""What a kernel does at certain sizes: the figures that the model of time turns into seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from polyc.affine.expressions import Floor, alike, linear_of
from polyc.cost.device import Device
from polyc.cost.places import WARP, beside
from polyc.cost.values import Values, innermost, line_step, read_labels, size_in_bytes, spacing
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.k_major import PARTS, VECTOR
from polyc.dialects.plan.padded import panels
from polyc.dialects.plan.resources import RESERVED
from polyc.dialects.region import ReadOp
from polyc.dialects.region.graph import kernels_beside, source
from polyc.dialects.region.types import MemRefType

SECTOR = 32
"""Bytes of a cache line that are brought at once."""

LOAD = 4.0
"""Instructions of a thread in a load's time: an SM takes one of a warp where it issues four."""

COPY = 10.0
"""Instructions by which a thread brings one vector of an operand's tile, where TMA does not."""

TAKE = 2.0
"""Instructions by which an element of a shared tile gets to a fragment: two come in one load."""

STORE = 4.0
"""Instructions by which an element of a fragment gets to memory."""

SCATTERED = 32.0
"""The same where the threads of a warp read apart from each other, with what the first level of
cache keeps of it."""


@dataclass
class Work:
    """What all blocks of one launch do together.

    ``flops``       of tensor cores, two a multiply-add, whole tiles
    ``operations``  instructions of threads, those of idle threads of a busy warp too
    ``beside``      those by which threads compute what tensor cores read, beside these
    ``memory``      bytes of global memory
    ``again``       bytes of global memory that are read once more, as L2 does not hold them
    ``unseen``      bytes of keys and values that a mask by position hides from all queries
    ``cache``       bytes between L2 and SMs
    ``made``        instructions by which a tile's queries are made before its products begin, and
                    ``made_of`` the bytes that they are made of, of all blocks
    ``reads``       bytes that an epilogue reads beside the accumulator
    ``exchanged``   bytes that the blocks of clusters store into each other's shared memory
    ``summed``      bytes of sums that one kernel stores and a second one adds
    ``stalls``      steps of a block of which each waits for ``stalled`` bytes beside its products
    ``steps``       steps of a thread of which each waits for its loads, one after another
    ``alone``       latencies in which nothing else runs: of blocks that take one row after another,
                    and meet
    ``blocks``      blocks that the plan has; ``threads`` of each
    ``at_once``     blocks that an SM holds
    ``before``      seconds of kernels that run ahead of it and find what it reads
    ``copied``      bytes that each launch ahead of it moves, which copies an operand to other rows
    """

    blocks: float
    threads: int
    at_once: int
    flops: float = 0.0
    operations: float = 0.0
    beside: float = 0.0
    made: float = 0.0
    made_of: float = 0.0
    memory: float = 0.0
    cache: float = 0.0
    reads: float = 0.0
    exchanged: float = 0.0
    summed: float = 0.0
    again: float = 0.0
    unseen: float = 0.0
    stalls: float = 0.0
    stalled: float = 0.0
    steps: float = 0.0
    alone: float = 0.0
    begins: float = 0.0
    """Seconds in which a multiprocessor begins one more block, where nothing else counts these."""
    before: float = 0.0
    copied: Sequence[float] = ()
    step_bytes: float = 0.0
    """What a step's copies bring to a block, where it works on a step while copies of ``ahead``
    others are on their way; 0 where that bounds nothing."""
    ahead: int = 1
    ring: bool = False
    """Whether copies of the tiles of later steps are on their way while one is worked on."""
    overlapped: bool = False
    """Whether tensor cores and threads work at the same time, each on another part of a tile."""


def at_once(plan: ScheduleOp, device: Device) -> int:
    """Blocks that an SM holds: by threads, registers and shared memory."""
    if plan.takes_turns or (plan.keeps_rows and plan.tile_sizes[0] > 1):
        return plan.blocks_kept
    if plan.at_once > 1:
        return plan.at_once
    threads = plan.threads()
    registers = 64 if plan.mma.data == "none" else 72 + plan.accumulator_registers()
    if plan.mma.data == "wgmma":
        registers = 168
    room = device.shared // max(1, plan.shared_bytes() + RESERVED)
    return max(1, min(device.threads // threads, device.registers // (threads * registers), room))


def copy_bytes(values: Values, tensor: SSAValue) -> float:
    """What a copy of a tensor to rows of whole panels moves; 0 where its rows are that."""
    assert isinstance(tensor, BlockArgument)
    kind = values.kernel.inputs[tensor.index].type
    length = kind.shape[-1].evaluate(values.sizes)
    more = panels(kind.shape[-1]).evaluate(values.sizes) / max(1, length)
    if more == 1.0:
        return 0.0
    return _elements(values, kind) * size_in_bytes(kind.element_type) * (1.0 + more)


def k_major_bytes(values: Values, tensor: SSAValue, plan: ScheduleOp, depth: str) -> float:
    """What a copy of an operand of f32 along ``depth`` moves, in parts of TF32; 0 where the product
    reads it as it lies."""
    assert isinstance(tensor, BlockArgument) and plan.tensor_float is not None
    kind = values.kernel.inputs[tensor.index].type
    length, parts = kind.shape[-1].evaluate(values.sizes), PARTS[plan.tensor_float]
    reads = (op for op in values.reached if isinstance(op, ReadOp) and op.tensor is tensor)
    along = any(depth in innermost(op) for op in reads)
    if parts == 1 and along and length % VECTOR == 0:
        return 0.0
    return _elements(values, kind) * size_in_bytes(kind.element_type) * (1.0 + parts)


def tensor_bytes(values: Values, tensor: SSAValue) -> float:
    """The bytes of a tensor; 0 for a value that is none."""
    if not isinstance(tensor, BlockArgument):
        return 0.0
    kind = values.kernel.inputs[tensor.index].type
    return _elements(values, kind) * size_in_bytes(kind.element_type)


def compulsory(values: Values, device: Device) -> tuple[float, float]:
    """Bytes that each tensor moves at least: through memory, and in all.

    Of a line of which every so many-th element is read whole sectors come.  What another kernel
    wrote just now is read from L2 where all of this kernel's tensors fit there together.
    """
    kernel = values.kernel
    read: dict[int, float] = {}
    for op in values.reached:
        if isinstance(op, ReadOp):
            assert isinstance(op.tensor, BlockArgument)
            number = op.tensor.index
            run = SECTOR // size_in_bytes(op.result.type.element_type)
            points = values.points(values.walked(read_labels(op))) * min(line_step(op), run)
            # Neighbours that read the same, as heads that share keys, read it once.
            for place in range(len(op.result.type.labels)):
                points /= max(1, alike(op.map.data.results, place))
            read[number] = read.get(number, 0.0) + points
    inputs: dict[int, float] = {}
    for number, points in read.items():
        kind = kernel.inputs[number].type
        inputs[number] = min(points, _elements(values, kind)) * size_in_bytes(kind.element_type)
    made = [i for i in inputs if (s := source(kernel, i)) is not None and _is_kernel(values, s[0])]
    outputs = sum(_elements(values, t) * size_in_bytes(t.element_type) for t in kernel.outs)
    whole = outputs + sum(inputs.values())
    held = sum(inputs[i] for i in made) if whole <= device.cache_bytes else 0.0
    return whole - held, whole


def _elements(values: Values, kind: MemRefType) -> float:
    total = 1.0
    for size in kind.shape:
        total *= size.evaluate(values.sizes)
    return total


def _is_kernel(values: Values, name: str) -> bool:
    """Whether a source is another kernel, not the graph."""
    return any(k.sym_name.data == name for k in kernels_beside(values.kernel))


def _by_floors(values: Values, op: ReadOp, column: str) -> tuple[float, float] | None:
    """The same of what is read at floors of the neighbours' axis, as a number that each two of them
    have together is; None of other reads, as of one at an index that the neighbours have.

    ``NEIGHBOURS`` of them are asked where they read.
    """
    results, labels = op.map.data.results, op.result.type.labels
    floors = {atom for e in results for atom, _ in linear_of(e).terms if isinstance(atom, Floor)}
    if not floors or op.map.data.num_symbols or not isinstance(op.tensor.type, MemRefType):
        return None
    if column not in labels:  # A gather reads it where its places are along the column.
        return None
    place, size = labels.index(column), size_in_bytes(op.result.type.element_type)
    shape = [dim.evaluate(values.sizes) for dim in op.tensor.type.shape]
    middle = values.extents[column] // 2 // NEIGHBOURS * NEIGHBOURS
    runs: list[list[int]] = []
    for first in dict.fromkeys((0, middle)):
        run: list[int] = []
        for number in range(NEIGHBOURS):
            at = [first + number if i == place else 0 for i in range(len(labels))]
            where = 0
            for expr, length in zip(results, shape, strict=True):
                where = where * length + expr.eval(at, [])
            run.append(where)
        runs.append(run)
    sectors = sum(len({where * size // SECTOR for where in run}) for run in runs)
    together = next(
        several
        for several in (8, 4, 2, 1)
        if all(run[i] == run[i - i % several] for run in runs for i in range(NEIGHBOURS))
    )
    price = (LOAD + FLOOR * len(floors)) / together
    return price, sectors * SECTOR / (NEIGHBOURS * len(runs) * size)


NEIGHBOURS = 256
"""What a warp has of vectors of 8."""

FLOOR = 4.0
"""Instructions of a division by a number that is known."""


def most_over(op: ReadOp, tile: Mapping[str, int]) -> float:
    """How many bytes a read brings for each of its own at most, by a block's points of each axis, 0
    of those that it goes along step by step: what lies beside in a sector it then finds near."""
    run = SECTOR // size_in_bytes(op.result.type.element_type)
    near = max((tile.get(label, 1) or run for label in innermost(op)), default=1)
    return max(1.0, run / min(run, near))


def load_cost(
    values: Values, op: ReadOp, column: str | None, tile: Mapping[str, int]
) -> tuple[float, float]:
    """What an element of a read costs a thread, and how many bytes it brings for each of its own.

    ``column`` is the axis of a warp's neighbours; ``tile`` has a block's points of each axis, or 0
    for an axis that it goes along step by step.
    """
    labels = values.walked(read_labels(op))
    if not labels:
        return 0.0, 1.0
    last, size = innermost(op), size_in_bytes(op.result.type.element_type)
    if column is None or column not in labels or column in last:
        return LOAD, 1.0
    over = most_over(op, tile)
    if (found := _by_floors(values, op, column)) is not None:
        return found[0], min(over, found[1])
    run = SECTOR // size
    step = spacing(op, column)
    if step is not None and step < run:
        return LOAD, float(min(step, line_step(op)))
    warp = beside(values, op, [column])
    if warp is None:
        return SCATTERED, over
    return max(LOAD, SCATTERED * warp.lines / WARP), min(over, warp.over)
