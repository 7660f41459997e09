"""The variants of a program, brought to the hardware level when somebody asks for one.

A program of open sizes has many kernels, of which a call needs one: what is not asked for takes no
time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp
from polyc.passes.finish import finish
from polyc.rewriting.driver import copied

Made = tuple[LaunchOp | SequenceOp, Mapping[str, KernelOp]]
"""A variant at the hardware level, with its kernels by name."""


class OnDemand:
    """The variants of ``module``, a ``gpu.module`` at tile level that stays as it is.

    Variants that have a kernel in common come together, as what is known of its tensors holds for
    all of them.  Any number of threads may use it.
    """

    def __init__(self, module: gpu.ModuleOp) -> None:
        self._module = module
        self._lock = threading.Lock()
        self._parts = _together(module.dispatch().variants())
        self._made: dict[int, Made] = {}

    def variant(self, number: int) -> Made:
        """A variant by its number in the order of dispatch.

        Raises PolycError as ``finish``, each time that it is asked for.
        """
        with self._lock:
            if number not in self._made:
                part = next(part for part in self._parts if number in part)
                self._made |= zip(part, self._finished(part), strict=True)
            return self._made[number]

    def kernel(self, name: str) -> KernelOp:
        """A kernel by name, with its variants."""
        for number, variant in enumerate(self._module.dispatch().variants()):
            if name in _kernels_of(variant):
                return self.variant(number)[1][name]
        raise KeyError(name)

    def _finished(self, part: list[int]) -> list[Made]:
        """Variants and their kernels in a module of their own, at the hardware level."""
        whole = self._module
        dispatch = whole.dispatch()
        wanted = {name for i in part for name in _kernels_of(dispatch.variants()[i])}
        ops: list[Operation] = [copied(k) for k in whole.kernels() if k.sym_name.data in wanted]
        ops.append(own := copied(dispatch))
        for i, variant in enumerate(own.variants()):
            if i not in part:
                variant.detach()
                variant.erase()
        name, arch = whole.sym_name.data, whole.arch.data
        module = gpu.ModuleOp(name, arch, whole.symbol_names, whole.assumptions, ops)
        module.location = whole.location
        module.attributes.update(whole.attributes)
        finish(ModuleOp([module]))
        kernels = {kernel.sym_name.data: kernel for kernel in module.kernels()}
        return [(variant, kernels) for variant in own.variants()]


def _kernels_of(variant: LaunchOp | SequenceOp) -> set[str]:
    return {launch.kernel_name for launch in variant.launches()}


def _together(variants: Iterable[LaunchOp | SequenceOp]) -> list[list[int]]:
    """The numbers of variants, those in one list that have kernels in common."""
    parts: list[tuple[list[int], set[str]]] = []
    for number, variant in enumerate(variants):
        names, numbers = _kernels_of(variant), [number]
        apart: list[tuple[list[int], set[str]]] = []
        for part in parts:
            if names.isdisjoint(part[1]):
                apart.append(part)
            else:
                numbers, names = [*part[0], *numbers], names | part[1]
        parts = [*apart, (sorted(numbers), names)]
    return [numbers for numbers, _ in parts]
