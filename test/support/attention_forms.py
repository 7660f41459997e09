"""Attention with what models put around it, as frontend graphs of any sizes.

A form is a function of its element type, its heads and whether it is causal; ``FORMS`` has them by
name.  ``T`` is the number of tokens, ``B`` that of sequences.  Queries are [heads, T, width] unless
a form says otherwise, keys and values of fewer heads; tables of rotary positions are [T, width].
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.frontend import AttentionOp, tensor_of
from polyc.test.support.model_programs import attention, heads, merged, rope
from polyc.test.support.sketch import Sketch

CAP = 50.0
"""What scores of a soft cap stay below, as in Gemma 2."""

BOTH = (True, False)
CAUSAL = (True,)
FULL = (False,)

Made = SSAValue | Mapping[str, SSAValue]
"""What a form makes: its output, or its outputs by name."""


@dataclass(frozen=True)
class Heads:
    """Heads of queries, those that keys and values have, and the features of one."""

    queries: int = 32
    keys: int = 8
    width: int = 128

    @property
    def hidden(self) -> int:
        """The features of a token."""
        return self.queries * self.width


@dataclass(frozen=True)
class Form:
    """A form: what makes its graph, whether it is asked causal, and which symbols it has."""

    make: Callable[[Sketch, Heads, bool], Made]
    causal: tuple[bool, ...] = BOTH
    interleaved: bool = False
    """Whether its tables have the angles of neighbours in pairs, else those of halves."""
    batched: bool = False

    @property
    def name(self) -> str:
        return self.make.__name__

    @property
    def title(self) -> str:
        """What it is, in a line."""
        return (self.make.__doc__ or "").partition("\n")[0]

    def module(
        self, causal: bool = True, sizes: Heads | None = None, element: Attribute = f16
    ) -> ModuleOp:
        s = Sketch(self.name, element)
        made = self.make(s, sizes or Heads(), causal)
        return s.done(**made) if isinstance(made, Mapping) else s.done(y=made)

    def symbols(self, tokens: int, batch: int = 1) -> dict[str, int]:
        """The values of its symbols."""
        return {"T": tokens, **({"B": batch} if self.batched else {})}


# Parts ---------------------------------------------------------------------------------


def _given(s: Sketch, h: Heads) -> tuple[SSAValue, SSAValue, SSAValue]:
    q = s.input("q", h.queries, "T", h.width)
    return q, s.input("k", h.keys, "T", h.width), s.input("v", h.keys, "T", h.width)


def _tables(s: Sketch, h: Heads) -> tuple[SSAValue, SSAValue]:
    return s.input("cos", "T", h.width), s.input("sin", "T", h.width)


def rope_in_pairs(s: Sketch, x: SSAValue, cos: SSAValue, sin: SSAValue) -> SSAValue:
    """Rotary positions of [heads, T, width] by tables [T, width], neighbours in pairs."""
    count, tokens, width = tensor_of(x).dims
    pairs = s.reshape(x, count, tokens, width.floordiv(2), 2)
    even, odd = s.cut(pairs, 3, 0, 1), s.cut(pairs, 3, 1, 2)
    turned = s.reshape(s.concat(3, s.fn("neg", odd), even), count, tokens, width)
    return s.fn("add", s.fn("mul", x, cos), s.fn("mul", turned, sin))


def _split(s: Sketch, x: SSAValue, count: int, width: int) -> SSAValue:
    """[B, T, count * width] as [B, count, T, width]."""
    batch, tokens, _ = tensor_of(x).dims
    return s.permute(s.reshape(x, batch, tokens, count, width), 0, 2, 1, 3)


# Forms ---------------------------------------------------------------------------------


def plain(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """Attention alone."""
    return attention(s, *_given(s, h), causal=causal)


def rope_halves(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """Rotary positions of queries and keys, the halves of a head in pairs."""
    q, k, v = _given(s, h)
    cos, sin = _tables(s, h)
    return attention(s, rope(s, q, cos, sin), rope(s, k, cos, sin), v, causal=causal)


def rope_pairs(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """Rotary positions of queries and keys, neighbours of a head in pairs."""
    q, k, v = _given(s, h)
    cos, sin = _tables(s, h)
    q, k = rope_in_pairs(s, q, cos, sin), rope_in_pairs(s, k, cos, sin)
    return attention(s, q, k, v, causal=causal)


def qk_norm(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """RMS norms of each query and each key."""
    q, k, v = _given(s, h)
    return attention(s, s.rms_norm(q, "norm_q"), s.rms_norm(k, "norm_k"), v, causal=causal)


def qk_norm_rope(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """RMS norms of each query and each key, then their rotary positions."""
    q, k, v = _given(s, h)
    cos, sin = _tables(s, h)
    q, k = (rope(s, s.rms_norm(x, f"norm_{n}"), cos, sin) for n, x in (("q", q), ("k", k)))
    return attention(s, q, k, v, causal=causal)


def merged_heads(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """Heads side by side in the rows of a token, read and written there: [B, T, heads * width]."""
    q = s.input("q", "B", "T", h.hidden)
    k, v = (s.input(name, "B", "T", h.keys * h.width) for name in "kv")
    parts = ((q, h.queries), (k, h.keys), (v, h.keys))
    y = attention(s, *(_split(s, x, n, h.width) for x, n in parts), causal=causal)
    return s.reshape(s.permute(y, 0, 2, 1, 3), "B", "T", h.hidden)


def alibi(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """Scores less a slope of each head times how far the key is (ALiBi)."""
    q, k, v = _given(s, h)
    slopes = s.input("slopes", h.queries, 1, 1, element=f32)
    here, there = s.input("rows", "T", 1, element=f32), s.input("columns", 1, "T", element=f32)
    apart = s.fn("sub", here, there)
    apart = apart if causal else s.fn("abs", apart)
    return attention(s, q, k, v, s.fn("neg", s.fn("mul", slopes, apart)), causal=causal)


def alibi_keys(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """ALiBi by a bias of each head's keys, which is the same but for a number a row."""
    return attention(
        s, *_given(s, h), s.input("bias", h.queries, 1, "T", element=f32), causal=causal
    )


