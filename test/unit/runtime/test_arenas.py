"""Workspaces and code on the GPU: who shares them, what keeps them, and when they go."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import gpu_module_of
from polyc.runtime import arenas, driver
from polyc.runtime.program import Program
from polyc.test.support.fake_cuda import FakeCuda, Graph
from polyc.test.support.gpu_producers import CudaArray, FakeTorch
from polyc.test.unit.runtime.test_program import sequence
from polyc.tools.parsing import parse_text


class Calls:
    """Calls of a program with workspaces on GPU tensors, by their stream and size."""

    def __init__(self, ctx: Context, cuda: FakeCuda) -> None:
        self.cuda, self.job = cuda, sequence(ctx)
        self.x, self.y = cuda.allocate(1 << 16), cuda.allocate(1 << 16)

    def __call__(self, stream: int, m: int = 1, job: Program | None = None) -> int:
        """Run; the address of the workspace."""
        x = CudaArray(self.x, [m, 5], stream=stream)
        y = CudaArray(self.y, [m], stream=stream)
        (job or self.job).run([x], out=[y])
        one, two = self.cuda.launches[-2:]
        assert one.values[0] == self.x and one.values[1] == two.values[0]
        assert self.cuda.memory[one.values[1]].size >= m * 8 * 4
        return one.values[1]


@pytest.fixture
def calls(ctx: Context, cuda: FakeCuda) -> Calls:
    return Calls(ctx, cuda)


def test_calls_on_one_stream_share_and_streams_do_not(calls: Calls) -> None:
    first, second = calls(33), calls(44)
    assert first != second
    assert (calls(33), calls(44)) == (first, second)
    assert calls(0 + 1) not in (first, second)


def test_programs_on_one_stream_share(calls: Calls, ctx: Context) -> None:
    other = sequence(ctx)
    assert calls(33) == calls(33, job=other)
    place = calls(33)
    del calls.job
    # The other one still has it.
    assert calls(33, job=other) == place and not calls.cuda.freed


def test_growing_waits_for_what_is_under_way(calls: Calls) -> None:
    small = calls(33)
    calls.cuda.waited.clear()
    large = calls(33, 100)
    assert calls.cuda.waited == [33]
    assert calls.cuda.freed == [small] and not calls.cuda.freed_in_use
    assert calls(33) == large


def test_an_arena_that_cannot_grow_is_as_good_as_new(calls: Calls) -> None:
    calls(33)
    calls.cuda.fail["cuMemAlloc_v2"] = 2
    with pytest.raises(PolycError, match="cuMemAlloc_v2 answered CUDA_ERROR_2"):
        calls(33, 100)
    calls(33, 100)
    calls(33)


def test_a_stream_that_has_the_handle_of_another_one_has_its_own(calls: Calls) -> None:
    """The old one may still be at work when its handle is given away."""
    calls.cuda.new_stream(33)
    first = calls(33)
    calls.cuda.new_stream(33)
    assert calls(33) != first and not calls.cuda.freed


def test_each_thread_has_its_own_default_stream(calls: Calls) -> None:
    found = [calls(2)]
    worker = threading.Thread(target=lambda: found.append(calls(2)))
    worker.start()
    worker.join()
    found.append(calls(2))
    assert found[0] == found[2] != found[1]


def test_streams_that_come_and_go_do_not_pile_up(calls: Calls) -> None:
    for _ in range(3 * arenas.ARENAS_KEPT):
        calls(calls.cuda.new_stream(33))
    assert len(calls.cuda.memory) <= arenas.ARENAS_KEPT + 2
    assert len(calls.cuda.freed) >= 2 * arenas.ARENAS_KEPT


# Graphs ------------------------------------------------------------------------------------


def captured(calls: Calls, *sizes: int, stream: int = 33) -> Graph:
    with calls.cuda.capturing(stream) as graph:
        for m in sizes:
            calls(stream, m)
    return graph


def test_a_graph_keeps_its_workspaces_when_calls_grow(calls: Calls) -> None:
    calls(33)
    graph = captured(calls, 1)
    for m in (1, 50, 500, 1000):
        calls(33, m)
    calls.cuda.replay(graph)
    assert not calls.cuda.broken_captures


def test_a_capture_may_be_the_first_call_of_all(calls: Calls) -> None:
    """Code is loaded and memory taken in it, which a capture would not allow."""
    graph = captured(calls, 1)
    assert not calls.cuda.broken_captures
    calls.cuda.replay(graph)


def test_a_graph_keeps_the_workspaces_that_grew_in_it(calls: Calls) -> None:
    graph = captured(calls, 1, 100, 1)
    places = [one.values[1] for one in graph.launches[::2]]
    assert places[0] != places[1] == places[2]
    calls.cuda.replay(graph)
    assert not calls.cuda.freed


def test_graphs_share_with_nobody(calls: Calls) -> None:
    """A graph runs whenever its owner likes, beside calls and other graphs."""
    eager = calls(33)
    first, second = captured(calls, 1), captured(calls, 1)
    places = {eager, first.launches[0].values[1], second.launches[0].values[1]}
    assert len(places) == 3
    assert calls(33) == eager


def test_a_graph_lives_as_long_as_the_programs(calls: Calls) -> None:
    graph = captured(calls, 1)
    for _ in range(2 * arenas.ARENAS_KEPT):
        calls(calls.cuda.new_stream(44))
    calls.cuda.replay(graph)
    calls.job.close()
    with pytest.raises(AssertionError):
        calls.cuda.replay(graph)


def test_memory_is_taken_beside_another_threads_capture(calls: Calls) -> None:
    with calls.cuda.capturing(55):
        calls(33)
        calls(33, 100)
        calls.job.run([np.zeros((1, 5), np.float32)])
        calls.job.close()
    assert not calls.cuda.broken_captures


def test_bound_launches_have_arenas_of_their_own(calls: Calls) -> None:
    x, y = CudaArray(calls.x, [1, 5]), CudaArray(calls.y, [1])
    bound = [calls.job.launch([x], [y]) for _ in range(2)]
    places: list[int] = []
    for stream in (33, 44, 33):
        for i in range(2):
            bound[i].run(stream)
            places.append(calls.cuda.launches[-2].values[1])
            assert calls.cuda.launches[-1].values[0] == places[-1]
    assert places[:2] == places[4:] and len(set(places)) == 4
    with calls.cuda.capturing(33) as graph:
        bound[0].run(33)
    assert graph.launches[0].values[1] not in places
    calls.job.close()
    calls.cuda.replay(graph)
    bound.clear()
    assert set(places) <= set(calls.cuda.freed)


# What goes, and when -----------------------------------------------------------------------


def test_a_program_takes_what_it_has_with_it(calls: Calls) -> None:
    place = calls(33)
    captured(calls, 1, 100)
    calls.job.run([np.zeros((1, 5), np.float32)], gpu_index=1)
    assert len(calls.cuda.loaded) == 2
    del calls.job
    # Without a walk of the garbage collector, and with no context current.
    assert place in calls.cuda.freed
    assert not calls.cuda.loaded and not calls.cuda.stack
    assert set(calls.cuda.memory) == {calls.x, calls.y}


def test_a_closed_program_begins_anew(calls: Calls, torch: FakeTorch) -> None:
    x = torch.zeros(1, 5)
    for _ in range(3):
        for _ in range(2):
            calls.job.run([x])
        calls(33)
        calls.job.close()
        calls.job.close()
        assert not calls.cuda.loaded


TWICE = """
gpu.module @twice arch "sm_90a" symbols [M] {
  gpu.kernel @k(%x: !gpu.global<[M], f32> = tensor 0,
                %m: !gpu.tensor_map<[4], f32, swizzle 0> = tensor_map 0,
                %y: !gpu.global<[M], f32> = tensor 1) threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M], f32>) -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @k align [16, 4] grid [M]
  }
}
"""


def test_a_tensor_that_could_not_be_set_is_set_again(
    ctx: Context, cuda: FakeCuda, torch: FakeTorch
) -> None:
    """It is an argument twice, and the call failed between the two."""
    source = 'extern "C" __global__ void k() {}'
    job = Program.of_module(gpu_module_of(parse_text(ctx, TWICE, "t.mlir")), [source])
    first, second, y = torch.zeros(4), torch.zeros(4), torch.zeros(4)
    for x in (first, second, first):
        job.run([x], out=[y], stream=7)
    cuda.fail["cuTensorMapReplaceAddress"] = 700
    with pytest.raises(PolycError, match="700"):
        job.run([second], out=[y], stream=7)
    job.run([first], out=[y], stream=7)
    assert cuda.launches[-1].values == [first.pointer, first.pointer, y.pointer]


def test_a_workspace_that_could_not_be_set_is_set_again(calls: Calls, torch: FakeTorch) -> None:
    """A call that failed half way must not be taken for done by the next one."""
    x, y = torch.zeros(1, 5), torch.zeros(1)
    with torch.on(7):
        calls.job.run([x], out=[y])
        place = calls.cuda.launches[-2].values[1]
        calls.cuda.fail["cuTensorMapReplaceAddress"] = 700
        with torch.on(8), pytest.raises(PolycError, match="700"):
            calls.job.run([x], out=[y])
        calls.job.run([x], out=[y])
    one, two = calls.cuda.launches[-2:]
    assert one.values[1] == two.values[0] == place


SHUTDOWN = """
import sys
from polyc.runtime import driver
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.unit.runtime.test_program import sequence
from polyc.tools.parsing import parse_text
from polyc.test.support.gpu_producers import CudaArray
from polyc.tools.registry import make_context

