"""Models of PyTorch whole, from ``torch.export`` on, beside eager PyTorch and ``torch.compile``.

    python bench/torch_models.py [--models vit bert] [--batches 1 32] [--peers eager max]
    python bench/torch_models.py --dry [--layers 1]        # no GPU: kernels and modelled times

The models are those of ``bench/torch_zoo.py``, in f16 with random weights.  A model is exported,
imported by ``polyc.from_exported`` and compiled by ``polyc.compile``.  Its outputs are compared
first: by root mean square their error against eager f32 may be twice that of eager f16.  Then all
contestants take turns, each inside of a CUDA graph of whole forwards (``bench/race.py``).

``--dry`` imports and compiles to cubins on any machine, and prints the kernels, what the model of
time says of each, and what runs in loops and why.  ``--layers`` makes that many of a model's
layers, which shows its kernels; ``--small`` makes small configurations.  Each model and batch is a
process of its own; ``--workers`` run at once on each GPU, and share it by a lock while they time.
polyc's kernels are compiled by another process meanwhile, Inductor's candidates by its own
(``TORCHINDUCTOR_COMPILE_THREADS`` a model); a set of candidates is timed with the GPU alone.

Needs PyTorch, timm and transformers; without ``--dry`` an NVIDIA GPU.  Writes bench/results/*.json.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import queue
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp

import polyc
from polyc.bench import graphs, race
from polyc.bench.inductor import QUICK_OPTIONS, tuned_alone
from polyc.bench.race import Contestant
from polyc.bench.torch_zoo import MODELS, Model, Shape
from polyc.cost.device import DEVICES, SHIPPED, Device
from polyc.cost.time import chosen, modelled
from polyc.dialects import region
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.dialects.region.graph import source
from polyc.dialects.tiny import GraphOp
from polyc.importers.imported import Imported
from polyc.passes.pipeline import build
from polyc.rewriting.notes import shown_as_json
from polyc.runtime.lowered import lowered
from polyc.runtime.program import Program
from polyc.tools.pipeline import Compilation, run_pass
from polyc.tools.registry import make_context

ARCH = "sm_90a"
PEERS: Mapping[str, str] = {
    "eager": "eager",
    "default": "torch.compile",
    "max": "torch.compile max-autotune",
    "quick": "torch.compile max-autotune, quick",
}
"""Peers by name; ``quick`` is max-autotune as ``bench/inductor.py`` makes it end in a minute."""

TUNED = "TORCHINDUCTOR_CACHE_DIR"
"""Names the folder of what Inductor compiled and measured; each case has one of its own in it."""


# Without a GPU -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kernel:
    """A region's kernel: its family and variant, and the modelled time, in microseconds."""

    name: str
    family: str
    variant: str
    us: float
    bound: str
    text: str
    """What it reads and gives."""


@dataclass(frozen=True)
class Made:
    """A model's program for an architecture: what runs each time, and once for its parameters."""

    kernels: Sequence[Kernel]
    program: Program | None
    once: int
    """Kernels that run once, when parameters are bound."""
    slow: Sequence[str]
    """What runs in loops and should not, and why."""


def exported(torch: Any, model: Any, inputs: Sequence[Any], name: str) -> tuple[Imported, float]:
    """A module's import, and the seconds that the import took, without the export."""
    with torch.no_grad():
        program = torch.export.export(model, tuple(inputs), strict=False)
        start = time.perf_counter()
        found = polyc.from_exported(program, name)
    return found, time.perf_counter() - start


def planned(module: ModuleOp, device: Device, cubins: bool = True) -> Made:
    """A model's kernels with their modelled times, and its program where cubins are wanted."""
    heard = StringIO()
    with redirect_stderr(heard), shown_as_json(True):
        job = Compilation(make_context(), module.clone(), ARCH)
        job.run("tiny")
        run_pass(job.ctx, build("tiny-split-constants", ARCH), job.module)
        parts = [op for op in job.module.ops if isinstance(op, GraphOp)]
        main = next(op for op in parts if any(spec.made for spec in op.inputs) or len(parts) == 1)
        found = [of for of in parts if of is not main]
        once = Compilation(job.ctx, ModuleOp([of.clone() for of in found]), ARCH).run("plan")
        part = Compilation(job.ctx, ModuleOp([main.clone()]), ARCH, device=device, keep={"plan"})
        part.run("tiles" if cubins else "plan")
    slow: list[str] = []
    for line in heard.getvalue().splitlines():
        note: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if note.get("kind") in ("NoTensorCores", "Recomputed"):
            slow.append(str(note["message"]))
    program = Program(lowered(part.module, lazily=True)) if cubins else None
    kernels = list(kernels_of(part.kept["plan"], device))
    rare = [kernels_of(once.module, device), kernels_of(part.kept["plan"], device, once=True)]
    return Made(kernels, program, sum(len(list(found)) for found in rare), slow)


