"""Parameter files in the format of safetensors: read part by part, refused where a byte is wrong.

A file is eight bytes that say how long a header is, little-endian, the header, which is JSON, and
the tensors' elements.  The header has for each name an element type, sizes, and where its elements
begin and end behind the header (https://github.com/huggingface/safetensors, README, *Format*).

What a file says of itself is checked when it is opened: nothing outside of it is ever read, and no
part of it twice under two names.  Elements are read where they are asked for, and not mapped into
memory: a file that gets shorter while it is mapped would end the process.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import tensors
from polyc.runtime.views import ELEMENT_BYTES

MAX_HEADER = 100_000_000
"""Bytes of a header, as the format's own library has it."""

MAX_ITEMS = 1 << 62
"""Elements of a tensor."""

_FIRST = 8
"""Bytes that say how long the header is."""

_KINDS: Mapping[str, tuple[str, int]] = {
    **{"BOOL": ("i1", 1), "F16": ("f16", 2), "BF16": ("bf16", 2), "F32": ("f32", 4)},
    **{"I8": ("i8", 1), "U8": ("ui8", 1), "I16": ("i16", 2), "U16": ("ui16", 2)},
    **{"I32": ("i32", 4), "U32": ("ui32", 4), "I64": ("i64", 8), "U64": ("ui64", 8)},
    **{"F64": ("f64", 8), "C64": ("c64", 8)},
    **{"F8_E4M3": ("f8e4m3", 1), "F8_E5M2": ("f8e5m2", 1), "F8_E8M0": ("f8e8m0", 1)},
}
"""The format's element types: what they are called here, and their bytes."""

