"""Attention as models have it: layers of drawn sizes, masks, biases and ways to write them.

A ``Layer`` is a choice at each place where models differ, ``drawn`` makes one of a number, and
``small`` has the same choices at sizes that are played back in no time.  ``attention_spellings.py``
has the ways in which people write one softmax; here is what stands around it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.frontend import tensor_of
from polyc.test.support.sketch import Size, Sketch, dim

ELEMENTS: Mapping[str, Attribute] = {"f16": f16, "bf16": bf16, "f32": f32}
"""The types of what a layer reads, by name."""

WIDTHS = ((64, 64),) * 4 + ((128, 128),) * 2 + tuple((n, n) for n in (24, 32, 40, 48, 72, 80, 96))
UNLIKE = ((160, 160), (192, 192), (256, 256), (192, 128), (128, 64), (64, 128), (96, 64))
LENGTHS = ((128, 128), (197, 197), (512, 512), (577, 577), (1024, 1024), (1500, 1500))
CROSSED = ((1, 512), (1024, 77), (512, 1500), (4, 1024), (100, 850), (256, 64), (1, 77))
MASKS = ("causal", "offset", "window", "padding", "looked up", "added", "added f32", "per head")
"""``causal`` and ``window`` compare places, ``offset`` has a cache before the queries, ``padding``
is a condition of the keys of each sequence, ``looked up`` the same by a gather of places, as
transformers' masks are, ``added`` and ``added f32`` a tensor [B, 1, M, N], ``per head`` one
[H, M, N]."""

BIASES = ("buckets", "table", "alibi", "distance")
"""``buckets`` [N, M] look up a row of heads, as T5's, ``table`` [M * N] of them, as Swin's."""


@dataclass(frozen=True)
class Layer:
    """One layer of attention; what is left as it is has its plainest form."""

    element: str = "f16"
    batch: int = 2
    heads: int = 8
    groups: int = 8
    """Heads of keys and values, of which each serves as many of the queries' as there are more."""
    queries: int = 128
    keys: int = 128
    depth: int = 64
    """Features of Q and K."""
    width: int = 64
    """Features of V."""
    open: bool = False
    """Whether the lengths are symbols."""
    kind: str = "softmax"
    """``softmax``; ``features`` attends to features in place of positions, as XCiT does, and
    ``linear`` has a map of features in place of a softmax."""
    layout: str = "rows"
    """``rows`` [B, N, H * D], ``heads`` [B, H, N, D], ``packed`` [B, N, 3, H, D]."""
    projected: bool = False
    """Whether Q, K and V are products with weights, and the output another one."""
    biased: bool = False
    """Whether those products have biases."""
    repeat: str = "interleaved"
    """How few heads become many: ``interleaved`` copies, or ``viewed`` as groups."""
    scale: str = "scores"
    """Of the ``scores``, ``divided`` ones, the ``queries``, or ``both`` factors."""
    soft: str = "wide"
    """The softmax: ``wide`` in f32 of scores in f32, ``narrow`` in the layer's own type, ``cast``
    in f32 of scores in that."""
    masks: tuple[str, ...] = ()
    hidden: float = -math.inf
    """What a mask has where it hides a key."""
    chosen: bool = False
    """Whether masks that are conditions choose the score, or a number is added."""
    bias: str = ""
    sink: bool = False
    """Whether a number of each head is joined to the scores, and dropped behind the softmax."""
    cap: float = 0.0
    normed: str = ""
    """``cosine``, ``rms`` or ``layer`` norm of queries and keys."""
    rotary: str = ""
    """Positions by ``halves`` or ``pairs`` of features."""
    talking: bool = False
    """Whether a matrix mixes the heads' scores, and another one their weights."""
    returned: bool = False
    """Whether the weights are an output too."""
    gated: bool = False
    """Whether the output is multiplied by a gate of the input."""

    @property
    def title(self) -> str:
        """The choices that are not the plainest, in a line."""
        plain = Layer()
        said = [
            f"{one.name}={getattr(self, one.name)}"
            for one in fields(self)
            if getattr(self, one.name) != getattr(plain, one.name)
        ]
        return ", ".join(said) or "plain"

    @property
    def small(self) -> Layer:
        """The same at sizes that playback and the simulator take."""
        few = min(self.groups, 2)
        heads = few * min(self.heads // self.groups, 2)
        square = self.queries == self.keys
        keys = 20 + self.keys % 2
        queries = keys if square else min(self.queries, 9)
        return replace(
            self, batch=min(self.batch, 2), heads=heads, groups=few, queries=queries, keys=keys
        )

    @property
    def sizes(self) -> dict[str, int]:
        """Of its symbols."""
        if not self.open:
            return {}
        return {"M": self.queries, "N": self.keys}

    def module(self) -> ModuleOp:
        """The layer as a graph."""
        return _Drawing(self).module()

    # What it is worth

    @property
    def operations(self) -> float:
        """Multiplications and additions of its products, of causal attention half."""
        pairs = self.batch * self.heads * self.queries * self.keys
        if self.kind == "softmax":
            core = 2.0 * pairs * (self.depth + self.width)
            core /= 2 if "causal" in self.masks else 1
            core += 4.0 * pairs * self.heads if self.talking else 0
        else:
            core = 4.0 * self.batch * self.heads * self.keys * self.depth * self.width
        if self.projected:
            inner, hidden = self.heads * self.width, self.hidden_size
            core += 2.0 * self.batch * self.queries * hidden * (self.heads * self.depth + inner)
            core += 2.0 * self.batch * self.keys * hidden * self.groups * (self.depth + self.width)
        return core

    @property
    def steps(self) -> int:
        """What may be kernels of their own: the attention, products, norms and rotations of queries
        and of keys, a bias that is looked up, and weights that are wanted in memory or mixed."""
        found = {"softmax": 1, "features": 4, "linear": 5}[self.kind]
        found += 4 if self.projected else 0
        found += 2 if self.normed and self.kind == "softmax" else 0
        found += 2 if self.rotary else 0
        found += 1 if self.bias in ("buckets", "table") else 0
        found += 2 if self.returned else 0
        found += 3 if self.talking else 0
        return found + (1 if self.gated else 0)

    @property
    def hidden_size(self) -> int:
        """Features of a position outside of the heads."""
        return self.heads * self.width


def drawn(dice: random.Random) -> Layer:
    """One layer; its choices fit each other."""

    def often(chance: float) -> bool:
        return dice.random() < chance

    kind = dice.choice(("softmax",) * 10 + ("features", "linear"))
    depth, width = dice.choice(WIDTHS if often(0.7) else UNLIKE)
    crossed = kind == "softmax" and often(0.3)
    queries, keys = dice.choice(CROSSED if crossed else LENGTHS)
    heads = dice.choice((4, 8, 12, 16))
    groups = dice.choice((1, 2, 4)) if often(0.3) else heads
    layer = Layer(
        element=dice.choice(("f16", "f16", "bf16", "f32")),
        batch=dice.choice((1, 2, 8)),
        heads=heads,
        groups=groups,
        queries=queries,
        keys=keys,
        depth=depth,
        width=width,
        kind=kind,
        open=often(0.2),
        layout=dice.choice(("rows", "heads", "packed")),
        projected=often(0.4),
        biased=often(0.5),
        repeat=dice.choice(("interleaved", "viewed")),
        scale=dice.choice(("scores", "divided", "queries", "both")),
        soft=dice.choice(("wide", "narrow", "cast")),
        gated=often(0.1),
    )
    if depth != width or crossed or groups != heads or layer.open:
        layer = replace(layer, layout="rows" if layer.layout == "packed" else layer.layout)
    if kind != "softmax":
        return replace(
            layer, width=depth, groups=heads, normed="cosine" if kind == "features" else ""
        )
    masks = [dice.choice(MASKS)] if often(0.6) else []
    if masks and often(0.2):
        masks.append(dice.choice([mask for mask in MASKS if mask not in masks]))
    square = queries == keys
    if not square:
        masks = [mask for mask in masks if mask not in ("causal", "window")]
    if square:
        masks = [mask for mask in masks if mask != "offset"]
    return replace(
        layer,
        masks=tuple(masks),
        hidden=dice.choice((-math.inf, _least(layer.element), -10000.0)),
        chosen=often(0.5),
        bias=dice.choice(BIASES) if often(0.25) and not layer.open else "",
        sink=often(0.08),
        cap=30.0 if often(0.08) else 0.0,
        normed=dice.choice(("cosine", "rms", "layer")) if often(0.15) else "",
        rotary=dice.choice(("halves", "pairs")) if often(0.2) and depth % 4 == 0 else "",
        talking=often(0.04),
        returned=often(0.1),
    )


def _least(element: str) -> float:
    return {"f16": -65504.0, "bf16": -3.3895313892515355e38}.get(element, -3.4028234663852886e38)


class _Drawing:
    """A graph on its way from a layer."""

    def __init__(self, how: Layer) -> None:
        self.how = how
        self.s = Sketch("f", ELEMENTS[how.element])
        self.m: Size = "M" if how.open else how.queries
        self.n: Size = "N" if how.open else how.keys
        if how.open and how.queries == how.keys:
            self.n = self.m = "M"

    def module(self) -> ModuleOp:
        how, s = self.how, self.s
        x = s.input("x", how.batch, self.m, how.hidden_size) if how.projected or how.gated else None
        q, k, v = self._operands(x)
        if how.kind == "features":
            q, k, v = (s.permute(one, 0, 1, 3, 2) for one in (q, k, v))
        if how.normed:
            q, k = self._normed(q, "q"), self._normed(k, "k")
        if how.rotary:
            q, k = self._rotated(q, "q", self.m), self._rotated(k, "k", self.n)
        more: dict[str, SSAValue] = {}
        if how.kind == "linear":
            y = self._linear(q, k, v)
        else:
            weights = self._weights(q, k)
            if how.returned:
                more["weights"] = weights
            y = s.gemm(weights, self._many(v))
        if how.kind == "features":
            y = s.permute(y, 0, 1, 3, 2)
        y = s.reshape(s.permute(y, 0, 2, 1, 3), how.batch, self.m, how.heads * how.width)
        if how.gated and x is not None:
            y = s.fn("mul", y, s.fn("sigmoid", s.linear(x, "gate", how.heads * how.width)))
        if how.projected and x is not None:
            y = s.linear(y, "out", how.hidden_size, bias=how.biased)
        return s.done(y=y, **more)

    # Operands

    def _operands(self, x: SSAValue | None) -> tuple[SSAValue, SSAValue, SSAValue]:
        how, s = self.how, self.s
        d, e = how.depth, how.width
        if how.layout == "packed":
            wide = 3 * how.heads * d
            if how.projected and x is not None:
                rows = s.linear(x, "qkv", wide, bias=how.biased)
            else:
                rows = s.input("qkv", how.batch, self.m, wide)
            rows = s.permute(s.reshape(rows, how.batch, self.m, 3, how.heads, d), 2, 0, 3, 1, 4)
            shape = (how.batch, how.heads, self.m, d)
            q, k, v = (s.reshape(s.cut(rows, 0, i, i + 1), *shape) for i in range(3))
            return q, k, v
        other = x
        if how.projected and self.n != self.m:
            other = s.input("context", how.batch, self.n, how.hidden_size)
        found: list[SSAValue] = []
        of = (("q", x, self.m, how.heads, d), ("k", other, self.n, how.groups, d))
        for name, source, length, heads, size in (*of, ("v", other, self.n, how.groups, e)):
            if how.projected and source is not None:
                rows = s.linear(source, f"w{name}", heads * size, bias=how.biased)
            elif how.layout == "heads":
                found.append(s.input(name, how.batch, heads, length, size))
                continue
            else:
                rows = s.input(name, how.batch, length, heads * size)
            found.append(s.permute(s.reshape(rows, how.batch, length, heads, size), 0, 2, 1, 3))
        return found[0], found[1], found[2]

    def _many(self, x: SSAValue) -> SSAValue:
        """As many heads as the queries have."""
        how, s = self.how, self.s
        if how.groups == how.heads:
            return x
        batch, groups, length, size = tensor_of(x).dims
        many = (batch, groups, dim(how.heads // how.groups), length, size)
        kind = frontend.tensor(many, tensor_of(x).element_type)
        return s.reshape(
            s.add(frontend.ExpandOp(x, [0, 1, 3, 4], kind)), batch, how.heads, length, size
        )

    def _normed(self, x: SSAValue, name: str) -> SSAValue:
        s = self.s
        match self.how.normed:
            case "rms":
                return s.rms_norm(x, f"{name}_norm")
            case "layer":
                return s.layer_norm(x, f"{name}_norm")
            case _:
                square = s.reduce("sum", s.fn("mul", x, x), tensor_of(x).rank - 1, keep=True)
                length = s.fn("sqrt", square)
                return s.fn("div", x, s.fn("max", length, s.number(1e-4)))

    def _rotated(self, x: SSAValue, name: str, length: Size) -> SSAValue:
        how, s = self.how, self.s
        size = how.depth
        batch, heads, _, _ = tensor_of(x).dims
        half = size // 2
        if how.rotary == "halves":
            first, second = s.cut(x, 3, 0, half), s.cut(x, 3, half, size)
            turned = s.concat(3, s.fn("neg", second), first)
        else:
            pairs = s.reshape(x, batch, heads, length, half, 2)
            first, second = s.cut(pairs, 4, 0, 1), s.cut(pairs, 4, 1, 2)
            turned = s.reshape(s.concat(4, s.fn("neg", second), first), batch, heads, length, size)
        cos, sin = s.input(f"{name}_cos", length, size), s.input(f"{name}_sin", length, size)
        return s.fn("add", s.fn("mul", x, cos), s.fn("mul", turned, sin))

    # Scores and weights

    def _weights(self, q: SSAValue, k: SSAValue) -> SSAValue:
        how, s = self.how, self.s
        root = 1 / math.sqrt(how.depth)
        soft = f32 if how.soft == "wide" else s.element
        if how.scale == "queries":
            q = s.fn("mul", q, s.number(root))
        elif how.scale == "both":
            q, k = (s.fn("mul", one, s.number(math.sqrt(root))) for one in (q, k))
        scores = self._scores(q, k, soft)
        if how.scale == "scores":
            scores = s.fn("mul", scores, s.number(root, soft))
        elif how.scale == "divided":
            scores = s.fn("div", scores, s.number(1 / root, soft))
        if how.cap:
            cap = s.number(how.cap, soft)
            scores = s.fn("mul", s.fn("tanh", s.fn("div", scores, cap)), cap)
        if how.talking:
            scores = self._mixed(scores, "before")
        if how.bias:
            scores = s.fn("add", scores, self._bias(soft))
        for mask in how.masks:
            scores = self._masked(scores, mask, soft)
        if how.sink:
            batch, heads, rows, _ = tensor_of(scores).dims
            column = s.input("sinks", heads, element=soft)
            shape = frontend.tensor((batch, heads, rows, dim(1)), soft)
            column = s.add(frontend.ExpandOp(column, [1], shape))
            scores = s.concat(3, scores, column)
        if how.soft == "cast":
            scores = s.cast(scores, f32)
        weights = s.softmax(scores)
        if how.sink:
            weights = s.cut(weights, 3, 0, self.n)
        if tensor_of(weights).element_type != s.element:
            weights = s.cast(weights, s.element)
        return self._mixed(weights, "after") if how.talking else weights

    def _scores(self, q: SSAValue, k: SSAValue, soft: Attribute) -> SSAValue:
        how, s = self.how, self.s
        if how.groups == how.heads or how.repeat == "interleaved":
            k = self._many(k)
            return s.gemm(q, k, turned=True, element=soft)
        batch, heads, rows, size = tensor_of(q).dims
        share = how.heads // how.groups
        q = s.reshape(q, batch, how.groups, share, rows, size)
        k = s.reshape(k, batch, how.groups, 1, self.n, size)
        made = s.gemm(q, k, turned=True, element=soft)
        return s.reshape(made, batch, heads, rows, self.n)

    def _mixed(self, scores: SSAValue, name: str) -> SSAValue:
        """Heads of scores mixed by a matrix, as talking heads are."""
        s, how = self.s, self.how
        kind = tensor_of(scores).element_type
        moved = s.permute(scores, 0, 2, 3, 1)
        weight = s.input(f"mix_{name}", how.heads, how.heads, element=kind)
        return s.permute(s.gemm(moved, weight, element=kind), 0, 3, 1, 2)

    def _linear(self, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        """Features above 0 in place of a softmax, and their sums."""
        s = self.s
        q, k = (s.fn("add", s.fn("relu", one), s.number(0.125)) for one in (q, k))
        state = s.gemm(s.permute(k, 0, 1, 3, 2), v)
        total = s.reduce("sum", k, 2, keep=True)
        below = s.reduce("sum", s.fn("mul", q, total), 3, keep=True)
        return s.fn("div", s.gemm(q, state), below)

    # Masks and biases

    def _places(self) -> tuple[SSAValue, SSAValue]:
        """The numbers of the queries [M, 1] and of the keys [1, N]."""
        s = self.s
        rows = s.add(frontend.IotaOp(frontend.tensor((dim(self.m), dim(1)), i64), 0))
        columns = s.add(frontend.IotaOp(frontend.tensor((dim(1), dim(self.n)), i64), 1))
        return rows, columns

    def _seen(self, mask: str) -> SSAValue:
        """A condition, true where a query sees a key."""
        how, s = self.how, self.s

        def compare(name: str, a: SSAValue, b: SSAValue) -> SSAValue:
            return s.add(frontend.CompareOp(name, a, b))

        if mask == "padding":
            return s.input("kept", how.batch, 1, 1, self.n, element=i1)
        if mask == "looked up":
            return self._looked_up()
        rows, columns = self._places()
        if mask == "offset":
            before = max(how.keys - how.queries, 0)
            rows = s.fn("add", rows, s.number(before, i64))
        seen = compare("le", columns, rows)
        if mask == "window":
            least = s.fn("sub", rows, s.number(64, i64))
            seen = s.fn("and", seen, compare("gt", columns, least))
        return seen

    def _looked_up(self) -> SSAValue:
        """A mask [B, N] of numbers, gathered at the places of sequence and key."""
        how, s = self.how, self.s
        given = s.input("attention_mask", how.batch, self.n, element=i64)
        kept = s.add(frontend.CompareOp("ne", given, s.number(0, i64)))
        batch, keys = dim(how.batch), dim(self.n)
        shape = (batch, dim(1), dim(1), keys)
        parts: list[SSAValue] = []
        for axis, size in (
            (0, (batch, dim(1), dim(1), dim(1))),
            (3, (dim(1), dim(1), dim(1), keys)),
        ):
            places = s.add(frontend.IotaOp(frontend.tensor(size, i64), axis))
            places = s.add(frontend.ExpandOp(places, [0, 1, 2, 3], frontend.tensor(shape, i64)))
            parts.append(s.reshape(places, *shape, 1))
        index = s.concat(4, *parts)
        return s.add(frontend.GatherNdOp(kept, index, 0, from_end=True))

    def _masked(self, scores: SSAValue, mask: str, soft: Attribute) -> SSAValue:
        how, s = self.how, self.s
        if mask in ("added", "added f32", "per head"):
            shape: Sequence[Size] = (how.batch, 1, self.m, self.n)
            shape = (how.heads, self.m, self.n) if mask == "per head" else shape
            kind = f32 if mask == "added f32" else s.element
            added = s.input(mask.replace(" ", "_"), *shape, element=kind)
            return s.fn("add", scores, s.cast(added, soft) if kind != soft else added)
        seen, hidden = self._seen(mask), s.number(self._hidden(soft), soft)
        if how.chosen:
            return s.add(frontend.SelectOp(seen, scores, hidden))
        added = s.add(frontend.SelectOp(seen, s.number(0.0, soft), hidden))
        return s.fn("add", scores, added)

    def _hidden(self, soft: Attribute) -> float:
        return (
            max(self.how.hidden, -65504.0)
            if soft == f16 and math.isfinite(self.how.hidden)
            else self.how.hidden
        )

    def _bias(self, soft: Attribute) -> SSAValue:
        how, s = self.how, self.s
        heads = how.heads
        match how.bias:
            case "buckets":
                places = s.input("buckets", self.m, self.n, element=i64)
                rows = s.input("table", 32, heads, element=s.element)
                found = s.add(frontend.GatherOp(rows, places, 0))
                found = s.reshape(s.permute(found, 2, 0, 1), 1, heads, self.m, self.n)
            case "table":
                places = s.input("places", how.queries * how.keys, element=i64)
                rows = s.input("table", 225, heads, element=s.element)
                found = s.add(frontend.GatherOp(rows, places, 0))
                found = s.permute(s.reshape(found, self.m, self.n, heads), 2, 0, 1)
            case "alibi":
                slopes = s.input("slopes", heads, 1, 1, element=soft)
                _, columns = self._places()
                return s.fn("mul", slopes, s.cast(columns, soft))
            case _:
                slopes = s.input("slopes", heads, 1, 1, element=soft)
                rows, columns = self._places()
                away = s.cast(s.fn("abs", s.fn("sub", columns, rows)), soft)
                return s.fn("neg", s.fn("mul", slopes, away))
        return s.cast(found, soft) if soft != s.element else found
