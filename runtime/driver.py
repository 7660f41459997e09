"""The CUDA driver: contexts, modules, launches, memory and streams.

``libcuda`` is opened at the first use, through ctypes: it comes with the driver, needs
no package, and one launch is one C call.  Everything here works in the device's primary
context, which PyTorch and the CUDA runtime share; ``current`` makes it current and puts
back what was.  Streams are CUstreams as integers, 0 being the default one.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from ctypes import c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from polyc.dialects.common.diagnostic import PolycError

MAX_SHARED_ATTRIBUTE = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

BIG_CLUSTER_ATTRIBUTE = 14
"""CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED."""

PORTABLE_CLUSTER = 8
"""Clusters up to this size run on every chip that has them; larger ones must be asked for."""

STATIC_LIMIT = 48 * 1024
"""Dynamic shared memory above this must be asked for, once a function."""

COOPERATIVE, CLUSTER_DIMENSION, PROGRAMMATIC_SERIALIZATION = 2, 4, 6
"""CU_LAUNCH_ATTRIBUTE_...; the value of the first and the last is 1."""

_CONTEXT, _MEMORY_TYPE, _IS_MANAGED, _ORDINAL = 1, 2, 8, 9
"""CU_POINTER_ATTRIBUTE_..."""

_DEVICE_MEMORY = 2
"""CU_MEMORYTYPE_DEVICE."""

_RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""

_NO_TIMING = 2
"""CU_EVENT_DISABLE_TIMING."""

DEFAULT_STREAMS = (0, 1)
"""Handles of the legacy default stream, which is never captured; 1 is CU_STREAM_LEGACY."""

PER_THREAD_STREAM = 2
"""CU_STREAM_PER_THREAD."""


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


def call(function: str, *args: Any) -> None:
    """Call a function of the driver; raises PolycError ``DriverFailed`` with its answer."""
    check(function, answer(function, *args))


def answer(function: str, *args: Any) -> int:
    """Call a function of the driver and return its answer, 0 where it did what it was to do."""
    return int(getattr(_library(), function)(*args))


def check(function: str, status: int) -> None:
    """Raises PolycError ``DriverFailed`` for an answer of ``function`` that is not 0."""
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
    call("cuDeviceGetCount", ctypes.byref(count))
    return count.value


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU: its name, compute capability, sizes in bytes, and the highest clock in MHz.

    ``sm_threads``, ``sm_registers`` and ``sm_shared_bytes`` are what one multiprocessor holds.
    """

    index: int
    name: str
    capability: tuple[int, int]
    multiprocessors: int
    shared_bytes: int
    l2_bytes: int
    driver: str
    clock_mhz: int = 0
    sm_threads: int = 0
    sm_registers: int = 0
    sm_shared_bytes: int = 0

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
    """The GPU ``index``.

    Raises PolycError of kind ``NoGPU`` when it is not there.
    """
    count = device_count()
    if not 0 <= index < count:
        raise PolycError("NoGPU", f"there is no GPU {index}: the driver lists {count}")
    handle = c_int()
    call("cuDeviceGet", ctypes.byref(handle), index)
    name = ctypes.create_string_buffer(256)
    call("cuDeviceGetName", name, 256, handle)

    def attribute(number: int) -> int:
        value = c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, handle)
        return value.value

    version = c_int()
    call("cuDriverGetVersion", ctypes.byref(version))
    driver = f"{version.value // 1000}.{version.value % 1000 // 10}"
    capability = attribute(75), attribute(76)
    return Device(
        index,
        name.value.decode(),
        capability,
        attribute(16),
        attribute(97),
        attribute(38),
        driver,
        attribute(13) // 1000,
        attribute(39),
        attribute(82),
        attribute(81),
    )


# Contexts ---------------------------------------------------------------------------------


@cache
def _context(index: int) -> int | None:
    """The primary context of GPU ``index``, which is kept."""
    device(index)
    context = c_void_p()
    handle = c_int()
    call("cuDeviceGet", ctypes.byref(handle), index)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    return context.value


def context(index: int) -> int | None:
    """The CUcontext that everything on GPU ``index`` is in: its primary one, which is kept."""
    return _context(index)


