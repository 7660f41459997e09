"""Modules of PyTorch that no issue, benchmark or library of models has, by fields."""

from __future__ import annotations

from polyc.test.support.novel import (
    filters,
    graphs,
    language,
    losses,
    pools,
    science,
    sequence,
    tensors,
    vision,
)
from polyc.test.support.novel.registry import Novel, names

FIELDS = (filters, graphs, language, losses, pools, science, sequence, tensors, vision)
"""The files of modules."""


def corpus() -> list[Novel]:
    """All modules, by name."""
    return [Novel(name) for name in names()]
