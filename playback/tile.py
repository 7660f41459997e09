"""What a tile program means, on NumPy: whole tiles, one CTA after another.

This is the reference for the lowered kernel, written from the tile ops' docstrings and nothing
below them: it knows no threads, no layouts and no barriers.  A contract is a matrix product,
a copy a slice with zeros outside the tensor, a map a function of whole tiles.  It plays what an
author writes and what ``region-to-gpu`` makes.  What is asynchronous happens when it is said;
roles wait for each other at rings and turns (``roles.py``).
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    BarrierOp,
    BlockIdOp,
    ClusterRankOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    GridSizeOp,
    LoadGlobalOp,
    SharedTileOp,
)
from polyc.dialects.gpu.module import (
    KernelOp,
    LaunchOp,
    ModuleOp,
    ReturnOp,
    SequenceOp,
    WorkspaceOp,
)
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.playback.functions import dtype_of
from polyc.playback.gpu import arithmetic
from polyc.playback.im2col import taken
from polyc.playback.roles import Floor, Ring, Turns

Array = NDArray[Any]
Values = dict[SSAValue, Any]


def run(
    module: ModuleOp,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    variant: str | None = None,
    multiprocessors: int = 2,
) -> list[Array]:
    """The outputs of a ``gpu.module`` at tile level.

    What runs is ``variant``, or the first whose conditions hold.  ``multiprocessors`` bounds
    the grids of persistent kernels.  Elements that no kernel writes are NaN, integers -1.  Raises
    PolycError ``NotPlayed`` for an op below or beside the tile level, ``NoVariant`` when no kernel
    takes these sizes.
    """
    dispatch = module.dispatch()
    kinds = list(dispatch.arg_types)
    tensors = [np.array(a) for a in inputs]
    for kind in kinds[dispatch.num_inputs.value.data :]:
        shape = tuple(d.evaluate(symbols) for d in kind.dims)
        tensors.append(_undefined(shape, kind.element_type))
    outputs = tensors[dispatch.num_inputs.value.data :]
    if any(out.size == 0 for out in outputs):
        return outputs
    chosen = _chosen(module, symbols, variant, multiprocessors)
    kernels = {k.sym_name.data: k for k in module.kernels()}
    workspaces = {w.sym_name.data: _workspace(w, symbols) for w in chosen.workspaces()}
    for launch in chosen.launches():
        kernel = kernels[launch.kernel_name]
        blocks = launch.blocks(symbols, multiprocessors, kernel)
        if launch.cooperative is not None:
            floor, alone = Floor(), Cluster(1)
            floor.run(
                [
                    _Cta(kernel, tensors, workspaces, symbols, block, blocks, alone, floor).run
                    for block in range(blocks)
                ]
            )
            continue
        size = kernel.cluster_size
        for first in range(0, blocks, size):
            cluster = Cluster(size)
            cluster.run(
                [
                    _Cta(kernel, tensors, workspaces, symbols, block, blocks, cluster)
                    for block in range(first, first + size)
                ]
            )
    return outputs


def _chosen(
    module: ModuleOp, symbols: Mapping[str, int], variant: str | None, multiprocessors: int
) -> LaunchOp | SequenceOp:
    for found in module.dispatch().variants():
        named = variant in (None, found.variant_name)
        holds = named and all(f.holds(symbols) for f in found.facts.data)
        if holds and module.crowded(found, symbols, multiprocessors) is None:
            return found
    sizes = ", ".join(f"{k}={v}" for k, v in symbols.items())
    raise PolycError("NoVariant", f"no kernel of @{module.sym_name.data} takes {sizes}", module)


def _workspace(op: WorkspaceOp, symbols: Mapping[str, int]) -> Array:
    found = _undefined([d.evaluate(symbols) for d in op.type.dims], op.type.element_type)
    return np.zeros_like(found) if op.zeroed is not None else found


def window(tensor: Array, start: Sequence[int], shape: Sequence[int]) -> Array:
    """A tile of ``tensor`` from ``start``, zero where it leaves the tensor."""
    found = np.zeros(tuple(shape), tensor.dtype)
    ends = [min(s + n, size) for s, n, size in zip(start, shape, tensor.shape, strict=True)]
    if all(s < e for s, e in zip(start, ends, strict=True)):
        inside = tuple(slice(0, e - s) for s, e in zip(start, ends, strict=True))
        found[inside] = tensor[tuple(slice(s, e) for s, e in zip(start, ends, strict=True))]
    return found


def evaluated(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[int]) -> Any:
    """An affine expression on arrays of its dimensions."""
    match expr:
        case AffineConstantExpr(value):
            return value
        case AffineDimExpr(position):
            return dims[position]
        case AffineSymExpr(position):
            return symbols[position]
        case AffineBinaryOpExpr(kind, lhs, rhs):
            a, b = evaluated(lhs, dims, symbols), evaluated(rhs, dims, symbols)
            return BINARY[kind](a, b)
        case _:
            raise AssertionError(expr)


BINARY: dict[AffineBinaryOpKind, Callable[[Any, Any], Any]] = {
    AffineBinaryOpKind.Add: lambda a, b: a + b,
    AffineBinaryOpKind.Mul: lambda a, b: a * b,
    AffineBinaryOpKind.FloorDiv: lambda a, b: a // b,
    AffineBinaryOpKind.CeilDiv: lambda a, b: -(-a // b),
    AffineBinaryOpKind.Mod: lambda a, b: a % b,
}
"""Affine operators; Python's division rounds to minus infinity, as theirs does."""


