"""Launches of the gpu dialect: the variants of a dispatch, and what they run on (S9.3, S12.1).

A variant is one ``gpu.launch``, or a ``gpu.sequence`` of several with the workspaces between
them.  Its conditions are about sizes and addresses, its grid is computed by the host.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, StringAttr, SymbolRefAttr, UnitAttr
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, NoTerminator
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import (
    AssumptionsAttr,
    Dim,
    ShapeAttr,
    parse_assumptions,
    parse_dim,
    parse_shape,
    shape_text,
    unknown_symbol,
)
from polyc.dialects.common.grids import Grid, stands_for_copy
from polyc.dialects.gpu.binding import WORKSPACE_NAME, BindAttr
from polyc.dialects.gpu.containers import Dispatch, Module
from polyc.dialects.gpu.kernel import KernelOp, kernels_of
from polyc.dialects.gpu.types import GlobalType, IntsAttr
from polyc.dialects.gpu.views import check_bound

Container = TypeVar("Container", Module, Dispatch)

MEMORIES = ("tensor", "workspace")
"""The kinds of bindings that are memory as it is."""


def parse_optional_assumptions(parser: Parser, word: str) -> AssumptionsAttr:
    """The facts behind ``word``, if it stands there."""
    if parser.parse_optional_keyword(word) is None:
        return AssumptionsAttr(())
    return AssumptionsAttr(parse_assumptions(parser))


def check_symbols(who: str, tensor: GlobalType, known: Sequence[str]) -> None:
    """Refuse a tensor whose sizes name another symbol; raises VerifyException."""
    for size in tensor.dims:
        if unknown := [s for s in size.symbols() if s not in known]:
            raise VerifyException(
                f"{who} of {tensor} names {unknown[0]}, which is none of [{', '.join(known)}]"
            )


def _container(op: Operation, kind: type[Container]) -> Container:
    """The one of a kind that the op stands in."""
    parent = op.parent_op()
    while not isinstance(parent, kind):
        assert parent is not None, f"{op.name} stands in a {kind.name}"
        parent = parent.parent_op()
    return parent


def _verify_conditions(
    op: LaunchOp | SequenceOp, when: AssumptionsAttr, align: Sequence[int]
) -> None:
    """A variant's conditions are about the module's symbols and the signature's tensors."""
    dispatch, module = _container(op, Dispatch), _container(op, Module)
    if len(align) != len(dispatch.arg_types):
        raise VerifyException(
            f"{len(align)} alignments do not fit {len(dispatch.arg_types)} tensors"
        )
    for fact in when.data:
        if (fault := unknown_symbol(fact, module.symbol_names)) is not None:
            raise VerifyException(f"{fault} of gpu.module @{module.sym_name.data}")


def _parse_conditions(parser: Parser) -> tuple[AssumptionsAttr, list[int]]:
    when = parse_optional_assumptions(parser, "when")
    align: list[int] = []
    if parser.parse_optional_keyword("align") is not None:
        align = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return when, align


def _print_conditions(printer: Printer, when: AssumptionsAttr, align: Sequence[int]) -> None:
    if when.data:
        printer.print_string(f" when {when.text()}")
    printer.print_string(f" align [{', '.join(map(str, align))}]")


