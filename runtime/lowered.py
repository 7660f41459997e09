"""A program from its ``gpu.module``: what the host needs is read from its ops once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, WorkspaceOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.gpu.module import gpu_module_of
from polyc.dialects.gpu.onward import goes_onward
from polyc.dialects.gpu.types import GlobalType, TensorMapType, element_bytes
from polyc.lowering.gpu_to_cuda import cuda_unit, cuda_units
from polyc.passes.finish import finished
from polyc.passes.gpu.share_kernels import GpuShareKernels
from polyc.passes.on_demand import OnDemand
from polyc.rewriting.driver import copied
from polyc.runtime.code import Code
from polyc.runtime.described import (
    Argument,
    Choice,
    Described,
    Launch,
    TensorMap,
    Workspace,
)
from polyc.runtime.garbage import rarely
from polyc.runtime.origin import Origin


class Lowered(Origin):
    """``module`` with ``sources``, its CUDA C at the hardware level.

    Without them it is at tile level, and each variant is lowered when somebody asks for it.
    """

    def __init__(self, module: GpuModuleOp, sources: Iterable[str] | None = None) -> None:
        self._module = module
        self._later = OnDemand(module) if sources is None else None
        self.described = _described(module, self._later is None)
        code = partial(_source, self._later) if self._later is not None else sources
        assert code is not None
        found = self.described
        self.code = Code(found.arch, found.name, found.kernels, code)

    def module(self) -> GpuModuleOp:
        return self._module

    @rarely()
    def launches(self, number: int) -> Sequence[Launch]:
        if self._later is None:
            found = self.described.choices[number].launches
            assert found is not None
            return found
        return _launches(*self._later.variant(number))


def lowered(module: Operation, name: str | None = None, lazily: bool = False) -> Lowered:
    """What ``Program.compile`` makes a program from."""
    found = gpu_module_of(module, name)
    if lazily:
        around = ModuleOp([copied(found)])
        GpuShareKernels().apply(Context(), around)
        return Lowered(gpu_module_of(around))
    found = finished(found)
    return Lowered(found, cuda_units(found))


@rarely()
def _source(later: OnDemand, kernel: str) -> str:
    """The CUDA C of a kernel that is lowered when it is asked for."""
    return cuda_unit(later.kernel(kernel))


def _described(module: GpuModuleOp, finished: bool) -> Described:
    """What the host needs; launches only of a module at the hardware level."""
    dispatch = module.dispatch()
    kernels = {kernel.sym_name.data: kernel for kernel in module.kernels()}
    named = list(zip(dispatch.arg_names, dispatch.arg_attrs, strict=True))
    named = named[: dispatch.num_inputs.value.data]
    return Described(
        module.sym_name.data,
        module.arch.data,
        tuple(module.symbol_names),
        module.assumptions.data,
        tuple(name.data for name in dispatch.arg_names),
        tuple(kind.dims for kind in dispatch.arg_types),
        tuple(str(kind.element_type) for kind in dispatch.arg_types),
        tuple(_promised(attrs.data.get("align")) for attrs in dispatch.arg_attrs),
        dispatch.num_inputs.value.data,
        tuple(kernels),
        tuple(_choice(op, kernels, finished) for op in dispatch.variants()),
        tuple(_pooled(n.data, a.data) for n, a in named),
        tuple(_made(a.data) for _, a in named),
    )


def _promised(attr: object) -> int:
    return attr.value.data if isinstance(attr, IntegerAttr) else 0


def _pooled(name: str, attrs: Mapping[str, Attribute]) -> str:
    """What a parameter file calls an input: its entry, or its own name; "" for what none has."""
    if "storage" not in attrs or "made" in attrs:
        return ""
    entry = attrs.get("entry")
    return entry.data if isinstance(entry, StringAttr) else name


def _made(attrs: Mapping[str, Attribute]) -> str:
    """Which output of the program before it an input is; "" for others."""
    made = attrs.get("made")
    return made.data.rpartition(".")[2] if isinstance(made, StringAttr) else ""


def _choice(op: LaunchOp | SequenceOp, kernels: Mapping[str, KernelOp], finished: bool) -> Choice:
    names = tuple(dict.fromkeys(launch.kernel_name for launch in op.launches()))
    kinds = [arg.type for name in names for arg in kernels[name].body.block.args]
    return Choice(
        op.variant_name,
        op.facts.data,
        op.alignments,
        names,
        tuple(dict.fromkeys(d for k in kinds if isinstance(k, GlobalType) for d in k.dims)),
        tuple(_workspace(one) for one in op.workspaces()),
        tuple(_launches(op, kernels)) if finished else None,
    )


def _workspace(op: WorkspaceOp) -> Workspace:
    copies = None
    if op.copies is not None:
        index = op.copies.tensor_index
        copies = (op.copies.workspace_name or "") if index is None else index
    return Workspace(
        op.sym_name.data,
        op.type.dims,
        str(op.type.element_type),
        element_bytes(op.type.element_type),
        op.zeroed is not None,
        copies,
    )


def _launches(op: LaunchOp | SequenceOp, kernels: Mapping[str, KernelOp]) -> list[Launch]:
    return [_launch(one, kernels[one.kernel_name]) for one in op.launches()]


def _launch(op: LaunchOp, kernel: KernelOp) -> Launch:
    shared = kernel.shared_bytes
    return Launch(
        op.host_grid(kernel),
        op.sequence is None,
        kernel.threads.value.data,
        0 if shared is None else shared.value.data,
        op.overlapped is not None,
        op.fills_name,
        tuple(
            _argument(op.bound(binding), arg)._replace(used=arg.first_use is not None)
            for binding, arg in zip(kernel.bindings, kernel.body.block.args, strict=True)
        ),
    )


def _argument(binding: BindAttr, arg: SSAValue) -> Argument:
    kind = arg.type
    if (symbol := binding.symbol_name) is not None:
        return Argument(symbol, True)
    index = binding.tensor_index
    source = (binding.workspace_name or "") if index is None else index
    made = None
    if isinstance(kind, Im2colMapType):
        corners = kind.lower_corner, kind.upper_corner, kind.steps
        made = TensorMap(kind.sizes, kind.swizzle.data, corners, kind.rounds)
    elif isinstance(kind, TensorMapType):
        made = TensorMap(
            kind.sizes, kind.swizzle.data, tf32=kind.rounds, onward=goes_onward(arg, kind)
        )
    return Argument(source, False, binding.view_dims, made)
