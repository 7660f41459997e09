"""The CUDA driver: modules, launches, tensor maps, memory and events.

``libcuda`` is opened at the first use, through ctypes: it comes with the driver, needs
no package, and one launch is one C call.  Everything here works in the device's primary
context, which PyTorch and the CUDA runtime share.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from polyc.dialects.diagnostic import PolycError

MAX_SHARED_ATTRIBUTE = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

BIG_CLUSTER_ATTRIBUTE = 14
"""CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED."""

PORTABLE_CLUSTER = 8
"""Clusters up to this size run on every chip that has them; larger ones must be asked for."""

STATIC_LIMIT = 48 * 1024
"""Dynamic shared memory above this must be asked for, once a function."""

_TENSOR_MAP_TYPES = {"f16": (6, 2), "bf16": (9, 2), "f32": (7, 4)}
"""CUtensorMapDataType and bytes an element."""

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}


COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_SERIALIZATION = 2, 4, 6
"""CU_LAUNCH_ATTRIBUTE_...; the value of the first and the last is 1."""


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute with the value of CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION."""

    _fields_ = [
        ("id", c_int),
        ("pad", c_int),
        ("x", c_uint),
        ("y", c_uint),
        ("z", c_uint),
        ("rest", c_uint * 13),
    ]


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", c_uint * 3),
        ("block", c_uint * 3),
        ("shared", c_uint),
        ("stream", c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", c_uint),
    ]


@cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise PolycError(
            "NoGPU", "there is no NVIDIA driver here (libcuda.so.1 is not found); use the CPU"
        ) from None
    status = library.cuInit(0)
    if status:
        raise PolycError(
            "NoGPU",
            f"the NVIDIA driver finds no usable GPU (cuInit answered {status}); use the CPU",
        )
    return library


def _text(status: int) -> str:
    name = c_char_p()
    _library().cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {status}"


def _call(function: str, *args: Any) -> None:
    status = int(getattr(_library(), function)(*args))
    if status:
        raise PolycError("DriverFailed", f"{function} answered {_text(status)}")


def available() -> bool:
    """Whether there is a driver with at least one GPU."""
    try:
        return device_count() > 0
    except PolycError:
        return False


def device_count() -> int:
    count = c_int()
    _call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU: its name, compute capability and sizes in bytes."""

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    l2_bytes: int
    driver: str

    def runs(self, arch: str) -> bool:
        """Whether a cubin of ``arch`` runs here.

        A cubin runs on its own major version from its minor one on; ``a`` asks for the
        very chip (CUDA C++ Programming Guide, "Binary Compatibility").
        """
        number = arch.removeprefix("sm_")
        exact = number.endswith("a")
        number = number.removesuffix("a")
        major, minor = int(number[:-1]), int(number[-1])
        if exact:
            return self.capability == (major, minor)
        return self.capability[0] == major and self.capability[1] >= minor


@cache
def device(index: int = 0) -> Device:
    """The GPU ``index``; its primary context becomes this thread's.

    Raises PolycError of kind ``NoGPU`` when it is not there.
    """
    count = device_count()
    if not 0 <= index < count:
        raise PolycError("NoGPU", f"there is no GPU {index}: the driver lists {count}")
    handle = c_int()
    _call("cuDeviceGet", ctypes.byref(handle), index)
    name = ctypes.create_string_buffer(256)
    _call("cuDeviceGetName", name, 256, handle)

    def attribute(number: int) -> int:
        value = c_int()
        _call("cuDeviceGetAttribute", ctypes.byref(value), number, handle)
        return value.value

    version = c_int()
    _call("cuDriverGetVersion", ctypes.byref(version))
    driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
    capability = attribute(75), attribute(76)
    return Device(
        index, name.value.decode(), capability, attribute(16), attribute(97), attribute(38), driver
    )


@cache
def _context(index: int) -> c_void_p:
    context = c_void_p()
    handle = c_int()
    _call("cuDeviceGet", ctypes.byref(handle), index)
    _call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context


def activate(index: int = 0) -> Device:
    """Make the primary context of GPU ``index`` this thread's current one."""
    found = device(index)
    _call("cuCtxSetCurrent", _context(index))
    return found


