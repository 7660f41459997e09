"""Race random products of matrices, with what stands behind them, beside cuBLAS.

    python bench/random_gemms.py [--count 150] [--seed 1] [--part 1/2] [--seconds 100] [--out FILE]
    python bench/random_gemms.py --problems 512x1000x64:nt:bf16:bias,gelu 8x64x96x72:tn:f16:
    python bench/random_gemms.py --dry       # plans and modelled times, no GPU

Sizes are logarithmically uniform up to 16384, of products of 1 MFLOP or more: half are multiples
of 64, a quarter of 8, a quarter odd.  A fifth are batches.  Elements are f16 or bf16, operands
are stored either way (``n`` as the product has it, ``t`` transposed), and half have an epilogue: a
bias, a residual, and one of all functions that ``frontend.elementwise`` has of one operand.  For
each problem these take turns: what the compiler makes of its sizes, ``torch.mm`` or ``bmm`` of the
same operands without the epilogue, and PyTorch's eager ops with it.

Programs are built in other processes, and kept on disk, while the GPU times those before them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp

from polyc.bench import race
from polyc.bench.in_torch import function
from polyc.bench.regret import KINDS, mean
from polyc.bench.regret import problems as sizes_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.frontend.elementwise import UNARY_FUNCTIONS
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCH = "sm_90a"
TYPES = {"f16": ("float16", 2.0**-9), "bf16": ("bfloat16", 2.0**-6)}
"""PyTorch's name of a type, and what a result is off by at most, of the largest."""

LAYOUTS = ("nn", "nt", "tn", "tt")

POSITIVE = ("acosh", "log", "log10", "log1p", "log2", "rsqrt", "sqrt")
"""Functions that are asked of positive numbers, behind an ``exp`` of a little; and ``WITHIN`` those
of numbers between -1 and 1, behind a ``softsign``, which is 1 of no sum that occurs."""

WITHIN = ("acos", "asin", "atanh")

STEEP = (
    *("ceil", "floor", "round", "sign", "trunc"),
    *("reciprocal", "tan", "cosh", "sinh", "exp", "exp2", "expm1"),
)
"""Functions by which a last bit of a sum is much of a result: not held against PyTorch's."""


