"""Attentions over caches in pages, as graphs, and tables of pages, hostile ones too."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import bf16, f16, i32, i64

from polyc.playback.functions import Array, dtype_of, round_to

HOSTILE = (-1, -(2**31), 2**31 - 1, 10**6)
"""Places that no pool of pages has, as an i32."""

ELEMENTS = {"f16": f16, "bf16": bf16, "i32": i32, "i64": i64}


@dataclass(frozen=True)
class Paged:
    """Attention of Q over the pages that a table picks: B sequences of J pages, of a pool of P.

    ``tokens`` are outside in a page, or its heads are; without a ``page`` one token is each, and
    there is no axis of them.  ``lengths`` is how a key's number compares
    with the length of its sequence, where it is seen.
    """

    page: int | None
    heads: int = 4
    of_keys: int = 2
    features: int = 64
    queries: str = "1"
    tokens: bool = True
    element: str = "f16"
    index: str = "i32"
    mode: str = "clamp"
    lengths: str | None = None
    options: str = ""
    in_rows: bool = False
    """Whether a token has its heads in a row of one dimension."""

    def text(self) -> str:
        """The graph, ``@attention``."""
        g, d, s, i = self.of_keys, self.features, self.page or 1, self.index
        q, element = f"[B, {self.heads}, {self.queries}, {d}]", self.element
        pool = f"[P, {s}, {g}, {d}]" if self.tokens else f"[P, {g}, {s}, {d}]"
        pool = f"[P, {g}, {d}]" if self.page is None else pool
        pool = f"[P, {s}, {g * d}]" if self.in_rows else pool
        rows = f"[B, J, {pool[4:]}"

        def tensor(shape: str, kind: str = element) -> str:
            return f"!frontend.tensor<{shape}, {kind}>"

        table, keys = tensor("[B, J]", i), tensor(f"[B, {g}, J * {s}, {d}]")
        lines: list[str] = []
        for x in "KV":
            lines.append(
                f"%{x}0 = frontend.gather %{x}, %table axis 0 {self.mode} : "
                f"({tensor(pool)}, {table}) -> {tensor(rows)}"
            )
            if self.page is None:
                lines.append(
                    f"%{x}2 = frontend.permute %{x}0 perm [0, 2, 1, 3] : {tensor(rows)} -> {keys}"
                )
            elif self.tokens:
                merged = tensor(f"[B, J * {s}, {g}, {d}]")
                lines.append(f"%{x}1 = frontend.reshape %{x}0 : {tensor(rows)} -> {merged}")
                lines.append(
                    f"%{x}2 = frontend.permute %{x}1 perm [0, 2, 1, 3] : {merged} -> {keys}"
                )
            else:
                moved = tensor(f"[B, {g}, J, {s}, {d}]")
                lines.append(
                    f"%{x}1 = frontend.permute %{x}0 perm [0, 2, 1, 3, 4] : "
                    f"{tensor(rows)} -> {moved}"
                )
                lines.append(f"%{x}2 = frontend.reshape %{x}1 : {moved} -> {keys}")
        mask = kinds = given = ""
        if self.lengths is not None:
            given = f", %length: {tensor('[B]', i)}"
            mask, kinds = " mask %seen", f", {tensor(f'[B, 1, 1, J * {s}]', 'i1')}"
            places, each = tensor(f"[J * {s}]", i), tensor("[B, 1, 1, 1]", i)
            lines.append(f"%n = frontend.iota axis 0 : {places}")
            lines.append(f"%l = frontend.reshape %length : {tensor('[B]', i)} -> {each}")
            lines.append(
                f"%seen = frontend.compare {self.lengths} %n, %l : "
                f"({places}, {each}) -> {kinds[2:]}"
            )
        lines.append(
            f"%o = frontend.attention %Q, %K2, %V2{mask}{self.options} {{acc = f32}} : "
            f"({tensor(q)}, {keys}, {keys}{kinds}) -> {tensor(q)}"
        )
        body = "\n  ".join([*lines, f"frontend.output %o : {tensor(q)}"])
        pools = f"%K: {tensor(pool)}, %V: {tensor(pool)}"
        return (
            f"frontend.graph @attention(%Q: {tensor(q)}, {pools}, %table: {table}{given})\n"
            f"    -> (O: {tensor(q)}) {{\n  {body}\n}}\n"
        )

    def inputs(self, sizes: Mapping[str, int], seed: int, table: Sequence[int] = ()) -> list[Array]:
        """Random pools, and a table of some of their pages; its first entries may be given."""
        rng = np.random.default_rng(seed)
        b, p, j = (sizes[x] for x in "BPJ")
        m = sizes["M"] if self.queries == "M" else int(self.queries)
        page = [] if self.page is None else [self.page]
        page = [*page, self.of_keys] if self.tokens else [self.of_keys, *page]
        pool = [p, *page, self.features]
        if self.in_rows:
            pool = [p, self.page or 1, self.of_keys * self.features]
        shapes = ([b, self.heads, m, self.features], pool, pool)
        found: list[Any] = [
            round_to(rng.standard_normal(shape).astype(np.float32), ELEMENTS[self.element])
            for shape in shapes
        ]
        kind = dtype_of(ELEMENTS[self.index])
        places = rng.integers(0, max(1, p), (b, j)).astype(kind)
        places.reshape(-1)[: len(table)] = np.asarray(table[: places.size]).astype(kind)
        found.append(places)
        if self.lengths is not None:
            found.append(rng.integers(-1, j * (self.page or 1) + 2, (b,)).astype(kind))
        return found


@dataclass(frozen=True)
class Drawn:
    """A random attention over pages, sizes to run it at, and the fields of a plan for it."""

    program: Paged
    sizes: Mapping[str, int]
    rows: int
    keys: int
    parts: int

    def inputs(self, seed: int) -> list[Array]:
        """Random values, and a table of which some entries are no pages."""
        return self.program.inputs(self.sizes, seed, HOSTILE[seed % 5 :])


PAGES = (None, 1, 2, 4, 8, 16, 32, 48, 64, 128)


def drawn(number: int, longest: int = 400, widest: int = 256) -> Drawn:
    """The ``number``-th, of caches and heads that are not beyond the limits."""
    rng = random.Random(number)
    page, group, of_keys = rng.choice(PAGES), rng.choice((1, 2, 3, 4, 8)), rng.randint(1, 3)
    features, queries = 8 * rng.randint(1, widest // 8), rng.choice((1, 1, 2, 5))
    lengths = rng.choice((None, "lt", "le"))
    size = page or 1
    offset = f"offset J * {size} - {queries}"
    ends = ("", f" causal {offset}", f" window [40, 2] {offset}")
    program = Paged(
        page,
        group * of_keys,
        of_keys,
        features,
        str(queries),
        rng.random() < 0.5,
        rng.choice(("f16", "bf16")),
        rng.choice(("i32", "i64")),
        rng.choice(("clamp", "fill 0.0", "from_end clamp", "from_end fill 0.0")),
        lengths,
        rng.choice(ends),
    )
    pages = rng.randint(1, max(1, longest // size))
    sizes = {"B": rng.randint(1, 3), "J": pages, "P": rng.randint(1, 3 * pages)}
    rows = 16 * min(4, -(-group * queries // 16))
    wide = 4 <= size != 48 and features <= 128
    return Drawn(program, sizes, rows, 32 if wide else 16, rng.randint(1, 5))
