"""The printer: who runs, where its data lies, and how it packs registers."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.scalars import inverts_each
from polyc.dialects.gpu.types import SharedType
from polyc.lowering.gpu_to_cuda.asm import asm, at, define, device_function
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, not_lowered, prints

_ELECT = """{
.reg .pred p;
elect.sync _|p, 0xffffffff;
selp.b32 %0, 1, 0, p;
}"""


define(
    device_function(
        "bool elect()",
        "u32 chosen;\n" + asm(_ELECT, '"=r"(chosen)', memory=False) + "\nreturn chosen;",
    ),
    device_function(
        "int opaque(int value)",
        'asm volatile("" : "+r"(value));\nreturn value;',
    ),
)


@prints(hw.ThreadIdOp, "thread")
def _thread_id(w: KernelWriter, op: hw.ThreadIdOp) -> None:
    w.define(op.result, "(int)threadIdx.x")


@prints(hw.BlockIdOp, "block")
def _block_id(w: KernelWriter, op: hw.BlockIdOp) -> None:
    w.define(op.result, "(int)blockIdx.x")


@prints(hw.GridSizeOp, "grid")
def _grid_size(w: KernelWriter, op: hw.GridSizeOp) -> None:
    w.define(op.result, "(int)gridDim.x")


@prints(hw.WarpUniformOp, "uniform")
def _warp_uniform(w: KernelWriter, op: hw.WarpUniformOp) -> None:
    w.define(op.result, f"__shfl_sync(0xffffffffu, {w.text(op.value)}, 0)")


@prints(hw.OpaqueOp, "opaque")
def _opaque(w: KernelWriter, op: hw.OpaqueOp) -> None:
    w.define(op.result, w.call("opaque", w.text(op.value)))


@prints(hw.ElectOp, "elected")
def _elect(w: KernelWriter, op: hw.ElectOp) -> None:
    w.define(op.result, w.call("elect"))


@prints(hw.SharedTileOp, "tile")
def _shared_tile(w: KernelWriter, op: hw.SharedTileOp) -> None:
    if op.offset is None:
        raise not_lowered(op, "has no offset", "run gpu-plan-shared-memory first")
    w.line(f"u32 {w.name(op.tile, 'tile')} = {at('shared_base', '1', op.offset.value.data)};")


@prints(hw.MBarrierOp, "barriers")
def _mbarrier(w: KernelWriter, op: hw.MBarrierOp) -> None:
    if op.offset is None:
        raise not_lowered(op, "has no offset", "run gpu-plan-shared-memory first")
    name = w.name(op.barrier, "barriers")
    w.line(f"u32 {name} = {at('shared_base', '1', op.offset.value.data)};")


@prints(hw.SharedAddressOp, "address")
def _shared_address(w: KernelWriter, op: hw.SharedAddressOp) -> None:
    assert isinstance(op.tile.type, SharedType)
    w.define(op.result, at(w.text(op.tile), w.text(op.slot), op.tile.type.slot_bytes))


@prints(hw.PackOp, "packed")
def _pack(w: KernelWriter, op: hw.PackOp) -> None:
    if all(inverts_each(use.operation) and use.index == 0 for use in op.result.uses):
        return
    w.define(op.result, w.vector(w.type(op.result.type, op), [w.text(v) for v in op.values]))


@prints(hw.UnpackOp, "element")
def _unpack(w: KernelWriter, op: hw.UnpackOp) -> None:
    w.define(op.result, w.elements(op.vector)[op.index.value.data])
