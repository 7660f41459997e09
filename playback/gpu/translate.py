"""A kernel's IR as the text of one Python function, which every warp runs as a coroutine.

The hardware ops of each group in ``dialects/gpu/hardware/`` have a file of the group's name, with
their translators and the part of the warp that runs them; the upstream ops are in ``upstream``.
Pure ops become expressions on numbers and arrays of 32 lanes; ops with an effect call a part of
the ``Warp``; a divergent ``scf.if`` runs its blocks one after another under masks.  Translating
once keeps the dispatch on ops out of the inner loops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any

from polyc.dialects.gpu.kernel import KernelOp, ReturnOp
from polyc.playback.gpu import (
    cluster,
    exchange,
    floats,
    grid,
    im2col,
    integers,
    memory,
    random,
    sync,
    tensor_cores,
    threads,
    upstream,
)
from polyc.playback.gpu.kernel import KernelInfo
from polyc.playback.gpu.translator import Translator, simulates

Body = Callable[..., Any]
"""A translated kernel: called with a warp and the kernel's arguments, it is a generator."""

GROUPS = (
    threads,
    memory,
    im2col,
    integers,
    sync,
    cluster,
    exchange,
    floats,
    grid,
    random,
    tensor_cores,
    upstream,
)
"""Imported for what they enter into the table of translators."""


@simulates(ReturnOp)
def _return(t: Translator, op: ReturnOp) -> None:
    """The end of the function."""


@lru_cache(maxsize=256)
def _compiled(text: str, name: str) -> CodeType:
    """The text as code; a kernel is run again and again, and compiling it takes long."""
    return compile(text, name, "exec")


def translate(kernel: KernelOp) -> tuple[Body, KernelInfo]:
    """The kernel as a Python function, and what the machine must know of it.

    Raises PolycError of kind ``NotSimulated`` for an op that the simulator does not have.
    """
    t = Translator(kernel)
    parameters = "".join(f", {t.name(a)}" for a in kernel.body.block.args)
    t.block(kernel.body.block)
    # A body without a yield is a generator too.
    text = "\n".join([f"def body(w{parameters}):", *t.lines, "    return", "    yield"])
    exec(_compiled(text, f"<{kernel.sym_name.data}>"), t.objects)
    info = KernelInfo(
        kernel.sym_name.data,
        kernel.threads.value.data,
        kernel.blocks_per_sm.value.data,
        0 if kernel.shared_bytes is None else kernel.shared_bytes.value.data,
        t.granule,
        t.copies,
        t.bulk,
        t.wgmma,
        frozenset(i for i, a in enumerate(kernel.body.block.args) if a in t.stored),
        t.ops,
        t.tiles,
        t.barriers,
        kernel.cluster_size,
    )
    return t.objects["body"], info
