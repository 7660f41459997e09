"""What a chip does in a second: the figures that the model of time divides by (S11.1).

A figure means what the model does with it: with the right ones the model says of a kernel what is
measured, and that is how ``polyc calibrate`` finds them.  Those that are shipped are of such a
measurement, or of the data sheet with a remark.  Rates are of the whole chip; ``multiprocessors``
says in how many parts it comes.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Device:
    """One chip.

    ``multiprocessors``   SMs
    ``tensor_flops``      f16 and bf16 by wgmma (sm_80: mma.sync), on all SMs, for so long that
                          power slows the clock, between the ends of tiles
    ``tensor_peak``       the same where few SMs work, and power does not slow the clock
    ``mma_sync``          the share of ``tensor_flops`` that mma.sync reaches, without what threads
                          do for it
    ``operations``        instructions of one thread: an f32 multiply-add is one
    ``memory``            bytes of global memory, reads and writes together
    ``cache``             bytes between the L2 cache and the SMs, reads and writes together
    ``cache_bytes``       of the L2 cache, that a kernel finds what the one before it wrote in
    ``latency``           seconds that a step of a loop waits for its loads, where memory is asked:
                          what a step takes beyond its arithmetic and what an SM draws
    ``near``              the same where the L2 cache has it
    ``launch``            seconds of a kernel beyond its work, inside a CUDA graph: until its blocks
                          load, while they begin and end, and until the next kernel begins
    ``fill``              seconds of a tile of products beyond ``launch``, its steps and its
                          epilogue's loads and instructions
    ``exchange``          bytes that the SMs of clusters store into each other's shared memory, all
                          together; assumed
    ``sums``              bytes of sums that one kernel stores and the next one adds
    ``behind``            seconds from the last of these stores to the first load
    ``threads``           that are on an SM at once
    ``registers``         of an SM, 32 bits each
    ``shared``            bytes of an SM's shared memory
    """

    name: str
    multiprocessors: int
    tensor_flops: float
    tensor_peak: float
    mma_sync: float
    operations: float
    memory: float
    cache: float
    cache_bytes: float
    latency: float
    near: float
    launch: float
    fill: float = 1.0e-6
    exchange: float = 2.7e12
    sums: float = 1.4e12
    behind: float = 1.2e-6
    threads: int = 2048
    registers: int = 65536
    shared: int = 228 * 1024


A100 = Device(
    name="A100 SXM",
    multiprocessors=108,
    tensor_flops=270e12,
    tensor_peak=312e12,
    mma_sync=1.0,
    operations=9.75e12,
    memory=1.6e12,
    cache=5.0e12,
    cache_bytes=30e6,
    latency=0.55e-6,
    near=0.25e-6,
    launch=2.5e-6,
    behind=2.5e-6,
    shared=164 * 1024,
)
"""Data sheet: 312 TFLOP/s f16 by tensor cores, 19.5 f32, 2.0 TB/s, of which copies get 1.6; nothing
here was measured by polyc."""

H200 = Device(
    name="H200 SXM",
    multiprocessors=132,
    tensor_flops=700e12,
    tensor_peak=940e12,
    mma_sync=0.6,
    operations=30e12,
    memory=4.2e12,
    cache=11e12,
    cache_bytes=40e6,
    latency=0.45e-6,
    near=0.2e-6,
    launch=2.0e-6,
)
"""Data sheet: 989 TFLOP/s f16, 60 f32 (an FMA is two), 4.8 TB/s.  A copy gets 4.2.  Products of
4096 rows run at 700 between their epilogues, as power slows the clock, and at 7.1 on each of 32
SMs (``bench/results``).  Tiles come at 6 to 7.6 TB/s from L2, of which the profiler says that it is
half of what there is (docs/performance.md)."""

H100 = replace(H200, name="H100 SXM", memory=3.0e12, cache_bytes=33e6)
"""An H200 but for its memory: 3.35 TB/s by the data sheet, of which a copy gets 3.0."""

DEVICES: Mapping[str, Device] = MappingProxyType({"sm_80": A100, "sm_90a": H200})
"""The chip that each architecture is modelled by."""

SHIPPED: Mapping[str, Device] = MappingProxyType({"A100": A100, "H100": H100, "H200": H200})
"""The chips whose figures come with polyc, by the names that users give."""

_given = ContextVar[tuple[str, Device] | None]("_given", default=None)


@contextmanager
def modelled_on(arch: str, device: Device | None) -> Generator[None]:
    """Within it kernels of ``arch`` are modelled on ``device``, where that is given."""
    before = _given.set(_given.get() if device is None else (arch, device))
    try:
        yield
    finally:
        _given.reset(before)


def given() -> tuple[str, Device] | None:
    """The chip that kernels of an architecture are modelled on here, where one is given."""
    return _given.get()


def device_of(arch: str) -> Device:
    """The chip that kernels of an architecture are modelled on."""
    given = _given.get()
    return given[1] if given is not None and given[0] == arch else DEVICES[arch]
