"""Steps of a command: a line each with its time, and a sign of life in slow ones."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from polyc.tools.streams import STDOUT, naming

SLOW = 1.0
"""Seconds after which a step that is still running says so."""
EVERY = 5.0
"""Seconds between lines of progress."""


@dataclass
class Step:
    """One step: its name, its milliseconds once it is over, and what it found."""

    name: str
    milliseconds: float = 0.0
    note: str = ""


@dataclass
class Steps:
    """Collects steps and, with ``out``, prints a line a step.

    On a terminal the line of a running step is there from its start; elsewhere a step
    that takes longer than a second announces itself, so that a log shows what is slow.
    """

    out: TextIO | None = None
    width: int = 24
    done: list[Step] = field(default_factory=list[Step])

    @contextmanager
    def step(self, name: str) -> Generator[Step]:
        """Time a step; the body may set ``note``, which ends the line."""
        step = Step(name)
        out = self.out
        live = out is not None and out.isatty()
        timer: threading.Timer | None = None
        if out is not None and live:
            out.write(f"  {name:<{self.width}}  …\r")
            out.flush()
        elif out is not None:
            timer = threading.Timer(SLOW, lambda: self._say(f"  {name:<{self.width}}  …"))
            timer.daemon = True
            timer.start()
        start = time.perf_counter()
        try:
            yield step
        except BaseException:
            if live and out is not None:
                out.write("\r\x1b[K")
            raise
        finally:
            step.milliseconds = (time.perf_counter() - start) * 1e3
            if timer is not None:
                timer.cancel()
        if live and out is not None:
            out.write("\r\x1b[K")
        self.finish(step)

    def finish(self, step: Step) -> None:
        """Print the line of a step that is over."""
        self.done.append(step)
        line = f"  {step.name:<{self.width}}{step.milliseconds:>8.0f} ms"
        self._say(f"{line}  {step.note}" if step.note else line)

    def say(self, text: str) -> None:
        """Print a line of its own."""
        self._say(text)

    def progress(self, what: str) -> Callable[[int, int], None]:
        """To be told how many of how many are done; says so in a line every five seconds."""
        last = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > EVERY and done < total:
                last = time.monotonic()
                self.say(f"    {done} of {total} {what}")

        return tell

    def _say(self, text: str) -> None:
        if self.out is not None:
            with naming(STDOUT):
                self.out.write(text + "\n")
                self.out.flush()


def quiet() -> Steps:
    """Steps that print nothing."""
    return Steps()


def on_stdout() -> Steps:
    return Steps(sys.stdout)


def on_stderr() -> Steps:
    return Steps(sys.stderr)
