"""What tile ops do to tiles: copies, products, maps and reductions of whole arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects import affine, arith, scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineMap,
)

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import neutral
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import (
    AtomicGlobalOp,
    AtomicSharedOp,
    ErfcOp,
    ExchangeGlobalOp,
    FetchAddSharedOp,
    FmodOp,
    LoadGlobalOp,
    LoadSharedOp,
    SharedTileOp,
    StoreGlobalOp,
    StoreSharedOp,
)
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType
from polyc.playback import functions
from polyc.playback.atomics import ATOMIC, combine_at
from polyc.playback.estimate import Estimate, accumulated, as_estimate, scattered
from polyc.playback.functions import (
    as_array,
    as_tf32,
    dtype_of,
    element_of,
    erfc,
    posing,
    zeros_like,
)
from polyc.playback.gathers import gather
from polyc.playback.gpu import arithmetic
from polyc.playback.tile import integers
from polyc.playback.tile.cta import Array, Cta, Plays, tile_at, undefined
from polyc.playback.tile.im2col import taken, windows
from polyc.playback.tile.numbers import INTEGER, evaluated, play_constant
from polyc.playback.tile.roles import Ring


def window(tensor: Array, start: Sequence[int], shape: Sequence[int]) -> Array:
    """A tile of ``tensor`` from ``start``, zero where it leaves the tensor."""
    found = zeros_like(tensor, shape)
    first = [max(s, 0) for s in start]
    ends = [min(s + n, size) for s, n, size in zip(start, shape, tensor.shape, strict=True)]
    if all(s < e for s, e in zip(first, ends, strict=True)):
        there = tuple(slice(s, e) for s, e in zip(first, ends, strict=True))
        moved = (slice(s.start - at, s.stop - at) for s, at in zip(there, start, strict=True))
        found[tuple(moved)] = tensor[there]
    return found


def _fragment(cta: Cta, op: tile.FragmentOp) -> None:
    kind = op.fragment.type
    assert isinstance(kind, FragmentType)
    cta.values[op.fragment] = undefined(kind.sizes, kind.element_type, cta.known)


def _shared(cta: Cta, op: SharedTileOp) -> None:
    kind = op.tile.type
    assert isinstance(kind, SharedType)
    cta.values[op.tile] = undefined((kind.ring.data, *kind.sizes), kind.element_type, cta.known)


def _fill(cta: Cta, op: tile.FillOp) -> None:
    cta.values[op.fragment][...] = cta.values[op.value]


def _copy(cta: Cta, op: tile.CopyOp) -> None:
    _copied(cta, op)
    if op.signal is not None and op.signal_index is not None:
        ring = cta.values[op.signal]
        if isinstance(ring, Ring):
            ring.fill(int(cta.values[op.signal_index]))
    if op.token is not None:
        cta.values[op.token] = None


def _copied(cta: Cta, op: tile.CopyOp) -> None:
    source, target = tile_at(cta, op.source, op.source_slot), tile_at(cta, op.target, op.slot)
    start = cta.numbers(op.indices)
    if op.im2col is not None and op.planes is not None:
        image, channel, *place = start
        one = np.moveaxis(source[image : image + 1], 1, -1)
        if not op.tap:
            target[...] = windows(one, op.im2col, place, channel, target.shape)
            return
        first = [0, *place, channel]
        target[...] = taken(one, op.im2col, first, cta.numbers(op.tap), target.shape[::-1]).T
    elif op.im2col is not None:
        seen = _seen(op, target)
        seen[...] = taken(source, op.im2col, start, cta.numbers(op.tap), seen.shape)
    elif op.across is not None:
        across = op.across.value.data
        runs = np.split(_seen(op, target), len(op.pages) + 1)
        pages = [start[across], *cta.numbers(op.pages)]
        for run, page in zip(runs, pages, strict=True):
            place = [*start[:across], page, *start[across + 1 :]]
            run[...] = window(source, place, _extent(op, source.ndim, run.shape)).reshape(run.shape)
    elif isinstance(op.source.type, GlobalType):
        seen = _seen(op, target)
        shape = _extent(op, source.ndim, seen.shape)
        seen[...] = window(source, start, shape).reshape(seen.shape)
    elif op.wraps is not None:
        _store_wrapped(op, source, target, start)
    elif isinstance(op.target.type, GlobalType):
        shape = _extent(op, target.ndim, source.shape)
        ends = [min(s + n, size) for s, n, size in zip(start, shape, target.shape, strict=True)]
        if all(s < e for s, e in zip(start, ends, strict=True)):
            inside = tuple(slice(0, e - s) for s, e in zip(start, ends, strict=True))
            there = tuple(slice(s, e) for s, e in zip(start, ends, strict=True))
            target[there] = source.reshape(shape)[inside]
    elif op.line is not None:
        high, wide = target.shape
        lines = source.reshape(high, op.line.value.data)
        target[...] = lines[:, [min(m, lines.shape[1] - 1) for m in range(wide)]]
    else:
        if op.transposes:
            target = target.T
        at = (0,) * source.ndim if op.window is None else op.window.data
        small = min(source.shape, target.shape, key=math.prod)
        part = tuple(slice(s, s + n) for s, n in zip(at, small, strict=True))
        if source.shape == small:
            target[part] = source
        else:
            target[...] = source[part]


def _store_wrapped(op: tile.CopyOp, source: Array, target: Array, start: Sequence[int]) -> None:
    """A tile whose columns go on in the next points of another axis of the tensor."""
    assert op.wraps is not None
    across, (high, along) = op.wraps.value.data, op.tile_axes
    for column in range(source.shape[1]):
        further, last = divmod(start[along] + column, target.shape[along])
        place: list[int | slice] = list(start)
        place[across], place[along] = start[across] + further, last
        rows = max(0, min(source.shape[0], target.shape[high] - start[high]))
        place[high] = slice(start[high], start[high] + rows)
        if start[across] + further < target.shape[across]:
            target[tuple(place)] = source[:rows, column]


def _seen(op: tile.CopyOp, target: Array) -> Array:
    """A loaded tile as it lies in the tensor."""
    return target.T if op.turned is not None else target


def _extent(op: tile.CopyOp, rank: int, tile_shape: Sequence[int]) -> list[int]:
    """The sizes of a tile in all axes of a tensor."""
    shape = [1] * rank
    for axis, size in zip(op.tile_axes, tile_shape, strict=True):
        shape[axis] = size
    return shape


def _load(cta: Cta, op: LoadGlobalOp) -> None:
    """One element for all threads, 0 outside of the tensor."""
    tensor, at = cta.values[op.tensor], tuple(cta.numbers(op.indices))
    reads = op.predicate is None or bool(cta.values[op.predicate])
    inside = all(0 <= i < n for i, n in zip(at, tensor.shape, strict=True))
    cta.values[op.result] = tensor[at] if reads and inside else tensor.dtype.type(0)


def _contract(cta: Cta, op: tile.ContractOp) -> None:
    left = tile_at(cta, op.lhs, op.lhs_slot).astype(np.float32)
    right = tile_at(cta, op.rhs, op.rhs_slot).astype(np.float32)
    if op.is_tf32:
        left, right = as_tf32(left), as_tf32(right)
    acc: Array = cta.values[op.acc]
    with np.errstate(all="ignore"):
        found = (left if op.lhs_k_major else left.T) @ (right.T if op.rhs_k_major else right)
        acc[...] = found if op.clear is not None else accumulated(acc, found)
    if op.token is not None:
        cta.values[op.token] = None


@dataclass(frozen=True)
class _Map:
    """What is written in a map, which blocks play again and again."""

    space: SSAValue
    origin: Sequence[SSAValue]
    scalar: SSAValue
    indices: Sequence[tuple[SSAValue, int]]
    """The numbers of the space's axes that its body asks for."""
    inputs: Sequence[tuple[SSAValue, SSAValue, AffineMap]]
    """An argument, what is read for it, and where."""
    body: Sequence[Operation]
    outputs: Sequence[tuple[SSAValue, SSAValue, AffineMap]]
    """A value, where it is written, and at which places."""

    @staticmethod
    def of(op: tile.MapOp) -> _Map:
        """What ``op`` says."""
        block = op.body.block
        scalar, *others = block.args
        *body, end = block.ops
        asked = (one for one in block.walk() if isinstance(one, tile.TileIndexOp))
        return _Map(
            op.space,
            op.origin,
            scalar,
            [(one.result, one.axis.value.data) for one in asked],
            list(zip(others, op.inputs, op.input_maps, strict=True)),
            body,
            list(zip(end.operands, op.outputs, op.output_maps, strict=True)),
        )