def kernels_of(module: ModuleOp, device: Device, once: bool = False) -> Iterator[Kernel]:
    """The regions of a module with schedules, in their order: those of each call, or those that
    read parameters alone, such as weights in another order, which a program runs ``once``."""
    plans: dict[str, list[ScheduleOp]] = {}
    kept: set[tuple[str, str]] = set()
    for op in module.ops:
        if isinstance(op, ScheduleOp):
            plans.setdefault(op.region.string_value(), []).append(op)
        elif isinstance(op, region.GraphOp):
            held = (t.name for t in op.inputs if "storage" in t.attributes.data)
            kept |= {(op.sym_name.data, name) for name in held}
    for op in module.ops:
        if not isinstance(op, KernelOp):
            continue
        of_weights = bool(op.ins) and all(source(op, i) in kept for i in range(len(op.ins)))
        if of_weights:
            kept |= {(op.sym_name.data, name.data) for name in op.res_names}
        if of_weights == once and (plan := chosen(plans[op.sym_name.data], {})) is not None:
            time = modelled(op, plan, {}, device)
            us = round(time.seconds * 1e6, 2)
            yield Kernel(time.kernel, plan.pattern or "", time.variant, us, time.bound, text_of(op))


def text_of(kernel: KernelOp) -> str:
    """The shapes of what a region reads and gives, as ``8x16 16 -> 8x16``."""

    def shape(of: Any) -> str:
        return "x".join(str(size) for size in of.shape) or "1"

    reads = " ".join(shape(argument.type) for argument in kernel.body.block.args)
    return f"{reads} -> {' '.join(shape(out) for out in kernel.outs)}"


def dry(model: Model, batch: int, shape: Shape, device: Device, cubins: bool) -> dict[str, Any]:
    """A model's row without a GPU."""
    torch: Any = import_module("torch")
    torch.manual_seed(0)
    inputs = model.inputs(torch, shape, batch)
    module = model.made(shape).half()
    imported, seconds = exported(torch, module, halved(inputs), model.name)
    start = time.perf_counter()
    made = planned(imported.module, device, cubins)
    lowering = time.perf_counter() - start
    spills: dict[str, int] = {}
    if made.program is not None:
        found = made.program.kernels
        spills = {name: info.spill_bytes for name, info in found.items() if info.spill_bytes}
    whole = time.perf_counter() - start
    total = sum(kernel.us for kernel in made.kernels)
    families = Counter(kernel.family for kernel in made.kernels)
    row: dict[str, Any] = {
        "case": f"{model.name} {batch}",
        "model": model.text,
        "layers": shape.layers,
        "small": shape.small,
        "modelled_us": round(total, 1),
        "kernels": len(made.kernels),
        "families": families,
        "once": made.once,
        "in loops": made.slow,
        "spills": spills,
        "import_seconds": round(seconds, 2),
        "lowering_seconds": round(lowering, 2),
        "compile_seconds": round(whole, 2),
        "modelled": [vars(kernel) for kernel in made.kernels],
    }
    said = ", ".join(f"{count} {family}" for family, count in families.items())
    print(f"{row['case']}: {model.text}{'' if shape.layers is None else ', cut'}")
    for kernel in made.kernels:
        print(
            f"  {kernel.us:9.1f} us {kernel.family:9} {kernel.variant:16} {kernel.bound:12} ",
            end="",
        )
        print(f"{kernel.name}: {kernel.text}")
    print(f"  {total:9.1f} us in {len(made.kernels)} kernels ({said}), {made.once} more once")
    print(f"  import {seconds:.1f} s, to plans {lowering:.1f} s, to cubins {whole:.1f} s")
    for line in made.slow:
        print(f"  slow: {line}")
    for name, count in spills.items():
        print(f"  spills: {name} {count} bytes")
    return row


def halved(inputs: Sequence[Any]) -> list[Any]:
    """The inputs with those of f32 in f16."""
    return [x.half() if x.is_floating_point() else x for x in inputs]


# With one ----------------------------------------------------------------------------------------


