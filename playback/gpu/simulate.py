"""``simulate``: run a ``gpu.module`` as its host would, on NumPy, and say what is wrong with it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Attribute, Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.launches import LaunchOp, SequenceOp, why_crowded
from polyc.dialects.gpu.module import DispatchOp, ModuleOp, gpu_module_of
from polyc.dialects.gpu.types import GlobalType, TensorMapType
from polyc.playback import functions
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.clocks import NEVER
from polyc.playback.gpu.counters import Counters
from polyc.playback.gpu.cta import Cluster
from polyc.playback.gpu.findings import Finding, Report
from polyc.playback.gpu.im2col import Im2colMap
from polyc.playback.gpu.record import Event, Timeline, Trace
from polyc.playback.gpu.schedule import SCHEDULES, Running, Scheduler
from polyc.playback.gpu.storage import GlobalTensor, TensorMap
from polyc.playback.gpu.translate import translate
from polyc.playback.gpu.warp import Warp

Array = NDArray[Any]

COMPLETIONS = ("late", "early", "random")
"""When asynchronous operations complete.

``late`` is only when nothing can go on without them (cp.async: at the wait), ``early`` the
moment that they are issued, ``random`` at any time between.
"""

BASE = 0x7F00_0000_0000
"""Where the first tensor lies; each has 2^32 bytes to itself."""

MULTIPROCESSORS = 2
"""Of the simulated chip: what persistent kernels share their work among."""


@dataclass
class SimulationResult:
    """What a simulated launch gave.

    ``variant`` is the kernel or the sequence that ran, None where every output is empty;
    ``launches`` its kernels with their CTAs, ``grid`` all of these.  ``findings`` is what is
    wrong with it, none for a right kernel.  ``fingerprint`` stands for all accesses of memory
    and their happens-before, ``events`` are the timeline of CTA 0; both only on request.
    """

    outputs: list[Array]
    counters: Counters
    findings: list[Finding]
    variant: str | None
    grid: int
    seconds: float
    fingerprint: int | None = None
    events: list[Event] = field(default_factory=list[Event])
    launches: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def check(self) -> None:
        """Raise the first finding as a PolycError; the others are its notes."""
        if self.findings:
            error = self.findings[0].error()
            more = [f.error().format().split("\n")[0] for f in self.findings[1:]]
            raise PolycError(error.kind, error.message, error.place, [*error.notes, *more])


def choose_variant(
    module: ModuleOp,
    symbols: Mapping[str, int],
    addresses: Sequence[int],
    wanted: str | None,
    multiprocessors: int,
) -> LaunchOp | SequenceOp:
    """The first variant of the dispatch whose conditions hold, as the runtime takes it.

    CTAs that wait for each other must fit on the chip together.

    Raises PolycError ``NoVariant``, with what each variant refuses, or ``BadArgument``.
    """
    reasons: list[str] = []
    variants = module.dispatch().variants()
    for variant in variants:
        name = variant.variant_name
        if wanted is not None and name != wanted:
            continue
        broken = [str(fact) for fact in variant.facts.data if not fact.holds(symbols)]
        aligned = all(
            not align or address % align == 0
            for align, address in zip(variant.alignments, addresses, strict=True)
        )
        crowded = None if broken else why_crowded(variant, symbols, multiprocessors)
        if not broken and aligned and crowded is None:
            return variant
        reason = f"{broken[0]} does not hold" if broken else crowded or "alignment"
        reasons.append(f"{name}: {reason}")
    if wanted is not None and not reasons:
        known = ", ".join(dict.fromkeys(v.variant_name for v in variants))
        raise PolycError("BadArgument", f"there is no kernel {wanted!r}; there are {known}")
    raise PolycError(
        "NoVariant",
        f"no kernel of {module.sym_name.data} takes {_sizes(symbols)}",
        module,
        notes=reasons,
    )


def _sizes(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in symbols.items())


def _shape(kind: GlobalType, symbols: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dim.evaluate(symbols) for dim in kind.dims)


def _tensors(
    dispatch: DispatchOp, inputs: Sequence[Array], symbols: Mapping[str, int], alignment: int
) -> list[GlobalTensor]:
    """The signature's tensors in global memory; outputs are poison until they are written."""
    count = dispatch.num_inputs.value.data
    names = [n.data for n in dispatch.arg_names]
    if len(inputs) != count:
        raise PolycError(
            "BadArgument",
            f"the program takes {count} inputs ({', '.join(names[:count])}), {len(inputs)} are "
            "given",
        )
    tensors: list[GlobalTensor] = []
    for i, (name, kind) in enumerate(zip(names, dispatch.arg_types, strict=True)):
        dtype, shape = functions.dtype_of(kind.element_type), _shape(kind, symbols)
        if i < count:
            array = np.asarray(inputs[i], order="C")
            if array.shape != shape or array.dtype != dtype:
                raise PolycError(
                    "BadArgument",
                    f"{name} is {list(shape)} of {dtype}, and {list(array.shape)} of "
                    f"{array.dtype} is given",
                )
        else:
            array = np.empty(shape, dtype)
            array.reshape(-1).view(np.uint8).fill(0xFF)
        # Kernels have integers without a sign, as this machine has them signed.
        array = array.view(dtype_of(kind.element_type))
        base = BASE + (i << 32) + alignment % 256
        tensors.append(GlobalTensor(name, array, base, "output" if i >= count else "input"))
    return tensors


