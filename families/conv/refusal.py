"""What is said of what is read in windows, but not as an implicit GEMM takes it."""

from __future__ import annotations

from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.families.family import Recognised
from polyc.rewriting.region.products import Product, unsupported

WAY_OUT = "an implicit GEMM takes an image [N, H, W, C] and a filter [F, R, S, C]"


def refused(product: Product, why: str, at: Operation) -> PolycError:
    """The refusal, with the way out."""
    return unsupported(product.kernel, why, WAY_OUT, at, Recognised)
