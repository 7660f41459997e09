"""The printer of the tools, and the target that ``polyc-opt`` prints with."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnregisteredOp
from xdsl.ir import Operation
from xdsl.printer import Printer
from xdsl.utils.target import Target


class LocatingPrinter(Printer):
    """Prints each location once, and writes to its stream without ``print``.

    xDSL's printer ends a custom assembly format that prints an operation's type with the
    location twice, and such a text does not parse.
    """

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
            return
        self._current_column += len(text)
        self.stream.write(text)

    def print_operation_type(self, op: Operation) -> None:
        custom = type(op).print is not Operation.print and not isinstance(op, UnregisteredOp)
        if custom and not self.print_generic_format:
            self.print_function_type(op.operand_types, op.result_types)
        else:
            super().print_operation_type(op)


def module_text(module: Operation, debuginfo: bool = False, generic: bool = False) -> str:
    """The text of ``module``, with one line end at the end."""
    out = StringIO()
    printer = LocatingPrinter(stream=out, print_debuginfo=debuginfo, print_generic_format=generic)
    printer.print_op(module)
    return out.getvalue() + "\n"


@dataclass(frozen=True)
class MLIRTarget(Target):
    """Textual IR; the fields are flags of ``polyc-opt``."""

    name = "mlir"

    print_generic_format: bool = False
    print_properties_as_attributes: bool = False
    print_debuginfo: bool = False
    syntax_highlight: bool = False

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        if self.syntax_highlight or self.print_properties_as_attributes:
            from xdsl.targets.mlir import MLIRTarget as Upstream

            Upstream(
                self.print_generic_format,
                self.print_properties_as_attributes,
                self.print_debuginfo,
                self.syntax_highlight,
            ).emit(ctx, module, output)
            return
        printer = LocatingPrinter(
            stream=output,
            print_generic_format=self.print_generic_format,
            print_debuginfo=self.print_debuginfo,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        output.write("\n")
