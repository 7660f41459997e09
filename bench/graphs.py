"""A graph raced beside PyTorch, eager and compiled, in one process.

``bench/race.py`` says how it is timed: every contestant inside of a CUDA graph of several launches,
which walk over as many copies of the inputs as exceed the L2 cache, weights too: in a model the
weights of other layers lie between.  What PyTorch runs is ``bench/in_torch.py``.  Each result is
compared with PyTorch's in f32.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from polyc.bench import in_torch, race
from polyc.bench.inductor import tuned_alone
from polyc.bench.race import Contestant
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
DATA = ("q", "k", "v", "a", "keys", "values", "targets", "mask", "cos", "sin")
"""Inputs that are data, of variance 1."""


def is_data(name: str) -> bool:
    """Whether an input of this name is data, and not a weight."""
    return name in DATA or re.fullmatch(r"x\d*", name) is not None


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


def made_inputs(
    torch: Any,
    graph: GraphOp,
    sizes: Mapping[str, int],
    seed: int,
    given: Mapping[str, Any] | None = None,
) -> list[Any]:
    """Random inputs: data of variance 1, weights that keep it so; ``given`` has others by name."""
    torch.manual_seed(seed)
    found: list[Any] = []
    for spec, arg in zip(graph.inputs, graph.body.block.args, strict=True):
        shape = [d.evaluate(sizes) for d in spec.type.dims]
        kind = in_torch.element(torch, arg)
        made = torch.randn(shape, device="cuda", dtype=torch.float32)
        name = spec.name
        if given is not None and name in given:
            made = given[name].reshape(shape)
        elif name.startswith("norm") or name.endswith("scale") or name == "scales":
            made = 1 + made / 10
        elif name == "targets":
            words = torch.randint(shape[-1], (shape[0],), device="cuda")
            made = torch.nn.functional.one_hot(words, shape[-1]).float()
        elif not is_data(name):
            inner = 1
            for n in shape[1:]:
                inner *= n
            made = made / max(1.0, inner) ** 0.5
        found.append(made.to(kind))
    return found


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


def compiled(module: ModuleOp, arch: str = ARCH) -> tuple[Program, float]:
    """A graph's program, and how many seconds it took to make."""
    start = time.perf_counter()
    program: Program = load(str(module), arch)
    return program, time.perf_counter() - start


