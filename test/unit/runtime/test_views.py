"""Which tensors are taken, and that what is taken is read as its library means it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import tensors
from polyc.runtime.views import TensorView
from polyc.test.support.fake_cuda import SECOND, FakeCuda
from polyc.test.support.gpu_producers import BOOL, FLOAT16, UINT8, CudaArray, DLPack, FakeTorch
from polyc.test.unit.runtime.test_program import program as gemm
from polyc.test.unit.runtime.test_program import sequence

STRUCT = np.dtype([("v", "<f4"), ("flag", "u1")])


class Units(np.ndarray[Any, Any]):
    """A subclass whose elements mean more than their numbers."""


def refused(call: Callable[[], object]) -> PolycError:
    with pytest.raises(PolycError) as caught:
        call()
    return caught.value


def taken(tensor: object, element: str = "f32", rank: int = 1, output: bool = False) -> TensorView:
    view = tensors.view(tensor, "A", output=output)
    tensors.check(view, "A", element, rank, output=output)
    return view


def memory(view: TensorView) -> list[float]:
    """What a kernel reads: so many f32 from the address on."""
    return list((ctypes.c_float * view.size).from_address(view.pointer))


# NumPy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "kind", "sentence"),
    [
        (
            np.ones(4, ">f4"),
            "TypeMismatch",
            'in the other order (>f4); convert it with A.astype("f',
        ),
        (np.ones(4, ">f2"), "TypeMismatch", "A holds float16 with its bytes in the other order"),
        (np.ones(1, ">f4"), "TypeMismatch", "in the other order"),
        (
            np.ones(4, np.dtype(ml_dtypes.bfloat16).newbyteorder(">")),
            "TypeMismatch",
            "A holds bfloat16 with its bytes in the other order",
        ),
        (np.zeros(8, STRUCT)["v"], "NotContiguous", "has strides of [5] bytes, not [4]"),
        (np.zeros(8, "i4,i4")["f0"].view("f4"), "NotContiguous", "has strides [2], not [1]"),
        (np.zeros((2, 8), STRUCT)["v"][:1, 3], "", ""),
        (np.ma.masked_less(np.ones(4, "f4"), 2), "BadArgument", "pass A.filled(value)"),
        (np.ma.masked_array(np.ones(4, "f4")), "BadArgument", "A is a masked array"),
        (np.ones(4, "f4").view(Units), "BadArgument", "Units, whose elements may mean more"),
        (np.ones(4, "f4").view(Units), "BadArgument", "pass numpy.asarray(A)"),
        (np.zeros(4, STRUCT), "TypeMismatch", "A holds void40"),
        (np.zeros(4, "V4"), "TypeMismatch", "A holds void32"),
        (np.zeros(4, object), "TypeMismatch", "A holds object"),
        (np.zeros(4, "u1"), "TypeMismatch", "A holds ui8, the signature says f32; convert it"),
        (np.broadcast_to(np.float32(1), (4,)), "NotContiguous", "has strides [0], not [1]"),
        (np.ones(8, "f4")[::2], "NotContiguous", "has strides [2], not [1]; make it contiguous"),
        (np.ones(4, "f4")[::-1], "NotContiguous", "has strides [-1]"),
        (np.float32(1), "BadArgument", "A is a float32; pass a NumPy array or a tensor with"),
        (np.ones(4, "f4"), "", ""),
        (np.frombuffer(bytes(16), np.float32), "", ""),
        (np.frombuffer(bytes(17), np.uint8)[1:].view("f4"), "", ""),
        (np.broadcast_to(np.float32(1), (1,)), "", ""),
        (np.zeros(0, ">f4"), "TypeMismatch", "other order"),
        (np.zeros(0, STRUCT)["v"], "", ""),
        (np.ones((0, 7), "f4")[:, 2], "", ""),
        (np.ones((7, 9), "f4")[3:3, ::-2][:, 2], "", ""),
    ],
)
def test_numpy_arrays(array: Any, kind: str, sentence: str) -> None:
    if not kind:
        view = taken(array)
        assert memory(view) == list(array)
        return
    error = refused(lambda: taken(array))
    assert error.kind == kind and sentence in error.message


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_arrays_that_are_plain_memory(tmp_path: Any) -> None:
    mapped: Any = np.memmap(tmp_path / "m", np.float32, "w+", shape=(4,))
    mapped[:] = range(4)
    assert memory(taken(mapped)) == [0, 1, 2, 3]
    assert memory(taken(np.matrix(np.ones((2, 2), np.float32)), rank=2)) == [1] * 4
    closed: Any = np.memmap(tmp_path / "m", np.float32, "r", shape=(4,))
    assert refused(lambda: taken(closed, output=True)).kind == "ReadOnly"


def test_a_condition_is_bool_alone() -> None:
    error = refused(lambda: taken(np.ones(4, np.uint8), "i1"))
    assert error.message == "A holds ui8, the signature says i1; compare it with 0"
    error = refused(lambda: taken(DLPack(256, [4], kind=UINT8), "i1"))
    assert error.message == "A holds ui8, the signature says i1; compare it with 0"
    assert taken(DLPack(256, [4], kind=BOOL), "i1").bytes == 4


@pytest.mark.parametrize(
    ("array", "kind", "sentence"),
    [
        (np.frombuffer(bytes(16), np.float32), "ReadOnly", "A is read-only, and is an output"),
        (np.broadcast_to(np.float32(1), (1,)), "ReadOnly", "or no out"),
        (np.broadcast_to(np.float32(1), (4,)), "NotContiguous", "; write to a contiguous one"),
        (np.ones(4, ">f4"), "TypeMismatch", "in the other order"),
        (np.ma.masked_array(np.ones(4, "f4")), "BadArgument", "masked array"),
        (DLPack(256, [4], flags=1), "ReadOnly", "A is read-only"),
        (DLPack(256, [4], flags=2), "ReadOnly", "A is exported as a copy, and is an output"),
    ],
)
def test_outputs_that_cannot_be_written(array: Any, kind: str, sentence: str) -> None:
    error = refused(lambda: taken(array, output=True))
    assert error.kind == kind and sentence in error.message


# DLPack ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, (1, 0), (1, 7)])
def test_a_dlpack_tensor_with_and_without_a_version(version: tuple[int, int] | None) -> None:
    source = DLPack(4096, [3, 5], [5, 1], FLOAT16, (2, 1), byte_offset=64, version=version)
    view = tensors.view(source, "A", 9)
    assert (view.pointer, view.shape, view.strides) == (4160, (3, 5), (5, 1))
    assert (view.element, view.gpu, view.readonly, view.stream) == ("f16", 1, False, None)
    assert source.asked[-1]["stream"] == 9
    assert source.asked[0]["max_version"] == (1, 0)


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_the_producer_orders_the_stream_that_it_is_given(version: tuple[int, int] | None) -> None:
    """The legacy default stream is 1 there; None asks for no order."""
    for stream, asked in ((0, 1), (2, 2), (77, 77), (None, -1)):
        source = DLPack(256, [4], version=version)
        tensors.view(source, "A", stream)
        assert source.asked[-1]["stream"] == asked
    host = DLPack(256, [4], device=(1, 0), version=version)
    tensors.view(host, "A", 9)
    assert "stream" not in host.asked[-1]


def test_flags_of_a_tensor_that_is_read_do_not_matter() -> None:
    view = taken(DLPack(256, [4], flags=3))
    assert view.readonly and view.copied


def test_an_output_must_not_be_a_copy() -> None:
    for output in (False, True):
        source = DLPack(256, [4])
        taken(source, output=output)
        wanted = {"copy": False} if output else {}
        assert source.asked == [{"stream": 1, "max_version": (1, 0), **wanted}]


@pytest.mark.parametrize(
    ("source", "kind", "sentence"),
    [
        (DLPack(256, [4], lanes=4), "TypeMismatch", "A holds float32 in vectors of 4"),
        (DLPack(256, [4], kind=(2, 64)), "TypeMismatch", "A holds float64, the signature says"),
        (DLPack(256, [4], kind=(5, 64)), "TypeMismatch", "A holds complex64"),
        (DLPack(256, [4], kind=(9, 8)), "TypeMismatch", "A holds DLPack type (9, 8)"),
        (DLPack(256, [4], [0]), "NotContiguous", "has strides [0], not [1]"),
        (DLPack(256, [4], [-1]), "NotContiguous", "has strides [-1], not [1]"),
        (DLPack(258, [4]), "Misaligned", "A starts at 0x102, f32 needs a multiple of 4; copy it"),
        (DLPack(256, [4], byte_offset=2), "Misaligned", "A starts at 0x102"),
        (DLPack(0, [4]), "BadArgument", "A has elements and no memory: its address is 0"),
        (DLPack(256, [-4]), "BadArgument", "1 dimensions, [-4]; none is negative"),
        (DLPack(256, [4], device=(13, 0)), "DeviceMismatch", "A is in managed memory; copy it to"),
        (DLPack(256, [4], device=(10, 0)), "DeviceMismatch", "A is in a GPU of ROCm"),
        (DLPack(256, [4], device=(99, 0)), "DeviceMismatch", "a device of DLPack type 99"),
        (DLPack(256, [4], device=(13, 0), says=2), "DeviceMismatch", "managed memory"),
        (DLPack(256, [4], says=1), "BadArgument", "says type 1, and its capsule is on GPU 0"),
        (DLPack(256, [4], version=(2, 0)), "BadArgument", "A comes as DLPack 2.0, and polyc knows"),
        (DLPack(256, [4], name=b"used_dltensor"), "BadArgument", "or one that was taken already"),
        (DLPack(256, [4], gives=7), "BadArgument", "A.__dlpack__ gave a int that holds no tensor"),
        (DLPack(256, [4], gives=BufferError("no")), "BadArgument", "exported by DLPack: no"),
        (DLPack(256, [4], gives=KeyError()), "BadArgument", "exported by DLPack: KeyError"),
        (DLPack(256, [4], gives=TypeError("no")), "BadArgument", "exported by DLPack: no"),
    ],
)
def test_dlpack_tensors_that_are_refused(source: DLPack, kind: str, sentence: str) -> None:
    error = refused(lambda: taken(source))
    assert error.kind == kind and sentence in error.message


def test_what_a_dlpack_tensor_says_of_axes_that_are_not_walked() -> None:
    for shape, strides in (([0, 4], [7, 3]), ([1, 4], [99, 1]), ([4, 1], [1, 55])):
        assert taken(DLPack(256, shape, strides), rank=2).shape == tuple(shape)
    assert taken(DLPack(0, [0])).size == 0
    assert taken(DLPack(256, []), rank=0).size == 1


def test_pinned_memory_is_host_memory() -> None:
    """PyTorch says of it that it is pinned, and in the capsule that it is on the host."""
    for device, says in (((3, 0), None), ((1, 0), 3)):
        view = taken(DLPack(256, [4], device=device, says=says))
        assert view.gpu is None and view.pinned
    assert not taken(DLPack(256, [4], device=(1, 0))).pinned


def test_no_tensor_of_pytorch_is_read_negated(torch: FakeTorch) -> None:
    tensor = torch.zeros(4)
    assert taken(tensor).gpu == 0
    tensor.negated = True
    error = refused(lambda: taken(tensor))
    assert error.kind == "BadArgument" and "pass A.resolve_neg()" in error.message


# __cuda_array_interface__ ------------------------------------------------------------------


@pytest.fixture
def pointer(cuda: FakeCuda) -> int:
    return cuda.allocate(1024, 1)


@pytest.mark.parametrize("version", [2, 3])
def test_a_cuda_array(pointer: int, version: int) -> None:
    view = tensors.view(CudaArray(pointer, [3, 5], version=version, stream=...), "A")
    assert (view.pointer, view.shape, view.strides) == (pointer, (3, 5), (5, 1))
    assert (view.element, view.gpu, view.stream) == ("f32", 1, None)
    assert view.ordered == (version == 3)
    strided = tensors.view(CudaArray(pointer, [3, 5], strides=(20, 4)), "A")
    assert strided.strides == (5, 1)


@pytest.mark.parametrize(("told", "stream"), [(1, 0), (2, 2), (4711, 4711), (None, None)])
def test_the_stream_of_a_cuda_array(pointer: int, told: int | None, stream: int | None) -> None:
    assert tensors.view(CudaArray(pointer, [4], stream=told), "A").stream == stream


@pytest.mark.parametrize(
    ("fields", "kind", "sentence"),
    [
        ({"version": 1}, "BadArgument", "A has version 1 of __cuda_array_interface__; versions 2"),
        ({"version": 4}, "BadArgument", "versions 2 and 3 are known, and DLPack"),
        ({"version": ...}, "BadArgument", "A has version None"),
        ({"mask": object()}, "BadArgument", "A has a mask, which a kernel does not read"),
        ({"stream": 0}, "BadArgument", "A says that its stream is 0; that is None, 1"),
        ({"stream": "s"}, "BadArgument", "A says that its stream is 's'"),
        ({"stream": True}, "BadArgument", "A says that its stream is True"),
        ({"stream": -1}, "BadArgument", "A says that its stream is -1"),
        ({"typestr": ">f4"}, "TypeMismatch", "A holds float32 with its bytes in the other order"),
        ({"typestr": "<V2"}, "TypeMismatch", "A holds void16"),
        ({"typestr": "|u1"}, "TypeMismatch", "A holds ui8"),
        ({"typestr": "?!"}, "BadArgument", "A has a __cuda_array_interface__ that is not under"),
        ({"typestr": ...}, "BadArgument", "not understood: 'typestr'"),
        ({"data": 5}, "BadArgument", "that is not understood"),
        ({"data": ...}, "BadArgument", "not understood: 'data'"),
        ({"shape": (-4,)}, "BadArgument", "not understood: shape (-4,) with strides None"),
        ({"strides": (4, 4)}, "BadArgument", "not understood: shape (4,) with strides (4, 4)"),
        ({"strides": (5,)}, "NotContiguous", "has strides of [5] bytes, not [4]"),
        ({"strides": (8,)}, "NotContiguous", "has strides [2], not [1]"),
        ({"data": (0, False)}, "BadArgument", "A has elements and no memory: its address is 0"),
        ({"data": (64, False)}, "DeviceMismatch", "its address 0x40 is no memory of a GPU"),
    ],
)
def test_cuda_arrays_that_are_refused(
    pointer: int, fields: dict[str, Any], kind: str, sentence: str
) -> None:
    error = refused(lambda: taken(CudaArray(pointer, [4], **fields)))
    assert error.kind == kind and sentence in error.message


def test_a_cuda_array_may_be_read_only_and_empty(pointer: int) -> None:
    assert taken(CudaArray(pointer, [4], data=(pointer, True))).readonly
    error = refused(lambda: taken(CudaArray(pointer, [4], data=(pointer, True)), output=True))
    assert error.kind == "ReadOnly"
    assert taken(CudaArray(0, [0], strides=(99,))).size == 0
    assert taken(CudaArray(pointer, [1], strides=(99,))).strides == (1,)
    misaligned = CudaArray(pointer + 2, [4])
    assert refused(lambda: taken(misaligned)).kind == "Misaligned"


def test_asking_where_memory_is_leaves_no_context(cuda: FakeCuda, pointer: int) -> None:
    tensors.view(CudaArray(pointer, [4]), "A")
    assert not cuda.stack


# Where tensors really are ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "sentence"),
    [
        ({"context": SECOND}, "is memory of a context of its own; kernels run in GPU 0's primary"),
        ({"ordinal": 1}, "is memory of GPU 1"),
        ({"managed": True}, "is managed memory"),
        ({"kind": 1}, "is memory that is no GPU's; copy it to plain memory of that GPU"),
    ],
)
def test_a_tensor_is_where_it_says(
    ctx: Context, cuda: FakeCuda, memory: dict[str, Any], sentence: str
) -> None:
    job = sequence(ctx)
    good, bad = cuda.allocate(24), cuda.allocate(24, **memory)
    y = DLPack(cuda.allocate(4), [1])
    for call in (job.run, job.launch):
        run: Any = call
        error = refused(lambda run=run: run([DLPack(bad, [1, 5])], out=[y]))
        assert error.kind == "DeviceMismatch" and sentence in error.message
        assert not cuda.launches and not cuda.stack
    # Memory of a pool is of no context.
    cuda.memory[good].context = None
    job.run([DLPack(good, [1, 5])], out=[y])
    assert cuda.launches


def test_an_empty_tensor_is_anywhere_and_overlaps_nothing(ctx: Context, cuda: FakeCuda) -> None:
    job = sequence(ctx)
    y = DLPack(cuda.allocate(20), [5])
    job.run([np.zeros((5, 0), np.float32)], out=[y])
    assert [one.kernel for one in cuda.launches] == ["empty"]
    within, nothing = cuda.allocate(256), cuda.allocate(0)
    a, b = DLPack(within, [2, 64], kind=FLOAT16), DLPack(nothing, [64, 0], kind=FLOAT16)
    gemm(ctx).run([a, b], out=[DLPack(within + 64, [2, 0], kind=FLOAT16)])
    assert len(cuda.launches) == 1


def test_the_gpu_that_is_asked_for(ctx: Context, cuda: FakeCuda, torch: FakeTorch) -> None:
    job = sequence(ctx)
    for _ in range(2):
        job.run([torch.zeros(1, 5)], gpu_index=0)
        error = refused(lambda: job.run([torch.zeros(1, 5)], gpu_index=1))
        assert error.kind == "DeviceMismatch"
        assert "the tensors are on GPU 0, and gpu_index is 1" in error.message


@pytest.mark.parametrize("value", [2.0, "2", None, [1]])
def test_a_size_is_a_whole_number(ctx: Context, cuda: FakeCuda, value: Any) -> None:
    job = sequence(ctx)
    error = refused(lambda: job.run([np.zeros((1, 5), np.float32)], symbols={"M": value}))
    assert error.kind == "BadArgument" and "it has to be a whole number" in error.message
    one: Any = np.int64(1)
    job.run([np.zeros((1, 5), np.float32)], symbols={"M": one})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"inputs": None}, "inputs is a NoneType; pass a list of tensors"),
        ({"inputs": np.zeros((1, 1, 5), np.float32)}, "inputs is a ndarray; pass a list"),
        ({"inputs": "X"}, "inputs is a str; pass a list of tensors"),
        ({"out": np.zeros((1, 1), np.float32)}, "out is a ndarray; pass a list of tensors"),
        ({"out": 5}, "out is a int; pass a list of tensors"),
        ({"symbols": [1]}, "symbols is [1]; pass the sizes by name"),
        ({"gpu_index": "0"}, "gpu_index is '0'; it has to be a whole number"),
        ({"gpu_index": 1.5}, "gpu_index is 1.5; it has to be a whole number"),
        ({"variant": ["both"]}, "two has no kernel ['both']; it has both, empty"),
        ({"stream": "s"}, "stream is 's'; pass a CUstream"),
    ],
)
def test_arguments_of_another_kind(
    ctx: Context, cuda: FakeCuda, options: dict[str, Any], sentence: str
) -> None:
    job = sequence(ctx)
    given: dict[str, Any] = {"inputs": [np.zeros((1, 5), np.float32)], **options}
    error = refused(lambda: job.run(**given))
    assert error.kind == "BadArgument" and sentence in error.message
    once: Any = iter([np.zeros((1, 5), np.float32)])
    job.run(once, out=(np.zeros(1, np.float32),))