def is_current(context: int | None) -> bool:
    """Whether this CUcontext is the thread's current one."""
    now = c_void_p()
    return not _library().cuCtxGetCurrent(ctypes.byref(now)) and now.value == context


def address(function: str) -> int:
    """Where a function of the driver is, for compiled code that calls it."""
    return ctypes.cast(getattr(_library(), function), c_void_p).value or 0


class current:
    """``with current(index)``: the primary context of GPU ``index`` is this thread's current one.

    What was current before is so again afterwards, also where the body raises.  Where it is
    current already that costs one C call.  Raises PolycError where there is no such GPU.
    """

    __slots__ = ("_context", "_pushed")

    def __init__(self, index: int = 0) -> None:
        self._context = _context(index)
        self._pushed = False

    def __enter__(self) -> None:
        if not is_current(self._context):
            call("cuCtxPushCurrent_v2", c_void_p(self._context))
            self._pushed = True

    def __exit__(self, kind: object, error: object = None, trace: object = None) -> None:
        if self._pushed:
            self._pushed = False
            status = int(_library().cuCtxPopCurrent_v2(ctypes.byref(c_void_p())))
            if status and kind is None:
                raise PolycError("DriverFailed", f"cuCtxPopCurrent answered {_text(status)}")


class uncaptured:
    """``with uncaptured()``: what a graph cannot hold is done beside the captures under way.

    Taking, freeing or copying memory and loading code would otherwise fail, and end the capture
    of any thread (CUDA driver API, cuThreadExchangeStreamCaptureMode).
    """

    __slots__ = ("_mode",)

    def __enter__(self) -> None:
        self._mode = c_int(_RELAXED)
        call("cuThreadExchangeStreamCaptureMode", ctypes.byref(self._mode))

    def __exit__(self, *_: object) -> None:
        _library().cuThreadExchangeStreamCaptureMode(ctypes.byref(self._mode))


def release_with(owner: object, index: int, function: str, handle: Any) -> None:
    """Give ``handle`` on GPU ``index`` back when ``owner`` goes; at exit the process does."""
    weakref.finalize(owner, _release, _library(), index, function, handle).atexit = False


def _release(library: ctypes.CDLL, index: int, function: str, handle: Any) -> None:
    """Give something back: the driver waits for the work that uses it.

    Runs in whatever thread drops the last reference, so that it takes no lock; an error has
    nobody to go to.  To another driver than the one that gave it, as after a test with a driver
    of its own, the handle would mean something else.
    """
    try:
        if _library() is library:
            with current(index), uncaptured():
                getattr(library, function)(handle)
    except PolycError:
        return


# Modules and launches ---------------------------------------------------------------------