# Modules and launches ---------------------------------------------------------------------


class Function:
    """A kernel of a loaded module; launching it is one C call.

    ``arguments`` of a launch are ctypes values or buffers that hold one parameter each.
    """

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        """Keeps the code loaded."""
        self.name = name
        self._handle = c_void_p()
        status = _library().cuModuleGetFunction(
            ctypes.byref(self._handle), module.handle, name.encode()
        )
        if status:
            raise PolycError("DriverFailed", f"the module has no kernel {name!r}: {_text(status)}")
        self._shared = STATIC_LIMIT
        self._cluster = PORTABLE_CLUSTER

    def allow_shared(self, size: int) -> None:
        """Let the kernel use ``size`` bytes of dynamic shared memory."""
        if size > self._shared:
            _call("cuFuncSetAttribute", self._handle, MAX_SHARED_ATTRIBUTE, size)
            self._shared = size

    def allow_cluster(self, size: int) -> None:
        """Let the kernel run in clusters of ``size`` CTAs."""
        if size > self._cluster:
            _call("cuFuncSetAttribute", self._handle, BIG_CLUSTER_ATTRIBUTE, 1)
            self._cluster = size

    def clusters_at_once(self, threads: int, shared: int, cluster: int) -> int:
        """How many clusters of such CTAs the whole GPU runs at the same time."""
        self.allow_shared(shared)
        self.allow_cluster(cluster)
        launch = Launch(self, self._handle, (cluster,), (threads,), shared, (), (cluster,))
        count = c_int()
        _call("cuOccupancyMaxActiveClusters", ctypes.byref(count), self._handle, launch.config)
        return count.value

    def blocks_at_once(self, threads: int, shared: int) -> int:
        """How many such CTAs one multiprocessor runs at the same time."""
        self.allow_shared(shared)
        count = c_int()
        _call(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            ctypes.byref(count),
            self._handle,
            threads,
            c_size_t(shared),
        )
        return count.value

    def bind(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Any],
        cluster: Sequence[int] = (1, 1, 1),
        overlapped: bool = False,
        cooperative: bool = False,
    ) -> Launch:
        """A launch whose arguments are bound once; ``Launch.run`` is then one C call.

        An ``overlapped`` one may begin before the launch ahead of it in the stream has ended; the
        CTAs of a ``cooperative`` one run at once, or it fails.
        """
        self.allow_shared(shared)
        self.allow_cluster(cluster[0])
        extra = [PROGRAMMATIC_SERIALIZATION] * overlapped + [COOPERATIVE] * cooperative
        return Launch(self, self._handle, grid, block, shared, arguments, cluster, extra)


class Launch:
    """A kernel with its grid, block, shared memory and arguments.

    ``switches`` are launch attributes whose value is 1.  Arguments may be written in place between
    runs.  ``config`` is its CUlaunchConfig.
    """

    def __init__(
        self,
        function: Function,
        handle: c_void_p,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Any],
        cluster: Sequence[int],
        switches: Sequence[int] = (),
    ) -> None:
        self.function = function
        self.arguments = tuple(arguments)
        self._handle = handle
        self._pointers = (c_void_p * max(1, len(self.arguments)))(
            *(ctypes.addressof(argument) for argument in self.arguments)
        )
        self._config = _Config()
        self._config.grid[:] = _three(grid)
        self._config.block[:] = _three(block)
        self._config.shared = shared
        size = _three(cluster)
        attributes = [_Attribute(CLUSTER_DIMENSION, 0, *size)] if size != (1, 1, 1) else []
        attributes += [_Attribute(switch, 0, 1, 0, 0) for switch in switches]
        if attributes:
            self._attributes = (_Attribute * len(attributes))(*attributes)
            self._config.attributes = ctypes.cast(self._attributes, ctypes.POINTER(_Attribute))
            self._config.count = len(attributes)
        self.config = ctypes.byref(self._config)
        self._launch = _library().cuLaunchKernelEx

    def run(self, stream: int = 0) -> None:
        """Launch on ``stream`` (a CUstream as an integer; 0 is the default stream)."""
        self._config.stream = stream
        status = self._launch(self.config, self._handle, self._pointers, None)
        if status:
            config = self._config
            raise PolycError(
                "LaunchFailed",
                f"kernel {self.function.name} with grid {list(config.grid)}, "
                f"{list(config.block)} threads and {config.shared} bytes of shared memory "
                f"does not launch: {_text(status)}",
            )


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