class Cluster:
    """CTAs that run side by side, and tell each other values."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.meeting = threading.Barrier(size)
        self.told: list[Array | None] = [None] * size

    def run(self, ctas: Sequence[_Cta]) -> None:
        """Run all, each in a thread where there are several; raises what the first raised."""
        if len(ctas) == 1:
            ctas[0].run()
            return
        errors: list[BaseException] = []

        def one(cta: _Cta) -> None:
            try:
                cta.run()
            except threading.BrokenBarrierError:
                pass  # Another CTA has an error to tell.
            except BaseException as error:
                errors.append(error)
                self.meeting.abort()

        threads = [threading.Thread(target=one, args=(cta,)) for cta in ctas]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def exchange(self, rank: int, value: Array) -> list[Array]:
        """The values of all CTAs by rank; every CTA calls this."""
        self.told[rank] = value
        self.meeting.wait()
        found = [t for t in self.told if t is not None]
        self.meeting.wait()
        return found


class _Cta:
    """One block of a kernel; ``blocks`` is how many run, ``cluster`` those beside it.

    Those of a cooperative grid share the ``floor``, where they wait for each other.
    """

    def __init__(
        self,
        kernel: KernelOp,
        tensors: Sequence[Array],
        workspaces: Mapping[str, Array],
        symbols: Mapping[str, int],
        block: int,
        blocks: int,
        cluster: Cluster,
        floor: Floor | None = None,
    ) -> None:
        self.kernel, self.block, self.blocks = kernel, block, blocks
        self.cluster = cluster
        self.floor = Floor() if floor is None else floor
        self.warpgroups = 1
        self.values: Values = {}
        for arg, bound in zip(kernel.body.block.args, kernel.bindings, strict=True):
            if (symbol := bound.symbol_name) is not None:
                self.values[arg] = symbols[symbol]
            elif (index := bound.tensor_index) is not None:
                self.values[arg] = tensors[index]
            elif (name := bound.workspace_name) is not None:
                self.values[arg] = workspaces[name]

    def run(self) -> None:
        self.ops(self.kernel.body.block)

    def ops(self, block: Block) -> None:
        for op in block.ops:
            play = PLAYS.get(type(op))
            if play is None:
                raise PolycError(
                    "NotPlayed",
                    f"{op.name} is not of the tile level; simulate the lowered kernel instead",
                    op,
                )
            play(self, op)

    def numbers(self, values: Sequence[SSAValue]) -> list[int]:
        return [int(self.values[v]) for v in values]

    def role(self, region: Block, warpgroups: int, *numbers: int) -> Callable[[], None]:
        """Play ``region`` with values of its own: what is made in it is not the others'.

        ``warpgroups`` of them play it together, or one, which is told its number.
        """
        mine = copy(self)
        mine.values = dict(self.values)
        mine.warpgroups = warpgroups
        mine.values.update(zip(region.args, numbers, strict=True))
        return lambda: mine.ops(region)


def _constant(cta: _Cta, op: arith.ConstantOp) -> None:
    value = cast(Attribute, op.value)
    if isinstance(value, IntegerAttr):
        cta.values[op.result] = int(value.value.data)
    elif isinstance(value, FloatAttr):
        cta.values[op.result] = dtype_of(op.result.type).type(value.value.data)
    else:
        raise PolycError("NotPlayed", f"a tile program has no constant like {value}", op)


INTEGER: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivUIOp: lambda a, b: a // b,
    arith.DivSIOp: lambda a, b: int(a / b),
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.RemUIOp: lambda a, b: a % b,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
    arith.MinUIOp: min,
    arith.MaxUIOp: max,
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
}
"""Arithmetic of sizes, coordinates and conditions."""


def _integer(cta: _Cta, op: Operation) -> None:
    left, right = cta.numbers(op.operands)
    cta.values[op.results[0]] = INTEGER[type(op)](left, right)


def _index_cast(cta: _Cta, op: arith.IndexCastOp) -> None:
    cta.values[op.result] = cta.values[op.input]


def _to_float(cta: _Cta, op: arith.SIToFPOp) -> None:
    cta.values[op.result] = dtype_of(op.result.type).type(cta.values[op.input])


def _apply(cta: _Cta, op: affine.ApplyOp) -> None:
    m, operands = op.map.data, cta.numbers(op.mapOperands)
    cta.values[op.result] = m.eval(operands[: m.num_dims], operands[m.num_dims :])[0]


def _coordinates(cta: _Cta, op: tile.TileCoordinatesOp) -> None:
    """Walk the tiles in the raster's order until the block's own."""
    height, width = op.tile_sizes
    rows, columns = (
        -(-size // step)
        for size, step in zip(cta.numbers([op.rows, op.columns]), (height, width), strict=True)
    )
    group = op.group.value.data if op.raster.data == "grouped" else 1
    order = [
        (row, column)
        for first in range(0, rows, group)
        for column in range(columns)
        for row in range(first, min(first + group, rows))
    ]
    row, column = order[cta.block]
    cta.values[op.row], cta.values[op.column] = row * height, column * width


def _tile_loop(cta: _Cta, op: tile.TileLoopOp) -> None:
    """Walk the CTA's tiles; the order of tiles is the raster's business and changes no result."""
    cluster = cta.kernel.cluster_size
    counts = [-(-n // s) for n, s in zip(cta.numbers(op.sizes), op.tile.data, strict=True)]
    counts[-2] = -(-counts[-2] // cluster)
    share = 0 if op.share is None else int(cta.values[op.share])
    shares = 1 if op.shares is None else op.shares.value.data
    first, stride = cta.block // cluster, cta.blocks // cluster
    for ordinal, number in enumerate(range(first, math.prod(counts), stride)):
        if ordinal % shares != share:
            continue
        place = [int(i) for i in np.unravel_index(number, counts)]
        place[-2] = place[-2] * cluster + cta.block % cluster
        for axis, coordinate in enumerate(op.coordinates):
            cta.values[coordinate] = place[axis] * op.tile.data[axis]
        cta.values[op.ordinal] = ordinal
        cta.ops(op.body.block)


def _undefined(shape: Sequence[int], element: Attribute) -> Array:
    """What nobody has written: NaN, or -1 where there is no NaN."""
    found = np.empty(tuple(shape), arithmetic.dtype_of(element))
    found.reshape(-1).view(np.uint8).fill(0xFF)
    return found


def _fragment(cta: _Cta, op: tile.FragmentOp) -> None:
    kind = op.fragment.type
    assert isinstance(kind, FragmentType)
    cta.values[op.fragment] = _undefined(kind.sizes, kind.element_type)


def _shared(cta: _Cta, op: SharedTileOp) -> None:
    kind = op.tile.type
    assert isinstance(kind, SharedType)
    cta.values[op.tile] = _undefined((kind.ring.data, *kind.sizes), kind.element_type)


def _fill(cta: _Cta, op: tile.FillOp) -> None:
    cta.values[op.fragment][...] = cta.values[op.value]


def _slot(cta: _Cta, slot: SSAValue | None) -> int:
    return 0 if slot is None else int(cta.values[slot])


def _copy(cta: _Cta, op: tile.CopyOp) -> None:
    _copied(cta, op)
    if op.signal is not None and op.signal_index is not None:
        ring = cta.values[op.signal]
        if isinstance(ring, Ring):
            ring.fill(int(cta.values[op.signal_index]))
    if op.token is not None:
        cta.values[op.token] = None


def _copied(cta: _Cta, op: tile.CopyOp) -> None:
    source, target = _end(cta, op.source, op.source_slot), _end(cta, op.target, op.slot)
    start = cta.numbers(op.indices)
    if op.im2col is not None:
        target[...] = taken(source, op.im2col, start, cta.numbers(op.tap), target.shape)
    elif isinstance(op.source.type, GlobalType):
        shape = _extent(op, source.ndim, target.shape)
        target[...] = window(source, start, shape).reshape(target.shape)
    elif isinstance(op.target.type, GlobalType):
        shape = _extent(op, target.ndim, source.shape)
        ends = [min(s + n, size) for s, n, size in zip(start, shape, target.shape, strict=True)]
        if all(s < e for s, e in zip(start, ends, strict=True)):
            inside = tuple(slice(0, e - s) for s, e in zip(start, ends, strict=True))
            there = tuple(slice(s, e) for s, e in zip(start, ends, strict=True))
            target[there] = source.reshape(shape)[inside]
    else:
        at = (0,) * source.ndim if op.window is None else op.window.data
        small = min(source.shape, target.shape, key=math.prod)
        part = tuple(slice(s, s + n) for s, n in zip(at, small, strict=True))
        if source.shape == small:
            target[part] = source
        else:
            target[...] = source[part]


def _end(cta: _Cta, value: SSAValue, slot: SSAValue | None) -> Array:
    """What a copy reads or writes: a tensor, a fragment, or a tile of a ring."""
    found: Array = cta.values[value]
    return found[_slot(cta, slot)] if isinstance(value.type, SharedType) else found


def _extent(op: tile.CopyOp, rank: int, tile_shape: Sequence[int]) -> list[int]:
    """The sizes of a tile in all axes of a tensor."""
    shape = [1] * rank
    for axis, size in zip(op.tile_axes, tile_shape, strict=True):
        shape[axis] = size
    return shape


def _contract(cta: _Cta, op: tile.ContractOp) -> None:
    left = _end(cta, op.lhs, op.lhs_slot).astype(np.float32)
    right = _end(cta, op.rhs, op.rhs_slot).astype(np.float32)
    acc: Array = cta.values[op.acc]
    with np.errstate(all="ignore"):
        found = (left if op.lhs_k_major else left.T) @ (right.T if op.rhs_k_major else right)
        acc[...] = found if op.clear is not None else acc + found
    if op.token is not None:
        cta.values[op.token] = None


def _pipeline(cta: _Cta, op: tile.PipelineOp) -> None:
    step = op.step.value.data
    for i in range(-(-int(cta.values[op.bound]) // step)):
        cta.values[op.position], cta.values[op.iteration] = i * step, i
        cta.ops(op.body.block)


def _map(cta: _Cta, op: tile.MapOp) -> None:
    space: Array = cta.values[op.space]
    grid = np.indices(space.shape)
    origin = cta.numbers(op.origin)

    def places(access: AffineMap) -> list[Array]:
        found = [evaluated(expr, cast(Sequence[Array], grid), origin) for expr in access.results]
        return [np.broadcast_to(coordinate, space.shape) for coordinate in found]

    def inside(at: list[Array], shape: tuple[int, ...]) -> Array:
        found = np.ones(space.shape, np.bool_)
        for coordinate, size in zip(at, shape, strict=True):
            found &= (coordinate >= 0) & (coordinate < size)
        return found

    scalar, *others = op.body.block.args
    # An output may be the space itself, and be written before the next output is.
    cta.values[scalar] = space.copy()
    for index in op.body.block.walk():
        if isinstance(index, tile.TileIndexOp):
            cta.values[index.result] = grid[index.axis.value.data]
    for arg, source, access in zip(others, op.inputs, op.input_maps, strict=True):
        tensor: Array = _end(cta, source, None)
        at = places(access)
        held = inside(at, tensor.shape)
        values = np.zeros(space.shape, tensor.dtype)
        values[held] = tensor[tuple(c[held] for c in at)]
        cta.values[arg] = values
    *body, end = op.body.block.ops
    for scalar_op in body:
        _scalar(cta, scalar_op)
    for value, out, access in zip(end.operands, op.outputs, op.output_maps, strict=True):
        found = np.broadcast_to(cta.values[value], space.shape)
        if isinstance(out.type, GlobalType):
            target: Array = cta.values[out]
            at = places(access)
            held = inside(at, target.shape)
            target[tuple(c[held] for c in at)] = found[held]
        else:
            cta.values[out][...] = found


COMBINE: dict[str, tuple[Any, float]] = {
    "sum": (np.add, 0.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}
"""What a reduction does with two values, and what it is over none; NaN stays NaN."""

ATOMIC: Mapping[str, Any] = {"add": np.add, "max": np.maximum, "min": np.minimum}


def _over_nothing(kind: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction over no elements is; integers have no infinity, but a last one."""
    nothing = COMBINE[kind][1]
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return int(np.clip(nothing, limits.min, limits.max))
    return nothing


