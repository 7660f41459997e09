"""``polyc compile``: a program to IR of the gpu layer, CUDA C, PTX or a cubin."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from xdsl.dialects.builtin import StringAttr

from polyc.cost.time import TYPICAL
from polyc.dialects.common.arch import ARCHS, arch_names
from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.commands.inputs import (
    add_device,
    add_kernels,
    add_params,
    add_records,
    add_sizes,
    use_kernels,
    use_measured,
)
from polyc.tools.pipeline import DUMPS, Compilation, add_file_arguments, dump_text
from polyc.tools.printing import module_text
from polyc.tools.sizes import given_sizes
from polyc.tools.steps import on_stderr, on_stdout, quiet
from polyc.tools.streams import make_folder, write

NAME = "compile"
HELP = "Compile a program for one architecture."
EMITS = ("mlir", "cuda", "ptx", "cubin")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_file_arguments(parser, "the program, textual IR")
    parser.add_argument("--arch", help=f"{arch_names()}; a gpu.module and a plan say it themselves")
    parser.add_argument("--emit", choices=EMITS, default="cuda", help="what to make")
    parser.add_argument("-o", "--output", default="-", help="where to; - is stdout")
    parser.add_argument(
        "--plan",
        help="a JSON file with schedules, or some fields of one, in place of what polyc chooses",
    )
    add_records(parser)
    add_device(parser)
    add_kernels(parser)
    add_sizes(
        parser,
        "a size at which kernels by hand are compared with plans; "
        f"a symbol without one is taken as {TYPICAL}",
    )
    add_params(parser, "to see that it fits: what is made does not depend on it")
    parser.add_argument(
        "--dump", default="", help=f"layers to write, with commas between: {','.join(DUMPS)}"
    )
    parser.add_argument("--dump-dir", default="polyc-dump", help="the folder for --dump")


def main(args: argparse.Namespace) -> int:
    """The command; returns the exit code, raises PolycError and OSError."""
    output: str = args.output
    dumps = [name for name in str(args.dump).split(",") if name]
    for name in dumps:
        if name not in DUMPS:
            raise PolycError("Usage", f"--dump has no {name!r}; it has {', '.join(DUMPS)}")
    emit: str = args.emit
    if emit == "cubin" and output == "-" and sys.stdout.isatty():
        raise PolycError("Usage", "a cubin is binary; say where to with -o FILE")
    # With the text on stdout, steps are for the eyes of someone who waits at a terminal.
    on_terminal = on_stderr() if sys.stderr.isatty() else quiet()
    steps = on_terminal if output == "-" else on_stdout()
    job = Compilation.of_file(args.file, args.arch or next(iter(ARCHS)), steps, args.program)
    job.arch = own_arch(job, args.arch)
    job.plan = args.plan
    use_measured(job, args.records, args.device)
    if args.params is not None:
        from polyc.tools.held import bound
        from polyc.tools.play import Signature

        for op in job.module.ops:
            if Signature.of(op) is not None:
                bound(op, args.params)
    sizes = given_sizes(args.set)
    if sizes and args.kernels is None:
        raise PolycError("Usage", "--set is about kernels by hand; give their file by --kernels")
    use_kernels(job, args.kernels, sizes)
    job.keep = {DUMPS[name][0] for name in dumps}
    # What was reached is written even when a later stage fails: that is when it is read.
    try:
        job.run()
        cuda = job.cuda() if emit != "mlir" or "cu" in dumps else ""
    except Exception:
        _dump(job, [name for name in dumps if DUMPS[name][0] in job.kept], "", args.dump_dir)
        raise
    _dump(job, dumps, cuda, args.dump_dir)
    if emit == "mlir":
        data = module_text(job.module).encode()
    elif emit == "cuda":
        data = cuda.encode()
    else:
        from polyc.runtime.nvrtc import compile_cuda

        with steps.step(f"NVRTC {emit}") as step:
            result = compile_cuda(cuda, job.arch, "cubin" if emit == "cubin" else "ptx")
            step.note = "from the cache" if result.cached else ""
        data = result.image
    write(output, data)
    if output != "-":
        steps.say(f"wrote {output}, {len(data)} bytes")
    return 0


def own_arch(job: Compilation, asked: str | None) -> str:
    """The architecture that is asked for, or else the text's own.

    Raises PolycError: ``ArchMismatch`` where the text is for another one, ``Usage`` without any.
    """
    for op in job.module.walk():
        own = op.properties.get("arch")
        if isinstance(own, StringAttr) and own.data != (asked := asked or own.data):
            raise PolycError(
                "ArchMismatch",
                f"{op.name} is for {own.data}, and --arch is {asked}; give one of both",
                op,
            )
    if asked is None:
        raise PolycError(
            "Usage", "the following arguments are required: --arch; polyc compile --help shows more"
        )
    return asked


def _dump(job: Compilation, dumps: list[str], cuda: str, folder: str) -> None:
    if not dumps:
        return
    with job.steps.step("dump") as step:
        make_folder(folder)
        for name in dumps:
            stage, file = DUMPS[name]
            text = dump_text(name, job.kept.get(stage, job.module), cuda)
            write(str(Path(folder) / file), text.encode())
        step.note = f"{', '.join(DUMPS[name][1] for name in dumps)} in {folder}"
