"""``polyc-opt``: textual IR in, passes, textual IR or CUDA C out.

The flags are those of ``xdsl-opt``, and more: ``--load-pass`` and ``--load-dialect`` add
what lies outside the package, ``--list-passes`` names all, ``--diagnostics json`` gives
errors as data.  After every pass the module is verified and the order of its definitions
checked.  An error is one sentence on stderr and exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, NoReturn

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import PassPipeline
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from polyc import __version__
from polyc.dialects.common.diagnostic import PolycError
from polyc.rewriting.driver import verify
from polyc.tools.errors import as_polyc_error, guarded
from polyc.tools.interrupt import wants_json
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import dump_text, run_pass
from polyc.tools.printing import MLIRTarget, module_text
from polyc.tools.python_file import module_of
from polyc.tools.registry import PassRegistry, load_dialect, register_dialects
from polyc.tools.streams import STDOUT, decode, is_python, naming, say, write


@dataclass(frozen=True)
class CudaTarget(Target):
    """The CUDA C of a module that is at the hardware level of the gpu dialect."""

    name = "cuda"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        from polyc.lowering.gpu_to_cuda import print_cuda

        print_cuda(module, output)


@dataclass(frozen=True)
class BookTarget(Target):
    """The index books of a module's graphs as JSON (S13.1)."""

    name = "indexbook"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(dump_text("indexbook", module))


@dataclass(frozen=True)
class ViewTarget(Target):
    """The Poly-View of a module's graphs as JSON (S13.1)."""

    name = "poly_view"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(dump_text("poly_view", module))


