"""What races of random problems share: each problem is a graph with its sizes in it.

For each problem these take turns: what the compiler makes of the graph, ``torch.compile`` in
``--mode``, eager PyTorch and a copy of the bytes that the problem moves at least.  Results are
held against PyTorch's of more bits first.  Programs are built in other processes, and kept on
disk, while the GPU times those before them.  With no GPU there are plans and what the model of
time has for them.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from math import exp, log, prod
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from xdsl.dialects.builtin import ModuleOp

from polyc.bench import race
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp, TensorType
from polyc.tools.load import load

ARCH = "sm_90a"

TYPES = {
    "f16": ("float16", 2),
    "bf16": ("bfloat16", 2),
    "f32": ("float32", 4),
    "ui8": ("uint8", 1),
    "i1": ("bool", 1),
    "i32": ("int32", 4),
    "i64": ("int64", 8),
}
"""PyTorch's name of a type, and its bytes."""

SLOW = 1.5
"""Times a copy's modelled time from which ``--dry`` lists a problem again at its end."""


class Said(Protocol):
    """A problem."""

    @property
    def said(self) -> str:
        """As ``--problems`` takes it."""
        ...


One = TypeVar("One", bound=Said)


def bytes_of(shape: Sequence[int], kind: str) -> int:
    """Of a tensor."""
    return prod(shape) * TYPES[kind][1]


