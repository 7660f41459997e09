"""What an op does to shared tiles: which it reads and writes, how, and which thread what.

``gpu-insert-barriers`` asks this of a kernel whose copies have loaders and whose fragments have
layouts, before its tile ops are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any, Literal

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSymExpr

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
)
from polyc.passes.support.gpu.free_layouts import layout_of
from polyc.passes.support.gpu.scope import WARPGROUP, Scope, scope_of
from polyc.passes.support.gpu.spread import Point, Spread, function_of
from polyc.passes.support.gpu.tile_copies import CHUNK_BYTES, widest
from polyc.passes.support.gpu.tile_stores import WARP, LowerStmatrix, Writers

How = Literal["threads", "atomic", "cp_async", "tma", "wgmma", "bulk"]
"""Who touches the bytes.  Of threads, an access is done when the next op begins; the others are
asynchronous: cp.async, TMA loads, wgmma, TMA stores."""


def unknown() -> None:
    """Nothing is known of who touches what."""


NOBODY = -1
"""Stands for the thread that touches an element where none does."""


@dataclass(frozen=True, eq=False)
class Holders:
    """The threads of a scope that touch each element of a tile, row after row: the first one and
    the last one, or ``NOBODY`` twice."""

    first: Sequence[int]
    last: Sequence[int]

    @staticmethod
    def of(touched: Sequence[Sequence[int]], count: int, first: bool = False) -> Holders:
        """From the elements that each thread touches, of ``count``.

        With ``first``, of several threads only the first one touches an element.
        """
        low, high = [NOBODY] * count, [NOBODY] * count
        for thread in reversed(range(len(touched))):
            for element in touched[thread]:
                low[element] = thread
        if first:
            return Holders(low, low)
        for thread, elements in enumerate(touched):
            for element in elements:
                high[element] = thread
        return Holders(low, high)

    @lru_cache(maxsize=4096)  # noqa: B019  Holders are few, and are kept anyway.
    def apart(self, other: Holders, group: int = 1) -> bool:
        """Whether some element is touched by threads of two groups of ``group`` neighbours."""
        ours, others = (self.first, self.last), (other.first, other.last)
        for one, last, two, end in zip(*ours, *others, strict=True):
            low, high = min(one, two), max(last, end)
            if low != high and low != NOBODY and low // group != high // group:
                return True
        return False


@dataclass(frozen=True, eq=False)
class Access:
    """One op's reading or writing of one tile.

    ``slot`` is the ring's; None is slot 0.  ``holders`` gives who touches what, where that is
    known; ``together`` threads act as one, as the lanes of a warp do in ``stmatrix``.  ``place`` is
    the row and column of one thread's access, of ``width`` elements.  ``by_hand``: the op works on
    an address.  ``remote``: in another CTA's shared memory.  ``signal`` is the mbarrier or the ring
    that a load's bytes complete on.
    """

    op: Operation
    tile: SSAValue
    writes: bool
    how: How
    scope: Scope
    slot: SSAValue | None = None
    holders: Callable[[], Holders | None] = unknown
    together: int = 1
    place: tuple[SSAValue, SSAValue] | None = None
    width: int = 1
    by_hand: bool = False
    remote: bool = False
    signal: SSAValue | None = None

    @property
    def is_async_proxy(self) -> bool:
        """Whether the bytes are touched through the async proxy (PTX ISA, proxies)."""
        return self.how in ("tma", "wgmma", "bulk")


def accesses(op: Operation) -> Iterator[Access]:
    """The accesses of an op itself, not of those in its regions."""
    made = _ACCESSES.get(type(op))
    return iter(()) if made is None else made(op)


def _map(op: tile.MapOp) -> Iterator[Access]:
    scope = scope_of(op)
    for source, access in zip(op.inputs, op.input_maps, strict=True):
        if isinstance(source.type, SharedType):
            held = partial(_mapped, op, access, source.type)
            yield Access(op, source, False, "threads", scope, holders=held)


def _operands(op: tile.ContractOp | tile.LoadOperandsOp) -> Iterator[Access]:
    wgmma = isinstance(op, tile.ContractOp) and op.mma.data == "wgmma"
    for operand, slot in ((op.lhs, op.lhs_slot), (op.rhs, op.rhs_slot)):
        if isinstance(operand.type, SharedType):
            how = "wgmma" if wgmma else "threads"
            yield Access(op, operand, False, how, scope_of(op), slot)


def _copy(op: tile.CopyOp) -> Iterator[Access]:
    source, target = op.source.type, op.target.type
    scope = scope_of(op)
    if op.is_load:
        assert isinstance(source, GlobalType) and isinstance(target, SharedType)
        loader = "register" if op.loader is None else op.loader.data
        if loader == "tma":
            yield Access(op, op.target, True, "tma", scope, op.slot, signal=op.signal)
            return
        if op.planes is not None:
            yield Access(op, op.target, True, "threads", scope, op.slot, signal=op.signal)
            return
        size = element_bytes(source.element_type)
        width = widest(source) if loader == "cp_async" else CHUNK_BYTES // size
        held = unknown
        if op.im2col is None:
            held = partial(chunks, target.sizes, width, scope.threads)
            if op.turned is not None:
                held = partial(turned, target.sizes, scope.threads)
        how = "cp_async" if loader == "cp_async" else "threads"
        yield Access(op, op.target, True, how, scope, op.slot, held)
    elif op.is_store:
        assert isinstance(source, SharedType) and isinstance(target, GlobalType)
        if op.loader is not None and op.loader.data == "tma":
            held = partial(leaders, source.sizes, Writers.planned(op).groups)
            yield Access(op, op.source, False, "bulk", scope, op.source_slot, held)
        else:
            held = partial(chunks, source.sizes, widest(target), scope.threads)
            yield Access(op, op.source, False, "threads", scope, op.source_slot, held)
    elif isinstance(target, SharedType):
        held = partial(_moved, op, op.source, target, True)
        warp = 1 if LowerStmatrix.blocks(op) is None else WARP
        yield Access(op, op.target, True, "threads", scope, op.slot, held, warp)
    elif isinstance(source, SharedType):
        held = partial(_moved, op, op.target, source, False)
        yield Access(op, op.source, False, "threads", scope, op.source_slot, held)


# Who holds what ---------------------------------------------------------------------------


@lru_cache(maxsize=256)
def chunks(sizes: tuple[int, ...], width: int, threads: int) -> Holders:
    """Neighbouring threads have neighbouring chunks of ``width`` elements, row after row."""
    held = [e // width % threads for e in range(prod(sizes))]
    return Holders(held, held)


@lru_cache(maxsize=256)
def turned(sizes: tuple[int, ...], threads: int) -> Holders:
    """Neighbouring threads have neighbouring elements of a column."""
    rows, columns = sizes
    held = [(e % columns * rows + e // columns) % threads for e in range(rows * columns)]
    return Holders(held, held)


@lru_cache(maxsize=256)
def leaders(sizes: tuple[int, ...], groups: int) -> Holders:
    """The first thread of each of ``groups`` warpgroups has the rows of its own."""
    share = prod(sizes) // groups
    held = [e // share * WARPGROUP for e in range(prod(sizes))]
    return Holders(held, held)


def _moved(op: tile.CopyOp, fragment: SSAValue, shared: SharedType, first: bool) -> Holders | None:
    """Who moves what between a fragment and a tile; with ``first``, only the first who has it."""
    layout, kind = layout_of(fragment), fragment.type
    if layout is None:
        return None
    assert isinstance(kind, FragmentType)
    if op.line is not None:
        return None
    window = (0,) * len(shared.sizes) if op.window is None else op.window.data
    sizes = shared.sizes[::-1] if op.transposes else shared.sizes
    part = kind.sizes != sizes and all(n >= m for n, m in zip(kind.sizes, sizes, strict=True))
    # The tile's coordinates are the fragment's less the window's start, or plus it.
    shift = tuple(-w for w in window) if part else window
    return _placed(layout, shift, sizes, first, op.transposes)


@lru_cache(maxsize=256)
def _placed(
    layout: FragmentLayoutAttr,
    shift: tuple[int, ...],
    sizes: tuple[int, ...],
    first: bool,
    turned: bool = False,
) -> Holders | None:
    """Who has which element of a tile of such sizes, or of one that has its rows as columns."""
    try:
        spread = Spread.of(layout)
    except ValueError:
        return None
    starts = [_plus(start, shift) for start in spread.threads]
    moves = spread.registers

    def number(place: Point) -> int:
        return _element(place[::-1], sizes[::-1]) if turned else _element(place, sizes)

    steps = [number(move) for move in moves]
    axes = list(zip(*moves, strict=True))
    low, high = [tuple(map(end, axes)) for end in (min, max)]

    def touched(start: Point) -> list[int]:
        """The elements of a thread, whose registers mostly are all in the tile or all outside."""
        at = number(start)
        if _is_inside(_plus(start, low), sizes) and _is_inside(_plus(start, high), sizes):
            return [at + step for step in steps]
        if any(s + b < 0 or s + a >= n for s, a, b, n in zip(start, low, high, sizes, strict=True)):
            return []
        inside: Iterable[int] = range(len(moves))
        for s, along, n in zip(start, axes, sizes, strict=True):
            inside = [i for i in inside if 0 <= s + along[i] < n]
        return [at + steps[i] for i in inside]

    return Holders.of([touched(start) for start in starts], prod(sizes), first)


def _mapped(op: tile.MapOp, access: AffineMap, shared: SharedType) -> Holders | None:
    """Who reads what of a tile that a map reads; None where that depends on its origin."""
    layout = layout_of(op.space)
    if layout is None or any(names_symbols(e) for e in access.results):
        return None
    return _read(layout, AffineMap(access.num_dims, 0, access.results), shared.sizes)


@lru_cache(maxsize=256)
def _read(layout: FragmentLayoutAttr, access: AffineMap, sizes: tuple[int, ...]) -> Holders | None:
    try:
        spread = Spread.of(layout)
    except ValueError:
        return None
    place = function_of(access)
    read = [[place(_plus(start, move)) for move in spread.registers] for start in spread.threads]
    touched = [[_element(p, sizes) for p in places if _is_inside(p, sizes)] for places in read]
    return Holders.of(touched, prod(sizes))


def _plus(place: Point, move: Point) -> Point:
    return tuple([a + b for a, b in zip(place, move, strict=True)])


def _is_inside(place: Point, sizes: Sequence[int]) -> bool:
    return all(0 <= p < n for p, n in zip(place, sizes, strict=True))


def _element(place: Point, sizes: Sequence[int]) -> int:
    """The number of the element at a place, row after row; a sum's is the sum of the numbers."""
    element = 0
    for p, n in zip(place, sizes, strict=True):
        element = element * n + p
    return element


