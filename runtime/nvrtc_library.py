"""NVRTC by ctypes: where the library is, and its functions.

A package of bindings takes longer to import than a kernel to compile.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_void_p
from functools import cache
from typing import Any

from polyc.dialects.common.diagnostic import PolycError

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12")
"""What the loader of the system is asked for where no wheel has one."""

_PROGRAM, _TEXT, _TEXTS = c_void_p, c_char_p, POINTER(c_char_p)
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "nvrtcVersion": (POINTER(c_int), POINTER(c_int)),
    "nvrtcCreateProgram": (POINTER(_PROGRAM), _TEXT, _TEXT, c_int, _TEXTS, _TEXTS),
    "nvrtcDestroyProgram": (POINTER(_PROGRAM),),
    "nvrtcCompileProgram": (_PROGRAM, c_int, _TEXTS),
    "nvrtcGetProgramLogSize": (_PROGRAM, POINTER(c_size_t)),
    "nvrtcGetProgramLog": (_PROGRAM, c_void_p),
    "nvrtcGetPTXSize": (_PROGRAM, POINTER(c_size_t)),
    "nvrtcGetPTX": (_PROGRAM, c_void_p),
    "nvrtcGetCUBINSize": (_PROGRAM, POINTER(c_size_t)),
    "nvrtcGetCUBIN": (_PROGRAM, c_void_p),
}


@cache
def library() -> ctypes.CDLL:
    """The library.  Raises PolycError ``NoNVRTC`` where there is none.

    It is the one of the wheel ``nvidia-cuda-nvrtc``, whose version names entries on disk, or else
    the one that the system's loader or the CUDA toolkit has.
    """
    wrong: list[str] = []
    for path in places():
        try:
            found = ctypes.CDLL(path)
            for name, arguments in _SIGNATURES.items():
                function = getattr(found, name)
                function.argtypes, function.restype = arguments, c_int
            found.nvrtcGetErrorString.restype = c_char_p
        except (OSError, AttributeError) as error:
            wrong.append(str(error))
        else:
            return found
    raise PolycError(
        "NoNVRTC",
        f"NVRTC cannot be loaded ({wrong[0] if wrong else 'it is nowhere'}); install the package "
        "nvidia-cuda-nvrtc",
    )


def places() -> Iterator[str]:
    """Where the library may be, the best first."""
    for folder in sys.path:
        yield from _of_wheels(os.path.join(folder or ".", "nvidia"))
    yield from NAMES
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            yield os.path.join(home, "lib64", "libnvrtc.so")
    yield "/usr/local/cuda/lib64/libnvrtc.so"


def _of_wheels(folder: str) -> list[str]:
    """Those that NVIDIA's wheels brought into a folder of packages, the newest first."""
    found: list[tuple[int, str]] = []
    for part in _listed(folder):
        if part.startswith("cu"):
            within = os.path.join(folder, part, "lib")
            for name in _listed(within):
                if match := re.fullmatch(r"libnvrtc\.so\.(\d+)", name):
                    found.append((int(match[1]), os.path.join(within, name)))
    return [path for _, path in sorted(found, reverse=True)]


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def call(function: str, *args: object) -> None:
    """Call a function.  Raises PolycError ``CompilerFailed`` where it says no."""
    if status := getattr(library(), function)(*args):
        text = library().nvrtcGetErrorString(status).decode()
        raise PolycError("CompilerFailed", f"{function} answered {text}")


def version() -> tuple[int, int]:
    """Its version, major and minor."""
    major, minor = c_int(), c_int()
    call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
    return major.value, minor.value


class Program:
    """One compilation: ``with Program(source, name) as program``."""

    def __init__(self, source: str, name: str) -> None:
        self._handle = c_void_p()
        given = source.encode(), name.encode(), 0, None, None
        call("nvrtcCreateProgram", ctypes.byref(self._handle), *given)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        library().nvrtcDestroyProgram(ctypes.byref(self._handle))

    def compile(self, options: tuple[str, ...]) -> bool:
        """Whether it compiles; Python goes on in other threads meanwhile."""
        given = (c_char_p * len(options))(*(option.encode() for option in options))
        return library().nvrtcCompileProgram(self._handle, len(options), given) == 0

    def read(self, what: str) -> bytes:
        """What there is: ``ProgramLog``, ``CUBIN`` or ``PTX``."""
        size = c_size_t()
        call(f"nvrtcGet{what}Size", self._handle, ctypes.byref(size))
        data = (ctypes.c_char * size.value)()
        call(f"nvrtcGet{what}", self._handle, data)
        return data.raw
