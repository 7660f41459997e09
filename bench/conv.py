"""Time polyc's 3x3 convolutions beside cuDNN on one GPU, in one process.

``bench/race.py`` says how it is timed.  The kernels are those of examples/tile, each with its
own tile; ``chosen`` marks the one that the dispatch takes.  ``polyc graph`` is what the compiler
makes of the convolution as a graph, by its own plan.  cuDNN runs in benchmark mode on
channels-last tensors, which it reads as they are.

    python bench/conv.py [--shapes 32x128x28 128x256x56x256] [--dtype f16]

A shape is images x channels x height (and width) [x filters].  Needs an NVIDIA GPU and PyTorch,
which brings cuDNN.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyc.bench import race, right
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.passes.finish import finish
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {1: "conv3x3_sm90.mlir", 2: "conv3x3_stride2_sm90.mlir"}
"""The program for each stride."""

GRAPH_TEXT = """
frontend.graph @conv(%X: !frontend.tensor<[N, H, W, C], f16>, %F: !frontend.tensor<[K, 3, 3, C], f16>)
    -> (Y: !frontend.tensor<[N, {P}, {Q}, K], f16>) {{
  %0 = frontend.conv2d nhwc %X, %F stride [{s}, {s}] padding [1, 1, 1, 1] dilation [1, 1] groups 1 {{acc = f32}}
      : (!frontend.tensor<[N, H, W, C], f16>, !frontend.tensor<[K, 3, 3, C], f16>) -> !frontend.tensor<[N, {P}, {Q}, K], f16>
  frontend.output %0 : !frontend.tensor<[N, {P}, {Q}, K], f16>
}}
"""  # noqa: E501

SHAPES = ["32x128x28", "32x256x14", "8x320x64", "128x256x56"]
Shape = tuple[int, int, int, int]
Inputs = tuple[Any, Any, Any]
"""X [N, H, W, C], F [K, 9, C] and the output [pixels, K]."""


def parse_shape(text: str) -> Shape:
    """``32x128x28`` is 32 images of 28x28 pixels, 128 channels and 128 filters."""
    sizes = [int(size) for size in text.split("x")]
    if len(sizes) == 3:
        sizes.append(sizes[1])
    if len(sizes) != 4 or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not NxCxH or NxCxHxK")
    return sizes[0], sizes[1], sizes[2], sizes[3]


def output_size(height: int, stride: int) -> int:
    return (height - 1) // stride + 1


def make_inputs(torch: Any, shape: Shape, stride: int, dtype: Any, l2_bytes: int) -> list[Inputs]:
    """Random inputs, in as many copies as make four times the L2 cache, at most 32.

    Filters are scaled so that the sums have variance 1 whatever the channels are.
    """
    images, channels, height, filters = shape
    pixels = images * output_size(height, stride) ** 2
    one = 2 * (images * height**2 * channels + 9 * channels * filters + pixels * filters)
    found: list[Inputs] = []
    for _ in range(race.copies_for(one, l2_bytes)):
        x = torch.randn(images, height, height, channels, device="cuda", dtype=dtype)
        f = torch.randn(filters, 9, channels, device="cuda", dtype=dtype)
        f *= (9 * channels) ** -0.5
        found.append((x, f, torch.empty(pixels, filters, device="cuda", dtype=dtype)))
    return found


def convolve(torch: Any, x: Any, f: Any, stride: int) -> Any:
    """PyTorch's convolution of the same memory: NCHW shapes with channels-last strides."""
    filters, _, channels = f.shape
    weights = f.view(filters, 3, 3, channels).permute(0, 3, 1, 2)
    image = x.permute(0, 3, 1, 2)
    return torch.nn.functional.conv2d(image, weights, stride=stride, padding=1)


def check(torch: Any, inputs: Inputs, stride: int, contestant: Contestant) -> float:
    """The largest error in parts of what agrees; over 1 is wrong (S0.6)."""
    x, f, out = inputs
    out.fill_(float("nan"))
    contestant.run(0)
    images, height = x.shape[:2]
    size = output_size(height, stride)
    filters = right.on_host(torch, f).reshape(f.shape[0], -1).T
    padded = torch.nn.functional.pad(x, (0, 0, 1, 1, 1, 1))

    def wanted(rows: Sequence[int]) -> Any:
        columns: list[Any] = []
        for row in rows:
            image, (p, q) = row // size**2, divmod(row % size**2, size)
            window = padded[image, p * stride : p * stride + 3, q * stride : q * stride + 3]
            columns.append(right.on_host(torch, window).reshape(-1))
        return right.product(np.stack(columns), filters)

    return right.worst(torch, out, right.picked(images * size**2), wanted)


