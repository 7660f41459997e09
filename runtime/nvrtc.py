"""Compile CUDA C with NVRTC: a library, so that no toolkit, driver or GPU is needed.

NVRTC is loaded at the first compilation (some 20 ms).  Results are kept on disk under
``$XDG_CACHE_HOME/polyc`` by a hash of the source, the options and the compiler's
version (T1); ``POLYC_CACHE=0`` turns that off.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from polyc.dialects.common.arch import arch_names
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc_library
from polyc.runtime.installed import installed
from polyc.runtime.store import Store, cache_root

Emit = Literal["cubin", "ptx"]

OPTIONS = ("-std=c++17", "-default-device", "--fmad=false", "--ptxas-options=-v", "--no-cache")
"""Options of every compilation.

``-v`` makes ptxas report registers and spills; without ``fmad`` a product and a sum that the
IR rounds one by one are not fused (S0.6).  NVRTC's own cache, which it keeps beside a driver's,
answers with an image and an empty log.
"""

version = nvrtc_library.version

_FORMAT = 3
"""Changes when the layout of a cache entry does."""


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """What ptxas says of one kernel; sizes are bytes a thread, ``smem`` bytes a block.

    ``smem`` counts static shared memory alone; the dynamic part is set at launch.
    """

    registers: int
    spill_bytes: int
    stack: int
    smem: int


@dataclass(frozen=True, slots=True)
class CompileResult:
    """The image of one compilation, the compiler's log, and its kernels by name.

    ``kernels`` is empty for PTX, which ptxas has not seen.
    """

    image: bytes
    log: str
    kernels: Mapping[str, KernelInfo]
    cached: bool = False

    def warnings(self) -> tuple[str, ...]:
        """Lines of the log that speak of lost performance or are warnings."""
        return tuple(
            line.strip()
            for line in self.log.splitlines()
            if "warning" in line.lower() or "performance loss" in line.lower()
        )


def compile_cuda(
    source: str, arch: str, emit: Emit = "cubin", name: str = "kernel.cu"
) -> CompileResult:
    """Compile ``source`` for ``arch``: a target, or the number of a later chip such as ``sm_90``.

    ``emit="ptx"`` targets the virtual architecture, which later chips also run (S0.1).
    Raises PolycError: ``UnknownArch``, ``NoNVRTC``, and ``CompilerFailed`` with the log.
    """
    if re.fullmatch(r"sm_\d+a?", arch) is None:
        raise PolycError("UnknownArch", f"there is no architecture {arch!r}; use {arch_names()}")
    options = _options(arch, emit)
    entry = _entry(source, options, emit)
    if entry is not None and (found := _load(entry)) is not None:
        return found
    result = _compile(source, options, emit, name)
    if entry is not None:
        _store(entry, result)
    return result


def compile_each(sources: Iterable[str], arch: str, name: str = "kernel.cu") -> list[CompileResult]:
    """Compile each of ``sources`` to a cubin, side by side on the processors of this process.

    NVRTC runs without Python's lock, and begins with the first source while ``sources`` makes the
    next ones.  Raises PolycError as ``compile_cuda``, of the first source that has a fault.
    """
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_processors()) as pool:
        begun = [pool.submit(compile_cuda, source, arch, "cubin", name) for source in sources]
        return [one.result() for one in begun]


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _compile(source: str, options: tuple[str, ...], emit: Emit, name: str) -> CompileResult:
    with nvrtc_library.Program(source, name) as program:
        compiled = program.compile(options)
        log = program.read("ProgramLog").rstrip(b"\0").decode(errors="replace")
        if not compiled:
            lines = [line for line in log.splitlines() if line.strip()]
            first = next((line for line in lines if "error" in line), "no message")
            raise PolycError(
                "CompilerFailed",
                f"NVRTC refuses the generated code for {options[0].partition('=')[2]}: {first}",
                notes=lines,
            )
        image = program.read("CUBIN" if emit == "cubin" else "PTX")
    return CompileResult(image if emit == "cubin" else image.rstrip(b"\0"), log, kernels_of(log))


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SMEM = re.compile(r"(\d+) bytes smem")


def kernels_of(log: str) -> dict[str, KernelInfo]:
    """What ``ptxas -v`` says in a log, by kernel; spills count stores and loads together."""
    found: dict[str, KernelInfo] = {}
    frames: dict[str, tuple[int, int]] = {}
    name = function = ""
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name = entry[1]
        elif properties := _PROPERTIES.search(line):
            function = properties[1]
        elif sizes := _FRAME.search(line):
            frames[function] = int(sizes[1]), int(sizes[2]) + int(sizes[3])
        elif name and (used := _USED.search(line)):
            stack, spill = frames.get(name, (0, 0))
            smem = _SMEM.search(line)
            found[name] = KernelInfo(int(used[1]), spill, stack, int(smem[1]) if smem else 0)
            name = ""
    return found


# Cache on disk ----------------------------------------------------------------------------


def cache_dir() -> Path | None:
    """Where images are kept, or None where nothing is (see ``polyc.runtime.store``)."""
    root = cache_root()
    return None if root is None else root / "nvrtc"


def entry_name(source: str, arch: str, emit: Emit = "cubin") -> str:
    """The name of the entry that ``compile_cuda`` keeps of a source."""
    return _name(source, _options(arch, emit), emit)


def kept(name: str) -> CompileResult | None:
    """What was compiled before, by the name of its entry; None where it is not there any more."""
    folder = cache_dir()
    return None if folder is None else _load(folder / name)


def _options(arch: str, emit: Emit) -> tuple[str, ...]:
    target = arch if emit == "cubin" else arch.replace("sm_", "compute_")
    return (f"--gpu-architecture={target}", *OPTIONS)


def _entry(source: str, options: tuple[str, ...], emit: Emit) -> Path | None:
    folder = cache_dir()
    return None if folder is None else folder / _name(source, options, emit)


def _name(source: str, options: tuple[str, ...], emit: Emit) -> str:
    parts = (str(_FORMAT), ".".join(map(str, compiler_version())), emit, *options, source)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{digest}.{emit}"


@cache
def compiler_version() -> tuple[str, ...]:
    """The compiler's version, from the wheel's metadata so that a hit loads no library.

    Raises PolycError ``NoNVRTC`` where there is neither.
    """
    if (found := installed("nvidia-cuda-nvrtc")) is not None:
        return ("wheel", found)
    major, minor = nvrtc_library.version()
    return ("library", str(major), str(minor))


def _load(entry: Path) -> CompileResult | None:
    """A cache entry, or None when it is not there, not readable or damaged anywhere.

    Its JSON has the log and the kernels, its bytes are the image.
    """
    found = Store(entry.parent).load(entry.name)
    if found is None:
        return None
    try:
        return _result(*found)
    except (ValueError, LookupError, TypeError):
        return None


def _result(data: Any, image: bytes) -> CompileResult:
    """What an entry's JSON says; raises TypeError and LookupError where it is of another kind."""
    log, listed = data["log"], data["kernels"]
    if not isinstance(log, str) or not isinstance(listed, dict):
        raise TypeError("the log is text, the kernels an object")
    kernels = {str(n): KernelInfo(**i) for n, i in cast("dict[str, Any]", listed).items()}
    if any(type(v) is not int for info in kernels.values() for v in asdict(info).values()):
        raise TypeError("what is said of a kernel is whole numbers")
    return CompileResult(image, log, kernels, cached=True)


def _store(entry: Path, result: CompileResult) -> None:
    data = {
        "log": result.log,
        "kernels": {name: asdict(info) for name, info in result.kernels.items()},
    }
    Store(entry.parent).save(entry.name, data, result.image)
