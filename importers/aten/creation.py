"""Converters of ATen's tensors of known numbers: full, arange, eye, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.importers.aten.support import Operand, as_value, promoted, rank_of, refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.sizes import Size, SizeLike
from polyc.trace.values import Value


def full(shape: Sequence[SizeLike], value: Operand, *, dtype: str | None = None) -> Value:
    """A tensor of one number, of the number's type unless another is named."""
    return (
        as_value(value, dtype or promoted(value)).expand(*shape)
        if shape
        else as_value(value, dtype or promoted(value))
    )


converter("torch", "aten.full")(full)


@converter("torch", "aten.full_like")
def full_like(x: Value, value: Operand, *, dtype: str | None = None) -> Value:
    return full(x.shape, value, dtype=dtype or x.dtype)


@converter("torch", "aten.new_full")
def new_full(x: Value, shape: Any, value: Operand, *, dtype: str | None = None) -> Value:
    return full(shape, value, dtype=dtype or x.dtype)


# What is empty holds zeros, which is as good as any other numbers.
@converter("torch", "aten.zeros", "aten.empty.memory_format")
def zeros(shape: Sequence[SizeLike], *, dtype: str | None = None) -> Value:
    return full(shape, 0, dtype=dtype or "f32")


@converter("torch", "aten.ones")
def ones(shape: Sequence[SizeLike], *, dtype: str | None = None) -> Value:
    return full(shape, 1, dtype=dtype or "f32")


@converter("torch", "aten.zeros_like", "aten.empty_like")
def zeros_like(x: Value, *, dtype: str | None = None) -> Value:
    return full_like(x, 0, dtype=dtype)


@converter("torch", "aten.ones_like")
def ones_like(x: Value, *, dtype: str | None = None) -> Value:
    return full_like(x, 1, dtype=dtype)


@converter("torch", "aten.new_zeros", "aten.new_empty")
def new_zeros(x: Value, shape: Any, *, dtype: str | None = None) -> Value:
    return new_full(x, shape, 0, dtype=dtype)


@converter("torch", "aten.new_ones")
def new_ones(x: Value, shape: Any, *, dtype: str | None = None) -> Value:
    return new_full(x, shape, 1, dtype=dtype)


@converter("torch", "aten.fill")
def fill(x: Value, value: Operand) -> Value:
    return full_like(x, value)


@converter("torch", "aten.scalar_tensor")
def scalar_tensor(value: Operand, *, dtype: str | None = None) -> Value:
    return as_value(value, dtype or "f32")


@converter("torch", "aten.arange.default")
def arange(end: SizeLike, *, dtype: str | None = None) -> Value:
    return arange_step(0, end, dtype=dtype)


@converter("torch", "aten.arange.start", "aten.arange.start_step")
def arange_step(
    start: Operand, end: Operand, step: Operand = 1, *, dtype: str | None = None
) -> Value:
    """``start + i * step`` below ``end``; the length is known where the ends are whole numbers."""
    given = (start, end, step)
    if any(isinstance(one, float) for one in given):
        if any(isinstance(one, Size) for one in given):
            raise refuse("an arange of real numbers has known ends, not sizes")
        import math

        length: SizeLike = max(math.ceil((end - start) / step), 0)
        element = dtype or "f32"
        places = f.arange(length).cast("f32") * float(step) + float(start)
        return places if element == "f32" else places.cast(element)
    if not isinstance(step, int):
        raise refuse(f"an arange steps by a number, not by {step}")
    span = end - start
    if isinstance(span, int):
        length = max(-(-span // step), 0)
    elif step > 0:
        length = span if step == 1 else (span + (step - 1)) // step
    else:
        raise refuse("an arange that steps backwards has known ends, not sizes")
    element = dtype or "i64"
    places = f.arange(length)
    if step != 1:
        places = places * step
    if not (isinstance(start, int) and start == 0):
        places = places + as_value(start, "i64")
    return places if element == "i64" else places.cast(element)


@converter("torch", "prims.iota")
def iota(
    length: SizeLike, *, start: int, step: int, dtype: str, requires_grad: bool = False
) -> Value:
    return arange_step(start, start + length * step, step, dtype=dtype)


@converter("torch", "aten.linspace")
def linspace(start: Operand, end: Operand, steps: int, *, dtype: str | None = None) -> Value:
    element = dtype or "f32"
    if rank_of(element) < 2:
        raise refuse("a linspace of integers is not known; make it of real numbers and cast")
    first, last = (
        as_value(one, "f32") if isinstance(one, Value) else float(one) for one in (start, end)
    )
    at = f.arange(steps).cast("f32")
    if steps == 1:
        return (at + first).cast(element)
    step = (last - first) / float(steps - 1)
    # From both ends, as PyTorch counts, so that both are exact.
    low, high = at * step + first, last - (float(steps - 1) - at) * step
    return f.where(at < float(steps // 2), low, high).cast(element)


@converter("torch", "aten.eye")
def eye(n: SizeLike, m: SizeLike | None = None, *, dtype: str | None = None) -> Value:
    shape = (n, n if m is None else m)
    on = f.iota(shape, 0) == f.iota(shape, 1)
    return on if dtype == "i1" else on.cast(dtype or "f32")


@converter("torch", "aten.block_diag")
def block_diag(tensors: Sequence[Value]) -> Value:
    """Matrices along a diagonal, zeros beside them."""
    element = promoted(*tensors)
    wide = [one.reshape(*[1] * (2 - one.ndim), *one.shape) for one in tensors]
    rows: list[Value] = []
    for i, one in enumerate(wide):
        parts = [
            to(one, element) if i == j else full((one.shape[0], other.shape[1]), 0, dtype=element)
            for j, other in enumerate(wide)
        ]
        rows.append(f.concat(parts, 1))
    return f.concat(rows, 0)


def _triangle(x: Value, diagonal: int, upper: bool) -> Value:
    shape = x.shape[-2:]
    away = f.iota(shape, 1) - f.iota(shape, 0)
    kept = away >= int(diagonal) if upper else away <= int(diagonal)
    return x & kept if x.dtype == "i1" else f.where(kept, x, as_value(0, x.dtype))


@converter("torch", "aten.triu")
def triu(x: Value, diagonal: int = 0) -> Value:
    return _triangle(x, diagonal, True)


@converter("torch", "aten.tril")
def tril(x: Value, diagonal: int = 0) -> Value:
    return _triangle(x, diagonal, False)