@contextmanager
def compiled_beside(imported: Imported) -> Generator[Callable[[], object]]:
    """polyc compiles a model in another process, into the store on disk, while the block runs.

    What it gives waits for that.  polyc's compiler is of Python, as most of Inductor is: in one
    process each would wait for the other, also between the launches that Inductor times.
    """
    with tempfile.TemporaryDirectory(prefix="polyc-beside-") as folder:
        text, params = Path(folder) / "model.mlir", Path(folder) / "params.json"
        imported.save(text)
        kinds = {
            name: (str(x.dtype).removeprefix("torch."), list(x.shape))
            for name, x in imported.parameters.items()
        }
        params.write_text(json.dumps(kinds))
        asked = [sys.executable, "-m", "polyc.bench.torch_models", "--beside", folder]
        quiet = subprocess.DEVNULL
        with subprocess.Popen(asked, stdout=quiet, stderr=quiet) as other:
            try:
                yield other.wait
            finally:
                other.kill()


def compile_beside(folder: Path) -> None:
    """What the other process of ``compiled_beside`` does.  It touches no GPU."""
    import_module("torch")  # polyc compiles by the NVRTC that is loaded, which is then the same one
    kinds: Mapping[str, tuple[str, list[int]]] = json.loads((folder / "params.json").read_text())
    # Memory that nothing is written to takes none.
    params = {
        name: np.empty(size, getattr(ml_dtypes, kind, None) or kind)
        for name, (kind, size) in kinds.items()
    }
    polyc.compile(folder / "model.mlir", ARCH, params=params).warm()


def leaves(torch: Any, found: Any) -> list[Any]:
    """The tensors that a model returns."""
    return [x for x in torch.utils._pytree.tree_leaves(found) if isinstance(x, torch.Tensor)]


def off(found: Sequence[Any], wanted: Sequence[Any]) -> float:
    """The largest error by root mean square, in parts of the right values' own."""
    worst = 0.0
    for mine, right in zip(found, wanted, strict=True):
        wide = mine.float()
        if not bool(wide.isfinite().all()):
            return float("inf")
        scale = right.float().pow(2).mean().sqrt().item() or 1.0
        worst = max(worst, (wide - right.float()).pow(2).mean().sqrt().item() / scale)
    return worst


def raced(
    model: Model,
    batch: int,
    shape: Shape,
    peers: Sequence[str],
    rounds: int,
    keep: Callable[[list[dict[str, Any]]], None],
) -> list[dict[str, Any]]:
    """The rows of a model at a batch on the GPU; ``keep`` has them before they are printed."""
    torch = race.load_torch("bench/torch_models.py")
    case = f"{model.name} {batch}"
    torch.manual_seed(0)
    several = [[x.cuda() for x in model.inputs(torch, shape, batch)] for _ in range(2)]
    with torch.device("cuda"):
        module = model.made(shape)
    module = module.cuda().half()
    with torch.no_grad(), race.alone():
        allowed = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        wide = copy.deepcopy(module).float()
        wanted = [x.cpu() for x in leaves(torch, wide(*several[0]))]
        del wide
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = allowed
        torch.cuda.empty_cache()
    several = [halved(inputs) for inputs in several]
    weights = sum(x.numel() * x.element_size() for x in module.state_dict().values())
    imported, importing = exported(torch, module, several[0], model.name)
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}

    def on_copies(call: Callable[..., Any]) -> Callable[[int], object]:
        return lambda i: call(*several[i % len(several)])

    racers: list[Contestant] = []
    facts: dict[str, Any] = {
        "model": model.text,
        "layers": shape.layers,
        "small": shape.small,
        "failed": failed,
        "weights_bytes": weights,
        "import_seconds": round(importing, 2),
    }

    calls: dict[str, Callable[..., Any]] = {}
    with torch.no_grad():
        with compiled_beside(imported) as compiled:
            for peer in (peer for peer in peers if peer != "eager"):
                name = PEERS[peer]
                start = time.perf_counter()
                try:
                    calls[name], got = peer_of(torch, module, peer, several[0])
                    errors[name] = off([x.cpu() for x in leaves(torch, got)], wanted)
                    took = time.perf_counter() - start
                    print(f"{case}: {name} took {took:.1f} s, off {errors[name]:.2e}", flush=True)
                except Exception as error:
                    failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
                    print(f"{case}: {name} failed, {failed[name]}", flush=True)
            compiled()
        start = time.perf_counter()
        ours = polyc.compile(imported)
        program = ours.warm(*several[0]).program(0)
        took, found = time.perf_counter() - start, program.kernels
        facts["spills"] = {name: k.spill_bytes for name, k in found.items() if k.spill_bytes}
        print(f"{case}: from the store {took:.1f} s, spills {facts['spills']}", flush=True)
        with race.alone():
            torch.cuda.empty_cache()
            before = torch.cuda.memory_allocated()
            free, _ = torch.cuda.mem_get_info()
            found = leaves(torch, ours(*several[0]))
            torch.cuda.synchronize()
            allocated = torch.cuda.memory_allocated() - before
            facts["held_bytes"] = free - torch.cuda.mem_get_info()[0] - allocated
            errors["polyc"] = off([x.cpu() for x in found], wanted)
            errors["eager"] = off([x.cpu() for x in leaves(torch, module(*several[0]))], wanted)
            del found
        racers.append(Contestant("polyc", on_copies(ours), False))
        racers.extend(Contestant(name, on_copies(call)) for name, call in calls.items())
        if "eager" in peers:
            racers.append(Contestant("eager", on_copies(module)))
        with race.alone():
            once(torch, racers, rounds)
            facts["kernels_us"] = graphs.kernel_times(torch, on_copies(ours), len(several))
    rows = rows_of(case, racers, errors, facts)
    keep(rows)
    race.print_rows(rows)
    each: list[list[Any]] = facts["kernels_us"]
    print(f"  {len(each)} kernels, {sum(us for _, us in each) / 1e3:.3f} ms", flush=True)
    return rows


