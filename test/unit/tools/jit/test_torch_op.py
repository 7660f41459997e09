"""``polyc.torch_op``, with a stand-in of PyTorch's library of operators."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.tools.jit import torch_op


@polyc.jit(device="cpu")
def halves(x: Tensor["M", "2 * K", "f32"], y: Tensor["K", "f32"]):
    k = y.shape[0]
    return {"a": x[:, :k] + y, "b": x[:, k:].sum(1).cast("f16")}


class Fake:
    """A tensor without numbers."""

    def __init__(self, shape: Any, dtype: Any = None) -> None:
        self.shape, self.dtype = tuple(shape), dtype

    def new_empty(self, shape: Any, dtype: Any) -> "Fake":
        return Fake(shape, dtype)


def test_an_operator_with_its_fake(monkeypatch: pytest.MonkeyPatch):
    made: dict[str, Any] = {}
    ops = SimpleNamespace()

    def define(name: str, schema: str) -> None:
        made["schema"] = name + schema

    def impl(name: str, kinds: Any) -> Any:
        return lambda run: setattr(ops, name.partition("::")[2], run)

    torch = SimpleNamespace(
        library=SimpleNamespace(
            define=define,
            impl=impl,
            register_fake=lambda name: lambda fake: made.update(fake=fake),
        ),
        ops=SimpleNamespace(polyc=ops),
        float32="float32",
        float16="float16",
        Tensor=Fake,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    op = torch_op.torch_op(halves)
    assert made["schema"] == "polyc::halves(Tensor x, Tensor y) -> (Tensor, Tensor)"
    first, second = made["fake"](Fake((5, 8)), Fake((4,)))
    assert (first.shape, first.dtype) == ((5, 4), "float32")
    assert (second.shape, second.dtype) == ((5,), "float16")
    x, y = np.ones((5, 8), np.float32), np.ones(4, np.float32)
    a, b = op(x, y)
    assert a.shape == (5, 4) and b.tolist() == [4] * 5


def test_without_torch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(
        torch_op, "import_module", lambda name: (_ for _ in ()).throw(ImportError("no"))
    )
    with pytest.raises(PolycError, match="NoTorch"):
        polyc.torch_op(halves)
