"""Time polyc's attention beside PyTorch's, on one GPU, in one process.

``polyc`` are the kernels of examples/tile, ``polyc graph`` what the compiler makes of a
``frontend.attention`` by its own plan, and with ``--known`` ``polyc known`` the same of the sizes
of each case, for which it may take any plan of the space.
``bench/race.py`` says how it is timed.  Batch and sequence together have 16384 positions and the
heads 2048 features, whatever the length of a sequence; causal attention counts half the work.

    python bench/attention.py [--lengths 2048 16384] [--dtype f16]

Needs an NVIDIA GPU and PyTorch, which brings the peers: cuDNN's attention and flash attention.
Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from polyc.bench import race, right
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load

ROOT = Path(__file__).resolve().parent.parent
LENGTHS = (2048, 4096, 8192, 16384)
HEADS = (128, 64)
POSITIONS = 16384
"""Batch times length of a sequence."""

FEATURES = 2048
"""Heads times features of one."""

PEERS = {"cuDNN": "CUDNN_ATTENTION", "flash": "FLASH_ATTENTION"}
"""Names of the peers, and PyTorch's of them."""

CHECKED = 1
"""Heads that are compared with the reference, from the first and the last on."""

SCORES = 1 << 18
"""Of a head that is compared, so many at most are computed again on the host."""

LONG = 4096
"""The length from which on a graph of a few launches takes as long as a batch."""

GRAPH = """
frontend.graph @attention(
    %Q: !frontend.tensor<[B, H, M, {size}], f16>, %K: !frontend.tensor<[B, H, N, {size}], f16>,
    %V: !frontend.tensor<[B, H, N, {size}], f16>)
    -> (O: !frontend.tensor<[B, H, M, {size}], f16>) {{
  %0 = frontend.attention %Q, %K, %V{causal} {{acc = f32}}
      : (!frontend.tensor<[B, H, M, {size}], f16>, !frontend.tensor<[B, H, N, {size}], f16>,
         !frontend.tensor<[B, H, N, {size}], f16>) -> !frontend.tensor<[B, H, M, {size}], f16>
  frontend.output %0 : !frontend.tensor<[B, H, M, {size}], f16>
}}
"""
"""Attention as a graph, but for the features of a head and whether it is causal."""

ARCH = "sm_90a"

Tensors = tuple[Any, Any, Any, Any]
"""Q, K, V and the output, [batch, heads, length, features]."""


def file_of(features: int, causal: bool) -> str:
    return f"attention_sm90_d{features}{'_causal' if causal else ''}"


def compiled(dtype: str, features: Sequence[int]) -> dict[tuple[int, bool], dict[str, Program]]:
    """The programs by features of a head and whether they are causal, each by its name."""
    found: dict[tuple[int, bool], dict[str, Program]] = {}
    for size in features:
        for causal in (False, True):
            path = ROOT / "examples" / "tile" / f"{file_of(size, causal)}.mlir"
            graph = GRAPH.format(size=size, causal=" causal" if causal else "")
            found[size, causal] = {}
            for name, text, arch in (
                ("polyc", path.read_text(), None),
                ("polyc graph", graph, ARCH),
            ):
                start = time.perf_counter()
                found[size, causal][name] = load(re.sub(r"\bf16\b", dtype, text), arch)
                took = time.perf_counter() - start
                print(f"{path.stem}, {name}: compiled in {took:.2f} s", flush=True)
    return found


