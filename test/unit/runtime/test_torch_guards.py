"""PyTorch's guards are used where they were tried, and tell apart what they must."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from polyc.runtime import torch_guards
from polyc.runtime.views import row_major


class Tensor:
    """A tensor of a PyTorch on the host, as far as the trial of the guards looks at it."""

    def __init__(self, shape: tuple[int, ...], dtype: str, strides: tuple[int, ...] | None = None):
        self.shape, self.dtype, self.strides = shape, dtype, strides or row_major(shape)
        self.device, self.negated, self.requires_grad, self.kind = "cpu", False, False, "Tensor"

    def but(self, **fields: Any) -> Tensor:
        made = Tensor(self.shape, self.dtype, self.strides)
        made.__dict__.update(self.__dict__ | fields)
        return made

    def stride(self) -> tuple[int, ...]:
        return self.strides

    def t(self) -> Tensor:
        return self.but(shape=self.shape[::-1], strides=self.strides[::-1])

    def __getitem__(self, at: Any) -> Tensor:
        return self.but(shape=(4, 6))

    def to(self, what: str) -> Tensor:
        return self.but(**{"device" if what == "meta" else "dtype": what})

    def clone(self) -> Tensor:
        return self.but()

    def requires_grad_(self) -> Tensor:
        return self.but(requires_grad=True)

    def numpy(self) -> Any:
        return np.zeros(self.shape)


FIELDS = ("shape", "dtype", "strides", "device", "negated", "requires_grad", "kind")


class Guards:
    """Its ``TensorGuards``, which look at ``FIELDS`` but one."""

    blind = ""

    def __init__(
        self, *tensors: Tensor, dynamic_dims_sizes: Any, dynamic_dims_strides: Any
    ) -> None:
        assert dynamic_dims_sizes == [list(one.shape) for one in tensors]
        assert dynamic_dims_strides == [list(one.strides) for one in tensors]
        self.seen = [self.shown(one) for one in tensors]

    def shown(self, one: Any) -> list[Any]:
        return [getattr(one, field, None) for field in FIELDS if field != self.blind]

    def check(self, *tensors: Any) -> bool:
        return self.seen == [self.shown(one) for one in tensors]


def torch(version: str = "2.11.0+cu130", **fields: Any) -> Any:
    def zeros(*shape: int, device: str, dtype: str) -> Tensor:
        return Tensor(shape, dtype)

    def parameter(one: Tensor, requires_grad: bool) -> Tensor:
        return one.but(kind="Parameter", requires_grad=requires_grad)

    def negated(one: Tensor) -> Tensor:
        return one.but(negated=True)

    return SimpleNamespace(
        **{"__version__": version, "float32": "f32", "float16": "f16", "int32": "i32"},
        zeros=zeros,
        nn=SimpleNamespace(Parameter=parameter),
        _neg_view=negated,
        _C=SimpleNamespace(
            _dynamo=SimpleNamespace(guards=SimpleNamespace(TensorGuards=fields.get("kind", Guards)))
        ),
    )


def test_guards_that_tell_everything_apart_are_used() -> None:
    made = torch()
    found = torch_guards.maker(made)
    assert found is not None and torch_guards.maker(made) is found
    plain = Tensor((2, 3), "f32")
    check = found([plain])
    assert check(plain.clone()) and not check(plain.t())


@pytest.mark.parametrize("blind", FIELDS)
def test_guards_that_miss_something_are_not(blind: str) -> None:
    kind = type("Blind", (Guards,), {"blind": blind})
    assert torch_guards.maker(torch(kind=kind)) is None


def test_guards_of_another_version_are_not_tried() -> None:
    def never(*given: Any, **named: Any) -> None:
        raise AssertionError("it may end the process")

    for version in ("2.10.0", "2.110.0", "3.0", ""):
        assert torch_guards.maker(torch(version, kind=never)) is None
    assert torch_guards.maker(SimpleNamespace()) is None


def test_guards_that_are_gone_are_not() -> None:
    def gone(*given: Any, **named: Any) -> None:
        raise TypeError("unexpected keyword argument")

    assert torch_guards.maker(torch(kind=gone)) is None


def test_the_versions_are_written_as_they_are_compared() -> None:
    shape: Callable[[str], Any] = re.compile(r"\d+\.\d+\.").fullmatch
    assert all(shape(one) for one in torch_guards.TRIED)