def _map(cta: Cta, op: tile.MapOp) -> None:
    if (read := cta.read.get(op)) is None:
        read = cta.read[op] = _Map.of(op)
    space: Array = cta.values[read.space]
    # Each axis by itself: what does not depend on one is computed once along it.
    grid = cast(Sequence[Array], np.indices(space.shape, sparse=True))
    origin = cta.numbers(read.origin)

    def places(access: AffineMap, shape: tuple[int, ...]) -> tuple[list[Array], Array | None]:
        """The coordinates in a tensor, and where they are inside of it: None where all are."""
        found = [np.asarray(evaluated(expr, grid, origin)) for expr in access.results]
        inside = [(c >= 0) & (c < size) for c, size in zip(found, shape, strict=True)]
        if found and all(one.all() for one in inside):
            return [np.broadcast_to(found[0], space.shape), *found[1:]], None
        held = np.ones(space.shape, np.bool_)
        for one in inside:
            held &= one
        return [np.broadcast_to(c, space.shape) for c in found], held

    # An output may be the space itself, and be written before the next output is.
    cta.values[read.scalar] = space.copy()
    for index, axis in read.indices:
        cta.values[index] = np.broadcast_to(grid[axis], space.shape)
    for arg, source, access in read.inputs:
        tensor: Array = tile_at(cta, source, None)
        at, held = places(access, tensor.shape)
        if held is None and space.shape:
            cta.values[arg] = tensor[tuple(at)]
            continue
        values = zeros_like(tensor, space.shape)
        values[... if held is None else held] = tensor[
            tuple(at if held is None else (c[held] for c in at))
        ]
        cta.values[arg] = values
    for scalar_op in read.body:
        _scalar(cta, scalar_op)
    for value, out, access in read.outputs:
        found = np.broadcast_to(cta.values[value], space.shape)
        if isinstance(out.type, GlobalType):
            target: Array = cta.values[out]
            at, held = places(access, target.shape)
            # A scalar's place has no coordinates, and one value.
            if held is None:
                at = np.broadcast_arrays(*at)
                target[tuple(c.reshape(-1) for c in at)] = found.reshape(-1)
            else:
                target[tuple(c[held] for c in at)] = found[held] if at else found.reshape(-1)[0]
        else:
            cta.values[out][...] = found