def peer_of(
    torch: Any, module: Any, peer: str, inputs: Sequence[Any]
) -> tuple[Callable[..., Any], Any]:
    """A module as ``torch.compile`` makes it, which has compiled and tuned it, and its result."""
    torch._dynamo.reset()
    if peer == "quick":
        call = torch.compile(module, options=dict(QUICK_OPTIONS))
    else:
        call = torch.compile(module, mode="max-autotune-no-cudagraphs" if peer == "max" else None)
    with tuned_alone(peer == "quick"):
        return call, call(*inputs)


def rows_of(
    case: str,
    racers: Sequence[Contestant],
    errors: Mapping[str, float],
    facts: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """The rows of a case; ours, which is the first, has the ``facts`` too."""
    limit = 2 * max(errors["eager"], 2.0**-12)
    best = min((one.median for one in racers if one.peer), default=racers[0].median)
    rows: list[dict[str, Any]] = []
    for one in racers:
        rows.append(
            {
                "case": case,
                "contestant": one.name,
                "peer": one.peer,
                "rate": round(1e3 / one.median, 2),
                "unit": "forwards/s",
                "ratio": round(best / one.median, 4),
                "milliseconds": one.median,
                "milliseconds_min": min(one.milliseconds),
                "milliseconds_max": max(one.milliseconds),
                "error": errors[one.name],
                "error_of_tolerance": errors[one.name] / limit,
                **({} if one.peer else facts),
            }
        )
    return rows


def once(torch: Any, racers: Sequence[Contestant], rounds: int) -> None:
    """Time each contestant in turns, as ``race.measure`` does, with two forwards in a graph."""
    timed = [race.captured(torch, racer.run, 2) for racer in racers]
    replays: list[int] = []
    for graph in timed:
        race.time_batch(torch, graph, 2)
        took = race.time_batch(torch, graph, 2)
        replays.append(max(1, round(race.BATCH_SECONDS * 1e3 / took)))
    for turn in range(rounds):
        for at in race.order(turn, range(len(racers))):
            racers[at].milliseconds.append(race.time_batch(torch, timed[at], replays[at]) / 2)


# All of them -------------------------------------------------------------------------------------


def in_processes(options: argparse.Namespace, cases: Sequence[tuple[str, int]]) -> list[Any]:
    """The rows of each case, of a process each; one that fails or lasts is said and left out."""
    folder = Path(tempfile.mkdtemp(prefix="polyc-models-"))
    gpus = [] if options.dry else gpus_here()
    several = max(1, len(gpus)) * options.workers
    places: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    for at in range(several):
        place: dict[str, str] = {}
        if gpus:
            gpu = gpus[at % len(gpus)]
            place = {"CUDA_VISIBLE_DEVICES": gpu}
            lock = os.environ.get(race.LOCK) or str(folder / "lock")
            place |= {race.LOCK: f"{lock}-{gpu}"} if options.workers > 1 else {}
        places.put(place)
    begun = time.perf_counter()
    rows: list[Any] = []

    def ran(case: tuple[str, int]) -> list[Any]:
        name, batch = case
        left = options.budget - (time.perf_counter() - begun) if options.budget else None
        if left is not None and left <= 0:
            print(f"{name} {batch}: no time was left", flush=True)
            return []
        out = folder / f"{name}-{batch}.json"
        asked = [sys.executable, "-m", "polyc.bench.torch_models", "--one", str(out)]
        asked += [*options.passed, "--models", name, "--batches", str(batch)]
        place = places.get()
        if tuned := os.environ.get(TUNED):
            # Of processes that write to one folder the last one's measurements alone are kept.
            place = {**place, TUNED: os.path.join(tuned, f"{name}-{batch}")}
        try:
            done = subprocess.run(asked, timeout=left, env={**os.environ, **place}, check=False)
        except subprocess.TimeoutExpired:
            print(f"{name} {batch}: stopped, the time is over", flush=True)
            return json.loads(out.read_text()) if out.exists() else []
        finally:
            places.put(place)
        if not out.exists():
            print(f"{name} {batch}: failed with {done.returncode}", flush=True)
            return []
        return json.loads(out.read_text())

    def keep(found: Sequence[Any]) -> None:
        rows.extend(found)
        if options.kept:
            Path(options.kept).write_text(json.dumps(rows, indent=1) + "\n")

    with ThreadPoolExecutor(several) as pool:
        for done in as_completed([pool.submit(ran, case) for case in cases]):
            keep(done.result())
    return sorted(rows, key=lambda row: [f"{n} {b}" for n, b in cases].index(row["case"]))


def gpus_here() -> list[str]:
    """The GPUs that cases are shared over, as ``CUDA_VISIBLE_DEVICES`` names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name for name in named.split(",") if name]
    return [str(i) for i in range(race.load_torch("bench/torch_models.py").cuda.device_count())]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--batches", nargs="+", type=int, help="in place of a model's own")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=["eager", "max"])
    parser.add_argument("--layers", type=int, help="of each model, at full width")
    parser.add_argument("--small", action="store_true", help="small configurations")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--dry", action="store_true", help="without a GPU: kernels and their model")
    parser.add_argument("--no-cubins", action="store_true", help="with --dry: plans alone")
    parser.add_argument("--device", choices=SHIPPED, help="the chip of the model of time")
    parser.add_argument("--workers", type=int, default=1, help="processes at once, on each GPU")
    parser.add_argument("--budget", type=float, help="seconds for all of it")
    parser.add_argument("--kept", help="a file that has the rows as they come")
    parser.add_argument("--cases", nargs="+", metavar="MODEL:BATCH", help="these, in this order")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--beside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--commit", help="what the report calls the commit")
    parser.add_argument("--out", default="bench/results", help="the report's folder, - for none")
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser.parse_args(arguments)
    shape = Shape(options.layers, options.small)
    device = SHIPPED[options.device] if options.device else DEVICES[ARCH]
    if options.beside:
        compile_beside(options.beside)
        return 0
    if options.one:
        (name,), (batch,) = options.models, options.batches

        def keep(rows: list[dict[str, Any]]) -> None:
            Path(options.one).write_text(json.dumps(rows))

        if options.dry:
            rows: list[Any] = [dry(MODELS[name], batch, shape, device, not options.no_cubins)]
        else:
            rows = raced(MODELS[name], batch, shape, options.peers, options.rounds, keep)
        keep(rows)
        return 0
    passed = ["--rounds", str(options.rounds), "--peers", *options.peers]
    for flag, value in {"--layers": options.layers, "--device": options.device}.items():
        passed += [flag, str(value)] if value else []
    for flag in ("small", "dry", "no_cubins"):
        passed += [f"--{flag.replace('_', '-')}"] if getattr(options, flag) else []
    options.passed = passed
    cases = [
        (name, batch)
        for name in options.models
        for batch in options.batches or MODELS[name].batches
    ]
    if options.cases:
        split = (one.partition(":") for one in options.cases)
        cases = [(name, int(batch)) for name, _, batch in split]
    rows = in_processes(options, cases)
    if options.out != "-" and rows:
        if options.dry:
            where = {"date": race.now(), "commit": options.commit or race.commit()}
            where |= {"device": device.name, "capability": "dry"}
        else:
            torch = race.load_torch("bench/torch_models.py")
            where = race.surroundings(torch, options.rounds, options.commit)
        report = {**where, "rows": rows}
        print(f"wrote {race.write_report('torch_models', report, options.out)}")
    wrong = any((row.get("error_of_tolerance") or 0) > 1 for row in rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
