"""``gpu-legalize-access``: an access runs exactly where its coordinates are in the tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.test.support.evaluate import Machine
from polyc.test.support.gpu_text import (
    assert_refused,
    body_of,
    kernel,
    only,
    printed,
    run,
    unchanged,
)

PASS = "gpu-legalize-access"
SYMBOLS = "%M: index = symbol M, %K: index = symbol K, %N: index = symbol N"
KIND = "!gpu.global<[M, K + N], f32>"
INTS = KIND.replace("f32", "i32")
AT = "%T[%i, %j : index, index]"

ACCESSES = {
    "guard_load": f"%y = gpu.load_global {AT} : {KIND} -> f32",
    "guard_store": f"gpu.store_global %x, {AT} : f32, {KIND}",
    "guard_cp_async": f"gpu.cp_async %a, {AT} bytes 4 : {KIND}",
    "guard_atomic": f'gpu.atomic_global "add" %x, {AT} : f32, {KIND}',
    "guard_exchange": f"%was = gpu.exchange_global %a, {AT.replace('T', 'O')} : {INTS}",
    "guard_add": f"%was = gpu.exchange_global add %a, {AT.replace('T', 'O')} : {INTS}",
}

ACCESS = hw.LoadGlobalOp | hw.StoreGlobalOp | hw.CpAsyncOp | hw.AtomicGlobalOp | hw.ExchangeGlobalOp


def program(access: str) -> str:
    return kernel(
        f"    %a = arith.constant 0 : i32\n    {access}",
        f"%T: {KIND} = tensor 0, {SYMBOLS}, %i: index = symbol M, %j: index = symbol M, "
        f"%x: f32 = symbol M, %p: i1 = symbol M, %O: {INTS} = tensor 0",
    )


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
@given(m=st.integers(0, 5), k=st.integers(0, 3), n=st.integers(0, 3))
def test_the_predicate_is_the_tensors_bounds(access: str, m: int, k: int, n: int) -> None:
    module = run(program(access), PASS)
    i, j = (x.ravel() for x in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    machine = Machine(
        threads=i.size,
        handlers=dict.fromkeys(
            (hw.LoadGlobalOp, hw.ExchangeGlobalOp), lambda event: [np.zeros(i.size, np.float32)]
        ),
    )
    args = only(module, KernelOp).body.block.args
    for arg, value in zip(args[1:6], (m, k, n, i, j), strict=True):
        machine.set(arg, value)
    machine.run(body_of(module))
    (event,) = machine.events
    assert isinstance(event.op, ACCESS)
    assert event.op.predicate is not None
    assert (event[event.op.predicate] == ((i < m) & (j < k + n))).all()


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
@given(m=st.integers(0, 5), n=st.integers(0, 9), low=st.integers(-3, 3), factor=st.integers(-2, 2))
def test_the_predicate_bounds_below_what_may_be_negative(
    access: str, m: int, n: int, low: int, factor: int
) -> None:
    """Coordinates [i, factor j + low]: a window, a reversed axis, a pad."""
    place = f"%q = affine.apply affine_map<(j) -> (j * {factor} + {low})>(%j)\n    "
    module = run(program(place + access.replace("%j", "%q")), PASS)
    i, j = (x.ravel() for x in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    machine = Machine(
        threads=i.size,
        handlers=dict.fromkeys(
            (hw.LoadGlobalOp, hw.ExchangeGlobalOp), lambda event: [np.zeros(i.size, np.float32)]
        ),
    )
    args = only(module, KernelOp).body.block.args
    for arg, value in zip(args[1:6], (m, 0, n, i, j), strict=True):
        machine.set(arg, value)
    machine.run(body_of(module))
    (event,) = machine.events
    predicate = event.op.operands[-1]
    place_of_j = factor * j + low
    assert (event[predicate] == ((i < m) & (place_of_j >= 0) & (place_of_j < n))).all()


SIGNS = {
    "a size": ("", "%i", True),
    "a thread": ("%t = gpu.thread_id\n", "%t", True),
    "a constant": ("%c = arith.constant 3 : index\n", "%c", True),
    "a negative constant": ("%c = arith.constant -3 : index\n", "%c", False),
    "a sum": ("%c = affine.apply affine_map<(d0)[s0] -> (d0 * 2 + s0)>(%i)[%j]\n", "%c", True),
    "a remainder": (
        "%c = affine.apply affine_map<(d0) -> (d0 - d0 floordiv 32 * 32)>(%i)\n",
        "%c",
        True,
    ),
    "a shift": ("%c = affine.apply affine_map<(d0) -> (d0 - 1)>(%i)\n", "%c", False),
    "a shift back": (
        "%b = affine.apply affine_map<(d0) -> (d0 - 1)>(%i)\n"
        "%c = affine.apply affine_map<()[s0] -> (s0 + 1)>()[%b]\n",
        "%c",
        False,
    ),
    "a difference": ("%c = arith.subi %i, %j : index\n", "%c", False),
    "the larger": (
        "%d = arith.subi %i, %j : index\n%c = arith.maxsi %d, %j : index\n",
        "%c",
        True,
    ),
}
"""Values, and whether they are known not to be negative."""


@pytest.mark.parametrize(("before", "value", "known"), SIGNS.values(), ids=SIGNS)
def test_the_lower_bound_is_asked_for_where_it_may_not_hold(
    before: str, value: str, known: bool
) -> None:
    load = f"%y = gpu.load_global %T[{value}, {value} : index, index] : {KIND} -> f32"
    text = printed(run(program(f"{before}    {load}"), PASS))
    assert ("arith.cmpi ult" not in text) == known


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_an_authors_predicate_is_kept(access: str) -> None:
    head, _, tail = access.rpartition(" : ")
    unchanged(program(f"{head} if %p : {tail}"), PASS)


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
def test_a_linear_access_is_left_alone(access: str) -> None:
    linear = access.replace("%i, %j : index, index", "%o : i64")
    unchanged(program(f"%o = arith.constant 0 : i64\n    {linear}"), PASS)


def test_a_scalar_needs_no_guard() -> None:
    kind = "!gpu.global<[], f32>"
    text = kernel(f"    %x = gpu.load_global %T[ : ] : {kind} -> f32", f"%T: {kind} = tensor 0")
    unchanged(text, PASS)


@pytest.mark.parametrize("name", ["gpu-legalize-access", "gpu-linearize-access"])
def test_a_size_without_an_argument(name: str) -> None:
    text = kernel(
        f"    %y = gpu.load_global %T[%i, %i : index, index] : {KIND} -> f32",
        f"%T: {KIND} = tensor 0, %M: index = symbol M, %K: index = symbol K, %i: index = symbol M",
    )
    message = "kernel @k needs the size N; add an argument bound to symbol N"
    assert_refused(text, "MissingSymbol", message, "gpu.kernel", name)


def test_an_access_stands_in_a_kernel() -> None:
    text = f"""
%T = "builtin.unrealized_conversion_cast"() : () -> {KIND}
%i = arith.constant 0 : index
%y = gpu.load_global %T[%i, %i : index, index] : {KIND} -> f32
"""
    message = "gpu.load_global stands in a gpu.kernel"
    assert_refused(text, "NoKernel", message, "gpu.load_global", PASS)
