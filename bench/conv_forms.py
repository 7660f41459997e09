"""Random convolutions of every form beside cuDNN: the class, where ``conv_networks.py`` has a list.

    python bench/conv_forms.py [--count 60] [--seed 1] [--elements f16 bf16 f32] [--part 1/2]
        [--cases PART …]
    python bench/conv_forms.py --dry            # that all compile, no GPU

Along one, two and three axes, channels first: any sizes, filters that are not square, steps,
dilations, padding, groups from one channel each up to one for all, and transposed ones.  What is of
f32 is multiplied in TF32 on both sides.  The peer is the faster of PyTorch's two layouts, cuDNN in
benchmark mode; filters are constants of a bound launch.  Results are compared with PyTorch's in f32
before they are timed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, prod
from typing import Any

from polyc.bench import race
from polyc.bench.race import Contestant
from polyc.bench.regret import mean
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"

TYPES = {"f16": ("float16", 2), "bf16": ("bfloat16", 2), "f32": ("float32", 4)}
"""PyTorch's name of a type, and its bytes."""

LEAST, MOST = 2e7, 6e10
"""Operations of a convolution."""

MOST_ELEMENTS = 1 << 25
"""Of a tensor."""

MOST_COPIES = 6
"""Sets of tensors that launches walk over."""

DISASTER = 0.3
"""Below so much of cuDNN a form counts as a disaster."""


