"""A program on the GPU under each of its variants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program


def results(
    program: Program, inputs: Sequence[object], symbols: Mapping[str, int] | None = None
) -> Iterator[tuple[str | None, list[object]]]:
    """What the dispatch gives, and then each variant whose conditions hold, with its name."""
    for variant in (None, *program.variants):
        try:
            found = program.run(inputs, symbols, variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant" and variant is not None
            continue
        yield variant, found
