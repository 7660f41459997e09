"""Calls on several GPUs of one host: each runs where its tensors are, in turn and at once.

Needs two GPUs and PyTorch.  Inputs are small integers, so that every result is exact.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

import threading
from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="this machine has one GPU")


@polyc.jit
def layer(x: Tensor["M", "K", "f16"], w: Tensor["N", "K", "f16"], b: Tensor["N", "f16"]):
    return polyc.relu(x @ w.T + b)


def whole(index: int, *shape: int) -> Any:
    return torch.randint(-2, 3, shape, device=f"cuda:{index}").half()


def operands(index: int, m: int = 256, n: int = 264, k: int = 136) -> tuple[Any, Any, Any]:
    return whole(index, m, k), whole(index, n, k), whole(index, n)


def meant(x: Any, w: Any, b: Any) -> Any:
    return torch.relu(x.float() @ w.float().T + b.float()).half()


def test_in_turn() -> None:
    """By tensor maps, whose addresses are each GPU's own; the current GPU stays as it was."""
    for turn in range(8):
        x, w, b = operands(turn % 2)
        found = layer(x, w, b)
        assert found.device == x.device and torch.equal(found, meant(x, w, b))
        out = torch.empty_like(found)
        assert layer(x, w, b, out=out) is out and torch.equal(out, found)
        assert torch.cuda.current_device() == 0


def test_at_once() -> None:
    """Threads with a GPU each."""
    errors: list[BaseException] = []

    def work(index: int) -> None:
        try:
            with torch.cuda.device(index):
                for _ in range(40):
                    x, w, b = operands(index)
                    assert torch.equal(layer(x, w, b), meant(x, w, b))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


def test_a_graph_on_the_second() -> None:
    x, w, b = operands(1)
    out = layer(x, w, b)
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            layer(x, w, b, out=out)
        for _ in range(3):
            x.copy_(whole(1, *x.shape))
            graph.replay()
            assert torch.equal(out, meant(x, w, b))


def test_tensors_of_two_are_refused() -> None:
    x, w, b = operands(0)
    with pytest.raises(PolycError) as caught:
        layer(x, w.to("cuda:1"), b)
    assert caught.value.kind == "DeviceMismatch"


def test_host_tensors_on_the_second() -> None:
    text = polyc.compile(layer.function).program(0)
    given = [np.ones(shape, np.float16) for shape in ((64, 32), (48, 32), (48,))]
    (found,) = text.run(given, gpu_index=1)
    np.testing.assert_array_equal(found, np.full((64, 48), 33, np.float16))


def test_other_libraries_on_the_second() -> None:
    x, w, b = operands(1)
    for name in ("cupy", "jax"):
        library: Any = pytest.importorskip(name)
        given = [(library if name == "cupy" else library.dlpack).from_dlpack(t) for t in (x, w, b)]
        found = layer(*given)
        assert torch.equal(torch.from_dlpack(found).to("cuda:1"), meant(x, w, b))
        assert torch.from_dlpack(found).device == x.device
