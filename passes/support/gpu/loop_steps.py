"""How a loop's values go from one iteration to the next, as affine forms."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects import scf
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.affine.expressions import linear_of
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.index_forms import Forms, Row, at_least, defined_in, equal
from polyc.passes.support.gpu.symbols import constant_of

Counted = scf.ForOp | tile.TileLoopOp | tile.PipelineOp
Loop = Counted | scf.WhileOp

LONGEST = 64
"""The most iterations of a loop that are walked one by one, where their number is known."""

Carried = Mapping[Hashable, AffineExpr]


@dataclass(frozen=True)
class Before:
    """The leaf of a value as it was some iterations ago, or when its loop had ended."""

    key: Hashable
    times: int
    ended: bool = False


@dataclass(frozen=True)
class Steps:
    """A loop's iterations: the variable's form, bounds and step, and what the loop carries.

    ``trips`` are the iterations of a loop that is walked one by one.  ``shifts`` are values that go
    up by the same each time, ``carried`` what others are in terms of the iteration before, and
    ``first`` what all are in the first one.
    """

    variable: AffineExpr | None = None
    lower: AffineExpr | None = None
    upper: AffineExpr | None = None
    step: AffineExpr | None = None
    trips: int | None = None
    shifts: Carried = field(default_factory=dict[Hashable, AffineExpr])
    carried: Carried = field(default_factory=dict[Hashable, AffineExpr])
    first: Carried = field(default_factory=dict[Hashable, AffineExpr])
    may_be_empty: bool = True

    @staticmethod
    def of(op: Counted, forms: Forms) -> Steps:
        """A loop as its bounds and its yield say."""
        shifts: dict[Hashable, AffineExpr] = {}
        if isinstance(op, tile.TileLoopOp):
            if op.share is None:
                shifts[op.ordinal] = AffineExpr.constant(1)
            for arg, value in zip(op.carried, op.yielded, strict=True):
                if (by := added(forms, arg, value)) is not None:
                    shifts[arg] = by
            return Steps(shifts=shifts)
        if not isinstance(op, scf.ForOp):
            return Steps()
        carried: dict[Hashable, AffineExpr] = {}
        first: dict[Hashable, AffineExpr] = {}
        variable, *arguments = op.body.block.args
        last = op.body.block.last_op
        assert isinstance(last, scf.YieldOp)
        for arg, start, value in zip(arguments, op.iter_args, last.arguments, strict=True):
            if not isinstance(arg.type, IndexType):
                continue
            begin, made = only(forms, start), only(forms, value)
            if begin is not None:
                first[arg] = begin
            if made is None:
                continue
            if (by := added(forms, arg, value)) is not None:
                shifts[arg] = by
            elif all(
                key in op.body.block.args or not defined_in(key, op)
                for key in (forms.leaves[d] for d in made.used_dims())
            ):
                carried[arg] = made
        lower, step = (only(forms, v) for v in (op.lb, op.step))
        if lower is None or step is None:
            return Steps(shifts=shifts, carried=carried, first=first)
        # The less of two numbers, as keys and a part of these are, is a number all the same.
        upper = forms.alone(op.ub).expr
        shifts[variable] = step
        trips = trip_count(op)
        return Steps(
            forms.leaf(variable),
            lower,
            upper,
            step,
            trips if trips is not None and trips <= LONGEST else None,
            shifts,
            carried,
            {variable: lower, **first},
            not trips,
        )

    def inside(self) -> list[Row]:
        """What holds in every iteration."""
        if self.variable is None or self.lower is None or self.upper is None:
            return []
        return [at_least(self.variable - self.lower), at_least(self.upper - self.variable, 1)]

    def at(self, number: int, forms: Forms) -> list[Row]:
        """What holds in iteration ``number``."""
        found: list[Row] = []
        for key, start in self.first.items():
            if key in self.shifts:
                found.append(equal(forms.leaf(key), start + self.shifts[key] * number))
            elif number == 0:
                found.append(equal(forms.leaf(key), start))
        return found

    def beyond(self, number: int) -> list[Row]:
        """What holds from iteration ``number`` on."""
        if self.variable is None or self.lower is None or self.step is None:
            return []
        return [at_least(self.variable - self.lower - self.step * number)]

    def over(self) -> list[Row]:
        """What holds at the end of the last iteration."""
        if self.variable is None or self.upper is None or self.step is None:
            return []
        return [at_least(self.variable + self.step - self.upper)]

    def goes_on(self) -> list[Row]:
        """What holds at the end of an iteration that another one follows."""
        if self.variable is None or self.upper is None or self.step is None:
            return []
        return [at_least(self.upper - self.variable - self.step, 1)]

    def never(self) -> list[Row]:
        """What holds where there is no iteration."""
        if self.lower is None or self.upper is None:
            return []
        return [at_least(self.lower - self.upper)]


def added(forms: Forms, arg: SSAValue, value: SSAValue) -> AffineExpr | None:
    """How much more ``value`` is than ``arg``, always the same; None where that varies."""
    made = only(forms, value) if isinstance(arg.type, IndexType) else None
    if made is None:
        return None
    difference = linear_of(made - forms.leaf(arg))
    return None if difference.terms else AffineExpr.constant(difference.constant)


def only(forms: Forms, value: SSAValue) -> AffineExpr | None:
    """The form of a value that has one, whatever holds."""
    found = forms.of(value)
    return found[0].expr if len(found) == 1 and not found[0].rows else None


def trip_count(op: scf.ForOp) -> int | None:
    """How often a loop of known bounds runs."""
    start, end, step = (constant_of(v) for v in (op.lb, op.ub, op.step))
    if start is None or end is None or step is None or step < 1:
        return None
    return max(0, -(-(end - start) // step))


@dataclass(frozen=True)
class Turn:
    """From an iteration's values to the next one's, or to what follows the loop.

    ``names`` is what each leaf becomes, ``far`` what it becomes for what was too long ago, and
    ``changed`` are those that become something else.  ``carried`` are the equations of what the
    loop carries.
    """

    names: Sequence[AffineExpr]
    far: Sequence[AffineExpr]
    changed: frozenset[int]
    carried: Carried
    forms: Forms
    rows: dict[tuple[Row, bool], Row] = field(default_factory=dict[tuple[Row, bool], Row])

    @staticmethod
    def of(
        op: Loop, forms: Forms, steps: Steps | None = None, here: AffineExpr | None = None
    ) -> Turn:
        """By ``steps`` into the next iteration; without them, to the end of the loop, whose
        variable is ``here`` if that is known.

        A value that goes up by the same each time is that much less.  Another one that the loop
        carries has a name for each time before, and an equation.  Of others nothing is known.
        """
        names: list[AffineExpr] = []
        far: list[AffineExpr] = []
        carried: Carried = {} if steps is None else steps.carried
        for key in carried:
            forms.leaf(key)
        for position, key in enumerate(list(forms.leaves)):
            before = key if isinstance(key, Before) else Before(key, 0)
            name: AffineExpr = AffineDimExpr(position)
            same = name
            if not before.ended and defined_in(before.key, op):
                name = same = forms.leaf(replace(before, ended=True))
                if before.key in carried:
                    name = forms.leaf(replace(before, times=before.times + 1))
                elif steps is not None and key in steps.shifts:
                    name = AffineDimExpr(position) - steps.shifts[key]
                elif here is not None and is_variable(key, op):
                    name = here
            names.append(name)
            far.append(same)
        changed = (d for d, n in enumerate(names) if n != AffineDimExpr(d))
        return Turn(names, far, frozenset(changed), carried, forms)

    def expr(self, expr: AffineExpr, far: bool = False) -> AffineExpr:
        return expr.replace_dims_and_symbols(self.far if far else self.names, [])

    def row(self, row: Row, far: bool = False) -> Row:
        """A row in the next iteration; accesses share most of theirs."""
        if (row, far) not in self.rows:
            self.rows[row, far] = row.like(self.expr(row.lhs, far))
        return self.rows[row, far]

    def equations(self, used: frozenset[int]) -> list[Row]:
        """What the loop carries, for the leaves that an access speaks of."""
        return [
            equal(self.forms.leaf(key), self.expr(form))
            for key, form in self.carried.items()
            if self.forms.places[key] in used
        ]


def is_variable(key: Hashable, op: Operation) -> bool:
    return isinstance(op, scf.ForOp) and key is op.body.block.args[0]
