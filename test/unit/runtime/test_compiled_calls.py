"""The compiled backend of calls, against calls that are checked each time: the same launches."""

# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import gpu_module_of
from polyc.runtime import compiled_calls, torch_layout
from polyc.runtime.program import ALLOCATING, PLAIN, Program
from polyc.test.support.fake_cuda import SECOND, FakeCuda, primary
from polyc.test.support.fast_extension import LAYOUT, FakeCudaInC, FakeTorchInC, extension
from polyc.test.support.gpu_producers import FakeTorch, Tensor
from polyc.test.support.in_place import in_place
from polyc.test.unit.runtime.test_repeated import BASE, MODULE, SOURCE, STEPS, Both, kept
from polyc.tools.parsing import parse_text

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


@pytest.fixture(params=[False, True], ids=["asked", "laid out"])
def laid_out(request: pytest.FixtureRequest) -> bool:
    """Whether the memory of tensors shows that they have not changed."""
    return request.param


@pytest.fixture
def torch(cuda: FakeCuda, laid_out: bool, monkeypatch: pytest.MonkeyPatch) -> FakeTorchInC:
    made = FakeTorchInC(cuda, laid_out=laid_out)
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(torch_layout, "_known", (made, LAYOUT if laid_out else None))
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
@example([BASE | {"m": 0}, BASE | {"m": 0, "told": {"stream": 7}}])
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
        error, launches, *_ = run(both, base | step)
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
    error, launches, *_ = both.outcome(both.quick, BASE, others)  # pyright: ignore
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


ONLY_LAID_OUT = pytest.mark.parametrize("laid_out", [True], indirect=True, ids=["laid out"])


@ONLY_LAID_OUT
def test_a_tensor_whose_memory_shows_no_change_is_not_asked(
    both: Compiled, torch: FakeTorchInC
) -> None:
    def outcome() -> Any:
        return both.outcome(both.quick, BASE, tensors)

    tensors = both.tensors(BASE)
    known, *_ = [outcome() for _ in range(4)]
    before = torch.exported
    assert outcome() == known and torch.exported == before
    # Others in their place, and these again.
    others = both.tensors(BASE | {"places": ((2, 0), (2, 0), (2, 0))})
    for _ in range(3):
        both.outcome(both.quick, BASE, others)
    before = torch.exported
    assert both.outcome(both.quick, BASE, others) != known and outcome() == known
    assert torch.exported == before
    # It moves.
    elsewhere = both.memory[0, 0, 2]
    tensors[0]._managed.tensor.data = elsewhere  # pyright: ignore
    tensors[0].pointer = elsewhere
    moved = outcome()
    assert moved != known and moved == both.outcome(both.checked, BASE, tensors)
    assert torch.exported > before
    # It means something else at the same place.
    outcome()
    for name in ("negated", "requires_grad"):
        setattr(tensors[0], name, True)
        learned = len(both.asked)
        for _ in range(2):
            assert outcome() == both.outcome(both.checked, BASE, tensors)
        assert (outcome() == moved) == (name != "negated")
        assert True not in both.asked[learned:]
        setattr(tensors[0], name, False)
        assert outcome() == moved


@ONLY_LAID_OUT
def test_of_a_view_and_of_many_sizes_memory_does_not_show_all(
    both: Compiled, torch: FakeTorchInC
) -> None:
    """What a view is of may be given a gradient, and many sizes are kept elsewhere."""
    tensors = both.tensors(BASE)
    tensors[0].requires_grad = False  # autograd has something to say of it
    for _ in range(4):
        both.outcome(both.quick, BASE, tensors)
    before = torch.exported
    both.outcome(both.quick, BASE, tensors)
    assert torch.exported == before
    tensors[0].is_view = True  # pyright: ignore[reportAttributeAccessIssue]
    for _ in range(4):
        both.outcome(both.quick, BASE, tensors)
    before, learned = torch.exported, len(both.asked)
    both.outcome(both.quick, BASE, tensors)
    assert torch.exported == before and len(both.asked) == learned
    checked = kept(both.quick)
    vars(tensors[0])["wants"] = True  # and no memory shows it
    both.outcome(both.quick, BASE, tensors)
    assert kept(both.quick) == checked + 1
    calls = compiled_calls.made(torch, 1, 0, True, 256, lambda *_: None, max)
    long = torch.zeros(*[1] * 6)
    assert calls.keep((long,), (4,), 0, 1, 1, 1, 0, bytes(56), (), (), None)
    for _ in range(3):
        before = torch.exported
        calls.keep((long,), (4,), 0, 1, 1, 1, 0, bytes(56), (), (), None)
        assert torch.exported > before


