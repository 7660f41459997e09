"""What a plan expects of one launch, in the words of the simulator's counters.

``polyc simulate`` shows these figures beside those that it counts.  They follow from the
schedule, the region that it schedules and the sizes alone.  Each is what the kernel does,
where ``Estimate`` does not say otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod

from polyc.dialects.gpu.types import SharedType, element_bytes
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.resources import SUM_BYTES
from polyc.dialects.region import KernelOp, ReadOp
from polyc.families.matmul.recognise import (
    Contraction,
    MatrixOperand,
    find_contraction,
    staged_tile,
)
from polyc.families.matmul.tensor_float import as_planned, depth_of, is_held
from polyc.passes.gpu.layout_inference import widest_swizzle
from polyc.passes.support.plan.copied import Copied, points
from polyc.passes.support.plan.followed import Followed

MMA = (16, 8, 16)
"""Sizes m, n, k of one mma.sync."""

WGMMA = (64, 32)
"""Rows of one wgmma, and bytes of k; its n is the warp tile's."""

LANES_OF_ROW = 4
"""Threads that hold elements of one row of a fragment of tensor cores."""

FRAGMENT_ROWS = 16
"""Rows of an accumulator that a warp holds, each thread two of them, half as many apart."""

MATRICES_BYTES = 512
"""What one ldmatrix of four 8x8 matrices reads: 16 x 16 elements of an operand."""

VECTORS_BYTES = 512
"""What the lanes of a warp read at once of an operand of f32: 16 bytes each."""


@dataclass(frozen=True)
class Estimate:
    """One launch under a plan; every field has the name of a counter of the simulator.

    ``global_read_bytes`` takes every epilogue input to be read once for each element of the
    accumulator that the input's own axes do not put outside: a bias of n is read in the rows
    beyond M too.  What rows have one of, a thread reads once for each of its rows.
    ``bank_conflicts`` is 0, which the swizzle of 128 bytes keeps but for an operand of f32 that
    threads take along the other axis; a tile whose rows are no
    multiple of that gets a narrower one, which may not.
    """

    ctas: int
    threads: int
    global_read_bytes: int
    global_write_bytes: int
    shared_read_bytes: int
    shared_write_bytes: int
    bank_conflicts: int
    peak_shared_bytes: int
    cp_async_bytes: int
    tma_loads: int
    tma_bytes: int
    mma: int
    wgmma: int
    barriers: int
    mbarrier_waits: int

    def as_dict(self) -> dict[str, int]:
        """The figures as JSON data."""
        return asdict(self)


