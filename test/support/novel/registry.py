"""Modules that nobody named: each with a small size, for playback, and one as it is used.

A module is a class whose ``__init__`` and ``inputs`` take the same sizes.  It is a problem such as
those of KernelBench are (``test/support/kernelbench.py``), so that what plans, models and races
these does so with it; and a case of the zoo (``test/support/zoo.py``) at its small size.
"""

# pyright: basic

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from polyc.importers.registry import library
from polyc.test.support.zoo import Case

torch: Any = library("torch", "torch")


class One(torch.nn.Module):
    """What takes one array of all its sizes, and has no state."""

    def __init__(self, *sizes):
        super().__init__()

    @staticmethod
    def inputs(*sizes: Any) -> list[Any]:
        return [normal(*sizes)]


class Rows(torch.nn.Module):
    """What takes b, t and d, its first sizes."""

    @staticmethod
    def inputs(b: int, t: int, d: int, *_: Any) -> list[Any]:
        return [normal(b, t, d)]


_KINDS: dict[str, tuple[Any, tuple[Any, ...], tuple[Any, ...]]] = {}


@dataclass(frozen=True)
class Novel:
    """A module by its name, ``vision/squeeze_excite``."""

    name: str

    def module(self, smaller: Any = None) -> Any:
        """What a problem's file has: ``Model`` and what makes its inputs; at small sizes if
        ``smaller`` is given, whatever it is."""
        kind, small, real = _KINDS[self.name]
        sizes = real if smaller is None else small
        made: Any = types.ModuleType(self.name)
        made.Model = kind
        made.get_init_inputs = lambda: list(sizes)
        made.get_inputs = lambda: list(kind.inputs(*sizes))
        return made

    def case(self) -> Case:
        """The module at its small size."""

        def make() -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
            module = self.module(True)
            return module.Model(*module.get_init_inputs()).eval(), tuple(module.get_inputs()), {}

        return Case(self.name, make, loose=getattr(_KINDS[self.name][0], "LOOSE", 0.0))


def novel(name: str, small: tuple[Any, ...], real: tuple[Any, ...]) -> Callable[[Any], Any]:
    """A class of ``torch.nn.Module`` as a module of the corpus; ``real`` is as it is used.

    One that computes in a narrower type than its inputs' says what that may be off, ``LOOSE``.
    """

    def keep(kind: Any) -> Any:
        if name in _KINDS:
            raise ValueError(f"two modules are called {name}")
        _KINDS[name] = (kind, small, real)
        return kind

    return keep


def names() -> list[str]:
    """The names of all, in order."""
    return sorted(_KINDS)


def normal(*shape: int, dtype: Any = None) -> Any:
    """Numbers of a normal distribution."""
    return torch.randn(*shape, dtype=dtype)


def below(most: int, *shape: int) -> Any:
    """Integers from 0 to ``most``, without it."""
    return torch.randint(0, most, shape)
