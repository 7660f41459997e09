"""Programs and kernels: what becomes a ``gpu.module``, its kernels and its dispatch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from io import StringIO
from os import PathLike, fspath
from types import TracebackType
from typing import Any, cast

from xdsl.dialects import builtin
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, BlockArgument, SSAValue
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.kernel import KernelOp, ReturnOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
from polyc.dialects.gpu.module import DispatchOp, ModuleOp
from polyc.dialects.gpu.types import GlobalType
from polyc.tile.indices import Index, Size, to_dim
from polyc.tile.scalars import dtype
from polyc.tile.source import here, public, refuse, target, user_frame
from polyc.tile.specs import TensorSpec, read_facts
from polyc.tile.tiles import Out, Tensor, attributes_of, type_of
from polyc.tile.trace import (
    CURRENT,
    INDEX,
    Trace,
    attribute,
    check_innermost,
    close_scope,
    insert,
    open_scope,
    region_of,
)
from polyc.tile.trace import (
    trace as any_trace,
)

DEFAULT_ALIGN = 16
"""Bytes that a launch wants every tensor's address to be a multiple of, where nothing is said."""


class ProgramTrace(Trace):
    """A program under construction, with what kernels and launches are added to."""

    def __init__(self, program: Program) -> None:
        super().__init__(program.arch)
        self.program = program
        self.sequence: Sequence_ | None = None


def trace() -> ProgramTrace:
    """The program under construction."""
    current = any_trace()
    assert isinstance(current, ProgramTrace)
    return current


SizeLike = int | str | Size | Index
Cooperative = bool | Sequence[SizeLike]
"""A size for the host; an index of a kernel is refused."""


Binds = Sequence[Tensor | Size] | Mapping[str, Tensor | Size]
"""The arguments of a kernel in order, under their own names or under others."""


class Kernel:
    """``with T.kernel(…):`` one kernel, and its launch where a grid is given."""

    def __init__(
        self,
        name: str,
        threads: int,
        launch: Callable[[], None] | None,
        blocks_per_sm: int,
        cluster: int,
        registers: Sequence[int],
        attributes: Mapping[str, Attribute],
        binds: Binds | None,
    ) -> None:
        self.name = name
        self.threads = threads
        self.location: LocationAttr = here()
        self._launch = launch
        self._blocks_per_sm = blocks_per_sm
        self._cluster = cluster
        self._registers = tuple(registers)
        self._attributes = dict(attributes)
        self._binds = binds
        self._block = Block()
        self._tensors: dict[int, tuple[Tensor, BlockArgument]] = {}
        self._symbols: dict[str, BlockArgument] = {}

    def _add(self, tensor: Tensor, name: str | None = None) -> None:
        arg = self._block.insert_arg(tensor.type, len(self._block.args), self.location)
        arg.name_hint = name or tensor.name
        self._tensors[id(tensor)] = (tensor, arg)

    def _add_symbol(self, name: str, shown: str | None = None) -> None:
        arg = self._block.insert_arg(INDEX, len(self._block.args), self.location)
        arg.name_hint = shown or name
        self._symbols[name] = arg

    @public
    def __enter__(self) -> Kernel:
        current = trace()
        if current.kernel is not None:
            refuse("NestedKernel", f"kernel {self.name} stands in kernel {current.kernel.name}")
        program = current.program
        if self.name in (k.sym_name.data for k in program.kernels):
            refuse("NameTaken", f"there is another kernel {self.name}; name each by its own name")
        if self._binds is None:
            for tensor in program.tensors:
                self._add(tensor)
            for workspace in () if current.sequence is None else current.sequence.workspaces:
                self._add(workspace)
            for name in program.symbols:
                self._add_symbol(name)
        else:
            given = self._binds
            rows = given.items() if isinstance(given, Mapping) else [(None, one) for one in given]
            for shown, one in rows:
                if isinstance(one, Tensor):
                    self._add(one, shown)
                else:
                    self._add_symbol(str(one.dim), shown)
        current.kernel = self
        self._scope = open_scope(self._block, "kernel", self)
        return self

    def argument(self, tensor: object) -> SSAValue:
        """The argument that a tensor is bound to."""
        if (found := self._tensors.get(id(tensor))) is None:
            name = tensor.name if isinstance(tensor, Tensor) else repr(tensor)
            refuse(
                "OutOfScope",
                f"{name} is no tensor of kernel {self.name}: it is another program's or "
                "another sequence's, or the kernel's binds leave it out",
            )
        return found[1]

    def symbol(self, name: str) -> SSAValue:
        """The argument that a size is bound to."""
        if (found := self._symbols.get(name)) is None:
            known = ", ".join(self._symbols) or "none"
            refuse("UnknownSize", f"kernel {self.name} has no size {name}; it has {known}")
        return found

    def is_symbol(self, value: SSAValue) -> bool:
        """Whether a value is the argument of a size."""
        return any(arg is value for arg in self._symbols.values())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current = trace()
        try:
            if error is None:
                self._finish(current)
        finally:
            close_scope(self._scope)
            current.kernel = None
        if error is None and self._launch is not None:
            self._launch()

    @public
    def _finish(self, current: ProgramTrace) -> None:
        check_innermost(self._scope)
        insert(ReturnOp(), self.location)
        if self._binds is None:
            self._drop_unused()
        bindings = [
            *(tensor.bind for tensor, _ in self._tensors.values()),
            *(BindAttr.symbol(name) for name in self._symbols),
        ]
        if self._binds is not None:
            of_tensor = {id(arg): t.bind for t, arg in self._tensors.values()}
            of_symbol = {id(arg): BindAttr.symbol(n) for n, arg in self._symbols.items()}
            bindings = [{**of_tensor, **of_symbol}[id(arg)] for arg in self._block.args]
        made = KernelOp(
            self.name,
            bindings,
            self.threads,
            region_of(self._block),
            self._blocks_per_sm,
            None,
            self._cluster,
            self._registers,
        )
        made.attributes.update(self._attributes)
        made.location = self.location
        current.program.kernels.append(made)

    def _drop_unused(self) -> None:
        """Leave out tensors that are not used, and sizes of which the others need no value."""
        needed: set[str] = set()
        for key, (tensor, arg) in list(self._tensors.items()):
            if arg.uses.get_length():
                needed |= {s for dim in tensor.type.dims for s in dim.symbols()}
            else:
                self._block.erase_arg(arg)
                del self._tensors[key]
        for name, arg in list(self._symbols.items()):
            if not arg.uses.get_length() and name not in needed:
                self._block.erase_arg(arg)
                del self._symbols[name]