class Late(FakeCuda):
    def cuMemFree_v2(self, pointer):
        print("freed at exit")

    def cuModuleUnload(self, module):
        print("unloaded at exit")

cuda = Late()
driver._library = lambda: cuda
job = sequence(make_context())
x, y = CudaArray(cuda.allocate(20), [1, 5]), CudaArray(cuda.allocate(4), [1])
job.run([x], out=[y])
bound = job.launch([x], [y])
bound.run(3)
sys.kept = [job, bound]
cycle = [job]
cycle.append(cycle)
print(len(cuda.launches))
"""


def test_nothing_is_freed_while_the_interpreter_ends(root: Path) -> None:
    """The driver may be gone then; the memory goes with the process."""
    done = subprocess.run(
        [sys.executable, "-c", SHUTDOWN],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root / ".typecheck")},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_what_cannot_be_freed_is_no_error(calls: Calls, recwarn: Any) -> None:
    calls(33)
    calls.cuda.fail["cuCtxPushCurrent_v2"] = 700
    calls.cuda.fail["cuMemFree_v2"] = 700
    del calls.job
    assert not calls.cuda.stack and not list(recwarn)


def test_memory_goes_back_to_the_driver_that_gave_it(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = FakeCuda()
    one, two = driver.Buffer(16), driver.Buffer(16)
    with monkeypatch.context() as later:
        later.setattr(driver, "_library", lambda: other)
        del one
        assert not cuda.freed and not other.log
    pointer = two.pointer
    del two
    assert cuda.freed == [pointer]
