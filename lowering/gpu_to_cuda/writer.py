"""How a kernel becomes C text: names, literals, statements, and the table of ops.

``prints`` puts a function into the table: it takes the writer and one op, and writes the
op's statements.  Values are C variables named after the IR's own names; constants are
written where they are used; a value that nothing needs is not computed.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, cast

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, SSAValue
from xdsl.traits import Pure

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware
from polyc.dialects.gpu.kernel import KernelOp
from polyc.lowering.gpu_to_cuda.asm import FUNCTIONS, PREFIXES, DeviceFunction
from polyc.lowering.gpu_to_cuda.types import CType, c_type

OperationT = TypeVar("OperationT", bound=Operation)
Printer = Callable[["KernelWriter", Any], None]

PRINTERS: dict[type[Operation], Printer] = {}
"""Op class to the function that writes it."""

NAMES: dict[type[Operation], str] = {}
"""Op class to the variable name of a result without a name of its own."""


def prints(
    op: type[OperationT], name: str = "v"
) -> Callable[
    [Callable[[KernelWriter, OperationT], None]], Callable[[KernelWriter, OperationT], None]
]:
    """Decorator: this function writes ops of class ``op``; ``name`` is its results' name."""

    def enter(
        function: Callable[[KernelWriter, OperationT], None],
    ) -> Callable[[KernelWriter, OperationT], None]:
        PRINTERS[op] = function
        NAMES[op] = name
        return function

    return enter


LOWERED_BY: dict[str, str] = {
    "gpu.pipeline": "gpu-inject-pipeline or gpu-warp-specialize",
    "gpu.ring": "gpu-lower-barriers",
    "gpu.ring_acquire": "gpu-lower-barriers",
    "gpu.ring_wait": "gpu-lower-barriers",
    "gpu.ring_release": "gpu-lower-barriers",
    "gpu.fragment": "gpu-lower-tile-ops",
    "gpu.fill": "gpu-lower-tile-ops",
    "gpu.copy": "gpu-lower-tile-ops",
    "gpu.contract": "gpu-lower-tile-ops",
    "gpu.map": "gpu-lower-tile-ops",
    "gpu.await": "gpu-wgmma-sync",
    "gpu.tile_coordinates": "gpu-lower-coordinates",
    "gpu.roles": "gpu-lower-roles",
    "gpu.element_address": "gpu-lower-shared-layout",
    "affine.for": "lower-affine",
    "affine.if": "lower-affine",
    "affine.load": "lower-affine",
    "affine.store": "lower-affine",
}
"""Op name to the pass that lowers it, for the diagnostic of an op that has no printer."""


def not_lowered(op: Operation, why: str = "has no CUDA C", way: str | None = None) -> PolycError:
    """The error for an op that is not at hardware level, or not in a form that C has.

    ``way`` says what to do; without it the pass that lowers the op is named.
    """
    if way is None:
        by = LOWERED_BY.get(op.name)
        way = f"run {by} first" if by else "lower it first (lower-to-gpu runs every pass)"
    return PolycError("NotLowered", f"{op.name} {why}; {way}", op)


KEYWORDS = frozenset(
    re.findall(
        r"\w+",
        """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t class compl const const_cast constexpr continue decltype default delete do double
    dynamic_cast else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast return short signed sizeof static static_assert static_cast struct
    switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq main min max abs
    threadIdx blockIdx blockDim gridDim warpSize TensorMap
    expf exp2f logf log2f sqrtf rsqrtf tanhf erff fabsf fmaf floorf ceilf rintf powf fmaxf fminf
    acosf acoshf asinf asinhf atanf atan2f atanhf cbrtf cosf coshf erfcf expm1f fmodf log10f log1pf
    sinf sinhf tanf truncf
    u8 u16 u32 u64 i64 f16 bf16 shared shared_base""",
    )
)
_VECTOR_NAME = re.compile(r"(u8|u16|u32|i32|i64|f16|bf16|f32)x\d+")
_NOT_C = re.compile(r"[^A-Za-z0-9_]")