COMBINE: dict[str, tuple[Any, float]] = {
    "sum": (np.add, 0.0),
    "prod": (np.multiply, 1.0),
    "max": (np.maximum, -np.inf),
    "min": (np.minimum, np.inf),
}
"""What a reduction does with two values, and what it is over none; NaN stays NaN."""


def _over_nothing(kind: str, dtype: np.dtype[Any]) -> Any:
    """What a reduction over no elements is; integers have no infinity, but a last one."""
    if np.issubdtype(dtype, np.integer):
        return neutral(kind, element_of(dtype))
    return COMBINE[kind][1]


def _reduce(cta: Cta, op: tile.ReduceOp) -> None:
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
        if isinstance(source, Estimate):
            found = posing(scattered(kind, source, at, found))
        else:
            combine.at(found, at, source)
        if op.cluster is not None:
            parts = cta.cluster.exchange(cta.block % cta.cluster.size, found)
            found = functools.reduce(combine, parts)
        if op.accumulate is not None:
            found = combine(target, found)
    target[...] = found


def _scan(cta: Cta, op: tile.ScanOp) -> None:
    found: Array = cta.values[op.fragment]
    kind, axis, dtype = op.kind.data, op.axis, found.dtype
    before = np.full(
        tuple(1 if i == axis else n for i, n in enumerate(found.shape)),
        _over_nothing(kind, dtype),
        dtype,
    )
    if op.carry is not None:
        before = cta.values[op.carry].copy()
    ends = [before, found.copy()]
    whole = np.concatenate(ends[::-1] if op.is_reverse else ends, axis)

    def scanned(exclusive: bool) -> Array:
        made = functions.scan(kind, whole, axis, reverse=op.is_reverse, exclusive=exclusive)
        return posing(made) if isinstance(made, Estimate) else made

    own = [slice(None)] * found.ndim
    inside = slice(0, -1) if op.is_reverse else slice(1, None)
    own[axis] = inside
    if op.carry is not None:
        last = [slice(None)] * found.ndim
        last[axis] = slice(0, 1) if op.is_reverse else slice(-1, None)
        cta.values[op.carry][...] = scanned(False)[tuple(last)]
    found[...] = scanned(op.is_exclusive)[tuple(own)]


def _any(cta: Cta, op: tile.AnyOp) -> None:
    cta.values[op.result] = bool(np.any(cta.values[op.fragment]))


