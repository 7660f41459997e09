"""``@polyc.autotune``: the fastest of several constants of compile time, measured once a key."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.jit.backends import CudaBackend
from polyc.tools.jit.compiled import Compiled
from polyc.tools.jit.function import Jit

Config = Mapping[str, Any]
Timer = Callable[[Compiled, Sequence[Any]], float]

BUDGET = 20.0
"""Seconds that one race may take."""


class Autotuned:
    """A jitted function whose constants are chosen by time; called as the function is.

    Each key (the values of ``key``: sizes by their symbols) has a race of its own, at its first
    call; what won is kept on disk beside the cubins, by the candidates' text, the GPU and the key.
    """

    def __init__(
        self, function: Jit, configs: Sequence[Config], key: Sequence[str], timer: Timer | None
    ) -> None:
        self.function, self.key, self._timer = function, tuple(key), timer
        self.configs = [dict(config) for config in configs]
        if not self.configs:
            raise PolycError("Usage", f"autotune of {function.name} has no config; give one")
        self.times: dict[tuple[int, ...], list[float]] = {}
        """The seconds of each config, by the key's values; of races in this process."""
        self._chosen: dict[tuple[int, ...], int] = {}

    def __call__(self, *args: object, **named: Any) -> Any:
        """Run with the fastest config at these sizes."""
        config = self.best(*args, **named)
        return self.function(*args, **{**config, **named})

    def best(self, *args: object, **named: Any) -> Config:
        """The config that runs at these arguments, timed where it was not yet."""
        calls = {k: v for k, v in named.items() if k not in ("out", "stream", "gpu_index")}
        if clash := [k for k in calls if any(k in config for config in self.configs)]:
            raise PolycError(
                "Usage", f"{clash[0]} of {self.function.name} is chosen by autotune; leave it out"
            )
        first = self.function.specialised(*args, **{**self.configs[0], **calls})
        values = self._values(first, args)
        if values not in self._chosen:
            every = [first] + [
                self.function.specialised(*args, **{**config, **calls})
                for config in self.configs[1:]
            ]
            self._chosen[values] = self._race(every, args, values)
        return self.configs[self._chosen[values]]

    def _values(self, made: Compiled, args: Sequence[object]) -> tuple[int, ...]:
        signature = made.signature
        count = signature.num_inputs
        views = signature.views(args[:count], 0, count, "inputs", None, True)
        symbols = signature.bind(views, None)
        if unknown := [name for name in self.key if name not in symbols]:
            raise PolycError(
                "Usage",
                f"key names {unknown[0]}; the sizes of {signature.name} are "
                f"{', '.join(symbols) or 'none'}",
            )
        return tuple(symbols[name] for name in self.key)

    def _race(self, every: Sequence[Compiled], args: Sequence[Any], values: tuple[int, ...]) -> int:
        timer = self._timer
        if timer is None:
            if not isinstance(every[0].backend, CudaBackend):
                return 0  # a playback is as fast with any
            return self._on_gpu(every, args, values)
        self.times[values] = [timer(one, args) for one in every]
        return self.times[values].index(min(self.times[values]))

    def _on_gpu(
        self, every: Sequence[Compiled], args: Sequence[Any], values: tuple[int, ...]
    ) -> int:
        from polyc.runtime import driver, kept
        from polyc.runtime.store import Store, cache_root
        from polyc.tools.jit.backends import gpu_of

        index = gpu_of(args) or 0
        device = driver.device(index)
        entries = [one.entry(one.target(index)) for one in every]
        name = None
        if None not in entries:
            on = [device.name, device.driver]
            parts = {"on": on, "at": values, "of": entries}
            name = kept.key("autotune", parts)
        root = cache_root()
        store = None if root is None else Store(root / "autotune")
        found = None if store is None or name is None else store.load(name)
        known = None if found is None else found[0].get("config")
        if isinstance(known, int) and 0 <= known < len(every):
            return known
        self.times[values] = _seconds(every, args, index)
        best = self.times[values].index(min(self.times[values]))
        if store is not None and name is not None:
            store.save(name, {"config": best, "seconds": self.times[values]}, b"")
        return best


def _seconds(every: Sequence[Compiled], args: Sequence[Any], index: int) -> list[float]:
    """The median time of each, in turns, in graphs over inputs that exceed the L2 cache."""
    import numpy as np

    from polyc.runtime.tensors import numpy_dtype
    from polyc.tuning.gpu import Bench
    from polyc.tuning.race import Race, Runner

    signature = every[0].signature
    views = signature.views(list(args), 0, signature.num_inputs, "inputs", None, True)
    symbols = signature.bind(views, None)
    rng = np.random.default_rng(0)
    kinds = [(view.shape, view.element) for view in views]
    arrays = [rng.standard_normal(shape).astype(numpy_dtype(e)) for shape, e in kinds]
    outputs = [(tuple(shape), element) for shape, element in signature.fresh(symbols)]
    bench = Bench([arrays], kinds, outputs, symbols, index)
    runners = [Runner(str(i), bench.timed(one.program(index))) for i, one in enumerate(every)]
    Race(runners, time.perf_counter, BUDGET).run()
    return [runner.median for runner in runners]


def autotune(
    configs: Sequence[Config], key: Sequence[str] = (), *, timer: Timer | None = None
) -> Callable[[Any], Autotuned]:
    """Decorate what ``polyc.jit`` made: ``@polyc.autotune([{"width": 32}, …], key=["M"])``.

    ``configs`` are values of constants of compile time, ``key`` the sizes at which the choice is
    made anew.  ``timer`` measures a program on inputs in seconds, in place of polyc's own race on
    the GPU.  Raises PolycError.
    """

    def decorate(function: Any) -> Autotuned:
        if not isinstance(function, Jit):
            raise PolycError("Usage", "autotune stands above @polyc.jit, and decorates its result")
        return Autotuned(function, configs, key, timer)

    return decorate
