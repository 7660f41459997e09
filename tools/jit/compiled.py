"""A compiled program: called on tensors, and open to be looked at, layer by layer."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import kept
from polyc.runtime.compiled_calls import RETURNS, base
from polyc.runtime.const_pool import Given, Params, bind, merged
from polyc.runtime.garbage import rarely
from polyc.runtime.signature import HostSignature
from polyc.tools.jit.backends import Again, Backend, Runnable, chosen, gpu_of
from polyc.tools.jit.written import Written
from polyc.tools.kept import program as program_key

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
    from polyc.runtime.arenas import Arenas
    from polyc.runtime.nvrtc import KernelInfo
    from polyc.runtime.origin import Origin
    from polyc.runtime.program import Program

_SEVERAL = (list, tuple)

LAYERS = ("frontend", "tiny", "index", "region", "plan", "tiles", "gpu")
"""What ``ir`` names."""

LONG = 60
"""Letters of a condition beyond which a report counts it only: those are of modelled times."""


class Compiled(base(), Runnable):
    """A graph or a tile program, ready to be called; nothing is lowered before that is needed.

    ``arch`` None is that of the GPU that the tensors are on: code is made for each that is met, and
    once for all sizes.  What it shows (``cuda``, ``ir`` …) is then of the first GPU, or of
    ``sm_90a`` where there is none.  Any number of threads may call it.
    """

    def __init__(
        self,
        written: Written,
        arch: str | None = None,
        *,
        plan: str | Path | Mapping[str, object] | Sequence[object] | None = None,
        options: Mapping[str, Any] | None = None,
        device: str | None = None,
        execution_backend: str | None = None,
        out_idx: Sequence[int] | int | None = None,
        params: Given = None,
    ) -> None:
        declared = written.declared
        self._written, self._tiles = written, declared.tiles
        signature = declared.signature
        given = None if params is None else Params.of(params)
        if written.captured:
            given = Params.of(written.captured).joined(given)
        self._params = given
        self.constants = None if self._params is None else bind(signature, self._params)
        """What its constant pool keeps; None where calls give all inputs."""
        if self.constants is not None:
            signature = signature.called(self.constants.entries, self.constants.sizes)
        self.name, self.signature = signature.name, signature
        self.arch = declared.arch if arch is None else arch
        self._plan, self._options = plan, dict(options or {})
        self._debug = bool(self._options.pop("debug", False))
        if wrong := set(self._options) - {"records", "kernels", "sizes"}:
            raise PolycError(
                "Usage",
                f"options has {', '.join(sorted(wrong))}; there are records, kernels, sizes and "
                "debug",
            )
        if self._debug and (plan is not None or declared.tiles):
            what = "tiles" if declared.tiles else "one with a plan"
            raise PolycError("Usage", f"debug is about a frontend.graph, not {what}; leave it out")
        self.backend: Backend = chosen(execution_backend, device)
        count = len(signature.names) - signature.num_inputs
        self._returns = declared.returns or ("one" if count == 1 else "tuple")
        self._keys = declared.keys
        self._made = _allocated(signature, out_idx)
        self._one = self._returns == "one"
        self._allocates = self._made is None or len(self._made) == count
        self._again: tuple[Again, Again] = (_unknown, _unknown)
        self.known: tuple[Any, Any, int] = (None, None, 0)
        """What ``known_as`` was told last: see ``polyc.runtime.compiled_calls``."""
        self._workspaces: Callable[[], Arenas] | None = None
        self._programs: dict[str, Program] = {}
        self._by_gpu: dict[int | None, Program] = {}
        self._hardware: dict[str, GpuModuleOp] = {}
        self._layers: dict[tuple[str, str], ModuleOp] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        names = ", ".join(self.signature.names[: self.signature.num_inputs])
        return f"<polyc.Compiled {self.name}({names}) for {self.arch or 'the GPU of its tensors'}>"

    @property
    def module(self) -> ModuleOp:
        """The module that it is written as, which is not to be changed."""
        return self._written.module

    def with_workspaces(self, arenas: Callable[[], Arenas]) -> Compiled:
        """Take the memory of workspaces from what ``arenas`` makes; returns itself.

        To be said before the first call.
        """
        self._workspaces = arenas
        return self

    def refresh(self) -> None:
        """Look at its parameters again, as they were written to: what was made of them is made
        anew by the next call."""
        with self._lock:
            for program in self._programs.values():
                program.close()
        if self.constants is not None:
            self.constants.forget()

    # Calls

    def called(
        self,
        *inputs: object,
        out: object = None,
        stream: object | None = None,
        symbols: Mapping[str, int] | None = None,
        gpu_index: int | None = None,
    ) -> Any:
        """Run on tensors of any library; the outputs as the function returned them.

        ``out`` is the output or a list of them, to be written in place of new ones; ``symbols``
        gives sizes that no shape shows.  With ``out_idx`` the outputs that it leaves out follow the
        inputs.  Raises PolycError for what does not fit, in one sentence.
        """
        plain = stream is None and symbols is None and gpu_index is None
        if plain and (found := self.again(inputs, out)) is not None:
            return found
        return self.call(inputs, out, stream, symbols, gpu_index)

    def call(
        self,
        inputs: tuple[object, ...],
        out: object,
        stream: object | None,
        symbols: Mapping[str, int] | None,
        gpu_index: int | None,
    ) -> Any:
        """What a call does that is not like one of before, with the inputs as they are."""
        plain = stream is None and symbols is None and gpu_index is None
        given, told = list(inputs), None
        if self._made is not None:
            given, told = self._placed(given, out)
        elif out is not None:
            told = self._listed(out)
        found = self.backend.run(self, given, told, symbols, stream, gpu_index)
        # A debug build reads its reports after each call.
        plain = plain and not self._debug
        if plain and (again := self.backend.again(self, given)) is not None:
            self._again = again
            if self._made is None and self._returns in RETURNS:
                self.known = *self.backend.known(self, given), RETURNS[self._returns]
                self.known_as(*self.known)
        return self._returned(found)

    def again(self, inputs: tuple[object, ...], out: object) -> Any:
        """Run a call like one that was checked before; None where there was none, or no result.

        Most calls are one of these: there is little in it.
        """
        given, allocating = self._again
        if out is None:
            found = allocating(inputs) if self._allocates else None
        elif self._made is not None:
            found = None
        elif self._one and not isinstance(out, _SEVERAL):
            return None if given(inputs, (out,)) is None else out
        else:
            found = given(inputs, self._listed(cast("object", out)))
        return None if found is None else self._returned(found)

    def _placed(self, given: list[object], out: object) -> tuple[list[object], list[object] | None]:
        """Inputs, and outputs where each is given, when ``out_idx`` says which are not."""
        signature, made = self.signature, self._made
        assert made is not None
        count, total = signature.num_inputs, len(signature.names)
        if out is not None:
            raise PolycError("Usage", f"out and out_idx of {self.name} say the same; give one")
        wanted = [i for i in range(count, total) if i not in made]
        if len(given) != count + len(wanted):
            names = [*signature.names[:count], *(signature.names[i] for i in wanted)]
            raise PolycError(
                "BadArgument",
                f"{self.name} takes {len(names)} tensors ({', '.join(names)}) with out_idx = "
                f"{list(made)}, {len(given)} are given",
            )
        inputs, rest = given[:count], dict(zip(wanted, given[count:], strict=True))
        if not rest:
            return inputs, None
        outputs: list[object] = []
        views = signature.views(inputs, 0, count, "inputs", None, True)
        fresh = signature.outputs(inputs, signature.bind(views, None), None) if made else []
        for i in range(count, total):
            outputs.append(rest[i] if i in rest else fresh[i - count])
        return inputs, outputs

    def _listed(self, out: object) -> list[object]:
        if self._returns == "dict" and isinstance(out, Mapping):
            named = cast("Mapping[str, object]", out)
            if set(named) != set(self._keys):
                raise PolycError(
                    "BadArgument",
                    f"out of {self.name} has {', '.join(named)}; its outputs are "
                    f"{', '.join(self._keys)}",
                )
            return [named[key] for key in self._keys]
        if isinstance(out, tuple | list):
            return list(cast("Sequence[object]", out))
        return [out]

    def _returned(self, found: Sequence[object]) -> Any:
        if self._made is not None:
            count = self.signature.num_inputs
            found = [found[i - count] for i in self._made]
            return None if not found else found[0] if len(found) == 1 else tuple(found)
        if self._returns == "one":
            return found[0]
        if self._returns == "dict":
            return dict(zip(self._keys, found, strict=True))
        return tuple(found) if self._returns == "tuple" else list(found)

    # What a backend asks

    def target(self, gpu_index: int | None = None) -> str:
        """The architecture that code is made for, on a GPU or where none is meant."""
        if self.arch is not None:
            return self.arch
        from polyc.runtime import driver

        if gpu_index is None and not driver.available():
            return "sm_90a"
        device = driver.device(gpu_index or 0)
        return "sm_90a" if device.runs("sm_90a") else "sm_80"

    def program(self, gpu_index: int | None = None) -> Program:
        """The code for a GPU, lowered and compiled once for all sizes."""
        if (known := self._by_gpu.get(gpu_index)) is not None:
            return known
        arch = self.target(gpu_index)
        with self._lock:
            if arch not in self._programs:
                self._programs[arch] = self._lowered(arch)
                if self._workspaces is not None:
                    self._programs[arch].with_workspaces(self._workspaces())
            if gpu_index is not None or self.arch is not None:
                self._by_gpu[gpu_index] = self._programs[arch]
            return self._programs[arch]

    @rarely()
    def _lowered(self, arch: str) -> Program:
        from polyc.runtime.program import Program
        from polyc.tools.bound import bound_program
        from polyc.tools.load import bound_origins

        if self._plan is not None and self._tiles:
            raise PolycError("Usage", "plan is about a frontend.graph, not tiles", self._written.op)
        if self._debug:
            from polyc.tools.load import load

            module = self._written.module
            return load(module, arch, params=self._params, debug=True, **self._options)
        apart = self._plan is None and not self._tiles and "kernels" not in self._options
        if self._params is None or not apart:
            origin = kept.origin(self.entry(arch), lambda: self._origin(arch))
            return Program(origin, self._params)
        records, sparing = self._options.get("records"), self._params.sparing
        return bound_program(
            self._params,
            lambda part: self.entry(arch, part),
            lambda: bound_origins(self._written.module, arch, None, records, sparing),
        )

    def entry(self, arch: str, part: str | None = None) -> str | None:
        """The name of its code for an architecture on disk; None where nothing is kept.

        ``part`` is one of the two programs that it is made as where it keeps parameters.
        """
        ir = self._written.declared.ir
        options = self._options
        if self._params is not None and self._params.sparing:
            options = {**options, "sparing": True}
        return program_key(ir, arch, plan=self._plan, options=options, part=part)

    def _origin(self, arch: str) -> Origin:
        """The program, lowered for an architecture."""
        from polyc.runtime.lowered import lowered
        from polyc.tools.load import origin

        if self._plan is None:
            return origin(self._written.module, arch, **self._options)
        with _as_file(self._plan) as path:
            return lowered(self._job(arch, path).run("tiles").module, lazily=True)

    def _job(self, arch: str, plan: str | None) -> Any:
        from polyc.dialects.common.arch import check_arch
        from polyc.tools.kernels.by_hand import with_kernels
        from polyc.tools.pipeline import Compilation
        from polyc.tools.registry import make_context

        job = Compilation(make_context(), self._written.module.clone(), check_arch(arch), plan=plan)
        if (records := self._options.get("records")) is not None:
            from polyc.tuning.applied import Recorded

            job.records = Recorded.of_file(records)
        if (kernels := self._options.get("kernels")) is not None:
            with_kernels(job, str(kernels), self._options.get("sizes") or {})
        return job

    def play(self, inputs: Sequence[Any], symbols: Mapping[str, int]) -> Sequence[Any]:
        """The outputs for NumPy arrays, by playback at the layer that the program is written in."""
        import numpy as np

        from polyc.tools.play import play_op

        if self.constants is not None:
            inputs = merged(inputs, self.constants.arrays())
        with np.errstate(all="ignore"):
            found = play_op(self._written.op, inputs, symbols)
            if found is None:
                # Tiles that have no playback are simulated, thread by thread.
                found = play_op(self._finished(), inputs, symbols)
        assert found is not None
        return found

    # What it shows

    def ir(self, layer: str) -> str:
        """The text of a layer: ``frontend``, ``tiny`` and so on, see ``LAYERS``.

        A tile program has ``tiles``, as it is written, and ``gpu``, at the hardware level.
        """
        from polyc.tools.printing import module_text

        return module_text(self.compiled_module(layer))

    def compiled_module(self, layer: str) -> ModuleOp:
        """The module of a layer, which is not to be changed: see ``ir``."""
        from xdsl.dialects.builtin import ModuleOp

        known = ("tiles", "gpu") if self._tiles else LAYERS
        if layer not in known:
            raise PolycError(
                "Usage", f"{self.name} has no layer {layer!r}; there are {', '.join(known)}"
            )
        if layer == known[0]:
            return self._written.module
        if self._tiles:
            return ModuleOp([self._finished().clone()])
        key = self.target(), layer
        with self._lock:
            if key not in self._layers:
                with _as_file(self._plan) as path:
                    self._layers[key] = self._job(self.target(), path).run(until=layer).module
            return self._layers[key]

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The schedules that were chosen, as JSON data; a tile program has none."""
        if self._tiles:
            return []
        from polyc.tools.pipeline import dump_text

        with _as_file(self._plan) as path:
            return json.loads(dump_text("plan", self._job(self.target(), path).run("plan").module))

    @property
    def cuda(self) -> str:
        """The CUDA C of all kernels."""
        from io import StringIO

        from xdsl.dialects.builtin import ModuleOp

        from polyc.lowering.gpu_to_cuda import print_cuda

        out = StringIO()
        print_cuda(ModuleOp([self._finished().clone()]), out)
        return out.getvalue()

    def _finished(self) -> GpuModuleOp:
        """All variants at the hardware level."""
        from polyc.passes.finish import finished

        program = self.program()
        with self._lock:
            if program.arch not in self._hardware:
                self._hardware[program.arch] = finished(program.module)
            return self._hardware[program.arch]

    @property
    def ptx(self) -> str:
        """The PTX of all kernels."""
        from polyc.runtime import nvrtc

        image = nvrtc.compile_cuda(self.cuda, self.target(), "ptx", f"{self.name}.cu").image
        return image.decode()

    @property
    def sass(self) -> str:
        """The machine code of all kernels, by ``nvdisasm`` of the CUDA toolkit.

        Raises PolycError ``NoDisassembler`` where that is not there.
        """
        return "\n".join(disassembled(result.image) for result in self.program().results)

    @property
    def resources(self) -> Mapping[str, KernelInfo]:
        """Registers, spills, stack and static shared memory of each kernel, by name."""
        return self.program().kernels

    @property
    def report(self) -> str:
        """What was made, in some lines: variants in order of dispatch, kernels, warnings."""
        program = self.program()
        lines = [f"{self.name} for {program.arch}"]
        if self.signature.symbols:
            lines[0] += f", sizes {', '.join(self.signature.symbols)} of any call"
        for choice in program.described.choices:
            facts = [text for fact in choice.facts if len(text := str(fact)) <= LONG]
            if left := len(choice.facts) - len(facts):
                facts.append(f"{left} on when it is the fastest")
            lines.append(f"  variant {choice.name}: {', '.join(facts) or 'always'}")
        if made := [name for name in program.described.made if name]:
            lines.append(f"  made of parameters once, when they are bound: {', '.join(made)}")
        for name, info in program.kernels.items():
            lines.append(
                f"  kernel {name}: {info.registers} registers, {info.spill_bytes} bytes spilled, "
                f"{info.smem} bytes of static shared memory"
            )
        lines += [f"  warning: {line}" for line in program.warnings()]
        return "\n".join(lines)

    def warm(self, *inputs: object) -> Compiled:
        """Compile all kernels now, for the GPU of ``inputs`` or the first one; returns itself."""
        _ = self.program(gpu_of(inputs)).results
        return self