class Problem(NamedTuple):
    """A product, how its operands are stored, its elements, and what stands behind it."""

    kind: str
    sizes: tuple[int, int, int, int]
    layout: str
    element: str
    epilogue: tuple[str, ...]

    @property
    def said(self) -> str:
        """As ``--problems`` takes it."""
        sizes = self.sizes[self.sizes[0] == 1 :]
        shape, behind = "x".join(map(str, sizes)), ",".join(self.epilogue)
        return f"{shape}:{self.layout}:{self.element}:{behind}"

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of both operands as they are stored, and of the result."""
        batch, m, n, k = self.sizes
        outer = () if batch == 1 else (batch,)
        a = (m, k) if self.layout[0] == "n" else (k, m)
        b = (k, n) if self.layout[1] == "n" else (n, k)
        return (*outer, *a), (*outer, *b), (*outer, m, n)


def parse_problem(text: str) -> Problem:
    """``512x1000x64:nt:bf16:bias,gelu``."""
    shape, layout, element, behind = text.split(":")
    sizes = [int(size) for size in shape.split("x")]
    *batch, m, n, k = sizes
    if layout not in LAYOUTS or element not in TYPES:
        raise ValueError(f"{layout} of {element} is none of {LAYOUTS} of {', '.join(TYPES)}")
    kind = (
        "64" if n % 64 == k % 64 == m % 64 == 0 else "8" if n % 8 == k % 8 == m % 8 == 0 else "odd"
    )
    steps = tuple(filter(None, behind.split(",")))
    return Problem(kind, (batch[0] if batch else 1, m, n, k), layout, element, steps)


def problems(seed: int, count: int) -> list[Problem]:
    """Random problems, in turns of their classes, the functions in turn."""
    draw = random.Random(f"{seed} gemms")
    plain, batched = sizes_of(seed, count), sizes_of(seed, count, batched=True)
    functions = list(UNARY_FUNCTIONS)
    draw.shuffle(functions)
    found: list[Problem] = []
    for number in range(count):
        kind, sizes = (batched if draw.random() < 0.2 else plain)[number]
        behind: list[str] = []
        if number // len(KINDS) % 2:
            behind = [step for step in ("bias", "residual") if draw.random() < 0.5]
            behind.append(functions[number % len(functions)])
        layout, element = draw.choice(LAYOUTS), draw.choice((*TYPES,))
        found.append(Problem(kind, sizes, layout, element, tuple(behind)))
    return found


# The graphs --------------------------------------------------------------------------------


def _tensor(shape: Sequence[int], element: str) -> str:
    return f"!frontend.tensor<[{', '.join(map(str, shape))}], {element}>"


def text_of(problem: Problem) -> str:
    """The graph of a problem."""
    e = problem.element
    a, b, c = (_tensor(shape, e) for shape in problem.shapes)
    vector, one = _tensor((problem.sizes[2],), e), _tensor((), e)
    inputs = [f"%A: {a}", f"%B: {b}"]
    flags = "".join(
        f", transpose_{side}" for side, way in zip("ab", problem.layout, strict=True) if way == "t"
    )
    body = [f"frontend.gemm %A, %B {{acc = f32{flags}}} : ({a}, {b}) -> {c}"]

    def step(function: str, other: str = "", kind: str = "") -> None:
        types = f"({c}, {kind}) -> {c}" if other else c
        last = f"%{len(body) - 1}"
        body.append(f"frontend.elementwise {function} {last}{other and ', ' + other} : {types}")

    for name in problem.epilogue:
        if name == "bias":
            inputs.append(f"%bias: {vector}")
            step("add", "%bias", vector)
        elif name == "residual":
            inputs.append(f"%rest: {c}")
            step("add", "%rest", c)
        else:
            if name in WITHIN:
                step("softsign")
            if name in POSITIVE:
                step("abs")
                step("add", "%one", one)
            step(name)
    lines = [f"%one = frontend.constant 1.0 : {one}"]
    lines += [f"%{number} = {line}" for number, line in enumerate(body)]
    lines.append(f"frontend.output %{len(body) - 1} : {c}")
    joined = "\n  ".join(lines)
    return f"frontend.graph @product({', '.join(inputs)}) -> (Y: {c}) {{\n  {joined}\n}}\n"


# Without a GPU -----------------------------------------------------------------------------


def modelled(problem: Problem) -> tuple[float, list[str]]:
    """Modelled microseconds of a problem's kernels, and their plans."""
    from polyc.cost.time import times_of
    from polyc.tools.pipeline import Compilation

    ctx = make_context()
    job = Compilation(ctx, parse_text(ctx, text_of(problem), "product.mlir"), ARCH)
    times = times_of(job.run("plan").module, {})
    named = [f"{one.kernel}_{one.variant} {one.seconds * 1e6:.1f}" for one in times]
    return sum(one.seconds for one in times) * 1e6, named


def dry(asked: Sequence[Problem]) -> int:
    """What would run, beside the same product without what stands behind it."""
    for problem in asked:
        try:
            us, named = modelled(problem)
            alone, _ = modelled(problem._replace(epilogue=()))
        except PolycError as error:
            print(f"FAILED {problem.said}: {error}", flush=True)
            continue
        print(f"{us / alone:6.2f} {us:8.1f} us {problem.said}: {', '.join(named)}", flush=True)
    return 0


# On the GPU --------------------------------------------------------------------------------


def make(problem: Problem) -> None:
    """Build it, kept on disk."""
    load(text_of(problem), ARCH).kernels  # noqa: B018  compiled where it is first asked for


