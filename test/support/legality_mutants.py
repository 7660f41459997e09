"""Mutants of the legality tables: each is too generous in one place, by one of the mistakes
that make a rewrite wrong in silence.  ``killed`` says whether random values show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import AnyFloat, ModuleOp, f16, f32

from polyc.dialects.region import BinaryOp, BroadcastInDimOp, ReduceOp
from polyc.dialects.region.types import val_type
from polyc.passes.region.distribute import SPLIT, SplitReduction
from polyc.passes.region.srnf import JoinReductions
from polyc.passes.support.region.legality import (
    JOIN,
    JOIN_NEEDS,
    KNOWN_WRONG,
    NONNEGATIVE,
    NONNEGATIVE_OTHER,
    ONE_USE,
    TABLE,
    JoinNeed,
    Row,
)
from polyc.rewriting.changes import CLASSES, ChangeClass
from polyc.rewriting.driver import rewrite
from polyc.test.support.legality_programs import (
    ANY,
    FINITE,
    Body,
    Case,
    cases,
    check,
    named,
    run_body,
)
from polyc.test.support.region_expressions import Array, agree, of_type, shaken


def tries(kind: str) -> settings:
    """A mistake shows in one draw of ten to a hundred, whatever the seed, and ends the search."""
    return settings(
        max_examples=200 if kind == "control" else 2000,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )


@dataclass(frozen=True)
class Mutant:
    """A table with one mistake: what kind, where, and the property that should fail."""

    kind: str
    name: str
    property: Callable[[], None]


def killed(mutant: Mutant) -> bool:
    """Whether the mutant's property fails, or its programs do not verify."""
    try:
        with shaken():
            mutant.property()
    except Exception:
        return True
    return False


# Rows ----------------------------------------------------------------------------------

FLIPPED = {"max": "min", "min": "max", "sum": "max"}
INSTEAD = {"add": "mul", "sub": "mul", "mul": "pow", "div": "pow", "max": "mul", "min": "mul"}


def _unlike(row: Row) -> Row:
    """The row for a function that does not go through its reduction, whatever its needs hold."""
    if row.reduce == "sum":
        return replace(row, function="exp" if row.varying == "only" else "max")
    if row.varying == "only":
        return replace(row, function="neg" if NONNEGATIVE in row.needs else "abs")
    if NONNEGATIVE_OTHER in row.needs:
        return replace(row, function="div", varying="rhs")
    return replace(row, function=INSTEAD[row.function])


def _row(kind: str, name: str, row: Row) -> Mutant:
    @tries(kind)
    @given(cases(row))
    def holds(case: Case) -> None:
        check(row, case)

    return Mutant(kind, name, holds)


def _rows() -> Iterator[Mutant]:
    for number, row in enumerate(TABLE):
        name = f"row {number}, {named(row)}"
        for need in row.needs:
            left = replace(row, needs=tuple(n for n in row.needs if n is not need))
            yield _row("precondition dropped", f"{name}: without {need.text}", left)
        for stronger in CLASSES[: CLASSES.index(row.change)]:
            yield _row("class weakened", f"{name}: as {stronger}", replace(row, change=stronger))
        wrong = FLIPPED[row.becomes]
        yield _row("wrong reduction", f"{name}: to {wrong}", replace(row, becomes=wrong))
        if row.function != "cast":
            other = _unlike(row)
            text = f"for {other.function}" + (" (c, x)" if other.varying == "rhs" else "")
            yield _row("wrong function", f"{name}: {text}", other)
    for function, reduce in KNOWN_WRONG:
        if function == "cast":
            continue  # a program of it needs an accumulator of its own, as R0's do
        varying = "lhs" if function in ("add", "sub", "max", "min") else "only"
        row = Row(function, varying, reduce, reduce, "finite-only")
        yield _row("row of a pair that has none", f"{reduce}({function}(x))", row)


# Joined reductions ---------------------------------------------------------------------


@st.composite
def _matrices(draw: st.DrawFn, finite: bool = False) -> Array:
    values = FINITE if finite else ANY
    m, k = draw(st.integers(0, 3)), draw(st.integers(0, 5))
    drawn = draw(st.lists(values, min_size=m * k, max_size=m * k))
    if not finite and draw(st.booleans()):
        drawn = [2048.0] + [1.0] * (m * k - 1) if m * k else []
    return np.array(drawn, np.float32).reshape(m, k)


def nested(outer: str, inner: str, types: tuple[AnyFloat, AnyFloat], shared: bool) -> ModuleOp:
    """``outer`` over m of ``inner`` over k, with accumulators of ``types`` in that order."""
    body = Body(types[1])
    value = body.add(ReduceOp(inner, body.x, ["k"], acc=types[1]))
    out = body.add(ReduceOp(outer, value, ["m"], acc=types[0]))
    if shared:
        axes = val_type(value).axes
        out = body.add(BinaryOp("add", value, body.add(BroadcastInDimOp(out, [], axes))))
    return body.finish(out)


