"""Time attention of few queries over a cache of keys beside PyTorch's, on one GPU, in one process.

Each case is a ``frontend.attention`` whose batch and keys are open, compiled by the compiler's own
choice, beside every backend of PyTorch's ``scaled_dot_product_attention`` that takes it, and beside
a copy of K and V, whose bytes a second are what memory gives.  ``bench/race.py`` says how it is
timed.

    python bench/decode.py [--sequences 1 16 64] [--keys 8192 4096 2048] [--groups 1 4 8]
                           [--features 64 128] [--queries 1 8] [--dtype f16] [--out DIR]

A case has the keys that stand at the place of its sequences, or, with --all, every pair is one.
Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from polyc.bench import race
from polyc.bench.race import Contestant
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load

ROOT = Path(__file__).resolve().parent.parent
HEADS = 32
"""Heads of the queries."""

ARCH = "sm_90a"
BACKENDS = {"flash": "FLASH_ATTENTION", "cuDNN": "CUDNN_ATTENTION", "math": "MATH"}
MATH_BYTES = 1 << 27
"""Of K and V, beyond which the backend that stores scores is left out."""

TOLERANCE = 4e-3
"""The largest error of outputs, which are means of values of about 1, rounded to 16 bits."""

GRAPH = """
frontend.graph @decode(
    %Q: !frontend.tensor<[B, {h}, {m}, {d}], f16>, %K: !frontend.tensor<[B, {g}, N, {d}], f16>,
    %V: !frontend.tensor<[B, {g}, N, {d}], f16>)
    -> (O: !frontend.tensor<[B, {h}, {m}, {d}], f16>) {{
  %0 = frontend.attention %Q, %K, %V {{acc = f32}}
      : (!frontend.tensor<[B, {h}, {m}, {d}], f16>, !frontend.tensor<[B, {g}, N, {d}], f16>,
         !frontend.tensor<[B, {g}, N, {d}], f16>) -> !frontend.tensor<[B, {h}, {m}, {d}], f16>
  frontend.output %0 : !frontend.tensor<[B, {h}, {m}, {d}], f16>
}}
"""


@dataclass(frozen=True)
class Case:
    """``group`` heads share the keys of a sequence."""

    sequences: int
    keys: int
    group: int
    features: int
    queries: int

    @property
    def name(self) -> str:
        heads = f"{HEADS}/{HEADS // self.group}"
        return f"{self.sequences}x{self.keys} {heads} d{self.features} m{self.queries}"

    @property
    def read_bytes(self) -> int:
        """Of K and V."""
        heads = HEADS // self.group
        return 2 * 2 * self.sequences * heads * self.keys * self.features

    def text(self, dtype: str) -> str:
        """The graph."""
        sizes = {"h": HEADS, "g": HEADS // self.group, "m": self.queries, "d": self.features}
        return re.sub(r"\bf16\b", dtype, GRAPH.format(**sizes))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Those of the command line."""
    pairs = (
        product(options.sequences, options.keys)
        if options.all
        else zip(options.sequences, options.keys, strict=True)
    )
    rest = [*product(options.groups, options.features, options.queries)]
    for b, n in pairs:
        for group, d, m in rest:
            yield Case(b, n, group, d, m)


def peers(torch: Any, case: Case, sets: Sequence[Any]) -> list[Contestant]:
    """The backends that take a case."""
    attention = torch.nn.functional.scaled_dot_product_attention
    found: list[Contestant] = []
    for name, backend in BACKENDS.items():
        kind = getattr(torch.nn.attention.SDPBackend, backend)

        def peer(i: int, kind: Any = kind) -> None:
            q, k, v, _ = sets[i % len(sets)]
            with torch.nn.attention.sdpa_kernel([kind]):
                attention(q, k, v, enable_gqa=case.group > 1)

        if name == "math" and case.read_bytes > MATH_BYTES:
            continue
        try:
            peer(0)
        except RuntimeError as error:
            print(f"  {name} does not take it: {str(error).splitlines()[0][:80]}")
            continue
        found.append(Contestant(name, peer))
    return found


