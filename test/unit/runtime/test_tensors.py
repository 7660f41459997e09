"""Tensors in and out: views, host checks and symbols from shapes (J1, J3)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.runtime import tensors

M, K, N = Dim.sym("M"), Dim.sym("K"), Dim.sym("N")


class OnlyDLPack:
    """An array that is known by DLPack alone."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def refused(call: Callable[[], object]) -> PolycError:
    with pytest.raises(PolycError) as caught:
        call()
    return caught.value


@pytest.mark.parametrize(
    ("dtype", "element"),
    [(np.float16, "f16"), (ml_dtypes.bfloat16, "bf16"), (np.float32, "f32")],
)
def test_a_numpy_view(dtype: Any, element: str) -> None:
    array = np.zeros((3, 5), dtype)
    view = tensors.view(array, "A")
    assert view.pointer == array.ctypes.data
    assert (view.shape, view.strides, view.element, view.gpu) == ((3, 5), (5, 1), element, None)
    assert view.bytes == array.nbytes
    assert tensors.numpy_dtype(element) == dtype


@pytest.mark.parametrize("shape", [(3, 5), (0, 4), (), (2, 1, 3)])
def test_a_dlpack_view_is_the_numpy_view(shape: tuple[int, ...]) -> None:
    array = np.ones(shape, np.float32)
    view = tensors.view(OnlyDLPack(array), "A")
    direct = tensors.view(array, "A")
    assert (view.shape, view.element, view.gpu) == (direct.shape, direct.element, None)
    assert view.size == direct.size
    if view.size:
        assert view.pointer == direct.pointer
    tensors.check(view, "A", "f32", len(shape))


def test_a_dlpack_view_keeps_its_memory() -> None:
    array = np.arange(6, dtype=np.float32)
    view = tensors.view(OnlyDLPack(array[2:]), "A")
    pointer = array.ctypes.data + 8
    del array
    assert view.pointer == pointer
    import ctypes

    assert ctypes.c_float.from_address(view.pointer).value == 2.0


@pytest.mark.parametrize(
    ("tensor", "kind", "sentence"),
    [
        ([1.0], "BadArgument", "A is a list; pass a NumPy array or a tensor with __dlpack__"),
        (np.zeros((2, 2)), "TypeMismatch", "A holds float64, the signature says f16"),
        (np.zeros((2, 2), np.float32), "TypeMismatch", "A holds f32, the signature says f16"),
        (np.zeros(4, np.float16), "RankMismatch", "A has shape [4], the signature has 2"),
        (np.zeros((4, 4), np.float16).T, "", ""),
        (
            np.zeros((4, 5), np.float16).T,
            "NotContiguous",
            "A of shape [5, 4] has strides [1, 5], not [4, 1]; make it contiguous: dimension 0 "
            "steps by 1 elements, and kernels by 4; pass numpy.ascontiguousarray(A)",
        ),
        (
            np.zeros((4, 5), np.float16)[::-1],
            "NotContiguous",
            "A of shape [4, 5] has strides [-5, 1], not [5, 1]",
        ),
    ],
)
def test_host_checks(tensor: object, kind: str, sentence: str) -> None:
    def check() -> None:
        tensors.check(tensors.view(tensor, "A"), "A", "f16", 2, given=tensor)

    if not kind:
        # A square transpose: strides [1, 4] are not dense either.
        kind, sentence = "NotContiguous", "strides [1, 4]"
    error = refused(check)
    assert error.kind == kind
    assert sentence in error.message


def test_strides_of_short_and_empty_axes_do_not_matter() -> None:
    for array in (np.zeros((4, 6), np.float16)[:1], np.zeros((4, 6), np.float16)[:, :0]):
        tensors.check(tensors.view(array, "A"), "A", "f16", 2)


