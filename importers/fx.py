"""Graphs of ``torch.fx`` over ATen's ops, said one by one: exported programs, and parts of models.

``Reading`` walks one graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, LocationAttr, StringAttr
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError, from_text, of_verifier, place_of
from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.signature import same_shape
from polyc.dialects.common.size_expr import Assumption
from polyc.dialects.frontend import DimOp, TensorType, tensor
from polyc.importers import aten
from polyc.importers.aten.complex import Complex, complex_of
from polyc.importers.aten.refused import why
from polyc.importers.imported import Imported
from polyc.importers.known import Known
from polyc.importers.parameters import kept, read, symbol_name
from polyc.importers.precision import precisions
from polyc.importers.registry import Faults, converter_of
from polyc.importers.symbols import Symbols
from polyc.trace.annotations import ELEMENTS as NAMES
from polyc.trace.annotations import element_name
from polyc.trace.builder import Builder
from polyc.trace.elements import ELEMENTS
from polyc.trace.sizes import Size, dim_of
from polyc.trace.values import CURRENT, Value

SOURCE = "torch"

CONVERTERS = aten.FILES
"""The files of converters, which are registered with this one."""

_LEFT_OUT = ("device", "layout", "memory_format", "non_blocking", "pin_memory")
"""Arguments that say nothing of numbers."""

_CHECKS = (
    *("aten._assert_async", "aten._assert_scalar", "aten._assert_tensor_metadata"),
    *("aten.sym_constrain_range", "aten.sym_constrain_range_for_size"),
)
"""Ops that check what the graph's sizes and types say, and compute nothing."""

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class _Unknown:
    """The result of what could not be said."""


UNKNOWN = _Unknown()


