"""The printer: kernels at the hardware level of the gpu dialect as CUDA C (design rule 2).

One function an op, in the table of ``writer.py``.  The hardware ops of each group in
``dialects/gpu/hardware/`` have a file of the group's name, with their statements and the device
functions around the inline PTX; the upstream ops are in ``upstream.py``.  The text includes no
header, and the same IR gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import IO

from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import IsTerminator, is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.kernel import KernelOp, ReturnOp
from polyc.dialects.gpu.module import ModuleOp, is_overlapped_next
from polyc.dialects.gpu.types import GlobalType, TensorMapType
from polyc.lowering.gpu_to_cuda import (
    arithmetic,
    cluster,
    exchange,
    floats,
    grid,
    im2col,
    integers,
    memory,
    random,
    short_ways,
    sync,
    tensor_cores,
    threads,
    upstream,
)
from polyc.lowering.gpu_to_cuda.asm import DeviceFunction, asm, define, device_function
from polyc.lowering.gpu_to_cuda.types import TENSOR_MAP, TYPEDEFS, CType
from polyc.lowering.gpu_to_cuda.writer import KernelWriter, is_reserved, prints

PRINTERS = (
    threads,
    memory,
    im2col,
    integers,
    sync,
    cluster,
    exchange,
    floats,
    grid,
    random,
    tensor_cores,
    arithmetic,
    upstream,
    short_ways,
)
"""Imported for what they enter into the tables of printers and device functions."""


_WINDOW = """{
.reg .u64 window;
cvta.to.shared.u64 window, %1;
cvt.u32.u64 %0, window;
}"""

_WAIT = """griddepcontrol.wait;
fence.acq_rel.cta;"""
"""What is read behind it stays there: ptxas takes ``ld.global.nc`` for reads of what nothing writes
while the kernel runs, and moved one above the wait alone, where the launch ahead still wrote."""

define(
    device_function(
        "u32 shared_window(const void* pointer)",
        "u32 address;\n"
        + asm(_WINDOW, '"=r"(address)', '"l"(pointer)', volatile=False, memory=False)
        + "\nreturn address;",
    ),
    device_function("void let_next_launch_begin()", asm("griddepcontrol.launch_dependents;")),
    device_function("void wait_for_launch_before()", asm(_WAIT)),
)


# Kernels and modules -------------------------------------------------------------------


@prints(ReturnOp)
def _return(w: KernelWriter, op: ReturnOp) -> None:
    """The end of the function's text."""


def _parameter(w: KernelWriter, value: SSAValue, op: KernelOp) -> str:
    t: Attribute = value.type
    match t:
        case GlobalType():
            element = w.type(t.element_type, op).name
            const = "" if value in w.stored else "const "
            return f"{const}{element}* __restrict__ {w.name(value, 'tensor')}"
        case TensorMapType() | Im2colMapType():
            return f"const __grid_constant__ TensorMap {w.name(value, 'map')}"
        case _:
            return f"{w.type(t, op).name} {w.name(value, 'size')}"


def _uses_shared(body: Block) -> bool:
    return any(isinstance(op, hw.SharedTileOp | hw.MBarrierOp) for op in body.walk())


def _overlaps(kernel: KernelOp) -> tuple[bool, bool]:
    """Whether a launch of the kernel overlaps the one ahead of it, and whether one overlaps it.

    What either asks of the kernel is harmless in launches that do not.
    """
    module = kernel.parent_op()
    if not isinstance(module, ModuleOp) or not module.has_dispatch():
        return False, False
    own = [x for x in module.dispatch().launches() if x.kernel_name == kernel.sym_name.data]
    return (
        any(x.overlapped is not None for x in own),
        any(is_overlapped_next(x, module.arch.data) for x in own),
    )


def _touches_global(op: Operation) -> bool:
    """Whether an op, or one in its regions, takes a tensor or a workspace."""
    return any(
        isinstance(operand.type, GlobalType | TensorMapType | Im2colMapType)
        for inner in op.walk()
        if not isinstance(inner, hw.PrefetchTensorMapOp)
        for operand in inner.operands
    )


SET_UP = hw.MBarrierInitOp | hw.FenceMBarrierInitOp | hw.BarrierOp | hw.ClusterBarrierOp
"""What a kernel does while the launch ahead of it ends."""


def _place_to_wait(body: Block) -> Operation | None:
    """The op before which a kernel waits for the launch ahead of it.

    Its first access to global memory needs that launch to be done; barriers that are made and
    indices that are computed before it do not.  Accumulators are cleared behind the wait.
    """
    place = body.first_op
    for op in body.ops:
        if _touches_global(op):
            break
        if any(isinstance(inner, SET_UP) for inner in op.walk()):
            place = op.next_op
    while place is not None and (place.name.startswith("arith.") or is_side_effect_free(place)):
        if place.has_trait(IsTerminator):
            break
        place = place.next_op
    return place