def of_case(dtype: str, size: int, causal: bool, length: int) -> Program:
    """The program of the graph at the sizes of a case."""
    text = GRAPH.format(size=size, causal=" causal" if causal else "")
    sizes = {"B": POSITIONS // length, "H": FEATURES // size, "M": length, "N": length}
    for symbol, value in sizes.items():
        text = re.sub(rf"\b{symbol}, ", f"{value}, ", text)
    return load(re.sub(r"\bf16\b", dtype, text), ARCH)


def make_inputs(torch: Any, length: int, size: int, dtype: Any, l2_bytes: int) -> list[Tensors]:
    """Random inputs, in as many copies as exceed the L2 cache."""
    shape = (POSITIONS // length, FEATURES // size, length, size)
    copies = race.copies_for(8 * POSITIONS * FEATURES, l2_bytes)
    found: list[Tensors] = []
    for _ in range(copies):
        q, k, v = (torch.randn(shape, device="cuda", dtype=dtype) for _ in range(3))
        found.append((q, k, v, torch.empty_like(q)))
    return found


def contestants(
    torch: Any, programs: Mapping[str, Program], sets: Sequence[Tensors], causal: bool
) -> list[Contestant]:
    """polyc's kernels and PyTorch's; those of examples/tile have one axis of batches and heads."""
    flat = [tuple(t.flatten(0, 1) for t in tensors) for tensors in sets]
    count = len(sets)
    found: list[Contestant] = []
    for name, program in programs.items():
        own = flat if name == "polyc" else sets
        launches = [program.launch([q, k, v], [out]) for q, k, v, out in own]
        found.append(Contestant(name, race.in_turns(torch, launches), False))
    attention = torch.nn.functional.scaled_dot_product_attention
    for name, backend in PEERS.items():
        kind = getattr(torch.nn.attention.SDPBackend, backend)

        def peer(i: int, kind: Any = kind) -> None:
            q, k, v, _ = sets[i % count]
            with torch.nn.attention.sdpa_kernel([kind]):
                attention(q, k, v, is_causal=causal)

        found.append(Contestant(name, peer, True))
    return found


Wanted = Mapping[int, tuple[list[int], Any]]
"""By head the rows that are compared, and what they are."""


def reference(torch: Any, tensors: Tensors, causal: bool) -> Wanted:
    """Some rows of the first and the last heads, computed on the host."""
    q, k, v = (t.flatten(0, 1) for t in tensors[:3])
    length: int = q.shape[1]
    rows = right.picked(length)
    if len(rows) * length > SCORES:
        rows = [*rows[:: -(-len(rows) * length // SCORES)], rows[-1]]
    found: dict[int, tuple[list[int], Any]] = {}
    for head in sorted({*range(CHECKED), *range(q.shape[0] - CHECKED, q.shape[0])}):
        keys, values = (right.on_host(torch, t[head]) for t in (k, v))
        allowed = np.arange(length)[None] <= np.asarray(rows)[:, None] if causal else None
        asked = right.on_host(torch, q[head][rows])
        found[head] = rows, right.attention(asked, keys, values, allowed)
    return found


def check(torch: Any, tensors: Tensors, racer: Contestant, wanted: Wanted) -> float:
    """The largest error in parts of what agrees; over 1 is wrong (S0.6)."""
    out = tensors[3].flatten(0, 1)
    out.fill_(float("nan"))
    racer.run(0)
    if not bool(torch.isfinite(out).all()):
        return float("inf")
    return max(right.share(torch, out[head][rows], one) for head, (rows, one) in wanted.items())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, metavar="S")
    parser.add_argument("--heads", nargs="+", type=int, choices=HEADS, default=HEADS)
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, help="begin no case after these")
    parser.add_argument("--known", action="store_true", help="time graphs of known sizes too")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), metavar="DIR")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    options = parser.parse_args(argv)
    begun = time.perf_counter()
    torch = race.load_torch("attention.py")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[options.dtype]
    try:
        programs = compiled(options.dtype, options.heads)
    except PolycError as error:
        print(error, file=sys.stderr)
        return 1
    report: dict[str, Any] = {
        "benchmark": "attention",
        "dtype": options.dtype,
        **race.surroundings(torch, options.rounds, options.commit),
        "rows": [],
    }
    wrong = False
    for length in options.lengths:
        for (size, causal), open_ones in programs.items():
            if options.seconds and time.perf_counter() - begun > options.seconds:
                print(f"d{size} causal={causal} {length}: left out, the time is over")
                continue
            with race.alone():
                sets = make_inputs(torch, length, size, dtype, report["l2_bytes"])
                torch.cuda.synchronize()
            ours = dict(open_ones)
            if options.known:
                ours["polyc known"] = of_case(options.dtype, size, causal, length)
            racers = contestants(torch, ours, sets, causal)
            own = [racer for racer in racers if not racer.peer]
            wanted = reference(torch, sets[0], causal)
            with race.alone():
                errors = {racer.name: check(torch, sets[0], racer, wanted) for racer in own}
                least = len(sets) if length >= LONG else race.GRAPH_LAUNCHES
                race.measure(torch, racers, options.rounds, len(sets), least)
            wrong |= max(errors.values()) > 1
            case = f"d{size} {'causal' if causal else 'full'} {length}"
            work = 4.0 * length * POSITIONS * FEATURES / (2 if causal else 1)
            rows = race.result_rows(case, racers, work, "TFLOP/s", errors)
            race.print_rows(rows)
            report["rows"] += rows
            del sets, racers
    print(race.write_report(f"attention-{options.dtype}", report, options.out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
