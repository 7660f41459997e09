"""Convolutions of networks, or random ones, beside cuDNN, and how well their plans are chosen.

    python bench/conv_networks.py [--networks resnet50 unet mobilenet convnext regnet resnext]
        [--batch 1 32] [--layouts nhwc nchw] [--element f16 f32] [--weights run] [--tried 6]
        [--spread 6] [--cases PART …]
    python bench/conv_networks.py --random 200 [--seed 1] [--part 1/2] --tried 6 --spread 4

Each convolution of known sizes, as the compiler plans it, takes turns with cuDNN in benchmark mode,
which has the same tensors channels-last and not; the faster of its two is the peer.  With
``--tried`` so many first plans of the space by the model of time run too, and ``--spread`` of those
further behind, so that the model's choice stands beside the best of them (regret).  Results are
compared with cuDNN's before they are timed.  Of f32 both sides multiply in FP32: TF32 is off.
Filters are constants of a bound launch, which turns them once, as cuDNN's are turned to
channels-last before it is timed; with ``--weights run`` every run turns them.
Programs are built in other processes, and kept on disk, while the GPU times those before them.
What is far behind is timed once (``race.paced``).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from math import exp, log, prod
from typing import Any, NamedTuple, TypeGuard

from polyc.bench import race
from polyc.bench.graphs import kernel_times
from polyc.bench.race import Contestant
from polyc.bench.regret import mean
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.conv import problems, schedules, variants
from polyc.families.conv.recognise import find_convolution
from polyc.families.family import fitted
from polyc.families.registry import BY_NAME
from polyc.families.space import Tiling
from polyc.passes.pipeline import STAGES, build
from polyc.runtime import driver, kept
from polyc.runtime.lowered import lowered as finished
from polyc.runtime.program import Program
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCH = "sm_90a"

MOST_COPIES = 6
"""Sets of tensors that launches walk over."""

RESNET50 = """3x224x64 k7 s2, 64x56x64 k1, 64x56x64 k3, 64x56x256 k1, 256x56x64 k1, 256x56x128 k1,
128x56x128 k3 s2, 256x56x512 k1 s2, 128x28x512 k1, 512x28x128 k1, 128x28x128 k3, 512x28x256 k1,
256x28x256 k3 s2, 512x28x1024 k1 s2, 256x14x1024 k1, 1024x14x256 k1, 256x14x256 k3, 1024x14x512 k1,
512x14x512 k3 s2, 1024x14x2048 k1 s2, 512x7x2048 k1, 2048x7x512 k1, 512x7x512 k3"""

UNET = """4x64x320 k3, 320x64x320 k3, 320x64x320 k3 s2, 320x32x640 k3, 320x32x640 k1, 640x32x640 k3,
640x32x640 k3 s2, 640x16x1280 k3, 1280x16x1280 k3, 2560x16x1280 k3, 1920x32x640 k3, 960x32x640 k3,
960x64x320 k3, 640x64x320 k3, 320x64x4 k3"""

MOBILE = """3x224x16 k3 s2, 16x112x16 k3 g16, 64x112x64 k3 s2 g64, 72x56x72 k5 s2 g72,
120x28x120 k5 g120, 240x28x240 k3 s2 g240, 480x14x480 k3 g480, 672x14x672 k5 s2 g672,
960x7x960 k5 g960, 96x56x96 k7 g96, 384x14x384 k7 g384, 768x7x768 k7 g768, 128x56x128 k3 g32,
256x28x256 k3 g4"""
"""Of networks whose filters lie in groups: MobileNetV3, ConvNeXt, ResNeXt."""

MOBILENET = """3x224x16 k3 s2, 16x112x16 k3 g16, 16x112x16 k1, 16x112x64 k1, 64x112x64 k3 s2 g64,
64x56x24 k1, 24x56x72 k1, 72x56x72 k3 g72, 72x56x24 k1, 72x56x72 k5 s2 g72, 72x28x40 k1,
40x28x120 k1, 120x28x120 k5 g120, 120x28x40 k1, 40x28x240 k1, 240x28x240 k3 s2 g240,
240x14x80 k1, 80x14x200 k1, 200x14x200 k3 g200, 200x14x80 k1, 80x14x184 k1, 184x14x184 k3 g184,
184x14x80 k1, 80x14x480 k1, 480x14x480 k3 g480, 480x14x112 k1, 112x14x672 k1,
672x14x672 k3 g672, 672x14x112 k1, 672x14x672 k5 s2 g672, 672x7x160 k1, 160x7x960 k1,
960x7x960 k5 g960, 960x7x160 k1"""
"""MobileNetV3, large, without its gates."""

CONVNEXT = """3x224x96 k4 s4, 96x56x96 k7 g96, 96x56x384 k1, 384x56x96 k1, 96x56x192 k2 s2,
192x28x192 k7 g192, 192x28x768 k1, 768x28x192 k1, 192x28x384 k2 s2, 384x14x384 k7 g384,
384x14x1536 k1, 1536x14x384 k1, 384x14x768 k2 s2, 768x7x768 k7 g768, 768x7x3072 k1,
3072x7x768 k1"""
"""ConvNeXt, tiny."""

REGNET = """48x112x48 k3 s2 g2, 48x56x48 k3 g2, 120x56x120 k3 s2 g5, 120x28x120 k3 g5,
336x28x336 k3 s2 g14, 336x14x336 k3 g14, 888x14x888 k3 s2 g37, 888x7x888 k3 g37"""
"""RegNetY of 1.6 billion operations: its convolutions in groups, of 24."""

RESNEXT = """128x56x128 k3 g32, 256x56x256 k3 s2 g32, 256x28x256 k3 g32, 512x28x512 k3 s2 g32,
512x14x512 k3 g32, 1024x14x1024 k3 s2 g32, 1024x7x1024 k3 g32"""
"""ResNeXt-50, of 32 groups of 4 to 32: the same."""

NETWORKS = {
    "resnet50": RESNET50,
    "unet": UNET,
    "groups": MOBILE,
    "mobilenet": MOBILENET,
    "convnext": CONVNEXT,
    "regnet": REGNET,
    "resnext": RESNEXT,
}


@dataclass(frozen=True)
class Case:
    """A convolution of square images and filters; ``padding`` keeps the size at stride 1.

    Filters of even sizes, as patches, have none.
    """

    images: int
    channels: int
    height: int
    filters: int
    kernel: int
    stride: int = 1
    groups: int = 1
    layout: str = "nhwc"
    element: str = "f16"
    constant: bool = False
    """Whether the filter is said to keep what it holds."""

    @staticmethod
    def of(text: str) -> Case:
        """``128x56x128 k3 s2 g4``: channels, height, filters, taps, stride and groups."""
        sizes, *rest = text.split()
        channels, height, filters = map(int, sizes.split("x"))
        more = {part[0]: int(part[1:]) for part in rest}
        return Case(1, channels, height, filters, more["k"], more.get("s", 1), more.get("g", 1))

    @property
    def padding(self) -> int:
        return self.kernel // 2 if self.kernel % 2 else 0

    @property
    def size(self) -> int:
        """Rows of the output."""
        return (self.height + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def flops(self) -> int:
        taps = self.kernel**2 * self.channels // self.groups
        return 2 * self.images * self.size**2 * self.filters * taps

    @property
    def name(self) -> str:
        moves = f"k{self.kernel}" + (f" s{self.stride}" if self.stride > 1 else "")
        moves += f" g{self.groups}" if self.groups > 1 else ""
        moves += f" {self.layout}" + (f" {self.element}" if self.element != "f16" else "")
        return f"{self.images}x{self.channels}x{self.height}x{self.filters} {moves}"

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the image, the filter and the output, as they lie."""
        inner = self.channels // self.groups
        n, c, h, f, k, p = (
            *(self.images, self.channels, self.height, self.filters),
            *(self.kernel, self.size),
        )
        if self.layout == "nhwc":
            return (n, h, h, c), (f, k, k, inner), (n, p, p, f)
        return (n, c, h, h), (f, inner, k, k), (n, f, p, p)

    def text(self) -> str:
        """The convolution as a graph."""
        x, w, y = (
            f"!frontend.tensor<[{', '.join(map(str, shape))}], {self.element}>"
            for shape in self.shapes()
        )
        moves = f"stride [{self.stride}, {self.stride}] padding {[self.padding] * 4}"
        moves += f" dilation [1, 1] groups {self.groups} {{acc = f32}}"
        kept = ' {role = "param", storage = "const_pool"}' if self.constant else ""
        return f"""frontend.graph @conv(%X: {x}, %F: {w}{kept}) -> (Y: {y}) {{
  %0 = frontend.conv2d {self.layout} %X, %F {moves} : ({x}, {w}) -> {y}
  frontend.output %0 : {y}
}}
"""


