"""Every kind of finding, each from a right kernel with one thing wrong in its text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.gpu import Finding, SimulationResult, simulate
from polyc.playback.gpu.findings import KINDS
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = NDArray[Any]
FOLDER = ROOT / "test" / "simulator"

SIZES: dict[str, dict[str, int]] = {
    "pipelined_copy": {"N": 1700},
    "block_reduction": {"M": 2, "N": 300},
    "row_votes": {"M": 9, "N": 300},
    "transpose": {"M": 50, "N": 70},
    "tma_copy": {"M": 61, "N": 72},
    "wgmma_tile": {"M": 128},
}


def inputs_of(name: str) -> list[Array]:
    random = np.random.default_rng(0)
    sizes = SIZES[name]
    match name:
        case "pipelined_copy":
            return [random.standard_normal(sizes["N"]).astype(np.float32)]
        case "wgmma_tile":
            shapes = [(sizes["M"], 16), (8, 16)]
            return [random.standard_normal(s).astype(np.float16) for s in shapes]
        case "row_votes":
            return [random.uniform(-1, 1, (sizes["M"], sizes["N"])).astype(np.float32)]
        case _:
            dtype = np.float16 if name == "tma_copy" else np.float32
            return [random.standard_normal((sizes["M"], sizes["N"])).astype(dtype)]


def expected_of(name: str, inputs: list[Array]) -> Array:
    x = inputs[0].astype(np.float32)
    match name:
        case "block_reduction":
            return x.sum(axis=1)
        case "row_votes":
            above: Array = np.pad(x > 0.99, ((0, 0), (0, -x.shape[1] % 128)))
            halves = np.asarray(above.reshape(x.shape[0], -1, 2, 64).any(axis=(1, 3)))
            whole = np.asarray(halves.any(axis=1, keepdims=True))
            return np.concatenate([halves, whole], axis=1).astype(np.float32)
        case "transpose":
            return x.T
        case "wgmma_tile":
            return x @ inputs[1].astype(np.float32).T
        case _:
            return x


def run(name: str, *edits: tuple[str, str], **options: Any) -> SimulationResult:
    """Simulate a kernel of ``test/simulator`` with pieces of its text exchanged."""
    text = (FOLDER / f"{name}.mlir").read_text()
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    module = parse_text(make_context(), text, f"{name}.mlir")
    return simulate(module, inputs_of(name), SIZES[name], **options)


def kinds(result: SimulationResult) -> list[str]:
    return [f.kind for f in result.findings]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    ("schedule", "completion"),
    [
        ("round-robin", "late"),
        ("random", "random"),
        ("producer-first", "early"),
        ("consumer-first", "late"),
        ("one-warp-ahead", "random"),
    ],
)
def test_right_kernels_are_right(name: str, schedule: str, completion: str) -> None:
    result = run(name, schedule=schedule, completion=completion, seed=4)
    result.check()
    wanted = expected_of(name, inputs_of(name))
    np.testing.assert_allclose(result.outputs[0].astype(np.float32), wanted, atol=1e-4)


BARRIER = "    gpu.barrier\n"
WAIT_FULL = "        gpu.mbarrier_wait %full[%slot] parity %parity : !gpu.mbarrier<2>\n"
ARRIVE = "        gpu.mbarrier_arrive %empty[%slot] : !gpu.mbarrier<2>\n"
REGISTER_FENCE = "gpu.register_fence %acc : memref<4xf32, #gpu<space register>>\n"
ZERO_LOOP_END = f"    }} {{unroll}}\n    {REGISTER_FENCE}"
WAIT_AND_FENCE = f"    gpu.wgmma_wait 0\n    {REGISTER_FENCE}"
ONE_WARP = (
    "    %w_half = affine.apply affine_map<(d0) -> (d0 floordiv 32)> (%thread)\n"
    "    %w_warp = gpu.warp_uniform %w_half\n"
    "    %w_is = arith.cmpi eq, %w_warp, %one : index\n"
)

FAULTS: list[tuple[str, str, tuple[tuple[str, str], ...]]] = [
    ("DataRace", "transpose", ((BARRIER, ""),)),
    ("DataRace", "block_reduction", (("      gpu.barrier\n", ""),)),
    # Two lanes of one store, then two CTAs, write one element.
    ("DataRace", "transpose", (("%column_1 : index, index] if", "%zero : index, index] if"),)),
    ("DataRace", "block_reduction", (("%Y[%row : index]", "%Y[%zero : index]"),)),
    ("UnwaitedCopy", "pipelined_copy", (("      gpu.cp_async_wait 0\n", ""),)),
    (
        "UnwaitedCopy",
        "pipelined_copy",
        (("gpu.cp_async_wait 0\n      g", "gpu.cp_async_wait 1\n      g"),),
    ),
    ("UnwaitedCopy", "pipelined_copy", (("      gpu.barrier\n", ""),)),
    ("UnwaitedCopy", "tma_copy", ((WAIT_FULL, ""),)),
    ("StageOverwritten", "pipelined_copy", (("      gpu.barrier\n", ""),)),
    ("StageOverwritten", "tma_copy", (("count 32", "count 31"),)),
    ("ProxyFence", "wgmma_tile", (("    gpu.fence_proxy_async\n", ""),)),
    ("AccumulatorRace", "wgmma_tile", (("    gpu.wgmma_wait 0\n", ""),)),
    ("AccumulatorRace", "wgmma_tile", (("gpu.wgmma_wait 0", "gpu.wgmma_wait 1"),)),
    ("WgmmaFence", "wgmma_tile", (("    gpu.wgmma_fence\n", ""),)),
    ("RegisterFence", "wgmma_tile", ((ZERO_LOOP_END, "    } {unroll}\n"),)),
    ("RegisterFence", "wgmma_tile", ((WAIT_AND_FENCE, "    gpu.wgmma_wait 0\n"),)),
    ("WgmmaGroup", "wgmma_tile", (("    gpu.wgmma_commit\n", ""),)),
    (
        "WgmmaGroup",
        "wgmma_tile",
        (
            (
                "    %a = gpu.wgmma_descriptor %a_base leading",
                ONE_WARP + "    %a_one = affine.apply affine_map<(d0) -> (d0 * 16)> (%w_warp)\n"
                "    %a_32 = arith.index_cast %a_one : index to i32\n"
                "    %a_other = arith.addi %a_base, %a_32 : i32\n"
                "    %a = gpu.wgmma_descriptor %a_other leading",
            ),
        ),
    ),
    ("MBarrierBytes", "tma_copy", (("bytes 1024", "bytes 1008"),)),
    ("MBarrierBytes", "tma_copy", (("bytes 1024", "bytes 2048"),)),
    ("MBarrierCount", "tma_copy", (("count 32", "count 33"),)),
    (
        "MBarrierCount",
        "tma_copy",
        (
            (
                "          gpu.mbarrier_wait %empty",
                "          gpu.mbarrier_arrive %full[%slot_1] : !gpu.mbarrier<2>\n"
                "          gpu.mbarrier_wait %empty",
            ),
        ),
    ),
    ("MBarrierInit", "tma_copy", (("      gpu.fence_mbarrier_init\n", ""),)),
    ("MBarrierInit", "tma_copy", (("    gpu.barrier\n", ""),)),
    ("MBarrierInit", "tma_copy", (("%full[%s] count 1", "%full[%zero] count 1"),)),
    ("MBarrierPhase", "tma_copy", (("count 32", "count 31"),)),
    ("MBarrierPhase", "tma_copy", (("(d0 floordiv 2) mod 2", "(d0 floordiv 2 + 1) mod 2"),)),
    ("MBarrierOverwritten", "tma_copy", (("gpu.mbarrier at 2048", "gpu.mbarrier at 1024"),)),
    (
        "BarrierDivergence",
        "transpose",
        (
            (
                BARRIER,
                "    %few = arith.cmpi slt, %x, %eight : index\n"
                "    scf.if %few {\n      gpu.barrier\n    }\n",
            ),
        ),
    ),
    (
        "BarrierMissing",
        "transpose",
        ((BARRIER, ONE_WARP + "    scf.if %w_is {\n      gpu.barrier\n    }\n"),),
    ),
    (
        "BarrierMismatch",
        "transpose",
        (
            (
                BARRIER,
                ONE_WARP
                + "    scf.if %w_is {\n      gpu.named_barrier 1 threads 64\n    } else {\n"
                "      gpu.named_barrier 1 threads 128\n    }\n",
            ),
        ),
    ),
    ("Deadlock", "tma_copy", ((ARRIVE, ""),)),
    ("Deadlock", "tma_copy", (("(d0 floordiv 2 + 1) mod 2", "(d0 floordiv 2) mod 2"),)),
    ("NotUniform", "tma_copy", (("gpu.warp_uniform %half", "gpu.warp_uniform %thread"),)),
    (
        "OutOfBounds",
        "transpose",
        (("%column : index, index] if %inside", "%column : index, index]"),),
    ),
    ("OutOfBounds", "transpose", (("shared_bytes 4224", "shared_bytes 4096"),)),
    (
        "OutOfBounds",
        "wgmma_tile",
        (("leading 128 stride 256 swizzle 0\n    %b", "leading 128 stride 512 swizzle 0\n    %b"),),
    ),
    ("OutOfBounds", "wgmma_tile", (("d0 * 2 + 1)> (%h)", "d0 * 2 + 2)> (%h)"),)),
    ("Misaligned", "tma_copy", (("(d0 * 128 + d1 * 16)", "(d0 * 128 + d1 * 16 + 4)"),)),
    (
        "Misaligned",
        "tma_copy",
        (
            ("gpu.shared_tile at 0", "gpu.shared_tile at 256"),
            ("shared_bytes 2080", "shared_bytes 4128"),
            ("at 2048", "at 4096"),
            ("at 2064", "at 4112"),
        ),
    ),
    (
        "Misaligned",
        "wgmma_tile",
        (("(d0 mod 4) * 2)> (%thread)", "(d0 mod 4) * 2 + 1)> (%thread)"),),
    ),
    (
        "DescriptorMisaligned",
        "wgmma_tile",
        (
            ("gpu.shared_tile at 2048", "gpu.shared_tile at 2056"),
            ("shared_bytes 2304", "shared_bytes 2320"),
        ),
    ),
    (
        "Uninitialised",
        "transpose",
        (("scf.for %i = %zero to %eight", "scf.for %i = %one to %eight"),),
    ),
    ("Uninitialised", "wgmma_tile", (("scf.for %i = %zero", "scf.for %i = %one"),)),
    ("Unwritten", "transpose", (("scf.for %j = %zero to %eight", "scf.for %j = %one to %eight"),)),
    (
        "Unfinished",
        "pipelined_copy",
        (
            ("      gpu.cp_async_wait 0\n", ""),
            ("    gpu.cp_async_wait 0\n    gpu.return", "    gpu.return"),
        ),
    ),
    ("Unfinished", "wgmma_tile", (("    gpu.wgmma_wait 0\n", ""),)),
    ("Registers", "transpose", ((BARRIER, '    gpu.set_max_registers "increase" 24\n' + BARRIER),)),
    (
        "DivisionByZero",
        "transpose",
        (("arith.divui %block, %columns", "arith.divui %block, %zero"),),
    ),
]


@pytest.mark.parametrize(("kind", "name", "edits"), FAULTS)
def test_each_fault_is_found(kind: str, name: str, edits: tuple[tuple[str, str], ...]) -> None:
    assert kind in kinds(run(name, *edits))
    # Elsewhere another fault of the same mistake may come first, and hide this one.
    for schedule in ("random", "one-warp-ahead"):
        assert kinds(run(name, *edits, schedule=schedule, completion="random", seed=1))


def test_every_kind_has_a_fault() -> None:
    """``PeerLifetime`` needs a cluster: ``test_cluster.py`` has its faults.

    What warps share and use in another order is in ``test_orders.py``, posts in ``test_grid.py``.
    """
    elsewhere = {"PeerLifetime", "BarrierPhase", "SignalCount", "PostedTwice"}
    assert {kind for kind, _, _ in FAULTS} | elsewhere == set(KINDS)


def found(result: SimulationResult, kind: str) -> Finding:
    return next(f for f in result.findings if f.kind == kind)


def test_a_race_names_both_ops_their_places_the_threads_and_the_address() -> None:
    finding = found(run("transpose", (BARRIER, "")), "DataRace")
    assert finding.op is not None and finding.other is not None
    assert (finding.op.name, finding.other.name) == ("gpu.load_shared", "gpu.store_shared")
    assert finding.threads == (4, 0)
    # Thread 4 is the first whose column another thread of its own warp has stored.
    assert (finding.space, finding.address) == ("shared", 1024 + 4 * 132)
    error = finding.error()
    assert str(error).startswith("transpose.mlir:39:7: error[DataRace]: thread 4 reads tile")
    assert any("transpose.mlir:27:7" in note for note in error.notes)
    assert finding.count > 1


def test_a_race_is_found_whatever_the_interleaving() -> None:
    """Both orders of the warps give a right result by luck in one of them, and a finding."""
    for seed in range(4):
        for schedule in ("random", "one-warp-ahead"):
            result = run(
                "block_reduction", ("      gpu.barrier\n", ""), schedule=schedule, seed=seed
            )
            assert "DataRace" in kinds(result)


def test_a_missing_wait_is_found_even_when_the_copy_came_in_time() -> None:
    edit = ("      gpu.cp_async_wait 0\n", "")
    result = run("pipelined_copy", edit, completion="early")
    np.testing.assert_array_equal(result.outputs[0], inputs_of("pipelined_copy")[0])
    assert "UnwaitedCopy" in kinds(result)
    late = run("pipelined_copy", edit, completion="late")
    assert not np.array_equal(late.outputs[0], inputs_of("pipelined_copy")[0])


def test_a_deadlock_says_who_waits_for_what() -> None:
    message = found(run("tma_copy", (ARRIVE, "")), "Deadlock").message
    assert "warp 0 waits at gpu.mbarrier_wait" in message
    assert "empty[0] is in phase 0, which needs 32 of 32 arrivals" in message
    assert "warp 1 waits at gpu.mbarrier_wait" in message


def test_a_fault_at_the_same_ops_is_one_finding() -> None:
    result = run("transpose", (BARRIER, ""))
    keys = [(f.kind, id(f.op), id(f.other)) for f in result.findings]
    assert len(keys) == len(set(keys))


def test_check_raises_the_first_and_notes_the_others() -> None:
    result = run("transpose", (BARRIER, ""))
    with pytest.raises(PolycError) as caught:
        result.check()
    assert caught.value.kind == result.findings[0].kind
    assert sum("error[" in note for note in caught.value.notes) == len(result.findings) - 1


def test_the_same_seed_replays_the_run() -> None:
    first, again, other = (
        run("tma_copy", schedule="random", completion="random", seed=s, timeline=True)
        for s in (7, 7, 8)
    )
    assert first.events == again.events
    assert first.events != other.events


def test_the_fingerprint_is_of_the_kernel_and_not_of_the_interleaving() -> None:
    def fingerprint(name: str, *edits: tuple[str, str], **options: Any) -> int | None:
        return run(name, *edits, fingerprint=True, **options).fingerprint

    for name in SIZES:
        right = fingerprint(name)
        for seed in range(3):
            options = {"schedule": "random", "completion": "random", "seed": seed}
            assert fingerprint(name, **options) == right
    # One more barrier is more happens-before, and another place another access.
    assert fingerprint("transpose", (BARRIER, 2 * BARRIER)) != fingerprint("transpose")
    moved = (
        ("gpu.shared_tile at 0", "gpu.shared_tile at 16"),
        ("shared_bytes 4224", "shared_bytes 4240"),
    )
    assert fingerprint("transpose", *moved) != fingerprint("transpose")


def test_counters_are_exact() -> None:
    counters = run("transpose").counters
    size = 50 * 70 * 4
    assert (counters.global_read_bytes, counters.global_write_bytes) == (size, size)
    # 6 CTAs store and load a whole tile each.
    assert counters.shared_write_bytes == counters.shared_read_bytes == 6 * 32 * 32 * 4
    assert counters.barriers == 6 * 4
    assert counters.bank_conflicts == 0
    copies = run("tma_copy").counters
    # Two CTAs of eight boxes of 1024 bytes; outside the tensor nothing is read.
    assert (copies.tma_loads, copies.tma_bytes) == (16, 16 * 1024)
    assert copies.global_read_bytes == 61 * 72 * 2
    assert run("wgmma_tile").counters.wgmma == 2


def test_rows_that_are_not_padded_collide_in_the_banks() -> None:
    """Without the 33rd column a warp's column lies in one bank: 31 conflicts a load."""
    edits = (("d0 * 33 + d1", "d0 * 32 + d1"), ("d1 * 33 + d0", "d1 * 32 + d0"))
    result = run("transpose", *edits)
    result.check()
    assert result.counters.bank_conflicts == 6 * 32 * 31


def test_the_documentation_lists_every_kind() -> None:
    text = (FOLDER.parent.parent / "docs" / "tools" / "simulator.md").read_text()
    for kind, meaning in KINDS.items():
        assert f"| `{kind}` | {meaning} |" in text
