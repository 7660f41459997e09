"""Products of an operand whose rows no tensor map begins at: threads load it along them (S8, S9).

Rows of an operand ``[k, n]`` are planes of an image of one line, and a step has the pixels of a
tile in each: the producer's threads load them, as they do the windows of a convolution, and store
them where wgmma reads them.  The copy engine brings the other operand.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import cast

from xdsl.ir import BlockArgument

from polyc.cost.products import Stored
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.flat import VECTOR
from polyc.families.matmul.flat import loose_rows
from polyc.families.matmul.recognise import Contraction

AWAITED, LATE = 800, 450
"""What a producer's thread waits for pixels from memory, in ns, and in each step, to say that they
are there, where cp.async brings them (an H100, of 120 plans of 9 products)."""

ONE_TAP = Im2colAttr.of((1, 1))
"""Each pixel by itself."""


@dataclass(frozen=True)
class Gathered:
    """The operand of a product's columns as the planes of an image."""

    gemm: Contraction
    late: bool
    """Whether cp.async brings it."""

    @property
    def number(self) -> int:
        """The place of its tensor in the signature."""
        return cast("BlockArgument", self.gemm.rhs.read.tensor).index

    @property
    def stored(self) -> Stored:
        """How it lies in memory."""
        length = self.gemm.size(self.gemm.n).constant() or 1
        waits = LATE if self.late else AWAITED
        return Stored(along=False, pixels=gcd(VECTOR, length), waits=waits, late=self.late)

    @property
    def dims(self) -> Shape:
        """Images, channels, and one line of pixels."""
        *outer, k, n = self.gemm.kernel.seen[self.number].shape
        images = outer[0] if outer else Dim.const(1)
        return (images, k, Dim.const(1), n)


def gathered_of(gemm: Contraction, late: bool = False) -> Gathered | None:
    """The operand of a product's columns where threads may load it: its rows are loose
    (:func:`~polyc.families.matmul.flat.loose_rows`), of one matrix or of a batch along one axis;
    for cp.async, which is ``late``, of even length."""
    length = loose_rows(gemm)
    if length is None or len(gemm.rhs.axes) > 3 or (late and length % 2):
        return None
    return Gathered(gemm, late)


def planned(gemm: Contraction, plan: ScheduleOp) -> Gathered | None:
    """How a schedule's kernel takes that operand; None where it takes it otherwise."""
    return gathered_of(gemm, plan.loader.data != "gather") if plan.gathers else None