def _unknown(*_: object) -> None:
    """No call was made before."""


def _allocated(signature: HostSignature, out_idx: Sequence[int] | int | None) -> list[int] | None:
    """The outputs that calls allocate, by their number among all tensors; None for all of them."""
    if out_idx is None:
        return None
    count, total = signature.num_inputs, len(signature.names)
    found: list[int] = []
    for index in [out_idx] if isinstance(out_idx, int) else out_idx:
        place = index + total if index < 0 else index
        if not count <= place < total:
            raise PolycError(
                "Usage",
                f"out_idx names tensor {index} of {signature.name}; its outputs are "
                + ", ".join(f"{i} ({signature.names[i]})" for i in range(count, total)),
            )
        found.append(place)
    return sorted(set(found))


class _as_file:
    """A plan as the path of a JSON file, which goes with the block where it was data."""

    def __init__(self, plan: str | Path | Mapping[str, object] | Sequence[object] | None) -> None:
        self._plan = plan
        self._made: str | None = None

    def __enter__(self) -> str | None:
        if self._plan is None or isinstance(self._plan, str | Path):
            return None if self._plan is None else str(self._plan)
        import tempfile

        handle, self._made = tempfile.mkstemp(suffix=".json")
        with os.fdopen(handle, "w") as file:
            json.dump(self._plan, file)
        return self._made

    def __exit__(self, *_: object) -> None:
        if self._made is not None:
            os.unlink(self._made)


def disassembled(image: bytes) -> str:
    """The machine code of a cubin as text.  Raises PolycError ``NoDisassembler``."""
    import subprocess
    import tempfile

    tool = _disassembler()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = subprocess.run([tool, "--print-code", file.name], capture_output=True, text=True)
    if done.returncode:
        raise PolycError("NoDisassembler", f"{tool} refuses the code: {done.stderr.strip()[:200]}")
    return done.stdout


def _disassembler() -> str:
    import shutil

    places = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [str(Path(place) / "bin") for place in (*places, "/usr/local/cuda") if place]
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=os.pathsep.join(folders))
    if found is None:
        raise PolycError(
            "NoDisassembler",
            "sass is made by nvdisasm, which is neither on PATH nor under CUDA_HOME; install the "
            "CUDA toolkit, or read ptx",
        )
    return found
