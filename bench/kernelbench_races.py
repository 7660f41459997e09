"""Problems of KernelBench raced beside eager PyTorch and ``torch.compile``, by several processes.

Each process takes the next problem, imports it and has both compilers' kernels made from inputs
that have a shape and no memory, beside the others.  What uses the GPU it does alone
(``bench/race.py``): it fills the inputs, compares the results with that of eager f32, and times.
A process whose GPU context a kernel has broken, or that ends, is replaced by another.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.bench.graphs import kernel_times
from polyc.bench.inductor import tuned_alone
from polyc.bench.race import Contestant
from polyc.test.support import kernelbench as kb
from polyc.test.support.kernelbench import Posed
from polyc.test.support.limits import TooLong, limited

LONG = 4e-3
"""Seconds of a graph, which has as many launches as take about that long."""

PATIENCE = 20.0
"""Seconds of ``torch.compile``, after which a problem is left out."""

START = 15.0
"""Seconds that a process needs before it races."""

GRACE = 6.0
"""Seconds after the time is over, in which processes end what they began."""


OVER = {"over_eager": "eager", "over_compile": "torch.compile"}
"""What a row calls a contestant's time over ours."""


class Made(Exception):
    """The kernels of ``torch.compile`` are there, and were to be run."""


# Results -------------------------------------------------------------------------------------


def leaves(torch: Any, found: Any) -> list[Any]:
    """The tensors of a result."""
    return [found] if torch.is_tensor(found) else [x for one in found for x in leaves(torch, one)]


def error_of(torch: Any, found: Any, right: Any) -> float:
    """The largest difference over the largest number; of integers how many of all differ."""
    if tuple(found.shape) != tuple(right.shape) or found.dtype != right.dtype:
        return float("inf")
    if not right.is_floating_point():
        return float((found != right).float().mean())
    odd = ~torch.isfinite(right)
    if bool((odd != ~torch.isfinite(found)).any()):
        return float("inf")
    away = (found - right).abs_().masked_fill_(odd, 0)
    largest = right.abs().masked_fill_(odd, 0).max()
    return float(away.max() / largest.clamp_min(1e-30))


def is_right(row: Mapping[str, Any]) -> bool:
    """Whether a result is as near to exact products as TF32 permits, or as eager PyTorch's is, or
    as a narrower type holds."""
    return row["error"] <= max(2 * row["error_of_eager"], 4e-3, row.get("narrow", 0.0))


# Time ----------------------------------------------------------------------------------------


def is_broken(torch: Any) -> bool:
    """Whether nothing runs any more after a fault of a kernel."""
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").add_(1).item()
    except Exception:
        return True
    return False


def graph_of(torch: Any, racer: Contestant, copies: int) -> tuple[Any, int, int]:
    """A CUDA graph of a contestant, its launches, and its replays in a batch."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    racer.run(0)
    start.record()
    racer.run(1 % copies)
    end.record()
    end.synchronize()
    once = start.elapsed_time(end) / 1e3
    launches = -(-max(1, min(16, round(LONG / once))) // copies) * copies
    graph = race.captured(torch, racer.run, launches)
    whole = race.time_batch(torch, graph, 1) / 1e3
    return graph, launches, max(1, round(race.BATCH_SECONDS / whole))


def measured(
    torch: Any, racers: Sequence[Contestant], copies: int, rounds: int
) -> tuple[list[Contestant], dict[str, str]]:
    """Time contestants in turns; returns those that were timed, and why which peer was not.

    A peer may do what no graph can hold, as a copy of a number from the host is.
    """
    made: list[tuple[Contestant, Any, int, int]] = []
    untimed: dict[str, str] = {}
    for racer in racers:
        try:
            made.append((racer, *graph_of(torch, racer, copies)))
        except RuntimeError as error:
            if not racer.peer or is_broken(torch):
                raise
            untimed[racer.name] = str(error)[:200]
    race.awake(torch, [graph for _, graph, _, _ in made])
    for turn in range(rounds):
        for at in race.order(turn, range(len(made))):
            racer, graph, launches, replays = made[at]
            racer.milliseconds.append(race.time_batch(torch, graph, replays) / launches)
    return [one[0] for one in made], untimed


# A problem -----------------------------------------------------------------------------------


def inputs_of(torch: Any, module: Any) -> list[Any]:
    """A problem's inputs on the GPU."""
    with torch.device("cuda"):
        return [x.cuda() if torch.is_tensor(x) else x for x in module.get_inputs()]


