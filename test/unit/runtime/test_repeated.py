"""Calls that were checked once, against calls that are checked each time: the same launches."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import gpu_module_of
from polyc.runtime import packed, repeated
from polyc.runtime.program import ALLOCATING, PLAIN, Program
from polyc.test.support.fake_cuda import SECOND, FakeCuda, primary
from polyc.test.support.gpu_producers import FakeTorch, Tensor
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text

MODULE = """
gpu.module @rows arch "sm_90a" symbols [M, N] {
  gpu.kernel @wide(%x: !gpu.global<[M, N], f32> = tensor 0,
                   %m: !gpu.tensor_map<[1, 4], f32, swizzle 0> = tensor_map 0,
                   %w: !gpu.global<[N], f32> = tensor 1,
                   %y: !gpu.global<[M], f32> = tensor 2,
                   %N: index = symbol N) threads 32 {
    gpu.return
  }
  gpu.kernel @narrow(%y: !gpu.global<[M], f32> = tensor 2,
                     %x: !gpu.global<[M, N], f32> = tensor 0,
                     %w: !gpu.global<[N], f32> = tensor 1) threads 32 {
    gpu.return
  }
  gpu.kernel @one(%x: !gpu.global<[M, N], f32> = tensor 0,
                  %W: !gpu.global<[M], f32> = workspace "W") threads 32 {
    gpu.return
  }
  gpu.kernel @two(%W: !gpu.global<[M], f32> = workspace "W",
                  %w: !gpu.global<[N], f32> = tensor 1,
                  %y: !gpu.global<[M], f32> = tensor 2) threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>, W: !gpu.global<[N], f32>)
            -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @wide when (N mod 4 == 0) align [16, 4, 4] grid [M]
    gpu.sequence @both when (N == 3) align [4, 4, 4] {
      gpu.workspace "W" : !gpu.global<[M], f32>
      gpu.launch @one grid [M]
      gpu.launch @two grid [M]
    }
    gpu.launch @narrow align [4, 4, 4] grid [M]
  }
}
"""
SOURCE = "\n".join(
    f'extern "C" __global__ void {name}() {{}}' for name in ("wide", "narrow", "one", "two")
)

SPACE = 1024
"""Bytes of each piece of memory: tensors lie in it at their offsets."""


def rows(ctx: Context) -> Program:
    return Program.of_module(gpu_module_of(parse_text(ctx, MODULE, "rows.mlir")), [SOURCE])


def kept(job: Program) -> int:
    return sum(len(job.repeated(kind)._calls) for kind in (PLAIN, ALLOCATING))  # pyright: ignore


# A call -----------------------------------------------------------------------------------

offsets = st.sampled_from([0, 0, 0, 4, 16, 256, 2])
places = st.tuples(st.sampled_from([0, 0, 0, 1, 2]), offsets)
"""Which piece of memory of a GPU, and where in it."""

STEPS = st.fixed_dictionaries(
    {
        "m": st.sampled_from([1, 2, 2, 2, 0]),
        "n": st.sampled_from([4, 4, 8, 3, 5, 0]),
        "gpus": st.sampled_from([(0, 0, 0), (0, 0, 0), (1, 1, 1), (0, 0, 1), (1, 0, 0)]),
        "places": st.tuples(places, places, places),
        "given": st.booleans(),
        "fault": st.sampled_from(
            [None] * 12
            + ["dtype", "strides", "negated", "rank", "host", "few", "twice", "other", "parts"]
            + ["launch", "map"]
        ),
        "stream": st.sampled_from([0, 7, 8]),
        "current": st.sampled_from([None, primary(0), primary(0), primary(1), SECOND]),
        "told": st.sampled_from(
            [*[None] * 4, {"gpu_index": 0}, {"variant": "narrow"}, {"stream": 7}, {"stream": 9}]
        ),
    }
)


class Both:
    """Two programs: one that knows its calls again, and one that is made to forget each."""

    def __init__(self, ctx: Context, cuda: FakeCuda, torch: FakeTorch) -> None:
        self.cuda, self.torch = cuda, torch
        self.quick, self.checked = rows(ctx), rows(ctx)
        # Three pieces for each argument: what overlaps is said by the case.
        self.memory = {
            (gpu, which, piece): cuda.allocate(SPACE, gpu)
            for gpu in (0, 1)
            for which in range(3)
            for piece in range(3)
        }
        self.old: list[Tensor] = []

    def tensors(self, step: dict[str, Any]) -> list[Tensor]:
        m, n, fault = step["m"], step["n"], step["fault"]
        shapes: list[tuple[int, ...]] = [(m, n), (n,), (m,)]
        if fault == "rank":
            shapes[1] = (n, 1)
        if fault == "other":
            shapes[2] = (m + 1,)
        made: list[Tensor] = []
        for which, (shape, gpu) in enumerate(zip(shapes, step["gpus"], strict=True)):
            piece, offset = step["places"][which]
            # The second piece is the first argument's: inputs may share, outputs may not.
            at = self.memory[gpu, 0 if piece == 1 else which, piece] + offset
            strides = (1, m) if fault == "strides" and which == 0 else None
            dtype = "float16" if fault == "dtype" and which == 1 else "float32"
            pinned = False if fault == "host" and which == 1 else None
            made.append(self.torch.Tensor(at, shape, dtype, gpu, pinned, strides))
        made[0].negated = fault == "negated"
        if fault == "twice":
            made[1] = made[0]
        if fault == "parts" and self.old:
            made = [a if i else b for i, (a, b) in enumerate(zip(made, self.old, strict=True))]
        self.old = made
        return made

    def outcome(self, job: Program, step: dict[str, Any], tensors: list[Tensor]) -> object:
        """What a call did: its error, or its launches with new outputs by another name; which
        streams waited for which, and for which the memory of tensors waits."""
        cuda = self.cuda
        if step["fault"] in ("launch", "map"):
            cuda.fail["cuLaunchKernelEx" if step["fault"] == "launch" else "cuMemsetD8Async"] = 9
        before, orders = len(cuda.launches), len(cuda.orders)
        recorded = [len(one.recorded) for one in tensors]
        told: dict[str, Any] = step["told"] or {}
        cuda.stack[:] = [] if step["current"] is None else [step["current"]]
        stack = list(cuda.stack)
        inputs = tensors[: 1 if step["fault"] == "few" else 2]
        out = [tensors[2]] if step["given"] else None
        error, found = None, None
        try:
            with self.torch.on(step["stream"]):
                found = self.run(job, inputs, out, told)
        except PolycError as caught:
            error = str(caught)
        cuda.fail.clear()
        assert cuda.stack == stack
        if found is not None and out is not None:
            assert list(found) == out
        fresh = set[int]()
        if found is not None and out is None:
            (result,) = found
            assert isinstance(result, Tensor) and result.shape == (step["m"],)
            assert result.device == tensors[0].device
            fresh = {result.pointer}
        waits = [one.recorded[at:] for one, at in zip(tensors, recorded, strict=True)]
        return (
            error,
            [
                (
                    *(one.kernel, one.stream, one.context, one.blocks),
                    [0 if value in fresh else value for value in one.values],
                )
                for one in cuda.launches[before:]
            ],
            cuda.orders[orders:],
            waits,
        )

    def run(
        self, job: Program, inputs: list[Tensor], out: list[Tensor] | None, told: dict[str, Any]
    ) -> list[object]:
        return job.run(inputs, out=out, **told)

    def step(self, step: dict[str, Any]) -> None:
        tensors = self.tensors(step)
        for kind in (PLAIN, ALLOCATING):
            self.checked.repeated(kind).forget()
        for one in list(self.checked._repeated.values()):  # pyright: ignore
            one.forget()
        wanted = self.outcome(self.checked, step, tensors)
        for _ in range(2):
            assert self.outcome(self.quick, step, tensors) == wanted


@pytest.fixture
def both(ctx: Context, cuda: FakeCuda, torch: FakeTorch) -> Both:
    return Both(ctx, cuda, torch)


BASE: dict[str, Any] = {
    **{"m": 2, "n": 4, "gpus": (0, 0, 0), "places": ((0, 0), (0, 0), (0, 0)), "given": True},
    **{"fault": None, "stream": 7, "current": primary(0), "told": None},
}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(st.lists(STEPS, min_size=2, max_size=12))
@example([BASE, BASE | {"places": ((0, 0), (0, 0), (1, 0))}])
@example([BASE, BASE | {"places": ((0, 4), (0, 0), (0, 0))}, BASE])
@example([BASE, BASE | {"fault": "launch"}, BASE | {"current": SECOND}])
def test_random_calls_are_those_that_are_checked(both: Both, steps: list[dict[str, Any]]) -> None:
    for step in steps:
        both.step(step)


def test_a_call_on_a_given_stream_is_known_again(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the current one it is a plain call; on another it waits, and memory waits for it."""
    both.step(BASE)
    seen = counted(monkeypatch, both.quick)
    cases: list[tuple[int, list[Any], list[list[int]]]]
    cases = [(7, [], [[]] * 3), (9, [(7, 9)], [[9]] * 3)]
    for stream, orders, waits in cases:
        step = BASE | {"told": {"stream": stream}}
        found: Any = both.outcome(both.quick, step, both.tensors(step))
        assert found[0] is None and [one[1] for one in found[1]] == [stream]
        assert found[2:] == (orders, waits)
    assert not seen
    fresh = BASE | {"given": False, "told": {"stream": 9}}
    for checks in (1, 2):  # its outputs are made there
        both.outcome(both.quick, fresh, both.tensors(fresh))
        assert len(seen) == checks
    fresh["told"] = {"stream": 7}
    both.outcome(both.quick, fresh, both.tensors(fresh))
    assert len(seen) == 2


