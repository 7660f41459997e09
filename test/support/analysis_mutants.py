"""Faults put into the analyses one at a time, to measure what their tests catch.

A mutant is one line of an analysis changed: a guard deleted, a map shifted, a fill replaced, a
legality made too generous.  It is caught when a test of that analysis fails.  Mutants run in a
copy of the package, each in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from polyc.test.support.root import ROOT

TESTS: dict[str, Sequence[str]] = {
    "dialects/index/__init__.py": ("poly/test_readings.py", "poly/test_compute_at.py"),
    "poly/ways.py": ("poly/test_compute_at.py",),
    "poly/compute_at.py": ("poly/test_compute_at.py",),
    "poly/footprint.py": ("poly/test_footprint.py",),
    "poly/halo.py": ("poly/test_footprint.py",),
    "poly/tails.py": ("poly/test_footprint.py",),
    "affine/isl.py": ("poly/test_footprint.py",),
    "poly/dependences.py": ("poly/test_dependences.py",),
    "poly/guards.py": ("poly/test_guards.py",),
    "passes/region/drop_guards.py": ("poly/test_guards.py",),
    "poly/readings.py": ("poly/test_readings.py", "poly/test_guards.py"),
    "poly/contraction.py": ("poly/test_contraction.py", "poly/test_view.py"),
    "poly/banks.py": ("poly/test_hints.py",),
    "poly/barriers.py": ("poly/test_hints.py",),
    "poly/closure.py": ("poly/test_hints.py",),
    "poly/why_not.py": ("tools/commands/test_analyze.py",),
}
"""The tests of each file, below ``test/unit``."""


@dataclass(frozen=True)
class Mutant:
    """One place of a file changed; ``what`` names the fault."""

    file: str
    old: str
    new: str
    what: str


def _of(file: str, *changes: tuple[str, str, str]) -> list[Mutant]:
    return [Mutant(file, old, new, what) for what, old, new in changes]


MUTANTS: Sequence[Mutant] = (
    *_of(
        "dialects/index/__init__.py",
        ("guard deleted", ", *(moved_row(r, into) for r in inside))", ")"),
        (
            "map shifted by one",
            "replace_dims_and_symbols(into, ())) for",
            "replace_dims_and_symbols(into, ()) + 1) for",
        ),
        (
            "condition shifted by one",
            "moved = isl.canonical_expr(difference.replace_dims_and_symbols(into, ()))",
            "moved = isl.canonical_expr(difference.replace_dims_and_symbols(into, ()) + 1)",
        ),
    ),
    *_of(
        "poly/ways.py",
        (
            "one way only",
            "there.setdefault((further.map, further.domain), further)",
            "there or there.setdefault((further.map, further.domain), further)",
        ),
        (
            "a boundary is passed",
            "if (reason := entry.why_not_affine) is not None:",
            "if (reason := None) is not None:",
        ),
        (
            "assumptions forgotten",
            "AssumptionsAttr(() if graph is None else graph.facts)",
            "AssumptionsAttr(())",
        ),
    ),
    *_of(
        "poly/compute_at.py",
        (
            "points one further apart",
            "rows = [second - first - apart]",
            "rows = [second - first - apart - 1]",
        ),
        (
            "tiles one further apart",
            "second // tile - first // tile - 1",
            "second // tile - first // tile - 2",
        ),
        (
            "ways only with themselves",
            "for a, b in product(found, repeat=2):",
            "for a, b in zip(found, found, strict=True):",
        ),
        (
            "a coordinate forgotten",
            "zip(a.map.results, b.map.results, strict=True)",
            "zip(a.map.results[1:], b.map.results[1:], strict=True)",
        ),
        (
            "assumptions forgotten",
            "rows = [*facts.constraints, *a.domain.constraints]",
            "rows = [*a.domain.constraints]",
        ),
        (
            "a halo of two tiles is legal",
            "_clash(found, facts, axis, tile, tile, own)",
            "_clash(found, facts, axis, tile, 2 * tile, own)",
        ),
        (
            "the second point is anywhere",
            "rows += [moved_row(r, shifted) for r in b.domain.constraints]",
            "rows += []",
        ),
        ("a halo counts as exact", "halo = ComputeAt(True, False,", "halo = ComputeAt(True, True,"),
        (
            "a way along the axis is enough",
            "any(all(way.map.results[i] == walk for way in found) for i in rank)",
            "any(any(way.map.results[i] == walk for way in found) for i in rank)",
        ),
        ("the first axis only", "    return halo\n", "        break\n    return halo\n"),
    ),
    *_of(
        "poly/footprint.py",
        ("an extent one short", "Dim.const(most + 1)", "Dim.const(most)"),
        (
            "points of any tile",
            "rows.append(constraint_of(linear_of(same), True))",
            "linear_of(same)",
        ),
        ("what no tile reaches counts", "size + min(0, less or 0)", "size"),
        (
            "the shorter of two extents",
            "return a if difference >= 0 else b",
            "return a if difference <= 0 else b",
        ),
        ("two tiles before three", "for depth in (3, 2):", "for depth in (2, 3):"),
        ("a ring of one tile", "depth * bound <= arch.shared_bytes", "bound <= arch.shared_bytes"),
        ("registers across points", "set(own) <= set(legal_axes", "set(own) & set(legal_axes"),
    ),
    *_of(
        "poly/halo.py",
        ("one element short", "high -= own - 1", "high -= own"),
        ("all of it before", "low = min(max(0, low), shared)", "low = shared"),
        ("the step forgotten", "own = abs(step) * tiles[axis]", "own = tiles[axis]"),
        ("the narrowest way", "return max(values, default=0)", "return min(values, default=0)"),
        ("a gap is a halo", "shared = max(0, low + high)", "shared = abs(low + high)"),
        ("axes that differ", "if len(walks) > 1:", "if len(walks) > 2:"),
        ("bytes of elements", "(wide - alone) * whole.element_bytes", "wide - alone"),
    ),
    *_of(
        "poly/tails.py",
        ("a rest of one is whole", "linear_of(expr - 1)", "linear_of(expr - 2)"),
        ("a number has no tail", "if rest.constant() == 0:", "if rest.constant() is not None:"),
        ("assumptions forgotten", "(*facts.constraints, some)", "(some,)"),
    ),
    *_of(
        "affine/isl.py",
        (
            "the greatest value and one",
            "None if found.is_infty() else _integer(found)",
            "None if found.is_infty() else _integer(found) + 1",
        ),
    ),
    *_of(
        "poly/dependences.py",
        ("later axes alone", "        before.append(constraint_of(linear_of(step), True))\n", ""),
        (
            "an instance on itself",
            "later = _narrowed(points, [*before, constraint_of(linear_of(step - 1), False)])",
            "later = _narrowed(points, [*before, constraint_of(linear_of(step), False)])",
        ),
        (
            "anti between writes",
            '("anti", source.reads, sink.writes)',
            '("anti", source.writes, sink.writes)',
        ),
        ("none on itself", "for i in sorted(touched):", "for i in sorted(touched - {j}):"),
        ("one direction", "for s in (1, -1)]", "for s in (1,)]"),
        (
            "any reduction frees an axis",
            "if along and all(d.reduction for d in along):",
            "if along and any(d.reduction for d in along):",
        ),
        (
            "another tensor",
            "if a.tensor != tensor or b.tensor != tensor:",
            "if a.tensor != tensor:",
        ),
        (
            "accesses everywhere",
            "rows = [*facts.constraints, *a.domain.constraints]",
            "rows = [*facts.constraints]",
        ),
    ),
    *_of(
        "poly/guards.py",
        ("a row proves itself", "[*kept, *rows[i + 1 :]]", "[*kept, *rows[i:]]"),
        (
            "a dropped row proves another",
            "        if failing is not None:\n            kept.append(row)",
            "        kept.append(row)",
        ),
        (
            "the edge is outside",
            "isl.canonical_expr(value * sign - 1)",
            "isl.canonical_expr(value * sign)",
        ),
        (
            "half of an equality",
            "AffineConstraintKind.eq: (-1, 1),",
            "AffineConstraintKind.eq: (-1,),",
        ),
        ("assumptions forgotten", ", *facts_of(block.value).constraints)", ")"),
    ),
    *_of(
        "passes/region/drop_guards.py",
        (
            "the value not chosen",
            "rewriter.replace(select, [], [select.operands[1]])",
            "rewriter.replace(select, [], [select.operands[2]])",
        ),
        ("the fill replaced", "op.fill.value.data if rows", "0.0 if rows"),
        (
            "the whole guard goes",
            "tuple(rows)) if rows else None",
            "tuple(rows[:0])) if rows else None",
        ),
    ),
    *_of(
        "poly/readings.py",
        ("empty parts stay", "return not isl.is_empty(with_facts(domain, facts))", "return True"),
        (
            "the fill replaced by the neutral value",
            "Filled(d, n) for d, n",
            "Filled(d, 0.0) for d, n",
        ),
        (
            "assumptions forgotten",
            "rows = (*domain.constraints, *facts.constraints)",
            "rows = domain.constraints",
        ),
    ),
    *_of(
        "poly/contraction.py",
        ("stride for dilation", "terms[axis], tap, dilation,", "dilation, tap, terms[axis],"),
        (
            "a split may overlap by one",
            "inside in terms[i + 1 :]], step - 1)",
            "inside in terms[i + 1 :]], step)",
        ),
        ("a diagonal is read", "if axis in seen:", "if False:"),
        ("backwards is forwards", "if step < 0:", "if False:"),
        (
            "the offset forgotten",
            "Coordinate(tuple(terms), expr_of(offset))",
            "Coordinate(tuple(terms), AffineConstantExpr(0))",
        ),
        ("any reduced axis", "if not (in_lhs and in_rhs):", "if not (in_lhs or in_rhs):"),
    ),
    *_of(
        "poly/banks.py",
        ("all lanes at once", "together = 32 if width <= 4 else LINE // width", "together = 32"),
        ("more banks", "word % BANKS", "word % (2 * BANKS)"),
        (
            "another line",
            "address // LINE % (span // CHUNK)",
            "address // (LINE // 2) % (span // CHUNK)",
        ),
    ),
    *_of(
        "poly/barriers.py",
        (
            "one group too many flies",
            "CommitWait(stages, stages - 1, stages - 2)",
            "CommitWait(stages, stages - 1, stages - 1)",
        ),
        (
            "one iteration too far ahead",
            "CommitWait(stages, stages - 1, stages - 2)",
            "CommitWait(stages, stages, stages - 1)",
        ),
    ),
    *_of(
        "poly/closure.py",
        ("the value alone", "for v in upstream(value):", "for v in (value,):"),
    ),
    *_of(
        "poly/why_not.py",
        ("half the alignment", "TMA_ALIGN = 16", "TMA_ALIGN = 8"),
        ("outer strides alone", "range(len(dims) - 2, -1, -1)", "range(len(dims) - 3, -1, -1)"),
        ("any fill", "if f.number != 0.0", "if f.number != f.number"),
        ("any type", "if not isinstance(kind, Float16Type | BFloat16Type):", "if False:"),
    ),
)


def copied(to: Path) -> Path:
    """A copy of the package to put faults into."""
    skipped = shutil.ignore_patterns(".git", ".venv", "build", "results", "figures", "__pycache__")
    root = Path(shutil.copytree(ROOT, to / "polyc", ignore=skipped, symlinks=True))
    link = root / ".typecheck" / "polyc"
    link.parent.mkdir(exist_ok=True)
    if not link.is_symlink():
        link.symlink_to("..")
    return root


def caught(mutant: Mutant, root: Path) -> str | None:
    """The test that fails with the fault in the copy ``root``; None where all pass."""
    file = root / mutant.file
    right = file.read_text("utf-8")
    file.write_text(right.replace(mutant.old, mutant.new), "utf-8")
    try:
        tests = [f"test/unit/{name}" for name in TESTS[mutant.file]]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=root,
            env={**os.environ, "POLYC_HYPOTHESIS": "verdict"},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    finally:
        file.write_text(right, "utf-8")
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split("::")[-1] if failed else "an error"
