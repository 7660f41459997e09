"""Streams, graphs, contexts and threads on the GPU, with PyTorch and with libraries unlike it.

Needs one GPU and PyTorch.  The program doubles N numbers into a workspace while an atomic counts
them, then turns them round and adds the count; ``expected`` says the same.  Work is held up by
``torch.cuda._sleep``, so that a call that does not wait for it reads what is not there yet.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.test.support.gpu_memory import held_bytes
from polyc.test.support.gpu_producers import CudaArray, DLPack
from polyc.test.unit.playback.gpu.test_sequences import module

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

SLEEP = 100_000_000
"""Cycles: some 50 ms."""

N = 40_000


def program() -> Program:
    """A program of its own: its arenas are nobody else's."""
    return Program.compile(module())


def expected(x: Any) -> Any:
    return 2 * x.flip(0) + len(x)


def numbers(count: int = N, start: int = 0) -> Any:
    return torch.arange(start, start + count, device="cuda", dtype=torch.float32)


def check(found: Any, x: Any) -> None:
    assert torch.equal(found, expected(x))


class ByDLPack:
    """A tensor of a library that has DLPack alone, and works on ``stream``."""

    def __init__(self, tensor: Any, stream: Any) -> None:
        self.tensor, self.stream = tensor, stream

    def __dlpack__(self, **asked: Any) -> object:
        with torch.cuda.stream(self.stream):
            return self.tensor.__dlpack__(**asked)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def by_cuda_array(tensor: Any, stream: Any, **fields: Any) -> CudaArray:
    """A tensor of a library that has ``__cuda_array_interface__`` alone."""
    return CudaArray(tensor.data_ptr(), tuple(tensor.shape), stream=stream, **fields)


@contextmanager
def late(stream: Any, x: Any) -> Generator[Any]:
    """A tensor that becomes ``x`` on ``stream``, some time after the block was entered."""
    made = torch.zeros_like(x)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SLEEP)
        made.copy_(x)
    yield made
    torch.cuda.synchronize()


def in_thread(work: Callable[[], Any]) -> Any:
    """What ``work`` gives in a thread that has used no GPU; its error is raised here."""
    found: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return found[0]


# Streams -----------------------------------------------------------------------------------


def test_a_dlpack_producer_orders_its_stream_and_the_result_is_there() -> None:
    """Without ``stream=`` the call is on the default stream, and waits."""
    job, x, side = program(), numbers(), torch.cuda.Stream()
    y = torch.zeros_like(x)
    job.run([x], out=[y])
    y.zero_()
    with late(side, x) as made:
        job.run([ByDLPack(made, side)], out=[ByDLPack(y, side)])
        with torch.cuda.stream(torch.cuda.Stream()):
            found = y.cpu()
    check(found, x.cpu())


def test_a_given_stream_follows_the_producer_and_is_not_waited_for() -> None:
    job, x, side, mine = program(), numbers(), torch.cuda.Stream(), torch.cuda.Stream()
    y = torch.zeros_like(x)
    job.run([x], out=[y])
    with late(side, x) as made:
        y.zero_()
        torch.cuda.current_stream().synchronize()
        job.run([ByDLPack(made, side)], out=[ByDLPack(y, side)], stream=mine)
        assert not mine.query()
        mine.synchronize()
        with torch.cuda.stream(mine):
            found = y.cpu()
    check(found, x.cpu())


@pytest.mark.parametrize("same", [True, False])
def test_a_cuda_array_runs_on_its_stream_and_others_wait(same: bool) -> None:
    """What the output's owner does next on its own stream comes after the call."""
    job, x, first = program(), numbers(), torch.cuda.Stream()
    second = first if same else torch.cuda.Stream()
    y = torch.zeros_like(x)
    job.run([x], out=[y])
    with late(first, x) as made:
        y.zero_()
        torch.cuda.current_stream().synchronize()
        job.run(
            [by_cuda_array(made, first.cuda_stream)], out=[by_cuda_array(y, second.cuda_stream)]
        )
        assert not first.query()
        with torch.cuda.stream(second):
            found = y.clone()
        second.synchronize()
    check(found, x)


