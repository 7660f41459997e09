"""``gpu-legalize-access``: an access runs exactly where its coordinates are in the tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import KernelOp
from polyc.test.unit.evaluate import Machine
from polyc.test.unit.gpu_text import assert_refused, body_of, kernel, only, run, unchanged

PASS = "gpu-legalize-access"
SYMBOLS = "%M: index = symbol M, %K: index = symbol K, %N: index = symbol N"
KIND = "!gpu.global<[M, K + N], f32>"
AT = "%T[%i, %j : index, index]"

ACCESSES = {
    "guard_load": f"%y = gpu.load_global {AT} : {KIND} -> f32",
    "guard_store": f"gpu.store_global %x, {AT} : f32, {KIND}",
    "guard_cp_async": f"gpu.cp_async %a, {AT} bytes 4 : {KIND}",
    "guard_atomic": f'gpu.atomic_global "add" %x, {AT} : f32, {KIND}',
}


def program(access: str) -> str:
    return kernel(
        f"    %a = arith.constant 0 : i32\n    {access}",
        f"%T: {KIND} = tensor 0, {SYMBOLS}, %i: index = symbol M, %j: index = symbol M, "
        "%x: f32 = symbol M, %p: i1 = symbol M",
    )


@pytest.mark.parametrize("access", ACCESSES.values(), ids=ACCESSES)
@given(m=st.integers(0, 5), k=st.integers(0, 3), n=st.integers(0, 3))
def test_the_predicate_is_the_tensors_bounds(access: str, m: int, k: int, n: int) -> None:
    module = run(program(access), PASS)
    i, j = (x.ravel() for x in np.meshgrid(np.arange(8), np.arange(8), indexing="ij"))
    machine = Machine(
        threads=i.size, handlers={hw.LoadGlobalOp: lambda event: [np.zeros(i.size, np.float32)]}
    )
    args = only(module, KernelOp).body.block.args
    for arg, value in zip(args[1:6], (m, k, n, i, j), strict=True):
        machine.set(arg, value)
    machine.run(body_of(module))
    (event,) = machine.events
    assert isinstance(
        event.op, hw.LoadGlobalOp | hw.StoreGlobalOp | hw.CpAsyncOp | hw.AtomicGlobalOp
    )
    assert event.op.predicate is not None
    assert (event[event.op.predicate] == ((i < m) & (j < k + n))).all()


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
