"""The code of a program: CUDA C by kernels, compiled at once or when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc
from polyc.runtime.nvrtc import CompileResult


class Code:
    """``sources`` for ``arch``, which hold the kernels of these names.

    ``lazily`` leaves each to be compiled by the first who asks for it, which takes a source a
    kernel, in their order: most kernels of a program of open sizes never run.  Otherwise all are
    compiled side by side, and begin while ``sources`` makes the next ones.

    Any number of threads may use it.  Raises PolycError as ``nvrtc.compile_cuda`` does, and
    ``CompilerFailed`` where the compiler says nothing of a kernel.
    """

    def __init__(
        self,
        arch: str,
        name: str,
        kernels: Sequence[str],
        sources: Iterable[str],
        lazily: bool = False,
    ) -> None:
        self._arch, self._name = arch, f"{name}.cu"
        self._lock = threading.Lock()
        self.sources: list[str] = []
        self._results: list[CompileResult | None]
        if lazily:
            self.sources = list(sources)
            if len(self.sources) != len(kernels):
                raise ValueError(f"{len(self.sources)} sources are not one of each {len(kernels)}")
            self._results = [None] * len(kernels)
            self._unit = {kernel: unit for unit, kernel in enumerate(kernels)}
            return
        # What is printed is kept, and goes on to the compiler.
        kept = (self.sources.append(source) or source for source in sources)
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

    def result(self, unit: int) -> CompileResult:
        """One source, compiled."""
        with self._lock:
            found = self._results[unit]
            if found is None:
                found = nvrtc.compile_cuda(self.sources[unit], self._arch, "cubin", self._name)
                self._keep(unit, found)
            return found

    @property
    def results(self) -> list[CompileResult]:
        """All of them, those side by side that nobody asked for."""
        with self._lock:
            left = [unit for unit, found in enumerate(self._results) if found is None]
            sources = [self.sources[unit] for unit in left]
            made = nvrtc.compile_each(sources, self._arch, self._name) if left else []
            for unit, found in zip(left, made, strict=True):
                self._keep(unit, found)
            return [found for found in self._results if found is not None]

    def _keep(self, unit: int, result: CompileResult) -> None:
        held = (kernel for kernel, at in self._unit.items() if at == unit)
        self._check([kernel for kernel in held if kernel not in result.kernels])
        self._results[unit] = result
