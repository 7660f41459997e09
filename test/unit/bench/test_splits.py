"""``bench/splits.py``: every schedule of a product is built by itself; nothing is timed here."""

from __future__ import annotations

from polyc.bench.splits import built, candidates
from polyc.playback.gpu.simulate import gpu_module_of


def test_each_schedule_is_built() -> None:
    shape = 16, 64, 4096
    for arch in ("sm_90a", "sm_80"):
        found = list(candidates(shape, arch))
        assert sum(kept for _, _, kept in found) == 1
        assert {plan.stores_sums for plan, _, _ in found} == {True, False}
        for plan, expected, _ in found[::3]:
            kernels = [k.sym_name.data for k in gpu_module_of(built(shape, plan)).kernels()]
            assert kernels == plan.kernel_names and expected > 0