def _reduce_scatter(cta: Cta, op: tile.ReduceScatterOp) -> None:
    combine, _ = COMBINE[op.kind.data]
    target: Array = cta.values[op.target]
    if (why := op.misfit(cta.cluster.size)) is not None:
        raise PolycError("BadScatter", why, op)
    rank, width = cta.block % cta.cluster.size, target.shape[-1]
    with np.errstate(all="ignore"):
        found = functools.reduce(combine, cta.cluster.exchange(rank, cta.values[op.source].copy()))
        target[...] = found[..., rank * width : (rank + 1) * width]
    if op.rows is not None:
        kind = cast(FragmentType, op.target.type)
        known = max(0, int(cta.values[op.rows]))
        target[known:] = undefined(kind.sizes, kind.element_type, cta.known)[known:]


def _atomic(cta: Cta, op: tile.AtomicOp) -> None:
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


def _scalar(cta: Cta, op: Operation) -> None:
    """An op of a map's body, on whole tiles at once."""
    operands = [cta.values[v] for v in op.operands]
    found: Any
    with np.errstate(all="ignore"):
        match op:
            case arith.ConstantOp():
                play_constant(cta, op)
                return
            case tile.TileIndexOp():
                return
            case _ if integers.is_integer_op(op):
                found = integers.evaluated(op, operands)
            case affine.ApplyOp():
                m = op.map.data
                found = evaluated(m.results[0], operands[: m.num_dims], operands[m.num_dims :])
            case arith.CmpiOp():
                compare = arithmetic.compare_integers(op.predicate.value.data, np.dtype(np.int64))
                found = compare(*(np.asarray(v, np.int64) for v in operands))
            case arith.AndIOp():
                found = as_array(operands[0]) & operands[1]
            case arith.OrIOp():
                found = as_array(operands[0]) | operands[1]
            case arith.AddiOp() | arith.SubiOp() | arith.MuliOp():
                found = INTEGER[type(op)](*operands)
            case arith.DivUIOp() | arith.RemUIOp():
                found = INTEGER[type(op)](*operands)
            case arith.MinSIOp() | arith.MaxSIOp():
                found = (np.minimum if isinstance(op, arith.MinSIOp) else np.maximum)(*operands)
            case arith.CmpfOp():
                found = arithmetic.compare_floats(op.predicate.value.data)(*operands)
            case arith.SelectOp():
                condition, then, other = (as_array(v) for v in operands)
                found = np.where(condition, then, other)
            case LoadGlobalOp():
                found = _loaded(cta, op)
            case tile.ElementAddressOp():
                found = (operands[0], tuple(np.broadcast_arrays(*operands[1:])))
            case LoadSharedOp():
                shared, place = operands[0]
                found = as_array(shared)[place]
            case StoreSharedOp():
                (shared, place), value = cta.values[op.address], cta.values[op.value]
                as_array(shared)[place] = value
                return
            case AtomicSharedOp():
                shared, place = cta.values[op.address]
                *places, value = np.broadcast_arrays(*place, as_array(cta.values[op.value]))
                combine_at(op.function.data, as_array(shared), tuple(places), value)
                return
            case FetchAddSharedOp():
                found = _fetched(cta, op)
            case StoreGlobalOp() | AtomicGlobalOp():
                _written(cta, op)
                return
            case ExchangeGlobalOp():
                found = _exchanged(cta, op)
            case scf.ForOp():
                _repeated(cta, op)
                return
            case arith.BitcastOp():
                kind = op.result.type
                source = as_array(operands[0])
                if op.input.type == i32 and source.dtype != np.int32:  # a choice of numbers
                    source = source.astype(np.int32)
                found = source.view(np.int32 if kind == i32 else dtype_of(kind))
            case arith.ExtFOp() | arith.TruncFOp():
                found = cast(Array, operands[0]).astype(dtype_of(op.results[0].type))
            case ErfcOp():
                found = erfc(as_array(operands[0]))
            case FmodOp():
                found = np.fmod(*operands)
            case _ if type(op) in arithmetic.FLOAT:
                found = arithmetic.FLOAT[type(op)](*operands)
            case _:
                raise PolycError("NotPlayed", f"a map's body has no {op.name} here", op)
    cta.values[op.results[0]] = found


def _address(cta: Cta, op: tile.ElementAddressOp) -> None:
    """An address is the element's place: the tile, and its slot, row and column."""
    place = cta.numbers([op.slot, op.row, op.column])
    cta.values[op.result] = (cta.values[op.tile], tuple(place))


def _load_shared(cta: Cta, op: LoadSharedOp) -> None:
    """One number of a shared tile, for all threads."""
    shared, place = cta.values[op.address]
    found = as_estimate(shared).value[place]
    cta.values[op.result] = int(found) if found.dtype.kind == "i" else found