class Module:
    """A cubin loaded into the current context; unloaded with the object."""

    def __init__(self, image: bytes, index: int = 0) -> None:
        activate(index)
        self.handle = c_void_p()
        status = _library().cuModuleLoadData(ctypes.byref(self.handle), image)
        if status:
            raise PolycError(
                "DriverFailed",
                f"GPU {index} ({device(index).name}) does not take the compiled code: "
                f"{_text(status)}",
            )
        self._functions: dict[str, Function] = {}
        self._unload = _library().cuModuleUnload

    def function(self, name: str) -> Function:
        """The kernel ``name``; raises PolycError when the module has none."""
        if name not in self._functions:
            self._functions[name] = Function(self, name)
        return self._functions[name]

    def __del__(self) -> None:
        if unload := getattr(self, "_unload", None):
            unload(self.handle)


# Tensor maps ------------------------------------------------------------------------------


class TensorMap:
    """A CUtensorMap: 128 bytes on a 64-byte boundary, passed to a kernel by value."""

    def point_to(self, pointer: int) -> None:
        """Describe the same tensor at another address, as aligned as the one before."""
        _call("cuTensorMapReplaceAddress", self.pointer, c_void_p(pointer))

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(128 + 64)
        start = ctypes.addressof(self._memory)
        self.offset = -start % 64
        self.argument = (c_uint64 * 16).from_buffer(self._memory, self.offset)
        self.pointer = ctypes.byref(self.argument)


def tensor_map(
    pointer: int,
    element: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
) -> TensorMap:
    """A tiled tensor map.

    ``shape``, ``strides`` (in elements; the last is 1) and ``box`` are in row-major
    order, outermost first; ``swizzle`` is 0, 32, 64 or 128 bytes.  Reads outside give 0.
    Raises PolycError when the hardware's rules do not hold: a 16-byte base and strides,
    sizes of at least 1, a box of at most 256 an axis whose row fits the swizzle (CUDA
    driver API, cuTensorMapEncodeTiled).
    """
    kind, size = _TENSOR_MAP_TYPES[element]
    rank = len(shape)
    problem = ""
    if pointer % 16:
        problem = f"the base address {pointer:#x} is not a multiple of 16"
    elif min(shape) < 1:
        problem = f"the shape {list(shape)} has an empty axis"
    elif any(stride * size % 16 for stride in strides[:-1]):
        problem = f"the strides {list(strides)} are not multiples of 16 bytes"
    elif max(box) > 256 or (swizzle and box[-1] * size > swizzle):
        problem = f"the box {list(box)} does not fit a swizzle of {swizzle} bytes"
    if problem:
        raise PolycError("TensorMapFailed", f"TMA cannot read the tensor: {problem}")
    result = TensorMap()
    _call(
        "cuTensorMapEncodeTiled",
        ctypes.byref(result.argument),
        kind,
        c_uint(rank),
        c_void_p(pointer),
        (c_uint64 * rank)(*reversed(shape)),
        (c_uint64 * max(1, rank - 1))(*(stride * size for stride in reversed(strides[:-1]))),
        (c_uint * rank)(*reversed(box)),
        (c_uint * rank)(*([1] * rank)),
        0,
        _SWIZZLES[swizzle],
        2,
        0,
    )
    return result


