"""How a compiled program is run: backends behind one interface (J2).

``cuda`` launches on a GPU through the driver, ``cpu`` plays the program back on NumPy.  Another
backend is a ``Backend`` that is given to ``register``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from polyc.dialects.common.diagnostic import PolycError

if TYPE_CHECKING:
    from polyc.runtime.program import Program
    from polyc.runtime.signature import HostSignature

AUTO = "auto"
"""The backend that fits: the GPU's, unless ``device="cpu"`` says otherwise."""


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

    def repeats(self, program: Runnable, inputs: Sequence[object]) -> Program | None:
        """The code that ran a call on ``inputs``, where it may run others like it by itself."""
        return None


class CudaBackend(Backend):
    """Kernels on a GPU, launched through the driver by ctypes."""

    name = "cuda"

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

    def repeats(self, program: Runnable, inputs: Sequence[object]) -> Program | None:
        return program.program(None if program.arch is not None else gpu_of(inputs))


class CpuBackend(Backend):
    """Playback on NumPy: what the program means, in f32, at no particular speed."""

    name = "cpu"

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


_BACKENDS: dict[str, Backend] = {one.name: one for one in (CudaBackend(), CpuBackend())}


def register(backend: Backend) -> None:
    """Make a backend known by its name, for ``execution_backend=``."""
    _BACKENDS[backend.name] = backend


def chosen(execution_backend: str | None, device: str | None) -> Backend:
    """The backend of a name, or the one for a device.  Raises PolycError ``UnknownBackend``."""
    name = execution_backend or AUTO
    if name == AUTO:
        if device not in (None, "cpu", "cuda"):
            raise PolycError("Usage", f'device is "cpu" or "cuda", not {device!r}')
        name = device or "cuda"
    if (found := _BACKENDS.get(name)) is None:
        raise PolycError(
            "UnknownBackend",
            f"there is no execution backend {name!r}; there are {AUTO}, {', '.join(_BACKENDS)}",
        )
    if device is not None and device != found.name and found.name in ("cpu", "cuda"):
        raise PolycError("Usage", f"the backend {found.name} does not run on device {device!r}")
    return found
