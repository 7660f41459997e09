"""Misuse of polyc.tile that no other test meets, refused at the user's line."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import inspect

import pytest

import polyc.tile as T
from polyc.dialects.common.diagnostic import PolycError
from polyc.test.unit.tile.test_builder import Body, program


def refused(body: Body, kind: str, part: str) -> None:
    """Building refuses with this kind and sentence, at the body's line marked ``# here``."""
    with pytest.raises(PolycError) as found:
        program(body).module()
    error = found.value
    assert (error.kind, part in error.message) == (kind, True), str(error)
    lines, first = inspect.getsourcelines(body)
    marked = [first + i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    assert error.place is not None and [error.place.line] == marked, str(error)


def test_a_signal_that_is_no_counter() -> None:
    def body(A, X, C, Y) -> None:
        T.grid_signal(3)  # here

    refused(body, "NotACounter", "at a place of a tensor")


def test_a_scatter_of_no_fragment() -> None:
    def body(A, X, C, Y) -> None:
        T.reduce_scatter("sum", 3, 4)  # here

    refused(body, "NotATile", "takes a fragment to a fragment, not 3")


def test_a_copy_that_signals_no_ring() -> None:
    def body(A, X, C, Y) -> None:
        T.copy(A[0, 0], T.alloc_shared((64, 64), T.f16), signal=3)  # here

    refused(body, "NotARing", "not 3")


def test_a_name_for_what_is_no_value() -> None:
    def body(A, X, C, Y) -> None:
        T.name(3, "three")  # here

    refused(body, "NotAValue", "3 is no value of the kernel")


def test_a_tile_cut_by_what_is_no_slice() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        T.copy(f["a", "b"], T.alloc_shared((64, 64), T.f16))  # here

    refused(body, "NotAWindow", "a tile is cut by slices of known numbers")


def test_a_layout_of_another_kind_of_tile() -> None:
    def body(A, X, C, Y) -> None:
        f = T.alloc_fragment((64, 64), T.f16)
        T.annotate_layout({f: T.swizzle(64)})  # here

    refused(body, "WrongLayout", "64 is no layout of !gpu.fragment")


def test_a_with_that_was_traced() -> None:
    def body(A, X, C, Y) -> None:
        branch = T.when(T.block_id() < 3)
        with branch:
            T.barrier()
        with branch:  # here
            T.barrier()

    refused(body, "UsedTwice", "was traced already")


def the_kind(make: T.Program) -> str:
    with pytest.raises(PolycError) as found:
        make.module()
    return found.value.kind


def test_a_launch_without_its_grid() -> None:
    @T.program(arch="sm_90a", name="m")
    def built(A: T.Tensor[64, T.f16]) -> None:
        with T.kernel("k", threads=64, persistent=True):
            T.barrier()

    assert the_kind(built) == "NoGrid"


def test_alignments_that_do_not_fit() -> None:
    @T.program(arch="sm_90a", name="m")
    def built(A: T.Tensor[64, T.f16]) -> None:
        with T.kernel("k", threads=64, grid=[1], align=[16, 16, 16]):
            T.barrier()

    assert the_kind(built) == "WrongAlignment"


def test_an_attribute_that_is_none() -> None:
    @T.program(arch="sm_90a", name="m")
    def built(A: T.Tensor[64, T.f16]) -> None:
        with T.kernel("k", threads=64, grid=[1], attributes={"x": 2.5}):
            T.barrier()

    assert the_kind(built) == "NotAnAttribute"
