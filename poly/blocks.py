"""The blocks of a graph: the values that are computed, with every access (S5.1, S5.2).

A value is a block unless it is a leaf, a movement, a widening cast, or a product that only its
contraction reads; what the graph gives out is always one.  A value whose access is not affine
is a boundary, with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineSet

from polyc.dialects import tiny
from polyc.dialects.index import (
    Reach,
    ValueOp,
    bounds,
    fills,
    is_movement,
    is_widening,
    start,
    steps,
)
from polyc.poly.contraction import ContractionPattern, Refusal, classify
from polyc.poly.indexbook import book_entries
from polyc.poly.names import axis_names, value_names
from polyc.poly.readings import Filled, Guard, Reading, reading
from polyc.poly.ways import entry_of, facts_of


@dataclass(frozen=True, slots=True)
class Contraction:
    """A ``reduce(sum)`` over a ``mul``, with how it reaches the product's operands.

    ``lhs`` and ``rhs`` are read over the sum's axes, then its reduced ones; they are values
    behind movements and widening casts.  ``product`` is the mul's value.
    """

    value: SSAValue
    product: SSAValue
    lhs: Reading
    rhs: Reading
    pattern: ContractionPattern | Refusal


@dataclass(frozen=True)
class Block:
    """A computed value, its entry in the book and how each operand is read.

    ``readings`` are those of the op's operands, or of the product's for a contraction.
    """

    value: SSAValue
    name: str
    entry: ValueOp
    readings: tuple[Reading, ...]
    contraction: Contraction | None

    @property
    def pattern(self) -> ContractionPattern | None:
        """The contraction pattern, where it is one."""
        found = None if self.contraction is None else self.contraction.pattern
        return found if isinstance(found, ContractionPattern) else None

    @property
    def kind(self) -> str:
        """``contraction_pattern``, ``reduce``, ``gather``, ``scatter``, ``movement`` or
        ``elementwise``.
        """
        if self.pattern is not None:
            return "contraction_pattern"
        if self.entry.reduced.data:
            return self.entry.reduced.data[0].kind.data
        return "movement" if is_movement(self.value) else "elementwise"

    @property
    def rank(self) -> int:
        return len(self.entry.axes)

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """The names of the axes, then of those reduced, or of which the place is data."""
        return axis_names(self.entry.all_axes, self.symbols, self.rank)

    @property
    def symbols(self) -> tuple[str, ...]:
        return self.entry.symbol_names

    @property
    def sources(self) -> tuple[SSAValue, ...]:
        """The values that the block reads, each once."""
        found = (r.source for one in self.readings for r in one.reads)
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Boundary:
    """A value whose access is not affine: a region ends before it."""

    value: SSAValue
    name: str
    reason: str


@dataclass(frozen=True)
class Blocks:
    """The blocks and boundaries of a graph in the order of the text."""

    graph: Operation
    names: Mapping[SSAValue, str]
    blocks: tuple[Block, ...]
    boundaries: tuple[Boundary, ...]

    def of(self, value: SSAValue) -> Block | None:
        """The block that computes ``value``."""
        return next((b for b in self.blocks if b.value is value), None)


def blocks_of(graph: Operation) -> Blocks:
    """The blocks of a tiny graph that has an index book.

    Raises PolycError ``MissingIndexBook`` and ``IslLimitExceeded``.
    """
    entries = book_entries(graph)
    names = value_names(graph)
    found = {v: c for v in entries if (c := find_contraction(v)) is not None}
    hidden = {
        c.product
        for c in found.values()
        if isinstance(c.pattern, ContractionPattern) and _only_used_in(c)
    }
    blocks: list[Block] = []
    boundaries: list[Boundary] = []
    for value, entry in entries.items():
        owner = value.owner
        if (reason := entry.why_not_affine) is not None:
            boundaries.append(Boundary(value, names[value], reason))
        elif not isinstance(owner, Operation) or not owner.operands or value in hidden:
            continue
        elif not (is_movement(value) or is_widening(value)) or _given_out(value):
            blocks.append(_block(entry, names[value], found.get(value)))
    return Blocks(graph, names, tuple(blocks), tuple(boundaries))


def find_contraction(value: SSAValue) -> Contraction | None:
    """The contraction that ends at ``value``, or None when it is no sum of products.

    The product may be behind movements; its operands behind movements and widening
    casts, and may themselves be computed (S5.2).  Raises ``IslLimitExceeded``.
    """
    reduce = value.owner
    if not isinstance(reduce, tiny.ReduceOp) or reduce.function != "sum":
        return None
    entry, facts = entry_of(value), facts_of(value)
    whole = operand_reading(value, 0, facts, casts=False)
    product = whole.single
    if product is None:
        return None
    mul = product.source.owner
    if not isinstance(mul, tiny.BinaryOp) or mul.function != "mul":
        return None
    sides: list[Reading] = []
    for i in range(2):
        parts = [reading(r, facts) for r in steps(product, i)]
        sides.append(_joined(parts))
    rank = len(entry.axes)
    names = axis_names(product.axes, entry.symbol_names, rank)
    rows = bounds([a.dim for a in product.axes], entry.symbol_names)
    box = AffineSet(len(product.axes), len(entry.symbol_names), rows)
    lhs, rhs = sides[0].single, sides[1].single
    pattern: ContractionPattern | Refusal
    if whole.fills:
        pattern = Refusal("its products are masked before they are summed")
    elif lhs is None or rhs is None:
        side = "lhs" if lhs is None else "rhs"
        pattern = Refusal(f"the {side} is read by several maps, or nowhere")
    else:
        pattern = classify(names[:rank], names[rank:], lhs.map, rhs.map, box)
    return Contraction(value, product.source, sides[0], sides[1], pattern)


def operand_reading(value: SSAValue, operand: int, facts: AffineSet, casts: bool = True) -> Reading:
    """How operand ``operand`` of a value is read, behind movements and widening casts."""
    here = start(value)
    parts = [reading(r, facts, casts) for r in steps(here, operand)]
    own = tuple(Filled(domain, number) for domain, number in fills(here, operand))
    return _joined([*parts, Reading((), own)])


def _joined(parts: list[Reading]) -> Reading:
    reads: list[Reach] = [r for part in parts for r in part.reads]
    filled: list[Filled] = [f for part in parts for f in part.fills]
    guards: list[Guard] = [g for part in parts for g in part.guards]
    return Reading(tuple(reads), tuple(filled), tuple(guards))


def _block(entry: ValueOp, name: str, contraction: Contraction | None) -> Block:
    value = entry.value
    if contraction is not None and isinstance(contraction.pattern, ContractionPattern):
        return Block(value, name, entry, (contraction.lhs, contraction.rhs), contraction)
    facts = facts_of(value)
    found = [operand_reading(value, i, facts) for i in range(len(entry.operands_read))]
    return Block(value, name, entry, tuple(dict.fromkeys(found)), contraction)


def _given_out(value: SSAValue) -> bool:
    return any(isinstance(use.operation, tiny.OutputOp) for use in value.uses)


def _only_used_in(contraction: Contraction) -> bool:
    """Whether the product goes nowhere but into the contraction's sum."""
    pending = [contraction.product]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, ValueOp):
                continue
            if isinstance(op, tiny.ExpandOp | tiny.PermuteOp):
                pending.append(op.result)
            elif op is not contraction.value.owner:
                return False
    return True