_WRITTEN = {element: name for name, (element, _) in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor of a file: where its elements begin in the file, and how many bytes they are.

    ``element`` may be a type that no program has.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    start: int
    size: int


class SafeTensors:
    """A parameter file that was opened and checked; ``entries`` by name, in the file's order.

    It stays the file that was opened whatever the path names later.  ``identity`` is the same for
    two that opened the same file with the same content, as far as the file system tells.  Any
    number of threads may read it.

    Raises PolycError ``BadParameterFile`` for what the format does not allow, and OSError.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._file = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._close = weakref.finalize(self, os.close, self._file)
        try:
            about = os.fstat(self._file)
            if not stat.S_ISREG(about.st_mode):
                self._refuse("is no plain file")
            self.identity = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            self.entries = self._entries(about.st_size)
        except BaseException:
            self._close()
            raise

    def __repr__(self) -> str:
        return f"<parameters of {self.path}: {len(self.entries)} entries>"

    def _refuse(self, why: str) -> NoReturn:
        raise PolycError(
            "BadParameterFile", f"{self.path} {why}; a parameter file is written by safetensors"
        )

    # The header

    def _entries(self, size: int) -> Mapping[str, Stored]:
        if size < _FIRST:
            self._refuse(f"has {size} bytes, and the length of a header takes {_FIRST}")
        (length,) = struct.unpack("<Q", self._bytes(0, _FIRST))
        if length > min(MAX_HEADER, size - _FIRST):
            self._refuse(
                f"says that its header has {length} bytes; it has {size - _FIRST} behind that "
                f"number, and a header {MAX_HEADER} at most"
            )
        header = self._header(self._bytes(_FIRST, length))
        base = _FIRST + length
        found = [
            self._entry(name, said, base, size)
            for name, said in header.items()
            if name != "__metadata__"
        ]
        end = base
        for one in sorted(found, key=lambda one: (one.start, one.size)):
            if one.start != end:
                what = "overlap" if one.start < end else "leave out"
                self._refuse(
                    f"has elements of {one.name!r} from byte {one.start - base} on, which {what} "
                    f"bytes before: others end at {end - base}"
                )
            end += one.size
        if end != size:
            self._refuse(f"has {size - end} bytes that are no tensor's at its end")
        return {one.name: one for one in found}

    def _header(self, data: bytes) -> Mapping[str, Any]:
        def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
            made = dict(pairs)
            if len(made) != len(pairs):
                names = [name for name, _ in pairs]
                twice = next(name for name in names if names.count(name) > 1)
                raise ValueError(f"{twice!r} is there twice")
            return made

        def none(text: str) -> NoReturn:
            raise ValueError(f"{text} is no JSON")

        try:
            if not data.startswith(b"{"):
                raise ValueError("it does not begin with {")
            found = json.loads(data.decode(), object_pairs_hook=once, parse_constant=none)
        except (ValueError, RecursionError) as error:
            self._refuse(f"has a header that is not as the format says ({_short(str(error))})")
        about = found.get("__metadata__", {})
        if not isinstance(about, dict) or not all(
            isinstance(text, str) for text in cast("dict[str, Any]", about).values()
        ):
            self._refuse("has a __metadata__ that is no object of texts")
        return cast("Mapping[str, Any]", found)

    def _entry(self, name: str, said: Any, base: int, size: int) -> Stored:
        def refuse(why: str) -> NoReturn:
            self._refuse(f"has an entry {_short(name)!r} {why}")

        if not isinstance(said, dict) or set(cast("dict[str, Any]", said)) != _FIELDS:
            refuse(f"whose header is not {', '.join(sorted(_FIELDS))}")
        fields = cast("dict[str, Any]", said)
        kind, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
        if not isinstance(kind, str) or kind not in _KINDS:
            refuse(f"of element type {_short(repr(kind))}; there are {', '.join(_KINDS)}")
        if not _are_sizes(shape):
            refuse(f"of shape {_short(repr(shape))}; sizes are whole numbers, 0 or more")
        if not _are_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            refuse(f"at {_short(repr(offsets))}; a beginning and an end are meant, in bytes")
        begin, end = offsets
        if end > size - base:
            refuse(f"whose elements end at byte {end}, and the file has {size - base} of elements")
        element, item = _KINDS[kind]
        items = 0 if 0 in shape else prod(shape)
        if items > MAX_ITEMS or items * item != end - begin:
            text = "x".join(map(str, shape)) or "1"
            refuse(
                f"of {_short(text)} elements of {item} bytes, and {end - begin} bytes from "
                f"{begin} to {end}"
            )
        return Stored(name, element, tuple(shape), base + begin, end - begin)

    # Elements

    def _bytes(self, start: int, size: int) -> bytes:
        data = bytearray(size)
        self._fill(memoryview(data), start)
        return bytes(data)

    def _fill(self, into: memoryview, start: int) -> None:
        done = 0
        while done < len(into):
            count = os.preadv(self._file, [into[done : done + (1 << 30)]], start + done)
            if not count:
                self._refuse(
                    f"has become shorter since it was opened: it ends at byte {start + done}"
                )
            done += count

    def array(self, name: str) -> Any:
        """An entry as a NumPy array that was read now, row-major and the caller's own.

        Raises PolycError ``TypeMismatch`` for elements of a type that no program has, and
        ``BadParameterFile`` where the file has changed, or conditions are neither 0 nor 1.
        """
        one = self.entries[name]
        if one.element not in ELEMENT_BYTES:
            raise PolycError(
                "TypeMismatch",
                f"entry {name!r} of {self.path} holds {one.element}; programs have "
                f"{', '.join(ELEMENT_BYTES)}; convert it",
            )
        made = np.empty(one.shape, tensors.numpy_dtype(one.element))
        raw = made.reshape(-1).view(np.uint8)
        self._fill(memoryview(cast("Any", raw)), one.start)
        if one.element == "i1" and made.size and int(raw.max()) > 1:
            self._refuse(f"has an entry {name!r} of conditions that are neither 0 nor 1")
        return made


_FIELDS = {"dtype", "shape", "data_offsets"}


def _are_sizes(data: Any) -> bool:
    return isinstance(data, list) and all(
        type(size) is int and 0 <= size <= MAX_ITEMS for size in cast("list[Any]", data)
    )


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:100]}…"


# Writing ----------------------------------------------------------------------------------


class ParameterFile(Mapping[str, Any]):
    """The entries of a parameter file as NumPy arrays, each read when it is asked for."""

    def __init__(self, file: SafeTensors) -> None:
        self.file = file

    def __getitem__(self, name: str) -> Any:
        return self.file.array(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.file.entries)

    def __len__(self) -> int:
        return len(self.file.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.file.entries

    def __repr__(self) -> str:
        return repr(self.file)


def read_params(path: str | Path) -> ParameterFile:
    """Open a parameter file, whose entries are read when they are asked for, as NumPy arrays.

    Raises PolycError ``BadParameterFile`` for a file that is not as safetensors writes it, and
    OSError.
    """
    return ParameterFile(SafeTensors(path))


def write_params(path: str | Path, params: Mapping[str, Any]) -> None:
    """Write tensors in host memory as a parameter file, which is there whole or not at all.

    Elements are NumPy's or another library's by DLPack, of the types that programs have.  Raises
    PolycError for a tensor that cannot be written, and OSError.
    """
    import tempfile

    arrays: dict[str, Any] = {}
    held: list[object] = []
    for name, tensor in params.items():
        if name in ("", "__metadata__"):
            raise PolycError("BadArgument", f"an entry of a parameter file is not named {name!r}")
        if not name.isprintable():
            raise PolycError(
                "BadArgument", f"{name!r} is no name of an entry: it cannot be printed"
            )
        view = tensors.dense(tensor, name)
        if view.gpu is not None:
            raise PolycError("BadArgument", f"{name} is on GPU {view.gpu}; copy it to the host")
        if view.element not in ELEMENT_BYTES:
            raise PolycError(
                "TypeMismatch",
                f"{name} holds {view.element}; convert it to {', '.join(ELEMENT_BYTES)}",
            )
        arrays[name] = view.element, tensors.as_numpy(view)
        held.append(view)
    # The widest elements first, so that each tensor begins at a multiple of its elements' bytes.
    order = sorted(arrays, key=lambda name: (-ELEMENT_BYTES[arrays[name][0]], name))
    header: dict[str, Any] = {}
    end = 0
    for name in order:
        element, array = arrays[name]
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _WRITTEN[element],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    folder = Path(path).resolve().parent
    handle, part = tempfile.mkstemp(prefix=".part-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in order:
                if arrays[name][1].size:
                    file.write(memoryview(arrays[name][1].reshape(-1).view(np.uint8)))
        os.chmod(part, 0o666 & ~_umask())
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _umask() -> int:
    found = os.umask(0)
    os.umask(found)
    return found
