"""NumPy semantics of a ``region.graph``: its kernels in order, with memory between them (S6.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyc.dialects import region
from polyc.dialects.region.graph import ends, source
from polyc.dialects.region.types import MemRefType
from polyc.playback import region as region_playback
from polyc.playback.functions import Array
from polyc.playback.region import bind
from polyc.playback.signature import sizes


def run(graph: region.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """The outputs of a verified ``graph``, each in its stored type.

    Raises PolycError of kind ``BadArgument`` when an argument does not fit, and what the
    playback of a kernel raises.
    """
    name = graph.sym_name.data
    bound = bind(graph, name, graph.arg_names, graph.ins.data, inputs, symbols)
    memory: dict[tuple[str, str], Array] = {
        (name, label.data): array for label, array in zip(graph.arg_names, bound, strict=True)
    }

    def view(edge: tuple[str, str] | None, memref: MemRefType) -> Array:
        assert edge is not None, "a verified graph says where each tensor is from"
        return memory[edge].reshape(sizes(memref.shape, symbols))

    for kernel in graph.kernels():
        arrays = [view(source(kernel, i), kernel.tensors[i]) for i in range(len(kernel.ins))]
        made = region_playback.run(kernel, arrays, symbols)
        for label, array in zip(kernel.res_names, made, strict=True):
            memory[(kernel.sym_name.data, label.data)] = array
    return [view(ends(s), m) for s, m in zip(graph.sources, graph.outs, strict=True)]
