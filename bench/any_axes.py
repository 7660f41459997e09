"""Race reductions, norms and softmaxes over random axes of random shapes beside torch.compile.

    python bench/any_axes.py [--count 60] [--seed 1] [--part 1/2] [--seconds 100] [--out FILE]
    python bench/any_axes.py --problems softmax:4096x393216:1:f32 sum:16x512x4096:0,2:f16
    python bench/any_axes.py --dry       # plans and modelled times beside a copy's, no GPU

Tensors have two to five axes, of odd sizes too, 16 to 256 MB, in f16, bf16, f32 or ui8.  For each
problem these take turns: what the compiler makes of the graph with its sizes in it, PyTorch's
``torch.compile`` in ``--mode``, eager PyTorch and a copy of the tensor.  Results are compared with
PyTorch's of more bits first.

Programs are built in other processes, and kept on disk, while the GPU times those before them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from math import exp, log, prod
from typing import Any, NamedTuple

from polyc.bench import race
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.load import load

ARCH = "sm_90a"
BYTES = 1 << 24, 1 << 28
"""Of a tensor."""

TYPES = {
    "f16": ("float16", 2, 2.0**-9),
    "bf16": ("bfloat16", 2, 2.0**-6),
    "f32": ("float32", 4, 2.0**-15),
    "ui8": ("uint8", 1, 0.0),
}
"""PyTorch's name of a type, its bytes, and what a result is off by at most, of the largest."""

MOST_DOUBLE = 1 << 28
"""Elements of f32 that are held against a result of f64, for which the memory has room."""

EPSILON = 1e-5
ABOVE = 100
"""What a number of ui8 is held against."""


