"""Differential checks: one input through every layer, compared with the FP32 reference.

The outputs of a module are played back on NumPy at the layer that it is at (rule 6 of
the design, S6.9); a disagreement names the layer and the first element that differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.tools.forms import with_forms
from polyc.tools.play import Arrays, Signature, estimated, play, programs, with_made

if TYPE_CHECKING:
    from polyc.dialects.common.signature import SignatureOp
    from polyc.playback.agreement import Mismatch
    from polyc.playback.estimate import Estimate


@dataclass
class Expected:
    """What a program computes on one random input, to compare layers with.

    ``outputs`` are the reference's with their errors, in f32 and not rounded where the program is
    a frontend graph; a program that starts lower is its own reference.  ``draw`` is the kind of
    the inputs (``playback/draws.py``).
    """

    name: str
    symbols: Mapping[str, int]
    inputs: Arrays
    outputs: Sequence[Estimate]
    types: Sequence[Attribute]
    names: Sequence[str]
    draw: str = "uniform"
    given: Sequence[str] = ()
    """The names of ``inputs``."""

    @staticmethod
    def of(
        program: SignatureOp,
        symbols: Mapping[str, int],
        seed: int = 0,
        draw: str = "uniform",
        held: Mapping[int, Any] | None = None,
    ) -> Expected:
        """With the inputs ``held``, by their numbers, the others being drawn.

        Raises PolycError of kind ``NotPlayed`` for a program of a layer without playback.
        """
        from polyc.playback.reference import make_inputs

        inputs = make_inputs(program, symbols, seed, draw)
        for number, array in (held or {}).items():
            inputs[number] = array
        outputs = estimated(operation(program), inputs, symbols)
        name = program.sym_name.data
        if outputs is None:
            raise PolycError(
                "NotPlayed", f"@{name} is at a layer that has no playback", operation(program)
            )
        specs = program.outputs
        return Expected(
            name,
            symbols,
            inputs,
            outputs,
            [spec.type.element_type for spec in specs],
            [spec.name for spec in specs],
            draw,
            [spec.name for spec in program.inputs],
        )

    @staticmethod
    def of_each_draw(
        program: SignatureOp,
        symbols: Mapping[str, int],
        seed: int = 0,
        draws: Sequence[str] | None = None,
        held: Mapping[int, Any] | None = None,
    ) -> list[Expected]:
        """One for each kind of inputs, or those of ``draws``; one where none is drawn.

        Raises PolycError as ``of`` does.
        """
        from polyc.playback.draws import DRAWS

        kinds = list(DRAWS if draws is None else draws)
        if len(program.inputs) == len(held or ()):
            kinds = kinds[:1]
        return [Expected.of(program, symbols, seed, kind, held) for kind in kinds]

    @property
    def where(self) -> str:
        """The sizes, and the kind of the inputs where that is not the usual one."""
        sizes = sizes_text(self.symbols)
        return sizes if self.draw == "uniform" else f"{sizes} on {self.draw} inputs"

    def difference(self, outputs: Arrays) -> tuple[int, Mismatch] | None:
        """The first output, by position, with an element that does not agree (S0.6)."""
        from polyc.playback.agreement import tolerance_check

        for i, (kind, actual, expected) in enumerate(
            zip(self.types, outputs, self.outputs, strict=True)
        ):
            if (mismatch := tolerance_check(actual, expected, kind)) is not None:
                return i, mismatch
        return None

    def compare(self, layer: str, outputs: Arrays, notes: Sequence[str] = ()) -> float:
        """The largest absolute error of ``outputs``.

        Raises PolycError of kind ``Disagreement`` that names the layer, the output and
        its first element that is beyond the tolerance.
        """
        import numpy as np

        if (found := self.difference(outputs)) is not None:
            position, mismatch = found
            raise PolycError(
                "Disagreement",
                f"{layer} differs from the FP32 reference of @{self.name} at "
                f"{self.where}: output {self.names[position]}, {mismatch}",
                notes=notes,
            )
        largest = 0.0
        for actual, expected in zip(outputs, self.outputs, strict=True):
            if actual.size:
                with np.errstate(all="ignore"):
                    error = np.abs(actual.astype(np.float64) - expected.value.astype(np.float64))
                largest = max(largest, float(np.nanmax(np.where(np.isfinite(error), error, 0.0))))
        return largest

    def play(self, module: ModuleOp) -> Arrays | None:
        """The outputs of ``module``, or None where its layer has no playback.

        What it makes of parameters alone in a graph of its own is made first.
        """
        named = dict(zip(self.given, self.inputs, strict=False))
        inputs = with_made(module, self.name, named, self.symbols)
        return play(module, self.name, inputs or self.inputs, self.symbols)

    def check(self, module: ModuleOp, layer: str) -> float | None:
        """Play ``module`` back and compare, and once more with each form of a region.

        None where its layer has no playback.
        """
        outputs = self.play(module)
        if outputs is None:
            return None
        notes = [] if self.difference(outputs) is None else self.wrong_entry(module)
        errors = [self.compare(layer, outputs, notes)]
        for what, formed in with_forms(module):
            if (outputs := self.play(formed)) is not None:
                errors.append(self.compare(f"{layer}, as {what} computes it,", outputs))
        return max(errors)

    def wrong_entry(self, module: ModuleOp) -> list[str]:
        """Which value of an index book is the first that is not what its op computes."""
        from polyc.dialects.index import book
        from polyc.dialects.tiny import GraphOp
        from polyc.playback.index import first_difference

        for op in module.ops:
            if isinstance(op, GraphOp) and op.sym_name.data == self.name and book(op):
                found = first_difference(op, self.inputs, self.symbols)
                if found is not None:
                    value, mismatch = found
                    made = getattr(value.owner, "name", "an argument")
                    name = value.name_hint or "?"
                    return [f"the first wrong entry is that of %{name}, a {made}: {mismatch}"]
        return []


def operation(program: SignatureOp) -> Operation:
    """The operation that a signature is of."""
    return program.op if isinstance(program, Signature) else program


def sizes_text(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in symbols.items()) or "its constant sizes"


SMALL = (3, 5, 4, 7, 2, 8, 16, 1, 32, 64, 128)
"""Sizes that a check tries first: small, unequal, then powers of two for assumptions."""


def small_sizes(program: SignatureOp, given: Mapping[str, int] | None = None) -> dict[str, int]:
    """Small sizes, unlike where they can be, that satisfy the program's assumptions.

    ``given`` are the sizes of some symbols.  Raises PolycError of kind ``NoSizes`` when none
    of the tried ones satisfy all.
    """
    fixed: Mapping[str, int] = {} if given is None else given
    symbols = [s for s in program.symbol_names if s not in fixed]
    for values in _candidates(len(symbols)):
        chosen = {**fixed, **dict(zip(symbols, values, strict=True))}
        sizes = {s: chosen[s] for s in program.symbol_names}
        if all(fact.holds(sizes) for fact in program.facts):
            return sizes
    facts = ", ".join(map(str, program.facts))
    more = f" with {sizes_text(fixed)}" if fixed else ""
    raise PolycError(
        "NoSizes",
        f"no small sizes satisfy {facts} of @{program.sym_name.data}{more}; give them by --set",
        operation(program),
    )


def _candidates(count: int) -> Iterator[tuple[int, ...]]:
    yield tuple(SMALL[i % 4] for i in range(count))
    if count <= 4:
        yield from product(SMALL, repeat=count)
    else:
        for size in SMALL:
            yield (size,) * count


@dataclass
class EachPass:
    """Compares before and after every pass, on seeded random inputs (``--check-each``).

    ``expected`` has the draws of each program one after the other.  Every draw is played at every
    layer but ``gpu``, whose many passes take turns with the draws: of tiles each pass is given the
    first and another, of threads one.  ``finish`` plays them all once more.  What a draw shows late
    is looked for in the modules since its turn before.
    """

    expected: Sequence[Expected]
    before: dict[int, Arrays] = field(default_factory=dict[int, Arrays])
    """What each of ``expected``, by position, was when it was compared last."""
    trail: list[tuple[str, ModuleOp]] = field(default_factory=list[tuple[str, ModuleOp]])
    """Each pass that changed something, and what it left."""
    reached: dict[int, int] = field(default_factory=dict[int, int])
    """How much of the trail each of ``expected`` was compared with."""

    @staticmethod
    def of_module(
        module: ModuleOp, seed: int = 0, given: Mapping[str, int] | None = None
    ) -> EachPass:
        """With small sizes, of which ``given`` says some, for every program of ``module``.

        Raises PolycError as ``small_sizes`` and ``after`` do.
        """
        there = programs(module)
        known = {s: None for p in there for s in p.symbol_names}
        for name in given or ():
            if name not in known:
                raise PolycError(
                    "UnknownSymbol",
                    f"--set {name}: no program here has it; their symbols are "
                    f"{', '.join(known) or 'none'}",
                    module,
                )
        found = [e for p in there for e in Expected.of_each_draw(p, small_sizes(p, given), seed)]
        check = EachPass(found)
        check.start(module)
        return check

    def start(self, module: ModuleOp) -> None:
        """Compare what the first pass is given."""
        self.trail.append(("the input", module.clone()))
        for position, expected in enumerate(self.expected):
            if (outputs := expected.play(module)) is not None:
                expected.compare("the input", outputs)
                self.before[position] = outputs
            self.reached[position] = 1

    def after(self, module: ModuleOp, name: str) -> None:
        """Compare; raises PolycError of kind ``Disagreement`` that names the pass ``name``.

        A pass that changes nothing needs no comparison.
        """
        if self.trail and self.trail[-1][1].is_structurally_equivalent(module):
            return
        self.trail.append((name, module.clone()))
        turns = self._turns(module)
        for position, expected in enumerate(self.expected):
            if expected.draw in turns:
                self._compare(position)

    def finish(self) -> None:
        """Compare what the last pass left with every draw; raises PolycError as ``after`` does."""
        for position in range(len(self.expected)):
            if self.reached.get(position, 0) < len(self.trail):
                self._compare(position)

    def _turns(self, module: ModuleOp) -> Sequence[str]:
        """The draws that the pass that left ``module`` is compared on."""
        from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
        from polyc.passes.finish import is_finished

        draws = list(dict.fromkeys(e.draw for e in self.expected))
        kernels = [op for op in module.ops if isinstance(op, GpuModuleOp)]
        if not kernels or len(draws) < 2:
            return draws
        first, *others = draws
        turn = len(self.trail)
        if all(map(is_finished, kernels)):
            return [draws[turn % len(draws)]]
        return [first, others[turn % len(others)]]

    def _compare(self, position: int) -> None:
        expected = self.expected[position]
        outputs = expected.play(self.trail[-1][1])
        if outputs is not None and expected.difference(outputs) is not None:
            since = self.trail[self.reached.get(position, 0) :]
            for name, module in since:
                played = expected.play(module)
                if played is None:
                    continue
                if (found := expected.difference(played)) is not None:
                    raise self._changed(position, module, name, *found)
                self.before[position] = played
        if outputs is not None:
            self.before[position] = outputs
            self.reached[position] = len(self.trail)

    def _changed(
        self, position: int, module: ModuleOp, name: str, output: int, mismatch: Mismatch
    ) -> PolycError:
        expected, was = self.expected[position], self.before.get(position)
        before = "" if was is None else f", {float(was[output][mismatch.index]):.9g} before it"
        error = PolycError(
            "Disagreement",
            f"{name} changes what @{expected.name} computes at {expected.where}: "
            f"output {expected.names[output]}, {mismatch}{before}",
            notes=expected.wrong_entry(module),
        )
        error.layer = name
        return error
