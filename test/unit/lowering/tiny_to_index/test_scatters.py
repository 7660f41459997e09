"""The entry of a scatter: its own points, and beside them every place of its updates."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ArrayAttr, i64
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import frontend, index, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import AxisAttr, PieceAttr
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.test.support.gathering import BY_ELEMENT, TAKE, TUPLES, Gathering
from polyc.test.support.scattering import Scattering
from polyc.test.support.sketch import Sketch
from polyc.tools.registry import make_context


def entry(one: Scattering) -> index.ValueOp:
    """What the book says of a scatter."""
    module = one.module()
    for lowering in (FrontendToTiny(), TinyToIndex()):
        lowering.apply(make_context(), module)
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, tiny.ScatterOp))
    found = index.value_op(op.result)
    assert found is not None
    return found


def reads(found: index.ValueOp) -> list[list[str]]:
    """What the operands are read at, each once."""
    (piece,) = found.pieces
    maps = [[str(e) for e in m.results] for m in piece.entries if isinstance(m, AffineMap)]
    assert len(maps) == len(piece.entries)
    return [m for i, m in enumerate(maps) if i == 0 or m != maps[i - 1]]


@pytest.mark.parametrize(
    ("at", "beside", "own", "updates"),
    [
        (Gathering(TAKE, (5, 3), (4,), 0), [4], ["d0", "d1"], ["d2", "d1"]),
        (Gathering(TAKE, (2, 5), (3, 2), 1), [6], ["d0", "d1"], ["d0", "d2"]),
        (Gathering(BY_ELEMENT, (4, 5), (3, 7), 1), [3, 7], ["d0", "d1"], ["d2", "d3"]),
        (Gathering(TUPLES, (4, 5, 2), (6, 2), 0), [6, 1], ["d0", "d1", "d2"], ["d3", "d4", "d2"]),
    ],
)
def test_updates_are_read_at_any_place_of_their_axes(
    at: Gathering, beside: list[int], own: list[str], updates: list[str]
) -> None:
    found = entry(Scattering("add", at))
    assert found.is_scop and not found.gathers
    assert [axis.kind.data for axis in found.reduced] == ["scatter"] * len(beside)
    assert [axis.dim.constant() for axis in found.reduced] == beside
    assert [axis.dim.constant() for axis in found.axes] == list(at.shape)
    assert reads(found) == [own, updates]


def test_axes_beside_have_names_of_their_own() -> None:
    """No two are alike, and none is a symbol's."""
    s = Sketch("f")
    x, i, u = s.input("x", "n", "M"), s.input("i", "N", 2, element=i64), s.input("u", "N")
    module = s.done(y=s.add(frontend.ScatterNdOp("set", x, i, u, 0)))
    for lowering in (FrontendToTiny(), TinyToIndex()):
        lowering.apply(make_context(), module)
    (op,) = (op for op in module.walk() if isinstance(op, tiny.ScatterOp))
    found = index.value_op(op.result)
    assert found is not None
    labels = [axis.label.data for axis in found.reduced]
    assert len(set(labels)) == 2 and not {"n", "M", "N"} & set(labels)


def test_an_entry_that_reads_elsewhere_is_refused() -> None:
    found = entry(Scattering("add", Gathering(TAKE, (5, 3), (4,), 0)))
    (piece,) = found.pieces
    own, there, *_ = piece.entries
    found.properties["pieces"] = ArrayAttr([PieceAttr.of([there, there, there])])
    with pytest.raises(VerifyException, match="is not how the scatter reads, which is at"):
        found.verify()
    found.properties["pieces"] = ArrayAttr([PieceAttr.of([own, there, there])])
    found.verify()
    other = AxisAttr.of(99, "r", Dim.const(3), "scatter")
    found.properties["reduced"] = ArrayAttr([other])
    with pytest.raises(VerifyException, match="record each of them"):
        found.verify()
