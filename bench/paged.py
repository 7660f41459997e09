"""Caches in pages for ``bench/decode.py``: the graph, the tensors, and what PyTorch has for it.

A pool has the keys of all sequences in pages that lie anywhere, and a table says of each sequence
which they are.  Beside attention over the pages stands the same over keys that follow each other,
and PyTorch's own, which gathers the pages into memory before it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polyc.bench.race import Contestant

GRAPH = """
frontend.graph @paged(
    %Q: !frontend.tensor<[B, {h}, {m}, {d}], f16>, %K: !frontend.tensor<[P, {page}, {g}, {d}], f16>,
    %V: !frontend.tensor<[P, {page}, {g}, {d}], f16>, %table: !frontend.tensor<[B, J], i32>)
    -> (O: !frontend.tensor<[B, {h}, {m}, {d}], f16>) {{
{rows}
  %o = frontend.attention %Q, %K3, %V3 {{acc = f32}}
      : (!frontend.tensor<[B, {h}, {m}, {d}], f16>,
         !frontend.tensor<[B, {g}, J * {page}, {d}], f16>,
         !frontend.tensor<[B, {g}, J * {page}, {d}], f16>)
      -> !frontend.tensor<[B, {h}, {m}, {d}], f16>
  frontend.output %o : !frontend.tensor<[B, {h}, {m}, {d}], f16>
}}
"""

ROWS = """
  %{x}1 = frontend.gather %{x}, %table axis 0 clamp
      : (!frontend.tensor<[P, {page}, {g}, {d}], f16>, !frontend.tensor<[B, J], i32>)
      -> !frontend.tensor<[B, J, {page}, {g}, {d}], f16>
  %{x}2 = frontend.reshape %{x}1 : !frontend.tensor<[B, J, {page}, {g}, {d}], f16>
      -> !frontend.tensor<[B, J * {page}, {g}, {d}], f16>
  %{x}3 = frontend.permute %{x}2 perm [0, 2, 1, 3]
      : !frontend.tensor<[B, J * {page}, {g}, {d}], f16>
      -> !frontend.tensor<[B, {g}, J * {page}, {d}], f16>
"""


@dataclass(frozen=True)
class Pages:
    """Pages of so many keys, of ``heads`` heads of keys that share them among the queries'."""

    page: int
    queries: int
    heads: int
    shared: int
    features: int

    def text(self, dtype: str) -> str:
        """The graph, of which the number of sequences, of pages and of a sequence's are open."""
        sizes = {
            "h": self.heads * self.shared,
            "g": self.heads,
            "m": self.queries,
            "d": self.features,
            "page": self.page,
        }
        rows = "".join(ROWS.format(x=x, **sizes) for x in "KV")
        return re.sub(r"\bf16\b", dtype, GRAPH.format(rows=rows, **sizes))

    def pooled(self, torch: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
        """Pools with the keys and values of all sequences, each page at random, and the table."""
        b, heads, n, d = k.shape
        each = n // self.page
        table = torch.randperm(b * each, device="cuda").to(torch.int32).reshape(b, each)
        pools: list[Any] = []
        for one in (k, v):
            pool = torch.empty((b * each, self.page, heads, d), device="cuda", dtype=one.dtype)
            pages = one.transpose(1, 2).reshape(b * each, self.page, heads, d)
            pool[table.reshape(-1).long()] = pages
            pools.append(pool)
        return (*pools, table)


def gathering(torch: Any, sets: Sequence[Any], shared: bool) -> Contestant:
    """PyTorch's ops: pages are gathered, and its attention takes them."""

    def run(i: int) -> None:
        q, k, v, table = sets[i % len(sets)]
        own = (pool[table].flatten(1, 2).transpose(1, 2) for pool in (k, v))
        torch.nn.functional.scaled_dot_product_attention(q, *own, enable_gqa=shared)

    return Contestant("gather, then attention", run)
