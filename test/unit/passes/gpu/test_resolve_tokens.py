"""gpu-resolve-tokens: what is awaited by name, and the texts that it refuses."""

from __future__ import annotations

import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.waiting import TokenType
from polyc.test.support.gpu_text import find, kernel, refusal, run, unchanged

TILES = """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %yes = arith.constant true
    %zero = arith.constant 0.0 : f32
    %half = arith.constant 0.0 : f16
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %p = gpu.fragment : !gpu.fragment<[64, 64], f16>
    %s = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %o = gpu.fragment : !gpu.fragment<[64, 64], f32>
"""
FILL = "gpu.fill %zero, {} : !gpu.fragment<[64, 64], f32>"


def contract(acc: str, token: str = "", lhs: str = "%a") -> str:
    """A contract into ``acc``, which gives ``token`` where that is a name."""
    kind = "!gpu.fragment<[64, 64], f16>" if lhs == "%p" else "!gpu.shared<[64, 64], f16>"
    return (
        f"{token + ' = ' if token else ''}gpu.contract {lhs} affine_map<(m, n, k) -> (m, k)>, "
        f'%a affine_map<(m, n, k) -> (k, n)> into {acc} mma "wgmma" warp_tile <64, 64> : '
        f"{kind}, !gpu.shared<[64, 64], f16>, !gpu.fragment<[64, 64], f32>"
        f"{' -> !gpu.token' if token else ''}"
    )


def text(*lines: str) -> str:
    return kernel(TILES + "\n".join(lines))


def depths(*lines: str) -> list[int]:
    module = run(text(*lines), "gpu-resolve-tokens")
    assert not any(isinstance(r.type, TokenType) for op in module.walk() for r in op.results)
    return [op.depth for op in find(module, tile.AwaitOp)]


def test_younger_contracts_may_stay_under_way() -> None:
    first, second, third = contract("%s", "%t"), contract("%o", "%u"), contract("%s")
    assert depths(first, second, third, "gpu.await %t", "gpu.await %u") == [2, 1]
    assert depths(first, second, "gpu.await %t, %u") == [0]


def test_a_younger_await_completes_the_older_ones() -> None:
    lines = contract("%s", "%t"), contract("%o", "%u"), "gpu.await %u", FILL.format("%s")
    assert depths(*lines, "gpu.await %t") == [0, 0]


def test_only_what_no_younger_contract_adds_to_is_ready() -> None:
    lines = contract("%s", "%t"), contract("%s", "%u"), "gpu.await %t", "gpu.await %u"
    module = run(text(*lines), "gpu-resolve-tokens")
    assert [len(op.ready) for op in find(module, tile.AwaitOp)] == [0, 1]


def test_a_count_that_the_author_gave_is_kept() -> None:
    lines = contract("%s"), contract("%o", "%t"), "gpu.await pending 1", FILL.format("%s")
    assert depths(*lines, "gpu.await %t") == [1, 0]


def test_a_kernel_without_tokens_is_left_alone() -> None:
    unchanged(text(contract("%s"), "gpu.await pending 0"), "gpu-resolve-tokens")


def test_mma_sync_is_complete_when_it_is_issued() -> None:
    plain = contract("%s", "%t").replace('"wgmma"', '"mma.sync"')
    assert depths(plain, FILL.format("%s"), "gpu.await %t") == []


def test_roles_are_resolved_apart() -> None:
    lines = (
        "gpu.roles consumers 1 registers [0, 0] producer {",
        "gpu.yield",
        "} consumer {",
        contract("%s", "%t"),
        "gpu.await %t",
        "gpu.yield",
        "}",
    )
    assert depths(*lines) == [0]


def test_a_loop_keeps_what_it_carries_besides_tokens() -> None:
    lines = (
        contract("%s", "%t"),
        "%n, %last = scf.for %i = %c0 to %c4 step %c1 iter_args(%j = %c0, %b = %t) "
        "-> (index, !gpu.token) {",
        "%k = arith.addi %j, %c1 : index",
        contract("%s", "%new"),
        "gpu.await %b",
        "scf.yield %k, %new : index, !gpu.token",
        "}",
        "%more = arith.addi %n, %c1 : index",
        "gpu.await %last",
    )
    assert depths(*lines) == [1, 0]


def test_copies_are_counted_apart() -> None:
    copy = (
        '{} = gpu.copy %A[%c0, %c0] to %a loader "cp_async" : !gpu.global<[M, 64], f16, align 16>, '
        "!gpu.shared<[64, 64], f16> -> !gpu.token"
    )
    lines = copy.format("%c"), contract("%s", "%t"), "gpu.await %c", "gpu.await %t"
    body = TILES + "\n".join(lines)
    args = "%A: !gpu.global<[M, 64], f16, align 16> = tensor 0"
    module = run(kernel(body, args), "gpu-resolve-tokens")
    assert [op.pending.value.data for op in find(module, hw.CpAsyncWaitOp)] == [0]
    assert [op.depth for op in find(module, tile.AwaitOp)] == [0]
    assert len(find(module, hw.CpAsyncCommitOp)) == 1


LOOP = "scf.for %i = %c0 to %c4 step %c1 {"


@pytest.mark.parametrize(
    ("kind", "message", "at", "lines"),
    [
        (
            "TokenAwaitedTwice",
            "%t was awaited, or handed on, before",
            2,
            (contract("%s", "%t"), "gpu.await %t", "gpu.await %t"),
        ),
        (
            "TokenNeverAwaited",
            "nothing awaits %t",
            0,
            (contract("%s", "%t"), contract("%o", "%u"), "gpu.await %u", "gpu.await pending 0"),
        ),
        (
            "TokenFlow",
            "the branches leave different ops under way",
            2,
            (LOOP, contract("%s", "%t"), "scf.if %yes {", "gpu.await %t", "}", "}"),
        ),
        (
            "AccumulatorInFlight",
            "%s is used while a contract on it is under way",
            1,
            (contract("%s", "%t"), FILL.format("%s"), "gpu.await %t"),
        ),
        (
            "AccumulatorInFlight",
            "%p is written while a contract on it is under way",
            1,
            (
                contract("%o", "%t", "%p"),
                "gpu.fill %half, %p : !gpu.fragment<[64, 64], f16>",
                "gpu.await %t",
            ),
        ),
        (
            "TokenFlow",
            "an iteration begins with 1 ops under way and ends with 0",
            1,
            (contract("%s", "%t"), LOOP, "gpu.await pending 0", "}", "gpu.await %t"),
        ),
        (
            "TokenAwaitedTwice",
            "the loop carries %new on, which was awaited before",
            1,
            (
                contract("%s", "%t"),
                "%l = scf.for %i = %c0 to %c4 step %c1 iter_args(%b = %t) -> (!gpu.token) {",
                contract("%s", "%new"),
                "gpu.await %b",
                "gpu.await %new",
                "scf.yield %new : !gpu.token",
                "}",
                "gpu.await %l",
            ),
        ),
    ],
)
def test_refused(kind: str, message: str, at: int, lines: tuple[str, ...]) -> None:
    """The error names the line that is number ``at`` of these."""
    error = refusal(text(*lines), "gpu-resolve-tokens")
    assert error.kind == kind and message in error.message
    assert error.place is not None
    assert text(*lines).splitlines()[error.place.line - 1] == lines[at]