def _reduce(cta: _Cta, op: tile.ReduceOp) -> None:
    source: Array = cta.values[op.source]
    target: Array = cta.values[op.target]
    kind = op.kind.data
    combine, _ = COMBINE[kind]
    grid = cast(Sequence[Array], np.indices(source.shape))
    found = np.full(target.shape, _over_nothing(kind, target.dtype), target.dtype)
    at = tuple(
        np.broadcast_to(evaluated(expr, grid, ()), source.shape) for expr in op.by.data.results
    )
    with np.errstate(all="ignore"):
        combine.at(found, at, source)
        if op.cluster is not None:
            parts = cta.cluster.exchange(cta.block % cta.cluster.size, found)
            found = functools.reduce(combine, parts)
        if op.accumulate is not None:
            found = combine(target, found)
    target[...] = found


def _atomic(cta: _Cta, op: tile.AtomicOp) -> None:
    source: Array = cta.values[op.fragment]
    target: Array = cta.values[op.tensor]
    start = cta.numbers(op.indices)
    shape = [1] * (target.ndim - source.ndim) + list(source.shape)
    ends = [min(s + n, size) for s, n, size in zip(start, shape, target.shape, strict=True)]
    if all(s < e for s, e in zip(start, ends, strict=True)):
        there = tuple(slice(s, e) for s, e in zip(start, ends, strict=True))
        inside = tuple(slice(0, e - s) for s, e in zip(start, ends, strict=True))
        with np.errstate(all="ignore"):
            new = ATOMIC[op.kind.data](target[there], source.reshape(shape)[inside])
        target[there] = new


