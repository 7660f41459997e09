"""What a kernel of tensor cores does: a product of matrices, a convolution, or attention."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import ceil, gcd, prod

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from polyc.affine.expressions import Floor, alike, linear_of
from polyc.cost.exact import slower
from polyc.cost.products import LEAST_WORD, PRODUCING, Tiles, words_in_flight
from polyc.cost.values import MOVES, Values, operations, read_labels, size_in_bytes
from polyc.cost.work import COPY, LOAD, STORE, TAKE, Work, copy_bytes, k_major_bytes, tensor_bytes
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.k_major import SEGMENTS, STEPS
from polyc.dialects.plan.resources import SUM_BYTES
from polyc.dialects.region import (
    CastOp,
    ConstantOp,
    GatherOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    SelectOp,
)
from polyc.dialects.region.types import val_type
from polyc.poly.pieces import concat_of

VECTOR_BYTES = 16
"""Of the widest access of a thread."""

APART = 4
"""How much more loads take whose lanes are a vector apart: a warp touches four lines."""


HELD = 6.0
"""Instructions by which a thread takes an element of a tile's rows to registers, where they are
taken as one: an element at a time, before products begin."""

HELD_STORE = 40.0
"""Those by which an element of a sum whose rows are taken as one gets to memory, beside ``STORE``:
neighbours of it lie in other threads."""

AWAITED = 0.7
"""Latencies of memory in which the pixels come that a producer's threads load at once, beside what
else goes on: 8 products of 14 by 14 pixels take 0.8 to 1.2 of what is expected so (an H100)."""

LATE_STORE = 2.2e-6
"""What an element of an output takes whose operand cp.async brings row by row, in latencies of
memory on the whole chip: threads store a few neighbours each.  12 products of 14 by 14 pixels take
half a microsecond more for each megabyte of it than is expected else (an H100)."""

_BESIDE = (StringAttr("warpgroup"), StringAttr("warp.y"))
"""What the rows of a tile are parted among, as a schedule binds them."""


@dataclass(frozen=True)
class Brought:
    """Bytes that a factor's tensor has, if it is of keys, and that tiles bring of it from L2."""

    size: float
    moved: float


