"""Converters of ATen's products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.importers.aten.support import Operand, as_value, refuse
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.sizes import SizeLike
from polyc.trace.values import Value


@converter("torch", "aten.linear")
def linear(x: Value, weight: Value, bias: Value | None = None) -> Value:
    if weight.ndim == 1:
        made = f.matmul(x, weight)
        return made if bias is None else made + bias
    return f.linear(x, weight, bias)


@converter("torch", "aten.mm", "aten.bmm", "aten.matmul", "aten.mv", "aten.dot", "aten.vdot")
def matmul(a: Value, b: Value) -> Value:
    return f.matmul(a, b)


@converter("torch", "aten.addmm", "aten.addmv", "aten.baddbmm")
def addmm(x: Value, a: Value, b: Value, *, beta: Operand = 1, alpha: Operand = 1) -> Value:
    made = f.matmul(a, b)
    made = made if alpha == 1 else made * as_value(alpha, made.dtype)
    if beta == 0:
        return made
    return (x if beta == 1 else x * as_value(beta, x.dtype)) + made


@converter("torch", "aten.outer")
def outer(a: Value, b: Value) -> Value:
    return a.unsqueeze(1) * b


@converter("torch", "aten.einsum")
def einsum(equation: str, operands: Sequence[Value], *, path: Any = None) -> Value:
    """Products of two at a time, as matrix products of axes that are put together."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    names = left.split(",")
    if "." in equation or len(names) != len(operands):
        raise refuse(f"{equation!r} has an ellipsis, or not as many terms as operands")
    if any(len(set(one)) < len(one) for one in names):
        raise refuse(f"{equation!r} has an axis twice in one term")
    if not arrow:
        every = "".join(names)
        right = "".join(sorted(c for c in set(every) if every.count(c) == 1))
    value, axes = operands[0], names[0]
    for i in range(1, len(operands)):
        kept = set(right).union(*names[i + 1 :])
        value, axes = _contracted(value, axes, operands[i], names[i], kept)
    gone = [i for i, c in enumerate(axes) if c not in right]
    if gone:
        value, axes = f.sum(value, gone), "".join(c for c in axes if c in right)
    return value.permute(*[axes.index(c) for c in right]) if right else value


def _contracted(a: Value, one: str, b: Value, two: str, kept: set[str]) -> tuple[Value, str]:
    """The product of two tensors, summed over the axes that nothing else has."""
    alone = [i for i, c in enumerate(one) if c not in two and c not in kept]
    if alone:
        a, one = f.sum(a, alone), "".join(c for c in one if c in two or c in kept)
    alone = [i for i, c in enumerate(two) if c not in one and c not in kept]
    if alone:
        b, two = f.sum(b, alone), "".join(c for c in two if c in one or c in kept)
    batch = [c for c in one if c in two and c in kept]
    summed = [c for c in one if c in two and c not in kept]
    rows, columns = [c for c in one if c not in two], [c for c in two if c not in one]
    sizes = {**dict(zip(two, b.shape, strict=True)), **dict(zip(one, a.shape, strict=True))}
    a = a.permute(*[one.index(c) for c in (*batch, *rows, *summed)])
    b = b.permute(*[two.index(c) for c in (*batch, *summed, *columns)])
    outside = [sizes[c] for c in batch]

    def merged(axes: Sequence[str]) -> SizeLike:
        found: SizeLike = 1
        for c in axes:
            found = found * sizes[c]
        return found

    a = a.reshape(*outside, merged(rows), merged(summed))
    b = b.reshape(*outside, merged(summed), merged(columns))
    axes = "".join((*batch, *rows, *columns))
    return f.matmul(a, b).reshape(*[sizes[c] for c in axes]), axes
