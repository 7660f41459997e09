"""Inductor's tuning beside other benchmarks: with the GPU alone, and in a second an op.

``torch.compile`` with max-autotune compiles some 20 Triton kernels for each product and
convolution, measures them one launch at a time, and then walks over the configurations of all other
kernels, each of which it compiles alone: minutes for a model.  ``tuned_alone`` gives it the GPU
while it measures.  With ``quick`` it is also spared what costs most and decides least:

- Candidates are those of ``KEPT``, beside cuBLAS's, cuDNN's and ATen's own.
- They are measured behind a kernel that spins until the host has enqueued all launches, so that no
  figure holds the host's time, and a dozen launches do; Inductor's own way takes a hundred, and
  measures the host where a kernel is short and the processors are busy.
- The walk is left out: ``QUICK_OPTIONS`` in place of the mode.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from polyc.bench import race

QUICK_OPTIONS: Mapping[str, Any] = {"max_autotune": True}
"""``options`` of ``torch.compile``: those of max-autotune without its coordinate descent."""

Tiles = tuple[int, int, int, int, int]
"""A Triton candidate: rows, columns and depth of its tile, stages and warps."""

KEPT: Mapping[str, frozenset[Tiles]] = {
    "mm": frozenset(
        {
            (128, 128, 64, 3, 4),
            (128, 128, 64, 5, 8),
            (128, 64, 64, 4, 8),
            (128, 64, 32, 4, 8),
            (64, 128, 128, 4, 4),
            (64, 128, 64, 3, 4),
            (64, 128, 32, 4, 8),
            (64, 64, 128, 5, 4),
            (64, 64, 64, 3, 8),
            (64, 32, 128, 5, 4),
        }
    ),
    "bmm": frozenset(
        {
            (128, 128, 64, 3, 4),
            (128, 64, 32, 4, 8),
            (64, 128, 64, 3, 4),
            (64, 64, 32, 5, 8),
            (64, 64, 32, 3, 4),
            (64, 32, 64, 4, 8),
            (32, 32, 32, 5, 4),
        }
    ),
    "convolution2d": frozenset(
        {
            (256, 64, 16, 2, 4),
            (128, 128, 64, 3, 8),
            (128, 64, 64, 3, 8),
            (64, 128, 128, 4, 4),
            (64, 128, 64, 4, 4),
            (64, 64, 16, 2, 4),
        }
    ),
}
"""The candidates of a template that ``quick`` keeps: those that were the fastest, or nearly, among
all of them for 103 products and convolutions of ViT, Swin, BERT and ResNet-50 on an H100.  The best
of them took 1.02 of the time of the best of all in the mean of products, and of batches."""

FEWEST = 4
"""Where fewer of them fit an op, as Inductor shrinks tiles to few rows, all are kept."""


def tiles_of(description: str) -> Tiles | None:
    """The tile that a choice's description names, or None of one that is not Triton's."""
    found: list[int] = []
    for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "num_stages", "num_warps"):
        match = re.search(rf"\b{name}=(\d+)", description)
        if match is None:
            return None
        found.append(int(match[1]))
    rows, columns, depth, stages, warps = found
    return rows, columns, depth, stages, warps


def fewer(choices: Sequence[Any]) -> list[Any]:
    """The choices of an op that ``quick`` measures."""

    def template(choice: Any) -> str:
        return re.sub(r"_\d+$", "", str(choice.name)).removeprefix("triton_")

    tiles = [tiles_of(str(choice.description)) for choice in choices]
    fit = [
        tile is not None and tile in KEPT.get(template(choice), ())
        for choice, tile in zip(choices, tiles, strict=True)
    ]
    if sum(fit) < FEWEST:
        return list(choices)
    return [c for c, tile, kept in zip(choices, tiles, fit, strict=True) if kept or tile is None]


LAUNCHES = 12
"""Launches of which the fastest is a candidate's time, each after the L2 cache was written over."""

SPIN = 3_500_000
"""Clocks that the GPU waits at first, about 2 ms; thrice that each time the host was slower."""


def in_a_full_queue(torch: Any, own: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in for Inductor's ``benchmark_gpu``, which is ``own``: milliseconds of a run."""
    buffers: list[Any] = []

    def timed(run: Callable[[], object], *args: Any, **named: Any) -> Any:
        if named.get("return_mode", "min") != "min" or named.get("quantiles"):
            return own(run, *args, **named)
        if not buffers:
            size = torch.cuda.get_device_properties().L2_cache_size // 4
            buffers.append(torch.empty(size, dtype=torch.int32, device="cuda"))
        run()
        torch.cuda.synchronize()
        spin = SPIN
        best = float("inf")
        for _ in range(3):
            pairs = [
                tuple(torch.cuda.Event(enable_timing=True) for _ in range(2))
                for _ in range(LAUNCHES)
            ]
            gate = torch.cuda.Event()
            torch.cuda._sleep(spin)
            gate.record()
            for begin, end in pairs:
                buffers[0].zero_()
                begin.record()
                run()
                end.record()
            full = not gate.query()
            torch.cuda.synchronize()
            best = min(begin.elapsed_time(end) for begin, end in pairs)
            if full:
                break
            spin *= 3
        return best

    return timed


@contextmanager
def tuned_alone(quick: bool = False) -> Generator[None]:
    """Inductor times what it chooses from while no other benchmark uses the GPU.

    All candidates of an op are timed in one turn.  They are compiled by Inductor's own processes,
    which are awaited first: until they are there, it compiles in threads beside what it times.
    """
    compiling: Any = importlib.import_module("torch._inductor.async_compile")
    # Its processes assemble by this ptxas, and find nothing of each other's by another version.
    compiling._set_triton_ptxas_path()
    compiling.AsyncCompile.wait_pool_ready()
    if not race.shared() and not quick:
        yield
        return
    benchmarker: Any = importlib.import_module("torch._inductor.runtime.benchmarking").benchmarker
    selecting: Any = importlib.import_module("torch._inductor.select_algorithm")
    cache = selecting.AlgorithmSelectorCache
    own, autotune = benchmarker.benchmark_gpu, cache.autotune
    measure = in_a_full_queue(importlib.import_module("torch"), own) if quick else own

    def timed(*args: Any, **named: Any) -> Any:
        with race.alone():
            return measure(*args, **named)

    def tuned(*args: Any, **named: Any) -> Any:
        with race.alone():
            return autotune(*args, **named)

    benchmarker.benchmark_gpu, cache.autotune = timed, tuned
    if quick and hasattr(selecting, "add_preprocessing_fn"):
        selecting.add_preprocessing_fn(fewer)
    elif quick:
        print("this PyTorch measures all candidates", flush=True)
    try:
        yield
    finally:
        cache.autotune = autotune
        del benchmarker.benchmark_gpu
        if quick:
            with suppress(AttributeError):
                selecting.clear_preprocessing_fns()
