"""Turns between warpgroups: what lowers to barriers, and what is refused."""

from __future__ import annotations

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants
from polyc.test.support.gpu_text import assert_refused, find, kernel, run


def turns(count: int, consumers: int, independent: bool = True, barriers: int = 1) -> str:
    names = [f"%o{i}" for i in range(barriers)]
    made = "".join(f"    {n} = gpu.order_barrier : !gpu.order<{count}>\n" for n in names)
    number = "(%w) " if independent else ""
    head = "" if independent else "      %w = arith.constant 0 : index\n"
    steps = "".join(
        f"      gpu.order_enter {n}[%w] : !gpu.order<{count}>\n"
        f"      gpu.order_leave {n}[%w] : !gpu.order<{count}>\n"
        for n in names
    )
    return kernel(
        f"{made}    gpu.roles consumers {consumers} {'independent ' if independent else ''}"
        "registers [0, 0] producer {\n      gpu.yield\n    } consumer "
        f"{number}{{\n{head}{steps}      gpu.yield\n    }}",
        threads=128 * (consumers + 1),
    )


def test_each_participant_has_a_barrier() -> None:
    module = run(turns(2, 2), "gpu-lower-barriers")
    assert [o.id.value.data for o in find(module, hw.NamedBarrierOp)] == [9]
    assert [o.id.value.data for o in find(module, hw.NamedBarrierArriveOp)] == [9, 9]


def test_a_turn_that_is_not_waited_for_is_no_mistake() -> None:
    module = run(turns(2, 2), "gpu-lower-barriers", "gpu-lower-roles")
    removed = [m.op for m in mutants(gpu_module_of(module)) if m.change == "remove it"]
    assert "gpu.named_barrier_arrive" in removed and "gpu.named_barrier" not in removed


def test_consumers_that_work_together_take_no_turns() -> None:
    assert_refused(
        turns(2, 2, independent=False),
        "BadOrder",
        "turns are taken by independent consumers, a warpgroup each; say gpu.roles consumers 2 "
        "independent",
        "gpu.order_leave",
        "gpu-lower-barriers",
    )


def test_as_many_take_turns_as_there_are() -> None:
    assert_refused(
        turns(3, 2),
        "BadOrder",
        "2 consumers take turns of 3; a turn that nobody takes never ends",
        "gpu.order_leave",
        "gpu-lower-barriers",
    )


def test_a_cta_has_sixteen_barriers() -> None:
    assert_refused(
        turns(3, 3, barriers=3),
        "ResourceExceeded",
        "turns of 3 need barriers 15 to 17, and a CTA has 15; use fewer order barriers",
        "%o2 =",
        "gpu-lower-barriers",
    )
