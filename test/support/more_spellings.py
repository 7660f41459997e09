"""Attention as models write it by hand, where no choice of a ``Spelling`` gives it.

Each function has a name that says what is unlike, and returns the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.frontend import tensor_of
from polyc.test.support.attention_spellings import LEAST
from polyc.test.support.sketch import Size, Sketch

Weights = Callable[["Parts", SSAValue], SSAValue]
"""What makes weights of scores."""


class Parts(Sketch):
    """A sketch of attention: heads [H, M, 64] and [H, N, 64], and what is often made of scores."""

    def __init__(self) -> None:
        super().__init__("attention")
        self.more: dict[str, SSAValue] = {}

    def of_f32(self, value: float) -> SSAValue:
        return self.add(frontend.ConstantOp(value, frontend.tensor((), f32)))

    def scores(self) -> SSAValue:
        q, k = self.input("q", "H", "M", 64), self.input("k", "H", "N", 64)
        return self.fn("mul", self.gemm(q, k, turned=True, element=f32), self.of_f32(0.125))

    def top(self, x: SSAValue) -> SSAValue:
        return self.reduce("max", x, tensor_of(x).rank - 1, keep=True)

    def total(self, x: SSAValue) -> SSAValue:
        return self.reduce("sum", x, tensor_of(x).rank - 1, keep=True)

    def lse(self, x: SSAValue) -> SSAValue:
        top = self.top(x)
        return self.fn(
            "add", top, self.fn("log", self.total(self.fn("exp", self.fn("sub", x, top))))
        )

    def log_softmax(self, x: SSAValue) -> SSAValue:
        return self.add(frontend.LogSoftmaxOp(x, [tensor_of(x).rank - 1]))

    def where(self, mask: SSAValue, x: SSAValue, other: float) -> SSAValue:
        return self.add(frontend.SelectOp(mask, x, self.of_f32(other)))

    def mask(self, *shape: Size) -> SSAValue:
        return self.input("mask", *(shape or ("M", "N")), element=i1)

    def after(self, weights: SSAValue) -> ModuleOp:
        v = self.input("v", "H", "N", 64)
        if tensor_of(weights).element_type != f16:
            weights = self.cast(weights, f16)
        return self.done(y=self.gemm(weights, v), **self.more)


def _of(weights: Weights) -> Callable[[], ModuleOp]:
    """The graph whose weights are made so of scores."""

    def made() -> ModuleOp:
        s = Parts()
        return s.after(weights(s, s.scores()))

    return made


# Below the log-sum-exp -----------------------------------------------------------------


def _below_lse(s: Parts, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.fn("sub", x, s.lse(x)))


def _below_lse_beside(s: Parts, x: SSAValue) -> SSAValue:
    s.more["l"] = s.lse(x)
    return s.fn("exp", s.fn("sub", x, s.more["l"]))


def _below_lse_negated(s: Parts, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.fn("neg", s.fn("sub", s.lse(x), x)))


def _below_lse_of_two(s: Parts, x: SSAValue) -> SSAValue:
    below = s.fn("mul", s.fn("sub", x, s.lse(x)), s.of_f32(1 / math.log(2)))
    return s.fn("pow", s.of_f32(2.0), below)


def _below_plain_lse(s: Parts, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.fn("sub", x, s.fn("log", s.total(s.fn("exp", x)))))


def _log_softmax_masked(s: Parts, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.log_softmax(s.where(s.mask(), x, -math.inf)))


def _plain_beside(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", x)
    total = s.total(powers)
    s.more["l"] = s.fn("log", total)
    return s.fn("div", powers, total)


def _plain_times(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", x)
    return s.fn("mul", powers, s.fn("reciprocal", s.total(powers)))


def _below_number(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", s.fn("sub", x, s.of_f32(10.0)))
    return s.fn("div", powers, s.total(powers))


def _below_mean(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", s.fn("sub", x, s.input("shift", "H", "M", 1, element=f32)))
    return s.fn("div", powers, s.total(powers))


def _below_largest_number(s: Parts, x: SSAValue) -> SSAValue:
    """As where the maximum is kept at 0 or more."""
    powers = s.fn("exp", s.fn("sub", x, s.fn("max", s.top(x), s.of_f32(0.0))))
    return s.fn("div", powers, s.total(powers))


# More in the sum -----------------------------------------------------------------------


def _softmax_one_plain(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", x)
    return s.fn("div", powers, s.fn("add", s.total(powers), s.of_f32(1.0)))


def _softmax_one(s: Parts, x: SSAValue) -> SSAValue:
    top = s.fn("max", s.top(x), s.of_f32(0.0))
    powers = s.fn("exp", s.fn("sub", x, top))
    return s.fn("div", powers, s.fn("add", s.fn("exp", s.fn("neg", top)), s.total(powers)))


def _softmax_one_of_maximum(s: Parts, x: SSAValue) -> SSAValue:
    top = s.top(x)
    powers = s.fn("exp", s.fn("sub", x, top))
    return s.fn("div", powers, s.fn("add", s.fn("exp", s.fn("neg", top)), s.total(powers)))


def _sink(s: Parts, x: SSAValue) -> SSAValue:
    sink = s.input("sink", "H", 1, 1, element=f32)
    top = s.fn("max", s.top(x), sink)
    powers = s.fn("exp", s.fn("sub", x, top))
    rest = s.fn("exp", s.fn("sub", sink, top))
    return s.fn("div", powers, s.fn("add", s.total(powers), rest))


def _sink_joined(s: Parts, x: SSAValue) -> SSAValue:
    """A column more for the softmax, which is dropped after it."""
    dims = tensor_of(x).dims
    sink = s.input("sink", "H", 1, 1, element=f32)
    kind = frontend.tensor([*dims[:-1], frontend.tensor_of(sink).dims[-1]], f32)
    column = s.add(frontend.ExpandOp(sink, [0, 1, 2], kind))
    return s.cut(s.softmax(s.concat(2, x, column)), 2, 0, dims[-1])


def _sink_joined_below(s: Parts, x: SSAValue) -> SSAValue:
    """The same, and the maximum of both is subtracted before the softmax."""
    dims = tensor_of(x).dims
    sink = s.input("sink", "H", 1, 1, element=f32)
    kind = frontend.tensor([*dims[:-1], frontend.tensor_of(sink).dims[-1]], f32)
    both = s.concat(2, x, s.add(frontend.ExpandOp(sink, [0, 1, 2], kind)))
    return s.cut(s.softmax(s.fn("sub", both, s.top(both))), 2, 0, dims[-1])


def _subtracted_twice(s: Parts, x: SSAValue) -> SSAValue:
    return s.softmax(s.fn("sub", x, s.top(x)))


def _epsilon(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", s.fn("sub", x, s.top(x)))
    return s.fn("div", powers, s.fn("add", s.total(powers), s.of_f32(1e-6)))


# Masks ---------------------------------------------------------------------------------


def _multiplied_again(s: Parts, x: SSAValue) -> SSAValue:
    weights = s.fn("mul", s.softmax(x), s.cast(s.mask(), f32))
    return s.fn("div", weights, s.total(weights))


def _multiplied_powers(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", s.fn("sub", x, s.top(x)))
    powers = s.fn("mul", powers, s.cast(s.mask(), f32))
    return s.fn("div", powers, s.total(powers))


def _multiplied_epsilon(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.fn("mul", s.fn("exp", s.fn("sub", x, s.top(x))), s.cast(s.mask(), f32))
    return s.fn("div", powers, s.fn("add", s.total(powers), s.of_f32(1e-6)))


def _chosen_powers(s: Parts, x: SSAValue) -> SSAValue:
    powers = s.where(s.mask(), s.fn("exp", s.fn("sub", x, s.top(x))), 0.0)
    return s.fn("div", powers, s.total(powers))


def _hidden_twice(s: Parts, x: SSAValue) -> SSAValue:
    """The scores, and what comes of them: rows that see nothing are 0."""
    mask = s.mask("N")
    return s.where(mask, s.softmax(s.where(mask, x, LEAST)), 0.0)


def _clamped(s: Parts, x: SSAValue) -> SSAValue:
    bias = s.input("bias", "M", "N", element=f32)
    return s.softmax(s.fn("max", s.fn("add", x, bias), s.of_f32(LEAST)))


def _bias_and_mask(s: Parts, x: SSAValue) -> SSAValue:
    """A bias of relative positions, and padding."""
    bias = s.cast(s.input("bias", "H", "M", "N"), f32)
    return s.softmax(s.where(s.mask("N"), s.fn("add", x, bias), -math.inf))


def _two_masks(s: Parts, x: SSAValue) -> SSAValue:
    seen = s.where(s.mask(), x, LEAST)
    return s.softmax(s.fn("add", seen, s.input("padding", "N", element=f32)))


# What is looked up ---------------------------------------------------------------------


def _bias_looked_up(s: Parts, x: SSAValue) -> SSAValue:
    """A bias of positions: a row of a table, of all heads, for each query and key."""
    table, places = s.input("table", 32, "H"), s.input("places", "M", "N", element=i32)
    bias = s.permute(s.add(frontend.GatherOp(table, places, 0)), 2, 0, 1)
    return s.softmax(s.fn("add", x, s.cast(bias, f32)))


def _mask_looked_up(s: Parts, x: SSAValue) -> SSAValue:
    """A mask of texts, of which a key's is looked up."""
    mask = s.add(frontend.GatherOp(s.mask("T"), s.input("places", "N", element=i32), 0))
    return s.softmax(s.where(mask, x, -math.inf))