def cases(
    networks: Sequence[str], batches: Sequence[int], layouts: Sequence[str], elements: Sequence[str]
) -> list[Case]:
    """The convolutions of networks, each once."""
    found: dict[Case, None] = {}
    for element, layout, images in product(elements, layouts, batches):
        for network in networks:
            for text in NETWORKS[network].split(","):
                case = Case.of(text.strip())
                found.setdefault(replace(case, images=images, layout=layout, element=element))
    return list(found)


KERNELS = (3, 1, 3, 1, 3, 5, 2, 7)
STRIDES = (1, 1, 2, 1)
LEAST_FLOPS, MOST_FLOPS = 1e7, 4e11
MOST_ELEMENTS = 1 << 26
"""Of an image or a filter."""


def random_cases(
    seed: int, count: int, layouts: Sequence[str], elements: Sequence[str]
) -> list[Case]:
    """Random convolutions of 1 to 64 images of 7² to 128², and of 16 to 2048 channels and filters,
    multiples of 8; a seventh have few of either.
    """
    draw = random.Random(seed)

    def number(least: float, most: float) -> float:
        return exp(draw.uniform(log(least), log(most)))

    found: list[Case] = []
    while len(found) < count:
        at = len(found)
        channels, filters = (max(8, round(number(16, 2048) / 8) * 8) for _ in range(2))
        if at % 7 == 6:
            channels, filters = (3, filters) if at % 2 else (channels, 4)
        kernel, stride = KERNELS[at % len(KERNELS)], draw.choice(STRIDES)
        made = Case(
            *(round(number(1, 64)), channels, round(number(7, 128)), filters, kernel, stride),
            layout=layouts[at % len(layouts)],
            element=elements[at % len(elements)],
        )
        tensors = [prod(shape) for shape in made.shapes()]
        if LEAST_FLOPS <= made.flops <= MOST_FLOPS and max(tensors) <= MOST_ELEMENTS:
            found.append(made)
    return found


