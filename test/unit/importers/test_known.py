"""What a model computes of no input: positions and masks that are known at import."""

# pyright: basic

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc.importers.known import Places, _places  # noqa: E402
from polyc.importers.torch import from_exported  # noqa: E402

attention = torch.nn.functional.scaled_dot_product_attention


def imported(module: Any, *args: Any, **how: Any) -> Any:
    return from_exported(torch.export.export(module.eval(), args, strict=False, **how))


def counted(model: Any) -> Counter[str]:
    return Counter(op.name for op in model.graph.body.block.ops)


def agrees(module: Any, model: Any, *args: Any) -> None:
    with torch.no_grad():
        wanted = module(*args)
    found = polyc.compile(model, device="cpu")(*args)
    assert torch.allclose(found, wanted, atol=1e-6)


def _unexpanded(value: Any) -> Any:
    while value.owner.name == "frontend.expand":
        value = value.owner.operands[0]
    return value


class Causal(torch.nn.Module):
    """As transformers makes it: positions are looked up, and texts told apart by a scan."""

    def forward(self, x: Any) -> Any:
        batch, length = x.shape[0], x.shape[2]
        places = torch.arange(length).unsqueeze(0) + 0
        before = torch.cat([places[:, :1] - 1, places[:, :-1]], 1)
        texts = ((places - before) != 1).cumsum(-1)
        b = torch.arange(batch)[:, None, None, None]
        q = torch.arange(length)[None, None, :, None]
        k = torch.arange(length)[None, None, None, :]
        seen = places[b * 0, k] <= places[b * 0, q]
        same = texts[b * 0, q] == texts[b * 0, k]
        return attention(x, x, x, attn_mask=torch.ones((), dtype=torch.bool) & seen & same)


def test_a_mask_of_positions_is_a_comparison_of_places():
    module, x = Causal(), torch.randn(2, 3, 6, 8)
    model = imported(module, x)
    found = counted(model)
    assert not {"frontend.gather_nd", "frontend.scan", "frontend.gather"} & set(found)
    (compare,) = (op for op in model.graph.walk() if op.name == "frontend.compare")
    assert all(
        "frontend.expand" in str(o.owner) or "iota" in str(o.owner) for o in compare.operands
    )
    assert "mask" in model.text
    agrees(module, model, x)


def test_a_mask_that_hides_nothing_is_none():
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            mask = torch.ones(x.shape[2], x.shape[2], dtype=torch.bool)
            return attention(x, x, x, attn_mask=mask.logical_not().logical_not())

    module, x = Net(), torch.randn(2, 3, 6, 8)
    model = imported(module, x)
    (op,) = (op for op in model.graph.walk() if op.name == "frontend.attention")
    assert len(op.operands) == 3
    agrees(module, model, x)


def test_a_mask_that_hides_everything_stays():
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            mask = torch.zeros(x.shape[2], x.shape[2], dtype=torch.bool)
            return attention(x, x, x, attn_mask=mask)

    x = torch.randn(1, 1, 4, 8)
    model = imported(Net(), x)
    (op,) = (op for op in model.graph.walk() if op.name == "frontend.attention")
    assert len(op.operands) == 4


def test_of_two_conditions_the_one_that_always_holds_is_left_out():
    class Net(torch.nn.Module):
        def forward(self, x: Any, seen: Any) -> Any:
            true = torch.ones(x.shape[-1], dtype=torch.bool)
            return torch.where(true & seen[:, None], x, -x) + torch.where(seen & true, x, 2 * x)

    module, x, seen = Net(), torch.randn(4, 4), torch.tensor([True, False, True, False])
    model = imported(module, x, seen)
    assert "elementwise and" not in model.text
    agrees(module, model, x, seen)


def test_what_is_known_and_no_sum_of_places_is_computed_as_it_is_said():
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            places = torch.arange(x.shape[0])
            return x + (places * places) + places.flip(0) + (3 - 2 * places[None, :])

    module, x = Net(), torch.randn(5, 5)
    model = imported(module, x)
    assert "frontend.iota" in model.text
    agrees(module, model, x)


class Windows(torch.nn.Module):
    """Windows and places of pairs, for which no op of a graph stands."""

    def forward(self, x: Any) -> Any:
        size = x.shape[-1]
        rows, columns = torch.triu_indices(size, size, 1)
        window = torch.hann_window(size) + torch.kaiser_window(size, False, beta=9.0)
        return (x * window)[:, rows] * x[:, columns] + torch.logspace(0, 1, 15)


def test_what_no_op_says_and_reads_no_input_is_a_constant():
    module, x = Windows(), torch.randn(3, 6)
    model = imported(module, x)
    agrees(module, model, x)


class Rates(torch.nn.Module):
    """Sines of positions, whose rates are functions of whole numbers alone."""

    def forward(self, x: Any) -> Any:
        k = torch.arange(8)
        rate = 10000 ** (2 * torch.div(k, 2, rounding_mode="floor") / 8)
        decay = torch.exp(-0.5 * torch.arange(8))
        return torch.sin(x[..., None] / rate) * decay


def test_a_function_of_whole_numbers_is_a_table():
    module, x = Rates(), torch.randn(3, 5)
    model = imported(module, x)
    agrees(module, model, x)
    said = [str(op) for op in model.graph.body.block.ops]
    assert any("elementwise sin" in one for one in said)
    assert not any("elementwise pow" in one or "elementwise exp" in one for one in said)


def test_random_numbers_and_sizes_that_are_open_are_left():
    class Drawn(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x + torch.randint(0, 9, (3,))

    class Open(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            places = torch.arange(x.shape[0])
            return x + (places + places)[:, None]

    with pytest.raises(polyc.PolycError, match="randint"):
        imported(Drawn(), torch.randn(3))
    sizes = {"x": {0: torch.export.Dim("n", max=99)}}
    model = imported(Open(), torch.randn(4, 2), dynamic_shapes=sizes)
    agrees(Open(), model, torch.randn(7, 2))


@pytest.mark.parametrize(
    ("given", "element", "wanted"),
    [
        (torch.arange(4) * 3 + 2, "i64", Places((4,), "i64", 2, (3,))),
        (torch.arange(6).reshape(2, 3), "i64", Places((2, 3), "i64", 0, (3, 1))),
        (torch.full((2, 1), 7), "i64", Places((2, 1), "i64", 7, (0, 0))),
        (torch.tensor(5), "i64", Places((), "i64", 5, ())),
        (torch.ones(3).bool(), "i1", Places((3,), "i1", 1, (0,))),
        (torch.arange(4).flip(0), "i64", Places((4,), "i64", 3, (-1,))),
        (torch.tensor([0, 1, 3]), "i64", None),
        (torch.tensor([[0, 1], [1, 3]]), "i64", None),
        (torch.tensor([True, False]), "i1", None),
        (torch.arange(0), "i64", None),
    ],
)
def test_sums_of_places(given: Any, element: str, wanted: Places | None):
    assert _places(given, element) == wanted
