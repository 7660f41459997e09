"""Time attention of few queries over a cache of keys beside PyTorch's, on one GPU, in one process.

Each case is a ``frontend.attention`` whose batch and keys are open, compiled by the compiler's own
choice, beside every backend of PyTorch's ``scaled_dot_product_attention`` that takes it, and beside
a copy of the K and V that its queries see, whose bytes a second are what memory gives.  Queries
are at the last positions.  ``bench/race.py`` says how it is timed.

    python bench/decode.py [--sequences 1 16 64] [--keys 8192 4096 2048] [--groups 1 4 8]
                           [--features 64 128] [--queries 1 8] [--forms plain mask bias window
                           alibi cap] [--paged 16 64] [--flex] [--dtype f16] [--out DIR]
    python bench/decode.py --dry         # compiles and models only; needs no GPU

A case has the keys that stand at the place of its sequences, or, with --all, every pair is one.
A form is what is done to scores: nothing, a mask of booleans (keys of a cache that are filled), a
bias of each score, a window of keys before the query, ALiBi by a bias of each head's keys, or a
soft cap, which PyTorch has by its ops or, with --flex, by ``flex_attention`` compiled.  With
--paged the cache is in pages of so many keys, beside the same attention over keys that follow each
other (``bench/paged.py``).
Needs an NVIDIA GPU and PyTorch, but for --dry.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

from polyc.bench import race, torch_attention
from polyc.bench.modelled import planned
from polyc.bench.paged import Pages, gathering
from polyc.bench.race import Contestant
from polyc.cost.device import H200
from polyc.cost.time import times_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load

ROOT = Path(__file__).resolve().parent.parent
HEADS = 32
"""Heads of the queries."""

ARCH = "sm_90a"
BACKENDS = {
    "flash": "FLASH_ATTENTION",
    "cuDNN": "CUDNN_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}
MATH_BYTES = 1 << 27
"""Of K and V, beyond which ways that store scores are left out."""

TOLERANCE = 4e-3
"""The largest error of outputs, which are means of values of about 1, rounded to 16 bits."""

WINDOW = 1024
"""Keys that a query sees with a window, itself too."""

CAP = 30.0

GRAPH = """
frontend.graph @decode(
    %Q: !frontend.tensor<[B, {h}, {m}, {d}], f16>, %K: !frontend.tensor<[B, {g}, N, {d}], f16>,
    %V: !frontend.tensor<[B, {g}, N, {d}], f16>{given})
    -> (O: !frontend.tensor<[B, {h}, {m}, {d}], f16>) {{
  %0 = frontend.attention %Q, %K, %V{how} {{acc = f32}}
      : (!frontend.tensor<[B, {h}, {m}, {d}], f16>, !frontend.tensor<[B, {g}, N, {d}], f16>,
         !frontend.tensor<[B, {g}, N, {d}], f16>{kinds})
      -> !frontend.tensor<[B, {h}, {m}, {d}], f16>
  frontend.output %0 : !frontend.tensor<[B, {h}, {m}, {d}], f16>
}}
"""


@dataclass(frozen=True)
class Form:
    """What is done to scores: ``how`` in a graph, and the type of its mask, if it has one."""

    how: str = ""
    mask: str | None = None


FORMS = {
    "plain": Form(),
    "mask": Form(mask="[B, 1, 1, N], i1"),
    "bias": Form(mask="[B, {h}, {m}, N], f16"),
    "window": Form(f" window [{WINDOW - 1}, 0] offset N - {{m}}"),
    "alibi": Form(mask="[{h}, 1, N], f32"),
    "cap": Form(f" cap {CAP}"),
}


@dataclass(frozen=True)
class Case:
    """``group`` heads share the keys of a sequence."""

    sequences: int
    keys: int
    group: int
    features: int
    queries: int
    form: str = "plain"
    page: int | None = None
    """Keys of a page; None where keys follow each other."""

    @property
    def pages(self) -> Pages | None:
        """What is in pages."""
        if self.page is None:
            return None
        return Pages(self.page, self.queries, HEADS // self.group, self.group, self.features)

    @property
    def name(self) -> str:
        heads = f"{HEADS}/{HEADS // self.group}"
        form = "" if self.form == "plain" else f" {self.form}"
        form += "" if self.page is None else f" pages of {self.page}"
        return f"{self.sequences}x{self.keys} {heads} d{self.features} m{self.queries}{form}"

    @property
    def seen(self) -> int:
        """Keys of a sequence that some query sees, the last ones."""
        if self.form != "window":
            return self.keys
        return min(self.keys, WINDOW + self.queries - 1)

    @property
    def read_bytes(self) -> int:
        """Of K and V, where some query sees them."""
        heads = HEADS // self.group
        return 2 * 2 * self.sequences * heads * self.seen * self.features

    def text(self, dtype: str) -> str:
        """The graph."""
        if self.pages is not None:
            return self.pages.text(dtype)
        form = FORMS[self.form]
        sizes = {"h": HEADS, "g": HEADS // self.group, "m": self.queries, "d": self.features}
        mask = None if form.mask is None else f"!frontend.tensor<{form.mask.format(**sizes)}>"
        given, kinds = ("", "") if mask is None else (f", %mask: {mask}", f", {mask}")
        how = ("" if mask is None else " mask %mask") + form.how.format(**sizes)
        return re.sub(r"\bf16\b", dtype, GRAPH.format(**sizes, given=given, kinds=kinds, how=how))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Those of the command line."""
    pairs = (
        product(options.sequences, options.keys)
        if options.all
        else zip(options.sequences, options.keys, strict=True)
    )
    rest = [*product(options.groups, options.features, options.queries, options.forms)]
    for b, n in pairs:
        for group, d, m, form in rest:
            for page in options.paged or [None]:
                yield Case(b, n, group, d, m, form, page)


