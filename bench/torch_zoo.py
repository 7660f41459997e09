"""Models of PyTorch's ecosystem with random weights, as data: who makes them, of which sizes, and
what they are called on.

A model is a ``Model``; to add one is a function that makes it and a line of ``MODELS``.  Nothing
here imports PyTorch or a library before a model is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Shape:
    """How much of a model is made: ``layers`` of its layers at full width, None for all of them;
    ``small`` makes a configuration of the same kind that is narrow and short."""

    layers: int | None = None
    small: bool = False

    def depth(self, whole: int) -> int:
        """The layers to make of a model that has so many."""
        return whole if self.layers is None else min(whole, self.layers)


Make = Callable[[Any, Shape], Any]
"""A module of a library, with random weights."""

Inputs = Callable[[Any, Shape, int], "tuple[Any, ...]"]
"""What it is called on: ``inputs(torch, shape, batch)``, in f32 and int64, on the CPU."""


@dataclass(frozen=True)
class Model:
    """A model of the board: its library, how it is made, and its inputs at a batch.

    ``text`` says its sizes; ``batches`` are those of the board.
    """

    name: str
    library: str
    text: str
    make: Make
    inputs: Inputs
    batches: Sequence[int] = (1, 32)

    def made(self, shape: Shape) -> Any:
        """The module in eval mode.  Raises ImportError where its library is not there."""
        return self.make(import_module(self.library), shape).eval()


def _ids(words: int, length: int) -> Inputs:
    def made(torch: Any, shape: Shape, batch: int) -> tuple[Any, ...]:
        return (torch.randint(0, 200 if shape.small else words, (batch, _short(shape, length))),)

    return made


def _short(shape: Shape, length: int) -> int:
    return 16 if shape.small else length


def _image(side: int, small: int, channels: int = 3) -> Inputs:
    def made(torch: Any, shape: Shape, batch: int) -> tuple[Any, ...]:
        size = small if shape.small else side
        return (torch.randn(batch, channels, size, size),)

    return made


# Transformers ---------------------------------------------------------------------------------


def _vit(timm: Any, shape: Shape) -> Any:
    if shape.small:
        sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3}
        return timm.models.VisionTransformer(**sizes)
    return timm.models.VisionTransformer(depth=shape.depth(12))


def _swin(timm: Any, shape: Shape) -> Any:
    if shape.small:
        sizes = {"img_size": 64, "window_size": 4, "embed_dim": 24, "depths": (2, 2)}
        return timm.models.SwinTransformer(**sizes, num_heads=(3, 6))
    # A layer of a stage has whole windows, the next one shifted ones.
    each = shape.layers
    depths = (2, 2, 6, 2) if each is None else tuple(min(n, 2 * each) for n in (2, 2, 6, 2))
    return timm.models.SwinTransformer(depths=depths)


def _bert(library: Any, shape: Shape) -> Any:
    sizes: dict[str, int] = {"num_hidden_layers": shape.depth(12)}
    if shape.small:
        sizes = {"vocab_size": 200, "hidden_size": 64, "num_hidden_layers": 2}
        sizes |= {"num_attention_heads": 4, "intermediate_size": 128}
    return library.BertModel(library.BertConfig(**sizes))


def _masked(torch: Any, shape: Shape, batch: int) -> tuple[Any, ...]:
    (ids,) = _ids(30522, 512)(torch, shape, batch)
    mask = torch.ones_like(ids)
    # Each text has its own length, from half of what there is on.
    for i in range(batch):
        mask[i, ids.shape[1] - i * ids.shape[1] // (2 * batch) :] = 0
    return ids, mask


def _gpt2(library: Any, shape: Shape) -> Any:
    sizes: dict[str, int] = {"n_layer": shape.depth(12)}
    if shape.small:
        sizes = {"vocab_size": 200, "n_embd": 64, "n_layer": 2, "n_head": 4}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return library.GPT2LMHeadModel(library.GPT2Config(**sizes, **ends, use_cache=False))


def _llama(library: Any, shape: Shape) -> Any:
    sizes = {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": shape.depth(16)}
    sizes |= {"num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000}
    if shape.small:
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
        sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 200}
    config = library.LlamaConfig(**sizes, max_position_embeddings=4096, use_cache=False)
    return library.LlamaForCausalLM(config)


def _whisper(library: Any, shape: Shape) -> Any:
    sizes = {"d_model": 512, "encoder_layers": shape.depth(6), "encoder_attention_heads": 8}
    sizes |= {"encoder_ffn_dim": 2048, "max_source_positions": 1500}
    if shape.small:
        sizes = {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 4}
        sizes |= {"encoder_ffn_dim": 128, "max_source_positions": 16}
    module = import_module("transformers.models.whisper.modeling_whisper")
    return module.WhisperEncoder(library.WhisperConfig(**sizes))


def _sound(torch: Any, shape: Shape, batch: int) -> tuple[Any, ...]:
    return (torch.randn(batch, 80, 32 if shape.small else 3000),)


def _t5(library: Any, shape: Shape) -> Any:
    sizes = {"d_model": 512, "d_kv": 64, "d_ff": 2048, "num_heads": 8, "vocab_size": 32128}
    sizes["num_layers"] = shape.depth(6)
    if shape.small:
        sizes = {"d_model": 64, "d_kv": 16, "d_ff": 128, "num_heads": 4, "vocab_size": 200}
        sizes["num_layers"] = 2
    config = library.T5Config(**sizes, use_cache=False, decoder_start_token_id=0)
    return _both(library.T5ForConditionalGeneration(config))


def _both(model: Any) -> Any:
    """A model of two texts, called on both in their order."""
    torch: Any = import_module("torch")

    class Both(torch.nn.Module):
        def forward(self, ids: Any, decoder_ids: Any) -> Any:
            return self.model(input_ids=ids, decoder_input_ids=decoder_ids)

    both = Both()
    both.model = model
    return both


def _two_texts(torch: Any, shape: Shape, batch: int) -> tuple[Any, ...]:
    return (*_ids(32128, 512)(torch, shape, batch), *_ids(32128, 128)(torch, shape, batch))


TRANSFORMERS: Sequence[Model] = (
    Model("vit", "timm", "ViT-B/16, 224²", _vit, _image(224, 32)),
    Model("swin", "timm", "Swin-T, 224²", _swin, _image(224, 64)),
    Model("bert", "transformers", "BERT-base, 512 tokens, padded", _bert, _masked),
    Model("gpt2", "transformers", "GPT-2, 512 tokens", _gpt2, _ids(50257, 512)),
    Model("llama", "transformers", "Llama 1B, 512 tokens", _llama, _ids(32000, 512), (1, 8)),
    Model("whisper", "transformers", "Whisper-base's encoder", _whisper, _sound),
    Model("t5", "transformers", "T5-small, 512 and 128 tokens", _t5, _two_texts),
)

# Convolutions ---------------------------------------------------------------------------------


def _resnet(timm: Any, shape: Shape) -> Any:
    blocks = timm.models.resnet.Bottleneck
    if shape.small:
        return timm.models.ResNet(blocks, (1, 2, 1, 1), num_classes=10)
    return timm.models.ResNet(blocks, tuple(map(shape.depth, (3, 4, 6, 3))))


def _mobilenet(timm: Any, shape: Shape) -> Any:
    if shape.small:
        return timm.create_model("mobilenetv3_small_050", num_classes=10)
    return timm.create_model("mobilenetv3_large_100")


def _convnext(timm: Any, shape: Shape) -> Any:
    if shape.small:
        sizes = {"depths": (1, 1, 2, 1), "dims": (16, 24, 32, 40), "num_classes": 10}
        return timm.models.ConvNeXt(**sizes)
    return timm.models.ConvNeXt(depths=tuple(map(shape.depth, (3, 3, 9, 3))))


def _unet(library: Any, shape: Shape) -> Any:
    if shape.small:
        sizes = {"widths": (32, 64), "text": 48, "heads": 4, "groups": 8}
        return library.UNet(**sizes, depth=1)
    return library.UNet(depth=shape.depth(1))


def _latents(torch: Any, shape: Shape, batch: int) -> tuple[Any, ...]:
    """Latents, the step of each, and a text's embedding: they are noise as the model sees it."""
    side, words, width = (16, 5, 48) if shape.small else (64, 77, 768)
    image = torch.randn(batch, 4, side, side)
    return image, torch.randint(0, 1000, (batch,)), torch.randn(batch, words, width)


CONVOLUTIONS: Sequence[Model] = (
    Model("resnet50", "timm", "ResNet-50, 224²", _resnet, _image(224, 48)),
    Model("mobilenet", "timm", "MobileNetV3-large, 224²", _mobilenet, _image(224, 48)),
    Model("convnext", "timm", "ConvNeXt-T, 224²", _convnext, _image(224, 64)),
    Model(
        "unet",
        "polyc.bench.torch_unet",
        "UNet of Stable Diffusion 1.5, one block a resolution, 64² latents",
        _unet,
        _latents,
    ),
)

MODELS: Mapping[str, Model] = MappingProxyType(
    {one.name: one for one in (*TRANSFORMERS, *CONVOLUTIONS)}
)
"""The models of the board, by name."""
