"""Calls with arrays of CuPy and JAX: outputs of their own, given outputs, their streams.

Each test needs its library, and one GPU.  Inputs are small integers, so that every result is exact.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor


@polyc.jit
def layer(x: Tensor["M", "K", "f16"], w: Tensor["N", "K", "f16"], b: Tensor["N", "f16"]):
    return polyc.relu(x @ w.T + b)


@polyc.jit
def both(x: Tensor["M", "N", "f32"], y: Tensor["M", "N", "f32"]):
    return {"sum": x + y, "less": x < y}


def whole(rng: np.random.Generator, *shape: int, kind: Any = np.float32) -> Any:
    return rng.integers(-2, 3, shape).astype(kind)


def operands(seed: int, m: int = 130, n: int = 264, k: int = 72) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [whole(rng, *shape, kind=np.float16) for shape in ((m, k), (n, k), (n,))]


def meant(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x.astype(np.float32) @ w.astype(np.float32).T + b, 0).astype(np.float16)


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.fixture
def jax() -> Any:
    found: Any = pytest.importorskip("jax", reason="JAX is not installed")
    if found.default_backend() != "gpu":
        pytest.skip("JAX finds no GPU")
    return found


def test_cupy(cupy: Any) -> None:
    for seed in range(4):
        given = operands(seed)
        arrays = [cupy.asarray(one) for one in given]
        found = layer(*arrays)
        assert isinstance(found, cupy.ndarray)
        np.testing.assert_array_equal(cupy.asnumpy(found), meant(*given))
        out = cupy.full(found.shape, 7, cupy.float16)
        assert layer(*arrays, out=out) is out
        np.testing.assert_array_equal(cupy.asnumpy(out), meant(*given))


def test_cupys_stream(cupy: Any) -> None:
    """What its stream has begun comes first, and what it does then comes after."""
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        for _ in range(8):
            x = cupy.ones((2048, 2048), cupy.float32)
            for _ in range(20):
                x = x * 2
            found = both(x, x)
            total = (found["sum"] == 2.0**21).all() & ~found["less"].any()
            assert bool(total)


def test_jax(jax: Any) -> None:
    for seed in range(4):
        given = operands(seed)
        arrays = [jax.numpy.asarray(one) for one in given]
        found = layer(*arrays)
        assert isinstance(found, jax.Array) and found.devices() == arrays[0].devices()
        np.testing.assert_array_equal(np.asarray(found), meant(*given))


def test_jax_orders_its_own_work(jax: Any) -> None:
    """Inputs that are still computed are waited for, and so are outputs."""
    step = jax.jit(lambda x: x * 2)
    for _ in range(8):
        x = jax.numpy.ones((2048, 2048), jax.numpy.float32)
        for _ in range(20):
            x = step(x)
        found = both(x, x)
        assert bool((step(found["sum"]) == 2.0**22).all())
        assert found["less"].dtype == bool and not bool(found["less"].any())


def test_jax_and_bf16(jax: Any) -> None:
    @polyc.jit
    def twice(x: Tensor["N", "bf16"]):
        return x + x

    x = jax.numpy.arange(100, dtype=jax.numpy.bfloat16)
    found = twice(x)
    assert found.dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(np.asarray(found, np.float32), 2 * np.asarray(x, np.float32))


def test_jax_in_a_trace_is_refused(jax: Any) -> None:
    x = jax.numpy.ones((4, 4), jax.numpy.float32)
    with pytest.raises((PolycError, TypeError, RuntimeError)):
        jax.jit(lambda x: both(x, x)["sum"])(x)
