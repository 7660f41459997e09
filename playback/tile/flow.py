"""Who plays which ops of a tile program, how often and when: loops, roles, rings and turns."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects import scf
from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import neutral
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    BarrierOp,
    BlockIdOp,
    ClusterRankOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    GridSizeOp,
    OpaqueOp,
)
from polyc.dialects.gpu.kernel import ReturnOp
from polyc.dialects.gpu.types import FragmentType
from polyc.playback.tile.cta import Array, Cta, Plays
from polyc.playback.tile.roles import Ring, Turns


def _coordinates(cta: Cta, op: tile.TileCoordinatesOp) -> None:
    """Walk the tiles in the raster's order until the block's own."""
    sizes = cta.numbers(op.sizes)
    *outer, rows, columns = (-(-n // s) for n, s in zip(sizes, op.tile_sizes, strict=True))
    group = {"row": 1, "column": max(1, rows), "grouped": op.group.value.data}[op.raster.data]
    order = [
        (row, column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]
    block = cta.block if op.cluster is None else cta.block // cta.kernel.cluster_size
    matrix, number = divmod(block, len(order))
    leading = [int(i) for i in np.unravel_index(matrix, outer)] if outer else []
    for value, place, size in zip(
        op.coordinates, [*leading, *order[number]], op.tile_sizes, strict=True
    ):
        cta.values[value] = place * size


def _tile_loop(cta: Cta, op: tile.TileLoopOp) -> None:
    """Walk the CTA's tiles; the order of tiles is the raster's business and changes no result."""
    cluster = cta.kernel.cluster_size
    counts = [-(-n // s) for n, s in zip(cta.numbers(op.sizes), op.tile.data, strict=True)]
    rows = -(-counts[-2] // cluster)
    counts[-2] = rows if op.paired is None else -(-rows // 2)
    share = 0 if op.share is None else int(cta.values[op.share])
    shares = 1 if op.shares is None else op.shares.value.data
    first, stride = cta.block // cluster, cta.blocks // cluster
    values = [cta.values[v] for v in op.iter_args]
    places: list[list[int]] = []
    for number in range(first, math.prod(counts), stride):
        place = [int(i) for i in np.unravel_index(number, counts)]
        places.append(place)
        other = rows - 1 - place[-2]
        if op.paired is not None and other != place[-2]:
            places.append([*place[:-2], other, place[-1]])
    for ordinal, place in enumerate(places):
        if ordinal % shares != share:
            continue
        place[-2] = place[-2] * cluster + cta.block % cluster
        for axis, coordinate in enumerate(op.coordinates):
            cta.values[coordinate] = place[axis] * op.tile.data[axis]
        cta.values[op.ordinal] = ordinal
        cta.values.update(zip(op.carried, values, strict=True))
        cta.ops(op.body.block)
        values = [cta.values[v] for v in op.yielded]
    cta.values.update(zip(op.res, values, strict=True))


def _pipeline(cta: Cta, op: tile.PipelineOp) -> None:
    step = op.step.value.data
    for i in range(-(-int(cta.values[op.bound]) // step)):
        cta.values[op.position], cta.values[op.iteration] = i * step, i
        cta.ops(op.body.block)


def _for(cta: Cta, op: scf.ForOp) -> None:
    index, *carried = op.body.block.args
    lower, upper, step = cta.numbers([op.lb, op.ub, op.step])
    values = [cta.values[v] for v in op.iter_args]
    for i in range(lower, upper, step):
        cta.values[index] = i
        cta.values.update(zip(carried, values, strict=True))
        cta.ops(op.body.block)
        end = op.body.block.last_op
        assert end is not None
        values = [cta.values[v] for v in end.operands]
    cta.values.update(zip(op.results, values, strict=True))


def _if(cta: Cta, op: scf.IfOp) -> None:
    region = op.true_region if cta.values[op.cond] else op.false_region
    for block in region.blocks:
        cta.ops(block)
        if op.results and (end := block.last_op) is not None:
            cta.values.update(zip(op.results, [cta.values[v] for v in end.operands], strict=True))


def _ring(cta: Cta, op: tile.RingOp) -> None:
    copies = sum(
        isinstance(use.operation, tile.CopyOp) and use.operation.signal is op.ring
        for use in op.ring.uses
    )
    depth = op.ring.type.depth.data
    cta.values[op.ring] = Ring(cta.floor, depth, copies, op.consumers.value.data)


def _acquire(cta: Cta, op: tile.RingAcquireOp) -> None:
    cta.values[op.ring].acquire(int(cta.values[op.iteration]), op)


def _wait(cta: Cta, op: tile.RingWaitOp) -> None:
    cta.values[op.ring].await_full(int(cta.values[op.iteration]), op)


def _release(cta: Cta, op: tile.RingReleaseOp) -> None:
    cta.values[op.ring].release(int(cta.values[op.iteration]), cta.warpgroups)


def _order(cta: Cta, op: tile.OrderBarrierOp) -> None:
    cta.values[op.order] = Turns(cta.floor, op.order.type.participants.data)


def _enter(cta: Cta, op: tile.OrderEnterOp) -> None:
    cta.values[op.order].enter(int(cta.values[op.number]), op)


def _leave(cta: Cta, op: tile.OrderLeaveOp) -> None:
    cta.values[op.order].leave(int(cta.values[op.number]))


def _grid_signal(cta: Cta, op: tile.GridSignalOp) -> None:
    cta.values[op.counters][tuple(cta.numbers(op.indices))] += 1
    cta.floor.changed()


def _grid_wait(cta: Cta, op: tile.GridWaitOp) -> None:
    counters: Array = cta.values[op.counters]
    at, (count,) = tuple(cta.numbers(op.indices)), cta.numbers([op.count])
    if not cta.floor.busy and counters[at] < count:
        raise PolycError("NotCooperative", "a CTA waits for others that do not run beside it", op)
    cta.floor.wait(lambda: bool(counters[at] >= count), op)


def _words(cta: Cta, op: tile.PostOp | tile.AwaitPostsOp) -> tuple[Array, list[int]]:
    """The words of a fragment's elements, and where they lie in memory."""
    words: Array = cta.values[op.words]
    part: Array = words[
        tuple(
            slice(first, first + size)
            for first, size in zip(
                cta.numbers(op.indices), cta.values[op.fragment].shape, strict=True
            )
        )
    ]
    base = int(part.ctypes.data)
    places = [
        base + sum(i * step for i, step in zip(at, part.strides, strict=True))
        for at in np.ndindex(*part.shape)
    ]
    return part, places


