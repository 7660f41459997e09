"""Every kernel of examples/tile without a GPU: its text, its simulation, its code, its mutants.

``tile_cases.py`` says at which sizes and against what; a new file there is one more row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

import pytest

from polyc.playback import tile
from polyc.playback.agreement import tolerance_check
from polyc.playback.estimate import Estimate
from polyc.playback.gpu import simulate
from polyc.playback.mutation import Mutant, mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.rewriting.driver import verify
from polyc.test.support.tile_cases import CASES, FOLDER, Array, TileCase, lowered, parsed
from polyc.test.support.tile_table import compiled, rows, stated
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

SCHEDULES = {"f16": ("round-robin", "late"), "bf16": ("random", "random")}
"""An interleaving with when asynchronous operations complete, by an element type."""

FILES = sorted(path.stem for path in FOLDER.glob("*.mlir"))
EACH = [(case.name, element) for case in CASES.values() for element in case.elements]
SIMULATED = [
    (case.name, element)
    for number, case in enumerate(CASES.values())
    for element in (case.elements if number % 2 else case.elements[:1])
]
"""Every other kernel in both element types: their ops are the same."""
COMPILED = [
    (case.name, case.elements[number % len(case.elements)])
    for number, case in enumerate(CASES.values())
]
"""One of a kernel's element types: its code is the same for each, as the document says."""


def check(
    case: TileCase, element: str, outputs: Sequence[Array], wanted: Sequence[Estimate]
) -> None:
    dispatch = parsed(case.name, element).dispatch()
    kinds = list(dispatch.arg_types)[dispatch.num_inputs.value.data :]
    names = [n.data for n in dispatch.arg_names][dispatch.num_inputs.value.data :]
    for name, kind, found, right in zip(names, kinds, outputs, wanted, strict=True):
        mismatch = tolerance_check(found, right, kind.element_type)
        assert mismatch is None, f"output {name}: {mismatch}"


def test_every_file_is_tested() -> None:
    assert set(FILES) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_text_reads_back(name: str) -> None:
    case = CASES[name]
    module = parse_text(make_context(), case.text(), str(case.path))
    verify(module)
    text = module_text(module)
    assert module_text(parse_text(make_context(), text, "again.mlir")) == text


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "element"), SIMULATED)
def test_threads_compute_what_the_reference_does(name: str, element: str) -> None:
    """Clean and right; of two element types the second at the first shape, f16 at the others.

    The ops are the same for each element type, and what happens before what depends on neither
    type nor values: so each type takes a schedule of its own, and a shape needs one.
    """
    case = CASES[name]
    schedule, completion = SCHEDULES[element]
    runs = [(case.variant, case.small[0])]
    if element == "f16":
        rest = case.small[1:] if len(case.elements) > 1 else ()
        runs = [*((case.variant, sizes) for sizes in rest or case.small), *case.also]
    for number, (variant, sizes) in enumerate(runs):
        inputs = case.inputs(sizes, element)
        result = simulate(
            lowered(name, element),
            inputs,
            sizes,
            variant,
            schedule=schedule,
            completion=completion,
            seed=number,
        )
        assert not result.findings, "\n".join(map(str, result.findings))
        check(case, element, result.outputs, case.expected(inputs, sizes))


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "element"), EACH)
def test_tiles_mean_what_the_reference_does(name: str, element: str) -> None:
    case = CASES[name]
    if not case.plays:
        pytest.skip("the tile playback does not know all ops of this file")
    shapes = case.small if element == "f16" else case.small[:1]
    for variant, sizes in [*((case.variant, sizes) for sizes in shapes), *case.also]:
        inputs = case.inputs(sizes, element)
        outputs = tile.run(parsed(name, element), inputs, sizes, variant)
        check(case, element, outputs, case.expected(inputs, sizes))


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "element"), COMPILED)
def test_code_is_as_good_as_the_document_says(name: str, element: str) -> None:
    result = compiled(name, element)
    assert not result.warnings()
    for word in ("serialized", "ignored", "warning", "Performance Loss"):
        assert word not in result.log
    found = rows(name, element)
    for row in found:
        info = result.kernels[row.kernel]
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), row
    document = [row for row in stated() if (row.file, row.element) == (name, element)]
    assert [r.exact() for r in found] == [r.exact() for r in document]
    for row, bound in zip(found, document, strict=True):
        assert row.registers <= bound.registers, row


def test_the_document_has_no_other_kernels() -> None:
    document = stated()
    assert list(dict.fromkeys((row.file, row.element) for row in document)) == EACH
    for case in CASES.values():
        told = [
            [replace(row, element="") for row in document if (row.file, row.element) == one]
            for one in EACH
            if one[0] == case.name
        ]
        assert all(rows == told[0] for rows in told), case.name


def sample(found: Sequence[Mutant], number: int, name: str) -> list[Mutant]:
    """``number`` mutants from all over the text, with every kind of op before any comes twice.

    Each kernel, by its ``name``, begins with other kinds: many are alike, so few of each show all.
    """
    seen: dict[tuple[str, str], int] = {}
    rank: dict[Mutant, tuple[int, int]] = {}
    for place, mutant in enumerate(found):
        kind = (mutant.op, mutant.change.split(" ")[0])
        seen[kind] = seen.get(kind, 0) + 1
        rank[mutant] = (seen[kind], crc32(f"{name} {place}".encode()))
    return sorted(found, key=rank.__getitem__)[:number]


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_mutants_are_caught(name: str) -> None:
    case = CASES[name]
    cases = [
        Case.of(lowered(name), case.variant, sizes, inputs, case.expected(inputs, sizes))
        for sizes in case.mutant_shapes or case.small[:1]
        for inputs in [case.inputs(sizes)]
    ]
    run = {kernel for kernel, _ in cases[0].right.launches}
    chosen = sample([m for m in mutants(lowered(name)) if m.kernel in run], case.mutants, name)
    survived = [v for v in (judge(m, cases) for m in chosen) if v.outcome == "survived"]
    assert not survived, "\n".join(str(v.mutant) for v in survived)
