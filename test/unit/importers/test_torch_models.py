"""Models of torchvision, timm and transformers with random weights, small, against PyTorch.

Each is exported, imported, and played back; what comes out is eager's, in f32.
"""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402

Made = tuple[Any, tuple[Any, ...], Mapping[str, Any]]


def vision() -> Any:
    return pytest.importorskip("torchvision").models


def timm() -> Any:
    return pytest.importorskip("timm")


def language() -> Any:
    return pytest.importorskip("transformers")


def image(size: int, channels: int = 3) -> tuple[Any, ...]:
    return (torch.randn(2, channels, size, size),)


def ids(length: int = 8) -> Any:
    return torch.randint(0, 99, (2, length))


def padded() -> Any:
    mask = torch.ones(2, 8, dtype=torch.int64)
    mask[1, 5:] = 0
    return mask


SMALL: dict[str, int] = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2}
HEADS: dict[str, int] = {"num_attention_heads": 4, "intermediate_size": 64}


def resnet50() -> Made:
    return vision().ResNet(vision().resnet.Bottleneck, [1, 2, 1, 1]), image(48), {}


def mobilenet() -> Made:
    return vision().mobilenet_v3_small(num_classes=10), image(48), {}


def vit() -> Made:
    how = {"img_size": 32, "patch_size": 8, "depth": 2, "embed_dim": 48, "num_heads": 3}
    return timm().models.VisionTransformer(**how, num_classes=10), image(32), {}


def convnext() -> Made:
    made = timm().models.ConvNeXt(depths=(1, 1, 2, 1), dims=(16, 24, 32, 40), num_classes=10)
    return made, image(64), {}


def swin() -> Made:
    return (
        vision().SwinTransformer([4, 4], 24, [2, 2], [3, 6], [4, 4], num_classes=10),
        image(64),
        {},
    )


def bert() -> Made:
    config = language().BertConfig(**SMALL, **HEADS, max_position_embeddings=64)
    return language().BertModel(config), (ids(), padded()), {}


def gpt2() -> Made:
    how = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    config = language().GPT2Config(**how, **ends, use_cache=False)
    return language().GPT2LMHeadModel(config), (ids(),), {}


def llama() -> Made:
    config = language().LlamaConfig(**SMALL, **HEADS, num_key_value_heads=2, use_cache=False)
    return language().LlamaForCausalLM(config), (ids(), padded()), {}


def whisper() -> Made:
    how = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
    config = language().WhisperConfig(**how, max_source_positions=16)
    kind = language().models.whisper.modeling_whisper.WhisperEncoder
    return kind(config), (torch.randn(1, 80, 32),), {}


def t5() -> Made:
    how = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    config = language().T5Config(**how, use_cache=False, decoder_start_token_id=0)
    made = language().T5ForConditionalGeneration(config)
    return made, (), {"input_ids": ids(), "decoder_input_ids": ids(6)}


class Block(torch.nn.Module):
    """A residual block of a diffusion model: group norms, a step's embedding between."""

    def __init__(self, width: int, out: int, step: int) -> None:
        super().__init__()
        self.first, self.second = torch.nn.GroupNorm(4, width), torch.nn.GroupNorm(4, out)
        self.one = torch.nn.Conv2d(width, out, 3, padding=1)
        self.two = torch.nn.Conv2d(out, out, 3, padding=1)
        self.step = torch.nn.Linear(step, out)
        self.skip = torch.nn.Conv2d(width, out, 1)

    def forward(self, x: Any, at: Any) -> Any:
        silu = torch.nn.functional.silu
        y = self.one(silu(self.first(x))) + self.step(silu(at))[:, :, None, None]
        return self.two(silu(self.second(y))) + self.skip(x)


