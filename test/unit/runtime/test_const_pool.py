"""Parameters bound to a program: found or refused by name, uploaded once, and left out of calls."""

# pyright: basic, reportPrivateUsage=false

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.size_expr import Dim
from polyc.dialects.gpu.module import gpu_module_of
from polyc.runtime import const_pool
from polyc.runtime.const_pool import Params, bind
from polyc.runtime.program import ALLOCATING, PLAIN, Program
from polyc.runtime.safetensors import read_params, write_params
from polyc.runtime.signature import HostSignature
from polyc.test.support.fake_cuda import FakeCuda
from polyc.test.support.gpu_producers import FakeTorch, Tensor
from polyc.tools.parsing import parse_text

# X is data, W and B are in the pool: W is laid out once, which @whole then reads.
MODULE = """
gpu.module @layer arch "sm_90a" symbols [M, N] {
  gpu.kernel @lay(%w: !gpu.tensor_map<[4], f32, swizzle 0> = tensor_map 1,
                  %laid: !gpu.global<[N], f32> = workspace "laid") threads 32 {
    gpu.return
  }
  gpu.kernel @whole(%x: !gpu.global<[M, N], f32> = tensor 0,
                   %laid: !gpu.global<[N], f32> = workspace "laid",
                   %b: !gpu.global<[N], f32> = tensor 2,
                   %y: !gpu.global<[M], f32> = tensor 3) threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>,
                W: !gpu.global<[N], f32> {storage = "const_pool", entry = "layer.weight"},
                B: !gpu.global<[N], f32> {storage = "const_pool"}) -> (Y: !gpu.global<[M], f32>) {
    gpu.sequence @both align [4, 4, 4, 4] {
      gpu.workspace "laid" : !gpu.global<[N], f32>
      gpu.launch @lay grid [N]
      gpu.launch @whole grid [M]
    }
  }
}
"""
SOURCE = 'extern "C" __global__ void lay() {} extern "C" __global__ void whole() {}'

W, B = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
PARAMS = {"layer.weight": W, "B": B}


@pytest.fixture
def layer(ctx: Context) -> Any:
    module = gpu_module_of(parse_text(ctx, MODULE, "m.mlir"))
    return lambda params: Program(Program.of_module(module, [SOURCE])._origin, params)


def signature(**shapes: tuple[Any, ...]) -> HostSignature:
    dims = [
        tuple(Dim.sym(d) if isinstance(d, str) else Dim.const(d) for d in shape)
        for shape in shapes.values()
    ]
    count = len(shapes)
    pooled = [name if name.islower() else "" for name in shapes]
    kinds = ["f32"] * count
    return HostSignature("f", list(shapes), dims, kinds, [0] * count, count, (), (), pooled)


# Binding --------------------------------------------------------------------------------------


def test_all_that_is_wrong_is_said_at_once() -> None:
    given = {
        "a": np.zeros((2, 3), np.float16),
        "b": np.zeros((2,), np.float32),
        "d": np.zeros((3, 5), np.float32),
        "q": W,
        "r": W,
    }
    wanted = signature(X=("M", "K"), a=(2, 3), b=("N", 3), c=(4,), d=("K", "K"))
    with pytest.raises(PolycError) as caught:
        bind(wanted, given)
    error = caught.value
    assert error.kind == "BadParams"
    assert error.message == (
        "params does not fit f: a holds f16, and the program takes f32, and 4 more faults"
    )
    assert error.notes == (
        "b has shape [2], and the program takes [N, 3]",
        "d has shape [3, 5], and the program takes [K, K], where K is 3",
        "c is missing, f32 [4]",
        "nothing asks for q, r",
    )


def test_symbols_have_the_sizes_of_entries() -> None:
    found = bind(signature(X=("M", "K"), w=("K", "N")), {"w": np.zeros((3, 5), np.float32)})
    assert found.sizes == {"K": 3, "N": 5} and list(found.entries) == [1]


