"""Attention of the shapes and masks that models have, beside PyTorch's, in one process.

Heads of 32 to 512 features, cross attention, windows, soft caps, groups of any number of heads,
biases and masks that are data, layouts, f16, bf16 and f32; each compiled for its sizes.
``bench/graphs.py`` says how it is timed.  The peers are ``scaled_dot_product_attention`` as PyTorch
chooses its kernel, and by cuDNN's and the memory-efficient one where these take the case.

    python bench/attention_shapes.py [--cases heads_80 swin] [--part 1/2] [--seconds 60]
    python bench/attention_shapes.py --dry           # kernels and modelled times; needs no GPU

Needs an NVIDIA GPU and PyTorch, but for ``--dry``.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1
from xdsl.ir import SSAValue

from polyc.bench import graphs, in_torch, race, torch_attention
from polyc.bench.modelled import planned
from polyc.cost.device import H200
from polyc.cost.time import times_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import AttentionOp, GraphOp, tensor_of
from polyc.runtime.program import Program
from polyc.test.support.sketch import Sketch
from polyc.tools.load import load

ELEMENTS = {"f16": f16, "bf16": bf16, "f32": f32}
BACKENDS = {"cuDNN": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
"""The peers beside PyTorch's own choice, by PyTorch's names."""

PADDED = 0.75
"""The part of the keys that a padded sequence has at least."""


@dataclass(frozen=True)
class Shape:
    """An attention: ``mask`` is the shape of a mask over [batch, heads, queries, keys] as a word
    of the axes that it has (``bmn``, say), ``layout`` how q, k, v and the output lie."""

    batch: int = 4
    heads: int = 16
    queries: int = 2048
    features: int = 64
    keys: int | None = None
    kv_heads: int | None = None
    values: int | None = None
    causal: bool = False
    window: tuple[int, int] | None = None
    cap: float | None = None
    mask: str | None = None
    holds: bool = False
    """Whether the mask is i1, else it is added."""
    layout: str = "bhsd"
    dtype: str = "f16"

    def module(self, name: str) -> ModuleOp:
        s = Sketch(name, ELEMENTS[self.dtype])
        q, k, v = self._packed(s) if self.layout == "packed" else self._apart(s)
        masks = [] if self.mask is None else [self._mask(s)]
        y = s.add(AttentionOp(q, k, v, masks, causal=self.causal, window=self.window, cap=self.cap))
        if self.layout == "bhsd":
            return s.done(y=y)
        y = s.permute(y, 0, 2, 1, 3)
        return s.done(y=s.reshape(y, *tensor_of(y).dims[:2], self.heads * self._values))

    @property
    def _values(self) -> int:
        return self.values or self.features

    def _apart(self, s: Sketch) -> tuple[SSAValue, SSAValue, SSAValue]:
        few = self.kv_heads or self.heads
        keys = self.keys or self.queries

        def given(name: str, heads: int, length: int, width: int) -> SSAValue:
            if self.layout == "bhsd":
                return s.input(name, self.batch, heads, length, width)
            return s.permute(s.input(name, self.batch, length, heads, width), 0, 2, 1, 3)

        return (
            given("q", self.heads, self.queries, self.features),
            given("k", few, keys, self.features),
            given("v", few, keys, self._values),
        )

    def _packed(self, s: Sketch) -> tuple[SSAValue, SSAValue, SSAValue]:
        x = s.input("x", self.batch, self.queries, 3 * self.heads * self.features)
        five = s.reshape(x, self.batch, self.queries, 3, self.heads, self.features)
        shape = (self.batch, self.heads, self.queries, self.features)

        def part(at: int) -> SSAValue:
            return s.reshape(s.permute(s.cut(five, 2, at, at + 1), 2, 0, 3, 1, 4), *shape)

        return part(0), part(1), part(2)

    def _mask(self, s: Sketch) -> SSAValue:
        assert self.mask is not None
        whole = {
            "b": self.batch,
            "h": self.heads,
            "m": self.queries,
            "n": self.keys or self.queries,
        }
        shape = [size if axis in self.mask else 1 for axis, size in whole.items()]
        return s.input("seen" if self.holds else "bias", *shape, element=i1 if self.holds else None)

    def given(self, torch: Any) -> dict[str, Any]:
        """The mask, where it is i1: what follows a random length is hidden."""
        if not self.holds or self.mask is None:
            return {}
        keys = self.keys or self.queries
        shape = [
            self.batch if "b" in self.mask else 1,
            self.heads if "h" in self.mask else 1,
            self.queries if "m" in self.mask else 1,
            keys,
        ]
        least = int(PADDED * keys)
        lengths = torch.randint(least, keys + 1, (*shape[:3], 1), device="cuda")
        return {"seen": torch.arange(keys, device="cuda") < lengths}

    @property
    def size(self) -> float:
        """Scores."""
        return float(self.batch * self.heads * self.queries * (self.keys or self.queries))


def _shapes() -> dict[str, Shape]:
    found: dict[str, Shape] = {}
    for width in (32, 40, 48, 72, 80, 88, 96, 112, 160, 192, 256):
        one = Shape(heads=max(4, 1024 // width), features=width)
        found[f"heads_{width}"] = one
        if width in (32, 80, 96, 112, 192, 256):
            found[f"heads_{width}_causal"] = replace(one, causal=True)
    diffusion = Shape(batch=2, heads=8, layout="bshd")
    bert = Shape(batch=32, heads=12, queries=384)
    t5 = Shape(batch=8, heads=12, queries=512, mask="hmn")
    windowed = Shape(batch=2, heads=16, queries=8192, features=128, causal=True)
    grouped = Shape(batch=4, queries=2048, features=128, causal=True)
    return found | {
        "unet_64_self": replace(diffusion, queries=4096, features=40),
        "unet_32_self": replace(diffusion, queries=1024, features=80),
        "unet_16_self": replace(diffusion, queries=256, features=160),
        "unet_64_cross": replace(diffusion, queries=4096, features=40, keys=77),
        "unet_32_cross": replace(diffusion, queries=1024, features=80, keys=77),
        "sdxl_cross": replace(diffusion, heads=10, queries=4096, keys=77),
        "dit_4097": replace(diffusion, heads=24, queries=4097, features=128),
        "whisper_1500": Shape(batch=4, heads=20, queries=1500, layout="bshd"),
        "whisper_cross": Shape(batch=4, heads=20, queries=448, keys=1500, layout="bshd"),
        "vit_197": Shape(batch=64, heads=12, queries=197, layout="packed"),
        "clip_50": Shape(batch=128, heads=12, queries=50, layout="bshd"),
        "clip_77_causal": Shape(batch=64, heads=12, queries=77, causal=True, layout="bshd"),
        "siglip_72": Shape(batch=16, heads=16, queries=729, features=72, layout="packed"),
        "swin_49": Shape(batch=2048, heads=4, queries=49, features=32, mask="hmn"),
        "swin_49_late": Shape(batch=128, heads=16, queries=49, features=32, mask="hmn"),
        "swin_64_windows": Shape(batch=256, heads=6, queries=64, features=32, mask="bhmn"),
        "t5": t5,
        "t5_batched": replace(t5, mask="bhmn"),
        "t5_2048": replace(t5, batch=2, queries=2048),
        "alibi_slopes": Shape(batch=4, heads=16, queries=2048, mask="hn", causal=True),
        "bert_padded": replace(bert, mask="bn"),
        "bert_hidden": replace(bert, mask="bn", holds=True),
        "mask_mn": Shape(mask="mn"),
        "mask_mn_hidden": Shape(mask="mn", holds=True),
        "mask_bmn": replace(bert, mask="bmn", holds=True),
        "mask_72": Shape(features=72, heads=14, mask="mn"),
        "mask_128": Shape(features=128, heads=8, mask="mn"),
        "mask_256": Shape(features=256, heads=4, mask="mn"),
        "window_128": replace(windowed, window=(127, 0)),
        "window_1024": replace(windowed, window=(1023, 0)),
        "window_both": replace(windowed, causal=False, window=(256, 256), features=64),
        "cap_causal": replace(grouped, heads=8, kv_heads=4, features=256, cap=50.0),
        "cap_full": Shape(features=64, cap=30.0),
        "groups_7": replace(grouped, heads=28, kv_heads=4),
        "groups_3": replace(grouped, heads=24, kv_heads=8),
        "groups_5": replace(grouped, heads=40, kv_heads=8, batch=2),
        "groups_71": replace(grouped, heads=71, kv_heads=1, features=64, batch=1),
        "mla_192_128": replace(grouped, heads=16, features=192, values=128, batch=2),
        "vae_512": Shape(batch=1, heads=1, queries=4096, features=512),
        "f32_full": Shape(queries=1024, dtype="f32"),
        "f32_causal": Shape(queries=1024, causal=True, dtype="f32"),
        "f32_masked": replace(bert, batch=8, mask="bn", dtype="f32"),
        "f32_128": Shape(heads=8, queries=1024, features=128, dtype="f32"),
        "f32_vit": Shape(batch=16, heads=12, queries=197, layout="packed", dtype="f32"),
        "bf16_causal": replace(grouped, heads=16, dtype="bf16"),
        "bf16_masked": Shape(mask="mn", dtype="bf16"),
        "bshd_causal": Shape(causal=True, features=128, heads=8, layout="bshd"),
        "packed": Shape(features=128, heads=8, layout="packed"),
        "packed_112": Shape(features=112, heads=9, layout="packed"),
        "packed_80": Shape(features=80, heads=16, layout="packed"),
    }


SHAPES: Mapping[str, Shape] = _shapes()


def made(name: str) -> Program:
    """A case's program."""
    with redirect_stderr(StringIO()):
        return load(str(SHAPES[name].module(name)), graphs.ARCH)