@dataclass(frozen=True)
class _Blocks:
    """The blocks of a launch, and which tiles they have.

    ``tiles``    tiles along each axis of the product, whole clusters of them
    ``batch``    matrices of the batch
    ``outputs``  tiles of the output, of the whole batch
    ``ctas``     blocks: with a persistent kernel fewer than tiles
    ``sharing``  blocks of a cluster for which the columns' operand is read once
    ``across``   those for which the rows' operand is
    """

    tiles: Mapping[str, int]
    batch: int
    outputs: int
    ctas: int
    sharing: int
    across: int

    @staticmethod
    def of(
        gemm: Contraction,
        plan: ScheduleOp,
        sizes: Mapping[str, int],
        symbols: Mapping[str, int],
        multiprocessors: int,
    ) -> _Blocks:
        """Those of a launch at certain sizes."""
        steps = zip(sizes.items(), plan.tile_sizes, strict=True)
        tiles = {axis: -(-size // step) for (axis, size), step in steps}
        # A cluster takes as many tiles at once, one below the other, also where the last ones are
        # outside; what its CTAs share is read once for all of them.
        cluster, beside = plan.integers("cluster")
        tiles[gemm.m] = -(-tiles[gemm.m] // cluster) * cluster
        tiles[gemm.n] = -(-tiles[gemm.n] // beside) * beside
        batch = prod(gemm.size(axis).evaluate(symbols) for axis in gemm.batch)
        outputs = batch * tiles[gemm.m] * tiles[gemm.n]
        ctas = min(outputs, multiprocessors) if plan.flag("persistent") else outputs
        ctas = max(cluster, ctas // cluster * cluster) if outputs else 0
        # The CTAs that share a tile's steps send each other what they have of its rows.
        ctas *= plan.integer("split_k")
        sharing, across = (cluster, beside) if plan.flag("multicast") else (1, 1)
        return _Blocks(tiles, batch, outputs, ctas, sharing, across)


def estimate(
    region: KernelOp, plan: ScheduleOp, symbols: Mapping[str, int], multiprocessors: int
) -> Estimate:
    """What a launch of ``region`` under ``plan`` does at the sizes ``symbols``, all its batch.

    ``multiprocessors`` bounds the grid of a persistent kernel.  Raises PolycError
    ``UnsupportedProgram`` where the region is no contraction that a plan can schedule.
    """
    gemm = as_planned(find_contraction(region), plan)
    sizes = {axis: gemm.size(axis).evaluate(symbols) for axis in (gemm.m, gemm.n, gemm.k)}
    tile = dict(zip(sizes, plan.tile_sizes, strict=True))
    deep = {**sizes, gemm.k: depth_of(gemm, plan).evaluate(symbols)}
    blocks = _Blocks.of(gemm, plan, deep, symbols, multiprocessors)
    batch, tiles, sharing = blocks.batch, blocks.tiles, blocks.sharing
    outputs, ctas, split = blocks.outputs, blocks.ctas, plan.integer("split_k")
    sent = batch * tiles[gemm.n] * _sent_bytes(gemm, sizes[gemm.m], plan)
    followed = Followed.of(gemm, plan)
    meetings = (len(gemm.parts) if split > 1 else 0) + followed.meetings
    steps = outputs * tiles[gemm.k]
    staged = staged_tile(gemm, plan)
    # Each operand is read whole by every tile along the axis that it does not have, and by each
    # matrix of a batch.
    rows, columns = sizes[gemm.m], sizes[gemm.n]
    parts = len(gemm.parts)
    lines = points(gemm, plan, gemm.lhs, sizes) * (tiles[gemm.n] // blocks.across)
    lines += sum(points(gemm, plan, p.rhs, sizes) for p in gemm.parts) * tiles[gemm.m] // sharing
    operands = batch * lines * plan.operand_bytes
    copies = Copied.of(gemm, plan, symbols)
    # Rows that are taken as one are as many as there are.
    high = sizes[gemm.m] if plan.loader.data == "flat" else tile[gemm.m]
    stage = (high + parts * tile[gemm.n]) * tile[gemm.k] * plan.operand_bytes
    less = (tile[gemm.m] - high) * tile[gemm.k] * plan.operand_bytes * plan.integer("stages")
    warps = plan.threads() // plan.target.warp
    consumers = plan.integer("consumers") // plan.tiles_at_once
    # A consumer's warps wait for its turn at a tile, and tell the next one's; the last one's begin.
    turns = 4 * (2 * outputs + ctas) if plan.tiles_at_once > 1 else 0
    grouped, tma = plan.mma.data == "wgmma", plan.brings == "tma"
    computing = 4 * consumers if grouped else warps
    columns_of = [part.rhs for part in gemm.parts]
    boxes = _share(_boxes(gemm, gemm.lhs, tile, plan), blocks.across)
    boxes += sum(_share(_boxes(gemm, s, tile, plan), sharing) for s in columns_of)
    high, wide = plan.warp_tile_sizes
    # With two buffers each CTA waits once before its loop, and loads once more than it multiplies.
    ahead = ctas if plan.integer("fragment_buffers") == 2 else 0
    loads = steps * (tile[gemm.k] // MMA[2]) + (ahead if steps else 0)
    exact = plan.mma.data == "fma"
    # Products load the fragments of the rows that they share once.
    depths, matrices = tile[gemm.k] // MMA[2], high // 16 + parts * -(-wide // 16)
    return Estimate(
        ctas=ctas + copies.ctas,
        threads=ctas * plan.threads() + copies.threads,
        global_read_bytes=operands
        + copies.read_bytes
        + batch * _epilogue_bytes(gemm, sizes, tile, tiles, wide)
        + batch * _computing_bytes(gemm, sizes, tile, tiles),
        global_write_bytes=batch * rows * _row_bytes(gemm, columns) + copies.write_bytes,
        shared_read_bytes=(
            sent
            if grouped
            else steps * warps * (high // 8 + wide // 4) * (tile[gemm.k] // 4) * VECTORS_BYTES
            if exact
            else loads * warps * matrices * MATRICES_BYTES
        )
        + (_taken_bytes(gemm, tile, plan) * steps if grouped else 0)
        + _taken_out_bytes(plan, outputs, staged)
        + ctas * followed.shared_read_bytes
        + copies.turned_bytes,
        shared_write_bytes=_staged_bytes(plan, outputs, staged)
        + (sent if tma else steps * stage)
        + ctas * followed.shared_write_bytes
        + copies.turned_bytes,
        # A warp's rows end in as many banks as 8 of them do.
        bank_conflicts=outputs * _lasts(plan, staged) * tile[gemm.m] // 32 * 3
        + _pair_conflicts(plan, outputs, staged),
        peak_shared_bytes=plan.ring_bytes()
        - less
        + plan.combined_bytes()
        + followed.peak_shared_bytes
        + (0 if staged is None else plan.staged_bytes()),
        cp_async_bytes=operands if plan.brings == "cp_async" else 0,
        tma_loads=steps * boxes if tma else 0,
        tma_bytes=steps * stage if tma else 0,
        mma=0
        if grouped or exact
        else parts * steps * warps * depths * (high // MMA[0]) * (wide // MMA[1]),
        wgmma=parts
        * steps
        * consumers
        * (high // WGMMA[0])
        * (tile[gemm.k] * plan.operand_bytes // WGMMA[1])
        if grouped
        else 0,
        # All warps meet once a step, or once in all when mbarriers keep the ring (and once more in
        # the end, where a peer fills it); and those that compute before and after they fill a part
        # of the output that is stored through shared memory.  A cluster that shares a tile meets at
        # its beginning, and consumers before they send word of their sums.
        barriers=warps
        * (ctas * (2 if sharing * blocks.across > 1 else 1) if tma else steps + ahead)
        + (0 if staged is None else outputs * (tile[gemm.n] // staged[1]) * 2 * computing)
        + meetings * ctas * (warps + 4 * consumers)
        + ctas * followed.barriers
        + copies.barriers
        + turns,
        # Every consumer warp waits for a full stage, one producer warp for an empty one; and for
        # the sums of the others.
        mbarrier_waits=(steps * (4 * consumers + 1) if tma else 0)
        + meetings * ctas * 4 * consumers,
    )


def _row_bytes(gemm: Contraction, columns: int) -> int:
    """What is written of each row of the product."""
    outputs = zip(gemm.outputs, gemm.kernel.outs, strict=True)
    return sum(
        (columns if gemm.n in axes else 1) * element_bytes(out.element_type)
        for axes, out in outputs
    )


def _sent_bytes(gemm: Contraction, rows: int, plan: ScheduleOp) -> int:
    """What the CTAs of all tiles of one column bring into each other's shared memory.

    A thread's vector has two rows, eight apart; it is sent if the first one lies in the output.
    """
    split, (high, wide, _) = plan.integer("split_k"), plan.tile_sizes
    if split == 1:
        return 0
    blocks = -(-rows // high) * high // FRAGMENT_ROWS
    pairs = sum(
        min(max(rows - FRAGMENT_ROWS * block, 0), FRAGMENT_ROWS // 2) for block in range(blocks)
    )
    return len(gemm.parts) * split * 2 * pairs * wide * SUM_BYTES


def _staged_bytes(plan: ScheduleOp, outputs: int, staged: tuple[int, int] | None) -> int:
    """What goes out through shared memory: whole tiles, also where they leave the tensor."""
    rows, columns, _ = plan.tile_sizes
    return 0 if staged is None else outputs * rows * columns * plan.operand_bytes


def _pair_conflicts(plan: ScheduleOp, outputs: int, staged: tuple[int, int] | None) -> int:
    """Conflicts of fragments of f32 on their way out: of the eight rows that a warp stores pairs of
    two share chunks of 16 bytes in TMA's swizzle, so that it takes twice the two cycles that its
    bytes do.
    """
    if staged is None or plan.operand_bytes == OPERAND_BYTES or plan.staged_pad:
        return 0
    rows, columns, _ = plan.tile_sizes
    return outputs * rows * columns // 32


def _taken_out_bytes(plan: ScheduleOp, outputs: int, staged: tuple[int, int] | None) -> int:
    """What threads take out of there, which TMA does where it stores rows.

    Of rows that may begin at any element the last one of each part is taken by itself.
    """
    if staged is None or plan.stores_lines:
        return 0
    rows, columns, _ = plan.tile_sizes
    return outputs * rows * (columns + _lasts(plan, staged)) * plan.operand_bytes


def _lasts(plan: ScheduleOp, staged: tuple[int, int] | None) -> int:
    """Elements of a tile's row that threads take by themselves, each the last of what is stored at
    once: where rows of 16 bits may begin at any element, which are stored by pairs.
    """
    pairs = plan.operand_bytes == OPERAND_BYTES and plan.integer("vectorize") == 1
    loose = staged is not None and not plan.stores_lines and pairs
    return plan.tile_sizes[1] // staged[1] if loose and staged else 0


def _boxes(
    gemm: Contraction, side: MatrixOperand, tile: Mapping[str, int], plan: ScheduleOp
) -> int:
    """TMA copies that bring one tile of an operand: one a panel, as wide as its swizzle spans."""
    axes = side.tile_axes
    if plan.loader.data == "flat" and side is gemm.lhs:
        return 1
    if plan.tensor_float and not is_held(gemm, plan):
        axes = tuple(sorted(axes, key=lambda axis: axis == gemm.k))
    kind = SharedType.of([tile[axis] for axis in axes], side.read.result.type.element_type)
    span = widest_swizzle(kind)
    return kind.sizes[-1] * plan.operand_bytes // span if span else 1


def _share(boxes: int, sharing: int) -> int:
    """The boxes that one CTA of a cluster brings of a tile that all get: whole panels, or rows."""
    return boxes // sharing if boxes % sharing == 0 else boxes


def _taken_bytes(gemm: Contraction, tile: Mapping[str, int], plan: ScheduleOp) -> int:
    """What threads take out of a step's tile of the rows, where they compute with it or hold it.

    What ``ldmatrix`` would load otherwise is as much.
    """
    factor = gemm.lhs.factor
    whole = tile[gemm.m] * tile[gemm.k] * plan.operand_bytes
    return whole if factor.is_computed or is_held(gemm, plan) else 0


def _computing_bytes(
    gemm: Contraction,
    sizes: Mapping[str, int],
    tile: Mapping[str, int],
    tiles: Mapping[str, int],
) -> int:
    """What threads read from global memory to compute an operand, beside its tiles."""
    total = 0
    for op in gemm.lhs.factor.reads():
        if op is gemm.lhs.read:
            continue
        own = op.result.type.labels
        points = sizes[gemm.m] if gemm.m in own else tiles[gemm.m] * tile[gemm.m]
        points *= tiles[gemm.n] * (sizes[gemm.k] if gemm.k in own else LANES_OF_ROW)
        total += points * element_bytes(op.result.type.element_type)
    return total


def _epilogue_bytes(
    gemm: Contraction,
    sizes: Mapping[str, int],
    tile: Mapping[str, int],
    tiles: Mapping[str, int],
    wide: int,
) -> int:
    """What epilogues read: of rows alone once a thread, whose warps are ``wide`` columns."""
    total = 0
    for op in gemm.kernel.body.block.ops:
        if isinstance(op, ReadOp) and op not in gemm.reads:
            own = op.result.type.labels
            points = sizes[gemm.m] if gemm.m in own else tiles[gemm.m] * tile[gemm.m]
            if gemm.n in own:
                points *= sizes[gemm.n]
            else:
                points *= tiles[gemm.n] * (tile[gemm.n] // wide) * LANES_OF_ROW
            total += points * element_bytes(op.result.type.element_type)
    return total
