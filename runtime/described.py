"""What running a program needs to know of it: plain data, which JSON carries.

A ``Described`` is read from a ``gpu.module`` (``polyc.runtime.lowered``) or from an entry on disk
(``polyc.runtime.kept``).  It says everything that the host checks, chooses and binds, and nothing
of what kernels do.  Nothing here imports xDSL, and a named
tuple is made in a sixth of the time of a dataclass: all of it is on the way of a warm start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from polyc.dialects.common.grids import Grid
from polyc.dialects.common.size_expr import Assumption, Dim, DivAtom, Shape

Json = Any
"""What ``json`` reads and writes."""


class TensorMap(NamedTuple):
    """A TMA descriptor: the box of one transfer, and the span of its swizzle in bytes.

    ``window`` makes it one of im2col: the lower and upper corners, and the steps.  What one loads
    that is ``tf32`` is rounded to that.  With ``onward`` loads go along the tensor's rows, a line
    of the L2 cache after another.
    """

    box: tuple[int, ...]
    swizzle: int
    window: tuple[tuple[int, int], tuple[int, int], tuple[int, int]] | None = None
    tf32: bool = False
    onward: bool = False


class Argument(NamedTuple):
    """What a kernel's argument is made from.

    ``source`` is a tensor of the signature by its number, or a workspace by its name; with
    ``symbol`` it is the name of a size.  ``view`` are the sizes that a descriptor sees the memory
    in, where they are not its own; without a ``map`` the argument is the memory's address.
    ``used`` says whether the kernel does anything with it.
    """

    source: int | str
    symbol: bool = False
    view: Shape | None = None
    map: TensorMap | None = None
    used: bool = True


class Launch(NamedTuple):
    """One launch of a variant, with what it needs of its kernel.

    ``alone`` says that it is the whole variant, which then has at least one block.
    """

    grid: Grid
    alone: bool
    threads: int
    shared: int
    overlapped: bool
    fills: str | None
    arguments: tuple[Argument, ...]


class Workspace(NamedTuple):
    """A workspace of a variant; ``item`` are an element's bytes.

    ``copies`` is the tensor, or the workspace, that it is a copy of.
    """

    name: str
    dims: Shape
    element: str
    item: int
    zeroed: bool
    copies: int | str | None


class Choice(NamedTuple):
    """A variant as the dispatch sees it: when it runs, and what it then needs.

    ``sizes`` are those that its kernels index with.  ``launches`` is None while it has not been
    lowered to the hardware level: threads and memory are not known before.
    """

    name: str
    facts: tuple[Assumption, ...]
    align: tuple[int, ...]
    kernels: tuple[str, ...]
    sizes: Shape
    workspaces: tuple[Workspace, ...]
    launches: tuple[Launch, ...] | None


class Described(NamedTuple):
    """A program: its signature, inputs before outputs, and its variants in order of dispatch.

    ``pooled`` are the names that parameters have for the constant pool's inputs, and ``made`` are
    the outputs of a program before it that others of these are; "" for data.
    """

    name: str
    arch: str
    symbols: tuple[str, ...]
    facts: tuple[Assumption, ...]
    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    elements: tuple[str, ...]
    aligns: tuple[int, ...]
    num_inputs: int
    kernels: tuple[str, ...]
    choices: tuple[Choice, ...]
    pooled: tuple[str, ...] = ()
    made: tuple[str, ...] = ()


# As JSON ----------------------------------------------------------------------------------


def dim_json(dim: Dim) -> Json:
    """A size: a number, a symbol, or the list of its terms, each a factor and its atoms."""
    if (value := dim.constant()) is not None:
        return value
    match dim.terms:
        case (((str(symbol),), 1),):
            return symbol
        case _:
            return _terms(dim)


def _terms(dim: Dim) -> Json:
    return [[coef, *map(_atom, mono)] for mono, coef in dim.terms]


def _atom(atom: str | DivAtom) -> Json:
    return atom if isinstance(atom, str) else [atom.kind, _terms(atom.num), atom.den]


def read_dim(data: Json) -> Dim:
    """A size from its JSON.  Raises ValueError, TypeError and LookupError for anything else."""
    if isinstance(data, int) and not isinstance(data, bool):
        return Dim.const(data)
    if isinstance(data, str):
        return Dim.sym(data)
    return Dim(tuple((tuple(map(_read_atom, atoms)), _whole(c)) for c, *atoms in _list(data)))


def _read_atom(data: Json) -> str | DivAtom:
    if isinstance(data, str):
        return data
    kind, terms, den = _list(data)
    if kind not in ("floordiv", "mod") or _whole(den) <= 0:
        raise ValueError(f"{data!r} is no quotient")
    return DivAtom(kind, read_dim(terms), den)


def _shape_json(shape: Shape | None) -> Json:
    return None if shape is None else [dim_json(dim) for dim in shape]


def _read_shape(data: Json) -> Shape:
    return tuple(map(read_dim, _list(data)))


def facts_json(facts: Sequence[Assumption]) -> Json:
    return [[fact.kind, dim_json(fact.expr)] for fact in facts]


def read_facts(data: Json) -> tuple[Assumption, ...]:
    found: list[Assumption] = []
    for kind, expr in _list(data):
        if kind not in ("==", ">="):
            raise ValueError(f"{kind!r} is no kind of a fact")
        found.append(Assumption(read_dim(expr), kind))
    return tuple(found)


def launch_json(launch: Launch) -> Json:
    grid = launch.grid
    return {
        "kernel": grid.kernel,
        "grid": _shape_json(grid.extents),
        "persistent": grid.persistent,
        "cooperative": _shape_json(grid.cooperative),
        "cluster": grid.cluster,
        "room": grid.room,
        "alone": launch.alone,
        "threads": launch.threads,
        "shared": launch.shared,
        "overlapped": launch.overlapped,
        "fills": launch.fills,
        "arguments": [_argument_json(one) for one in launch.arguments],
    }


def _argument_json(one: Argument) -> Json:
    made = one.map
    mapped = None if made is None else [*made]
    return [one.source, one.symbol, _shape_json(one.view), mapped, one.used]


def read_launch(data: Json) -> Launch:
    together = data["cooperative"]
    grid = Grid(
        _text(data["kernel"]),
        _read_shape(data["grid"]),
        _flag(data["persistent"]),
        None if together is None else _read_shape(together),
        _whole(data["cluster"]),
        _whole(data["room"]),
    )
    fills = data["fills"]
    return Launch(
        grid,
        _flag(data["alone"]),
        _whole(data["threads"]),
        _whole(data["shared"]),
        _flag(data["overlapped"]),
        None if fills is None else _text(fills),
        tuple(map(_read_argument, _list(data["arguments"]))),
    )


def _read_argument(data: Json) -> Argument:
    source, symbol, view, mapped, used = _list(data)
    made = None
    if mapped is not None:
        box, swizzle, window, tf32, onward = _list(mapped)
        corners = None if window is None else tuple(_pair(one) for one in _list(window))
        if corners is not None and len(corners) != 3:
            raise ValueError("an im2col map has two corners and steps")
        sizes = tuple(map(_whole, _list(box)))
        flags = _flag(tf32), _flag(onward)
        made = TensorMap(sizes, _whole(swizzle), cast("Any", corners), *flags)
    shape = None if view is None else _read_shape(view)
    return Argument(_source(source), _flag(symbol), shape, made, _flag(used))


def choice_json(choice: Choice) -> Json:
    """A variant; its launches are not in it (``launch_json``)."""
    return {
        "name": choice.name,
        "facts": facts_json(choice.facts),
        "align": choice.align,
        "kernels": choice.kernels,
        "sizes": _shape_json(choice.sizes),
        "workspaces": [
            [w.name, _shape_json(w.dims), w.element, w.item, w.zeroed, w.copies]
            for w in choice.workspaces
        ],
    }


def _read_choice(data: Json, launches: Json) -> Choice:
    workspaces: list[Workspace] = []
    for name, dims, element, item, zeroed, copies in _list(data["workspaces"]):
        source = None if copies is None else _source(copies)
        shape = _read_shape(dims)
        workspaces.append(
            Workspace(_text(name), shape, _text(element), _whole(item), _flag(zeroed), source)
        )
    return Choice(
        _text(data["name"]),
        read_facts(data["facts"]),
        tuple(map(_whole, _list(data["align"]))),
        tuple(map(_text, _list(data["kernels"]))),
        _read_shape(data["sizes"]),
        tuple(workspaces),
        None if launches is None else tuple(map(read_launch, _list(launches))),
    )


def described_json(found: Described) -> Json:
    """A program with what is known of its launches."""
    return {
        **signature_json(found),
        "arch": found.arch,
        "made": found.made,
        "kernels": found.kernels,
        "choices": [choice_json(one) for one in found.choices],
        "launches": [
            None if one.launches is None else [launch_json(launch) for launch in one.launches]
            for one in found.choices
        ],
    }


def signature_json(found: Any) -> Json:
    """The signature of a program: what ``HostSignature`` has too."""
    return {
        "name": found.name,
        "symbols": list(found.symbols),
        "facts": facts_json(found.facts),
        "names": list(found.names),
        "shapes": [_shape_json(shape) for shape in found.shapes],
        "elements": list(found.elements),
        "aligns": list(found.aligns),
        "num_inputs": found.num_inputs,
        "pooled": list(found.pooled),
    }


def read_signature(data: Json) -> dict[str, Any]:
    """The fields of a signature.  Raises ValueError, TypeError and LookupError."""
    found: dict[str, Any] = {
        "name": _text(data["name"]),
        "symbols": tuple(map(_text, _list(data["symbols"]))),
        "facts": read_facts(data["facts"]),
        "names": tuple(map(_text, _list(data["names"]))),
        "shapes": tuple(map(_read_shape, _list(data["shapes"]))),
        "elements": tuple(map(_text, _list(data["elements"]))),
        "aligns": tuple(map(_whole, _list(data["aligns"]))),
        "num_inputs": _whole(data["num_inputs"]),
        "pooled": tuple(map(_text, _list(data["pooled"]))),
    }
    count = len(found["names"])
    if any(len(found[one]) != count for one in ("shapes", "elements", "aligns")):
        raise ValueError("a signature has one name, shape, type and alignment a tensor")
    return found


def read_described(data: Json) -> Described:
    """A program from its JSON.  Raises ValueError, TypeError and LookupError for anything else."""
    choices, launches = _list(data["choices"]), _list(data["launches"])
    return Described(
        **read_signature(data),
        arch=_text(data["arch"]),
        kernels=tuple(map(_text, _list(data["kernels"]))),
        choices=tuple(_read_choice(c, one) for c, one in zip(choices, launches, strict=True)),
        made=tuple(map(_text, _list(data["made"]))),
    )


def _list(data: Json) -> Sequence[Json]:
    if not isinstance(data, list | tuple):
        raise TypeError(f"{data!r} is no list")
    return cast("Sequence[Json]", data)


def _text(data: Json) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r} is no text")
    return data


def _whole(data: Json) -> int:
    if type(data) is not int:
        raise TypeError(f"{data!r} is no whole number")
    return data


def _flag(data: Json) -> bool:
    if not isinstance(data, bool):
        raise TypeError(f"{data!r} is neither true nor false")
    return data


def _source(data: Json) -> int | str:
    return data if isinstance(data, str) else _whole(data)


def _pair(data: Json) -> tuple[int, int]:
    a, b = _list(data)
    return _whole(a), _whole(b)


def merged(old: Mapping[str, Json], new: Mapping[str, Json]) -> Json:
    """The launches that either knows of one program, a variant each."""
    return [
        theirs if mine is None else mine
        for theirs, mine in zip(_list(old["launches"]), _list(new["launches"]), strict=True)
    ]