def ahead(torch: Any, model: Any, hollow: Sequence[Any]) -> Callable[..., Any]:
    """``torch.compile`` of a model, whose kernels are made of inputs without memory and not run.

    What it leaves to eager between its graphs, as it does a recurrent layer, would read that
    memory: the kernels of such a model are made at its first call.
    """
    compile_fx: Any = importlib.import_module("torch._inductor.compile_fx").compile_fx
    may_run: list[bool] = []

    def backend(graph: Any, inputs: Any) -> Callable[..., Any]:
        inner = compile_fx(graph, inputs)

        def run(*args: Any) -> Any:
            if not may_run:
                raise Made
            return inner(*args)

        return run

    torch._dynamo.reset()
    fast = torch.compile(model, backend=backend)
    try:
        with tuned_alone(), limited(PATIENCE):
            fast(*hollow)
    except Made:
        pass
    except torch._dynamo.exc.TorchDynamoException:
        raise
    except RuntimeError as error:
        if "setStorage" not in str(error):
            raise
        torch._dynamo.reset()
    may_run.append(True)
    return fast


def on_tensors(torch: Any, program: Callable[..., Any]) -> Callable[..., Any]:
    """A program as a function of a model's inputs, of which numbers are its constants."""
    return lambda *given: program(*kb.tensors_of(torch, given))


def raced(torch: Any, problem: Posed, args: argparse.Namespace) -> dict[str, Any]:
    """The row of a problem."""
    import polyc

    module = kb.module_of(problem)
    row: dict[str, Any] = {"case": problem.name}
    if loose := getattr(module.Model, "LOOSE", 0.0):
        row["narrow"] = loose  # what it computes in inside is narrower than what it is given
    # The large inputs of another problem may fill the memory meanwhile: these have none.
    with race.alone():
        torch.manual_seed(args.seed)
        with torch.device("cuda"):
            model = module.Model(*module.get_init_inputs()).eval()
        hollow = inputs_of(torch, module)
        tensors = [x for x in hollow if torch.is_tensor(x)]
        for tensor in tensors:
            tensor.untyped_storage().resize_(0)
        torch.cuda.empty_cache()
    begun = time.perf_counter()
    ours = polyc.compile(kb.imported(model, hollow), kb.ARCH)
    ours.warm()
    row["seconds_of_polyc"] = round(time.perf_counter() - begun, 2)
    calls: dict[str, Callable[..., Any]] = {
        "polyc": on_tensors(torch, ours),
        "eager": model,
    }
    with torch.no_grad(), kb.tf32(torch):
        if not args.eager_only:
            begun = time.perf_counter()
            try:
                calls["torch.compile"] = ahead(torch, model, hollow)
                row["seconds_of_torch_compile"] = round(time.perf_counter() - begun, 2)
            except torch._dynamo.exc.TorchDynamoException as error:  # A fault of its own.
                row["without_torch_compile"] = str(error)[:200]
        bytes_of = sum(x.numel() * x.element_size() for x in tensors)
        del hollow, tensors
        with race.alone():
            begun = time.perf_counter()
            try:
                timed(torch, row, calls, lambda: inputs_of(torch, module), bytes_of, args)
            finally:
                calls.clear()
                del ours, model
                gc.collect()
                torch.cuda.empty_cache()
            row["seconds_alone"] = round(time.perf_counter() - begun, 2)
    return row


