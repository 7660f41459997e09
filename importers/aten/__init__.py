"""Converters of ATen's ops, a file a kind."""

from polyc.importers.aten import (
    creation,
    indexing,
    movements,
    networks,
    pointwise,
    products,
    reductions,
)

FILES = (creation, indexing, movements, networks, pointwise, products, reductions)
"""The files with converters, which are registered when these are imported."""
