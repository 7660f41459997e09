"""Random small frontend programs: every kind of op of S2.2, symbolic shapes, from a seed.

Values stay within a few units, so that what layers may round differently stays small; relations
are asked of inputs alone, whose values no layer changes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import ui8, ui64
from polyc.dialects.frontend import GraphOp, broadcast, tensor, tensor_of
from polyc.dialects.frontend.sampling import PADDINGS

TAME = (
    *("abs", "erf", "gelu", "gelu_tanh", "neg", "relu", "sigmoid", "silu", "tanh"),
    *("asinh", "atan", "cos", "elu", "hard_sigmoid", "hard_swish", "log_sigmoid", "mish"),
    *("relu6", "selu", "sin", "softplus", "softsign"),
)
"""Functions that keep small values small."""

JUMPING = ("ceil", "floor", "round", "sign", "trunc")
"""Functions that jump, which are asked of inputs alone, as relations are."""

SYMBOLS = ("M", "N", "K")
MOST = 4000
"""Elements that a value may have, at the sizes that a program is drawn with."""


@dataclass(frozen=True)
class RandomProgram:
    """A module with one graph, and the sizes to play it at."""

    module: ModuleOp
    sizes: Mapping[str, int]


def drawn(dice: random.Random) -> RandomProgram:
    """A program of one to six steps; a step is an op of the language, with what it needs."""
    sizes = {s: dice.choice((0, 1, 2, 3, 3, 4, 5, 5, 6, 7)) for s in SYMBOLS}
    maker = Maker(dice, sizes)
    if dice.random() < 0.06:
        return RandomProgram(maker.one_product(), sizes)
    for _ in range(dice.randint(1, 6)):
        maker.step()
    return RandomProgram(maker.closed(), sizes)


class Maker:
    """A graph that grows."""

    def __init__(
        self,
        dice: random.Random,
        sizes: Mapping[str, int],
        first: Sequence[Sequence[Dim | int | str]] = (("M", "N"), ("N",), ("K", "N", 2)),
    ) -> None:
        """``first`` are the shapes of the inputs that it begins with."""
        self.dice, self.sizes = dice, sizes
        self.inputs: list[Attribute] = [tensor(s, f32) for s in first]
        self.graph = GraphOp("f", self.inputs, [])
        self.values: list[SSAValue] = [*self.graph.body.block.args]
        self.whole: list[tuple[Dim, ...]] = []

    # Building

    def add(self, op: Operation) -> SSAValue:
        self.graph.body.block.add_op(op)
        return op.results[0]

    def input(self, shape: Sequence[Dim | int | str], element: Attribute = f32) -> SSAValue:
        kind = tensor(shape, element)
        self.inputs.append(kind)
        return self.graph.body.block.insert_arg(kind, len(self.graph.body.block.args))

    def fn(self, name: str, *args: SSAValue) -> SSAValue:
        return self.add(frontend.ElementwiseOp(name, args))

    def number(self, value: float) -> SSAValue:
        return self.add(frontend.ConstantOp(value))

    def f32(self, value: SSAValue) -> SSAValue:
        if tensor_of(value).element_type == f32:
            return value
        return self.add(frontend.CastOp(value, f32))

    def fits(self, dims: Sequence[Dim]) -> bool:
        return prod(d.evaluate(self.sizes) for d in dims) <= MOST

    def closed(self) -> ModuleOp:
        """The graph with its last value and one more as outputs, of a random stored type."""
        outputs = [self.values[-1], self.dice.choice(self.values)]
        for i, value in enumerate(outputs):
            if self.dice.random() < 0.3:
                outputs[i] = self.add(frontend.CastOp(value, self.dice.choice((f16, bf16))))
        self.add_output(outputs)
        body = self.graph.detach_region(self.graph.body)
        return ModuleOp([GraphOp("f", self.inputs, [o.type for o in outputs], body)])

    def add_output(self, outputs: Sequence[SSAValue]) -> None:
        self.graph.body.block.add_op(frontend.OutputOp(outputs))

    # Steps

    def step(self) -> None:
        """One random op; its result joins the values unless it is too large."""
        x = self.dice.choice([v for v in self.values if tensor_of(v).rank <= 4])
        rank = tensor_of(x).rank
        kinds = [
            "unary",
            "guarded",
            "binary",
            "divide",
            "cast",
            "pad",
            "expand",
            "compare",
            "affine",
            "jumping",
            "dropout",
        ]
        kinds += ["reduce", "softmax", "norm", "permute", "slice", "concat", "unit"] * (rank > 0)
        kinds += ["pool", "resize", "sampled", "gather", "scatter", "place", "ordered", "scan"] * (
            rank > 0
        )
        kinds += ["gemm", "merge", "split"] * (rank > 1)
        kinds += ["product", "conv2d", "conv", "transposed", "attention"]
        before = len(self.inputs)
        made = getattr(self, self.dice.choice(kinds))(x)
        if made is None or not self.fits(tensor_of(made).dims):
            assert len(self.inputs) >= before
            return
        self.values.append(made)

    def axes(self, rank: int) -> list[int]:
        return sorted(self.dice.sample(range(rank), self.dice.randint(1, rank)))

    def unary(self, x: SSAValue) -> SSAValue:
        return self.fn(self.dice.choice(TAME), x)

    def guarded(self, x: SSAValue) -> SSAValue:
        """A function that grows or is not defined everywhere, where it is tame."""
        match self.dice.randrange(7):
            case 0:
                grows = self.dice.choice(("cosh", "exp", "exp2", "expm1", "sinh", "tan"))
                return self.fn(grows, self.fn("tanh", x))
            case 1:
                log = self.dice.choice(("acosh", "cbrt", "log", "log10", "log2"))
                return self.fn(log, self.fn("add", self.fn("abs", x), self.number(1.5)))
            case 4:
                return self.fn("log1p", self.fn("abs", x))
            case 5:
                half = self.fn("mul", self.fn("sigmoid", x), self.number(0.5))
                return self.fn(self.dice.choice(("acos", "asin", "atanh")), half)
            case 6:
                right = self.fn("add", self.fn("abs", x), self.number(0.5))
                return self.fn("atan2", self.dice.choice((x, self.number(1.0))), right)
            case 2:
                root = self.dice.choice(("sqrt", "rsqrt"))
                return self.fn(root, self.fn("add", self.fn("abs", x), self.number(0.5)))
            case _:
                return self.fn("pow", self.fn("sigmoid", x), self.number(1.5))

    def binary(self, x: SSAValue) -> SSAValue:
        dims = tensor_of(x).dims
        found = [
            v for v in self.values if broadcast((dims, tensor_of(v).dims), self.graph) is not None
        ]
        pair = [x, self.dice.choice(found)]
        self.dice.shuffle(pair)
        name = self.dice.choice(("add", "sub", "mul", "max", "min"))
        return self.fn(name, *(self.fn("tanh", v) for v in pair) if name == "mul" else pair)

    def divide(self, x: SSAValue) -> SSAValue:
        below = self.fn("add", self.fn("abs", x), self.number(0.5))
        return self.fn("div", self.dice.choice((x, self.number(1.0))), below)

    def affine(self, x: SSAValue) -> SSAValue:
        """A scale and a shift by numbers, what hoisting out of sums looks for."""
        scaled = self.fn("mul", x, self.number(self.dice.choice((0.5, -0.25, 2.0))))
        return self.fn("add", scaled, self.number(self.dice.choice((0.5, -1.0))))

    def jumping(self, x: SSAValue) -> SSAValue:
        """What jumps, of an input, added to a value."""
        given = self.input(tensor_of(x).dims)
        if self.dice.random() < 0.5:
            steps = self.fn(self.dice.choice(JUMPING), self.fn("mul", given, self.number(3.0)))
        else:
            by = self.dice.choice((self.number(0.75), self.input(tensor_of(x).dims)))
            steps = self.fn(self.dice.choice(("fmod", "mod")), given, by)
        return self.fn("add", x, steps)

    def cast(self, x: SSAValue) -> SSAValue:
        kind = self.dice.choice((f16, bf16, f32))
        return self.f32(self.add(frontend.CastOp(x, kind)))

    def compare(self, x: SSAValue) -> SSAValue:
        """A selection by a relation of an input, or by an input of conditions."""
        dims = tensor_of(x).dims
        if self.dice.random() < 0.3:
            condition = self.input(dims, i1)
        else:
            other = self.dice.choice((self.input(dims), self.number(0.25)))
            relation = self.dice.choice(frontend.COMPARISONS)
            condition = self.add(frontend.CompareOp(relation, self.input(dims), other))
        if self.dice.random() < 0.2:
            return self.f32(self.add(frontend.CastOp(condition, f32)))
        return self.add(frontend.SelectOp(condition, x, self.fn("neg", x)))

    def reduce(self, x: SSAValue) -> SSAValue:
        name = self.dice.choice((*frontend.REDUCTIONS, *frontend.REDUCTIONS_OF_CONDITIONS))
        keep, axes = self.dice.random() < 0.5, self.axes(tensor_of(x).rank)
        if name == "prod":
            x = self.fn("tanh", x)
        if name not in frontend.REDUCTIONS_OF_CONDITIONS:
            return self.add(frontend.ReduceOp(name, x, axes, keepdims=keep))
        given = self.input(tensor_of(x).dims)
        asked = self.add(frontend.ClassifyOp(self.dice.choice(frontend.CLASSES), given))
        if self.dice.random() < 0.7:
            asked = self.add(frontend.CompareOp("gt", given, self.number(0.5)))
        return self.f32(self.add(frontend.ReduceOp(name, asked, axes, keepdims=keep)))

    def pool(self, x: SSAValue) -> SSAValue:
        """Windows along up to three axes, with room enough for one whatever the sizes are."""
        rank = tensor_of(x).rank
        axes = sorted(self.dice.sample(range(rank), self.dice.randint(1, min(rank, 3))))
        size = [self.dice.randint(1, 3) for _ in axes]
        apart = [self.dice.choice((1, 1, 2)) for _ in axes]
        room: list[int] = []
        for taps, spread in zip(size, apart, strict=True):
            low = self.dice.randint(0, taps * spread)
            room += [low, max((taps - 1) * spread - low, 0) + self.dice.randint(0, 1)]
        name = self.dice.choice((*frontend.POOLINGS, "place"))
        step, ceil = [self.dice.randint(1, 3) for _ in axes], self.dice.random() < 0.3
        how: Any = {"stride": step, "padding": room, "dilation": apart, "ceil_mode": ceil}
        if name == "place":
            fn, whole = self.dice.choice(("max", "min")), self.dice.random() < 0.5
            given = self.input(tensor_of(x).dims)
            op = frontend.ArgPoolOp(fn, given, axes, size, whole=whole, element=i32, **how)
            return self.f32(self.add(op))
        counted = name == "mean" and self.dice.random() < 0.5
        if name == "l2":
            x = self.fn("tanh", x)
        op = frontend.PoolOp(name, x, axes, size, count_include_pad=counted, **how)
        # A window of nothing but padding is an infinity, or NaN.
        return self.fn("tanh", self.add(op))

    def sampled(self, x: SSAValue) -> SSAValue | None:
        """What lies in a value at the coordinates of an input, of its axes behind the second."""
        dims = list(tensor_of(x).dims)
        while len(dims) < 3:
            dims.insert(0, Dim.const(1))
        if list(tensor_of(x).dims) != dims:
            x = self.add(frontend.ReshapeOp(x, dims))
        count = len(dims) - 2
        if count > 3:
            return None
        out = [Dim.const(self.dice.randint(0, 3)) for _ in range(count)]
        grid = self.input([dims[0], *out, Dim.const(count)])
        if self.dice.random() < 0.5:
            grid = self.fn("mul", grid, self.number(2.5))
        # Four elements along three axes are more than an op takes.
        mode = self.dice.choice(("nearest", "linear", "cubic") if count < 3 else ("linear",))
        padding = self.dice.choice(PADDINGS)
        corners = self.dice.random() < 0.5
        return self.add(
            frontend.GridSampleOp(x, grid, mode=mode, padding=padding, align_corners=corners)
        )

    def dropout(self, x: SSAValue) -> SSAValue:
        """What is left of a value, by a seed and an offset that are numbers."""
        seed, offset = (
            self.add(frontend.ConstantOp(self.dice.choice(most), tensor((), kind)))
            for kind, most in ((i64, (-1, 0, 5)), (ui64, (0, 0, 3, 2**34 - 2, 2**64 - 2)))
        )
        p = self.dice.choice((0.0, 0.25, 0.5, 1.0))
        return self.add(frontend.DropoutOp(x, seed, offset, p))

    def scan(self, x: SSAValue) -> SSAValue:
        """A scan along an axis, which keeps small values so where it is a maximum or a minimum, and
        otherwise of values over the axis's size, or near 1."""
        axis = self.dice.randrange(tensor_of(x).rank)
        ways = {"reverse": self.dice.random() < 0.4, "exclusive": self.dice.random() < 0.3}
        fn = self.dice.choice(("max", "min", "prod", "sum", "sum"))
        if fn in ("max", "min"):
            # What an exclusive one begins with is no number.
            return self.add(frontend.ScanOp(fn, x, axis, reverse=ways["reverse"]))
        by = 8.0 if fn == "sum" else 16.0
        small = self.fn("mul", x, self.number(1 / by))
        if fn == "prod":
            small = self.fn("add", self.fn("tanh", small), self.number(1.0))
        return self.add(frontend.ScanOp(fn, small, axis, **ways))

    def resize(self, x: SSAValue) -> SSAValue | None:
        """Axes with more elements, or fewer of a part of them; of numbers also any."""
        dims, rank = tensor_of(x).dims, tensor_of(x).rank
        axes = sorted(self.dice.sample(range(rank), self.dice.randint(1, min(rank, 2))))
        sizes: list[Dim] = []
        for axis in axes:
            if (known := dims[axis].constant()) is not None:
                sizes.append(Dim.const(self.dice.randint(min(known, 1), 3 * known)))
            else:
                sizes.append(dims[axis] * self.dice.choice((2, 2, 3)))
        coordinates = ["half_pixel", "pytorch_half_pixel", "asymmetric"]
        rounding = self.dice.choice(("round_prefer_floor", "round_prefer_ceil"))
        choice = self.dice.choice(coordinates)
        if choice == "asymmetric":
            rounding = "floor"
        if all(dims[axis].constant() is not None for axis in axes):
            choice = self.dice.choice(frontend.COORDINATES)
            rounding = self.dice.choice(frontend.ROUNDINGS)
            if self.dice.random() < 0.4:
                mode = self.dice.choice(("linear", "cubic"))
                return self.add(frontend.ResizeOp(x, axes, sizes, mode=mode, coordinates=choice))
        op = frontend.ResizeOp(x, axes, sizes, coordinates=choice, rounding=rounding)
        return self.add(op)

    def gather(self, x: SSAValue) -> SSAValue:
        """Elements at indices of an input, some of which are outside."""
        dims, rank = tensor_of(x).dims, tensor_of(x).rank
        fill = self.dice.choice((None, None, 0.0, -1.5))
        from_end = self.dice.random() < 0.5
        element = self.dice.choice((i32, i64, i64, i8, ui8))
        axis = self.dice.randrange(rank)
        match self.dice.randrange(3):
            case 0:
                shape = self.dice.choice(((), ("N",), ("N",), (2, "M")))
                at = self.input(shape, element)
                return self.add(frontend.GatherOp(x, at, axis, fill, from_end=from_end))
            case 1:
                count = self.dice.choice((Dim.sym("N"), Dim.const(3)))
                at = self.input((*dims[:axis], count, *dims[axis + 1 :]), element)
                return self.add(frontend.GatherElementsOp(x, at, axis, fill, from_end=from_end))
            case _:
                batch = self.dice.randrange(rank)
                count = self.dice.randint(1, rank - batch)
                tuples = self.dice.choice(((), ("N",), ("M", 2)))
                at = self.input((*dims[:batch], *tuples, count), element)
                return self.add(frontend.GatherNdOp(x, at, batch, fill, from_end=from_end))

    def scatter(self, x: SSAValue) -> SSAValue:
        """Updates at indices of an input, some of which are outside, and some alike."""
        dims, rank = tensor_of(x).dims, tensor_of(x).rank
        kind, axis = self.dice.randrange(3), self.dice.randrange(rank)
        match kind:
            case 0:
                shape: Sequence[Dim | int | str] = self.dice.choice(((), ("N",), (2, "M")))
            case 1:
                shape = (
                    *dims[:axis],
                    self.dice.choice((Dim.sym("N"), Dim.const(3))),
                    *dims[axis + 1 :],
                )
            case _:
                axis = self.dice.randrange(rank)
                count = self.dice.randint(1, rank - axis)
                shape = (*dims[:axis], *self.dice.choice(((), ("N",), ("M", 2))), count)
        made = (frontend.ScatterOp, frontend.ScatterElementsOp, frontend.ScatterNdOp)[kind]
        at = self.input(shape, self.dice.choice((i32, i64, i64, i8, ui8)))
        updates = self.input(made.GATHER.shape(dims, tensor_of(at).dims, axis))
        fn = self.dice.choice(("set", "add", "add", "max", "min", "mul"))
        if fn == "mul":
            updates = self.fn("tanh", updates)
        return self.add(made(fn, x, at, updates, axis, from_end=self.dice.random() < 0.5))

    def place(self, x: SSAValue) -> SSAValue | None:
        """Where the extreme of an input is along an axis, or at times of a value."""
        dims = tensor_of(x).dims
        axis = self.dice.randrange(len(dims))
        if dims[axis].constant() == 0:
            return None
        given = x if self.dice.random() < 0.2 else self.input(dims)
        op = frontend.ArgReduceOp(
            self.dice.choice(frontend.EXTREMES),
            given,
            axis,
            keepdims=self.dice.random() < 0.5,
            last=self.dice.random() < 0.3,
            element=self.dice.choice((i32, i64)),
        )
        return self.f32(self.add(op))

    def ordered(self, x: SSAValue) -> SSAValue:
        """An axis of a value in its order, or an input's places in it; or the first of them."""
        dims = tensor_of(x).dims
        axis = self.dice.randrange(len(dims))
        known = dims[axis].constant()
        first = None if known is None else Dim.const(self.dice.randint(min(known, 1), known))
        places = self.dice.random() < 0.4
        op = frontend.SortOp(
            self.input(dims) if places else x, axis, first, descending=self.dice.random() < 0.5
        )
        self.add(op)
        return self.f32(op.places) if places else op.values

    def softmax(self, x: SSAValue) -> SSAValue:
        kind = self.dice.choice((frontend.SoftmaxOp, frontend.LogSoftmaxOp))
        return self.add(kind(x, self.axes(tensor_of(x).rank)))

    def norm(self, x: SSAValue) -> SSAValue:
        axes = self.axes(tensor_of(x).rank)
        sizes = [tensor_of(x).dims[a] for a in axes]
        weight = (
            self.input(sizes, self.dice.choice((f16, f32))) if self.dice.random() < 0.5 else None
        )
        if self.dice.random() < 0.5:
            return self.add(frontend.RmsNormOp(x, axes, 0.25, weight=weight))
        bias = self.input(sizes) if self.dice.random() < 0.5 else None
        return self.add(frontend.LayerNormOp(x, axes, 0.25, weight=weight, bias=bias))

    # Movements

    def pad(self, x: SSAValue) -> SSAValue:
        dims = tensor_of(x).dims
        low, high = ([self.dice.choice((0, 0, 1, 2)) for _ in dims] for _ in range(2))
        return self.add(frontend.PadOp(x, low, high, self.dice.choice((0.0, 1.5, -1.0))))

    def expand(self, x: SSAValue) -> SSAValue:
        dims, rank = tensor_of(x).dims, tensor_of(x).rank
        at = self.dice.randint(0, rank)
        size = self.dice.choice((Dim.const(1), Dim.const(2), Dim.sym("N"), Dim.sym("M")))
        kept = [i + (i >= at) for i in range(rank)]
        kind = tensor([*dims[:at], size, *dims[at:]], f32)
        return self.add(frontend.ExpandOp(x, kept, kind))

    def permute(self, x: SSAValue) -> SSAValue:
        order = list(range(tensor_of(x).rank))
        self.dice.shuffle(order)
        return self.add(frontend.PermuteOp(x, order))

    def slice(self, x: SSAValue) -> SSAValue:
        """Of a padded value, so that every range is inside."""
        dims = tensor_of(x).dims
        room = [(self.dice.randint(0, 2), self.dice.randint(0, 2)) for _ in dims]
        padded = frontend.PadOp(x, [a for a, _ in room], [b for _, b in room], 0.5)
        rows = list(zip(dims, room, strict=True))
        return self.add(
            frontend.SliceOp(
                self.add(padded),
                [self.dice.randint(0, a) for a, _ in room],
                [d + a + self.dice.randint(0, b) for d, (a, b) in rows],
                [self.dice.choice((1, 1, 2, 3)) for _ in dims],
            )
        )

    def concat(self, x: SSAValue) -> SSAValue:
        like = [v for v in self.values if tensor_of(v).dims == tensor_of(x).dims]
        parts = [self.dice.choice(like) for _ in range(self.dice.randint(1, 3))]
        return self.add(frontend.ConcatOp(parts, self.dice.randrange(tensor_of(x).rank)))

    def unit(self, x: SSAValue) -> SSAValue:
        dims = list(tensor_of(x).dims)
        dims.insert(self.dice.randint(0, len(dims)), Dim.const(1))
        return self.add(frontend.ReshapeOp(x, dims))

    def merge(self, x: SSAValue) -> SSAValue:
        """Two neighbouring axes as one; by symbols too."""
        dims = list(tensor_of(x).dims)
        at = self.dice.randrange(len(dims) - 1)
        self.whole.append((dims[at] * dims[at + 1], dims[at], dims[at + 1]))
        dims[at : at + 2] = [self.whole[-1][0]]
        return self.add(frontend.ReshapeOp(x, dims))

    def split(self, x: SSAValue) -> SSAValue | None:
        """An axis that a merge made, or that happens to have its size, apart again."""
        dims = list(tensor_of(x).dims)
        found = [(i, w) for i, d in enumerate(dims) for w in self.whole if w[0] == d]
        if not found:
            return None
        at, (_, *parts) = self.dice.choice(found)
        dims[at : at + 1] = parts if self.dice.random() < 0.8 else parts[::-1]
        return self.add(frontend.ReshapeOp(x, dims))

    # Products

    def gemm(self, x: SSAValue) -> SSAValue:
        """A value by itself, transposed."""
        return self.add(frontend.GemmOp(x, x, transpose_b=True))

    def product(self, x: SSAValue) -> SSAValue:
        """A matrix product of inputs, or of a value and a weight; batches of 1 stretch."""
        element = self.dice.choice((f16, bf16, f32))
        turned = [self.dice.random() < 0.5 for _ in range(2)]
        batch = self.dice.choice(((), ("K",), (2, "K")))
        left = [*batch, *(("N", "M") if turned[0] else ("M", "N"))]
        right = [*(1 if self.dice.random() < 0.3 else s for s in batch)]
        right += ["K", "N"] if turned[1] else ["N", "K"]
        if self.dice.random() < 0.2:
            right = right[-2:]
        a, b = self.input(left, element), self.input(right, element)
        shape = (*batch, "M", "K")
        flags: dict[str, Any] = {"transpose_a": turned[0], "transpose_b": turned[1]}
        made = self.add(frontend.GemmOp(a, b, result_type=tensor(shape, f32), **flags))
        return self.fn("tanh", made) if self.dice.random() < 0.3 else made

    def one_product(self) -> ModuleOp:
        """A matrix product with elementwise work after it, which one kernel of tiles computes."""
        element = self.dice.choice((f16, bf16))
        turned = [self.dice.random() < 0.5 for _ in range(2)]
        self.inputs = [
            tensor(("K", "M") if turned[0] else ("M", "K"), element),
            tensor(("N", "K") if turned[1] else ("K", "N"), element),
            tensor(("N",), element),
        ]
        self.graph = GraphOp("f", self.inputs, [])
        a, b, bias = self.graph.body.block.args
        product = frontend.GemmOp(a, b, transpose_a=turned[0], transpose_b=turned[1])
        value = self.add(product)
        for _ in range(self.dice.randint(0, 3)):
            if self.dice.random() < 0.3:
                value = self.fn("add", value, bias)
            else:
                value = self.fn(self.dice.choice(TAME), value)
        self.add_output([value])
        body = self.graph.detach_region(self.graph.body)
        return ModuleOp([GraphOp("f", self.inputs, [value.type], body)])

    def conv2d(self, x: SSAValue) -> SSAValue:
        """Stride, padding, dilation, groups and both layouts, of an image large enough."""
        return self.convolution(frontend.Conv2dOp)

    def conv(self, x: SSAValue) -> SSAValue:
        """The same along one axis or three."""
        return self.convolution(self.dice.choice((frontend.Conv1dOp, frontend.Conv3dOp)))

    def convolution(self, kind: type[frontend.ConvOp]) -> SSAValue:
        layout = self.dice.choice(frontend.LAYOUTS_OF[kind.COUNT])
        element = self.dice.choice((f16, f32))
        groups = self.dice.choice((1, 1, 2))
        taps = [self.dice.randint(1, 3), self.dice.randint(1, 2), 2][: kind.COUNT]
        dilation = [self.dice.randint(1, 2), 1, 1][: kind.COUNT]
        padding = [self.dice.choice((0, 1, 2)) for _ in range(2 * kind.COUNT)]
        sizes: list[Dim | int | str] = [
            Dim.sym(name) + spread * (count - 1)
            for name, spread, count in zip("MNK", dilation, taps, strict=False)
        ]

        def laid(
            a: Dim | int | str, b: Dim | int | str, rest: Sequence[Dim | int | str]
        ) -> list[Dim | int | str]:
            return [a, *rest, b] if layout.endswith("c") else [a, b, *rest]

        image = self.input(laid(self.dice.choice((1, "K")), 2 * groups, sizes), element)
        weight = self.input(laid(3 * groups, 2, taps), element)
        op = kind(
            image,
            weight,
            layout=layout,
            stride=[self.dice.randint(1, 2) for _ in taps],
            padding=padding,
            dilation=dilation,
            groups=groups,
        )
        return self.f32(self.add(op))

    def transposed(self, x: SSAValue) -> SSAValue:
        """A transposed convolution, which cuts no more than it has."""
        kinds = (frontend.ConvTranspose1dOp, frontend.ConvTranspose2dOp, frontend.ConvTranspose3dOp)
        kind = self.dice.choice((*kinds[:2], *kinds))
        layout = self.dice.choice(frontend.LAYOUTS_OF[kind.COUNT])
        element = self.dice.choice((f16, f32))
        groups = self.dice.choice((1, 1, 2))
        taps = [self.dice.randint(1, 4), self.dice.randint(1, 3), 2][: kind.COUNT]
        stride = [self.dice.choice((1, 2, 2, 3)) for _ in taps]
        dilation = [self.dice.choice((1, 1, 2)) for _ in taps]
        padding: list[int] = []
        for count, spread in zip(taps, dilation, strict=True):
            low = self.dice.randint(0, (count - 1) * spread)
            padding += [low, self.dice.randint(0, (count - 1) * spread - low)]
        sizes = [Dim.sym(name) + 1 for name in "MNK"[: kind.COUNT]]

        def laid(a: int | str, rest: Sequence[Dim | int], b: int) -> list[Dim | int | str]:
            return [a, *rest, b] if layout.endswith("c") else [a, b, *rest]

        op = kind(
            self.input(laid(self.dice.choice((1, "K")), sizes, 2 * groups), element),
            self.input(laid(2 * groups, taps, 3), element),
            layout=layout,
            stride=stride,
            padding=padding,
            output_padding=[self.dice.choice((0, 0, 1)) for _ in taps],
            dilation=dilation,
            groups=groups,
        )
        return self.f32(self.add(op))

    def attention(self, x: SSAValue) -> SSAValue:
        """Scale, causal, window, masks of both kinds, shared heads."""
        element = self.dice.choice((f16, bf16, f32))
        heads, keys = self.dice.choice(((2, 2), (4, 2), (2, 1), ("K", "K")))
        q = self.input(["M", heads, "N", 4], element)
        k = self.input(["M", keys, "K", 4], element)
        v = self.input(["M", keys, "K", 3], element)
        masks: list[SSAValue] = []
        for kind in (i1, f32):
            if self.dice.random() < 0.3:
                shape = self.dice.choice((("N", "K"), (1, "K"), ("M", 1, "N", "K"), ("K",)))
                masks.append(self.input(shape, kind))
        op = frontend.AttentionOp(
            q,
            k,
            v,
            masks,
            scale=self.dice.choice((None, 0.5)),
            causal=self.dice.random() < 0.5,
            window=self.dice.choice((None, None, (1, 0), (2, 1))),
            offset=self.dice.choice((None, None, Dim.const(1), Dim.sym("K") - Dim.sym("N"))),
        )
        return self.f32(self.add(op))
