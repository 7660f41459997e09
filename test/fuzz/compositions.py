"""Random compositions of pieces of models at a model's sizes, whole and piece by piece.

A piece takes values of f16 and makes one; what it is drawn with is fixed, so that it can stand in a
graph with others, and alone in one whose inputs are what it took.  Values are tokens [T, features],
heads [heads, T, width], images [N, H, W, channels] or the same with the channels second.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import AttentionOp, tensor_of
from polyc.test.support.model_programs import merged, rope
from polyc.test.support.sketch import Sketch

FEATURES = (1024, 2048, 4096)
WIDTHS = (64, 128)
CHANNELS = (64, 128, 256)
ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "tanh", "sigmoid")
SIZES: Mapping[str, int] = {"T": 4096, "N": 32, "H": 56, "W": 56}

Apply = Callable[["Parts", Sequence[SSAValue]], SSAValue]


class Parts(Sketch):
    """A graph whose further inputs have numbers for names."""

    def more(self, *shape: Dim | int | str) -> SSAValue:
        """One more input: a weight, or another tensor of data."""
        return self.input(f"w{len(self.names)}", *shape)

    def dense(self, x: SSAValue, size: Dim | int) -> SSAValue:
        """A product with a weight as PyTorch stores it."""
        return self.gemm(x, self.more(size, tensor_of(x).dims[-1]), turned=True)


@dataclass(frozen=True)
class Piece:
    """A piece, and the values that it takes by their numbers."""

    name: str
    takes: tuple[int, ...]
    apply: Apply
    kind: str
    """What it makes: tokens, heads, nhwc or nchw."""


@dataclass(frozen=True)
class Composition:
    """Pieces, each after what it takes; the last one's value is the output.

    Values have numbers: those of ``inputs``, given by their shapes, and then what the pieces make.
    """

    inputs: tuple[Sequence[Dim | int | str], ...]
    pieces: tuple[Piece, ...]

    @property
    def title(self) -> str:
        """The pieces by name, with what they take where it is not the value before."""
        said: list[str] = []
        for before, piece in enumerate(self.pieces, len(self.inputs) - 1):
            more = [f"{n}" for n in piece.takes if n != before]
            said.append(piece.name + (f" (of {', '.join(more)})" if more else ""))
        shapes = ", ".join(f"[{', '.join(map(str, shape))}]" for shape in self.inputs)
        return f"{shapes}: {' -> '.join(said)}"

    def whole(self) -> ModuleOp:
        """The graph of all pieces."""
        s = Parts("whole", f16)
        return s.done(y=self._values(s)[-1])

    def _values(self, s: Parts) -> list[SSAValue]:
        values = [s.input(f"x{i or ''}", *shape) for i, shape in enumerate(self.inputs)]
        for piece in self.pieces:
            values.append(piece.apply(s, [values[i] for i in piece.takes]))
        return values

    def alone(self) -> list[ModuleOp]:
        """The graph of each piece, of inputs in f16."""
        values = self._values(Parts("scratch", f16))
        found: list[ModuleOp] = []
        for piece in self.pieces:
            s = Parts("piece", f16)
            dims = [tensor_of(values[i]).dims for i in piece.takes]
            inputs = [s.input(f"x{i}", *shape) for i, shape in enumerate(dims)]
            found.append(s.done(y=piece.apply(s, inputs)))
        return found

    def part(self, start: int, stop: int) -> Composition:
        """Some pieces one after another, of inputs for what they take of the others."""
        values = self._values(Parts("scratch", f16))
        taken = self.pieces[start:stop]
        first = len(self.inputs) + start
        outside = sorted({i for piece in taken for i in piece.takes if i < first})
        numbers = {old: new for new, old in enumerate(outside)}
        numbers |= {first + i: len(outside) + i for i in range(len(taken))}
        shapes = tuple(tensor_of(values[i]).dims for i in outside)
        return Composition(
            shapes, tuple(replace(p, takes=tuple(numbers[i] for i in p.takes)) for p in taken)
        )


def composed(dice: random.Random) -> Composition:
    """Two to six pieces."""
    return _Drawing(dice).composition()


class _Drawing:
    """A composition on its way: the kinds and shapes of the values so far."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.pieces: list[Piece] = []
        self.scratch = Parts("scratch", f16)
        self.values: list[SSAValue] = []
        self.kinds: list[str] = []

    def composition(self) -> Composition:
        dice = self.dice
        kind = dice.choice(("tokens",) * 5 + ("heads", "nhwc", "nhwc", "nchw"))
        known = dice.random() < 0.3
        t, n, h, w = ("T", "N", "H", "W") if not known else SIZES.values()
        width, channels = dice.choice(WIDTHS), dice.choice(CHANNELS)
        shape: tuple[int | str, ...] = {
            "tokens": (t, dice.choice(FEATURES)),
            "heads": (4096 // width, t, width),
            "nhwc": (n, h, w, channels),
            "nchw": (n, channels, h, w),
        }[kind]
        self.values, self.kinds = [self.scratch.input("x", *shape)], [kind]
        for _ in range(dice.randint(2, 6)):
            name = dice.choice(PIECES[self.kinds[-1]])
            self.put(getattr(self, name)())
        return Composition((shape,), tuple(self.pieces))

    def put(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.values.append(piece.apply(self.scratch, [self.values[i] for i in piece.takes]))
        self.kinds.append(piece.kind)

    # What is there

    @property
    def here(self) -> int:
        return len(self.values) - 1

    @property
    def dims(self) -> Sequence[Dim]:
        return tensor_of(self.values[-1]).dims

    @property
    def few(self) -> bool:
        """Whether there are no more tokens than a sequence has; pixels are more."""
        return self.dims[0].evaluate(SIZES) <= SIZES["T"]

    def often(self, chance: float) -> bool:
        return self.dice.random() < chance

    def one(self, name: str, apply: Callable[[Parts, SSAValue], SSAValue], kind: str = "") -> Piece:
        """A piece of the last value alone."""
        return Piece(name, (self.here,), lambda s, xs: apply(s, xs[0]), kind or self.kinds[-1])

    def skip(self, shape: Sequence[Dim]) -> int | None:
        """An earlier value of a shape, for a residual."""
        found = [i for i, v in enumerate(self.values) if tensor_of(v).dims == tuple(shape)]
        return self.dice.choice(found) if found and self.often(0.5) else None

    def epilogue(self, name: str, made: Callable[[Parts, SSAValue], SSAValue], out: Sequence[Dim]):
        """A product with bias, activation and residual, each at times."""
        bias = self.often(0.5)
        act = self.dice.choice(ACTIVATIONS) if self.often(0.5) else None
        skip = self.skip(out)
        second = self.kinds[-1] == "nchw"

        def apply(s: Parts, xs: Sequence[SSAValue]) -> SSAValue:
            y = made(s, xs[0])
            if bias:
                dims = tensor_of(y).dims
                shape = (dims[1], 1, 1) if second else (dims[-1],)
                y = s.fn("add", y, s.more(*shape))
            if act is not None:
                y = s.fn(act, y)
            return y if skip is None else s.fn("add", y, xs[1])

        said = [name, *(["bias"] if bias else []), *([act] if act else [])]
        takes = (self.here,) if skip is None else (self.here, skip)
        if skip is not None:
            said.append("residual")
        return Piece(" + ".join(said), takes, apply, self.kinds[-1])

    # Pieces of any kind

    def activation(self) -> Piece:
        name = self.dice.choice(ACTIVATIONS)
        return self.one(name, lambda s, x: s.fn(name, x))

    def gate(self) -> Piece:
        """Elementwise work with another tensor of the same shape."""
        name = self.dice.choice(("add", "mul"))
        return self.one(f"{name} another", lambda s, x: s.fn(name, x, s.more(*tensor_of(x).dims)))

    def recast(self) -> Piece:
        """A function in f32, and back."""
        name = self.dice.choice(("tanh", "sigmoid"))
        return self.one(f"{name} in f32", lambda s, x: s.cast(s.fn(name, s.cast(x, f32)), f16))

    def softmax(self) -> Piece:
        return self.one("softmax", lambda s, x: s.softmax(x))

    # Of tokens

    def norm(self) -> Piece:
        if self.often(0.5):
            return self.one(
                "rms_norm",
                lambda s, x: s.add(
                    frontend.RmsNormOp(
                        x, [len(tensor_of(x).dims) - 1], 1e-5, weight=s.more(tensor_of(x).dims[-1])
                    )
                ),
            )
        return self.one(
            "layer_norm",
            lambda s, x: s.add(
                frontend.LayerNormOp(
                    x,
                    [len(tensor_of(x).dims) - 1],
                    1e-5,
                    weight=s.more(tensor_of(x).dims[-1]),
                    bias=s.more(tensor_of(x).dims[-1]),
                )
            ),
        )

    def gemm(self) -> Piece:
        size = self.dice.choice(FEATURES)
        out = (*self.dims[:-1], Dim.const(size))
        return self.epilogue(f"gemm {size}", lambda s, x: s.dense(x, size), out)

    def gated_mlp(self) -> Piece:
        """SwiGLU or its like, of two weights or a packed one."""
        size, act = self.dice.choice(FEATURES), self.dice.choice(("silu", "gelu", "sigmoid"))
        if self.often(0.3):

            def packed(s: Parts, x: SSAValue) -> SSAValue:
                both = s.dense(x, 2 * size)
                axis = len(tensor_of(x).dims) - 1
                gate = s.fn(act, s.cut(both, axis, 0, size))
                return s.fn("mul", gate, s.cut(both, axis, size, 2 * size))

            return self.one(f"packed {act} gate {size}", packed)
        return self.one(
            f"{act} gate {size}",
            lambda s, x: s.fn("mul", s.fn(act, s.dense(x, size)), s.dense(x, size)),
        )

    def concat(self) -> Piece:
        axis = len(self.dims) - 1
        axis = 1 if self.kinds[-1] == "nchw" else axis
        return self.one("concat", lambda s, x: s.concat(axis, x, s.more(*tensor_of(x).dims)))

    def pad(self) -> Piece:
        rank = len(self.dims)
        high = [0] * rank
        high[1 if self.kinds[-1] == "nchw" else -1] = 8
        return self.one("pad", lambda s, x: s.add(frontend.PadOp(x, [0] * rank, high, 0.0)))

    def centred(self) -> Piece:
        """Without the mean of the rows, or of the columns."""
        axis = self.dice.choice((0, len(self.dims) - 1))
        return self.one(
            f"minus mean of axis {axis}",
            lambda s, x: s.fn("sub", x, s.reduce("mean", x, axis, keep=True)),
        )

    def transposed(self) -> Piece:
        if self.dims[0].constant() is None:
            return self.norm()
        return self.one("transpose", lambda s, x: s.permute(x, 1, 0))

    def split(self) -> Piece:
        """Tokens as heads."""
        size = self.dims[-1].constant()
        width = self.dice.choice(WIDTHS)
        if size is None or size % width or not self.few:
            return self.gemm()

        def apply(s: Parts, x: SSAValue) -> SSAValue:
            y = s.reshape(x, tensor_of(x).dims[0], size // width, width)
            return s.permute(y, 1, 0, 2)

        return self.one(f"heads of {width}", apply, "heads")

    def attended(self) -> Piece:
        """Projections, attention and its heads merged."""
        if not self.few:
            return self.gemm()
        width, causal, masked = self.dice.choice(WIDTHS), self.often(0.5), self.often(0.2)
        size = self.dice.choice((1024, 2048))
        heads = size // width
        keys = heads // self.dice.choice((1, 1, 4))

        def apply(s: Parts, x: SSAValue) -> SSAValue:
            tokens = tensor_of(x).dims[0]

            def part(count: int) -> SSAValue:
                y = s.reshape(s.dense(x, count * width), tokens, count, width)
                return s.permute(y, 1, 0, 2)

            q, k, v = part(heads), part(keys), part(keys)
            masks = [s.more(1, tokens)] if masked else []
            return merged(s, s.add(AttentionOp(q, k, v, masks, causal=causal)))

        said = [f"attention {heads}/{keys} of {width}", *(["causal"] if causal else [])]
        return self.one(" ".join([*said, *(["masked"] if masked else [])]), apply)

    # Of heads

    def turned(self) -> Piece:
        def apply(s: Parts, x: SSAValue) -> SSAValue:
            shape = tensor_of(x).dims[1:]
            return rope(s, x, s.more(*shape), s.more(*shape))

        return self.one("rope", apply)

    def attention(self) -> Piece:
        causal = self.often(0.5)
        heads = self.dims[0].constant()
        assert heads is not None
        groups = self.dice.choice((1, 1, 4)) if heads % 4 == 0 else 1
        masked = self.often(0.2)

        def apply(s: Parts, x: SSAValue) -> SSAValue:
            shape = (heads // groups, *tensor_of(x).dims[1:])
            masks = [s.more(1, tensor_of(x).dims[1])] if masked else []
            return s.add(AttentionOp(x, s.more(*shape), s.more(*shape), masks, causal=causal))

        said = ["attention", *(["causal"] if causal else []), *(["masked"] if masked else [])]
        return self.one(" ".join([*said, *([f"groups of {groups}"] if groups > 1 else [])]), apply)

    def merge(self) -> Piece:
        return self.one("merge heads", merged, "tokens")

    # Of images

    def conv(self) -> Piece:
        first = self.kinds[-1] == "nchw"
        taps, filters = self.dice.choice((1, 3)), self.dice.choice(CHANNELS)
        channels = self.dims[1 if first else 3]
        scaled = self.often(0.5)

        def made(s: Parts, x: SSAValue) -> SSAValue:
            shape = (filters, channels, taps, taps) if first else (filters, taps, taps, channels)
            layout = "nchw" if first else "nhwc"
            room = [taps // 2] * 4
            y = s.add(frontend.Conv2dOp(x, s.more(*shape), layout=layout, padding=room))
            if scaled:
                some = (filters, 1, 1) if first else (filters,)
                y = s.fn("add", s.fn("mul", y, s.more(*some)), s.more(*some))
            return y

        out = list(self.dims)
        out[1 if first else 3] = Dim.const(filters)
        name = f"conv {taps}x{taps} {filters}" + (" + scale" if scaled else "")
        return self.epilogue(name, made, out)

    def scaled(self) -> Piece:
        """A batch norm, folded into a scale and an offset of each channel."""
        first = self.kinds[-1] == "nchw"
        channels = self.dims[1 if first else 3]
        some = (channels, 1, 1) if first else (channels,)
        return self.one(
            "scale", lambda s, x: s.fn("add", s.fn("mul", x, s.more(*some)), s.more(*some))
        )

    def pooled(self) -> Piece:
        axes = (2, 3) if self.kinds[-1] == "nchw" else (1, 2)
        return self.one("mean of pixels", lambda s, x: s.reduce("mean", x, *axes), "tokens")

    def excited(self) -> Piece:
        """Squeeze and excite."""
        first = self.kinds[-1] == "nchw"
        axes = (2, 3) if first else (1, 2)
        channels = self.dims[1 if first else 3]

        def apply(s: Parts, x: SSAValue) -> SSAValue:
            low = s.fn("relu", s.dense(s.reduce("mean", x, *axes), 16))
            gate = s.fn("sigmoid", s.dense(low, channels))
            n = tensor_of(x).dims[0]
            shape = (n, channels, 1, 1) if first else (n, 1, 1, channels)
            return s.fn("mul", x, s.reshape(gate, *shape))

        return self.one("squeeze-excite", apply)

    def pixels(self) -> Piece:
        """Pixels as tokens."""
        first = self.kinds[-1] == "nchw"

        def apply(s: Parts, x: SSAValue) -> SSAValue:
            y = s.permute(x, 0, 2, 3, 1) if first else x
            n, h, w, c = tensor_of(y).dims
            return s.reshape(y, n * h * w, c)

        return self.one("pixels as rows", apply, "tokens")


ANY = ("activation", "gate", "recast")
PIECES: Mapping[str, Sequence[str]] = {
    "tokens": (
        *("norm", "norm", "gemm", "gemm", "gemm", "gemm", "gated_mlp", "gated_mlp", "softmax"),
        *("concat", "pad", "centred", "transposed", "split", "attended", "attended", *ANY),
    ),
    "heads": ("turned", "turned", "attention", "attention", "merge", "merge", "norm", *ANY),
    "nhwc": (
        *("conv", "conv", "conv", "conv", "scaled", "pooled", "excited", "pixels", "concat", "pad"),
        *ANY,
    ),
    "nchw": ("conv", "conv", "conv", "scaled", "pooled", "excited", "pixels", "concat", *ANY),
}
"""The pieces that each kind of value can be given to; what stands twice is drawn more often."""
