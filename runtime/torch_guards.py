"""One question to PyTorch whether tensors are like those before, in the place of seven for each.

PyTorch guards what it has compiled by ``TensorGuards``, which compare class, dispatch keys, type,
device, shape, strides and gradient of several tensors in one call.  They are no public interface:
they are used with versions that were tried, and where they tell apart what they must.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

TRIED = ("2.11.",)
"""Versions of PyTorch with which this was tried; with another, attributes are read one by one."""

Check = Callable[..., bool]
"""Whether tensors are like those that the check was made of."""

Maker = Callable[[Sequence[Any]], Check]

_known: tuple[Any, Maker | None] = (None, None)


def maker(torch: Any) -> Maker | None:
    """What makes a check of tensors; None where this PyTorch has nothing that can be trusted."""
    global _known
    known, made = _known
    if known is not torch:
        made = found_where_tried(torch, _maker)
        _known = (torch, made)
    return made


Found = TypeVar("Found")


def found_where_tried(torch: Any, find: Callable[[Any], Found | None]) -> Found | None:
    """What ``find`` finds inside of a PyTorch of a version that was tried; None where it is another
    one, or has something else there.
    """
    if not str(getattr(torch, "__version__", "")).startswith(TRIED):
        return None
    try:
        return find(torch)
    except Exception:
        return None


def _maker(torch: Any) -> Maker | None:
    kind = torch._C._dynamo.guards.TensorGuards

    def check_of(tensors: Sequence[Any]) -> Check:
        # Without these two it compares no shape, and may end the process.
        sizes = [list(one.shape) for one in tensors]
        strides = [list(one.stride()) for one in tensors]
        made = kind(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        return made.check

    return check_of if _tells_apart(torch, check_of) else None


def _tells_apart(torch: Any, check_of: Maker) -> bool:
    """Whether a check passes what is alike, and refuses whatever differs in one respect."""
    plain = torch.zeros(4, 6, device="cpu", dtype=torch.float32)
    other = torch.zeros(3, device="cpu", dtype=torch.float16)
    check = check_of([plain, other])
    unlike = [
        torch.zeros(3, 6, device="cpu", dtype=torch.float32),
        torch.zeros(4, 7, device="cpu", dtype=torch.float32),
        torch.zeros(24, device="cpu", dtype=torch.float32),
        torch.zeros(6, 4, device="cpu", dtype=torch.float32).t(),
        torch.zeros(4, 12, device="cpu", dtype=torch.float32)[:, :6],
        plain.to(torch.int32),
        plain.to("meta"),
        torch._neg_view(plain),
        plain.clone().requires_grad_(),
        torch.nn.Parameter(plain, requires_grad=False),
        plain.numpy(),
    ]
    return (
        check(plain.clone(), other.clone()) is True
        and all(check(one, other) is False for one in unlike)
        and check(plain, plain) is False
    )