@ONLY_LAID_OUT
def test_more_tensors_than_are_known(both: Compiled, torch: FakeTorchInC) -> None:
    """Each launch is at the addresses of its own tensors, whichever made room for others."""
    sets = [both.tensors(BASE | {"places": ((i % 2 * 2, 0),) * 3}) for i in range(600)]
    for _ in range(3):
        for tensors in sets:
            error, launches, *_ = cast("Any", both.outcome(both.quick, BASE, tensors))
            assert error is None and {one.pointer for one in tensors} <= set(launches[0][4])


@ONLY_LAID_OUT
def test_tensors_that_are_met_again_stay_known(both: Compiled, torch: FakeTorchInC) -> None:
    """Whatever else is met once in between, and wherever their addresses lie."""
    sets = [both.tensors(BASE | {"places": ((i % 2 * 2, 0),) * 3}) for i in range(60)]
    asked: list[int] = []
    for _ in range(4):
        before = torch.exported
        for tensors in sets:
            both.outcome(both.quick, BASE, tensors)
        asked.append(torch.exported - before)
        both.outcome(both.quick, BASE, both.tensors(BASE))
    assert asked[0] > 150 and max(asked[2:]) < 20


def test_a_layout_that_cannot_be_is_refused(fast: Any) -> None:
    fine = list(LAYOUT)
    fast.set_layout(*fine)
    for at, value in [(0, -8), (1, 8), (1, 60), (2, 64), (3, 8), (3, 999), (4, 999), (5, 999)]:
        with pytest.raises(ValueError, match="no tensor is laid out so"):
            fast.set_layout(*[value if i == at else one for i, one in enumerate(fine)])
    fast.set_layout(*[0] * 7)


# What is called ---------------------------------------------------------------------------


@pytest.fixture
def called(both: Compiled, torch: FakeTorchInC, fast: Any) -> Any:
    """An object over the quick program, that knows calls with its outputs given and without."""

    class Function(fast.Called):
        asked = 0

        def called(self, *inputs: object, **named: Any) -> Any:
            self.asked += 1
            out: Any = named.get("out")
            with torch.on(7):
                return both.quick.run(inputs, out=[out] if isinstance(out, Tensor) else out)[0]

    for way in ({}, {"given": False}):
        for _ in range(3):
            run(both, BASE | way)
    both.cuda.stack[:] = [primary(0)]
    made = Function()
    made.known_as(*(both.quick.repeated(kind).calls for kind in (PLAIN, ALLOCATING)), 0)
    return made


def test_a_known_call_is_run_without_python(called: Any, both: Compiled) -> None:
    x, w, y = both.tensors(BASE)
    before = [sys.getrefcount(one) for one in (x, w, y)]
    for named in ({"out": y}, {"out": [y]}, {"out": (y,)}):
        launches = len(both.cuda.launches)
        assert called(x, w, **named) is y and len(both.cuda.launches) == launches + 1
    found = called(x, w)
    assert found is not y and found.shape == (2,) and found.pointer != y.pointer
    assert called.asked == 0
    del named, found
    assert [sys.getrefcount(one) for one in (x, w, y)] == before


def test_all_other_calls_go_to_python(called: Any, both: Compiled) -> None:
    x, w, y = both.tensors(BASE)
    other = both.tensors(BASE | {"n": 8})
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        (tuple(other[:2]), {"out": y}),  # they do not fit
        ((x, w), {"out": None}),
        ((x, w), {"out": y, "stream": None}),
        ((x, w), {"stream": None}),
    ]
    for asked, (tensors, named) in enumerate(calls, 1):
        called(*tensors, **named)
        assert called.asked == asked
    for tensors, named in [((x,), {}), ((x, w), {"out": [y, y]}), ((x, object()), {})]:
        with pytest.raises(PolycError):
            called(*tensors, **named)


