"""Time the pieces and blocks of models beside PyTorch, eager and compiled, in one process.

``bench/race.py`` says how it is timed: every contestant inside of a CUDA graph of several launches,
which walk over as many copies of the tokens as exceed the L2 cache; weights are one copy.  The
programs are those of ``test/support/model_programs.py`` at a model's sizes; what PyTorch runs is
``bench/in_torch.py``.  Each result is compared with PyTorch's in f32.

    python bench/models.py [--models decoder vit] [--dtype f16] [--tokens 4096] [--eager-only]

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import bf16, f16

from polyc.bench import in_torch, race
from polyc.bench.race import Contestant
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.model_programs import MODELS, Model
from polyc.tools.load import load

ARCH = "sm_90a"
SCALES = ("norm", "scale")
"""Inputs whose names begin or end so are near 1."""
DATA = ("x", "q", "k", "v", "a", "keys", "values", "targets", "mask", "cos", "sin")
"""Inputs that are data, of which each launch has its own copy where the cache would hold one."""


def flops(graph: GraphOp, sizes: Mapping[str, int]) -> float:
    """Multiply-adds of the products, counted twice; all of attention's scores."""
    total = 0.0
    for op in graph.walk():
        out = [d.evaluate(sizes) for r in op.results[:1] for d in tensor_of(r).dims]
        points = 1.0
        for n in out:
            points *= n
        match op.name:
            case "frontend.gemm":
                inner = tensor_of(op.operands[0]).dims[-1].evaluate(sizes)
                total += 2 * points * inner
            case "frontend.conv2d":
                taps = 1.0
                for d in tensor_of(op.operands[1]).dims[1:]:
                    taps *= d.evaluate(sizes)
                total += 2 * points * taps
            case "frontend.attention":
                keys = tensor_of(op.operands[1]).dims[-2].evaluate(sizes)
                both = 4 * points * keys
                total += both / 2 if "causal" in op.properties else both
            case _:
                pass
    return total


def made_inputs(torch: Any, graph: GraphOp, sizes: Mapping[str, int], seed: int) -> list[Any]:
    """Random inputs: data of variance 1, weights that keep it so."""
    torch.manual_seed(seed)
    found: list[Any] = []
    for spec, arg in zip(graph.inputs, graph.body.block.args, strict=True):
        shape = [d.evaluate(sizes) for d in spec.type.dims]
        kind = in_torch.element(torch, arg)
        made = torch.randn(shape, device="cuda", dtype=torch.float32)
        name = spec.name
        if name.startswith("norm") or name.endswith("scale") or name == "scales":
            made = 1 + made / 10
        elif name == "targets":
            words = torch.randint(shape[-1], (shape[0],), device="cuda")
            made = torch.nn.functional.one_hot(words, shape[-1]).float()
        elif name not in DATA:
            inner = 1
            for n in shape[1:]:
                inner *= n
            made = made / max(1.0, inner) ** 0.5
        found.append(made.to(kind))
    return found


