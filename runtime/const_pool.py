"""ConstPool (S12.2): the tensors that a program keeps, by name, each once on every GPU.

``Params`` are named tensors: entries of parameter files, or tensors that a caller gives.
``bind`` finds in them what a program's signature asks of its constant pool, or says all that is
wrong, and ``Constants`` are what it found.  Programs that are given the same file, or the same
``Params``, share what lies on a GPU; it goes when the last of them does.  A tensor by itself is no
sign of that: what it holds may have changed since another program was given it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from weakref import WeakValueDictionary

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.size_expr import Shape, shape_text
from polyc.runtime import driver, streams, tensors, torch_tensors
from polyc.runtime.safetensors import ParameterFile, SafeTensors
from polyc.runtime.views import TensorView, row_major

if TYPE_CHECKING:
    from polyc.runtime.signature import HostSignature

T = TypeVar("T")

LITTLE = 1 << 16
"""Bytes of what is made of parameters that is kept in any case."""

Given = Any
"""A path of a parameter file, several of them, or a mapping of names to tensors; or Params."""


class Held:
    """What an entry holds on one GPU; ``view`` keeps its memory."""

    __slots__ = ("__weakref__", "borrowed", "owner", "view")

    def __init__(self, view: TensorView, owner: object, borrowed: bool = False) -> None:
        self.view, self.owner, self.borrowed = view, owner, borrowed


_POOL: WeakValueDictionary[object, Held] = WeakValueDictionary()
"""What programs hold now, by GPU and by what it is of."""

_FILES: WeakValueDictionary[object, SafeTensors] = WeakValueDictionary()
"""The parameter files that programs read."""

_LOCK = threading.RLock()


class Cell:
    """A tensor that a caller gave, for all that have it from there; None once it is let go."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: object) -> None:
        self.tensor: object = tensor