def _workspaces(
    variant: LaunchOp | SequenceOp, symbols: Mapping[str, int], tensors: Sequence[GlobalTensor]
) -> tuple[dict[str, GlobalTensor], dict[str, tuple[int, ...]]]:
    """The workspaces of a variant by name, poison or zeros, behind its ``tensors``.

    One that copies a tensor, where that needs no copy, is it; the second part has their shapes.
    """
    found: dict[str, GlobalTensor] = {}
    same: dict[str, tuple[int, ...]] = {}
    for i, workspace in enumerate(variant.workspaces(), len(tensors)):
        name, kind = workspace.sym_name.data, workspace.type
        if (copies := workspace.copies) is not None:
            index = copies.tensor_index
            source = found[copies.workspace_name or ""] if index is None else tensors[index]
            if workspace.is_source(prod(source.shape), source.base, symbols):
                found[name], same[name] = source, _shape(kind, symbols)
                continue
        array = np.empty(_shape(kind, symbols), dtype_of(kind.element_type))
        array.reshape(-1).view(np.uint8).fill(0 if workspace.zeroed is not None else 0xFF)
        tensor = GlobalTensor(name, array, BASE + (i << 32), "workspace")
        tensor.track()
        if workspace.zeroed is not None and tensor.shadow is not None:
            tensor.shadow.fill()
        found[name] = tensor
    return found, same


def _argument(
    binding: BindAttr,
    argument: Attribute,
    tensors: Sequence[GlobalTensor],
    workspaces: Mapping[str, GlobalTensor],
    same: Mapping[str, tuple[int, ...]],
    symbols: Mapping[str, int],
) -> object:
    if (symbol := binding.symbol_name) is not None:
        return symbols[symbol]
    index, name = binding.tensor_index, binding.workspace_name
    tensor = tensors[index] if index is not None else workspaces[name or ""]
    sizes = binding.view_dims
    view = same.get(name or "")
    if sizes is not None:
        view = tuple(size.evaluate(symbols) for size in sizes)
    if isinstance(argument, Im2colMapType):
        return Im2colMap(
            tensor,
            argument.sizes,
            argument.swizzle.data,
            argument.lower_corner,
            argument.upper_corner,
            argument.steps,
            view=view,
            rounds=argument.rounds,
        )
    if isinstance(argument, TensorMapType):
        sizes, span = argument.sizes, argument.swizzle.data
        return TensorMap(tensor, sizes, span, view=view, rounds=argument.rounds)
    return tensor


@dataclass(frozen=True)
class _Options:
    """How a launch runs."""

    schedule: str
    seed: int
    completion: str
    progress: Callable[[int, int], None] | None


def check_options(schedule: str, completion: str) -> None:
    """Raises PolycError of kind ``Usage`` for a schedule or completion that there is not."""
    for what, value, known in (
        ("schedule", schedule, SCHEDULES),
        ("completion", completion, COMPLETIONS),
    ):
        if value not in known:
            raise PolycError("Usage", f"there is no {what} {value!r}; use {', '.join(known)}")


