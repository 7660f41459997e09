"""How a compiled program is run: backends behind one interface (J2).

``cuda`` launches on a GPU through the driver, ``compiled`` does so by an extension that is
installed by itself, ``cpu`` plays the program back on NumPy.  Another backend is a ``Backend`` that
is given to ``register``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.compiled_calls import extension

if TYPE_CHECKING:
    from polyc.runtime.program import Program
    from polyc.runtime.signature import HostSignature

AUTO = "auto"
"""The backend that fits: a GPU's, the compiled one where it is installed, unless ``device="cpu"``
says otherwise."""

Again = Callable[..., Sequence[object] | None]
"""Runs a call like one that was checked, on inputs and outputs or on inputs alone: its outputs, or
None where there was none like it."""

PLAIN, ALLOCATING = (True, None, (), None), (False, None, (), None)
"""Calls with outputs and without, which are told nothing else: see ``runtime.program.Kind``."""


class Runnable(ABC):
    """What a backend asks of a compiled program."""

    signature: HostSignature
    arch: str | None
    """The architecture that all code is for; None where it is that of the tensors' GPU."""

    @abstractmethod
    def program(self, gpu_index: int | None = None) -> Program:
        """The code for a GPU, compiled where it is not yet."""

    @abstractmethod
    def play(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> Sequence[Any]:
        """The outputs for NumPy arrays that were checked."""


class Backend(ABC):
    """One way to run a program."""

    name: ClassVar[str]
    device: ClassVar[str | None] = None
    """What ``device`` may say beside it, where it runs on one kind of device alone."""

    @abstractmethod
    def run(
        self,
        program: Runnable,
        inputs: list[object],
        out: list[object] | None,
        symbols: Mapping[str, int] | None,
        stream: object | None,
        gpu_index: int | None,
    ) -> list[object]:
        """The outputs, new ones of the library of the first input, or those of ``out``.

        Raises PolycError for what does not fit the signature.
        """

    def again(self, program: Runnable, inputs: Sequence[object]) -> tuple[Again, Again] | None:
        """What runs calls like one on ``inputs`` that was run, with outputs and without.

        None, as it is here, where each call is to be a ``run``.
        """
        return None

    def known(self, program: Runnable, inputs: Sequence[object]) -> tuple[Any, Any]:
        """The extension's calls of the same kinds, where there are some: see ``compiled_calls``."""
        return None, None


class CudaBackend(Backend):
    """Kernels on a GPU, launched through the driver by ctypes."""

    name = "cuda"
    device = "cuda"

    def run(
        self,
        program: Runnable,
        inputs: list[object],
        out: list[object] | None,
        symbols: Mapping[str, int] | None,
        stream: object | None,
        gpu_index: int | None,
    ) -> list[object]:
        index = gpu_index
        if index is None and program.arch is None:
            index = gpu_of(inputs)
        return program.program(index).run(
            inputs, symbols, out=out, gpu_index=gpu_index, stream=stream
        )

    def again(self, program: Runnable, inputs: Sequence[object]) -> tuple[Again, Again] | None:
        ran = program.program(None if program.arch is not None else gpu_of(inputs))
        return ran.repeated(PLAIN).run, ran.repeated(ALLOCATING).run


class CompiledBackend(CudaBackend):
    """The same, where calls like one that was checked are read and launched by an extension.

    It takes PyTorch's tensors, of a version with DLPack's exchange interface.
    """

    name = "compiled"

    def again(self, program: Runnable, inputs: Sequence[object]) -> tuple[Again, Again] | None:
        ran = program.program(None if program.arch is not None else gpu_of(inputs))
        return ran.repeated(PLAIN).compiled, ran.repeated(ALLOCATING).compiled

    def known(self, program: Runnable, inputs: Sequence[object]) -> tuple[Any, Any]:
        ran = program.program(None if program.arch is not None else gpu_of(inputs))
        return ran.repeated(PLAIN).calls, ran.repeated(ALLOCATING).calls


class CpuBackend(Backend):
    """Playback on NumPy: what the program means, in f32, at no particular speed."""

    name = "cpu"
    device = "cpu"

    def run(
        self,
        program: Runnable,
        inputs: list[object],
        out: list[object] | None,
        symbols: Mapping[str, int] | None,
        stream: object | None,
        gpu_index: int | None,
    ) -> list[object]:
        import numpy as np

        from polyc.runtime import tensors

        if stream is not None or gpu_index is not None:
            raise PolycError("BadArgument", "stream and gpu_index are of a GPU, not of a playback")
        signature = program.signature
        count, total = signature.num_inputs, len(signature.names)
        given = tensors.sizes(symbols) if symbols else {}
        views = signature.views(inputs, 0, count, "inputs", None)
        wrap = None
        if out is None:
            values = signature.bind(views, given)
            wrap = _jax_array(inputs)
            like: list[object] = [np.empty(0)] if wrap is not None or not inputs else inputs
            outputs = signature.outputs(like, values, None)
        else:
            outputs = out
        results = signature.views(outputs, count, total, "outputs", None)
        values = signature.bind([*views, *results], given)
        signature.check_apart(views, results)
        for name, view in zip(signature.names, [*views, *results], strict=True):
            if view.gpu is not None and view.size:
                raise PolycError(
                    "DeviceMismatch",
                    f"{name} is on GPU {view.gpu}, and the CPU plays back what is in host memory; "
                    "copy it there, or leave out device",
                )
        arrays = [tensors.as_numpy(view) for view in views]
        if any(view.size for view in results):
            found = program.play(arrays, values)
            for view, made in zip(results, found, strict=True):
                tensors.as_numpy(view)[...] = made
        return [wrap(one) for one in outputs] if wrap is not None else outputs


def _jax_array(inputs: Sequence[object]) -> Any:
    """What makes an array of JAX of one of NumPy, where the first input is JAX's."""
    import sys

    jax: Any = sys.modules.get("jax")
    if jax is None or not inputs or not isinstance(inputs[0], jax.Array):
        return None
    return jax.numpy.asarray


def gpu_of(inputs: Sequence[object]) -> int | None:
    """The GPU that the first tensor on one is on, where that is said without being asked twice."""
    for one in inputs:
        tensor: Any = one
        if getattr(tensor, "is_cuda", None) is True:  # PyTorch's, said in a tenth of the time
            return int(tensor.get_device())
        asked = getattr(tensor, "__dlpack_device__", None)
        if asked is None:
            continue
        try:
            kind, index = cast("tuple[int, int]", asked())
        except Exception:
            continue  # the checks of the call have a sentence for it
        if int(kind) in (2, 13):
            return int(index)
    return None


_BACKENDS: dict[str, Backend] = {
    one.name: one for one in (CudaBackend(), CompiledBackend(), CpuBackend())
}


def register(backend: Backend) -> None:
    """Make a backend known by its name, for ``execution_backend=``."""
    _BACKENDS[backend.name] = backend


def chosen(execution_backend: str | None, device: str | None) -> Backend:
    """The backend of a name, or the one for a device.  Raises PolycError ``UnknownBackend``."""
    name = execution_backend or AUTO
    if name == AUTO:
        if device not in (None, "cpu", "cuda"):
            raise PolycError("Usage", f'device is "cpu" or "cuda", not {device!r}')
        name = "cpu" if device == "cpu" else "cuda" if extension() is None else "compiled"
    if (found := _BACKENDS.get(name)) is None:
        raise PolycError(
            "UnknownBackend",
            f"there is no execution backend {name!r}; there are {AUTO}, {', '.join(_BACKENDS)}",
        )
    if isinstance(found, CompiledBackend) and extension() is None:
        raise PolycError(
            "UnknownBackend",
            "the execution backend compiled is the extension polyc_fast, which is not installed in "
            "a version of this polyc; install polyc[fast], or leave execution_backend out",
        )
    if None not in (device, found.device) and device != found.device:
        raise PolycError("Usage", f"the backend {found.name} does not run on device {device!r}")
    return found
