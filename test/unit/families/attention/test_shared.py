"""Heads that share keys, as their places in K and V show."""

from __future__ import annotations

import pytest

from polyc.families.attention.recognise import find_attention
from polyc.families.attention.shared import SharedKeys
from polyc.test.support.attention_programs import Attention


@pytest.mark.parametrize(
    ("q", "kv", "shared"),
    [
        ("[B, 32, M, 64]", "[B, 8, N, 64]", SharedKeys("i1", 4)),
        ("[B, 6, M, 64]", "[B, 2, N, 64]", SharedKeys("i1", 3)),
        ("[B, 8, M, 64]", "[B, 1, N, 64]", SharedKeys("i1", 8)),
        ("[B, 4 * H, M, 64]", "[B, H, N, 64]", SharedKeys("i1", 4)),
        ("[B, 8, M, 64]", "[B, 8, N, 64]", None),
        ("[H, M, 64]", "[H, N, 64]", None),
    ],
)
def test_neighbours_that_read_the_same_keys_share_them(
    q: str, kv: str, shared: SharedKeys | None
) -> None:
    assert find_attention(Attention(q, kv, kv, []).kernel()).shared == shared
