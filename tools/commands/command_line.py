"""``polyc``: compile a program to CUDA C, PTX or a cubin, and run it.

    polyc compile FILE --arch sm_90a --emit cuda -o OUT
    polyc run FILE --set M=512 --set N=768 --set K=320
    polyc bench FILE --set M=512 --set N=768 --set K=320
    polyc analyze FILE --json
    polyc tune FILE --set M=512 --set N=768 --set K=320 --records plans.json
    polyc calibrate --out here.json
    polyc cache list
    polyc import MODEL.onnx -o model.mlir --params model.safetensors

Each command is a module: ``compile``, ``run``, ….  An error is one sentence
on stderr and exit code 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from polyc import __version__
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.commands import analyze as analyze_command
from polyc.tools.commands import bench as bench_command
from polyc.tools.commands import cache as cache_command
from polyc.tools.commands import calibrate as calibrate_command
from polyc.tools.commands import compile as compile_command
from polyc.tools.commands import import_model as import_command
from polyc.tools.commands import run as run_command
from polyc.tools.commands import simulate as simulate_command
from polyc.tools.commands import tune as tune_command
from polyc.tools.errors import guarded
from polyc.tools.interrupt import wants_json

ABOUT = "Compile a program to CUDA C, PTX or a cubin, and run it."


class _Arguments(argparse.ArgumentParser):
    """An argument parser whose errors are diagnostics."""

    def error(self, message: str) -> NoReturn:
        raise PolycError("Usage", f"{message}; {self.prog} --help shows the options")


def arguments() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = _Arguments(prog="polyc", description=ABOUT)
    parser.add_argument("--version", action="version", version=f"polyc {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module in (
        *(compile_command, run_command, bench_command, simulate_command, analyze_command),
        *(tune_command, calibrate_command, cache_command, import_command),
    ):
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.HELP)
        module.add_arguments(command)
        command.add_argument(
            "--diagnostics",
            choices=["text", "json"],
            default="text",
            help="print an error as a sentence or as a line of JSON",
        )
        command.set_defaults(command=module.main)
    return parser


def run(args: Sequence[str]) -> int:
    """Run the command line ``args``; returns the exit code."""

    def command() -> int:
        parsed = arguments().parse_args(args)
        chosen: Callable[[argparse.Namespace], int] = parsed.command
        return chosen(parsed)

    return guarded(command, lambda: wants_json(args))
