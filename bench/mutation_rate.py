"""How many mutants of right kernels the simulator catches.

Every mutant of every kernel of the example for both architectures, and of the small kernels
in ``test/simulator``, runs on shapes with tails.  With ``--tiles`` those of ``examples/tile`` run
in their place, of which the unit tests try some.  Prints each kernel's counts and the mutants
that are neither caught nor shown to be harmless.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp

from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.gpu.module import ModuleOp
from polyc.playback.estimate import Estimate
from polyc.playback.functions import posing
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation.verdict import Case, Verdict, judge_all
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import Compilation, graphs
from polyc.tools.registry import make_context

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "gemm_bias_relu.mlir"

SHAPES: Mapping[str, Sequence[tuple[int, int, int]]] = {
    "tma": [(72, 264, 584), (72, 40, 40), (136, 520, 136)],
    "tma_small": [(72, 136, 584), (72, 40, 40), (136, 264, 136)],
    "cp_async16_large": [(264, 136, 232), (264, 136, 40)],
    "cp_async16": [(136, 136, 232), (136, 136, 40)],
    "cp_async4": [(136, 134, 230), (136, 134, 38)],
    "cp_async": [(136, 134, 230), (136, 134, 38)],
    "scalar": [
        *((9, 17 + i, 56 + i) for i in range(8)),
        *((9, 17 + i, 24 + i) for i in range(8)),
        (136, 133, 229),
        (136, 133, 21),
    ],
}
"""M, N, K for each loader: many steps with tails, and fewer steps than the pipeline is deep.

A guard of one element of eight matters only where the size leaves its remainder.  Persistent
kernels run on two multiprocessors, and the last shape gives each of them several tiles.
"""

Sizes = Mapping[str, int]
Array = NDArray[Any]


def same(x: Array) -> Array:
    return x


def row_sums(x: Array) -> Array:
    return np.sum(x, axis=1)


def gemm_cases(arch: str, chosen: str) -> list[list[Case]]:
    """The cases of each kernel of the example whose name contains ``chosen``."""
    source = Compilation.of_file(EXAMPLE, arch)
    graph = next(graphs(source.module))
    expected = {
        shape: Expected.of(graph, dict(zip("MNK", shape, strict=True)), 1)
        for shapes in SHAPES.values()
        for shape in shapes
    }
    module = gpu_module_of(source.run().module)
    # A condition that only says which kernel is faster would keep small shapes from a kernel.
    for launch in module.dispatch().launches():
        rules = [f for f in launch.when.data if f.expr.as_affine(module.symbol_names) is not None]
        launch.properties["when"] = AssumptionsAttr(tuple(rules))
    found: list[list[Case]] = []
    for kernel in module.kernels():
        name = kernel.sym_name.data
        if chosen not in name:
            continue
        shapes = next(s for v, s in SHAPES.items() if name.endswith(f"relu_{v}"))
        rows = [expected[s] for s in shapes]
        found.append([Case.of(module, name, e.symbols, e.inputs, e.outputs) for e in rows])
    return found


def load(name: str) -> ModuleOp:
    """A kernel of ``test/simulator``."""
    path = ROOT / "test" / "simulator" / f"{name}.mlir"
    module: BuiltinModuleOp = parse_text(make_context(), path.read_text(), str(path))
    return gpu_module_of(module)


def small_cases() -> list[list[Case]]:
    """The cases of the kernels written by hand."""
    random = np.random.default_rng(1)
    f32, f16 = np.float32, np.float16

    def case(
        name: str, sizes: Sizes, shape: tuple[int, ...], dtype: Any, what: Callable[[Array], Array]
    ) -> Case:
        module = load(name)
        x = random.uniform(-1, 1, shape).astype(dtype)
        kernel = module.kernels()[0].sym_name.data
        return Case.of(module, kernel, sizes, [x], [what(posing(Estimate(x))).astype(f32)])

    return [
        [case("pipelined_copy", {"N": n}, (n,), f32, same) for n in (1700, 100)],
        [case("block_reduction", {"M": 3, "N": 300}, (3, 300), f32, row_sums)],
        [case("transpose", {"M": 50, "N": 70}, (50, 70), f32, np.transpose)],
        [case("tma_copy", {"M": 61, "N": 72}, (61, 72), f16, same)],
    ]


def tile_cases(chosen: str) -> list[list[Case]]:
    """The cases of each file of ``examples/tile`` whose name contains ``chosen``."""
    from polyc.test.support.tile_cases import CASES, lowered

    found: list[list[Case]] = []
    for tiles in CASES.values():
        if chosen not in tiles.name:
            continue
        cases: list[Case] = []
        for sizes in tiles.mutant_shapes or tiles.small:
            inputs = tiles.inputs(sizes)
            expected = tiles.expected(inputs, sizes)
            module = lowered(tiles.name)
            cases.append(Case.of(module, tiles.variant, sizes, inputs, expected))
        found.append(cases)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", action="store_true", help="the kernels of examples/tile")
    parser.add_argument("--arch", help="sm_80 or sm_90a; without it both, and the small kernels")
    parser.add_argument("--small", action="store_true", help="only the kernels written by hand")
    parser.add_argument("--kernel", default="", help="only kernels whose name contains this")
    parser.add_argument("--output", help="a JSON file for the verdicts")
    parser.add_argument("--verbose", action="store_true", help="print every verdict")
    args = parser.parse_args(argv)
    groups: list[list[Case]] = tile_cases(args.kernel) if args.tiles else []
    if not args.small and not args.tiles:
        for arch in [args.arch] if args.arch else ["sm_80", "sm_90a"]:
            groups += gemm_cases(arch, args.kernel)
    if not args.arch and not args.tiles:
        groups += [c for c in small_cases() if args.kernel in str(c[0].kernel)]
    start = time.perf_counter()
    every: list[Verdict] = []
    print(f"{'kernel':<34}{'mutants':>8}{'caught':>8}{'harmless':>10}{'survived':>10}")
    for cases in groups:
        verdicts = judge_all(cases)
        every += verdicts
        count = Counter(v.outcome for v in verdicts)
        arch = cases[0].module.arch.data
        label = f"{cases[0].right.variant}, {arch}"
        print(
            f"{label:<34}{len(verdicts):>8}{count['caught']:>8}{count['harmless']:>10}"
            f"{count['survived']:>10}",
            flush=True,
        )
        for v in verdicts:
            if args.verbose or v.outcome == "survived":
                print(f"    {v.outcome}: {v.mutant} {v.how}", flush=True)
    count = Counter(v.outcome for v in every)
    rate = count["caught"] / max(1, len(every) - count["harmless"])
    print(
        f"{len(every)} mutants, {count['harmless']} harmless, {count['caught']} caught: "
        f"{100 * rate:.1f} % of those that are not harmless, {time.perf_counter() - start:.0f} s"
    )
    if args.output:
        rows = [{"mutant": str(v.mutant), "outcome": v.outcome, "how": v.how} for v in every]
        Path(args.output).write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if not count["survived"] else 1


if __name__ == "__main__":
    sys.exit(main())
