"""The tile programs of a Python file that say which graph they compute (``replaces=…``)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.utils.exceptions import ParseError, VerifyException

from polyc.dialects.common.diagnostic import Place, PolycError, place_of
from polyc.dialects.common.dim import Shape, shape_text
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import build
from polyc.rewriting.driver import verify
from polyc.tile.programs import Program
from polyc.tools.errors import as_polyc_error
from polyc.tools.kernels.regions import PASSES, forms
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.python_file import execute, failing
from polyc.tools.registry import make_context
from polyc.tools.streams import is_python, read_text


@dataclass(frozen=True)
class Registered:
    """A tile program, and the region that it may stand for.

    ``tensors`` has for each tensor of the program, inputs and then outputs, the one of ``pattern``.
    """

    program: Program
    module: GpuModuleOp
    pattern: KernelOp
    tensors: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.program.name


def registered(path: str) -> list[Registered]:
    """The programs with a pattern that the Python file ``path`` has, in order.

    They stand at its top level, by themselves or in lists, tuples and dictionaries.  The file is
    executed.

    Raises PolycError: ``PythonFailed``; ``BadReplacement`` where there is none, where two have one
    name, or where a pattern is no graph of one region with the program's tensors.
    """
    if not is_python(path):
        raise PolycError(
            "BadReplacement", f"{path} is no Python file; kernels by hand come from one, .py"
        )
    with failing(path):
        found = dict.fromkeys(_programs(vars(execute(path))))
        own = [program for program in found if program.replaces is not None]
        if not own:
            raise PolycError(
                "BadReplacement",
                f"{path} has no program that says what it replaces; write "
                "@T.program(replaces=…) with the text or the path of a frontend.graph",
                Place(path),
            )
        names = [program.name for program in own]
        for program in own:
            if names.count(program.name) > 1:
                raise _bad(program, "another program has its name; say name=… of each")
        return [_registered(program) for program in own]


def _programs(scope: Mapping[str, object]) -> Iterator[Program]:
    """The programs among values, and in their lists and dictionaries."""
    for value in scope.values():
        match value:
            case Program():
                yield value
            case list() | tuple():
                items = cast("Iterable[object]", value)
                yield from (item for item in items if isinstance(item, Program))
            case dict():
                values = cast("dict[object, object]", value).values()
                yield from (item for item in values if isinstance(item, Program))
            case _:
                pass


def _registered(program: Program) -> Registered:
    graph = _pattern(program)
    module = next(op for op in program.module().ops if isinstance(op, GpuModuleOp))
    _check_signature(program, graph, module)
    region = _region(program, graph)
    names = [n.data for n in region.arg_names]
    for spec in graph.inputs:
        if spec.name not in names or not region.ins[names.index(spec.name)].uses.get_length():
            raise _bad(program, f"its pattern does not use the input {spec.name}; leave it out")
    outputs = [n.data for n in region.res_names]
    tensors = (
        *(names.index(spec.name) for spec in graph.inputs),
        *(len(names) + outputs.index(spec.name) for spec in graph.outputs),
    )
    return Registered(program, module, region, tensors)


def _bad(program: Program, reason: str, notes: Iterable[str] = ()) -> PolycError:
    text = f"program {program.name}: {reason}"
    return PolycError("BadReplacement", text, program.location, tuple(notes))


def _pattern(program: Program) -> GraphOp:
    """The graph that a program says that it replaces."""
    text = program.replaces
    assert text is not None
    name = f"{program.name}.replaces"
    if "{" not in text and "\n" not in text:
        place = place_of(program.location)
        name = os.path.join("" if place is None else os.path.dirname(place.file), text)
        try:
            text = read_text(name)
        except OSError as error:
            reason = error.strerror or str(error)
            raise _bad(program, f"its pattern {name} is not read: {reason}") from None
    try:
        module = parse_text(make_context(), text, name)
        verify(module)
    except (ParseError, VerifyException, PolycError) as error:
        fault = as_polyc_error(error, name)
        reason = f"its pattern is no graph, {fault.kind}: {fault.message}"
        raise _bad(program, reason, [fault.format().split("\n")[0]]) from None
    graphs = list(module.ops)
    if len(graphs) != 1 or not isinstance(graphs[0], GraphOp):
        there = ", ".join(op.name for op in graphs) or "nothing"
        raise _bad(program, f"its pattern is {there}; give one frontend.graph")
    return graphs[0]


def _check_signature(program: Program, graph: GraphOp, module: GpuModuleOp) -> None:
    """The graph's tensors are those of the program, in order, in the same symbols."""
    dispatch = module.dispatch()
    count = dispatch.num_inputs.value.data
    kinds = dispatch.arg_types.data
    rows = (("inputs", graph.inputs, kinds[:count]), ("outputs", graph.outputs, kinds[count:]))
    for what, specs, types in rows:
        if len(specs) != len(types):
            raise _bad(
                program, f"its pattern has {len(specs)} {what}, and the program {len(types)}"
            )
        for spec, kind in zip(specs, types, strict=True):
            ours = _tensor_text(spec.type.dims, spec.type.element_type)
            theirs = _tensor_text(kind.dims, kind.element_type)
            if ours != theirs:
                raise _bad(
                    program,
                    f"{spec.name} of its pattern is {ours}, and the program's tensor in its place "
                    f"is {theirs}; both use the same names of sizes",
                )
    more = [s for s in module.symbol_names if s not in graph.symbol_names]
    if more:
        raise _bad(program, f"no tensor of its pattern tells how large {more[0]} is")


def _tensor_text(dims: Shape, element: Attribute) -> str:
    return f"{shape_text(dims)} of {element}"


def _region(program: Program, graph: GraphOp) -> KernelOp:
    """The only region that a pattern becomes."""
    module = graph.parent_op()
    assert isinstance(module, ModuleOp)
    lowered, ctx = module.clone(), make_context()
    try:
        for name in PASSES:
            run_pass(ctx, build(name, program.arch), lowered)
    except PolycError as error:
        reason = f"its pattern does not become a region, {error.kind}: {error.message}"
        raise _bad(program, reason) from None
    found = [op for op in lowered.ops if isinstance(op, KernelOp)]
    if len(found) != 1:
        names = ", ".join(op.sym_name.data for op in found)
        raise _bad(
            program,
            f"its pattern becomes {len(found)} regions, {names}; a program stands for one",
        )
    (region,) = forms(lowered)
    return region