@irdl_op_definition
class SequenceOp(IRDLOperation):
    """A variant of several launches: they run in order, each after the one before is done.

    ``when`` and ``align`` are the conditions of all of it, as ``gpu.launch`` has them.  The
    body declares the workspaces and then launches: a launch sees what those before it wrote.
    Its name is the variant's.  A launch whose grid is 0 at some size does nothing.
    """

    name = "gpu.sequence"
    sym_name = prop_def(StringAttr)
    when = prop_def(AssumptionsAttr)
    align = prop_def(IntsAttr)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), HasParent(Dispatch))

    def __init__(
        self,
        name: str,
        when: AssumptionsAttr,
        align: Sequence[int],
        ops: Sequence[Operation],
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "when": when,
                "align": IntsAttr(tuple(align)),
            },
            regions=[Region(Block(ops))],
        )

    @property
    def variant_name(self) -> str:
        return self.sym_name.data

    @property
    def facts(self) -> AssumptionsAttr:
        """The conditions on sizes."""
        return self.when

    @property
    def alignments(self) -> tuple[int, ...]:
        """Bytes that the base address of each of the signature's tensors is a multiple of."""
        return self.align.data

    def launches(self) -> list[LaunchOp]:
        return [op for op in self.body.block.ops if isinstance(op, LaunchOp)]

    def workspaces(self) -> list[WorkspaceOp]:
        return [op for op in self.body.block.ops if isinstance(op, WorkspaceOp)]

    @classmethod
    def parse(cls, parser: Parser) -> SequenceOp:
        name = parser.parse_symbol_name().data
        when, align = _parse_conditions(parser)
        op = cls(name, when, align, [])
        body = parser.parse_region()
        op.detach_region(op.body)
        op.add_region(body)
        if not body.blocks:
            body.add_block(Block())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        _print_conditions(printer, self.when, self.align.data)
        printer.print_string(" ")
        printer.print_region(self.body)

    def verify_(self) -> None:
        _verify_conditions(self, self.when, self.align.data)
        seen: set[str] = set()
        for op in self.body.block.ops:
            if not isinstance(op, LaunchOp | WorkspaceOp):
                raise VerifyException(
                    f"gpu.sequence holds gpu.workspace and gpu.launch, not {op.name}"
                )
            if isinstance(op, WorkspaceOp):
                if op.sym_name.data in seen:
                    raise VerifyException(
                        f'the sequence has two workspaces "{op.sym_name.data}"; rename one'
                    )
                seen.add(op.sym_name.data)
                made = sum(x.fills_name == op.sym_name.data for x in self.launches())
                if op.copies is not None and made != 1:
                    raise VerifyException(
                        f'the workspace "{op.sym_name.data}" is a copy, and {made} launches say '
                        "that they fill it; one makes it"
                    )
        if not self.launches():
            raise VerifyException(f"gpu.sequence @{self.sym_name.data} launches nothing")


