"""Values of a kernel's sizes, for the passes that turn shapes into arithmetic."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import Dim
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.types import BindAttr, GlobalType
from polyc.passes.emit import Emit


def enclosing_kernel(op: Operation) -> gpu.KernelOp:
    """The kernel around ``op``; raises PolycError when there is none."""
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, gpu.KernelOp):
        parent = parent.parent_op()
    if parent is None:
        raise PolycError("NoKernel", f"{op.name} stands in a gpu.kernel", op)
    return parent


def bound_memory(kernel: gpu.KernelOp, binding: BindAttr) -> GlobalType | None:
    """The tensor or workspace that the host binds; None where no dispatch says what it is.

    The launches of a kernel agree on what their workspaces of one name hold.
    """
    module = kernel.parent_op()
    if not isinstance(module, gpu.ModuleOp) or not module.has_dispatch():
        return None
    dispatch = module.dispatch()
    if (index := binding.tensor_index) is not None:
        return dispatch.arg_types.data[index]
    for launch in dispatch.launches():
        if launch.kernel_name == kernel.sym_name.data:
            for workspace in launch.workspaces():
                if workspace.sym_name.data == binding.workspace_name:
                    return workspace.type
    return None


def size_value(emit: Emit, dim: Dim, kernel: gpu.KernelOp) -> SSAValue:
    """The value of a size in a kernel, from its symbol arguments.

    Raises PolycError ``MissingSymbol`` when the kernel has no argument for a symbol.
    """
    names: list[str] = []
    values: list[SSAValue] = []
    for arg, bound in zip(kernel.body.block.args, kernel.bindings, strict=True):
        if bound.kind.data == "symbol":
            names.append(str(bound.source.data))
            values.append(arg)
    for symbol in dim.symbols():
        if symbol not in names:
            raise PolycError(
                "MissingSymbol",
                f"kernel @{kernel.sym_name.data} needs the size {symbol}; add an argument bound "
                f"to symbol {symbol}",
                kernel,
            )
    return emit.dim(dim, names, values)


def constant_of(value: SSAValue) -> int | None:
    """The integer of an ``arith.constant``, or None."""
    if isinstance(value.owner, arith.ConstantOp) and isinstance(value.owner.value, IntegerAttr):
        return cast(IntegerAttr[IndexType], value.owner.value).value.data
    return None


def is_size(value: SSAValue, dim: Dim, kernel: gpu.KernelOp) -> bool:
    """Whether ``value`` is the size ``dim``: a constant, a symbol's argument, or affine in them."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return dim.constant() == cast(IntegerAttr[IndexType], owner.value).value.data
    names: dict[SSAValue, str] = {
        arg: str(bound.source.data)
        for arg, bound in zip(kernel.body.block.args, kernel.bindings, strict=True)
        if bound.kind.data == "symbol"
    }
    if value in names:
        return dim == Dim.sym(names[value])
    if isinstance(owner, affine.ApplyOp) and all(v in names for v in owner.mapOperands):
        m, symbols = owner.map.data, [names[v] for v in owner.mapOperands]
        if m.num_dims == 0:
            return dim == Dim.from_affine(m.results[0], symbols)
    return False
