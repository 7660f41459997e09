"""What a call costs on the host: packed launches, programs, jitted functions, and peers (J4).

    python -m polyc.bench.calls                  # on a GPU, with PyTorch's tensors, beside its mm
    python -m polyc.bench.calls --stand-in       # without: a driver that does nothing

Each contestant calls a sum of vectors of 64 elements, with 3, 8 and 19 tensors in its signature, in
rounds that take turns; a figure is the median over the rounds.  The least that a call can be is the
first line: a launch whose arguments were packed before, one ``cuLaunchKernelEx`` by ctypes.  The
compiled backend is built for the run where a C compiler is there and it is not installed; Triton's
launch of a kernel with as many arguments stands beside it where Triton is installed.

With the stand-in that launch costs a call of a Python function, so that ratios mean nothing, and
only what polyc adds, in microseconds, is the host's share.  Writes bench/results/calls-*.json.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

from xdsl.dialects.builtin import f32

from polyc.bench.host import load
from polyc.bench.race import ROOT, commit, now, write_report
from polyc.dialects.frontend import tensor
from polyc.runtime import compiled_calls, driver
from polyc.test.support import fast_extension
from polyc.trace.builder import Builder

COUNTS = (3, 8, 19)
"""Tensors of a signature, the output with them."""

CALLS, ROUNDS = 1000, 25
"""Calls of a round, and rounds."""

LEAST = "a packed launch"

TARGETS: Mapping[str, Mapping[int, float]] = {
    "jit, out=": {3: 1.6, 8: 2.2, 19: 3.5},
    "compiled, out=": {3: 1.1, 8: 1.1, 19: 1.1},
}
"""How many times the least a call may be, by the number of tensors."""

ALLOCATING: Mapping[str, str] = {
    "jit": "jit, out=torch.empty()",
    "compiled": "compiled, out=torch.empty()",
}
"""Calls that allocate their output, and those that are given one made for them, which they may cost
at most."""

TRITON = """
import triton
import triton.language as tl