def test_an_error_of_the_driver_is_raised(called: Any, both: Compiled) -> None:
    x, w, y = both.tensors(BASE)
    both.cuda.fail["cuLaunchKernelEx"] = 9
    with pytest.raises(PolycError, match=r"error\[LaunchFailed\]"):
        called(x, w, out=y)
    both.cuda.fail.clear()
    assert called(x, w, out=y) is y and called.asked == 0


def test_a_key_that_is_pressed_is_not_lost(
    called: Any, both: Compiled, monkeypatch: pytest.MonkeyPatch, torch: FakeTorchInC
) -> None:
    """While outputs are allocated; what goes wrong there otherwise, Python meets again."""
    x, w, _ = both.tensors(BASE)
    fails: list[type[BaseException]] = [KeyboardInterrupt, MemoryError]
    allocate = both.cuda.allocate

    def failing(*given: Any) -> int:
        if fails:
            raise fails.pop(0)
        return allocate(*given)

    monkeypatch.setattr(both.cuda, "allocate", failing)
    with pytest.raises(KeyboardInterrupt):
        called(x, w)
    assert called.asked == 0
    assert called(x, w).shape == (2,) and called.asked == 1


@pytest.mark.parametrize(("returns", "kind"), [(1, tuple), (2, list)])
def test_what_is_returned(called: Any, both: Compiled, returns: int, kind: type) -> None:
    x, w, y = both.tensors(BASE)
    calls = [both.quick.repeated(kind).calls for kind in (PLAIN, ALLOCATING)]
    called.known_as(*calls, returns)
    assert called(x, w, out=y) == kind((y,)) and isinstance(called(x, w), kind)
    called.known_as(None, calls[1], returns)
    called(x, w, out=y)
    assert called.asked == 1
    for wrong in ((calls[1], None, 0), (None, calls[0], 0), (*calls, 3), (*calls, -1)):
        with pytest.raises(ValueError, match="something else"):
            called.known_as(*wrong)
    with pytest.raises(TypeError):
        called.known_as(1, None, 0)


def test_it_goes_with_its_cycles(fast: Any, torch: FakeTorchInC) -> None:
    class Function(fast.Called):
        def asked(self, *_: object) -> None:
            return None

    one = Function()
    one.calls = compiled_calls.made(torch, 1, 0, True, 256, one.asked, max)
    one.known_as(one.calls, None, 1)
    alive = weakref.ref(one)
    del one
    gc.collect()
    assert alive() is None
    with pytest.raises(AttributeError, match="called"):
        Function()()


def test_a_base_for_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_calls, "extension", lambda: None)

    class Function(compiled_calls.base()):
        def called(self, *inputs: object, **named: Any) -> Any:
            return inputs, named

    made = Function()
    made.known_as(None, None, 0)
    assert made(1, out=2) == ((1,), {"out": 2})


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


def test_constants_are_no_part_of_a_call(
    ctx: Context, cuda: FakeCuda, torch: FakeTorchInC, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MODULE.replace("[N], f32>)\n", '[N], f32> {storage = "const_pool"})\n')
    origin = Program.of_module(gpu_module_of(parse_text(ctx, text, "m.mlir")), [SOURCE])._origin
    job = Program(origin, {"W": np.ones(4, np.float32)})
    x, y = torch.zeros(3, 4), torch.zeros(3)
    job.run([x], out=[y])
    calls = job.repeated(PLAIN)
    assert calls.compiled((x,), (y,)) is not None  # it is learned
    monkeypatch.setattr(calls, "run", None)
    monkeypatch.setattr(Program, "run", None)
    other = torch.zeros(3, 4)
    assert calls.compiled((other,), (y,)) is not None
    first, *_, last = cuda.launches
    assert len(cuda.launches) == 3 and first.kernel == last.kernel == "wide"
    assert last.values[0] == last.values[1] == other.data_ptr()
    assert last.values[2] == first.values[2]
    assert last.values[3] == y.data_ptr()
