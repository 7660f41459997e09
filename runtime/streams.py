"""On which stream a call runs, and what it waits for.

A call on GPU tensors runs on the stream that it is told, or else on the one that the first of its
tensors tells: PyTorch's current one, or the ``stream`` of ``__cuda_array_interface__``.  Where
none tells it is the default stream.  What the tensors' owners have begun comes before the launch.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import cuda_array, driver, torch_tensors
from polyc.runtime.views import TensorView


def handle(stream: object) -> int:
    """The CUstream, 0 for the legacy default one, that ``stream`` is or stands for.

    An integer, a CUstream of cuda-bindings, or an object with ``__cuda_stream__`` (cuda.core),
    ``cuda_stream`` (PyTorch) or ``ptr`` (CuPy).  Raises PolycError ``BadArgument``.
    """
    found: Any = None
    try:
        found = _handle_of(stream)
        number = int(found) if hasattr(found, "getPtr") else operator.index(found)
    except Exception:
        number = -1
    if number < 0 or isinstance(found, bool):
        raise PolycError(
            "BadArgument",
            f"stream is {stream!r}; pass a CUstream as an integer (0 is the default stream) or an "
            "object with __cuda_stream__, cuda_stream or ptr",
        )
    return 0 if number in driver.DEFAULT_STREAMS else number


def _handle_of(stream: Any) -> Any:
    if hasattr(stream, "__cuda_stream__"):
        # The pair of a version and the handle; a property in the first of cuda.core.
        found: Any = stream.__cuda_stream__
        pair: Any = found() if callable(found) else found
        return pair[1]
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return getattr(stream, attribute)
    return stream


def choose(given: Sequence[object]) -> int:
    """The stream for a call on tensors that was told none."""
    for tensor in given:
        if isinstance(tensor, np.ndarray):
            continue
        known = torch_tensors.is_tensor(tensor)
        stream = (torch_tensors if known else cuda_array).stream_of(tensor)
        if stream is not None:
            return stream
    return 0


def check_places(views: Iterable[tuple[str, TensorView]], index: int) -> None:
    """Tensors that say that they are on GPU ``index`` are in memory that its kernels reach.

    Raises PolycError ``DeviceMismatch``: for another context's memory a launch would end the
    context's life.
    """
    for name, view in views:
        if not view.size:
            continue
        found = driver.place_of(view.pointer)
        where = ""
        if found.gpu is None:
            where = "memory that is no GPU's"
        elif found.managed:
            where = "managed memory"
        elif found.gpu != index:
            where = f"memory of GPU {found.gpu}"
        elif found.foreign:
            where = f"memory of a context of its own; kernels run in GPU {index}'s primary one"
        if where:
            raise PolycError(
                "DeviceMismatch",
                f"{name} says that it is on GPU {index}, and its address {view.pointer:#x} is "
                f"{where}; copy it to plain memory of that GPU",
            )


class Turn:
    """Where one call on GPU tensors stands among the work of their owners.

    ``told`` says that the caller named the stream: what comes after the call is then the
    caller's to order.  Otherwise the owners' streams wait for the call, and where an owner's
    stream is not known ``end`` waits for the result.
    """

    def __init__(self, views: Iterable[tuple[str, TensorView]], stream: int, told: bool) -> None:
        used = [(name, view) for name, view in views if view.size]
        self.stream = stream
        self._told = told
        self._others = sorted({v.stream for _, v in used if v.stream is not None} - {stream})
        self._unknown = [name for name, view in used if view.stream is None]
        self._unordered = any(not view.ordered for _, view in used)

    @property
    def _waits(self) -> bool:
        return bool(self._unknown) and not self._told

    def begin(self) -> None:
        """The stream waits for what the tensors' owners have begun.

        Raises PolycError ``BadArgument`` where ``end`` could not wait, in a capture.
        """
        if self._waits and driver.capture(self.stream):
            raise PolycError(
                "BadArgument",
                f"nothing says on which stream {self._unknown[0]} is used, and a graph that is "
                "being captured cannot be waited for; pass stream=",
            )
        if self._unordered and not self._told:
            driver.synchronize()
        for other in self._others:
            driver.order(other, self.stream)

    def end(self) -> None:
        """Whoever uses the tensors next comes after the launch."""
        if self._told:
            return
        for other in self._others:
            driver.order(self.stream, other)
        if self._waits:
            driver.wait(self.stream)
