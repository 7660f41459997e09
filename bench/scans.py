"""Time cumulative sums, products and maxima beside a copy, PyTorch and torch.compile.

``bench/race.py`` says how it is timed.  Each graph has open sizes and is compiled once.  Of each
case the variant that runs is timed, with the next ones of the dispatch that take the shape, so that
what a condition chooses is seen.  ``eager`` is ``torch.cumsum`` or its like.

    python bench/scans.py [--ops cumsum] [--shapes 16384x4096 32x1048576] [--variants 2]
    python bench/scans.py --known             # graphs with their sizes written in them too
    python bench/scans.py --dry               # modelled times, and that kernels compile; no GPU

Needs an NVIDIA GPU and PyTorch.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from polyc.bench import race
from polyc.bench.norms import Shape, parse_shape
from polyc.bench.race import Contestant
from polyc.bench.reductions import known, taken
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.tools.load import load

ARCH = "sm_90a"
SHAPES: tuple[Shape, ...] = (
    (16384, 4096),
    (32, 1 << 20),
    (65536, 1024),
    (4096, 16384),
    (1 << 20, 64),
)


@dataclass(frozen=True)
class Case:
    """A graph over ``X`` of [M, N], its peer in PyTorch, and its element type.

    ``peer`` takes torch and the tensor.
    """

    text: str
    peer: Callable[[Any, Any], Any]
    element: str


def _graph(name: str, body: str, element: str) -> str:
    kind = f"!frontend.tensor<[M, N], {element}>"
    ops = body.replace("T", kind)
    ends = f"  frontend.output %y : {kind}\n}}\n"
    return f"frontend.graph @{name}(%X: {kind}) -> (Y: {kind}) {{\n{ops}\n{ends}"


def _scan(fn: str, words: str = "axis 1") -> str:
    return f"  %y = frontend.scan {fn} %X {words} : T"


CASES = {
    "cumsum": Case(_graph("cumsum", _scan("sum"), "f32"), lambda t, x: t.cumsum(x, 1), "f32"),
    "cumsum_f16": Case(
        _graph("cumsum_f16", _scan("sum"), "f16"), lambda t, x: t.cumsum(x, 1), "f16"
    ),
    "cummax": Case(
        _graph("cummax", _scan("max"), "f32"), lambda t, x: t.cummax(x, 1).values, "f32"
    ),
    "reverse": Case(
        _graph("reverse", _scan("sum", "axis 1 reverse"), "f32"),
        lambda t, x: x.flip(1).cumsum(1).flip(1),
        "f32",
    ),
    "exp_cumsum": Case(
        _graph(
            "exp_cumsum", f"  %e = frontend.elementwise exp %X : T\n{_scan('sum')}", "f32"
        ).replace("sum %X", "sum %e"),
        lambda t, x: x.exp().cumsum(1),
        "f32",
    ),
    "columns": Case(
        _graph("columns", _scan("sum", "axis 0"), "f32"), lambda t, x: t.cumsum(x, 0), "f32"
    ),
    "columns_f16": Case(
        _graph("columns_f16", _scan("sum", "axis 0"), "f16"), lambda t, x: t.cumsum(x, 0), "f16"
    ),
}
"""What is timed, by name."""

BYTES = {"f16": 2, "f32": 4}


def raced(
    torch: Any, op: str, program: Program, sizes: Mapping[str, int], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """The rows of the report for one graph and shape."""
    case = CASES[op]
    shape, size = (sizes["M"], sizes["N"]), BYTES[case.element]
    count = sizes["M"] * sizes["N"]
    dtype = {"f16": torch.float16, "f32": torch.float32}[case.element]
    cache = torch.cuda.get_device_properties(0).L2_cache_size
    copies = max(2, race.copies_for(2 * size * count, cache))

    def made() -> Any:
        # Sums of numbers above 0 do not cancel: an error of theirs is one of the last bits.
        return torch.rand(*shape, device="cuda", dtype=dtype) / shape[1]

    sets = [made() for _ in range(copies)]
    outs = [torch.empty_like(x) for x in sets]
    spare = torch.empty_like(sets[0])
    wanted = case.peer(torch, sets[0].double())

    def peer(x: Any) -> Any:
        return case.peer(torch, x)

    racers = [Contestant("copy", lambda i: spare.copy_(sets[i % copies]))]
    errors: dict[str, float] = {}
    names = taken(program, sizes, args.variants)
    ours = [(f"polyc {name}", program, sizes, name) for name in names]
    if args.known:
        fixed = load(known(case.text, sizes), ARCH)
        chosen = fixed.chosen({})
        assert chosen is not None, "the last variant takes every size"
        ours.append((f"polyc known {chosen}", fixed, {}, chosen))
    for label, compiled, given, name in ours:
        try:
            launches = [
                compiled.launch([x], [y], given, name) for x, y in zip(sets, outs, strict=True)
            ]
        except PolycError:
            continue  # The variant does not take this shape.
        run = race.in_turns(torch, launches)
        outs[0].fill_(float("nan"))
        run(0)
        torch.cuda.synchronize()
        first = outs[0].clone()
        off = (first.double() - wanted).abs().max().item()
        most = (wanted.abs().max().item() or 1.0) * (2.0**-9 if size == 2 else 2.0**-16)
        errors[label] = off / most if off == off else float("inf")
        run(0)
        torch.cuda.synchronize()
        if not torch.equal(first, outs[0]):  # runs repeat to the bit
            errors[label] = float("inf")
        racers.append(Contestant(label, run, False, {"chosen": label == ours[0][0]}))
    if not args.no_eager:
        racers.append(Contestant("eager", lambda i: peer(sets[i % copies])))
    if args.compile:
        torch.compiler.reset()
        theirs = torch.compile(peer, dynamic=False, mode="max-autotune-no-cudagraphs")
        theirs(sets[0])
        racers.append(Contestant("torch.compile", lambda i: theirs(sets[i % copies])))
    race.measure(torch, racers, args.rounds, copies)
    case_name = f"{op} {'x'.join(map(str, shape))}"
    rows = race.result_rows(case_name, racers, 2 * size * count, "TB/s", errors)
    race.print_rows(rows)
    return rows


def dry(args: argparse.Namespace) -> int:
    """What would run, and how long by the model; every kernel is compiled."""
    from polyc.cost.time import times_of
    from polyc.dialects.gpu.module import ModuleOp
    from polyc.lowering.gpu_to_cuda import cuda_source
    from polyc.passes.finish import finish
    from polyc.passes.pipeline import ORDER, build
    from polyc.runtime import nvrtc
    from polyc.tools.parsing import parse_text
    from polyc.tools.registry import make_context

    for op in args.ops:
        context = make_context()
        module = parse_text(context, CASES[op].text, f"{op}.mlir")
        for name in ORDER[: ORDER.index("plan-select") + 1]:
            build(name, ARCH).apply(context, module)
        for rows, columns in args.shapes:
            sizes = {"M": rows, "N": columns}
            moved = 2 * rows * columns * BYTES[CASES[op].element]
            for found in times_of(module, sizes):
                speed = moved / found.seconds / 1e12
                name = f"{op} {rows}x{columns}"
                print(
                    f"{name:30} {found.variant:18} {found.seconds * 1e6:8.1f} us {speed:5.2f} TB/s"
                )
        build("region-to-gpu", ARCH).apply(context, module)
        finish(module)
        (kernels,) = (one for one in module.walk() if isinstance(one, ModuleOp))
        built = nvrtc.compile_cuda(cuda_source(kernels), ARCH)
        for name, info in built.kernels.items():
            print(f"{name:30} {info.registers:3} registers, {info.spill_bytes} bytes spilled")
    return 0


def timed(
    args: argparse.Namespace, torch: Any
) -> Iterator[tuple[str, Callable[[], list[dict[str, Any]]]]]:
    """The name of each case, and what times it."""
    for op in args.ops:
        program = load(CASES[op].text, ARCH)
        for shape in args.shapes:
            sizes = {"M": shape[0], "N": shape[1]}
            yield f"{op} {shape[0]}x{shape[1]}", partial(raced, torch, op, program, sizes, args)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time cumulative sums, products and maxima.")
    parser.add_argument("--ops", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--shapes", nargs="+", type=parse_shape, default=list(SHAPES))
    parser.add_argument("--compile", action="store_true", help="time torch.compile too")
    parser.add_argument("--no-eager", action="store_true", help="leave eager PyTorch out")
    parser.add_argument("--known", action="store_true", help="time graphs of known sizes too")
    parser.add_argument("--variants", type=int, default=2, help="of each graph, at most")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--budget", type=float, default=220, help="seconds to begin cases in")
    parser.add_argument("--dry", action="store_true", help="the model's times alone, no GPU")
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results", help="folder, or - for none")
    args = parser.parse_args(argv)
    if args.dry:
        return dry(args)
    return race.over_cases("scans", "scans", partial(timed, args), args)


if __name__ == "__main__":
    sys.exit(main())
