"""A program's host side: binding, dispatch, checks.  The driver is a recording stand-in."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from weakref import WeakValueDictionary

import numpy as np
import pytest
from xdsl.context import Context

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import gpu_module_of
from polyc.runtime import arenas, driver, tensor_maps, tensors
from polyc.runtime.packed import Packing
from polyc.runtime.program import Program
from polyc.runtime.views import TensorView, row_major
from polyc.test.support.fake_cuda import FakeCuda
from polyc.tools.parsing import parse_text

MODULE = """
gpu.module @gemm arch "{arch}" symbols [M, K, N] assuming (M >= 2) {{
  gpu.kernel @fast(%a: !gpu.tensor_map<[128, 64], f16, swizzle 128> = tensor_map 0,
                   %c: !gpu.global<[M, N], f16> = tensor 2, %m: index = symbol M,
                   %k: index = symbol K) threads 384 shared_bytes 100000 {{
    gpu.return
  }}
  gpu.kernel @slow(%a: !gpu.global<[M, K], f16> = tensor 0,
                   %b: !gpu.global<[K, N], f16> = tensor 1,
                   %c: !gpu.global<[M, N], f16> = tensor 2, %n: index = symbol N)
                   threads 128 {{
    gpu.return
  }}
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[K, N], f16> {{align = 4 : i64}})
      -> (C: !gpu.global<[M, N], f16>) {{
    gpu.launch @fast when (K mod 8 == 0, K >= 1) align [16, 2, 2] grid [(M + 127) floordiv 128, N]
    gpu.launch @slow when ({slow}) align [2, 2, 2] grid [M * N]
  }}
}}
"""
SOURCE = """
extern "C" __global__ void fast() {}
extern "C" __global__ void slow() {}
"""


class FakeFunction:
    """Takes the place of a kernel: its launches are written to ``log``."""

    def __init__(self, name: str, log: list[Any]) -> None:
        self.name, self.log = name, log

    def bind(
        self,
        grid: Sequence[int],
        block: Sequence[int],
        shared: int,
        arguments: Sequence[Any],
        cluster: Sequence[int],
        overlapped: bool,
        cooperative: bool,
    ) -> FakeLaunch:
        name = f"{self.name} overlapped" if overlapped else self.name
        name += " cooperative" if cooperative else ""
        function = FakeFunction(name, self.log)
        return FakeLaunch(function, (tuple(grid), tuple(block), shared), list(arguments), cluster)

    def clusters_at_once(self, threads: int, shared: int, cluster: int) -> int:
        return 60 // cluster

    def blocks_at_once(self, threads: int, shared: int) -> int:
        return 1024 // threads


class FakeLaunch:
    def __init__(
        self,
        function: FakeFunction,
        config: tuple[Any, ...],
        arguments: list[Any],
        cluster: Sequence[int],
    ) -> None:
        self.function, self.config, self.arguments = function, config, arguments
        self.cluster = tuple(cluster)

    def run(self, stream: int = 0) -> None:
        values = [copy.copy(argument) for argument in self.arguments]
        self.function.log.append((self.function.name, *self.config, values, stream))


class FakeMap:
    """A tensor map that shows what it was made from; the address is the first entry."""

    def __init__(self, *args: Any) -> None:
        self.argument: list[Any] = list(args)

    def point_to(self, pointer: int) -> None:
        assert pointer, "the driver takes no map of nothing"
        self.argument[0] = pointer


class FakeBuffer:
    """Device memory that is host memory."""

    def __init__(self, size: int, index: int = 0) -> None:
        self.memory = np.zeros(max(size, 16) + 256, np.uint8)
        self.size = size
        start: int = self.memory.ctypes.data
        self.pointer = start + (-start) % 256 if size else 0

    def upload(self, address: int) -> None:
        self.source = address

    def download(self, address: int) -> None:
        import ctypes

        ctypes.memset(address, 1, self.size)


def device(arch: str) -> driver.Device:
    number = arch.removeprefix("sm_").removesuffix("a")
    capability = int(number[:-1]), int(number[-1])
    return driver.Device(0, "stand-in", capability, 132, 232448, 50 << 20, "13.0")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    found: list[Any] = []

    class FakeModule:
        def __init__(self, image: bytes, index: int = 0) -> None:
            self.image = image

        def function(self, name: str) -> FakeFunction:
            return FakeFunction(name, found)

    def clear(pointer: int, size: int, stream: int) -> None:
        found.append(("clear", pointer, size, stream))

    def current(index: int = 0) -> driver.Device:
        return device("sm_90a")

    def capture(stream: int) -> int:
        return 0

    def place_of(pointer: int) -> driver.PointerAttributes:
        return driver.PointerAttributes(0, False, False)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(driver, "Module", FakeModule)
    monkeypatch.setattr(driver, "Buffer", FakeBuffer)
    monkeypatch.setattr(tensor_maps, "tensor_map", FakeMap)
    monkeypatch.setattr(driver, "clear", clear)
    monkeypatch.setattr(arenas, "_shared", WeakValueDictionary[arenas.Key, arenas.Arena]())
    monkeypatch.setattr(driver, "current", nullcontext)
    monkeypatch.setattr(driver, "device", current)
    monkeypatch.setattr(driver, "place_of", place_of)
    monkeypatch.setattr(driver, "capture", capture)
    monkeypatch.setattr(driver, "stream_number", int)
    monkeypatch.setattr(driver, "wait", capture)
    monkeypatch.setattr(driver, "synchronize", lambda: None)
    return found


def of_text(ctx: Context, text: str, source: str) -> Program:
    return Program.of_module(gpu_module_of(parse_text(ctx, text, "m.mlir")), [source])


def program(ctx: Context, arch: str = "sm_90a", slow: str = "N >= 0") -> Program:
    text = MODULE.format(arch=arch, slow=slow)
    return of_text(ctx, text, SOURCE)


def halves(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float16)


def refused(call: Callable[[], object]) -> PolycError:
    with pytest.raises(PolycError) as caught:
        call()
    return caught.value


def test_a_kernel_that_the_compiler_did_not_speak_of_is_refused(ctx: Context) -> None:
    """Its registers and spills would be unknown, and its code in no image."""
    module = gpu_module_of(parse_text(ctx, MODULE.format(arch="sm_90a", slow="N >= 0"), "m.mlir"))
    alone = SOURCE.strip().splitlines()[0]
    error = refused(lambda: Program.of_module(module, [alone]))
    assert error.kind == "CompilerFailed"
    assert error.message == (
        "ptxas says nothing of slow, so that its registers and spills are not known; it speaks of "
        "fast"
    )


def test_the_first_launch_that_holds_runs(ctx: Context, log: list[Any]) -> None:
    """Sizes come from the shapes; arguments are bound as the kernel says."""
    (out,) = program(ctx).run([halves(300, 64), halves(64, 5)])
    ((name, grid, block, shared, arguments, stream),) = log
    assert (name, grid, block, shared, stream) == ("fast", (15,), (384,), 100000, 0)
    assert arguments[0][1:] == ["f16", (300, 64), (64, 1), (128, 64), 128, False]
    assert [a.value for a in arguments[2:]] == [300, 64]
    result: Any = out
    assert result.shape == (300, 5)
    assert (result.view(np.uint8) == 1).all()


@pytest.mark.parametrize("k", [0, 3, 12])
def test_the_next_launch_takes_what_the_first_does_not(
    ctx: Context, log: list[Any], k: int
) -> None:
    program(ctx).run([halves(3, k), halves(k, 5)])
    ((name, grid, block, shared, arguments, _),) = log
    assert (name, grid, block, shared) == ("slow", (15,), (128,), 0)
    assert arguments[-1].value == 5
    assert (arguments[0].value == 0) == (k == 0)


def test_an_empty_output_launches_nothing(ctx: Context, log: list[Any]) -> None:
    (out,) = program(ctx).run([halves(2, 64), halves(64, 0)])
    result: Any = out
    assert result.shape == (2, 0)
    assert not log


def test_a_variant_can_be_named_and_must_hold(ctx: Context, log: list[Any]) -> None:
    job = program(ctx)
    assert job.variants == ("fast", "slow")
    job.run([halves(2, 64), halves(64, 8)], variant="slow")
    assert log[0][0] == "slow"
    error = refused(lambda: job.run([halves(2, 7), halves(7, 8)], variant="fast"))
    assert error.kind == "NoVariant"
    assert error.notes == ("fast: K mod 8 == 0 does not hold",)
    error = refused(lambda: job.run([halves(2, 7), halves(7, 8)], variant="other"))
    assert "has no kernel 'other'; it has fast, slow" in error.message


def test_sizes_that_no_variant_takes(ctx: Context, log: list[Any]) -> None:
    error = refused(lambda: program(ctx, slow="N >= 9").run([halves(2, 7), halves(7, 8)]))
    assert error.kind == "NoVariant"
    assert "no kernel of gemm takes M = 2, K = 7, N = 8" in error.message
    assert error.notes[1] == "slow: N >= 9 does not hold"


def test_outputs_may_be_given(ctx: Context, log: list[Any]) -> None:
    out = halves(2, 8)
    assert program(ctx).run([halves(2, 64), halves(64, 8)], out=[out])[0] is out
    error = refused(lambda: program(ctx).run([halves(2, 64), halves(64, 8)], out=[halves(3, 8)]))
    assert error.kind == "ShapeMismatch"
    assert "dimension 0 of C is 3, the signature says M, which is 2" in error.message


def test_an_output_has_memory_of_its_own(ctx: Context, log: list[Any]) -> None:
    space = halves(64)
    a, b = space[:16].reshape(2, 8), halves(8, 8)
    for start, kind in ((8, "Overlap"), (15, "Overlap"), (16, "")):
        out = space[start : start + 16].reshape(2, 8)
        if kind:
            error = refused(lambda out=out: program(ctx).run([a, b], out=[out]))
            assert error.kind == kind
            assert "C and A share memory" in error.message
        else:
            program(ctx).run([a, b], out=[out])


def test_refusals(ctx: Context, log: list[Any]) -> None:
    job = program(ctx)
    cases: list[tuple[list[object], str, str]] = [
        ([halves(2, 8)], "BadArgument", "gemm takes 2 inputs (A, B), 1 are given"),
        ([halves(2, 8), halves(9, 8)], "ShapeMismatch", "dimension 0 of B is 9"),
        ([halves(1, 8), halves(8, 8)], "AssumptionBroken", "compiled assuming M >= 2, and M = 1"),
        ([np.zeros((2, 8)), halves(8, 8)], "TypeMismatch", "A holds float64"),
    ]
    for inputs, kind, sentence in cases:
        error = refused(lambda inputs=inputs: job.run(inputs))
        assert error.kind == kind
        assert sentence in error.message
    assert not log


@pytest.mark.parametrize(
    ("arch", "runs", "does_not"),
    [("sm_80", ["sm_80", "sm_86"], ["sm_75", "sm_90"]), ("sm_90a", ["sm_90"], ["sm_80", "sm_100"])],
)
def test_which_chip_runs_a_cubin(arch: str, runs: list[str], does_not: list[str]) -> None:
    assert all(device(chip).runs(arch) for chip in runs)
    assert not any(device(chip).runs(arch) for chip in does_not)


def test_a_later_chip_gets_the_source_compiled_for_itself(ctx: Context, log: list[Any]) -> None:
    """The sm_80 kernels run on sm_90; the sm_90a ones run nowhere else (S0.1)."""
    job = program(ctx, "sm_80")
    image = job._image(device("sm_90"), 0)  # pyright: ignore[reportPrivateUsage]
    assert image[:4] == b"\x7fELF"
    assert image != job.results[0].image
    # NVRTC knows no sm_30; PTX is for the driver to translate.
    unknown = job._image(device("sm_199"), 0)  # pyright: ignore[reportPrivateUsage]
    assert b".target sm_80" in unknown
    error = refused(
        lambda: program(ctx)._image(device("sm_100"), 0)  # pyright: ignore[reportPrivateUsage]
    )
    assert error.kind == "ArchMismatch"
    assert "compiled for sm_90a, and GPU 0 (stand-in) is sm_100" in error.message


def test_no_gpu_is_one_sentence(ctx: Context) -> None:
    if driver.available():
        pytest.skip("this machine has a GPU")
    error = refused(lambda: program(ctx).run([halves(2, 64), halves(64, 8)]))
    assert error.kind == "NoGPU"
    assert "there is no NVIDIA driver here" in error.message


def test_what_is_no_program(ctx: Context) -> None:
    error = refused(lambda: gpu_module_of(parse_text(ctx, "builtin.module {}", "m.mlir")))
    assert error.kind == "NothingToRun"
    assert "expected one gpu.module, and there is none" in error.message
    two = MODULE.format(arch="sm_80", slow="N >= 0")
    both = parse_text(ctx, two + two.replace("@gemm", "@other"), "m.mlir")
    assert "there is gemm, other" in refused(lambda: gpu_module_of(both)).message
    assert gpu_module_of(both, "other").sym_name.data == "other"


def test_a_tensor_map_that_the_hardware_refuses_names_the_rule() -> None:
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((8, "f16", (4, 8), (8, 1), (4, 8), 0), "0x8 is not a multiple of 16"),
        ((16, "f16", (0, 8), (8, 1), (4, 8), 0), "the shape [0, 8] has an empty axis"),
        ((16, "f16", (4, 7), (7, 1), (4, 8), 0), "the strides [7, 1] are not multiples of 16"),
        ((16, "f16", (4, 8), (8, 1), (512, 8), 0), "the box [512, 8] does not fit"),
        ((16, "f16", (4, 256), (256, 1), (4, 128), 128), "does not fit a swizzle of 128 bytes"),
    ]
    for arguments, sentence in cases:
        error = refused(lambda arguments=arguments: tensor_maps.tensor_map(*arguments))
        assert error.kind == "TensorMapFailed"
        assert sentence in error.message


def test_two_lines_are_asked_for_where_rows_are_whole_pairs(cuda: FakeCuda) -> None:
    memory = cuda.allocate(1 << 12)
    for onward, width, first in ((True, 128, 0), (False, 128, 0), (True, 72, 0), (True, 128, 16)):
        shape, strides = (4, width), (width, 1)
        tensor_maps.tensor_map(memory + first, "f16", shape, strides, (4, 64), 128, onward)
    assert cuda.promotions == [tensor_maps.LINES, *[tensor_maps.LINE] * 3]


# Sequences -------------------------------------------------------------------------------

SEQUENCE = """
gpu.module @two arch "sm_90a" symbols [M, N] {
  gpu.kernel @one(%X: !gpu.global<[M, N], f32> = tensor 0,
                  %W: !gpu.global<[M, N + 3], f32> = workspace "W",
                  %n: !gpu.global<[1], i32> = workspace "n") threads 128 {
    gpu.return
  }
  gpu.kernel @two(%w: !gpu.tensor_map<[4, 4], f32, swizzle 0> = tensor_map "W",
                  %Y: !gpu.global<[M], f32> = tensor 1, %M: index = symbol M)
                  threads 64 blocks_per_sm 2 cluster 2 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[M], f32>) {
    gpu.sequence @both when (N >= 1) align [4, 4] {
      gpu.workspace "W" : !gpu.global<[M, N + 3], f32>
      gpu.workspace "n" zeroed : !gpu.global<[1], i32>
      gpu.launch @one grid [N - 1]
      gpu.launch @two grid [1000 * M] persistent overlapped
    }
    gpu.launch @empty align [4, 4] grid [M]
  }
  gpu.kernel @empty() threads 32 {
    gpu.return
  }
}
"""
SEQUENCE_SOURCE = """
extern "C" __global__ void one() {}
extern "C" __global__ void two() {}
extern "C" __global__ void empty() {}
"""


def sequence(ctx: Context) -> Program:
    return of_text(ctx, SEQUENCE, SEQUENCE_SOURCE)


def test_a_sequence_runs_in_order_with_its_workspaces(ctx: Context, log: list[Any]) -> None:
    job = sequence(ctx)
    assert job.variants == ("both", "empty")
    assert job.chosen({"M": 1, "N": 1}) == "both" and job.chosen({"M": 1, "N": 0}) == "empty"
    job.run([np.zeros((5, 6), np.float32)])
    clear, one, two = log
    w, n = one[4][1].value, one[4][2].value
    assert w % 256 == 0 and n == w + 256
    assert clear == ("clear", n, 4, 0)
    assert (one[0], one[1], two[0]) == ("one", (5,), "two overlapped")
    # 132 multiprocessors, two blocks each, but only 30 clusters of two fit.
    assert two[1] == (60,)
    assert two[4][0] == [w, "f32", (5, 9), (9, 1), (4, 4), 0, False]


def test_zeroed_workspaces_are_cleared_at_once(ctx: Context, log: list[Any]) -> None:
    own = 'gpu.workspace "n" zeroed : !gpu.global<[1], i32>\n'
    more = own + '      gpu.workspace "m" zeroed : !gpu.global<[M, 20], i32>\n'
    between = more.replace('"m"', '"u"').replace(" zeroed : !gpu.global<[M", " : !gpu.global<[M")
    last = more.replace(own, between)
    for text in (more, last):
        log.clear()
        of_text(ctx, SEQUENCE.replace(own, text), SEQUENCE_SOURCE).run(
            [np.zeros((5, 6), np.float32)]
        )
        assert [entry[2] for entry in log if entry[0] == "clear"] == [256 + 5 * 20 * 4]


CHAIN = """
gpu.module @chain arch "sm_90a" symbols [N] {
  gpu.kernel @begin(%X: !gpu.global<[N], f32> = tensor 0,
                    %v: !gpu.global<[N], f32> = workspace "v0") threads 128 {
    gpu.return
  }
  gpu.kernel @link(%v: !gpu.global<[N], f32> = workspace "v0",
                   %w: !gpu.tensor_map<[4], f32, swizzle 0> = tensor_map "v1") threads 128 {
    gpu.return
  }
  gpu.kernel @end(%v: !gpu.global<[N], f32> = workspace "v3",
                  %k: !gpu.global<[N], f32> = workspace "keys",
                  %Y: !gpu.global<[N], f32> = tensor 1) threads 128 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>) -> (Y: !gpu.global<[N], f32>) {
    gpu.sequence @all align [4, 4] {
      gpu.workspace "keys" : !gpu.global<[N], f32>
      gpu.workspace "v0" : !gpu.global<[N], f32>
      gpu.workspace "v1" : !gpu.global<[N], f32>
      gpu.workspace "v2" : !gpu.global<[N], f32>
      gpu.workspace "v3" : !gpu.global<[N], f32>
      gpu.launch @begin grid [N] rebinds [workspace "v0" : workspace "keys"]
      gpu.launch @begin grid [N] overlapped
      gpu.launch @link grid [N] overlapped
      gpu.launch @link grid [N] overlapped rebinds [workspace "v0" : workspace "v1",
                                                    workspace "v1" : workspace "v2"]
      gpu.launch @link grid [N] overlapped rebinds [workspace "v0" : workspace "v2",
                                                    workspace "v1" : workspace "v3"]
      gpu.launch @end grid [N] overlapped
    }
  }
}
"""


def test_workspaces_that_are_over_share_their_memory(ctx: Context, log: list[Any]) -> None:
    """Of a chain two are there at a time, beside what its last launch reads of its first."""
    source = "".join(
        f'extern "C" __global__ void {name}() {{}}\n' for name in ("begin", "link", "end")
    )
    of_text(ctx, CHAIN, source).run([np.zeros(200, np.float32)])
    spaces = [entry[4] for entry in log]
    keys, first, last = (spaces[number][1].value for number in (0, 1, 5))
    second, third, fourth = (space[1][0] for space in spaces[2:5])
    assert [space[0].value for space in spaces[2:]] == [first, second, third, fourth]
    assert (third, fourth) == (first, second) and last == keys
    assert len({keys, first, second}) == 3
    assert max(keys, first, second) - min(keys, first, second) == 2 * 1024


def test_a_launch_without_blocks_is_left_out_of_a_sequence(ctx: Context, log: list[Any]) -> None:
    sequence(ctx).run([np.zeros((5, 1), np.float32)])
    assert [entry[0] for entry in log] == ["clear", "two overlapped"]


def test_workspaces_grow_with_what_runs_on_a_stream(ctx: Context, log: list[Any]) -> None:
    job = sequence(ctx)
    found: list[int] = []
    for m in (5, 50, 5, 50):
        log.clear()
        job.run([np.zeros((m, 6), np.float32)])
        found.append(log[1][4][1].value)
        assert log[2][4][0][0] == found[-1]
    assert found[1] == found[2] == found[3]
    held = job._arenas  # pyright: ignore[reportPrivateUsage]
    assert held.of(0, 0) is held.of(0, 0) is not held.of(0, 1)


WEIGHTS = """
gpu.module @weights arch "sm_90a" symbols [N] {
  gpu.kernel @turn(%F: !gpu.global<[N], f32> = tensor 1,
                   %v: !gpu.global<[N], f32> = workspace "v") threads 128 {
    gpu.return
  }
  gpu.kernel @copy(%X: !gpu.global<[N], f32> = tensor 0,
                   %w: !gpu.global<[N], f32> = workspace "w") threads 128 {
    gpu.return
  }
  gpu.kernel @multiply(%v: !gpu.global<[N], f32> = workspace "v",
                       %w: !gpu.tensor_map<[4], f32, swizzle 0> = tensor_map "w",
                       %Y: !gpu.global<[N], f32> = tensor 2) threads 64 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f32>, F: !gpu.global<[N], f32>)
      -> (Y: !gpu.global<[N], f32>) {
    gpu.sequence @three align [4, 4, 4] {
      gpu.workspace "v" : !gpu.global<[N], f32>
      gpu.workspace "w" : !gpu.global<[N], f32>
      gpu.launch @turn grid [N]
      gpu.launch @copy grid [N] overlapped
      gpu.launch @multiply grid [N] overlapped
    }
  }
}
"""
WEIGHTS_SOURCE = """
extern "C" __global__ void turn() {}
extern "C" __global__ void copy() {}
extern "C" __global__ void multiply() {}
"""


def test_what_is_made_of_constants_is_made_once(
    ctx: Context, log: list[Any], looks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound launch turns weights when it is bound, into memory of its own, and waits for that."""

    def wait(stream: int) -> None:
        log.append(("wait", stream))

    monkeypatch.setattr(driver, "synchronize", lambda: log.append(("synchronize",)))
    monkeypatch.setattr(driver, "wait", wait)
    job = of_text(ctx, WEIGHTS, WEIGHTS_SOURCE)
    x, f, y = (FakeTensor((5,), "f32") for _ in range(3))
    bound = job.launch([x, f], [y], constants=["F"])
    assert [entry[0] for entry in log] == ["synchronize", "turn", "wait"]
    turned = log[1][4][1].value
    log.clear()
    for stream in (3, 4):
        bound.run(stream)
    # What was before the first launch is no launch of this program any more.
    assert [entry[0] for entry in log] == ["copy", "multiply overlapped"] * 2
    assert log[1][4][0].value == log[3][4][0].value == turned
    assert log[0][4][1].value not in (turned, log[2][4][1].value)
    assert log[1][4][1][0] == log[0][4][1].value
    log.clear()
    job.launch([x, f], [y], constants=["X", "F"]).run(3)
    names = ["synchronize", "turn", "copy overlapped", "wait", "multiply"]
    assert [entry[0] for entry in log] == names
    log.clear()
    job.launch([x, f], [y]).run(3)
    assert [entry[0] for entry in log] == ["turn", "copy overlapped", "multiply overlapped"]