class Reading:
    """The ops of one ``torch.fx`` graph, said one by one while a builder is under construction.

    ``inputs`` are the nodes of the graph's tensors, whose ``meta["val"]`` has shapes and types.
    Those in ``orders`` come with their axes in that order, outermost first.
    What cannot be said goes to ``faults``, and what depends on it is left out.  ``precision`` is
    that of products of f32, PyTorch's own where nothing is asked for.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[Any],
        symbols: Symbols,
        facts: Sequence[Assumption],
        faults: Faults,
        orders: Mapping[Any, Sequence[int]] | None = None,
        precision: str | None = None,
    ) -> None:
        self.symbols, self.faults = symbols, faults
        self._location: LocationAttr = UNKNOWN_LOC
        self._env: dict[Any, Any] = {}
        self._tensors: dict[object, Any] = {}
        self._known = Known()
        self._inputs = [node.name for node in inputs]
        kinds: dict[str, TensorType] = {}
        orders = orders or {}
        for node in inputs:
            order = orders.get(node)
            kind = self._kind(node.meta["val"], node.name, order)
            kinds[symbol_name(node.name, tuple(kinds))] = kind
        try:
            self.builder = Builder(symbol_name(name, ()), kinds, facts, lambda: self._location)
        except VerifyException as error:
            raise from_text(str(error)) from None
        permitted = precisions(precision)
        self.builder.precision_of_products = permitted.products
        self.builder.precision_of_convolutions = permitted.convolutions
        for node, ssa in zip(inputs, self.builder.inputs, strict=True):
            self._env[node] = self._turned(Value(self.builder, ssa), orders.get(node))

    def bind(self, tensors: Mapping[Any, tuple[str, Any]]) -> None:
        """Nodes that stand for tensors with numbers, by the names of their entries."""
        for node, (name, one) in tensors.items():
            self._env[node] = self._read(one, name, node)

    def value_at(self, node: Any) -> Any:
        """What a node was said as."""
        return self._env.get(node, UNKNOWN)

    def run(self, module: Any) -> None:
        """Say all nodes of a graph module; what cannot be said goes to ``faults``."""
        for node in module.graph.nodes:
            if node.op == "get_attr":
                self._env[node] = self._read(_attribute(module, node.target), node.target, node)
            else:
                self.run_node(node)

    def run_node(self, node: Any) -> None:
        """Say one node, whose arguments were said."""
        token = CURRENT.set(self.builder)
        try:
            if node.op == "call_function":
                self._location = _location(node)
                self._env[node] = self._said(node)
            elif node.op == "placeholder" and node not in self._env:
                self._env[node] = self._size_or_number(node)
        finally:
            CURRENT.reset(token)
            self._location = UNKNOWN_LOC

    def finished(self, outputs: Sequence[tuple[str, Any]]) -> Imported:
        """The import, with the named outputs.  Raises PolycError with all that was not said."""
        self.faults.check()
        found: dict[str, Value] = {}
        names: list[str] = []
        for name, value in outputs:
            if isinstance(value, Size | int) and not isinstance(value, bool):
                value = Value(self.builder, self.builder.add(DimOp(dim_of(value))))
            if isinstance(value, Complex):
                raise PolycError(
                    "UnsupportedModel",
                    f"the result {name} is complex, and graphs have real numbers; return "
                    "torch.view_as_real of it",
                )
            if not isinstance(value, Value):
                continue
            taken = (*found, *(one.data for one in self.builder.graph.arg_names))
            found[symbol_name(name if name not in taken else f"{name}_out", taken)] = value
            names.append(name)
        if not found:
            raise PolycError("UnsupportedModel", f"{self.faults.model} has no output of numbers")
        try:
            module = self.builder.finish({name: one.ssa for name, one in found.items()})
        except VerifyException as error:
            raise from_text(str(error)) from None
        return Imported(module, kept(module, self.builder), tuple(self._inputs), tuple(names))

    # Nodes

    def _said(self, node: Any) -> Any:
        """The value, the size, or the sequence of values of a node."""
        name = op_name(node)
        if name == "getitem":
            return self._item(node)
        expected = node.meta.get("val")
        if any(name == one or name.startswith(one + ".") for one in _CHECKS):
            return None
        if not has_tensor(expected):
            return self._size_or_number(node)
        if name == "aten.as_strided.default" and _as_it_is(node):
            return self._env[node.args[0]]
        convert = converter_of(SOURCE, name, name.rpartition(".")[0])
        complex_ = self._is_complex(node)
        if convert is None and not complex_:
            if (numbers := self._known.numbers(node)) is not None:
                return self._read(numbers, node.name, node)
            self.faults.missing(name, node.name, place_at(node), why(name))
            return UNKNOWN
        try:
            given = {k: v for k, v in node.kwargs.items() if k not in _LEFT_OUT}
            args = [self._argument_of(name, one) for one in node.args]
            kwargs = {k: self._argument_of(name, v) for k, v in given.items()}
            if any(one is UNKNOWN for one in _flat([args, kwargs])):
                return UNKNOWN
            if complex_:
                found: Any = complex_of(name, args, kwargs)
            else:
                found = self._simple(node, name, expected)
                if found is None and convert is not None:
                    found = convert(*args, **kwargs)
            found = _typed(found, expected)
            self._check(name, found, expected)
        except Exception as error:
            told = _told(name, error)
            if told is None:
                raise
            self.faults.refused(name, node.name, told, place_at(node))
            return UNKNOWN
        return found

    def _is_complex(self, node: Any) -> bool:
        """Whether an op takes or gives complex tensors."""
        given = any(isinstance(self._env.get(one), Complex) for one in node.all_input_nodes)
        return given or is_complex(node.meta.get("val"))

    def _simple(self, node: Any, name: str, expected: Any) -> Value | None:
        """What a node is that depends on no input, or that only repeats one value; None for
        others."""
        if not hasattr(expected, "dtype"):
            return None
        known = self._known.places(node, element_of(expected.dtype))
        if known is not None:
            return known.said()
        if (numbers := self._known.table(node, name)) is not None:
            return self._read(numbers, node.name, node)
        other = self._known.beside_true(node, name)
        kept = None if other is None else self._env.get(other)
        if not isinstance(kept, Value) or kept.dtype != "i1":
            return None
        return kept.expand(*(self.symbols.size(size) for size in expected.shape))

    def _item(self, node: Any) -> Any:
        whole, index = self._env[node.args[0]], node.args[1]
        if whole is UNKNOWN:
            return UNKNOWN
        if whole[index] is None and node.users and has_tensor(node.meta.get("val")):
            error = PolycError("BadArgument", f"its result number {index} is not known here")
            self.faults.refused(op_name(node.args[0]), node.name, error, place_at(node.args[0]))
            return UNKNOWN
        return whole[index]

    def _size_or_number(self, node: Any) -> Any:
        """A size or a number that is no tensor's element."""
        value = node.meta.get("val")
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if hasattr(value, "node") and hasattr(value.node, "expr"):
            kind = type(value).__name__
            if kind == "SymInt":
                try:
                    return self.symbols.size(value)
                except PolycError:
                    pass  # what is data may only be checked
            # A relation of sizes is a check, and a real number of sizes has no form: what reads it
            # says so.
            return _Symbolic(str(value))
        name = op_name(node)
        self.faults.missing(name, node.name, place_at(node), why(name))
        return UNKNOWN

    def _argument_of(self, name: str, given: Any) -> Any:
        """An argument of an op of a name; a mask that hides nothing is none."""
        if hasattr(given, "all_input_nodes") and self._known.needless(name, given):
            return None
        return self._argument(given)

    def _argument(self, given: Any) -> Any:
        """An argument of a node, as converters have it."""
        if given is None or isinstance(given, bool | int | float | complex | str):
            return given
        if isinstance(given, list | tuple):
            return [self._argument(one) for one in cast("Sequence[Any]", given)]
        if isinstance(given, dict):
            return {k: self._argument(v) for k, v in cast("dict[str, Any]", given).items()}
        if given in self._env:
            found = self._env[given]
            if isinstance(found, _Symbolic):
                raise PolycError(
                    "UnknownSize",
                    f"{found.text} has no value before a call, and a graph's sizes are those of "
                    "inputs",
                )
            return found
        if type(given).__name__ == "dtype":
            # No graph has these, and what says complex numbers asks for their name alone.
            return str(given).removeprefix("torch.") if given.is_complex else element_of(given)
        return None if type(given).__name__ in _LEFT_OUT else str(given)

    def _check(self, name: str, found: Any, expected: Any) -> None:
        """Refuse a converter's result that is not what PyTorch says of the op's."""
        if isinstance(expected, list | tuple):
            listed = cast("Sequence[Any]", expected)
            if not isinstance(found, list | tuple) or len(cast("Any", found)) < len(listed):
                raise PolycError("TypeMismatch", f"its converter gives {found!r}, not a sequence")
            for one, wanted in zip(cast("Sequence[Any]", found), listed, strict=False):
                if has_tensor(wanted) and one is not None:
                    self._check(name, one, wanted)
            return
        if isinstance(found, Complex) and is_complex(expected):
            dims = tuple(dim_of(self.symbols.size(size)) for size in expected.shape)
            if all(same_shape(one.kind.dims, dims, self.builder.inside) for one in _both(found)):
                return
        if not isinstance(found, Value):
            raise PolycError("TypeMismatch", f"its converter gives {found!r}, not a value")
        kind = self._kind(expected, name)
        same = found.kind.element_type == kind.element_type
        if not same or not same_shape(found.kind.dims, kind.dims, self.builder.inside):
            raise PolycError(
                "TypeMismatch",
                f"its converter gives {found!r}, and PyTorch {shape_text(kind.dims)} of "
                f"{element_of(expected.dtype)}",
            )

    # Tensors

    def _turned(self, value: Value, order: Sequence[int] | None) -> Value:
        """A tensor whose axes lie in an order, in its own."""
        if order is None:
            return value
        return self._permuted(value, [order.index(axis) for axis in range(len(order))])

    def _permuted(self, value: Value, order: Sequence[int]) -> Value:
        token = CURRENT.set(self.builder)
        try:
            return value.permute(*order)
        finally:
            CURRENT.reset(token)

    def laid_out(self, value: Any, order: Sequence[int] | None) -> Any:
        """A value with its axes in an order, as it is to lie in memory."""
        if order is None or not isinstance(value, Value):
            return value
        return self._permuted(value, order)

    def _kind(self, fake: Any, name: str, order: Sequence[int] | None = None) -> TensorType:
        try:
            shape = list(fake.shape) if order is None else [fake.shape[axis] for axis in order]
            dims = [dim_of(self.symbols.size(size)) for size in shape]
            return tensor(dims, ELEMENTS[element_of(fake.dtype)])
        except PolycError as error:
            raise PolycError(error.kind, f"{name}: {error.message}") from None
        except VerifyException as error:
            raise PolycError("BadSize", f"{name}: {error}") from None

    def _read_parts(self, given: Any, name: str, node: Any) -> list[Any]:
        """The parts of a complex tensor, which are entries of their own, in f32."""
        parts = (given.real.float().contiguous(), given.imag.float().contiguous())
        names = (f"{name}.real", f"{name}.imag")
        return [self._read(one, own, node) for one, own in zip(parts, names, strict=True)]

    def _read(self, given: Any, name: str, node: Any) -> Any:
        """A tensor with numbers, which is one entry however many names it has."""
        if not hasattr(given, "data_ptr"):
            self.faults.refused(
                "constant",
                name,
                PolycError("BadArgument", f"a {type(given).__name__} is no tensor"),
            )
            return UNKNOWN
        if not node.users:
            return UNKNOWN  # such as how many batches a norm has seen
        try:
            if given.is_complex():
                parts = self._read_parts(given.detach().resolve_conj(), name, node)
                return UNKNOWN if UNKNOWN in parts else Complex(*parts)
            element_of(given.dtype)
            one = given.detach()
            if str(one.layout) != "torch.strided":
                raise PolycError("BadArgument", f"it is stored as {one.layout}; give a dense one")
            if (order := memory_order(one)) is not None:
                one = one.permute(*order)  # what lies so is not copied
            place = one.data_ptr() if one.numel() else id(given)
            key = (place, tuple(one.shape), one.stride(), str(one.dtype), str(one.device))
            if key not in self._tensors:
                self._tensors[key] = one.contiguous().resolve_conj().resolve_neg()
            return self._turned(read(self.builder, self._tensors[key], name), order)
        except PolycError as error:
            self.faults.refused("constant", name, error)
            return UNKNOWN


