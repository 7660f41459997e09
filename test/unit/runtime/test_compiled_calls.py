"""The compiled backend of calls, against calls that are checked each time: the same launches."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_int, c_int32, c_void_p, cast
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import compiled_calls
from polyc.runtime.program import ALLOCATING, PLAIN, Program
from polyc.test.support.fake_cuda import SECOND, FakeCuda, primary
from polyc.test.support.fast_extension import FakeCudaInC, FakeTorchInC, extension
from polyc.test.support.gpu_producers import FakeTorch, Tensor
from polyc.test.support.in_place import in_place
from polyc.test.unit.runtime.test_repeated import BASE, STEPS, Both

PARAMETERS = {"wide": 5, "narrow": 3, "one": 2, "two": 3}


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The extension, installed."""
    found = extension()
    monkeypatch.setitem(sys.modules, "polyc_fast", found)
    compiled_calls.extension.cache_clear()
    yield found
    compiled_calls.extension.cache_clear()


@pytest.fixture
def cuda(fast: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCuda]:
    yield from in_place(FakeCudaInC(PARAMETERS), monkeypatch)


@pytest.fixture
def torch(cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> FakeTorchInC:
    made = FakeTorchInC(cuda)
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


class Compiled(Both):
    """The quick program's calls go to the extension first; ``known`` counts those that it knew."""

    def __init__(self, ctx: Context, cuda: FakeCuda, torch: FakeTorch) -> None:
        super().__init__(ctx, cuda, torch)
        self.asked: list[bool] = []

    def run(
        self, job: Program, inputs: list[Tensor], out: list[Tensor] | None, told: dict[str, Any]
    ) -> list[object]:
        if job is self.quick and not told:
            kind = ALLOCATING if out is None else PLAIN
            given = (tuple(inputs),) if out is None else (tuple(inputs), tuple(out))
            if (found := job.repeated(kind).compiled(*given)) is not None:
                return list(found)
        return super().run(job, inputs, out, told)


@pytest.fixture
def both(ctx: Context, cuda: FakeCuda, torch: FakeTorchInC, monkeypatch: Any) -> Compiled:
    made = Compiled(ctx, cuda, torch)
    learn = compiled_calls.learn

    def learning(*given: Any) -> bool:
        made.asked.append(learn(*given))
        return made.asked[-1]

    monkeypatch.setattr(compiled_calls, "learn", learning)
    return made


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEPS, min_size=2, max_size=12))
@example([BASE, BASE | {"places": ((0, 0), (0, 0), (1, 0))}])
@example([BASE, BASE | {"places": ((0, 4), (0, 0), (0, 0))}, BASE])
@example([BASE, BASE | {"fault": "launch"}, BASE | {"current": SECOND}, BASE | {"stream": 8}])
@example([BASE, BASE | {"given": False}, BASE | {"given": False, "fault": "negated"}])
def test_random_calls_are_those_that_are_checked(
    both: Compiled, steps: list[dict[str, Any]]
) -> None:
    for step in steps:
        both.step(step)


def run(both: Compiled, step: dict[str, Any]) -> Any:
    return both.outcome(both.quick, step, both.tensors(step))


