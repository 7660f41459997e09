"""The programs of a module at whatever layer it is, and their playback on NumPy (S6.9, S13.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Shape

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.dialects.region.types import MemRefType
    from polyc.playback.estimate import Estimate

Arrays = Sequence[Any]
"""NumPy arrays; NumPy itself is imported only where something is computed."""


@dataclass(frozen=True)
class Tensor:
    """The name and type of an argument, as a playback asks for them."""

    name: str
    dims: Shape
    element_type: Attribute
    attributes: DictionaryAttr = DictionaryAttr({})  # noqa: RUF009 (attributes do not change)

    @property
    def type(self) -> Tensor:
        return self

    @property
    def pooled(self) -> str | None:
        """What a parameter file calls an input: its entry, or its own name; None for others."""
        data = self.attributes.data
        entry = data.get("entry")
        held = "storage" in data and "made" not in data
        return getattr(entry, "data", self.name) if held else None


@dataclass(frozen=True)
class Signature:
    """What ``make_inputs`` and ``parse_sizes`` ask of a graph, from a program of any layer."""

    op: Operation
    sym_name: StringAttr
    symbol_names: tuple[str, ...]
    facts: tuple[Assumption, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    @staticmethod
    def of(op: Operation) -> SignatureOp | None:
        """The graph itself, the signature of a region's kernel or graph or gpu module, or None.

        Of a graph whose ops name entries of a parameter file it is the graph that has them as
        inputs.
        A kernel that reads what another one makes, or makes what another one reads at once, is a
        part of a program.
        """
        from polyc.dialects.common.signature import SignatureOp
        from polyc.dialects.frontend import GraphOp
        from polyc.rewriting.frontend.parameters import lifted

        if isinstance(op, GraphOp):
            return lifted(op)
        if isinstance(op, SignatureOp):
            return op
        found = None
        if op.name == "region.kernel":
            found = _of_kernel(op)
        elif op.name == "region.graph":
            found = _of_kernels(op)
        elif op.name == "gpu.module":
            found = _of_gpu_module(op)
        return cast("SignatureOp | None", found)


def _of_kernel(op: Operation) -> Signature | None:
    from polyc.dialects.region import KernelOp
    from polyc.dialects.region.graph import source

    assert isinstance(op, KernelOp)
    if any(source(op, i) for i in range(len(op.ins))) or any(
        where.data == "deferred" for where in op.materialize
    ):
        return None
    kinds, count = op.tensors, len(op.ins)
    inputs = _tensors(op.arg_names, kinds[:count], op.arg_attrs)
    outputs = _tensors(op.res_names, kinds[count:], op.res_attrs)
    return Signature(op, op.sym_name, op.symbol_names, op.facts, inputs, outputs)


def _of_kernels(op: Operation) -> Signature:
    from polyc.dialects.region import GraphOp

    assert isinstance(op, GraphOp)
    inputs = _tensors(op.arg_names, op.ins, op.arg_attrs)
    outputs = _tensors(op.res_names, op.outs, op.res_attrs)
    return Signature(op, op.sym_name, op.symbol_names, op.facts, inputs, outputs)


def _tensors(
    names: Iterable[StringAttr], types: Iterable[MemRefType], attrs: Iterable[DictionaryAttr]
) -> tuple[Tensor, ...]:
    rows = zip(names, types, attrs, strict=True)
    return tuple(Tensor(n.data, t.shape, t.element_type, a) for n, t, a in rows)


def _of_gpu_module(op: Operation) -> Signature:
    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp

    assert isinstance(op, GpuModuleOp)
    dispatch = op.dispatch()
    rows = zip(dispatch.arg_names, dispatch.arg_types, dispatch.arg_attrs, strict=True)
    tensors = tuple(Tensor(n.data, t.dims, t.element_type, a) for n, t, a in rows)
    first = dispatch.num_inputs.value.data
    facts = op.assumptions.data
    return Signature(op, op.sym_name, op.symbol_names, facts, tensors[:first], tensors[first:])


def programs(module: ModuleOp) -> list[SignatureOp]:
    """The signatures of the programs of ``module``, in the order of the text."""
    return [s for op in module.ops if (s := Signature.of(op)) is not None]


def play(module: ModuleOp, name: str, inputs: Arrays, symbols: Mapping[str, int]) -> Arrays | None:
    """The outputs of the program ``name`` at the layer that ``module`` is at.

    None where the layer has no playback: between the tiles and the hardware level of ``gpu``.
    """
    for op in module.ops:
        sym_name = op.properties.get("sym_name")
        if sym_name is None or getattr(sym_name, "data", None) != name:
            continue
        if (outputs := play_op(op, inputs, symbols)) is not None:
            return outputs
    return None


def with_made(
    module: ModuleOp, name: str, inputs: Mapping[str, Any], symbols: Mapping[str, int]
) -> Arrays | None:
    """The inputs of the graph ``name``, of those by name that it had before parameters were split
    off (``tiny-split-constants``); None where nothing of it is made by another graph."""
    from polyc.dialects.common.signature import SignatureOp

    graphs = {op.sym_name.data: op for op in module.ops if isinstance(op, SignatureOp)}
    main = graphs.get(name)
    if main is None or not any(spec.made for spec in main.inputs):
        return None
    known = dict(inputs)
    for made in {spec.made.rpartition(".")[0] for spec in main.inputs if spec.made}:
        graph = graphs[made]
        found = play_op(graph, [known[spec.name] for spec in graph.inputs], symbols)
        assert found is not None
        outputs = dict(zip((spec.name for spec in graph.outputs), found, strict=True))
        for spec in main.inputs:
            if spec.made and spec.made.rpartition(".")[0] == made:
                known[spec.name] = outputs[spec.made.rpartition(".")[2]]
    return [known[spec.name] for spec in main.inputs]


def play_op(op: Operation, inputs: Arrays, symbols: Mapping[str, int]) -> Arrays | None:
    """The outputs of one program, or None where its layer has no playback.

    A tiny graph with an index book is played by its book, a finished gpu module by the
    simulator, whose findings are raised.
    """
    match op.name:
        case "frontend.graph":
            from polyc.dialects.frontend import GraphOp
            from polyc.playback import frontend

            assert isinstance(op, GraphOp)
            return frontend.run(op, list(inputs), symbols)
        case "tiny.graph":
            from polyc.dialects.index import book
            from polyc.dialects.tiny import GraphOp as TinyGraphOp
            from polyc.playback import index, tiny

            assert isinstance(op, TinyGraphOp)
            return (index if book(op) else tiny).run(op, list(inputs), symbols)
        case "region.kernel":
            from polyc.dialects.region import KernelOp
            from polyc.playback import region

            assert isinstance(op, KernelOp)
            return region.run(op, list(inputs), symbols)
        case "region.graph":
            from polyc.dialects.region import GraphOp as KernelsOp
            from polyc.playback.region import graph as region_graph

            assert isinstance(op, KernelsOp)
            return region_graph.run(op, list(inputs), symbols)
        case "gpu.module":
            from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp

            assert isinstance(op, GpuModuleOp)
            return _play_gpu(op, inputs, symbols)
        case _:
            return None


def estimated(
    op: Operation, inputs: Arrays, symbols: Mapping[str, int]
) -> Sequence[Estimate] | None:
    """What one program computes, with the errors of its own computation, as a reference.

    None where its layer has no playback; a kernel at the hardware level is simulated, and exact.
    """
    from polyc.playback import reference
    from polyc.playback.estimate import as_estimate, rounding_freely

    match op.name:
        case "frontend.graph":
            from polyc.dialects.frontend import GraphOp

            assert isinstance(op, GraphOp)
            return reference.reference(op, list(inputs), symbols)
        case "tiny.graph":
            from polyc.dialects.tiny import GraphOp as TinyGraphOp
            from polyc.playback import tiny

            assert isinstance(op, TinyGraphOp)
            with rounding_freely():
                found = tiny.run(op, reference.known(inputs), symbols)
        case "region.kernel" | "region.graph":
            with rounding_freely():
                found = play_op(op, reference.known(inputs), symbols)
        case "gpu.module":
            from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
            from polyc.passes.finish import is_finished

            assert isinstance(op, GpuModuleOp)
            finished = is_finished(op)
            found = play_op(op, inputs if finished else reference.known(inputs), symbols)
        case _:
            return None
    return None if found is None else [as_estimate(x) for x in found]


def _play_gpu(op: GpuModuleOp, inputs: Arrays, symbols: Mapping[str, int]) -> Arrays | None:
    from polyc.passes.finish import is_finished
    from polyc.playback import tile
    from polyc.playback.gpu import simulate

    if is_finished(op):
        result = simulate(op, list(inputs), symbols)
        result.check()
        return result.outputs
    try:
        return tile.run(op, list(inputs), symbols)
    except PolycError as error:
        if error.kind != "NotPlayed":
            raise
        return None
