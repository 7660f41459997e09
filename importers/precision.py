"""How precise PyTorch has products of f32 be: whether it may multiply them in TF32.

A user says so by ``torch.set_float32_matmul_precision("high")``, by
``torch.backends.cuda.matmul.allow_tf32`` and ``torch.backends.cudnn.allow_tf32``, or by
``fp32_precision`` of the same places.  An importer reads what holds when it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from polyc.dialects.common import precision
from polyc.dialects.common.diagnostic import PolycError
from polyc.importers.registry import library


@dataclass(frozen=True)
class Precisions:
    """The precision of products of matrices and of convolutions; None where they are exact."""

    products: str | None = None
    convolutions: str | None = None


def precisions(asked: str | None = None) -> Precisions:
    """Those that PyTorch has now, or what is asked for, of both.

    ``asked`` is ``"tf32"``, ``"f32x3"`` or ``"f32"``; another name raises PolycError
    ``BadArgument``.
    """
    if asked is not None:
        if (why := precision.fault(asked)) is not None:
            raise PolycError("BadArgument", why)
        return Precisions(asked, asked)
    backends: Any = library("torch", "torch").backends
    return Precisions(
        _permitted(backends.cuda.matmul),
        _permitted(getattr(backends.cudnn, "conv", backends.cudnn)),
    )


def _permitted(place: Any) -> str | None:
    """What a place of ``torch.backends`` permits.

    ``fp32_precision`` is asked first: PyTorch raises where ``allow_tf32`` is read after a user has
    written the newer setting.
    """
    try:
        known = getattr(place, "fp32_precision", None)
        tf32 = known == "tf32" if known is not None else bool(place.allow_tf32)
    except (RuntimeError, AttributeError):
        return None  # settings that contradict each other are PyTorch's to tell
    return precision.TF32 if tf32 else None