class Problem(NamedTuple):
    """An op over ``axes`` of a tensor."""

    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    kind: str

    @property
    def said(self) -> str:
        """As ``--problems`` takes it."""
        shape, axes = "x".join(map(str, self.shape)), ",".join(map(str, self.axes))
        return f"{self.op}:{shape}:{axes}:{self.kind}"

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the result."""
        if self.op in SAME:
            return self.shape
        return tuple(n for at, n in enumerate(self.shape) if at not in self.axes)

    @property
    def out(self) -> str:
        """The type of the result."""
        return {"any": "i1", "all": "i1", "argmax": "i64"}.get(self.op, self.kind)


def parse_problem(text: str) -> Problem:
    """``softmax:4096x393216:1:f32``."""
    op, shape, axes, kind = text.split(":")
    numbers = tuple(map(int, shape.split("x"))), tuple(map(int, axes.split(",")))
    if op not in PEERS or kind not in TYPES:
        raise ValueError(f"{op} of {kind} is none of {', '.join(PEERS)} of {', '.join(TYPES)}")
    return Problem(op, *numbers, kind)


# The graphs --------------------------------------------------------------------------------


def _tensor(shape: Sequence[int], kind: str) -> str:
    return f"!frontend.tensor<[{', '.join(map(str, shape))}], {kind}>"


def text_of(problem: Problem) -> str:
    """The graph of a problem."""
    op, shape, axes, kind = problem
    x, y = _tensor(shape, kind), _tensor(problem.result, problem.out)
    kept = [1 if at in axes else n for at, n in enumerate(shape)]
    k, at = _tensor(kept, kind), f"axes [{', '.join(map(str, axes))}]"
    match op:
        case "sum" | "mean" | "max" | "prod":
            body = f"  %y = frontend.reduce {op} %x {at} : {x} -> {y}"
        case "any" | "all":
            c, one = _tensor(shape, "i1"), f"!frontend.tensor<[], {kind}>"
            body = (
                f"  %z = frontend.constant {ABOVE} : {one}\n"
                f"  %c = frontend.compare gt %x, %z : ({x}, {one}) -> {c}\n"
                f"  %y = frontend.reduce {op} %c {at} : {c} -> {y}"
            )
        case "argmax":
            body = f"  %y = frontend.arg_reduce max %x axis {axes[0]} : {x} -> {y}"
        case "softmax" | "log_softmax":
            body = f"  %y = frontend.{op} %x {at} : {x}"
        case "layer_norm" | "rms_norm":
            body = f"  %y = frontend.{op} %x {at} eps {EPSILON:e} : ({x}) -> {x}"
        case "variance":
            body = (
                f"  %m = frontend.reduce mean %x {at} keepdims : {x} -> {k}\n"
                f"  %d = frontend.elementwise sub %x, %m : ({x}, {k}) -> {x}\n"
                f"  %s = frontend.elementwise mul %d, %d : ({x}, {x}) -> {x}\n"
                f"  %y = frontend.reduce mean %s {at} : {x} -> {y}"
            )
        case "logsumexp":
            body = (
                f"  %m = frontend.reduce max %x {at} keepdims : {x} -> {k}\n"
                f"  %d = frontend.elementwise sub %x, %m : ({x}, {k}) -> {x}\n"
                f"  %e = frontend.elementwise exp %d : {x}\n"
                f"  %s = frontend.reduce sum %e {at} : {x} -> {y}\n"
                f"  %l = frontend.elementwise log %s : {y}\n"
                f"  %n = frontend.reshape %m : {k} -> {y}\n"
                f"  %y = frontend.elementwise add %l, %n : ({y}, {y}) -> {y}"
            )
        case "frobenius":
            body = (
                f"  %q = frontend.elementwise mul %x, %x : ({x}, {x}) -> {x}\n"
                f"  %s = frontend.reduce sum %q {at} keepdims : {x} -> {k}\n"
                f"  %r = frontend.elementwise sqrt %s : {k}\n"
                f"  %y = frontend.elementwise div %x, %r : ({x}, {k}) -> {x}"
            )
        case "l1_norm":
            body = (
                f"  %q = frontend.elementwise abs %x : {x}\n"
                f"  %s = frontend.reduce mean %q {at} keepdims : {x} -> {k}\n"
                f"  %y = frontend.elementwise div %x, %s : ({x}, {k}) -> {x}"
            )
        case _:
            raise ValueError(op)
    return (
        f"frontend.graph @problem(%x: {x}) -> (Y: {y}) {{\n{body}\n  frontend.output %y : {y}\n}}\n"
    )


def _logsumexp(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    return torch.logsumexp(x, axes)


def _softmax(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == 1:
        return torch.softmax(x, axes[0])
    grown = (x - x.amax(axes, keepdim=True)).exp()
    return grown / grown.sum(axes, keepdim=True)


def _log_softmax(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if len(axes) == 1:
        return torch.log_softmax(x, axes[0])
    return x - torch.logsumexp(x, axes, keepdim=True)


def _layer_norm(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if axes == tuple(range(x.dim() - len(axes), x.dim())):
        return torch.nn.functional.layer_norm(x, x.shape[-len(axes) :], None, None, EPSILON)
    v, m = torch.var_mean(x, axes, correction=0, keepdim=True)
    return (x - m) * (v + EPSILON).rsqrt()


def _rms_norm(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    if axes == tuple(range(x.dim() - len(axes), x.dim())):
        return torch.nn.functional.rms_norm(x, x.shape[-len(axes) :], None, EPSILON)
    return x * (x.square().mean(axes, keepdim=True) + EPSILON).rsqrt()


def _prod(torch: Any, x: Any, axes: tuple[int, ...]) -> Any:
    for axis in reversed(axes):
        x = x.prod(axis)
    return x


PEERS: dict[str, Callable[[Any, Any, tuple[int, ...]], Any]] = {
    "sum": lambda torch, x, axes: x.sum(axes),
    "mean": lambda torch, x, axes: x.mean(axes),
    "max": lambda torch, x, axes: x.amax(axes),
    "variance": lambda torch, x, axes: x.var(axes, correction=0),
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "argmax": lambda torch, x, axes: x.argmax(axes[0]),
    "prod": _prod,
    "any": lambda torch, x, axes: (x > ABOVE).any(axes),
    "all": lambda torch, x, axes: (x > ABOVE).all(axes),
    "frobenius": lambda torch, x, axes: x / x.square().sum(axes, keepdim=True).sqrt(),
    "l1_norm": lambda torch, x, axes: x / x.abs().mean(axes, keepdim=True),
}
"""What PyTorch computes, by op."""

SAME = ("layer_norm", "rms_norm", "softmax", "log_softmax", "frobenius", "l1_norm")
"""Ops whose result has the tensor's shape."""