def _scalar(cta: _Cta, op: Operation) -> None:
    """An op of a map's body, on whole tiles at once."""
    operands = [cta.values[v] for v in op.operands]
    found: Any
    with np.errstate(all="ignore"):
        match op:
            case arith.ConstantOp():
                _constant(cta, op)
                return
            case tile.TileIndexOp():
                return
            case affine.ApplyOp():
                m = op.map.data
                found = evaluated(m.results[0], operands[: m.num_dims], operands[m.num_dims :])
            case arith.CmpiOp():
                compare = arithmetic.compare_integers(op.predicate.value.data, np.dtype(np.int64))
                found = compare(*(np.asarray(v, np.int64) for v in operands))
            case arith.AndIOp():
                found = np.asarray(operands[0]) & operands[1]
            case arith.OrIOp():
                found = np.asarray(operands[0]) | operands[1]
            case arith.AddiOp() | arith.SubiOp() | arith.MuliOp():
                found = INTEGER[type(op)](*operands)
            case arith.MinSIOp() | arith.MaxSIOp():
                found = (np.minimum if isinstance(op, arith.MinSIOp) else np.maximum)(*operands)
            case arith.CmpfOp():
                found = arithmetic.compare_floats(op.predicate.value.data)(*operands)
            case arith.SelectOp():
                condition, then, other = (np.asarray(v) for v in operands)
                found = np.where(condition, then, other)
            case arith.ExtFOp() | arith.TruncFOp():
                found = cast(Array, operands[0]).astype(dtype_of(op.results[0].type))
            case _ if type(op) in arithmetic.FLOAT:
                found = arithmetic.FLOAT[type(op)](*operands)
            case _:
                raise PolycError("NotPlayed", f"a map's body has no {op.name} here", op)
    cta.values[op.results[0]] = found