class Attend(torch.nn.Module):
    """Attention over an image's places, to themselves and to a text."""

    def __init__(self, width: int, text: int) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, width)
        self.own = torch.nn.MultiheadAttention(width, 2, batch_first=True)
        self.text = torch.nn.MultiheadAttention(width, 2, kdim=text, vdim=text, batch_first=True)

    def forward(self, x: Any, text: Any) -> Any:
        y = self.norm(x).flatten(2).transpose(1, 2)
        y = y + self.own(y, y, y, need_weights=False)[0]
        y = y + self.text(y, text, text, need_weights=False)[0]
        return x + y.transpose(1, 2).reshape(x.shape)


class UNet(torch.nn.Module):
    """As Stable Diffusion's is built: blocks with a step's embedding, attention to a text, halving
    by strides, doubling by the nearest."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(16, 16)
        self.enter = torch.nn.Conv2d(4, 8, 3, padding=1)
        self.down, self.reduce = Block(8, 8, 16), torch.nn.Conv2d(8, 8, 3, 2, 1)
        self.middle, self.attend = Block(8, 16, 16), Attend(16, 12)
        self.up, self.wide = Block(24, 8, 16), torch.nn.Conv2d(16, 16, 3, padding=1)
        self.leave = torch.nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Any, step: Any, text: Any) -> Any:
        speeds = torch.exp(-torch.arange(8, dtype=torch.float32))
        angles = step[:, None].float() * speeds
        at = self.embed(torch.cat([angles.cos(), angles.sin()], -1))
        kept = self.down(self.enter(x), at)
        y = self.attend(self.middle(self.reduce(kept), at), text)
        y = self.wide(torch.nn.functional.interpolate(y, scale_factor=2.0, mode="nearest"))
        return self.leave(self.up(torch.cat([y, kept], 1), at))


def unet() -> Made:
    return UNet(), (*image(16, 4), torch.tensor([3, 700]), torch.randn(2, 5, 12)), {}


MODELS: list[Callable[[], Made]] = [
    *(resnet50, mobilenet, vit, convnext, swin, bert, gpt2, llama, whisper, t5, unet)
]


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_a_model_is_what_eager_says(make: Callable[[], Made]):
    torch.manual_seed(0)
    model, args, named = make()
    model.eval()
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(model(*args, **named))
        program = torch.export.export(model, args, dict(named), strict=False)
        imported = polyc.from_exported(program, make.__name__)
    # What reads nothing of a model is a constant, as frequencies of a step's embedding are.
    known = {node.name for node in program.graph.nodes if node.op == "call_function"}
    assert set(imported.parameters) <= {*program.state_dict, *program.constants, *known}
    found = polyc.compile(imported, device="cpu")(*args, *named.values())
    listed = list(found) if isinstance(found, tuple) else [found]
    tensors = [one for one in wanted if isinstance(one, torch.Tensor)]
    assert len(listed) == len(tensors)
    for got, one in zip(listed, tensors, strict=True):
        assert got.shape == one.shape
        assert float((got - one).abs().max()) <= 1e-5 * float(one.abs().max())


def test_sizes_of_a_model_stay_open():
    """One import of an encoder, called with other batches and lengths."""
    torch.manual_seed(0)
    model, args, _ = bert()
    model.eval()
    batch, length = torch.export.Dim("batch", max=16), torch.export.Dim("length", max=64)
    sizes = {0: batch, 1: length}
    with torch.no_grad():
        shapes = {"input_ids": sizes, "attention_mask": sizes}
        program = torch.export.export(model, args, dynamic_shapes=shapes, strict=False)
        imported = polyc.from_exported(program)
        assert set(imported.graph.symbol_names) == {"batch", "length"}
        ran = polyc.compile(imported, device="cpu")
        for shape in ((2, 8), (3, 11), (5, 33)):
            given = torch.randint(0, 99, shape), torch.ones(shape, dtype=torch.int64)
            wanted = model(*given)
            for got, one in zip(ran(*given), (wanted[0], wanted[1]), strict=True):
                assert torch.allclose(got, one, atol=1e-5)