def contestants(
    torch: Any,
    program: Program,
    graph_program: Program,
    sets: Sequence[Inputs],
    shape: Shape,
    stride: int,
) -> list[Contestant]:
    """polyc's kernels and cuDNN's for one shape."""
    found: list[Contestant] = []
    count = len(sets)
    images, channels, height, filters = shape
    sizes = {"N": images, "H": height, "W": height, "C": channels, "K": filters}
    chosen = program.chosen(sizes)
    x_out = (output_size(height, stride), output_size(height, stride))
    for name in program.variants:
        try:
            launches = [program.launch([x, f], [out], sizes, name) for x, f, out in sets]
        except PolycError:
            continue  # The kernel does not take this shape.
        run = race.in_turns(torch, launches)
        found.append(Contestant(f"polyc {name}", run, False, {"chosen": name == chosen}))

    of_graph = [
        graph_program.launch(
            [x, f.view(filters, 3, 3, channels)], [out.view(images, *x_out, filters)], sizes
        )
        for x, f, out in sets
    ]
    run, taken = race.in_turns(torch, of_graph), graph_program.chosen(sizes)
    found.append(Contestant("polyc graph", run, False, {"chosen": taken}))

    def eager(i: int) -> None:
        x, f, _ = sets[i % count]
        convolve(torch, x, f, stride)

    found.append(Contestant("cuDNN", eager))
    return found


def compile_program(stride: int, dtype: str) -> Program:
    path = ROOT / "examples" / "tile" / EXAMPLES[stride]
    text = re.sub(r"\bf16\b", dtype, path.read_text(encoding="utf-8"))
    module = parse_text(make_context(), text, path.name)
    start = time.perf_counter()
    finish(module)
    program = Program.compile(module)
    print(f"compiled {path.name} in {time.perf_counter() - start:.2f} s")
    for line in program.warnings():
        print(f"  {line}")
    return program


def compile_graph(stride: int, dtype: str) -> Program:
    """The convolution as a graph, down to kernels by the compiler's own plan."""
    sizes = {"P": "H", "Q": "W"}
    if stride != 1:
        sizes = {k: f"({v} - 1) floordiv {stride} + 1" for k, v in sizes.items()}
    text = re.sub(r"\bf16\b", dtype, GRAPH_TEXT.format(s=stride, **sizes))
    ctx = make_context()
    module = parse_text(ctx, text, "conv graph")
    return Program.compile(Compilation(ctx, module, "sm_90a").run().module)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time polyc's convolutions beside cuDNN.")
    parser.add_argument("--shapes", nargs="+", type=parse_shape, metavar="NxCxH[xK]")
    parser.add_argument("--stride", type=int, choices=EXAMPLES, default=1)
    parser.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--out", default=str(ROOT / "bench" / "results"), help="folder, or - for none"
    )
    parser.add_argument("--commit", help="what to record where there is no git")
    args = parser.parse_args(argv)
    torch = race.load_torch("bench/conv.py")
    try:
        return run(torch, args)
    except PolycError as error:
        print(error, file=sys.stderr)
        return 1


def run(torch: Any, args: argparse.Namespace) -> int:
    program = compile_program(args.stride, args.dtype)
    graph_program = compile_graph(args.stride, args.dtype)
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[args.dtype]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    report: dict[str, Any] = {
        **race.surroundings(torch, args.rounds, args.commit),
        "cudnn": torch.backends.cudnn.version(),
        "dtype": args.dtype,
        "stride": args.stride,
        "kernels": {
            name: {"registers": info.registers, "spill_bytes": info.spill_bytes}
            for name, info in program.kernels.items()
        },
    }
    print(f"{report['device']}, torch {report['torch']}, cuDNN {report['cudnn']}, {args.dtype}")
    rows: list[dict[str, Any]] = []
    wrong = False
    shapes: list[Shape] = args.shapes or [parse_shape(text) for text in SHAPES]
    for shape in shapes:
        images, channels, height, filters = shape
        sets = make_inputs(torch, shape, args.stride, dtype, report["l2_bytes"])
        racers = contestants(torch, program, graph_program, sets, shape, args.stride)
        errors = {r.name: check(torch, sets[0], args.stride, r) for r in racers if not r.peer}
        wrong |= any(error > 1 for error in errors.values())
        race.measure(torch, racers, args.rounds, len(sets))
        pixels = images * output_size(height, args.stride) ** 2
        case = f"{images}x{channels}x{height}x{filters} stride {args.stride}"
        found = race.result_rows(
            case, racers, 2 * pixels * filters * 9 * channels, "TFLOP/s", errors
        )
        race.print_rows(found)
        rows += found
        del racers, sets
    report["rows"] = rows
    if args.out != "-":
        path = race.write_report(f"conv-{args.dtype}-stride{args.stride}", report, args.out)
        print(f"wrote {path}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
