"""Whole blocks of networks, as they come from PyTorch in NCHW and channels last, beside PyTorch.

    python bench/blocks.py [--blocks bottleneck basic …] [--layouts nchw nhwc] [--batch 32]
        [--compile] [--model]

ResNet-50's bottlenecks at each of its sizes, with and without a step, ResNet-18's basic blocks,
what a UNet joins, and the ends of a classifier; f16.  ``bench/graphs.py`` says how it is timed.  A
row has what the model of time expects of each kernel.  With ``--model`` that is all, and no GPU is
needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from polyc.bench import graphs, race
from polyc.bench.modelled import planned
from polyc.cost.device import H200
from polyc.cost.time import times_of
from polyc.test.support.model_programs import conv
from polyc.test.support.sketch import Sketch
from polyc.tools.printing import module_text


class Block(Sketch):
    """A block of images in one layout."""

    def __init__(self, name: str, layout: str, images: int) -> None:
        super().__init__(name)
        self.layout, self.images = layout, images

    def image(self, channels: int, size: int, name: str = "x") -> SSAValue:
        if self.layout == "nchw":
            return self.input(name, self.images, channels, size, size)
        return self.input(name, self.images, size, size, channels)

    def convolved(self, x: SSAValue, name: str, filters: int, taps: int, step: int = 1) -> SSAValue:
        """A convolution with its folded norm."""
        return conv(self, x, name, filters, taps, step, layout=self.layout)

    def relu(self, x: SSAValue) -> SSAValue:
        return self.fn("relu", x)

    def mean(self, x: SSAValue) -> SSAValue:
        """Of each channel."""
        axes = (2, 3) if self.layout == "nchw" else (1, 2)
        return self.reduce("mean", x, *axes)


def bottleneck(mid: int, size: int, s: Block, step: int = 1) -> ModuleOp:
    """Of ResNet-50; with a step of twice the filters, and the skip is a projection."""
    x = s.image(4 * mid // step, size)
    y = s.relu(s.convolved(x, "w1", mid, 1))
    y = s.convolved(s.relu(s.convolved(y, "w2", mid, 3, step)), "w3", 4 * mid, 1)
    skip = x if step == 1 else s.convolved(x, "w0", 4 * mid, 1, step)
    return s.done(y=s.relu(s.fn("add", y, skip)))


def basic(filters: int, size: int, s: Block) -> ModuleOp:
    """Of ResNet-18."""
    x = s.image(filters, size)
    y = s.convolved(s.relu(s.convolved(x, "w1", filters, 3)), "w2", filters, 3)
    return s.done(y=s.relu(s.fn("add", y, x)))


def two(mid: int, size: int, s: Block) -> ModuleOp:
    """Two bottlenecks, one after the other: what lies between them."""
    x = s.image(4 * mid, size)
    for i in "ab":
        y = s.relu(s.convolved(x, f"w1{i}", mid, 1))
        y = s.convolved(s.relu(s.convolved(y, f"w2{i}", mid, 3)), f"w3{i}", 4 * mid, 1)
        x = s.relu(s.fn("add", y, x))
    return s.done(y=x)


def joined(channels: int, size: int, s: Block) -> ModuleOp:
    """A UNet's decoder: an earlier image beside what was convolved, and one more convolution."""
    x, u = s.image(channels, size), s.image(channels, size, "x1")
    y = s.relu(s.convolved(x, "w1", channels, 3))
    y = s.concat(1 if s.layout == "nchw" else 3, y, u)
    return s.done(y=s.relu(s.convolved(y, "w2", channels, 3)))


def headed(mid: int, size: int, s: Block) -> ModuleOp:
    """ResNet-50's end: the last convolutions, the mean over pixels and the logits."""
    y = s.relu(s.convolved(s.image(mid, size), "w2", mid, 3))
    y = s.relu(s.convolved(y, "w3", 4 * mid, 1))
    return s.done(y=s.linear(s.mean(y), "w4", 1000))


BLOCKS: Mapping[str, Callable[[Block], ModuleOp]] = {
    "bottleneck_56": partial(bottleneck, 64, 56),
    "bottleneck_28": partial(bottleneck, 128, 28),
    "bottleneck_14": partial(bottleneck, 256, 14),
    "bottleneck_7": partial(bottleneck, 512, 7),
    "bottleneck_56_step": partial(bottleneck, 128, 56, step=2),
    "bottleneck_28_step": partial(bottleneck, 256, 28, step=2),
    "bottleneck_14_step": partial(bottleneck, 512, 14, step=2),
    "two_bottlenecks": partial(two, 64, 56),
    "basic_56": partial(basic, 64, 56),
    "basic_28": partial(basic, 128, 28),
    "joined_64": partial(joined, 320, 64),
    "headed": partial(headed, 512, 7),
}


def modelled(module: ModuleOp) -> list[list[Any]]:
    """The kernels with what the model of time expects of each on an H200, in us."""
    times = times_of(planned(module_text(module)), {}, H200)
    return [[t.kernel, t.variant, round(t.seconds * 1e6, 2)] for t in times]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--blocks", nargs="+", choices=BLOCKS, default=list(BLOCKS))
    parser.add_argument("--layouts", nargs="+", choices=["nchw", "nhwc"], default=["nchw", "nhwc"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--compile", action="store_true", help="race torch.compile's best too")
    parser.add_argument("--model", action="store_true", help="print what the model expects alone")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results")
    options = parser.parse_args(argv)
    torch = None if options.model else race.load_torch("bench/blocks.py")
    rows: list[dict[str, Any]] = []
    for name in options.blocks:
        for layout in options.layouts:
            title = f"{name} {layout}"
            module = BLOCKS[name](Block(name, layout, options.batch))
            expected = modelled(module)
            total = sum(time for *_, time in expected)
            print(f"{title:28} {len(expected)} kernels, modelled {total:.1f} us", flush=True)
            if torch is None:
                continue
            mode = "max-autotune-no-cudagraphs" if options.compile else None
            with torch.no_grad():
                raced = graphs.raced(torch, title, module, {}, options.rounds, mode)
            raced[0]["modelled_us"] = expected
            rows += raced
    if torch is not None:
        report = {**race.surroundings(torch, options.rounds, options.commit), "rows": rows}
        print(race.write_report("blocks-f16", report, options.out))
    return 1 if any((row["error_of_tolerance"] or 0) > 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
