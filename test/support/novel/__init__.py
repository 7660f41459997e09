"""Modules of PyTorch that no issue, benchmark or library of models has, by fields."""

from __future__ import annotations

from polyc.test.support.novel import (
    detection,
    diffusion,
    filters,
    finance,
    graphs,
    heads,
    language,
    layers,
    losses,
    physics,
    pools,
    science,
    sequence,
    speech,
    tensors,
    views,
    vision,
)
from polyc.test.support.novel.registry import Novel, names

FIELDS = (
    *(detection, diffusion, filters, finance, graphs, heads, language, layers),
    *(losses, physics, pools, science, sequence, speech, tensors, views, vision),
)
"""The files of modules."""


def corpus() -> list[Novel]:
    """All modules, by name."""
    return [Novel(name) for name in names()]
