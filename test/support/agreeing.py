"""The one comparison, as tests ask it: what a program means, and whether arrays agree with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute

from polyc.playback.agreement import tolerance_check
from polyc.playback.estimate import Estimate
from polyc.playback.functions import DTYPES
from polyc.tools.check import operation
from polyc.tools.play import estimated, programs


def meant(
    module: ModuleOp, inputs: Sequence[Any], sizes: Mapping[str, int], name: str | None = None
) -> list[Estimate]:
    """The outputs of the module's only program, or that of a name, with their errors."""
    (program,) = [p for p in programs(module) if name in (None, p.sym_name.data)]
    found = estimated(operation(program), inputs, sizes)
    assert found is not None, "a layer without playback means nothing"
    return list(found)


def type_of(array: Any) -> Attribute:
    """The element type that an array is stored in."""
    return next(kind for kind, dtype in DTYPES.items() if dtype == array.dtype)


def assert_agree(found: Sequence[Any], right: Sequence[Estimate | Any], what: Any = "") -> None:
    """Every array agrees with what is meant, in the type that it is stored in."""
    for number, (one, other) in enumerate(zip(found, right, strict=True)):
        array = np.asarray(one)
        mismatch = tolerance_check(array, other, type_of(array))
        assert mismatch is None, f"{what} output {number}: {mismatch}"
