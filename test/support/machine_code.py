"""What of a kernel's machine code is wrong whatever it computes, by the text of nvdisasm.

A wgmma leaves its sums in registers that it writes while the warpgroup goes on; nothing reads them
before the wait for it.  ptxas orders that, and NVRTC 13.0 did not where the rows were of 16 bits in
registers, and the step before was waited for alone: it moved the wait for all behind the stores of
the sums (``passes/support/gpu/role_parts.py``).
"""

from __future__ import annotations

import re

_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?(.*?)\s*;")
_PRODUCT = re.compile(r"HGMMA\.64x(\d+)x\S*\s+R(\d+)")
_REGISTER = re.compile(r"\bR(\d+)(\.64)?")
WAIT_FOR_ALL = "WARPGROUP.DEPBAR.LE gsb0, 0x0"


def early_reads(code: str) -> dict[str, list[str]]:
    """By kernel, the instructions that take registers which a wgmma may still write.

    ``code`` is what nvdisasm prints of an sm_90a cubin.  Each kernel is gone along as it is
    written: a wait for all ends what was begun before it.  Another wgmma takes its own sums, which
    the machine keeps in order.
    """
    found: dict[str, list[str]] = {}
    kernel = ""
    pending: set[int] = set()
    for line in code.splitlines():
        if line.startswith(".text."):
            kernel = line.removeprefix(".text.").rstrip(":")
            pending = set()
        elif (matched := _INSTRUCTION.match(line)) is not None:
            text = matched[1]
            if (product := _PRODUCT.match(text)) is not None:
                columns, first = int(product[1]), int(product[2])
                pending |= set(range(first, first + columns // 2))
            elif text.startswith(WAIT_FOR_ALL):
                pending = set()
            elif pending and not pending.isdisjoint(_taken(text)):
                found.setdefault(kernel, []).append(text)
    return found


def _taken(text: str) -> set[int]:
    """The registers of an instruction."""
    numbers = {(int(number), bool(pair)) for number, pair in _REGISTER.findall(text)}
    return {n for n, _ in numbers} | {n + 1 for n, pair in numbers if pair}