class PolycOptMain(xDSLOptMain):
    """The tool; ``PolycOptMain(args=[...]).run()`` is a run of it in this process."""

    version_format = f"polyc-opt of polyc {__version__}, on xDSL {{xdsl_version}}"
    registry: PassRegistry

    def register_all_dialects(self) -> None:
        register_dialects(self.ctx)

    def register_all_passes(self) -> None:
        # Passes are found by name when the pipeline is read, not listed before.
        self.registry = PassRegistry()

    def register_all_targets(self) -> None:
        self.available_targets = {
            "mlir": lambda: MLIRTarget,
            "cuda": lambda: CudaTarget,
            "indexbook": lambda: BookTarget,
            "poly_view": lambda: ViewTarget,
        }

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        super().register_all_arguments(arg_parser)
        arg_parser.prog = "polyc-opt"
        arg_parser.description = "Runs passes over textual IR of the six dialects of polyc."
        for action in arg_parser._actions:  # pyright: ignore[reportPrivateUsage]
            if action.dest == "passes":
                action.help = "passes to run, as a,b{option=value},c; --list-passes names them"
            if action.dest == "input_file":
                action.help = (
                    "path to input file; a Python file (.py) is executed for its tile program: run "
                    "none that you do not trust"
                )
        arg_parser.add_argument(
            "--program", metavar="NAME", help="the tile program, when a Python file has several"
        )
        arg_parser.add_argument(
            "--load-pass",
            action="append",
            default=[],
            metavar="MODULE:CLASS",
            help="add a pass from outside the package (may be repeated)",
        )
        arg_parser.add_argument(
            "--load-dialect",
            action="append",
            default=[],
            metavar="MODULE:OBJECT",
            help="add a dialect from outside the package (may be repeated)",
        )
        arg_parser.add_argument(
            "--list-passes", action="store_true", help="print the names of all passes and stop"
        )
        arg_parser.add_argument(
            "--dump",
            dest="target",
            choices=["indexbook", "poly_view"],
            help="print this analysis of the module as JSON in place of the IR",
        )
        arg_parser.add_argument(
            "--check-each",
            action="store_true",
            help="play small random inputs back before and after every pass and compare",
        )
        arg_parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="a symbol's size for --check-each, small without it (may be repeated)",
        )
        arg_parser.add_argument(
            "--seed", type=int, default=0, help="the seed of the random inputs of --check-each"
        )
        arg_parser.add_argument(
            "--diagnostics",
            choices=["text", "json"],
            default="text",
            help="print an error as a sentence or as a line of JSON",
        )

        def usage_error(message: str) -> NoReturn:
            raise PolycError("Usage", f"{message}; polyc-opt --help shows the options")

        arg_parser.error = usage_error

    def setup_pipeline(self) -> None:
        for reference in self.args.load_dialect:
            load_dialect(self.ctx, reference)
        for reference in self.args.load_pass:
            self.registry.add(reference)
        self.pipeline = PassPipeline(tuple(self.registry.parse(self.args.passes)))

    def check_options(self) -> None:
        """Raises PolycError for options of ``--check-each`` that it does not take or is without."""
        if self.args.set:
            from polyc.tools.sizes import given_sizes

            given_sizes(self.args.set)
            if not self.args.check_each:
                raise PolycError("Usage", "--set gives sizes to --check-each; add that")
        if self.args.seed < 0:
            raise PolycError("Usage", f"--seed {self.args.seed}: a seed is 0 or more")

    def run(self) -> None:
        """Process the input, chunk by chunk; raises PolycError unless asked to print it."""
        self.check_options()
        if self.args.list_passes:
            say("\n".join(self.registry.names(plugins=True)) + "\n")
            return
        kept: list[str] = []
        show = say if self.args.output_file is None else kept.append
        name = self.get_input_name()
        for number, (text, offset) in enumerate(self._chunks(name)):
            if number:
                show("// -----\n")
            parsed = False
            try:
                module = self._module(text, name, offset)
                parsed = True
                self.apply_passes(module)
                made = self.output_resulting_program(module)
            except Exception as error:
                if isinstance(error, OSError) and error.filename == STDOUT:
                    raise
                known = as_polyc_error(error, name)
                shown = (
                    self.args.verify_diagnostics
                    if parsed or known.kind != "ParseError"
                    else self.args.parsing_diagnostics
                )
                if not shown or known.kind in ("InternalError", "PluginFailed"):
                    raise known from error
                made = known.format() + "\n"
            show(made)
        if self.args.output_file is not None:
            write(self.args.output_file, "".join(kept).encode())

    def _module(self, text: str, name: str, offset: int) -> ModuleOp:
        if is_python(name):
            return module_of(name, self.args.program)
        if self.args.program is not None:
            raise PolycError(
                "Usage", f"--program {self.args.program} is for a Python file, and {name} is text"
            )
        return parse_text(self.ctx, text, name, offset, not self.args.no_implicit_module)

    def _chunks(self, name: str) -> list[tuple[str, int]]:
        """The texts to process and the lines of the file before each."""
        if is_python(name):
            return [("", 0)]
        with naming(name):
            stream, _ = self.get_input_stream()
            with stream:
                text = decode(stream.read(), name)
        if not self.args.split_input_file:
            return [(text, 0)]
        chunks: list[tuple[str, int]] = []
        line = 0
        for chunk in text.split("// -----"):
            chunks.append((chunk, line))
            line += chunk.count("\n")
        return chunks

    def apply_passes(self, prog: ModuleOp) -> None:
        checked = not self.args.disable_verify
        if checked:
            verify(prog)
        check = None
        if self.args.check_each:
            from polyc.tools.check import EachPass
            from polyc.tools.play import programs
            from polyc.tools.sizes import given_for

            given = given_for(self.args.set, programs(prog), prog)
            check = EachPass.of_module(prog, self.args.seed, given)
        passes = self.pipeline.passes
        for number, instance in enumerate(passes):
            start = time.perf_counter()
            run_pass(self.ctx, instance, prog, check=checked)
            if self.args.time_passes:
                spent = (time.perf_counter() - start) * 1e3
                print(f"{instance.name}: {spent:.1f} ms", file=sys.stderr)
            if check is not None:
                check.after(prog, instance.name)
            if self.args.print_between_passes and number + 1 < len(passes):
                debuginfo, generic = self.args.print_debuginfo, self.args.print_op_generic
                say(f"// IR after {instance.name}\n{module_text(prog, debuginfo, generic)}")
        if check is not None:
            check.finish()


def run(args: Sequence[str]) -> int:
    """Run the command line ``args``; returns the exit code."""

    def command() -> int:
        PolycOptMain(args=list(args)).run()
        return 0

    return guarded(command, lambda: wants_json(args))