def lowered(case: Case, *stages: str) -> Any:
    ctx = make_context()
    module = parse_text(ctx, case.text(), "conv.mlir")
    for stage in stages:
        for name in STAGES[stage]:
            build(name, ARCH).apply(ctx, module)
    return module


def chosen(case: Case) -> Program:
    """What the compiler makes of a convolution."""
    return _kept(case, "", lambda: lowered(case, *STAGES))


class Plan(NamedTuple):
    """A plan of the space, of pixels of all images as rows where it has them ``merged``."""

    tiling: Tiling
    merged: bool = False

    @property
    def name(self) -> str:
        return self.tiling.named("merged") if self.merged else self.tiling.name


def planned(case: Case, plan: Plan) -> Program:
    """A convolution under a plan of the space."""
    return _kept(case, plan.name, lambda: _planned(case, plan))


def _kept(case: Case, plan: str, lower: Callable[[], Any]) -> Program:
    """A program on disk, lowered where it is not there."""
    entry = kept.key("bench", {"conv": asdict(case), "plan": plan})
    return Program(kept.origin(entry, lambda: finished(lower())))


def _planned(case: Case, own: Plan) -> Any:
    tiling = own.tiling
    ctx, module = make_context(), lowered(case, "tiny", "index", "region", "plan")
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp) and is_conv(op))
    conv = find_convolution(kernel)
    for plan in [op for op in module.walk() if isinstance(op, ScheduleOp)]:
        if plan.kernel_name.startswith(f"{kernel.sym_name.data}_"):
            plan.detach()
    variant = variants.variant_of(tiling, ())
    if conv.planes:
        variant = variants.of_planes(conv, tiling)
    elif own.merged:
        variant = variants.merged_of(conv, tiling)
    elif (width := problems.stored_width(conv)) < problems.VECTOR:
        variant = variants.stored_by(width, variant)
    when = schedules.conditions(conv, variant)
    assert when is not None
    fields = schedules.schedule_fields(conv, ARCH, variant)
    block = kernel.parent_block()
    assert block is not None
    block.insert_op_after(fitted(kernel.sym_name.data, variant.name, fields, when), kernel)
    for name in (*STAGES["tiles"], *STAGES["gpu"]):
        build(name, ARCH).apply(ctx, module)
    return module


