"""A program on the GPU under each of its variants."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program

LEFT_OUT = "POLYC_VARIANTS_LEFT_OUT"
"""In the environment: variants whose names have this are not run, nor what the dispatch gives."""


def results(
    program: Program, inputs: Sequence[object], symbols: Mapping[str, int] | None = None
) -> Iterator[tuple[str | None, list[object]]]:
    """What the dispatch gives, and then each variant whose conditions hold, with its name."""
    left_out = os.environ.get(LEFT_OUT, "")
    for variant in (None, *program.variants):
        if left_out and (variant is None or left_out in variant):
            continue
        try:
            found = program.run(inputs, symbols, variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant" and variant is not None
            continue
        yield variant, found
