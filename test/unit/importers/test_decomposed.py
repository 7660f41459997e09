"""Models of ops without a converter, of complex numbers, and of experts, against PyTorch."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc.dialects.common.diagnostic import PolycError  # noqa: E402
from polyc.importers.aten.bags import grouped_mm  # noqa: E402
from polyc.importers.aten.resampled import smoothed  # noqa: E402
from polyc.importers.decomposed import _applied, decompositions  # noqa: E402
from polyc.test.support.kernelbench import _family, planned, regions  # noqa: E402

nn: Any = torch.nn


class Of(nn.Module):
    """A function as a module."""

    def __init__(self, function: Any, *modules: Any) -> None:
        super().__init__()
        self.function, self.own = function, nn.ModuleList(modules)

    def forward(self, *args: Any) -> Any:
        return self.function(*self.own, *args)


def imported(module: Any, *args: Any) -> Any:
    with torch.no_grad():
        return polyc.from_exported(torch.export.export(module.eval(), args, strict=False))


def agrees(module: Any, *args: Any) -> None:
    model = imported(module, *args)
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(module(*args))
    found = polyc.compile(model, device="cpu")(*args)
    listed = found if isinstance(found, tuple) else (found,)
    for got, one in zip(listed, wanted, strict=True):
        assert got.dtype == one.dtype and got.shape == one.shape
        assert torch.allclose(got, one, atol=1e-5 * float(one.abs().max()))


SOME_IMAGE = torch.linspace(-2, 3, 2 * 3 * 10 * 9).reshape(2, 3, 10, 9).sin()
SOME_BAG = torch.arange(24) * 7 % 11
SOME_TABLE = torch.linspace(-1, 1, 44).reshape(11, 4).sin()
SOME_STARTS = torch.tensor([0, 5, 5, 11])
SOME_SQUARE = torch.linspace(-3, 2, 24).reshape(2, 3, 4).cos()
SOME_PLACES = torch.tensor([[0, 3, 2, 3]] * 6)

F: Any = nn.functional
aten: Any = torch.ops.aten

CASES: dict[str, tuple[Any, ...]] = {
    # Bags, borders, counts
    **{
        f"embedding_bag {mode}": (
            lambda i, o, w, m=mode: F.embedding_bag(i, w, o, mode=m),
            *(SOME_BAG, SOME_STARTS, SOME_TABLE),
        )
        for mode in ("sum", "mean", "max")
    },
    **{
        f"embedding_bag of rows, {mode}": (
            lambda i, w, m=mode: F.embedding_bag(i, w, mode=m),
            *(SOME_BAG.reshape(4, 6), SOME_TABLE),
        )
        for mode in ("sum", "mean", "max")
    },
    "embedding_bag of weighed rows": (
        lambda i, w, by: F.embedding_bag(i, w, mode="sum", per_sample_weights=by),
        *(SOME_BAG.reshape(4, 6), SOME_TABLE, SOME_SQUARE.reshape(4, 6)),
    ),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), SOME_SQUARE, SOME_SQUARE + 5),
    "searchsorted": (
        lambda b, x: (torch.searchsorted(b, x), torch.searchsorted(b, x, right=True)),
        *(torch.linspace(-1, 1, 5), torch.tensor([[-2.0, -1.0, 0.2], [0.5, 1.0, 3.0]])),
    ),
    "searchsorted among many": (
        lambda b, x: (torch.searchsorted(b, x), torch.searchsorted(b, x, right=True)),
        *(torch.arange(150) // 3, torch.tensor([[-1, 0, 7], [49, 50, 25]])),
    ),
    "searchsorted along rows": (
        lambda b, x: torch.searchsorted(b, x, right=True, out_int32=True),
        *(
            torch.arange(200.0).reshape(2, 100),
            torch.tensor([[-1.0, 7.5, torch.nan], [99, 250, 120]]),
        ),
    ),
    "bucketize": (lambda x, b: torch.bucketize(x, b), SOME_SQUARE, torch.linspace(-1, 1, 5)),
    "histc": (lambda x: torch.histc(x, 5, -1, 1), SOME_SQUARE),
    **{
        f"scatter_reduce {how} {own}": (
            lambda x, i, y, h=how, o=own: x.scatter_reduce(1, i, y, h, include_self=o),
            *(SOME_IMAGE[0, 0, :6], SOME_PLACES, SOME_IMAGE[0, 1, :6, :4].contiguous()),
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (False, True)
        if not own or how == "mean"
    },
    # Windows and other sizes
    "im2col": (lambda x: F.unfold(x, 3, padding=1, stride=2), SOME_IMAGE),
    "col2im": (lambda x: F.fold(x, (8, 9), 3, padding=1, stride=2), SOME_IMAGE.reshape(1, 27, 20)),
    "unfold": (lambda x: x.unfold(2, 3, 2), SOME_IMAGE),
    "unfold apart": (lambda x: x.unfold(2, 2, 4), SOME_IMAGE),
    "unfold long": (lambda x: x.reshape(-1).unfold(0, 20, 3), SOME_IMAGE),
    "as_strided apart": (lambda x: torch.as_strided(x, (4, 3), (6, 2), 1), SOME_IMAGE),
    "bilinear smooth": (
        lambda x: F.interpolate(x, (5, 14), mode="bilinear", antialias=True),
        SOME_IMAGE,
    ),
    "bicubic smooth": (
        lambda x: F.interpolate(x, (5, 4), mode="bicubic", antialias=True),
        SOME_IMAGE,
    ),
    "adaptive of unlike windows": (lambda x: F.adaptive_avg_pool2d(x, (7, 13)), SOME_IMAGE),
    "index_put of later axes": (
        lambda x, i, y: aten.index_put(x, [None, None, i, i], y, True),
        *(SOME_IMAGE, torch.tensor([0, 3, 3]), SOME_IMAGE[:, :, 0, :3].contiguous()),
    ),
    # Products
    "addbmm": (
        lambda x, a, b: torch.addbmm(x, a, b),
        *(SOME_SQUARE[0, :, :3].contiguous(), SOME_SQUARE, SOME_SQUARE.mT.contiguous()),
    ),
    "bilinear form": (
        lambda a, b, w: aten.bilinear(a, b, w),
        *(
            SOME_SQUARE[0],
            SOME_SQUARE[1, :, :3].contiguous(),
            SOME_IMAGE.reshape(-1)[:60].reshape(5, 4, 3),
        ),
    ),
    **{
        f"cdist {p}": (
            lambda a, b, p=p: torch.cdist(a, b, p=p),
            *(SOME_SQUARE, SOME_SQUARE.flip(0) + 1),
        )
        for p in (0.0, 1.0, 2.0, 3.0, float("inf"))
    },
    "cdist of many rows": (
        lambda a, b: (
            torch.cdist(a, b),
            torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist"),
        ),
        *(
            torch.linspace(-9, 9, 120).sin().reshape(30, 4),
            torch.linspace(0, 5, 28).cos().reshape(7, 4),
        ),
    ),
    "einsum ellipsis": (
        lambda a, b: torch.einsum("...qd,...kd->...qk", a, b),
        *(SOME_IMAGE, SOME_IMAGE.flip(0)),
    ),
}
"""Functions of ops that are said for known sizes, with their arguments."""


@pytest.mark.parametrize("name", CASES)
def test_an_op_of_known_sizes(name: str) -> None:
    function, *args = CASES[name]
    agrees(Of(function), *args)


X = torch.linspace(-2, 2, 2 * 6 * 8).reshape(2, 6, 8).sin()
LAYERS = {
    "lstm": nn.LSTM(8, 5, batch_first=True, bidirectional=True),
    "gru": nn.GRU(8, 5, batch_first=True),
    "rnn": nn.RNN(8, 5, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_are_written_out(name: str) -> None:
    agrees(LAYERS[name], X)


def test_a_converter_that_refuses_leaves_it_to_pytorch() -> None:
    agrees(Of(lambda x: nn.functional.interpolate(x, scale_factor=0.6)), X)
    agrees(Of(lambda x: torch.einsum("bii->b", x[:, :, :6])), X)


def test_what_no_decomposition_says_is_refused() -> None:
    with pytest.raises(PolycError, match=r"aten\.igamma"):
        imported(Of(lambda x: torch.igamma(x.abs(), x.abs() + 1)), X)


def test_sizes_that_are_data_may_be_checked() -> None:
    def checked(x: Any) -> Any:
        torch._check(x.abs().sum().long().item() >= 0)
        return x + 1

    agrees(Of(checked), X)


def rotated(x: Any) -> Any:
    pairs = torch.view_as_complex(x.reshape(2, 6, 4, 2))
    turns = torch.polar(torch.ones(6, 4), torch.arange(24.0).reshape(6, 4) / 9)
    return torch.view_as_real(pairs * turns).flatten(2)


SPECTRA = {
    "rotation": rotated,
    "rfft": lambda x: torch.fft.rfft(x).abs(),
    "fft2": lambda x: torch.fft.fft2(x).real,
    "filter": lambda x: torch.fft.irfft(torch.fft.rfft(x) * (2 - 1j), n=8),
}


@pytest.mark.parametrize("name", SPECTRA)
def test_complex_numbers_are_pairs(name: str) -> None:
    agrees(Of(SPECTRA[name]), X)


def test_a_complex_result_is_refused() -> None:
    with pytest.raises(PolycError, match="view_as_real"):
        imported(Of(lambda x: torch.fft.rfft(x)), X)


def test_rows_by_the_matrix_of_their_group() -> None:
    x, w = torch.randn(7, 4), torch.randn(3, 4, 5)
    ends = torch.tensor([2, 2, 7], dtype=torch.int32)
    got = polyc.jit(lambda x, w, o: grouped_mm(x, w, o), device="cpu")(x, w, ends)
    assert torch.allclose(got, torch.cat([x[:2] @ w[0], x[2:] @ w[2]]), atol=1e-5)


def test_experts_that_a_sort_chooses_are_no_attention() -> None:
    """Products behind a softmax, a sort and a gather are planned, on tensor cores."""

    def experts(x: Any, route: Any, up: Any, down: Any) -> Any:
        weight, chosen = (x @ route).softmax(-1).topk(2, -1)
        experts_, order = chosen.reshape(-1).sort()
        rows = x[order // 2]
        own = experts_.unsqueeze(1) == torch.arange(8)

        def by(rows: Any, matrices: Any) -> Any:
            wide = torch.where(own.unsqueeze(2), rows.unsqueeze(1), 0.0).flatten(1)
            return wide @ matrices.flatten(0, 1)

        y = by(nn.functional.silu(by(rows, up)), down)
        return y * weight.reshape(-1)[order].unsqueeze(1)

    shapes = (1024, 256), (256, 8), (8, 256, 512), (8, 512, 256)
    model = imported(Of(experts), *(torch.randn(one).half() for one in shapes))
    found = [_family(*one) for one in regions(planned(model))]
    assert sum(one.endswith("wgmma") for one in found) >= 2


def test_weights_of_a_smooth_resize_are_means() -> None:
    """Of a triangle over three elements to one, whose ends lie half as far."""
    found = smoothed(6, 2, lambda at: (1 - abs(at)).clip(0), 1.0, False, None)
    assert found.sum(1).tolist() == pytest.approx([1.0, 1.0])
    assert (found[0, :4] > 0).all() and found[0, 5] == 0


def test_decompositions_are_those_that_pytorch_has() -> None:
    ops = [aten.lstm.input, aten.im2col.default, aten.histc.default, aten.lstm_cell.default]
    assert set(decompositions(ops)) == {ops[0], ops[1], ops[3]}


def test_states_have_the_shape_of_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some versions of PyTorch leave an axis of 1 in the last states of an LSTM."""
    table = import_module("torch._decomp").decomposition_table
    known = table[aten.lstm.input]

    def odd(*args: Any, **kwargs: Any) -> Any:
        out, h, c = known(*args, **kwargs)
        return out, h.unsqueeze(1), c.unsqueeze(1)

    monkeypatch.setitem(table, aten.lstm.input, odd)
    agrees(nn.LSTM(8, 5, num_layers=2), X)


def test_a_decomposition_to_another_shape_is_not_taken() -> None:
    """A result would be wrong in silence: it is refused, and what else there is stays."""
    program = torch.export.export(Of(lambda x: (x.tan(), x.sin())), (X,)).run_decompositions({})
    table: dict[Any, Any] = {
        aten.tan.default: lambda x: (x.sin() / x.cos()).unsqueeze(0),
        aten.sin.default: lambda x: (x - 1.5).cos(),
    }
    names = {str(node.target) for node in _applied(program, table).graph.nodes}
    assert "aten.tan.default" in names and "aten.cos.default" in names
    table[aten.tan.default] = lambda x: (x.sin() / x.cos()).double()
    assert "aten.tan.default" in {str(one.target) for one in _applied(program, table).graph.nodes}
