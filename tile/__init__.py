"""Kernels in Python: a function over tiles becomes a module of the gpu dialect's tile level.

    import polyc.tile as T

A kernel's function runs once and records ops, which carry the lines that made them.  What it
records is what ``examples/tile/*.mlir`` write as text; ``docs/tutorials/tile-python.md``
is the guide.

Everything is imported when it is first asked for: a jitted function that runs from the disk cache
asks for annotations alone.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from polyc.tile.flow import pipelined, roles, serial, tile_loop, turn, when
    from polyc.tile.functions import (
        abs,
        acos,
        acosh,
        add,
        apply,
        asin,
        asinh,
        atan,
        atanh,
        cast,
        cbrt,
        ceil,
        ceildiv,
        const,
        cos,
        cosh,
        divide,
        erf,
        exp,
        exp2,
        expm1,
        floor,
        fma,
        log,
        log1p,
        log2,
        log10,
        max,
        min,
        name,
        remainder,
        round,
        rsqrt,
        select,
        sigmoid,
        sin,
        sinh,
        sqrt,
        subtract,
        tan,
        tanh,
        trunc,
    )
    from polyc.tile.indices import Index, Size, index, size, sizes
    from polyc.tile.maps import parallel
    from polyc.tile.ops import (
        any,
        atomic,
        atomic_add,
        await_,
        barrier,
        block_id,
        clear,
        cluster_barrier,
        cluster_rank,
        copy,
        cp_async_commit,
        cp_async_wait,
        fill,
        gemm,
        grid_signal,
        grid_size,
        grid_wait,
        im2col,
        op,
        read,
        reduce,
        reduce_max,
        reduce_min,
        reduce_scatter,
        reduce_sum,
        scan,
        thread_id,
        tile_coordinates,
        tile_index,
    )
    from polyc.tile.programs import Program, kernel, launch, program, sequence, workspace
    from polyc.tile.scalars import Scalar
    from polyc.tile.specs import align, attributes, bf16, f16, f32, i1, i32
    from polyc.tile.tiles import (
        Fragment,
        Out,
        Ring,
        Shared,
        Tensor,
        Token,
        alloc_fragment,
        alloc_shared,
        annotate_layout,
        fragment_layout,
        order_barrier,
        ring,
        swizzle,
    )

inf = float("inf")
"""Infinity, the start of a minimum; its negative is that of a maximum."""

__all__ = [
    "Fragment",
    "Index",
    "Out",
    "Program",
    "Ring",
    "Scalar",
    "Shared",
    "Size",
    "Tensor",
    "Token",
    "abs",
    "acos",
    "acosh",
    "add",
    "align",
    "alloc_fragment",
    "alloc_shared",
    "annotate_layout",
    "any",
    "apply",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "atomic",
    "atomic_add",
    "attributes",
    "await_",
    "barrier",
    "bf16",
    "block_id",
    "cast",
    "cbrt",
    "ceil",
    "ceildiv",
    "clear",
    "cluster_barrier",
    "cluster_rank",
    "const",
    "copy",
    "cos",
    "cosh",
    "cp_async_commit",
    "cp_async_wait",
    "divide",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "f16",
    "f32",
    "fill",
    "floor",
    "fma",
    "fragment_layout",
    "gemm",
    "grid_signal",
    "grid_size",
    "grid_wait",
    "i1",
    "i32",
    "im2col",
    "index",
    "inf",
    "kernel",
    "launch",
    "log",
    "log1p",
    "log2",
    "log10",
    "max",
    "min",
    "name",
    "op",
    "order_barrier",
    "parallel",
    "pipelined",
    "program",
    "read",
    "reduce",
    "reduce_max",
    "reduce_min",
    "reduce_scatter",
    "reduce_sum",
    "remainder",
    "ring",
    "roles",
    "round",
    "rsqrt",
    "scan",
    "select",
    "sequence",
    "serial",
    "sigmoid",
    "sin",
    "sinh",
    "size",
    "sizes",
    "sqrt",
    "subtract",
    "swizzle",
    "tan",
    "tanh",
    "thread_id",
    "tile_coordinates",
    "tile_index",
    "tile_loop",
    "trunc",
    "turn",
    "when",
    "workspace",
]

_OFFERED = {
    name: place
    for place, names in {
        "flow": "pipelined roles serial tile_loop turn when",
        "functions": (
            "abs acos acosh add apply asin asinh atan atanh cast cbrt ceil ceildiv const cos "
            "cosh divide erf exp exp2 expm1 floor fma log log10 log1p log2 max min name "
            "remainder round rsqrt select sigmoid sin sinh sqrt subtract tan tanh trunc"
        ),
        "indices": "Index Size index size sizes",
        "maps": "parallel",
        "ops": (
            "any atomic atomic_add await_ barrier block_id clear cluster_barrier cluster_rank "
            "copy cp_async_commit cp_async_wait fill gemm grid_signal grid_size grid_wait "
            "im2col op read reduce reduce_max reduce_min reduce_scatter reduce_sum scan "
            "thread_id tile_coordinates tile_index"
        ),
        "programs": "Program kernel launch program sequence workspace",
        "scalars": "Scalar",
        "specs": "Out Tensor align attributes bf16 f16 f32 i1 i32",
        "tiles": (
            "Fragment Ring Shared Token alloc_fragment alloc_shared annotate_layout "
            "fragment_layout order_barrier ring swizzle"
        ),
    }.items()
    for name in names.split()
}
"""Where each name is that is imported when it is asked for."""


def __getattr__(name: str) -> object:
    """A name of ``_OFFERED``, imported now."""
    if (place := _OFFERED.get(name)) is not None:
        from importlib import import_module

        found = globals()[name] = getattr(import_module(f"polyc.tile.{place}"), name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OFFERED})