def is_kernel(op: object) -> TypeGuard[KernelOp]:
    """Whether an op is a region's kernel."""
    return isinstance(op, KernelOp)


def is_conv(kernel: KernelOp) -> bool:
    """Whether a region is one of the convolution's that runs each time, as an implicit GEMM."""
    constant = all(tensor.is_constant for tensor in kernel.inputs)
    return not constant and BY_NAME["conv"].takes(kernel)


def space_of(case: Case, tried: int, spread: int) -> list[tuple[float, Plan]]:
    """The first plans of the space for a convolution and some of the others, with what the model
    expects of their kernel in us, without a copy of the image beside it; none of a product.
    """
    kernels = [op for op in lowered(case, "tiny", "index", "region").walk() if is_kernel(op)]
    found = [op for op in kernels if is_conv(op)]
    if len(found) != 1:
        return []
    conv = find_convolution(found[0])
    if not problems.has_space(conv):
        return []
    form = problems.planes_form(conv) if conv.planes else problems.form_of(conv)
    seen = [(conv, form, False)]
    if conv.why_not_merged is None:
        seen.append((conv.merged, problems.merged_form(conv), True))
    plans: list[tuple[int, Plan]] = []
    for one, form, merged in seen:
        sizes: Any = tuple(size.constant() for size in problems.problem_of(one).sizes)
        found = ranking.ranked(sizes, ARCH, form)
        plans += [(time, Plan(plan, merged)) for time, plan in found]
    plans.sort(key=lambda plan: plan[0])
    near = [one for one in plans[tried:] if one[0] < 2 * plans[0][0]]
    others = random.Random(case.name).sample(near, min(spread, len(near)))
    return [(time / 1e3, plan) for time, plan in (*plans[:tried], *others)]


class Made(NamedTuple):
    """A plan of a convolution, what the model expects of it in us, and what is wrong with its
    program, if anything is."""

    plan: Plan
    model_us: float
    fault: str


def compiled(case: Case, plan: Plan | None) -> str:
    """Bring a program to the disk; what is wrong with it, if anything is."""
    try:
        kernels = (chosen(case) if plan is None else planned(case, plan)).kernels
    except Exception as error:  # One that fails is reported, and the others go on.
        return f"{type(error).__name__}: {str(error)[:300]}"
    spilled = [kernel for kernel, info in kernels.items() if info.spill_bytes]
    return f"spills in {', '.join(spilled)}" if spilled else ""


def made(case: Case, tried: int, spread: int) -> list[Made]:
    """The plans of a convolution, compiled and kept on disk, as what is chosen is."""
    if fault := compiled(case, None):
        print(f"own of {case.name} {fault}", flush=True)
    plans = space_of(case, tried, spread) if tried else []
    return [Made(plan, us, compiled(case, plan)) for us, plan in plans]


