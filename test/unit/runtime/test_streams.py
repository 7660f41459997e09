"""On which stream a call runs, what it waits for, and which context is current afterwards."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver, streams, tensors
from polyc.test.support.fake_cuda import SECOND, FakeCuda, primary
from polyc.test.support.gpu_producers import CudaArray, DLPack, FakeTorch
from polyc.test.unit.runtime.test_program import sequence


def refused(call: Callable[[], object]) -> PolycError:
    with pytest.raises(PolycError) as caught:
        call()
    return caught.value


class CUstream:
    """A stream of cuda-bindings."""

    def getPtr(self) -> int:
        raise AssertionError("that is where the handle is kept")

    def __int__(self) -> int:
        return 9


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (0, 0),
        (1, 0),
        (2, 2),
        (np.int64(77), 77),
        (SimpleNamespace(cuda_stream=5), 5),
        (SimpleNamespace(ptr=1), 0),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 6)), 6),
        (SimpleNamespace(__cuda_stream__=(0, 6)), 6),
        (CUstream(), 9),
        (True, None),
        (-1, None),
        ("7", None),
        (7.0, None),
        (SimpleNamespace(cuda_stream=None), None),
        (SimpleNamespace(__cuda_stream__=lambda: 5), None),
        (object(), None),
    ],
)
def test_what_a_stream_is(stream: Any, handle: int | None) -> None:
    if handle is not None:
        assert streams.handle(stream) == handle
        return
    error = refused(lambda: streams.handle(stream))
    assert error.kind == "BadArgument" and "; pass a CUstream as an integer" in error.message


# On which stream ---------------------------------------------------------------------------


class Case:
    """Tensors of each kind for the program of two launches, and where its launches went."""

    def __init__(self, ctx: Context, cuda: FakeCuda) -> None:
        self.job, self.cuda = sequence(ctx), cuda
        self.x, self.y = cuda.allocate(20), cuda.allocate(4)

    def plain(self) -> list[DLPack]:
        return [DLPack(self.x, [1, 5]), DLPack(self.y, [1])]

    def arrays(self, *told: Any, **fields: Any) -> list[CudaArray]:
        x, y = told
        return [
            CudaArray(self.x, [1, 5], stream=x, **fields),
            CudaArray(self.y, [1], stream=y, **fields),
        ]

    def run(self, x: object, y: object, **options: Any) -> set[int]:
        """The streams of the launches."""
        self.cuda.launches.clear()
        self.cuda.orders.clear()
        self.cuda.waited.clear()
        self.cuda.synchronized = 0
        self.job.run([x], out=[y], **options)
        assert len(self.cuda.launches) == 2 and not self.cuda.events_left
        assert {one.context for one in self.cuda.launches} == {primary(0)}
        return {one.stream for one in self.cuda.launches}


@pytest.fixture
def case(ctx: Context, cuda: FakeCuda) -> Case:
    return Case(ctx, cuda)


def test_without_a_stream_the_call_is_on_the_default_one_and_waits(case: Case) -> None:
    x, y = case.plain()
    assert case.run(x, y) == {0}
    assert x.asked[-1]["stream"] == y.asked[-1]["stream"] == 1
    assert case.cuda.waited == [0] and case.cuda.orders == []


def test_a_stream_that_is_given_is_used_and_the_producers_follow_it(case: Case) -> None:
    x, y = case.plain()
    assert case.run(x, y, stream=77) == {77}
    assert x.asked[-1]["stream"] == y.asked[-1]["stream"] == 77
    assert case.cuda.waited == []
    assert case.run(*case.plain(), stream=SimpleNamespace(cuda_stream=1)) == {0}


def test_the_stream_of_a_cuda_array_is_used(case: Case) -> None:
    assert case.run(*case.arrays(33, 33)) == {33}
    assert case.cuda.waited == case.cuda.orders == []
    # 1 and 2 are the default streams.
    assert case.run(*case.arrays(1, 1)) == {0}
    assert case.run(*case.arrays(2, 2)) == {2}
    assert case.cuda.waited == case.cuda.orders == []


def test_other_streams_come_before_and_after(case: Case) -> None:
    assert case.run(*case.arrays(33, 44)) == {33}
    assert case.cuda.orders == [(44, 33), (33, 44)] and case.cuda.waited == []


def test_a_given_stream_waits_for_the_tensors_and_what_follows_is_the_callers(case: Case) -> None:
    assert case.run(*case.arrays(33, 44), stream=55) == {55}
    assert case.cuda.orders == [(33, 55), (44, 55)] and case.cuda.waited == []


def test_a_tensor_that_tells_no_stream_is_waited_for(case: Case) -> None:
    assert case.run(*case.arrays(33, None)) == {33}
    assert case.cuda.orders == [] and case.cuda.waited == [33]
    assert case.run(*case.arrays(None, None), stream=8) == {8}
    assert case.cuda.waited == [] and case.cuda.synchronized == 0


def test_version_2_says_nothing_of_streams(case: Case) -> None:
    """Its data may be on their way in any stream."""
    x, y = case.arrays(..., ..., version=2)
    assert case.run(x, y) == {0}
    assert case.cuda.synchronized == 1 and case.cuda.waited == [0]
    assert case.run(x, y, stream=8) == {8}
    assert case.cuda.synchronized == 0


def test_dlpack_with_the_stream_of_its_cuda_array(case: Case) -> None:
    """Libraries have both; the stream is then the one that the tensor's owner works on."""
    x, y = case.plain()
    for one in (x, y):
        one.__dict__["__cuda_array_interface__"] = {"stream": 33}
    assert case.run(x, y) == {33}
    assert x.asked[-1]["stream"] == 33 and case.cuda.waited == []