def _post(cta: Cta, op: tile.PostOp) -> None:
    """The mark is in the word, and the number, of which an error may be known, beside it."""
    fragment: Array = cta.values[op.fragment]
    words, places = _words(cta, op)
    for place, at in zip(places, np.ndindex(*fragment.shape), strict=True):
        cta.floor.posted[place] = fragment[tuple(slice(i, i + 1) for i in at)].copy()
    words[...] = 1
    cta.floor.changed()


def _await_posts(cta: Cta, op: tile.AwaitPostsOp) -> None:
    fragment: Array = cta.values[op.fragment]
    kind = op.fragment.type
    assert isinstance(kind, FragmentType)
    fragment[...] = neutral(op.kind.data, kind.element_type)
    (count,) = cta.numbers([op.count])
    if count <= 0:
        return
    words, places = _words(cta, op)
    wanted = np.indices(words.shape)[op.axis] < count

    def ready() -> bool:
        return bool((words[wanted[tuple(slice(0, n) for n in words.shape)]] != 0).all())

    if not cta.floor.busy and not ready():
        raise PolycError("NotCooperative", "a CTA waits for others that do not run beside it", op)
    cta.floor.wait(ready, op)
    for place, at in zip(places, np.ndindex(*words.shape), strict=True):
        if wanted[at]:
            fragment[tuple(slice(i, i + 1) for i in at)] = cta.floor.posted[place]


def _roles(cta: Cta, op: tile.RolesOp) -> None:
    consumers = op.consumers.value.data
    produce = cta.role(op.producer.block, 1)

    def producer() -> None:
        produce()
        for ring in cta.values.values():
            if isinstance(ring, Ring):
                ring.close()

    roles = [producer]
    if op.independent is None:
        roles.append(cta.role(op.consumer.block, consumers))
    else:
        roles += [cta.role(op.consumer.block, 1, number) for number in range(consumers)]
    cta.floor.run(roles)


def _nothing(cta: Cta, op: Operation) -> None:
    """What orders tiles in time says nothing here: everything is done when it is said."""


def _block_id(cta: Cta, op: BlockIdOp) -> None:
    cta.values[op.result] = cta.block


def _opaque(cta: Cta, op: OpaqueOp) -> None:
    cta.values[op.result] = cta.values[op.value]


def _grid_size(cta: Cta, op: GridSizeOp) -> None:
    cta.values[op.result] = cta.blocks


def _cluster_rank(cta: Cta, op: ClusterRankOp) -> None:
    cta.values[op.result] = cta.block % cta.cluster.size


FLOW: Plays = {
    BlockIdOp: _block_id,
    OpaqueOp: _opaque,
    GridSizeOp: _grid_size,
    ClusterRankOp: _cluster_rank,
    BarrierOp: _nothing,
    CpAsyncCommitOp: _nothing,
    CpAsyncWaitOp: _nothing,
    tile.TileCoordinatesOp: _coordinates,
    tile.TileLoopOp: _tile_loop,
    tile.PipelineOp: _pipeline,
    tile.RingOp: _ring,
    tile.RingAcquireOp: _acquire,
    tile.RingWaitOp: _wait,
    tile.RingReleaseOp: _release,
    tile.OrderBarrierOp: _order,
    tile.OrderEnterOp: _enter,
    tile.OrderLeaveOp: _leave,
    tile.GridSignalOp: _grid_signal,
    tile.GridWaitOp: _grid_wait,
    tile.PostOp: _post,
    tile.AwaitPostsOp: _await_posts,
    tile.RolesOp: _roles,
    tile.AwaitOp: _nothing,
    tile.YieldOp: _nothing,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    ReturnOp: _nothing,
}
