"""Attention whose queries are computed in its kernel, or stored before it, whatever pays.

``index-to-region`` asks the model of time; programs that are compiled inside of ``fused()`` or of
``stored()`` are held to one of the two.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from xdsl.ir import SSAValue

from polyc.dialects import tiny
from polyc.lowering.index_to_region.contractions import Products
from polyc.lowering.index_to_region.kernels import Kernels
from polyc.lowering.index_to_region.reductions import Reductions


def _as_they_are(_: Reductions, kernels: Kernels) -> Kernels:
    return kernels


def _none(_: Products, first: SSAValue, maxima: Sequence[tiny.ReduceOp]) -> None:
    return None


@contextmanager
def fused() -> Generator[None]:
    """Queries are computed in the kernel wherever a family of products takes it so."""
    with patch.object(Reductions, "run", _as_they_are):
        yield


@contextmanager
def stored() -> Generator[None]:
    """Queries lie in memory, as keys do."""
    with patch.object(Products, "queries_of", _none):
        yield
