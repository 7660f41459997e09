"""What an architecture gives a kernel, as ``gpu-bind-target`` notes it on a module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from polyc.dialects.common.arch import Arch


@dataclass(frozen=True)
class Limits:
    """Bytes of shared memory and threads of a CTA, and 32-bit registers of an SM."""

    shared_bytes: int
    registers: int
    threads: int

    @staticmethod
    def of(arch: Arch) -> Limits:
        return Limits(arch.shared_bytes, arch.registers, arch.threads)

    def __str__(self) -> str:
        shared, registers, threads = astuple(self)
        return f"<shared_bytes {shared}, registers {registers}, threads {threads}>"


@irdl_attr_definition
class TargetAttr(Data[Limits]):
    """``#gpu.target<shared_bytes 166912, registers 65536, threads 1024>``.

    It is on the modules that the passes work on, and on none whose author has begun below them.
    """

    name = "gpu.target"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Limits:
        with parser.in_angle_brackets():
            numbers: list[int] = []
            for i, word in enumerate(WORDS):
                if i:
                    parser.parse_punctuation(",")
                parser.parse_keyword(word)
                numbers.append(parser.parse_integer(allow_boolean=False))
        return Limits(*numbers)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data))


WORDS: Sequence[str] = ("shared_bytes", "registers", "threads")