@cache
def is_reserved(name: str) -> bool:
    """Whether a variable of this name would hide something that the text uses."""
    return (
        name in KEYWORDS
        or name.startswith(("__", *PREFIXES))
        or name in FUNCTIONS
        or _VECTOR_NAME.fullmatch(name) is not None
    )


def float_literal(value: float) -> str:
    """The shortest C text whose value is ``value`` rounded to f32."""
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        rounded = math.copysign(math.inf, value)
    if not math.isfinite(rounded):
        (bits,) = struct.unpack("<I", struct.pack("<f", rounded))
        return f"__uint_as_float(0x{bits:08x}u)"
    for digits in range(1, 10):
        text = f"{rounded:.{digits}g}"
        try:
            if struct.unpack("<f", struct.pack("<f", float(text)))[0] == rounded:
                break
        except OverflowError:  # the rounded text is above the largest float
            continue
    else:
        text = repr(rounded)
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def single_bits(value: float) -> int:
    """The bits of ``value`` as f32, rounded to nearest even."""
    try:
        return struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F800000 | (0x80000000 if value < 0 else 0)


def half_bits(value: float) -> int:
    """The bits of ``value`` as f16, rounded to nearest even."""
    try:
        return struct.unpack("<H", struct.pack("<e", value))[0]
    except OverflowError:
        return 0x7C00 | (0x8000 if value < 0 else 0)


def bfloat_bits(value: float) -> int:
    """The bits of ``value`` as bf16, rounded to nearest even."""
    if math.isnan(value):
        return 0x7FC0
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return 0x7F80 | (0x8000 if value < 0 else 0)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def literal(value: int | float, kind: str) -> str:
    """A scalar constant of C type ``kind``."""
    match kind:
        case "float":
            return float_literal(float(value))
        case "f16":
            return f"(f16)0x{half_bits(float(value)):04x}"
        case "bf16":
            return f"(bf16)0x{bfloat_bits(float(value)):04x}"
        case "bool":
            return "true" if value else "false"
        case "u32":
            return f"{int(value)}u" if value >= 0 else f"(u32){int(value)}"
        case "u8" | "u16":
            mask = 0xFF if kind == "u8" else 0xFFFF
            return f"({kind}){int(value) & mask}"
        case "i64":
            whole = int(value)
            whole = (whole + (1 << 63)) % (1 << 64) - (1 << 63)
            return "(-9223372036854775807ll - 1)" if whole == -(1 << 63) else f"{whole}ll"
        case _:
            return "(-2147483647 - 1)" if value == -(1 << 31) else str(int(value))


_DROPPED = (
    hardware.LoadGlobalOp,
    hardware.LoadSharedOp,
    hardware.SharedTileOp,
    hardware.MBarrierOp,
    memref.LoadOp,
    memref.AllocaOp,
    arith.ExtSIOp,
)
"""Ops without Pure that are not written when nothing needs their result."""


