"""Converters of a model's ops, by the kind of source and the op's name, and what has none.

A converter says one op by what ``polyc`` offers over values.  It is called with the op's arguments,
tensors as ``Value``, while the graph is under construction, and returns a value, or a sequence of
them.  A user registers one likewise, also in place of one that is there:

    @polyc.converter("torch", "my_library.scaled.default")
    def scaled(x, factor):
        return x * factor

How arguments are passed is the importer's to say: ``importers/torch.py``, ``importers/onnx.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NoReturn, TypeVar

from polyc.dialects.common.diagnostic import Place, PolycError

Converter = Callable[..., Any]
"""Says one op of a model: see above."""

C = TypeVar("C", bound=Converter)

_CONVERTERS: dict[str, dict[str, Converter]] = {}


def converter(source: str, *names: str) -> Callable[[C], C]:
    """Decorate what says the ops ``names`` of models from ``source``: ``"torch"`` or ``"onnx"``.

    The one that is registered last is asked.  Raises PolycError ``Usage`` without a name.
    """
    if not names or not all(names) or not source:
        raise PolycError(
            "Usage",
            'converter takes a kind of source and names of ops, such as converter("torch", '
            '"aten.add.Tensor")',
        )

    def register(function: C) -> C:
        _CONVERTERS.setdefault(source, {}).update(dict.fromkeys(names, function))
        return function

    return register


def converter_of(source: str, *names: str) -> Converter | None:
    """What says an op: the converter of the first of its ``names`` that has one, or None."""
    known = _CONVERTERS.get(source, {})
    return next((known[name] for name in names if name in known), None)


def converters(source: str) -> Mapping[str, Converter]:
    """All converters for models from ``source``, by the names of their ops."""
    return dict(_CONVERTERS.get(source, {}))


def library(name: str, extra: str) -> Any:
    """The module ``name`` of the library that reads a kind of model.

    Raises PolycError ``NoImporter`` where it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise PolycError(
            "NoImporter",
            f"{name} cannot be imported ({error}), and reads models of its kind; install "
            f"polyc[{extra}]",
        ) from None


def bad_model(what: str, why: str, place: Place | None = None) -> NoReturn:
    """Refuse a model that is not what its format has, PolycError ``BadModel``."""
    raise PolycError("BadModel", f"{what} {why}", place)


@dataclass(frozen=True)
class Fault:
    """An op of a model that cannot be said, where it stands, and why: None without a converter."""

    op: str
    node: str
    place: Place | None = None
    why: str | None = None

    @property
    def where(self) -> str:
        """The node, and the line of the model's source where that is known."""
        return self.node if self.place is None else f"{self.node} ({self.place})"


class Refused(PolycError):
    """``UnsupportedModel``: a model with ``ops``, by their names, that cannot be said."""

    ops: Sequence[str] = ()


MOST_NODES = 8
"""Nodes of one op that a note names."""


class Faults:
    """What an import has found that cannot be said; it goes on, to find all of it."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.found: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self.found)

    def missing(
        self, op: str, node: str, place: Place | None = None, why: str | None = None
    ) -> None:
        """No converter says ``op``, which stands at ``node``."""
        self.found.append(Fault(op, node, place, why))

    def refused(self, op: str, node: str, error: PolycError, place: Place | None = None) -> None:
        """The converter of ``op`` refuses how ``node`` has it."""
        self.found.append(Fault(op, node, place or error.place, f"{error.kind}: {error.message}"))

    def check(self) -> None:
        """Raise one PolycError ``UnsupportedModel`` with all that was found, if there is any."""
        if self.found:
            self.fail()

    def fail(self) -> NoReturn:
        """Raise it: the ops in the sentence, a note for each, with where it stands and why not."""
        groups: dict[tuple[str, str | None], list[Fault]] = {}
        for fault in self.found:
            groups.setdefault((fault.op, fault.why), []).append(fault)
        ops = list(dict.fromkeys(fault.op for fault in self.found))
        plural = "" if len(ops) == 1 else "s"
        error = Refused(
            "UnsupportedModel",
            f"{self.model} has {len(ops)} op{plural} that cannot be said: {', '.join(ops)}; "
            "register a converter for what is missing, or keep these ops outside of the model",
            next((f.place for f in self.found if f.place is not None), None),
            notes=[_note(op, why, faults) for (op, why), faults in groups.items()],
        )
        error.ops = tuple(ops)
        raise error


def _note(op: str, why: str | None, faults: Sequence[Fault]) -> str:
    listed = ", ".join(fault.where for fault in faults[:MOST_NODES])
    if len(faults) > MOST_NODES:
        listed += f" and {len(faults) - MOST_NODES} more"
    return f"{op} at {listed}: {why or 'no converter'}"
