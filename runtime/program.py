"""A compiled graph: code for one architecture, and its launches on tensors.

``Program`` holds a ``gpu.module`` with its cubin.  ``run`` reads the symbols from the
tensors' shapes, takes the first launch of the dispatch whose conditions hold, and binds
its arguments.  A launch is kept by its sizes and addresses, so that running it again on
the same tensors is one C call (J4).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from ctypes import c_int32, c_uint64
from typing import Any, cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import MAX_SIZE, Shape
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.module import DispatchOp, KernelOp, LaunchOp
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.gpu.types import GlobalType, TensorMapType
from polyc.runtime import driver, nvrtc, tensors
from polyc.runtime.nvrtc import CompileResult, KernelInfo
from polyc.runtime.tensors import TensorView

LAUNCHES_KEPT = 256
"""Bound launches that a program keeps, the least recently used going first."""

MAX_INDEX = 2**31 - 1
"""Blocks of a grid's x axis."""


class _Binding:
    """One launch of the dispatch with what it needs of its kernel."""

    def __init__(self, launch: LaunchOp, kernel: KernelOp) -> None:
        self.name = kernel.sym_name.data
        self.facts = launch.when.data
        self.align = launch.align.data
        self.grid = launch.grid.data
        self.threads = kernel.threads.value.data
        self.cluster = kernel.cluster_size
        shared = kernel.shared_bytes
        self.shared = 0 if shared is None else shared.value.data
        self.arguments = list(
            zip(kernel.bindings, (arg.type for arg in kernel.body.block.args), strict=True)
        )

    def refuses(self, symbols: Mapping[str, int], views: Sequence[TensorView]) -> str | None:
        """Why the launch cannot take these tensors, or None when it can."""
        for fact in self.facts:
            if not fact.holds(symbols):
                return f"{fact} does not hold"
        for i, (view, align) in enumerate(zip(views, self.align, strict=True)):
            if align and view.pointer % align:
                return f"tensor {i} at {view.pointer:#x} is not a multiple of {align} bytes"
        return None


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
        self._bindings = [
            _Binding(launch, kernels[launch.kernel.root_reference.data])
            for launch in dispatch.launches()
        ]
        self._modules: dict[int, driver.Module] = {}
        self._kept: OrderedDict[object, driver.Launch] = OrderedDict()

    @classmethod
    def compile(cls, module: Operation, name: str | None = None) -> Program:
        """Compile a ``gpu.module``, or the one in a builtin module, at hardware level.

        ``name`` picks one of several.  Needs no GPU.  Raises PolycError.
        """
        from polyc.lowering.gpu_to_cuda import cuda_source

        found = gpu_module(module, name)
        return cls(found, cuda_source(found))

    @property
    def variants(self) -> tuple[str, ...]:
        """The kernels in order of dispatch."""
        return tuple(binding.name for binding in self._bindings)

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
        views = self._views(inputs, 0, self.num_inputs, "inputs")
        if out is None:
            values = self._bind(views, symbols)
            outputs = self._outputs(inputs, values)
        else:
            outputs = list(out)
        results = self._views(outputs, self.num_inputs, len(self.names), "outputs")
        values = self._bind([*views, *results], symbols)
        self._check_apart(views, results)
        if any(view.size == 0 for view in results):
            return outputs
        homes = {view.gpu for view in (*views, *results)}
        if len(homes) > 1:
            raise PolycError(
                "DeviceMismatch",
                "the tensors are in different memories ("
                + ", ".join(f"{n}: {_home(v)}" for n, v in self._named([*views, *results]))
                + "); move them to one",
            )
        home = next(iter(homes), None)
        index = (gpu_index or 0) if home is None else home
        driver.activate(index)
        if home is None:
            self._run_from_host(index, views, results, values, variant)
        else:
            stream = tensors.current_stream(index)
            self._launch(index, [*views, *results], values, variant).run(stream)
        return outputs

    def launch(
        self,
        inputs: Sequence[object],
        out: Sequence[object],
        symbols: Mapping[str, int] | None = None,
        variant: str | None = None,
    ) -> driver.Launch:
        """The bound launch on GPU tensors; its ``run(stream)`` is one C call (J4).

        The caller keeps the tensors alive.  Raises PolycError as ``run`` does, also for
        empty outputs, which need no launch.
        """
        views = self._views(inputs, 0, self.num_inputs, "inputs")
        results = self._views(out, self.num_inputs, len(self.names), "outputs")
        values = self._bind([*views, *results], symbols)
        self._check_apart(views, results)
        home = views[0].gpu if views else results[0].gpu
        if home is None or any(view.gpu != home for view in (*views, *results)):
            raise PolycError("DeviceMismatch", "a launch is bound to tensors on one GPU")
        if any(view.size == 0 for view in results):
            raise PolycError("BadArgument", "an output is empty; there is nothing to launch")
        driver.activate(home)
        return self._launch(home, [*views, *results], values, variant)

    def chosen(self, symbols: Mapping[str, int]) -> str | None:
        """The kernel that runs at these sizes when every tensor is aligned, or None."""
        for binding in self._bindings:
            if all(fact.holds(symbols) for fact in binding.facts):
                return binding.name
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
                    f"{self.name} was compiled assuming {fact}, and {_values_text(values)}",
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
        self._launch(index, moved, values, variant, keep=False).run(0)
        driver.synchronize()
        for view, buffer in zip(results, buffers[len(views) :], strict=True):
            buffer.download(view.pointer)

    def _launch(
        self,
        index: int,
        views: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
        keep: bool = True,
    ) -> driver.Launch:
        key = (index, variant, tuple(v.pointer for v in views), tuple(values.items()))
        if keep and (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return known
        binding = self._choose(views, values, variant)
        blocks = 1
        for extent in binding.grid:
            blocks *= extent.evaluate(values)
        if not 0 < blocks <= MAX_INDEX:
            raise PolycError(
                "BadArgument",
                f"kernel {binding.name} would have {blocks} blocks at {_values_text(values)}; "
                f"a grid has 1 to {MAX_INDEX}",
            )
        function = self._loaded(index).function(binding.name)
        arguments = [
            self._argument(bind.kind.data, bind.source.data, kind, views, values)
            for bind, kind in binding.arguments
        ]
        if blocks % binding.cluster:
            raise PolycError(
                "BadArgument",
                f"kernel {binding.name} runs in clusters of {binding.cluster} and would have "
                f"{blocks} blocks at {_values_text(values)}",
            )
        launch = function.bind(
            (blocks,), (binding.threads,), binding.shared, arguments, (binding.cluster, 1, 1)
        )
        if keep:
            self._kept[key] = launch
            if len(self._kept) > LAUNCHES_KEPT:
                self._kept.popitem(last=False)
        return launch

    def _choose(
        self, views: Sequence[TensorView], values: Mapping[str, int], variant: str | None
    ) -> _Binding:
        reasons: list[str] = []
        for binding in self._bindings:
            if variant is not None and binding.name != variant:
                continue
            reason = binding.refuses(values, views)
            if reason is None:
                return binding
            reasons.append(f"{binding.name}: {reason}")
        if not reasons:
            raise PolycError(
                "BadArgument",
                f"{self.name} has no kernel {variant!r}; it has "
                + ", ".join(b.name for b in self._bindings),
            )
        raise PolycError(
            "NoVariant", f"no kernel of {self.name} takes {_values_text(values)}", notes=reasons
        )

    def _argument(
        self,
        kind: str,
        source: int | str,
        argument_type: object,
        views: Sequence[TensorView],
        values: Mapping[str, int],
    ) -> Any:
        """The ctypes object that holds one kernel argument."""
        if kind == "symbol":
            return c_int32(values[cast("str", source)])
        view = views[cast("int", source)]
        if kind == "tensor":
            return c_uint64(view.pointer)
        if isinstance(argument_type, Im2colMapType):
            return driver.im2col_map(
                view.pointer,
                view.element,
                view.shape,
                argument_type.sizes,
                argument_type.swizzle.data,
                argument_type.lower_corner,
                argument_type.upper_corner,
                argument_type.steps,
            ).argument
        assert isinstance(argument_type, TensorMapType)
        return driver.tensor_map(
            view.pointer,
            view.element,
            view.shape,
            tensors.row_major(view.shape),
            argument_type.sizes,
            argument_type.swizzle.data,
        ).argument

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


def _values_text(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
