"""A model of PyTorch's ecosystem, compiled, checked and timed: a GPT-2 or a vision transformer with
random weights.

    python examples/torch_model.py [gpt2|vit]

It is exported, imported and compiled, and compared with eager PyTorch; then the same model runs by
``torch.compile`` with polyc as its backend, and the report says what became of its ops.  With a GPU
the model has its full width, runs in f16, and has a table of kernels; without one it is a small
configuration in f32, played back on the CPU.  It needs ``pip install polyc[torch]``, and
transformers or timm.
"""

import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import polyc


def gpt2(small: bool) -> tuple[Any, Callable[[Any, int], Any]]:
    """A GPT-2 without a cache, and what makes tokens for it."""
    library: Any = import_module("transformers")
    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4} if small else {}
    words = 200 if small else 50257
    ends = {"bos_token_id": 0, "eos_token_id": 0, "use_cache": False}
    config = library.GPT2Config(vocab_size=words, **sizes, **ends)

    def tokens(torch: Any, batch: int) -> Any:
        return torch.randint(0, words, (batch, 16 if small else 512))

    return library.GPT2LMHeadModel(config), tokens


def vit(small: bool) -> tuple[Any, Callable[[Any, int], Any]]:
    """A vision transformer, and what makes images for it."""
    library: Any = import_module("timm")
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3}
    model = library.models.VisionTransformer(**(sizes if small else {}))

    def images(torch: Any, batch: int) -> Any:
        side = 32 if small else 224
        return torch.randn(batch, 3, side, side)

    return model, images


MODELS = {"gpt2": gpt2, "vit": vit}


def first(found: Any) -> Any:
    """The first tensor that a model returns."""
    return found if hasattr(found, "dtype") else found[0]


def milliseconds(torch: Any, call: Callable[[], Any], gpu: bool) -> float:
    """The shortest of some calls."""
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        call()
        if gpu:
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def main() -> None:
    """Export, import, compile, compare and time."""
    name = sys.argv[1] if len(sys.argv) > 1 else "gpt2"
    if name not in MODELS:
        print(f"{name} is no model of this example; there are {', '.join(MODELS)}")
        return
    try:
        torch: Any = import_module("torch")
        gpu = bool(torch.cuda.is_available())
        torch.manual_seed(0)
        model, inputs = MODELS[name](small=not gpu)
    except ImportError as error:
        print(f"{error}: pip install polyc[torch], transformers and timm")
        return
    if not gpu:
        print("no GPU: a small configuration in f32, played back on the CPU")
    model, x = model.eval(), inputs(torch, 2)
    with torch.no_grad():
        right = first(model(x))
        if gpu:
            model, x, right = model.half().cuda(), x.cuda(), right.cuda()
            x = x.half() if x.is_floating_point() else x
        program = torch.export.export(model, (x,), strict=False)
        imported = polyc.from_exported(program, name)
        numbers = sum(one.numel() for one in imported.parameters.values())
        ops = sum(1 for _ in imported.graph.body.block.ops) - 1
        print(f"{name}: {ops} ops, {numbers} numbers in {len(imported.parameters)} parameters")
        ours = polyc.compile(imported, device=None if gpu else "cpu")
        far = (first(ours(x)).float() - right).abs().max() / right.abs().max()
        eager = (first(model(x)).float() - right).abs().max() / right.abs().max()
        print(f"off from eager in f32 by {float(far):.1e}; eager itself by {float(eager):.1e}")
        assert float(far) <= max(2 * float(eager), 1e-5)
        if gpu:
            print(ours.report)
        torch._dynamo.reset()
        again = torch.compile(model, backend=polyc.torch_backend)
        same = (first(again(x)).float() - first(ours(x)).float()).abs().max()
        print(f"torch.compile: {polyc.torch_reports()[-1]}; differs by {float(same):.1e}")
        for who, call in {"eager": model, "polyc": ours, "torch.compile": again}.items():
            print(f"{who}: {milliseconds(torch, lambda call=call: call(x), gpu):.2f} ms")


if __name__ == "__main__":
    main()
