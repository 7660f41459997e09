"""The code of a program: CUDA C by kernels, compiled at once or when it is first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import nvrtc
from polyc.runtime.nvrtc import CompileResult


class Unit(NamedTuple):
    """Kernels that one source holds, and the entry on disk that has it compiled."""

    kernels: tuple[str, ...]
    entry: str | None = None


class Code:
    """``sources`` for ``arch``, which hold the kernels of these names.

    Sources that are there are all compiled, side by side, and compiling begins while ``sources``
    makes the next ones.  A function that gives the source of a kernel by its name is called, and
    its source compiled, by the first who asks for that: most kernels of a program of open sizes
    never run.

    With ``units`` the kernels come in those groups, a source each, and a group that was compiled
    before has the name of its entry on disk; its source is asked for only where that is gone.

    Any number of threads may use it.  ``on_made`` is called after something was compiled.  Raises
    PolycError as ``nvrtc.compile_cuda`` and that function do, and ``CompilerFailed`` where the
    compiler says nothing of a kernel.
    """

    def __init__(
        self,
        arch: str,
        name: str,
        kernels: Sequence[str],
        sources: Iterable[str] | Callable[[str], str],
        units: Sequence[Unit] | None = None,
    ) -> None:
        self._arch, self._name = arch, f"{name}.cu"
        self.on_made: Callable[[], None] | None = None
        self._lock = threading.RLock()
        self._results: list[CompileResult | None]
        if callable(sources):
            known = list(units or ())
            there = {kernel for unit in known for kernel in unit.kernels}
            known += [Unit((kernel,)) for kernel in kernels if kernel not in there]
            self._source_of = sources
            self._entries = [unit.entry for unit in known]
            self._sources: list[str | None] = [None] * len(known)
            self._results = [None] * len(known)
            self._unit = {kernel: i for i, unit in enumerate(known) for kernel in unit.kernels}
            return
        # What is printed is kept, and goes on to the compiler.
        self._sources = []
        kept = (self._sources.append(source) or source for source in sources)
        found = nvrtc.compile_each(kept, arch, self._name)
        self._results = list(found)
        self._entries = [None] * len(found)
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
                kernel = next(kernel for kernel, at in self._unit.items() if at == unit)
                found = self._sources[unit] = self._source_of(kernel)
            return found

    @property
    def sources(self) -> list[str]:
        """All of them."""
        return [self.source(unit) for unit in range(len(self._sources))]

    def result(self, unit: int) -> CompileResult:
        """One source, compiled."""
        with self._lock:
            if (found := self._known(unit)) is not None:
                return found
            found = nvrtc.compile_cuda(self.source(unit), self._arch, "cubin", self._name)
            self._keep(unit, found)
        self._made()
        return found

    @property
    def results(self) -> list[CompileResult]:
        """All of them, those side by side that nobody asked for."""
        with self._lock:
            left = [unit for unit in range(len(self._results)) if self._known(unit) is None]
            sources = (self.source(unit) for unit in left)
            made = nvrtc.compile_each(sources, self._arch, self._name) if left else []
            for unit, found in zip(left, made, strict=True):
                self._keep(unit, found)
            found = [found for found in self._results if found is not None]
        if left:
            self._made()
        return found

    @property
    def compiled(self) -> list[Unit]:
        """What is compiled so far, by the names of its entries on disk."""
        with self._lock:
            groups: dict[int, list[str]] = {}
            for kernel, unit in self._unit.items():
                groups.setdefault(unit, []).append(kernel)
            return [
                Unit(tuple(groups[unit]), self._entries[unit] or self._entry(source))
                for unit, (source, found) in enumerate(
                    zip(self._sources, self._results, strict=True)
                )
                if self._entries[unit] is not None or (source is not None and found is not None)
            ]

    def _entry(self, source: str | None) -> str:
        assert source is not None
        return nvrtc.entry_name(source, self._arch)

    def _known(self, unit: int) -> CompileResult | None:
        """One source, compiled, where that is on disk or was done here."""
        found, entry = self._results[unit], self._entries[unit]
        if found is None and entry is not None:
            found = nvrtc.kept(entry)
            held = {kernel for kernel, at in self._unit.items() if at == unit}
            if found is None or not held <= set(found.kernels):
                # It went, as what was used longest ago does: its source is compiled anew.
                self._entries[unit] = None
                return None
            self._results[unit] = found
        return found

    def _made(self) -> None:
        if self.on_made is not None:
            self.on_made()

    def _keep(self, unit: int, result: CompileResult) -> None:
        held = (kernel for kernel, at in self._unit.items() if at == unit)
        self._check([kernel for kernel in held if kernel not in result.kernels])
        self._results[unit] = result
