"""Attention by hand: the ways in which people spell it of products, elementwise ops and reductions.

A ``Spelling`` is a choice at each place where they differ; ``spelling_table.py`` has many by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, f16, f32, i1
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import tensor_of
from polyc.test.support.model_programs import rope
from polyc.test.support.sketch import Size, Sketch

LEAST = -3.4028234663852886e38
"""The least finite number of f32, which masks are written with."""


@dataclass(frozen=True)
class Spelling:
    """One way to write attention of H heads; M queries, N keys, or T of both in rows of heads."""

    scale: str = "scores"
    """Where the scale is: ``scores``, ``divided`` scores, ``query``, ``rounded query``, ``key``,
    ``both`` (its root each), ``none``, ``tensor``, ``divided tensor`` and ``head`` (an input of one
    number, or of one a head), ``query tensor`` (an input of a number, of Q); ``divided query`` and
    ``rounded query``, which the user casts."""
    mask: str = ""
    """``where`` (a condition), ``where not`` (its opposite), ``add`` (a tensor), ``built`` (a sum
    of (1 - c) times a number), ``chosen`` (0 or a number is added), ``compared`` (a tensor of
    numbers that are 0 or not); none."""
    shape: Sequence[Size] = ("M", "N")
    """Of the mask."""
    kind: Attribute = f32
    """Of a mask that is added."""
    hidden: float = -math.inf
    """The score of a key that the mask hides."""
    late: bool = True
    """Whether the scale comes before the mask."""
    alibi: bool = False
    """Whether a number of each head times a distance of each pair is added."""
    cap: float = 0.0
    """The soft cap of the scores; 0 for none."""
    powers: str = "max"
    """The exponentials: ``max`` (below the maximum), ``plain`` (of the scores), ``base 2`` (e to
    the power ln 2 times what is below), ``pow`` (2 to the power of what is below), ``exponent`` (a
    scale of what is below), ``apart`` (the scale of scores and maximum each), ``guarded`` (below 0
    where the maximum is -inf), ``least`` (below the least number then), ``softmax`` and
    ``log_softmax`` (the ops)."""
    scores: Attribute | None = None
    """What the user rounds the scores to."""
    weights: Attribute | None = None
    """What the user rounds the weights to, before or after they are divided."""
    division: str = "weights"
    """What is divided by the sums: the ``weights``, the ``output`` or, by sums that the user rounds
    to f16, ``output by f16``; ``times`` and ``output times`` multiply by the reciprocal; ``rounded
    weights`` are rounded before they are divided too."""
    sums: str = "powers"
    """Of what the sums are: the exponentials, or, ``rounded``, what is multiplied by V."""
    element: Attribute = f16
    layout: str = "heads"
    """``heads`` [H, M, D], ``batch`` [B, H, M, D], ``inside`` [B, M, H, D], ``rows`` [B, T, H * D],
    ``packed`` [B, T, 3 * H * D], ``stacked`` [3, B, T, H * D], ``turned`` (K [H, D, N]), ``turned
    values`` (V so), ``shared`` (4 heads with keys and values), ``one`` (one), ``grouped`` (shared,
    by reshape)."""
    width: tuple[int, int] = (64, 64)
    """Features of Q and K, and of V."""
    factor: str = ""
    """What is done to Q and K: ``bias``, ``rope``, ``rms``, ``l2``; ``projected``, alone or before
    one of these, makes Q and K products with weights."""
    after: str = ""
    """What is done to the weights before they are rounded: ``mul`` and ``mul f32`` (times a
    tensor), ``key``, ``row``, ``head`` (times a number of each), ``number``, ``dropout`` (times 0
    or a number), ``where``; or to the output: ``gate``, ``bias``, ``residual``."""
    beside: str = ""
    """One more output: ``lse``, the ``weights``, or ``both``."""

    def module(self) -> ModuleOp:
        """The graph."""
        return _Writing(self).module()


class _Writing:
    """A graph on its way from a spelling."""

    def __init__(self, how: Spelling) -> None:
        self.how = how
        self.s = Sketch("attention", how.element)

    def module(self) -> ModuleOp:
        how, s = self.how, self.s
        q, k, v = self._operands()
        q, k = self._treated(q, "q"), self._treated(k, "k")
        scores = self._scaled_product(q, k)
        weights, total, lse = self._weights(scores)
        y = self._product(weights, v)
        if how.division.startswith("output"):
            y = s.cast(self._divide(y, total), how.element)
        y = self._merged(self._after_output(y))
        more: dict[str, SSAValue] = {}
        if how.beside in ("lse", "both"):
            more["l"] = lse
        if how.beside in ("weights", "both"):
            more["w"] = weights
        return s.done(y=y, **more)

    # Operands

    def _operands(self) -> tuple[SSAValue, SSAValue, SSAValue]:
        how, s = self.how, self.s
        d, e = how.width
        match how.layout:
            case "heads":
                return (
                    s.input("q", "H", "M", d),
                    s.input("k", "H", "N", d),
                    s.input("v", "H", "N", e),
                )
            case "turned" | "turned values":
                keys, values = [("H", "N", d), ("H", d, "N")], [("H", "N", e), ("H", e, "N")]
                own = how.layout == "turned values"
                k, v = s.input("k", *keys[not own]), s.input("v", *values[own])
                return s.input("q", "H", "M", d), k, v
            case "batch":
                shapes = (("B", "H", "M", d), ("B", "H", "N", d), ("B", "H", "N", e))
                q, k, v = (s.input(x, *shape) for x, shape in zip("qkv", shapes, strict=True))
                return q, k, v
            case "inside":
                shapes = (("B", "M", "H", d), ("B", "N", "H", d), ("B", "N", "H", e))
                given = [s.input(x, *shape) for x, shape in zip("qkv", shapes, strict=True)]
                q, k, v = (s.permute(x, 0, 2, 1, 3) for x in given)
                return q, k, v
            case "rows":
                given = [s.input(x, "B", "T", 4 * n) for x, n in zip("qkv", (d, d, e), strict=True)]
            case "packed":
                row = s.input("qkv", "B", "T", 4 * (2 * d + e))
                cuts = (0, 4 * d, 8 * d, 4 * (2 * d + e))
                given = [s.cut(row, 2, cuts[i], cuts[i + 1]) for i in range(3)]
            case "stacked":
                rows = s.input("qkv", 3, "B", "T", 4 * d)
                given = [s.reshape(s.cut(rows, 0, i, i + 1), "B", "T", 4 * d) for i in range(3)]
            case "shared" | "one":
                few = 2 if how.layout == "shared" else 1
                q, k, v = (
                    s.input("q", 8, "M", d),
                    s.input("k", few, "N", d),
                    s.input("v", few, "N", e),
                )
                return q, self._repeated(k, 8), self._repeated(v, 8)
            case "grouped":
                q = s.reshape(s.input("q", 8, "M", d), 2, 4, "M", d)
                k = s.reshape(s.input("k", 2, "N", d), 2, 1, "N", d)
                return q, k, s.reshape(s.input("v", 2, "N", e), 2, 1, "N", e)
            case _:
                raise KeyError(how.layout)
        split = [
            s.permute(s.reshape(x, "B", "T", 4, n), 0, 2, 1, 3)
            for x, n in zip(given, (d, d, e), strict=True)
        ]
        return split[0], split[1], split[2]

    def _repeated(self, x: SSAValue, heads: int) -> SSAValue:
        """Each head as many times as there are heads of Q, as ``repeat_interleave`` has it."""
        s = self.s
        few, *rest = tensor_of(x).dims
        times = heads // (few.constant() or 1)
        shape = frontend.tensor((few, Dim.const(times), *rest), tensor_of(x).element_type)
        many = s.add(frontend.ExpandOp(x, [0, 2, 3], shape))
        return s.reshape(many, heads, *rest)

    def _treated(self, x: SSAValue, name: str) -> SSAValue:
        how, s = self.how, self.s
        rank, last = tensor_of(x).rank, tensor_of(x).dims[-1]
        if how.factor.startswith("projected"):
            x = s.gemm(x, s.input(f"{name}_weight", last, last), turned=True)
        match how.factor.removeprefix("projected "):
            case "bias":
                return s.fn("add", x, s.input(f"{name}_bias", last))
            case "rope":
                rows = tensor_of(x).dims[-2]
                return rope(
                    s, x, s.input(f"{name}_cos", rows, last), s.input(f"{name}_sin", rows, last)
                )
            case "rms":
                return s.rms_norm(x, f"{name}_norm")
            case "l2":
                square = s.reduce("sum", s.fn("mul", x, x), rank - 1, keep=True)
                return s.fn("mul", x, s.fn("rsqrt", square))
            case _:
                return x

    def _after_output(self, y: SSAValue) -> SSAValue:
        s, dims = self.s, tensor_of(y).dims
        match self.how.after:
            case "gate":
                return s.fn("mul", y, s.fn("sigmoid", s.input("gate", *dims)))
            case "bias":
                return s.fn("add", y, s.input("bias", dims[-1]))
            case "residual":
                return s.fn("add", y, s.input("skip", *dims))
            case _:
                return y

    def _merged(self, y: SSAValue) -> SSAValue:
        """The heads of the output in rows, where those of Q are."""
        s, how = self.s, self.how
        if how.layout == "inside":
            return s.permute(y, 0, 2, 1, 3)
        if how.layout in ("rows", "packed", "stacked"):
            return s.reshape(s.permute(y, 0, 2, 1, 3), "B", "T", 4 * how.width[1])
        if how.layout == "grouped":
            return s.reshape(y, 8, "M", how.width[1])
        return y

    # Scores

    def _scaled_product(self, q: SSAValue, k: SSAValue) -> SSAValue:
        how, s = self.how, self.s
        root = 1 / math.sqrt(how.width[0])
        match how.scale:
            case "query":
                q = s.fn("mul", q, s.number(root))
            case "rounded query":
                q = s.cast(s.fn("mul", s.cast(q, f32), self._number(root, f32)), how.element)
            case "divided query":
                q = s.fn("div", q, s.number(1 / root))
            case "key":
                k = s.fn("mul", k, s.number(root))
            case "both":
                q = s.fn("mul", q, s.number(math.sqrt(root)))
                k = s.fn("mul", k, s.number(math.sqrt(root)))
            case "query tensor":
                q = s.fn("mul", q, s.input("scale", 1))
            case _:
                pass
        scores = self._wide_gemm(q, k)
        if how.cap:
            cap = self._number(how.cap, f32)
            scores = s.fn("mul", s.fn("tanh", s.fn("div", scores, cap)), cap)
        if how.alibi:
            slopes = s.input("slopes", tensor_of(scores).dims[-3], 1, 1, element=f32)
            distance = s.input("distance", *tensor_of(scores).dims[-2:], element=f32)
            scores = s.fn("add", scores, s.fn("mul", slopes, distance))
        if how.scores is not None and how.late:
            scores = s.cast(s.cast(scores, how.scores), f32)
        if how.late:
            return self._masked(self._scaled(scores))
        return self._scaled(self._masked(scores))

    def _wide_gemm(self, q: SSAValue, k: SSAValue) -> SSAValue:
        """The scores, in f32."""
        return self.s.gemm(q, k, turned=self.how.layout != "turned", element=f32)

    def _number(self, value: float, kind: Attribute) -> SSAValue:
        return self.s.add(frontend.ConstantOp(value, frontend.tensor((), kind)))

    def _scaled(self, scores: SSAValue) -> SSAValue:
        how, s = self.how, self.s
        root = 1 / math.sqrt(how.width[0])
        heads = tensor_of(scores).dims[-3]
        match how.scale:
            case "scores":
                return s.fn("mul", scores, self._number(root, f32))
            case "divided":
                return s.fn("div", scores, self._number(1 / root, f32))
            case "tensor":
                return s.fn("mul", scores, s.input("scale", 1, element=f32))
            case "divided tensor":
                return s.fn("div", scores, s.input("scale", 1, element=f32))
            case "head":
                return s.fn("mul", scores, s.input("scale", heads, 1, 1, element=f32))
            case _:
                return scores

    def _masked(self, scores: SSAValue) -> SSAValue:
        how, s = self.how, self.s
        kind = frontend.tensor((), f32)
        if not how.mask:
            return scores
        if how.mask == "add":
            mask = s.input("mask", *how.shape, element=how.kind)
            return s.fn("add", scores, s.cast(mask, f32) if how.kind != f32 else mask)
        hidden = s.add(frontend.ConstantOp(how.hidden, kind))
        if how.mask == "compared":
            mask = s.input("mask", *how.shape, element=how.kind)
            zero = self._number(0.0, how.kind)
            seen = s.add(frontend.CompareOp("ne", mask, zero))
            return s.add(frontend.SelectOp(seen, scores, hidden))
        mask = s.input("mask", *how.shape, element=i1)
        match how.mask:
            case "where":
                return s.add(frontend.SelectOp(mask, scores, hidden))
            case "where not":
                return s.add(frontend.SelectOp(mask, hidden, scores))
            case "built":
                one = self._number(1.0, f32)
                away = s.fn("mul", s.fn("sub", one, s.cast(mask, f32)), hidden)
                return s.fn("add", scores, away)
            case "chosen":
                zero = self._number(0.0, f32)
                return s.fn("add", scores, s.add(frontend.SelectOp(mask, zero, hidden)))
            case _:
                raise KeyError(how.mask)

    # Softmax

    def _weights(self, scores: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
        """What multiplies V, the sums of the exponentials, and their logarithms."""
        how, s = self.how, self.s
        axis = tensor_of(scores).rank - 1
        if how.powers in ("softmax", "log_softmax"):
            made = s.softmax(scores)
            if how.powers == "log_softmax":
                made = s.fn("exp", s.add(frontend.LogSoftmaxOp(scores, [axis])))
            made = self._after_weights(made)
            return self._rounded(made), made, made
        powers, top = self._powers(scores, axis)
        summed = self._rounded(powers) if how.sums == "rounded" else powers
        summed = s.cast(summed, f32) if tensor_of(summed).element_type != f32 else summed
        total = s.reduce("sum", summed, axis, keep=True)
        lse = s.fn("log", total) if top is None else s.fn("add", top, s.fn("log", total))
        if how.division in ("weights", "times"):
            powers = self._divide(powers, total)
        elif how.division == "rounded weights":
            powers = self._divide(s.cast(self._rounded(powers), f32), total)
        return self._rounded(self._after_weights(powers)), total, lse

    def _after_weights(self, weights: SSAValue) -> SSAValue:
        s, dims = self.s, tensor_of(weights).dims
        match self.how.after:
            case "mul":
                return s.fn("mul", weights, s.cast(s.input("times", *dims), f32))
            case "mul f32":
                return s.fn("mul", weights, s.input("times", *dims, element=f32))
            case "key":
                return s.fn("mul", weights, s.cast(s.input("times", dims[-1]), f32))
            case "head":
                return s.fn("mul", weights, s.input("times", dims[-3], 1, 1, element=f32))
            case "row":
                return s.fn("mul", weights, s.input("times", dims[-2], 1, element=f32))
            case "number":
                return s.fn("mul", weights, self._number(0.5, f32))
            case "dropout":
                keep = s.cast(s.input("keep", *dims, element=i1), f32)
                return s.fn("mul", s.fn("mul", weights, keep), self._number(1 / 0.9, f32))
            case "where":
                zero = self._number(0.0, f32)
                keep = s.input("keep", *dims[-2:], element=i1)
                return s.add(frontend.SelectOp(keep, weights, zero))
            case _:
                return weights

    def _rounded(self, weights: SSAValue) -> SSAValue:
        kind = self.how.weights or self.how.element
        return self.s.cast(weights, kind) if tensor_of(weights).element_type != kind else weights

    def _powers(self, scores: SSAValue, axis: int) -> tuple[SSAValue, SSAValue | None]:
        how, s = self.how, self.s
        if how.powers == "plain":
            return s.fn("exp", scores), None
        top = s.reduce("max", scores, axis, keep=True)
        if how.powers == "guarded":
            none = s.add(frontend.CompareOp("eq", top, self._number(-math.inf, f32)))
            top = s.add(frontend.SelectOp(none, self._number(0.0, f32), top))
        if how.powers == "least":
            top = s.fn("max", top, self._number(LEAST, f32))
        below = s.fn("sub", scores, top)
        match how.powers:
            case "base 2":
                return s.fn("exp", s.fn("mul", below, self._number(math.log(2), f32))), top
            case "pow":
                return s.fn("pow", self._number(2.0, f32), below), top
            case "exponent":
                return s.fn("exp", s.fn("mul", below, self._number(0.125, f32))), top
            case "apart":
                # As in exp2(s * c - m * c), which is one multiplication and addition.
                c = self._number(0.125, f32)
                return s.fn("exp", s.fn("sub", s.fn("mul", scores, c), s.fn("mul", top, c))), top
            case _:
                return s.fn("exp", below), top

    # Output

    def _divide(self, x: SSAValue, total: SSAValue) -> SSAValue:
        s, how = self.s, self.how
        if how.division == "output by f16":
            total = s.cast(total, f16)
            if tensor_of(x).element_type != f16:
                total = s.cast(total, f32)
        if how.division.endswith("times"):
            return s.fn("mul", x, s.fn("reciprocal", total))
        return s.fn("div", x, total)

    def _product(self, weights: SSAValue, v: SSAValue) -> SSAValue:
        how, s = self.how, self.s
        kind = tensor_of(weights).element_type
        if tensor_of(v).element_type != kind:
            v = s.cast(v, kind)
        y = s.gemm(weights, v, turned=how.layout == "turned values", element=f32)
        return y if how.division.startswith("output") else s.cast(y, how.element)
