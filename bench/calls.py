"""What a call costs on the host: bound launches, programs, jitted functions, PyTorch's own (J4).

    python -m polyc.bench.calls                  # on a GPU, with PyTorch's tensors, beside torch.mm
    python -m polyc.bench.calls --stand-in       # without: a driver that does nothing

Each contestant calls a sum of tensors of 64 elements, with 3, 8 and 19 tensors in its signature, in
rounds that take turns; a figure is the median over the rounds.  The least that a call can be is the
first line: a launch whose arguments were packed before, one ``cuLaunchKernelEx`` by ctypes.  With
the stand-in that launch costs a call of a Python function, so that ratios mean nothing, and only
what polyc adds, in microseconds, is the host's share.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import f32

from polyc.dialects.frontend import tensor
from polyc.tools.jit.compile import compile as compiled
from polyc.trace.builder import Builder

COUNTS = (3, 8, 19)
"""Tensors of a signature, the output with them."""

CALLS, ROUNDS = 2000, 15
"""Calls of a round, and rounds."""

Call = Callable[[], object]


def summing(count: int) -> Any:
    """A compiled sum of ``count - 1`` vectors."""
    build = Builder(f"sum{count}", {f"x{i}": tensor(["N"], f32) for i in range(count - 1)})
    total = build.inputs[0]
    for one in build.inputs[1:]:
        total = build.elementwise("add", total, one)
    return compiled(build.finish([total]))


def contestants(torch: Any, count: int) -> dict[str, Call]:
    """Calls by name, each made once before it is timed."""
    call = summing(count)
    inputs = [torch.zeros(64, device="cuda") for _ in range(count - 1)]
    out = torch.zeros(64, device="cuda")
    program = call.program(0)
    bound = program.launch(inputs, [out])
    launch = bound.plan.launches[0]
    found: dict[str, Call] = {
        "a packed launch": launch.run,
        "bound": bound.run,
        "program, out=": lambda: program.run(inputs, out=[out]),
        "program": lambda: program.run(inputs),
        "jit, out=": lambda: call(*inputs, out=out),
        "jit": lambda: call(*inputs),
    }
    if hasattr(torch, "mm"):
        a = torch.zeros(8, 8, device="cuda")
        c = torch.zeros(8, 8, device="cuda")
        found["torch.mm, out="] = lambda: torch.mm(a, a, out=c)
        found["torch.mm"] = lambda: torch.mm(a, a)
    for one in found.values():
        one()
    return found


def microseconds(calls: dict[str, Call], finish: Call) -> dict[str, float]:
    """The median time of a call, in rounds that take turns."""
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
    return {name: statistics.median(found) for name, found in times.items()}


def on_gpu() -> tuple[Any, Call]:
    """PyTorch with tensors of f32 on the GPU, and what waits for it."""
    from polyc.bench.race import load_torch

    torch = load_torch("bench/calls.py")
    return torch, torch.cuda.synchronize


def stand_in() -> tuple[Any, Call]:
    """A driver whose launches do nothing, and tensors as PyTorch's are read."""
    from polyc.runtime import driver
    from polyc.test.support.fake_cuda import FakeCuda
    from polyc.test.support.gpu_producers import FakeTorch

    class Idle(FakeCuda):
        def cuLaunchKernelEx(self, config: Any, function: Any, pointers: Any, extra: None) -> int:
            return 0

    made = Idle()
    driver._library = lambda: made  # pyright: ignore
    torch = sys.modules["torch"] = FakeTorch(made)
    return torch, lambda: None


def main(args: Sequence[str]) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="What a call costs on the host.")
    parser.add_argument("--stand-in", action="store_true", help="a driver that does nothing")
    given = parser.parse_args(args)
    torch, finish = stand_in() if given.stand_in else on_gpu()
    for count in COUNTS:
        found = microseconds(contestants(torch, count), finish)
        least = found["a packed launch"]
        print(f"{count} tensors")
        for name, one in found.items():
            print(f"  {name:<16} {one:7.2f} µs  {one / least:5.1f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