class Function:
    """A kernel of a loaded module; launching it is one C call.

    ``arguments`` of a launch are ctypes values or buffers that hold one parameter each.
    """

    def __init__(self, code: _Code, name: str) -> None:
        self._code = code
        self.name = name
        self._handle = c_void_p()
        status = _library().cuModuleGetFunction(
            ctypes.byref(self._handle), code.handle, name.encode()
        )
        if status:
            raise PolycError("DriverFailed", f"the module has no kernel {name!r}: {_text(status)}")
        self._shared = STATIC_LIMIT
        self._cluster = PORTABLE_CLUSTER
        self._lock = threading.Lock()

    def allow_shared(self, size: int) -> None:
        """Let the kernel use ``size`` bytes of dynamic shared memory, or more."""
        # What was allowed last counts, so that a larger size must not be overtaken by a smaller.
        with self._lock:
            if size > self._shared:
                call("cuFuncSetAttribute", self._handle, MAX_SHARED_ATTRIBUTE, size)
                self._shared = size

    def allow_cluster(self, size: int) -> None:
        """Let the kernel run in clusters of ``size`` CTAs."""
        with self._lock:
            if size > self._cluster:
                call("cuFuncSetAttribute", self._handle, BIG_CLUSTER_ATTRIBUTE, 1)
                self._cluster = size

    def clusters_at_once(self, threads: int, shared: int, cluster: int) -> int:
        """How many clusters of such CTAs the whole GPU runs at the same time."""
        self.allow_shared(shared)
        self.allow_cluster(cluster)
        launch = Launch(self, self._handle, (cluster,), (threads,), shared, (), (cluster,))
        count = c_int()
        call("cuOccupancyMaxActiveClusters", ctypes.byref(count), self._handle, launch.config)
        return count.value

    def blocks_at_once(self, threads: int, shared: int) -> int:
        """How many such CTAs one multiprocessor runs at the same time."""
        self.allow_shared(shared)
        count = c_int()
        call(
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
        self.check(self._launch(self.config, self._handle, self._pointers, None))

    def check(self, status: int) -> None:
        """Raises PolycError ``LaunchFailed`` for an answer of the driver that is not 0."""
        if status:
            config = self._config
            raise PolycError(
                "LaunchFailed",
                f"kernel {self.function.name} with grid {list(config.grid)}, "
                f"{list(config.block)} threads and {config.shared} bytes of shared memory "
                f"does not launch: {_text(status)}",
            )

    @property
    def handle(self) -> int:
        """The CUfunction."""
        return self._handle.value or 0

    @property
    def config_bytes(self) -> bytes:
        """Its CUlaunchConfig, which has addresses in this launch."""
        return bytes(self._config)

    def copied(self, addresses: Sequence[int]) -> tuple[Any, tuple[Any, ...], Any, Any]:
        """The launch with its arguments at other addresses, and a stream of its own.

        The driver's function, what it is called with, the CUlaunchConfig, and the array of
        addresses, as ctypes objects; this launch is to be kept as long as they are.
        """
        config = _Config.from_buffer_copy(self._config)
        config.stream = 0
        pointers = (c_void_p * max(1, len(addresses)))(*addresses)
        return self._launch, (ctypes.byref(config), self._handle, pointers, None), config, pointers


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1, 1)[:3]
    return x, y, z


class _Code:
    """Loaded code, unloaded with the object: its module and every kernel of it hold it."""

    def __init__(self, image: bytes, index: int) -> None:
        self.handle = c_void_p()
        with current(index), uncaptured():
            status = int(_library().cuModuleLoadData(ctypes.byref(self.handle), image))
        if status:
            raise PolycError(
                "DriverFailed",
                f"GPU {index} ({device(index).name}) does not take the compiled code: "
                f"{_text(status)}",
            )
        release_with(self, index, "cuModuleUnload", self.handle)


class Module:
    """A cubin loaded on GPU ``index``; unloaded when neither it nor a kernel of it is used."""

    def __init__(self, image: bytes, index: int = 0) -> None:
        self._code = _Code(image, index)
        self._functions: dict[str, Function] = {}
        self._lock = threading.Lock()

    def function(self, name: str) -> Function:
        """The kernel ``name``, the same at each call; raises PolycError when there is none.

        The GPU's context is current.
        """
        with self._lock:
            if name not in self._functions:
                # The driver may load the kernel only here.
                with uncaptured():
                    self._functions[name] = Function(self._code, name)
            return self._functions[name]


# Memory -----------------------------------------------------------------------------------


class Buffer:
    """Memory of GPU ``index``, freed with the object; 0 bytes take none and have address 0.

    Freeing waits for the work that uses it (CUDA driver API, cuMemFree).
    """

    def __init__(self, size: int, index: int = 0) -> None:
        self.size = size
        self.index = index
        self.pointer = 0
        if size:
            pointer = c_uint64()
            with current(index), uncaptured():
                call("cuMemAlloc_v2", ctypes.byref(pointer), c_size_t(size))
            self.pointer = pointer.value
            release_with(self, index, "cuMemFree_v2", pointer)

    def upload(self, address: int) -> None:
        """Copy ``size`` bytes from host memory."""
        if self.size:
            with current(self.index), uncaptured():
                call(
                    "cuMemcpyHtoD_v2",
                    c_uint64(self.pointer),
                    c_void_p(address),
                    c_size_t(self.size),
                )

    def download(self, address: int) -> None:
        """Copy ``size`` bytes to host memory, after what the default stream holds."""
        if self.size:
            with current(self.index), uncaptured():
                call(
                    "cuMemcpyDtoH_v2",
                    c_void_p(address),
                    c_uint64(self.pointer),
                    c_size_t(self.size),
                )