def timed(
    torch: Any,
    row: dict[str, Any],
    calls: Mapping[str, Callable[..., Any]],
    filled: Callable[[], list[Any]],
    bytes_of: int,
    args: argparse.Namespace,
) -> None:
    """Compare what ``calls`` compute, and time them; ``filled`` has inputs of ``bytes_of``."""
    copies = 2 if bytes_of < args.twice * 2**30 else 1
    if bytes_of < 2**28:
        copies = race.copies_for(bytes_of, race.driver.device().l2_bytes, 8)
    first = filled()
    sets = [
        first,
        *([x.clone() if torch.is_tensor(x) else x for x in first] for _ in range(copies - 1)),
    ]
    row |= {"input_bytes": bytes_of, "copies": copies}
    with kb.tf32(torch, False):
        wanted = leaves(torch, calls["eager"](*first))
    errors: dict[str, float] = {}
    for name, call in calls.items():
        found = leaves(torch, call(*first))
        torch.cuda.synchronize()
        errors[name] = max(error_of(torch, *pair) for pair in zip(found, wanted, strict=True))
        del found
    del wanted
    row |= {"error": errors["polyc"], "error_of_eager": errors["eager"]}
    if any(x.dtype == torch.bfloat16 for x in first if torch.is_tensor(x)):
        row["narrow"] = max(row.get("narrow", 0.0), 2 * torch.finfo(torch.bfloat16).eps)
    torch.cuda.empty_cache()

    def over(call: Callable[..., Any]) -> Callable[[int], object]:
        return lambda i: call(*sets[i % copies])

    racers = [Contestant(name, over(call), name != "polyc") for name, call in calls.items()]
    timed_ones, untimed = measured(torch, racers, copies, args.rounds)
    us = {racer.name: racer.median * 1e3 for racer in timed_ones}
    row["us"] = {name: round(value, 2) for name, value in us.items()}
    if untimed:
        row["untimed"] = untimed
    for what, name in OVER.items():
        if name in us:
            row[what] = round(us[name] / us["polyc"], 4)
    if args.kernels and us["polyc"] > min(us.values()):
        row["kernels_us"] = kernel_times(torch, racers[0].run, copies)


# A process -----------------------------------------------------------------------------------


def warmed(torch: Any) -> None:
    """Load the libraries of eager PyTorch, which takes long once."""
    with torch.no_grad(), torch.device("cuda"), kb.tf32(torch):
        x = torch.ones(4, 16, 16)
        torch.nn.functional.conv1d(x, torch.ones(8, 16, 3))
        torch.nn.functional.conv2d(x[None], torch.ones(8, 4, 3, 3))
        torch.nn.functional.conv_transpose3d(x[None, None], torch.ones(1, 2, 3, 3, 3))
        _ = x @ x
        torch.cuda.synchronize()


def process(
    args: argparse.Namespace,
    asked: Sequence[Posed],
    following: Any,
    tell: Any,
    until: float,
) -> None:
    """Race problems until the time is over (of ``time.time``), and ``tell`` of each.

    ``following`` is the place of the next one in ``asked``, which all processes count on.
    """
    torch = race.load_torch("bench/kernelbench.py")
    torch.set_num_threads(1)
    warmed(torch)
    gc.collect()
    gc.freeze()  # what is imported is not looked through again
    tell.send(("machine", race.surroundings(torch, args.rounds, args.commit)))
    while time.time() < until:
        with following.get_lock():
            at: int = following.value
            following.value = at + 1
        if at >= len(asked):
            break
        tell.send(("began", at))
        try:
            tell.send(("row", raced(torch, asked[at], args)))
        except torch.cuda.OutOfMemoryError:
            tell.send(("left", "no memory beside what else runs"))
        except TooLong:
            tell.send(("left", f"torch.compile took more than {PATIENCE:.0f} s"))
        except Exception as error:  # One that fails must not stop the others.
            tell.send(("failed", f"{type(error).__name__}: {str(error)[:300]}"))
            if args.trace:
                traceback.print_exc()
            if is_broken(torch):
                os._exit(1)
        gc.collect()
        torch.cuda.empty_cache()


# All of them ---------------------------------------------------------------------------------


def line(row: Mapping[str, Any]) -> str:
    """A row for the reader."""
    times = ", ".join(f"{name} {us:.1f}" for name, us in row["us"].items())
    off = f"off {row['error']:.1e} (eager {row['error_of_eager']:.1e})"
    over = ", ".join(f"over {name} {row[what]:.2f}" for what, name in OVER.items() if what in row)
    seconds = "/".join(
        str(row.get(what, "-"))
        for what in ("seconds_of_polyc", "seconds_of_torch_compile", "seconds_alone")
    )
    wrong = "" if is_right(row) else "WRONG "
    return f"{wrong}{row['case'][:60]:60} {times} us; {over}; {off} {seconds} s"