class Sequence_:
    """``with T.sequence(…):`` kernels that are launched one after another."""

    def __init__(self, name: str, when: AssumptionsAttr, align: Sequence[int]) -> None:
        self.name, self.when, self.align = name, when, tuple(align)
        self.location: LocationAttr = here()
        self.workspaces: list[Tensor] = []
        self.ops: list[LaunchOp | WorkspaceOp] = []

    @public
    def __enter__(self) -> Sequence_:
        current = trace()
        if current.kernel is not None or current.sequence is not None:
            refuse("NestedKernel", "a sequence stands directly in the program's function")
        current.sequence = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        current = trace()
        current.sequence = None
        if error is None:
            made = SequenceOp(self.name, self.when, self.align, self.ops)
            made.location = self.location
            current.program.variants.append(made)


@public
def kernel(
    name: str | None = None,
    *,
    threads: int,
    grid: Sequence[SizeLike] | None = None,
    persistent: bool = False,
    when: str = "",
    align: Sequence[int] | None = None,
    overlapped: bool = False,
    cooperative: Cooperative = False,
    cluster: int = 1,
    blocks_per_sm: int = 1,
    registers: Sequence[int] | None = None,
    attributes: Mapping[str, object] | None = None,
    binds: Binds | None = None,
) -> Kernel:
    """A kernel of ``threads`` threads a CTA, and its launch with ``grid`` CTAs.

    ``when`` is about sizes (``"K mod 8 == 0"``), ``align`` the bytes that the address of each
    tensor is a multiple of (16 where nothing is said): the first kernel whose conditions hold runs.
    In a sequence both are the sequence's.  ``overlapped`` lets the launch begin while what is ahead
    of it in the stream ends.  ``cooperative`` runs all CTAs at once, so that they may wait for each
    other; sizes in its place are how many of a persistent grid belong together.  ``registers`` is
    the budget of (producer, consumer) for roles that are inferred.  ``binds`` fixes which tensors
    and sizes are arguments, and their order (and their names in the text, as a dictionary); without
    it they are those that the body uses.  Without ``grid`` nothing is launched until ``T.launch``.
    """
    current = trace()
    label = current.program.name if name is None else name
    extra = {key: attribute(value) for key, value in (attributes or {}).items()}
    start = None
    if grid is not None:
        start = _launching(label, grid, persistent, when, align, overlapped, cooperative)
    elif persistent or when or align is not None or overlapped or cooperative is not False:
        refuse("NoGrid", "persistent, when and align are about a launch: give the grid too")
    return Kernel(label, threads, start, blocks_per_sm, cluster, registers or (), extra, binds)