@irdl_op_definition
class WorkspaceOp(IRDLOperation):
    """Memory that the host allocates for the launches of a sequence.

    Its address is a multiple of 256 bytes; what it holds is not defined before a launch of the
    sequence writes it, or 0 with ``zeroed``.  Kernels bind it by its name.  ``type`` says its
    shape and element type, and its ``align`` stays open: conditions and shape imply it.

    ``copies`` names the tensor of the signature, or the workspace before it, whose rows a launch
    of the sequence copies into it (``fills``), with something behind each where its own are
    longer.  Where they are not, so that it has as many elements, and that one's address is a
    multiple of 16 bytes, nothing is copied: it is that tensor, and the launch is left out.  So no
    other launch writes it.
    """

    name = "gpu.workspace"
    sym_name = prop_def(StringAttr)
    type = prop_def(GlobalType)
    zeroed = opt_prop_def(UnitAttr)
    copies = opt_prop_def(BindAttr)
    traits = traits_def(HasParent(SequenceOp))

    def __init__(
        self,
        name: str,
        kind: GlobalType,
        zeroed: bool = False,
        copies: BindAttr | None = None,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "type": kind,
                "zeroed": UnitAttr() if zeroed else None,
                "copies": copies,
            }
        )

    def is_source(self, elements: int, address: int, symbols: Mapping[str, int]) -> bool:
        """Whether it is what it ``copies``, which has so many elements at such an address."""
        whole = self.type.dims
        return self.copies is not None and stands_for_copy(whole, elements, address, symbols)

    @classmethod
    def parse(cls, parser: Parser) -> WorkspaceOp:
        name = parser.parse_str_literal()
        zeroed = parser.parse_optional_keyword("zeroed") is not None
        parser.parse_punctuation(":")
        pos = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, GlobalType):
            parser.raise_error("a workspace is a !gpu.global", pos, parser.pos)
        copied = parser.parse_optional_keyword("copies") is not None
        return cls(name, kind, zeroed, BindAttr.parse_binding(parser) if copied else None)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.sym_name.data)
        printer.print_string(" zeroed : " if self.zeroed is not None else " : ")
        printer.print_attribute(self.type)
        if self.copies is not None:
            printer.print_string(f" copies {self.copies.text()}")

    def verify_(self) -> None:
        name = self.sym_name.data
        if WORKSPACE_NAME.fullmatch(name) is None:
            raise VerifyException(
                f"a workspace's name is letters, digits and _, not {json.dumps(name)}"
            )
        check_symbols(f'the workspace "{name}"', self.type, _container(self, Module).symbol_names)
        if self.copies is not None:
            self._verify_copy(self.copies)

    def _verify_copy(self, copies: BindAttr) -> None:
        """What it copies is there before it, holds the same elements, and is a tensor."""
        what = f'the workspace "{self.sym_name.data}"'
        if self.zeroed is not None:
            raise VerifyException(f"{what} is a copy, which is written whole; drop zeroed")
        if copies.kind.data not in ("tensor", "workspace"):
            raise VerifyException(
                f"{what} copies a tensor or a workspace, not a {copies.kind.data}"
            )
        sources = _container(self, Dispatch).arg_types.data
        if (index := copies.tensor_index) is not None:
            found = sources[index] if index < len(sources) else None
            named = f"tensor {index}"
        else:
            found, named = None, f'workspace "{copies.workspace_name}"'
            other = self.prev_op
            while other is not None and found is None:
                if isinstance(other, WorkspaceOp) and other.sym_name.data == copies.workspace_name:
                    found = other.type
                other = other.prev_op
        if found is None:
            raise VerifyException(f"{what} copies {named}, which is not there before it")
        if found.element_type != self.type.element_type:
            raise VerifyException(
                f"{what} copies {named} of {found.element_type} as {self.type.element_type}"
            )


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Run ``kernel`` with ``grid`` CTAs (x only) if all of its conditions hold.

    ``when`` is about the symbols; ``align`` gives, a tensor of the signature, the bytes that
    its base address must be a multiple of.  The grid is the product of its expressions.  A
    launch of a sequence has the sequence's conditions and none of its own.

    ``persistent``: the kernel loops over its work, so no more CTAs are launched than run at
    once: the grid is at most the multiprocessors times the kernel's ``blocks_per_sm``, in whole
    clusters.

    ``overlapped``: its CTAs may come onto the chip while the launch ahead of it in the stream
    ends, be that one of its sequence or anybody's; they wait until it is done before they touch
    a tensor or a workspace, and nothing else changes (SM90, CUDA C++ Programming Guide,
    "Programmatic Dependent Launch").

    ``cooperative``: all of its CTAs run at once, so that they may wait for each other
    (``gpu.grid_wait``).  ``cooperative [group]`` says how many belong together: a persistent grid
    is cut to whole groups, and its variant takes no sizes of which a group does not fit on the
    chip.

    ``fills "A"``: it makes the workspace of its sequence that ``copies`` a tensor, and is left out
    where that is the tensor itself.

    ``rebinds [tensor 0 : tensor 5, workspace "a" : workspace "b"]``: the kernel runs on the second
    memory of each pair where it binds the first, which has the same sizes; so one kernel serves
    launches on other tensors.
    """

    name = "gpu.launch"
    kernel = prop_def(SymbolRefAttr)
    when = prop_def(AssumptionsAttr)
    align = prop_def(IntsAttr)
    grid = prop_def(ShapeAttr)
    persistent = opt_prop_def(UnitAttr)
    overlapped = opt_prop_def(UnitAttr)
    cooperative = opt_prop_def(ShapeAttr)
    fills = opt_prop_def(StringAttr)
    rebinds = opt_prop_def(ArrayAttr[ArrayAttr[BindAttr]])
    traits = traits_def(HasParent(Dispatch, SequenceOp))

    def __init__(
        self,
        kernel: str,
        when: AssumptionsAttr,
        align: Sequence[int],
        grid: Sequence[Dim | int | str],
        persistent: bool = False,
        overlapped: bool = False,
        cooperative: Sequence[Dim | int | str] | None = None,
        fills: str | None = None,
        rebinds: Mapping[BindAttr, BindAttr] | None = None,
    ) -> None:
        pairs = [ArrayAttr(pair) for pair in (rebinds or {}).items()]
        super().__init__(
            properties={
                "kernel": SymbolRefAttr(kernel),
                "when": when,
                "align": IntsAttr(tuple(align)),
                "grid": ShapeAttr.of(grid),
                "persistent": UnitAttr() if persistent else None,
                "overlapped": UnitAttr() if overlapped else None,
                "cooperative": None if cooperative is None else ShapeAttr.of(cooperative),
                "fills": None if fills is None else StringAttr(fills),
                "rebinds": ArrayAttr(pairs) if pairs else None,
            }
        )

    @staticmethod
    def of_sequence(
        kernel: str,
        grid: Sequence[Dim | int | str],
        persistent: bool = False,
        overlapped: bool = False,
        cooperative: Sequence[Dim | int | str] | None = None,
        fills: str | None = None,
    ) -> LaunchOp:
        """A launch for the body of a ``gpu.sequence``, which has its conditions."""
        conditions = AssumptionsAttr(())
        return LaunchOp(kernel, conditions, (), grid, persistent, overlapped, cooperative, fills)

    @property
    def kernel_name(self) -> str:
        return self.kernel.root_reference.data

    @property
    def variant_name(self) -> str:
        """The name of the variant that it is, or is part of."""
        sequence = self.sequence
        return self.kernel_name if sequence is None else sequence.variant_name

    @property
    def fills_name(self) -> str | None:
        """The workspace that it makes a copy of a tensor in."""
        return None if self.fills is None else self.fills.data

    def bound(self, binding: BindAttr) -> BindAttr:
        """What an argument of its kernel is in this launch, where the kernel says ``binding``."""
        for own, its in () if self.rebinds is None else self.rebinds.data:
            if own.source == binding.source and binding.kind.data != "symbol":
                kind = binding.kind if binding.kind.data == "tensor_map" else its.kind
                return BindAttr(kind, its.source, binding.view)
        return binding

    @property
    def sequence(self) -> SequenceOp | None:
        """The sequence that it is part of."""
        parent = self.parent_op()
        return parent if isinstance(parent, SequenceOp) else None

    @property
    def facts(self) -> AssumptionsAttr:
        """The conditions on sizes, its own or its sequence's."""
        sequence = self.sequence
        return self.when if sequence is None else sequence.when

    @property
    def alignments(self) -> tuple[int, ...]:
        """Bytes that the base address of each of the signature's tensors is a multiple of."""
        sequence = self.sequence
        return self.align.data if sequence is None else sequence.align.data

    def launches(self) -> list[LaunchOp]:
        """Itself: as a variant it is a sequence of one."""
        return [self]

    def workspaces(self) -> list[WorkspaceOp]:
        """The workspaces that its kernel may bind."""
        sequence = self.sequence
        return [] if sequence is None else sequence.workspaces()

    def blocks(
        self,
        symbols: Mapping[str, int],
        multiprocessors: int,
        kernel: KernelOp,
        at_once: int | None = None,
    ) -> int:
        """How many CTAs run at these sizes on a chip with so many multiprocessors.

        Each of them runs ``at_once`` CTAs, or as many as the kernel promises to leave room for.
        """
        return self.host_grid(kernel).blocks(symbols, multiprocessors, at_once)

    def host_grid(self, kernel: KernelOp) -> Grid:
        """The grid as the host calculates with it."""
        return Grid(
            self.kernel_name,
            self.grid.data,
            self.persistent is not None,
            None if self.cooperative is None else self.cooperative.data,
            kernel.cluster_size,
            kernel.blocks_per_sm.value.data,
        )

    def crowded(
        self,
        symbols: Mapping[str, int],
        multiprocessors: int,
        kernel: KernelOp,
        at_once: int | None = None,
    ) -> str | None:
        """Why a cooperative grid cannot run at once on such a chip, or None where it can."""
        return self.host_grid(kernel).crowded(symbols, multiprocessors, at_once)

    @classmethod
    def parse(cls, parser: Parser) -> LaunchOp:
        name = parser.parse_symbol_name().data
        when, align = _parse_conditions(parser)
        parser.parse_keyword("grid")
        grid = parse_shape(parser)
        persistent = parser.parse_optional_keyword("persistent") is not None
        overlapped = parser.parse_optional_keyword("overlapped") is not None
        cooperative: Sequence[Dim] | None = None
        if parser.parse_optional_keyword("cooperative") is not None:
            cooperative = parser.parse_optional_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_dim(parser)
            )
            cooperative = () if cooperative is None else cooperative
        filled = parser.parse_optional_keyword("fills") is not None
        fills = parser.parse_str_literal() if filled else None
        rebinds: dict[BindAttr, BindAttr] = {}

        def pair() -> None:
            pos = parser.pos
            own = BindAttr.parse_binding(parser)
            parser.parse_punctuation(":")
            if own in rebinds:
                parser.raise_error(f"{own.text()} is rebound twice", pos, parser.pos)
            rebinds[own] = BindAttr.parse_binding(parser)

        if parser.parse_optional_keyword("rebinds") is not None:
            parser.parse_comma_separated_list(parser.Delimiter.SQUARE, pair)
        return cls(name, when, align, grid, persistent, overlapped, cooperative, fills, rebinds)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel.root_reference.data)
        if self.sequence is None or self.when.data or self.align.data:
            _print_conditions(printer, self.when, self.align.data)
        printer.print_string(f" grid {shape_text(self.grid.data)}")
        printer.print_string(" persistent" if self.persistent is not None else "")
        printer.print_string(" overlapped" if self.overlapped is not None else "")
        if self.cooperative is not None:
            group = self.cooperative.data
            printer.print_string(f" cooperative {shape_text(group)}" if group else " cooperative")
        if self.fills is not None:
            printer.print_string(" fills ")
            printer.print_string_literal(self.fills.data)
        if self.rebinds is not None:
            pairs = (f"{own.text()} : {its.text()}" for own, its in self.rebinds.data)
            printer.print_string(f" rebinds [{', '.join(pairs)}]")

    def verify_(self) -> None:
        arch = _container(self, Module).arch.data
        if self.overlapped is not None and not ARCHS[arch].overlapped:
            raise VerifyException(f"overlapped launches need sm_90a, and the module is for {arch}")
        if self.sequence is None:
            _verify_conditions(self, self.when, self.align.data)
        elif self.when.data or self.align.data:
            raise VerifyException(
                "a launch of a sequence runs when the sequence does; write when and align at the "
                "gpu.sequence"
            )
        module = _container(self, Module)
        name = self.kernel_name
        kernel = next((k for k in kernels_of(module) if k.sym_name.data == name), None)
        if kernel is None:
            raise VerifyException(f"gpu.module @{module.sym_name.data} has no kernel @{name}")
        group = ShapeAttr(()) if self.cooperative is None else self.cooperative
        for what, shape in (("grid", self.grid.data), ("group", group.data)):
            for size in shape:
                if unknown := [s for s in size.symbols() if s not in module.symbol_names]:
                    raise VerifyException(
                        f"the {what} {shape_text(shape)} of @{name} names {unknown[0]}, which "
                        f"is none of [{', '.join(module.symbol_names)}]"
                    )
        if group.data and self.persistent is None:
            raise VerifyException(
                f"only a persistent grid is cut to groups; @{name} is not persistent, so all of "
                "its CTAs belong together: say cooperative without a group"
            )
        if self.cooperative is not None and kernel.cluster_size > 1:
            raise VerifyException(
                f"@{name} runs in clusters of {kernel.cluster_size}; a cooperative launch has none"
            )
        self._verify_workspaces(kernel)

    def _verify_workspaces(self, kernel: KernelOp) -> None:
        """Each workspace that the kernel binds is declared here, as the kernel sees it."""
        declared = {w.sym_name.data: w.type for w in self.workspaces()}
        if (fills := self.fills_name) is not None:
            copies = [w.sym_name.data for w in self.workspaces() if w.copies is not None]
            bound = [self.bound(binding).workspace_name for binding in kernel.bindings]
            if fills not in copies or fills not in bound:
                raise VerifyException(
                    f'@{self.kernel_name} fills "{fills}", which is no workspace of its sequence '
                    "that copies a tensor and that it binds"
                )
        self._verify_rebound(kernel, declared)
        for argument, binding in zip(kernel.body.block.args, kernel.bindings, strict=False):
            bound = self.bound(binding)
            name = bound.workspace_name
            if name is None:
                continue
            where = f'kernel @{self.kernel_name} binds the workspace "{name}"'
            if name not in declared:
                raise VerifyException(
                    f'{where}; launch it from a gpu.sequence with gpu.workspace "{name}"'
                )
            check_bound(where, bound, argument.type, declared[name])

    def _verify_rebound(self, kernel: KernelOp, declared: Mapping[str, GlobalType]) -> None:
        """What it rebinds is memory that its kernel binds, and that it is memory of its sizes."""
        if self.rebinds is None:
            return
        signature = _container(self, Dispatch).arg_types.data

        def memory(binding: BindAttr) -> GlobalType | None:
            if (index := binding.tensor_index) is None:
                return declared.get(binding.workspace_name or "")
            return signature[index] if index < len(signature) else None

        sources = [b.source for b in kernel.bindings if b.kind.data != "symbol"]
        for pair in self.rebinds.data:
            what = f"the launch of @{self.kernel_name} rebinds"
            if len(pair.data) != 2 or any(b.kind.data not in MEMORIES for b in pair):
                text = ", ".join(b.text() for b in pair)
                raise VerifyException(f"{what} pairs of tensors and workspaces, not [{text}]")
            own, its = pair
            if own.source not in sources:
                raise VerifyException(f"{what} {own.text()}, which the kernel does not bind")
            first, second = memory(own), memory(its)
            if second is None:
                raise VerifyException(f"{what} {own.text()} to {its.text()}, which is not there")
            if first is not None and not _like(first, second):
                raise VerifyException(
                    f"{what} {own.text()} of {first} to {its.text()} of {second}; they have the "
                    "same sizes and elements"
                )


def _like(one: GlobalType, other: GlobalType) -> bool:
    return one.dims == other.dims and one.element_type == other.element_type


def why_crowded(
    variant: LaunchOp | SequenceOp, symbols: Mapping[str, int], multiprocessors: int
) -> str | None:
    """Why CTAs of a variant that wait for each other do not fit on such a chip, or None."""
    kernels = {kernel.sym_name.data: kernel for kernel in kernels_of(_container(variant, Module))}
    reasons = (
        launch.crowded(symbols, multiprocessors, kernels[launch.kernel_name])
        for launch in variant.launches()
    )
    return next((reason for reason in reasons if reason is not None), None)