def kept(name: str) -> int:
    """A case's kernels, compiled and kept on disk: how many there are."""
    return len(made(name).kernels)


def show(name: str) -> None:
    """Print what a case becomes on sm_90a, and what the model says of it."""
    start = time.perf_counter()
    module = SHAPES[name].module(name)
    try:
        program = made(name)
        with redirect_stderr(StringIO()):
            times = times_of(planned(str(module)), {}, H200)
    except PolycError as error:
        print(f"{name}: {str(error)[:300]}", flush=True)
        return
    spills = [k for k, info in program.kernels.items() if info.spill_bytes]
    total = sum(t.seconds for t in times) * 1e6
    taken = time.perf_counter() - start
    print(f"{name}: {len(times)} kernels, {total:.0f} us, spills {spills or 'none'}, {taken:.1f} s")
    for t in times:
        print(f"    {t.kernel} {t.variant}: {t.seconds * 1e6:.1f} us, {t.bound}", flush=True)


def peers(torch: Any, graph: GraphOp) -> dict[str, Callable[..., Any]]:
    """PyTorch's other kernels of an attention."""
    if any(op.cap is not None for op in graph.walk() if isinstance(op, AttentionOp)):
        return {}
    eager = in_torch.function(torch, graph, {})
    return {name: torch_attention.limited(torch, eager, kind) for name, kind in BACKENDS.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--part", default="1/1", help="i/n: each n-th case, from the i-th on")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=300, help="begin no case after these")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--dry", action="store_true", help="compile and model; time nothing")
    options = parser.parse_args(argv)
    names: list[str] = race.part_of(options.cases, options.part)
    if options.dry:
        for name in names:
            show(name)
        return 0
    begun = time.perf_counter()
    ready = race.prepared(kept, names)
    torch = race.load_torch("bench/attention_shapes.py")
    rows: list[dict[str, Any]] = []
    failed = 0
    for name, found in ready:
        if time.perf_counter() - begun > options.seconds:
            print(f"{name}: left out, and all behind it: the time is over")
            break
        try:
            if isinstance(found, Exception):
                raise found
            module = SHAPES[name].module(name)
            graph = next(op for op in module.ops if isinstance(op, GraphOp))
            with torch.no_grad():
                rows += graphs.raced(
                    torch,
                    name,
                    module,
                    {},
                    options.rounds,
                    None,
                    given=SHAPES[name].given(torch),
                    others=peers(torch, graph),
                    loaded=(made(name), 0.0),
                )
            failed += any((row["error_of_tolerance"] or 0) > 1 for row in rows[-4:])
        except Exception as error:  # A case that fails must not stop the others.
            failed += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        torch.cuda.empty_cache()
    ready.close()
    report = {
        "benchmark": "attention_shapes",
        **race.surroundings(torch, options.rounds, options.commit),
        "rows": rows,
    }
    print(race.write_report("attention_shapes", report, options.out))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
