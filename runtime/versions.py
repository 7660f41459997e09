"""What a compilation depends on beside its input: polyc's own source and the libraries it uses.

Everything is found without importing any of it, and in some milliseconds: a program that is on disk
already starts with this.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from polyc.runtime import nvrtc
from polyc.runtime.installed import installed
from polyc.runtime.store import Store, cache_root

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the package."""

LIBRARIES = ("xdsl", "islpy", "numpy")
"""What lowers beside polyc."""

_OUTSIDE = ("test", "docs", "bench", "examples")
"""Folders of the repository that compile nothing."""


def versions() -> Mapping[str, str]:
    """Names and versions, polyc's by the content of its files, and the flags of the compiler.

    Raises PolycError ``NoNVRTC`` where there is no compiler.
    """
    return {
        "polyc": source_digest(ROOT),
        "python": f"{sys.implementation.name} {sys.version}",
        "nvrtc": " ".join(nvrtc.compiler_version()),
        "flags": " ".join(nvrtc.OPTIONS),
        **{name: installed(name) or "none" for name in LIBRARIES},
    }


@cache
def source_digest(root: Path) -> str:
    """The hash of polyc's files by name and content.

    Their names, sizes and times are looked at in every process, and the files are read only where
    no process has read them as they are now.  It is asked once a process: what has been imported
    does not change with the files.
    """
    listed = [(name, status.st_size, status.st_mtime_ns) for name, status in _files(str(root))]
    seen = hashlib.sha256(repr((str(root), listed)).encode()).hexdigest()
    folder = cache_root()
    store = None if folder is None else Store(folder / "sources")
    if store is not None and (known := store.load(seen)) is not None:
        digest = known[0].get("digest")
        if isinstance(digest, str):
            return digest
    whole = hashlib.sha256()
    for name, _, _ in listed:
        content = hashlib.sha256((root / name).read_bytes()).hexdigest()
        whole.update(f"{name}\0{content}\n".encode())
    digest = whole.hexdigest()
    if store is not None:
        store.save(seen, {"digest": digest}, b"")
    return digest


def _files(root: str) -> list[tuple[str, os.stat_result]]:
    """The Python files that compile, by their names within ``root``, in order."""
    folders, found = [""], list[tuple[str, os.stat_result]]()
    while folders:
        within = folders.pop()
        with os.scandir(os.path.join(root, within)) as entries:
            for entry in entries:
                name = f"{within}/{entry.name}" if within else entry.name
                if name.endswith(".py"):
                    found.append((name, entry.stat()))
                elif name in _OUTSIDE or entry.name.startswith((".", "__")):
                    continue
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(name)
    return sorted(found, key=lambda one: one[0])