def test_a_promised_alignment_holds_for_gpu_tensors() -> None:
    view = tensors.TensorView(0x1008, (4,), (1,), "f16", 0, None)
    tensors.check(view, "A", "f16", 1, align=8)
    error = refused(lambda: tensors.check(view, "A", "f16", 1, align=16))
    assert error.kind == "Misaligned"
    assert "A starts at 0x1008, the signature promises a multiple of 16" in error.message


def test_symbols_come_from_shapes() -> None:
    shapes = [("A", (M, K), (3, 5)), ("B", (K, N), (5, 0)), ("bias", (N,), (0,))]
    assert tensors.bind_symbols(shapes, None, ["M", "K", "N"]) == {"M": 3, "K": 5, "N": 0}


def test_expressions_of_symbols_are_checked() -> None:
    shapes = [("A", (M * 2 + 1,), (7,)), ("B", (M, Dim.const(4)), (3, 4))]
    assert tensors.bind_symbols(shapes) == {"M": 3}
    error = refused(lambda: tensors.bind_symbols([("A", (M * 2 + 1,), (8,)), shapes[1]]))
    assert error.kind == "ShapeMismatch"
    assert error.message == (
        "dimension 0 of A is 8, the signature says 2 * M + 1, which is 7 (M = 3 from dimension 0 "
        "of B)"
    )


@pytest.mark.parametrize(
    ("shapes", "given_values", "kind", "sentence"),
    [
        (
            [("A", (M, K), (3, 5)), ("B", (K, N), (6, 2))],
            None,
            "ShapeMismatch",
            "dimension 0 of B is 6, the signature says K, which is 5 (K = 5 from dimension 1 of A)",
        ),
        (
            [("A", (M, Dim.const(4)), (3, 5))],
            None,
            "ShapeMismatch",
            "dimension 1 of A is 5, the signature says 4",
        ),
        ([("A", (M,), (3,))], {"M": 4}, "ShapeMismatch", "which is 4 (M = 4 as given)"),
        ([("A", (M * 2,), (4,))], None, "UnboundSymbol", "no shape gives M; set M"),
        ([("A", (M,), (4,))], None, "UnboundSymbol", "no shape gives K; set K"),
        ([("A", (M,), (4,))], {"K": -1}, "BadArgument", "K is -1; a size is at least 0"),
        ([("A", (M,), (4, 4))], None, "RankMismatch", "A has shape [4, 4]"),
    ],
)
def test_shapes_that_do_not_fit(
    shapes: Any, given_values: dict[str, int] | None, kind: str, sentence: str
) -> None:
    error = refused(lambda: tensors.bind_symbols(shapes, given_values, ["M", "K"]))
    assert error.kind == kind
    assert sentence in error.message


def test_outputs_are_of_the_input_s_library() -> None:
    out: Any = tensors.empty_like_input(np.zeros(1), (2, 3), "bf16")
    assert out.shape == (2, 3)
    assert out.dtype == ml_dtypes.bfloat16
    error = refused(lambda: tensors.empty_like_input(OnlyDLPack(np.zeros(1)), (2, 3), "f16"))
    assert "not for OnlyDLPack; pass out=" in error.message


def test_conditions_are_bytes() -> None:
    flags = np.array([[True, False, True]])
    for seen in (tensors.view(flags, "m"), tensors.view(OnlyDLPack(flags), "m")):
        assert (seen.element, seen.shape, seen.bytes) == ("i1", (1, 3), 3)
    made: Any = tensors.empty_like_input(flags, [2], "i1")
    assert made.shape == (2,)
    assert made.dtype == np.bool_


def test_an_output_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its library's own allocation, on the input's device."""

    class Array:
        def devices(self) -> set[str]:
            return {"gpu 1"}

    def empty(shape: tuple[int, ...], dtype: Any, device: str) -> Any:
        return shape, np.dtype(dtype), device

    numpy = SimpleNamespace(empty=empty)
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(Array=Array, numpy=numpy))
    found: Any = tensors.empty_like_input(Array(), [2, 3], "f16")
    assert found == ((2, 3), np.dtype(np.float16), "gpu 1")