def test_what_is_large_is_made_by_each_call(ctx: Context, log: list[Any], looks: list[str]) -> None:
    (variant,) = of_text(ctx, WEIGHTS, WEIGHTS_SOURCE)._variants  # pyright: ignore[reportPrivateUsage]
    once = variant._once  # pyright: ignore[reportPrivateUsage]
    assert once([1], ())[1] == {"v"}
    assert once([1], {"v"}) == ([], set()) and once([0, 1], {"v"})[1] == {"w"}


def test_constants_are_inputs(ctx: Context, log: list[Any], looks: list[str]) -> None:
    job = of_text(ctx, WEIGHTS, WEIGHTS_SOURCE)
    x, f, y = (FakeTensor((5,), "f32") for _ in range(3))
    with pytest.raises(PolycError, match="Y is no input; constants are of X, F") as caught:
        job.launch([x, f], [y], constants=["F", "Y"])
    assert caught.value.kind == "BadArgument"


# CTAs that wait for each other -----------------------------------------------------------

COOPERATIVE = """
gpu.module @wait arch "sm_90a" symbols [M, N] {
  gpu.kernel @grouped() threads 256 blocks_per_sm 8 {
    gpu.return
  }
  gpu.kernel @whole() threads 1024 blocks_per_sm 4 {
    gpu.return
  }
  gpu.kernel @alone() threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @grouped when (N >= 100) align [4, 4] grid [M, N] persistent cooperative [N]
    gpu.launch @whole when (N <= 99) align [4, 4] grid [N, M] cooperative
    gpu.launch @alone align [4, 4] grid [M]
  }
}
"""
COOPERATIVE_SOURCE = """
extern "C" __global__ void grouped() {}
extern "C" __global__ void whole() {}
extern "C" __global__ void alone() {}
"""


