"""Random graphs in the shape of models: products and what stands around them, from a seed.

One to four pieces follow each other: products with what follows them, SwiGLU with two weights or a
packed one, low-rank additions, gates of experts, dequantised weights, norms, attention with its
projections, of its own ops or over pages, convolutions, pooling, squeeze-excite, and movements
between them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import AttentionOp, GraphOp, tensor, tensor_of
from polyc.test.fuzz.random_programs import Maker, RandomProgram

ALIGNED = (8, 16, 16, 24, 32, 32, 40, 64, 64, 72, 128, 136)
ODD = (9, 13, 33, 50, 70)
ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid", "hard_swish", "mish", "elu")


def drawn(dice: random.Random) -> RandomProgram:
    """A program of one to four pieces."""
    model = Model(dice)
    x = model.start()
    for _ in range(dice.choice((0, 0, 0, 1, 1, 1, 2, 3))):
        x = model.piece(x)
    return RandomProgram(model.closed_with(x), model.found)


class Model(Maker):
    """A graph that grows by pieces; ``found`` are the sizes of its symbols."""

    def __init__(self, dice: random.Random) -> None:
        self.found: dict[str, int] = {}
        super().__init__(dice, self.found, ())
        self.element: Attribute = dice.choice((f16, f16, f16, f16, bf16, bf16, bf16, bf16, f32))
        self.more: list[SSAValue] = []
        """Values that may be outputs beside the last."""
        self.parameters = 0

    # Sizes and small parts

    def often(self, chance: float) -> bool:
        return self.dice.random() < chance

    def size(self, value: int, symbolic: float = 0.65) -> Dim:
        """A size that is a constant or a symbol, maybe one that is there and happens to fit."""
        if not self.often(symbolic):
            return Dim.const(value)
        for name, other in self.found.items():
            if other == value and self.often(0.5):
                return Dim.sym(name)
        name = "MNKLPQRSTUVW"[len(self.found)] if len(self.found) < 12 else "M"
        if name in self.found:
            return Dim.const(value)
        self.found[name] = value
        return Dim.sym(name)

    def features(self) -> Dim:
        return self.size(self.dice.choice(ALIGNED if self.often(0.8) else ODD))

    def tokens(self) -> Dim:
        value = self.dice.choice((self.dice.randint(1, 70), self.dice.choice((1, 8, 16, 32, 64))))
        return self.size(value, 0.95)

    def fn(self, name: str, *args: SSAValue) -> SSAValue:
        """A function in the element type of its first operand, to which others are cast."""
        kind = tensor_of(args[0]).element_type
        return super().fn(name, *(self.of(x, kind) for x in args))

    def of(self, x: SSAValue, kind: Attribute) -> SSAValue:
        if tensor_of(x).element_type == kind:
            return x
        if isinstance(x.owner, frontend.ConstantOp):
            return self.add(frontend.ConstantOp(x.owner.number, tensor((), kind)))
        return self.add(frontend.CastOp(x, kind))

    def weight(self, *shape: Dim | int) -> SSAValue:
        """An input; a third of those with sizes that are numbers are of a parameter file."""
        kind = tensor(shape, self.element)
        number = len(self.inputs) + self.parameters
        if number % 3 == 0 and all(size.constant() is not None for size in kind.dims):
            self.parameters += 1
            return self.add(frontend.ParameterOp(f"layer.{number}/weight", kind))
        return self.input(shape, self.element)

    def stored(self, x: SSAValue) -> SSAValue:
        """``x`` in the element type of products."""
        return self.of(x, self.element)

    def matmul(self, a: SSAValue, b: SSAValue, *, turned: bool = False) -> SSAValue:
        """The product with the batch of ``a``; its type is wide at times."""
        left, right = tensor_of(a).dims, tensor_of(b).dims
        kind = f32 if self.often(0.2) else self.element
        shape = (*left[:-1], right[-2 if turned else -1])
        made = frontend.GemmOp(a, b, transpose_b=turned, result_type=tensor(shape, kind))
        return self.add(made)

    def linear(self, x: SSAValue, size: Dim | None = None) -> SSAValue:
        """A product with a weight, as it is stored or transposed; one for each batch at times."""
        x, turned = self.stored(x), self.often(0.5)
        dims, out = tensor_of(x).dims, size or self.features()
        batch = dims[:-2] if self.often(0.2) else ()
        matrix = (out, dims[-1]) if turned else (dims[-1], out)
        return self.matmul(x, self.weight(*batch, *matrix), turned=turned)

    def ended(self, x: SSAValue, *skips: SSAValue) -> SSAValue:
        """Bias, activation, scale and residuals after a product, each at times."""
        if self.often(0.5):
            x = self.fn("add", x, self.weight(tensor_of(x).dims[-1]))
        if self.often(0.5):
            x = self.fn(self.dice.choice(ACTIVATIONS), x)
        if self.often(0.1):
            x = self.fn("mul", x, self.number(self.dice.choice((0.5, 0.125, 3.0))))
        for skip in skips:
            if tensor_of(skip).dims == tensor_of(x).dims and self.often(0.7):
                x = self.fn("add", *self.dice.sample((x, skip), 2))
        return x

    # Where a model starts

    def start(self) -> SSAValue:
        names = ("rows", "rows", "rows", "product", "product", "batches", "heads", "heads", "image")
        return getattr(self, f"from_{self.dice.choice(names)}")()

    def from_rows(self) -> SSAValue:
        return self.dense(self.weight(self.tokens(), self.features()))

    def from_batches(self) -> SSAValue:
        batch = self.size(self.dice.randint(1, 3), 0.5)
        return self.piece(self.weight(batch, self.tokens(), self.features()))

    def from_product(self) -> SSAValue:
        """Both operands stored in either order, what follows, and a residual of its own."""
        m, n, k = self.tokens(), self.features(), self.features()
        turned = [self.often(0.5) for _ in range(2)]
        batch = (self.size(2),) if self.often(0.2) else ()
        a = self.weight(*batch, *((k, m) if turned[0] else (m, k)))
        b = self.weight(*batch, *((n, k) if turned[1] else (k, n)))
        op = frontend.GemmOp(a, b, transpose_a=turned[0], transpose_b=turned[1])
        skips = [self.input((*batch, m, n), self.element)] if self.often(0.4) else []
        return self.ended(self.add(op), *skips)

    def from_heads(self) -> SSAValue:
        """Attention of inputs that are heads already, or of a cache in pages."""
        if self.often(0.25):
            return self.from_pages()
        batch = (self.size(self.dice.randint(1, 2)),) if self.often(0.3) else ()
        heads = self.dice.randint(1, 2)
        keys = self.size(heads, 0.3)
        queries = keys * self.dice.choice((1, 1, 2))
        d = Dim.const(self.dice.choice((16, 32, 64, 64, 128, 8, 24)))
        e = d if self.often(0.85) else Dim.const(self.dice.choice((16, 32, 64)))
        m = self.tokens()
        n = m if self.often(0.5) else self.tokens()
        q = self.weight(*batch, queries, m, d)
        k, v = self.weight(*batch, keys, n, d), self.weight(*batch, keys, n, e)
        if queries == keys and self.often(0.3):
            return self.explicit(q, k, v)
        return self.attended(q, k, v)

    def from_pages(self) -> SSAValue:
        """Few queries over a cache in pages that a table picks, of lengths at times."""
        batch, keys = self.size(self.dice.randint(1, 3)), self.dice.randint(1, 2)
        d, page = self.dice.choice((16, 32, 40, 64)), self.dice.choice((1, 4, 8, 16, 16, 24, 32))
        element = self.dice.choice((i32, i64))
        pages = self.size(self.dice.randint(1, 40 // page + 1))
        table, pool = self.input((batch, pages), element), self.size(self.dice.randint(1, 6))
        fill, from_end = self.dice.choice((None, None, 0.0, -1.5)), self.often(0.3)
        outside = self.often(0.5)
        shape = (keys, page) if outside else (page, keys)
        n = pages * page

        def rows() -> SSAValue:
            cache = self.input((pool, *shape, d), self.element)
            op = frontend.GatherOp(cache, table, 0, fill, from_end=from_end)
            found = self.add(op)
            if outside:
                found = self.add(frontend.PermuteOp(found, (0, 2, 1, 3, 4)))
                return self.add(
                    frontend.ReshapeOp(found, [batch, Dim.const(keys), n, Dim.const(d)])
                )
            found = self.add(frontend.ReshapeOp(found, [batch, n, Dim.const(keys), Dim.const(d)]))
            return self.add(frontend.PermuteOp(found, (0, 2, 1, 3)))

        m = self.size(self.dice.choice((1, 1, 3)), 0.2)
        q = self.weight(batch, keys * self.dice.choice((1, 2, 4)), m, d)
        masks: list[SSAValue] = []
        if self.often(0.5):
            place = self.add(frontend.IotaOp(tensor((n,), element), 0))
            length = self.input((batch, 1, 1, 1), element)
            how = self.dice.choice(("lt", "le", "ge"))
            masks.append(self.add(frontend.CompareOp(how, place, length)))
        return self.attended(q, rows(), rows(), masks)

    def from_image(self) -> SSAValue:
        """One or two convolutions, and their pixels as rows or their mean; or patches."""
        layout = "nchw" if self.often(0.4) else "nhwc"
        image = self.size(self.dice.randint(1, 2))
        if self.often(0.15):
            return self.in_patches(image, layout)
        pixels = [self.size(self.dice.randint(3, 7), 0.7) for _ in range(2)]
        channels = self.size(self.dice.choice((8, 16, 32, 40, 3)), 0.3)
        x = self.weight(image, *self.laid(layout, pixels, channels))
        for _ in range(self.dice.choice((1, 1, 2))):
            x = self.convolved(x, layout)
            if self.often(0.2):
                x = self.shrunk(x, layout)
        dims = tensor_of(x).dims
        match self.dice.randrange(3):
            case 0:
                return x
            case 1 if layout == "nhwc":
                return self.add(frontend.ReshapeOp(x, [dims[0] * dims[1] * dims[2], dims[3]]))
            case 1:
                return self.add(frontend.ReshapeOp(x, [dims[0], dims[1], dims[2] * dims[3]]))
            case _:
                return self.reduced("mean", x, *((2, 3) if layout == "nchw" else (1, 2)))

    @staticmethod
    def laid(layout: str, pixels: Sequence[Dim | int], channels: Dim) -> list[Dim | int]:
        """Rows, columns and channels in the order of a layout."""
        return [channels, *pixels] if layout == "nchw" else [*pixels, channels]

    def in_patches(self, image: Dim, layout: str) -> SSAValue:
        """Windows that lie side by side."""
        step, channels = self.dice.choice((2, 4)), Dim.const(3)
        pixels = [step * self.dice.randint(1, 3) for _ in range(2)]
        x = self.weight(image, *self.laid(layout, pixels, channels))
        weight = self.weight(self.features(), *self.laid(layout, [step, step], channels))
        op = frontend.Conv2dOp(x, weight, layout=layout, stride=(step, step))
        return self.add(op)

    def shrunk(self, x: SSAValue, layout: str) -> SSAValue:
        """Windows of three by three, every second one."""
        name = self.dice.choice(("max", "max", "mean", "l2"))
        axes = (2, 3) if layout == "nchw" else (1, 2)
        return self.add(frontend.PoolOp(name, x, axes, [3, 3], stride=[2, 2], padding=[1] * 4))

    def convolved(self, x: SSAValue, layout: str) -> SSAValue:
        x = self.stored(x)
        taps = self.dice.choice((1, 1, 3))
        inner = tensor_of(x).dims[layout.index("c")]
        groups = self.dice.choice((1, 1, 1, 2, 4))
        out = inner if self.often(0.3) else self.size(self.dice.choice((8, 16, 40, 64, 12)), 0.3)
        if any(
            size.constant() is None or size.mod(groups) != Dim.const(0) for size in (inner, out)
        ):
            groups = 1
        step, apart = self.dice.choice((1, 1, 2)), self.dice.choice((1, 1, 2)) if taps > 1 else 1
        room = apart * (taps // 2)
        op = frontend.Conv2dOp(
            x,
            self.weight(out, *self.laid(layout, [taps, taps], inner.floordiv(groups))),
            layout=layout,
            stride=(step, step),
            padding=[room] * 4,
            dilation=(apart, apart),
            groups=groups,
        )
        return self.ended(self.add(op), x)

    # Pieces

    def piece(self, x: SSAValue) -> SSAValue:
        """One more piece; what it makes is an output too at times."""
        rank = tensor_of(x).rank
        names = ["norm", "soft", "pooled", "moved", "gated", "recast"]
        names += ["excited", "excited"] * (rank in (3, 4))
        if rank in (2, 3):
            names += ["dense", "dense", "mlp", "swiglu", "normed", "attention", "attention"]
            names += ["packed", "lora", "experts", "dequantised", "beside", "padded"]
        made = getattr(self, self.dice.choice(names))(x)
        if self.often(0.2):
            self.more.append(made)
        return made

    def dense(self, x: SSAValue) -> SSAValue:
        size = tensor_of(x).dims[-1] if self.often(0.3) else None
        return self.ended(self.linear(x, size), x)

    def mlp(self, x: SSAValue) -> SSAValue:
        size = tensor_of(x).dims[-1] if self.often(0.6) else None
        return self.ended(self.linear(self.ended(self.linear(x)), size), x)

    def swiglu(self, x: SSAValue) -> SSAValue:
        size = self.features()
        gate = self.fn("silu", self.linear(x, size))
        product = self.fn("mul", gate, self.linear(x, size))
        return product if self.often(0.5) else self.ended(self.linear(product), x)

    def packed(self, x: SSAValue) -> SSAValue:
        """SwiGLU by one weight, whose halves are the gate and the other factor."""
        size = self.features()
        both = self.linear(x, size * 2)
        halves = [self.part(both, Dim.const(0), size), self.part(both, size, size * 2)]
        gate, other = self.dice.sample(halves, 2)
        product = self.fn("mul", self.fn("silu", gate), other)
        return product if self.often(0.5) else self.ended(self.linear(product), x)

    def part(self, x: SSAValue, start: Dim, stop: Dim) -> SSAValue:
        """From ``start`` to ``stop`` of the last axis."""
        dims = tensor_of(x).dims
        zeros = [Dim.const(0)] * (len(dims) - 1)
        step = [1] * len(dims)
        return self.add(frontend.SliceOp(x, [*zeros, start], [*dims[:-1], stop], step))

    def lora(self, x: SSAValue) -> SSAValue:
        """A product, and one of low rank beside it."""
        size = tensor_of(x).dims[-1] if self.often(0.5) else self.features()
        low = self.linear(x, Dim.const(self.dice.choice((4, 8, 16))))
        extra = self.fn("mul", self.linear(low, size), self.number(0.5))
        return self.ended(self.fn("add", *self.dice.sample((self.linear(x, size), extra), 2)), x)

    def experts(self, x: SSAValue) -> SSAValue:
        """How much of each expert a token takes: a softmax of a product."""
        scores = self.linear(x, self.size(self.dice.choice((5, 8, 16, 64)), 0.3))
        return self.add(frontend.SoftmaxOp(scores, [tensor_of(scores).rank - 1]))

    def dequantised(self, x: SSAValue) -> SSAValue:
        """A product with a weight times scales: of its rows, or of its columns."""
        x, out = self.stored(x), self.features()
        inner = tensor_of(x).dims[-1]
        scales = self.dice.choice(((out, Dim.const(1)), (inner,)))
        wide = self.fn("mul", self.weight(out, inner), self.input(scales, self.element))
        return self.ended(self.matmul(x, wide, turned=True), x)

    def beside(self, x: SSAValue) -> SSAValue:
        """A product of ``x`` and another input side by side."""
        other = self.weight(*tensor_of(x).dims[:-1], self.features())
        pair = self.dice.sample((self.stored(x), other), 2)
        return self.dense(self.add(frontend.ConcatOp(pair, tensor_of(x).rank - 1)))

    def padded(self, x: SSAValue) -> SSAValue:
        """A product with rows or columns of a number around it."""
        made = self.dense(x)
        rank = tensor_of(made).rank
        low, high = [0] * rank, [0] * rank
        axis = self.dice.choice((rank - 1, rank - 1, rank - 2))
        low[axis], high[axis] = self.dice.choice(((0, 8), (0, 1), (8, 0), (3, 5)))
        return self.add(frontend.PadOp(made, low, high, self.dice.choice((0.0, 1.0))))

    def excited(self, x: SSAValue) -> SSAValue:
        """Squeeze and excite: ``x`` times a gate of each channel, made of the channels' means."""
        dims = tensor_of(x).dims
        mean = self.reduced("mean", x, *range(1, len(dims) - 1))
        low = self.fn("relu", self.linear(mean, Dim.const(self.dice.choice((4, 8, 16)))))
        gate = self.fn("sigmoid", self.linear(low, dims[-1]))
        ones = [Dim.const(1)] * (len(dims) - 2)
        return self.fn("mul", x, self.add(frontend.ReshapeOp(gate, [dims[0], *ones, dims[-1]])))

    def norm(self, x: SSAValue) -> SSAValue:
        axis = tensor_of(x).rank - 1
        size = tensor_of(x).dims[axis]

        def maybe() -> SSAValue | None:
            return (
                self.input([size], self.dice.choice((self.element, f32)))
                if (self.often(0.6))
                else None
            )

        if self.often(0.5):
            return self.add(frontend.RmsNormOp(x, [axis], 1e-5, weight=maybe()))
        return self.add(frontend.LayerNormOp(x, [axis], 1e-5, weight=maybe(), bias=maybe()))

    def normed(self, x: SSAValue) -> SSAValue:
        return self.ended(self.linear(self.norm(x)), x)

    def soft(self, x: SSAValue) -> SSAValue:
        kind = self.dice.choice((frontend.SoftmaxOp, frontend.LogSoftmaxOp))
        return self.add(kind(x, [tensor_of(x).rank - 1]))

    def gated(self, x: SSAValue) -> SSAValue:
        """Elementwise work with another input of the same shape."""
        other = self.input(tensor_of(x).dims, self.element)
        made = self.fn(self.dice.choice(("add", "mul", "sub")), x, other)
        return self.fn(self.dice.choice(ACTIVATIONS), made)

    def recast(self, x: SSAValue) -> SSAValue:
        return self.add(frontend.CastOp(x, self.dice.choice((f16, bf16, f32))))

    def reduced(self, name: str, x: SSAValue, *axes: int) -> SSAValue:
        return self.add(frontend.ReduceOp(name, x, axes))

    def pooled(self, x: SSAValue) -> SSAValue:
        """A reduction of rows, columns or all as one more output; a part of it at times."""
        rank = tensor_of(x).rank
        axes = self.dice.choice(([rank - 1], [0], [*range(rank)]))
        made = self.add(
            frontend.ReduceOp(self.dice.choice(frontend.REDUCTIONS), x, axes, keepdims=True)
        )
        if self.often(0.5):
            return self.fn("sub", x, made)
        self.more.append(made)
        return x

    def moved(self, x: SSAValue) -> SSAValue:
        dims = tensor_of(x).dims
        last = len(dims) - 1
        match self.dice.randrange(4):
            case 0:
                other = self.input((*dims[:-1], self.features()), self.element)
                pair = self.dice.sample((self.stored(x), other), 2)
                return self.add(frontend.ConcatOp(pair, last))
            case 1 if dims[-1].evaluate(self.found) > 8:
                low, high = [Dim.const(0)] * len(dims), list(dims)
                low[-1] = Dim.const(self.dice.choice((0, 1) if dims[-1].symbols() else (0, 1, 8)))
                return self.add(frontend.SliceOp(x, low, high, [1] * len(dims)))
            case 2:
                room = [0] * last
                ends = self.dice.choice(((0, 1), (8, 0), (3, 5)))
                value = self.dice.choice((0.0, 1.0))
                return self.add(frontend.PadOp(x, [*room, ends[0]], [*room, ends[1]], value))
            case _:
                return self.permute(x)

    # Attention

    def attention(self, x: SSAValue) -> SSAValue:
        """Heads of projections of ``x``, their attention, and their features side by side."""
        x = self.stored(x)
        d, keys = self.dice.choice((8, 16, 16, 32, 64)), self.dice.randint(1, 2)
        queries = keys * self.dice.choice((1, 1, 2))
        other = x
        if self.often(0.2):
            rows = self.tokens()
            other = self.weight(*tensor_of(x).dims[:-2], rows, self.features())
        q = self.heads(self.linear(x, Dim.const(queries * d)), queries, d)
        k = self.heads(self.linear(other, Dim.const(keys * d)), keys, d)
        v = self.heads(self.linear(other, Dim.const(keys * d)), keys, d)
        explicit = queries == keys and self.often(0.3)
        made = self.explicit(q, k, v) if explicit else self.attended(q, k, v)
        rank = tensor_of(made).rank
        order = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
        turned = self.add(frontend.PermuteOp(made, order))
        dims = tensor_of(turned).dims
        merged = self.add(frontend.ReshapeOp(turned, [*dims[:-2], dims[-2] * dims[-1]]))
        return merged if self.often(0.4) else self.ended(self.linear(merged), x)

    def heads(self, x: SSAValue, count: int, d: int) -> SSAValue:
        """[.., T, count * d] as [.., count, T, d]."""
        dims = tensor_of(x).dims
        split = frontend.ReshapeOp(self.stored(x), [*dims[:-1], Dim.const(count), Dim.const(d)])
        rank = len(dims) + 1
        order = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
        return self.add(frontend.PermuteOp(self.add(split), order))

    def mask(self, shape: Sequence[Dim], additive: bool) -> SSAValue:
        """Conditions, or numbers that are added: an input, or 0 and -inf by conditions."""
        dims = [d if self.often(0.8) else Dim.const(1) for d in shape[-2:]]
        dims = [*shape[:-2], *dims] if self.often(0.3) else dims
        if not additive:
            return self.input(dims, i1)
        if self.often(0.5):
            return self.input(dims, self.dice.choice((self.element, f32)))
        condition = self.input(dims, i1)
        numbers = [self.number(0.0), self.number(float("-inf"))]
        then, otherwise = self.dice.sample(numbers, 2)
        return self.add(frontend.SelectOp(condition, then, otherwise))

    def attended(
        self, q: SSAValue, k: SSAValue, v: SSAValue, seen: Sequence[SSAValue] = ()
    ) -> SSAValue:
        m, n = tensor_of(q).dims[-2], tensor_of(k).dims[-2]
        scores = (*tensor_of(q).dims[:-1], n)
        masks = [self.mask(scores, kind) for kind in (True, False) if self.often(0.15)]
        masks = [*masks[: 2 - len(seen)], *seen] if seen else masks
        causal = self.often(0.4)
        scale = self.dice.choice((None, None, 0.5, 1.0))
        window = self.dice.choice((None, None, None, (5, 0), (20, 3)))
        offset = n - m if self.often(0.3) else None
        if offset is not None and offset.as_affine(offset.symbols()) is None:
            offset = None  # A position that multiplies symbols is refused.
        op = AttentionOp(
            q,
            k,
            v,
            masks,
            scale=scale,
            causal=causal,
            window=window,
            offset=offset,
            lse=self.often(0.2),
        )
        self.add(op)
        self.more += op.results[1:]
        return op.results[0]

    def explicit(self, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        """The same by products and a softmax."""
        scores = self.matmul(q, k, turned=True)
        if self.often(0.8):
            scores = self.fn("mul", scores, self.number(0.25))
        if self.often(0.3):
            dims = tensor_of(scores).dims[-2:]
            scores = self.fn("add", scores, self.input(dims, self.element))
        weights = self.add(frontend.SoftmaxOp(scores, [tensor_of(scores).rank - 1]))
        return self.matmul(self.stored(weights), v)

    # The end

    def closed_with(self, x: SSAValue) -> ModuleOp:
        """``x`` and others as outputs, each rounded to a stored type at times."""
        outputs = [x, *(v for v in self.more if v is not x)][:4]
        for i, value in enumerate(outputs):
            if self.often(0.3):
                outputs[i] = self.add(frontend.CastOp(value, self.dice.choice((f16, bf16, f32))))
        self.add_output(outputs)
        body = self.graph.detach_region(self.graph.body)
        return ModuleOp([GraphOp("f", self.inputs, [o.type for o in outputs], body)])
