"""Entries on disk that any number of processes write and read at once (T1).

An entry is one file: the hash of what follows, a line of JSON, and bytes; nothing of it is ever
executed.  It is written beside its place and put there whole, so that a process that is killed
leaves no part of one, and is read only where its hash and its name are right.  The folder belongs
to the user alone, and is bounded: what was used longest ago goes first.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

PART = ".part-"
"""How a file begins that is still being written."""

ABANDONED = 3600.0
"""Seconds after which such a file is of a process that was killed."""

TOUCHED = 60.0
"""Seconds within which a second use of an entry is not written down."""

EVERY = 64
"""Entries that a process writes between looks at the size of all."""

PATIENCE = 0.5
"""Seconds that a process waits for others that write more into an entry."""

DEFAULT_LIMIT = 2 << 30
"""Bytes of all entries, where ``POLYC_CACHE_LIMIT`` says nothing."""


@dataclass(frozen=True)
class Entry:
    """A file of the store: its name, bytes, and when it was used last (seconds since 1970)."""

    name: str
    size: int
    used: float


def cache_root() -> Path | None:
    """The folder of all stores, or None with ``POLYC_CACHE=0`` and where the user has no home.

    A folder that is relative in the environment would be another one in each working directory:
    it says nothing, as the XDG Base Directory Specification has it.
    """
    kept = os.environ.get("POLYC_CACHE", "")
    if kept == "0":
        return None
    if kept not in ("", "1", "cubins"):
        _warn(f"POLYC_CACHE={kept} says nothing; 0 keeps nothing, cubins keeps cubins alone")
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "polyc"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    nowhere = os.environ.get("HOME") == "" or not home.is_absolute()
    return None if nowhere else home / ".cache" / "polyc"


def limit() -> int:
    """Bytes that a store may take: ``POLYC_CACHE_LIMIT``, a number of bytes or such as ``500M``."""
    text = os.environ.get("POLYC_CACHE_LIMIT", "").strip().upper().removesuffix("B")
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    digits = text[:-1] if scale > 1 else text
    if digits.isdigit():
        return int(digits) * scale
    if text:
        _warn(f"POLYC_CACHE_LIMIT={text} is no number of bytes, such as 500M; 2 GiB are kept")
    return DEFAULT_LIMIT


def _warn(text: str) -> None:
    warnings.warn(f"polyc: {text}", RuntimeWarning, stacklevel=3)


class Store:
    """The entries of one folder.  What cannot be read or written is a miss, and no error."""

    _written = 0
    """Entries that this process wrote, in all stores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # One entry

    def load(self, name: str) -> tuple[Mapping[str, Any], bytes] | None:
        """The JSON and the bytes of an entry, or None where there is none.

        A damaged one, or one that was written under another name, is refused with a warning; the
        caller makes it anew.
        """
        path = self.folder / name
        try:
            data = path.read_bytes()
        except OSError:
            return None
        if not self.is_own():
            return None
        found = read_entry(data, name)
        if isinstance(found, str):
            _warn(f"{path} {found}; it is not used, and made anew")
            return None
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > TOUCHED:
                os.utime(path)
        return found

    def save(self, name: str, head: Mapping[str, Any], blob: bytes) -> None:
        """Write an entry whole or not at all."""
        data = entry_bytes(name, head, blob)
        import tempfile

        part: str | None = None
        try:
            if not self._made():
                return
            handle, part = tempfile.mkstemp(prefix=PART, dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                path.rmdir()  # nothing of ours; one with files in it stays, and is no error
            os.replace(part, path)
        except OSError:
            if part is not None:
                with suppress(OSError):
                    os.unlink(part)
            return
        if Store._written % EVERY == 0:
            self.prune(limit())
        Store._written += 1

    @contextmanager
    def alone(self) -> Generator[None]:
        """While this process reads an entry and writes it with more, others that do so wait.

        Who is killed holds nobody up, and neither does who is stopped, nor a file system that does
        not know this: after ``PATIENCE`` it goes on, and what another one adds meanwhile may be
        lost, to be made anew.
        """
        held: int | None = None
        with suppress(OSError):
            if self._made():
                held = os.open(self.folder, os.O_RDONLY)
                end = time.monotonic() + PATIENCE
                while not _locked(held) and time.monotonic() < end:
                    time.sleep(0.002)
        try:
            yield
        finally:
            if held is not None:
                os.close(held)

    def _made(self) -> bool:
        """Make the folder for its user alone; whether it is."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            self.folder.mkdir(mode=0o700)
        return self.is_own()

    def is_own(self) -> bool:
        """Whether the folder is the user's own; others' rights on it are taken away.

        Code is loaded from here: a folder of somebody else is not used, with a warning.
        """
        try:
            found = self.folder.stat()
            if hasattr(os, "getuid") and found.st_uid != os.getuid():
                _warn(
                    f"the cache {self.folder} belongs to user {found.st_uid}, and is not used; set "
                    "XDG_CACHE_HOME to a folder of your own"
                )
                return False
            if stat.S_IMODE(found.st_mode) & 0o077:
                os.chmod(self.folder, 0o700)
        except OSError:
            return False
        return True

    # All of them

    def entries(self) -> list[Entry]:
        """What there is, what was used last first."""
        found: list[Entry] = []
        for path, status in self._files():
            if not path.name.startswith(PART):
                found.append(Entry(path.name, status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: (-entry.used, entry.name))

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            paths = sorted(self.folder.iterdir())
        except OSError:
            return
        for path in paths:
            with suppress(OSError):
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status

    def prune(self, most: int) -> int:
        """Drop what was used longest ago until ``most`` bytes are left, and parts of the killed.

        Returns the bytes that went.  A process that reads an entry meanwhile has it whole.
        """
        gone = 0
        now = time.time()
        for path, status in self._files():
            if path.name.startswith(PART) and now - status.st_mtime > ABANDONED:
                gone += self._drop(path, status.st_size)
        kept = self.entries()
        total = sum(entry.size for entry in kept)
        for entry in reversed(kept):
            if total <= most:
                break
            gone += self._drop(self.folder / entry.name, entry.size)
            total -= entry.size
        return gone

    @staticmethod
    def _drop(path: Path, size: int) -> int:
        try:
            path.unlink()
        except OSError:
            return 0
        return size

    def verify(self) -> dict[str, str]:
        """What is wrong with entries, by name; those are dropped."""
        wrong: dict[str, str] = {}
        for entry in self.entries():
            path = self.folder / entry.name
            try:
                found = read_entry(path.read_bytes(), entry.name)
            except OSError as error:
                found = f"cannot be read: {error.strerror}"
            if isinstance(found, str):
                wrong[entry.name] = found
                self._drop(path, entry.size)
        return wrong

    def clear(self) -> int:
        """Drop all entries, and parts of some; returns the bytes that went."""
        return sum(self._drop(path, status.st_size) for path, status in list(self._files()))


def _locked(folder: int) -> bool:
    """Whether the lock of an open folder is this process's now."""
    import fcntl

    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def entry_bytes(name: str, head: Mapping[str, Any], blob: bytes) -> bytes:
    """An entry as it is written."""
    rest = json.dumps({**head, "entry": name}).encode() + b"\n" + blob
    return _digest(rest) + b"\n" + rest


def read_entry(data: bytes, name: str) -> tuple[Mapping[str, Any], bytes] | str:
    """The JSON and the bytes of an entry, or what is wrong with it."""
    digest, _, rest = data.partition(b"\n")
    if digest != _digest(rest):
        return "is damaged: its hash is not that of what it holds"
    line, _, blob = rest.partition(b"\n")
    try:
        head: object = json.loads(line)
    except (ValueError, RecursionError):
        return "is of another kind: its first line is no JSON"
    if not isinstance(head, dict):
        return "is of another kind: its first line is no object"
    found = cast("dict[str, Any]", head)
    if found.get("entry") != name:
        return f"was written as {found.get('entry')!r}"
    return found, blob


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