def some_shape(draw: random.Random, rank: int, elements: float) -> list[int]:
    """Sizes of about so many elements, most of those above 8 multiples of 8."""
    cuts = sorted(draw.random() for _ in range(rank - 1))
    shares = [b - a for a, b in zip((0.0, *cuts), (*cuts, 1.0), strict=True)]
    shape = [max(2, round(elements**share)) for share in shares]
    return [n // 8 * 8 if draw.random() < 0.6 and n > 8 else n for n in shape]


def results_of(module: ModuleOp) -> list[tuple[list[int], str]]:
    """The shapes and types of a graph's results."""
    (graph,) = (op for op in module.walk() if isinstance(op, GraphOp))
    output = graph.body.block.last_op
    assert output is not None
    kinds = [one.type for one in output.operands]
    return [
        ([int(str(d)) for d in kind.dims], str(kind.element_type))
        for kind in kinds
        if isinstance(kind, TensorType)
    ]


class Race(ABC, Generic[One]):
    """A kind of problems, and how PyTorch does them.  Goes to other processes as it is."""

    script: ClassVar[str]
    mode = "default"
    """Of ``torch.compile``."""

    @abstractmethod
    def parse(self, text: str) -> One:
        """The problem of what ``--problems`` has.

        Raises:
            ValueError: there is none such
        """

    @abstractmethod
    def drawn(self, seed: int, count: int) -> list[One]:
        """So many random problems."""

    @abstractmethod
    def module(self, problem: One) -> ModuleOp:
        """Its graph."""

    @abstractmethod
    def moved(self, problem: One, results: Sequence[tuple[Sequence[int], str]]) -> int:
        """Bytes that it reads and writes at least."""

    @abstractmethod
    def inputs(self, torch: Any, problem: One) -> list[Any]:
        """Random tensors."""

    @abstractmethod
    def peer(self, torch: Any, problem: One, given: Sequence[Any]) -> Any:
        """What PyTorch computes."""

    @abstractmethod
    def off_by(self, torch: Any, problem: One, given: Sequence[Any], found: Sequence[Any]) -> float:
        """How far results are from what more bits say, of what they may be."""

    def for_peer(self, given: Sequence[Any]) -> list[Any]:
        """The tensors as PyTorch's functions take them."""
        return list(given)

    # Without a GPU -------------------------------------------------------------------------

    def modelled(self, problem: One) -> tuple[float, float, str]:
        """Modelled microseconds of a problem's plans and of a copy of the bytes that it moves, and
        the plans."""
        from polyc.cost.device import device_of
        from polyc.cost.time import times_of
        from polyc.tools.pipeline import Compilation
        from polyc.tools.registry import make_context

        module = self.module(problem)
        results = results_of(module)
        job = Compilation(make_context(), module, ARCH)
        times = times_of(job.run("plan").module, {})
        chip = device_of(ARCH)
        names = ", ".join(f"{t.variant} {t.seconds * 1e6:.0f}" for t in times)
        whole = self.moved(problem, results) / chip.memory + chip.launch
        return sum(t.seconds for t in times) * 1e6, whole * 1e6, names

    def dry(self, asked: Sequence[One]) -> int:
        """Print what would run, and how long by the model beside a copy; the exit code."""
        found: list[tuple[float, str]] = []
        for problem in asked:
            try:
                us, copy, names = self.modelled(problem)
            except PolycError as error:
                print(f"FAILED {problem.said}: {error}", flush=True)
                continue
            found.append((us / copy, f"{us / copy:6.2f} {us:8.1f} us {problem.said}: {names}"))
            print(found[-1][1], flush=True)
        print("slowest by the model:")
        print("\n".join(line for times, line in sorted(found)[::-1] if times > SLOW))
        return 0

    # On the GPU ----------------------------------------------------------------------------

    def compiled(self, torch: Any, problem: One) -> Any:
        """PyTorch's own, a function of the tensors."""
        torch.compiler.reset()

        def peer(*given: Any) -> Any:
            return self.peer(torch, problem, given)

        mode = None if self.mode == "default" else self.mode
        return torch.compile(peer, dynamic=False, mode=mode)

    def make(self, problem: One) -> str:
        """Build ours and theirs, kept on disk; what went wrong with theirs."""
        load(self.module(problem), ARCH).kernels  # noqa: B018  compiled where it is first asked for
        try:
            torch = _torch(self.script)
            with torch.cuda.stream(torch.cuda.Stream()):
                given = self.for_peer(self.inputs(torch, problem))
                self.compiled(torch, problem)(*given)
            del given
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception as error:  # Theirs is then timed without it.
            return str(error)[:200]
        return ""

    def raced(self, torch: Any, problem: One, fault: str) -> dict[str, Any]:
        """The row of a problem."""
        module = self.module(problem)
        results = results_of(module)
        whole = self.moved(problem, results)
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        copies = min(4, race.copies_for(whole, l2_bytes))
        sets = [self.inputs(torch, problem) for _ in range(copies)]
        outs = [
            [
                torch.empty(shape, device="cuda", dtype=getattr(torch, TYPES[kind][0]))
                for shape, kind in results
            ]
            for _ in sets
        ]
        program = load(module, ARCH)
        launches = [program.launch(x, o, {}) for x, o in zip(sets, outs, strict=True)]
        run = race.in_turns(torch, launches)
        run(0)
        torch.cuda.synchronize()
        off = self.off_by(torch, problem, sets[0], outs[0])
        if off > 1:
            print(f"WRONG {problem.said} by {off:.3g} of the tolerance", flush=True)
        spare = [torch.empty(whole // 2, device="cuda", dtype=torch.uint8) for _ in range(2)]
        theirs_given = [self.for_peer(x) for x in sets]

        def eager(i: int) -> None:
            self.peer(torch, problem, theirs_given[i % copies])

        def copy(_: int) -> None:
            spare[0].copy_(spare[1])

        runs: list[Callable[[int], object]] = [run, copy, eager]
        if not fault:
            theirs = self.compiled(torch, problem)
            theirs(*theirs_given[0])

            def inductor(i: int) -> None:
                theirs(*theirs_given[i % copies])

            runs.append(inductor)
        us = race.paced(torch, runs, copies)
        names = ("own", "copy", "eager", "torch.compile")[: len(us)]
        row: dict[str, Any] = {"problem": problem.said, "off": off, "fault": fault}
        row |= {f"{name}_us": one for name, one in zip(names, us, strict=True)}
        row["kernels"] = list(program.kernels)
        row["spills"] = sum(k.spill_bytes for k in program.kernels.values())
        row["ratio"] = min(us[2:]) / us[0]
        return row

    def main(self, doc: str, argv: Sequence[str] | None = None) -> int:
        """The benchmark's command; its exit code, 1 where a result was wrong."""
        parser = race.regret_options(doc, 60, 0, 0)
        parser.add_argument("--problems", nargs="+", type=self.parse)
        parser.add_argument("--mode", default=self.mode, help="of torch.compile")
        parser.add_argument("--dry", action="store_true")
        args = parser.parse_args(argv)
        self.mode = args.mode
        asked = race.part_of(args.problems or self.drawn(args.seed, args.count), args.part)
        if args.dry:
            return self.dry(asked)
        rows = race.regrets(args, self.script, asked, self.make, self.raced, line, "spawn")
        print("slowest beside the better peer:")
        for row in sorted(rows, key=lambda row: row["ratio"])[:12]:
            print(f"  {line(row)}")
        if rows:
            mean = exp(sum(log(row["ratio"]) for row in rows) / len(rows))
            least = min(row["ratio"] for row in rows)
            found = f"geometric mean {mean:.2f} of the better peer, least {least:.2f}"
            print(f"{len(rows)} problems: {found}")
        return 1 if any(row["off"] > 1 for row in rows) else 0


@cache
def _torch(script: str) -> Any:
    torch = race.load_torch(script)
    torch._inductor.config.compile_threads = 1
    return torch


def line(row: dict[str, Any]) -> str:
    """A row as text."""
    theirs = row.get("torch.compile_us")
    beside = f"torch.compile {theirs:.1f}" if theirs else f"no torch.compile ({row['fault'][:60]})"
    return (
        f"{row['ratio']:5.2f} {row['problem']}: own {row['own_us']:.1f}, "
        f"copy {row['copy_us']:.1f}, eager {row['eager_us']:.1f}, {beside} "
        f"| {', '.join(row['kernels'])}"
    )