def right(torch: Any, case: Case, tensors: Sequence[Any]) -> Any:
    """Attention in f32 of the last sequence."""
    q, k, v = (t[-1].float() for t in tensors[:3])
    k, v = (t.repeat_interleave(case.group, 0) for t in (k, v))
    weights = torch.softmax(q @ k.transpose(-1, -2) * case.features**-0.5, -1)
    return weights @ v


def raced(
    torch: Any, case: Case, program: Program, dtype: Any, l2_bytes: int, rounds: int
) -> list[dict[str, Any]]:
    """The rows of a case."""
    b, n, m, d, heads = case.sequences, case.keys, case.queries, case.features, HEADS // case.group
    copies = race.copies_for(case.read_bytes, l2_bytes)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype)

    sets = [
        (random(b, HEADS, m, d), random(b, heads, n, d), random(b, heads, n, d))
        for _ in range(copies)
    ]
    full = [(*tensors, torch.empty_like(tensors[0])) for tensors in sets]
    launches = [program.launch([q, k, v], [out]) for q, k, v, out in full]
    own = Contestant("polyc", race.in_turns(torch, launches), False)
    *inputs, out = full[0]
    found: list[Any] = []
    for _ in range(2):
        out.fill_(float("nan"))
        own.run(0)
        found.append(out.clone())
    error = (found[0][-1].float() - right(torch, case, inputs)).abs().max().item() / TOLERANCE
    if not torch.equal(*found):
        error = float("inf")  # Runs do not repeat to the bit.
    into = [torch.empty_like(sets[0][1]) for _ in range(2)]

    def copy(i: int) -> None:
        for target, source in zip(into, sets[i % copies][1:], strict=True):
            target.copy_(source)

    racers = [own, *peers(torch, case, full), Contestant("copy of K and V", copy, False)]
    race.measure(torch, racers, rounds, copies)
    rows = race.result_rows(case.name, racers, case.read_bytes, "TB/s", {"polyc": error})
    rows[-1]["rate"] *= 2  # It reads and writes them.
    for row in rows:
        row["of_copy"] = round(row["rate"] / rows[-1]["rate"], 4)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--keys", nargs="+", type=int, default=[8192, 4096, 2048])
    parser.add_argument("--all", action="store_true", help="every pair of sequences and keys")
    parser.add_argument("--groups", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--features", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--queries", nargs="+", type=int, default=[1])
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, help="begin no more cases after so many seconds")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), metavar="DIR")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    options = parser.parse_args(argv)
    if not options.all and len(options.sequences) != len(options.keys):
        parser.error("give as many --keys as --sequences, or --all")
    if any(HEADS % group for group in options.groups):
        parser.error(f"--groups divide {HEADS} heads")
    torch = race.load_torch("bench/decode.py")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[options.dtype]
    begun = time.perf_counter()
    report: dict[str, Any] = {
        "benchmark": "decode",
        "dtype": options.dtype,
        **race.surroundings(torch, options.rounds, options.commit),
        "rows": [],
    }
    programs: dict[str, Program] = {}
    wrong = False
    for case in cases(options):
        if options.budget and time.perf_counter() - begun > options.budget:
            print(f"{case.name}: left out, the time is over")
            continue
        text = case.text(options.dtype)
        try:
            if text not in programs:
                programs[text] = load(text, ARCH)
            program = programs[text]
        except PolycError as error:
            print(error, file=sys.stderr)
            return 1
        rows = raced(torch, case, program, dtype, report["l2_bytes"], options.rounds)
        race.print_rows(rows)
        print(f"  polyc reads K and V at {rows[0]['of_copy']:.3f} of a copy's rate")
        wrong |= rows[0]["error_of_tolerance"] > 1
        report["rows"] += rows[:-1]  # the copy is in each row's `of_copy`
        torch.cuda.empty_cache()
    print(race.write_report(f"decode-{options.dtype}", report, options.out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
