"""Backends: playback on the CPU, launches through a stand-in of the driver, and one of a user's."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.fast_extension import extension
from polyc.test.support.gpu_producers import FakeTorch
from polyc.test.support.root import ROOT
from polyc.tools.jit.backends import Backend, CpuBackend, Runnable, gpu_of, register

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def both(x: Tensor["M", "K", "f32"], y: Tensor["M", "K", "f32"]):
    return x + y, (x * y).sum(1)


class Foreign:
    """A tensor of another library, on the host."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_outputs_given_and_chosen():
    call = polyc.compile(both, device="cpu")
    out = [np.empty((2, 3), np.float32), np.empty(2, np.float32)]
    assert all(a is b for a, b in zip(call(X, X, out=out), out, strict=True))
    np.testing.assert_array_equal(out[0], X + X)
    some = polyc.compile(both, device="cpu", out_idx=-1)
    first = np.empty((2, 3), np.float32)
    np.testing.assert_array_equal(some(X, X, first), (X * X).sum(1))
    np.testing.assert_array_equal(first, X + X)
    none = polyc.compile(both, device="cpu", out_idx=[])
    assert none(X, X, *out) is None
    every = polyc.compile(both, device="cpu", out_idx=[2, 3])
    np.testing.assert_array_equal(every(X, X)[0], X + X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c(X, X, out=[X, np.empty(2, np.float32)]), "out0 and x share memory"),
        (lambda c: c(X, X, out=[np.empty((2, 3), np.float32)]), "takes 2 outputs"),
        (lambda c: c(X), "takes 2 inputs \\(x, y\\), 1 are given"),
        (lambda c: c(X, X, stream=3), "stream and gpu_index are of a GPU"),
        (lambda c: c(Foreign(X), X), "pass out="),
        (lambda c: c(X, X.T.copy()), "dimension 0 of y is 3, the signature says M, which is 2"),
        (lambda c: c(X, "x"), "y is a str"),
    ],
)
def test_host_checks_before_a_playback(call: Any, message: str):
    with pytest.raises(PolycError, match=message):
        call(polyc.compile(both, device="cpu"))


def test_tensors_of_other_libraries_and_types():
    call = polyc.compile(both, device="cpu")
    out = [np.empty((2, 3), np.float32), np.empty(2, np.float32)]
    call(Foreign(X), X, out=out)
    np.testing.assert_array_equal(out[0], X + X)

    @polyc.jit(device="cpu")
    def positive(x: Tensor["M", "bf16"]):
        return x > 0.0, x * 2.0

    signs, doubled = positive(np.array([1, -1], ml_dtypes.bfloat16))
    assert signs.tolist() == [True, False] and doubled.dtype == ml_dtypes.bfloat16


def test_nothing_is_played_for_empty_outputs():
    found = polyc.compile(both, device="cpu")
    empty = np.empty((0, 3), np.float32)
    first, second = found(empty, empty)
    assert first.shape == (0, 3) and second.shape == (0,)


def test_a_backend_of_the_users_own():
    calls: list[tuple[int, Any]] = []

    class Counting(Backend):
        name = "counting"

        def run(
            self,
            program: Runnable,
            inputs: list[object],
            out: list[object] | None,
            symbols: Mapping[str, int] | None,
            stream: object | None,
            gpu_index: int | None,
        ) -> list[object]:
            calls.append((len(inputs), symbols))
            return CpuBackend().run(program, inputs, out, symbols, stream, gpu_index)

    register(Counting())
    polyc.compile(both, execution_backend="counting")(X, X, symbols={"M": 2})
    assert calls == [(2, {"M": 2})]
    with pytest.raises(PolycError, match="does not run on device 'cpu'"):
        polyc.compile(both, execution_backend="cuda", device="cpu")


def test_no_gpu_says_the_way_out(monkeypatch: pytest.MonkeyPatch):
    from polyc.runtime import driver

    if driver.available():
        pytest.skip("there is a GPU")
    with pytest.raises(PolycError, match="NoGPU"):
        polyc.compile(both, "sm_80")(X, X)


def test_which_gpu():
    class On:
        def __init__(self, kind: int, index: int) -> None:
            self.where = kind, index

        def __dlpack_device__(self) -> Any:
            return self.where

    assert gpu_of([X, On(2, 1)]) == 1 and gpu_of([X, On(1, 0)]) is None


def test_calls_on_gpus_by_their_current_streams(cuda: FakeCuda, torch: FakeTorch):
    """One function on two GPUs and in two threads; each call launches once, where it belongs."""

    @polyc.jit
    def doubled(x: Tensor["M", "K", "f32"]):
        return x + x

    with torch.on(7):
        first = doubled(torch.zeros(2, 8))
    second = doubled(torch.zeros(3, 8, index=1))
    assert (first.shape, first.device.index) == ((2, 8), 0)
    assert (second.shape, second.device.index) == ((3, 8), 1)
    made = doubled.compiled()
    assert made.target(0) == "sm_90a" and made.program(0) is made.program(1)
    out = torch.zeros(2, 8)

    def call() -> None:
        assert doubled(torch.zeros(2, 8), out=out) is out

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    launches = [(launch.stream, launch.values[-1] != 0) for launch in cuda.launches]
    assert [stream for stream, _ in launches] == [7, 0, 0, 0]
    before = len(cuda.launches)
    assert doubled(torch.zeros(0, 8)).shape == (0, 8)
    assert len(cuda.launches) == before, "nothing is launched for no elements"
    with pytest.raises(PolycError, match="out and x share memory"):
        doubled(out, out=out)
    with pytest.raises(PolycError, match="DeviceMismatch"):
        doubled(torch.zeros(2, 8), out=torch.zeros(2, 8, index=1))
    with pytest.raises(PolycError, match="host memory"):
        polyc.compile(both, device="cpu")(
            torch.zeros(2, 3), torch.zeros(2, 3), out=[torch.zeros(2, 3), torch.zeros(2)]
        )


def test_what_the_extension_knows_does_not_reach_python():
    """The first call is checked, the second told to the extension."""
    extension()
    done = subprocess.run(
        [sys.executable, "-m", "polyc.test.support.extension_start"],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / ".typecheck")},
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "jit, out": [True, 2, 6],
        "jit": [True, 2, 6],
        "compiled, out": [True, 0, 6],
        "compiled": [True, 0, 6],
        "any sizes": [True, 2, 6],
        "a constant": [True, 6, 6],  # by the functions in Python
        "other sizes": [True, 2, 6],
        "a dictionary": [True, 6, 6],
    }