@dataclass(frozen=True)
class _Symbolic:
    """A number of sizes that is no size: a relation, or a real number."""

    text: str


def memory_order(tensor: Any) -> list[int] | None:
    """The axes of a tensor from the outermost in memory on, where that is not their own order.

    None also for one whose elements do not lie side by side.  Sizes that are not known are as
    PyTorch met them first.
    """
    if not hasattr(tensor, "stride"):
        return None
    shape, strides = ([_hint(n) for n in numbers] for numbers in (tensor.shape, tensor.stride()))
    rank = len(shape)
    if rank < 2 or 0 in shape:
        return None
    order = sorted(range(rank), key=lambda axis: (-strides[axis], shape[axis] == 1, axis))
    expected = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != expected:
            return None
        expected *= shape[axis]
    wide = [axis for axis in order if shape[axis] != 1]
    return None if wide == sorted(wide) else order


def _hint(size: Any) -> int:
    return size if isinstance(size, int) else int(size.node.hint or 0)


def element_of(dtype: Any) -> str:
    """The element type of a ``torch.dtype``.  Raises PolycError ``UnknownType``."""
    try:
        return element_name(dtype)
    except PolycError:
        raise PolycError(
            "UnknownType",
            f"{dtype} is no element type of a graph; there are {', '.join(NAMES)}: convert it, as "
            "by model.float()",
        ) from None


