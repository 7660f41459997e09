"""Whether a tensor of PyTorch's is as it was, told by its memory in place of questions to PyTorch.

A question costs some fifty nanoseconds, and a call has several for each tensor.  A tensor's object,
what it is a handle of, and the storage of that are compared with what they held when the tensor was
checked: whatever changes a tensor in place, its sizes, memory, gradient or meaning, changes one of
them.  That is no public interface: it is used with versions that were tried, where the parts are
found at their places, and where each way of changing a tensor shows.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

from polyc.runtime.torch_guards import found_where_tried

HEAD = 16
"""Bytes of a C++ object that are its class and its counts of references, which are not compared."""

MOST_BYTES, MOST_STORAGE, MOST_AUTOGRAD = 256, 128, 256
"""Bytes that the extension compares at most."""


class Layout(NamedTuple):
    """Where a tensor's Python object has the address of its implementation, and where that has
    those of its storage and of what autograd knows, which is 0 where that is nothing; the bytes of
    an implementation, a storage and autograd's data; and the address of the class of those of a
    tensor that is no view.  Of a view they do not say whether what it is of has a gradient."""

    object: int
    storage: int
    autograd: int
    object_bytes: int
    storage_bytes: int
    autograd_bytes: int
    autograd_class: int


_known: tuple[Any, Layout | None] = (None, None)


def layout(torch: Any) -> Layout | None:
    """The layout of this PyTorch's tensors; None where nothing is trusted."""
    global _known
    known, found = _known
    if known is not torch:
        found = found_where_tried(torch, _tried)
        _known = (torch, found)
    return found


def _tried(torch: Any) -> Layout | None:
    # A tensor that was made in inference mode takes no gradient.
    with torch.inference_mode(False), _memory() as peek:
        found = _found(torch, peek)
        return found if found is not None and _shows_changes(torch, found, peek) else None


Peek = Callable[[int, int], bytes]
"""Bytes at an address; raises where there is no memory."""


@contextmanager
def _memory() -> Generator[Peek]:
    """This process's own, read so that a wrong address is an error and no crash."""
    try:
        file = os.open("/proc/self/mem", os.O_RDONLY)
    except OSError:
        yield _copied
        return
    try:
        yield lambda address, count: os.pread(file, count, address)
    finally:
        os.close(file)


class _Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def _copied(address: int, count: int) -> bytes:
    """The same where there is no such file, by a copy between processes, both this one."""
    copy: Any = ctypes.CDLL(None, use_errno=True).process_vm_readv
    copy.restype = ctypes.c_ssize_t
    into = (ctypes.c_char * count)()
    own, other = _Piece(ctypes.addressof(into), count), _Piece(address, count)
    none, one = ctypes.c_ulong(0), ctypes.c_ulong(1)
    size = copy(os.getpid(), ctypes.byref(own), one, ctypes.byref(other), one, none)
    if size < 0:
        raise OSError(ctypes.get_errno(), "no memory there, or it is not to be read")
    return into.raw[:size]


def _usable(address: int) -> int:
    """Bytes of the piece of memory that was allocated at an address."""
    asked: Any = ctypes.CDLL(None).malloc_usable_size
    asked.restype, asked.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    return int(asked(address))


def _words(peek: Peek, address: int, count: int) -> tuple[int, ...]:
    """``count`` words at an address; none where there is no memory."""
    try:
        data = peek(address, 8 * count)
    except (OSError, OverflowError):
        return ()
    return struct.unpack(f"{len(data) // 8}Q", data[: len(data) // 8 * 8])


def _found(torch: Any, peek: Peek) -> Layout | None:
    """The layout that a tensor shows."""
    one = torch.zeros(3, 5, device="cpu", dtype=torch.float32)
    here, data = id(one), one.data_ptr()
    for place in range(HEAD, torch.Tensor.__basicsize__, 8):
        at = _words(peek, here + place, 1)[0]
        # It knows its Python object.
        if not at or here not in _words(peek, at, 16):
            continue
        size = min(_usable(at), MOST_BYTES) & -8
        for storage in range(HEAD, size, 8):
            block = _words(peek, at + storage, 1)[0]
            if not block or data not in _words(peek, block + HEAD, 1):
                continue
            bytes_of = min(_usable(block), MOST_STORAGE) & -8
            before = _words(peek, at, size // 8)
            one.requires_grad_(True)
            after = _words(peek, at, size // 8)
            new = [i for i in range(2, size // 8) if before[i] == 0 != after[i]]
            if len(new) != 1:
                continue
            known = after[new[0]]
            more = min(_usable(known), MOST_AUTOGRAD) & -8
            kind = _words(peek, known, 1)[0]
            return Layout(place, storage, 8 * new[0], size, bytes_of, more, kind)
    return None


def _snapshot(one: Any, layout: Layout, peek: Peek) -> object:
    """What the extension compares of a tensor; None where it would ask."""
    (at,) = _words(peek, id(one) + layout.object, 1)
    held = peek(at + HEAD, layout.object_bytes - HEAD)
    (storage,) = struct.unpack_from("Q", held, layout.storage - HEAD)
    (autograd,) = struct.unpack_from("Q", held, layout.autograd - HEAD)
    known = peek(autograd, layout.autograd_bytes) if autograd else b""
    if not storage or (autograd and known[:8] != struct.pack("Q", layout.autograd_class)):
        return None
    return at, held, peek(storage + HEAD, layout.storage_bytes - HEAD), known


def _shows_changes(torch: Any, layout: Layout, peek: Peek) -> bool:
    """Whether tensors are the same when nothing changed them, and each change shows."""

    def new(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.zeros(shape, device="cpu", dtype=dtype)

    def set_data(one: Any) -> None:
        one.data = new(4, 6)

    def unlike(one: Any, change: Callable[[Any], object]) -> bool:
        before = _snapshot(one, layout, peek)
        change(one)
        return before is not None and _snapshot(one, layout, peek) != before

    changes: list[Callable[[Any], object]] = [
        lambda one: one.requires_grad_(True),
        lambda one: one.resize_(2, 6),
        lambda one: one.resize_(400, 6),
        lambda one: one.set_(new(4, 6)),
        lambda one: one.t_(),
        lambda one: one.unsqueeze_(0),
        lambda one: one.as_strided_((2, 6), (6, 1), 6),
        lambda one: one.untyped_storage().resize_(4096),
        lambda one: torch.utils.swap_tensors(one, new(4, 6)),
        torch._lazy_clone,
        set_data,
    ]
    if not all(unlike(new(4, 6), change) for change in changes):
        return False
    parameter = torch.nn.Parameter(new(4, 6), requires_grad=False)
    if not unlike(parameter, lambda one: one.requires_grad_(True)):
        return False
    # What a view is of may be given a gradient.
    if _snapshot(new(4, 6)[:2], layout, peek) is not None:
        return False
    parameter = torch.nn.Parameter(new(4, 6), requires_grad=False)
    for one in (new(2, 3, 1, 1, 2), new(4, dtype=torch.float16), new(), parameter):
        before = _snapshot(one, layout, peek)
        one.add_(1.0)
        _ = one.data_ptr(), one.shape, one.requires_grad, one.is_neg(), one.sum()
        if before is None or _snapshot(one, layout, peek) != before:
            return False
    return True