def im2col_map(
    pointer: int,
    element: str,
    shape: tuple[int, ...],
    box: tuple[int, int],
    swizzle: int,
    lower: tuple[int, int],
    upper: tuple[int, int],
    steps: tuple[int, int],
) -> TensorMap:
    """A tensor map over the pixels of a dense NHWC tensor.

    ``box`` is pixels and channels of a copy; ``lower`` and ``upper`` are the bounding box's corners
    and ``steps`` the strides, along height and width.  Reads outside give 0.  Raises PolycError
    when the hardware's rules do not hold: a 16-byte base and pixel, four axes without an empty one,
    a bounding box that is not empty (CUDA driver API, cuTensorMapEncodeIm2col).
    """
    kind, size = _TENSOR_MAP_TYPES[element]
    problem = ""
    if len(shape) != 4:
        problem = f"the shape {list(shape)} has not four axes (NHWC)"
    elif pointer % 16:
        problem = f"the base address {pointer:#x} is not a multiple of 16"
    elif min(shape) < 1:
        problem = f"the shape {list(shape)} has an empty axis"
    elif shape[3] * size % 16:
        problem = f"pixels of {shape[3]} channels are not multiples of 16 bytes"
    elif any(e - 1 + u < b for e, b, u in zip(shape[1:3], lower, upper, strict=True)):
        problem = f"the filter does not fit into the shape {list(shape)}"
    if problem:
        raise PolycError("TensorMapFailed", f"TMA cannot read the tensor: {problem}")
    result = TensorMap()
    _, height, width, channels = shape
    row = channels * size
    _call(
        "cuTensorMapEncodeIm2col",
        ctypes.byref(result.argument),
        kind,
        c_uint(4),
        c_void_p(pointer),
        (c_uint64 * 4)(*reversed(shape)),
        (c_uint64 * 3)(row, row * width, row * width * height),
        (c_int * 2)(*reversed(lower)),
        (c_int * 2)(*reversed(upper)),
        c_uint(box[1]),
        c_uint(box[0]),
        (c_uint * 4)(1, steps[1], steps[0], 1),
        0,
        _SWIZZLES[swizzle],
        2,
        0,
    )
    return result


# Memory and time --------------------------------------------------------------------------


class Buffer:
    """Device memory, freed with the object; 0 bytes take none and have address 0."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.pointer = 0
        self._free = _library().cuMemFree_v2
        if size:
            pointer = c_uint64()
            _call("cuMemAlloc_v2", ctypes.byref(pointer), c_size_t(size))
            self.pointer = pointer.value

    def upload(self, address: int) -> None:
        """Copy ``size`` bytes from host memory."""
        if self.size:
            _call("cuMemcpyHtoD_v2", c_uint64(self.pointer), c_void_p(address), c_size_t(self.size))

    def download(self, address: int) -> None:
        """Copy ``size`` bytes to host memory, after what the default stream holds."""
        if self.size:
            _call("cuMemcpyDtoH_v2", c_void_p(address), c_uint64(self.pointer), c_size_t(self.size))

    def fill(self, byte: int) -> None:
        """Set every byte."""
        if self.size:
            _call(
                "cuMemsetD8_v2", c_uint64(self.pointer), ctypes.c_ubyte(byte), c_size_t(self.size)
            )

    def __del__(self) -> None:
        pointer, self.pointer = getattr(self, "pointer", 0), 0
        if pointer:
            self._free(c_uint64(pointer))


def clear(pointer: int, size: int, stream: int) -> None:
    """Set device memory to 0, in the order of ``stream``."""
    _call(
        "cuMemsetD8Async",
        c_uint64(pointer),
        ctypes.c_ubyte(0),
        c_size_t(size),
        c_void_p(stream),
    )


def synchronize() -> None:
    """Wait for everything in the current context; raises what a kernel did wrong."""
    _call("cuCtxSynchronize")


class Event:
    """A point in a stream's work, for timing."""

    def __init__(self) -> None:
        self._handle = c_void_p()
        self._destroy = _library().cuEventDestroy_v2
        _call("cuEventCreate", ctypes.byref(self._handle), 0)

    def record(self, stream: int = 0) -> None:
        _call("cuEventRecord", self._handle, c_void_p(stream))

    def milliseconds_since(self, start: Event) -> float:
        """Time from ``start`` to here, after both are reached."""
        _call("cuEventSynchronize", self._handle)
        value = c_float()
        _call("cuEventElapsedTime", ctypes.byref(value), start._handle, self._handle)
        return value.value

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._destroy(self._handle)