def clear(pointer: int, size: int, stream: int, byte: int = 0) -> None:
    """Set every byte of device memory, in the order of ``stream``."""
    call(
        "cuMemsetD8Async",
        c_uint64(pointer),
        ctypes.c_ubyte(byte),
        c_size_t(size),
        c_void_p(stream),
    )


@dataclass(frozen=True, slots=True)
class PointerAttributes:
    """What the driver knows of an address.

    ``gpu`` is None where it is no memory of a GPU.  ``foreign`` says that it was made in another
    context than the GPU's primary one, ``managed`` that it moves between host and GPU.
    """

    gpu: int | None
    foreign: bool
    managed: bool


def place_of(pointer: int) -> PointerAttributes:
    """Where ``pointer`` points to; asks in GPU 0's context where none is current."""
    now = c_void_p()
    call("cuCtxGetCurrent", ctypes.byref(now))
    with current(0) if now.value is None else nullcontext():
        return _place_of(pointer)


def _place_of(pointer: int) -> PointerAttributes:
    numbers = (c_int * 4)(_CONTEXT, _MEMORY_TYPE, _IS_MANAGED, _ORDINAL)
    context, kind, managed, ordinal = c_void_p(), c_uint(), c_uint(), c_int()
    found = (context, kind, managed, ordinal)
    data = (c_void_p * 4)(*(ctypes.addressof(one) for one in found))
    call("cuPointerGetAttributes", 4, numbers, data, c_uint64(pointer))
    if kind.value != _DEVICE_MEMORY and not managed.value:
        return PointerAttributes(None, False, False)
    # Memory of a pool or of a mapped range is of no context.
    foreign = context.value is not None and context.value != _context(ordinal.value)
    return PointerAttributes(ordinal.value, foreign, bool(managed.value))


# Streams ----------------------------------------------------------------------------------


def synchronize() -> None:
    """Wait for everything in the current context; raises what a kernel did wrong."""
    call("cuCtxSynchronize")


def wait(stream: int) -> None:
    """Wait for everything in ``stream``; raises what a kernel did wrong."""
    with uncaptured():
        call("cuStreamSynchronize", c_void_p(stream))


def order(source: int, stream: int) -> None:
    """What ``source`` holds now comes before what is put into ``stream`` from here on."""
    event = c_void_p()
    call("cuEventCreate", ctypes.byref(event), _NO_TIMING)
    try:
        call("cuEventRecord", event, c_void_p(source))
        call("cuStreamWaitEvent", c_void_p(stream), event, 0)
    finally:
        # The driver keeps what a stream still waits for.
        _library().cuEventDestroy_v2(event)


def capture(stream: int) -> int:
    """The number of the capture that ``stream`` is in, of no other graph; 0 where it is in none."""
    if stream in DEFAULT_STREAMS:
        return 0
    status, number, handle = c_int(), c_uint64(), c_void_p(stream)
    call("cuStreamIsCapturing", handle, ctypes.byref(status))
    if not status.value:
        return 0
    found = ctypes.byref(status), ctypes.byref(number)
    call("cuStreamGetCaptureInfo_v2", handle, *found, None, None, None)
    return number.value


def handle_number(stream: int) -> int:
    """A number of ``stream`` that no other one has while both are there.

    Unlike ``stream_number`` it asks the driver nothing, which ends captures by that question.
    The handle of the per-thread default stream means another stream in each thread.
    """
    return -threading.get_ident() if stream == PER_THREAD_STREAM else stream


def stream_number(stream: int) -> int:
    """A number of ``stream``, not in a capture, that no other one of this process ever had.

    A handle alone does not tell: it may be used again, and that of the per-thread default stream
    means another stream in each thread.
    """
    if stream in DEFAULT_STREAMS:
        return 0
    number = c_uint64()
    call("cuStreamGetId", c_void_p(stream), ctypes.byref(number))
    return number.value
