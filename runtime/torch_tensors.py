"""PyTorch's tensors, where it is loaded: nothing here imports it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.views import LIBRARY_NAMES


def is_tensor(tensor: object) -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def check(tensor: Any, name: str) -> None:
    """Refuse a tensor whose elements are not what its memory holds, PolycError ``BadArgument``."""
    if tensor.is_neg():
        raise PolycError(
            "BadArgument",
            f"{name} is a view that negates what its memory holds; pass {name}.resolve_neg()",
        )


def exporting(tensor: Any) -> AbstractContextManager[object]:
    """What a tensor is exported in: PyTorch refuses one of a GPU that is not the current one."""
    torch: Any = sys.modules["torch"]
    if not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(tensor.get_device())


def is_pinned(tensor: Any) -> bool:
    """Whether a tensor on the host is in memory that copies may still be on their way to."""
    return bool(tensor.is_pinned())


def current_stream(index: int) -> int:
    """PyTorch's current stream of this thread on GPU ``index``."""
    torch: Any = sys.modules["torch"]
    # The public way makes an object first and takes ten times as long.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None) if hasattr(torch, "_C") else None
    if raw is not None:
        return int(raw(index))
    return int(torch.cuda.current_stream(index).cuda_stream)


def stream_of(tensor: object) -> int | None:
    """The current stream on the GPU that a PyTorch tensor is on; None for anything else."""
    if not is_tensor(tensor):
        return None
    one: Any = tensor
    return current_stream(one.get_device()) if one.is_cuda else None


def empty(shape: Sequence[int], element: str, device: Any, stream: int | None = None) -> object:
    """An uninitialised tensor, of the current stream or of the given one of its GPU."""
    torch: Any = sys.modules["torch"]
    dtype = getattr(torch, LIBRARY_NAMES[element])
    if stream is None:
        return torch.empty(tuple(shape), dtype=dtype, device=device)
    # Its memory goes to other tensors of that stream when it is freed.
    with torch.cuda.stream(torch.cuda.ExternalStream(stream, device=device)):
        return torch.empty(tuple(shape), dtype=dtype, device=device)


def keep_until(given: Iterable[object], stream: int) -> None:
    """The memory of GPU tensors is not given to others before ``stream`` has done its work."""
    torch: Any = sys.modules.get("torch")
    for tensor in given:
        if stream_of(tensor) not in (None, stream):
            one: Any = tensor
            one.record_stream(torch.cuda.ExternalStream(stream, device=one.device))
