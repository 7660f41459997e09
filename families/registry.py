"""The families of regions, in the order in which ``plan-select`` asks them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from polyc.families.attention.schedules import ATTENTION
from polyc.families.conv.schedules import CONV
from polyc.families.family import Family
from polyc.families.loops.schedules import LOOPS
from polyc.families.matmul.schedules import GEMM
from polyc.families.rows.schedules import ROWS
from polyc.families.scans.schedules import SCANS
from polyc.families.scatters.schedules import SCATTERS
from polyc.families.sorts.schedules import SORTS

FAMILIES: tuple[Family[Any], ...] = (
    *(GEMM, CONV, ATTENTION, ROWS, SORTS, SCATTERS, SCANS),
    LOOPS,
)
"""The first that takes a region has it.  The last one takes every region that none of the others
is alone for: one without a sort, a scatter or a scan."""

BY_NAME: Mapping[str, Family[Any]] = MappingProxyType({f.name: f for f in FAMILIES})
"""The families by the key of their plans' ``algo_choice``."""
