"""The code of a program: CUDA C by kernels, compiled at once or when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc
from polyc.runtime.nvrtc import CompileResult


class Code:
    """``sources`` for ``arch``, which hold the kernels of these names.

    Sources that are there are all compiled, side by side, and compiling begins while ``sources``
    makes the next ones.  A function that gives the source of a kernel by its name is called, and
    its source compiled, by the first who asks for that: most kernels of a program of open sizes
    never run.

    Any number of threads may use it.  Raises PolycError as ``nvrtc.compile_cuda`` and that function
    do, and ``CompilerFailed`` where the compiler says nothing of a kernel.
    """

    def __init__(
        self,
        arch: str,
        name: str,
        kernels: Sequence[str],
        sources: Iterable[str] | Callable[[str], str],
    ) -> None:
        self._arch, self._name = arch, f"{name}.cu"
        self._lock = threading.RLock()
        self._results: list[CompileResult | None]
        if callable(sources):
            self._kernels, self._source_of = list(kernels), sources
            self._sources: list[str | None] = [None] * len(kernels)
            self._results = [None] * len(kernels)
            self._unit = {kernel: unit for unit, kernel in enumerate(kernels)}
            return
        # What is printed is kept, and goes on to the compiler.
        self._sources = []
        kept = (self._sources.append(source) or source for source in sources)
        found = nvrtc.compile_each(kept, arch, self._name)
        self._results = list(found)
        self._unit = {kernel: i for i, result in enumerate(found) for kernel in result.kernels}
        self._check([name for name in kernels if name not in self._unit])

    def _check(self, unknown: Sequence[str]) -> None:
        if unknown:
            raise PolycError(
                "CompilerFailed",
                f"ptxas says nothing of {', '.join(unknown)}, so that its registers and spills "
                f"are not known; it speaks of {', '.join(self._unit) or 'no kernel'}",
            )

    def unit(self, kernel: str) -> int:
        """The number of the source that holds a kernel."""
        return self._unit[kernel]

    def source(self, unit: int) -> str:
        """One source."""
        with self._lock:
            if (found := self._sources[unit]) is None:
                found = self._sources[unit] = self._source_of(self._kernels[unit])
            return found

    @property
    def sources(self) -> list[str]:
        """All of them."""
        return [self.source(unit) for unit in range(len(self._sources))]

    def result(self, unit: int) -> CompileResult:
        """One source, compiled."""
        with self._lock:
            found = self._results[unit]
            if found is None:
                found = nvrtc.compile_cuda(self.source(unit), self._arch, "cubin", self._name)
                self._keep(unit, found)
            return found

    @property
    def results(self) -> list[CompileResult]:
        """All of them, those side by side that nobody asked for."""
        with self._lock:
            left = [unit for unit, found in enumerate(self._results) if found is None]
            sources = (self.source(unit) for unit in left)
            made = nvrtc.compile_each(sources, self._arch, self._name) if left else []
            for unit, found in zip(left, made, strict=True):
                self._keep(unit, found)
            return [found for found in self._results if found is not None]

    def _keep(self, unit: int, result: CompileResult) -> None:
        held = (kernel for kernel, at in self._unit.items() if at == unit)
        self._check([kernel for kernel in held if kernel not in result.kernels])
        self._results[unit] = result
