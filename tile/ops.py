"""Ops on whole tiles: copies, contractions, reductions, atomics, and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.tile.compute import CONTRACT_UNITS, fma_lanes
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.tile.functions import affine_map
from polyc.tile.indices import Index, IndexLike, Size, leaf, ssa_index
from polyc.tile.scalars import converted, dtype, hinted, named_scalar, number
from polyc.tile.source import public, refuse, targets
from polyc.tile.specs import Element
from polyc.tile.tiles import (
    Fragment,
    RingStep,
    Scalar,
    Shared,
    Tensor,
    Tile,
    TilePlace,
    Token,
    View,
    unwrapped,
    wrapped,
)
from polyc.tile.trace import attribute, in_map, insert, kernel_trace, named, value_of

End = TilePlace | Tensor | Tile | View
"""What a copy goes between."""


class _End:
    """One end of a copy: its value, coordinates in a tensor, slot and window."""

    def __init__(self, given: object) -> None:
        self.at: list[SSAValue] = []
        self.slot: SSAValue | None = None
        self.start: tuple[tuple[int, int], ...] | None = None
        match given:
            case TilePlace():
                self.value = given.tensor.value
                self.at = [ssa_index(i) for i in given.indices]
            case Tensor():
                self.value = given.value
                self.at = [ssa_index(0)] * len(given.type.dims)
            case View():
                self.value = given.tile.value
                self.slot = None if given.slot is None else ssa_index(given.slot)
                self.start = given.start
            case Tile():
                self.value = given.value
            case _:
                refuse(
                    "NotATile",
                    f"{given!r} is neither a place in a tensor (A[i, k]) nor a tile",
                )

    @property
    def sizes(self) -> tuple[int, ...]:
        kind = self.value.type
        if self.start is not None:
            return tuple(size for _, size in self.start)
        return kind.sizes if isinstance(kind, SharedType | FragmentType) else ()


@public
def copy(
    source: End,
    target: End,
    *,
    loader: str | None = None,
    signal: RingStep | None = None,
    multicast: bool = False,
    window: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    im2col: Im2colAttr | None = None,
    tap: Sequence[IndexLike] = (),
    turned: bool = False,
    token: bool = False,
) -> Any:
    """Copy a tile: ``T.copy(A[row, k], a)``, ``T.copy(acc, C[row, col])``, ``T.copy(s, f)``.

    ``a.slot(i)`` is a tile of a ring; ``f[:, 64:128]`` is the part of the larger tile that a
    smaller one is copied to or from (or ``window=(0, 64)``).  ``loader`` is ``tma``, ``cp_async``
    or ``register``; a ``turned`` one, of ``cp_async``, goes to the tile's columns by its rows;
    ``signal=ring[i]`` completes on a ring; with ``token`` the copy gives a token
    for ``T.await_``.
    """
    kernel_trace()
    start, end = _End(source), _End(target)
    if start.at and end.at:
        refuse("NotATile", "a copy is between a tensor and a tile, or two tiles: one end is a tile")
    cut = start if start.start is not None else end
    if cut.start is not None:
        other = end if cut is start else start
        if window is not None or other.start is not None:
            refuse("NotAWindow", "a copy has one window, in the larger of its two tiles")
        if other.sizes != cut.sizes:
            refuse(
                "WrongShape",
                f"a part of {list(cut.sizes)} is not copied to or from {other.value.type}",
            )
        window = [first for first, _ in cut.start]
    if signal is not None and not isinstance(signal, RingStep):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotARing", f"a copy signals a step of a ring, ring[i], not {signal!r}")
    completes = None
    if signal is not None:
        completes = tile.CopySignal(signal.ring.value, ssa_index(signal.iteration))
    made = insert(
        tile.CopyOp(
            tile.CopyEnd(start.value, start.at, start.slot),
            tile.CopyEnd(end.value, end.at, end.slot),
            tile.CopyView(window, axes, im2col, [ssa_index(t) for t in tap], turned),
            tile.CopyTravel(loader, multicast),
            completes,
            token=token,
        )
    )
    return _token(made.token)


def _token(value: SSAValue | None) -> Token | None:
    if value is None:
        return None
    named([value], targets())
    return Token(value)


def im2col(
    kernel: Sequence[int],
    strides: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    after: Sequence[int] | None = None,
) -> Im2colAttr:
    """How a convolution's filter moves, for ``T.copy(X[n, p, q, c], a, im2col=…, tap=(r, s))``.

    ``after`` pads the image's end, where ``padding`` is that of its start alone.
    """
    return public(Im2colAttr.of)(kernel, strides, padding, dilation, after)


@public
def atomic(kind: str, fragment: Fragment, to: TilePlace) -> None:
    """Combine a fragment with a tile of a tensor, atomically: ``T.atomic("add", acc, C[i, j])``."""
    kernel_trace()
    if not isinstance(fragment, Fragment) or not isinstance(to, TilePlace):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotATile", "an atomic combines a fragment with a place in a tensor, C[i, j]")
    at = [ssa_index(i) for i in to.indices]
    insert(tile.AtomicOp(kind, fragment.value, to.tensor.value, at))


@public
def atomic_add(to: TilePlace, fragment: Fragment) -> None:
    """``T.atomic("add", fragment, to)``."""
    atomic("add", fragment, to)


@public
def fill(fragment: Fragment, value: float | Scalar) -> None:
    """Set every element of a fragment."""
    kernel_trace()
    if not isinstance(fragment, Fragment):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotATile", f"T.fill sets a fragment, not {fragment!r}")
    kind = fragment.dtype
    given = converted(value.value, kind) if isinstance(value, Scalar) else number(value, kind)
    insert(tile.FillOp(given, fragment.value))


@public
def clear(fragment: Fragment) -> None:
    """Set every element of a fragment to 0."""
    fill(fragment, 0)


# Contractions --------------------------------------------------------------------------


@public
def gemm(
    a: Tile | View,
    b: Shared | View,
    acc: Fragment,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    mma: str | None = None,
    warp_tile: Sequence[int] | None = None,
    clear: bool = False,
    token: bool = False,
    fragment_buffers: int = 1,
    attributes: Mapping[str, object] | None = None,
) -> Any:
    """``acc += a · b``: a is ``[m, k]`` (``[k, m]`` with ``transpose_a``), b ``[k, n]``.

    With ``clear`` the product takes the place of what was there.  With 2 ``fragment_buffers`` a
    thread of ``mma.sync`` loads the next step's operands while this step's multiply.
    ``attributes`` are words to passes.

    ``a`` may be a fragment of f16 or bf16.  ``mma`` is ``fma`` where operands are f32, ``wgmma`` on
    SM90 where the tile has whole 64 rows, else ``mma.sync``; ``warp_tile``, what a warpgroup or
    warp computes, is 64 rows of the whole width for ``wgmma``, and the most square split of the
    tile among the threads' warps for ``mma.sync`` and ``fma``.
    """
    kernel_trace()
    left, right = _End(a), _End(b)
    if left.at or right.at or left.start or right.start or not isinstance(acc, Fragment):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotATile", "gemm multiplies whole tiles into a fragment; copy a part out first")
    if len(left.sizes) != 2 or len(right.sizes) != 2 or len(acc.shape) != 2:
        refuse(
            "WrongShape",
            f"gemm multiplies matrices, not {left.value.type} and {right.value.type} into "
            f"{acc.type}",
        )
    m, k = left.sizes[::-1] if transpose_a else left.sizes
    n, depth = right.sizes if transpose_b else right.sizes[::-1]
    if k != depth or acc.shape != (m, n):
        refuse(
            "WrongShape",
            f"[{m}, {k}] times [{depth}, {n}] does not add to {list(acc.shape)}"
            + ("" if transpose_a or transpose_b else "; transpose_b says that b is [n, k]"),
        )
    kind = mma if mma is not None else _mma_kind(m, n, right)
    part = list(warp_tile) if warp_tile is not None else _warp_tile(kind, m, n)
    made = insert(
        tile.ContractOp(
            tile.ContractSide(left.value, tile.LHS_KM if transpose_a else tile.LHS_MK, left.slot),
            tile.ContractSide(right.value, tile.RHS_NK if transpose_b else tile.RHS_KN, right.slot),
            acc.value,
            kind,
            part,
            token=token,
            clear=clear,
            fragment_buffers=fragment_buffers,
        )
    )
    made.attributes.update({key: attribute(value) for key, value in (attributes or {}).items()})
    return _token(made.token)


def _mma_kind(m: int, n: int, right: _End) -> str:
    if cast("SharedType", right.value.type).element_type == f32:
        return "fma"
    fits = m % 64 == 0 and n % 8 == 0 and n <= 256
    return "wgmma" if kernel_trace().arch == "sm_90a" and fits else "mma.sync"


def _warp_tile(kind: str, m: int, n: int) -> list[int]:
    if kind == "wgmma":
        return [64, n]
    warps = threads_here() // 32
    of_m, of_n, _ = CONTRACT_UNITS.get(kind, (16, 16, 16))
    best: tuple[float, list[int]] | None = None
    for rows in range(1, warps + 1):
        columns = warps // rows
        if rows * columns != warps or m % (rows * of_m) or n % (columns * of_n):
            continue
        wm, wn = m // rows, n // columns
        if kind == "fma" and not _splits(wm, wn):
            continue
        ratio = max(wm / wn, wn / wm)
        if best is None or ratio < best[0]:
            best = (ratio, [wm, wn])
    if best is None:
        parts = "32x16, 16x32, 8x64 or 4x128" if kind == "fma" else f"{of_m}x{of_n}"
        refuse(
            "WrongShape",
            f"a tile of {m}x{n} does not split among {warps} warps in parts of {parts}; say "
            "warp_tile, or take another tile or number of threads",
        )
    return best[1]


def _splits(rows: int, columns: int) -> bool:
    """Whether the lanes of a warp that multiplies by itself share out its part of a tile."""
    try:
        fma_lanes(rows, columns)
    except ValueError:
        return False
    return True


def threads_here() -> int:
    """The threads that run an op here: the CTA's, or a role's."""
    from polyc.tile.flow import Roles

    current = kernel_trace()
    assert current.kernel is not None
    for scope, inner in zip(current.scopes, current.scopes[1:], strict=False):
        if isinstance(scope.owner, Roles):
            roles = scope.owner
            if getattr(inner.owner, "word", "") == "producer":
                return 32 if roles.single_thread else 128
            return 128 if roles.independent else 128 * roles.consumers
    return current.kernel.threads


@public
def await_(*tokens: Token, pending: int | None = None, ready: Sequence[Fragment] = ()) -> None:
    """Wait for the ops of these tokens, or until at most ``pending`` contracts are unfinished.

    ``ready`` are accumulators that may be touched from there on.
    """
    kernel_trace()
    for one in tokens:
        if not isinstance(one, Token):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse(
                "NotAToken",
                f"{one!r} is no token; T.copy and T.gemm give one when they are told token=True",
            )
    insert(tile.AwaitOp(pending, [t.value for t in tokens], [f.value for f in ready]))


# Reductions ----------------------------------------------------------------------------


@public
def reduce(
    kind: str,
    source: Fragment,
    into: Fragment,
    *,
    axis: int | None = None,
    by: Callable[..., Any] | None = None,
    accumulate: bool = False,
    cluster: bool = False,
) -> None:
    """``into[by(i)] = kind over source[i]``, ``kind`` being ``sum``, ``max`` or ``min``.

    ``axis`` is the one that is reduced (the last one where nothing is said); ``by`` gives any other
    target: ``by=lambda i, j: (i, j // 2 % 4)``.  ``accumulate`` takes the old value along,
    ``cluster`` the elements of all CTAs of the cluster.
    """
    kernel_trace()
    for one in (source, into):
        if not isinstance(one, Fragment):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse("NotATile", f"T.reduce takes a fragment to a fragment, not {one!r}")
    rank = len(source.shape)
    if by is None:
        reduced = rank - 1 if axis is None else axis
        if not -rank <= reduced < rank:
            refuse("WrongRank", f"{source.type} has no axis {reduced}")
        reduced %= rank
        kept = [AffineExpr.dimension(i) for i in range(rank) if i != reduced]
        if len(into.shape) == rank and into.shape[reduced] == 1:
            kept.insert(reduced, AffineExpr.constant(0))
        by_map = AffineMap(rank, 0, tuple(kept))
    elif axis is not None:
        refuse("WrongRank", "a reduction is along an axis or by a function: give one of both")
    else:
        by_map = affine_map(rank, by)
    insert(tile.ReduceOp(kind, source.value, by_map, into.value, accumulate, cluster))


@public
def reduce_scatter(
    kind: str, source: Fragment, into: Fragment, *, rows: IndexLike | None = None
) -> None:
    """``kind`` over what the CTAs of the cluster have of a tile; each gets a part of the columns.

    ``into`` is the part, of as many columns as it has; the CTA of rank r gets part r.  Only the
    first ``rows`` matter, where they are given.  It runs once in a kernel.
    """
    kernel_trace()
    for one in (source, into):
        if not isinstance(one, Fragment):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse("NotATile", f"T.reduce_scatter takes a fragment to a fragment, not {one!r}")
    inside = None if rows is None else ssa_index(rows)
    insert(tile.ReduceScatterOp(kind, source.value, into.value, inside))


@public
def scan(
    kind: str,
    fragment: Fragment,
    axis: int = -1,
    *,
    carry: Fragment | None = None,
    reverse: bool = False,
    exclusive: bool = False,
) -> None:
    """Each element of a line with all before it, in place; ``kind`` is as for ``reduce``.

    ``carry``, of one element a line, is what lines begin with, and then has what they end with.
    """
    kernel_trace()
    for one in (fragment, fragment if carry is None else carry):
        if not isinstance(one, Fragment):  # pyright: ignore[reportUnnecessaryIsInstance]
            refuse("NotATile", f"T.scan takes a fragment and its carry, not {one!r}")
    rank = len(fragment.shape)
    if not -rank <= axis < rank:
        refuse("WrongRank", f"{fragment.type} has no axis {axis}")
    begun = None if carry is None else carry.value
    made = tile.ScanOp(
        kind, fragment.value, axis % rank, begun, reverse=reverse, exclusive=exclusive
    )
    insert(made)


@public
def reduce_sum(source: Fragment, into: Fragment, axis: int = -1, clear: bool = True) -> None:
    """The sum along an axis; ``clear=False`` adds to what is there."""
    reduce("sum", source, into, axis=axis, accumulate=not clear)


@public
def reduce_max(source: Fragment, into: Fragment, axis: int = -1, clear: bool = True) -> None:
    """The largest element along an axis; ``clear=False`` takes what is there along."""
    reduce("max", source, into, axis=axis, accumulate=not clear)


@public
def reduce_min(source: Fragment, into: Fragment, axis: int = -1, clear: bool = True) -> None:
    """The smallest element along an axis; ``clear=False`` takes what is there along."""
    reduce("min", source, into, axis=axis, accumulate=not clear)


@public
def any(fragment: Fragment) -> Scalar:
    """Whether any element of a fragment of conditions holds; all threads have the answer.

    ``with T.when(T.any(wrong)):`` is a branch that they take together.
    """
    kernel_trace()
    if not isinstance(fragment, Fragment):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotATile", f"T.any takes a fragment of conditions, not {fragment!r}")
    return named_scalar(value_of(tile.AnyOp(fragment.value)))


# Who and where -------------------------------------------------------------------------


@public
def tile_coordinates(
    *sizes: IndexLike,
    tile: Sequence[int],
    raster: str = "grouped",
    group: int = 8,
    cluster: bool = False,
) -> tuple[Index, ...]:
    """The first coordinates of this CTA's output tile, where each CTA (or ``cluster``) has one.

    ``sizes`` are the output's: rows and columns, and before them the axes that go outermost.
    """
    made = _coordinates([ssa_index(size) for size in sizes], tile, raster, group, cluster)
    named(made.results, targets())
    return tuple(leaf(value) for value in made.coordinates)


def _coordinates(
    sizes: Sequence[SSAValue], tiles: Sequence[int], raster: str, group: int, cluster: bool
) -> tile.TileCoordinatesOp:
    return insert(tile.TileCoordinatesOp(sizes, tiles, raster, group, cluster))


@public
def block_id() -> Index:
    """The number of the CTA in the grid."""
    kernel_trace()
    return leaf(value_of(hw.BlockIdOp(), hinted()))


@public
def grid_size() -> Index:
    """How many CTAs the grid has."""
    kernel_trace()
    return leaf(value_of(hw.GridSizeOp(), hinted()))


@public
def cp_async_commit() -> None:
    """Close the group of this thread's cp.async copies since the last one."""
    insert(hw.CpAsyncCommitOp())


@public
def cp_async_wait(pending: int) -> None:
    """Wait until at most the ``pending`` newest groups of cp.async copies are unfinished."""
    insert(hw.CpAsyncWaitOp(pending))


@public
def cluster_rank() -> Index:
    """The number of the CTA in its cluster."""
    kernel_trace()
    return leaf(value_of(hw.ClusterRankOp(), hinted()))


@public
def thread_id() -> Index:
    """The number of the thread in its CTA."""
    kernel_trace()
    return leaf(value_of(hw.ThreadIdOp(), hinted()))


@public
def tile_index(axis: int) -> Index:
    """In ``T.parallel``, the element's coordinate in the tile, as an op with a name of its own."""
    kernel_trace()
    if not in_map():
        refuse("NotScalar", "a tile has coordinates in the body of T.parallel only")
    return leaf(value_of(tile.TileIndexOp(axis), hinted()))


@public
def read(place: TilePlace) -> Scalar:
    """One element of a tensor, which all threads read: ``T.read(used[row, i])``.

    A condition may ask it, and ``T.cast(x, T.index)`` makes a coordinate of it; outside of the
    tensor it is 0.  In ``T.parallel`` an element is ``A[i, j]``.
    """
    kernel_trace()
    if in_map() or not isinstance(place, TilePlace):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotScalar", "T.read takes a place of a tensor, used[row, i], outside of T.parallel")
    at = [ssa_index(i) for i in place.indices]
    return named_scalar(value_of(hw.LoadGlobalOp(place.tensor.value, at, place.tensor.dtype)))


@public
def barrier() -> None:
    """All threads of the CTA meet."""
    insert(hw.BarrierOp())


@public
def grid_signal(counter: TilePlace) -> None:
    """Add 1 to a counter, ``T.grid_signal(arrived[row])``, after all that was done before."""
    kernel_trace()
    insert(tile.GridSignalOp(*_counter(counter)))


@public
def grid_wait(counter: TilePlace, until: IndexLike) -> None:
    """Wait until a counter is ``until`` or more, and see what was done before its signals."""
    kernel_trace()
    insert(tile.GridWaitOp(*_counter(counter), ssa_index(until)))


def _counter(place: TilePlace) -> tuple[SSAValue, list[SSAValue]]:
    if not isinstance(place, TilePlace):  # pyright: ignore[reportUnnecessaryIsInstance]
        refuse("NotACounter", "CTAs signal and wait at a place of a tensor, arrived[row]")
    return place.tensor.value, [ssa_index(i) for i in place.indices]


@public
def cluster_barrier() -> None:
    """All threads of the cluster meet."""
    insert(hw.ClusterBarrierOp())


@public
def op(kind: type[Operation], *arguments: object, **named_arguments: object) -> Any:
    """Any op of a dialect: its class, with values of the kernel among its arguments.

    Gives the op's one result, a tuple of several, or None.
    """
    kernel_trace()

    def plain(given: object) -> object:
        if isinstance(given, list | tuple):
            return [plain(one) for one in cast("Sequence[object]", given)]
        if isinstance(given, Index | Size | Scalar | Tile | Tensor | Token):
            return unwrapped(given)
        return dtype(given) if isinstance(given, Element) else given

    made = insert(
        cast(Any, kind)(*map(plain, arguments), **{k: plain(v) for k, v in named_arguments.items()})
    )
    named(made.results, targets())
    results = tuple(wrapped(v) for v in made.results)
    return None if not results else results[0] if len(results) == 1 else results