def _for(cta: _Cta, op: scf.ForOp) -> None:
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


def _if(cta: _Cta, op: scf.IfOp) -> None:
    region = op.true_region if cta.values[op.cond] else op.false_region
    for block in region.blocks:
        cta.ops(block)
        if op.results and (end := block.last_op) is not None:
            cta.values.update(zip(op.results, [cta.values[v] for v in end.operands], strict=True))


def _compare(cta: _Cta, op: arith.CmpiOp) -> None:
    compare = arithmetic.compare_integers(op.predicate.value.data, np.dtype(np.int64))
    cta.values[op.result] = bool(compare(*(np.int64(n) for n in cta.numbers(op.operands))))


def _choose(cta: _Cta, op: arith.SelectOp) -> None:
    cta.values[op.result] = cta.values[op.lhs if cta.values[op.cond] else op.rhs]


def _ring(cta: _Cta, op: tile.RingOp) -> None:
    copies = sum(
        isinstance(use.operation, tile.CopyOp) and use.operation.signal is op.ring
        for use in op.ring.uses
    )
    depth = op.ring.type.depth.data
    cta.values[op.ring] = Ring(cta.floor, depth, copies, op.consumers.value.data)


def _acquire(cta: _Cta, op: tile.RingAcquireOp) -> None:
    cta.values[op.ring].acquire(int(cta.values[op.iteration]), op)


