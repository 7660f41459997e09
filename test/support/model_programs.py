"""The pieces and blocks that models are made of, as frontend graphs of any sizes.

A program is a function of its sizes and its element type; ``MODELS`` has each with small sizes, at
which it is compared, and with a model's, at which it is timed and lies in ``examples/models``.
``T`` is the number of tokens, ``P`` that of earlier ones in a cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import sqrt

from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.frontend import AttentionOp, tensor_of
from polyc.test.support.root import ROOT
from polyc.test.support.sketch import Sketch
from polyc.tools.printing import module_text

FOLDER = ROOT / "examples" / "models"

# Parts ---------------------------------------------------------------------------------


def heads(s: Sketch, x: SSAValue, count: int, width: int) -> SSAValue:
    """[T, count * width] as [count, T, width]."""
    return s.permute(s.reshape(x, tensor_of(x).dims[0], count, width), 1, 0, 2)


def merged(s: Sketch, x: SSAValue) -> SSAValue:
    """[count, T, width] as [T, count * width]."""
    count, tokens, width = tensor_of(x).dims
    return s.reshape(s.permute(x, 1, 0, 2), tokens, count * width)


def rope(s: Sketch, x: SSAValue, cos: SSAValue, sin: SSAValue) -> SSAValue:
    """Rotary positions of [heads, T, width] by tables [T, width], the halves of a head in pairs."""
    width = tensor_of(x).dims[-1].constant()
    assert width is not None
    first, second = s.cut(x, 2, 0, width // 2), s.cut(x, 2, width // 2, width)
    turned = s.concat(2, s.fn("neg", second), first)
    return s.fn("add", s.fn("mul", x, cos), s.fn("mul", turned, sin))


def attention(
    s: Sketch, q: SSAValue, k: SSAValue, v: SSAValue, *masks: SSAValue, causal: bool = False
) -> SSAValue:
    return s.add(AttentionOp(q, k, v, masks, causal=causal))


def swiglu(s: Sketch, x: SSAValue, features: int) -> SSAValue:
    gate = s.fn("silu", s.linear(x, "gate", features))
    return s.fn("mul", gate, s.linear(x, "up", features))


# Blocks --------------------------------------------------------------------------------


def decoder(element: Attribute, d: int, h: int, kv: int, ff: int) -> ModuleOp:
    """A decoder block as Llama has it."""
    s, width = Sketch("decoder", element), d // h
    x = s.input("x", "T", d)
    cos, sin = s.input("cos", "T", width), s.input("sin", "T", width)
    normed = s.rms_norm(x, "norm1")
    q = rope(s, heads(s, s.linear(normed, "wq", d), h, width), cos, sin)
    k = rope(s, heads(s, s.linear(normed, "wk", kv * width), kv, width), cos, sin)
    v = heads(s, s.linear(normed, "wv", kv * width), kv, width)
    y = merged(s, attention(s, q, k, v, causal=True))
    x = s.fn("add", x, s.linear(y, "wo", d))
    hidden = swiglu(s, s.rms_norm(x, "norm2"), ff)
    return s.done(y=s.fn("add", x, s.linear(hidden, "down", d)))


def decode(element: Attribute, d: int, h: int, kv: int, ff: int) -> ModuleOp:
    """A decoder block for one token, beside a cache of earlier ones, which grows."""
    s, width = Sketch("decode", element), d // h
    x = s.input("x", 1, d)
    cos, sin = s.input("cos", 1, width), s.input("sin", 1, width)
    keys, values = s.input("keys", kv, "P", width), s.input("values", kv, "P", width)
    normed = s.rms_norm(x, "norm1")
    q = rope(s, heads(s, s.linear(normed, "wq", d), h, width), cos, sin)
    k = rope(s, heads(s, s.linear(normed, "wk", kv * width), kv, width), cos, sin)
    v = heads(s, s.linear(normed, "wv", kv * width), kv, width)
    keys, values = s.concat(1, keys, k), s.concat(1, values, v)
    y = merged(s, attention(s, q, keys, values))
    x = s.fn("add", x, s.linear(y, "wo", d))
    hidden = swiglu(s, s.rms_norm(x, "norm2"), ff)
    y = s.fn("add", x, s.linear(hidden, "down", d))
    return s.done(y=y, new_keys=keys, new_values=values)


def encoder(element: Attribute, d: int, h: int, ff: int) -> ModuleOp:
    """An encoder block as BERT has it, with an additive mask of the keys."""
    s, width = Sketch("encoder", element), d // h
    x, mask = s.input("x", "T", d), s.input("mask", 1, "T")
    q, k, v = (heads(s, s.linear(x, name, d, bias=True), h, width) for name in ("wq", "wk", "wv"))
    y = s.linear(merged(s, attention(s, q, k, v, mask)), "wo", d, bias=True)
    x = s.layer_norm(s.fn("add", x, y), "norm1")
    hidden = s.fn("gelu", s.linear(x, "up", ff, bias=True))
    y = s.linear(hidden, "down", d, bias=True)
    return s.done(y=s.layer_norm(s.fn("add", x, y), "norm2"))


def vit(element: Attribute, d: int, h: int, ff: int) -> ModuleOp:
    """A block as ViT has it: norms first, one packed projection."""
    s, width = Sketch("vit", element), d // h
    x = s.input("x", "T", d)
    packed = s.linear(s.layer_norm(x, "norm1"), "wqkv", 3 * d, bias=True)
    parts = s.permute(s.reshape(packed, "T", 3, h, width), 1, 2, 0, 3)
    q, k, v = (s.reshape(s.cut(parts, 0, i, i + 1), h, "T", width) for i in range(3))
    y = s.linear(merged(s, attention(s, q, k, v)), "wo", d, bias=True)
    x = s.fn("add", x, y)
    hidden = s.fn("gelu", s.linear(s.layer_norm(x, "norm2"), "up", ff, bias=True))
    return s.done(y=s.fn("add", x, s.linear(hidden, "down", d, bias=True)))


# Pieces --------------------------------------------------------------------------------


def swiglu_two(element: Attribute, d: int, ff: int) -> ModuleOp:
    """A gate and an up projection with a weight each, and silu of the one times the other."""
    s = Sketch("swiglu_two", element)
    return s.done(y=swiglu(s, s.input("x", "T", d), ff))


def swiglu_packed(element: Attribute, d: int, ff: int) -> ModuleOp:
    """SwiGLU of one product whose weight has the gate beside the up projection."""
    s = Sketch("swiglu_packed", element)
    both = s.linear(s.input("x", "T", d), "packed", 2 * ff)
    gate = s.fn("silu", s.cut(both, 1, 0, ff))
    return s.done(y=s.fn("mul", gate, s.cut(both, 1, ff, 2 * ff)))


def qkv_three(element: Attribute, d: int, h: int) -> ModuleOp:
    """Queries, keys and values by three products of the same tokens, split into heads."""
    s = Sketch("qkv_three", element)
    x = s.input("x", "T", d)
    return s.done(**{n: heads(s, s.linear(x, f"w{n}", d), h, d // h) for n in "qkv"})


def qkv_packed(element: Attribute, d: int, h: int) -> ModuleOp:
    """Queries, keys and values by one product, cut apart and split into heads."""
    s = Sketch("qkv_packed", element)
    made = s.linear(s.input("x", "T", d), "packed", 3 * d)
    parts = {n: s.cut(made, 1, i * d, (i + 1) * d) for i, n in enumerate("qkv")}
    return s.done(**{n: heads(s, part, h, d // h) for n, part in parts.items()})


def norm_gemm(element: Attribute, d: int, n: int) -> ModuleOp:
    """An RMSNorm of the tokens, then a product."""
    s = Sketch("norm_gemm", element)
    return s.done(y=s.linear(s.rms_norm(s.input("x", "T", d), "norm"), "w", n))


def gelu_mlp(element: Attribute, d: int, ff: int) -> ModuleOp:
    """Two products with biases, a GELU between them, and the residual."""
    s = Sketch("gelu_mlp", element)
    x = s.input("x", "T", d)
    hidden = s.fn("gelu", s.linear(x, "up", ff, bias=True))
    return s.done(y=s.fn("add", s.linear(hidden, "down", d, bias=True), x))


def lora(element: Attribute, d: int, n: int, r: int) -> ModuleOp:
    """A product beside one of low rank, twice of which is added."""
    s = Sketch("lora", element)
    x = s.input("x", "T", d)
    extra = s.linear(s.linear(x, "a", r), "b", n)
    return s.done(y=s.fn("add", s.linear(x, "w", n), s.fn("mul", extra, s.number(2.0))))


def moe_gate(element: Attribute, d: int, experts: int) -> ModuleOp:
    """The gate of a mixture of experts: a softmax of a product."""
    s = Sketch("moe_gate", element)
    return s.done(y=s.softmax(s.linear(s.input("x", "T", d), "w", experts)))


def lm_head(element: Attribute, d: int, words: int) -> ModuleOp:
    """Logits of all words, and the cross-entropy of each token with its one-hot target."""
    s = Sketch("lm_head", element)
    logits = s.cast(s.linear(s.input("x", "T", d), "w", words), f32)
    logs = s.add(frontend.LogSoftmaxOp(logits, [1]))
    hot = s.cast(s.input("targets", "T", words), f32)
    return s.done(loss=s.fn("neg", s.reduce("sum", s.fn("mul", logs, hot), 1)))


def dequant_gemm(element: Attribute, d: int, n: int) -> ModuleOp:
    """A product with a weight that is multiplied by the scales of its rows first."""
    s = Sketch("dequant_gemm", element)
    x, w, scales = s.input("x", "T", d), s.input("w", n, d), s.input("scales", n, 1)
    return s.done(y=s.gemm(x, s.fn("mul", w, scales), turned=True))


def act_gemm(element: Attribute, d: int, n: int) -> ModuleOp:
    """A product whose factor is silu of the tokens."""
    s = Sketch("act_gemm", element)
    return s.done(y=s.linear(s.fn("silu", s.input("x", "T", d)), "w", n))


def concat_gemm(element: Attribute, d: int, n: int) -> ModuleOp:
    """A product of two inputs side by side."""
    s = Sketch("concat_gemm", element)
    both = s.concat(1, s.input("a", "T", d), s.input("b", "T", d))
    return s.done(y=s.linear(both, "w", n))


def gemm_pad(element: Attribute, d: int, n: int) -> ModuleOp:
    """A product with eight columns of zeros after it."""
    s = Sketch("gemm_pad", element)
    made = s.linear(s.input("x", "T", d), "w", n)
    return s.done(y=s.add(frontend.PadOp(made, [0, 0], [0, 8], 0.0)))


def mlp_residual(element: Attribute, d: int, ff: int) -> ModuleOp:
    """gelu(x A) B + c + x, with weights stored as [features, size]."""
    s = Sketch("mlp_residual", element)
    x, a, b, c = s.input("x", "T", d), s.input("a", d, ff), s.input("b", ff, d), s.input("c", d)
    y = s.gemm(s.fn("gelu", s.gemm(x, a)), b)
    return s.done(y=s.fn("add", s.fn("add", y, c), x))


def own_attention(element: Attribute, h: int, width: int) -> ModuleOp:
    """QKᵀ, a softmax and PV as ops of their own, and the heads merged."""
    s = Sketch("own_attention", element)
    q, k, v = (s.input(name, h, "T", width) for name in "qkv")
    scores = s.fn("mul", s.gemm(q, k, turned=True), s.number(1 / sqrt(width)))
    return s.done(y=merged(s, s.gemm(s.softmax(scores), v)))


def grouped_heads(element: Attribute, h: int, kv: int, width: int) -> ModuleOp:
    """Attention whose heads share keys and values, of a width that no step of tensor cores has."""
    s = Sketch("grouped_heads", element)
    q = heads(s, s.input("q", "T", h * width), h, width)
    k, v = (heads(s, s.input(name, "T", kv * width), kv, width) for name in "kv")
    return s.done(y=merged(s, attention(s, q, k, v)))


# Images --------------------------------------------------------------------------------


def conv(
    s: Sketch,
    x: SSAValue,
    name: str,
    filters: int,
    taps: int,
    step: int = 1,
    norm: bool = True,
    layout: str = "nhwc",
    groups: int = 1,
) -> SSAValue:
    """A convolution, and a norm folded into a scale and an offset of each filter."""
    inner = tensor_of(x).dims[layout.index("c")].floordiv(groups)
    sizes = (inner, taps, taps) if layout == "nchw" else (taps, taps, inner)
    weight = s.input(name, filters, *sizes)
    room = [taps // 2] * 4
    op = frontend.Conv2dOp(
        x, weight, layout=layout, stride=(step, step), padding=room, groups=groups
    )
    made = s.add(op)
    if not norm:
        return made
    scale, offset = s.input(f"{name}_scale", filters), s.input(f"{name}_offset", filters)
    if layout == "nchw":
        scale, offset = (s.reshape(v, 1, filters, 1, 1) for v in (scale, offset))
    return s.fn("add", s.fn("mul", made, scale), offset)


def bottleneck(element: Attribute, c: int, mid: int, step: int) -> ModuleOp:
    """A bottleneck as ResNet has it; the skip is a projection where its shape is another."""
    s = Sketch("bottleneck", element)
    x = s.input("x", "N", "H", "W", c)
    y = s.fn("relu", conv(s, x, "w1", mid, 1))
    y = s.fn("relu", conv(s, y, "w2", mid, 3, step))
    y = conv(s, y, "w3", 4 * mid, 1)
    skip = x if step == 1 and c == 4 * mid else conv(s, x, "w0", 4 * mid, 1, step)
    return s.done(y=s.fn("relu", s.fn("add", y, skip)))


def basic(element: Attribute, c: int, filters: int, step: int) -> ModuleOp:
    """A basic block as ResNet has it; the skip is a projection where its shape is another."""
    s = Sketch("basic", element)
    x = s.input("x", "N", "H", "W", c)
    y = conv(s, s.fn("relu", conv(s, x, "w1", filters, 3, step)), "w2", filters, 3)
    skip = x if step == 1 and c == filters else conv(s, x, "w0", filters, 1, step)
    return s.done(y=s.fn("relu", s.fn("add", y, skip)))


def preact(element: Attribute, c: int) -> ModuleOp:
    """Two convolutions with a folded norm and ReLU before each, and the residual."""
    s = Sketch("preact", element)
    y = x = s.input("x", "N", "H", "W", c)
    for i in "12":
        scaled = s.fn("mul", y, s.input(f"scale{i}", c))
        y = s.fn("relu", s.fn("add", scaled, s.input(f"offset{i}", c)))
        y = conv(s, y, f"w{i}", c, 3, norm=False)
    return s.done(y=s.fn("add", x, y))


def squeeze_excite(element: Attribute, c: int, r: int) -> ModuleOp:
    """An image times a gate of each channel, which two products make of its mean."""
    s = Sketch("squeeze_excite", element)
    x = s.input("x", "N", "H", "W", c)
    mean = s.reduce("mean", x, 1, 2)
    gate = s.linear(s.fn("relu", s.linear(mean, "w1", r, bias=True)), "w2", c, bias=True)
    gate = s.reshape(s.fn("sigmoid", gate), "N", 1, 1, c)
    return s.done(y=s.fn("mul", x, gate))


def conv_pool(element: Attribute, c: int, filters: int) -> ModuleOp:
    """A convolution, ReLU, and the mean over the image."""
    s = Sketch("conv_pool", element)
    y = s.fn("relu", conv(s, s.input("x", "N", "H", "W", c), "w", filters, 3))
    return s.done(y=s.reduce("mean", y, 1, 2))


def grouped(element: Attribute, c: int, groups: int) -> ModuleOp:
    """A convolution in groups with its folded norm, ReLU and residual, as ResNeXt has it."""
    s = Sketch("grouped", element)
    x = s.input("x", "N", "H", "W", c)
    return s.done(y=s.fn("relu", s.fn("add", conv(s, x, "w", c, 3, groups=groups), x)))


def classifier(element: Attribute, c: int, classes: int) -> ModuleOp:
    """The ends of a ResNet as PyTorch has it, NCHW: first convolution, a block, mean and logits."""
    s = Sketch("classifier", element)
    x = s.input("x", "N", 3, "H", "W")
    x = s.fn("relu", conv(s, x, "w0", c, 7, 2, layout="nchw"))
    y = s.fn("relu", conv(s, x, "w1", c, 3, layout="nchw"))
    y = s.fn("relu", s.fn("add", conv(s, y, "w2", c, 3, layout="nchw"), x))
    return s.done(y=s.linear(s.reduce("mean", y, 2, 3), "w3", classes, bias=True))


def patches(element: Attribute, size: int, step: int, d: int) -> ModuleOp:
    """An image, NCHW, as tokens with their places: a product of each patch."""
    s, count = Sketch("patches", element), (size // step) ** 2
    x, weight = s.input("x", "N", 3, size, size), s.input("w", d, 3, step, step)
    op = frontend.Conv2dOp(x, weight, layout="nchw", stride=(step, step))
    made = s.permute(s.reshape(s.add(op), "N", d, count), 0, 2, 1)
    made = s.fn("add", made, s.input("bias", d))
    return s.done(y=s.fn("add", made, s.input("places", count, d)))


# All of them ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A program at small sizes and at a model's.

    ``sizes`` are the values of its symbols in either case; ``contractions`` is how many products
    it has, each of which is to run on tensor cores.
    """

    make: Callable[..., ModuleOp]
    small: tuple[int, ...]
    large: tuple[int, ...]
    contractions: int
    sizes: Mapping[str, int] = field(default_factory=lambda: {"T": 37})
    large_sizes: Mapping[str, int] = field(default_factory=lambda: {"T": 4096})

    def module(self, element: Attribute = f16, *, large: bool = False) -> ModuleOp:
        return self.make(element, *(self.large if large else self.small))


