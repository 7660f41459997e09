"""Layouts that no instruction fixes: the common and the free level of layout inference (T2).

Common level: a layout goes from fragment to fragment through maps and reductions.  Free level: what
only copies, maps and reductions touch is spread over the threads in rows of vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, prod

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    GlobalType,
    SharedType,
    element_bytes,
)
from polyc.passes.support.gpu.scope import scope_of
from polyc.passes.support.gpu.spread import Spread

ACCESS_BYTES = 16
"""The widest access of one thread."""

WARP = 32

LINE_BYTES = 128
"""A cache line: neighbouring threads should cover whole ones."""

BANK_BYTES = 4
"""Of a word of a bank of shared memory: lines of a tile that is read across are one longer."""


def row_layout(
    rows: int,
    columns: int,
    vector: int,
    size: int,
    threads: int,
    along: bool = False,
    meets: bool = False,
) -> tuple[FragmentLayoutAttr, int]:
    """Vectors of ``vector`` elements of ``size`` bytes along the rows, and registers a thread.

    ``across`` threads share a row, neighbours with neighbouring vectors; the others take the next
    rows.  Of the choices with the fewest registers it is the one with the fewest threads a row
    that still cover a cache line, or, where rows are reduced (``meets``), are a warp, so that a
    row's reduction meets few threads; with ``along``, for reductions of columns, the one with the
    most.  Threads that are left over repeat the others.
    """
    chunks = columns // vector
    best: tuple[tuple[int, int], int, int] | None = None
    for across in range(1, threads + 1):
        if chunks % across or threads % across or not _whole_lanes(across):
            continue
        down = next(
            d
            for d in range(min(rows, threads // across), 0, -1)
            if rows % d == 0 and (threads // across) % d == 0 and _whole_lanes(across * d)
        )
        registers = (chunks // across) * (rows // down) * vector
        short = across * vector * size < min(LINE_BYTES, columns * size)
        short = short and not (meets and across >= WARP)
        preference = -across if along else across + (threads if short else 0)
        if best is None or (registers, preference) < best[0]:
            best = (registers, preference), across, down
    assert best is not None  # One thread a row always fits.
    (registers, _), across, down = best
    steps = chunks // across
    t, r = AffineExpr.dimension(0), AffineExpr.dimension(1)
    zero = AffineExpr.constant(0)
    lane = t % across if across < threads else t
    column = lane * vector if across > 1 else zero
    if steps > 1:
        step = r // vector
        column = column + (step % steps if down < rows else step) * (across * vector)
    if vector > 1:
        column = column + (r % vector if vector < registers else r)
    row = zero
    if down > 1:
        row = t // across
        row = row % down if across * down < threads else row
    if down < rows:
        row = row + r // (vector * steps) * down
    layout = FragmentLayoutAttr.of(threads, registers, AffineMap(2, 0, (row, column)))
    return layout, registers


def _whole_lanes(threads: int) -> bool:
    """Whether a group of neighbouring threads is whole warps or a power of two of lanes."""
    return threads % WARP == 0 or threads & (threads - 1) == 0


def layout_of(value: SSAValue) -> FragmentLayoutAttr | None:
    """The layout of a fragment, or None while it is open (or for another value)."""
    kind = value.type
    if isinstance(kind, FragmentType) and isinstance(kind.layout, FragmentLayoutAttr):
        return kind.layout
    return None


def is_open(value: SSAValue) -> bool:
    """Whether ``value`` is a fragment without a layout."""
    return isinstance(value.type, FragmentType) and layout_of(value) is None


def same_layout(one: FragmentLayoutAttr, other: FragmentLayoutAttr) -> bool:
    """Whether two layouts place everything alike, however they are written."""
    try:
        return one == other or Spread.of(one) == Spread.of(other)
    except ValueError:
        return False


def set_fragment_layout(
    value: SSAValue, layout: FragmentLayoutAttr, op: Operation, rewriter: PatternRewriter
) -> None:
    """Set an open layout; raises PolycError ``LayoutConflict`` where another one is set."""
    kind = value.type
    assert isinstance(kind, FragmentType)
    if isinstance(kind.layout, FragmentLayoutAttr):
        if same_layout(kind.layout, layout):
            return
        raise PolycError(
            "LayoutConflict",
            f"{op.name} needs the fragment in {layout} and it is in {kind.layout}; remove the "
            "annotation or copy to another fragment",
            op,
        )
    rewriter.replace_value_with_new_type(
        value, FragmentType.of(kind.sizes, kind.element_type, layout)
    )


def image_layout(layout: FragmentLayoutAttr, by: AffineMap, op: Operation) -> FragmentLayoutAttr:
    """The layout of ``by`` of a fragment; PolycError ``LayoutConflict`` where there is none."""
    try:
        return Spread.of(layout).image(by).layout()
    except ValueError as error:
        raise PolycError(
            "LayoutConflict",
            f"{op.name} takes a fragment in {layout} by {by}, and {error}; annotate another layout",
            op,
        ) from None


class CheckLayout(RewritePattern):
    """Hold a written layout to its tile: every element has a holder, and nothing lies outside."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.FragmentOp, rewriter: PatternRewriter) -> None:
        kind = op.fragment.type
        assert isinstance(kind, FragmentType)
        layout = layout_of(op.fragment)
        if layout is None:
            return
        try:
            spread = Spread.of(layout)
        except ValueError as error:
            raise PolycError(
                "LayoutConflict",
                f"a layout is a sum of a part of the thread and a part of the register, and "
                f"{error}",
                op,
            ) from None
        if (place := spread.outside(kind.sizes)) is not None:
            raise PolycError(
                "LayoutConflict",
                f"{layout} places {list(place)}, which is outside a tile of {list(kind.sizes)}",
                op,
            )
        if (place := spread.uncovered(kind.sizes)) is not None:
            raise PolycError(
                "LayoutConflict",
                f"no thread holds element {list(place)} of {list(kind.sizes)} in {layout}",
                op,
            )


