"""What an attention is held by while it streams over its keys: what schedules are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects.builtin import f32

from polyc.dialects.plan.fields import Value
from polyc.families.attention.gates import ALONG, ANY, BOUNDED, BROUGHT, PLAIN, UNMASKED, kind_of
from polyc.families.attention.queries import ComputedQueries
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.family import Fields
from polyc.poly.why_not import TMA_RANK

MAX_FEATURES = 256
"""Wider heads leave a thread no registers for its part of the output."""


PAGED_ROWS = 64
"""The most rows of a tile beside which a thread has registers for where pages lie."""


AS_READ, POINTWISE, NORMED = range(3)
"""Queries: those in memory; those that elementwise ops make of what is read; or reductions too."""


@dataclass(frozen=True)
class AttentionVariant:
    """A kernel for heads of up to ``features``, where Q, K and V start at whole vectors."""

    name: str
    features: int
    fields: Mapping[str, Value]
    scores: int = ANY
    """The scores that its tiles are for, ``ANY`` or less."""
    whole: bool = False
    """Whether heads fill its tiles: a loader of single elements guards each that may be beyond."""
    beside: bool = True
    """Whether threads have registers for outputs that a query has one number of too."""
    queries: int = NORMED
    """How queries may be made for which a thread has registers, ``NORMED`` or less."""

    @property
    def rows(self) -> int:
        """Rows of its tiles."""
        return cast("list[int]", self.fields["tile"])[0]

    def in_pages(self, attention: StreamingAttention) -> AttentionVariant:
        """The variant with steps of whole pages, or of whole parts of one; itself without pages."""
        rows, keys = cast("list[int]", self.fields["tile"])
        return replace(self, fields={**self.fields, "tile": [rows, attention.step(keys)]})

    def takes(self, attention: StreamingAttention) -> bool:
        """Whether it has a kernel for these heads and scores."""
        if (attention.element == f32) != (self.fields["mma"] == "fma"):
            return False
        if attention.pages and (self.fields["loader"] != "cp_async" or self.rows > PAGED_ROWS):
            return False
        if self.fields["loader"] == "tma" and attention.rank > TMA_RANK:
            return False
        if self.whole and attention.tile_features != attention.heads:
            return False
        if not self.beside and attention.stores_rows:
            return False
        if made_how(attention) > self.queries:
            return False
        features = max(attention.tile_features)
        return features <= self.features and kind_of(attention) <= self.scores

    def held(self, attention: StreamingAttention) -> StreamingAttention:
        """The attention in the tiles that its kernel has."""
        return attention.in_whole_rows() if self.fields["loader"] == "tma" else attention


def made_how(attention: StreamingAttention) -> int:
    """How queries are made: as they are read, point by point, or with a norm."""
    if not isinstance(attention.q, ComputedQueries):
        return AS_READ
    return NORMED if attention.q.reductions else POINTWISE


_MMA_SYNC: Fields = {"mma": "mma.sync", "stages": 2}
_CP_ASYNC: Fields = {**_MMA_SYNC, "loader": "cp_async", "vectorize": 8}
_REGISTER: Fields = {**_MMA_SYNC, "loader": "register", "vectorize": 1}
_HIGH: Fields = {"tile": [128, 128], "warp_tile": [32]}
_FLAT: Fields = {"tile": [128, 32], "warp_tile": [32]}
_LOW: Fields = {"tile": [64, 64], "warp_tile": [16]}

_ANYWHERE = (
    AttentionVariant("cp_async", 64, {**_CP_ASYNC, **_HIGH}, PLAIN, queries=AS_READ),
    AttentionVariant("cp_async", 128, {**_CP_ASYNC, **_FLAT}, UNMASKED, queries=AS_READ),
    AttentionVariant("cp_async", 192, {**_CP_ASYNC, **_LOW}),
    AttentionVariant("cp_async", MAX_FEATURES, {**_CP_ASYNC, **_LOW}, BOUNDED),
    AttentionVariant("cp_async", MAX_FEATURES, {**_CP_ASYNC, **_LOW, "tile": [64, 32]}),
    AttentionVariant("scalar", 64, {**_REGISTER, **_HIGH}, UNMASKED, whole=True, queries=AS_READ),
    AttentionVariant("scalar", 128, {**_REGISTER, **_LOW}),
    AttentionVariant("scalar", MAX_FEATURES, {**_REGISTER, **_LOW, "tile": [64, 32]}),
)
"""Heads of 64 leave registers for 32 queries of a warp and 128 keys, which load K and V half as
often as 16 queries do.  Those of 128 leave them for 32 keys, of which a mask that cuts tiles would
cut more.  ``scalar`` takes tensors that start anywhere; its loads pass through registers."""

_FMA: Fields = {"mma": "fma", "stages": 2, "warp_tile": [16]}
_EXACT: Fields = {**_FMA, "loader": "cp_async", "vectorize": 4}
_EXACT_ANY: Fields = {**_FMA, "loader": "register", "vectorize": 1}

_BY_THREADS = (
    AttentionVariant("fma", 64, {**_EXACT, "tile": [128, 32], "warp_tile": [32]}, UNMASKED),
    AttentionVariant("fma", 64, {**_EXACT, "tile": [64, 64]}),
    AttentionVariant("fma", 128, {**_EXACT, "tile": [128, 32]}),
    AttentionVariant("fma", MAX_FEATURES, {**_EXACT, "tile": [32, 32]}),
    AttentionVariant("fma_any", 64, {**_EXACT_ANY, "tile": [128, 64]}),
    AttentionVariant("fma_any", 128, {**_EXACT_ANY, "tile": [64, 32]}),
    AttentionVariant("fma_any", MAX_FEATURES, {**_EXACT_ANY, "tile": [32, 32]}),
)
"""Of f32, by fused multiply-adds of the threads: a lane has four rows of the scores and of the
output, and each eighth column of them, or each fourth.  1024 queries of 64 heads of 64 take 454 us
by rows of 32 and steps of 32, 507 by steps of 64, and 513 by rows of 16; causal ones 378, 476 and
346 (H100)."""

_WGMMA: Fields = {
    "mma": "wgmma",
    "loader": "tma",
    "stages": 2,
    "vectorize": 8,
    "warp_tile": [64],
    "consumers": 2,
    "registers": [40, 232],
}
_WIDE: Fields = {**_WGMMA, "registers": [24, 240]}
_THREE: Fields = {**_WGMMA, "consumers": 3, "registers": [32, 160]}

_TMA = (
    AttentionVariant("tma", 64, {**_THREE, "tile": [192, 128]}, PLAIN, queries=POINTWISE),
    AttentionVariant("tma", 128, {**_WGMMA, "tile": [128, 128]}, PLAIN),
    AttentionVariant("tma", 128, {**_WGMMA, "tile": [128, 112]}, BOUNDED),
    AttentionVariant("tma", 192, {**_WGMMA, "tile": [128, 80]}, BOUNDED),
    AttentionVariant("tma", MAX_FEATURES, {**_WGMMA, "tile": [128, 64]}, UNMASKED, queries=AS_READ),
    AttentionVariant("tma", MAX_FEATURES, {**_WIDE, "tile": [128, 64]}, BOUNDED, queries=AS_READ),
    AttentionVariant("tma", 64, {**_THREE, "tile": [192, 96]}, ALONG, queries=POINTWISE),
    AttentionVariant("tma", 128, {**_WGMMA, "tile": [128, 128]}, ALONG),
    AttentionVariant("tma", 192, {**_WGMMA, "tile": [128, 80]}, ALONG),
    AttentionVariant("tma", 64, {**_THREE, "tile": [192, 96]}, BROUGHT, queries=AS_READ),
    AttentionVariant("tma", 64, {**_WGMMA, "tile": [128, 96]}),
    AttentionVariant("tma", 128, {**_WGMMA, "tile": [128, 80]}),
    AttentionVariant("tma", 192, {**_WGMMA, "tile": [128, 48]}),
    AttentionVariant("tma", MAX_FEATURES, {**_WIDE, "tile": [128, 32]}, queries=AS_READ),
)
"""A thread holds a row's part of the scores, of the weights and of the output: the wider the
heads, and the more a score is made of, the fewer keys at a step.  Narrow heads leave room for a
third warpgroup."""

_FULL = tuple(replace(v, beside=i not in (0, 3)) for i, v in enumerate(_ANYWHERE))
"""The same for sm_90a, where 128 queries and keys of heads of 64, and 64 keys of the widest, take
all registers there are."""

VARIANTS: Mapping[str, tuple[AttentionVariant, ...]] = {
    "sm_80": (*_ANYWHERE, *_BY_THREADS),
    "sm_90a": (*_TMA, *_FULL, *_BY_THREADS),
}
"""The variants of each architecture, fastest first; of one name, the first that takes the
attention.  Tiles lack the features, which are the head's."""
