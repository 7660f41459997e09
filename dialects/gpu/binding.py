"""What the host passes for an argument of a kernel: an address, a TMA descriptor, or a size."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from enum import Enum

from xdsl.dialects.builtin import IntAttr, NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Shape, ShapeAttr, parse_shape, shape_text

WORKSPACE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""What a workspace may be called."""


class BindKind(Enum):
    """What the host passes for a kernel argument."""

    tensor = "tensor"
    workspace = "workspace"
    tensor_map = "tensor_map"
    symbol = "symbol"


@irdl_attr_definition
class BindAttr(ParametrizedAttribute):
    """The host's side of one kernel argument.

    ``#gpu.bind<tensor 0>`` is the address of the signature's tensor 0,
    ``#gpu.bind<workspace "partial">`` that of memory which the host allocates for the launch
    (``gpu.workspace``), ``#gpu.bind<tensor_map 0>`` and ``#gpu.bind<tensor_map "partial">`` TMA
    descriptors over the two (box and swizzle are in the argument's type), ``#gpu.bind<symbol M>``
    the value of a size.  A descriptor over a view with merged axes says its sizes:
    ``#gpu.bind<tensor_map 0 view [N * P * Q, F]>``.
    """

    name = "gpu.bind"
    kind: StringAttr
    source: IntAttr | StringAttr
    view: ShapeAttr | NoneAttr

    @staticmethod
    def tensor(index: int) -> BindAttr:
        return BindAttr(StringAttr("tensor"), IntAttr(index), NoneAttr())

    @staticmethod
    def workspace(name: str) -> BindAttr:
        return BindAttr(StringAttr("workspace"), StringAttr(name), NoneAttr())

    @staticmethod
    def tensor_map(source: int | str, view: Shape | None = None) -> BindAttr:
        """A descriptor over a tensor of the signature, or over the workspace of that name.

        ``view`` are the sizes that it is seen in, where they are not its own.
        """
        memory = IntAttr(source) if isinstance(source, int) else StringAttr(source)
        sizes = NoneAttr() if view is None else ShapeAttr(view)
        return BindAttr(StringAttr("tensor_map"), memory, sizes)

    @staticmethod
    def symbol(name: str) -> BindAttr:
        return BindAttr(StringAttr("symbol"), StringAttr(name), NoneAttr())

    @property
    def tensor_index(self) -> int | None:
        """The signature's tensor that the argument is made from, if it is one."""
        return self.source.data if isinstance(self.source, IntAttr) else None

    @property
    def workspace_name(self) -> str | None:
        """The workspace that the argument is made from, if it is one."""
        is_name = isinstance(self.source, StringAttr) and self.kind.data != "symbol"
        return str(self.source.data) if is_name else None

    @property
    def symbol_name(self) -> str | None:
        """The size that the argument is the value of, if it is one."""
        return str(self.source.data) if self.kind.data == "symbol" else None

    @property
    def view_dims(self) -> Shape | None:
        """The sizes that a descriptor sees the memory in, where they are not its own."""
        return self.view.data if isinstance(self.view, ShapeAttr) else None

    def as_tensor_map(self, view: Shape | None = None) -> BindAttr | None:
        """A descriptor over the same memory, or a view of it; None where there is no memory."""
        if self.kind.data == "symbol":
            return None
        source = self.source.data
        return BindAttr.tensor_map(source, view)

    @classmethod
    def parse_binding(cls, parser: AttrParser) -> BindAttr:
        """Parse ``tensor 0``, ``workspace "name"``, ``tensor_map 0`` or ``symbol M``."""
        pos = parser.pos
        kind = parser.parse_identifier()
        if kind not in (k.value for k in BindKind):
            kinds = ", ".join(k.value for k in BindKind)
            parser.raise_error(f"an argument binds {kinds}, not {kind}", pos, parser.pos)
        if kind == "symbol":
            return BindAttr.symbol(parser.parse_identifier())
        if kind == "workspace":
            return BindAttr.workspace(parser.parse_str_literal())
        if kind == "tensor":
            return BindAttr.tensor(parser.parse_integer(allow_boolean=False, allow_negative=False))
        source: int | str | None = parser.parse_optional_str_literal()
        if source is None:
            source = parser.parse_integer(allow_boolean=False, allow_negative=False)
        seen = parser.parse_optional_keyword("view") is not None
        return BindAttr.tensor_map(source, parse_shape(parser) if seen else None)

    def text(self) -> str:
        name = self.workspace_name
        text = f"{self.kind.data} {self.source.data if name is None else json.dumps(name)}"
        view = self.view_dims
        return text if view is None else f"{text} view {shape_text(view)}"

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            binding = cls.parse_binding(parser)
        return (binding.kind, binding.source, binding.view)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.text()}>")

    def verify(self) -> None:
        kinds = [k.value for k in BindKind]
        if self.kind.data not in kinds:
            raise VerifyException(f"an argument binds {', '.join(kinds)}, not {self.kind.data}")
        numbered = isinstance(self.source, IntAttr)
        if self.kind.data != "tensor_map" and numbered != (self.kind.data == "tensor"):
            raise VerifyException(f"{self.source} does not say which {self.kind.data} is bound")
        if self.kind.data != "tensor_map" and self.view_dims is not None:
            raise VerifyException(
                f"{self.text()} gives the sizes of a view, which the argument's own type says"
            )
        name = self.workspace_name
        if name is not None and WORKSPACE_NAME.fullmatch(name) is None:
            raise VerifyException(
                f"a workspace's name is letters, digits and _, not {json.dumps(name)}"
            )