def test_a_file_may_have_more_and_a_mapping_may_not(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_params(path, {"w": W, "more": B})
    assert bind(signature(w=(4,)), path).entries[0].name == "w"
    assert bind(signature(w=(4,)), read_params(path)).entries[0].shape == (4,)
    with pytest.raises(PolycError, match="nothing asks for more"):
        bind(signature(w=(4,)), {"w": W, "more": B})
    with pytest.raises(PolycError, match=r"(?s)v is missing.*nothing asks for more, w"):
        bind(signature(v=(4,)), path)
    rude = {"w": W} | {f"\x1b[31m{i}": B for i in range(10)} | {"z" * 500: B}
    with pytest.raises(PolycError, match=r"asks for '.x1b\[31m0', .* and 3 more$") as caught:
        bind(signature(w=(4,)), rude)
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 400


def test_a_file_is_opened_once(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_params(path, {"w": W})
    files = [Params.of(path)["w"].file for _ in range(3)]
    assert len({id(file) for file in files}) == 1
    write_params(path, {"w": W})
    assert Params.of(path)["w"].file is not files[0]


def test_several_files_share_no_name(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    write_params(paths[0], {"v": W})
    write_params(paths[1], {"w": B})
    assert list(Params.of(paths)) == ["v", "w"]
    write_params(paths[1], {"v": B})
    with pytest.raises(PolycError, match="both have an entry 'v'"):
        Params.of(paths)


@pytest.mark.parametrize("given", [3, {"w": "text"}])
def test_what_is_no_parameter_is_refused(given: Any) -> None:
    with pytest.raises(PolycError):
        Params.of(given)


def test_arrays_in_another_order_hold_the_same(cuda: FakeCuda) -> None:
    turned = np.arange(6, dtype=np.float32).reshape(2, 3).T
    found = bind(signature(w=(3, 2)), {"w": turned})
    assert (found.arrays()[0] == turned).all()
    view = found.on(0)[0]
    assert view.is_dense and (memory(cuda, view.pointer, 6).reshape(3, 2) == turned).all()
    scalar = bind(signature(w=()), {"w": np.float32(3)})
    assert scalar.arrays()[0].shape == ()


def memory(cuda: FakeCuda, pointer: int, count: int) -> Any:
    import ctypes

    raw = (ctypes.c_float * count).from_address(pointer)
    return np.array(raw, np.float32)


# Calls on a GPU -------------------------------------------------------------------------------


def test_calls_take_data_alone(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    job = layer(PARAMS)
    assert job.names == ("X", "Y") and job.num_inputs == 1
    for m in (3, 3, 5):
        job.run([torch.zeros(m, 4)])
    assert [one.kernel for one in cuda.launches] == ["lay", "whole", "whole", "whole"]
    lay, first, second, third = cuda.launches
    assert memory(cuda, lay.values[0], 4).tolist() == W.tolist()
    assert memory(cuda, first.values[2], 4).tolist() == B.tolist()
    assert lay.values[1] == first.values[1] == second.values[1] == third.values[1]
    assert first.values[2] == second.values[2] == third.values[2]
    with pytest.raises(PolycError, match=r"takes 1 inputs \(X\), 3 are given"):
        job.run([torch.zeros(3, 4)] * 3)
    with pytest.raises(
        PolycError, match=r"dimension 1 of X is 5, the signature says N, which is 4"
    ):
        job.run([torch.zeros(3, 5)])


def test_without_parameters_calls_take_all(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    job = layer(None)
    assert job.names == ("X", "W", "B", "Y")
    for _ in range(2):
        job.run([torch.zeros(3, 4), torch.zeros(4), torch.zeros(4)])
    assert [one.kernel for one in cuda.launches] == ["lay", "whole"] * 2


def test_host_arrays_and_the_second_gpu(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    job = layer(PARAMS)
    (y,) = job.run([np.zeros((3, 4), np.float32)])
    assert y.shape == (3,)
    job.run([torch.zeros(3, 4, index=1)])
    assert [one.kernel for one in cuda.launches] == ["lay", "whole"] * 2
    there = [cuda.memory[one.values[2]].ordinal for one in cuda.launches[1::2]]
    assert there == [0, 1]


def test_calls_that_are_remembered_leave_constants_out(
    layer: Any, cuda: FakeCuda, torch: FakeTorch
) -> None:
    job = layer(PARAMS)
    x, y = torch.zeros(3, 4), torch.zeros(3)
    job.run([x])
    job.run([x], out=[y])
    (kept,) = job.repeated(PLAIN)._calls.values()
    # One launch is left, and it is packed with the constants in their place.
    assert kept.packing is not None and kept.packing.count == 2
    del cuda.launches[:]
    other, there = torch.zeros(3, 4), torch.zeros(3)
    assert job.repeated(ALLOCATING).run((x,)) is not None
    assert job.repeated(PLAIN).run((other,), (there,)) is not None
    first, second = cuda.launches
    assert first.values[1:3] == second.values[1:3]
    assert second.values[0] == other.pointer and second.values[3] == there.pointer


def test_a_bound_launch_has_them_too(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    job = layer(PARAMS)
    bound = job.launch([torch.zeros(3, 4)], [torch.zeros(3)])
    assert [one.kernel for one in cuda.launches] == ["lay"]
    del job
    gc.collect()
    bound.run(3)
    assert [one.kernel for one in cuda.launches] == ["lay", "whole"]
    assert not cuda.freed_in_use


def test_programs_share_what_is_on_a_gpu(
    layer: Any, cuda: FakeCuda, torch: FakeTorch, tmp_path: Path
) -> None:
    path = tmp_path / "m.safetensors"
    write_params(path, PARAMS)
    together = Params.of(PARAMS)
    jobs = [layer(path), layer(str(path)), layer(together), layer(together), layer(PARAMS)]
    for job in jobs:
        job.run([torch.zeros(3, 4)])
    places = [one.values[2] for one in cuda.launches if one.kernel == "whole"]
    assert places[0] == places[1] and places[2] == places[3]
    # A tensor may have changed since another program was given it.
    assert len(set(places)) == 3
    write_params(path, {"layer.weight": W, "B": B + 1})  # another file under the name
    again = layer(path)
    again.run([torch.zeros(3, 4)])
    assert cuda.launches[-1].values[2] not in places
    assert memory(cuda, cuda.launches[-1].values[2], 4).tolist() == (B + 1).tolist()
    kept = len(const_pool._POOL)
    del job, again
    jobs.clear()
    gc.collect()
    assert len(const_pool._POOL) == kept - 4  # what @lay reads is there no more


def test_tensors_on_the_gpu_are_used_in_place(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    w, b = torch.zeros(4), torch.zeros(4)
    w.requires_grad = True
    w.detach = lambda: Tensor(w.pointer, w.shape)  # type: ignore[attr-defined]
    job = layer({"layer.weight": w, "B": b})
    x, y = torch.zeros(3, 4), torch.zeros(3)
    job.run([x], out=[y])
    lay, whole = cuda.launches
    assert lay.values[0] == w.pointer and whole.values[2] == b.pointer
    assert not job.repeated(PLAIN)._calls  # an output over a weight has to be seen
    with pytest.raises(PolycError, match="Overlap"):
        job.run([x], out=[Tensor(b.pointer, (3,))])
    with pytest.raises(
        PolycError, match=r"parameter layer\.weight is on GPU 0, and the call on GPU 1"
    ):
        job.run([torch.zeros(3, 4, index=1)])
    with pytest.raises(PolycError, match="copy it there"):
        job.constants.arrays()


def test_a_capture_does_not_wait_for_what_is_made_once(
    layer: Any, cuda: FakeCuda, torch: FakeTorch
) -> None:
    job = layer(PARAMS)
    x, y = torch.zeros(3, 4), torch.zeros(3)
    stream = cuda.new_stream(7)
    with torch.on(stream), cuda.capturing(stream):
        with pytest.raises(PolycError, match="call it once before"):
            job.run([x], out=[y])
        assert not cuda.broken_captures
    job.run([x], out=[y])
    with torch.on(stream), cuda.capturing(stream) as graph:
        job.run([x], out=[y])
    cuda.replay(graph)
    assert [one.kernel for one in graph.launches] == ["whole"]


def test_close_lets_go(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    job = layer({"layer.weight": W.copy(), "B": B.copy()})
    job.run([torch.zeros(3, 4)])
    place = cuda.launches[-1].values[2]
    job.close()
    gc.collect()
    assert place in cuda.freed and not cuda.freed_in_use
    job.run([torch.zeros(3, 4)])
    assert [one.kernel for one in cuda.launches] == ["lay", "whole"] * 2
    assert sys.modules["torch"] is torch


def test_what_is_laid_out_anew_leaves_the_gpu(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    """W is kept as it is laid out alone; a program that has to lay it out again puts it there."""
    job = layer(PARAMS)
    job.run([torch.zeros(3, 4)])
    lay, whole = cuda.launches
    w, laid, b = lay.values[0], lay.values[1], whole.values[2]
    gc.collect()
    assert w in cuda.freed and laid not in cuda.freed and b not in cuda.freed
    # Other data, and an output where W was: nothing is laid out, and nothing overlaps.
    job.run([torch.zeros(5, 4)])
    assert [one.kernel for one in cuda.launches] == ["lay", "whole", "whole"]
    every = job._every(0, [job._whole.views([torch.zeros(3, 4)], 0, 1, "inputs", None, True)[0]])
    assert every[1].pointer == w
    there = replace(every[1], shape=(3,))
    job._whole.check_apart(job._there(0, every), [there])
    assert not cuda.freed_in_use
    # A launch that is bound has all that there is.
    bound = job.launch([torch.zeros(3, 4)], [torch.zeros(3)])
    assert cuda.launches[-1].kernel == "lay"
    assert memory(cuda, cuda.launches[-1].values[0], 4).tolist() == W.tolist()
    bound.run()
    # What was laid out is gone with the plans that had it.
    job._plans.clear()
    for kept in job._repeated.values():
        kept.forget()
    del bound
    gc.collect()
    job.run([torch.zeros(7, 4)])
    assert [one.kernel for one in cuda.launches[-2:]] == ["lay", "whole"]
    assert not cuda.freed_in_use


def test_a_capture_that_needs_what_is_gone_says_so(
    layer: Any, cuda: FakeCuda, torch: FakeTorch
) -> None:
    job = layer(PARAMS)
    job.run([torch.zeros(3, 4)])
    job._plans.clear()
    for kept in job._repeated.values():
        kept.forget()
    gc.collect()
    stream = cuda.new_stream(7)
    with torch.on(stream), cuda.capturing(stream):
        with pytest.raises(PolycError, match="call it once before"):
            job.run([torch.zeros(3, 4)], out=[torch.zeros(3)])
        assert not cuda.broken_captures


def test_donated_tensors_are_let_go(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    # The memory stays the test's: what counts is who has the tensors.
    place, other = torch.zeros(4).pointer, torch.zeros(4).pointer
    w, b = Tensor(place, (4,)), Tensor(other, (4,))
    seen = weakref.ref(w), weakref.ref(b)
    job = layer(Params.of({"layer.weight": w, "B": b}).donate())
    del w, b
    job.run([torch.zeros(3, 4)])
    assert cuda.launches[0].values[0] == place
    gc.collect()
    # W is there as it is laid out alone, B is used where it lies.
    assert seen[0]() is None and seen[1]() is not None
    job.run([torch.zeros(5, 4)])
    assert [one.kernel for one in cuda.launches] == ["lay", "whole", "whole"]
    job.close()
    with pytest.raises(PolycError, match=r"parameter layer\.weight was donated, and let go once"):
        job.run([torch.zeros(3, 4)])


def test_two_entries_of_one_donated_tensor(layer: Any, cuda: FakeCuda, torch: FakeTorch) -> None:
    """A tied weight that is read as it is and in another order stays."""
    w = torch.zeros(4)
    seen = weakref.ref(w)
    job = layer(Params.of({"layer.weight": w, "B": w}).donate())
    del w
    for _ in range(2):
        job.run([torch.zeros(3, 4)])
    gc.collect()
    assert seen() is not None and cuda.launches[-1].values[2] == seen().pointer  # type: ignore[union-attr]
