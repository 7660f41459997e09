"""``polyc cache``: what is kept on disk of compilations, listed, verified or dropped."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.steps import on_stdout

if TYPE_CHECKING:
    from polyc.runtime.store import Store

NAME = "cache"
HELP = "List, verify or clear what is kept on disk of compilations."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=["list", "verify", "clear"],
        help="list the entries, what was used last first; verify each by its content and drop "
        "those that are damaged; or drop all",
    )


STORES = {
    "programs": "programs, and what texts and functions mean",
    "nvrtc": "cubins",
    "autotune": "choices of autotune",
    "sources": "hashes of polyc's own files",
}
"""The folders of what is kept, and what is in them."""


def main(args: argparse.Namespace) -> int:
    """The command; 1 where ``verify`` found a damaged entry.  Raises PolycError."""
    from polyc.runtime.store import Store, cache_root

    root = cache_root()
    if root is None:
        raise PolycError("Usage", "there is no cache: POLYC_CACHE is 0, or there is no home")
    stores = {name: Store(root / name) for name in STORES}
    there = {name: one for name, one in stores.items() if one.entries() or name == "nvrtc"}
    doing = {"list": _list, "verify": _verify, "clear": _clear}[args.what]
    return max([doing(store, STORES[name]) for name, store in there.items()])


def _clear(store: Store, what: str) -> int:
    count = len(store.entries())
    on_stdout().say(f"dropped {count} entries, {_size(store.clear())}, from {store.folder}: {what}")
    return 0


def _verify(store: Store, what: str) -> int:
    steps = on_stdout()
    count = len(store.entries())
    wrong = store.verify()
    for name, fault in wrong.items():
        steps.say(f"{name} {fault}; dropped")
    steps.say(f"{count - len(wrong)} of {count} entries are whole in {store.folder}: {what}")
    return 1 if wrong else 0


def _list(store: Store, what: str) -> int:
    from polyc.runtime.store import limit

    steps, entries = on_stdout(), store.entries()
    for entry in entries:
        used = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.used))
        steps.say(f"{used}  {_size(entry.size):>9}  {entry.name}")
    total = _size(sum(entry.size for entry in entries))
    steps.say(f"{len(entries)} entries, {total} of {_size(limit())}, in {store.folder}: {what}")
    return 0


def _size(count: int) -> str:
    if count < 1 << 20:
        return f"{count / 1024:.1f} KiB"
    return f"{count / (1 << 20):.1f} MiB"
