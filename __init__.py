"""polyc: a dialect toolkit from tensor programs to CUDA C for SM80 and SM90."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from xdsl.ir import Operation

    from polyc.dialects.common.diagnostic import PolycError as PolycError
    from polyc.runtime.program import Program

__version__ = "0.1.0"


def load(
    source: str | Path | Operation,
    arch: str | None = None,
    name: str | None = None,
    kernels: str | Path | None = None,
    sizes: Mapping[str, int] | None = None,
    records: str | Path | None = None,
) -> Program:
    """Compile a program from its text, its file or its module: see ``polyc.tools.load``."""
    # Imported here, so that the dialects alone stay quick to import.
    from polyc.tools.load import load as loaded

    return loaded(source, arch, name, kernels, sizes, records)


def __getattr__(name: str) -> object:
    """``polyc.PolycError``, what every refusal is; imported when it is asked for."""
    if name == "PolycError":
        from polyc.dialects.common.diagnostic import PolycError

        return PolycError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
