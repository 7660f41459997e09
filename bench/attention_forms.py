"""Time attention with what models put around it, as whole programs beside PyTorch's.

The programs are the forms of ``test/support/attention_forms.py`` at a model's sizes: rotary
positions, norms of queries and keys, merged heads, ALiBi, a soft cap, and the attention layer
whole, with 32 heads of queries, 8 of keys, 128 features each.  ``bench/graphs.py`` says how it is
timed.  The peers of each are its ops in PyTorch, eager (``scaled_dot_product_attention`` by the
kernel that PyTorch chooses, and by cuDNN's), the same by ``torch.compile`` with max-autotune, and
``flex_attention`` compiled with what is around it.

    python bench/attention_forms.py [--forms rope_halves layer] [--lengths 4096] [--masks causal]
    python bench/attention_forms.py --dry            # compiles and models only; needs no GPU

Needs an NVIDIA GPU and PyTorch, but for ``--dry``.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16, f16

from polyc.bench import graphs, in_torch, race, torch_attention
from polyc.bench.modelled import planned
from polyc.cost.device import H200
from polyc.cost.time import times_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import AttentionOp, GraphOp
from polyc.test.support.attention_forms import FORMS, Form, Heads
from polyc.tools.load import load

HEADS = Heads()
ELEMENTS = {"f16": f16, "bf16": bf16}
MASKS = {"causal": True, "full": False}
MODES = ("max-autotune-no-cudagraphs", "default")
"""Of torch.compile, the first where no other is asked for."""

BASE = 10000.0
"""Of the wavelengths of rotary positions."""


def cases(names: Sequence[str], masks: Sequence[str]) -> Iterator[tuple[Form, str]]:
    """The forms, each with the masks that it is asked with."""
    for name in names:
        for mask in masks:
            if MASKS[mask] in FORMS[name].causal:
                yield FORMS[name], mask


def given(torch: Any, form: Form, tokens: int, device: str = "cuda") -> dict[str, Any]:
    """The inputs that are not random, by name: tables, positions and slopes, in f32."""
    at = torch.arange(tokens, dtype=torch.float32, device=device)
    pairs = torch.arange(0, HEADS.width, 2, dtype=torch.float32, device=device)
    angles = at[:, None] * BASE ** (-pairs / HEADS.width)
    angles = angles.repeat_interleave(2, 1) if form.interleaved else torch.cat([angles] * 2, 1)
    heads = torch.arange(1, HEADS.queries + 1, dtype=torch.float32, device=device)
    slopes = 2.0 ** (-8 * heads / HEADS.queries)
    return {
        "cos": angles.cos(),
        "sin": angles.sin(),
        "rows": at,
        "columns": at,
        "slopes": slopes,
        "bias": slopes[:, None] * at,
    }


def flexible(
    torch: Any,
    form: Form,
    graph: GraphOp,
    sizes: Mapping[str, int],
    causal: bool,
    wide: bool = False,
) -> in_torch.Run:
    """A form as a function that calls ``flex_attention``, to be compiled; ``wide`` as there."""
    if "alibi" not in form.name:
        how = torch_attention.flexible
        return in_torch.function(torch, graph, sizes, wide=wide, attend=how)
    (op,) = (op for op in graph.walk() if isinstance(op, AttentionOp))
    attend, block = torch_attention.flex(torch), torch_attention.blocks(torch, op, sizes)

    def run(q: Any, k: Any, v: Any, numbers: Any, *positions: Any) -> Any:
        """``numbers`` are slopes, or a bias of each key where there are no ``positions``."""
        flat = numbers.reshape(numbers.shape[0], -1)

        def score(s: Any, b: Any, h: Any, m: Any, n: Any) -> Any:
            if not positions:
                return s + flat[h, n]
            return s - flat[h, 0] * (m - n if causal else (m - n).abs())

        how = {"score_mod": score, "block_mask": block, "enable_gqa": True}
        return (attend(q[None], k[None], v[None], **how)[0],)

    return run


def peers(
    torch: Any,
    form: Form,
    graph: GraphOp,
    sizes: Mapping[str, int],
    causal: bool,
    mode: str | None,
) -> dict[str, in_torch.Run]:
    """What a form is raced against, beside eager PyTorch and the same compiled in a mode."""
    eager = in_torch.function(torch, graph, sizes)
    found: dict[str, in_torch.Run] = {}
    if form.name != "soft_cap":  # which scaled_dot_product_attention lacks
        by_cudnn = torch_attention.limited(torch, eager, "CUDNN_ATTENTION")
        found["eager, cuDNN"] = by_cudnn
        if mode is not None:
            found["torch.compile, cuDNN"] = torch.compile(by_cudnn, mode=mode)
    if mode is not None:
        flex = flexible(torch, form, graph, sizes, causal)

        def apart(*inputs: Any) -> Any:
            """A function of its own, as what is compiled is found again by its code."""
            return flex(*inputs)

        found["flex_attention"] = torch.compile(apart, mode=mode)
    return found


def show(title: str, module: ModuleOp, sizes: Mapping[str, int]) -> bool:
    """Print what a form becomes on sm_90a, and what the model says of it; whether it compiles."""
    start = time.perf_counter()
    try:
        with redirect_stderr(StringIO()):
            program = load(str(module), graphs.ARCH)
        times = times_of(planned(str(module)), sizes, H200)
    except PolycError as error:
        print(f"{title}: {error}")
        return False
    spills = [k for k, info in program.kernels.items() if info.spill_bytes]
    total = sum(t.seconds for t in times) * 1e6
    print(
        f"{title}: {time.perf_counter() - start:.1f} s to a cubin, {len(times)} kernels, "
        f"modelled {total:.0f} us, spills {spills or 'none'}"
    )
    for t in times:
        print(f"    {t.kernel} {t.variant}: {t.seconds * 1e6:.1f} us, {t.bound}")
    return True


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time forms of attention beside PyTorch's.")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(FORMS))
    parser.add_argument("--masks", nargs="+", choices=MASKS, default=list(MASKS))
    parser.add_argument("--lengths", nargs="+", type=int, default=[4096], metavar="T")
    parser.add_argument("--batch", type=int, default=1, help="sequences, of forms that have some")
    parser.add_argument("--dtype", choices=ELEMENTS, default="f16")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--mode", choices=MODES, default=MODES[0], help="of torch.compile")
    parser.add_argument("--eager-only", action="store_true", help="leave torch.compile out")
    parser.add_argument("--budget", type=float, help="begin no more programs after so many seconds")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results")
    parser.add_argument("--dry", action="store_true", help="compile and model; time nothing")
    options = parser.parse_args(argv)
    torch = None if options.dry else race.load_torch("bench/attention_forms.py")
    mode = None if options.eager_only else options.mode
    begun = time.perf_counter()
    rows: list[dict[str, Any]] = []
    wrong = Counter[str]()
    for form, mask in cases(options.forms, options.masks):
        causal = MASKS[mask]
        module = form.module(causal, HEADS, ELEMENTS[options.dtype])
        graph = next(op for op in module.ops if isinstance(op, GraphOp))
        for tokens in options.lengths:
            title, sizes = f"{form.name} {mask} {tokens}", form.symbols(tokens, options.batch)
            if options.budget and time.perf_counter() - begun > options.budget:
                print(f"{title}: left out, the time is over")
                continue
            if torch is None:
                wrong[title] += not show(title, module, sizes)
                continue
            try:
                with torch.no_grad():
                    made = graphs.raced(
                        torch,
                        title,
                        module,
                        sizes,
                        options.rounds,
                        mode,
                        given=given(torch, form, tokens),
                        others=peers(torch, form, graph, sizes, causal, mode),
                    )
                rows += made
                wrong[title] += made[0]["error_of_tolerance"] > 1
            except Exception as error:
                wrong[title] += 1
                print(f"{title}: {type(error).__name__}: {str(error)[:300]}", flush=True)
            torch.cuda.empty_cache()
    if torch is not None and rows:
        report = {
            "benchmark": "attention_forms",
            "dtype": options.dtype,
            "mode": mode,
            **race.surroundings(torch, options.rounds, options.commit),
            "rows": rows,
        }
        mode = "" if options.mode == MODES[0] else f"-{options.mode}"
        print(race.write_report(f"attention_forms{mode}-{options.dtype}", report, options.out))
    return 1 if wrong.total() else 0


if __name__ == "__main__":
    sys.exit(main())
