"""Simulated kernels compute what the reference does, and the machine's parts what PTX says."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.gpu import SCHEDULES, arithmetic, fragments, simulate
from polyc.playback.gpu.counters import sectors, wavefronts
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.gpu.storage import GlobalTensor, TensorMap, swizzled
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.test.support.root import ROOT
from polyc.tools import polyc
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

Array = NDArray[Any]
EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"
BF16 = ROOT / "examples" / "gemm_bias_relu_bf16.mlir"


@cache
def lowered(arch: str, path: Path = EXAMPLE) -> ModuleOp:
    return Compilation.of_file(path, arch).run().module


@cache
def expected(sizes: tuple[int, int, int], path: Path = EXAMPLE) -> Expected:
    source = Compilation.of_file(path, "sm_80").module
    return Expected.of(next(graphs(source)), dict(zip("MNK", sizes, strict=True)), 3)


# Kernels -------------------------------------------------------------------------------

KERNELS = [
    ("sm_80", "cp_async16", (72, 136, 200)),
    ("sm_80", "cp_async4", (72, 134, 102)),
    ("sm_80", "scalar", (70, 133, 69)),
    ("sm_90a", "tma_small", (72, 264, 328)),
    ("sm_90a", "tma", (72, 264, 328)),
    ("sm_90a", "cp_async", (72, 134, 102)),
    ("sm_90a", "scalar", (70, 133, 69)),
]


@pytest.mark.parametrize(("arch", "loader", "sizes"), KERNELS)
@pytest.mark.parametrize(
    ("schedule", "completion"), [("round-robin", "late"), ("random", "random")]
)
def test_every_kernel_path_agrees_with_the_reference(
    arch: str, loader: str, sizes: tuple[int, int, int], schedule: str, completion: str
) -> None:
    wanted = expected(sizes)
    result = simulate(
        lowered(arch),
        wanted.inputs,
        wanted.symbols,
        schedule=schedule,
        completion=completion,
        seed=11,
        variant=f"gemm_bias_relu_{loader}",
    )
    result.check()
    wanted.compare(f"the simulated {loader}", result.outputs)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (8, 8, 8), (3, 264, 16), (136, 8, 0)])
def test_degenerate_sizes(arch: str, sizes: tuple[int, int, int]) -> None:
    wanted = expected(sizes)
    result = simulate(lowered(arch), wanted.inputs, wanted.symbols)
    result.check()
    wanted.compare("the simulated kernel", result.outputs)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_bf16(arch: str) -> None:
    wanted = expected((40, 72, 88), BF16)
    result = simulate(lowered(arch, BF16), wanted.inputs, wanted.symbols)
    result.check()
    wanted.compare("the simulated kernel", result.outputs)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule(schedule: str) -> None:
    wanted = expected((72, 264, 328))
    for completion in ("late", "early", "random"):
        result = simulate(
            lowered("sm_90a"),
            wanted.inputs,
            wanted.symbols,
            schedule=schedule,
            completion=completion,
            seed=5,
        )
        result.check()
        wanted.compare(f"{schedule}, {completion}", result.outputs)


def test_infinities_and_nan_stay_in_their_row_and_column() -> None:
    wanted = expected((72, 264, 328))
    a, b, bias = (np.array(x) for x in wanted.inputs)
    a[5, 0], b[7, 9] = np.nan, np.inf
    (c,) = simulate(lowered("sm_90a"), [a, b, bias], wanted.symbols).outputs
    bad = ~np.isfinite(c.astype(np.float32))
    assert bad[5].all()
    assert not bad[np.arange(72) != 5][:, np.arange(264) != 9].any()


def test_an_empty_output_needs_no_kernel() -> None:
    wanted = expected((0, 8, 8))
    result = simulate(lowered("sm_80"), wanted.inputs, wanted.symbols)
    assert (result.variant, result.grid, result.outputs[0].shape) == (None, 0, (0, 8))


def test_the_dispatch_is_the_runtimes() -> None:
    """A base address that is less aligned takes the kernel that accepts it."""
    wanted = expected((40, 72, 88))
    for alignment, loader in ((256, "cp_async16"), (4, "cp_async4"), (2, "scalar")):
        result = simulate(lowered("sm_80"), wanted.inputs, wanted.symbols, alignment=alignment)
        assert result.variant == f"gemm_bias_relu_{loader}"
        result.check()
        wanted.compare(loader, result.outputs)


def test_refusals() -> None:
    wanted = expected((40, 72, 88))
    module, inputs, symbols = lowered("sm_90a"), wanted.inputs, wanted.symbols

    def refused(**options: Any) -> PolycError:
        given_: dict[str, Any] = {"gpu_module": module, "inputs": inputs, "symbols": symbols}
        with pytest.raises(PolycError) as caught:
            simulate(**(given_ | options))
        return caught.value

    assert refused(schedule="fifo").kind == "Usage"
    assert refused(completion="never").kind == "Usage"
    assert refused(variant="no_such_kernel").kind == "BadArgument"
    assert refused(inputs=inputs[:2]).kind == "BadArgument"
    assert "[40, 88]" in refused(inputs=[inputs[1], *inputs[1:]]).message
    unfit = dict(symbols) | {"K": 87}
    a, b, bias = inputs
    error = refused(symbols=unfit, inputs=[a[:, :87], b[:87], bias], variant="gemm_bias_relu_tma")
    assert error.kind == "NoVariant" and "K mod 8 == 0" in error.notes[0]
    source = Compilation.of_file(EXAMPLE, "sm_80").module
    assert refused(gpu_module=source).kind == "NothingToRun"


def test_an_op_above_the_hardware_level_is_refused() -> None:
    text = """
    gpu.module @m arch "sm_80" symbols [N] {
      gpu.kernel @k(%Y: !gpu.global<[N], f32> = tensor 0) threads 32 {
        %tile = gpu.shared_tile : !gpu.shared<[8, 8], f32>
        gpu.return
      }
      gpu.dispatch () -> (Y: !gpu.global<[N], f32>) {
        gpu.launch @k align [4] grid [1]
      }
    }"""
    module = parse_text(make_context(), text, "m.mlir")
    with pytest.raises(PolycError, match="gpu-plan-shared-memory"):
        simulate(module, [], {"N": 4})


# Mutants -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "loader", "shapes", "every"),
    [
        ("sm_90a", "tma", [(24, 520, 584), (24, 40, 40)], 26),
        ("sm_80", "cp_async16", [(24, 72, 232), (24, 72, 40)], 18),
    ],
)
def test_a_sample_of_mutants_is_caught(
    arch: str, loader: str, shapes: list[tuple[int, int, int]], every: int
) -> None:
    """The whole set is ``bench/mutation_rate.py``."""
    module = gpu_module_of(lowered(arch))
    name = f"gemm_bias_relu_{loader}"
    rows = [expected(s) for s in shapes]
    cases = [Case.of(module, name, e.symbols, e.inputs, e.outputs) for e in rows]
    mine = [m for m in mutants(module) if m.kernel == name][::every]
    verdicts = [judge(m, cases) for m in mine]
    assert [str(v.mutant) for v in verdicts if v.outcome == "survived"] == []
    assert sum(v.outcome == "caught" for v in verdicts) > len(verdicts) // 2


def test_a_mutant_that_changes_nothing_is_shown_to_be_harmless() -> None:
    """The leading offset of a swizzled operand that is contiguous along k is not used."""
    module = gpu_module_of(lowered("sm_90a"))
    wanted = expected((72, 264, 328))
    name = "gemm_bias_relu_tma"
    case = Case.of(module, name, wanted.symbols, wanted.inputs, wanted.outputs)
    leading = next(
        m
        for m in mutants(module)
        if m.kernel == name and m.op == "gpu.wgmma_descriptor" and m.change.startswith("leading 16")
    )
    assert judge(leading, [case]).outcome == "harmless"


# Layouts, against the formulas of the PTX ISA written out index by index ------------------


def test_mma_fragments() -> None:
    random = np.random.default_rng(0)
    a = random.standard_normal((16, 16)).astype(np.float16)
    b = random.standard_normal((16, 8)).astype(np.float16)
    a_registers = np.zeros((4, 32, 2), np.float16)
    b_registers = np.zeros((2, 32, 2), np.float16)
    for lane in range(32):
        group, inside = divmod(lane, 4)
        for i in range(8):
            row = group + (8 if i % 4 >= 2 else 0)
            column = inside * 2 + (i & 1) + (8 if i >= 4 else 0)
            a_registers[i // 2, lane, i % 2] = a[row, column]
        for i in range(4):
            row = inside * 2 + (i & 1) + (8 if i >= 2 else 0)
            b_registers[i // 2, lane, i % 2] = b[row, group]
    half = np.dtype(np.float16)
    np.testing.assert_array_equal(fragments.mma_a(a_registers.view(np.int32)[..., 0], half), a)
    np.testing.assert_array_equal(fragments.mma_b(b_registers.view(np.int32)[..., 0], half), b)
    start = random.standard_normal((4, 32)).astype(np.float32)
    product = random.standard_normal((16, 8)).astype(np.float32)
    total = fragments.mma_accumulate(start, product)
    for lane in range(32):
        group, inside = divmod(lane, 4)
        for i in range(4):
            row, column = group + (8 if i >= 2 else 0), inside * 2 + (i & 1)
            assert total[i, lane] == start[i, lane] + product[row, column]


@pytest.mark.parametrize("transpose", [False, True])
def test_ldmatrix_fragments(transpose: bool) -> None:
    blocks = np.arange(256, dtype=np.uint16).reshape(4, 8, 8)
    rows = blocks.reshape(32, 8).view(np.uint8)
    registers = fragments.ldmatrix_fragments(rows, transpose)
    for block in range(4):
        for lane in range(32):
            r, c = lane // 4, 2 * (lane % 4)
            pair = [
                blocks[block, c + e, r] if transpose else blocks[block, r, c + e] for e in (0, 1)
            ]
            assert registers[block, lane] == int(pair[0]) | int(pair[1]) << 16


@pytest.mark.parametrize("n", [8, 64, 256])
def test_wgmma_accumulator(n: int) -> None:
    tile = np.arange(64 * n, dtype=np.float32).reshape(64, n)
    parts = fragments.accumulator_layout(tile)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i in range(n // 2):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
            assert parts[warp, i, lane] == tile[row, column]


@given(
    st.integers(0, (1 << 18) - 1).map(lambda x: x & ~15),
    st.integers(0, (1 << 14) - 1),
    st.integers(0, (1 << 14) - 1),
    st.sampled_from([0, 32, 64, 128]),
)
def test_descriptors_round_trip(start: int, leading: int, stride: int, span: int) -> None:
    bits = fragments.encode_descriptor(start, 16 * leading, 16 * stride, span)
    assert 0 <= bits < 1 << 64
    found = fragments.decode_descriptor(bits)
    assert (found.start, found.leading, found.stride) == (start, 16 * leading, 16 * stride)
    assert (found.span, found.base_offset) == (span, 0)


@pytest.mark.parametrize("span", [32, 64, 128])
@pytest.mark.parametrize("major", [False, True])
def test_an_operand_is_read_where_tma_puts_it(span: int, major: bool) -> None:
    """A tile written by a TMA box with a swizzle comes back through a descriptor with it."""
    columns = span // 2
    rows = 16 if major else 64
    tile = np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float16)
    tensor = GlobalTensor("t", tile, 0, "input")
    data, _, _ = TensorMap(tensor, (rows, columns), span).box_at([0, 0])
    shared = np.zeros(rows * span, np.uint8).reshape(-1, 16)
    shared[swizzled(1024 + 16 * np.arange(len(shared)), span) - 1024 >> 4] = data.reshape(-1, 16)
    steps = [0] if major else range(columns // 16)
    for step in steps:
        size = columns if major else 64
        bits = fragments.encode_descriptor(1024 + 32 * step, 16, 8 * span, span)
        descriptor = fragments.decode_descriptor(bits)
        assert fragments.descriptor_fault(descriptor) is None
        places = fragments.operand_addresses(descriptor, size, major) - 1024
        found = fragments.operand(shared[places >> 4], size, major, np.dtype(np.float16))
        wanted = tile.T if major else tile[:, 16 * step : 16 * step + 16]
        np.testing.assert_array_equal(found, wanted.astype(np.float32))


def test_a_descriptor_inside_a_swizzle_pattern_is_a_fault() -> None:
    for start, span, wrong in ((1024, 128, False), (1056, 128, False), (1152, 128, True)):
        bits = fragments.encode_descriptor(start, 16, 1024, span)
        fault = fragments.descriptor_fault(fragments.decode_descriptor(bits))
        assert (fault is not None) == wrong


@given(
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(-6, 12), st.integers(-6, 12)),
)
def test_boxes_are_zero_outside_the_tensor(
    shape: tuple[int, int], box: tuple[int, int], start: tuple[int, int]
) -> None:
    tensor = np.arange(1, shape[0] * shape[1] + 1, dtype=np.float32).reshape(shape)
    data, elements, _ = TensorMap(GlobalTensor("t", tensor, 0, "input"), box, 0).box_at(start)
    wanted = np.zeros(box, np.float32)
    for i in range(box[0]):
        for j in range(box[1]):
            r, c = start[0] + i, start[1] + j
            if 0 <= r < shape[0] and 0 <= c < shape[1]:
                wanted[i, j] = tensor[r, c]
    np.testing.assert_array_equal(data.view(np.float32).reshape(box), wanted)
    assert elements.size == np.count_nonzero(wanted)


# Counting ------------------------------------------------------------------------------


@given(
    st.sampled_from([2, 4, 8, 16]),
    st.lists(st.integers(0, 255), min_size=32, max_size=32),
    st.lists(st.booleans(), min_size=32, max_size=32).filter(any),
)
def test_wavefronts_are_the_fullest_bank(width: int, places: list[int], active: list[bool]) -> None:
    lanes = np.nonzero(np.array(active))[0]
    addresses = np.array(places)[lanes] * width
    together = 32 if width <= 4 else 128 // width
    total = 0
    for first in range(0, 32, together):
        banks: dict[int, set[int]] = {}
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            if first <= lane < first + together:
                for word in range(address // 4, (address + width - 1) // 4 + 1):
                    banks.setdefault(word % 32, set()).add(word)
        total += max((len(words) for words in banks.values()), default=0)
    assert wavefronts(addresses, width, lanes) == total


def test_sectors() -> None:
    assert sectors(np.arange(32) * 4) == 4
    assert sectors(np.arange(32) * 32) == 32
    assert sectors(np.zeros(32, np.int64)) == 1


# Arithmetic ----------------------------------------------------------------------------

BINARY: list[type[Operation]] = [
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.MinSIOp,
    arith.MaxSIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
]
WORD = np.dtype(np.int32)


@settings(max_examples=60)
@given(st.sampled_from(BINARY), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_numbers_and_lanes_compute_alike(kind: type[Operation], a: int, b: int) -> None:
    function = arithmetic.integer(kind, WORD)
    assert function is not None
    lanes = function(np.full(32, a, np.int32), np.full(32, b, np.int32))
    assert lanes.dtype == WORD
    assert set(lanes.tolist()) == {function(a, b)}


@settings(max_examples=60)
@given(
    st.sampled_from(arithmetic.DIVISIONS),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1).filter(lambda b: b not in (0, -1)),
)
def test_divisions(kind: type[Operation], a: int, b: int) -> None:
    divide = arithmetic.division(kind, WORD)
    x, y = (a % 2**32, b % 2**32) if kind in (arith.DivUIOp, arith.RemUIOp) else (a, b)
    towards_zero = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    results: dict[type[Operation], int] = {
        arith.DivUIOp: x // y,
        arith.RemUIOp: x % y,
        arith.DivSIOp: towards_zero,
        arith.RemSIOp: x - towards_zero * y,
        arith.FloorDivSIOp: x // y,
        arith.CeilDivSIOp: -(-x // y),
    }
    wanted = (results[kind] + 2**31) % 2**32 - 2**31
    lanes, zero = divide(np.full(32, a, np.int32), np.full(32, b, np.int32))
    assert not np.any(zero)
    assert set(lanes.tolist()) == {wanted}
    number, zero = divide(a, b)
    assert not zero and (number + 2**31) % 2**32 - 2**31 == wanted


def test_division_by_zero_is_told() -> None:
    divide = arithmetic.division(arith.DivUIOp, WORD)
    assert divide(3, 0) == (-1, True)
    lanes, zero = divide(np.arange(32, dtype=np.int32), np.arange(32, dtype=np.int32))
    assert zero.tolist() == [True] + [False] * 31
    assert lanes[1:].tolist() == [1] * 31


@given(
    st.lists(st.booleans(), min_size=32, max_size=32),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_split_masks(outer: list[bool], inner: list[bool]) -> None:
    m, c = np.array(outer), np.array(inner)
    mask = None if m.all() else m
    if not m.any():
        return
    yes, no = arithmetic.split(mask, c)
    for found, wanted in ((yes, m & c), (no, m & ~c)):
        if found is False:
            assert not wanted.any()
        elif found is None:
            assert wanted.all()
        else:
            assert wanted.any() and not found.all()
            np.testing.assert_array_equal(found, wanted)


# The command ---------------------------------------------------------------------------


def command(*arguments: str) -> int:
    return polyc.main(["simulate", *arguments])


SIZES = ("--set", "M=40", "--set", "N=72", "--set", "K=88")


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, timeline, layouts = tmp_path / "r.json", tmp_path / "t.svg", tmp_path / "layouts"
    options = ["--json", str(report), "--timeline", str(timeline), "--layouts", str(layouts)]
    random = ["--schedule", "random", "--seed", "7", "--check"]
    assert command(str(EXAMPLE), "--arch", "sm_90a", *SIZES, *random, *options) == 0
    out = capsys.readouterr().out
    assert "kernel gemm_bias_relu_tma_small, 1 CTA" in out
    assert "agrees with the FP32 reference" in out
    data = json.loads(report.read_text())
    assert data["findings"] == [] and data["counters"]["tma_loads"] == 2 * 3
    assert "TMA" in timeline.read_text()
    assert sorted(p.name for p in layouts.iterdir()) == [
        "A_tile.svg",
        "B_tile.svg",
        "out_tile.svg",
    ]


def test_the_command_on_hardware_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = ROOT / "test" / "simulator" / "transpose.mlir"
    assert command(str(source), "--set", "M=50", "--set", "N=70") == 0
    broken = tmp_path / "broken.mlir"
    broken.write_text(source.read_text().replace("    gpu.barrier\n", ""))
    capsys.readouterr()
    assert command(str(broken), "--set", "M=50", "--set", "N=70", "--diagnostics", "json") == 1
    error = json.loads(capsys.readouterr().err)
    assert (error["kind"], error["file"], error["line"]) == ("DataRace", str(broken), 39)


def test_the_command_on_tile_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Text at tile level is lowered first."""
    job = Compilation.of_file(EXAMPLE, "sm_80")
    job.run("plan")
    from polyc.lowering.region_to_gpu import RegionToGpu

    RegionToGpu().apply(job.ctx, job.module)
    file = tmp_path / "tile.mlir"
    file.write_text(str(job.module))
    assert command(str(file), *SIZES) == 0
    assert "lower from tile level" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ([str(EXAMPLE), *SIZES], "Usage"),
        ([str(EXAMPLE), "--arch", "sm_90a", "--set", "M=1"], "MissingSize"),
        ([str(EXAMPLE), "--arch", "sm_80", *SIZES, "--schedule", "fifo"], "Usage"),
        ([str(EXAMPLE), "--arch", "sm_80", *SIZES, "--seed", "-1"], "Usage"),
        ([str(ROOT / "test/simulator/transpose.mlir"), "--set", "M=1"], "MissingSize"),
    ],
)
def test_the_command_refuses(
    arguments: list[str], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*arguments) == 1
    assert f"error[{kind}]" in capsys.readouterr().err
