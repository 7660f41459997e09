"""A compiled graph: code for one architecture, and its launches on tensors.

``Program`` holds a ``gpu.module`` with its cubin.  ``run`` reads the symbols from the
tensors' shapes, takes the first variant of the dispatch whose conditions hold, and binds
its arguments.  What was checked and bound is kept by shapes, types and alignments, so that
the next call with PyTorch tensors of the same kind looks at their addresses alone (J4).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import MAX_SIZE, Shape
from polyc.dialects.gpu.module import DispatchOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.gpu.types import GlobalType
from polyc.runtime import driver, nvrtc, tensors
from polyc.runtime.nvrtc import CompileResult, KernelInfo
from polyc.runtime.tensors import TensorView
from polyc.runtime.variants import Bound, Plan, Variant, arena, values_text

CALLS_KEPT = 256
"""Plans and signatures of calls that a program keeps, the oldest going first."""


@dataclass(slots=True)
class _Call:
    """A call on PyTorch tensors that was checked once, for those of the same signature.

    ``plan`` is None where nothing is launched; ``sizes`` are the tensors' bytes, ``fresh`` the
    shapes and types of outputs that the call allocates.
    """

    plan: Plan | None
    index: int
    sizes: list[int]
    fresh: list[tuple[tuple[int, ...], str]]
    device: object


class Program:
    """One graph compiled for one architecture.

    Make one with ``Program.compile``.  ``result`` is the cubin with the compiler's log,
    ``seconds`` the time that NVRTC took.
    """

    def __init__(self, module: GpuModuleOp, source: str) -> None:
        self.module = module
        self.source = source
        self.arch = module.arch.data
        self.name = module.sym_name.data
        self.symbols = module.symbol_names
        self.facts = module.assumptions.data
        start = time.perf_counter()
        self.result: CompileResult = nvrtc.compile_cuda(source, self.arch, name=f"{self.name}.cu")
        self.seconds = time.perf_counter() - start
        dispatch: DispatchOp = module.dispatch()
        count = dispatch.num_inputs.value.data
        self.names = [n.data for n in dispatch.arg_names]
        self.types: list[GlobalType] = list(dispatch.arg_types)
        self.num_inputs = count
        self._align = [_promised(attrs.data.get("align")) for attrs in dispatch.arg_attrs]
        kernels = {k.sym_name.data: k for k in module.kernels()}
        self._variants = [Variant(op, kernels) for op in dispatch.variants()]
        self._modules: dict[int, driver.Module] = {}
        self._plans: dict[object, Plan] = {}
        self._calls: dict[object, _Call] = {}
        aligns = [a for v in self._variants for a in v.align if a > 0]
        self._period = lcm(256, *aligns, *(a for a in self._align if a > 0))

    @classmethod
    def compile(cls, module: Operation, name: str | None = None) -> Program:
        """Compile a ``gpu.module``, or the one in a builtin module.

        A module at tile level is lowered first, in a copy.  ``name`` picks one of several.
        Needs no GPU.  Raises PolycError.
        """
        from polyc.lowering.gpu_to_cuda import cuda_source
        from polyc.passes.finish import finished

        found = finished(gpu_module(module, name))
        return cls(found, cuda_source(found))

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants in order of dispatch: kernels, and sequences of them, by name."""
        return tuple(variant.name for variant in self._variants)

    @property
    def kernels(self) -> Mapping[str, KernelInfo]:
        """Registers, spills and static shared memory of each kernel."""
        return self.result.kernels

    # Running

    def run(
        self,
        inputs: Sequence[object],
        symbols: Mapping[str, int] | None = None,
        out: Sequence[object] | None = None,
        gpu_index: int | None = None,
        variant: str | None = None,
    ) -> list[object]:
        """Run on ``inputs`` and return the outputs, in the order of the signature.

        Tensors are NumPy arrays (copied to the GPU ``gpu_index`` and back; 0 by default) or
        DLPack tensors on one GPU (used in place, on PyTorch's current stream).  Outputs are
        allocated like the first input, or written to ``out``.  ``symbols`` gives the sizes
        that no shape shows.  ``variant`` names the kernel to run, for tests and timing;
        its conditions must hold too.

        Raises PolycError for a tensor that does not fit the signature, for sizes that no
        variant takes, and when there is no GPU.
        """
        given = tuple(symbols.items()) if symbols else None
        key = (variant, len(inputs), out is None, given)
        if (repeated := self._repeat(inputs, out, key)) is not None:
            return repeated
        views = self._views(inputs, 0, self.num_inputs, "inputs")
        if out is None:
            values = self._bind(views, symbols)
            outputs = self._outputs(inputs, values)
        else:
            outputs = list(out)
        results = self._views(outputs, self.num_inputs, len(self.names), "outputs")
        values = self._bind([*views, *results], symbols)
        self._check_apart(views, results)
        homes = {view.gpu for view in (*views, *results)}
        if len(homes) > 1:
            raise PolycError(
                "DeviceMismatch",
                "the tensors are in different memories ("
                + ", ".join(f"{n}: {_home(v)}" for n, v in self._named([*views, *results]))
                + "); move them to one",
            )
        home = next(iter(homes), None)
        plan: Plan | None = None
        if not all(view.size == 0 for view in results):
            index = (gpu_index or 0) if home is None else home
            driver.activate(index)
            if home is None:
                self._run_from_host(index, views, results, values, variant)
            else:
                plan = self._plan(index, [*views, *results], values, variant)
                pointers = [view.pointer for view in (*views, *results)]
                _launch(plan, index, pointers)
        if home is not None:
            self._remember(inputs, out, key, plan, home, [*views, *results])
        return outputs

    def _repeat(
        self, inputs: Sequence[object], out: Sequence[object] | None, key: object
    ) -> list[object] | None:
        """Run a call like one that was checked before; None where there was none.

        Everything that was checked depends on the signature, but for outputs that overlap other
        tensors.
        """
        found = tensors.torch_signature(inputs if out is None else [*inputs, *out], self._period)
        if found is None:
            return None
        signature, pointers = found
        call = self._calls.get((signature, key))
        if call is None:
            return None
        if out is None:
            outputs = [tensors.torch_empty(*one, call.device) for one in call.fresh]
            fresh = tensors.torch_signature(outputs, self._period)
            assert fresh is not None
            if any(pointer % self._period for pointer in fresh[1]):
                return None
            pointers += fresh[1]
        else:
            outputs = list(out)
            for i in range(self.num_inputs, len(pointers)):
                start, end = pointers[i], pointers[i] + call.sizes[i]
                for j in range(i):
                    if start < pointers[j] + call.sizes[j] and pointers[j] < end:
                        return None
        if call.plan is not None:
            driver.activate(call.index)
            _launch(call.plan, call.index, pointers)
        return outputs

    def _remember(
        self,
        inputs: Sequence[object],
        out: Sequence[object] | None,
        key: object,
        plan: Plan | None,
        index: int,
        views: Sequence[TensorView],
    ) -> None:
        """Keep a call that was checked, for ``_repeat``."""
        found = tensors.torch_signature(inputs if out is None else [*inputs, *out], self._period)
        if found is None:
            return
        made: Sequence[TensorView] = views[self.num_inputs :] if out is None else ()
        if any(view.pointer % self._period for view in made):
            return
        device = cast("Any", inputs[0]).device if inputs else None
        fresh = [(view.shape, view.element) for view in made]
        call = _Call(plan, index, [view.bytes for view in views], fresh, device)
        _keep(self._calls, (found[0], key), call)

    def launch(
        self,
        inputs: Sequence[object],
        out: Sequence[object],
        symbols: Mapping[str, int] | None = None,
        variant: str | None = None,
    ) -> Bound:
        """The variant bound to GPU tensors; ``run(stream)`` is one C call a launch (J4).

        The caller keeps the tensors alive.  Workspaces are the bound variant's own.  Raises
        PolycError as ``run`` does, also for empty outputs, which need no launch.
        """
        views = self._views(inputs, 0, self.num_inputs, "inputs")
        results = self._views(out, self.num_inputs, len(self.names), "outputs")
        values = self._bind([*views, *results], symbols)
        self._check_apart(views, results)
        home = views[0].gpu if views else results[0].gpu
        if home is None or any(view.gpu != home for view in (*views, *results)):
            raise PolycError("DeviceMismatch", "a launch is bound to tensors on one GPU")
        if all(view.size == 0 for view in results):
            raise PolycError("BadArgument", "the outputs are empty; there is nothing to launch")
        driver.activate(home)
        every = [*views, *results]
        plan = self._choose(home, every, values, variant).plan(
            every, values, driver.device(home), self._loaded(home).function
        )
        return Bound(plan, [view.pointer for view in every])

    def chosen(self, symbols: Mapping[str, int]) -> str | None:
        """The variant that runs at these sizes when every tensor is aligned, or None."""
        for found in self._variants:
            if all(fact.holds(symbols) for fact in found.facts):
                return found.name
        return None

    def _named(self, views: Sequence[TensorView]) -> list[tuple[str, TensorView]]:
        return list(zip(self.names, views, strict=True))

    def _views(self, given: Sequence[object], start: int, stop: int, what: str) -> list[TensorView]:
        if len(given) != stop - start:
            raise PolycError(
                "BadArgument",
                f"{self.name} takes {stop - start} {what} "
                f"({', '.join(self.names[start:stop])}), {len(given)} are given",
            )
        views: list[TensorView] = []
        for i, tensor in enumerate(given, start):
            name, kind = self.names[i], self.types[i]
            view = tensors.view(tensor, name)
            tensors.check(view, name, str(kind.element_type), len(kind.dims), self._align[i])
            views.append(view)
        return views

    def _bind(self, views: Sequence[TensorView], given: Mapping[str, int] | None) -> dict[str, int]:
        """The symbols' values from the first tensors of the signature, checked."""
        shapes: list[tuple[str, Shape, tuple[int, ...]]] = [
            (name, kind.dims, view.shape)
            for name, kind, view in zip(self.names, self.types, views, strict=False)
        ]
        values = tensors.bind_symbols(shapes, given, self.symbols)
        for fact in self.facts:
            if not fact.holds(values):
                raise PolycError(
                    "AssumptionBroken",
                    f"{self.name} was compiled assuming {fact}, and {values_text(values)}",
                )
        sizes = [
            *values.items(),
            *((f"dimension {axis} of {n}", v) for n, _, s in shapes for axis, v in enumerate(s)),
        ]
        for what, value in sizes:
            if value > MAX_SIZE:
                raise PolycError(
                    "BadArgument",
                    f"{what} is {value}; kernels index with 32 bits, sizes up to {MAX_SIZE}",
                )
        return values

    def _check_apart(self, inputs: Sequence[TensorView], outputs: Sequence[TensorView]) -> None:
        """An output overlaps no other tensor: kernels read and write in any order."""
        views = [*inputs, *outputs]
        for i, out in enumerate(outputs, len(inputs)):
            for j, other in enumerate(views[:i]):
                if (
                    out.pointer < other.pointer + other.bytes
                    and other.pointer < out.pointer + out.bytes
                ):
                    raise PolycError(
                        "Overlap",
                        f"{self.names[i]} and {self.names[j]} share memory; give the output its "
                        "own",
                    )

    def _outputs(self, inputs: Sequence[object], values: Mapping[str, int]) -> list[object]:
        """Uninitialised outputs of the library that the first input is of."""
        example = inputs[0] if inputs else None
        return [
            tensors.empty_like_input(
                example, [dim.evaluate(values) for dim in kind.dims], str(kind.element_type)
            )
            for kind in self.types[self.num_inputs :]
        ]

    def _run_from_host(
        self,
        index: int,
        views: Sequence[TensorView],
        results: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
    ) -> None:
        buffers = [driver.Buffer(view.bytes) for view in (*views, *results)]
        for view, buffer in zip(views, buffers, strict=False):
            buffer.upload(view.pointer)
        moved = [
            TensorView(buffer.pointer, view.shape, view.strides, view.element, index, buffer)
            for view, buffer in zip((*views, *results), buffers, strict=True)
        ]
        plan = self._plan(index, moved, values, variant)
        _launch(plan, index, [buffer.pointer for buffer in buffers], 0)
        driver.synchronize()
        for view, buffer in zip(results, buffers[len(views) :], strict=True):
            buffer.download(view.pointer)

    def _plan(
        self,
        index: int,
        views: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
    ) -> Plan:
        """The plan for tensors of these shapes and alignments, made once."""
        chosen = self._choose(index, views, values, variant)
        residues = tuple(view.pointer % self._period for view in views)
        shapes = tuple(view.shape for view in views)
        key = (index, chosen.name, tuple(values.items()), shapes, residues)
        if (known := self._plans.get(key)) is not None:
            return known
        plan = chosen.plan(views, values, driver.device(index), self._loaded(index).function)
        _keep(self._plans, key, plan)
        return plan

    def _choose(
        self,
        index: int,
        views: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
    ) -> Variant:
        """The first variant that takes these tensors on GPU ``index``."""
        reasons: list[str] = []
        for found in self._variants:
            if variant is not None and found.name != variant:
                continue
            reason = found.refuses(values, views)
            if reason is None:
                reason = found.crowded(values, driver.device(index), self._loaded(index).function)
            if reason is None:
                return found
            reasons.append(f"{found.name}: {reason}")
        if not reasons:
            raise PolycError(
                "BadArgument",
                f"{self.name} has no kernel {variant!r}; it has "
                + ", ".join(dict.fromkeys(self.variants)),
            )
        raise PolycError(
            "NoVariant", f"no kernel of {self.name} takes {values_text(values)}", notes=reasons
        )

    def _loaded(self, index: int) -> driver.Module:
        """The code on GPU ``index``, loaded once."""
        if index not in self._modules:
            self._modules[index] = driver.Module(self._image(driver.device(index)), index)
        return self._modules[index]

    def _image(self, device: driver.Device) -> bytes:
        """Code that ``device`` runs.

        A chip later than the target runs the target's source compiled for itself, or PTX
        where NVRTC does not know it (S0.1); the ``a`` of ``sm_90a`` excludes that.
        """
        if device.runs(self.arch):
            return self.result.image
        major, minor = device.capability
        number = self.arch.removeprefix("sm_")
        if number.endswith("a") or (major, minor) < (int(number[:-1]), int(number[-1])):
            raise PolycError(
                "ArchMismatch",
                f"{self.name} is compiled for {self.arch}, and GPU {device.index} "
                f"({device.name}) is sm_{major}{minor}; compile for an architecture that it runs",
            )
        try:
            return nvrtc.compile_cuda(self.source, f"sm_{major}{minor}").image
        except PolycError:
            return nvrtc.compile_cuda(self.source, self.arch, "ptx").image


