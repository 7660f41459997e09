"""The extension of the compiled backend, built for tests, and what it reads of a PyTorch.

``extension`` is the installed one, or else built here by the C compiler that there is; a test that
asks for it is skipped where there is none.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sysconfig
import tempfile
from ctypes import PYFUNCTYPE, c_char_p, c_int, c_int32, c_void_p, py_object
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from polyc.runtime.torch_layout import Layout
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.gpu_producers import Device, FakeTorch, Raw, Tensor
from polyc.test.support.root import ROOT

SOURCES = sorted((ROOT / "fast").glob("*.c"))


@cache
def built() -> Any:
    """The module, or why there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    headers = sysconfig.get_path("include")
    if compiler is None or not Path(headers, "Python.h").exists():
        return "there is no C compiler with Python's headers, and polyc_fast is not installed"
    made = Path(tempfile.mkdtemp(), "polyc_fast.abi3.so")
    warn = ["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-cast-function-type"]
    command = [compiler, "-O1", *warn, "-shared", "-fPIC", f"-I{headers}", *map(str, SOURCES)]
    done = subprocess.run([*command, "-o", str(made)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loader = ExtensionFileLoader("polyc_fast", str(made))
    spec = spec_from_file_location("polyc_fast", made, loader=loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def extension() -> Any:
    """The module; skips the test where it can be neither found nor built."""
    found = built()
    if isinstance(found, str):
        pytest.skip(found)
    return found


# A driver and a PyTorch that compiled code can call -----------------------------------------


class FakeCudaInC(FakeCuda):
    """The driver in Python, three of whose functions have an address.

    ``parameters`` says how many each kernel has: the driver knows that of its code.
    """

    def __init__(self, parameters: dict[str, int]) -> None:
        super().__init__()
        self.parameters = parameters
        kind = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_void_p)
        self.cuLaunchKernelEx = kind(self._launch)  # pyright: ignore
        self.cuCtxGetCurrent = ctypes.CFUNCTYPE(c_int, c_void_p)(self._current)  # pyright: ignore
        kind = ctypes.CFUNCTYPE(c_int, c_void_p, c_void_p)
        self.cuTensorMapReplaceAddress = kind(self._replace)  # pyright: ignore

    def _launch(self, config: int, function: int, parameters: int, extra: int) -> int:
        from polyc.runtime import driver

        name = self._functions[function][0]
        every = (c_void_p * self.parameters[name]).from_address(parameters)
        told = SimpleNamespace(_obj=driver._Config.from_address(config))  # pyright: ignore
        return FakeCuda.cuLaunchKernelEx(self, told, c_void_p(function), every, None)

    def _current(self, found: int) -> int:
        told = SimpleNamespace(_obj=c_void_p.from_address(found))
        return FakeCuda.cuCtxGetCurrent(self, told)

    def _replace(self, made: int, pointer: int) -> int:
        told = SimpleNamespace(_obj=(ctypes.c_uint64 * 16).from_address(made))
        return FakeCuda.cuTensorMapReplaceAddress(self, told, c_void_p(pointer))


def _negated(one: Any, _: object) -> bool:
    return one.negated


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = [("name", c_char_p), ("call", c_void_p), ("flags", c_int), ("doc", c_char_p)]


class _Exchange(ctypes.Structure):
    """DLPackExchangeAPI."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("previous", c_void_p),
        ("unused", c_void_p * 3),
        ("view", c_void_p),
        ("stream", c_void_p),
    ]


LAYOUT = Layout(16, 16, 24, 64, 64, 64, 0xC1A55)
"""How a ``LaidOut`` shows its memory."""

_changes = count(1)


class LaidOut(ctypes.Structure):
    """A tensor with memory beside its Python object, where whatever happens to it shows."""

    _fields_ = [("words", ctypes.c_uint64 * 8)]

    def __setattr__(self, name: str, value: object) -> None:
        if name == "words":
            return
        super().__setattr__(name, value)
        own: dict[str, Any] = vars(self)
        if "storage" not in own:
            own["storage"], own["autograd"] = (ctypes.c_uint64 * 8)(), (ctypes.c_uint64 * 8)()
        self.words[2] = ctypes.addressof(own["storage"])
        self.words[3] = ctypes.addressof(own["autograd"]) if own.get("wants") is not None else 0
        # Of a view it is another class.
        own["autograd"][:2] = 0 if own.get("is_view") else LAYOUT.autograd_class, next(_changes)


class FakeTorchInC(FakeTorch):
    """A PyTorch whose tensors have DLPack's exchange interface; ``version`` is its own.

    ``laid_out`` ones have the memory that ``LAYOUT`` tells of.
    """

    def __init__(self, driver: FakeCuda, version: int = 1, laid_out: bool = False) -> None:
        super().__init__(driver)
        self.refuses: set[int] = set()
        """Numbers of tensors, by ``id``, that the interface does not export."""
        self.exported = 0
        """How often it was asked."""
        bases: Any = (Tensor, LaidOut) if laid_out else (Tensor,)

        class Exchanged(*bases):  # pyright: ignore[reportUntypedBaseClass]
            @property
            def requires_grad(self) -> bool:
                return self.wants

            @requires_grad.setter
            def requires_grad(self, value: bool) -> None:
                self.wants = value

        self.Tensor = Exchanged  # pyright: ignore
        self._view = PYFUNCTYPE(c_int, py_object, c_void_p)(self._export)
        self._stream_at = PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p)(self._tell)
        api = self._api = _Exchange()
        api.version[:] = version, 3
        api.view, api.stream = (
            ctypes.cast(f, c_void_p).value for f in (self._view, self._stream_at)
        )
        new = PYFUNCTYPE(py_object, c_void_p, c_char_p, c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        self._name = b"dlpack_exchange_api"
        Exchanged.__dlpack_c_exchange_api__ = new(  # pyright: ignore
            ctypes.addressof(api), self._name, None
        )
        self._asks = PYFUNCTYPE(py_object, py_object, c_void_p)(_negated)
        self._def = _Method(b"is_neg", ctypes.cast(self._asks, c_void_p).value, 4, None)
        self._builtin = PYFUNCTYPE(py_object, c_void_p, py_object, c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )

    def _export(self, tensor: Any, into: int) -> int:
        self.exported += 1
        if id(tensor) in self.refuses:
            return -1
        ctypes.memmove(into, ctypes.addressof(tensor._managed.tensor), ctypes.sizeof(Raw))
        return 0

    def _tell(self, kind: int, index: int, into: int) -> int:
        c_void_p.from_address(into).value = self._current(index)
        return 0

    def empty(self, shape: Any, dtype: str, device: Any) -> Any:
        if device == "cpu":
            one = SimpleNamespace()
            one.is_neg = self._builtin(ctypes.addressof(self._def), one, None)
            return one
        made = super().empty(shape, dtype, device)
        return self.made_of(made.pointer, shape, dtype, device.index)

    def made_of(self, pointer: int, shape: Any, dtype: str, index: int, *rest: Any) -> Any:
        return self.Tensor(pointer, shape, dtype, index, *rest)

    def zeros(self, *shape: int, index: int = 0, device: str = "cuda") -> Any:
        return self.empty(shape, "float32", Device("cuda", index))
