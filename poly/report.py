"""The report of ``polyc analyze``: every analysis of a graph as JSON (S7.1, S13.1).

The names ``parallel_axes``, ``reduce_axes``, ``tail_axes``, ``compute_at`` with ``halo``, and
``min_buffer`` are those of the specification's section 7; docs/tools/analysis.md has the schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineSet

from polyc.affine import isl
from polyc.dialects.common.arch import Arch
from polyc.dialects.common.diagnostic import PolycError, place_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.tiny import ScanOp, tensor_of
from polyc.poly.banks import bank_hint
from polyc.poly.barriers import CommitWait, barrier_hint
from polyc.poly.blocks import Block, Blocks, blocks_of
from polyc.poly.chains import chains
from polyc.poly.closure import all_open
from polyc.poly.dependences import (
    Dependence,
    Statement,
    by_statement,
    dependence_json,
    dependences,
    parallel_axes,
    reduction_axes,
    statements_of,
)
from polyc.poly.edges import Edge, edges_of
from polyc.poly.footprint import Buffer, Footprint
from polyc.poly.guards import GuardEntry, TailEntry, guard_entries, tail_entries
from polyc.poly.halo import Halo
from polyc.poly.indexbook import Json
from polyc.poly.names import size_json
from polyc.poly.tiles import tiles_of
from polyc.poly.view import op_text, view_json
from polyc.poly.ways import Blocked, facts_of
from polyc.poly.why_not import WhyNot, fusion, no_candidate, tensor_core, tma

RANKS = {"reg": 0, "smem_ring": 1, "gmem": 2}


def report_json(graph: Operation, arch: Arch, tiles: Mapping[str, int] | None = None) -> Json:
    """Poly-View, Poly Core, the guard ledger and the refusals of a tiny graph with its book.

    ``tiles`` gives tile sizes by axis name.  Raises PolycError ``MissingIndexBook``, and
    ``PolyhedralLimit`` when isl gives up.
    """
    try:
        return _Report(blocks_of(graph), arch, tiles or {}).json()
    except isl.IslLimitExceeded as error:
        raise PolycError(
            "PolyhedralLimit", f"{error}; use smaller domains or simpler maps", graph
        ) from error


class _Report:
    """One graph on its way to a report."""

    def __init__(self, blocks: Blocks, arch: Arch, given: Mapping[str, int]) -> None:
        self.blocks = blocks
        self.arch = arch
        self.tiles = {b.name: tiles_of(b, given) for b in blocks.blocks}
        self.edges = edges_of(blocks, given)
        self.readers: dict[SSAValue, list[Edge]] = {}
        for edge in (e for found in self.edges.values() for e in found):
            self.readers.setdefault(edge.value, []).append(edge)
        self.open = all_open(blocks.names)

    def json(self) -> Json:
        statements = statements_of(self.blocks)
        symbols = self.blocks.blocks[0].symbols if self.blocks.blocks else ()
        first = self.blocks.blocks[0].value if self.blocks.blocks else None
        facts = AffineSet(0, 0, ()) if first is None else facts_of(first)
        found = dependences(statements, facts)
        by_name = {s.name: s for s in statements}
        refusals = list(no_candidate(self.blocks))
        for block in self.blocks.blocks:
            refusals += [*tensor_core(block, self.blocks), *tma(block, self.blocks)]
            refusals += fusion(self.edges[block.name], self.blocks)
        own = by_statement(found)
        analysis = [
            self._block(b, by_name[b.name], own.get(b.name, ())) for b in self.blocks.blocks
        ]
        dropped, kept = self._ledger()
        return {
            "arch": self.arch.name,
            "symbols": list(symbols),
            "poly_view": view_json(self.blocks),
            "analysis": analysis,
            "chains": [[b.name for b in chain] for chain in chains(self.blocks)],
            "dependences": [dependence_json(d, by_name, symbols) for d in found],
            "guards": {"dropped": dropped, "kept": kept},
            "why_not": [_why_not(w) for w in refusals],
        }

    # Blocks

    def _block(self, block: Block, statement: Statement, found: Sequence[Dependence]) -> Json:
        dims, tiles, edges = block.dims, self.tiles[block.name], self.edges[block.name]
        tails = [t for t in tail_entries(block, tiles) if t.tail is not None]
        breaks = self.open[block.value]
        owner = block.value.owner
        place = place_of(owner) if isinstance(owner, Operation) else None
        out: Json = {
            "block": block.name,
            "op": op_text(block.value),
            "at": None if place is None else str(place),
            "tile": {dims[a]: t for a, t in tiles.items()},
            "parallel_axes": [dims[a] for a in parallel_axes(statement, found)],
            "reduce_axes": [dims[a] for a in reduction_axes(statement, found)],
            "gather_axes": [dims[a] for a in statement.at_data],
            "tail_axes": [dims[t.axis] for t in tails],
            "affine_closure": {
                "ok": not breaks,
                "open_at": [
                    {"value": self.blocks.names[v], "reason": why} for v, why in breaks.items()
                ],
            },
            "compute_at": self._compute_at(block),
            "min_buffer": self._buffer_of_result(block),
            "operands": [self._operand(e) for e in edges],
        }
        if isinstance(owner, ScanOp):
            axis = sum(block.entry.counts[: owner.axis])
            ways = {"reverse": owner.is_reverse, "exclusive": owner.is_exclusive}
            out["scan"] = {"axis": dims[axis], "reads": dims[-1], **ways}
        if block.pattern is not None:
            out["barriers"] = self._barriers(edges)
        return out

    def _compute_at(self, block: Block) -> Json:
        """Whether everything computed that the block reads may be computed at its tiles."""
        edges = self.edges[block.name]
        made = [e for e in edges if e.computed]
        known = [e.halo for e in edges if isinstance(e.halo, Halo)]
        total = Dim.const(0)
        for h in known:
            total = total + h.bytes
        sides = {
            name: [max((h.along(a)[s] for h in known), default=0) for s in (0, 1)]
            for a, name in enumerate(block.dims)
        }
        out: Json = {
            "ok": all(e.at_tiles.ok for e in made),
            "halo": {
                "bytes": size_json(total),
                "per_axis": {name: max(found) for name, found in sides.items()},
                "low": {name: found[0] for name, found in sides.items() if found[0]},
                "high": {name: found[1] for name, found in sides.items() if found[1]},
            },
        }
        unbounded = [e.halo.reason for e in edges if isinstance(e.halo, Blocked)]
        if unbounded:
            out["unbounded"] = list(dict.fromkeys(unbounded))
        out["producers"] = [self._verdict(e) for e in made]
        return out

    def _verdict(self, edge: Edge) -> Json:
        block, found = edge.block, edge.at_tiles
        out: Json = {
            "producer": self.blocks.names[edge.value],
            "ok": found.ok,
            "exact": found.exact,
            "legal_axes": [block.dims[a] for a in edge.legal],
        }
        if found.reason:
            out["reason"] = found.reason
        if found.clash is not None:
            out["counterexample"] = {
                "element": list(found.clash.element),
                "first": dict(zip(block.dims, found.clash.first, strict=True)),
                "second": dict(zip(block.dims, found.clash.second, strict=True)),
                "symbols": dict(zip(block.symbols, found.clash.symbols, strict=True)),
            }
        return out

    def _buffer_of_result(self, block: Block) -> Json | None:
        """The least buffer that serves every block which reads the result.

        What nothing reads is given out, and a tile of it goes to global memory.
        """
        readers = self.readers.get(block.value, [])
        if not readers:
            tile = self.tiles[block.name]
            axes = enumerate(block.entry.axes)
            size = product(Dim.const(tile[i]) if i in tile else a.dim for i, a in axes)
            size = size * element_bytes(tensor_of(block.value).element_type)
            return _buffer(Buffer("gmem", 1, size))
        found = [b for b in (e.buffer(self.arch) for e in readers) if isinstance(b, Buffer)]
        return _buffer(max(found, key=lambda b: RANKS[b.kind])) if found else None

    def _operand(self, edge: Edge) -> Json:
        out: Json = {"tensor": self.blocks.names[edge.value]}
        box, buffer = edge.box, edge.buffer(self.arch)
        if isinstance(box, Blocked) or isinstance(buffer, Blocked):
            out["blocked"] = box.reason if isinstance(box, Blocked) else ""
            return out
        out["footprint"] = [size_json(e) for e in box.extents]
        out["bytes"] = size_json(box.bytes)
        out["min_buffer"] = _buffer(buffer)
        out["halo_bytes"] = size_json(edge.halo.bytes) if isinstance(edge.halo, Halo) else None
        if edge.block.pattern is not None and box.extents and box.element_bytes > 1:
            pitch = box.extents[-1].constant()
            if pitch is not None:
                out["bank_conflicts"] = _banks(pitch * box.element_bytes, box.element_bytes)
        return out

    def _barriers(self, edges: Sequence[Edge]) -> Json:
        """The waits of a ring that holds both operands of a contraction."""
        total = Dim.const(0)
        for box in (e.box for e in edges):
            if isinstance(box, Footprint):
                total = total + box.bytes
        bytes = total.constant()
        fits = bytes is not None and 3 * bytes <= self.arch.shared_bytes
        hint = barrier_hint(self.arch, 3 if fits else 2, total)
        if isinstance(hint, CommitWait):
            return {
                "kind": "commit_wait",
                "stages": hint.stages,
                "ahead": hint.ahead,
                "pending": hint.pending,
            }
        return {
            "kind": "mbarrier",
            "stages": hint.stages,
            "full": hint.full,
            "empty": hint.empty,
            "expect_bytes": size_json(hint.expect_bytes),
        }

    # The ledger

    def _ledger(self) -> tuple[list[Json], list[Json]]:
        dropped: list[Json] = []
        kept: list[Json] = []
        for entry in guard_entries(self.blocks):
            (dropped if entry.verdict.dropped else kept).append(self._guard(entry))
        for block in self.blocks.blocks:
            for entry in tail_entries(block, self.tiles[block.name]):
                (dropped if entry.tail is None else kept).append(_tail(entry))
        return dropped, kept

    def _guard(self, entry: GuardEntry) -> Json:
        verdict, names, symbols = entry.verdict, entry.names, entry.block.symbols
        alone = AffineSet(len(names), len(symbols), (verdict.row,))
        text = isl.set_text(alone, names, symbols)
        out: Json = {
            "block": entry.block.name,
            "of": f"{op_text(entry.movement)} {self.blocks.names[entry.movement]}",
            "guard": text,
        }
        if verdict.failing is None:
            out["proof"] = {
                "known": isl.set_text(verdict.known, names, symbols),
                "is_within": text,
            }
        else:
            axes, at = verdict.failing
            out["failing"] = {
                "axes": dict(zip(names, axes, strict=True)),
                "symbols": dict(zip(symbols, at, strict=True)),
            }
        return out


def _tail(entry: TailEntry) -> Json:
    block = entry.block
    size = block.entry.all_axes[entry.axis].dim
    guard = f"{size.wrapped()} mod {entry.tile} = 0"
    out: Json = {"block": block.name, "of": f"tail of {block.dims[entry.axis]}", "guard": guard}
    if entry.tail is None:
        known = isl.set_text(entry.facts, (), block.symbols)
        out["proof"] = {"known": known, "is_within": guard}
    elif entry.tail.symbols is not None:
        at = dict(zip(block.symbols, entry.tail.symbols, strict=True))
        out["failing"] = {"axes": {}, "symbols": {s: at[s] for s in size.symbols()}}
    else:
        out["failing"] = None
    return out


def _banks(pitch: int, element_bytes: int) -> Json:
    hint = bank_hint(pitch, element_bytes, "ldmatrix")
    return {
        "pitch_bytes": pitch,
        "turns": hint.turns,
        "swizzle": hint.swizzle,
        "padded_pitch": hint.pitch,
    }


def _buffer(found: Buffer) -> Json:
    return {"buffer": found.kind, "depth": found.depth, "bytes": size_json(found.bytes)}


def _why_not(found: WhyNot) -> Json:
    block = None if found.block is None else found.block.name
    out: Json = {"what": found.what, "block": block}
    if found.operand is not None:
        out["operand"] = found.operand
    out["reason"] = found.reason
    return out