def _join(
    kind: str,
    what: str,
    module: ModuleOp,
    join: Mapping[str, ChangeClass] = JOIN,
    needs: tuple[JoinNeed, ...] = JOIN_NEEDS,
) -> Mutant:
    @tries(kind)
    @given(_matrices())
    def holds(x: Array) -> None:
        element = val_type(of_type(module, ReduceOp)[0].operands[0]).element_type
        x = x.astype(np.float16 if element == f16 else np.float32)
        s = np.zeros(x.shape[0], x.dtype)
        done = module.clone()
        rewrite(done, [JoinReductions(CLASSES, None, join, needs)], recursive=True)
        done.verify()
        agree(join["sum"], [run_body(module, x, s)], [run_body(done, x, s)])
        assert len(of_type(done, ReduceOp)) < 2 or not of_type(done, BinaryOp) or _once(done)

    return Mutant(kind, what, holds)


def _once(module: ModuleOp) -> bool:
    """Whether no value is reduced twice."""
    taken = [op.operands[0] for op in of_type(module, ReduceOp)]
    return len(set(taken)) == len(taken)


def _joins() -> Iterator[Mutant]:
    sums = nested("sum", "sum", (f32, f32), False)
    yield _join("class weakened", "R0, sum: as exact", sums, {**JOIN, "sum": "exact"})
    programs = {
        "ONE_FUNCTION": [("max", "sum"), ("sum", "max"), ("max", "min"), ("min", "max")],
        "ONE_ACCUMULATOR": [("sum", "sum")],
        "WIDE_SUM": [("sum", "sum")],
        "ONE_USE": [("sum", "sum")],
    }
    types: Mapping[str, tuple[AnyFloat, AnyFloat]] = {
        "ONE_ACCUMULATOR": (f32, f16),
        "WIDE_SUM": (f16, f16),
    }
    for need, name in zip(JOIN_NEEDS, programs, strict=True):
        left = tuple(n for n in JOIN_NEEDS if n is not need)
        if name == "ONE_ACCUMULATOR":
            left = tuple(n for n in left if n.text != JOIN_NEEDS[2].text)
        for outer, inner in programs[name]:
            module = nested(outer, inner, types.get(name, (f32, f32)), need is ONE_USE)
            what = f"R0, {outer} of {inner}: without {need.text}"
            yield _join("precondition dropped", what, module, JOIN, left)


# Split reductions ----------------------------------------------------------------------


def _split(
    kind: str, what: str, key: tuple[str, str], change: ChangeClass, repeated: bool = True
) -> Mutant:
    function, reduce = key
    body = Body()
    other = body.repeat(body.s) if repeated else body.add(BinaryOp("mul", body.x, body.x))
    value = body.add(BinaryOp(function, body.x, other))
    if not repeated:
        # Both reductions are there anyway, so that the cost is no reason to refuse.
        for operand in (body.x, other):
            body.add(ReduceOp(reduce, operand, ["k"], acc=f32))
    module = body.finish(body.add(ReduceOp(reduce, value, ["k"], acc=f32)))

    @tries(kind)
    @given(_matrices(change == "finite-only"), st.lists(ANY, min_size=3, max_size=3))
    def holds(x: Array, s: list[float]) -> None:
        given_s = np.array(s[: x.shape[0]], np.float32)
        if change == "finite-only":
            given_s = np.nan_to_num(given_s, nan=1.0, posinf=2.0, neginf=-2.0)
        done = module.clone()
        rule = SplitReduction(CLASSES, 64, None, {key: change})
        assert rewrite(done, [rule], recursive=True), "it fires"
        done.verify()
        agree(change, [run_body(module, x, given_s)], [run_body(done, x, given_s)])

    return Mutant(kind, what, holds)


def _splits() -> Iterator[Mutant]:
    for key, change in SPLIT.items():
        for stronger in CLASSES[: CLASSES.index(change)]:
            what = f"R2, {key[1]}({key[0]}(x, y)): as {stronger}"
            yield _split("class weakened", what, key, stronger)
    for key in (("mul", "sum"), ("max", "sum"), ("add", "max"), ("min", "max"), ("max", "min")):
        what = f"R2, {key[1]}({key[0]}(x, y))"
        repeated = key[1] == "sum"
        yield _split("row of a pair that has none", what, key, "finite-only", repeated)


def controls() -> list[Mutant]:
    """The properties of joined and split reductions with the tables as they are; none fails.

    Those of the rows are in ``test_srnf``.
    """
    f32s, shared = (f32, f32), ("sum", "sum")
    found = [_join("control", f"R0, {f}", nested(f, f, f32s, False)) for f in ("sum", "max")]
    found.append(_join("control", "R0, shared", nested(*shared, f32s, True)))
    found.append(_join("control", "R0, narrow", nested(*shared, (f16, f16), False)))
    for key, change in SPLIT.items():
        name = f"R2, {key[1]}({key[0]}(x, y))"
        found.append(_split("control", name, key, change, change != "exact"))
    return found


def mutants() -> list[Mutant]:
    """Every mutant of the tables of R0, R1 and R2, in the order of the tables."""
    return [*_rows(), *_joins(), *_splits()]