DRAWN = tuple(op for op in PEERS if op not in ("frobenius", "l1_norm"))


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems, the ops in turn."""
    draw = random.Random(seed)
    found: list[Problem] = []
    while len(found) < count:
        op = DRAWN[len(found) % len(DRAWN)]
        kind = "ui8" if op in ("any", "all") else draw.choice(("f16", "f16", "bf16", "f32"))
        rank = draw.choice((2, 2, 3, 3, 4, 5))
        elements = exp(draw.uniform(*map(log, BYTES))) / TYPES[kind][1]
        cuts = sorted(draw.random() for _ in range(rank - 1))
        shares = [b - a for a, b in zip((0.0, *cuts), (*cuts, 1.0), strict=True)]
        shape = [max(2, round(elements**share)) for share in shares]
        for at in range(rank):
            if draw.random() < 0.6 and shape[at] > 8:
                shape[at] = shape[at] // 8 * 8
        whole = prod(shape) * TYPES[kind][1]
        if not BYTES[0] / 2 <= whole <= 2 * BYTES[1]:
            continue
        many = 1 if op == "argmax" else draw.randint(1, rank)
        axes = tuple(sorted(draw.sample(range(rank), many)))
        if prod(shape[at] for at in axes) >= 8:
            found.append(Problem(op, tuple(shape), axes, kind))
    return found


# Without a GPU -----------------------------------------------------------------------------


def modelled(problem: Problem) -> tuple[float, float, str]:
    """Modelled microseconds of a problem's plans and of a copy of the bytes that it moves, and the
    plans."""
    from polyc.cost.device import device_of
    from polyc.cost.time import times_of
    from polyc.tools.parsing import parse_text
    from polyc.tools.pipeline import Compilation
    from polyc.tools.registry import make_context

    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text_of(problem), "any_axes.mlir"), ARCH)
    times = times_of(job.run("plan").module, {})
    chip = device_of(ARCH)
    _, each, _ = TYPES[problem.kind]
    moved = prod(problem.shape) * each * (2 if problem.op in SAME else 1)
    names = ", ".join(f"{t.variant} {t.seconds * 1e6:.0f}" for t in times)
    return sum(t.seconds for t in times) * 1e6, (moved / chip.memory + chip.launch) * 1e6, names


def dry(asked: Sequence[Problem]) -> int:
    """What would run, and how long by the model beside a copy."""
    found: list[tuple[float, str]] = []
    for problem in asked:
        try:
            us, copy, names = modelled(problem)
        except PolycError as error:
            print(f"FAILED {problem.said}: {error}", flush=True)
            continue
        found.append((us / copy, f"{us / copy:6.2f} {us:8.1f} us {problem.said}: {names}"))
        print(found[-1][1], flush=True)
    print("\n".join(line for times, line in sorted(found)[::-1] if times > 1.5))
    return 0


# On the GPU --------------------------------------------------------------------------------


def inputs(torch: Any, problem: Problem, copies: int) -> list[Any]:
    """Random tensors."""
    op, shape, _, kind = problem
    dtype = getattr(torch, TYPES[kind][0])
    if kind == "ui8":
        low, high = (ABOVE + 1, 256) if op == "all" else (0, ABOVE + 1)
        return [torch.randint(low, high, shape, device="cuda", dtype=dtype) for _ in range(copies)]
    made = [torch.randn(shape, device="cuda") for _ in range(copies)]
    return [(x * 2e-4 + 1 if op == "prod" else x).to(dtype) for x in made]


def off_by(torch: Any, problem: Problem, x: Any, found: Any) -> float:
    """How far a result is from what more bits say, of what it may be."""
    op, _, axes, kind = problem
    if op == "argmax":
        taken = x.gather(axes[0], found.unsqueeze(axes[0])).squeeze(axes[0])
        return 2.0 * (taken != x.amax(axes[0])).sum().item()
    if kind == "ui8":
        return 2.0 * (found != PEERS[op](torch, x, axes)).sum().item()
    wide = x.double() if kind == "f32" and x.numel() <= MOST_DOUBLE else x.float()
    right = PEERS[op](torch, wide, axes)
    del wide
    most = max((right.abs().max().item() or 1.0) * TYPES[kind][2], 2.0**-24)
    if op in ("sum", "mean") and kind == "f32":
        most = max(most, right.abs().mean().item() * TYPES[kind][2])
    off = (found.to(right.dtype) - right).abs().max().item() / most
    return off if off == off else float("inf")


MODE = {"mode": "default"}
"""Of torch.compile."""


def compiled(torch: Any, problem: Problem) -> Any:
    """PyTorch's own."""
    op, _, axes, _ = problem
    torch.compiler.reset()
    mode = None if MODE["mode"] == "default" else MODE["mode"]

    def peer(x: Any) -> Any:
        return PEERS[op](torch, x, axes)

    return torch.compile(peer, dynamic=False, mode=mode)