def in_graph(
    torch: Any, name: str, run: Callable[[int], object], several: int, peer: bool
) -> Contestant:
    """``run`` on copies 0, 1, … captured into one CUDA graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in range(several):
            run(i)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(several):
            run(i)

    def replay(i: int) -> None:
        if i % several == 0:
            graph.replay()

    return Contestant(name, replay, peer, {"graph": True}, several=several)


def error_of(
    torch: Any, found: Sequence[Any], wanted: Sequence[Any], plain: Sequence[Any]
) -> float:
    """The largest error by root mean square, in parts of four times eager PyTorch's own.

    Over 1 is wrong.
    """
    worst = 0.0
    for mine, right, theirs in zip(found, wanted, plain, strict=True):
        if not bool(torch.isfinite(mine).all()):
            return float("inf")
        scale = right.float().pow(2).mean().sqrt().item() or 1.0

        def off(x: Any, right: Any = right, scale: float = scale) -> float:
            return (x.float() - right.float()).pow(2).mean().sqrt().item() / scale

        worst = max(worst, off(mine) / (4 * max(off(theirs), 2.0**-11)))
    return worst


def raced(torch: Any, name: str, model: Model, options: Any) -> list[dict[str, Any]]:
    """The report's rows of one program."""
    kind = {"f16": f16, "bf16": bf16}[options.dtype]
    sizes = dict(model.large_sizes)
    if options.tokens and "T" in sizes:
        sizes["T"] = options.tokens
    module = model.module(kind, large=True)
    graph = next(op for op in module.ops if isinstance(op, GraphOp))
    start = time.perf_counter()
    program: Program = load(str(module), ARCH)
    seconds = time.perf_counter() - start
    chosen = program.chosen(sizes)
    spills = [k for k, info in program.kernels.items() if info.spill_bytes]
    print(
        f"{name}: {seconds:.1f} s to a cubin, runs {chosen}, spills {spills or 'none'}", flush=True
    )
    first = made_inputs(torch, graph, sizes, 0)
    data = [spec.name in DATA for spec in graph.inputs]
    bytes_of = sum(x.numel() * x.element_size() for x, d in zip(first, data, strict=True) if d)
    count = max(2, min(8, race.copies_for(2 * bytes_of, driver.device().l2_bytes)))
    sets = [first]
    for i in range(1, count):
        fresh = made_inputs(torch, graph, sizes, i)
        sets.append([b if d else a for a, b, d in zip(first, fresh, data, strict=True)])
    eager = in_torch.function(torch, graph, sizes)
    plain = eager(*first)
    outs = [[torch.empty_like(o).contiguous() for o in plain] for _ in sets]
    launches = [program.launch(s, o, sizes) for s, o in zip(sets, outs, strict=True)]

    def polyc(i: int) -> None:
        launches[i % count].run(torch.cuda.current_stream().cuda_stream)

    def run_eager(i: int) -> None:
        eager(*sets[i % count])

    polyc(0)
    torch.cuda.synchronize()
    wide = in_torch.function(torch, graph, sizes)
    with torch.no_grad():
        exact = wide_outputs(torch, wide, first)
    error = error_of(torch, outs[0], exact, plain)
    del exact
    racers = [
        in_graph(torch, "polyc", polyc, count, False),
        in_graph(torch, "eager", run_eager, count, True),
    ]
    if not options.eager_only:
        # Else the programs of one process count as recompilations of one function.
        torch._dynamo.reset()
        compiled = torch.compile(
            in_torch.function(torch, graph, sizes), mode="max-autotune-no-cudagraphs"
        )

        def run_compiled(i: int) -> None:
            compiled(*sets[i % count])

        start = time.perf_counter()
        racers.append(in_graph(torch, "torch.compile max-autotune", run_compiled, count, True))
        print(f"  torch.compile took {time.perf_counter() - start:.1f} s", flush=True)
    race.measure(torch, racers, options.rounds)
    rows = race.result_rows(name, racers, flops(graph, sizes) or 1.0, "TFLOP/s", {"polyc": error})
    for row in rows:
        row["sizes"] = sizes
        row["seconds_to_cubin"] = round(seconds, 2)
    race.print_rows(rows)
    return rows


def wide_outputs(torch: Any, run: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """The outputs in f32, of inputs that are widened first."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        return run(*(x.float() for x in inputs))
    finally:
        torch.backends.cudnn.allow_tf32 = True


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time blocks of models beside PyTorch.")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out")
    parser.add_argument("--budget", type=float, help="begin no more programs after so many seconds")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results")
    options = parser.parse_args(argv)
    torch = race.load_torch("bench/models.py")
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    wrong = Counter[str]()
    for name in options.models:
        if options.budget and time.perf_counter() - begun > options.budget:
            print(f"{name}: left out, the time is over")
            continue
        try:
            with torch.no_grad():
                made = raced(torch, name, MODELS[name], options)
            rows += made
            wrong[name] += any((row["error_of_tolerance"] or 0) > 1 for row in made)
        except Exception as error:
            wrong[name] += 1
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        torch.cuda.empty_cache()
    report = {**race.surroundings(torch, options.rounds, options.commit), "rows": rows}
    print(race.write_report(f"models-{options.dtype}", report, options.out))
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
