"""Random models under ``torch.compile`` and as exported programs, beside PyTorch itself."""

# pyright: basic

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc import PolycError  # noqa: E402
from polyc.test.support.random_torch import AROUND, model_of  # noqa: E402
from polyc.tools.jit.torch_backend import Report, torch_backend  # noqa: E402

SEEDS = 36


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def flat(found: Any) -> Iterator[Any]:
    if isinstance(found, list | tuple):
        for one in found:
            yield from flat(one)
    elif isinstance(found, dict):
        for key, value in found.items():
            yield key
            yield from flat(value)
    else:
        yield found


def assert_same(found: Any, wanted: Any) -> None:
    """The same results, tensors up to rounding."""
    one, other = list(flat(found)), list(flat(wanted))
    assert len(one) == len(other)
    for got, right in zip(one, other, strict=True):
        if isinstance(right, torch.Tensor):
            assert got.shape == right.shape and got.dtype == right.dtype
            assert torch.allclose(got, right, atol=2e-4, rtol=1e-3, equal_nan=True)
        else:
            assert got == right and type(got) is type(right)


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_model_compiled(seed: int):
    """Also what it writes to, called three times; every third one with open sizes."""
    case, reports = model_of(seed), list[Report]()
    open_sizes = seed % 3 == 0
    other = copy.deepcopy(case.model)
    options = {"report": lambda one: one in reports or reports.append(one)}
    model = torch.compile(
        case.model, backend=torch_backend, dynamic=open_sizes or None, options=options
    )
    for batch in (None, 4 if open_sizes else None, None):
        x = case.input(batch)
        y = copy.deepcopy(x)
        assert_same(model(x, **case.kwargs), other(y, **case.kwargs))
        assert torch.allclose(x, y, atol=1e-5)
    for (name, one), (_, two) in zip(
        case.model.named_buffers(), other.named_buffers(), strict=True
    ):
        assert torch.allclose(one.float(), two.float(), atol=1e-4), name
    # A graph, and its other half where it breaks: nothing is compiled again for other sizes.
    assert len(reports) <= 1 + (case.model.around == "breaks")
    assert not any(one.given_back for one in reports)


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_random_model_exported(seed: int):
    case = model_of(seed)
    case.model.eval()
    if case.model.around == "breaks":
        case.model.around = ""  # an export has no breaks
    x = case.input()
    try:
        exported = torch.export.export(case.model, (x.clone(),), dict(case.kwargs))
        imported = polyc.from_exported(exported)
    except PolycError as error:
        # What writes to buffers, and what has no converter, is one diagnostic.
        assert error.kind == "UnsupportedModel"
        assert case.model.around in AROUND[1:] or "mutation of x" in str(error)
        return
    named = [one for one in case.kwargs.values() if isinstance(one, torch.Tensor)]
    found = polyc.compile(imported, device="cpu")(x.contiguous(), *named)
    wanted = [one for one in flat(case.model(x, **case.kwargs)) if isinstance(one, torch.Tensor)]
    several = list(found) if isinstance(found, tuple | list) else [found]
    several = [one for one in several if one.ndim or one.is_floating_point()]
    wanted = [one for one in wanted if one.ndim or one.is_floating_point()]
    assert_same(several[: len(wanted)], wanted[: len(several)])
