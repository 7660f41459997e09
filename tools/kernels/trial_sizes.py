"""At which sizes a kernel written by hand is tried: few, small, and with tails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim, DivAtom
from polyc.dialects.gpu.tile import PipelineOp, TileCoordinatesOp, TileLoopOp
from polyc.dialects.region import KernelOp
from polyc.passes.support.gpu.symbols import dim_of
from polyc.tools.kernels.instance import Instance

Sizes = dict[str, int]

SMALL = (3, 5, 2, 7, 1, 8, 16, 24, 40, 32, 64, 72, 128, 256, 512)
"""Where a kernel has one tile, and that not full."""

BEYOND = (1, 3, 9, 8, 24, 40, 72, 16, 32, 64, 128)
"""By how much a size is more than a tile: a tail of any length, and then one of a condition's."""

MOST = 1 << 18
"""Elements of the largest tensor that a trial has."""

TRIED = 40000
"""Sizes that are asked about until some fit."""


def trial_sizes(instance: Instance) -> list[Sizes]:
    """Sizes within the conditions of a variant: less than a tile, and several tiles with a tail.

    And none of what is summed, where the conditions allow it.  Raises PolycError ``NoTrial`` where
    no small sizes satisfy the conditions.
    """
    region = instance.region
    facts = [*region.facts, *instance.launch.facts.data]
    symbols = _symbols(region)
    tiles = _tiles(instance)
    found: list[Sizes] = []
    pools = [[*_rotated(SMALL, i)] for i in range(len(symbols))]
    for small in _fitting(region, symbols, pools, facts):
        found.append(small)
        break
    for turn in range(max((len(own) for own in tiles.values()), default=1)):
        several: list[list[int]] = []
        for i, symbol in enumerate(symbols):
            own = tiles.get(symbol, [])
            tile = own[min(turn, len(own) - 1)] if own else None
            beyond = [] if tile is None else [tile + more for more in _rotated(BEYOND, i)]
            several.append([*beyond, *_rotated(SMALL, i)])
        for large in _fitting(region, symbols, several, facts):
            if large not in found:
                found.append(large)
            break
    if not found:
        wanted = ", ".join(map(str, facts))
        raise PolycError(
            "NoTrial",
            f"{instance.name} cannot be tried for region @{region.sym_name.data}: no sizes with at "
            f"most {MOST} elements a tensor satisfy {wanted}; a kernel that nothing has tried is "
            "not used, so write conditions that small sizes satisfy too",
            instance.registered.program.location,
        )
    shown = {s for kind in region.outs for size in kind.shape for s in size.symbols()}
    summed = [s for s in symbols if s not in shown]
    empty = {**found[0], **dict.fromkeys(summed, 0)}
    if summed and all(fact.holds(empty) for fact in facts):
        found.append(empty)
    return [{**dict.fromkeys(region.symbol_names, 1), **sizes} for sizes in found]


def _symbols(region: KernelOp) -> list[str]:
    """The symbols that the sizes of a region's tensors have."""
    shapes = (kind.shape for kind in region.tensors)
    return list(dict.fromkeys(s for shape in shapes for size in shape for s in size.symbols()))


def _rotated(numbers: Sequence[int], by: int) -> list[int]:
    """So that sizes of unlike symbols are unlike, where they may be."""
    by %= 3
    return [*numbers[by:3], *numbers[:by], *numbers[3:]]


def _fitting(
    region: KernelOp,
    symbols: Sequence[str],
    pools: Sequence[Sequence[int]],
    facts: Sequence[Assumption],
) -> Iterator[Sizes]:
    """The sizes of some pools that satisfy all facts and are small enough."""
    for values in islice(_nearest_first(pools), TRIED):
        sizes = dict(zip(symbols, values, strict=True))
        whole = {**dict.fromkeys(region.symbol_names, 1), **sizes}
        if all(fact.holds(whole) for fact in facts) and _elements(region, whole) <= MOST:
            yield sizes


def _nearest_first(pools: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Choices from each pool, those that go less far into any of them first."""
    longest = max(map(len, pools), default=1)
    for depth in range(1, longest + 1):
        for choice in product(*(range(min(depth, len(pool))) for pool in pools)):
            if not choice or max(choice) == depth - 1:
                yield tuple(pool[i] for pool, i in zip(pools, choice, strict=True))


def _elements(region: KernelOp, sizes: Mapping[str, int]) -> int:
    """Of the largest tensor; more than allowed where a size is negative."""
    found = [[d.evaluate(sizes) for d in kind.shape] for kind in region.tensors]
    if any(n < 0 for shape in found for n in shape):
        return MOST + 1
    return max((prod(shape) for shape in found), default=1)


# How far a kernel's tiles go -----------------------------------------------------------


def _tiles(instance: Instance) -> dict[str, list[int]]:
    """For each symbol that the kernel cuts, the points from where on there are several tiles.

    Where the grid and the body speak of unlike tiles, both are there.  Of a product of symbols one
    is cut, and the others stay small.
    """
    found: dict[str, list[int]] = {}
    for launch in instance.launch.launches():
        for size in launch.grid.data:
            for mono, _ in size.terms:
                for atom in mono:
                    if isinstance(atom, DivAtom):
                        _note(found, atom.num, atom.den)
    for kernel in instance.module.kernels():
        for op in kernel.walk():
            match op:
                case TileCoordinatesOp() | TileLoopOp():
                    for value, tile in zip(op.sizes, op.tile.data, strict=False):
                        if (size := dim_of(value, kernel)) is not None:
                            _note(found, size, tile)
                case PipelineOp():
                    if (size := dim_of(op.bound, kernel)) is not None:
                        _note(found, size, op.step.value.data * op.stages.value.data)
                case _:
                    pass
    return found


def _note(found: dict[str, list[int]], size: Dim, tile: int) -> None:
    for mono, _ in size.terms:
        names = [atom for atom in mono if isinstance(atom, str)]
        if names and tile not in found.setdefault(names[-1], []):
            found[names[-1]].append(tile)
