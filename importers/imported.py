"""What an importer gives: a module, and the parameters that it names, apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from polyc.dialects.frontend import GraphOp


@dataclass(frozen=True)
class Imported:
    """A model as a ``frontend.graph`` in ``module``, with its tensors by name in ``parameters``.

    ``inputs`` and ``outputs`` are the model's names, in the order of the graph's, which has names
    that IR allows.  ``polyc.compile(imported)`` gives what is called.
    """

    module: ModuleOp
    parameters: Mapping[str, Any]
    inputs: Sequence[str] = field(default=())
    outputs: Sequence[str] = field(default=())

    @property
    def graph(self) -> GraphOp:
        """The model's graph."""
        from polyc.dialects.frontend import GraphOp

        return next(op for op in self.module.ops if isinstance(op, GraphOp))

    def donated(self) -> Mapping[str, Any]:
        """Its parameters, of which it has none afterwards."""
        found = dict(self.parameters)
        if isinstance(self.parameters, dict):
            self.parameters.clear()
        return found

    @property
    def text(self) -> str:
        """The module's text, which ``polyc run`` and ``polyc compile`` read."""
        from io import StringIO

        from xdsl.printer import Printer

        out = StringIO()
        Printer(stream=out).print_op(self.module)
        return out.getvalue() + "\n"

    def save(self, path: str | Path, params: str | Path | None = None) -> None:
        """Write the module's text, and its parameters as a safetensors file where one is named.

        Raises PolycError for a tensor that cannot be written, and OSError.
        """
        from polyc.runtime.safetensors import write_params

        if params is not None:
            write_params(params, self.parameters)
        Path(path).write_text(self.text, "utf-8")
