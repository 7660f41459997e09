"""Values of a kernel's sizes, for the passes that turn shapes into arithmetic."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import affine, arith
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineSymExpr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import GlobalType
from polyc.rewriting.emit import Emit


def enclosing_kernel(op: Operation) -> KernelOp:
    """The kernel around ``op``; raises PolycError when there is none."""
    parent: Operation | None = op
    while parent is not None and not isinstance(parent, KernelOp):
        parent = parent.parent_op()
    if parent is None:
        raise PolycError("NoKernel", f"{op.name} stands in a gpu.kernel", op)
    return parent


def bound_memory(kernel: KernelOp, binding: BindAttr) -> GlobalType | None:
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
            bound = launch.bound(binding)
            if (index := bound.tensor_index) is not None:
                return dispatch.arg_types.data[index]
            for workspace in launch.workspaces():
                if workspace.sym_name.data == bound.workspace_name:
                    return workspace.type
    return None


def size_value(emit: Emit, dim: Dim, kernel: KernelOp) -> SSAValue:
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


def dim_of(value: SSAValue, kernel: KernelOp) -> Dim | None:
    """The size that ``value`` is, as the ops that make it say; None for what is no size."""
    if (constant := constant_of(value)) is not None:
        return Dim.const(constant)
    if isinstance(value, BlockArgument):
        if value.block is not kernel.body.block:
            return None
        symbol = kernel.bindings.data[value.index].symbol_name
        return None if symbol is None else Dim.sym(symbol)
    owner = value.owner
    if not isinstance(owner, arith.MuliOp | arith.AddiOp | affine.ApplyOp):
        return None
    parts: list[Dim] = []
    for operand in owner.operands:
        part = dim_of(operand, kernel)
        if part is None:
            return None
        parts.append(part)
    match owner:
        case arith.MuliOp():
            return parts[0] * parts[1]
        case arith.AddiOp():
            return parts[0] + parts[1]
        case _:
            names = [f"x{i}" for i in range(len(parts))]
            over = owner.map.data
            symbols = [AffineSymExpr(i) for i in range(len(parts))]
            expr = over.results[0].replace_dims_and_symbols(
                symbols[: over.num_dims], symbols[over.num_dims :]
            )
            values = dict(zip(names, parts, strict=True))
            return Dim.from_affine(expr, names).substitute(values)


def is_size(value: SSAValue, dim: Dim, kernel: KernelOp) -> bool:
    """Whether ``value`` is the size ``dim``."""
    return dim_of(value, kernel) == dim
