"""How long the first result takes in a fresh process: cold, and from the disk cache (T1, C8).

    python -m polyc.bench.cold                   # on a GPU, beside torch.compile and Triton
    python -m polyc.bench.cold --stand-in        # without: NumPy, a driver that does nothing

Each contestant computes relu(A @ B + bias) of f16.  A run is a process of its own: it imports its
framework, makes the context and the tensors, and only then begins the time, which ends when the
result is there.  *Cold* has empty cache folders, *warm* those that the cold run before it filled,
and *again* is another call in that same warm process with the same tensors.  Contestants take
turns, round by round, and a figure is the median over the rounds.  Byte code of Python files is
compiled before, as it is where packages are installed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportUndefinedVariable=false

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"

Call = Callable[..., Any]


def of_load(arch: str) -> Call:
    """``polyc.load`` of the example's path."""
    import polyc

    program = polyc.load(EXAMPLE, arch)
    return lambda *tensors: program.run(tensors)[0]


def of_text(arch: str) -> Call:
    """``polyc.compile`` of the example's text."""
    import polyc

    return polyc.compile(EXAMPLE.read_text(), arch)


def of_values(arch: str) -> Call:
    """A jitted function over values."""
    import polyc

    @polyc.jit(arch=arch)
    def layer(
        a: polyc.Tensor["M", "K", "f16"],  # noqa: F821
        b: polyc.Tensor["K", "N", "f16"],  # noqa: F821
        bias: polyc.Tensor["N", "f16"],  # noqa: F821
    ) -> Any:
        return polyc.relu(a @ b + bias)

    return layer


def of_torch(mode: str) -> Call:
    """``torch.compile``."""
    torch: Any = import_module("torch")

    def layer(a: Any, b: Any, bias: Any) -> Any:
        return torch.relu(a @ b + bias)

    return torch.compile(layer, mode=mode)


def of_triton() -> Call:
    """A plain Triton kernel of one tile size, without a search."""
    torch: Any = import_module("torch")
    triton: Any = import_module("triton")
    tl: Any = import_module("triton.language")

    globals()["tl"] = tl  # Triton looks for names where the function stands

    @triton.jit
    def kernel(a, b, bias, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore
        row, column = tl.program_id(0), tl.program_id(1)
        rows, columns, ks = (
            row * BM + tl.arange(0, BM),
            column * BN + tl.arange(0, BN),
            tl.arange(0, BK),
        )
        total = tl.zeros((BM, BN), tl.float32)
        for start in range(0, k, BK):
            x = tl.load(a + rows[:, None] * k + (start + ks)[None, :])
            y = tl.load(b + (start + ks)[:, None] * n + columns[None, :])
            total = tl.dot(x, y, total)
        total = tl.maximum(total + tl.load(bias + columns)[None, :], 0.0)
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))

    def call(a: Any, b: Any, bias: Any) -> Any:
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        kernel[(m // 128, n // 128)](a, b, bias, c, m, n, k, 128, 128, 32, num_warps=8)
        return c

    return call


OURS: Mapping[str, Callable[[str], Call]] = {
    "polyc.load": of_load,
    "polyc.compile": of_text,
    "polyc.jit": of_values,
}
PEERS: Mapping[str, tuple[str, Callable[[], Call]]] = {
    "torch.compile": ("torch", lambda: of_torch("default")),
    "torch.compile, max-autotune": ("torch", lambda: of_torch("max-autotune")),
    "Triton": ("triton", of_triton),
}
"""Contestants by name; peers with the module that they need."""

COMPILER = ("xdsl", "islpy", "polyc.passes")
SIZE = 1024


def one(name: str, stand_in: bool) -> None:
    """What a process of its own does: it prints its times in seconds as JSON."""
    if stand_in:
        tensors, finish, arch = _on_stand_in()
    else:
        tensors, finish, arch = _on_gpu()
    start = time.perf_counter()
    call = OURS[name](arch) if name in OURS else PEERS[name][1]()
    result = call(*tensors)
    finish()
    first = time.perf_counter()
    call(*tensors)
    finish()
    again = time.perf_counter()
    found: dict[str, Any] = {"first": first - start, "again": again - first}
    found["imported"] = [one for one in COMPILER if one in sys.modules]
    if not stand_in:
        torch: Any = import_module("torch")

        a, b, bias = tensors
        expected = torch.relu(a.float() @ b.float() + bias.float())
        found["error"] = float((result.float() - expected).abs().max() / expected.abs().max())
    print(json.dumps(found))


def _on_gpu() -> tuple[list[Any], Callable[[], object], str]:
    torch: Any = import_module("torch")

    torch.manual_seed(0)
    major = torch.cuda.get_device_capability()[0]
    sizes = [(SIZE, SIZE), (SIZE, SIZE), (SIZE,)]
    tensors = [torch.randn(size, device="cuda", dtype=torch.float16) for size in sizes]
    torch.cuda.synchronize()
    return tensors, torch.cuda.synchronize, "sm_90a" if major == 9 else "sm_80"


def _on_stand_in() -> tuple[list[Any], Callable[[], object], str]:
    import numpy as np

    from polyc.runtime import driver
    from polyc.test.support.fake_cuda import FakeCuda

    class Idle(FakeCuda):
        def cuLaunchKernelEx(self, config: Any, function: Any, pointers: Any, extra: None) -> int:
            return 0

    made = Idle()
    driver._library = lambda: made  # pyright: ignore
    sizes = [(64, 64), (64, 64), (64,)]
    return [np.zeros(size, np.float16) for size in sizes], lambda: None, "sm_90a"


def started(name: str, stand_in: bool, folder: str) -> dict[str, Any]:
    """A run of a contestant in a process of its own, with caches in ``folder``."""
    places = {
        "XDG_CACHE_HOME": folder,
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
        "TRITON_CACHE_DIR": f"{folder}/triton",
        "CUDA_CACHE_PATH": f"{folder}/cuda",
    }
    left_out = ("POLYC_CACHE", "PYTHONDONTWRITEBYTECODE")
    kept = {k: v for k, v in os.environ.items() if k not in left_out}
    command = [sys.executable, "-m", "polyc.bench.cold", "--one", name]
    done = subprocess.run(
        [*command, *(["--stand-in"] if stand_in else [])],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / ".typecheck")} | kept | places,
    )
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def _is_there(module: str) -> bool:
    from importlib.util import find_spec

    return find_spec(module) is not None