def test_a_cuda_array_that_cannot_be_asked(case: Case) -> None:
    class Raises(DLPack):
        @property
        def __cuda_array_interface__(self) -> object:
            raise RuntimeError("not now")

    assert case.run(Raises(case.x, [1, 5]), Raises(case.y, [1])) == {0}


def test_pytorch_s_current_stream(case: Case, torch: FakeTorch) -> None:
    x, y = torch.zeros(1, 5), torch.zeros(1)
    for stream in (0, 7, 7, 9):
        with torch.on(stream):
            assert case.run(x, y) == {stream}
        assert case.cuda.waited == case.cuda.orders == []
    assert x.asked and {one["stream"] for one in x.asked} == {-1}


def test_pytorch_on_a_given_stream(case: Case, torch: FakeTorch) -> None:
    """Its tensors come after the current stream, and their memory waits for the given one."""
    x, y = torch.zeros(1, 5), torch.zeros(1)
    with torch.on(7):
        case.run(x, y)
        assert x.recorded == y.recorded == []
        assert case.run(x, y, stream=9) == {9}
        assert case.cuda.orders == [(7, 9)]
        assert x.recorded == y.recorded == [9]
        torch.made.clear()
        case.job.run([x], stream=9)
        # The output is of the stream that fills it.
        assert [stream for _, stream in torch.made] == [9]
        assert case.run(x, y, stream=7) == {7} and x.recorded == [9, 9]


def test_pytorch_beside_another_library(case: Case, torch: FakeTorch) -> None:
    x, y = torch.zeros(1, 5), case.plain()[1]
    with torch.on(7):
        assert case.run(x, y) == {7}
        assert y.asked[-1]["stream"] == 7 and case.cuda.waited == [7]
        assert case.run(x, case.arrays(33, 33)[1]) == {7}
        assert case.cuda.orders == [(33, 7), (7, 33)] and case.cuda.waited == []


def test_pytorch_that_is_only_loaded_has_no_say(case: Case, torch: FakeTorch) -> None:
    with torch.on(7):
        assert case.run(*case.plain()) == {0}


def test_a_call_that_would_wait_is_refused_in_a_capture(case: Case) -> None:
    """Waiting would end the capture."""
    x, y = case.arrays(33, None)
    with case.cuda.capturing(33):
        error = refused(lambda: case.job.run([x], out=[y]))
        assert error.kind == "BadArgument"
        assert "on which stream Y is used" in error.message and "pass stream=" in error.message
        assert case.run(x, case.arrays(33, 33)[1]) == {33}
        assert case.run(*case.plain(), stream=33) == {33}
    assert not case.cuda.broken_captures


def test_host_tensors_need_no_stream(case: Case) -> None:
    (y,) = case.job.run([np.zeros((1, 5), np.float32)], stream=77)
    assert isinstance(y, np.ndarray) and {one.stream for one in case.cuda.launches} == {0}
    refused(lambda: case.job.run([np.zeros((1, 5), np.float32)], stream="77"))


def test_pinned_memory_is_read_when_copies_to_it_are_done(case: Case) -> None:
    for device, times in (((1, 0), 0), ((3, 0), 1)):
        case.cuda.synchronized = 0
        x, y = np.zeros((1, 5), np.float32), np.zeros(1, np.float32)
        case.job.run([DLPack(x.ctypes.data, [1, 5], device=device)], out=[y])
        assert case.cuda.synchronized == times


def test_pytorch_says_what_is_pinned(case: Case, torch: FakeTorch) -> None:
    x, y = np.zeros((1, 5), np.float32), np.zeros(1, np.float32)
    for pinned in (False, True):
        case.cuda.synchronized = 0
        case.job.run([torch.Tensor(x.ctypes.data, [1, 5], pinned=pinned)], out=[y])
        assert case.cuda.synchronized == int(pinned)


