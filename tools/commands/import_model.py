"""``polyc import``: a model of another library as IR, and its parameters beside it.

A kind of model is a line in ``READERS``, by the ending of its files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.steps import Steps, on_stdout

if TYPE_CHECKING:
    from polyc.importers.imported import Imported

NAME = "import"
HELP = "Import a model of another library: its graph as IR, its parameters as a safetensors file."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    endings = " or ".join(READERS)
    parser.add_argument("model", metavar="MODEL", help=f"the model's file, {endings}")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where the IR goes; without it to stdout"
    )
    parser.add_argument(
        "--params", metavar="FILE", help="the safetensors file that the parameters are written to"
    )
    parser.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="the number of a named size, which is a symbol without it (may be repeated)",
    )
    parser.add_argument(
        "--known",
        action="append",
        default=[],
        metavar="NAME=NUMBERS",
        help="the numbers of an input that are the same at every call, as 2,3 or in a .npy file "
        "(may be repeated)",
    )
    parser.add_argument(
        "--assume",
        default="",
        metavar="FACTS",
        help='what holds of sizes, "batch >= 1, N mod 8 == 0"',
    )
    parser.add_argument(
        "--emulate",
        action="store_true",
        help="compute types that graphs have not in others: f64 in f32",
    )


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    path = Path(args.model)
    reader = READERS.get(path.suffix)
    if reader is None:
        raise PolycError(
            "Usage",
            f"{path} is no model of a kind that is known; there are {', '.join(READERS)}",
        )
    if args.params is not None and Path(args.params).suffix != ".safetensors":
        raise PolycError("Usage", f"--params {args.params}: the file ends in .safetensors")
    model = reader(path, args)
    if model.parameters and args.params is None:
        raise PolycError(
            "Usage",
            f"{path} has {len(model.parameters)} parameters; say where they go: "
            "--params model.safetensors",
        )
    params = args.params if model.parameters else None
    if args.output is None:
        if params is not None:
            from polyc.runtime.safetensors import write_params

            write_params(params, model.parameters)
        sys.stdout.write(model.text)
        return 0
    model.save(args.output, params)
    _told(on_stdout(), model, args.output, params)
    return 0


def _told(steps: Steps, model: Imported, output: str, params: str | None) -> None:
    ops = sum(1 for _ in model.graph.body.block.ops) - 1
    kept = f", {len(model.parameters)} parameters in {params}" if params is not None else ""
    steps.say(f"@{model.graph.sym_name.data}: {ops} ops in {output}{kept}")


def _settings(given: Sequence[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name or not value:
            raise PolycError("Usage", f"{option} {one}: write NAME=VALUE")
        if name in found:
            raise PolycError("Usage", f"{option} gives {name} twice")
        found[name] = value
    return found


def _sizes(given: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, value in _settings(given, "--size").items():
        if not value.isdecimal() or int(value) >= 2**31:
            raise PolycError("BadSize", f"--size {name}={value}: a size is a number below 2^31")
        found[name] = int(value)
    return found


def _known(given: Sequence[str]) -> dict[str, Any]:
    import numpy as np

    found: dict[str, Any] = {}
    for name, value in _settings(given, "--known").items():
        if value.endswith(".npy"):
            try:
                found[name] = np.load(value, allow_pickle=False)
            except ValueError as error:
                raise PolycError("Usage", f"--known {name}={value}: {error}") from None
            continue
        try:
            numbers = [int(n) for n in value.split(",")]
        except ValueError:
            raise PolycError(
                "Usage", f"--known {name}={value}: write whole numbers, as 2,3, or a .npy file"
            ) from None
        found[name] = np.array(numbers, dtype=np.int64)
    return found


def _onnx(path: Path, args: argparse.Namespace) -> Imported:
    from polyc.importers.onnx import from_onnx

    return from_onnx(
        path,
        known=_known(args.known),
        sizes=_sizes(args.size),
        assume=args.assume,
        emulate=args.emulate,
    )


def _exported(path: Path, args: argparse.Namespace) -> Imported:
    from polyc.importers.pt2 import load_exported
    from polyc.importers.torch import from_exported

    if args.known or args.size or args.assume or args.emulate:
        raise PolycError(
            "Usage",
            f"{path}: an exported program has its own sizes and types; --known, --size, --assume "
            "and --emulate are of ONNX",
        )
    return from_exported(load_exported(path), path.stem)


READERS: Mapping[str, Callable[[Path, argparse.Namespace], Imported]] = {
    ".onnx": _onnx,
    ".pt2": _exported,
}
"""What reads a kind of model, by the ending of its files."""
