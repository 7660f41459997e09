"""How patterns are run, how locations survive, and what holds after every pass.

``rewrite`` is the one driver of the package: it runs a list of patterns, gives every
new op the location of the op that its pattern matched, and lets a ``PolycError`` out
without the dump of the module that the walker would add.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast, get_args

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl.dominance import DominanceInfo
from xdsl.pattern_rewriter import (
    PatternRewriter,
    PatternRewriterListener,
    PatternRewriteWalker,
    RewritePattern,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from polyc.affine.expressions import NotAffine
from polyc.affine.isl import IslLimitExceeded
from polyc.dialects.common.diagnostic import PolycError, from_text
from polyc.rewriting.outside import outside_error
from polyc.rewriting.verdict import verifies

OperationT = TypeVar("OperationT", bound=Operation)


def located(new_op: OperationT, like: Operation | LocationAttr) -> OperationT:
    """``new_op``, it and the ops and arguments in its regions placed where ``like`` is.

    What has a location already keeps it.
    """
    location = like.location if isinstance(like, Operation) else like
    if not isinstance(location, UnknownLoc):
        if isinstance(new_op.location, UnknownLoc):
            new_op.location = location
        if new_op.regions:
            for op in new_op.walk():
                if isinstance(op.location, UnknownLoc):
                    op.location = location
                for region in op.regions:
                    for block in region.blocks:
                        for arg in block.args:
                            if isinstance(arg.location, UnknownLoc):
                                arg.location = location
    return new_op


def copied(op: OperationT) -> OperationT:
    """A clone that stands nowhere, whose ops are placed where those of ``op`` are."""
    copy = op.clone()
    for old, new in zip(op.walk(), copy.walk(), strict=True):
        new.location = old.location
    return copy


def beyond_isl(error: IslLimitExceeded, at: Operation | LocationAttr | None = None) -> PolycError:
    """The diagnostic where isl gave up on a question (S5.3)."""
    return PolycError("PolyhedralLimit", f"{error}; use smaller domains or simpler maps", at)


class _Escape(BaseException):
    """Carries an error past the walker, which would print the whole module into it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


MOST_REWRITES = 100_000
"""How often patterns may fire in one run of the driver, beside `MOST_EACH` for each op."""

MOST_EACH = 100
"""How often patterns may fire for each op that there is at the start of a run."""


@dataclass(eq=False, repr=False)
class _Following(RewritePattern):
    """Runs the first of ``patterns`` that fires, and remembers where the matched op is."""

    patterns: Sequence[RewritePattern]
    ops: int = 0
    """How many ops the run was given to visit."""
    fired: int = 0
    location: LocationAttr = UNKNOWN_LOC

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        self.location = op.location
        try:
            for pattern in self.patterns:
                pattern.match_and_rewrite(op, rewriter)
                if rewriter.has_done_action:
                    self._count(pattern)
                    return
        except PolycError as error:
            raise _Escape(error.located(self.location)) from error
        except VerifyException as error:
            raise _Escape(from_text(str(error), self.location)) from error
        except IslLimitExceeded as error:
            raise _Escape(beyond_isl(error, self.location)) from error
        except NotAffine as error:
            raise _Escape(PolycError("NonSCoP", str(error), self.location)) from error
        except Exception as error:
            raise _Escape(error) from error.__cause__

    def _count(self, pattern: RewritePattern) -> None:
        """Raises PolycError of kind ``EndlessRewrite`` for patterns that fire without an end."""
        self.fired += 1
        if self.fired > MOST_REWRITES + MOST_EACH * self.ops:
            raise PolycError(
                "EndlessRewrite",
                f"patterns fired {self.fired} times over {self.ops} ops, the last one "
                f"{type(pattern).__name__}; a pattern fires on what it makes, or on what another "
                "one makes of it: have it refuse that",
                self.location,
            )

    def inserted(self, op: Operation) -> None:
        located(op, self.location)


def matched_types(pattern: RewritePattern) -> tuple[type, ...] | None:
    """The op types that ``op_type_rewrite_pattern`` found in a pattern's annotation.

    None when the pattern is not decorated so, and may match any op.
    """
    method = type(pattern).match_and_rewrite
    code, cells = getattr(method, "__code__", None), getattr(method, "__closure__", None)
    if code is None or cells is None or "expected_type" not in code.co_freevars:
        return None
    found: object = cells[code.co_freevars.index("expected_type")].cell_contents
    return (found,) if isinstance(found, type) else cast("tuple[type, ...]", get_args(found))