@triton.jit
def kernel({pointers}, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = {total}
    tl.store(y + at, total, mask=inside)
"""

Call = Callable[[], object]


def summing(count: int, backend: str) -> Any:
    """A compiled sum of ``count - 1`` vectors."""
    # What is called has the extension's base where that is there before.
    from polyc.tools.jit.compile import compile as compiled

    build = Builder(f"sum{count}", {f"x{i}": tensor(["N"], f32) for i in range(count - 1)})
    total = build.inputs[0]
    for one in build.inputs[1:]:
        total = build.elementwise("add", total, one)
    return compiled(build.finish([total]), execution_backend=backend)


def with_extension() -> bool:
    """Whether the compiled backend is there: installed, or built for this run."""
    if compiled_calls.extension() is not None:
        return True
    made = fast_extension.built()
    if isinstance(made, str):
        print(f"without the compiled backend: {made}")
        return False
    sys.modules["polyc_fast"] = made
    compiled_calls.extension.cache_clear()
    return compiled_calls.extension() is not None


def triton_kernel(count: int) -> Any:
    """Triton's kernel of the same sum; None where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        return None
    names = [f"x{i}" for i in range(count - 1)]
    total = " + ".join(f"tl.load({name} + at, mask=inside)" for name in names)
    # It reads its own source.
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(TRITON.format(pointers=", ".join(names), total=total))
    spec = importlib.util.spec_from_file_location(f"triton_sum{count}", file.name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def contestants(torch: Any, count: int, extension: bool) -> dict[str, Call]:
    """Calls by name, each made before it is timed."""
    call = summing(count, "cuda")
    inputs = [torch.zeros(64, device="cuda") for _ in range(count - 1)]
    out = torch.zeros(64, device="cuda")
    program = call.program(0)
    bound = program.launch(inputs, [out])
    launch = bound.plan.launches[0]

    def new() -> Any:
        return torch.empty((64,), dtype=torch.float32, device=out.device)

    found: dict[str, Call] = {
        LEAST: launch.run,
        "bound": bound.run,
        "program, out=": lambda: program.run(inputs, out=[out]),
        "program": lambda: program.run(inputs),
        "jit, out=": lambda: call(*inputs, out=out),
        "jit, out=, others": others(torch, call, count),
        "jit, out=, stream=": lambda: call(*inputs, out=out, stream=0),
        "jit": lambda: call(*inputs),
        "jit, out=torch.empty()": lambda: call(*inputs, out=new()),
    }
    if extension:
        fast = summing(count, "compiled")
        found["compiled, out="] = lambda: fast(*inputs, out=out)
        found["compiled, out=, others"] = others(torch, fast, count)
        found["compiled"] = lambda: fast(*inputs)
        found["compiled, out=torch.empty()"] = lambda: fast(*inputs, out=new())
    if hasattr(torch, "mm"):
        a, c = torch.zeros(8, 8, device="cuda"), torch.zeros(8, 8, device="cuda")
        found["torch.mm, out="] = lambda: torch.mm(a, a, out=c)
        found["torch.mm"] = lambda: torch.mm(a, a)
        found["torch.empty"] = new
        if (kernel := triton_kernel(count)) is not None:
            found["Triton, out="] = lambda: kernel[(1,)](*inputs, out, 64, BLOCK=64)
    for one in found.values():
        # The first is checked, the second known, the third known to the extension.
        for _ in range(3):
            one()
    return found


def others(torch: Any, call: Any, count: int) -> Call:
    """Calls whose tensors are others than the last ones'."""
    sets: Iterator[list[Any]] = cycle(
        [[torch.zeros(64, device="cuda") for _ in range(count)] for _ in range(4)]
    )

    def made() -> object:
        *inputs, out = next(sets)
        return call(*inputs, out=out)

    for _ in range(8):
        made()
    return made


def microseconds(calls: dict[str, Call], finish: Call) -> dict[str, list[float]]:
    """The times of a call, a round each, in rounds that take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    try:
        for turn in range(ROUNDS):
            names = list(calls)
            turn %= len(names)
            for name in (*names[turn:], *names[:turn]):
                call = calls[name]
                finish()
                start = time.perf_counter()
                for _ in range(CALLS):
                    call()
                times[name].append((time.perf_counter() - start) / CALLS * 1e6)
    finally:
        gc.enable()
        finish()
    return times


def rows(count: int, times: dict[str, list[float]], targets: bool) -> list[dict[str, Any]]:
    """A row a contestant, with its limit where ``targets`` count."""
    least = statistics.median(times[LEAST])
    found: list[dict[str, Any]] = []
    for name, runs in times.items():
        median = statistics.median(runs)
        target = TARGETS.get(name, {}).get(count) if targets else None
        limit = None if target is None else round(target * least, 2)
        if targets and name in ALLOCATING:
            limit = round(statistics.median(times[ALLOCATING[name]]), 2)
        found.append(
            {
                **{"name": f"{count} tensors: {name}", "median": round(median, 2), "unit": "µs"},
                **{"limit": limit, "held": limit is None or median <= limit},
                **{"times": round(median / least, 2), "added": round(median - least, 2)},
                "runs": [round(one, 2) for one in runs],
            }
        )
    return found


def on_gpu() -> tuple[Any, Call, str]:
    """PyTorch with tensors of f32 on the GPU, what waits for it, and its name."""
    from polyc.bench.race import load_torch

    torch = load_torch("bench/calls.py")
    return torch, torch.cuda.synchronize, torch.cuda.get_device_name()


def stand_in() -> tuple[Any, Call, str]:
    """A driver whose launches do nothing, and tensors as PyTorch's are read."""
    from polyc.test.support.fake_cuda import FakeCuda
    from polyc.test.support.gpu_producers import FakeTorch

    class Idle(FakeCuda):
        def cuLaunchKernelEx(self, config: Any, function: Any, pointers: Any, extra: None) -> int:
            return 0

    made = Idle()
    driver._library = lambda: made  # pyright: ignore
    torch = sys.modules["torch"] = FakeTorch(made)
    return torch, lambda: None, "a stand-in"


def main(args: Sequence[str]) -> int:
    """Print the table and write it; returns the exit code, 1 where a target is not held."""
    parser = argparse.ArgumentParser(description="What a call costs on the host.")
    parser.add_argument("--stand-in", action="store_true", help="a driver that does nothing")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), metavar="DIR")
    given = parser.parse_args(args)
    torch, finish, device = stand_in() if given.stand_in else on_gpu()
    extension = not given.stand_in and with_extension()
    found: list[dict[str, Any]] = []
    before = load()
    for count in COUNTS:
        times = microseconds(contestants(torch, count, extension), finish)
        for row in rows(count, times, not given.stand_in):
            found.append(row)
            against = "" if row["limit"] is None else f"  limit {row['limit']:.2f}"
            print(
                f"  {row['name']:<36} {row['median']:7.2f} µs  {row['times']:5.2f} x{against}"
                + ("" if row["held"] else "  NOT HELD"),
                flush=True,
            )
    if given.stand_in:
        return 0
    major, minor = torch.cuda.get_device_capability()
    record = {
        **{"date": now(), "commit": commit(), "device": device, "torch": torch.__version__},
        **{"capability": f"sm_{major}{minor}", "python": platform.python_version()},
        **{"cores": os.cpu_count(), "load": [before, load()], "calls": CALLS, "rows": found},
    }
    if given.out != "-":
        print(f"wrote {write_report('calls', record, given.out)}")
    return 0 if all(row["held"] for row in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
