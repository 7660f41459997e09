"""Fragment layouts as tables: who holds what, decided by evaluation (T2).

A layout is separable: the coordinates of register ``r`` of thread ``t`` are ``f(t) + g(r)``, since
an instruction or an access pattern places threads and registers independently.  Tables of ``f``
and ``g`` answer what symbolic maps answer badly: what a projection of a layout is, which elements
nobody holds, which registers are neighbours in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from polyc.affine.expressions import linear_of
from polyc.affine.repeating import floor_line
from polyc.dialects.gpu.types import FragmentLayoutAttr

Point = tuple[int, ...]

SPELLINGS = {
    AffineBinaryOpKind.Add: "({} + {})",
    AffineBinaryOpKind.Mul: "({} * {})",
    AffineBinaryOpKind.FloorDiv: "({} // {})",
    AffineBinaryOpKind.CeilDiv: "(-(-{} // {}))",
    AffineBinaryOpKind.Mod: "({} % {})",
}


def _text(expr: AffineExpr) -> str:
    match expr:
        case AffineConstantExpr(value):
            return str(value)
        case AffineDimExpr(position):
            return f"d[{position}]"
        case AffineBinaryOpExpr(kind, lhs, rhs):
            return SPELLINGS[kind].format(_text(lhs), _text(rhs))
        case _:
            raise ValueError(f"{expr} has symbols")


@lru_cache(maxsize=512)
def function_of(m: AffineMap) -> Callable[[Sequence[int]], Point]:
    """``m`` as a Python function of its dimensions; it has no symbols.

    Raises NotAffine where it divides by something but a positive number.
    """
    for result in m.results:
        linear_of(result)
    body = "".join(f"{_text(e)}, " for e in m.results)
    found: Callable[[Sequence[int]], Point] = eval(f"lambda d: ({body})")
    return found


def _terms(expr: AffineExpr) -> list[AffineExpr]:
    """The summands of an expression."""
    if isinstance(expr, AffineBinaryOpExpr) and expr.kind is AffineBinaryOpKind.Add:
        return [*_terms(expr.lhs), *_terms(expr.rhs)]
    return [expr]


@dataclass(frozen=True)
class Digit:
    """A part of a number: ``number floordiv weight mod count`` moves a point by ``stride`` each."""

    weight: int
    count: int
    stride: Point

    @property
    def moves(self) -> bool:
        return any(self.stride)


def digits(points: Sequence[Point]) -> list[Digit]:
    """``points[i] - points[0]`` as a sum of digits of ``i``, the fastest first.

    Neighbours belong to one digit where they can: it is the longest run of equal steps.  Raises
    ValueError for a sequence that is no such sum.
    """
    found: list[Digit] = []
    weight = 1
    while (n := len(points)) > 1:
        step = tuple(b - a for a, b in zip(points[0], points[1], strict=True))
        count = next((c for c in _divisors(n) if _runs(points, c, step)), None)
        if count is None:
            raise ValueError(f"{n} places follow no digits")
        found.append(Digit(weight, count, step))
        points, weight = points[::count], weight * count
    return found


def _divisors(n: int) -> list[int]:
    """Divisors of ``n`` from ``n`` down to 2."""
    return [c for c in range(n, 1, -1) if n % c == 0]


def _runs(points: Sequence[Point], count: int, step: Point) -> bool:
    for first in range(0, len(points), count):
        place = points[first]
        for point in points[first : first + count]:
            if point != place:
                return False
            place = tuple([a + s for a, s in zip(place, step, strict=True)])
    return True


def _expr(parts: Sequence[Digit], axis: int, variable: AffineExpr, total: int) -> AffineExpr:
    found: AffineExpr = AffineExpr.constant(0)
    for part in reversed(parts):
        if part.stride[axis]:
            number = variable // part.weight if part.weight > 1 else variable
            number = number % part.count if part.weight * part.count < total else number
            found = found + (number * part.stride[axis] if part.stride[axis] != 1 else number)
    return found


@dataclass(frozen=True)
class Spread:
    """Register ``r`` of thread ``t`` is element ``threads[t] + registers[r]``."""

    threads: tuple[Point, ...]
    registers: tuple[Point, ...]

    @staticmethod
    def of(layout: FragmentLayoutAttr) -> Spread:
        """Evaluate a layout; raises ValueError where it is no sum of a thread's and a register's
        part."""
        return _spread(layout)

    @property
    def rank(self) -> int:
        return len(self.threads[0])

    def at(self, thread: int, register: int) -> Point:
        """The element that a register of a thread holds."""
        return tuple(
            a + b for a, b in zip(self.threads[thread], self.registers[register], strict=True)
        )

    def layout(self) -> FragmentLayoutAttr:
        """The layout as an affine map; raises ValueError where there is none."""
        t, r = AffineExpr.dimension(0), AffineExpr.dimension(1)
        of_threads, of_registers = digits(self.threads), digits(self.registers)
        base = self.at(0, 0)
        exprs: list[AffineExpr] = []
        for axis in range(self.rank):
            expr = _expr(of_threads, axis, t, len(self.threads))
            expr = expr + _expr(of_registers, axis, r, len(self.registers)) + base[axis]
            exprs.append(expr.simplify(2, 0) if isinstance(expr, AffineConstantExpr) else expr)
        return FragmentLayoutAttr.of(
            len(self.threads), len(self.registers), AffineMap(2, 0, tuple(map(_tidy, exprs)))
        )

    def register_expr(self) -> AffineExpr:
        """The first coordinate of an element as a function of its register, dimension 0.

        It is a sum of digits, or the floor of a line, also of vectors that lie whole.  Raises
        ValueError where it is neither.
        """
        try:
            parts, total = digits(self.registers), len(self.registers)
        except ValueError:
            found = _vector_line([r for r, *_ in self.registers])
            if found is None:
                raise
            return found + self.threads[0][0]
        expr = _expr(parts, 0, AffineExpr.dimension(0), total) + self.at(0, 0)[0]
        return _tidy(expr)

    def uncovered(self, sizes: Sequence[int]) -> Point | None:
        """An element of a tile that no thread holds, or None; nothing is ``outside`` of it."""
        threads = {_number(p, sizes) for p in self.threads}
        registers = {_number(p, sizes) for p in self.registers}
        held = {a + b for a in threads for b in registers}
        missing = next((i for i in range(prod(sizes)) if i not in held), None)
        return None if missing is None else _point(missing, sizes)

    def outside(self, sizes: Sequence[int]) -> Point | None:
        """A place outside a tile of these sizes that some thread would hold, or None."""
        for axis, size in enumerate(sizes):
            low = [min(table, key=lambda p: p[axis]) for table in (self.threads, self.registers)]
            high = [max(table, key=lambda p: p[axis]) for table in (self.threads, self.registers)]
            for a, b in (low, high):
                place = tuple(x + y for x, y in zip(a, b, strict=True))
                if not 0 <= place[axis] < size:
                    return place
        return None

    def image(self, by: AffineMap) -> Spread:
        """The layout of ``by`` of the elements: who holds them, each once a thread.

        It is the layout of a reduction's result before threads combine, and of what a map over the
        fragment reads through ``by``.  Raises ValueError where ``by`` does not treat all
        threads alike.
        """
        places, _ = _image(self, by)
        return places

    def ranks(self, by: AffineMap) -> tuple[int, ...]:
        """For each register, the register of ``image(by)`` that has its element."""
        _, found = _image(self, by)
        return found

    def held(self, access: AffineMap, operand: Spread) -> tuple[int, ...]:
        """For each register, the one of ``operand`` in the same thread that has ``access`` of it.

        More threads may hold the operand.  Raises ValueError where another thread has it.
        """
        if operand == self and access.results == _axes(access.num_dims):
            return tuple(range(len(self.registers)))
        image, which = _image(self, access)
        places = {p: i for i, p in reversed(list(enumerate(operand.registers)))}
        if len(operand.threads) < len(self.threads):
            raise ValueError(f"{len(operand.threads)} threads hold it, not {len(self.threads)}")
        found: tuple[int, ...] | None = None
        offsets = {
            tuple(a - b for a, b in zip(mine, theirs, strict=True))
            for mine, theirs in zip(image.threads, operand.threads, strict=False)
        }
        for offset in offsets:
            at = [
                places.get(tuple(a + b for a, b in zip(p, offset, strict=True)))
                for p in image.registers
            ]
            here = tuple(-1 if at[i] is None else int(at[i] or 0) for i in which)
            if -1 in here or (found is not None and here != found):
                raise ValueError("another thread holds it")
            found = here
        assert found is not None
        return found

    def parts(self, count: int) -> tuple[Spread, tuple[tuple[int, ...], ...]]:
        """``count`` equal parts along the last axis: how the first one lies, and the registers of
        each, in the order of its elements in that.

        Raises ValueError where a thread does not hold the same of each part.
        """
        last = self.rank - 1
        reach = max(p[last] for p in self.threads) - min(p[last] for p in self.threads)
        first = min(p[last] for p in self.registers)
        width = (max(p[last] for p in self.registers) - first + reach + 1) // count
        found: list[tuple[int, ...]] = []
        for part in range(count):
            start = first + part * width
            at = [r for r, p in enumerate(self.registers) if start <= p[last] < start + width]
            if any(self.registers[r][last] + reach >= start + width for r in at):
                raise ValueError(f"threads hold unlike places of parts of {width}")
            found.append(tuple(at))
        moved = [
            [(*p[:last], p[last] - part * width) for p in (self.registers[r] for r in at)]
            for part, at in enumerate(found)
        ]
        if not moved[0] or any(m != moved[0] for m in moved):
            raise ValueError(f"a thread does not hold the same of each part of {width}")
        return Spread(self.threads, tuple(moved[0])), tuple(found)

    def first_holders(self) -> list[Digit]:
        """The digits of a thread's number that are 0 in the first of the threads that hold the
        same elements; raises ValueError where threads follow no digits."""
        return [d for d in digits(self.threads) if not d.moves]


def _vector_line(places: Sequence[int]) -> AffineExpr | None:
    """Places as a function of their number, dimension 0: a floor of a line, or vectors, whose
    elements follow each other, at such a floor of theirs; None where they are neither."""
    number = AffineExpr.dimension(0)
    for vector in (1, 2, 4, 8):
        firsts = places[::vector]
        if any(p != firsts[i // vector] + i % vector for i, p in enumerate(places)):
            continue
        found = floor_line([(p - firsts[0]) // vector for p in firsts])
        if found is None or any((p - firsts[0]) % vector for p in firsts):
            continue
        return found.at(number // vector) * vector + number % vector + firsts[0]
    return None


def _axes(rank: int) -> tuple[AffineExpr, ...]:
    """The results of an identity map."""
    return tuple(AffineExpr.dimension(i) for i in range(rank))


def _tidy(expr: AffineExpr) -> AffineExpr:
    """Drop what adds 0 and keep the rest as it is written."""
    if isinstance(expr, AffineBinaryOpExpr) and expr.kind is AffineBinaryOpKind.Add:
        lhs, rhs = _tidy(expr.lhs), _tidy(expr.rhs)
        if isinstance(lhs, AffineConstantExpr) and lhs.value == 0:
            return rhs
        if isinstance(rhs, AffineConstantExpr) and rhs.value == 0:
            return lhs
        return AffineBinaryOpExpr(AffineBinaryOpKind.Add, lhs, rhs)
    return expr


def _number(point: Point, sizes: Sequence[int]) -> int:
    total = 0
    for p, size in zip(point, sizes, strict=True):
        total = total * size + p
    return total


def _point(number: int, sizes: Sequence[int]) -> Point:
    found: list[int] = []
    for size in reversed(sizes):
        number, digit = divmod(number, size)
        found.append(digit)
    return tuple(reversed(found))


@lru_cache(maxsize=512)
def _spread(layout: FragmentLayoutAttr) -> Spread:
    m = layout.map.data
    zero = AffineExpr.constant(0)
    of_thread: list[AffineExpr] = []
    of_register: list[AffineExpr] = []
    for expr in m.results:
        parts: list[AffineExpr] = [zero, zero]
        for term in _terms(expr):
            used = term.used_dims()
            if len(used) > 1:
                raise ValueError(f"{term} mixes thread and register")
            parts[1 in used] = parts[1 in used] + term
        of_thread.append(parts[0])
        of_register.append(parts[1])
    f = function_of(AffineMap(2, 0, tuple(of_thread)))
    g = function_of(AffineMap(2, 0, tuple(of_register)))
    return Spread(
        tuple(f((t, 0)) for t in range(layout.threads.data)),
        tuple(g((0, r)) for r in range(layout.registers.data)),
    )


@lru_cache(maxsize=512)
def _image(spread: Spread, by: AffineMap) -> tuple[Spread, tuple[int, ...]]:
    f = function_of(by)
    threads: list[Point] = []
    first: tuple[Point, ...] | None = None
    order: tuple[int, ...] | None = None
    known: dict[Point, tuple[Point, tuple[Point, ...], tuple[int, ...]]] = {}
    for start in spread.threads:
        if start not in known:
            places = [
                f([a + b for a, b in zip(start, move, strict=True)]) for move in spread.registers
            ]
            distinct = list(dict.fromkeys(places))
            origin = distinct[0]
            moves = tuple(tuple(a - b for a, b in zip(p, origin, strict=True)) for p in distinct)
            number = {p: i for i, p in enumerate(distinct)}
            known[start] = origin, moves, tuple(number[p] for p in places)
        origin, moves, which = known[start]
        if first is None:
            first, order = moves, which
        if (first, order) != (moves, which):
            raise ValueError(f"{by} does not treat threads alike")
        threads.append(origin)
    assert first is not None and order is not None
    return Spread(tuple(threads), first), order