def tensors(torch: Any, case: Case) -> list[tuple[Any, Any, Any]]:
    """Random images and filters, whose sums have variance 1, and outputs, several of each."""
    shapes = case.shapes()
    dtype = {"f16": torch.float16, "f32": torch.float32}[case.element]
    bytes_of = sum(dtype.itemsize * torch.Size(shape).numel() for shape in shapes)
    found: list[tuple[Any, Any, Any]] = []
    for _ in range(race.copies_for(bytes_of, driver.device().l2_bytes, MOST_COPIES)):
        x, w, y = (torch.empty(shape, device="cuda", dtype=dtype) for shape in shapes)
        x.normal_()
        w.normal_().mul_((case.kernel**2 * case.channels // case.groups) ** -0.5)
        found.append((x, w, y))
    return found


def convolve(torch: Any, case: Case, x: Any, w: Any) -> Any:
    """PyTorch's convolution of the memory as it lies: NCHW shapes, whatever their strides."""
    if case.layout == "nhwc":
        x, w = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
    return torch.nn.functional.conv2d(
        x, w, stride=case.stride, padding=case.padding, groups=case.groups
    )


def contestants(
    torch: Any,
    case: Case,
    sets: Sequence[Any],
    jobs: Sequence[tuple[str, float, Program]],
) -> list[Contestant]:
    """cuDNN, channels-last and not, and kernels of polyc's that are right."""
    count, found = len(sets), list[Contestant]()
    other = torch.contiguous_format if case.layout == "nhwc" else torch.channels_last
    turned = [
        tuple(
            (t.permute(0, 3, 1, 2) if case.layout == "nhwc" else t).contiguous(memory_format=other)
            for t in one[:2]
        )
        for one in sets
    ]
    as_nchw = replace(case, layout="nchw")

    def as_given(i: int) -> None:
        convolve(torch, case, *sets[i % count][:2])

    def otherwise(i: int) -> None:
        convolve(torch, as_nchw, *turned[i % count])

    found.append(Contestant("cuDNN", as_given))
    found.append(Contestant("cuDNN other", otherwise))
    x, w, y = sets[0]
    right = convolve(torch, case, x, w).float()
    right = right.permute(0, 2, 3, 1) if case.layout == "nhwc" else right
    constants = ["F"] if case.constant else []
    for name, guess, made in jobs:
        launches = [made.launch([x, w], [y], constants=constants) for x, w, y in sets]
        y.fill_(float("nan"))
        launches[0].run(torch.cuda.current_stream().cuda_stream)
        wrong = (y.float() - right).abs().max().item()
        if not wrong < 0.02:
            print(f"WRONG {case.name} {name} by {wrong:.3g}", flush=True)
        traits = {"model_us": guess, "wrong": wrong, "variant": made.chosen({})}
        found.append(Contestant(name, race.in_turns(torch, launches), False, traits))
    return found


def measure(torch: Any, racers: Sequence[Contestant], copies: int) -> None:
    """Time contestants in turns, what is far behind once."""
    times = race.paced(torch, [racer.run for racer in racers], copies)
    for racer, us in zip(racers, times, strict=True):
        racer.milliseconds.append(us / 1e3)


def line(case: Case, racers: Sequence[Contestant]) -> str:
    """A case: cuDNN both ways, and what was chosen beside what was the fastest."""
    us = {racer.name: racer.median * 1e3 for racer in racers}
    peer = min(us["cuDNN"], us["cuDNN other"])
    own = next(racer for racer in racers if racer.name == "own")
    found = f"{case.name:30} cuDNN {us['cuDNN']:.1f} other {us['cuDNN other']:.1f}"
    found += f" own {us['own']:.1f} ({peer / us['own']:.2f}) {own.traits['variant']}"
    mine = [racer for racer in racers if not racer.peer and racer.name != "own"]
    if mine:
        best = min(mine, key=lambda racer: racer.median)
        found += f" best {best.name} {us[best.name]:.1f} ({us['own'] / us[best.name] - 1:+.0%})"
    return found


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Geometric means, by layout, images and type."""
    for kind in dict.fromkeys((row["layout"], row["images"], row["element"]) for row in rows):
        own = [r for r in rows if (r["layout"], r["images"], r["element"]) == kind]
        layout, images, element = kind
        ratios = sorted(row["peer_us"] / row["own_us"] for row in own)
        found = f"{layout} {element} batch {images}: {len(own)} convolutions, cuDNN / polyc "
        found += f"{mean(ratios):.3f}, least {ratios[0]:.2f}"
        print(found, flush=True)
    ranked = [
        {
            "own": {"us": row["own_us"]},
            "plans": [r for r in row["contestants"] if r.get("model_us")],
        }
        for row in rows
        if row.get("best_us")
    ]
    for text in race.summary(ranked):
        print(f"regret of {len(ranked)}, {text}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["resnet50", "unet"])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 32])
    parser.add_argument("--layouts", nargs="+", choices=["nhwc", "nchw"], default=["nhwc"])
    parser.add_argument("--element", nargs="+", choices=["f16", "f32"], default=["f16"])
    parser.add_argument(
        "--weights",
        choices=["once", "run"],
        default="once",
        help="whether filters are turned once, or in every run",
    )
    parser.add_argument("--random", type=int, default=0, help="so many, and none of networks")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tried", type=int, default=0)
    parser.add_argument("--spread", type=int, default=0)
    parser.add_argument("--cases", nargs="*", default=[], help="parts of names; others are left")
    parser.add_argument("--part", default="1/1", help="i/n: each n-th case, from the i-th on")
    parser.add_argument("--kernels", action="store_true", help="time each kernel of what is chosen")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--out", help="a folder for the report")
    parser.add_argument("--commit", help="what to record where there is no git")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = (
        random_cases(args.seed, args.random, args.layouts, args.element)
        if args.random
        else cases(args.networks, args.batch, args.layouts, args.element)
    )
    asked = [replace(case, constant=args.weights == "once") for case in asked]
    asked = [c for c in asked if not args.cases or any(part in c.name for part in args.cases)]
    asked = race.part_of(asked, args.part)
    ready = race.prepared(partial(made, tried=args.tried, spread=args.spread), asked)
    torch = race.load_torch("bench/conv_networks.py")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    rows: list[dict[str, Any]] = []
    for case, plans in ready:
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows)} of {len(asked)} convolutions")
            break
        try:
            if isinstance(plans, Exception):
                raise plans
            jobs = [("own", 0.0, chosen(case))]
            for plan, guess, fault in plans:
                if fault:
                    print(f"LEFT OUT {case.name} {plan.name}: {fault}", flush=True)
                else:
                    jobs.append((plan.name, guess, planned(case, plan)))
            with race.alone():
                sets = tensors(torch, case)
                racers = contestants(torch, case, sets, jobs)
                measure(torch, racers, len(sets))
                own = next(racer for racer in racers if racer.name == "own")
                parts = kernel_times(torch, own.run, len(sets)) if args.kernels else []
        except Exception as error:  # A case that fails must not stop the others.
            print(f"FAILED {case.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(line(case, racers), *parts, flush=True)
        us = {racer.name: racer.median * 1e3 for racer in racers}
        mine = [us[r.name] for r in racers if not r.peer and r.name != "own"]
        rows.append(
            {
                "case": case.name,
                "layout": case.layout,
                "images": case.images,
                "element": case.element,
                "flops": case.flops,
                "weights": args.weights,
                "peer_us": min(us["cuDNN"], us["cuDNN other"]),
                "own_us": us["own"],
                "best_us": min(mine, default=None),
                "kernels_us": parts,
                "contestants": [{"name": r.name, "us": us[r.name], **r.traits} for r in racers],
            }
        )
        del sets, racers
    ready.close()
    show(rows)
    if args.out:
        report = {**race.surroundings(torch, race.READINGS, args.commit), "rows": rows}
        print(race.write_report(f"conv_networks-{'-'.join(args.element)}", report, args.out))
    print(f"{time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
