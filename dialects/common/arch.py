"""Limits of the target architectures, as the plan verifier and the lowerings use them.

The figures are from the CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability", and the PTX ISA (``setmaxnreg``, ``wgmma``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from polyc.dialects.common.diagnostic import PolycError


@dataclass(frozen=True, slots=True)
class Arch:
    """What one architecture offers.

    ``shared_bytes``        shared memory that one block may use (dynamic, opted in)
    ``registers``           32-bit registers of one SM
    ``registers_thread``    most registers of one thread
    ``threads``             most threads of one block
    ``cluster``             most blocks of one cluster; 1 where there are no clusters
    ``large_cluster``       most blocks of one that the host asks for by name
    ``overlapped``          whether a launch may overlap the end of the one ahead of it
    ``multiprocessors``     SMs of the chip that plans are made for: A100 SXM, H100 SXM
    """

    name: str
    shared_bytes: int
    registers: int
    registers_thread: int
    threads: int
    warp: int
    cluster: int
    large_cluster: int
    tma: bool
    wgmma: bool
    overlapped: bool
    multiprocessors: int


ARCHS: Mapping[str, Arch] = MappingProxyType(
    {
        "sm_80": Arch(
            "sm_80", 163 * 1024, 64 * 1024, 255, 1024, 32, 1, 1, False, False, False, 108
        ),
        "sm_90a": Arch(
            "sm_90a", 227 * 1024, 64 * 1024, 255, 1024, 32, 8, 16, True, True, True, 132
        ),
    }
)
"""The targets by the one spelling that is used everywhere (S0.1)."""


def arch_names() -> str:
    """The targets in a sentence: ``sm_80 or sm_90a``."""
    return " or ".join(ARCHS)


def check_arch(arch: str) -> str:
    """``arch`` itself.  Raises PolycError of kind ``UnknownArch``."""
    if arch not in ARCHS:
        raise PolycError("UnknownArch", f"there is no architecture {arch!r}; use {arch_names()}")
    return arch
