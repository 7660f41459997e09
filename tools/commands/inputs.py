"""Which graph of a file a command plays, on which kinds of inputs, and with whose kernels."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.pipeline import Compilation, graphs

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.runtime.const_pool import Constants

KINDS = ("uniform", "large", "mixed", "rows", "tiny", "special")
"""The kinds of random inputs, as ``playback/draws.py`` has them, which imports NumPy."""


def add_draw(parser: argparse.ArgumentParser) -> None:
    """The option ``--draw``: which kinds of random inputs are compared on."""
    parser.add_argument(
        "--draw",
        action="append",
        choices=KINDS,
        help="a kind of random inputs to compare on (may be repeated); without it all",
    )


def add_kernels(parser: argparse.ArgumentParser) -> None:
    """The option ``--kernels``: a file of kernels written by hand."""
    parser.add_argument(
        "--kernels",
        metavar="FILE",
        help="a Python file of tile programs that say what they replace, which is executed; where "
        "one computes a region of the program and is faster than its plans by the model, it runs",
    )


def use_kernels(job: Compilation, path: str | None, sizes: Mapping[str, int]) -> None:
    """Have a job use the kernels of a file, if there is one; ``sizes`` are what they are ranked at.

    Raises PolycError as ``with_kernels`` does.
    """
    if path is not None:
        from polyc.tools.kernels.by_hand import with_kernels

        with_kernels(job, path, sizes)


def add_sizes(
    parser: argparse.ArgumentParser, what: str = "the value of a symbol, one for each"
) -> None:
    """The option ``--set``: sizes by the names of their symbols, for ``tools/sizes.py`` to read."""
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"{what} (may be repeated)",
    )


def add_params(parser: argparse.ArgumentParser, how: str) -> None:
    """The option ``--params``: files that hold what the program's constant pool keeps."""
    parser.add_argument(
        "--params",
        action="append",
        metavar="FILE",
        help=f"a safetensors file with the program's parameters, {how} (may be repeated)",
    )


def settings_with(settings: Sequence[str], held: Constants | None) -> list[str]:
    """What ``--set`` says, and the sizes that parameters show where it says nothing of them."""
    given = {setting.partition("=")[0] for setting in settings}
    shown = {} if held is None else held.sizes
    return [*settings, *(f"{name}={size}" for name, size in shown.items() if name not in given)]


def check_held(held: Constants | None, symbols: Mapping[str, int]) -> None:
    """Raises PolycError ``BadSize`` where ``--set`` and the parameters do not agree on a size."""
    for name, size in ({} if held is None else held.sizes).items():
        if symbols[name] != size:
            raise PolycError(
                "BadSize", f"--set {name}={symbols[name]}: {name} is {size} by the parameters"
            )


def add_records(parser: argparse.ArgumentParser) -> None:
    """The option ``--records``: a file of measured plans."""
    parser.add_argument(
        "--records",
        metavar="FILE",
        help="measured plans, as polyc tune writes them: they run at their sizes on their GPU",
    )


def add_device(parser: argparse.ArgumentParser) -> None:
    """The option ``--device``: the chip whose figures the model of time takes."""
    parser.add_argument(
        "--device",
        metavar="FILE",
        help="the chip that kernels are modelled on: a file that polyc calibrate wrote, or A100, "
        "H100 or H200",
    )


def use_measured(job: Compilation, records: str | None, device: str | None = None) -> None:
    """Have a job use records and the figures of a chip, where they are given.

    Raises PolycError: ``BadRecord``, ``BadDevice``.
    """
    chip = None
    if device is not None:
        from polyc.tuning.figures import figures_of

        figures = figures_of(device, job.arch)
        job.device, chip = figures.device, figures.chip
    if records is not None:
        from polyc.tuning.applied import Recorded

        job.records = Recorded.of_file(records, chip)


def the_graph(module: ModuleOp, file: str, name: str | None) -> SignatureOp:
    """The frontend graph to run, alone in the module from then on: nothing compiles the others.

    Raises PolycError of kind ``NothingToRun``.
    """
    from polyc.dialects.frontend import GraphOp

    found = {g.sym_name.data: g for g in graphs(module) if isinstance(g, GraphOp)}
    listed = ", ".join(found)
    if not found:
        raise PolycError(
            "NothingToRun", "the file has no frontend.graph; run takes the frontend layer", module
        )
    if name is None and len(found) > 1:
        raise PolycError(
            "NothingToRun", f"the file has the graphs {listed}; choose one with --graph", module
        )
    if name is not None and name not in found:
        raise PolycError("NothingToRun", f"{file} has no graph {name!r}; it has {listed}", module)
    graph = next(iter(found.values())) if name is None else found[name]
    for other in [op for op in module.ops if op is not graph]:
        other.detach()
    return graph
