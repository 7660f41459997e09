"""``frontend-to-tiny``: a scan behind what a reduction of nothing gives."""

from __future__ import annotations

from dataclasses import dataclass
from math import copysign

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import Number, neutral
from polyc.dialects.common.numbers import plain_number
from polyc.dialects.frontend.types import tensor_of
from polyc.rewriting.driver import located
from polyc.rewriting.region.building import erase_unused


@dataclass(frozen=True)
class _Shifted:
    """A scan, and elements of one number in front of it, or of a reverse one behind it."""

    scan: frontend.ScanOp
    count: Dim
    reverse: bool
    number: Number


class ShiftScan(RewritePattern):
    """``concat(0, scan(x))`` → ``scan(concat(0, x))``, and of all but the last an exclusive scan.

    PyTorch has no exclusive scan: people join zeros and the scan of all elements but the last.
    Stored in between, as concat has it, both would move all of it again.  It fires at a concat of
    two and at a pad, for any function of a scan and the number that it gives over nothing; of a
    reverse scan the number is at the end.  Legal where the scan is no exclusive one and nothing
    else reads it.

    Exact, as far as a scan is defined: in front of the scanned elements is what is neutral, and the
    order of a sum is anyone's, with whether one of -0 alone is 0.  A joined -0 is no neutral 0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: frontend.ConcatOp | frontend.PadOp, rewriter: PatternRewriter, /
    ) -> None:
        found = _of_concat(op) if isinstance(op, frontend.ConcatOp) else _of_pad(op)
        if found is None:
            return
        scan, axis = found.scan, found.scan.axis
        element = tensor_of(scan.result).element_type
        lone = not scan.is_exclusive and scan.result.has_one_use()
        if not lone or scan.is_reverse != found.reverse:
            return
        nothing = neutral(scan.function, element)
        if found.number != nothing or copysign(1, found.number) != copysign(1, nothing):
            return
        whole = _without_one(scan) if found.count.constant() == 1 else None
        if whole is None:
            again = located(_again(op, scan), op)
            rewriter.insert(again)
            (scanned,) = again.results
        else:
            scanned = whole
        made = frontend.ScanOp(
            scan.function, scanned, axis, reverse=scan.is_reverse, exclusive=whole is not None
        )
        made.result.name_hint = op.result.name_hint
        rewriter.replace(op, [located(made, scan)])
        erase_unused(scan, rewriter)


def _of_concat(op: frontend.ConcatOp) -> _Shifted | None:
    """A concat of a number and a scan along its axis."""
    if len(op.args) != 2:
        return None
    for place, (value, other) in enumerate((tuple(op.args), tuple(reversed(op.args)))):
        number, scan = _number(value), other.owner
        if number is None or not isinstance(scan, frontend.ScanOp) or scan.axis != op.axis:
            continue
        return _Shifted(scan, tensor_of(value).dims[op.axis], place == 1, number)
    return None


def _of_pad(op: frontend.PadOp) -> _Shifted | None:
    """A pad of a scan at one end of its axis."""
    scan, nothing = op.operand.owner, Dim.const(0)
    if not isinstance(scan, frontend.ScanOp):
        return None
    low, high = op.low[scan.axis], op.high[scan.axis]
    room = [
        (side, axis) for side in (op.low, op.high) for axis, n in enumerate(side) if n != nothing
    ]
    if len(room) != 1 or (low == nothing) == (high == nothing):
        return None
    reverse = low == nothing
    return _Shifted(scan, high if reverse else low, reverse, op.number)


def _again(op: frontend.ConcatOp | frontend.PadOp, scan: frontend.ScanOp) -> Operation:
    """What joined the scan's result, of what it scans."""
    if isinstance(op, frontend.PadOp):
        return frontend.PadOp(scan.operand, op.low, op.high, op.number)
    args = [scan.operand if value is scan.result else value for value in op.args]
    return frontend.ConcatOp(args, op.axis)


def _without_one(scan: frontend.ScanOp) -> SSAValue | None:
    """What has one element more along the axis than the scan, at its end; None where it scans no
    slice of that."""
    cut = scan.operand.owner
    if not isinstance(cut, frontend.SliceOp) or any(step != 1 for step in cut.steps):
        return None
    dims = tensor_of(cut.operand).dims
    low, high = [Dim.const(0) for _ in dims], list(dims)
    if scan.is_reverse:
        low[scan.axis] = Dim.const(1)
    else:
        high[scan.axis] = dims[scan.axis] - Dim.const(1)
    return cut.operand if (list(cut.low), list(cut.high)) == (low, high) else None


def _number(value: SSAValue) -> Number | None:
    """The number that all elements of a value are; None where it is no constant."""
    op = value.owner
    while isinstance(op, frontend.ExpandOp | frontend.ReshapeOp):
        op = op.operand.owner
    return plain_number(op.value) if isinstance(op, frontend.ConstantOp) else None
