"""The simulator: the TMA copy of a convolution's pixels (PTX ISA, "im2col mode")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu.lanes import Array
from polyc.playback.gpu.storage import TensorMap
from polyc.playback.gpu.translator import Translator, simulates


@dataclass(frozen=True)
class Im2colMap(TensorMap):
    """A TMA descriptor over the pixels of an NHWC tensor; ``box`` is pixels and channels.

    Pairs are along height and width.  The filter's base walks through the bounding box from
    ``lower`` to the image's last pixel plus ``upper`` (PTX ISA, "im2col mode").  A place is
    image, row, column and channel of the first base, and the tap's two offsets.
    """

    lower: tuple[int, int]
    upper: tuple[int, int]
    steps: tuple[int, int]

    def fault(self) -> str | None:
        """What cuTensorMapEncodeIm2col would refuse, or None."""
        shape, name = self.shape, self.tensor.name
        if len(shape) != 4:
            return f"an im2col map is of a tensor [N, H, W, C], and {name} has {len(shape)} axes"
        if self.tensor.base % 16:
            return f"{name} starts at {self.tensor.base:#x}, no multiple of 16"
        if shape[3] * self.tensor.itemsize % 16:
            return (
                f"pixels of {name} are {shape[3] * self.tensor.itemsize} bytes, no multiple of 16"
            )
        if any(last < first for first, last in self._bounds()):
            return f"the filter does not fit into {name}, which is {list(shape)}"
        return None

    def _bounds(self) -> list[tuple[int, int]]:
        """First and last place of the filter's base along height and width."""
        return [
            (first, extent - 1 + last)
            for first, extent, last in zip(self.lower, self.shape[1:3], self.upper, strict=True)
        ]

    def misplaced(self, start: Sequence[int]) -> str | None:
        _, *base, _, r, s = start
        for what, at, (first, last), step in zip(
            ("row", "column"), base, self._bounds(), self.steps, strict=True
        ):
            if not first <= at <= last or (at - first) % step:
                return (
                    f"an im2col copy begins at {what} {at}; the filter's base stands at every "
                    f"{step}. from {first} to {last}"
                )
        if not 0 <= r <= 255 or not 0 <= s <= 255:
            return f"the offsets of an im2col copy are 0 to 255, not {r} and {s}"
        return None

    def _box(self, start: Sequence[int]) -> tuple[Array, Array]:
        image, row, column, channel, r, s = start
        shape = self.shape
        (top, bottom), (left, right) = self._bounds()
        pixel = np.arange(self.box[0])
        # How many bases a row and a column of the bounding box have, and how many come before.
        across = (right - left) // self.steps[1] + 1
        down = (bottom - top) // self.steps[0] + 1
        pixel = pixel + (column - left) // self.steps[1]
        rows = pixel // across + (row - top) // self.steps[0]
        where = (
            image + rows // down,
            top + rows % down * self.steps[0] + r,
            left + pixel % across * self.steps[1] + s,
        )
        inside = np.ones(pixel.shape, np.bool_)
        offset = np.zeros(pixel.shape, np.int64)
        for at, extent in zip(where, shape, strict=False):
            inside &= (at >= 0) & (at < extent)
            offset = offset * extent + np.clip(at, 0, max(extent - 1, 0))
        channels = channel + np.arange(self.box[1])
        here = (channels >= 0) & (channels < shape[3])
        offsets = offset[:, None] * shape[3] + np.clip(channels, 0, max(shape[3] - 1, 0))
        return offsets.reshape(-1), (inside[:, None] & here).reshape(-1)


@simulates(hw.TmaLoadIm2colOp)
def _tma_load_im2col(t: Translator, op: hw.TmaLoadIm2colOp) -> None:
    place = t.values([*op.coordinates, *op.offsets])
    t.line(
        f"w.tma.load({t.number(op)}, {t.name(op.map)}, ({place}), "
        f"{t.name(op.address)}, {t.name(op.barrier)}, {t.name(op.index)}, {t.mask})"
    )
    t.line("yield None")
