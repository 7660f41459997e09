"""Ctrl-C: one line on stderr and exit code 130, whatever polyc is at.

A ``KeyboardInterrupt`` comes between any two instructions of Python: in an import, in a destructor
that swallows it, not before a long call of NVRTC returns.  So no exception is raised: the signal's
handler ends the process, or where the main thread is in such a call, a thread that waits for the
signal.  This module imports next to nothing, as it comes first.
"""

from __future__ import annotations

import os
import signal
from _thread import allocate_lock, start_new_thread
from contextlib import contextmanager
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

EXIT_CODE = 130
"""A shell's code for a process that SIGINT ends."""

MESSAGE = "stopped by Ctrl-C; what was not written yet is lost"


_instead: list[Callable[[], object]] = []
"""What Ctrl-C does first, while someone has something to keep."""


@contextmanager
def instead(action: Callable[[], object]) -> Generator[None]:
    """Within it the first Ctrl-C calls ``action``, from another thread; the next one ends it all.

    Where nobody watches for Ctrl-C it is a ``KeyboardInterrupt``, as ever.
    """
    _instead.append(action)
    try:
        yield
    finally:
        _instead.clear()


def wants_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for errors as JSON, before it is known to parse."""
    after = pairwise([*args, ""])
    return any(a == "--diagnostics=json" or (a, b) == ("--diagnostics", "json") for a, b in after)


def line(as_json: bool) -> str:
    """What is printed: a PolycError of kind ``Interrupted``, without importing what makes one."""
    if not as_json:
        return f"error[Interrupted]: {MESSAGE}\n"
    return (
        f'{{"level": "error", "kind": "Interrupted", "message": "{MESSAGE}", "file": null, '
        '"line": null, "column": null, "layer": null, "numbers": [], "shapes": [], "notes": []}\n'
    )


def watch(args: Sequence[str]) -> None:
    """From now on SIGINT ends the process; nothing changes where it is ignored, as under nohup."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    text = line(wants_json(args)).encode()
    once = allocate_lock()

    asked: list[Callable[[], object]] = []

    def stop(number: int = 0, frame: object = None) -> None:
        if number and _instead:
            return  # The thread is told, too, and once a signal.
        if _instead and _instead[0] not in asked:
            asked.append(_instead[0])
            _instead[0]()
            return
        if not once.acquire(timeout=1.0):  # the other one is ending it
            return
        try:
            os.write(2, b"\n" + text if os.isatty(2) else text)
        except OSError:
            pass
        finally:
            os._exit(EXIT_CODE)

    def wait() -> None:
        while True:
            if os.read(reading, 1) == bytes([signal.SIGINT]):
                stop()

    start_new_thread(wait, ())
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, stop)
