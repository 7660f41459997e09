"""Random frontend programs of integers and conditions, from a seed: types, functions, casts, moves.

Integers are exact, so every layer must give every bit, of any numbers: inputs go to the ends of
their types.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import f16, f32, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import COMPARE, INTEGERS, bounds, is_integer
from polyc.dialects.frontend import tensor, tensor_of
from polyc.test.fuzz.random_programs import Maker, RandomProgram

KINDS: tuple[Attribute, ...] = (*INTEGERS, i32, i64, f32, i1)
"""What a value may be cast to; the types that programs use most stand twice."""


def drawn(dice: random.Random) -> RandomProgram:
    """A program of one to seven steps."""
    sizes = {s: dice.choice((0, 1, 2, 3, 4, 5, 6, 7)) for s in ("M", "N")}
    maker = IntegerMaker(dice, sizes)
    for _ in range(dice.randint(1, 7)):
        maker.step()
    return RandomProgram(maker.closed(), sizes)


class IntegerMaker(Maker):
    """A graph of integers that grows."""

    def __init__(self, dice: random.Random, sizes: Mapping[str, int]) -> None:
        shapes: Sequence[Sequence[str]] = (("M", "N"), ("M", "N"), ("N",))
        super().__init__(dice, sizes, shapes)
        kind = dice.choice(INTEGERS)
        kinds = (kind, kind, dice.choice(KINDS))
        for index, (arg, shape, element) in enumerate(
            zip(tuple(self.graph.body.block.args), shapes, kinds, strict=True)
        ):
            new = self.graph.body.block.insert_arg(tensor(shape, element), index)
            self.inputs[index] = new.type
            self.values[index] = new
            self.graph.body.block.erase_arg(arg)

    def step(self) -> None:
        """One op of the language on values that are there."""
        steps = [self._cast, self._compare, self._select, self._reduce, self._leaf, self._order]
        made = self.dice.choice([*[self._function] * 3, *[self._move] * 2, *steps])()
        if made is not None:
            self.values.append(made)

    def _one(self) -> SSAValue:
        return self.dice.choice(self.values[-6:])

    def _like(self, value: SSAValue) -> SSAValue:
        """A value that broadcasts with another one and has its type."""
        kind = tensor_of(value)
        found = [
            v
            for v in self.values
            if tensor_of(v).element_type == kind.element_type
            and (tensor_of(v).dims == kind.dims or tensor_of(v).dims == kind.dims[-1:])
        ]
        if self.dice.random() < 0.3 and kind.element_type != i1:
            return self._number(kind.element_type)
        return self.dice.choice(found)

    def _number(self, element: Attribute) -> SSAValue:
        if is_integer(element):
            least, most = bounds(element)
            few = self.dice.choice((0, 1, 2, 3, 7, 31, 33, -1, -3, least, most))
            value = max(least, min(most, few))
            return self.add(frontend.ConstantOp(value, tensor((), element)))
        return self.add(
            frontend.ConstantOp(self.dice.choice((0.5, -2.0, 3.0)), tensor((), element))
        )

    def _function(self) -> SSAValue:
        x = self._one()
        element = tensor_of(x).element_type
        if not is_integer(element) and element != i1:
            fn = self.dice.choice(("add", "sub", "max", "min"))
            return self.fn(fn, x, self._like(x))
        if self.dice.random() < 0.25:
            return self.fn(self.dice.choice(frontend.UNARY.of(element)), x)
        return self.fn(self.dice.choice(frontend.BINARY.of(element)), x, self._like(x))

    def _cast(self) -> SSAValue:
        return self.add(frontend.CastOp(self._one(), self.dice.choice((*KINDS, f16))))

    def _compare(self) -> SSAValue | None:
        x = self._one()
        element = tensor_of(x).element_type
        if not is_integer(element) and element != i1:
            return None
        return self.add(frontend.CompareOp(self.dice.choice(COMPARE.of(element)), x, self._like(x)))

    def _select(self) -> SSAValue | None:
        x = self._one()
        shape = tensor_of(x).dims
        chosen = [
            v for v in self.values if tensor_of(v).element_type == i1 and tensor_of(v).dims == shape
        ]
        if not chosen:
            return None
        return self.add(frontend.SelectOp(self.dice.choice(chosen), x, self._like(x)))

    def _reduce(self) -> SSAValue | None:
        x = self._one()
        kind = tensor_of(x)
        if kind.rank < 1 or not is_integer(kind.element_type):
            return None
        axes = sorted(self.dice.sample(range(kind.rank), self.dice.randint(1, kind.rank)))
        fn = self.dice.choice(("sum", "prod", "max", "min"))
        return self.add(frontend.ReduceOp(fn, x, axes, keepdims=self.dice.random() < 0.5))

    def _order(self) -> SSAValue | None:
        """A row in its order, the places of its elements, or that of an extreme."""
        x = self._one()
        kind = tensor_of(x)
        if kind.rank < 1 or kind.element_type == i1 or kind.dims[-1].constant() == 0:
            return None
        axis = self.dice.randrange(kind.rank)
        if self.dice.random() < 0.4:
            fn, last = self.dice.choice(frontend.EXTREMES), self.dice.random() < 0.5
            if kind.dims[axis].constant() == 0:
                return None
            return self.add(frontend.ArgReduceOp(fn, x, axis, keepdims=True, last=last))
        op = frontend.SortOp(x, axis, descending=self.dice.random() < 0.5)
        self.add(op)
        return self.dice.choice((op.values, op.places))

    def _move(self) -> SSAValue | None:
        x = self._one()
        kind = tensor_of(x)
        match self.dice.randrange(4):
            case 0 if kind.rank > 1:
                return self.add(frontend.PermuteOp(x, [*reversed(range(kind.rank))]))
            case 1 if kind.rank and is_integer(kind.element_type):
                least, most = bounds(kind.element_type)
                low, high = ([self.dice.randrange(3) for _ in kind.dims] for _ in range(2))
                fill = self.dice.choice((0, 1, 5, least, most))
                return self.add(frontend.PadOp(x, low, high, fill))
            case 2 if kind.rank:
                other = self._like(x)
                if tensor_of(other).dims == kind.dims:
                    return self.add(frontend.ConcatOp([x, other], self.dice.randrange(kind.rank)))
                return None
            case _ if not kind.rank:
                return None
            case _:
                steps = [self.dice.choice((1, 1, 2)) for _ in kind.dims]
                return self.add(frontend.SliceOp(x, [0] * kind.rank, list(kind.dims), steps))

    def _leaf(self) -> SSAValue:
        element = self.dice.choice(INTEGERS)
        if self.dice.random() < 0.3:
            return self.add(frontend.DimOp(Dim.sym("M") * 3 + 1, element))
        shape = tensor(("M", "N"), element)
        return self.add(frontend.IotaOp(shape, self.dice.randrange(2)))
