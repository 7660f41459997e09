"""``@polyc.jit``: a Python function over values or over tiles that compiles when it is called."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from polyc.dialects.common.diagnostic import Place, PolycError
from polyc.dialects.common.size_expr import Dim
from polyc.runtime.compiled_calls import base
from polyc.runtime.garbage import rarely
from polyc.runtime.views import LIBRARY_NAMES
from polyc.tile.specs import TensorSpec
from polyc.tools import kept
from polyc.tools.jit.backends import chosen
from polyc.tools.jit.compiled import Compiled
from polyc.tools.jit.depends import Unknown, constant, fingerprint
from polyc.tools.jit.written import Written, remembered
from polyc.trace.annotations import Tensor, TensorAnnotation, read_assumptions

if TYPE_CHECKING:
    from polyc.runtime.nvrtc import KernelInfo
    from polyc.trace.values import Value

KEPT = 64
"""Specialisations that a function keeps, the oldest going first."""

RESERVED = ("out", "stream", "symbols", "gpu_index")
"""Arguments of every call, which no parameter is named as."""

_ELEMENTS = {name: element for element, name in LIBRARY_NAMES.items()}


@dataclass(frozen=True)
class _Parameter:
    """A parameter of the function: a tensor, a constant, or whichever a call gives."""

    name: str
    annotation: object
    tensor: bool | None
    default: object


class Jit(base()):
    """A function that is traced and compiled at its first call, once for all sizes.

    What makes another specialisation: a constant's value, and for what is not annotated the rank,
    sizes and types of a call's tensors.  Any number of threads may call it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        scope: Mapping[str, object],
        *,
        arch: str | None = None,
        assume: str = "",
        name: str | None = None,
        plan: Any = None,
        options: Mapping[str, Any] | None = None,
        device: str | None = None,
        execution_backend: str | None = None,
        out_idx: Sequence[int] | int | None = None,
        params: Any = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = name or function.__name__
        self.arch, self.assume = arch, assume
        code = getattr(function, "__code__", None)
        self._at = None if code is None else Place(code.co_filename, code.co_firstlineno, 1)
        self._scope = dict(scope)
        self._settings: dict[str, Any] = {
            "plan": plan,
            "options": options,
            "device": device,
            "execution_backend": execution_backend,
            "out_idx": out_idx,
            "params": params,
        }
        self.backend = chosen(execution_backend, device)
        self.retraced: str | None = None
        """Why every process traces it anew before it finds it on disk; None where none does."""
        self._facts = read_assumptions(assume, self._at)
        self._sig = inspect.signature(function)
        self._parameters = [self._parameter(p) for p in self._sig.parameters.values()]
        self._tiles = self._over_tiles()
        self._simple = all(p.tensor is True for p in self._parameters) and all(
            isinstance(p.annotation, TensorSpec)
            or (isinstance(p.annotation, TensorAnnotation) and p.annotation.element is not None)
            for p in self._parameters
        )
        self._made: dict[object, Compiled] = {}
        self._only: Compiled | None = None
        self._last: Compiled | None = None
        self._named: dict[object, Compiled] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"<polyc.jit {self.name}({', '.join(p.name for p in self._parameters)})>"

    # The signature

    def _parameter(self, given: inspect.Parameter) -> _Parameter:
        if given.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise PolycError(
                "BadSignature",
                f"{self.name} takes {given}; each tensor of a graph has a name of its own",
                self._at,
            )
        if given.name in RESERVED:
            raise PolycError(
                "BadSignature",
                f"{self.name} names a parameter {given.name}, which every call has for itself; "
                "call it something else",
                self._at,
            )
        empty = inspect.Parameter.empty
        annotation = None if given.annotation is empty else self._known(given.annotation, {})
        tensor: bool | None = None
        if isinstance(annotation, TensorAnnotation | TensorSpec) or annotation is Tensor:
            tensor = True
        elif given.kind is inspect.Parameter.KEYWORD_ONLY:
            tensor = False
        elif isinstance(annotation, str) and "Tensor" in annotation:
            tensor = True  # its sizes name constants of a call
        return _Parameter(given.name, annotation, tensor, given.default)

    def _known(self, annotation: object, constants: Mapping[str, object]) -> object:
        """An annotation's value; the text itself where a name in it is not known yet."""
        if not isinstance(annotation, str):
            return annotation
        try:
            scope = {**self._scope, **constants}
            return eval(annotation, getattr(self.function, "__globals__", {}), scope)
        except NameError:
            return annotation
        except PolycError as error:  # its place is in the annotation's text
            raise PolycError(error.kind, error.message, self._at) from None
        except Exception as error:
            raise PolycError(
                "UnknownType", f"the annotation {annotation} of {self.name}: {error}", self._at
            ) from None

    def _over_tiles(self) -> bool:
        tiles = [p.name for p in self._parameters if isinstance(p.annotation, TensorSpec)]
        values = [p.name for p in self._parameters if isinstance(p.annotation, TensorAnnotation)]
        texts = [p.annotation for p in self._parameters if isinstance(p.annotation, str)]
        if tiles and values:
            raise PolycError(
                "BadSignature",
                f"{self.name} has tensors of tiles ({', '.join(tiles)}) and of values "
                f"({', '.join(values)}); a function is over one of them",
                self._at,
            )
        return bool(tiles) or any("Out[" in text for text in texts)

    # Calls

    def called(
        self,
        *args: object,
        out: object = None,
        stream: object | None = None,
        symbols: Mapping[str, int] | None = None,
        gpu_index: int | None = None,
        **named: object,
    ) -> Any:
        """Run on tensors; constants of compile time are given by name, or by their defaults."""
        # A call like the last one: of tensors alone, with the same constants.
        known = self._by_constants(named) if named else self._only or self._last
        plain = stream is None and symbols is None and gpu_index is None
        if known is not None and plain and (again := known.again(args, out)) is not None:
            return again
        if known is not None and known is self._only:
            inputs = args
        else:
            tensors, constants, extra = self._bound(args, named)
            known = self._specialised(tensors, constants)
            inputs = (*tensors.values(), *extra)
            if list(map(id, inputs)) == list(map(id, args)):
                if named:
                    self._remember(named, known)
                else:
                    self._last = known
        result = known.call(inputs, out, stream, symbols, gpu_index)
        if not named and known in (self._only, self._last):
            self.known_as(*known.known)
        return result

    def _by_constants(self, named: Mapping[str, object]) -> Compiled | None:
        """The program of the last calls with these constants and tensors by their place."""
        try:
            return self._named.get(tuple((k, _exactly(v)) for k, v in named.items()))
        except TypeError:
            return None  # what cannot be hashed is refused with a sentence

    def _remember(self, named: Mapping[str, object], found: Compiled) -> None:
        with self._lock:
            self._named[tuple((k, _exactly(v)) for k, v in named.items())] = found
            if len(self._named) > KEPT:
                self._named.pop(next(iter(self._named)))

    def specialised(self, *args: object, **named: object) -> Compiled:
        """The compiled program that a call with these arguments runs; nothing runs."""
        tensors, constants, _ = self._bound(args, named)
        return self._specialised(tensors, constants)

    def _bound(
        self, args: Sequence[object], named: Mapping[str, object]
    ) -> tuple[dict[str, object], dict[str, object], list[object]]:
        """Tensors and constants by name, and outputs that follow them (``out_idx``)."""
        positional = [
            p
            for p in self._parameters
            if self._sig.parameters[p.name].kind is not inspect.Parameter.KEYWORD_ONLY
            and not (isinstance(p.annotation, TensorSpec) and p.annotation.output)
        ]
        given: dict[str, object] = dict(zip((p.name for p in positional), args, strict=False))
        extra = list(args[len(positional) :])
        names = {p.name for p in self._parameters}
        for key, value in named.items():
            if key not in names or key in given:
                what = "twice" if key in given else "which it does not have"
                raise PolycError(
                    "BadArgument",
                    f"{self.name} is given {key} {what}; its parameters are "
                    f"{', '.join(p.name for p in self._parameters)}",
                )
            given[key] = value
        if extra and self._settings["out_idx"] is None:
            raise PolycError(
                "BadArgument",
                f"{self.name} takes {len(positional)} tensors and constants "
                f"({', '.join(p.name for p in positional)}), {len(args)} are given",
            )
        tensors: dict[str, object] = {}
        constants: dict[str, object] = {}
        for p in self._parameters:
            if isinstance(p.annotation, TensorSpec) and p.annotation.output:
                continue
            if p.name not in given:
                if p.default is inspect.Parameter.empty:
                    raise PolycError("BadArgument", f"{self.name} is not given {p.name}")
                given[p.name] = p.default
            value = given[p.name]
            is_tensor = p.tensor if p.tensor is not None else _is_tensor(value)
            if is_tensor and not _is_tensor(value):
                raise PolycError(
                    "BadArgument",
                    f"{p.name} of {self.name} is a {type(value).__name__}; pass a tensor with "
                    "__dlpack__ or __cuda_array_interface__",
                )
            if not is_tensor and _is_tensor(value):
                raise PolycError(
                    "BadArgument",
                    f"{p.name} of {self.name} is a constant of compile time, and given a tensor; "
                    "tensors stand before the * of the signature",
                )
            (tensors if is_tensor else constants)[p.name] = value
        return tensors, constants, extra

    def _specialised(
        self, tensors: Mapping[str, object], constants: Mapping[str, object]
    ) -> Compiled:
        key: list[object] = []
        try:
            for name, value in constants.items():
                key.append((name, _exactly(value)))
            hash(tuple(key))
        except TypeError:
            raise PolycError(
                "BadArgument",
                f"a constant of {self.name} cannot be hashed ({', '.join(constants)}); pass "
                "numbers, texts and tuples",
            ) from None
        shown: dict[str, tuple[tuple[int, ...], str]] = {}
        for p in self._parameters:
            if p.name in tensors and not self._says_all(p):
                shown[p.name] = _shape_and_type(p.name, tensors[p.name])
                annotated = isinstance(p.annotation, TensorAnnotation)
                key.append((p.name, shown[p.name][1] if annotated else shown[p.name]))
        found = self._made.get(tuple(key))
        if found is not None:
            return found
        with self._lock:
            if (found := self._made.get(tuple(key))) is None:
                found = self._made[tuple(key)] = self._compile(list(tensors), shown, constants)
                if len(self._made) > KEPT:
                    self._made.pop(next(iter(self._made)))
                if self._simple:
                    self._only = found
        return found

    @staticmethod
    def _says_all(p: _Parameter) -> bool:
        kind = p.annotation
        return isinstance(kind, TensorSpec) or (
            isinstance(kind, TensorAnnotation) and kind.element is not None
        )

    @rarely()
    def _compile(
        self,
        names: Sequence[str],
        shown: Mapping[str, tuple[tuple[int, ...], str]],
        constants: Mapping[str, object],
    ) -> Compiled:
        if self._tiles:
            # Tiles are written for one architecture: the one of the GPU, where none is said.
            arch = self.arch or default_arch()
            parameters = [
                p.replace(annotation=self._known(p.annotation, constants))
                for p in self._sig.parameters.values()
                if p.name not in constants
            ]
            entry = self._entry([(p.name, p.annotation) for p in parameters], constants, arch)
            found = remembered(entry, lambda: self._written_tiles(parameters, constants, arch))
            return Compiled(found, **self._settings)
        kinds = self._kinds(names, shown, constants)
        entry = self._entry(list(kinds.items()), constants, None)
        found = remembered(entry, lambda: self._written_values(kinds, constants))
        return Compiled(found, self.arch, **self._settings)

    def _entry(
        self,
        kinds: Sequence[tuple[str, object]],
        constants: Mapping[str, object],
        arch: str | None,
    ) -> str | None:
        """The name on disk of what a trace gives; None where it is traced in every process.

        ``arch`` is that of tiles.
        """
        if self.backend.name == "cpu":
            return None  # it plays back what is traced
        if not isinstance(self.function, types.FunctionType):
            self.retraced = f"{self.function!r} is no function of Python's"
            return None
        try:
            for name, kind in kinds:
                if not isinstance(kind, TensorAnnotation | TensorSpec):
                    raise Unknown(f"the annotation of {name} is {kind!r}")
            parts = {
                "function": fingerprint(self.function),
                "name": self.name,
                "assume": self.assume,
                "arch": arch,
                "kinds": [[name, repr(kind)] for name, kind in kinds],
                "constants": [[name, constant(value)] for name, value in constants.items()],
                "parameters": [[p.name, str(p.kind)] for p in self._sig.parameters.values()],
            }
        except Unknown as unknown:
            self.retraced = str(unknown)
            return None
        self.retraced = None
        return kept.source("function", parts)

    def _kinds(
        self,
        names: Sequence[str],
        shown: Mapping[str, tuple[tuple[int, ...], str]],
        constants: Mapping[str, object],
    ) -> dict[str, TensorAnnotation]:
        """Sizes and types of the tensors, from annotations or from a call."""
        kinds: dict[str, TensorAnnotation] = {}
        for p in self._parameters:
            if p.name not in names:
                continue
            kind = self._known(p.annotation, constants)
            if isinstance(kind, TensorAnnotation):
                if kind.element is None:
                    kind = TensorAnnotation(kind.dims, shown[p.name][1])
                kinds[p.name] = kind
            elif kind is None or kind is Tensor or p.name in shown:
                shape, element = shown[p.name]
                kinds[p.name] = TensorAnnotation(tuple(map(Dim.const, shape)), element)
            else:
                raise PolycError(
                    "UnknownType",
                    f"{p.name} of {self.name} is annotated {kind!r}; write "
                    'polyc.Tensor["M", "K", "f16"]',
                    self._at,
                )
        return kinds

    def _written_values(
        self, kinds: Mapping[str, TensorAnnotation], constants: Mapping[str, object]
    ) -> Written:
        """The graph that the function traces."""
        from polyc.tools.jit.declaring import written
        from polyc.trace.tracing import traced

        def arguments(values: Mapping[str, Value]) -> tuple[Sequence[Any], Mapping[str, Any]]:
            return _arguments(self._sig, {**constants, **values})

        graph = traced(self.function, kinds, arguments, name=self.name, facts=self._facts)
        if graph.captured:
            self.retraced = f"it captures tensors ({', '.join(graph.captured)})"
        return written(graph.module, None, (graph.shape, graph.keys), graph.captured)

    def _written_tiles(
        self,
        parameters: Sequence[inspect.Parameter],
        constants: Mapping[str, object],
        arch: str,
    ) -> Written:
        """The module that the function over tiles makes."""
        from xdsl.dialects.builtin import UNKNOWN_LOC

        from polyc.dialects.common.dim import AssumptionsAttr
        from polyc.tile.programs import Program
        from polyc.tools.jit.declaring import written
        from polyc.trace.tracing import place_of_function

        function = self.function

        def over_tensors(**tensors: object) -> None:
            function(**tensors, **constants)

        cast("Any", over_tensors).__signature__ = self._sig.replace(parameters=parameters)
        over_tensors.__doc__ = function.__doc__
        program = Program(
            over_tensors,
            self.name,
            arch,
            AssumptionsAttr(self._facts),
            None,
            self._scope,
            place_of_function(function) or UNKNOWN_LOC,
        )
        return written(program.module())

    # What is shown of a function that every call compiles alike

    def compiled(self, **constants: object) -> Compiled:
        """The program for these constants, where the annotations say the rest."""
        if self._only is not None and not constants:
            return self._only
        empty = inspect.Parameter.empty
        known = {p.name for p in self._parameters if p.tensor is not True}
        for name in constants:
            if name not in known:
                raise PolycError(
                    "Usage",
                    f"{self.name} has no constant {name}; it has {', '.join(known) or 'none'}",
                )
        names: list[str] = []
        values: dict[str, object] = {}
        for p in self._parameters:
            if p.name in constants or (p.tensor is not True and p.default is not empty):
                values[p.name] = constants.get(p.name, p.default)
            elif p.tensor is False:
                raise PolycError(
                    "Usage", f"{self.name} has no value for its constant {p.name}; give it by name"
                )
            else:
                names.append(p.name)
        for p in self._parameters:
            if p.name in names:
                kind = self._known(p.annotation, values)
                complete = isinstance(kind, TensorAnnotation) and kind.element is not None
                if not complete and not isinstance(kind, TensorSpec):
                    raise PolycError(
                        "Usage",
                        f"{self.name} does not say what {p.name} is before a call; annotate it "
                        'with polyc.Tensor["M", "K", "f16"], or take specialised(…) of tensors',
                        self._at,
                    )
        key = tuple((name, _exactly(value)) for name, value in values.items())
        with self._lock:
            if key not in self._made:
                self._made[key] = self._compile(names, {}, values)
                if self._simple:
                    self._only = self._made[key]
            return self._made[key]

    def _shown(self) -> Compiled:
        if len(self._made) == 1:
            return next(iter(self._made.values()))
        return self.compiled()

    def ir(self, layer: str) -> str:
        """The text of a layer: see ``Compiled.ir``."""
        return self._shown().ir(layer)

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The schedules that were chosen, as JSON data."""
        return self._shown().plan

    @property
    def cuda(self) -> str:
        """The CUDA C of all kernels."""
        return self._shown().cuda

    @property
    def ptx(self) -> str:
        """The PTX of all kernels."""
        return self._shown().ptx

    @property
    def sass(self) -> str:
        """The machine code of all kernels."""
        return self._shown().sass

    @property
    def resources(self) -> Mapping[str, KernelInfo]:
        """Registers, spills, stack and static shared memory of each kernel."""
        return self._shown().resources

    @property
    def report(self) -> str:
        """What was made, in some lines."""
        found = self._shown().report
        if self.retraced is not None:
            found += f"\n  traced in every process: {self.retraced}"
        return found


def _exactly(value: object) -> object:
    """A constant as a key: 0.0 is not -0.0, and 1 is neither 1.0 nor True, in a tuple neither."""
    kind = type(value)
    if kind is float:
        return kind, cast("float", value).hex()
    if kind is complex:
        return kind, repr(value)
    if isinstance(value, tuple | frozenset):
        several = map(_exactly, cast("tuple[object, ...]", value))
        return kind, tuple(several) if isinstance(value, tuple) else frozenset(several)
    if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
        return kind, cast("Any", value).tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return kind, value, tuple(_exactly(getattr(value, field.name)) for field in fields)
    return kind, value


def default_arch() -> str:
    """The architecture of the first GPU, ``sm_90a`` where there is none."""
    from polyc.runtime import driver

    if not driver.available() or driver.device(0).runs("sm_90a"):
        return "sm_90a"
    return "sm_80"


def _arguments(
    signature: inspect.Signature, given: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """What a function is called with, by its signature."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for p in signature.parameters.values():
        if p.name in given:
            if p.kind is inspect.Parameter.KEYWORD_ONLY:
                named[p.name] = given[p.name]
            else:
                positional.append(given[p.name])
    return positional, named


def _is_tensor(value: object) -> bool:
    if isinstance(value, type):
        return False
    kind = type(value)
    if getattr(value, "shape", None) == () and kind.__module__ == "numpy" and kind is not _array():
        return False  # a number of NumPy's
    return hasattr(kind, "__dlpack__") or hasattr(kind, "__cuda_array_interface__")


def _array() -> type:
    numpy: Any = sys.modules["numpy"]
    return numpy.ndarray


def _shape_and_type(name: str, tensor: Any) -> tuple[tuple[int, ...], str]:
    """Sizes and element type, as the tensor's library says them."""
    shape, kind = getattr(tensor, "shape", None), getattr(tensor, "dtype", None)
    if shape is None or kind is None:
        raise PolycError(
            "BadArgument",
            f"{name} is a {type(tensor).__name__} without shape and dtype; annotate the parameter",
        )
    word = str(getattr(kind, "name", kind)).rpartition(".")[2]
    if (element := _ELEMENTS.get(word)) is None:
        raise PolycError(
            "TypeMismatch",
            f"{name} holds {word}; kernels have {', '.join(_ELEMENTS)}; convert it",
        )
    return tuple(int(size) for size in shape), element
