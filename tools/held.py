"""What the constant pool holds of a program at any layer, beside the data of a playback."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Attribute, Operation

from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.runtime import const_pool
from polyc.runtime.const_pool import Constants, Given
from polyc.runtime.signature import HostSignature
from polyc.tools.play import Signature


def host_signature(op: Operation) -> HostSignature:
    """What a host checks of the calls of a program, which ``op`` is at some layer."""
    found = Signature.of(op)
    assert found is not None
    every = [*found.inputs, *found.outputs]
    if isinstance(op, GpuModuleOp):
        promised = [_aligned(attrs.data) for attrs in op.dispatch().arg_attrs]
    else:
        promised = [getattr(one, "align", None) or 0 for one in every]
    return HostSignature(
        found.sym_name.data,
        tuple(one.name for one in every),
        tuple(one.type.dims for one in every),
        tuple(str(one.type.element_type) for one in every),
        tuple(promised),
        len(found.inputs),
        tuple(found.symbol_names),
        tuple(found.facts),
        tuple(one.pooled or "" for one in found.inputs),
    )


def _aligned(attrs: Mapping[str, Attribute]) -> int:
    found = attrs.get("align")
    return found.value.data if isinstance(found, IntegerAttr) else 0


def bound(op: Operation, params: Given) -> Constants:
    """What ``params`` has for a program's constant pool.  Raises as ``const_pool.bind`` does."""
    return const_pool.bind(host_signature(op), params)


def with_params(op: Operation, inputs: Sequence[Any], params: Given) -> list[Any]:
    """All inputs of a program, of its data and ``params``, for a playback at any layer.

    Raises PolycError as ``bound`` does.
    """
    return const_pool.merged(inputs, bound(op, params).arrays())