def test_version_2_of_the_cuda_array_waits_for_everything() -> None:
    job, x, side = program(), numbers(), torch.cuda.Stream()
    y = torch.zeros_like(x)
    job.run([x], out=[y])
    y.zero_()
    with late(side, x) as made:
        job.run([by_cuda_array(made, ..., version=2)], out=[by_cuda_array(y, ..., version=2)])
        with torch.cuda.stream(torch.cuda.Stream()):
            found = y.cpu()
    check(found, x.cpu())


def test_pytorch_on_a_given_stream_keeps_the_memory_of_its_tensors() -> None:
    """An input that is dropped right after the call is not overwritten before it has run."""
    job, x, mine = program(), numbers(), torch.cuda.Stream()
    (want,) = job.run([x])
    torch.cuda.synchronize()
    with torch.cuda.stream(mine):
        torch.cuda._sleep(SLEEP)
    given = x.clone()
    (found,) = job.run([given], stream=mine)
    del given
    for _ in range(20):
        torch.full_like(x, float("nan"))
    mine.synchronize()
    assert torch.equal(found, want)


def test_pinned_memory_is_read_when_its_copy_is_done() -> None:
    job, x, side = program(), numbers(), torch.cuda.Stream()
    host = torch.zeros(N, pin_memory=True)
    job.run([host])
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        host.copy_(x, non_blocking=True)
    y = np.zeros(N, np.float32)
    job.run([host], out=[y])
    np.testing.assert_array_equal(y, expected(x.cpu()).numpy())


def test_a_read_only_tensor_is_an_input_and_no_output() -> None:
    job, x = program(), numbers()
    y = torch.zeros_like(x)
    closed, other = DLPack(x.data_ptr(), [N], flags=1), DLPack(y.data_ptr(), [N], flags=1)
    torch.cuda.synchronize()
    with pytest.raises(PolycError, match=r"error\[ReadOnly\]: Y is read-only"):
        job.run([closed], out=[other])
    job.run([closed], out=[DLPack(y.data_ptr(), [N])])
    check(y, x)


def test_a_negated_view_is_refused() -> None:
    job, x = program(), numbers()
    job.run([x])
    with pytest.raises(PolycError, match=r"pass X.resolve_neg\(\)"):
        job.run([torch._neg_view(x)])


def test_cupy() -> None:
    """CuPy's current stream is used, in and out; needs CuPy."""
    cupy: Any = pytest.importorskip("cupy", reason="CuPy is not installed")
    job, side = program(), cupy.cuda.Stream(non_blocking=True)
    x = cupy.arange(N, dtype=cupy.float32)
    y = cupy.zeros_like(x)
    cupy.cuda.Device().synchronize()
    for _ in range(3):
        with side:
            y.fill(0)
            job.run([x], out=[y])
            found = y.copy()
        side.synchronize()
        np.testing.assert_array_equal(found.get(), 2 * np.arange(N)[::-1] + N)


# Graphs ------------------------------------------------------------------------------------


def captured(stream: Any, *calls: Callable[[], object]) -> Any:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for call in calls:
            call()
    return graph


@pytest.mark.parametrize("warm", [True, False])
def test_a_graph_keeps_its_workspaces(warm: bool) -> None:
    """Calls of larger sizes follow on its stream; ``not warm`` loads the code in the capture."""
    job, side = program(), torch.cuda.Stream()
    x, y = numbers(), torch.zeros(N, device="cuda")
    large = numbers(64 * N)
    want = expected(large)
    if warm:
        job.run([x], out=[y])
    torch.cuda.synchronize()
    graph = captured(side, lambda: job.run([x], out=[y]))
    for stream in (side, torch.cuda.current_stream()):
        with torch.cuda.stream(stream):
            for size in (2 * N, 64 * N):
                job.run([large[:size].clone()])
        # What was freed, if anything was, is somebody else's now.
        torch.cuda.synchronize()
        others = [torch.full((N,), float("nan"), device="cuda") for _ in range(64)]
        x.add_(1)
        graph.replay()
        (found,) = job.run([large])
        torch.cuda.synchronize()
        check(y, x)
        assert torch.equal(found, want)
        assert all(one.isnan().all() for one in others)


