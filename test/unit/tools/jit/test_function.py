"""``@polyc.jit``: what is traced once, what anew, constants, annotations, tiles."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportOperatorIssue=false, reportAttributeAccessIssue=false
# pyright: reportUndefinedVariable=false, reportArgumentType=false, reportCallIssue=false

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import polyc
import polyc.tile as T
from polyc import PolycError, Tensor
from polyc.tools.jit.function import Jit

RANDOM = np.random.default_rng(1)


def f16(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float16)


TRACED: list[str] = []


@polyc.jit(device="cpu", arch="sm_90a")
def layer(
    x: Tensor["M", "K", "f16"],
    w: Tensor["N", "K", "f16"],
    bias: Tensor["N", "f16"],
    *,
    act: str = "gelu",
):
    """A layer."""
    TRACED.append(act)
    made = x @ w.T + bias
    return polyc.gelu(made) if act == "gelu" else polyc.relu(made)


def test_it_is_a_jit():
    assert isinstance(layer, Jit)


def test_once_for_all_sizes_and_anew_for_constants():
    TRACED.clear()
    for m in (1, 3, 64):
        x, w, bias = f16(m, 8), f16(5, 8), f16(5)
        got = layer(x, w, bias, act="relu")
        expected = np.maximum(x.astype("f4") @ w.astype("f4").T + bias, 0)
        np.testing.assert_allclose(got.astype("f4"), expected, rtol=2e-3, atol=1e-3)
    assert TRACED == ["relu"]
    layer(f16(2, 8), f16(3, 8), f16(3))
    layer(f16(2, 8), bias=f16(3), w=f16(3, 8))
    assert TRACED == ["relu", "gelu"]
    assert layer.__doc__ == "A layer." and layer.__name__ == "layer"


def test_sizes_and_types_of_the_first_call():
    seen: list[Any] = []

    @polyc.jit(device="cpu")
    def scale(x, y: Tensor["M"], by=2.0):
        seen.append((x.shape, x.dtype, y.dtype, by))
        return x * by, y + 1.0

    for _ in range(2):
        a, b = scale(np.ones((2, 3), np.float32), np.ones(4, np.float16))
        assert a.shape == (2, 3) and b.dtype == np.float16
    scale(np.ones((2, 4), np.float32), np.ones(5, np.float16), 3.0)
    scale(np.ones((2, 4), np.float32), np.ones(5, np.float32), np.float32(3.0))
    assert seen == [
        ((2, 3), "f32", "f16", 2.0),
        ((2, 4), "f32", "f16", 3.0),
        ((2, 4), "f32", "f32", 3.0),
    ]


def test_outputs_as_the_function_returns_them():
    @polyc.jit(device="cpu")
    def stats(x: Tensor["M", "K", "f32"]):
        return {"mean": x.mean(1), "top": x.max(1)}

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = stats(x)
    assert found["mean"].tolist() == [1, 4] and found["top"].tolist() == [2, 5]
    out = {"top": np.empty(2, np.float32), "mean": np.empty(2, np.float32)}
    stats(x, out=out)
    assert out["top"].tolist() == [2, 5]
    with pytest.raises(PolycError, match="its outputs are mean, top"):
        stats(x, out={"mean": out["mean"]})


def test_constants_that_are_equal_and_not_the_same():
    """0.0 is not -0.0, and 1 is neither True nor 1.0, inside of a tuple neither; a nan is one."""

    @dataclass(frozen=True)
    class Scale:
        by: float

    @polyc.jit(device="cpu")
    def over(x: Tensor["N", "f32"], *, by: Any = 1.0):
        seen.append(by)
        value = by[0] if isinstance(by, tuple) else by.by if isinstance(by, Scale) else by
        return x / value

    seen: list[Any] = []
    x = np.ones(2, np.float32)
    given: list[Any] = [0.0, -0.0, (0.0,), (-0.0,), Scale(0.0), Scale(-0.0), np.float32(2.0)]
    with np.errstate(all="ignore"):
        for by in given * 2:
            value = by[0] if isinstance(by, tuple) else by.by if isinstance(by, Scale) else by
            np.testing.assert_array_equal(over(x, by=by), x / np.float32(value))
    assert len(seen) == len(given)
    for by in [2, 2.0, (2,), (2.0,), float("nan"), float("nan")]:
        over(x, by=by)
    assert len(seen) == len(given) + 5


def test_annotations_as_text_name_constants():
    namespace: dict[str, Any] = {}
    code = (
        "from __future__ import annotations\n"
        "import polyc\n"
        "@polyc.jit(device='cpu')\n"
        "def f(x: polyc.Tensor['M', D, 'f32'], *, D):\n"
        "    return x.reshape(x.shape[0] * D)\n"
    )
    exec(code, namespace)
    assert namespace["f"](np.ones((3, 4), np.float32), D=4).shape == (12,)
    with pytest.raises(PolycError, match="dimension 1 of x is 4, the signature says 5"):
        namespace["f"](np.ones((3, 4), np.float32), D=5)


def test_it_compiles_and_shows_what_it_made():
    @polyc.jit(arch="sm_80")
    def twice(x: Tensor["M", "K", "f16"]):
        return x * 2.0

    assert "frontend.elementwise mul" in twice.ir("frontend")
    assert "tiny.binary mul" in twice.ir("tiny")
    assert "gpu.module" in twice.ir("gpu")
    assert "__global__" in twice.cuda and ".target sm_80" in twice.ptx
    assert twice.plan and all(info.spill_bytes == 0 for info in twice.resources.values())
    assert twice.report.startswith("twice for sm_80, sizes M, K of any call\n  variant ")
    assert polyc.compile(twice) is twice.compiled()
    with pytest.raises(PolycError, match="no layer 'ptx'; there are frontend, tiny"):
        twice.ir("ptx")


M, N = T.sizes("M", "N")


@polyc.jit(device="cpu", arch="sm_80")
def scaled(x: T.Tensor[M, N, T.f32], y: T.Out[M, N, T.f32], *, by, width=32):
    with T.kernel(threads=128, grid=[T.ceildiv(M, 16), T.ceildiv(N, width)]):
        block = T.block_id()
        across = T.ceildiv(N, width)
        m, n = block // across, block % across
        tile = T.alloc_fragment((16, width), T.f32)
        T.copy(x[m * 16, n * width], tile)
        with T.parallel(16, width) as (i, j):
            tile[i, j] = tile[i, j] * by
        T.copy(tile, y[m * 16, n * width])


def test_a_function_over_tiles():
    x = np.arange(60, dtype=np.float32).reshape(5, 12)
    np.testing.assert_array_equal(scaled(x, by=3.0), 3 * x)
    np.testing.assert_array_equal(scaled(x, by=2.0, width=64), 2 * x)
    out = np.empty_like(x)
    assert scaled(x, by=3.0, out=out) is out
    assert scaled.specialised(x, by=3.0) is not scaled.specialised(x, by=2.0)
    assert "gpu.module @scaled" in polyc.compile(scaled, constants={"by": 1.0}).ir("tiles")
    with pytest.raises(PolycError, match="scaled is not given by"):
        scaled(x)


def test_a_function_over_both_is_refused():
    with pytest.raises(PolycError, match="of tiles \\(y\\) and of values \\(x\\)"):

        @polyc.jit
        def mixed(x: Tensor["M", "f16"], y: T.Out[M, T.f16]):
            return x


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: layer(f16(2, 8), f16(3, 8)), "layer is not given bias"),
        (lambda: layer(f16(2, 8), f16(3, 8), f16(3), f16(3)), "takes 3 tensors and constants"),
        (lambda: layer(f16(2, 8), f16(3, 8), f16(3), w=f16(3, 8)), "is given w twice"),
        (lambda: layer(f16(2, 8), f16(3, 8), f16(3), b=1), "b which it does not have"),
        (lambda: layer(f16(2, 8), f16(3, 8), f16(3), act=f16(3)), "constant of compile time"),
        (lambda: layer(f16(2, 8), f16(3, 8), 1.0), "bias of layer is a float"),
        (lambda: layer(f16(2, 8), f16(3, 8), f16(3), act=[]), "cannot be hashed"),
        (lambda: layer(f16(2, 8), f16(3, 9), f16(3)), "dimension 1 of w is 9, .* which is 8"),
        (lambda: layer(f16(2, 8), f16(8, 3).T, f16(3)), "w of shape .* make it contiguous"),
        (lambda: layer(f16(2), f16(3, 8), f16(3)), "x has shape \\[2\\]"),
        (lambda: layer(f16(2, 8).astype("f4"), f16(3, 8), f16(3)), "x holds f32"),
        (lambda: polyc.jit(3), "decorates a Python function"),
        (lambda: polyc.jit(lambda *x: x), "BadSignature.*each tensor of a graph has a name"),
        (lambda: polyc.jit(lambda out: out), "names a parameter out"),
        (lambda: polyc.jit(lambda x: x, device="tpu"), 'device is "cpu" or "cuda"'),
        (lambda: polyc.jit(lambda x: x, arch="sm_70"), "no architecture 'sm_70'"),
        (lambda: polyc.jit(lambda x: x).cuda, "does not say what x is before a call"),
    ],
)
def test_a_call_that_does_not_fit(call: Any, message: str):
    with pytest.raises(PolycError, match=message):
        call()
