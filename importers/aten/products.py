"""Converters of ATen's products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.importers.aten.movements import roll
from polyc.importers.aten.support import Operand, alike, as_value, refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.sizes import SizeLike
from polyc.trace.values import Value

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


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


@converter("torch", "aten.addbmm")
def addbmm(x: Value, a: Value, b: Value, *, beta: Operand = 1, alpha: Operand = 1) -> Value:
    batch, rows, depth = a.shape
    first = a.transpose(0, 1).reshape(rows, batch * depth)
    return addmm(x, first, b.reshape(batch * depth, b.shape[2]), beta=beta, alpha=alpha)


@converter("torch", "aten.bilinear")
def bilinear(a: Value, b: Value, weight: Value, bias: Value | None = None) -> Value:
    """``a`` by each of the matrices [features, i, j] by ``b``."""
    features, rows, columns = weight.shape
    one = f.matmul(a, weight.permute(1, 0, 2).reshape(rows, features * columns))
    apart = one.reshape(*a.shape[:-1], features, columns)
    made = f.sum(apart * b.unsqueeze(-2), -1)
    return made if bias is None else made + bias


MANY_ROWS = 25
"""Rows up to which ``torch.cdist`` takes differences, as its documentation says."""


@converter("torch", "aten.cdist", "aten._cdist_forward", "aten._euclidean_dist")
def cdist(a: Value, b: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """The distances of each row of ``a`` to each row of ``b``.

    They come of differences, or, for Euclidean ones of many rows, of a product of the two, as
    PyTorch has them unless it is told otherwise (``compute_mode`` 2).
    """
    many = max(a.shape[-2], b.shape[-2]) > MANY_ROWS
    if p == 2 and (compute_mode == 1 or (many and compute_mode != 2)):
        squares = [f.sum(one * one, -1) for one in (a, b)]
        both = f.matmul(a, b.transpose(-1, -2))
        away = squares[0].unsqueeze(-1) + squares[1].unsqueeze(-2) - 2 * both
        return f.sqrt(f.maximum(away, 0.0))
    away = f.abs(a.unsqueeze(-2) - b.unsqueeze(-3))
    if p == 0:
        return to(f.sum((away != 0).cast("i32"), -1), a.dtype)
    if p == float("inf"):
        return f.max(away, -1)
    if p == 1:
        return f.sum(away, -1)
    if p == 2:
        return f.sqrt(f.sum(away * away, -1))
    return f.pow(f.sum(f.pow(away, float(p)), -1), 1.0 / float(p))


@converter("torch", "aten.linalg_cross")
def linalg_cross(a: Value, b: Value, *, dim: int = -1) -> Value:
    """The cross product, of axes of three."""
    one, other = alike(a, b)
    rank = max(one.ndim, other.ndim)
    at = dim % rank - rank

    def turned(x: Value, by: int) -> Value:
        return roll(x, by, [at])

    return turned(one, -1) * turned(other, -2) - turned(one, -2) * turned(other, -1)


@converter("torch", "aten.outer")
def outer(a: Value, b: Value) -> Value:
    return a.unsqueeze(1) * b


@converter("torch", "aten.einsum")
def einsum(equation: str, operands: Sequence[Value], *, path: Any = None) -> Value:
    """Products of two at a time, as matrix products of axes that are put together."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    names = left.split(",")
    if len(names) != len(operands):
        raise refuse(f"{equation!r} has not as many terms as operands")
    if "." in equation:
        names, right = _spelled(equation, names, right if arrow else None, operands)
        arrow = "->"
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


def _spelled(
    equation: str, names: Sequence[str], right: str | None, operands: Sequence[Value]
) -> tuple[list[str], str]:
    """The terms and the result with letters for the axes of an ellipsis."""
    free = [c for c in LETTERS if c not in equation]
    counts = [
        one.ndim - len(name.replace("...", ""))
        for name, one in zip(names, operands, strict=True)
        if "..." in name
    ]
    most = max(counts, default=0)
    if most > len(free) or any(one < 0 for one in counts):
        raise refuse(f"{equation!r} has an ellipsis for no axes that there are")
    letters = "".join(free[:most])
    found: list[str] = []
    for name, one in zip(names, operands, strict=True):
        own = one.ndim - len(name.replace("...", ""))
        spelled = name.replace("...", letters[most - own :] if own else "")
        if len(spelled) != one.ndim:
            raise refuse(f"{equation!r} has other axes than {one!r}")
        found.append(spelled)
    if right is None:
        every = "".join(names).replace("...", "")
        right = "..." + "".join(sorted(c for c in set(every) if every.count(c) == 1))
    wanted = right.replace("...", letters)
    sizes: dict[str, SizeLike] = {}
    for name, one in zip(found, operands, strict=True):
        for c, size in zip(name, one.shape, strict=True):
            if sizes.setdefault(c, size) != size:
                raise refuse(f"{equation!r} broadcasts an axis; expand the operand")
    return found, wanted


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