@pytest.mark.parametrize("way", [{}, {"given": False}])
def test_a_call_is_learned_once_and_python_is_left_out(
    both: Compiled, way: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    base = BASE | way
    run(both, base)
    assert not both.asked  # it was checked
    run(both, base)
    assert both.asked == [True]
    monkeypatch.setattr(both.quick.__class__, "run", None)
    for step in [{"stream": 8}, {"places": ((2, 0), (0, 0), (2, 0))}, {}] * 3:
        error, launches = run(both, base | step)
        assert error is None and len(launches) == 1
    assert both.asked == [True]


def test_what_it_cannot_hold_is_not_told_for_ever(both: Compiled) -> None:
    """Several launches are for Python, and so is a call that runs in another context."""
    for _ in range(20):
        run(both, BASE | {"n": 3})
    assert both.asked == [False] * 19
    both.asked.clear()
    for _ in range(30):
        run(both, BASE | {"current": SECOND})
    assert both.asked.count(True) <= 8


def test_a_tensor_that_is_negated_later_is_not_taken(both: Compiled) -> None:
    """It is asked again where its memory has moved, and whatever is another tensor is asked."""
    tensors = both.tensors(BASE)
    for _ in range(3):
        both.outcome(both.quick, BASE, tensors)
    others = both.tensors(BASE | {"fault": "negated"})
    error, launches = both.outcome(both.quick, BASE, others)  # pyright: ignore
    assert error is None or "neg" in error
    assert launches == both.outcome(both.checked, BASE, others)[1]  # pyright: ignore
    tensors[0].requires_grad = True
    before = len(both.asked)
    both.outcome(both.quick, BASE, tensors)
    assert not both.asked[before:]


def test_a_tensor_that_is_not_exported_goes_to_python(both: Compiled, torch: FakeTorchInC) -> None:
    tensors = both.tensors(BASE)
    for _ in range(3):
        both.outcome(both.quick, BASE, tensors)
    torch.refuses.add(id(tensors[1]))
    found: Any = both.outcome(both.quick, BASE, tensors)
    assert found[0] is None and len(found[1]) == 1


def test_it_forgets_with_the_program_and_keeps_no_tensor(
    ctx: Context, cuda: FakeCuda, torch: FakeTorchInC, both: Compiled
) -> None:
    for way in ({}, {"given": False}):
        for _ in range(3):
            run(both, BASE | way)
    both.old.clear()
    assert both.asked == [True, True]
    gc.collect()
    assert not any(isinstance(one, torch.Tensor) for one in gc.get_objects())
    both.quick.close()
    assert not cuda.loaded
    run(both, BASE)
    assert cuda.loaded
    del both.quick
    assert not cuda.loaded


def test_more_calls_than_it_keeps(both: Compiled) -> None:
    x = both.memory[0, 0, 0]
    for _ in range(2):
        for n in range(4, 4 * 80, 4):
            step = BASE | {"m": 1, "n": n}
            made = both.outcome(both.quick, step, both.tensors(step))
            assert made[1][0][4][0] == x  # pyright: ignore


@pytest.mark.parametrize("version", [0, 2])
def test_another_exchange_interface_is_left_alone(cuda: FakeCuda, fast: Any, version: int) -> None:
    torch = FakeTorchInC(cuda, version)
    assert compiled_calls.made(torch, 1, 1, True, 256, max, max) is None
    assert compiled_calls.made(FakeTorch(cuda), 1, 1, True, 256, max, max) is None
    assert compiled_calls.made(FakeTorchInC(cuda), fast.TENSORS, 1, True, 256, max, max) is None


def test_calls_that_are_described_wrongly_are_refused(
    fast: Any, cuda: FakeCuda, torch: FakeTorchInC
) -> None:
    calls = compiled_calls.made(torch, 1, 0, True, 256, max, max)
    x = (torch.zeros(4),)
    fine: list[Any] = [x, (16,), 0, 1, 1, 1, 0, bytes(56), (), (), None]
    assert calls.keep(*fine)
    wrong: list[tuple[int, Any]] = [(7, bytes(55)), (1, (16, 16)), (8, ((1, 1, 0, b""),))]
    wrong += [(8, ((2, 0, 0, b"short"),)), (8, ((2, 0, 0, bytes(128)),) * 33)]
    wrong += [(8, ((0, 0, 0, b""),) * 600), (1, ("x",)), (8, (1,))]
    for at, value in wrong:
        with pytest.raises((ValueError, TypeError)):
            calls.keep(*[value if i == at else one for i, one in enumerate(fine)])
    assert not calls.keep((object(),), *fine[1:])
    with pytest.raises(TypeError):
        calls.run()
    tensor: Any = torch.Tensor
    asks = torch.empty((), "float32", "cpu").is_neg
    kind = tensor, tensor, tensor.__dlpack_c_exchange_api__, tensor.requires_grad, asks
    with pytest.raises(ValueError):
        fast.Calls(fast.TENSORS, 1, True, 256, *kind, max, max, max, 1)
    with pytest.raises(TypeError):
        fast.Calls(1, 1, True, 256, *kind[:3], 5, asks, max, max, max, 1)
    with pytest.raises(TypeError):
        fast.Calls(1, 1, True, 256, *kind[:4], max, max, max, max, 1)


def test_without_the_extension_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyc.tools.jit.backends import chosen

    for found in (None, SimpleNamespace(VERSION=0)):
        monkeypatch.setitem(sys.modules, "polyc_fast", found)
        compiled_calls.extension.cache_clear()
        assert chosen(None, None).name == "cuda" == chosen("auto", "cuda").name
        with pytest.raises(PolycError, match="install polyc\\[fast\\], or leave"):
            chosen("compiled", None)
    compiled_calls.extension.cache_clear()


def test_with_the_extension_it_is_the_backend(fast: Any) -> None:
    from polyc.tools.jit.backends import chosen

    assert chosen(None, None).name == "compiled" == chosen("compiled", "cuda").name
    assert chosen("cuda", None).name == "cuda" and chosen(None, "cpu").name == "cpu"
    with pytest.raises(PolycError, match="does not run on device 'cpu'"):
        chosen("compiled", "cpu")


def test_a_context_that_is_current_is_asked_for(both: Compiled) -> None:
    for current in (primary(0), None, primary(1), SECOND):
        for _ in range(2):
            both.step(BASE | {"current": current})


_ = CFUNCTYPE, PYFUNCTYPE, c_int, c_int32, c_void_p, cast