@dataclass(frozen=True)
class Form:
    """A convolution along one to three axes, whose ``sizes`` are of what it reads."""

    images: int
    channels: int
    filters: int
    sizes: tuple[int, ...]
    taps: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]
    groups: int
    transposed: bool
    element: str

    @property
    def made(self) -> tuple[int, ...]:
        """The sizes of the result."""
        walked = zip(self.sizes, self.taps, self.steps, self.dilations, self.padding, strict=True)
        if self.transposed:
            return tuple((n - 1) * s - 2 * p + d * (t - 1) + 1 for n, t, s, d, p in walked)
        return tuple((n + 2 * p - d * (t - 1) - 1) // s + 1 for n, t, s, d, p in walked)

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of the image, the filter and the result."""
        c, f, g = self.channels, self.filters, self.groups
        filter = (c, f // g) if self.transposed else (f, c // g)
        image, made = (self.images, c, *self.sizes), (self.images, f, *self.made)
        return image, (*filter, *self.taps), made

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        pixels = prod(self.sizes if self.transposed else self.made)
        work = self.images * pixels * prod(self.taps)
        return 2.0 * work * self.channels * self.filters / self.groups

    @property
    def depth(self) -> int:
        """Products of each element of the result, at most."""
        return max(1, prod(self.taps) * self.channels // self.groups)

    @property
    def name(self) -> str:
        """``2d f16 8x64x56x56 f64 k3x3 s1x1 d1x1 p1x1 g1``."""
        parts = {"k": self.taps, "s": self.steps, "d": self.dilations, "p": self.padding}
        shape = "x".join(map(str, self.shapes[0]))
        moves = " ".join(key + "x".join(map(str, values)) for key, values in parts.items())
        kind = f"{len(self.sizes)}d{' transposed' if self.transposed else ''} {self.element}"
        return f"{kind} {shape} f{self.filters} {moves} g{self.groups}"

    def text(self, constant: bool = True) -> str:
        """The convolution as a graph, whose filter may keep what it holds."""
        x, w, y = (
            f"!frontend.tensor<[{', '.join(map(str, shape))}], {self.element}>"
            for shape in self.shapes
        )
        rank = len(self.sizes)
        layout = {1: "ncw", 2: "nchw", 3: "ncdhw"}[rank]
        name = f"conv{'_transpose' if self.transposed else ''}{rank}d"
        sides = [p for p in self.padding for _ in range(2)]
        more = f" output_padding {[0] * rank}" if self.transposed else ""
        way = ', precision = "tf32"' if self.element == "f32" else ""
        moves = f"stride {list(self.steps)} padding {sides}{more} dilation {list(self.dilations)}"
        kept = ' {role = "param", storage = "const_pool"}' if constant else ""
        types = f"({x}, {w}) -> {y}"
        return f"""frontend.graph @conv(%X: {x}, %F: {w}{kept}) -> (Y: {y}) {{
  %0 = frontend.{name} {layout} %X, %F {moves} groups {self.groups} {{acc = f32{way}}} : {types}
  frontend.output %0 : {y}
}}
"""


def drawn(draw: random.Random, element: str) -> Form:
    """Any convolution."""

    def number(least: float, most: float) -> int:
        return round(exp(draw.uniform(log(least), log(most))))

    rank = draw.choice((2, 2, 2, 1, 1, 3))
    transposed = draw.random() < 0.2
    side = {1: (64, 8192), 2: (6, 160), 3: (5, 32)}[rank]
    one = number(*side)
    square = draw.random() < 0.6
    sizes = tuple(one if square else number(*side) for _ in range(rank))
    tap = draw.choice((1, 2, 3, 3, 3, 4, 5, 7))
    taps = tuple(tap if square else draw.choice((1, 2, 3, 5, 7)) for _ in range(rank))
    step = draw.choice((1, 1, 1, 2, 2, 3))
    steps = tuple(step if square else draw.choice((1, 1, 2)) for _ in range(rank))
    dilation = draw.choice((1, 1, 1, 1, 2, 3))
    dilations = tuple(dilation for _ in range(rank))
    same = draw.random() < 0.7
    padding = tuple(d * (t - 1) // 2 if same else 0 for t, d in zip(taps, dilations, strict=True))
    way = draw.choice(("one", "one", "one", "each", "some"))
    channels, filters = number(1, 700), number(1, 700)
    if draw.random() < 0.6:
        channels, filters = (max(8, n // 8 * 8) for n in (channels, filters))
    groups = 1
    if way == "each":
        filters = groups = channels
    elif way == "some":
        inner, outer = draw.choice((2, 4, 8, 16, 32)), draw.choice((2, 4, 8, 16, 32))
        groups = number(2, 64)
        channels, filters = groups * inner, groups * outer
    images = number(1, 48)
    return Form(
        *(images, channels, filters, sizes, taps, steps, dilations, padding, groups),
        *(transposed, element),
    )


def forms(seed: int, count: int, elements: Sequence[str]) -> list[Form]:
    """So many random convolutions that are neither tiny nor huge."""
    draw = random.Random(seed)
    found: list[Form] = []
    while len(found) < count:
        form = drawn(draw, elements[len(found) % len(elements)])
        shapes = form.shapes
        if min(map(min, shapes)) < 1 or max(map(prod, shapes)) > MOST_ELEMENTS:
            continue
        if LEAST <= form.flops <= MOST:
            found.append(form)
    return found


def program(form: Form) -> Program:
    """What the compiler makes of a convolution, from the disk where it is there."""
    return load(form.text(), ARCH)


def kernels_of(form: Form) -> str:
    """The names of its kernels."""
    return " ".join(name.removeprefix("conv_") for name in program(form).kernels)


def compiled(form: Form) -> str:
    """Bring a program to the disk; what is wrong with it, if anything is."""
    try:
        kernels = program(form).kernels
    except Exception as error:  # One that fails is reported, and the others go on.
        return f"{type(error).__name__}: {str(error)[:300]}"
    spilled = [name for name, info in kernels.items() if info.spill_bytes]
    return f"spills in {', '.join(spilled)}" if spilled else ""


def convolve(torch: Any, form: Form, x: Any, w: Any) -> Any:
    """PyTorch's convolution."""
    rank = len(form.sizes)
    name = f"conv{'_transpose' if form.transposed else ''}{rank}d"
    return getattr(torch.nn.functional, name)(
        x, w, stride=form.steps, padding=form.padding, dilation=form.dilations, groups=form.groups
    )


def raced(torch: Any, form: Form) -> tuple[list[Contestant], object]:
    """cuDNN, channels last too where PyTorch has that, and polyc; and what they run on."""
    dtype = getattr(torch, TYPES[form.element][0])
    shapes = form.shapes
    size = sum(map(prod, shapes)) * TYPES[form.element][1]
    count = race.copies_for(size, driver.device().l2_bytes, MOST_COPIES)
    sets: list[tuple[Any, Any, Any]] = []
    for _ in range(count):
        x, w, y = (torch.randn(shape, device="cuda").to(dtype) for shape in shapes)
        sets.append((x, w.mul_(form.depth**-0.5), y))
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(shapes[0]))
    found: list[Contestant] = []
    for name, way in (("cuDNN", torch.contiguous_format), ("cuDNN other", last)):
        if way is not None:
            turned = [[t.contiguous(memory_format=way) for t in one[:2]] for one in sets]

            def run(i: int, turned: Any = turned) -> None:
                convolve(torch, form, *turned[i % count])

            found.append(Contestant(name, run))
    x, w, y = sets[0]
    right = convolve(torch, form, x.double().cpu(), w.double().cpu()) if size < 1 << 20 else None
    if right is None:
        allowed = torch.backends.cudnn.allow_tf32
        torch.backends.cudnn.allow_tf32 = False
        right = convolve(torch, form, x.float(), w.float())
        torch.backends.cudnn.allow_tf32 = allowed
    launches = [program(form).launch([x, w], [y], constants=["F"]) for x, w, y in sets]
    y.fill_(float("nan"))
    launches[0].run(torch.cuda.current_stream().cuda_stream)
    wrong = (y.float() - right.to(y.device).float()).abs().max().item()
    traits = {"wrong": wrong, "kernels": kernels_of(form)}
    found.append(Contestant("own", race.in_turns(torch, launches), False, traits))
    return found, sets


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--elements", nargs="+", choices=TYPES, default=["f16", "bf16", "f32"])
    parser.add_argument("--part", default="1/1", help="i/n: each n-th form, from the i-th on")
    parser.add_argument("--cases", nargs="*", default=[], help="parts of names; others are left")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--dry", action="store_true", help="compile all, and time nothing")
    parser.add_argument("--out", help="a folder for the report")
    parser.add_argument("--commit", help="what to record where there is no git")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    asked = race.part_of(forms(args.seed, args.count, args.elements), args.part)
    asked = [f for f in asked if not args.cases or any(part in f.name for part in args.cases)]
    ready = race.prepared(compiled, asked)
    if args.dry:
        for form, fault in ready:
            print(f"{form.name}: {fault or kernels_of(form)}", flush=True)
        return 0
    torch = race.load_torch("bench/conv_forms.py")
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    rows: list[dict[str, Any]] = []
    for form, fault in ready:
        if time.perf_counter() - start > args.seconds:
            print(f"stopped after {len(rows)} of {len(asked)} convolutions")
            break
        try:
            if isinstance(fault, Exception):
                raise fault
            if fault:
                print(f"{form.name} {fault}", flush=True)
            with race.alone():
                racers, sets = raced(torch, form)
                runs = [racer.run for racer in racers]
                times = race.paced(torch, runs, MOST_COPIES)
                del sets
        except Exception as error:  # A form that fails must not stop the others.
            print(f"FAILED {form.name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        us = {racer.name: one for racer, one in zip(racers, times, strict=True)}
        peer = min(one for name, one in us.items() if name != "own")
        own = racers[-1].traits
        row = {"form": form.name, "flops": form.flops, "us": us, "peer_us": peer, **own}
        rows.append({**row, "fault": fault})
        print(
            f"{peer / us['own']:5.2f} {form.name} cuDNN {peer:.1f} own {us['own']:.1f} "
            f"{own['kernels']} off {own['wrong']:.2g}",
            flush=True,
        )
    ready.close()
    if rows:
        ratios = sorted(row["peer_us"] / row["us"]["own"] for row in rows)
        below = sum(ratio < DISASTER for ratio in ratios)
        print(
            f"{len(rows)} forms, cuDNN / polyc {mean(ratios):.3f}, least {ratios[0]:.2f}, ", end=""
        )
        print(f"{below} below {DISASTER}")
    if args.out:
        report = {**race.surroundings(torch, race.READINGS, args.commit), "rows": rows}
        print(race.write_report("conv_forms", report, args.out))
    print(f"{time.perf_counter() - start:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
