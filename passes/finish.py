"""From the tile level of the gpu dialect to the hardware level, as one function.

The runtime, the simulator's command and the tests take modules of either level.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IndexType, ModuleOp
from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.tile import TILE_OPS
from polyc.passes.pipeline import GPU_PASSES, build
from polyc.rewriting.driver import copied, verify

_TILE_LEVEL = frozenset[type[Operation]](TILE_OPS)
_PLACED = (hw.SharedTileOp, hw.MBarrierOp)
_ACCESSES = (hw.LoadGlobalOp, hw.StoreGlobalOp, hw.AtomicGlobalOp, hw.ExchangeGlobalOp)


def is_finished(module: Operation) -> bool:
    """Whether everything in it is of the hardware level: shared memory has its places, and global
    accesses their guards.

    An access that says nothing of its bounds means two things.  Until ``gpu-legalize-access`` it
    may leave its tensor, as a tile does; in a text of the hardware level it is its author's word
    that it does not, which the simulator holds it to.  Modules that the passes work on are known by
    their ``target`` and by kernels whose shared memory nobody has counted yet.
    """
    return not any(
        type(op) in _TILE_LEVEL
        or (isinstance(op, _PLACED) and op.offset is None)
        or (isinstance(op, gpu.ModuleOp) and _awaits_guards(op))
        for op in module.walk()
    )


def _awaits_guards(module: gpu.ModuleOp) -> bool:
    """Whether passes have begun on a module, and have not yet asked about all of its accesses."""
    return module.target is not None and any(
        isinstance(op, _ACCESSES)
        and op.predicate is None
        and any(isinstance(i.type, IndexType) for i in op.indices)
        for kernel in module.kernels()
        if kernel.shared_bytes is None
        for op in kernel.walk()
    )


def finish(module: ModuleOp) -> None:
    """Lower the gpu modules in ``module`` from the tile level to the hardware level, in place.

    Raises PolycError that names the pass in its ``layer``, as ``polyc-opt`` does.
    """
    if is_finished(module):
        return
    ctx = Context()
    for name in GPU_PASSES:
        try:
            build(name, "").apply(ctx, module)
        except PolycError as error:
            error.layer = error.layer or name
            raise
    verify(module)


def finished(module: gpu.ModuleOp) -> gpu.ModuleOp:
    """``module``, or a copy of it at the hardware level where it is above.

    Raises PolycError as ``finish`` does.
    """
    if is_finished(module):
        return module
    copy = copied(module)
    around = ModuleOp([copy])
    finish(around)
    found = around.body.block.first_op
    assert isinstance(found, gpu.ModuleOp)
    found.detach()
    return found
