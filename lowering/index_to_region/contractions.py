"""``index-to-region``: where a kernel is cut so that its products run on tensor cores (S11.1).

A product inside of a kernel that no family of products takes is computed by loops, a hundred times
slower.  So the values around it are stored, the fewest first:

- ``CORE``: two products with a softmax between them stay together, as attention; what they read
  and what they make is stored;
- ``CORE_BARE``: the same, and only what rounds the second one stays with it;
- ``PAIR``: two products that share a factor and meet in elementwise ops stay together, with what
  follows them both;
- ``ALONE``: each product has a kernel of its own, with the elementwise ops that follow it alone;
- ``PLAIN``: its factors lie in memory as it reads them, no longer behind a movement;
- ``BARE``: it is rounded and stored, and what followed it is a kernel of its own.

What is stored has its own type: a value that is rounded to f16 anyway is stored as f16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type
from xdsl.ir import BlockArgument, Operation, SSAValue

from polyc.dialects import index, tiny
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.forms import Form, Key
from polyc.lowering.index_to_region.fusion import Kernel

LEAST = 1_000_000
"""Multiply-adds of a product, sizes that are not known taken as ``cost.TYPICAL``, from which on it
is worth a kernel of its own."""

FACTOR = "a product on tensor cores reads it from memory"
END = "a product on tensor cores, which holds no other reduction, ends with it"
SIDE = "it is reduced, and what follows a product on tensor cores reads it from memory"


class Level(IntEnum):
    """How much around a product is stored."""

    AS_IT_IS = 0
    CORE = 1
    CORE_BARE = 2
    PAIR = 3
    ALONE = 4
    PLAIN = 5
    BARE = 6


@dataclass
class Products:
    """The products of a graph, and how much around each is stored by now.

    ``same`` are equal values.  ``users`` are the ops that read each value, equal casts left out,
    ``order`` the place of each product in the program, ``follows`` what elementwise ops make of it.
    """

    graph: tiny.GraphOp
    same: Mapping[SSAValue, SSAValue]
    levels: dict[SSAValue, Level] = field(default_factory=dict[SSAValue, Level])
    users: dict[SSAValue, list[Operation]] = field(default_factory=dict[SSAValue, list[Operation]])
    order: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    partners: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Products that may share a kernel, the earlier one first."""
    given_up: set[SSAValue] = field(default_factory=set[SSAValue])
    """Products that no family takes, whatever is stored."""
    follows: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])

    def __post_init__(self) -> None:
        for number, op in enumerate(self.graph.body.block.ops):
            if isinstance(op, index.ValueOp) or (op.results and op.results[0] in self.same):
                continue
            for operand in dict.fromkeys(self.same.get(o, o) for o in op.operands):
                self.users.setdefault(operand, []).append(op)
            if op.results and self._is_product(op.results[0]):
                self.levels[op.results[0]] = Level.AS_IT_IS
                self.order[op.results[0]] = number
        for pair in self.cores(list(self.levels)):
            self.levels.update(dict.fromkeys(pair, Level.CORE))
        self._find_partners()

    def _is_product(self, value: SSAValue) -> bool:
        """Whether tensor cores could compute the value, and it is worth it."""
        if not cost.is_contraction(value):
            return False
        dims = tiny.tensor_of(cast(tiny.ReduceOp, value.owner).operand).dims
        kinds = {tiny.tensor_of(self.source(f)).element_type for f in factors(value)}
        narrow = len(kinds) == 1 and isinstance(kinds.pop(), Float16Type | BFloat16Type)
        return narrow and cost.points(dims) > LEAST

    # What the next round does

    def inside(self, kernel: Kernel) -> list[SSAValue]:
        """The products that a kernel computes."""
        found = dict.fromkeys(key[0] for key, form in held(kernel) if form is not None)
        return [value for value in found if value in self.levels]

    def store_more(self, kernels: Sequence[Kernel], contracts: Callable[[Kernel], bool]) -> bool:
        """Raise the levels of the products that ``contracts`` says are not computed well."""
        changed = False
        for kernel in kernels:
            inside = [v for v in self.inside(kernel) if v not in self.given_up]
            if not inside or contracts(kernel):
                continue
            changed = True
            for value in inside:
                level = self.levels[value]
                if level is Level.BARE:
                    # Nothing helps: what is stored for it would be stored for nothing.
                    self.levels[value] = Level.AS_IT_IS
                    self.given_up.add(value)
                elif level in (Level.AS_IT_IS, Level.CORE_BARE):
                    self.levels[value] = Level.ALONE
                else:
                    self.levels[value] = Level(level + 1)
        return changed

    def cuts(self) -> dict[SSAValue, str]:
        """The values to store, with the reason."""
        found: dict[SSAValue, str] = {}
        chosen = [value for value, level in self.levels.items() if level]
        cores = [v for v in chosen if self.levels[v] <= Level.CORE_BARE]
        for first, second in self.cores(cores):
            self._store(found, map(self.source, self._read_by(first, second)), FACTOR, second)
            self._end(found, second)
        first = {a for a, _ in self._pairs()}
        for value in chosen:
            if self.levels[value] > Level.CORE_BARE:
                self._store(found, map(self.source, factors(value)), FACTOR, value)
                if self.levels[value] >= Level.PLAIN:
                    plain = (self._plain(f) for f in factors(value))
                    self._store(found, plain, FACTOR, value, plain=True)
                if value not in first:
                    self._end(found, value)
        return found

    def _find_partners(self) -> None:
        """Pair products that share a factor and meet in an epilogue, each with one at most."""
        free = [v for v, level in self.levels.items() if level is Level.AS_IT_IS]
        for number, first in enumerate(free):
            if self.levels[first] is not Level.AS_IT_IS:
                continue
            for second in free[number + 1 :]:
                alone = self.levels[second] is Level.AS_IT_IS
                if alone and self._are_partners(first, second):
                    self.partners[first] = second
                    self.levels[first] = self.levels[second] = Level.PAIR
                    break

    def _are_partners(self, first: SSAValue, second: SSAValue) -> bool:
        pair = (first, second)
        one, other = (tiny.tensor_of(cast(tiny.ReduceOp, v.owner).operand).dims for v in pair)
        read, also = ({self.source(f) for f in factors(v)} for v in pair)
        if one != other or not read & also:
            return False
        meet = set(self._follow(first)) & set(self._follow(second))
        apart = [v for v in self._follow(first) if v not in meet]
        # What the first one makes is wanted where they meet, and nowhere else.
        return bool(meet) and all(
            op.results and (op.results[0] in meet or op.results[0] in apart)
            for v in (first, *apart)
            for op in self.users.get(v, ())
        )

    def _pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """The partners that stay together."""
        return [
            (first, second)
            for first, second in self.partners.items()
            if self.levels[first] is self.levels[second] is Level.PAIR
        ]

    def kept(self) -> set[SSAValue]:
        """The values between two products that stay together, which are computed where they are."""
        found: set[SSAValue] = set()
        cores = [v for v, level in self.levels.items() if 0 < level <= Level.CORE_BARE]
        together = [(*pair, self._read_by(*pair)) for pair in self.cores(cores)]
        together += [(a, b, [*factors(a), *factors(b)]) for a, b in self._pairs()]
        for first, second, factors_read in together:
            read = {self.source(f) for f in factors_read}
            end, _ = self._epilogue(second)
            stack = [end]
            while stack:
                value = self.same.get(stack[-1], stack[-1])
                stack.pop()
                op = value.owner
                if value in found or value in read or not isinstance(op, Operation):
                    continue
                if value is second or not cost.is_contraction(value):
                    found.add(value)
                    stack += op.operands
                found.add(first)
        return found

    def _store(
        self,
        found: dict[SSAValue, str],
        values: Iterator[SSAValue] | Sequence[SSAValue],
        why: str,
        product: SSAValue,
        plain: bool = False,
    ) -> None:
        for value in values:
            moved = plain and not isinstance(value, BlockArgument)
            if cost.is_computed(value) or moved:
                found.setdefault(value, self._reason(value, why, product))

    def _reason(self, value: SSAValue, why: str, product: SSAValue) -> str:
        """Why a value is stored for a product, with what either takes."""
        stored = cost.seconds_stored(value, len(self.users.get(value, ())))
        return (
            f"{why}; storing it takes about {stored * 1e6:.3g} us, and the product without tensor "
            f"cores {cost.seconds_by_threads(product) * 1e6:.3g} us (a size that is not known is "
            f"taken as {cost.TYPICAL})"
        )

    # What is around a product

    def source(self, value: SSAValue) -> SSAValue:
        """What a value is read from: itself without movements and casts that widen."""
        while True:
            value = cost.unmasked(self.same.get(value, value))
            op = value.owner
            if not (isinstance(op, MovementOp) or index.is_widening(value)):
                return value
            value = cast(Operation, op).operands[0]

    def _plain(self, value: SSAValue) -> SSAValue:
        """The outermost value of 16 bits on the way to a factor that repeats nothing."""
        while True:
            value = self.same.get(value, value)
            op = value.owner
            if not (isinstance(op, MovementOp) or index.is_widening(value)):
                return value
            wide = isinstance(tiny.tensor_of(value).element_type, Float32Type)
            if not wide and not isinstance(op, tiny.ExpandOp | tiny.WindowOp):
                return value
            value = cast(Operation, op).operands[0]

    def cores(self, among: Sequence[SSAValue]) -> Iterator[tuple[SSAValue, SSAValue]]:
        """Two products of which the second weighs by a softmax of the first."""
        for second in among:
            for first in among:
                if first is not second and self._weights(second, first) is not None:
                    yield first, second

    def _weights(self, second: SSAValue, first: SSAValue) -> SSAValue | None:
        """The factor of ``second`` that is a softmax of ``first``, or None.

        It is made of ``first`` and of a maximum of that.
        """
        for factor in factors(second):
            behind = self._behind(factor)
            if first in behind and any(
                isinstance(value.owner, tiny.ReduceOp)
                and value.owner.function == "max"
                and first in self._behind(value)
                for value in behind
            ):
                return factor
        return None

    def _read_by(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """The factors of two products that stay together, but for the softmax between them."""
        weights = self._weights(second, first)
        return [*factors(first), *(f for f in factors(second) if f is not weights)]

    def _behind(self, value: SSAValue) -> set[SSAValue]:
        """What a value is made of, down to other contractions, these included."""
        found: set[SSAValue] = set()
        stack = [value]
        while stack:
            one = stack.pop()
            one = self.same.get(one, one)
            if one in found or not isinstance(op := one.owner, Operation):
                continue
            found.add(one)
            if one is value or not cost.is_contraction(one):
                stack += op.operands
        return found

    def _end(self, found: dict[SSAValue, str], value: SSAValue) -> None:
        """Store the last of the elementwise ops that follow a product alone, and their sides."""
        end, sides = self._epilogue(value)
        if any(self._parts(op, value) for op in self.users.get(end, ())):
            found.setdefault(end, self._reason(end, END, value))
        self._store(found, sides, SIDE, value)

    def _parts(self, op: Operation, value: SSAValue) -> bool:
        """Whether the end of what follows a product is stored for the sake of ``op``.

        As an output of the graph it is stored anyway, with the others of its shape, and with what a
        softmax gives beside it.
        """
        if not isinstance(op, tiny.OutputOp):
            return True
        return self.levels[value] > Level.CORE_BARE and not self._all_outputs(value)

    def _all_outputs(self, value: SSAValue) -> bool:
        """Whether every output of the graph is a product, or follows it: one kernel writes them."""
        last = self.graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        follow = {value, *self._follow(value)}
        return all(self.same.get(o, o) in follow for o in last.args)

    def _epilogue(self, value: SSAValue) -> tuple[SSAValue, list[SSAValue]]:
        """The last value of what follows a product alone, and what that reads of reductions."""
        bare = self.levels[value] in (Level.CORE_BARE, Level.BARE)
        follow = self._follow(value)
        inside: set[SSAValue] = {value}
        for first, second in self._pairs():
            if second is value:
                inside |= {first, *self._follow(first)} - set(follow)
        outputs = self._all_outputs(value)
        end, sides = value, list[SSAValue]()
        held: list[SSAValue] = []
        for here in follow:
            op = cast(Operation, here.owner)
            given = [self.same.get(o, o) for o in op.operands]
            others = [self.source(o) for o in given if o not in inside]
            if any(self._later(o, value) for o in others):
                break
            inside.add(here)
            held += [o for o in others if self._reduces(o)]
            if cost.is_computed(here) and self._leaves_by(here, inside, outputs):
                end = here
                sides += held
                held.clear()
                if bare and isinstance(op, tiny.CastOp):
                    break
        return end, (sides if self.levels[value] > Level.CORE_BARE else [])

    def _leaves_by(self, value: SSAValue, inside: set[SSAValue], outputs: bool) -> bool:
        """Whether nothing but ``value`` of some values is wanted by others.

        With ``outputs`` they may be the graph's.
        """
        return all(
            (op.results and op.results[0] in inside) or (outputs and isinstance(op, tiny.OutputOp))
            for other in inside
            if other is not value
            for op in self.users.get(other, ())
        )

    def _follow(self, value: SSAValue) -> list[SSAValue]:
        """What elementwise ops make of a value, in the order of the program; computed once."""
        if value not in self.follows:
            inside: dict[SSAValue, None] = {value: None}
            first = True
            for op in self.graph.body.block.ops:
                if op is value.owner:
                    first = False
                if first or not op.results or isinstance(op, index.ValueOp):
                    continue
                if isinstance(op, tiny.ReduceOp | MovementOp) or op.results[0] in self.same:
                    continue
                if any(self.same.get(o, o) in inside for o in op.operands):
                    inside[op.results[0]] = None
            self.follows[value] = list(inside)[1:]
        return self.follows[value]

    def _later(self, value: SSAValue, than: SSAValue) -> bool:
        """Whether ``value`` follows a later product, which what comes of both stays with."""
        return any(
            value is p or value in self._follow(p)
            for p, n in self.order.items()
            if n > self.order[than]
        )

    def _reduces(self, value: SSAValue) -> bool:
        """Whether a value is made of a reduction."""
        seen: set[SSAValue] = set()
        stack = [value]
        while stack:
            one = stack.pop()
            op = one.owner
            if one in seen or not isinstance(op, Operation):
                continue
            seen.add(one)
            if isinstance(op, tiny.ReduceOp):
                return True
            stack += op.operands
        return False


def factors(value: SSAValue) -> tuple[SSAValue, SSAValue]:
    """The two values whose products a contraction sums."""
    reduce = cast(tiny.ReduceOp, value.owner)
    product = cast(tiny.BinaryOp, reduce.operand.owner)
    return product.lhs, product.rhs


def held(kernel: Kernel) -> Iterator[tuple[Key, Form | None]]:
    """What a kernel computes, and with None what it reads, each once."""
    seen: set[Key] = set()
    stack: list[Key] = [(root.value, root.point) for root in kernel.roots]
    while stack:
        key = stack.pop()
        if key in seen:
            continue
        seen.add(key)
        read = key[0] in kernel.reads or isinstance(key[0], BlockArgument)
        form = None if read else kernel.forms.form(*key)
        yield key, form
        if form is not None:
            stack += form.operands
