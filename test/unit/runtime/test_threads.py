"""Many threads at one program: each call's launches see its own tensors, streams and memory."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from polyc.runtime import driver, program, repeated
from polyc.runtime.program import Program
from polyc.test.support.fake_cuda import FakeCuda, Launched
from polyc.test.support.gpu_producers import CudaArray, FakeTorch
from polyc.test.unit.runtime.test_program import sequence

THREADS, CALLS = 8, 40


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Threads take turns as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def slow(cuda: FakeCuda) -> FakeCuda:
    """The driver lets other threads run during a call, as a call of C does."""
    cuda.slow = True
    return cuda


def at_once(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run ``work(0)``, ``work(1)``, … in threads that begin together; the first error is raised."""
    errors: list[BaseException] = []
    gate = threading.Barrier(count)

    def run(i: int) -> None:
        gate.wait()
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def pairs(cuda: FakeCuda) -> list[tuple[Launched, Launched]]:
    """The two launches of each call: in a stream they stand one behind the other."""
    by_stream: dict[int, list[Launched]] = defaultdict(list)
    for launch in cuda.launches:
        by_stream[launch.stream].append(launch)
    found: list[tuple[Launched, Launched]] = []
    for launches in by_stream.values():
        for one, two in zip(launches[::2], launches[1::2], strict=True):
            assert (one.kernel, two.kernel) == ("one", "two")
            assert one.thread == two.thread
            # Both use the same workspace.
            assert one.values[1] == two.values[0]
            found.append((one, two))
    return found


def test_calls_of_many_threads_do_not_mix(
    ctx: Context, slow: FakeCuda, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few plans are kept, so that they come and go all the time."""
    monkeypatch.setattr(program, "CALLS_KEPT", 3)
    monkeypatch.setattr(repeated, "CALLS_KEPT", 3)
    job = sequence(ctx)
    wanted: list[set[tuple[int, int, int]]] = [set() for _ in range(THREADS)]

    def work(i: int) -> None:
        stream = 100 + i // 2
        with torch.on(stream):
            for j in range(CALLS):
                m = 1 + (i + j) % 7
                x, y = torch.zeros(m, 5), torch.zeros(m)
                job.run([x], out=[y])
                wanted[i].add((stream, x.pointer, y.pointer))

    at_once(work)
    found = pairs(slow)
    assert {(o.stream, o.values[0], t.values[1]) for o, t in found} == set().union(*wanted)
    assert len(found) == THREADS * CALLS
    spaces: dict[int, set[int]] = defaultdict(set)
    for one, _ in found:
        spaces[one.stream].add(one.values[1])
    assert all(not a & b for s, a in spaces.items() for t, b in spaces.items() if s < t)
    assert not slow.freed_in_use
    assert len(slow.loaded) == 1


class SlowDict(dict[Any, Any]):
    """Other threads run between the beginning of a walk and its first step."""

    def __iter__(self) -> Iterator[Any]:
        walk = super().__iter__()
        time.sleep(0)
        return walk


def test_kept_calls_are_never_walked_while_they_change(
    ctx: Context, cuda: FakeCuda, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "CALLS_KEPT", 1)
    monkeypatch.setattr(repeated, "CALLS_KEPT", 1)
    job = sequence(ctx)
    kept = job.repeated(program.PLAIN)
    monkeypatch.setattr(kept, "_calls", SlowDict())
    monkeypatch.setattr(job, "_plans", SlowDict())
    tensors = [(torch.zeros(m, 5), torch.zeros(m)) for m in range(1, 40)]

    def work(i: int) -> None:
        for x, y in tensors[i:]:
            job.run([x], out=[y])

    at_once(work)
    assert len(kept._calls) == len(job._plans) == 1  # pyright: ignore[reportPrivateUsage]


def test_closing_while_others_call(ctx: Context, slow: FakeCuda, torch: FakeTorch) -> None:
    """What a call uses stays until it has put its launches into the stream."""
    job = sequence(ctx)

    def work(i: int) -> None:
        for _ in range(CALLS):
            if i == 0:
                job.close()
                continue
            with torch.on(100 + i):
                job.run([torch.zeros(1, 5)], out=[torch.zeros(1)])

    at_once(work)
    pairs(slow)
    job.close()
    assert not slow.loaded


def test_a_bound_launch_in_many_threads(ctx: Context, slow: FakeCuda) -> None:
    """Each launch goes to the stream that its thread said, with that stream's workspace."""
    job = sequence(ctx)
    x, y = CudaArray(slow.allocate(20), [1, 5]), CudaArray(slow.allocate(4), [1])
    bound = job.launch([x], [y])

    def work(i: int) -> None:
        for _ in range(CALLS):
            bound.run(100 + i)

    at_once(work)
    threads = {(one.stream, one.thread) for one, _ in pairs(slow)}
    assert len(threads) == THREADS == len({stream for stream, _ in threads})
    assert len({one.values[1] for one, _ in pairs(slow)}) == THREADS


def test_a_bound_launch_without_workspaces_in_many_threads(ctx: Context, slow: FakeCuda) -> None:
    job = sequence(ctx)
    x, y = CudaArray(0, [4, 0]), CudaArray(slow.allocate(16), [4])
    bound = job.launch([x], [y], variant="empty")
    at_once(lambda i: [bound.run(100 + i) for _ in range(CALLS)].clear())
    threads = {(one.stream, one.thread) for one in slow.launches}
    assert len(slow.launches) == THREADS * CALLS and len(threads) == THREADS


def test_host_calls_of_many_threads(ctx: Context, slow: FakeCuda) -> None:
    job: Program = sequence(ctx)

    def work(i: int) -> None:
        for m in range(1, 12):
            (y,) = job.run([np.full((m, 5), i, np.float32)], gpu_index=i % 2)
            found: Any = y
            assert found.shape == (m,)

    at_once(work)
    assert len(slow.loaded) == 2 and not slow.freed_in_use


def test_shared_memory_that_is_allowed_is_never_taken_back(slow: FakeCuda, ctx: Context) -> None:
    """The last call of cuFuncSetAttribute counts: a small size must not follow a large one."""
    with driver.current(0):
        for _ in range(10):
            function = driver.Module(b"", 0).function("k")
            sizes = [50_000 + 1000 * ((i * 5) % THREADS) for i in range(THREADS)]
            at_once(lambda i, f=function, s=sizes: f.allow_shared(s[i]))
            handle = function._handle.value  # pyright: ignore[reportPrivateUsage]
            assert slow.shared[handle or 0] == max(sizes)


def test_a_module_gives_the_same_kernel_to_all(slow: FakeCuda) -> None:
    module = driver.Module(b"", 0)
    found: list[driver.Function] = []
    at_once(lambda _: found.append(module.function("k")))
    assert len(set(found)) == 1