def raced(torch: Any, problem: Problem, _: None) -> dict[str, Any]:
    """The row of a problem."""
    name, most = TYPES[problem.element]
    dtype, each = getattr(torch, name), 2
    *operands, result = problem.shapes
    shapes = [*operands]
    shapes += [(problem.sizes[2],)] * problem.epilogue.count("bias")
    shapes += [result] * problem.epilogue.count("residual")
    # In the order in which the graph has them.
    if problem.epilogue[:2] == ("residual", "bias"):
        shapes[2:4] = shapes[3], shapes[2]
    size = sum(map(prod, [*shapes, result])) * each
    copies = min(8, race.copies_for(size, torch.cuda.get_device_properties(0).L2_cache_size))
    sets = [[torch.randn(s, device="cuda").to(dtype) for s in shapes] for _ in range(copies)]
    outs = [torch.empty(result, device="cuda", dtype=dtype) for _ in sets]
    program = load(text_of(problem), ARCH)
    launches = [program.launch(one, [out], {}) for one, out in zip(sets, outs, strict=True)]
    run = race.in_turns(torch, launches)
    outs[0].fill_(float("nan"))
    run(0)
    torch.cuda.synchronize()
    graph = next(op for op in parsed(problem).ops if isinstance(op, GraphOp))
    off = off_by(torch, problem, graph, sets[0], outs[0]) / most
    if off > 1:
        print(f"WRONG {problem.said} by {off:.3g} of the tolerance", flush=True)
    multiply = torch.mm if problem.sizes[0] == 1 else torch.bmm
    spare = torch.empty_like(outs[0])
    whole = function(torch, graph, {})

    def sides(i: int) -> list[Any]:
        pairs = zip(sets[i % copies], problem.layout, strict=False)
        return [x.mT if way == "t" else x for x, way in pairs]

    def alone(i: int) -> None:
        multiply(*sides(i), out=spare)

    def eager(i: int) -> None:
        whole(*sets[i % copies])

    runs: list[Callable[[int], object]] = [run, alone]
    if problem.epilogue:
        runs.append(eager)
    us = race.paced(torch, runs, copies)
    row: dict[str, Any] = {"problem": problem.said, "class": problem.kind, "off": off}
    row |= {f"{what}_us": one for what, one in zip(("own", "mm", "eager"), us, strict=False)}
    row["kernels"] = list(program.kernels)
    row["spills"] = sum(kernel.spill_bytes for kernel in program.kernels.values())
    return row


def parsed(problem: Problem) -> ModuleOp:
    """A problem's module."""
    return parse_text(make_context(), text_of(problem), "product.mlir")


def off_by(torch: Any, problem: Problem, graph: GraphOp, given: Sequence[Any], found: Any) -> float:
    """How far a result is from PyTorch's of f32, of the largest; 0 of functions that make much of
    a last bit."""
    if any(name in STEEP for name in problem.epilogue):
        return 0.0 if not found.isnan().any() else float("inf")
    (right,) = function(torch, graph, {}, wide=True)(*(x.float() for x in given))
    off = (found.float() - right.float()).abs().max().item() / (right.abs().max().item() or 1.0)
    return off if off == off else float("inf")


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    eager = f", eager {row['eager_us']:.1f}" if "eager_us" in row else ""
    return (
        f"{row['mm_us'] / row['own_us']:5.2f} {row['problem']}: own {row['own_us']:.1f}, "
        f"mm {row['mm_us']:.1f}{eager} | {', '.join(row['kernels'])}"
    )


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Geometric means, the least, and how many are above 0.85, by class and by what is behind."""
    plain = [row for row in rows if "eager_us" not in row]
    groups = {
        f"class {kind}": [r for r in plain if r["class"] == kind] for kind in dict.fromkeys(KINDS)
    }
    behind = [row for row in rows if "eager_us" in row]
    groups |= {"all without epilogue": plain, "epilogues beside mm alone": behind}
    for what, some in groups.items():
        if some:
            ratios = sorted(row["mm_us"] / row["own_us"] for row in some)
            above = sum(ratio > 0.85 for ratio in ratios) / len(ratios)
            print(
                f"{what}: {len(some)}, mean {mean(ratios):.3f}, least {ratios[0]:.2f}, "
                f"{above:.0%} above 0.85"
            )
    if behind:
        ratios = sorted(row["eager_us"] / row["own_us"] for row in behind)
        print(f"epilogues beside eager: mean {mean(ratios):.3f}, least {ratios[0]:.2f}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = race.regret_options(__doc__ or "", 150, 0, 0)
    parser.add_argument("--problems", nargs="*", default=[], type=parse_problem)
    parser.add_argument("--dry", action="store_true")
    args = parser.parse_args(argv)
    asked = args.problems or race.part_of(problems(args.seed, args.count), args.part)
    if args.dry:
        return dry(asked)
    rows = race.regrets(args, "bench/random_gemms.py", asked, make, raced, line)
    show(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