@cache
def _torch() -> Any:
    torch = race.load_torch("bench/any_axes.py")
    torch._inductor.config.compile_threads = 1
    return torch


def make(problem: Problem) -> str:
    """Build ours and theirs, kept on disk; what went wrong with theirs."""
    load(text_of(problem), ARCH).kernels  # noqa: B018  compiled where it is first asked for
    try:
        torch = _torch()
        with torch.cuda.stream(torch.cuda.Stream()):
            compiled(torch, problem)(inputs(torch, problem, 1)[0])
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except Exception as error:  # Theirs is then timed without it.
        return str(error)[:200]
    return ""


def raced(torch: Any, problem: Problem, fault: str) -> dict[str, Any]:
    """The row of a problem."""
    op, shape, axes, kind = problem
    _, each, _ = TYPES[kind]
    cache_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    copies = min(4, race.copies_for(prod(shape) * each, cache_bytes))
    sets = inputs(torch, problem, copies)
    program = load(text_of(problem), ARCH)
    dtypes = {"i1": torch.bool, "i64": torch.int64}
    dtype = dtypes.get(problem.out) or getattr(torch, TYPES[kind][0])
    outs = [torch.empty(problem.result, device="cuda", dtype=dtype) for _ in sets]
    run = race.in_turns(
        torch, [program.launch([x], [o], {}) for x, o in zip(sets, outs, strict=True)]
    )
    run(0)
    torch.cuda.synchronize()
    off = off_by(torch, problem, sets[0], outs[0])
    if off > 1:
        print(f"WRONG {problem.said} by {off:.3g} of the tolerance", flush=True)
    spare = torch.empty_like(sets[0])

    def eager(i: int) -> None:
        PEERS[op](torch, sets[i % copies], axes)

    def copy(i: int) -> None:
        spare.copy_(sets[i % copies])

    runs: list[Callable[[int], object]] = [run, copy, eager]
    if not fault:
        theirs = compiled(torch, problem)
        theirs(sets[0])

        def inductor(i: int) -> None:
            theirs(sets[i % copies])

        runs.append(inductor)
    us = race.paced(torch, runs, copies)
    names = ("own", "copy", "eager", "torch.compile")[: len(us)]
    row: dict[str, Any] = {"problem": problem.said, "off": off, "fault": fault}
    row |= {f"{name}_us": one for name, one in zip(names, us, strict=True)}
    row["kernels"] = list(program.kernels)
    row["spills"] = sum(k.spill_bytes for k in program.kernels.values())
    row["ratio"] = min(us[2:]) / us[0]
    return row


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    theirs = row.get("torch.compile_us")
    beside = f"torch.compile {theirs:.1f}" if theirs else f"no torch.compile ({row['fault'][:60]})"
    return (
        f"{row['ratio']:5.2f} {row['problem']}: own {row['own_us']:.1f}, "
        f"copy {row['copy_us']:.1f}, eager {row['eager_us']:.1f}, {beside} "
        f"| {', '.join(row['kernels'])}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = race.regret_options(__doc__ or "", 60, 0, 0)
    parser.add_argument("--problems", nargs="+", type=parse_problem)
    parser.add_argument("--mode", default="default", help="of torch.compile")
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args(argv)
    MODE["mode"] = args.mode
    asked = race.part_of(args.problems or problems(args.seed, args.count), args.part)
    if args.dry:
        return dry(asked)
    rows = race.regrets(args, "bench/any_axes.py", asked, make, raced, line, "spawn")
    print("slowest beside the better peer:")
    for row in sorted(rows, key=lambda row: row["ratio"])[:12]:
        print(f"  {line(row)}")
    if rows:
        mean = exp(sum(log(row["ratio"]) for row in rows) / len(rows))
        least = min(row["ratio"] for row in rows)
        print(
            f"{len(rows)} problems: geometric mean {mean:.2f} of the better peer, least {least:.2f}"
        )
    return 1 if any(row["off"] > 1 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
