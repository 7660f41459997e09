"""ATen's rarer ops against PyTorch: ranks, special functions, signs, quantization."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import importlib
from math import inf, nan
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc.dialects.common.diagnostic import PolycError  # noqa: E402
from polyc.importers.aten import quantized, ranks, refused, special  # noqa: E402
from polyc.importers.fx import op_name  # noqa: E402
from polyc.importers.registry import converter_of, converters  # noqa: E402

importlib.import_module("torch.ao.quantization.fx._decomposed")
aten: Any = torch.ops.aten
Q: Any = torch.ops.quantized_decomposed


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def exported(function: Any, *args: Any) -> Any:
    with torch.no_grad():
        return torch.export.export(Of(function), args, strict=False)


X = torch.linspace(-3, 4, 24).reshape(2, 3, 4).sin() * 3
ROUGH = torch.tensor([[1.0, nan, 3.0, 3.0], [-inf, 2.0, 2.0, -inf], [inf, 0.0, -0.0, nan]])
TWICE = torch.tensor([[3, 1, 3, 1, 2], [2, 2, 0, 5, 5]])
EDGES = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 2.0, 5.0, -2.5, -3.7, 1e-3, 30.0])
PARTS = torch.tensor([0.0, 0.25, 0.6, 1.0])
SCALES = torch.tensor([0.1, 0.5, 0.02])
ZEROS = torch.tensor([0, 3, -2], dtype=torch.int64)


def near(found: Any, wanted: Any, rel: float = 1e-5) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if wanted.is_floating_point():
        finite = wanted[torch.isfinite(wanted)].abs()
        atol = rel * float(finite.max()) if finite.numel() else 0.0
        assert torch.allclose(found, wanted, rtol=rel, atol=atol, equal_nan=True), (found, wanted)
    else:
        assert torch.equal(found, wanted), (found, wanted)


ABOVE = torch.tensor([0.0, 1e-6, 0.03, 0.4, 1.9, 2.0, 2.1, 3.7, 9.0, 30.0])
"""Where some functions are defined."""

CASES: dict[str, tuple[Any, ...]] = {
    # Ranks
    "cummax": (lambda x, r, i: (*x.cummax(1), *r.cummax(1), *i.cummax(0)), X, ROUGH, TWICE),
    "cummin": (lambda x, r, i: (*x.cummin(1), *r.cummin(1), *i.cummin(0)), X, ROUGH, TWICE),
    "logcumsumexp": (lambda x, r: (x.logcumsumexp(1), (r * 80).logcumsumexp(1)), X, ROUGH[1:2]),
    "logcumsumexp of many": (
        lambda x: (x.logcumsumexp(0), x.t().logcumsumexp(1)),
        torch.cat([torch.full((6,), -torch.inf), torch.linspace(-90, 80, 74).sin()]).reshape(40, 2),
    ),
    "logcumsumexp of far apart ones": (
        lambda x: x.logcumsumexp(0),
        torch.tensor([-500.0, 0.0, 300.0]),
    ),
    "mode": (lambda x: (x.mode(-1)[0], x.mode(0, True)[0], x.float().mode(1)[0]), TWICE),
    "mode of NaN": (
        lambda x, y: (x.mode(0)[0], y.mode(1)[0], y.mode(1)[1] >= 0),
        *(torch.tensor([1.0, nan, nan, 2.0, 2.0]), torch.tensor([[nan, nan], [inf, nan]])),
    ),
    **{
        f"quantile {how}": (
            lambda x, q, h=how: (
                x.quantile(0.3, interpolation=h),
                x.quantile(q, 1, interpolation=h),
                x.quantile(q, 0, True, interpolation=h),
                x.quantile(0.7, keepdim=True, interpolation=h),
            ),
            *(X[0], PARTS),
        )
        for how in ranks.INTERPOLATIONS
    },
    "quantile of NaN": (lambda x, q: x.quantile(q, 1), ROUGH, PARTS),
    "nanquantile": (lambda x, q: (x.nanquantile(q, 1), x.nanquantile(0.4)), ROUGH[[0, 2]], PARTS),
    "kthvalue": (lambda x: (*x.kthvalue(2, 1, True), *x[0].kthvalue(3)), X),
    "kthvalue of few": (lambda x: (*x.kthvalue(5, 0), *(-x).kthvalue(4, 0, True)),
                        torch.linspace(-4, 9, 41 * 3).sin().reshape(41, 3)),
    "median": (lambda x, r, i: (*x.median(1), x.median(), r.median(1)[0], r.median(),
                                i.median(1)[0]), X, ROUGH, TWICE),
    "nanmedian": (lambda x, r: (*x.nanmedian(1), r.nanmedian(1)[0], r.nanmedian()), X, ROUGH),
    # Functions of elements
    "signbit": (lambda x, i: (x.signbit(), i.signbit()), EDGES, TWICE - 2),
    "copysign": (lambda x, y, r: (x.copysign(y), x.copysign(-3.0), (-x).copysign(2)),
                 X[0], X[1], ROUGH),
    "ldexp": (lambda x, i: torch.ldexp(x, i), X, torch.tensor([3, -2, 0, 1])),
    "rrelu": (lambda x: torch.nn.functional.rrelu(x), X),
    "one_hot": (lambda i: torch.nn.functional.one_hot(i, 7), TWICE),
    "lgamma": (lambda x: torch.lgamma(x), EDGES),
    "digamma": (lambda x: torch.digamma(x), EDGES),
    "erfinv": (lambda x: torch.erfinv(x), torch.linspace(-1, 1, 41)),
    "i0": (lambda x: torch.i0(x), EDGES),
    **{
        name: (getattr(torch.special, name), EDGES)
        for name in (
            *("i0e", "i1", "i1e", "erfcx", "log_ndtr", "modified_bessel_i1", "bessel_j0"),
            *("bessel_j1", "spherical_bessel_j0"),
        )
    },
    **{
        name: (getattr(torch.special, name), ABOVE)
        for name in (
            *("modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0"),
            *("scaled_modified_bessel_k1",),
        )
    },
    "ndtri": (torch.special.ndtri, torch.cat([torch.linspace(0, 1, 41), ABOVE / 1e9])),
    "zeta": (lambda x: (torch.special.zeta(x + 1, ABOVE), torch.special.zeta(1.0, x)), ABOVE),
    "polygamma": (lambda x: [torch.polygamma(n, x + 0.05) for n in (0, 1, 2, 5)], ABOVE),
    # Made of others
    "adaptive_max_pool": (
        lambda x: (
            *torch.nn.functional.adaptive_max_pool2d(x, (2, 3), True),
            *torch.nn.functional.adaptive_max_pool1d(x[0], 3, True),
        ),
        torch.linspace(-2, 3, 2 * 3 * 7 * 8).reshape(2, 3, 7, 8).mul(9).sin(),
    ),
    **{
        f"index_reduce {how}": (
            lambda x, i, h=how: (
                x.index_reduce(2, i, x[..., :3].sin() * 2, h),
                x.index_reduce(0, i[:2], x.cos(), h, include_self=False),
            ),
            *(X, torch.tensor([1, 0, 1])),
        )
        for how in ("prod", "mean", "amax", "amin")
    },
    "of a scalar": (
        lambda x: (*x.sort(), *x.topk(1), *x.cummax(0), *x.kthvalue(1), *x.mode(), *x.median(0)),
        X[0, 0, 0].clone(),
    ),
    "native_dropout": (lambda x: aten.native_dropout(x, 0.5, False), X),
    "block_diag": (lambda x, y: torch.block_diag(x[0], y, x[1, 0]), X, TWICE.float()),
    "diagonal_scatter": (
        lambda x, y: (
            torch.diagonal_scatter(x[0], y[:3], 0),
            torch.diagonal_scatter(x[0], y[:2], -1),
            torch.diagonal_scatter(x, y[:4].reshape(2, 2).T.reshape(2, 2), 2, 1, 2),
            torch.diagonal_scatter(x, y[:4].reshape(4, 1).expand(4, 1), -1, 0, 1),
        ),
        *(X, torch.arange(4.0)),
    ),
    "as_strided_scatter": (
        lambda x, y: (
            x.as_strided_scatter(y[:6].reshape(3, 2), (3, 2), (7, 2), 1),
            x.as_strided_scatter(y[:6].reshape(2, 3), (2, 3), (2, 8)),
            x.as_strided_scatter(y[:4].reshape(2, 2), (2, 2), (3, 2), 5),
            x[0].clone().fill_diagonal_(3.5),
        ),
        *(X, torch.arange(9.0)),
    ),
    "linspace between tensors": (lambda a, b: torch.linspace(a, b, 5), X[0, 0, 0], X[1, 1, 1]),
    "var_mean": (lambda x: (*torch.var_mean(x, False), *torch.std_mean(x, True)), X),
    # Quantization
    "fake_quantize": (
        lambda x, s, z: (
            torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -20, 15),
            torch.fake_quantize_per_tensor_affine(x, s[1], z[1].int(), 0, 255),
            torch.fake_quantize_per_channel_affine(x, s, z.int(), 1, -128, 127),
            *aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 3, -20, 15),
            *aten.fake_quantize_per_channel_affine_cachemask(x, s, z.int(), 1, -20, 20),
        ),
        *(X, SCALES, ZEROS),
    ),
    "quantize": (
        lambda x, s, z: (
            Q.quantize_per_tensor(x, 0.1, 3, -20, 15, torch.int8),
            Q.quantize_per_tensor.tensor(x, s[0], z[1], -128, 127, torch.int8),
            Q.quantize_per_channel(x, s, z, 1, -128, 127, torch.int8),
        ),
        *(X, SCALES, ZEROS),
    ),
    "dequantize": (
        lambda x, s, z: (
            Q.dequantize_per_tensor(x, 0.1, 3, -128, 127, torch.int8),
            Q.dequantize_per_tensor.tensor(x, s[0], z[1], -128, 127, torch.int8),
            Q.dequantize_per_channel(x, s, z, 1, -128, 127, torch.int8),
        ),
        *((X * 20).to(torch.int8), SCALES, ZEROS),
    ),
}  # fmt: skip
"""Functions with their arguments."""

LOOSE = {"lgamma": 4e-6, "digamma": 1e-5, "i0": 2e-6, "erfinv": 2e-6, "zeta": 3e-6}
"""How far a function may be off, of its largest number."""

SAID: set[str] = set()


@pytest.mark.parametrize("name", CASES)
def test_an_op(name: str) -> None:
    function, *args = CASES[name]
    program = exported(function, *args)
    SAID.update(op_name(one) for one in program.graph.nodes if one.op == "call_function")
    found = polyc.compile(polyc.from_exported(program), device="cpu")(*args)
    wanted = torch.utils._pytree.tree_leaves(function(*args))
    listed = found if isinstance(found, tuple) else (found,)
    for got, one in zip(listed, wanted, strict=True):
        near(got, one, LOOSE.get(name, 1e-5))


def test_every_converter_has_a_case() -> None:
    for function, *args in CASES.values():
        graph = exported(function, *args).graph
        SAID.update(op_name(one) for one in graph.nodes if one.op == "call_function")
    said = {converter_of("torch", one, one.rpartition(".")[0]) for one in SAID}
    files = {one.__name__ for one in (quantized, ranks, special)}
    own = {one for one in converters("torch").values() if one.__module__ in files}
    assert {one.__name__ for one in own - said} == set()


# What no graph has --------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Any, str]] = {
    "rand": (lambda x: x + torch.rand_like(x), "random"),
    "nonzero": (lambda x: x.nonzero().sum(0), "is data"),
    "unique": (lambda x: torch.unique(x).sum(), "is data"),
    "det": (lambda x: torch.linalg.det(x[:, :3, :3]), "factors a matrix"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_why(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(PolycError) as error:
        polyc.from_exported(exported(function, X))
    assert any(reason in str(note) for note in error.value.notes)


def test_a_norm_in_training_says_what_to_do() -> None:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).train()
    program = torch.export.export(model, (torch.randn(2, 3, 8, 8),), strict=False)
    with pytest.raises(PolycError) as error:
        polyc.from_exported(program)
    notes = [str(note) for note in error.value.notes]
    assert any("running_mean" in note for note in notes)
    assert not any("no converter" in note for note in notes)


def test_a_quantile_has_a_known_interpolation() -> None:
    with pytest.raises(PolycError, match="interpolation is one of"):
        quantile = ranks.quantile
        quantile(None, 0.5, interpolation="cubic")  # pyright: ignore[reportArgumentType]


def test_reasons_are_of_ops_without_a_converter() -> None:
    for name in refused.WHY:
        assert converter_of("torch", f"aten.{name}") is None, name
    assert refused.why("aten.nonzero.default") == refused.WHY["nonzero"]
    assert refused.why("aten.relu.default") is None


def test_a_result_that_no_converter_gives_is_refused() -> None:
    def bags(x: Any, i: Any) -> Any:
        return aten._embedding_bag_forward_only(x[0], i, i[:1], False, 0)

    assert polyc.from_exported(exported(lambda x, i: bags(x, i)[0], X, TWICE[1, 2:3])).outputs
    with pytest.raises(PolycError) as error:
        polyc.from_exported(exported(bags, X, TWICE[1, 2:3]))
    assert any("its result number 1 is not known" in str(note) for note in error.value.notes)