def test_a_strided_tensor_is_refused_with_the_way_out(both: Both) -> None:
    """Its dimension, its stride and the one that kernels take, in the words of its library."""
    step = BASE | {"fault": "strides"}
    both.step(BASE)
    error, launches, *_ = cast("Any", both.outcome(both.quick, step, both.tensors(step)))
    assert not launches and error == (
        "error[NotContiguous]: X of shape [2, 4] has strides [1, 2], not [4, 1]; make it "
        "contiguous: dimension 0 steps by 1 elements, and kernels by 4; pass X.contiguous()"
    )


def counted(monkeypatch: pytest.MonkeyPatch, job: Program) -> list[str]:
    """A line for each call that is checked."""
    seen: list[str] = []
    check: Callable[..., None] = job.signature.__class__.check_apart

    def counting(*given: Any) -> None:
        seen.append("checked")
        check(*given)

    monkeypatch.setattr(job.signature.__class__, "check_apart", counting)
    return seen


@pytest.mark.parametrize("given", [True, False])
def test_which_calls_are_checked(both: Both, monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    """Other addresses are none, another shape, GPU or alignment is one."""
    seen = counted(monkeypatch, both.quick)
    steps = [{}, {"stream": 8}, {"places": ((2, 0), (0, 16), (2, 0))}, {"current": None}]
    steps += [{"n": 8}, {"gpus": (1, 1, 1)}, {"places": ((0, 4), (0, 0), (0, 0))}, {"n": 3}]
    for step in steps * 2:
        made = BASE | {"given": given} | step
        both.outcome(both.quick, made, both.tensors(made))
    # The alignment of the second input is another in the third step, to 256 bytes.
    assert len(seen) == 6 and kept(both.quick) == 6


def test_packed_launches_are_used_again(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    real = packed.Packing.packed

    def counting(packing: packed.Packing) -> packed.Packed:
        made.append(packing)
        return real(packing)

    monkeypatch.setattr(packed.Packing, "packed", counting)
    for step in [BASE, BASE | {"places": ((2, 0), (0, 0), (2, 0))}, BASE | {"n": 5}] * 4:
        both.outcome(both.quick, step, both.tensors(step))
    assert len(made) == 2


def test_a_tensor_map_is_kept_for_each_address(both: Both) -> None:
    step = BASE | {"places": ((2, 0), (0, 0), (0, 0))}
    for one in [BASE, step] * 4:
        both.outcome(both.quick, one, both.tensors(one))
    # Once for each address that is not where the plan was made; the first is moved to as well.
    assert both.cuda.log.count("cuTensorMapReplaceAddress") == 2


def test_tensor_maps_of_many_addresses_have_a_bound(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MAPS_KEPT", 1)
    steps = [BASE | {"places": ((piece, 0), (0, 0), (0, 0))} for piece in (0, 2)]
    for step in steps * 3:
        both.step(step)


def test_what_is_kept_has_a_bound_and_goes_with_the_program(
    ctx: Context, cuda: FakeCuda, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated, "CALLS_KEPT", 2)
    job = rows(ctx)
    for m in range(1, 6):
        for _ in range(2):
            job.run([torch.zeros(m, 5), torch.zeros(5)])
    assert kept(job) == 2 and cuda.loaded
    run = job.repeated(ALLOCATING).run
    assert run([torch.zeros(5, 5), torch.zeros(5)]) is not None
    job.close()
    assert not cuda.loaded and kept(job) == 0
    assert run([torch.zeros(5, 5), torch.zeros(5)]) is None
    job.run([torch.zeros(5, 5), torch.zeros(5)])
    assert run([torch.zeros(5, 5), torch.zeros(5)]) is not None
    del job, run
    # Without a walk of the garbage collector.
    assert not cuda.loaded


def test_outputs_that_torch_places_oddly_are_checked(
    both: Both, torch: FakeTorch, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = counted(monkeypatch, both.quick)
    real, offset = torch.empty_strided, [0]

    def odd(*given: Any, **named: Any) -> Tensor:
        made = real(*given, **named)
        return Tensor(made.pointer + offset[0], made.shape, made.dtype, made.device.index)

    monkeypatch.setattr(torch, "empty_strided", odd)
    x, w = torch.zeros(2, 4), torch.zeros(4)
    for offset[0], checks in [(0, 1), (0, 1), (4, 2), (4, 3), (0, 3)]:
        both.quick.run([x, w])
        assert len(seen) == checks


@pytest.mark.parametrize("count", [1, 3, 40])
def test_overlaps_of_many_tensors(count: int) -> None:
    """In a text for few pairs and in a loop for many, with outputs among themselves."""
    scope: dict[str, Any] = dict.fromkeys(["T", "P", "empty", "guard", "stream_of"])
    scope |= dict.fromkeys(["order", "keep_until"])
    nothing = repeated._NOTHING  # pyright: ignore
    made = repeated._functions(count, 2, True, True, False)  # pyright: ignore
    text = repeated._apart(count, 2)  # pyright: ignore
    assert ("far" in text) == (count == 40)
    far = repeated._far  # pyright: ignore
    assert made(calls={}, nothing=nothing, current=None, period=256, far=far, **scope)
    found: dict[str, Any] = {"far": far}
    exec(f"def apart(places, sizes):\n    {text}", found)
    apart = found["apart"]
    places, sizes = [256 * i for i in range(count + 2)], [256] * (count + 2)
    assert apart(places, sizes)
    for moved, to in [(count, 0), (count + 1, places[count]), (count, 129)]:
        other = list(places)
        other[moved] = to
        assert not apart(other, sizes)
    if count > 1:
        assert apart([0, 0, *places[2:]], sizes)


def test_a_period_that_is_no_power_of_two() -> None:
    for powers in (True, False):
        make = repeated._functions(2, 1, True, powers, False)  # pyright: ignore
        period = 256 if powers else 768
        scope = dict.fromkeys(["T", "P", "empty", "calls", "nothing", "guard", "stream_of"])
        scope |= dict.fromkeys(["order", "keep_until"])
        found = make(**scope, current=None, period=period, far=None)
        assert found[2](period, 2 * period, 4) == (0, 0, 4)
        assert found[2](period, 256, period) == (0, 256 % period, 0)


# Threads ----------------------------------------------------------------------------------


@pytest.fixture
def often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_threads_share_calls_and_not_their_addresses(both: Both, often: None) -> None:
    """Each launch has one call's tensors and stream, although all are of one kind."""
    both.cuda.slow = True
    job, torch = both.quick, both.torch
    job.run([torch.zeros(2, 4), torch.zeros(4)], out=[torch.zeros(2)])
    both.cuda.launches.clear()
    wanted: list[tuple[int, ...]] = []
    errors: list[BaseException] = []
    gate = threading.Barrier(6)

    def work(i: int) -> None:
        gate.wait()
        try:
            for _ in range(40):
                x, w, y = torch.zeros(2, 4), torch.zeros(4), torch.zeros(2)
                with torch.on(100 + i):
                    job.run([x, w], out=[y])
                wanted.append((100 + i, x.pointer, x.pointer, w.pointer, y.pointer, 4))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    found = [(one.stream, *one.values) for one in both.cuda.launches]
    assert sorted(found) == sorted(wanted)


# PyTorch's guards -------------------------------------------------------------------------


def test_guards_are_asked_first_and_made_anew(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that knows nothing of the tensors is no answer: their attributes are."""
    asked: list[bool] = []
    mode = [0]

    def maker(torch: object) -> Any:
        def made(tensors: Any) -> Callable[..., bool]:
            shapes, own = [one.shape for one in tensors], mode[0]

            def check(*given: Any) -> bool:
                asked.append(own == mode[0] and shapes == [one.shape for one in given])
                return asked[-1]

            return check

        return made

    monkeypatch.setattr(repeated.torch_guards, "maker", maker)
    for step in [BASE, BASE, BASE, BASE | {"n": 8}, BASE, BASE]:
        both.step(step)
    assert asked.count(True) >= 6
    for mode[0] in range(1, 4):
        asked.clear()
        for _ in range(3):
            both.step(BASE)
        assert asked[-1]
