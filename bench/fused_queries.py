"""Time attention whose kernel computes its queries beside the same with queries stored before it.

The programs are the forms of ``test/support/attention_forms.py`` at a model's sizes.  Both ways of
each are timed in turn on the same inputs, and beside what the model of time says of them.

    python bench/fused_queries.py [--forms rope_halves qk_norm layer] [--lengths 512 4096]
    python bench/fused_queries.py --dry              # compiles and models only; needs no GPU

Needs an NVIDIA GPU and PyTorch, but for ``--dry``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, redirect_stderr
from io import StringIO
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from polyc.bench import graphs, in_torch, race
from polyc.bench.attention_forms import ELEMENTS, HEADS, MASKS, cases, given
from polyc.bench.race import Contestant
from polyc.cost.device import H200
from polyc.cost.time import times_of
from polyc.dialects.frontend import GraphOp
from polyc.runtime import driver
from polyc.test.support.attention_forms import FORMS, Form
from polyc.test.support.queries import fused, stored
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation
from polyc.tools.registry import make_context

WAYS: Mapping[str, Callable[[], AbstractContextManager[None]]] = {
    "queries in the kernel": fused,
    "queries stored": stored,
}

QUERIES = ("rope_halves", "rope_pairs", "qk_norm", "qk_norm_rope", "layer", "layer_packed")
"""The forms whose queries are computed."""


def modelled(text: str, sizes: Mapping[str, int]) -> list[float]:
    """What each kernel of a program takes by the model of time, in microseconds."""
    ctx = make_context()
    found = Compilation(ctx, parse_text(ctx, text, "bench.mlir"), graphs.ARCH).run("plan")
    return [t.seconds * 1e6 for t in times_of(found.module, sizes, H200)]


def timed(
    torch: Any, title: str, form: Form, module: ModuleOp, tokens: int, rounds: int, batch: int
) -> bool:
    """Time both ways of a form, and print what each kernel takes; whether both are right."""
    text, sizes = str(module), form.symbols(tokens, batch)
    graph = next(op for op in module.ops if isinstance(op, GraphOp))
    own = given(torch, form, tokens)
    first = graphs.made_inputs(torch, graph, sizes, 0, own)
    data = sum(
        x.numel() * x.element_size()
        for x, spec in zip(first, graph.inputs, strict=True)
        if graphs.is_data(spec.name)
    )
    count = race.copies_for(2 * data, driver.device().l2_bytes, most=8)
    sets = [first, *(graphs.made_inputs(torch, graph, sizes, i, own) for i in range(1, count))]
    plain = in_torch.function(torch, graph, sizes)(*first)
    wide = in_torch.function(torch, graph, sizes, wide=True)
    exact = graphs.wide_outputs(torch, wide, first)
    racers: list[Contestant] = []
    errors: dict[str, float] = {}
    kept: list[object] = []
    """Outputs, which launches write as long as they are timed."""
    for way, held in WAYS.items():
        with held(), redirect_stderr(StringIO()):
            program = load(text, graphs.ARCH)
        outs = [[torch.empty_like(o).contiguous() for o in plain] for _ in sets]
        kept.append(outs)
        launches = [program.launch(s, o, sizes) for s, o in zip(sets, outs, strict=True)]
        run = race.in_turns(torch, launches)
        run(0)
        torch.cuda.synchronize()
        errors[way] = graphs.error_of(torch, outs[0], exact, plain)
        racers.append(Contestant(way, run, bool(racers)))
    race.measure(torch, racers, rounds, count)
    work = graphs.flops(graph, sizes) or 1.0
    race.print_rows(race.result_rows(title, racers, work, "TFLOP/s", errors))
    for racer in racers:
        print(f"    {racer.name}: {graphs.kernel_times(torch, racer.run, count)}", flush=True)
    return all(error <= 1 for error in errors.values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time attention with its queries fused or stored.")
    parser.add_argument("--forms", nargs="+", choices=FORMS, default=list(QUERIES))
    parser.add_argument("--masks", nargs="+", choices=MASKS, default=["causal"])
    parser.add_argument("--lengths", nargs="+", type=int, default=[512, 4096], metavar="T")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--dtype", choices=ELEMENTS, default="f16")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--dry", action="store_true", help="compile and model; time nothing")
    options = parser.parse_args(argv)
    torch = None if options.dry else race.load_torch("bench/fused_queries.py")
    wrong = 0
    for form, mask in cases(options.forms, options.masks):
        module = form.module(MASKS[mask], HEADS, ELEMENTS[options.dtype])
        for tokens in options.lengths:
            title, sizes = f"{form.name} {mask} {tokens}", form.symbols(tokens, options.batch)
            for way, held in WAYS.items():
                with held(), redirect_stderr(StringIO()):
                    times = modelled(str(module), sizes)
                each = ", ".join(f"{t:.1f}" for t in times)
                print(f"{title}, {way}: modelled {sum(times):.1f} us ({each})", flush=True)
            if torch is not None:
                with torch.no_grad():
                    right = timed(torch, title, form, module, tokens, options.rounds, options.batch)
                wrong += not right
                torch.cuda.empty_cache()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