def test_a_bound_launch_is_ordered_by_its_caller(case: Case) -> None:
    x, y = case.plain()
    bound = case.job.launch([x], [y])
    assert x.asked[-1]["stream"] == y.asked[-1]["stream"] == -1
    bound.run(7)
    assert {one.stream for one in case.cuda.launches} == {7}
    assert case.cuda.orders == case.cuda.waited == [] and not case.cuda.stack


# Contexts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [[], [SECOND], [primary(1)], [SECOND, primary(0)]])
def test_the_context_from_before_is_current_again(case: Case, before: list[int]) -> None:
    case.cuda.stack[:] = before
    host = np.zeros((1, 5), np.float32)
    case.run(*case.plain())
    case.job.run([host])
    case.job.run([host], gpu_index=1)
    bound = case.job.launch([case.plain()[0]], [case.plain()[1]])
    bound.run(3)
    del bound
    case.job.close()
    assert case.cuda.stack == before


@pytest.mark.parametrize(
    "function",
    [
        "cuModuleLoadData",
        "cuMemAlloc_v2",
        "cuLaunchKernelEx",
        "cuMemcpyHtoD_v2",
        "cuMemcpyDtoH_v2",
        "cuStreamSynchronize",
    ],
)
def test_the_context_is_put_back_after_an_error(case: Case, function: str) -> None:
    case.cuda.stack[:] = [SECOND]
    case.cuda.fail[function] = 700
    error = refused(lambda: case.job.run([np.zeros((1, 5), np.float32)]))
    assert error.kind in ("DriverFailed", "LaunchFailed") and "700" in error.message
    assert case.cuda.stack == [SECOND]
    case.job.run([np.zeros((1, 5), np.float32)])
    assert case.cuda.stack == [SECOND]


def test_a_context_that_does_not_go_is_said_once(cuda: FakeCuda) -> None:
    cuda.fail["cuCtxPopCurrent_v2"] = 709
    left = driver.current(0)
    left.__enter__()
    with pytest.raises(PolycError, match="cuCtxPopCurrent answered CUDA_ERROR_709"):
        left.__exit__(None)
    cuda.fail["cuCtxPopCurrent_v2"] = 709
    with pytest.raises(KeyError), driver.current(0):
        raise KeyError


def test_what_a_call_like_one_before_asks_of_the_driver(case: Case, torch: FakeTorch) -> None:
    """With the context current, as PyTorch has it, a launch asks nothing, several ask once."""
    case.cuda.stack[:] = [primary(0)]
    x, y, empty = torch.zeros(4, 5), torch.zeros(4), torch.zeros(4, 0)
    with torch.on(7):
        for _ in range(2):
            case.cuda.log.clear()
            case.job.run([empty], out=[y])
        assert case.cuda.log == ["cuLaunchKernelEx"]
        for _ in range(2):
            case.cuda.log.clear()
            case.job.run([x], out=[y])
        workspace = ["cuStreamIsCapturing", "cuStreamGetId", "cuMemsetD8Async"]
        assert case.cuda.log == ["cuCtxGetCurrent", *workspace, *["cuLaunchKernelEx"] * 2]


def test_a_launch_that_another_context_refuses_is_asked_again(case: Case, torch: FakeTorch) -> None:
    """The driver launches nothing where the current context is not the kernel's (C5)."""
    y, empty = torch.zeros(4), torch.zeros(4, 0)
    case.job.run([empty], out=[y])
    for current in ([], [primary(1)]):
        case.cuda.stack[:] = current
        case.cuda.log.clear()
        before = len(case.cuda.launches)
        case.job.run([empty], out=[y])
        asked = ["cuCtxGetCurrent"] * 2
        found = ["cuLaunchKernelEx", *asked, "cuCtxPushCurrent_v2", "cuLaunchKernelEx"]
        assert case.cuda.log == [*found, "cuCtxPopCurrent_v2"]
        assert [one.context for one in case.cuda.launches[before:]] == [primary(0)]
        assert case.cuda.stack == current
    # What fails in its own context is not tried twice.
    case.cuda.stack[:] = [primary(0)]
    case.cuda.log.clear()
    case.cuda.fail["cuLaunchKernelEx"] = 701
    assert refused(lambda: case.job.run([empty], out=[y])).kind == "LaunchFailed"
    assert case.cuda.log == ["cuLaunchKernelEx", "cuCtxGetCurrent"]


def test_there_is_no_gpu_9(cuda: FakeCuda, case: Case) -> None:
    error = refused(lambda: case.job.run([np.zeros((1, 5), np.float32)], gpu_index=9))
    assert error.kind == "NoGPU" and "there is no GPU 9: the driver lists 2" in error.message


def test_a_tensor_of_a_gpu_that_is_not_the_current_one(torch: FakeTorch) -> None:
    """PyTorch exports those of the current GPU alone, and that stays what it was."""
    tensor = torch.zeros(4, index=1)
    found = tensors.view(tensor, "x")
    assert (found.gpu, found.pointer) == (1, tensor.pointer)
    assert torch.cuda.current_device() == 0