def _launching(
    name: str,
    grid: Sequence[SizeLike],
    persistent: bool,
    when: str,
    align: Sequence[int] | None,
    overlapped: bool,
    cooperative: Cooperative,
) -> Callable[[], None]:
    """What appends the launch, where the kernel is complete."""
    current, location = trace(), here()
    extents = [to_dim(size) for size in grid]
    group: list[Dim] | None = None
    if cooperative is not False:
        group = [] if cooperative is True else [to_dim(size) for size in cooperative]
    sequence = current.sequence
    if sequence is not None:
        if when or align is not None:
            refuse("NotASequence", "the conditions of a launch in a sequence are the sequence's")
        made = LaunchOp.of_sequence(name, extents, persistent, overlapped, group)
        made.location = location
        launches: list[Any] = sequence.ops
    else:
        made = LaunchOp(
            name,
            AssumptionsAttr(read_facts(when)),
            _alignments(current, align),
            extents,
            persistent,
            overlapped,
            group,
        )
        made.location = location
        launches = current.program.variants
    return lambda: launches.append(made)


def _alignments(current: ProgramTrace, align: Sequence[int] | None) -> list[int]:
    count = len(current.program.tensors)
    if align is None:
        return [DEFAULT_ALIGN] * count
    if len(align) != count:
        refuse("WrongAlignment", f"{len(align)} alignments do not fit {count} tensors")
    return list(align)


@public
def launch(
    of: Kernel,
    *,
    grid: Sequence[SizeLike],
    persistent: bool = False,
    when: str = "",
    align: Sequence[int] | None = None,
    overlapped: bool = False,
    cooperative: Cooperative = False,
) -> None:
    """Launch a kernel that stands above, again or for the first time."""
    current = trace()
    if current.kernel is not None:
        refuse("NestedKernel", "a launch is the host's: it stands outside of kernels")
    _launching(of.name, grid, persistent, when, align, overlapped, cooperative)()


@public
def sequence(name: str, *, when: str = "", align: Sequence[int] | None = None) -> Sequence_:
    """Kernels launched one after another, under one set of conditions, with workspaces."""
    current = trace()
    return Sequence_(name, AssumptionsAttr(read_facts(when)), _alignments(current, align))


@public
def workspace(
    name: str, shape: Sequence[SizeLike], kind: object, *, zeroed: bool = False
) -> Tensor:
    """Memory of a sequence's launches; its contents are not defined, or 0 with ``zeroed``."""
    current = trace()
    if current.sequence is None or current.kernel is not None:
        refuse(
            "NotASequence",
            "a workspace stands under `with T.sequence(…):`, before its kernels",
        )
    memory = GlobalType.of([to_dim(size) for size in shape], dtype(kind))
    made = WorkspaceOp(name, memory, zeroed)
    made.location = here()
    current.sequence.ops.append(made)
    tensor = Tensor(target() or name, memory, BindAttr.workspace(name))
    current.sequence.workspaces.append(tensor)
    return tensor


# Programs ------------------------------------------------------------------------------


