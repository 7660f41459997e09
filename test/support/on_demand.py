"""One variant of a program at the hardware level: where a test runs one, the others cost time."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import module as gpu
from polyc.passes.on_demand import OnDemand
from polyc.test.support.gpu_text import only


class Variants:
    """The kernels of a module at the tile level, which come to the hardware level one by one."""

    def __init__(self, module: ModuleOp | gpu.ModuleOp) -> None:
        self.tiles = only(module, gpu.ModuleOp)
        self._later = OnDemand(self.tiles)

    def at(self, sizes: Mapping[str, int]) -> gpu.ModuleOp:
        """The module with the variant that dispatch takes at some sizes; not to be changed."""
        variants = self.tiles.dispatch().variants()
        takes = (all(fact.holds(sizes) for fact in one.facts.data) for one in variants)
        return self._of(next(i for i, taken in enumerate(takes) if taken))

    def named(self, name: str) -> gpu.ModuleOp:
        """The module with a variant by its name; not to be changed."""
        names = [v.variant_name for v in self.tiles.dispatch().variants()]
        return self._of(names.index(name))

    def _of(self, number: int) -> gpu.ModuleOp:
        variant, _ = self._later.variant(number)
        dispatch = variant.parent_op()
        assert dispatch is not None
        module = dispatch.parent_op()
        assert isinstance(module, gpu.ModuleOp)
        return module