def _body(w: KernelWriter, kernel: KernelOp) -> None:
    """The kernel's ops, with its place among launches that overlap.

    A kernel without accesses to global memory waits too, since who waits for it counts on that.
    The next launch may begin from there on: CTAs that come earlier would only take room from this
    one's.
    """
    waits, lets = _overlaps(kernel)
    body = kernel.body.block
    place = _place_to_wait(body)
    for op in body.ops:
        if op is place:
            if waits:
                w.run("wait_for_launch_before")
            if lets:
                w.run("let_next_launch_begin")
        w.op(op)


def kernel_text(
    kernel: KernelOp, functions: dict[str, DeviceFunction], types: dict[str, CType]
) -> str:
    """One kernel; what the prelude must define is added to ``functions`` and ``types``.

    Raises PolycError ``NotLowered`` for an op that is above the hardware level.
    """
    name = kernel.sym_name.data
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or is_reserved(name):
        raise PolycError(
            "BadName", f"kernel @{name} cannot have this name in CUDA C; rename it", kernel
        )
    w = KernelWriter(functions, types)
    w.fresh(name)
    body = kernel.body.block
    w.prepare(body)
    parameters = [_parameter(w, argument, kernel) for argument in body.args]
    if _uses_shared(body):
        w.line("extern __shared__ __align__(1024) unsigned char shared[];")
        w.line(f"u32 shared_base = {w.call('shared_window', 'shared')};")
    _body(w, kernel)
    bounds = f"{kernel.threads.value.data}, {kernel.blocks_per_sm.value.data}"
    size = kernel.cluster_size
    cluster = "" if size == 1 else f"__cluster_dims__({size}, 1, 1) "
    head = f'extern "C" __global__ void {cluster}__launch_bounds__({bounds})\n{name}('
    joined = ", ".join(parameters)
    if len(name) + len(joined) > 96:
        joined = "\n    " + ",\n    ".join(parameters)
    return "\n".join([f"{head}{joined}) {{", *w.lines, "}\n"])


def _prelude(text: str, functions: dict[str, DeviceFunction], types: dict[str, CType]) -> str:
    structs = [t.definition for _, t in sorted(types.items(), key=lambda i: (i[1].bytes, i[0]))]
    if "TensorMap" in text:
        structs.append(TENSOR_MAP)
    bodies = [f.text for f in functions.values()]
    words = set(re.findall(r"\w+", "\n".join([text, *structs, *bodies])))
    if words & {"f16", "bf16"}:
        words.add("u16")
    typedefs = "\n".join(line for name, line in TYPEDEFS.items() if name in words)
    return "".join(part + "\n\n" for part in [typedefs, *structs, *bodies] if part)


def _source(modules: Sequence[ModuleOp]) -> str:
    head = "".join(f"// {m.sym_name.data} for {m.arch.data}\n" for m in modules)
    return f"{head}\n{_text([kernel for m in modules for kernel in m.kernels()])}"


def _text(kernels: Sequence[KernelOp]) -> str:
    """Kernels behind the types and functions that they use."""
    functions: dict[str, DeviceFunction] = {}
    types: dict[str, CType] = {}
    text = "\n".join([kernel_text(kernel, functions, types) for kernel in kernels])
    return f"{_prelude(text, functions, types)}{text}"


def cuda_source(gpu_module: ModuleOp) -> str:
    """The CUDA C of all kernels of one ``gpu.module``.

    Raises PolycError: ``NotLowered`` for an op that has no printer, with the pass that
    lowers it, and ``BadName`` for a kernel whose name C cannot have.
    """
    return _source([gpu_module])


def cuda_units(gpu_module: ModuleOp) -> Iterator[str]:
    """The CUDA C of each kernel of one ``gpu.module`` by itself, to be compiled side by side.

    Raises PolycError as ``cuda_source``.
    """
    return map(cuda_unit, gpu_module.kernels())


def cuda_unit(kernel: KernelOp) -> str:
    """The CUDA C of one kernel of a ``gpu.module``.  Raises PolycError as ``cuda_source``."""
    module = kernel.parent_op()
    assert isinstance(module, ModuleOp)
    return f"// {module.sym_name.data} for {module.arch.data}\n\n{_text([kernel])}"


def print_cuda(module: BuiltinModuleOp, output: IO[str]) -> None:
    """Write the CUDA C of every ``gpu.module`` in ``module``, as one text.

    Raises PolycError as ``cuda_source``, and ``NotLowered`` when there is no ``gpu.module``.
    """
    modules = [op for op in module.ops if isinstance(op, ModuleOp)]
    if not modules:
        raise PolycError(
            "NotLowered", "there is no gpu.module to print; run lower-to-gpu first", module
        )
    output.write(_source(modules))