@dataclass(frozen=True, slots=True)
class Entry:
    """A named tensor: an entry of ``file``, or ``given`` by the caller.

    ``of`` is the same object for what was given together.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    file: SafeTensors | None = None
    given: Cell | None = None
    of: object = None

    def _view(self) -> TensorView:
        given: Any = None if self.given is None else self.given.tensor
        if given is None:
            raise PolycError(
                "BadParams",
                f"parameter {self.name} was donated, and let go once all was made of it that the "
                "program needed; what needs it again, another GPU or another order of it, wants "
                "parameters that are not donated",
            )
        if torch_tensors.is_tensor(given) and given.requires_grad:
            given = given.detach()  # a weight's memory, without what training knows of it
        return tensors.dense(given, self.name)

    def array(self) -> Any:
        """It as a NumPy array, which is not to be written to.

        Raises PolycError ``DeviceMismatch`` for a tensor on a GPU, and as ``SafeTensors.array``.
        """
        if self.file is not None:
            return self.file.array(self.name)
        view = self._view()
        if view.gpu is not None:
            raise PolycError(
                "DeviceMismatch",
                f"parameter {self.name} is on GPU {view.gpu}, and the CPU plays back what is in "
                "host memory; copy it there",
            )
        # Its view keeps the memory for as long as the copy takes.
        return tensors.as_numpy(view).copy()

    def let_go(self) -> None:
        """Keep what the caller gave no longer."""
        if self.given is not None:
            self.given.tensor = None

    def on(self, index: int) -> Held:
        """It on a GPU, where it is put if it is not there.  Raises PolycError."""
        key = index, self.identity
        with _LOCK:
            if (found := _POOL.get(key)) is None:
                found = _POOL[key] = self._put(index)
            return found

    @property
    def identity(self) -> object:
        """The same for entries that are the same tensor, for as long as somebody keeps it."""
        if self.file is not None:
            return self.file.identity, self.name
        return id(self.of), id(self.given)

    @property
    def owner(self) -> object:
        """What has to be kept for ``identity`` to mean it."""
        return self.file or (self.of, self.given)

    def _put(self, index: int) -> Held:
        if self.file is None and (view := self._view()).gpu is not None:
            if view.gpu != index:
                raise PolycError(
                    "DeviceMismatch",
                    f"parameter {self.name} is on GPU {view.gpu}, and the call on GPU {index}; "
                    "move one of them",
                )
            with driver.current(index):
                streams.check_places([(self.name, view)], index)
                # Used in place from now on, after what its owner has begun.
                driver.synchronize()
            return Held(view, self.owner, borrowed=True)
        if self.file is None:
            there = self._view()
            if there.pinned:
                with driver.current(index):
                    driver.synchronize()  # a copy into it may be on its way
            place, size = there.pointer, there.bytes
        else:
            array = self.file.array(self.name)
            place, size = array.ctypes.data, array.nbytes
        buffer = driver.Buffer(size, index)
        buffer.upload(place)
        strides = row_major(self.shape)
        view = TensorView(buffer.pointer, self.shape, strides, self.element, index, buffer)
        return Held(view, self.owner)


class Params(Mapping[str, Entry]):
    """Named tensors to find entries in: see ``of``.  Nothing is read before it is asked for."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        what: str,
        open_ended: bool,
        sparing: bool = False,
        donated: bool = False,
    ) -> None:
        self._entries, self.what, self.sparing = dict(entries), what, sparing
        self.donated = donated
        self.open_ended = open_ended
        """Whether it may have more than a program asks for, as a file may.

        ``sparing`` ones are kept by somebody else too: what is made of them and takes more than
        ``LITTLE`` bytes is made by each call, and not kept beside them.  ``donated`` ones are kept
        by nobody else: a tensor of which all is made that is needed is let go.
        """

    @staticmethod
    def of(given: Given) -> Params:
        """Parameters from the path of a file, from several paths, from a mapping of names to
        tensors, or what was made so.

        Raises PolycError ``BadParameterFile`` and ``BadArgument``, and OSError.
        """
        if isinstance(given, Params):
            return given
        if isinstance(given, str | Path):
            return Params.of([given])
        if isinstance(given, ParameterFile):
            return Params(_of_file(given.file), str(given.file.path), True)
        if isinstance(given, Mapping):
            named = cast("Mapping[Any, Any]", given)
            of = object()
            cells = {id(v): Cell(v) for v in named.values()}
            made = {str(k): _of_tensor(str(k), cells[id(v)], of) for k, v in named.items()}
            return Params(made, "params", False)
        if not isinstance(given, list | tuple):
            raise PolycError(
                "BadArgument",
                f"params is a {type(given).__name__}; pass the path of a parameter file, or a "
                "mapping of names to tensors",
            )
        found: dict[str, Entry] = {}
        paths = list(cast("Sequence[str | Path]", given))
        for path in paths:
            for name, entry in _of_file(_opened(path)).items():
                if (first := found.setdefault(name, entry)) is not entry and first.file is not None:
                    raise PolycError(
                        "BadParameterFile",
                        f"{first.file.path} and {path} both have an entry {name!r}; give files "
                        "that share none",
                    )
        return Params(found, ", ".join(map(str, paths)) or "no file", True)

    def joined(self, other: Params | None) -> Params:
        """These and those of ``other``.  Raises PolycError ``BadArgument`` for a name of both."""
        if other is None:
            return self
        if both := [name for name in self if name in other]:
            raise PolycError(
                "BadArgument",
                f"{both[0]} is what a captured tensor is called, and an entry of {other.what}; "
                "name the tensor by polyc.constant",
            )
        both = self.sparing or other.sparing
        entries = {**self._entries, **dict(other)}
        return Params(entries, other.what, other.open_ended, both, other.donated)

    def sparingly(self) -> Params:
        """The same, of which nothing large is kept a second time."""
        return Params(self._entries, self.what, self.open_ended, True)

    def donate(self) -> Params:
        """The same, of which a program lets go once it has made what it needs of them: of a tensor
        that it keeps in another order alone nothing stays of its own."""
        return Params(self._entries, self.what, self.open_ended, donated=True)

    def __getitem__(self, name: str) -> Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _opened(path: str | Path) -> SafeTensors:
    """The file of a path, opened once for all that read it, while it stays the same."""
    file = SafeTensors(path)
    with _LOCK:
        return _FILES.setdefault(file.identity, file)


def _of_file(file: SafeTensors) -> dict[str, Entry]:
    return {n: Entry(n, one.element, one.shape, file) for n, one in file.entries.items()}


def _of_tensor(name: str, given: Cell, of: object) -> Entry:
    view = Entry(name, "", (), given=given)._view()  # pyright: ignore[reportPrivateUsage]
    return Entry(name, view.element, view.shape, given=given, of=of)