def contracted_work(values: Values, plan: ScheduleOp, there: int) -> Work:
    """A product, a convolution or attention: whole tiles on tensor cores, the rest by threads."""
    _, columns, _ = plan.tile_sizes
    attention = plan.pattern == "attention"
    tile = _tile(values, plan)
    parts = plan.integer("split_k")
    blocks = _blocks(values, tile) * parts
    work = Work(blocks, plan.threads(), there, overlapped=attention)
    named = plan.tensorize.data.split(", ")
    free: set[Operation] = set()
    brought: dict[SSAValue, Brought] = {}
    visible = 1.0
    keys: Collection[str] = ()
    for reduce in values.contractions():
        if not attention and reduce.label not in named:
            continue
        free |= _operand_ops(values, reduce, masked=attention)
        if not attention:
            computed, beside, waits = _computed_operands(values, reduce, tile)
            free |= computed
            work.beside += beside
            if waits:
                depth = plan.tile_sizes[2] * parts
                work.steps += -(-prod(values.extents[a] for a in reduce.labels) // depth)
        padded = _padding(values, reduce, {**tile, **_heads(values, plan, reduce)})
        padded *= _uneven(values, reduce, plan) * _channels(values, reduce, plan)
        if plan.stores_sums:
            # Of attention the scores stay where they are, and what follows them is summed.
            if not attention or reduce.label not in named:
                work.summed += parts * values.points(values.own(reduce.result)) * SUM_BYTES
        elif parts > 1:
            work.exchanged += parts * values.points(values.own(reduce.result)) * SUM_BYTES
        if attention and reduce.label in named:
            free |= _made_queries(values, reduce, tile, work)
            keys = values.own(reduce.result) - set(tile)
        if attention:
            visible = min(visible, values.visible(reduce, _steps(values, reduce, tile, columns)))
        work.flops += 2 * values.multiply_adds(reduce) * padded
        brought |= _operand_bytes(values, reduce, tile, attention, plan.operand_bytes)
    work.flops *= visible
    way, exact = plan.tensor_float, plan.mma.data == "fma"
    work.flops *= 1 if way is None else STEPS[way]
    if exact:
        work.flops *= slower(
            Tiles(*plan.tile_sizes[:2], plan.integer("stages"), depth=plan.tile_sizes[2]),
            plan.warp_tile_sizes,
        )
    work.cache = visible * sum(one.moved for one in brought.values())
    work.cache *= 1 if way is None else SEGMENTS[way]
    # Keys that no tile of queries sees are not read.
    if visible < 1.0:
        work.unseen = sum(max(0.0, one.size - visible * one.moved) for one in brought.values())
    work.ring = plan.loader.data != "register"
    if plan.of_few_queries:
        work.step_bytes = columns * sum(_widths(plan)) * OPERAND_BYTES
        work.ahead = plan.integer("stages") - 1
    if plan.loader.data == "padded":
        moved = [copy_bytes(values, tensor) for tensor in brought]
        if way is not None:
            (depth,) = values.contractions()[0].labels
            moved = [k_major_bytes(values, tensor, plan, depth) for tensor in brought]
        work.copied = [size for size in moved if size]
    if plan.loader.data == "flat":
        # Each tile takes all of its rows to registers, element by element.
        rows, _, _ = plan.tile_sizes
        deep = prod(values.extents[a] for a in values.contractions()[0].labels)
        work.beside += HELD * work.blocks / parts * rows * deep
        ends = (values.points(val_type(v).labels) for v in values.kernel.yield_op.values)
        work.operations += HELD_STORE * sum(ends)
    if plan.loader.data == "gather_async":
        ends = (values.points(val_type(v).labels) for v in values.kernel.yield_op.values)
        work.alone += LATE_STORE * sum(ends)
    if plan.loader.data == "gather" and plan.mma.data == "wgmma":
        (reduce,) = (r for r in values.contractions() if r.label in named)
        turns = ceil(work.blocks / (plan.target.multiprocessors * there))
        work.alone += turns * _awaited(values, plan, reduce) / parts
        if plan.pattern == "conv":
            points = prod(values.extents[a] for a in reduce.labels)
            work.beside += LOAD * work.blocks / parts * columns * points
    if plan.brings != "tma" and not exact:
        vectors = work.cache / (plan.operand_bytes * max(1, plan.widest))
        work.operations += COPY * vectors
    for op in values.reached:
        if op in free:
            continue
        own = values.own(op.results[0])
        points = values.points(own)
        if isinstance(op, ReadOp) and not own.isdisjoint(keys):
            # Each tile of queries reads it step by step, and waits for what it has read.
            apart = prod(rows if a in own else 1 for a, rows in tile.items())
            work.stalls = visible * -(-values.points(keys) // (columns * parts))
            work.stalled += apart * columns * size_in_bytes(op.result.type.element_type)
            points = visible * work.blocks * apart * values.points(keys) / parts
        if isinstance(op, ReadOp):
            # An epilogue reads an element for each of the accumulator that it stands beside.
            work.operations += LOAD * points
            work.reads += points * size_in_bytes(op.result.type.element_type)
            work.cache += points * size_in_bytes(op.result.type.element_type)
        elif isinstance(op, ReduceOp):
            work.operations += visible * values.points(values.own(op.operand))
        else:
            work.operations += operations(op) * points * (visible if attention else 1.0)
    for kind, value in zip(values.kernel.outs, values.kernel.yield_op.values, strict=True):
        points = values.points(val_type(value).labels)
        work.operations += STORE * points
        work.cache += points * size_in_bytes(kind.element_type)
    return work


def _awaited(values: Values, plan: ScheduleOp, reduce: ReduceOp) -> float:
    """How often a block's producer waits for pixels that its threads load, in latencies."""
    *taps, channels = sorted(values.extents[a] for a in reduce.labels)
    _, columns, depth = plan.tile_sizes
    pixels = 1
    if plan.pattern == "matmul":
        pixels = gcd(
            VECTOR_BYTES // OPERAND_BYTES,
            values.extents[plan.vectorize_axis.data.partition(".")[0]],
        )
    words = columns * depth / max(pixels, LEAST_WORD) / PRODUCING
    batches = -(-words // words_in_flight(pixels, 1))
    return prod(taps) * -(-channels // depth) * batches * AWAITED


def _tile(values: Values, plan: ScheduleOp) -> dict[str, int]:
    """A block's points of each axis that the grid parts.

    One that is no axis of the region stands for several: ``pixels``, or merged rows of a batch."""
    rows, columns, _ = plan.tile_sizes
    bound = plan.bind.data
    last = plan.vectorize_axis.data.partition(".")[0]
    tile: dict[str, int] = {}
    for key in bound:
        label, _, rest = key.partition(".")
        if not rest:
            tile[label] = 1
        elif plan.pattern == "attention" and f"{label}.i" in bound:
            if rest != "o":
                continue
            # Heads that share keys stand beside each other in a tile's rows.
            tile[label] = min(rows, _heads_of(values, label))
            rows = max(1, rows // tile[label])
        elif rest == "o":
            tile[label] = rows
            wide = label == last
            if plan.pattern == "conv":
                wide = bound.get(f"{label}.i.o") not in _BESIDE
            if wide and plan.pattern != "attention":
                tile[label] = columns
    return tile


def _widths(plan: ScheduleOp) -> tuple[int, int]:
    """The features of an attention's tiles, of K and of V."""
    return plan.tile_sizes[2], plan.warp_tile_sizes[1]


def _keys(values: Values) -> set[str]:
    """The axis that an attention's softmax reduces."""
    ops = values.kernel.body.block.ops
    return {label for op in ops if isinstance(op, ReduceTogetherOp) for label in op.labels}


def _heads_of(values: Values, axis: str) -> int:
    """Neighbours on an axis of the batch that read the same keys and values of an attention."""
    keys, found = _keys(values), 0
    products = values.contractions()
    made = (values.own(reduce.result) for reduce in products)
    scores = next((own for own in made if not keys.isdisjoint(own)), frozenset[str]())
    for reduce in products:
        for op in values.behind(values.factors(reduce) or ()):
            labels = op.result.type.labels if isinstance(op, ReadOp) else ()
            if not isinstance(op, ReadOp) or axis not in labels or scores.issuperset(labels):
                continue  # What has no features is a mask or a bias.
            if not keys.isdisjoint(read_labels(op)):
                found = gcd(found, alike(op.map.data.results, labels.index(axis)))
    return found or values.extents[axis]


def _heads(values: Values, plan: ScheduleOp, reduce: ReduceOp) -> dict[str, int]:
    """The features of the tiles of an attention, by the axis of those that a product has."""
    if plan.pattern != "attention":
        return {}
    if reduce.label == plan.tensorize.data:
        return dict.fromkeys(reduce.labels, plan.tile_sizes[2])
    return {plan.vectorize_axis.data: plan.warp_tile_sizes[1]}


def _extent(values: Values, label: str, tile: Mapping[str, int]) -> int:
    """How many points an axis has; the pixels are all axes of the output that no other tile has."""
    if label in values.extents:
        return values.extents[label]
    return prod(n for a, n in values.extents.items() if _is_pixel(values, a, tile))


def _is_pixel(values: Values, label: str, tile: Mapping[str, int]) -> bool:
    return label not in tile and any(a.label == label for a in values.kernel.iters)


def _blocks(values: Values, tile: Mapping[str, int]) -> float:
    """The tiles of a kernel."""
    return float(prod(-(-_extent(values, a, tile) // step) for a, step in tile.items()))


def _padding(values: Values, reduce: ReduceOp, tile: Mapping[str, int]) -> float:
    """By how much whole tiles are more than the points that a product has."""
    labels = val_type(reduce.operand).labels
    more = 1.0
    for label, step in tile.items():
        if label in labels or label not in values.extents:
            size = _extent(values, label, tile)
            more *= -(-size // step) * step / max(1, size)
    return more


def _channels(values: Values, reduce: ReduceOp, plan: ScheduleOp) -> float:
    """By how much whole steps over the channels of each tap are more than these."""
    if plan.pattern != "conv":
        return 1.0
    size, step = values.extents[plan.vectorize_axis.data.partition(".")[0]], plan.tile_sizes[2]
    return -(-size // step) * step / max(1, size)


def _uneven(values: Values, reduce: ReduceOp, plan: ScheduleOp) -> float:
    """By how much the steps of the longest of a split's parts are more than their share."""
    parts, depth = plan.integer("split_k"), plan.tile_sizes[2]
    if parts == 1:
        return 1.0
    along: Collection[str] = reduce.labels
    if plan.pattern == "attention":
        along, depth = _keys(values), plan.tile_sizes[1]
    steps = -(-prod(values.extents[label] for label in along) // depth)
    return -(-steps // parts) * parts / max(1, steps)


def _steps(values: Values, reduce: ReduceOp, tile: Mapping[str, int], keys: int) -> dict[str, int]:
    """The tiles of the scores: queries of a block, and keys of a step."""
    return {**dict.fromkeys(val_type(reduce.result).labels, keys), **tile}


def _operand_ops(values: Values, reduce: ReduceOp, masked: bool = False) -> set[Operation]:
    """The product, and the moves and casts by which its factors come from memory.

    With ``masked`` what is 0 under a condition is a factor without it: attention multiplies the
    values of keys that a mask forbids by weights of 0.
    """
    free: set[Operation] = {reduce}
    factors, symbols = values.factors(reduce), values.kernel.symbol_names
    assert factors is not None
    value = values.real(reduce.operand)
    while isinstance(value.owner, Operation) and value not in factors:
        free.add(value.owner)
        if not isinstance(value.owner, MOVES):
            break
        value = values.real(value.owner.operand)
    for factor in factors:
        here: SSAValue = values.real(factor)
        while isinstance(op := here.owner, (CastOp, ReadOp, SelectOp, GatherOp, *MOVES)):
            if isinstance(op, ReadOp):
                free.add(op)
                break
            if isinstance(op, GatherOp):
                if not masked:
                    break
                # A step asks once for the places of its keys.
                free.update((op, *values.behind(op.indices)))
                here = values.real(op.operand)
                continue
            if isinstance(op, SelectOp):
                if not masked or not _is_zero(values, op.if_false):
                    break
                free.add(op)
                here = values.real(op.if_true)
                continue
            below = values.real(op.operand)
            narrows = isinstance(op, CastOp) and size_in_bytes(op.result.type.element_type) == 2
            if narrows and concat_of(below, symbols) is None:
                break
            free.add(op)
            here = below
        if concat_of(here, symbols) is not None:
            free.update(values.behind([here]))
    return free


def _computed_operands(
    values: Values, reduce: ReduceOp, tile: Mapping[str, int]
) -> tuple[set[Operation], float, bool]:
    """The ops that compute factors of a product, and the instructions of all blocks for them.

    Each tile of the other factor's axis computes them again.  And whether each step over the summed
    axes waits for loads of threads, which no ring brings.
    """
    factors = values.factors(reduce)
    assert factors is not None
    plain = _operand_ops(values, reduce)
    found: set[Operation] = set()
    count, waits = 0.0, False
    for factor in factors:
        behind = list(values.behind([factor]))
        if all(op in plain or isinstance(op, MOVES) for op in behind):
            continue
        own = values.own(factor)
        again = prod(-(-_extent(values, a, tile) // n) for a, n in tile.items() if a not in own)
        whole = next(op for op in behind if isinstance(op, ReadOp) and _lies_along(values, op, own))
        for op in behind:
            points = values.points(values.own(op.results[0]))
            each = TAKE if op is whole else operations(op)
            if isinstance(op, ReadOp) and op is not whole:
                # What each row has one of is read once a tile.
                again_in_steps = not values.own(op.result).isdisjoint(reduce.labels)
                points = values.points(own) if again_in_steps else points
                each, waits = LOAD, waits or again_in_steps
            count += again * points * each
        found.update(behind)
    return found, count, waits


def _made_queries(
    values: Values, reduce: ReduceOp, tile: Mapping[str, int], work: Work
) -> set[Operation]:
    """The ops by which a kernel of attention makes its queries; what they take goes to ``work``.

    Each tile of queries makes them once.  A tensor comes from L2 once a tile, however often it is
    read there.
    """
    factors = values.factors(reduce)
    assert factors is not None
    plain = _operand_ops(values, reduce, masked=True)
    found: set[Operation] = set()
    read: dict[SSAValue, float] = {}
    for factor in factors:
        behind = list(values.behind([factor], into=True))
        if all(op in plain or isinstance(op, MOVES) for op in behind):
            continue
        found.update(behind)
        for op in behind:
            taken = op.operand if isinstance(op, ReduceOp) else op.results[0]
            here = values.own(taken)
            points = work.blocks * prod(tile.get(a, values.extents[a]) for a in here)
            if isinstance(op, ReadOp):
                vector = _vector(op)
                work.made += LOAD * points * (APART if vector == 1 else 1 / vector)
                size = size_in_bytes(op.result.type.element_type)
                read[op.tensor] = max(read.get(op.tensor, 0.0), points * size)
            else:
                work.made += operations(op) * points
    work.made_of += sum(read.values())
    return found


def _vector(read: ReadOp) -> int:
    """Elements of a row that a thread reads at once: those of 16 bytes, where these lie so."""
    if not read.map.data.results:
        return 1
    last = linear_of(read.map.data.results[-1])
    vector = VECTOR_BYTES // size_in_bytes(read.result.type.element_type)
    plain = [atom for atom, step in last.terms if step == 1 and not isinstance(atom, Floor)]
    others = [step for atom, step in last.terms if atom not in plain[-1:]]
    return vector if plain and not any(n % vector for n in (last.constant, *others)) else 1


def _lies_along(values: Values, read: ReadOp, axes: Collection[str]) -> bool:
    """Whether a read has all of some axes."""
    return set(axes) <= values.own(read.result)


def _operand_bytes(
    values: Values, reduce: ReduceOp, tile: Mapping[str, int], attention: bool, size: int
) -> dict[SSAValue, Brought]:
    """What the tiles of all blocks bring of a product's factors from L2, by their tensors; an
    element is ``size`` bytes.

    Products that share an operand share its tiles.
    """
    factors = values.factors(reduce)
    assert factors is not None
    found: dict[SSAValue, Brought] = {}
    for factor in (_allowed(values, f) for f in factors) if attention else factors:
        own = values.own(factor)
        if attention and any(isinstance(o, ReduceOp) for o in values.behind([factor])):
            continue  # The weights stay in registers.
        pixels = any(_is_pixel(values, a, tile) for a in own)
        behind = [*values.behind([factor])]
        places = [v for op in behind if isinstance(op, GatherOp) for v in op.indices]
        asked = set(values.behind(places))
        reads = [op for op in behind if isinstance(op, ReadOp) and op not in asked]
        reads.sort(key=lambda read: not _lies_along(values, read, own))
        again = 1.0
        for label, step in tile.items():
            if any(_is_grouped(read, label) for read in reads):
                own -= {label}
            if label not in own and (label in values.extents or not pixels):
                again *= -(-_extent(values, label, tile) // step)
        tensor = reads[0].tensor if reads else factor
        moved = again * values.points(own) * size
        keyed = attention and not own.isdisjoint(_keys(values))
        found[tensor] = Brought(tensor_bytes(values, tensor) if keyed else 0.0, moved)
    return found


def _allowed(values: Values, factor: SSAValue) -> SSAValue:
    """A factor of attention where no mask that is data makes it 0."""
    here = values.real(factor)
    while isinstance(op := here.owner, (CastOp, SelectOp, *MOVES)):
        if isinstance(op, SelectOp):
            if not _is_zero(values, op.if_false):
                break
            factor = values.real(op.if_true)
            here = factor
        else:
            here = values.real(op.operand)
    return factor


def _is_zero(values: Values, value: SSAValue) -> bool:
    value = values.real(value)
    while isinstance(value.owner, MOVES):
        value = values.real(value.owner.operand)
    return isinstance(value.owner, ConstantOp) and value.owner.number == 0


def _is_grouped(read: ReadOp, label: str) -> bool:
    """Whether points of an axis read the same in groups, which tiles lie inside of."""
    labels = read.result.type.labels
    if label not in labels:
        return False
    axis = ("d", labels.index(label))
    atoms = [atom for e in read.map.data.results for atom, _ in linear_of(e).terms]
    inside = any(isinstance(a, Floor) and axis in dict(a.num.terms) for a in atoms)
    return inside and axis not in atoms


def few_products(filters: int, depth: int, in_groups: bool = False) -> bool:
    """Whether filters of so many products a pixel are no more than columns of the least tile, and
    threads are done with them while a copy of the windows, as tiles need it, would be written.

    ``in_groups`` there is such a copy for each group's filters.
    """
    most = FEW_IN_GROUPS if in_groups else FEW_PRODUCTS
    return filters <= FEW_FILTERS and filters * depth <= most


FEW_FILTERS, FEW_PRODUCTS, FEW_IN_GROUPS = 8, 512, 1024
"""Columns of the least tile, and products of a pixel that threads are soon done with, also in one
of several groups."""
