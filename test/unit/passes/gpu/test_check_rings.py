"""``gpu-check-rings``: what would hang is refused at its line, and what goes round is kept."""

from __future__ import annotations

import pytest

from polyc.test.support.gpu_text import kernel, refusal, unchanged

PASS = "gpu-check-rings"
ARGS = "%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %K: index = symbol K"
ACQUIRE = "gpu.ring_acquire %ring[%i] : !gpu.ring<2>"
COPY = (
    'gpu.copy %A[%zero, %i] to %a slot %zero loader "tma" signal %ring : !gpu.ring<2> at %i : '
    "!gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 2>"
)
WAIT = "gpu.ring_wait %ring[%i] : !gpu.ring<2>"
RELEASE = "gpu.ring_release %ring[%i] : !gpu.ring<2>"


def roles(
    producer: list[str], consumer: list[str], *, single: bool = True, loop: bool = True
) -> str:
    """The two roles, each a loop over %i (or the ops once, with %i = 0)."""

    def body(ops: list[str]) -> str:
        head = "scf.for %i = %zero to %K step %one {" if loop else "scf.if %always {"
        first = "" if loop else "      %i = arith.constant 0 : index\n"
        inner = "".join(f"        {op}\n" for op in ops)
        return f"      {head}\n{first}{inner}      }}\n      gpu.yield\n"

    return kernel(
        "    %zero = arith.constant 0 : index\n    %one = arith.constant 1 : index\n"
        "    %always = arith.constant true\n"
        "    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>\n"
        "    %ring = gpu.ring consumers 1 : !gpu.ring<2>\n"
        f"    gpu.roles consumers 1 registers [0, 0] {'single_thread ' * single}producer {{\n"
        f"{body(producer)}    }} consumer {{\n{body(consumer)}    }}\n",
        ARGS,
        threads=256,
    )


def test_check_rings_keeps_what_goes_round() -> None:
    unchanged(roles([ACQUIRE, COPY], [WAIT, RELEASE]), PASS)


def test_check_rings_keeps_guarded_copies() -> None:
    unchanged(roles([ACQUIRE, f"scf.if %always {{ {COPY} }}"], [WAIT, RELEASE]), PASS)


def test_check_rings_needs_no_release_of_a_slot_used_once() -> None:
    unchanged(roles([ACQUIRE, COPY], [WAIT], loop=False), PASS)


@pytest.mark.parametrize(
    ("producer", "consumer", "kind", "message", "marker"),
    [
        ([], [WAIT, RELEASE], "RingNeverFilled", "nothing fills one", "ring_wait"),
        ([ACQUIRE], [WAIT, RELEASE], "RingNeverFilled", "nothing fills one", "ring_wait"),
        ([COPY], [WAIT, RELEASE], "RingNeverFilled", "nothing acquires one", "ring_wait"),
        ([COPY], [RELEASE], "RingNeverFilled", "of which no slot is acquired", "gpu.copy"),
        (
            [f"scf.if %always {{ {ACQUIRE} {COPY} }}", COPY],
            [WAIT, RELEASE],
            "RingNeverFilled",
            "at an iteration that is not acquired in its block",
            "gpu.copy",
        ),
        ([ACQUIRE, COPY], [RELEASE], "RingNeverRead", "nobody waits for one", "ring_acquire"),
        ([ACQUIRE, COPY], [WAIT], "RingNeverReleased", "and never released", "ring_acquire"),
        ([ACQUIRE, COPY, WAIT], [RELEASE], "SelfWait", "that it fills itself", "ring_wait"),
    ],
)
def test_check_rings_refuses(
    producer: list[str], consumer: list[str], kind: str, message: str, marker: str
) -> None:
    text = roles(producer, consumer)
    error = refusal(text, PASS)
    assert error.kind == kind and message in error.message
    assert error.place is not None
    assert marker in text.splitlines()[error.place.line - 1]


def test_check_rings_refuses_many_producers() -> None:
    error = refusal(roles([ACQUIRE, COPY], [WAIT, RELEASE], single=False), PASS)
    assert error.kind == "ManyProducers" and "128 threads would announce" in error.message