def names_symbols(expr: AffineExpr) -> bool:
    """Whether an expression names a symbol."""
    return any(isinstance(e, AffineSymExpr) for e in expr.dfs())


# By hand ----------------------------------------------------------------------------------


_Addressed = tuple[str, bool, How, bool]
"""The operand that is an address, whether it is written at, how, and whether in a peer's memory."""

_ADDRESSED: dict[type[Operation], tuple[_Addressed, ...]] = {
    hw.LoadSharedOp: (("address", False, "threads", False),),
    hw.LdmatrixOp: (("address", False, "threads", False),),
    hw.StoreSharedOp: (("address", True, "threads", False),),
    hw.StmatrixOp: (("address", True, "threads", False),),
    hw.AtomicSharedOp: (("address", True, "atomic", False),),
    hw.FetchAddSharedOp: (("address", True, "atomic", False),),
    hw.CpAsyncOp: (("address", True, "cp_async", False),),
    hw.TmaLoadOp: (("address", True, "tma", False),),
    hw.TmaLoadIm2colOp: (("address", True, "tma", False),),
    hw.TmaStoreOp: (("address", False, "bulk", False),),
    hw.LoadClusterOp: (("address", False, "threads", True),),
    hw.StoreClusterOp: (("address", True, "threads", True),),
    hw.WgmmaOp: (("a", False, "wgmma", False), ("b", False, "wgmma", False)),
    hw.WgmmaRegistersOp: (("b", False, "wgmma", False),),
}