@pytest.mark.parametrize(
    ("m", "n", "launched"),
    [
        # 132 multiprocessors with 4 of these CTAs each are 528 CTAs: 5 groups of 100.
        (50, 100, ("grouped cooperative", (500,))),
        (2, 100, ("grouped cooperative", (200,))),
        (1, 528, ("grouped cooperative", (528,))),
        (1, 529, ("alone", (1,))),
        (4, 33, ("whole cooperative", (132,))),
        (19, 7, ("alone", (19,))),
    ],
)
def test_a_cooperative_grid_fits_on_the_chip(
    ctx: Context, log: list[Any], m: int, n: int, launched: tuple[str, tuple[int]]
) -> None:
    job = Program.of_module(
        gpu_module_of(parse_text(ctx, COOPERATIVE, "c.mlir")), [COOPERATIVE_SOURCE]
    )
    job.run([np.zeros((m, n), np.float32)])
    assert [entry[:2] for entry in log] == [launched]


def test_a_cooperative_grid_that_does_not_fit_says_so(ctx: Context, log: list[Any]) -> None:
    job = Program.of_module(
        gpu_module_of(parse_text(ctx, COOPERATIVE, "c.mlir")), [COOPERATIVE_SOURCE]
    )
    error = refused(lambda: job.run([np.zeros((19, 7), np.float32)], variant="whole"))
    assert error.kind == "NoVariant"
    assert error.notes == (
        "whole: 133 CTAs of @whole wait for each other, and the chip runs 132 at once",
    )