def main(args: Sequence[str]) -> int:
    """Print the table; returns the exit code."""
    parser = argparse.ArgumentParser(description="The first result in a fresh process.")
    parser.add_argument("--stand-in", action="store_true", help="a driver that does nothing")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each contestant")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contestants")
    parser.add_argument("--json", metavar="FILE", help="write all figures there")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(args)
    if given.one is not None:
        one(given.one, given.stand_in)
        return 0
    names = list(OURS)
    if not given.stand_in:
        names += [name for name, (module, _) in PEERS.items() if _is_there(module)]
    names = [name for name in names if given.only is None or name in given.only]
    figures: dict[str, dict[str, list[float]]] = {n: {} for n in names}
    notes: dict[str, str] = {}
    # Once for nothing: files come into the system's cache, and byte code is written.
    for turn in range(-1, given.rounds):
        shift = max(turn, 0) % len(names)
        for name in (*names[shift:], *names[:shift]):
            if name in notes and "failed" in notes[name]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                runs = {kind: started(name, given.stand_in, folder) for kind in ("cold", "warm")}
            for kind, run in runs.items():
                if "failed" in run:
                    notes[name] = f"failed: {run['failed']}"
                elif turn >= 0:
                    figures[name].setdefault(kind, []).append(run["first"])
                    if kind == "warm":
                        figures[name].setdefault("again", []).append(run["again"])
                        if run["imported"] and name in OURS:
                            notes[name] = f"imported {', '.join(run['imported'])}"
                        if run.get("error", 0.0) > 1e-2:
                            notes[name] = f"is wrong by {run['error']:.1e}"
    print(f"{'':<28}{'cold':>12}{'warm':>12}{'again':>12}   milliseconds, medians")
    for name, found in figures.items():
        row = "".join(
            f"{statistics.median(found[kind]) * 1e3:12.1f}" if found.get(kind) else f"{'-':>12}"
            for kind in ("cold", "warm", "again")
        )
        print(f"{name:<28}{row}   {notes.get(name, '')}")
    if given.json is not None:
        Path(given.json).write_text(json.dumps({"seconds": figures, "notes": notes}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