class KernelWriter:
    """Writes the body of one kernel.

    ``functions`` and ``types`` collect what the prelude must define; they are shared by the
    kernels of one text.
    """

    def __init__(self, functions: dict[str, DeviceFunction], types: dict[str, CType]) -> None:
        self.functions = functions
        self.types = types
        self.lines: list[str] = []
        self.indent = 1
        self.stored: set[SSAValue] = set()
        """Global tensors that the kernel writes."""
        self.live: set[SSAValue] = set()
        """Values that some effect depends on."""
        self.dead: set[Operation] = set()
        """Ops that need not be written."""
        self._names: dict[SSAValue, str] = {}
        self._taken: set[str] = set()
        self._counts: dict[str, int] = {}
        self._elements: dict[SSAValue, list[str]] = {}

    # Names and types

    def fresh(self, hint: str) -> str:
        """A C identifier like ``hint`` that the kernel does not use yet."""
        base = _NOT_C.sub("_", hint).lstrip("_")
        if not base or base[0].isdigit():
            base = "v" + base
        if is_reserved(base):
            base = f"{base}_" if not is_reserved(f"{base}_") else f"v_{base}"
        name, count = base, self._counts.get(base, 0)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self._taken.add(name)
        return name

    def name(self, value: SSAValue, fallback: str = "v") -> str:
        """Give ``value`` a variable's name."""
        name = self.fresh(value.name_hint or fallback)
        self._names[value] = name
        return name

    def alias(self, value: SSAValue, text: str) -> None:
        """``text`` (a name or a literal) stands for ``value``."""
        self._names[value] = text

    def text(self, value: SSAValue) -> str:
        """The variable or literal of ``value``."""
        return self._names[value]

    def type(self, attribute: Attribute, at: Operation) -> CType:
        """The C type of a value's type; PolycError where there is none."""
        found = c_type(attribute)
        if found is None:
            raise not_lowered(
                at,
                f"has a value of type {attribute}",
                "a kernel holds index, i1 to i64, f16, bf16, f32 and vectors of these",
            )
        if found.is_vector:
            self.types[found.name] = found
        return found

    # Statements

    def line(self, text: str) -> None:
        self.lines.append("  " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """``head {`` … ``}`` around what is written inside."""
        self.line(f"{head} {{")
        self.indent += 1
        yield
        self.indent -= 1
        self.line("}")

    def define(self, value: SSAValue, expression: str) -> None:
        """``type name = expression;``"""
        op = value.owner
        assert isinstance(op, Operation)
        t = self.type(value.type, op)
        self.line(f"{t.name} {self.name(value, NAMES.get(type(op), 'v'))} = {expression};")

    def call(self, function: str | DeviceFunction, *arguments: str, template: str = "") -> str:
        """The text of a call; the function goes into the prelude."""
        if isinstance(function, str):
            function = FUNCTIONS[function]
        for inner in function.calls:
            self.functions.setdefault(inner.name, inner)
        self.functions.setdefault(function.name, function)
        return f"{function.name}{f'<{template}>' if template else ''}({', '.join(arguments)})"

    def run(self, function: str | DeviceFunction, *arguments: str, template: str = "") -> None:
        """A call as a statement."""
        self.line(self.call(function, *arguments, template=template) + ";")

    # Vectors

    def elements(self, value: SSAValue) -> list[str]:
        """The elements of a vector, or the scalar itself, as C expressions."""
        if value in self._elements:
            return self._elements[value]
        owner = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
        assert owner is not None
        t, name = self.type(value.type, owner), self.text(value)
        if not t.is_vector:
            return [name]
        if t.lanes == 1:
            return t.parts(name)
        bits = 8 * t.bytes // (t.words * t.lanes)
        if t.element == "bool":  # Of a byte in memory all bits count.
            every = [(part, 0xFF << bits * i) for part in t.parts(name) for i in range(t.lanes)]
            return [f"(({part} & 0x{mask:x}u) != 0)" for part, mask in every]
        return [
            f"({t.element})({part} >> {bits * i})" if i else f"({t.element}){part}"
            for part in t.parts(name)
            for i in range(t.lanes)
        ]

    def vector(self, t: CType, elements: Sequence[str]) -> str:
        """A vector (or scalar) from C expressions of its elements."""
        if not t.is_vector:
            return elements[0]
        words: list[str] = []
        bits = 8 * t.bytes // (t.words * t.lanes)
        for w in range(t.words):
            parts = elements[w * t.lanes : (w + 1) * t.lanes]
            if t.lanes == 1:
                words.append(parts[0])
                continue
            joined = " | ".join(
                f"({t.word})({p}) << {bits * i}" if i else f"({t.word})({p})"
                for i, p in enumerate(parts)
            )
            words.append(joined if t.word == "u32" else f"({t.word})({joined})")
        return f"{t.name}{{{{{', '.join(words)}}}}}"

    # Traversal

    def constant(self, op: arith.ConstantOp) -> None:
        """Constants are not variables: their literal stands where they are used."""
        t = self.type(op.result.type, op)
        attribute = cast(Attribute, op.value)
        match attribute:
            case IntegerAttr():
                self.alias(op.result, literal(attribute.value.data, t.name))
            case FloatAttr():
                self.alias(op.result, literal(attribute.value.data, t.name))
            case DenseIntOrFPElementsAttr() if t.is_vector:
                values = list(cast(Sequence[int | float], attribute.get_values()))
                count = t.words * t.lanes
                values = values * count if len(values) == 1 else values
                texts = [literal(v, t.element) for v in values]
                self._elements[op.result] = texts
                self.alias(op.result, self.vector(t, texts))
            case _:
                raise not_lowered(op, f"is {attribute}", "write a scalar or a vector constant")

    def ops(self, block: Block) -> None:
        """Write the ops of a block."""
        for op in block.ops:
            self.op(op)

    def op(self, op: Operation) -> None:
        """Write an op, unless nothing needs it."""
        if op in self.dead:
            return
        function = PRINTERS.get(type(op))
        if function is None:
            raise not_lowered(op)
        function(self, op)

    def prepare(self, body: Block) -> None:
        """Find which values are needed, and which tensors are written."""
        needed: list[SSAValue] = []
        for op in body.walk():
            match _role(type(op)):
                case "loop":
                    assert isinstance(op, scf.ForOp)
                    needed += (op.lb, op.ub, op.step)
                case "branch":
                    assert isinstance(op, scf.IfOp)
                    needed.append(op.cond)
                case "value" if op.results:
                    self.dead.add(op)
                case "store":
                    assert isinstance(op, _STORES)
                    self.stored.add(op.tensor)
                    needed += op.operands
                case "wait":
                    self.stored.update(_workspaces(body))
                    needed += op.operands
                case "yield":
                    pass
                case _:
                    needed += op.operands
        while needed:
            value = needed.pop()
            if value not in self.live:
                self.live.add(value)
                needed += self._sources(value)

    def _sources(self, value: SSAValue) -> Sequence[SSAValue]:
        """What a needed value is made from; a carried value is one variable with its result."""
        if isinstance(value, BlockArgument):
            loop = value.owner.parent_op()
            if not isinstance(loop, scf.ForOp) or value.index == 0:
                return ()
            return _carried(loop, value.index - 1)
        op = value.owner
        assert isinstance(op, Operation) and isinstance(value, OpResult)
        match op:
            case scf.ForOp():
                return _carried(op, value.index)
            case scf.IfOp():
                blocks = (*op.true_region.blocks, *op.false_region.blocks)
                return [o for b in blocks for o in _yielded(b)[value.index : value.index + 1]]
            case _:
                self.dead.discard(op)
                return op.operands


def _workspaces(body: Block) -> list[SSAValue]:
    """The arguments of a kernel's body that are workspaces: another CTA may write them."""
    kernel = body.parent_op()
    assert isinstance(kernel, KernelOp)
    pairs = zip(body.args, kernel.bindings, strict=True)
    return [arg for arg, binding in pairs if binding.workspace_name is not None]


Role: TypeAlias = Literal["loop", "branch", "yield", "value", "store", "wait", "effect"]


_STORES = (hardware.StoreGlobalOp, hardware.AtomicGlobalOp, hardware.ExchangeGlobalOp)
"""Ops that write a tensor."""


@cache
def _role(kind: type[Operation]) -> Role:
    """What ops of a kind are to ``prepare``; a value is written only where something needs it."""
    if issubclass(kind, scf.ForOp):
        return "loop"
    if issubclass(kind, scf.IfOp):
        return "branch"
    if issubclass(kind, scf.YieldOp):
        return "yield"
    if issubclass(kind, _STORES):
        return "store"
    if issubclass(
        kind, hardware.WaitGlobalOp | hardware.PostGlobalOp | hardware.AwaitPostsGlobalOp
    ):
        return "wait"
    return "value" if issubclass(kind, _DROPPED) or kind.has_trait(Pure) else "effect"


def _yielded(block: Block) -> Sequence[SSAValue]:
    last = block.last_op
    return last.arguments if isinstance(last, scf.YieldOp) else ()


def _carried(loop: scf.ForOp, index: int) -> Sequence[SSAValue]:
    block = loop.body.block
    return (
        loop.iter_args[index],
        block.args[index + 1],
        loop.res[index],
        *_yielded(block)[index : index + 1],
    )