def op_name(node: Any) -> str:
    """The name of a node's op with its overload: ``aten.add.Tensor``."""
    target = node.target
    if hasattr(target, "_schema") or hasattr(target, "_overloadname"):
        return str(target)
    return str(getattr(target, "__name__", target))


def _as_it_is(node: Any) -> bool:
    """Whether an ``as_strided`` says the shape and the strides that its operand has."""
    of, sizes, strides, *rest = node.args
    own = of.meta["val"]
    if list(own.shape) != list(sizes) or (rest and rest[0] not in (None, own.storage_offset())):
        return False
    every = zip(sizes, strides, own.stride(), strict=True)
    return all(isinstance(size, int) and (size == 1 or a == b) for size, a, b in every)


def _typed(found: Any, expected: Any) -> Any:
    """Several results, real numbers among them in the types that PyTorch says: the statistics of a
    norm are f32 on a GPU, and of the norm's own type on the host."""
    if not isinstance(expected, list | tuple) or not isinstance(found, list | tuple):
        return found
    several = list(cast("Sequence[Any]", found))
    for i, wanted in enumerate(cast("Sequence[Any]", expected)[: len(several)]):
        one = several[i]
        if isinstance(one, Value) and one.dtype == "f32" and _is_narrow(wanted):
            several[i] = one.cast(element_of(wanted.dtype))
    return several


def _is_narrow(value: Any) -> bool:
    return hasattr(value, "dtype") and str(value.dtype) in ("torch.float16", "torch.bfloat16")


def is_complex(value: Any) -> bool:
    """Whether PyTorch says that a result, or a part of one, is complex."""
    if isinstance(value, list | tuple):
        return any(is_complex(one) for one in cast("Sequence[Any]", value))
    return hasattr(value, "dtype") and hasattr(value, "is_complex") and bool(value.is_complex())


def _both(x: Complex) -> tuple[Value, Value]:
    return x.real, x.imag


def has_tensor(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(has_tensor(one) for one in cast("Sequence[Any]", value))
    return hasattr(value, "shape") and hasattr(value, "dtype")


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for one in cast("Sequence[Any]", value):
            yield from _flat(one)
    elif isinstance(value, dict):
        yield from _flat(list(cast("dict[str, Any]", value).values()))
    else:
        yield value


def _attribute(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module


_WRONG = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What an argument that a converter does not take runs into."""


def _told(name: str, error: Exception) -> PolycError | None:
    """What a converter refuses; None for any other exception."""
    if isinstance(error, PolycError):
        return error
    if isinstance(error, _WRONG):
        return PolycError(
            "BadArgument", f"{name} is given what its converter does not take: {error}"
        )
    return of_verifier(error)


def _location(node: Any) -> LocationAttr:
    """The line of the model that a node came of: the innermost one outside of PyTorch."""
    frames = _FRAME.findall(node.meta.get("stack_trace") or "") if hasattr(node, "meta") else []
    own = [frame for frame in frames if "-packages/torch/" not in frame[0]] or frames
    if not own:
        return UNKNOWN_LOC
    file, line = own[-1]
    return FileLineColLoc(StringAttr(file), IntAttr(int(line)), IntAttr(0))


def place_at(node: Any) -> Any:
    """The place in the model that a node came of, for an error."""
    return place_of(_location(node))