def mask_of(torch: Any, case: Case, dtype: Any) -> Any:
    """The tensor that a form's graph takes beside Q, K and V; None where it takes none.

    Of sequences a quarter of their keys at most is not filled.
    """
    b, m, n = case.sequences, case.queries, case.keys
    if case.form == "mask":
        filled = torch.randint(n - n // 4, n + 1, (b, 1, 1, 1), device="cuda")
        return torch.arange(n, device="cuda") < filled
    if case.form == "bias":
        return torch.randn((b, HEADS, m, n), device="cuda", dtype=dtype)
    if case.form == "alibi":
        heads = torch.arange(1, HEADS + 1, device="cuda", dtype=torch.float32)
        away = torch.arange(n, device="cuda", dtype=torch.float32) - (n - 1)
        return (2.0 ** (-8 * heads / HEADS))[:, None, None] * away
    return None


def hidden_apart(torch: Any, case: Case) -> Any:
    """Which of the seen keys each query sees; None where it is all of them."""
    if case.form != "window" or case.queries == 1:
        return None
    here = torch.arange(case.keys - case.queries, case.keys, device="cuda")[:, None]
    there = torch.arange(case.keys - case.seen, case.keys, device="cuda")
    return (there <= here) & (there > here - WINDOW)


def peers(torch: Any, case: Case, sets: Sequence[Any], flex: bool) -> list[Contestant]:
    """The backends that take a case, and what PyTorch has for the others.

    Of a window they are given the keys that are seen.
    """
    attention = torch.nn.functional.scaled_dot_product_attention
    cut = case.keys - case.seen
    given: list[tuple[Any, ...]] = []
    for q, k, v, mask, _ in sets:
        mask = hidden_apart(torch, case) if mask is None else mask
        if case.form == "alibi":
            mask = mask.to(q.dtype).expand(1, HEADS, case.queries, case.keys)
        given.append((q, k[:, :, cut:], v[:, :, cut:], mask))
    ways: dict[str, Callable[..., Any]] = {}
    for name, backend in BACKENDS.items():
        kind = getattr(torch.nn.attention.SDPBackend, backend)

        def peer(q: Any, k: Any, v: Any, mask: Any, kind: Any = kind) -> None:
            with torch.nn.attention.sdpa_kernel([kind]):
                attention(q, k, v, attn_mask=mask, enable_gqa=case.group > 1)

        if case.form != "cap" and (name != "math" or case.read_bytes <= MATH_BYTES):
            ways[name] = peer
    if case.form == "cap" and (case.read_bytes <= MATH_BYTES or not flex):
        ways["ops"] = partial(by_ops, torch, case)
    if flex:
        ways["flex_attention"] = flexible(torch, case)
    found: list[Contestant] = []
    for name, way in ways.items():

        def run(i: int, way: Callable[..., Any] = way) -> None:
            way(*given[i % len(given)])

        try:
            run(0)
        except Exception as error:
            print(f"  {name} does not take it: {str(error).splitlines()[0][:80]}")
            continue
        found.append(Contestant(name, run))
    return found


def flexible(torch: Any, case: Case) -> Callable[..., Any]:
    """``flex_attention`` of a form, compiled."""
    attend = torch.compile(torch_attention.flex(torch))

    def run(q: Any, k: Any, v: Any, mask: Any) -> Any:
        def score(s: Any, b: Any, h: Any, m: Any, n: Any) -> Any:
            if case.form == "cap":
                return CAP * torch.tanh(s / CAP)
            if mask is None:
                return s
            if case.form == "mask":
                return torch.where(mask[b, 0, 0, n], s, -float("inf"))
            if case.form == "window":
                return torch.where(mask[m, n], s, -float("inf"))
            return s + mask[0 if case.form == "alibi" else b, h, m, n]

        return attend(q, k, v, score_mod=score, enable_gqa=case.group > 1)

    return run


def by_ops(torch: Any, case: Case, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attention by its definition, in the type of its inputs; heads that share keys are rows."""
    b, _, m, d = q.shape
    folded = q.reshape(b, HEADS // case.group, case.group * m, d)
    scores = (folded @ k.mT * d**-0.5).reshape(b, HEADS, m, k.shape[2])
    if case.form == "cap":
        scores = CAP * torch.tanh(scores / CAP)
    if mask is not None:
        hidden = mask.dtype == torch.bool
        scores = scores.masked_fill(~mask, -float("inf")) if hidden else scores + mask
    weights = torch.softmax(scores, -1).reshape(b, HEADS // case.group, case.group * m, -1)
    return (weights @ v).reshape(b, HEADS, m, d)


def right(torch: Any, case: Case, q: Any, k: Any, v: Any, mask: Any) -> Any:
    """Attention in f32 of the last sequence."""
    cut = case.keys - case.seen
    q, k, v = q[-1:].float(), k[-1:, :, cut:].float(), v[-1:, :, cut:].float()
    if mask is not None and mask.dim() == 4:
        mask = mask[-1:]
    return by_ops(torch, case, q, k, v, hidden_apart(torch, case) if mask is None else mask)[0]


def raced_in_pages(
    torch: Any,
    case: Case,
    programs: tuple[Program, Program],
    dtype: Any,
    l2_bytes: int,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """The rows of a case in pages, by programs for pages and for keys that follow each other."""
    pages = case.pages
    assert pages is not None
    b, n, m, d, heads = case.sequences, case.keys, case.queries, case.features, pages.heads
    copies = race.copies_for(case.read_bytes, l2_bytes)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype)

    given: list[tuple[Any, ...]] = []
    for _ in range(copies):
        q, k, v = random(b, HEADS, m, d), random(b, heads, n, d), random(b, heads, n, d)
        given.append((q, k, v, *pages.pooled(torch, k, v), torch.empty_like(q)))
    paged = [programs[0].launch([q, *pool], [out]) for q, _, _, *pool, out in given]
    plain = [programs[1].launch([q, k, v], [out]) for q, k, v, *_, out in given]
    own = Contestant("polyc", race.in_turns(torch, paged), False)
    other = Contestant("polyc, keys that follow", race.in_turns(torch, plain), False)
    q, k, v, *_, out = given[0]
    found: list[Any] = []
    for racer in (own, own, other):
        out.fill_(float("nan"))
        racer.run(0)
        found.append(out.clone())
    error = (found[0][-1].float() - right(torch, case, q, k, v, None)).abs().max().item()
    error /= TOLERANCE
    if not error <= float("inf") or not torch.equal(*found[:2]):
        error = float("inf")  # It is NaN, or runs do not repeat to the bit.
    sets = [(q, *pool) for q, _, _, *pool, _ in given]
    racers = [own, other, gathering(torch, sets, case.group > 1)]
    race.measure(torch, racers, options.rounds, copies)
    rows = race.result_rows(case.name, racers, case.read_bytes, "TB/s", {"polyc": error})
    rows[0]["of_contiguous"] = round(other.median / own.median, 4)
    return rows


def raced(
    torch: Any,
    case: Case,
    program: Program,
    dtype: Any,
    l2_bytes: int,
    options: argparse.Namespace,
) -> list[dict[str, Any]]:
    """The rows of a case."""
    b, n, m, d, heads = case.sequences, case.keys, case.queries, case.features, HEADS // case.group
    copies = race.copies_for(case.read_bytes, l2_bytes)

    def random(*shape: int) -> Any:
        return torch.randn(shape, device="cuda", dtype=dtype)

    full: list[tuple[Any, ...]] = []
    for _ in range(copies):
        q, k, v = random(b, HEADS, m, d), random(b, heads, n, d), random(b, heads, n, d)
        full.append((q, k, v, mask_of(torch, case, dtype), torch.empty_like(q)))
    launches = [
        program.launch([q, k, v, *([] if mask is None else [mask])], [out])
        for q, k, v, mask, out in full
    ]
    own = Contestant("polyc", race.in_turns(torch, launches), False)
    *inputs, out = full[0]
    found: list[Any] = []
    for _ in range(2):
        out.fill_(float("nan"))
        own.run(0)
        found.append(out.clone())
    error = (found[0][-1].float() - right(torch, case, *inputs)).abs().max().item() / TOLERANCE
    if not error <= float("inf") or not torch.equal(*found):
        error = float("inf")  # It is NaN, or runs do not repeat to the bit.
    cut = n - case.seen
    into = [torch.empty_like(full[0][1][:, :, cut:]) for _ in range(2)]

    def copy(i: int) -> None:
        for target, source in zip(into, full[i % copies][1:3], strict=True):
            target.copy_(source[:, :, cut:])

    others = peers(torch, case, full, options.flex)
    racers = [own, *others, Contestant("copy of K and V", copy, not others)]
    race.measure(torch, racers, options.rounds, copies)
    rows = race.result_rows(case.name, racers, case.read_bytes, "TB/s", {"polyc": error})
    rows[-1]["rate"] *= 2  # It reads and writes them.
    for row in rows:
        row["of_copy"] = round(row["rate"] / rows[-1]["rate"], 4)
    return rows


def show(case: Case, dtype: str) -> bool:
    """Print which schedule a case takes, and what the model says of it; whether there is one."""
    sizes = {"B": case.sequences, "N": case.keys}
    if case.page is not None:
        each = case.keys // case.page
        sizes |= {"J": each, "P": case.sequences * each}
    try:
        with redirect_stderr(StringIO()):
            module = planned(case.text(dtype))
    except PolycError as error:
        print(f"{case.name}: {error}")
        return False
    times = times_of(module, sizes, H200)
    total = sum(t.seconds for t in times)
    print(
        f"{case.name}: {', '.join(t.variant for t in times)}, modelled {total * 1e6:.1f} us, "
        f"{case.read_bytes / total / 1e12:.2f} TB/s"
    )
    return True


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sequences", nargs="+", type=int, default=[1, 16, 64])
    parser.add_argument("--keys", nargs="+", type=int, default=[8192, 4096, 2048])
    parser.add_argument("--all", action="store_true", help="every pair of sequences and keys")
    parser.add_argument("--groups", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--features", nargs="+", type=int, default=[64, 128])
    parser.add_argument("--queries", nargs="+", type=int, default=[1])
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=["plain"])
    parser.add_argument("--paged", nargs="+", type=int, help="keys of a page, of plain forms")
    parser.add_argument("--flex", action="store_true", help="flex_attention too, compiled")
    parser.add_argument("--dtype", choices=("f16", "bf16"), default="f16")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, help="begin no more cases after so many seconds")
    parser.add_argument("--out", default=str(ROOT / "bench" / "results"), metavar="DIR")
    parser.add_argument("--commit", help="what to record where there is no checkout")
    parser.add_argument("--dry", action="store_true", help="compile and model; time nothing")
    options = parser.parse_args(argv)
    if not options.all and len(options.sequences) != len(options.keys):
        parser.error("give as many --keys as --sequences, or --all")
    if any(HEADS % group for group in options.groups):
        parser.error(f"--groups divide {HEADS} heads")
    if options.paged and (
        options.forms != ["plain"] or any(n % page for n in options.keys for page in options.paged)
    ):
        parser.error("--paged is of plain forms, and divides --keys")
    if options.dry:
        shown = [show(case, options.dtype) for case in cases(options)]
        return 0 if all(shown) else 1
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
        texts = [case.text(options.dtype)]
        if case.page is not None:
            texts.append(replace(case, page=None).text(options.dtype))
        try:
            for text in texts:
                if text not in programs:
                    programs[text] = load(text, ARCH)
        except PolycError as error:
            print(error, file=sys.stderr)
            return 1
        own = [programs[text] for text in texts]
        try:
            if case.page is None:
                rows = raced(torch, case, own[0], dtype, report["l2_bytes"], options)
            else:
                both = own[0], own[1]
                rows = raced_in_pages(torch, case, both, dtype, report["l2_bytes"], options)
        except torch.cuda.OutOfMemoryError:
            print(f"{case.name}: left out, it does not fit twice")
            torch.cuda.empty_cache()
            continue
        race.print_rows(rows)
        wrong |= rows[0]["error_of_tolerance"] > 1
        if case.page is None:
            print(f"  polyc reads K and V at {rows[0]['of_copy']:.3f} of a copy's rate")
            rows = rows[:-1]  # the copy is in each row's `of_copy`
        else:
            print(f"  polyc is at {rows[0]['of_contiguous']:.3f} of keys that follow each other")
        report["rows"] += rows
        torch.cuda.empty_cache()
    name = "paged" if options.paged else "decode"
    print(race.write_report(f"{name}-{options.dtype}", report, options.out))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
