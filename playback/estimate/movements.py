"""What choices and movements do to errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from polyc.playback.estimate.array import (
    FUNCTIONS,
    Array,
    Estimate,
    as_estimate,
    errors_of,
    in_f64,
    plus,
    repeated,
    together,
)


def _ndim(x: Estimate) -> int:
    return x.ndim


def _shape(x: Estimate) -> tuple[int, ...]:
    return x.shape


def _where(condition: Any, a: Any, b: Any) -> Estimate:
    condition, a, b = (as_estimate(x) for x in (condition, a, b))
    c, a, b = together(condition, a, b)
    value = cast(Array, np.where(c.value, a.value, b.value))

    def part(name: str) -> Array | None:
        if getattr(a, name) is None and getattr(b, name) is None:
            return None
        return np.where(c.value, errors_of(a, name), errors_of(b, name))

    shared, random = part("shared"), part("random")
    if not c.exact and (doubtful := c.error > 0).any():
        apart = np.where(a.value == b.value, 0.0, np.abs(in_f64(a) - in_f64(b)))
        either = apart + np.maximum(a.error, b.error)
        either = np.where(np.isnan(either), np.inf, either)
        shared = np.where(doubtful, either, errors_of(Estimate(value, shared), "shared"))
    return Estimate(value, shared, random)


def _mover(function: Callable[..., Array]) -> Callable[..., Estimate]:
    def rule(x: Any, *args: Any, **kwargs: Any) -> Estimate:
        return as_estimate(x).moved(lambda a: function(a, *args, **kwargs))

    return rule


def _broadcast_to(x: Any, shape: Any, **_: Any) -> Estimate:
    shape = (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)
    return repeated(as_estimate(x), shape)


def _repeat(x: Any, count: int, axis: int) -> Estimate:
    x = as_estimate(x)
    if count > 1:
        x = Estimate(x.value, plus(x.shared, x.random), None)

    def move(array: Array) -> Array:
        return np.repeat(array, count, axis)

    return x.moved(move)


def _pad(x: Any, room: Any, constant_values: Any = 0, **_: Any) -> Estimate:
    x = as_estimate(x)
    shared, random = (None if e is None else np.pad(e, room) for e in (x.shared, x.random))
    return Estimate(np.pad(x.value, room, constant_values=constant_values), shared, random)


def _concatenate(parts: Sequence[Any], axis: int = 0, **_: Any) -> Estimate:
    found = [as_estimate(p) for p in parts]

    def part(name: str) -> Array | None:
        if all(getattr(f, name) is None for f in found):
            return None
        return np.concatenate([errors_of(f, name) for f in found], axis)

    value = np.concatenate([f.value for f in found], axis)
    return Estimate(value, part("shared"), part("random"))


FUNCTIONS.update(
    {
        np.ndim: _ndim,
        np.shape: _shape,
        np.where: _where,
        np.pad: _pad,
        np.concatenate: _concatenate,
        np.broadcast_to: _broadcast_to,
        np.repeat: _repeat,
        **{
            f: _mover(f)
            for f in (
                np.reshape,
                np.transpose,
                np.swapaxes,
                np.moveaxis,
                np.squeeze,
                np.expand_dims,
                np.copy,
                np.flip,
            )
        },
    }
)
