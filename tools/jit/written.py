"""A program as it is written: what calls check, and its module where somebody asks for that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from polyc.runtime import kept
from polyc.runtime.described import read_signature, signature_json
from polyc.runtime.signature import HostSignature

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.ir import Operation

Returned = Literal["one", "tuple", "list", "dict"]
"""How a call returns its outputs."""


@dataclass(frozen=True)
class Declared:
    """What is known of a program without its module.

    ``ir`` is the hash of its canonical text.  ``tiles`` says that it is a ``gpu.module``, for
    ``arch``.
    """

    ir: str
    signature: HostSignature
    tiles: bool
    arch: str | None
    returns: Returned | None
    keys: tuple[str, ...]

    def json(self) -> Mapping[str, Any]:
        """As an entry on disk has it."""
        return {
            "ir": self.ir,
            "signature": signature_json(self.signature),
            "tiles": self.tiles,
            "arch": self.arch,
            "returns": self.returns,
            "keys": list(self.keys),
        }

    @staticmethod
    def of_json(data: Mapping[str, Any]) -> Declared:
        """Raises ValueError, TypeError and LookupError for anything else."""
        ir, arch, tiles = data["ir"], data["arch"], data["tiles"]
        returns, keys = data["returns"], data["keys"]
        known = (None, "one", "tuple", "list", "dict")
        if not isinstance(ir, str) or not isinstance(tiles, bool) or returns not in known:
            raise TypeError("it is no program's declaration")
        if arch is not None and not isinstance(arch, str):
            raise TypeError(f"{arch!r} is no architecture")
        if not isinstance(keys, list) or not all(isinstance(k, str) for k in cast("Any", keys)):
            raise TypeError("the outputs' keys are texts")
        signature = HostSignature(**read_signature(data["signature"]))
        return Declared(ir, signature, tiles, arch, returns, tuple(cast("list[str]", keys)))


class Written:
    """A program: ``declared``, and its op in a module that has no other, made when asked for.

    ``captured`` are tensors with numbers that it was traced with, by the names of their entries.
    Any number of threads may ask it.
    """

    def __init__(
        self,
        declared: Declared,
        make: Callable[[], tuple[Operation, ModuleOp]],
        captured: Mapping[str, object] | None = None,
    ) -> None:
        self.declared = declared
        self.captured = captured or {}
        self._make = make
        self._made: tuple[Operation, ModuleOp] | None = None
        self._lock = threading.RLock()

    @property
    def op(self) -> Operation:
        """The program.  Raises what making it does."""
        return self._both()[0]

    @property
    def module(self) -> ModuleOp:
        """The module that has it alone, which is not to be changed."""
        return self._both()[1]

    def _both(self) -> tuple[Operation, ModuleOp]:
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


def remembered(name: str | None, make: Callable[[], Written]) -> Written:
    """The program of a source's entry; where there is none, the one that ``make`` makes.

    A program with tensors that it captured has no entry: every process traces it.  Raises what
    ``make`` does.
    """
    if (data := kept.load(name)) is not None:
        try:
            declared = Declared.of_json(data)
        except (ValueError, TypeError, LookupError) as error:
            kept.refused(str(name), error)
        else:

            def both() -> tuple[Operation, ModuleOp]:
                found = make()
                return found.op, found.module

            return Written(declared, both)
    found = make()
    if found.captured:
        return found  # no entry has tensors
    kept.save(name, found.declared.json())
    return found