def test_a_graph_whose_calls_grow() -> None:
    job, side = program(), torch.cuda.Stream()
    pairs = [(numbers(n), torch.zeros(n, device="cuda")) for n in (100, N, 16 * N, 100)]
    job.run([pairs[0][0]])
    torch.cuda.synchronize()
    calls = [lambda x=x, y=y: job.run([x], out=[y]) for x, y in pairs]
    graph = captured(side, *calls)
    for _ in range(3):
        for x, y in pairs:
            x.add_(1)
            y.zero_()
        graph.replay()
        torch.cuda.synchronize()
        for x, y in pairs:
            check(y, x)


def test_graphs_run_beside_calls_and_each_other() -> None:
    """All were captured from one stream, on which calls go on; none shares a workspace."""
    job, side = program(), torch.cuda.Stream()
    pairs = [(numbers(25 * N, 7 * i), torch.zeros(25 * N, device="cuda")) for i in range(3)]
    job.run([pairs[0][0]])
    torch.cuda.synchronize()
    graphs = [captured(side, lambda x=x, y=y: job.run([x], out=[y])) for x, y in pairs[:2]]
    streams = [torch.cuda.Stream() for _ in graphs]
    torch.cuda.synchronize()
    for _ in range(20):
        for stream, graph in zip(streams, graphs, strict=True):
            with torch.cuda.stream(stream):
                graph.replay()
        with torch.cuda.stream(side):
            job.run([pairs[2][0]], out=[pairs[2][1]])
    torch.cuda.synchronize()
    for x, y in pairs:
        check(y, x)


def test_a_bound_launch_in_a_graph() -> None:
    job, side = program(), torch.cuda.Stream()
    x, y = numbers(), torch.zeros(N, device="cuda")
    bound = job.launch([x], [y])
    bound.run(side.cuda_stream)
    torch.cuda.synchronize()
    graph = captured(side, lambda: bound.run(torch.cuda.current_stream().cuda_stream))
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    check(y, x)


def test_a_capture_outlives_a_call_that_would_wait() -> None:
    job, side = program(), torch.cuda.Stream()
    x, y = numbers(), torch.zeros(N, device="cuda")
    job.run([x], out=[y])
    torch.cuda.synchronize()

    def refused() -> None:
        unknown = by_cuda_array(y, None)
        with pytest.raises(PolycError, match="pass stream="):
            job.run([x], out=[unknown])
        job.run([x], out=[unknown], stream=torch.cuda.current_stream())

    graph = captured(side, refused)
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    check(y, x)


def test_a_thread_with_host_arrays_leaves_anothers_capture_alone() -> None:
    job, side = program(), torch.cuda.Stream()
    x, y = numbers(), torch.zeros(N, device="cuda")
    host = np.arange(2 * N, dtype=np.float32)
    job.run([x], out=[y])
    torch.cuda.synchronize()
    found: list[Any] = []
    graph = captured(
        side,
        lambda: job.run([x], out=[y]),
        lambda: found.append(in_thread(lambda: job.run([host])[0])),
    )
    np.testing.assert_array_equal(found[0], 2 * host[::-1] + 2 * N)
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    check(y, x)


def test_memory_goes_with_the_program() -> None:
    """Its workspace is half a gigabyte."""
    job, count = program(), 1 << 27
    x = torch.ones(count, device="cuda")
    y = torch.zeros(count, device="cuda")
    held = [held_bytes(torch)]
    for end in (job.close, lambda: None):
        job.run([x], out=[y])
        held.append(held_bytes(torch))
        end()
        held.append(held_bytes(torch))
    del job, end
    held.append(held_bytes(torch))
    size = 4 * count
    assert held[1] - held[0] >= size and held[1] - held[2] >= size
    assert held[3] - held[5] >= size