class Constants:
    """What the constant pool keeps for a program: ``entries`` by their tensors' numbers.

    ``sizes`` are the symbols' values that entries show.  ``numbers`` are those of all that is kept,
    with what is made of entries (``make``).
    """

    def __init__(
        self, entries: Mapping[int, Entry], sizes: Mapping[str, int], aligns: Mapping[int, int]
    ) -> None:
        self.entries, self.sizes, self._aligns = dict(entries), dict(sizes), dict(aligns)
        self._made: dict[int, str] = {}
        self._maker: Callable[[int], Mapping[str, Held]] | None = None
        self.numbers: frozenset[int] = frozenset(self.entries)
        self.sparing = self.donated = False
        self.beside: Collection[Cell | None] = ()
        """What another program was given that keeps what is made of these."""
        self._held: dict[int, dict[int, Held]] = {}
        self._gone: dict[int, dict[int, TensorView]] = {}
        self._arrays: dict[int, Any] | None = None

    def on(self, index: int) -> dict[int, TensorView]:
        """The tensors on a GPU by their numbers, put there where they were not before.

        Those that were let go are said as they were: nothing is in their place.  Raises PolycError.
        """
        if (found := self._held.get(index)) is None:
            found = {number: self._put(number, index) for number in self.entries}
            if self._maker is not None:
                made = self._maker(index)
                found |= {number: made[name] for number, name in self._made.items()}
            self._held[index] = found
        views = {number: one.view for number, one in found.items()}
        return views | self._gone.get(index, {})

    def _put(self, number: int, index: int) -> Held:
        entry = self.entries[number]
        found = entry.on(index)
        rank, align = len(entry.shape), self._aligns[number]
        tensors.check(found.view, f"parameter {entry.name}", entry.element, rank, align)
        return found

    def gone(self, index: int) -> Collection[int]:
        """The numbers of those that were let go on a GPU."""
        return self._gone.get(index, {}).keys()

    def let_go(self, index: int, numbers: Iterable[int]) -> None:
        """Keep some tensors on a GPU no longer, as all is made of them that is needed there; those
        that are made stay."""
        held, gone = self._held.get(index, {}), self._gone.setdefault(index, {})
        for number in numbers:
            if number in self.entries and number in held:
                gone[number] = replace(held.pop(number).view, owner=None)
                if self.donated:
                    self.entries[number].let_go()

    def made(self) -> None:
        """Keep no longer what was donated, as all is made of it, and what else was not given to the
        program ``beside``."""
        for entry in self.entries.values() if self.donated else ():
            if entry.given not in self.beside:
                entry.let_go()

    def again(self, index: int, numbers: Iterable[int]) -> dict[int, TensorView]:
        """Put some of those that were let go on a GPU again.  Raises PolycError."""
        found: dict[int, TensorView] = {}
        for number in numbers:
            one = self._held[index][number] = self._put(number, index)
            del self._gone[index][number]
            found[number] = one.view
        return found

    def make(self, made: Mapping[int, str], maker: Callable[[int], Mapping[str, Held]]) -> None:
        """The tensors ``made``, by their numbers, are what ``maker`` gives on a GPU, by name."""
        self._made, self._maker = dict(made), maker
        self.numbers |= self._made.keys()

    def there(self, index: int) -> bool:
        """Whether all is on a GPU."""
        return index in self._held

    @property
    def borrowed(self) -> bool:
        """Whether a tensor on a GPU is used where its owner has it."""
        return any(one.borrowed for held in self._held.values() for one in held.values())

    def arrays(self) -> dict[int, Any]:
        """The tensors as NumPy arrays, by their numbers.  Raises PolycError."""
        if self._arrays is None:
            self._arrays = {number: entry.array() for number, entry in self.entries.items()}
        return self._arrays

    @property
    def identities(self) -> tuple[object, ...]:
        """What the entries are of, in their order: the same for the same entries of the same."""
        return tuple(one.identity for one in self.entries.values())

    @property
    def owners(self) -> list[object]:
        """What the entries are of, which has to be kept for ``identities`` to mean it."""
        return [one.owner for one in self.entries.values()]

    def forget(self) -> None:
        """Let go of what lies on GPUs, and of copies for playback."""
        self._held, self._gone, self._arrays = {}, {}, None


