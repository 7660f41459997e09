"""A compiled program as an operator of PyTorch, which ``torch.compile`` takes without a break."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.views import LIBRARY_NAMES
from polyc.tools.jit.compiled import Compiled
from polyc.tools.jit.function import Jit


def torch_op(program: Compiled | Jit, name: str | None = None) -> Callable[..., Any]:
    """Register ``program`` as ``torch.ops.polyc.<name>``, and return that operator.

    It has a fake function, which says the outputs' shapes and types without running anything, also
    for sizes that PyTorch does not know yet; nothing is written to its inputs, and it has no
    gradient.  A jitted function is one whose annotations say all of its tensors.  Raises PolycError
    ``NoTorch`` where PyTorch is not installed.
    """
    if "torch" not in sys.modules:
        try:
            import_module("torch")
        except ImportError as error:
            raise PolycError(
                "NoTorch", f"PyTorch cannot be imported ({error}), and torch_op registers with it"
            ) from None
    torch: Any = sys.modules["torch"]
    made = program.compiled() if isinstance(program, Jit) else program
    signature = made.signature
    inputs = signature.names[: signature.num_inputs]
    count = len(signature.names) - signature.num_inputs
    given = ", ".join(f"Tensor {one}" for one in inputs)
    outputs = "Tensor" if count == 1 else "(" + ", ".join(["Tensor"] * count) + ")"
    label = f"polyc::{name or made.name}"
    torch.library.define(label, f"({given}) -> {outputs}")

    def run(*tensors: Any) -> Any:
        found = made(*tensors)
        if isinstance(found, dict):
            return tuple(cast("dict[str, Any]", found).values())
        return tuple(cast("list[Any]", found)) if isinstance(found, list) else found

    def fake(*tensors: Any) -> Any:
        found = tuple(
            tensors[0].new_empty(shape, dtype=getattr(torch, LIBRARY_NAMES[element]))
            for shape, element in _fresh(made, tensors)
        )
        return found[0] if count == 1 else found

    torch.library.impl(label, ("cpu", "cuda"))(run)
    torch.library.register_fake(label)(fake)
    return getattr(torch.ops.polyc, label.partition("::")[2])


def _fresh(made: Compiled, tensors: Sequence[Any]) -> list[tuple[list[Any], str]]:
    """The outputs' shapes, which may be PyTorch's symbols, by those of the inputs."""
    signature = made.signature
    values: dict[str, Any] = {}
    for dims, tensor in zip(signature.shapes, tensors, strict=False):
        for dim, size in zip(dims, tensor.shape, strict=True):
            if dim.symbols() == (str(dim),):
                values.setdefault(str(dim), size)
    return signature.fresh(values)
