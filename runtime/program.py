"""A compiled graph: code for one architecture, and its launches on tensors.

``Program`` has the description of a ``gpu.module`` and its cubins.  ``run`` reads the symbols
from the tensors' shapes, takes the first variant of the dispatch whose conditions hold, and binds
its arguments.  What was checked and bound is kept by shapes, types and alignments, so that
the next call with PyTorch tensors of the same kind looks at their addresses alone (J4).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from math import lcm, prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import const_pool, driver, nvrtc, streams, tensors, torch_tensors
from polyc.runtime.arenas import Arenas
from polyc.runtime.described import Described
from polyc.runtime.nvrtc import CompileResult, KernelInfo
from polyc.runtime.origin import Origin
from polyc.runtime.repeated import Repeated
from polyc.runtime.signature import HostSignature
from polyc.runtime.streams import Turn
from polyc.runtime.variants import Bound, Plan, Variant, values_text
from polyc.runtime.views import ELEMENT_BYTES, TensorView, row_major

if TYPE_CHECKING:
    from xdsl.ir import Operation

    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp

CALLS_KEPT = 256
"""Plans, and kinds of calls, that a program keeps, the oldest going first."""

Kind = tuple[bool, str | None, tuple[tuple[str, int], ...], int | None]
"""Calls that are kept together: whether outputs are given, variant, symbols and GPU as asked."""

PLAIN: Kind = (True, None, (), None)
"""Calls with outputs and nothing else."""

ALLOCATING: Kind = (False, None, (), None)
"""Calls that allocate outputs, and are told nothing else."""


class Report(Protocol):
    """What an output of three numbers says of indices, which a debug build has."""

    def error(self, place: int, index: int, size: int) -> PolycError | None:
        """What is wrong, or None."""
        ...


class Program:
    """One graph compiled for one architecture.

    With ``params`` (see ``const_pool.Params.of``) the inputs that the signature gives to the
    constant pool are bound to them, once on each GPU, and calls take the others: ``signature``,
    ``names`` and ``num_inputs`` are of these.  What kernels make of constants alone, such as
    weights in another order, is made by the first call of its kind.  ``before`` is the program that
    makes other inputs of parameters alone, as ``made`` of its description says: it runs once on a
    GPU, before the first call there.  Two of one ``key`` compute the same.

    Make one with ``Program.compile``, or from what ``Origin`` says of it.  ``results`` are the
    cubins of all with the compiler's log.

    Any number of threads may use it at once.  What it holds on GPUs, code and workspaces, goes
    with it or at ``close``; a CUDA graph that was captured from its calls needs both.
    """

    def __init__(
        self,
        origin: Origin,
        params: const_pool.Given = None,
        before: Program | None = None,
        key: str | None = None,
    ) -> None:
        found = origin.described
        self._origin = origin
        self._key: object = id(self) if key is None else key
        self._code = origin.code
        self.arch, self.name = found.arch, found.name
        self.symbols, self.facts = found.symbols, found.facts
        self._whole = self.signature = HostSignature(
            found.name,
            found.names,
            found.shapes,
            found.elements,
            found.aligns,
            found.num_inputs,
            found.symbols,
            found.facts,
            found.pooled,
        )
        self.constants: const_pool.Constants | None = None
        """What it keeps; None where calls give all inputs."""
        self.traps: Sequence[Report] = ()
        """What the last outputs say of indices, one each, in a debug build (``polyc.load``)."""
        if params is not None:
            self._bind(const_pool.Params.of(params), before)
        self.names, self.num_inputs = tuple(self.signature.names), self.signature.num_inputs
        self._variants = [
            Variant(choice, partial(origin.launches, number))
            for number, choice in enumerate(found.choices)
        ]
        self._modules: dict[tuple[int, int], driver.Module] = {}
        self._plans: dict[object, Plan] = {}
        self._made: WeakValueDictionary[object, driver.Buffer] = WeakValueDictionary()
        self._kept: dict[int, set[int]] = {}
        """The constants that calls read on each GPU, by their numbers."""
        self._repeated: dict[Kind, Repeated] = {}
        self._arenas: Arenas = Arenas()
        # Of what is added to these; looking something up is one step.
        self._lock = threading.RLock()
        aligns = [a for v in self._variants for a in v.align if a > 0]
        self._period = lcm(256, *aligns, *(a for a in found.aligns if a > 0))

    def _bind(self, params: const_pool.Params, before: Program | None) -> None:
        """Keep parameters, and what ``before``, which nobody else has, makes of them."""
        beside = None if before is None else before._whole
        self.constants = held = const_pool.bind(self._whole, params, beside)
        if before is not None:
            before.constants = const_pool.bind(before._whole, params, self._whole)
            before.signature = before._whole.called(before.constants.numbers, {})
            before.names, before.num_inputs = tuple(before.signature.names), 0
            before.constants.beside = [entry.given for entry in held.entries.values()]
            made = {i: name for i, name in enumerate(self._origin.described.made) if name}
            held.make(made, before.run_once)
        self.signature = self._whole.called(held.numbers, held.sizes)

    @classmethod
    def of_module(cls, module: GpuModuleOp, sources: Iterable[str] | None = None) -> Program:
        """A program from a ``gpu.module``.

        ``sources`` are its CUDA C at the hardware level, compiled side by side; without them
        ``module`` is at tile level, and each variant is lowered and compiled when it first runs.
        """
        from polyc.runtime.lowered import Lowered

        return cls(Lowered(module, sources))

    @classmethod
    def compile(
        cls,
        module: Operation,
        name: str | None = None,
        lazily: bool = False,
        params: const_pool.Given = None,
    ) -> Program:
        """Compile a ``gpu.module``, or the one in a builtin module.

        A module at tile level is lowered first, in a copy.  ``name`` picks one of several.
        ``lazily`` leaves the passes of tiles and the compiler to the call that first runs a
        variant.  Needs no GPU.  Raises PolycError.
        """
        from polyc.runtime.lowered import lowered

        return cls(lowered(module, name, lazily), params)

    @property
    def described(self) -> Described:
        """What the host knows of it."""
        return self._origin.described

    @property
    def module(self) -> GpuModuleOp:
        """The ``gpu.module``, lowered now where the program came from the disk cache."""
        return self._origin.module()

    @property
    def sources(self) -> list[str]:
        """CUDA C, in parts that are compiled by themselves."""
        return self._code.sources

    @property
    def results(self) -> list[CompileResult]:
        """Each of ``sources``, compiled."""
        return self._code.results

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants in order of dispatch: kernels, and sequences of them, by name."""
        return tuple(variant.name for variant in self._variants)

    @property
    def kernels(self) -> Mapping[str, KernelInfo]:
        """Registers, spills and static shared memory of each kernel."""
        return {name: info for r in self.results for name, info in r.kernels.items()}

    def compiled_at(self, symbols: Mapping[str, int]) -> list[CompileResult]:
        """The kernels of the variant that ``chosen`` names, or of all where it names none."""
        if (found := self._at(symbols)) is None:
            return self.results
        return [self._code.result(self._code.unit(name)) for name in found.kernels]

    def warnings(self) -> tuple[str, ...]:
        """Lines of the compiler's logs that speak of lost performance or are warnings."""
        return tuple(line for result in self.results for line in result.warnings())

    def close(self) -> None:
        """Free what it holds on GPUs, after the calls that are under way.

        Graphs that were captured from its calls must not run any more.  A later call loads the
        code again.
        """
        with self._lock:
            held = self._plans, self._modules, self._arenas
            self._plans, self._modules, self._arenas = {}, {}, type(self._arenas)()
            self._kept.clear()
            if self.constants is not None:
                self.constants.forget()
            for repeated in self._repeated.values():
                repeated.forget()
        del held

    def with_workspaces(self, arenas: Arenas) -> None:
        """Take the memory of workspaces from ``arenas`` in calls from now on."""
        self.close()
        with self._lock:
            self._arenas = arenas

    # Running

    def run(
        self,
        inputs: Sequence[object],
        symbols: Mapping[str, int] | None = None,
        out: Sequence[object] | None = None,
        gpu_index: int | None = None,
        variant: str | None = None,
        stream: object | None = None,
    ) -> list[object]:
        """Run on ``inputs`` and return the outputs, in the order of the signature.

        Tensors are NumPy arrays or others in host memory, copied to the GPU ``gpu_index`` (0 by
        default) and back, or tensors on one GPU by DLPack or ``__cuda_array_interface__``, used in
        place.  Outputs are allocated like the first input, or written to ``out``.  ``symbols``
        gives the sizes that no shape shows.  ``variant`` names the kernel to run, for tests and
        timing; its conditions must hold too.

        On a GPU the call comes after what the tensors' owners have begun.  It is on ``stream`` (a
        CUstream as an integer, or an object that has one), and what comes after it is then the
        caller's to order; or on the stream that the first tensor tells, PyTorch's current one for
        its tensors; or on the default stream.  Where a tensor's stream is not known and ``stream``
        is not given, the call waits for the result.

        A debug build waits for the results, and raises PolycError for an index that is outside of
        its axis; outputs are those of the graph.

        Raises PolycError for a tensor that does not fit the signature, for sizes that no
        variant takes, and when there is no GPU.
        """
        if self.traps:
            return self._reported(inputs, symbols, out, gpu_index, variant, stream)
        return self._run(inputs, symbols, out, gpu_index, variant, stream)

    def _reported(
        self,
        inputs: Sequence[object],
        symbols: Mapping[str, int] | None,
        out: Sequence[object] | None,
        gpu_index: int | None,
        variant: str | None,
        stream: object | None,
    ) -> list[object]:
        """A call whose last outputs are reports, which are read and not given on."""
        count = len(self.traps)
        if out is not None:
            inputs, out = _listed(inputs, "inputs"), _listed(out, "out")
            told = None if stream is None else streams.handle(stream)
            at = streams.choose([*inputs, *out]) if told is None else told
            views = self.signature.views(inputs, 0, self.num_inputs, "inputs", at, True)
            values = self.signature.bind(views, tensors.sizes(symbols or {}))
            out = [*out, *self.signature.outputs(inputs, values, told)[-count:]]
        found = self._run(inputs, symbols, out, gpu_index, variant, stream)
        if stream is not None:
            driver.synchronize()
        for trap, record in zip(self.traps, found[-count:], strict=True):
            numbers = cast("Any", record).tolist()
            if (error := trap.error(*numbers)) is not None:
                raise error
        return found[:-count]

    def _run(
        self,
        inputs: Sequence[object],
        symbols: Mapping[str, int] | None,
        out: Sequence[object] | None,
        gpu_index: int | None,
        variant: str | None,
        stream: object | None,
    ) -> list[object]:
        if not isinstance(inputs, list):
            inputs = _listed(inputs, "inputs")
        if not isinstance(out, list | None):
            out = _listed(out, "out")
        sizes = tensors.sizes(symbols) if symbols else {}
        named = None if variant is None else str(variant)
        index = None if gpu_index is None else tensors.whole(gpu_index, "gpu_index")
        kind = (out is not None, named, tuple(sizes.items()), index)
        told = None if stream is None else streams.handle(stream)
        if (known := self._repeated.get(kind)) is not None:
            given = (inputs,) if out is None else (inputs, out)
            found = known.run(*given) if told is None else known.run(*given, at=told)
            if found is not None:
                return list(found)
        at = streams.choose([*inputs, *(out or [])]) if told is None else told
        views = self.signature.views(inputs, 0, self.num_inputs, "inputs", at, True)
        if out is None:
            values = self.signature.bind(views, sizes)
            outputs = self.signature.outputs(inputs, values, told)
        else:
            outputs = list(out)
        results = self.signature.views(
            outputs, self.num_inputs, len(self.names), "outputs", at, True
        )
        every = [*views, *results]
        values = self.signature.bind(every, sizes)
        self.signature.check_apart(views, results)
        home = self._home(every, index)
        plan: Plan | None = None
        if not all(view.size == 0 for view in results):
            index = (index or 0) if home is None else home
            with driver.current(index):
                if home is None:
                    self._run_from_host(index, views, results, values, variant)
                else:
                    streams.check_places(self._named(every), index)
                    given = [*inputs, *outputs]
                    plan = self._plan(index, every, values, variant, given, at)
                    turn = Turn(self._named(every), at, told is not None)
                    turn.begin()
                    plan.launch([view.pointer for view in every], at, index, self._arenas)
                    turn.end()
            if told is not None and home is not None:
                torch_tensors.keep_until([*inputs, *outputs], at)
        dense = home is not None and all(view.is_dense for view in every)
        # Of a weight that is the caller's the calls that are remembered would not see an output in
        # its place.
        borrowed = self.constants is not None and self.constants.borrowed
        if home is not None and dense and not (borrowed and out is not None):
            self.repeated(kind).remember([*inputs, *(out or ())], every, plan, home, self._arenas)
        return outputs

    def _home(self, views: Sequence[TensorView], wanted: int | None) -> int | None:
        """The GPU that the tensors are on, None for the host; an empty one is anywhere."""
        used = [one for one in self._named(views) if one[1].size] or self._named(views)
        homes = {view.gpu for _, view in used}
        if len(homes) > 1:
            raise PolycError(
                "DeviceMismatch",
                "the tensors are in different memories ("
                + ", ".join(f"{name}: {_place(view)}" for name, view in used)
                + "); move them to one",
            )
        home = next(iter(homes), None)
        if None not in (home, wanted) and home != wanted:
            raise PolycError(
                "DeviceMismatch",
                f"the tensors are on GPU {home}, and gpu_index is {wanted}; move them there, or "
                "leave it out",
            )
        return home

    def repeated(self, kind: Kind) -> Repeated:
        """What runs calls of a kind like those that were checked, the same until it is dropped."""
        with self._lock:
            if (found := self._repeated.get(kind)) is None:
                outputs = len(self.names) - self.num_inputs
                found = Repeated(self.num_inputs, outputs, kind[0], self._period)
                self._repeated[kind] = found
                passing = [one for one in self._repeated if one not in (PLAIN, ALLOCATING)]
                if len(passing) > CALLS_KEPT:
                    del self._repeated[passing[0]]
            return found

    def launch(
        self,
        inputs: Sequence[object],
        out: Sequence[object],
        symbols: Mapping[str, int] | None = None,
        variant: str | None = None,
        constants: Sequence[str] = (),
    ) -> Bound:
        """The variant bound to GPU tensors; ``run(stream)`` is one C call a launch (J4).

        One more asks which context is current.  The caller keeps the tensors alive, and orders
        the runs with what else uses them.  Workspaces are the bound variant's own.

        ``constants`` names inputs that keep what they hold now, as weights do: what kernels make of
        these alone, such as weights in another order, is made here, after all that the GPU has
        begun, and no more by ``run``.  Raises PolycError as ``run`` does, also for empty outputs,
        which need no launch, and ``BadArgument`` for a name that is no input's.
        """
        views = self.signature.views(
            _listed(inputs, "inputs"), 0, self.num_inputs, "inputs", None, True
        )
        results = self.signature.views(
            _listed(out, "out"), self.num_inputs, len(self.names), "outputs", None, True
        )
        return self.bound(views, results, symbols, variant, constants)

    def bound(
        self,
        views: Sequence[TensorView],
        results: Sequence[TensorView],
        symbols: Mapping[str, int] | None = None,
        variant: str | None = None,
        constants: Sequence[str] = (),
    ) -> Bound:
        """``launch`` on views of tensors, inputs and outputs, which fit the signature."""
        inputs = self.names[: self.num_inputs]
        for name in constants:
            if name not in inputs:
                listed = ", ".join(inputs)
                raise PolycError("BadArgument", f"{name} is no input; constants are of {listed}")
        every = [*views, *results]
        values = self.signature.bind(every, tensors.sizes(symbols or {}))
        self.signature.check_apart(views, results)
        home = self._home(every, None)
        if home is None:
            raise PolycError("DeviceMismatch", "a launch is bound to tensors on one GPU")
        if all(view.size == 0 for view in results):
            raise PolycError("BadArgument", "the outputs are empty; there is nothing to launch")
        with driver.current(home):
            streams.check_places(self._named(every), home)
            if self.constants is not None:
                self.constants.on(home)
                self.constants.again(home, list(self.constants.gone(home)))
            every = self._every(home, every)
            count = self._whole.num_inputs
            self._whole.check_apart(every[:count], every[count:])
            fixed = {i for i, name in enumerate(self._whole.names[:count]) if name in constants}
            fixed |= self._held
            plan = self._choose(home, every, values, variant).plan(
                every, values, driver.device(home), self._functions(home), fixed
            )
        held = [] if self.constants is None else [self.constants.on(home)]
        return Bound(plan, home, [view.pointer for view in every], held)

    @property
    def _held(self) -> Set[int]:
        """The inputs that the constant pool keeps, by their numbers."""
        return set[int]() if self.constants is None else self.constants.numbers

    def _every(self, index: int, views: Sequence[TensorView]) -> list[TensorView]:
        """The views of all tensors on GPU ``index``, of those that a call gives."""
        if self.constants is None:
            return list(views)
        return const_pool.merged(views, self.constants.on(index))

    def _there(self, index: int, views: Sequence[TensorView]) -> list[TensorView]:
        """The views of all inputs that are in memory; those of constants that were let go are
        empty."""
        assert self.constants is not None
        gone = self.constants.gone(index)
        inputs = enumerate(views[: self._whole.num_inputs])
        return [replace(view, shape=(0,)) if i in gone else view for i, view in inputs]

    def run_once(self, index: int) -> Mapping[str, const_pool.Held]:
        """What it makes of its parameters, which are all that it takes, on a GPU.

        Another program of its key that did so on the same parameters has made it; what it is made
        of is let go.  Raises PolycError.
        """
        constants = self.constants
        assert constants is not None
        owners, outputs = constants.owners, self.names

        def make() -> Mapping[str, const_pool.Held]:
            found: dict[str, const_pool.Held] = {}
            for name, (shape, element) in zip(outputs, self.signature.fresh({}), strict=True):
                buffer = driver.Buffer(prod(shape) * ELEMENT_BYTES[element], index)
                place, sizes = buffer.pointer, tuple(shape)
                view = TensorView(place, sizes, row_major(sizes), element, index, buffer)
                found[name] = const_pool.Held(view, owners)
            if any(one.view.size for one in found.values()):
                self.bound([], [one.view for one in found.values()]).run()
                with driver.current(index):
                    driver.wait(0)
            self.close()
            constants.made()
            return found

        key = (self._key, *constants.identities)
        return const_pool.made_once(index, outputs, key, make)

    def chosen(self, symbols: Mapping[str, int]) -> str | None:
        """The variant that runs at these sizes when every tensor is aligned, or None."""
        found = self._at(symbols)
        return None if found is None else found.name

    def _at(self, symbols: Mapping[str, int]) -> Variant | None:
        """The first variant whose conditions on sizes hold."""
        return next((v for v in self._variants if all(f.holds(symbols) for f in v.facts)), None)

    def _named(self, views: Sequence[TensorView]) -> list[tuple[str, TensorView]]:
        return list(zip(self.names, views, strict=True))

    def _run_from_host(
        self,
        index: int,
        views: Sequence[TensorView],
        results: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
    ) -> None:
        if any(view.pinned for view in views):
            # A copy into pinned memory may be on its way from this GPU.
            driver.synchronize()
        buffers = [driver.Buffer(view.bytes, index) for view in (*views, *results)]
        for view, buffer in zip(views, buffers, strict=False):
            buffer.upload(view.pointer)
        moved = [
            TensorView(buffer.pointer, view.shape, view.strides, view.element, index, buffer)
            for view, buffer in zip((*views, *results), buffers, strict=True)
        ]
        plan = self._plan(index, moved, values, variant, at=0)
        plan.launch([buffer.pointer for buffer in buffers], 0, index, self._arenas)
        # Not for all that the GPU does: other threads' work goes on, and captures last.
        driver.wait(0)
        for view, buffer in zip(results, buffers[len(views) :], strict=True):
            buffer.download(view.pointer)

    def _plan(
        self,
        index: int,
        views: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
        given: Sequence[object] = (),
        at: int = 0,
    ) -> Plan:
        """The plan for tensors of these shapes, strides and alignments, made once.

        The views are of what was ``given`` to a call on the stream ``at``.
        """
        results = views[self.num_inputs :]
        if self.constants is not None and not self.constants.there(index) and driver.capture(at):
            raise PolycError(
                "BadArgument",
                f"{self.name} binds its parameters once, and a graph that is being captured cannot "
                "wait for that; call it once before",
            )
        views = self._every(index, views)
        if self.constants is not None:
            self._whole.check_apart(self._there(index, views), results)
            if given:
                given = const_pool.merged(given, dict.fromkeys(self._held, None))
        chosen = self._choose(index, views, values, variant, given)
        residues = tuple(view.pointer % self._period for view in views)
        shapes = tuple((view.shape, view.strides) for view in views)
        key = (index, chosen.name, tuple(values.items()), shapes, residues)
        if (known := self._plans.get(key)) is not None:
            return known
        held, most = self._held, None
        if self.constants is not None and self.constants.sparing:
            most = const_pool.LITTLE
        plan = chosen.plan(views, values, driver.device(index), self._functions(index), held, most)
        if self.constants is not None:
            self._hold(plan, index, views, at)
        with self._lock:
            _keep(self._plans, key, plan)
        return plan

    def _hold(self, plan: Plan, index: int, views: Sequence[TensorView], at: int) -> None:
        """Give a plan the constants, and what is made of them, for as long as plans have it: the
        same for all plans that make the same.  Constants that no plan reads then are let go."""
        constants = self.constants
        assert constants is not None
        reads = plan.reads(self._held)
        with self._lock:
            space: driver.Buffer | None = None
            key = (index, *plan.made_of)
            wanted, made = set(reads), False
            if plan.once:
                space = self._made.get(key)
                made = space is not None
                if not made:
                    if driver.capture(at):
                        raise PolycError(
                            "BadArgument",
                            f"{plan.name} makes something of its parameters once, and a graph that "
                            "is being captured cannot wait for it; call it once before",
                        )
                    wanted |= plan.reads(self._held, once=True)
            there = dict(enumerate(views))
            there |= constants.again(index, wanted.intersection(constants.gone(index)))
            if plan.once:
                space = space or driver.Buffer(plan.kept, index)
                plan.make([there[i].pointer for i in range(len(views))], space.pointer, made)
                self._made[key] = space
            owners: list[object] = [there[number] for number in reads]
            plan.hold({i: there[i].pointer for i in self._held}, [*owners, space])
            kept = self._kept.setdefault(index, set())
            kept |= reads
            constants.let_go(index, self._held - kept)

    def _choose(
        self,
        index: int,
        views: Sequence[TensorView],
        values: Mapping[str, int],
        variant: str | None,
        given: Sequence[object] = (),
    ) -> Variant:
        """The first variant that takes these tensors, of what was ``given``, on GPU ``index``."""
        reasons: list[str] = []
        for found in self._variants:
            if variant is not None and found.name != variant:
                continue
            reason = found.refuses(values, views)
            if reason is None:
                reason = found.crowded(values, driver.device(index), self._functions(index))
            if reason is None:
                return found
            reasons.append(f"{found.name}: {reason}")
        if not reasons:
            raise PolycError(
                "BadArgument",
                f"{self.name} has no kernel {variant!r}; it has "
                + ", ".join(dict.fromkeys(self.variants)),
            )
        for i, view in enumerate(views):
            one = given[i] if i < len(given) else None
            name = self._whole.names[i]
            tensors.check_dense(view, name, i >= self._whole.num_inputs, one, reasons)
        raise PolycError(
            "NoVariant", f"no kernel of {self.name} takes {values_text(values)}", notes=reasons
        )

    def _functions(self, index: int) -> Callable[[str], driver.Function]:
        """The kernels on GPU ``index`` by name; code is loaded once, when it is first asked for."""

        def function(name: str) -> driver.Function:
            unit = self._code.unit(name)
            with self._lock:
                if (index, unit) not in self._modules:
                    image = self._image(driver.device(index), unit)
                    self._modules[index, unit] = driver.Module(image, index)
                module = self._modules[index, unit]
            return module.function(name)

        return function

    def _image(self, device: driver.Device, unit: int) -> bytes:
        """Code of one of ``sources`` that ``device`` runs.

        A chip later than the target runs the target's source compiled for itself, or PTX
        where NVRTC does not know it (S0.1); the ``a`` of ``sm_90a`` excludes that.
        """
        if device.runs(self.arch):
            return self._code.result(unit).image
        major, minor = device.capability
        number = self.arch.removeprefix("sm_")
        if number.endswith("a") or (major, minor) < (int(number[:-1]), int(number[-1])):
            raise PolycError(
                "ArchMismatch",
                f"{self.name} is compiled for {self.arch}, and GPU {device.index} "
                f"({device.name}) is sm_{major}{minor}; compile for an architecture that it runs",
            )
        source = self._code.source(unit)
        try:
            return nvrtc.compile_cuda(source, f"sm_{major}{minor}").image
        except PolycError:
            return nvrtc.compile_cuda(source, self.arch, "ptx").image


def _listed(given: Any, what: str) -> list[object]:
    """Tensors as a list.  Raises PolycError for a tensor in the place of a list."""
    try:
        if not hasattr(given, "__dlpack__") and not isinstance(given, str):
            return list(given)
    except TypeError:
        pass
    raise PolycError("BadArgument", f"{what} is a {type(given).__name__}; pass a list of tensors")


def _place(view: TensorView) -> str:
    return "host" if view.gpu is None else f"GPU {view.gpu}"


T = TypeVar("T")


def _keep(kept: dict[object, T], key: object, value: T) -> None:
    kept[key] = value
    if len(kept) > CALLS_KEPT:
        kept.pop(next(iter(kept)), None)
