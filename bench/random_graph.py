"""Random graphs of elementwise, movement and reduce ops, of any number of ops, by a seed.

A graph is what a model's layers look like to the middle of the compiler: short branches that
read an input, move and reduce it, and join a trunk of the output's shape one after another.  Every
op of its three families is in a graph that is large enough, every size but small constants is
symbolic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.frontend import tensor, tensor_of

M, N = Dim.sym("M"), Dim.sym("N")
PLANE: Shape = (M, N)
INPUTS: tuple[tuple[Dim | str | int, ...], ...] = (("M", "N"), ("N",), ("M", 1), ("M", "N", 16))
BRANCH = (4, 12)
"""How many ops a branch has before it returns to the trunk's shape."""


class _Graph:
    """A graph under construction, which stops at ``count`` ops."""

    def __init__(self, count: int, seed: int) -> None:
        self.dice = random.Random(seed)
        self.left = count
        self.decks: dict[Sequence[str], list[str]] = {}
        self.graph = frontend.GraphOp("f", [tensor(s, f32) for s in INPUTS], [])
        self.plane, self.row, self.column, self.cube = self.graph.body.block.args

    def add(self, op: Operation) -> SSAValue:
        """Append an op and return its value."""
        self.graph.body.block.add_op(op)
        self.left -= 1
        return op.results[0]

    def function(self, names: Sequence[str]) -> str:
        """One of ``names``, each once before one comes again."""
        deck = self.decks.setdefault(names, [])
        if not deck:
            deck += self.dice.sample(names, len(names))
        return deck.pop()

    def unary(self, x: SSAValue) -> SSAValue:
        return self.add(frontend.ElementwiseOp(self.function(frontend.UNARY_FUNCTIONS), [x]))

    def binary(self, x: SSAValue, y: SSAValue) -> SSAValue:
        pair = [x, y] if self.dice.random() < 0.5 else [y, x]
        return self.add(frontend.ElementwiseOp(self.function(frontend.BINARY_FUNCTIONS), pair))

    # Steps that keep the shape; each says how many ops it is.

    def with_constant(self, x: SSAValue) -> SSAValue:
        return self.binary(x, self.add(frontend.ConstantOp(self.dice.choice([0.5, 2.0]))))

    def with_leaf(self, x: SSAValue) -> SSAValue:
        flat = tensor_of(x).dims == PLANE
        leaves = [self.row, self.column, self.plane] if flat else [self.cube]
        return self.binary(x, self.dice.choice(leaves))

    def cast(self, x: SSAValue) -> SSAValue:
        return self.add(frontend.CastOp(self.add(frontend.CastOp(x, f16)), f32))

    def select(self, x: SSAValue) -> SSAValue:
        relation = self.dice.choice(frontend.COMPARISONS)
        leaf = self.row if tensor_of(x).dims == PLANE else self.cube
        condition = self.add(frontend.CompareOp(relation, x, leaf))
        return self.add(frontend.SelectOp(condition, x, leaf))

    def shift(self, x: SSAValue) -> SSAValue:
        """Pad, and slice a part of the old size out."""
        dims = tensor_of(x).dims
        low, high = ([self.dice.randint(0, 2) for _ in dims] for _ in "lh")
        padded = self.add(frontend.PadOp(x, low, high, self.dice.choice([0.0, 1.5])))
        start = [self.dice.randint(0, a + b) for a, b in zip(low, high, strict=True)]
        ends = [d + s for d, s in zip(dims, start, strict=True)]
        return self.add(frontend.SliceOp(padded, start, ends))

    def turn(self, x: SSAValue) -> SSAValue:
        """Permute, compute, and permute back."""
        order = list(range(tensor_of(x).rank))
        self.dice.shuffle(order)
        turned = self.unary(self.add(frontend.PermuteOp(x, order)))
        return self.add(frontend.PermuteOp(turned, [order.index(i) for i in range(len(order))]))

    def join(self, x: SSAValue) -> SSAValue:
        """Concatenate with a leaf, and take a part of the old size."""
        dims, leaf = tensor_of(x).dims, self.plane if tensor_of(x).rank == 2 else self.cube
        both = self.add(frontend.ConcatOp([x, leaf], 1))
        start = [Dim.const(0), Dim.const(self.dice.randint(0, 1)), Dim.const(0)][: len(dims)]
        ends = [d + s for d, s in zip(dims, start, strict=True)]
        return self.add(frontend.SliceOp(both, start, ends))

    def normalise(self, x: SSAValue) -> SSAValue:
        """Combine with a reduction of itself along the last axis."""
        last, function = tensor_of(x).rank - 1, self.dice.choice(frontend.REDUCTIONS)
        return self.binary(x, self.add(frontend.ReduceOp(function, x, [last], keepdims=True)))

    # Steps that change the rank

    def widen(self, x: SSAValue) -> SSAValue:
        """A plane repeated along a new axis, beside the cube: 2 ops."""
        wide = self.add(frontend.ExpandOp(x, [0, 1], tensor((M, N, Dim.const(16)), f32)))
        return self.binary(wide, self.cube)

    def reduce(self, x: SSAValue) -> SSAValue:
        """A cube's last axis whole, or split into two first, one of which is reduced at a time."""
        function = self.dice.choice(frontend.REDUCTIONS)
        if self.dice.random() < 0.5:
            return self.add(frontend.ReduceOp(function, x, [2]))
        four = Dim.const(4)
        split = self.add(frontend.ReshapeOp(x, (M, N, four, four)))
        partial = self.add(frontend.ReduceOp(function, split, [self.dice.choice([2, 3])]))
        return self.add(frontend.ReduceOp(function, partial, [2]))

    def branch(self) -> SSAValue:
        """An input on its way to a plane, at most some 20 ops."""
        x = self.dice.choice([self.plane, self.cube])
        steps: Sequence[Callable[[SSAValue], SSAValue]] = (
            self.unary,
            self.with_constant,
            self.with_leaf,
            self.cast,
            self.select,
            self.shift,
            self.turn,
            self.join,
            self.normalise,
        )
        stop = self.left - self.dice.randint(*BRANCH)
        while self.left > max(stop, 8):
            if tensor_of(x).rank == 2 and self.dice.random() < 0.2:
                x = self.widen(x)
            else:
                x = self.dice.choice(steps)(x)
            if tensor_of(x).rank == 3 and self.dice.random() < 0.2:
                x = self.reduce(x)
        return self.reduce(x) if tensor_of(x).rank == 3 else x


def random_graph(count: int, seed: int) -> ModuleOp:
    """A module of one ``frontend.graph`` of ``count`` ops and its output, [M, N]."""
    made = _Graph(count, seed)
    trunk: SSAValue = made.plane
    # Values of the trunk that are read again later, where they were computed.
    kept = [trunk]
    while made.left > 24:
        trunk = made.binary(trunk, made.branch())
        if made.dice.random() < 0.3:
            trunk = made.binary(trunk, made.dice.choice(kept))
        if made.dice.random() < 0.3:
            trunk = made.dice.choice([made.normalise, made.turn, made.shift])(trunk)
        kept = [*kept[-3:], trunk]
    while made.left:
        trunk = made.unary(trunk)
    made.graph.body.block.add_op(frontend.OutputOp([trunk]))
    body = made.graph.detach_region(made.graph.body)
    inputs = [a.type for a in body.block.args]
    return ModuleOp([frontend.GraphOp("f", inputs, [trunk.type], body)])