# Contexts ----------------------------------------------------------------------------------


@pytest.fixture
def cuda() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def current(cuda: Any) -> int | None:
    found = ctypes.c_void_p()
    assert cuda.cuCtxGetCurrent(ctypes.byref(found)) == 0
    return found.value


def test_a_thread_without_a_context_stays_without_one(cuda: Any) -> None:
    job = program()
    x = np.arange(N, dtype=np.float32)

    def work() -> tuple[int | None, int | None, Any]:
        before = current(cuda)
        (y,) = job.run([x])
        with pytest.raises(PolycError):
            job.run([x], variant="none")
        return before, current(cuda), y

    before, after, y = in_thread(work)
    assert before is None and after is None
    np.testing.assert_array_equal(y, 2 * x[::-1] + N)


def test_pytorch_keeps_its_context(cuda: Any) -> None:
    job, x = program(), numbers()
    before = current(cuda)
    assert before is not None
    check(job.run([x])[0], x)
    job.run([np.arange(N, dtype=np.float32)])
    assert current(cuda) == before


def test_a_second_context_stays_current_and_its_memory_is_refused(cuda: Any) -> None:
    """A kernel of the primary context cannot reach it."""
    job, x = program(), numbers()
    y = torch.zeros_like(x)
    job.run([x], out=[y])
    torch.cuda.synchronize()
    first, second, memory = current(cuda), ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuCtxCreate_v2(ctypes.byref(second), 0, 0) == 0
    try:
        assert cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * N)) == 0
        job.run([DLPack(x.data_ptr(), [N])], out=[DLPack(y.data_ptr(), [N])])
        assert current(cuda) == second.value
        host = np.arange(N, dtype=np.float32)
        (found,) = job.run([host])
        np.testing.assert_array_equal(np.asarray(found), 2 * host[::-1] + N)
        assert current(cuda) == second.value
        for tensor in (DLPack(memory.value, [N]), CudaArray(memory.value, [N])):
            with pytest.raises(PolycError, match="memory of a context of its own"):
                job.run([tensor], out=[DLPack(y.data_ptr(), [N])])
        assert current(cuda) == second.value
    finally:
        assert cuda.cuCtxDestroy_v2(second) == 0
    assert current(cuda) == first
    check(y, x)


# Threads -----------------------------------------------------------------------------------


def test_many_threads_call_one_program() -> None:
    """Each on a stream of its own, at sizes that come and go, beside others with NumPy arrays."""
    job, sizes = program(), [N + 8 * i for i in range(12)]

    def on_stream(i: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for j in range(30):
                x = numbers(sizes[(i + j) % 12], i)
                check(job.run([x])[0], x)

    def on_host(i: int) -> None:
        for j in range(10):
            x = np.arange(sizes[(i + j) % 12], dtype=np.float32)
            np.testing.assert_array_equal(np.asarray(job.run([x])[0]), 2 * x[::-1] + len(x))

    def on_default(i: int) -> None:
        """The per-thread default stream."""
        x = numbers(N, i)
        y = torch.zeros_like(x)
        torch.cuda.synchronize()
        for _ in range(30):
            job.run([by_cuda_array(x, 2)], out=[by_cuda_array(y, 2)])
        torch.cuda.synchronize()
        check(y, x)

    errors: list[BaseException] = []

    def run(work: Callable[[int], None], i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=(work, i))
        for i in range(4)
        for work in (on_stream, on_host, on_default)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_a_bound_launch_in_many_threads() -> None:
    """On streams of their own: each has a workspace, and all write the same numbers."""
    job, x = program(), numbers()
    y = torch.zeros_like(x)
    bound = job.launch([x], [y])
    streams = [torch.cuda.Stream() for _ in range(6)]
    torch.cuda.synchronize()

    def work(stream: Any) -> None:
        for _ in range(50):
            bound.run(stream.cuda_stream)

    threads = [threading.Thread(target=work, args=(one,)) for one in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    check(y, x)