def _by_hand(op: Operation) -> Iterator[Access]:
    """The accesses of an op that works on addresses of tiles."""
    scope: Scope | None = None
    for operand, writes, how, remote in _ADDRESSED[type(op)]:
        address: SSAValue = getattr(op, operand)
        for root in roots_of(address):
            scope = scope or scope_of(op)
            place, width = None, _width(op, root)
            if width and isinstance(root, tile.ElementAddressOp) and root.result is address:
                place = (root.row, root.column)
            yield Access(
                op,
                root.tile,
                writes,
                how,
                scope,
                root.slot,
                place=place,
                width=width,
                by_hand=True,
                remote=remote or _is_remote(address),
                signal=op.barrier if isinstance(op, hw.TmaLoadOp | hw.TmaLoadIm2colOp) else None,
            )


_ACCESSES: dict[type[Operation], Callable[[Any], Iterator[Access]]] = {
    tile.CopyOp: _copy,
    tile.MapOp: _map,
    tile.ContractOp: _operands,
    tile.LoadOperandsOp: _operands,
    **dict.fromkeys(_ADDRESSED, _by_hand),
}


def roots_of(address: SSAValue) -> list[tile.ElementAddressOp | hw.SharedAddressOp]:
    """The ops that give the addresses of tiles which ``address`` is computed from."""
    found: list[tile.ElementAddressOp | hw.SharedAddressOp] = []
    seen: set[SSAValue] = set()
    work = [address]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        owner = value.owner
        if isinstance(owner, tile.ElementAddressOp | hw.SharedAddressOp):
            found.append(owner)
        elif isinstance(owner, Operation):
            work.extend(owner.operands)
            if isinstance(owner, scf.IfOp | scf.ForOp | scf.WhileOp):
                work.extend(_yielded(owner))
        elif isinstance(parent := owner.parent_op(), scf.ForOp | scf.WhileOp):
            work.extend(parent.operands)
            work.extend(_yielded(parent))
    return found


def _yielded(op: Operation) -> Iterator[SSAValue]:
    for region in op.regions:
        for block in region.blocks:
            if block.last_op is not None:
                yield from block.last_op.operands


def _is_remote(address: SSAValue) -> bool:
    return isinstance(address.owner, hw.MapSharedOp)


def _width(op: Operation, root: tile.ElementAddressOp | hw.SharedAddressOp) -> int:
    """How many elements of the tile one thread's access takes; 0 for those of a whole warp."""
    kind = root.tile.type
    assert isinstance(kind, SharedType)
    match op:
        case hw.LoadSharedOp():
            size = hw.access_bytes(op.result.type)
        case hw.StoreSharedOp() | hw.AtomicSharedOp() | hw.FetchAddSharedOp():
            size = hw.access_bytes(op.value.type)
        case hw.CpAsyncOp():
            size = op.bytes.value.data
        case _:
            return 0
    return -(-size // element_bytes(kind.element_type))
