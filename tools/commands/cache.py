"""``polyc cache``: what is kept on disk of compilations, listed, verified or dropped."""

from __future__ import annotations

import argparse
import time

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.steps import on_stdout

NAME = "cache"
HELP = "List, verify or clear what is kept on disk of compilations."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=["list", "verify", "clear"],
        help="list the entries, what was used last first; verify each by its content and drop "
        "those that are damaged; or drop all",
    )


def main(args: argparse.Namespace) -> int:
    """The command; 1 where ``verify`` found a damaged entry.  Raises PolycError."""
    from polyc.runtime.nvrtc import cache_dir
    from polyc.runtime.store import Store, limit

    folder = cache_dir()
    if folder is None:
        raise PolycError("Usage", "there is no cache: POLYC_CACHE is 0, or there is no home")
    store, steps = Store(folder), on_stdout()
    if args.what == "clear":
        count = len(store.entries())
        steps.say(f"dropped {count} entries, {_size(store.clear())}, from {folder}")
        return 0
    entries = store.entries()
    total = sum(entry.size for entry in entries)
    if args.what == "verify":
        wrong = store.verify()
        for name, fault in wrong.items():
            steps.say(f"{name} {fault}; dropped")
        steps.say(f"{len(entries) - len(wrong)} of {len(entries)} entries are whole in {folder}")
        return 1 if wrong else 0
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used))
        steps.say(f"{used}  {_size(entry.size):>9}  {entry.name}")
    steps.say(f"{len(entries)} entries, {_size(total)} of {_size(limit())}, in {folder}")
    return 0


def _size(count: int) -> str:
    if count < 1 << 20:
        return f"{count / 1024:.1f} KiB"
    return f"{count / (1 << 20):.1f} MiB"