def _shift_of_features(s: Parts, x: SSAValue) -> SSAValue:
    """A number of each key that is a sum of its own."""
    rest = s.input("rest", "H", "N", 96, element=f32)
    total = s.reshape(s.reduce("sum", rest, 2), "H", 1, "N")
    return s.softmax(s.fn("add", x, total))


# Orders of axes ------------------------------------------------------------------------


def _keys_first() -> ModuleOp:
    """Scores [H, N, M], and a softmax over their first axis."""
    s = Parts()
    q, k, v = (s.input(n, "H", size, 64) for n, size in zip("qkv", "MNN", strict=True))
    x = s.fn("mul", s.gemm(k, q, turned=True, element=f32), s.of_f32(0.125))
    weights = s.cast(s.add(frontend.SoftmaxOp(x, [1])), f16)
    return s.done(y=s.gemm(s.permute(weights, 0, 2, 1), v))


def _output_turned() -> ModuleOp:
    """Features first: ``V^T W^T``, of values [H, 64, N]."""
    s = Parts()
    weights = s.cast(s.softmax(s.scores()), f16)
    return s.done(y=s.gemm(s.input("v", "H", 64, "N"), weights, turned=True))


def _channels_first() -> ModuleOp:
    """Images [B, 64, N], as in a network of convolutions."""
    s = Parts()
    q, k, v = (s.permute(s.input(n, "B", 64, "N"), 0, 2, 1) for n in "qkv")
    x = s.fn("mul", s.gemm(q, k, turned=True, element=f32), s.of_f32(0.125))
    y = s.gemm(s.cast(s.softmax(x), f16), v)
    return s.done(y=s.permute(y, 0, 2, 1))


