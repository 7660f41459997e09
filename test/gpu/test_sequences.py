"""Sequences, workspaces, large clusters and persistent grids on the GPU.

The program is that of the simulator's tests: double N numbers into a workspace while an atomic
counts them, then turn them round and add the count.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.unit.playback.gpu.test_sequences import module


@cache
def program(*edits: tuple[str, str]) -> Program:
    return Program.compile(module(*edits))


def expected(x: Any) -> Any:
    return 2 * x[::-1] + len(x)


def numbers(count: int) -> Any:
    return np.arange(count, dtype=np.float32)


def test_launches_run_in_order_on_workspaces_that_grow() -> None:
    job = program()
    assert job.chosen({"N": 70}) == "both"
    for count in (70, 50_000, 70, 100_000, 2):
        (y,) = job.run([numbers(count)])
        np.testing.assert_array_equal(np.asarray(y), expected(numbers(count)))


@pytest.mark.parametrize("cluster", [2, 8, 16])
@pytest.mark.parametrize("persistent", ["", " persistent"])
def test_clusters(cluster: int, persistent: str) -> None:
    if not driver.device().runs("sm_90a"):
        pytest.skip("clusters need sm_90")
    grid = f"[(N + {32 * cluster - 1}) floordiv {32 * cluster} * {cluster}]{persistent}"
    job = program(
        ('"sm_80"', '"sm_90a"'),
        ("threads 32", f"threads 32 cluster {cluster}"),
        ("[(N + 31) floordiv 32]", grid),
    )
    # A persistent grid is not cut: there are fewer blocks than multiprocessors.
    (y,) = job.run([numbers(500)])
    np.testing.assert_array_equal(np.asarray(y), expected(numbers(500)))


def test_streams_do_not_share_workspaces() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    job = program()
    inputs = [torch.arange(40_000 + 8 * i, device="cuda", dtype=torch.float32) for i in range(4)]
    streams = [torch.cuda.Stream() for _ in inputs]
    torch.cuda.synchronize()
    found: list[Any] = []
    for _ in range(20):
        found.clear()
        for stream, x in zip(streams, inputs, strict=True):
            with torch.cuda.stream(stream):
                found.append(job.run([x])[0])
    torch.cuda.synchronize()
    for x, y in zip(inputs, found, strict=True):
        np.testing.assert_array_equal(y.cpu().numpy(), expected(x.cpu().numpy()))


def test_bound_sequences_have_memory_of_their_own() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    job = program()
    x = torch.arange(9_000, device="cuda", dtype=torch.float32)
    outputs = [torch.empty_like(x) for _ in range(2)]
    bound = [job.launch([x], [y]) for y in outputs]
    streams = [torch.cuda.Stream() for _ in bound]
    torch.cuda.synchronize()
    for _ in range(10):
        for one, stream in zip(bound, streams, strict=True):
            one.run(stream.cuda_stream)
    torch.cuda.synchronize()
    for y in outputs:
        np.testing.assert_array_equal(y.cpu().numpy(), expected(x.cpu().numpy()))
