"""Cells of recurrent layers, written out, against PyTorch."""

# pyright: basic

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc.importers.cells import CELLS, fused_gru_cell, fused_lstm_cell  # noqa: E402
from polyc.importers.decomposed import decompositions, every_decomposition  # noqa: E402

nn: Any = torch.nn

BATCH, FEATURES, HIDDEN = 3, 5, 4
X = torch.linspace(-2, 3, BATCH * FEATURES).reshape(BATCH, FEATURES).sin()
H = torch.linspace(-1, 2, BATCH * HIDDEN).reshape(BATCH, HIDDEN).cos()
C = torch.linspace(-3, 2, BATCH * HIDDEN).reshape(BATCH, HIDDEN).sin()

KINDS: dict[str, tuple[Any, Any]] = {
    "gru": (nn.GRUCell, H),
    "lstm": (nn.LSTMCell, (H, C)),
    "rnn of tanh": (nn.RNNCell, H),
    "rnn of relu": (lambda *a, **k: nn.RNNCell(*a, nonlinearity="relu", **k), H),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cell(kind: str, bias: bool) -> None:
    make, state = KINDS[kind]
    torch.manual_seed(3)
    cell = make(FEATURES, HIDDEN, bias=bias).eval()
    with torch.no_grad():
        wanted = torch.utils._pytree.tree_leaves(cell(X, state))
        model = polyc.from_exported(torch.export.export(cell, (X, state), strict=False))
    found = polyc.compile(model, device="cpu")(*torch.utils._pytree.tree_leaves((X, state)))
    listed = found if isinstance(found, tuple) else (found,)
    for one, other in zip(listed, wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_the_kernels_that_gpus_have_for_cells() -> None:
    """Of two products and their biases, as the cell of the same weights is."""
    torch.manual_seed(4)
    for make, of, fused, state in (
        (nn.GRUCell, torch.ops.aten.gru_cell, fused_gru_cell, H),
        (nn.LSTMCell, torch.ops.aten.lstm_cell, fused_lstm_cell, (H, C)),
    ):
        cell = make(FEATURES, HIDDEN)
        with torch.no_grad():
            weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
            wanted = of(X, state, *weights)
            sides = X @ weights[0].T, H @ weights[1].T
            found = fused(*sides, H if of is torch.ops.aten.gru_cell else C, *weights[2:])
        *states, kept = found
        outputs = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, other in zip(states, outputs, strict=True):
            assert torch.allclose(one, other, atol=1e-6)
        assert kept.shape == (BATCH, (5 if fused is fused_gru_cell else 4) * HIDDEN)


def test_ours_go_before_pytorchs_composite_forms() -> None:
    """Which on a GPU are one kernel of PyTorch's."""
    ops = [torch.ops.aten.gru_cell.default, torch.ops.aten._thnn_fused_lstm_cell.default]
    assert decompositions(ops) == {op: CELLS[str(op)] for op in ops}
    assert {str(op) for op in every_decomposition()} >= CELLS.keys()