# Calls again -----------------------------------------------------------------------------


class FakeTensor:
    """A PyTorch tensor on a GPU, as far as polyc looks at it."""

    def __init__(self, shape: Sequence[int], dtype: str = "f16", at: int = 0) -> None:
        self.shape = tuple(shape)
        self.dtype, self.device, self.requires_grad = dtype, "cuda:0", False
        self.is_cuda, self.negated = True, False
        self.strides: tuple[int, ...] | None = None
        self.memory = np.zeros(4 * int(np.prod(shape)) + 1024, np.uint8)
        start: int = self.memory.ctypes.data
        self.pointer = start + (-start) % 256 + at

    def data_ptr(self) -> int:
        return self.pointer

    def stride(self) -> tuple[int, ...]:
        return self.strides or row_major(self.shape)

    def is_contiguous(self) -> bool:
        return self.stride() == row_major(self.shape)

    def is_neg(self) -> bool:
        return self.negated

    def get_device(self) -> int:
        return 0


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """PyTorch with tensors of that kind; which of them were looked at closely."""
    seen: list[str] = []

    def empty(shape: Sequence[int], dtype: str, device: str) -> FakeTensor:
        return FakeTensor(shape, dtype)

    def strided(
        shape: Sequence[int], strides: Sequence[int], dtype: str, device: str
    ) -> FakeTensor:
        assert tuple(strides) == row_major(shape)
        return FakeTensor(shape, dtype)

    def view(tensor: Any, name: str, at: int | None, output: bool) -> TensorView:
        seen.append(name)
        if tensor.requires_grad:
            raise PolycError("BadArgument", f"{name} asks for a gradient")
        if tensor.negated:
            raise PolycError("BadArgument", f"{name} is negated")
        given = tensor.pointer, tensor.shape, tensor.stride(), tensor.dtype
        return TensorView(*given, 0, tensor, stream=7)

    def stream(index: int) -> int:
        return 7

    torch = SimpleNamespace(
        Tensor=FakeTensor,
        float16="f16",
        bfloat16="bf16",
        float32="f32",
        empty=empty,
        empty_strided=strided,
        _C=SimpleNamespace(_cuda_getCurrentRawStream=stream),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(tensors, "view", view)
    # The launches of these tests are none that could be packed.
    monkeypatch.setattr(Packing, "of", Mock(return_value=None))
    return seen


def test_a_call_of_a_known_kind_looks_at_addresses_alone(
    ctx: Context, log: list[Any], looks: list[str]
) -> None:
    job = program(ctx)
    kept = [FakeTensor((300, 64)), FakeTensor((64, 8))]
    kept += job.run(kept)
    assert looks == ["A", "B", "C"]
    looks.clear()
    a, b = FakeTensor((300, 64)), FakeTensor((64, 8))
    (out,) = job.run([a, b])
    assert not looks
    result: Any = out
    first, again = log
    assert again[:4] == first[:4] and again[5] == 7
    # The map of A and the address of C have moved.
    assert again[4][0] == [a.pointer, "f16", (300, 64), (64, 1), (128, 64), 128, False]
    assert again[4][1].value == result.pointer != first[4][1].value
    given = FakeTensor((300, 8))
    for _ in range(2):
        assert job.run([a, b], out=[given]) == [given]
    assert looks == ["A", "B", "C"] and log[-1][4][1].value == given.pointer


@pytest.mark.parametrize(
    ("attribute", "value", "kind", "sentence"),
    [
        ("requires_grad", True, "BadArgument", "A asks for a gradient"),
        ("negated", True, "BadArgument", "A is negated"),
        ("dtype", "f32", "TypeMismatch", "A holds f32"),
        ("strides", (1, 300), "NotContiguous", "A of shape"),
        ("shape", (300, 63), "ShapeMismatch", "dimension 0 of B"),
    ],
)
def test_what_differs_is_checked_again(
    ctx: Context,
    log: list[Any],
    looks: list[str],
    attribute: str,
    value: object,
    kind: str,
    sentence: str,
) -> None:
    job = program(ctx)
    a, b = FakeTensor((300, 64)), FakeTensor((64, 8))
    job.run([a, b])
    setattr(a, attribute, value)
    error = refused(lambda: job.run([a, b]))
    assert error.kind == kind and sentence in error.message


def test_a_tensor_without_memory_is_refused_by_the_checks(
    ctx: Context, log: list[Any], looks: list[str]
) -> None:
    """PyTorch says so of a sparse one when it is asked for its address."""

    def nothing() -> int:
        raise RuntimeError("no storage")

    job = program(ctx)
    a, b = FakeTensor((300, 64)), FakeTensor((64, 8))
    job.run([a, b])
    a.data_ptr, a.requires_grad = nothing, True
    assert refused(lambda: job.run([a, b])).message == "A asks for a gradient"


def test_another_alignment_takes_another_variant(
    ctx: Context, log: list[Any], looks: list[str]
) -> None:
    job = program(ctx)
    b = FakeTensor((64, 8))
    for at in (0, 2, 0, 2):
        job.run([FakeTensor((300, 64), at=at), b])
    assert [entry[0] for entry in log] == ["fast", "slow", "fast", "slow"]
    assert len(looks) == 6


def test_outputs_that_overlap_are_found_in_every_call(
    ctx: Context, log: list[Any], looks: list[str]
) -> None:
    job = program(ctx)
    a, b, out = FakeTensor((300, 64)), FakeTensor((64, 8)), FakeTensor((300, 8))
    job.run([a, b], out=[out])
    out.pointer = a.pointer + 256
    error = refused(lambda: job.run([a, b], out=[out]))
    assert error.kind == "Overlap"


def test_arguments_are_not_mixed_up(ctx: Context, log: list[Any], looks: list[str]) -> None:
    """What a call was given as inputs and as outputs is part of its kind."""
    job = program(ctx)
    a, b, out = FakeTensor((8, 8)), FakeTensor((8, 8)), FakeTensor((8, 8))
    job.run([a, b], out=[out])
    error = refused(lambda: job.run([a], out=[b, out]))
    assert "gemm takes 2 inputs (A, B), 1 are given" in error.message
    assert job.run([a, b], variant="slow", out=[out]) and log[-1][0] == "slow"


def test_an_empty_call_again_launches_nothing(
    ctx: Context, log: list[Any], looks: list[str]
) -> None:
    job = program(ctx)
    for _ in range(2):
        (out,) = job.run([FakeTensor((2, 64)), FakeTensor((64, 0))])
        result: Any = out
        assert result.shape == (2, 0)
    assert not log and len(looks) == 3


def test_a_bound_variant_has_workspaces_of_its_own(
    ctx: Context, log: list[Any], looks: list[str]
) -> None:
    job = sequence(ctx)
    x, y = FakeTensor((5, 6), "f32"), FakeTensor((5,), "f32")
    first, second = job.launch([x], [y]), job.launch([x], [y])
    assert first.name == "both"
    first.run(3)
    second.run(3)
    assert [entry[0] for entry in log] == ["clear", "one", "two overlapped"] * 2
    assert log[1][4][1].value != log[4][4][1].value
    assert {entry[-1] for entry in log} == {3}
    assert job.launch([x], [y], variant="empty").run(0) is None