def raced(
    torch: Any,
    name: str,
    module: ModuleOp,
    sizes: Mapping[str, int],
    rounds: int,
    compile_mode: str | None,
    moved: int | None = None,
    given: Mapping[str, Any] | None = None,
    others: Mapping[str, in_torch.Run] | None = None,
    loaded: tuple[Program, float] | None = None,
) -> list[dict[str, Any]]:
    """The report's rows of one graph at these sizes, over so many rounds.

    ``compile_mode`` is the mode of ``torch.compile``, or None to race eager PyTorch alone.  Rates
    are of ``moved`` bytes where that is given, else of the operations of the products; what is
    moved lies densely in the end, where PyTorch's result would be a view.  ``given`` are inputs by
    name that are not random, and ``others`` more peers; one that fails, or is off by more than we
    may be, is left out, and our row says why.  It says, too, what each kernel takes beside the
    others, as the driver's trace has it.  ``loaded`` is a program of ``compiled`` that is raced at
    several sizes.
    """
    graph = next(op for op in module.ops if isinstance(op, GraphOp))
    program, seconds = loaded or compiled(module)
    chosen = program.chosen(sizes)
    spills = [k for k, info in program.kernels.items() if info.spill_bytes]
    print(
        f"{name}: {seconds:.1f} s to a cubin, runs {chosen}, spills {spills or 'none'}", flush=True
    )
    with race.alone():
        first = made_inputs(torch, graph, sizes, 0, given)
        bytes_of = sum(x.numel() * x.element_size() for x in first)
        count = race.copies_for(2 * bytes_of, driver.device().l2_bytes, most=8)
        sets = [first, *(made_inputs(torch, graph, sizes, i, given) for i in range(1, count))]
    eager = in_torch.function(torch, graph, sizes)
    if moved is not None:
        eager = dense(eager)
    with race.alone():
        plain = eager(*first)
        torch.cuda.synchronize()
    outs = [[torch.empty_like(o).contiguous() for o in plain] for _ in sets]
    launches = [program.launch(s, o, sizes) for s, o in zip(sets, outs, strict=True)]

    polyc = race.in_turns(torch, launches)

    def over(run: in_torch.Run) -> Callable[[int], None]:
        """A contestant's ``run``, of a function of the inputs."""

        def on_copy(i: int) -> None:
            run(*sets[i % count])

        return on_copy

    with torch.no_grad(), race.alone():
        polyc(0)
        torch.cuda.synchronize()
        wide = in_torch.function(torch, graph, sizes, wide=True)
        exact = wide_outputs(torch, dense(wide) if moved is not None else wide, first)
    errors = {"polyc": error_of(torch, outs[0], exact, plain)}
    racers = [Contestant("polyc", polyc, False), Contestant("eager", over(eager))]
    if compile_mode is not None or others:
        # Else the programs of one process count as recompilations of one function.
        torch._dynamo.reset()
    if compile_mode is not None:
        run_compiled = over(torch.compile(eager, mode=compile_mode))
        start = time.perf_counter()
        with tuned_alone():
            run_compiled(0)
        said = "torch.compile max-autotune" if "max" in compile_mode else "torch.compile"
        racers.append(Contestant(said, run_compiled))
        print(f"  torch.compile took {time.perf_counter() - start:.1f} s", flush=True)
    left_out: dict[str, str] = {}
    for peer, run in (others or {}).items():
        start = time.perf_counter()
        try:
            # What tunes has the GPU to itself while it times alone.
            with nullcontext() if compile_mode is not None else race.alone():
                errors[peer] = error_of(torch, run(*first), exact, plain)
            if errors[peer] > 1:
                left_out[peer] = f"off by {errors[peer]:.3g} of the tolerance"
        except Exception as error:
            left_out[peer] = f"{type(error).__name__}: {str(error)[:300]}"
        said = f"left out, {left_out[peer]}" if peer in left_out else "ready"
        print(f"  {peer}: {said}, after {time.perf_counter() - start:.1f} s", flush=True)
        if peer not in left_out:
            racers.append(Contestant(peer, over(run)))
    del exact
    with race.alone():
        race.measure(torch, racers, rounds, count)
        kernels_us = kernel_times(torch, polyc, count)
    work, unit = (flops(graph, sizes) or 1.0, "TFLOP/s") if moved is None else (moved, "TB/s")
    rows = race.result_rows(name, racers, work, unit, errors)
    for row in rows:
        row["sizes"] = sizes
        row["seconds_to_cubin"] = round(seconds, 2)
    if left_out:
        rows[0]["left_out"] = left_out
    rows[0]["kernels_us"] = kernels_us
    race.print_rows(rows)
    return rows


def dense(run: in_torch.Run) -> in_torch.Run:
    """A function of tensors with each output in its own memory, axis after axis."""

    def made(*inputs: Any) -> Any:
        return tuple(out.contiguous() for out in run(*inputs))

    return made


def kernel_times(torch: Any, run: Callable[[int], object], several: int) -> list[list[object]]:
    """The kernels of a launch in their order, each with its mean microseconds.

    A kernel begins while the one before still runs, and waits for it: its time is what it adds.
    """
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as trace:
        for i in range(4 * several):
            run(i)
        torch.cuda.synchronize()
    ran = sorted((e for e in trace.events() if e.device_time), key=lambda e: e.time_range.start)
    count = len(ran) // (4 * several)
    if not count or len(ran) % count:
        return []
    added: list[float] = []
    before = 0.0
    for event in ran:
        added.append(event.time_range.end - max(before, event.time_range.start))
        before = event.time_range.end
    # The first launch waits for nothing.
    launches = 4 * several - 1
    return [
        [ran[i].name, round(sum(added[i + count :: count]) / launches, 2)] for i in range(count)
    ]


def wide_outputs(torch: Any, run: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """The outputs in f32, of inputs that are widened first."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        return run(*(x.float() for x in inputs))
    finally:
        torch.backends.cudnn.allow_tf32 = True
