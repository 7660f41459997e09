"""The gpu dialect: how a kernel runs, in two levels (requirements S9, T2, T3).

``types`` has types and attributes, ``waiting`` those of what is waited for, ``binding`` what the
host passes, ``module`` the containers, ``kernel`` what runs on the chip, ``launches`` what the host
starts, ``tile`` the tile level that an author thinks in, ``hardware`` one op for each thing that an
SM does.
"""

from xdsl.ir import Dialect

from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import HARDWARE_OPS
from polyc.dialects.gpu.im2col import IM2COL_TYPES
from polyc.dialects.gpu.module import MODULE_OPS
from polyc.dialects.gpu.target import TargetAttr
from polyc.dialects.gpu.tile import TILE_OPS
from polyc.dialects.gpu.types import TYPES
from polyc.dialects.gpu.waiting import WAITING_TYPES

Gpu = Dialect(
    "gpu",
    [*MODULE_OPS, *TILE_OPS, *HARDWARE_OPS],
    [*TYPES, *WAITING_TYPES, BindAttr, *IM2COL_TYPES, TargetAttr],
)