def bind(signature: HostSignature, params: Given, beside: HostSignature | None = None) -> Constants:
    """What ``params`` has for the inputs of a signature that the constant pool keeps.

    What ``beside`` asks for is looked for too, and is bound by itself.
    A file may have more entries than that, and a mapping may not.  Raises PolycError ``BadParams``
    with all that is missing, of another type or shape, or too much, and as ``Params.of`` does.
    """
    found = Params.of(params)
    entries: dict[int, Entry] = {}
    sizes: dict[str, int] = {}
    wanted: set[str] = set()
    wrong: list[str] = []
    missing: list[str] = []
    for asking in (signature,) if beside is None else (signature, beside):
        mine: dict[int, Entry] = {}
        for number, name in enumerate(asking.pooled):
            if not name:
                continue
            wanted.add(name)
            dims, element = asking.shapes[number], asking.elements[number]
            if name not in found:
                missing.append(f"{name} is missing, {element} {shape_text(dims)}")
                continue
            entry = mine[number] = found[name]
            if entry.element != element:
                wrong.append(f"{name} holds {entry.element}, and the program takes {element}")
            if (why := _unlike(dims, entry.shape, sizes)) is not None:
                wrong.append(f"{name} {why}")
        for number, entry in mine.items():
            dims = asking.shapes[number]
            if len(dims) == len(entry.shape) and (why := _differs(dims, entry.shape, sizes)):
                wrong.append(f"{entry.name} {why}")
        if asking is signature:
            entries = mine
    wrong = list(dict.fromkeys([*wrong, *missing]))
    extra = sorted(set(found) - wanted)
    if extra and (missing or not found.open_ended):
        listed = ", ".join(map(_shown, extra[:MOST])) + (
            f" and {len(extra) - MOST} more" * (len(extra) > MOST)
        )
        wrong.append(f"nothing asks for {listed}")
    if wrong:
        raise PolycError(
            "BadParams",
            f"{found.what} does not fit {signature.name}: {wrong[0]}"
            + (f", and {len(wrong) - 1} more faults" if len(wrong) > 1 else ""),
            notes=wrong[1:],
        )
    made = Constants(entries, sizes, {number: signature.aligns[number] for number in entries})
    made.sparing, made.donated = found.sparing, found.donated
    return made


def made_once(
    index: int,
    names: Sequence[str],
    key: Sequence[object],
    make: Callable[[], Mapping[str, Held]],
) -> Mapping[str, Held]:
    """What ``make`` makes on a GPU, by ``names``; where it is there under ``key``, that is it."""
    with _LOCK:
        found = {name: _POOL.get((index, name, *key)) for name in names}
        known = {name: one for name, one in found.items() if one is not None}
        if len(known) < len(found):
            known = dict(make())
            for name, one in known.items():
                _POOL[index, name, *key] = one
        return known


def merged(given: Sequence[T], held: Mapping[int, T]) -> list[T]:
    """All tensors in their order, of those that calls give and those that are held by number."""
    rest = iter(given)
    return [held[i] if i in held else next(rest) for i in range(len(given) + len(held))]


MOST = 8
"""Entries that nothing asks for, which a diagnostic names."""

LONG = 80
"""Letters of such a name that it shows."""


def _shown(name: str) -> str:
    """The name of an entry in a diagnostic: a file may have any."""
    name = name if name.isprintable() else repr(name)
    return name if len(name) <= LONG else f"{name[:LONG]}…"


def _unlike(dims: Shape, shape: Sequence[int], sizes: dict[str, int]) -> str | None:
    """What is wrong with the rank or a symbol of a shape; symbols that it shows go to ``sizes``."""
    if len(dims) != len(shape):
        return f"has shape {list(shape)}, and the program takes {shape_text(dims)}"
    for dim, size in zip(dims, shape, strict=True):
        if dim.symbols() == (text := str(dim),):
            sizes.setdefault(text, size)
    return None


def _differs(dims: Shape, shape: Sequence[int], sizes: Mapping[str, int]) -> str | None:
    """What is wrong with the sizes of a shape of this rank."""
    for dim, size in zip(dims, shape, strict=True):
        if set(dim.symbols()) <= set(sizes) and (expected := dim.evaluate(sizes)) != size:
            text = f", where {dim} is {expected}" if dim.symbols() else ""
            return f"has shape {list(shape)}, and the program takes {shape_text(dims)}{text}"
    return None