def summary(rows: Sequence[Mapping[str, Any]]) -> None:
    """Geometric means by level, or whatever else names begin with, and of all."""
    kinds = sorted({row["case"].partition("/")[0] for row in rows})
    for name in (*kinds, ""):
        own = [row for row in rows if row["case"].startswith(name)]
        name = name or "all"
        for what in OVER:
            ratios = sorted(row[what] for row in own if what in row)
            if ratios:
                mean, below = statistics.geometric_mean(ratios), sum(r < 0.8 for r in ratios)
                print(
                    f"{name} {what}: {len(ratios)} problems, geometric mean {mean:.3f}, "
                    f"least {ratios[0]:.2f}, {below} below 0.8"
                )


class Board:
    """Rows as they come, in ``args.out`` too, with those that are there already to ``resume``."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.machine: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []
        self.failed: dict[str, str] = {}
        self.left: dict[str, str] = {}
        if args.resume and Path(args.out).is_file():
            before = json.loads(Path(args.out).read_text("utf-8"))
            self.rows, self.failed = before["rows"], before["failed"]

    @property
    def done(self) -> set[str]:
        """The names of the problems that were raced or failed."""
        return {*(row["case"] for row in self.rows), *self.failed}

    def keep(self, problem: Posed, what: str, given: Any) -> None:
        """Take what a process tells of a problem."""
        if what == "row":
            self.rows.append(given)
            print(line(given), flush=True)
        elif what == "left":
            self.left[problem.name] = given
            print(f"LEFT OUT {problem.name}: {given}", flush=True)
        else:
            self.failed[problem.name] = given
            print(f"FAILED {problem.name}: {given}", flush=True)
        if self.args.out != "-":
            report = self.machine | {"seed": self.args.seed, "rows": self.rows}
            report |= {"failed": self.failed, "left_out": self.left}
            Path(self.args.out).write_text(json.dumps(report, indent=1) + "\n")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What a race is told on the command line."""
    parser.add_argument("--out", default="race.json", help="of a race; - for none")
    parser.add_argument("--seed", type=int, default=1, help="of the order, in which a part is fair")
    parser.add_argument("--seconds", type=float, default=600, help="begin no problem after these")
    parser.add_argument("--resume", action="store_true", help="without what --out has already")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--twice", type=float, default=4, help="GiB of inputs that are there twice")
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out")
    parser.add_argument("--kernels", action="store_true", help="time ours where one is slower")
    parser.add_argument("--trace", action="store_true", help="where a problem failed")
    parser.add_argument("--commit", help="what to record where there is no git")


def in_turn(args: argparse.Namespace, asked: Sequence[Posed]) -> int:
    """Race problems until the time is over; their rows are written as they come."""
    start, until = time.perf_counter(), time.time() + args.seconds
    board = Board(args)
    asked = [one for one in asked if one.name not in board.done]
    context: Any = get_context("spawn")
    following = context.Value("i", 0)
    # One thread a process, and no pool of processes in each.
    os.environ |= {"TORCHINDUCTOR_COMPILE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault(race.LOCK, str(Path(folder) / "lock"))
        running: dict[Any, Any] = {}
        at: dict[Any, int | None] = {}

        def begin() -> None:
            hear, tell = context.Pipe(duplex=False)
            own = context.Process(target=process, args=(args, asked, following, tell, until))
            own.start()
            tell.close()
            running[hear], at[hear] = own, None

        for _ in range(min(args.workers, len(asked))):
            begin()
        while running and time.time() < until + GRACE:
            ready: list[Any] = connection.wait(list(running), timeout=0.5)
            for hear in ready:
                try:
                    what, given = hear.recv()
                except EOFError:
                    running.pop(hear).join()
                    number = at.pop(hear)
                    if number is not None:
                        board.keep(asked[number], "failed", "its process ended")
                    more = following.value < len(asked)
                    if more and time.time() + START < until:
                        begin()
                    continue
                if what == "machine":
                    board.machine = given
                elif what == "began":
                    at[hear] = given
                else:
                    number, at[hear] = at[hear], None
                    assert number is not None
                    board.keep(asked[number], what, given)
        for own in running.values():
            own.terminate()
            own.join()
    summary(board.rows)
    print(
        f"{len(board.rows)} raced, {len(board.failed)} failed, {len(board.left)} left out, "
        f"in {time.perf_counter() - start:.1f} s"
    )
    return 1 if board.failed or any(not is_right(row) for row in board.rows) else 0
