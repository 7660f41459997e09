"""``polyc calibrate``: measure the figures that the model of time divides by, on this GPU."""

from __future__ import annotations

import argparse

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.steps import on_stdout
from polyc.tools.streams import write

NAME = "calibrate"
HELP = "Measure the figures of this GPU that the model of time divides by."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--out", metavar="FILE", help="where to write them, for --device of other commands"
    )


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    from polyc.runtime import driver

    if not driver.available():
        raise PolycError(
            "NoGPU",
            "polyc calibrate times kernels on a GPU, and there is none here; --device A100, H100 "
            "or H200 takes figures that come with polyc",
        )
    from polyc.tools.commands.tune import own_arch
    from polyc.tools.tuning.calibration import calibrated, figure_lines

    steps = on_stdout()
    figures, beside = calibrated(own_arch(), steps)
    steps.say(f"{figures.chip}, {figures.arch}")
    for line in figure_lines(figures, beside):
        steps.say(line)
    if args.out is not None:
        write(args.out, figures.as_text().encode())
        steps.say(f"wrote {args.out}")
    return 0
