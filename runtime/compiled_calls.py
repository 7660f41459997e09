"""The compiled backend of calls: ``polyc_fast``, an extension that is installed by itself.

It reads PyTorch's tensors by DLPack's exchange interface, compares them with calls that were
checked, and launches by the driver's functions, whose addresses it is given.  What it does not know
it hands to the functions in Python of ``repeated``, and is told what they knew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from polyc.runtime import driver, torch_layout

VERSION = 2
"""What the extension has to say of itself."""


@cache
def extension() -> Any:
    """The extension, or None where it is not installed, or of another version."""
    try:
        found = import_module("polyc_fast")
    except ImportError:
        return None
    return found if getattr(found, "VERSION", None) == VERSION else None


class _Called:
    """A base of what is called where there is no extension: each call goes to ``called``."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "called" in vars(cls):
            cls.__call__ = cls.called

    if TYPE_CHECKING:

        def __call__(self, *inputs: object, **named: Any) -> Any: ...

        called: Callable[..., Any]
        """What calling it does.  The extension's base asks it where it does not know a call."""

    def known_as(self, given: Any, fresh: Any, returns: int) -> None:
        """From now on these calls of the extension are looked at first: with outputs given as
        ``out``, or with none; None for none.  ``returns`` says what is returned: the output, a
        tuple of all, or a list (0, 1, 2)."""


def base() -> type[_Called]:
    """The base class of what is called: the extension's, which calls what it knows itself."""
    found = extension()
    return _Called if found is None else found.Called


RETURNS = {"one": 0, "tuple": 1, "list": 2}
"""What ``known_as`` takes for a way of returning outputs."""


def made(
    torch: Any,
    inputs: int,
    outputs: int,
    given: bool,
    period: int,
    run: Callable[..., Sequence[object] | None],
    find: Callable[..., Any],
) -> Any:
    """The extension's calls of one kind, with ``run`` and ``find`` for those that it does not know.

    None where there is no extension, or where PyTorch has no exchange interface.
    """
    fast = extension()
    tensor = torch.Tensor
    exchange = getattr(tensor, "__dlpack_c_exchange_api__", None)
    if fast is None or exchange is None or inputs + outputs > fast.TENSORS:
        return None

    def otherwise(calls: Any, *arguments: Sequence[object]) -> Sequence[object] | None:
        found = run(*arguments)
        if found is not None:
            tensors = tuple(one for several in arguments for one in several)
            learn(calls, tensors, find(*tensors))
        return found

    gradient, negated = tensor.requires_grad, _sample(torch).is_neg
    parameter = getattr(getattr(torch, "nn", None), "Parameter", tensor)
    kind = inputs, outputs, given, period, tensor, parameter, exchange, gradient, negated
    fast.set_layout(*(torch_layout.layout(torch) or _NOTHING))
    how = torch.empty_strided, otherwise, _failed, driver.address("cuCtxGetCurrent")
    try:
        return fast.Calls(*kind, *how)
    except (TypeError, ValueError):
        return None


_NOTHING = (0,) * len(torch_layout.Layout._fields)
"""The layout that shows nothing."""


def _sample(torch: Any) -> Any:
    return torch.empty((), dtype=torch.float32, device="cpu")


def _failed(kept: Any, status: int) -> None:
    """Raises PolycError for what the driver answered."""
    kept.packing.launch.check(status)


def learn(calls: Any, tensors: tuple[object, ...], kept: Any) -> bool:
    """Keep in the extension a call that ``repeated`` keeps; whether it can be."""
    if kept is None or kept.packing is None or not kept.lessons_left:
        return False
    packing = kept.packing
    kept.lessons_left -= 1
    fresh = tuple(
        ((shape, strides), {"dtype": kind, "device": kept.device})
        for shape, strides, kind in kept.fresh
    )
    replace = driver.address("cuTensorMapReplaceAddress") if packing.maps else 0
    try:
        return calls.keep(
            *(tensors, kept.sizes, kept.index, packing.context),
            *(driver.address("cuLaunchKernelEx"), packing.launch.handle, replace),
            *(packing.launch.config_bytes, packing.parameters(), fresh, kept),
        )
    except ValueError:
        return False