def soft_cap(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """Scores that stay below a number by a tanh."""
    return s.add(AttentionOp(*_given(s, h), cap=CAP, causal=causal))


def with_weights(s: Sketch, h: Heads, causal: bool) -> Mapping[str, SSAValue]:
    """Attention without groups, whose weights are an output too."""
    q, k, v = (s.input(name, h.queries, "T", h.width) for name in "qkv")
    scores = s.fn("mul", s.gemm(q, k, turned=True, element=f32), s.number(h.width**-0.5, f32))
    weights = s.cast(s.softmax(scores), s.element)
    return {"y": s.gemm(weights, v), "w": weights}


def layer(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """An attention layer whole: norm, three projections, rotary positions, output, residual."""
    x, (cos, sin) = s.input("x", "T", h.hidden), _tables(s, h)
    normed = s.rms_norm(x, "norm")
    q = rope(s, heads(s, s.linear(normed, "wq", h.hidden), h.queries, h.width), cos, sin)
    k = rope(s, heads(s, s.linear(normed, "wk", h.keys * h.width), h.keys, h.width), cos, sin)
    v = heads(s, s.linear(normed, "wv", h.keys * h.width), h.keys, h.width)
    y = merged(s, attention(s, q, k, v, causal=causal))
    return s.fn("add", x, s.linear(y, "wo", h.hidden))


def layer_packed(s: Sketch, h: Heads, causal: bool) -> SSAValue:
    """The same layer with one packed projection."""
    x, (cos, sin) = s.input("x", "T", h.hidden), _tables(s, h)
    ends = (0, h.hidden, h.hidden + h.keys * h.width, h.hidden + 2 * h.keys * h.width)
    packed = s.linear(s.rms_norm(x, "norm"), "wqkv", ends[-1])
    q, k, v = (
        heads(s, s.cut(packed, 1, ends[i], ends[i + 1]), n, h.width)
        for i, n in enumerate((h.queries, h.keys, h.keys))
    )
    q, k = rope(s, q, cos, sin), rope(s, k, cos, sin)
    y = merged(s, attention(s, q, k, v, causal=causal))
    return s.fn("add", x, s.linear(y, "wo", h.hidden))


FORMS: Mapping[str, Form] = {
    form.name: form
    for form in (
        Form(plain),
        Form(rope_halves),
        Form(rope_pairs, interleaved=True),
        Form(qk_norm),
        Form(qk_norm_rope),
        Form(merged_heads, batched=True),
        Form(alibi),
        Form(alibi_keys, CAUSAL),
        Form(soft_cap),
        Form(with_weights, FULL),
        Form(layer, CAUSAL),
        Form(layer_packed, CAUSAL),
    )
}