def _packed(sequences: int, length: int, merged: bool, heads: int = 4) -> ModuleOp:
    """Texts of a length, whose rows have queries, keys and values of all heads beside each other.

    ``merged`` rows of all texts follow each other, as a product of matrices gives them.
    """
    s, wide = Parts(), 64 * heads
    rows = s.input("x", *((sequences * length,) if merged else (sequences, length)), 3 * wide)

    def part(number: int) -> SSAValue:
        x = s.cut(rows, 1 if merged else 2, number * wide, (number + 1) * wide)
        return s.permute(s.reshape(x, sequences, length, heads, 64), 0, 2, 1, 3)

    q, k, v = map(part, range(3))
    x = s.fn("mul", s.gemm(q, k, turned=True, element=f32), s.of_f32(0.125))
    y = s.gemm(s.cast(s.softmax(x), f16), v)
    return s.done(y=s.reshape(s.permute(y, 0, 2, 1, 3), sequences, length, wide))


def _padding() -> ModuleOp:
    """A mask [B, N] of what is padding, with heads inside."""
    s = Parts()
    q, k, v = (
        s.permute(s.input(n, "B", size, 4, 64), 0, 2, 1, 3)
        for n, size in zip("qkv", "MNN", strict=True)
    )
    x = s.fn("mul", s.gemm(q, k, turned=True, element=f32), s.of_f32(0.125))
    x = s.where(s.reshape(s.mask("B", "N"), "B", 1, 1, "N"), x, LEAST)
    y = s.gemm(s.cast(s.softmax(x), f16), v)
    return s.done(y=s.reshape(s.permute(y, 0, 2, 1, 3), "B", "M", 256))