@dataclass(eq=False, repr=False)
class _Walker(PatternRewriteWalker):
    """Visits only the ops that some pattern matches: most patterns are for few op types."""

    types: tuple[type, ...] | None = None
    following: _Following | None = None
    _wanted: dict[type, bool] = field(default_factory=dict[type, bool], init=False)

    def _populate_worklist(self, op: Operation | Region | Block) -> None:
        if self.types is None:
            super()._populate_worklist(op)
            if self.following is not None and not isinstance(op, Operation):
                self.following.ops = max(self.following.ops, sum(1 for _ in op.walk()))
            return
        assert isinstance(op, Region) and not self.walk_reverse
        found: list[Operation] = []
        self._collect(op, self.types, found)
        for inner in reversed(found):  # The worklist is a stack.
            self._worklist.push(inner)
        if self.following is not None:
            self.following.ops = max(self.following.ops, len(found))

    def _handle_operation_replacement(
        self, op: Operation, new_results: Sequence[SSAValue | None]
    ) -> None:
        for result in op.results:
            for use in result.uses:
                self._handle_operation_modification(use.operation)

    def _handle_operation_modification(self, op: Operation) -> None:
        """Visit ``op`` again, unless it stands nowhere.

        What makes an op and leaves it out lets it use its operands all the same.
        """
        if op.parent is not None:
            super()._handle_operation_modification(op)

    def _collect(self, region: Region, types: tuple[type, ...], found: list[Operation]) -> None:
        """Append the ops in ``region`` that are of ``types``, in the order of the walk."""
        known, inner_first = self._wanted, self.walk_regions_first
        block = region.first_block
        while block is not None:
            op = block.first_op
            while op is not None:
                kind = type(op)
                if (wanted := known.get(kind)) is None:
                    wanted = known[kind] = issubclass(kind, types)
                if wanted and not inner_first:
                    found.append(op)
                if op.regions:
                    for inner in op.regions:
                        self._collect(inner, types, found)
                if wanted and inner_first:
                    found.append(op)
                op = op.next_op
            block = block.next_block


def rewrite(
    scope: ModuleOp | Region | Operation,
    patterns: Sequence[RewritePattern],
    recursive: bool = False,
    inner_first: bool = False,
) -> bool:
    """Run ``patterns`` over ``scope`` in order, the first that fires on an op winning.

    ``recursive`` repeats on new and changed ops until nothing fires; without it each
    op that is there at the start is tried once.  ``inner_first`` visits an op after those in
    its regions.  Unused pure ops are left alone.
    Returns whether anything changed.  Raises PolycError, at the matched op unless the
    pattern said otherwise; of kind ``EndlessRewrite`` where patterns undo one another.
    """
    following = _Following(list(patterns))
    declared = [matched_types(pattern) for pattern in patterns]
    types = None if None in declared else tuple(t for some in declared for t in some or ())
    walker = _Walker(
        following,
        apply_recursively=recursive,
        walk_regions_first=inner_first,
        listener=PatternRewriterListener(operation_insertion_handler=[following.inserted]),
        types=types,
        following=following,
    )
    regions = [scope] if isinstance(scope, Region) else scope.regions
    changed = False
    try:
        for region in regions:
            changed |= walker.rewrite_region(region)
    except _Escape as escape:
        raise escape.error from escape.error.__cause__
    return changed


_NOT_YET_VERIFIED = (KeyError, AttributeError, TypeError, AssertionError)
"""What an op's verifier runs into when it asks the op around it for a property that is not
there or is of a wrong type: inner ops are verified first."""


def verify(module: Operation) -> None:
    """Verify ``module`` and the order of its definitions.

    Raises PolycError at the op that does not verify; the text is the verifier's.
    """
    if verifies(module):
        return
    try:
        module.verify()
    except (VerifyException, ValueError, IslLimitExceeded, *_NOT_YET_VERIFIED) as error:
        failing = _failing_op(module)
        fault = outside_error(error if failing is None else failing[1])
        if fault is not None:
            raise fault from error
        if failing is None:
            if isinstance(error, _NOT_YET_VERIFIED):
                raise
            raise from_text(str(error), module) from error
        if isinstance(failing[1], IslLimitExceeded):
            raise beyond_isl(failing[1], failing[0]) from error
        raise from_text(str(failing[1]), failing[0]) from error
    verify_dominance(module)


def _failing_op(op: Operation) -> tuple[Operation, Exception] | None:
    """The innermost op that does not verify, with its error."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                if (found := _failing_op(inner)) is not None:
                    return found
    try:
        op.verify(verify_nested_ops=False)
        for region in op.regions:
            for block in region.blocks:
                if block.is_empty:
                    block.verify()
    except (VerifyException, ValueError, IslLimitExceeded) as error:
        return op, error
    except _NOT_YET_VERIFIED:
        return None
    return None


def verify_dominance(module: Operation) -> None:
    """Check that every value is defined before it is used and in a region around it.

    xDSL does not check this.  Raises PolycError of kind ``UseBeforeDefinition``.
    """
    for region in module.regions:
        _check_region(region, set())


def _check_region(region: Region, outer: set[SSAValue]) -> None:
    blocks = region.blocks
    if len(blocks) <= 1:
        for block in blocks:
            _check_block(block, set(outer))
        return
    dominance = DominanceInfo(region)
    for block in blocks:
        seen = set(outer)
        for other in blocks:
            if dominance.strictly_dominates(other, block):
                seen.update(other.args)
                for op in other.ops:
                    seen.update(op.results)
        _check_block(block, seen)


def _check_block(block: Block, seen: set[SSAValue]) -> None:
    seen.update(block.args)
    for op in block.ops:
        for position, operand in enumerate(op.operands):
            if operand not in seen:
                hint = f" %{operand.name_hint}" if operand.name_hint else ""
                raise PolycError(
                    "UseBeforeDefinition",
                    f"operand {position}{hint} of {op.name} is not defined before this op in a "
                    "region around it; define it earlier",
                    op,
                )
        if op.regions:
            inner = set[SSAValue]() if op.has_trait(IsolatedFromAbove) else seen
            for region in op.regions:
                _check_region(region, inner)
        seen.update(op.results)
