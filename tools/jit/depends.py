"""What a Python function's trace depends on, as text that says the same in every process.

A function is its bytecode, its constants and defaults, and what it reads of its module and of the
functions around it: numbers, texts, collections of them, other functions, followed in the same way,
and modules whose version is known.  Where something is read of which that cannot be said, the
function is ``Unknown``, and every process traces it: nothing is guessed.
"""

from __future__ import annotations

import builtins
import dataclasses
import dis
import functools
import inspect
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

Json = Any

PURE = ("math", "cmath", "operator", "itertools", "functools", "typing", "collections.abc")
"""Modules whose functions give the same for the same, whatever else happens; ``polyc`` is one."""

BUILTINS = frozenset(
    (
        *("abs", "all", "any", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod"),
        *("enumerate", "filter", "float", "format", "frozenset", "getattr", "hasattr", "int"),
        *("isinstance", "issubclass", "iter", "len", "list", "map", "max", "min", "next", "ord"),
        *("pow", "print", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str"),
        *("sum", "tuple", "type", "zip", "staticmethod", "property", "NotImplemented"),
        *("ArithmeticError", "AssertionError", "AttributeError", "Exception", "IndexError"),
        *("KeyError", "LookupError", "NotImplementedError", "RuntimeError", "TypeError"),
        *("ValueError", "ZeroDivisionError", "StopIteration"),
    )
)
"""Names of Python's own that read nothing from elsewhere."""

INWARD = frozenset(
    (
        *("__globals__", "__builtins__", "__subclasses__", "__dict__", "__code__", "__closure__"),
        *("__defaults__", "__kwdefaults__", "f_globals", "f_locals", "f_back", "gi_frame"),
    )
)
"""Attributes that lead to what no bytecode names."""

_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF")
_FROM_CLASS = ("LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_WRITES = ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_STAR")


class Unknown(Exception):
    """It depends on something that cannot be told; the text says on what."""


def fingerprint(function: types.FunctionType) -> Json:
    """JSON data that two functions share only where their traces are the same.

    Raises Unknown.
    """
    return _Walk().function(function)


def constant(value: object) -> Json:
    """The same for a value: a constant of compile time.  Raises Unknown."""
    return _Walk().value(value, "a constant")


class _Walk:
    """One look at all that a function reads; what comes again is a number."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._held: list[object] = []

    def _again(self, one: object) -> Json | None:
        """The number of a function or class that was met before; it is one from now on."""
        if (number := self._seen.get(id(one))) is not None:
            return ["again", number]
        self._seen[id(one)] = len(self._seen)
        self._held.append(one)
        return None

    # Functions

    def function(self, function: types.FunctionType) -> Json:
        if (known := self._again(function)) is not None:
            return known
        name = function.__qualname__
        cells: dict[str, Any] = {}
        closure: Sequence[Any] = function.__closure__ or ()
        for free, cell in zip(function.__code__.co_freevars, closure, strict=True):
            try:
                cells[free] = cell.cell_contents
            except ValueError:
                continue  # it is not set yet, and who reads it raises
        defaults = function.__defaults__ or ()
        named: Mapping[str, object] = function.__kwdefaults__ or {}
        return {
            "name": function.__name__,
            "code": self._code(function.__code__),
            "defaults": [self.value(one, f"a default of {name}") for one in defaults],
            "named": [[k, self.value(v, f"a default of {name}")] for k, v in named.items()],
            "reads": self._reads(function, cells),
        }

    def _code(self, code: types.CodeType) -> Json:
        """Bytecode without its lines; bodies inside of it among its constants."""
        constants: list[Json] = []
        for one in code.co_consts:
            if isinstance(one, types.CodeType):
                constants.append(["code", self._code(one)])
            else:
                constants.append(self.value(one, f"a constant of {code.co_name}"))
        return [
            *(code.co_name, code.co_code.hex(), code.co_exceptiontable.hex(), code.co_flags),
            *(code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
            *(list(code.co_names), list(code.co_varnames)),
            *(list(code.co_freevars), list(code.co_cellvars), constants),
        ]

    def _reads(self, function: types.FunctionType, cells: Mapping[str, Any]) -> Json:
        """What it and the functions in it read from outside, by the path that they name."""
        found: dict[tuple[str, ...], Json] = {}
        for path, is_cell in _paths(function.__code__, frozenset()):
            if path in found:
                continue
            root = path[0]
            where = f"{function.__qualname__} reads {'.'.join(path)}"
            if is_cell:
                if root not in cells:
                    continue
                start = cells[root]
            elif root in function.__globals__:
                start = function.__globals__[root]
            elif hasattr(builtins, root):
                if root not in BUILTINS:
                    raise Unknown(f"{where}, which looks elsewhere")
                found[path] = ["builtin", root]
                continue
            else:
                raise Unknown(f"{where}, which is not there yet")
            found[path] = self._followed(start, path[1:], where)
        return [[list(path), one] for path, one in found.items()]

    def _followed(self, start: object, attributes: Sequence[str], where: str) -> Json:
        """What a name with attributes leads to."""
        at = start
        for number in range(len(attributes) + 1):
            rest = attributes[number:]
            if isinstance(at, types.ModuleType):
                if _is_pure(at.__name__):
                    return ["module", at.__name__, list(rest)]
                if not rest:
                    raise Unknown(f"{where}, a module")
                if at.__name__ == "numpy":
                    return ["numpy", _of_numpy(getattr(at, rest[0], None), rest, where)]
                if rest[0] not in vars(at):
                    raise Unknown(f"{where}, which {at.__name__} makes when it is asked for")
                at = vars(at)[rest[0]]
            elif isinstance(at, type) and rest and not _is_ours(at):
                at = inspect.getattr_static(at, rest[0], None)
                if isinstance(at, staticmethod):
                    at = cast("Any", at).__func__
                if not isinstance(at, types.FunctionType) and not _is_plain(at):
                    raise Unknown(f"{where}, an attribute of a class")
            else:
                if rest and isinstance(at, types.FunctionType):
                    raise Unknown(f"{where}, an attribute of a function")
                return self.value(at, where)
        raise Unknown(where)

    # Values

    def value(self, value: object, where: str) -> Json:
        """Numbers, texts, collections of them, functions, and types of polyc's."""
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes, type(...)):
            return [kind.__name__, repr(value)]
        if kind in (range, slice):
            return [kind.__name__, repr(value)]
        if kind in (tuple, list):
            listed = cast("Sequence[object]", value)
            return [kind.__name__, [self.value(one, where) for one in listed]]
        if kind in (set, frozenset):
            several = cast("frozenset[object]", value)
            return [kind.__name__, sorted(repr(self.value(one, where)) for one in several)]
        if kind is dict:
            pairs = cast("dict[object, object]", value).items()
            return ["dict", [[self.value(k, where), self.value(v, where)] for k, v in pairs]]
        if isinstance(value, types.FunctionType):
            if _is_of_module(value):
                return ["function", value.__module__, value.__qualname__]
            return ["function", self.function(value)]
        if isinstance(value, types.BuiltinFunctionType):
            if value.__self__ is not None and not isinstance(value.__self__, types.ModuleType):
                raise Unknown(f"{where}, a method of {value.__self__!r}")
            if _is_pure(str(value.__module__)) or (
                value.__module__ == "builtins" and value.__name__ in BUILTINS
            ):
                return ["function", value.__module__, value.__qualname__]
        if isinstance(value, functools.partial):
            part = cast("functools.partial[Any]", value)
            given = self.value(part.func, where), self.value(part.args, where)
            return ["partial", *given, self.value(part.keywords, where)]
        if kind.__name__ == "_lru_cache_wrapper":
            return ["cached", self.value(cast("Any", value).__wrapped__, where)]
        if isinstance(value, type):
            return self._class(value, where)
        if kind.__module__ == "numpy" and hasattr(value, "tobytes") and hasattr(value, "dtype"):
            number = cast("Any", value)
            if getattr(number, "shape", None) == () and kind.__name__ != "ndarray":
                return ["numpy", str(number.dtype), number.tobytes().hex()]
        if kind.__module__ == "torch" and kind.__name__ == "dtype":
            return ["torch", repr(value)]
        if kind.__module__.startswith("xdsl.dialects.builtin"):
            return ["type", kind.__name__, str(value)]
        if dataclasses.is_dataclass(value):
            names = [field.name for field in dataclasses.fields(value)]
            names += [name for name in getattr(value, "__dict__", {}) if name not in names]
            held = [[name, self.value(getattr(value, name), where)] for name in names]
            return ["data", self._class(kind, where), held]
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            fields = [self.value(one, where) for one in cast("tuple[object, ...]", value)]
            return ["data", self._class(kind, where), fields]
        if isinstance(value, str) and _is_ours(kind):
            return ["type", str(value)]
        raise Unknown(f"{where}, a {kind.__module__}.{kind.__qualname__}")

    def _class(self, kind: type, where: str) -> Json:
        """A class by its name where its source is known, else by all that it has."""
        if _is_ours(kind) or (kind.__module__ == "builtins" and kind.__name__ in BUILTINS):
            return ["class", kind.__module__, kind.__qualname__]
        if "__dataclass_fields__" not in vars(kind) and not hasattr(kind, "_fields"):
            raise Unknown(f"{where}, the class {kind.__qualname__}")
        if (known := self._again(kind)) is not None:
            return known
        home = sys.modules.get(kind.__module__)
        if type(kind) is not type or getattr(home, "__file__", None) is None:
            raise Unknown(f"{where}, the class {kind.__qualname__}, which no file has as it is")
        members: list[Json] = []
        for base in kind.__mro__:
            if base in (object, tuple):
                continue
            for name, member in vars(base).items():
                one: object = member
                if isinstance(one, staticmethod | classmethod):
                    one = cast("Any", one).__func__
                if isinstance(one, property):
                    one = one.fget
                is_slot = isinstance(one, types.MemberDescriptorType | types.GetSetDescriptorType)
                if name in _OF_CLASSES or is_slot or type(one).__name__ == "_tuplegetter":
                    continue
                if not (isinstance(one, types.FunctionType) and _is_made(name, one)):
                    members.append([name, self.value(one, f"{where}, whose class has {name}")])
        return ["class", kind.__qualname__, members]


_OF_CLASSES = frozenset(
    (
        *("__module__", "__doc__", "__annotations__", "__slots__", "__match_args__", "_fields"),
        *("__dataclass_fields__", "__dataclass_params__", "__hash__", "__firstlineno__"),
        *("__static_attributes__", "__annotate_func__", "__annotations_cache__", "__orig_bases__"),
        *("_field_defaults", "_make", "_replace", "__replace__"),
    )
)
"""What classes have for their fields, which are told with an instance, or for reading."""


_WRITTEN = frozenset(
    (
        *("__init__", "__repr__", "__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"),
        *("__setattr__", "__delattr__", "__getstate__", "__setstate__", "__new__", "_asdict"),
        "__getnewargs__",
    )
)
"""Methods that ``dataclasses`` and ``namedtuple`` write."""


def _is_made(name: str, function: types.FunctionType) -> bool:
    """Whether one of those wrote it, from fields that are told anyway; no file has its lines."""
    file = function.__code__.co_filename
    library = any(file == getattr(sys.modules.get(one), "__file__", "") for one in _LIBRARIES)
    return name in _WRITTEN and (file.startswith("<") or library)


_LIBRARIES = ("reprlib", "collections", "dataclasses")


def _paths(code: types.CodeType, local: frozenset[str]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The names from outside that bytecode reads, with the attributes behind them.

    True says that a name is of a function around it.  ``local`` are those that are not outside.
    """
    texts = (one for one in code.co_consts if isinstance(one, str))
    if wrong := INWARD.intersection((*code.co_names, *texts)):
        raise Unknown(f"{code.co_qualname} reads {sorted(wrong)[0]}")
    own = local.union(code.co_cellvars)
    listed = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "NOP")]
    for number, one in enumerate(listed):
        if one.opname in _WRITES:
            raise Unknown(f"{code.co_qualname} writes {one.argval} of its module")
        if one.opname == "IMPORT_NAME":
            if not _is_pure(str(one.argval)):
                raise Unknown(f"{code.co_qualname} imports {one.argval}")
            continue
        if one.opname in _FROM_CLASS:
            raise Unknown(f"{code.co_qualname} is a class that reads {one.argval}")
        if one.opname not in _LOADS:
            continue
        name = str(one.argval)
        is_cell = one.opname in ("LOAD_DEREF", "LOAD_CLASSDEREF")
        if is_cell and name in own:
            continue
        if one.opname == "LOAD_NAME":
            raise Unknown(f"{code.co_qualname} is a class inside of a function")
        path = [name]
        for after in listed[number + 1 :]:
            if after.opname not in _ATTRIBUTES:
                break
            path.append(str(after.argval))
        yield tuple(path), is_cell
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _paths(inner, own)


def _is_pure(module: str) -> bool:
    return module in PURE or module in ("_operator", "_functools", "polyc") or _in_polyc(module)


def _is_of_module(function: types.FunctionType) -> bool:
    """Whether a function is what a module of known source has under its name."""
    if not _is_pure(str(function.__module__)):
        return False
    at: object = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        at = getattr(at, name, None)
    return at is function


def _in_polyc(module: str) -> bool:
    """Whether a module is of polyc's own source, whose hash is in every key; tests are not."""
    parts = module.split(".")
    return parts[0] == "polyc" and parts[1:2] not in (["test"], ["bench"], ["examples"])


def _is_ours(kind: type) -> bool:
    return _in_polyc(kind.__module__)


def _is_plain(value: object) -> bool:
    return value is None or type(value) in (bool, int, float, complex, str, bytes, tuple)


def _of_numpy(value: object, rest: Sequence[str], where: str) -> Json:
    """A number, an element type or an elementwise function of NumPy."""
    numpy: Any = sys.modules["numpy"]
    kinds = cast("tuple[type, ...]", (numpy.generic, numpy.dtype, numpy.ufunc, int, float))
    if isinstance(value, kinds) or (isinstance(value, type) and issubclass(value, numpy.generic)):
        return list(rest)
    raise Unknown(where)