def gpu_module(module: Operation, name: str | None = None) -> GpuModuleOp:
    """The ``gpu.module`` that ``module`` is or holds; raises PolycError when not just one."""
    if isinstance(module, GpuModuleOp):
        return module
    if not isinstance(module, ModuleOp):
        raise PolycError("NothingToRun", f"{module.name} is not a gpu.module", module)
    found = [
        op
        for op in module.body.block.ops
        if isinstance(op, GpuModuleOp) and name in (None, op.sym_name.data)
    ]
    if len(found) != 1:
        names = ", ".join(op.sym_name.data for op in found) or "none"
        raise PolycError(
            "NothingToRun",
            f"expected one gpu.module{'' if name is None else ' ' + name}, found {names}; "
            "run lower-to-gpu, and name one of several",
        )
    return found[0]


def _promised(attr: object) -> int:
    return attr.value.data if isinstance(attr, IntegerAttr) else 0


def _home(view: TensorView) -> str:
    return "host" if view.gpu is None else f"GPU {view.gpu}"


T = TypeVar("T")


def _keep(kept: dict[object, T], key: object, value: T) -> None:
    kept[key] = value
    if len(kept) > CALLS_KEPT:
        kept.pop(next(iter(kept)), None)


def _launch(plan: Plan, index: int, pointers: Sequence[int], stream: int | None = None) -> None:
    """Run a plan at these addresses, on PyTorch's current stream where none is given."""
    if stream is None:
        stream = tensors.current_stream(index)
    if not plan.size:
        with plan.lock:
            plan.place(pointers, 0)
            plan.run(stream)
        return
    space = arena(index, stream)
    with space.lock, plan.lock:
        plan.place(pointers, space.pointer(plan.size))
        plan.run(stream)