def _repeated(cta: Cta, op: scf.ForOp) -> None:
    """A loop of a map's body, whose elements go on as long as their own bounds say."""
    index, *carried = op.body.block.args
    *body, end = op.body.block.ops
    lower, upper, step = (as_array(cta.values[v]) for v in (op.lb, op.ub, op.step))
    values: list[Any] = [cta.values[v] for v in op.iter_args]
    for number in range(int(np.max(-((lower - upper) // step), initial=0))):
        at = lower + number * step
        cta.values[index] = at
        cta.values.update(zip(carried, values, strict=True))
        for inner in body:
            if isinstance(inner, StoreGlobalOp | AtomicGlobalOp | ExchangeGlobalOp):
                raise PolycError("NotPlayed", f"a loop of a map's body has no {inner.name}", inner)
            _scalar(cta, inner)
        new: list[Any] = [cta.values[v] for v in end.operands]
        goes = at < upper
        values = [np.where(goes, *both) for both in zip(new, values, strict=True)]
    cta.values.update(zip(op.results, values, strict=True))


def _places(
    cta: Cta, op: StoreGlobalOp | AtomicGlobalOp | ExchangeGlobalOp
) -> tuple[tuple[Array, ...], Array, Array]:
    """Where a map's elements are written, which of them are, and what is written."""
    tensor: Array = cta.values[op.tensor]
    holds = True if op.predicate is None else cta.values[op.predicate]
    given = [*(cta.values[i] for i in op.indices), holds, cta.values[op.value]]
    *places, here, value = np.broadcast_arrays(*(np.asarray(x) for x in given))
    for place, size in zip(places, tensor.shape, strict=True):
        here = here & (place >= 0) & (place < size)
    return tuple(places), here, value


def _exchanged(cta: Cta, op: ExchangeGlobalOp) -> Array:
    """What was there before each element was set or added to, one after another."""
    tensor: Array = cta.values[op.tensor]
    places, here, value = _places(cta, op)
    found = np.zeros(here.shape, tensor.dtype)
    for element in zip(*np.nonzero(here), strict=True):
        at = tuple(place[element] for place in places)
        found[element] = tensor[at]
        tensor[at] = value[element] + (found[element] if op.adds else 0)
    return found


def _fetched(cta: Cta, op: FetchAddSharedOp) -> Array:
    """What was in a shared tile before each element was added to, one after another."""
    shared, place = cta.values[op.address]
    tile_of, value = as_array(shared), as_array(cta.values[op.value])
    *places, added = np.broadcast_arrays(*place, value)
    found = np.zeros(added.shape, tile_of.dtype)
    for element in np.ndindex(added.shape):
        at = tuple(one[element] for one in places)
        found[element] = tile_of[at]
        tile_of[at] = found[element] + added[element]
    return found


def _written(cta: Cta, op: StoreGlobalOp | AtomicGlobalOp) -> None:
    """Elements at places that a map computes, one after another; none outside of the tensor."""
    tensor: Array = cta.values[op.tensor]
    places, here, value = _places(cta, op)
    at = tuple(place[here] for place in places)
    if isinstance(op, AtomicGlobalOp):
        combine_at(op.function.data, tensor, at, value[here])
    else:
        tensor[at] = value[here]


def _loaded(cta: Cta, op: LoadGlobalOp) -> Array:
    """Elements at places that a map computes, and a fill or 0 outside of the tensor."""
    tensor: Array = cta.values[op.tensor]
    places = [np.asarray(cta.values[i]) for i in op.indices]
    kind = op.result.type
    fill = 0 if op.fill is None else op.fill.value.data
    found = gather(tensor, places, range(tensor.ndim), fill, kind) if places else tensor
    if op.predicate is not None:
        found = np.where(cta.values[op.predicate], found, tensor.dtype.type(fill))
    return found


DATA: Plays = {
    LoadGlobalOp: _load,
    tile.ElementAddressOp: _address,
    LoadSharedOp: _load_shared,
    tile.ReduceOp: _reduce,
    tile.ReduceScatterOp: _reduce_scatter,
    tile.ScanOp: _scan,
    tile.AnyOp: _any,
    tile.AtomicOp: _atomic,
    tile.FragmentOp: _fragment,
    SharedTileOp: _shared,
    tile.FillOp: _fill,
    tile.CopyOp: _copy,
    tile.ContractOp: _contract,
    tile.MapOp: _map,
}