IMAGE = {"N": 2, "H": 7, "W": 6}
LARGE_IMAGE = {"N": 32, "H": 56, "W": 56}
WHOLE_IMAGE = {"N": 2, "H": 13, "W": 11}

MODELS: Mapping[str, Model] = {
    "decoder": Model(decoder, (64, 4, 2, 88), (4096, 32, 8, 14336), 9),
    "decode": Model(decode, (64, 4, 2, 88), (4096, 32, 8, 14336), 9, {"P": 21}, {"P": 4095}),
    "encoder": Model(encoder, (64, 4, 96), (1024, 16, 4096), 8),
    "vit": Model(vit, (64, 4, 96), (1024, 16, 4096), 6),
    "swiglu_two": Model(swiglu_two, (64, 88), (4096, 14336), 2),
    "swiglu_packed": Model(swiglu_packed, (64, 88), (4096, 14336), 2),
    "qkv_three": Model(qkv_three, (64, 4), (4096, 32), 3),
    "qkv_packed": Model(qkv_packed, (64, 4), (4096, 32), 1),
    "norm_gemm": Model(norm_gemm, (64, 88), (4096, 4096), 1),
    "gelu_mlp": Model(gelu_mlp, (64, 88), (4096, 16384), 2),
    "lora": Model(lora, (64, 88, 16), (4096, 4096, 16), 3),
    "moe_gate": Model(moe_gate, (64, 8), (4096, 64), 1),
    "lm_head": Model(lm_head, (64, 136), (4096, 32000), 1),
    "dequant_gemm": Model(dequant_gemm, (64, 88), (4096, 4096), 1),
    "act_gemm": Model(act_gemm, (64, 88), (4096, 4096), 1),
    "concat_gemm": Model(concat_gemm, (64, 88), (4096, 4096), 1),
    "gemm_pad": Model(gemm_pad, (64, 88), (4096, 4096), 1),
    "mlp_residual": Model(mlp_residual, (64, 88), (4096, 16384), 2),
    "own_attention": Model(own_attention, (4, 16), (32, 128), 2),
    "bottleneck": Model(bottleneck, (64, 16, 1), (256, 64, 1), 3, IMAGE, LARGE_IMAGE),
    "bottleneck_down": Model(bottleneck, (32, 16, 2), (256, 128, 2), 4, IMAGE, LARGE_IMAGE),
    "basic": Model(basic, (16, 16, 1), (64, 64, 1), 2, IMAGE, LARGE_IMAGE),
    "basic_down": Model(basic, (16, 32, 2), (64, 128, 2), 3, IMAGE, LARGE_IMAGE),
    "preact": Model(preact, (16,), (64,), 2, IMAGE, LARGE_IMAGE),
    "squeeze_excite": Model(squeeze_excite, (16, 8), (256, 16), 2, IMAGE, LARGE_IMAGE),
    "conv_pool": Model(conv_pool, (16, 24), (64, 128), 1, IMAGE, LARGE_IMAGE),
    "grouped": Model(grouped, (32, 2), (128, 4), 1, IMAGE, LARGE_IMAGE),
    "grouped_heads": Model(grouped_heads, (4, 2, 24), (8, 2, 40), 2),
    "classifier": Model(
        classifier, (16, 24), (64, 1000), 4, WHOLE_IMAGE, {"N": 32, "H": 224, "W": 224}
    ),
    "patches": Model(patches, (16, 4, 24), (224, 16, 768), 1, {"N": 2}, {"N": 64}),
}


# As text -------------------------------------------------------------------------------


def text_of(name: str) -> str:
    """A program at a model's size in f16, under a line that says what it is."""
    model = MODELS[name]
    (graph,) = model.module(large=True).ops
    signature, _, body = module_text(graph).partition("\n")
    signature = re.sub(r"([(,]) ?%", r"\1\n    %", signature).replace(") -> (", ")\n    -> (")
    title, _, _ = (model.make.__doc__ or "").partition("\n")
    return f"// {title}\n{signature}\n{body}"


def write_examples() -> None:
    """Write each program to ``examples/models``, under its name."""
    FOLDER.mkdir(exist_ok=True)
    for name in MODELS:
        (FOLDER / f"{name}.mlir").write_text(text_of(name), encoding="utf-8")