class Program:
    """A Python function over tiles as a ``gpu.module``.

    The function runs once, when the module is first asked for.  ``module()`` is the module,
    ``str(program)`` its text, ``compile()`` a program that runs on the GPU.
    """

    def __init__(
        self,
        function: Callable[..., None],
        name: str,
        arch: str,
        assume: AssumptionsAttr,
        symbols: Sequence[str] | None,
        scope: Mapping[str, object],
        location: LocationAttr,
        replaces: str | None = None,
    ) -> None:
        self.__doc__ = function.__doc__
        self.__name__ = name
        self.name, self.arch, self.assume = name, arch, assume
        self.location = location
        self.replaces = replaces
        """The text or the path of the graph that it computes, where it says one."""
        self._function = function
        self._scope = dict(scope)
        self._stated = None if symbols is None else list(symbols)
        self._module: builtin.ModuleOp | None = None
        self._compiled: Any = None
        self.tensors: list[Tensor] = []
        self.symbols: list[str] = []
        self.kernels: list[KernelOp] = []
        self.variants: list[LaunchOp | SequenceOp] = []

    def module(self) -> builtin.ModuleOp:
        """The builtin module that holds the ``gpu.module``.  Raises PolycError."""
        if self._module is None:
            self._module = self._build()
        return self._module

    def __str__(self) -> str:
        out = StringIO()
        Printer(stream=out).print_op(self.module())
        return out.getvalue()

    def compile(self) -> Any:
        """The program lowered and compiled: a ``polyc.runtime.program.Program``.

        Needs no GPU.  Raises PolycError.
        """
        if self._compiled is None:
            # Compiling and running lie above this package, which only builds.
            runtime = import_module("polyc.runtime.program")
            self._compiled = runtime.Program.compile(self.module())
        return self._compiled

    def __call__(self, *inputs: object, **options: Any) -> list[object]:
        """Run on the GPU: the outputs for these inputs, as ``polyc.runtime`` gives them."""
        return self.compile().run(inputs, **options)

    # Building --------------------------------------------------------------------------

    def _build(self) -> builtin.ModuleOp:
        if CURRENT.get() is not None:
            refuse("NestedKernel", f"program {self.name} is built in another program's function")
        self.kernels, self.variants = [], []
        inputs, outputs = self._signature()
        given = {t.name: t for t in (*inputs, *outputs)}
        token = CURRENT.set(ProgramTrace(self))
        try:
            self._function(**given)
        finally:
            CURRENT.reset(token)
        if not self.kernels:
            raise PolycError(
                "NoKernel", f"program {self.name} has no kernel: `with T.kernel(…):`", self.location
            )
        dispatch = DispatchOp(
            [t.name for t in self.tensors],
            [t.type for t in self.tensors],
            [attributes_of(self._specs[t.name]) for t in self.tensors],
            len(inputs),
            self.variants,
        )
        dispatch.location = self.location
        made = ModuleOp(self.name, self.arch, self.symbols, self.assume, [*self.kernels, dispatch])
        made.location = self.location
        module = builtin.ModuleOp([made])
        module.location = self.location
        self._verify(module)
        return module

    def _verify(self, module: builtin.ModuleOp) -> None:
        """Verify what is around the kernels' bodies, each at its own line, then the whole."""
        for op in module.walk():
            try:
                op.verify(verify_nested_ops=False)
            except VerifyException as error:
                raise from_text(str(error), op) from None

    def _signature(self) -> tuple[list[Tensor], list[Tensor]]:
        """The tensors of the function's annotations: inputs, and outputs."""
        specs: dict[str, TensorSpec] = {}
        for parameter in inspect.signature(self._function).parameters.values():
            specs[parameter.name] = self._spec(parameter)
        self._specs = specs
        inputs = [name for name, spec in specs.items() if not spec.output]
        outputs = [name for name, spec in specs.items() if spec.output]
        try:
            self.tensors = [
                (Out if specs[name].output else Tensor)(
                    name, type_of(specs[name]), BindAttr.tensor(i)
                )
                for i, name in enumerate([*inputs, *outputs])
            ]
        except VerifyException as error:
            raise from_text(str(error), self.location) from None
        found: dict[str, None] = {}
        for tensor in self.tensors:
            for dim in tensor.type.dims:
                found.update(dict.fromkeys(dim.symbols()))
        self.symbols = list(found) if self._stated is None else self._stated
        return self.tensors[: len(inputs)], self.tensors[len(inputs) :]

    def _spec(self, parameter: inspect.Parameter) -> TensorSpec:
        annotation: object = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, self._function.__globals__, self._scope)
            except PolycError as error:  # its place is in the annotation's text
                raise PolycError(error.kind, error.message, self.location) from None
            except Exception as error:
                raise PolycError(
                    "UnknownType",
                    f"the type of {parameter.name}, {parameter.annotation}, is not known where "
                    f"the program stands: {error}",
                    self.location,
                ) from None
        if isinstance(annotation, TensorSpec):
            return annotation
        raise PolycError(
            "UnknownType",
            f"parameter {parameter.name} of {self.name} is a tensor: annotate it with "
            "T.Tensor[M, K, T.f16], or T.Out[…] for an output",
            self.location,
        )


@public
def program(
    *,
    arch: str = "sm_90a",
    assume: str = "",
    name: str | None = None,
    symbols: Sequence[str] | None = None,
    replaces: str | PathLike[str] | None = None,
) -> Callable[[Callable[..., None]], Program]:
    """Decorates a function over tensors: ``@T.program(arch="sm_90a")``.

    ``assume`` states facts about the sizes, ``symbols`` their order where it is not that of the
    signature.  ``replaces`` is a ``frontend.graph`` that the program computes, as text or as a path
    (from the folder of the program's own file): its inputs and outputs are the program's tensors,
    in order.  ``polyc compile --kernels`` then takes the program where a graph has such a region
    (docs/tools/kernels-by-hand.md).
    """
    given = cast("object", replaces)
    if given is not None and not isinstance(given, str | PathLike):
        refuse(
            "BadReplacement",
            f"replaces is the text or the path of a frontend.graph, not {given!r}",
        )
    facts, location = AssumptionsAttr(read_facts(assume)), here()
    if arch not in ("sm_80", "sm_90a"):
        refuse("UnknownArch", f'arch is "sm_80" or "sm_90a", not "{arch}"')
    frame = user_frame()
    scope = {} if frame is None or frame.f_locals is frame.f_globals else dict(frame.f_locals)

    def decorate(function: Callable[..., None]) -> Program:
        label = function.__name__ if name is None else name
        pattern = None if replaces is None else fspath(replaces)
        return Program(function, label, arch, facts, symbols, scope, location, pattern)

    return decorate
