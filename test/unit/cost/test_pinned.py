"""Guards that pin axes: which axes, and at what share of their points they may hold."""

from __future__ import annotations

from polyc.cost.pinned import pinned_by, pinned_share
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.test.support.gpu_text import find, only
from polyc.test.unit.families.loops.test_lines import lowered
from polyc.test.unit.families.loops.test_turned_stores import joined, pooled, pooled_phases


def test_a_phase_is_read_at_one_point_of_a_window() -> None:
    module = lowered(pooled_phases(2, 4, 5, 8), "region")
    labels = only(module, ReduceOp).labels
    extents = dict.fromkeys(labels, 2)
    reads = [read for read in find(module, ReadOp) if read.guard is not None]
    assert len(reads) == 4
    for read in reads:
        assert pinned_by(read, labels) == set(labels)
        assert pinned_share(read, extents, labels) == 1 / 4
        assert pinned_by(read, labels[:1]) == set(labels[:1])
        assert pinned_share(read, extents, labels[:1]) == 1 / 2


def test_axes_of_many_points_are_not_asked() -> None:
    module = lowered(pooled_phases(2, 4, 5, 8), "region")
    labels, (read, *_) = only(module, ReduceOp).labels, find(module, ReadOp)
    assert pinned_share(read, dict.fromkeys(labels, 64), labels) == 1


def test_bounds_and_axes_beside_pin_nothing() -> None:
    """What lies in an image is a bound, and the parity of a row is of an output."""
    module = lowered(pooled(2, 9, 11, 8), "region")
    labels = only(module, ReduceOp).labels
    for read in find(module, ReadOp):
        assert not pinned_by(read, labels)
        assert pinned_share(read, dict.fromkeys(labels, 2), labels) == 1
    for read in find(lowered(joined(2, 3, 5, 8), "region"), ReadOp):
        assert not pinned_by(read, ())