def own_place(m: AffineMap, rank: int) -> bool:
    """Whether a map gives each element of a tile its own coordinates."""
    return list(m.results) == [AffineExpr.dimension(i) for i in range(rank)]


class SpreadThroughMap(RewritePattern):
    """Fragments of one map lie alike, and what it reads through a map lies where it is read."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.MapOp, rewriter: PatternRewriter) -> None:
        assert isinstance(op.space.type, FragmentType)
        rank = len(op.space.type.sizes)
        layout = layout_of(op.space)
        if layout is None:
            read = zip(op.inputs, op.input_maps, strict=True)
            alike = [*op.outputs, *(v for v, m in read if own_place(m, rank))]
            layout = next((known for v in alike if (known := layout_of(v)) is not None), None)
            if layout is None:
                return
            set_fragment_layout(op.space, layout, op, rewriter)
        # By operand: setting one type may have set another operand that is the same value.
        for value in [v for v in op.outputs if isinstance(v.type, FragmentType)]:
            set_fragment_layout(value, layout, op, rewriter)
        for value, m in zip(op.inputs, op.input_maps, strict=True):
            if is_open(value):
                read = AffineMap(m.num_dims, 0, m.results)
                found = layout if own_place(m, rank) else image_layout(layout, read, op)
                set_fragment_layout(value, found, op, rewriter)


class SpreadThroughReduce(RewritePattern):
    """A result lies where its operands did: with every thread that holds one of them."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ReduceOp, rewriter: PatternRewriter) -> None:
        layout = layout_of(op.source)
        if layout is not None and is_open(op.target):
            set_fragment_layout(op.target, image_layout(layout, op.by.data, op), op, rewriter)