# Types ---------------------------------------------------------------------------------


def _all_wide(weights: Weights) -> Callable[[], ModuleOp]:
    """Everything in f32 over values of f16."""

    def made() -> ModuleOp:
        s = Parts()
        q, k, v = (
            s.cast(s.input(n, "H", size, 64), f32) for n, size in zip("qkv", "MNN", strict=True)
        )
        x = s.fn("mul", s.gemm(q, k, turned=True), s.of_f32(0.125))
        return s.done(y=s.cast(s.gemm(weights(s, x), v), f16), **s.more)

    return made


def _softmax(s: Parts, x: SSAValue) -> SSAValue:
    return s.softmax(x)


def _dropped(s: Parts, x: SSAValue) -> SSAValue:
    keep = s.cast(s.mask("H", "M", "N"), f32)
    return s.fn("mul", s.fn("mul", s.softmax(x), keep), s.of_f32(1 / 0.9))


def _mixed(kinds: str) -> Callable[[], ModuleOp]:
    """Q, K and V of types of their own: ``h`` is f16, ``b`` is bf16."""

    def made() -> ModuleOp:
        s = Parts()
        types = [f16 if kind == "h" else bf16 for kind in kinds]
        q, k, v = (
            s.input(n, "H", size, 64, element=kind)
            for n, size, kind in zip("qkv", "MNN", types, strict=True)
        )
        x = s.fn("mul", s.gemm(q, k, turned=True, element=f32), s.of_f32(0.125))
        weights = s.cast(s.softmax(s.where(s.mask(), x, -math.inf)), types[2])
        return s.done(y=s.gemm(weights, v))

    return made


MORE: Mapping[str, Callable[[], ModuleOp]] = MappingProxyType(
    {
        "below the log-sum-exp": _of(_below_lse),
        "below the log-sum-exp, which is an output": _of(_below_lse_beside),
        "below the log-sum-exp, negated": _of(_below_lse_negated),
        "below the log-sum-exp, to the base 2": _of(_below_lse_of_two),
        "below a log-sum-exp without maximum": _of(_below_plain_lse),
        "log_softmax, where": _of(_log_softmax_masked),
        "plain, log-sum-exp": _of(_plain_beside),
        "plain, times the reciprocal": _of(_plain_times),
        "below a number": _of(_below_number),
        "below a tensor": _of(_below_mean),
        "below the maximum or 0": _of(_below_largest_number),
        "softmax1, plain": _of(_softmax_one_plain),
        "softmax1": _of(_softmax_one),
        "softmax1, below the maximum": _of(_softmax_one_of_maximum),
        "sink": _of(_sink),
        "sink, joined": _of(_sink_joined),
        "sink, joined below the maximum": _of(_sink_joined_below),
        "the maximum is subtracted twice": _of(_subtracted_twice),
        "a number is added to the sum": _of(_epsilon),
        "multiplied by a mask, divided again": _of(_multiplied_again),
        "exponentials times a mask": _of(_multiplied_powers),
        "exponentials times a mask, a number is added": _of(_multiplied_epsilon),
        "exponentials chosen by a mask": _of(_chosen_powers),
        "hidden before and after": _of(_hidden_twice),
        "clamped": _of(_clamped),
        "bias [H, M, N] and padding": _of(_bias_and_mask),
        "two masks": _of(_two_masks),
        "bias looked up": _of(_bias_looked_up),
        "mask looked up": _of(_mask_looked_up),
        "number of a key reduced": _of(_shift_of_features),
        "texts one after another": lambda: _packed(2, 70, merged=True),
        "one text": lambda: _packed(1, 70, merged=False),
        "one text of merged rows": lambda: _packed(1, 70, merged=True),
        "keys first": _keys_first,
        "output turned": _output_turned,
        "channels first": _channels_first,
        "padding [B, N], heads inside": _padding,
        "all in f32": _all_wide(_softmax),
        "all in f32, log_softmax": _all_wide(lambda s, x: s.fn("exp", s.log_softmax(x))),
        "all in f32, plain": _all_wide(_plain_beside),
        "all in f32, dropout": _all_wide(_dropped),
        "V in bf16": _mixed("hhb"),
        "V in f16, others in bf16": _mixed("bbh"),
    }
)
"""Graphs by name."""
