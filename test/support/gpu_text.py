"""Texts of small gpu programs, and passes run on them as ``polyc-opt`` runs them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TypeVar

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.kernel import KernelOp
from polyc.passes.pipeline import GPU_PASSES, build
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

OpT = TypeVar("OpT", bound=Operation)

ORDER = list(GPU_PASSES)


def kernel(
    body: str,
    args: str = "",
    *,
    arch: str = "sm_90a",
    threads: int = 128,
    registers: str = "",
    symbols: str = "M, K, N",
    assuming: str = "",
    dispatch: str = "",
) -> str:
    """A gpu.module of one kernel @k; the body begins at line 3 of the text."""
    facts = f" assuming ({assuming})" if assuming else ""
    extra = f" registers {registers}" if registers else ""
    return (
        f'gpu.module @m arch "{arch}" symbols [{symbols}]{facts} {{\n'
        f"  gpu.kernel @k({args}) threads {threads}{extra} {{\n"
        f"{body.strip(chr(10))}\n"
        f"    gpu.return\n  }}\n{dispatch}\n}}\n"
    )


def parsed(text: str) -> ModuleOp:
    """The module in ``text``, in a file named t.mlir; not verified."""
    return parse_text(make_context(), text, "t.mlir")


def run(text: str | ModuleOp, *passes: str) -> ModuleOp:
    """Verify, and run passes one by one, each followed by verification."""
    ctx = make_context()
    module = parse_text(ctx, text, "t.mlir") if isinstance(text, str) else text
    verify(module)
    for name in passes:
        build(name, "sm_90a").apply(ctx, module)
        verify(module)
    return module


def up_to(name: str) -> list[str]:
    """The passes of the gpu dialect from the first one to ``name``."""
    return ORDER[: ORDER.index(name) + 1]


def printed(module: Operation) -> str:
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def unchanged(text: str, *passes: str) -> None:
    """Assert that the passes leave ``text`` alone."""
    assert printed(run(text, *passes)) == printed(run(text))


def find(scope: Operation, kind: type[OpT]) -> list[OpT]:
    """Every op of a kind, in the order of the text."""
    return [op for op in scope.walk() if isinstance(op, kind)]


def only(scope: Operation, kind: type[OpT]) -> OpT:
    (found,) = find(scope, kind)
    return found


def body_of(module: ModuleOp) -> Iterable[Operation]:
    """The ops of the one kernel."""
    return only(module, KernelOp).body.block.ops


def refusal(text: str, *passes: str) -> PolycError:
    """The error that the passes end in."""
    with pytest.raises(PolycError) as caught:
        run(text, *passes)
    return caught.value


def assert_refused(text: str, kind: str, message: str, marker: str, *passes: str) -> None:
    """Assert the error's kind and words, and that it stands at the line that has ``marker``."""
    error = refusal(text, *passes)
    assert (error.kind, error.message) == (kind, message)
    lines = [i for i, line in enumerate(text.splitlines(), 1) if marker in line]
    assert error.place is not None and error.place.file == "t.mlir"
    assert [error.place.line] == lines[:1], f"line {error.place.line}, expected one of {lines}"