class SpreadThroughScan(RewritePattern):
    """What a line begins with lies with every thread that holds an element of it."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ScanOp, rewriter: PatternRewriter) -> None:
        layout = layout_of(op.fragment)
        if layout is None or op.carry is None or not is_open(op.carry):
            return
        rank = layout.map.data.results
        axes = [
            AffineExpr.constant(0) if i == op.axis else AffineExpr.dimension(i)
            for i in range(len(rank))
        ]
        by = AffineMap(len(rank), 0, tuple(axes))
        set_fragment_layout(op.carry, image_layout(layout, by, op), op, rewriter)


class SpreadThroughScatter(RewritePattern):
    """A part that a CTA gets lies as each of the source's parts does, with the same threads."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ReduceScatterOp, rewriter: PatternRewriter) -> None:
        layout = layout_of(op.source)
        if layout is None or not is_open(op.target):
            return
        try:
            part, _ = Spread.of(layout).parts(op.parts)
            found = part.layout()
        except ValueError as error:
            raise PolycError(
                "LayoutConflict",
                f"gpu.reduce_scatter to {op.parts} parts of {layout}: {error}; annotate another "
                "layout",
                op,
            ) from None
        set_fragment_layout(op.target, found, op, rewriter)


@dataclass(frozen=True)
class Group:
    """Fragments that lie alike, since maps run over them together."""

    fragments: tuple[SSAValue, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        kind = self.fragments[0].type
        assert isinstance(kind, FragmentType)
        return kind.sizes

    def users(self) -> Iterator[tuple[SSAValue, Operation]]:
        for value in self.fragments:
            for use in value.uses:
                yield value, use.operation

    def vector(self) -> tuple[int, int]:
        """Elements of the widest access that all copies of the group allow, and their bytes.

        The narrowest of what is copied counts; where nothing is, the group's narrowest element.
        """
        sizes: list[int] = []
        copied: list[tuple[int, int]] = []
        for value in self.fragments:
            kind = value.type
            assert isinstance(kind, FragmentType)
            sizes.append(element_bytes(kind.element_type))
            for use in value.uses:
                op = use.operation
                if not isinstance(op, tile.CopyOp | tile.AtomicOp):
                    continue
                ends = [v.type for v in op.operands if isinstance(v.type, GlobalType | SharedType)]
                for end in ends:
                    size = element_bytes(end.element_type)
                    known = end.align.data if isinstance(end, GlobalType) else ACCESS_BYTES
                    copied.append((min(ACCESS_BYTES, max(known, size)) // size, size))
        if not copied:
            return ACCESS_BYTES // min(sizes), min(sizes)
        return min(v for v, _ in copied), min(size for _, size in copied)

    def is_reduced(self) -> bool:
        """Whether elements of a fragment are brought together."""
        return any(isinstance(op, tile.ReduceOp) and op.source is v for v, op in self.users())

    def reduces_columns(self) -> bool:
        """Whether a reduction runs down the columns: its result keeps only the last axis."""
        for value, op in self.users():
            if not isinstance(op, tile.ReduceOp) or op.source is not value or len(self.sizes) < 2:
                continue
            by, zero = op.by.data, [0] * len(self.sizes)
            last = [*zero[:-1], self.sizes[-1] - 1]
            above = [*(size - 1 for size in self.sizes[:-1]), 0]
            here = by.eval(zero, [])
            if by.eval(above, []) == here != by.eval(last, []):
                return True
        return False


def open_groups(kernel: gpu.KernelOp) -> list[Group]:
    """The open fragments of a kernel, those together that lie alike; larger ones first."""
    fragments = [
        op.fragment
        for op in kernel.walk()
        if isinstance(op, tile.FragmentOp) and is_open(op.fragment)
    ]
    leader: dict[SSAValue, SSAValue] = {v: v for v in fragments}

    def find(value: SSAValue) -> SSAValue:
        while leader[value] is not value:
            value = leader[value]
        return value

    for op in kernel.walk():
        if not isinstance(op, tile.MapOp):
            continue
        assert isinstance(op.space.type, FragmentType)
        rank = len(op.space.type.sizes)
        read = [v for v, m in zip(op.inputs, op.input_maps, strict=True) if own_place(m, rank)]
        alike = [v for v in (op.space, *op.outputs, *read) if v in leader]
        for value in alike[1:]:
            leader[find(value)] = find(alike[0])
    together: dict[SSAValue, list[SSAValue]] = {}
    for value in fragments:
        together.setdefault(find(value), []).append(value)
    groups = [Group(tuple(values)) for values in together.values()]
    return sorted(groups, key=lambda g: -prod(g.sizes))


class LayOutFree(RewritePattern):
    """Give the largest open fragment of a kernel rows of vectors over the threads of its scope.

    Vectors are as wide as the copies of the fragment, and of those that lie alike, allow.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.KernelOp, rewriter: PatternRewriter) -> None:
        groups = open_groups(op)
        if not groups:
            return
        group = groups[0]
        value = group.fragments[0]
        user = next((u for _, u in group.users()), value.owner)
        assert isinstance(user, Operation)
        *leading, columns = group.sizes or (1,)
        if sum(size > 1 for size in leading) > 1:
            raise PolycError(
                "NoLayout",
                f"nothing says how a tile of {list(group.sizes)} is spread over threads; annotate "
                "its type with a #gpu.fragment_layout",
                user,
            )
        vector, size = group.vector()
        rows = prod(leading)
        layout, _ = row_layout(
            rows,
            columns,
            gcd(vector, columns),
            size,
            scope_of(user).threads,
            group.reduces_columns(),
            group.is_reduced(),
        )
        row, column = layout.map.data.results
        zero = AffineExpr.constant(0)
        axes = [row if n > 1 else zero for n in leading]
        if len(axes) == 1:
            axes = [row]
        whole = AffineMap(2, 0, (*axes, column) if group.sizes else ())
        set_fragment_layout(
            value,
            FragmentLayoutAttr.of(layout.threads.data, layout.registers.data, whole),
            user,
            rewriter,
        )


def widest_swizzle(tile_type: SharedType) -> int:
    """The widest swizzle whose panels the rows split into, in bytes; 0 when none fits."""
    row = tile_type.sizes[-1] * element_bytes(tile_type.element_type)
    return next((span for span in (128, 64, 32) if row % span == 0), 0)


def feeds_contract(value: SSAValue) -> bool:
    """Whether a fragment is the left operand of a contract, or a map computes that of it."""
    for user in (use.operation for use in value.uses):
        if isinstance(user, tile.ContractOp) and user.lhs is value:
            return True
        if isinstance(user, tile.MapOp) and value not in user.outputs:
            readers = [use.operation for out in user.outputs for use in out.uses]
            lefts = [op.lhs for op in readers if isinstance(op, tile.ContractOp)]
            if any(left in user.outputs for left in lefts):
                return True
    return False


def by_tma(op: tile.CopyOp) -> bool:
    """Whether the copy engine moves a tile."""
    return op.loader is not None and op.loader.data == "tma"


def from_registers(shared: SSAValue) -> bool:
    """Whether copies of fragments of elements of 16 or 32 bits fill a tile."""
    users = [use.operation for use in shared.uses]
    return any(
        isinstance(u, tile.CopyOp)
        and u.target is shared
        and isinstance(u.source.type, FragmentType)
        and element_bytes(u.source.type.element_type) in (2, 4)
        for u in users
    )


class LayOutShared(RewritePattern):
    """A tile that no tensor core reads, and that nothing else laid out, is row-major.

    One that the copy engine stores, or loads for fragments, that a fragment goes through to a
    tensor, or from which threads compute what tensor cores read, is swizzled as wide as its rows
    allow, so that rows of the fragment fall into different banks.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: hw.SharedTileOp, rewriter: PatternRewriter) -> None:
        kind = op.tile.type
        assert isinstance(kind, SharedType)
        users = [use.operation for use in op.tile.uses]
        if kind.swizzle_bytes is not None or not users:
            return
        if all(isinstance(u, tile.CopyOp | tile.MapOp) for u in users):
            copies = [u for u in users if isinstance(u, tile.CopyOp)]
            stored = any(u.is_store and (by_tma(u) or from_registers(op.tile)) for u in copies)
            passed = any(feeds_contract(u.target) for u in copies)
            brought = any(u.is_load and by_tma(u) for u in copies)
            span = widest_swizzle(kind) if stored or passed or brought else 0
            laid = kind.like(swizzle=span)
            rewriter.replace_value_with_new_type(op.tile, laid)