def simulate(
    gpu_module: Operation,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    variant: str | None = None,
    schedule: str = "round-robin",
    seed: int = 0,
    completion: str = "late",
    alignment: int = 256,
    progress: Callable[[int, int], None] | None = None,
    fingerprint: bool = False,
    timeline: bool = False,
    multiprocessors: int = MULTIPROCESSORS,
) -> SimulationResult:
    """Run a ``gpu.module`` at hardware level on ``inputs`` with the sizes ``symbols``.

    The variant is chosen by the dispatch as the runtime does, with tensors at multiples of
    ``alignment`` bytes, or is ``variant``, whose conditions must hold too.  ``multiprocessors``
    bounds the grids of persistent kernels; it is small, so that each CTA has several pieces of
    work.  ``schedule`` and ``completion`` choose the interleaving, and with ``seed`` a run
    repeats exactly.
    ``progress`` is called with the CTAs done and in all.  ``fingerprint`` and ``timeline`` ask
    for those parts of the result.

    Raises PolycError for inputs that do not fit, sizes that no kernel takes, and ops that the
    simulator does not have; faults of the kernel are findings.
    """
    check_options(schedule, completion)
    start = time.perf_counter()
    module = gpu_module_of(gpu_module)
    dispatch = module.dispatch()
    tensors = _tensors(dispatch, inputs, symbols, alignment)
    outputs = [t for t in tensors if t.role == "output"]
    counters, report = Counters(), Report()
    result = SimulationResult([], counters, report.findings, None, 0, 0.0)
    if not all(t.size == 0 for t in outputs):
        chosen = choose_variant(
            module, symbols, [t.base for t in tensors], variant, multiprocessors
        )
        result.variant = chosen.variant_name
        workspaces, same = _workspaces(chosen, symbols, tensors)
        kernels = {k.sym_name.data: k for k in module.kernels()}
        options = _Options(schedule, seed, completion, progress)
        runs = _Runs(result, report, options, fingerprint, timeline)
        kernel: KernelOp | None = None
        for launch in chosen.launches():
            if launch.fills_name in same:
                continue
            kernel = kernels[launch.kernel_name]
            grid = launch.blocks(symbols, multiprocessors, kernel)
            if grid == 0 and launch.sequence is not None:
                continue
            arguments = [
                _argument(launch.bound(bind), argument.type, tensors, workspaces, same, symbols)
                for bind, argument in zip(kernel.bindings, kernel.body.block.args, strict=True)
            ]
            with np.errstate(all="ignore"):
                together = launch.cooperative is not None
                every = dict.fromkeys((*tensors, *workspaces.values()))
                runs.run(kernel, arguments, grid, list(every), together)
        runs.finish()
        if kernel is not None:
            _unwritten(kernel, outputs, report)
    stored = [functions.dtype_of(kind.element_type) for kind in dispatch.arg_types]
    result.outputs = [
        t.data.reshape(t.shape).view(dtype)
        for t, dtype in zip(outputs, stored[len(tensors) - len(outputs) :], strict=True)
    ]
    result.seconds = time.perf_counter() - start
    return result


class _Runs:
    """The launches of one variant, one after another."""

    def __init__(
        self,
        result: SimulationResult,
        report: Report,
        options: _Options,
        fingerprint: bool,
        timeline: bool,
    ) -> None:
        self.result, self.report, self.options = result, report, options
        self.trace = Trace() if fingerprint else None
        self.timeline = Timeline() if timeline else None

    def run(
        self,
        kernel: KernelOp,
        arguments: Sequence[object],
        grid: int,
        tensors: Sequence[GlobalTensor],
        together: bool = False,
    ) -> None:
        """Run ``grid`` CTAs of ``kernel``, a cluster at a time or all ``together``.

        ``tensors`` are all that there are.
        """
        report, options, counters = self.report, self.options, self.result.counters
        body, info = translate(kernel)
        if together:
            info = replace(info, cluster=grid, gang="grid")
        report.kernel = info.name
        stored: set[int] = set()
        for i, argument in enumerate(arguments):
            tensor = argument.tensor if isinstance(argument, TensorMap) else argument
            if isinstance(tensor, GlobalTensor) and i in info.stored:
                tensor.track()
                stored.add(id(tensor))
        for tensor in tensors:
            if tensor.shadow is not None:
                tensor.shadow.settle(id(tensor) in stored)
        for argument in arguments:
            if isinstance(argument, TensorMap) and (fault := argument.fault()) is not None:
                report.add("DescriptorMisaligned", f"a tensor map cannot be made: {fault}", kernel)
                return
        if grid % info.cluster:
            raise PolycError(
                "BadGrid",
                f"{info.name} has clusters of {info.cluster} CTAs, and a grid of {grid} is no "
                "multiple of that; round the dispatch's grid up",
                kernel,
            )
        self.result.launches.append((info.name, grid))
        self.result.grid += grid
        for number in range(grid // info.cluster):
            dice = random.Random(f"{options.seed} {number}")
            cluster = Cluster(
                info,
                number,
                counters,
                report,
                options.completion,
                dice,
                self.trace,
                self.timeline,
                grid,
            )
            warps = [Warp(cta, i) for cta in cluster.ctas for i in range(info.warps)]
            running = [Running(warp.core, body(warp, *arguments)) for warp in warps]
            Scheduler(options.schedule, options.seed, dice).run(cluster, running)
            cluster.finish()
            for warp in warps:
                warp.finish()
            counters.ctas += info.cluster
            counters.threads += info.cluster * info.threads
            if options.progress is not None:
                options.progress((number + 1) * info.cluster, grid)

    def finish(self) -> None:
        """Give the result what was asked for besides it."""
        if self.trace is not None:
            self.result.fingerprint = self.trace.total
        if self.timeline is not None:
            self.result.events = self.timeline.events


def _unwritten(kernel: KernelOp, outputs: Sequence[GlobalTensor], report: Report) -> None:
    for tensor in outputs:
        tensor.track()
        assert tensor.shadow is not None
        missing = np.nonzero(tensor.shadow.cluster == NEVER)[0]
        if missing.size:
            report.add(
                "Unwritten",
                f"{missing.size} of {tensor.size} elements of the output {tensor.name} are never "
                f"written, the first is {tensor.element_text(int(missing[0]))}",
                kernel,
                None,
                (),
                "global",
                tensor.base + int(missing[0]) * tensor.itemsize,
            )