def _wait(cta: _Cta, op: tile.RingWaitOp) -> None:
    cta.values[op.ring].await_full(int(cta.values[op.iteration]), op)


def _release(cta: _Cta, op: tile.RingReleaseOp) -> None:
    cta.values[op.ring].release(int(cta.values[op.iteration]), cta.warpgroups)


def _order(cta: _Cta, op: tile.OrderBarrierOp) -> None:
    cta.values[op.order] = Turns(cta.floor, op.order.type.participants.data)


def _enter(cta: _Cta, op: tile.OrderEnterOp) -> None:
    cta.values[op.order].enter(int(cta.values[op.number]), op)


def _leave(cta: _Cta, op: tile.OrderLeaveOp) -> None:
    cta.values[op.order].leave(int(cta.values[op.number]))


def _grid_signal(cta: _Cta, op: tile.GridSignalOp) -> None:
    cta.values[op.counters][tuple(cta.numbers(op.indices))] += 1
    cta.floor.changed()


def _grid_wait(cta: _Cta, op: tile.GridWaitOp) -> None:
    counters: Array = cta.values[op.counters]
    at, (count,) = tuple(cta.numbers(op.indices)), cta.numbers([op.count])
    if not cta.floor.busy and counters[at] < count:
        raise PolycError("NotCooperative", "a CTA waits for others that do not run beside it", op)
    cta.floor.wait(lambda: bool(counters[at] >= count), op)


def _roles(cta: _Cta, op: tile.RolesOp) -> None:
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


def _nothing(cta: _Cta, op: Operation) -> None:
    """What orders tiles in time says nothing here: everything is done when it is said."""


def _load(cta: _Cta, op: LoadGlobalOp) -> None:
    """One element for all threads, 0 outside of the tensor."""
    tensor, at = cta.values[op.tensor], tuple(cta.numbers(op.indices))
    reads = op.predicate is None or bool(cta.values[op.predicate])
    inside = all(0 <= i < n for i, n in zip(at, tensor.shape, strict=True))
    cta.values[op.result] = tensor[at] if reads and inside else tensor.dtype.type(0)


def _block_id(cta: _Cta, op: BlockIdOp) -> None:
    cta.values[op.result] = cta.block


def _grid_size(cta: _Cta, op: GridSizeOp) -> None:
    cta.values[op.result] = cta.blocks


def _cluster_rank(cta: _Cta, op: ClusterRankOp) -> None:
    cta.values[op.result] = cta.block % cta.cluster.size


PLAYS: dict[type[Operation], Callable[[_Cta, Any], None]] = {
    arith.ConstantOp: _constant,
    arith.IndexCastOp: _index_cast,
    arith.SIToFPOp: _to_float,
    affine.ApplyOp: _apply,
    BlockIdOp: _block_id,
    LoadGlobalOp: _load,
    GridSizeOp: _grid_size,
    ClusterRankOp: _cluster_rank,
    BarrierOp: _nothing,
    CpAsyncCommitOp: _nothing,
    CpAsyncWaitOp: _nothing,
    tile.ReduceOp: _reduce,
    tile.AtomicOp: _atomic,
    tile.TileCoordinatesOp: _coordinates,
    tile.TileLoopOp: _tile_loop,
    tile.FragmentOp: _fragment,
    SharedTileOp: _shared,
    tile.FillOp: _fill,
    tile.CopyOp: _copy,
    tile.ContractOp: _contract,
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
    tile.RolesOp: _roles,
    arith.CmpiOp: _compare,
    arith.SelectOp: _choose,
    tile.MapOp: _map,
    tile.AwaitOp: _nothing,
    tile.YieldOp: _nothing,
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    ReturnOp: _nothing,
    **dict.fromkeys(INTEGER, _integer),
}
"""How each op plays."""
