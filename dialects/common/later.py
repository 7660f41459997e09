"""Methods of dataclasses that are compiled when they are first called.

xDSL and polyc define some six hundred dataclasses, and ``dataclasses`` writes, compiles and runs a
text for each of their methods: a third of the time that it takes to import what lowers a program.
Most of those that compare, hash, print or freeze are never called.
"""

from __future__ import annotations

import builtins
import dataclasses
import re
from collections.abc import Callable
from functools import partial
from typing import Any

PACKAGES = ("xdsl", "polyc")
"""Whose classes it is about; those of others are made as ever."""

METHODS = ("__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")

_START = re.compile(r"def __create_fn__\(.*\):\n def (\w+)\(")


def install() -> None:
    """From now on ``dataclasses`` leaves those methods for later, in this process.

    It is for the way in which Python 3.11 and 3.12 write a method, a text each; later ones write
    one for a class, which is made at once.
    """
    if "exec" not in vars(dataclasses):
        dataclasses.exec = _run  # pyright: ignore[reportAttributeAccessIssue]


def _run(text: str, scope: dict[str, Any] | None, into: dict[str, Any]) -> None:
    """What ``dataclasses`` calls in the place of ``exec``."""
    found = _START.match(text)
    known: Any = vars(dataclasses) if scope is None else scope
    package = str(known.get("__name__")).partition(".")[0]
    if found is None or found[1] not in METHODS or package not in PACKAGES:
        builtins.exec(text, known, into)
        return
    into["__create_fn__"] = partial(_later, text, known, found[1])


def _later(text: str, scope: dict[str, Any], name: str, /, **known: Any) -> Callable[..., Any]:
    """A method that is made, and put in its own place, by the first call."""
    made: list[Callable[..., Any]] = []

    def method(self: object, *rest: object) -> Any:
        if not made:
            into: dict[str, Any] = {}
            builtins.exec(text, scope, into)
            found = into["__create_fn__"](**known)
            found.__qualname__ = method.__qualname__
            for kind in type(self).__mro__:
                if vars(kind).get(name) is method:
                    setattr(kind, name, found)
            made.append(found)
        return made[0](self, *rest)

    method.__name__ = name
    return method
