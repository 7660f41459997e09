"""``gpu-lower-roles``: each thread runs exactly its role."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.test.support.evaluate import Machine
from polyc.test.support.gpu_text import body_of, find, kernel, run, unchanged

PASS = "gpu-lower-roles"


@pytest.mark.parametrize("single", ["", "single_thread"])
@pytest.mark.parametrize("consumers", [1, 2, 3])
def test_lower_roles(consumers: int, single: str) -> None:
    """Consumers are the first warpgroups; setmaxnreg is for a whole one, whoever works."""
    threads = 128 * (consumers + 1)
    text = kernel(
        f"""
    gpu.roles consumers {consumers} registers [0, 0] {single} producer {{
      gpu.set_max_registers "decrease" 40
      gpu.fence_proxy_async
      gpu.yield
    }} consumer {{
      gpu.set_max_registers "increase" 232
      gpu.wgmma_fence
      gpu.yield
    }}""",
        threads=threads,
    )
    module = run(text, PASS)
    assert not find(module, tile.RolesOp)
    found = {
        (type(e.op), e.op.count.value.data if isinstance(e.op, hw.SetMaxRegistersOp) else 0): e
        for e in Machine(threads=threads).run(body_of(module)).events
    }
    thread = np.arange(threads)
    producer, consumer = thread >= 128 * consumers, thread < 128 * consumers
    works = thread == 128 * consumers if single else producer
    assert (found[hw.SetMaxRegistersOp, 40].active == producer).all()
    assert (found[hw.SetMaxRegistersOp, 232].active == consumer).all()
    assert (found[hw.FenceProxyAsyncOp, 0].active == works).all()
    assert (found[hw.WgmmaFenceOp, 0].active == consumer).all()


def test_independent_consumers_see_their_number() -> None:
    text = kernel(
        """
    gpu.roles consumers 2 independent registers [0, 0] producer {
      gpu.yield
    } consumer (%w) {
      gpu.named_barrier 1 plus %w threads 128
      gpu.yield
    }""",
        threads=384,
    )
    module = run(text, PASS)
    assert not find(module, tile.RolesOp)
    (event,) = (
        e
        for e in Machine(threads=384).run(body_of(module)).events
        if isinstance(e.op, hw.NamedBarrierOp)
    )
    assert isinstance(event.op, hw.NamedBarrierOp) and event.op.offset is not None
    assert (np.nonzero(event.active)[0] == np.arange(256)).all()
    assert event[event.op.offset].tolist() == [0] * 128 + [1] * 128


def test_lower_roles_leaves_a_kernel_without_roles_alone() -> None:
    unchanged(kernel("    gpu.barrier"), PASS)
