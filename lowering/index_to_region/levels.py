"""``index-to-region``: how much around a product is stored, the fewest values first (S11.1).

- ``CORE_WITH_QUERIES``: two products with a softmax between them stay together, as attention, with
  what makes the queries; what else they read and what they make is stored;
- ``CORE``: the same, and the queries are stored;
- ``CORE_BARE``: the same, and only what rounds the second one stays with it;
- ``CORE_PLAIN``: the same, and what the two read lies in memory as they read it;
- ``CORE_SPREAD``: the same, and with what repeats in what the first reads, whose scores others
  want;
- ``PAIR``: two products that share a factor and meet in elementwise ops stay together, with what
  follows them both;
- ``PAIR_PLAIN``: the same, and what the two read lies in memory as they read it;
- ``ROWS``: each product has a kernel of its own, with the ops that follow it alone, of which some
  reduce its short rows;
- ``ROWS_PLAIN``: the same of a convolution, whose factors lie in memory as it reads them;
- ``ALONE``: each product has a kernel of its own, with the elementwise ops that follow it alone;
- ``PLAIN``: its factors lie in memory as it reads them, no longer behind a movement;
- ``BARE``: it is rounded and stored, with what repeats along its rows or columns, as a bias; what
  followed that is a kernel of its own;
- ``SPREAD``: its factors lie in memory with what repeats in them, as windows or heads in groups do.
"""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """How much around a product is stored."""

    AS_IT_IS = 0
    CORE_WITH_QUERIES = 1
    CORE = 2
    CORE_BARE = 3
    CORE_PLAIN = 4
    CORE_SPREAD = 5
    PAIR = 6
    PAIR_PLAIN = 7
    ROWS = 8
    ROWS_PLAIN = 9
    ALONE = 10
    PLAIN = 11
    BARE = 12
    SPREAD = 13


LAST_TOGETHER = (Level.CORE_PLAIN, Level.CORE_SPREAD, Level.PAIR_PLAIN)
"""The last levels at which products stay together."""
