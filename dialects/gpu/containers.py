"""The fields of a ``gpu.module`` and of its ``gpu.dispatch``, for the ops that stand in them.

Their names stand here too: a launch or a kernel elsewhere is told what it belongs in.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def, region_def

from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.gpu.target import TargetAttr
from polyc.dialects.gpu.types import GlobalType, IndexAttr


class Module(IRDLOperation):
    """One graph compiled for one architecture.

    ``arch`` is ``sm_80`` or ``sm_90a`` (S0.1); ``symbols`` are the sizes of the signature in
    order of appearance, ``assumptions`` the facts that the graph states about them (S2.1).
    ``target`` are the architecture's limits, once ``gpu-bind-target`` has asked whether it has all
    that the kernels use.
    """

    name = "gpu.module"
    sym_name = prop_def(StringAttr)
    arch = prop_def(StringAttr)
    symbols = prop_def(ArrayAttr[StringAttr])
    assumptions = prop_def(AssumptionsAttr)
    target = opt_prop_def(TargetAttr)
    body = region_def("single_block")

    @property
    def symbol_names(self) -> tuple[str, ...]:
        return tuple(s.data for s in self.symbols)


class Dispatch(IRDLOperation):
    """The host's side of a module: the signature, and the launches in order of preference.

    The signature is the ABI (S12.1): ``arg_types`` are the inputs and then the outputs as
    ``!gpu.global`` types, ``arg_names`` their names, ``num_inputs`` where outputs begin.
    ``arg_attrs`` carries role, storage, mutability of each.  An output of which some size is
    0 needs no launch.  Each ``gpu.launch`` and ``gpu.sequence`` in the body is a variant; the
    first one whose conditions hold runs.
    """

    name = "gpu.dispatch"
    arg_names = prop_def(ArrayAttr[StringAttr])
    arg_types = prop_def(ArrayAttr[GlobalType])
    arg_attrs = prop_def(ArrayAttr[DictionaryAttr])
    num_inputs = prop_def(IndexAttr)
    body = region_def("single_block")
