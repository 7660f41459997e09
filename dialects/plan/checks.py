"""What the verifier asks of a ``plan.schedule``: known choices, and resources that suffice (S8).

Each check raises VerifyException; a resource that is exceeded says ``ResourceExceeded``.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.precision import F32X3
from polyc.dialects.gpu.tile.compute import CONTRACT_UNITS, fma_lanes
from polyc.dialects.gpu.tile.schedule import RASTERS
from polyc.dialects.plan import attention as plan_attention
from polyc.dialects.plan.fields import ALGORITHMS, record_of
from polyc.dialects.plan.resources import ScheduleResources

MMAS = ("wgmma", "mma.sync", "fma", "none")
LOADERS = ("tma", "cp_async", "register", "padded", "flat", "gather", "gather_async")
CP_ASYNC_BYTES = (4, 8, 16)
MAX_VECTOR_BYTES = 16


def shape_text(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def check_schedule(op: ScheduleResources) -> None:
    """All checks of a ``ScheduleOp``, in the order in which a reader would ask."""
    check_unique(op)
    check_choices(op)
    match "attention" if plan_attention.is_attention(op) else op.mma.data:
        case "attention":
            check_attention(op)
        case "wgmma":
            check_wgmma(op)
        case "mma.sync":
            check_mma_sync(op)
        case "fma":
            check_fma(op)
        case _:
            check_no_mma(op)
    if op.tensor_float:
        check_tensor_float(op)
    check_loader(op)
    check_edges(op)
    check_shared(op)


def check_unique(op: ScheduleResources) -> None:
    before = op.prev_op
    while before is not None:
        if (
            isinstance(before, type(op))
            and before.region == op.region
            and before.variant == op.variant
        ):
            raise VerifyException(
                f"region {op.region.string_value()} has two schedules of variant "
                f"{op.variant.data!r}; give one another name"
            )
        before = before.prev_op


def check_choices(op: ScheduleResources) -> None:
    arch = op.target
    _one_of("mma", op.mma.data, MMAS)
    _one_of("loader", op.loader.data, LOADERS)
    _one_of("raster", op.raster.data, RASTERS)
    for name, count in (("tile", 3), ("warp_tile", 2), ("cluster", 2)):
        sizes = op.integers(name)
        if len(sizes) != count or min(sizes) < 1:
            raise VerifyException(f"{name} is {list(sizes)}; it needs {count} sizes of at least 1")
    for pattern, way in record_of(op.algo_choice).items():
        if pattern not in ALGORITHMS:
            known = ", ".join(ALGORITHMS)
            raise VerifyException(f"algo_choice is for one of {known}, not for {pattern}")
        _one_of(f"algo_choice of {pattern}", str(way), ALGORITHMS[pattern])
    for name in ("consumers", "group", "split_k"):
        if op.integer(name) < 1:
            raise VerifyException(f"{name} is {op.integer(name)}; it is at least 1")
    stages = op.integer("stages")
    if not 2 <= stages <= 8 and (op.mma.data, stages) != ("none", 1):
        raise VerifyException(f"stages is {stages}; a ring has 2 to 8 stages")
    if op.raster.data == "hilbert" and (side := op.integer("group")) & (side - 1):
        raise VerifyException(
            f"group is {side}; a Hilbert curve fills squares whose side is a power of two"
        )
    blocks = op.integers("cluster")
    if blocks[0] * blocks[1] > arch.cluster:
        raise VerifyException(
            f"ResourceExceeded: a cluster of {shape_text(blocks)} has "
            f"{blocks[0] * blocks[1]} blocks, {arch.name} allows {arch.cluster}"
        )
    apart = op.stores_sums or op.takes_turns
    together = op.pattern in ("loops", "rows") and not apart
    most = arch.large_cluster if op.keeps_rows else arch.cluster
    if together and op.integer("split_k") > most:
        raise VerifyException(
            f"ResourceExceeded: split_k {op.integer('split_k')} is a cluster of as many blocks, "
            f"{arch.name} allows {most}"
        )
    if op.flag("multicast") and blocks[0] * blocks[1] == 1:
        raise VerifyException("multicast needs a cluster of more than one block")
    for fact in op.when.data:
        if (value := fact.expr.constant()) is not None and not (
            value == 0 if fact.kind == "==" else value >= 0
        ):
            raise VerifyException(f"the condition {fact} never holds; drop the variant")


def check_tensor_float(op: ScheduleResources) -> None:
    """Products of f32 on tensor cores, as TF32."""
    way = op.tensor_float
    if op.mma.data != "wgmma":
        there = "tiled" if op.pattern == "matmul" else "implicit_gemm"
        raise VerifyException(
            f"the way of {op.pattern} is {way}, which is one of wgmma, not of {op.mma.data}; use "
            f'"{there}"'
        )
    if way == F32X3 and op.loader.data != "padded":
        raise VerifyException(
            f"the way of matmul is {way}, whose parts are copied; the loader is padded, not "
            f"{op.loader.data}"
        )


def check_attention(op: ScheduleResources) -> None:
    plan_attention.check_tiles(op)
    if op.mma.data == "wgmma":
        check_has_wgmma(op)
    else:
        check_one_role(op)
    if op.threads() > op.target.threads:
        raise VerifyException(
            f"ResourceExceeded: {op.tile_sizes[0]} queries take {op.threads()} threads, "
            f"{op.target.name} allows {op.target.threads}"
        )
    rows, width = op.warp_tile_sizes
    what = f"warp_tile {rows}x{width} with {op.tile_sizes[1]} keys a step"
    check_registers(op, op.accumulator_registers(), what)
    if op.mma.data == "wgmma":
        check_split(op)
        check_multiplied(op, what)


def check_has_wgmma(op: ScheduleResources) -> None:
    if not op.target.wgmma:
        raise VerifyException(f"wgmma needs sm_90a, the plan is for {op.target.name}")


def check_wgmma(op: ScheduleResources) -> None:
    arch, consumers = op.target, op.integer("consumers")
    m, n, k = op.tile_sizes
    wm, wn = op.warp_tile_sizes
    check_has_wgmma(op)
    if (buffers := op.integer("fragment_buffers")) != 1:
        raise VerifyException(
            f"fragment_buffers is {buffers}, and wgmma has no operands in registers; drop it"
        )
    if wm % 64 or wn % 8 or wn > 256:
        raise VerifyException(
            f"warp_tile {wm}x{wn} does not fit wgmma m64nNk16: the first size is a "
            "multiple of 64, the second a multiple of 8 up to 256"
        )
    if k * op.operand_bytes % 32:
        raise VerifyException(
            f"BK is {k}; a wgmma step takes a multiple of {32 // op.operand_bytes}"
        )
    shared = {(wm * consumers, wn), (wm, wn * consumers)}
    if op.flag("pingpong") and consumers < 2:
        raise VerifyException("pingpong is of consumers that take turns, and there is 1; use 2")
    if (m, n) not in ({(wm, wn)} if op.flag("pingpong") else shared):
        raise VerifyException(f"{consumers} consumers of {wm}x{wn} do not make up the tile {m}x{n}")
    if op.warpgroup_threads > arch.threads:
        raise VerifyException(
            f"ResourceExceeded: a producer and {consumers} consumer warpgroups are "
            f"{op.warpgroup_threads} threads, {arch.name} allows {arch.threads}"
        )
    check_registers(op, op.accumulator_registers(), f"warp_tile {wm}x{wn}")
    check_split(op)
    check_multiplied(op, f"warp_tile {wm}x{wn}")


def check_split(op: ScheduleResources) -> None:
    """The register split against the pool that the block gets at launch."""
    split, consumers = op.integers("registers"), op.integer("consumers")
    if not split:
        return
    if len(split) != 2 or any(r % 8 or not 24 <= r <= 256 for r in split):
        raise VerifyException(
            f"registers is {list(split)}; it is [producer, consumer], each a multiple of 8 "
            "from 24 to 256 (PTX ISA, setmaxnreg)"
        )
    groups = 1 + consumers
    launch = min(256, op.target.registers // (128 * groups) // 8 * 8)
    wanted = split[0] + consumers * split[1]
    if wanted > launch * groups:
        raise VerifyException(
            f"ResourceExceeded: registers {split[0]} + {consumers} * {split[1]} = {wanted} "
            f"are over the {groups} * {launch} = {launch * groups} that {groups} warpgroups "
            "get at launch"
        )


def check_multiplied(op: ScheduleResources, what: str) -> None:
    """The registers that ptxas asks for where wgmma multiplies: it makes code for what threads have
    at launch, and consumers hold accumulators for as long as products are under way."""
    needed, begun = op.registers_multiplied(), op.registers_begun
    if needed > begun:
        raise VerifyException(
            f"ResourceExceeded: one wgmma of {what} takes {needed} registers a thread, and those "
            f"of {op.at_once} x {op.warpgroup_threads} threads begin with {begun}; make it "
            "smaller, or leave registers for fewer blocks at once"
        )
    split, held = op.integers("registers"), op.registers_held()
    given = split[1] if split else begun
    if held > given:
        raise VerifyException(
            f"ResourceExceeded: {what} takes at least {held} registers of a consumer's thread, and "
            f"{'the split gives' if split else 'it has'} {given}; make it smaller"
        )


def check_mma_sync(op: ScheduleResources) -> None:
    arch = op.target
    m, n, k = op.tile_sizes
    wm, wn = op.warp_tile_sizes
    if wm % 16 or wn % 16:
        raise VerifyException(
            f"warp_tile {wm}x{wn} is not a multiple of 16x16: a warp loads two m16n8k16 "
            "operands of b at once"
        )
    if k % 16:
        raise VerifyException(f"BK is {k}; an mma.sync step takes a multiple of 16")
    if m % wm or n % wn:
        raise VerifyException(f"warp_tile {wm}x{wn} does not divide the tile {m}x{n}")
    buffers = op.integer("fragment_buffers")
    if buffers not in (1, 2):
        raise VerifyException(
            f"fragment_buffers is {buffers}; a thread holds the operands of 1 or 2 steps over k"
        )
    if buffers == 2 and k % 32:
        raise VerifyException(
            f"BK is {k}; two fragment_buffers take turns in an even number of steps, so it is "
            "a multiple of 32"
        )
    check_one_role(op)
    if op.threads() > arch.threads:
        raise VerifyException(
            f"ResourceExceeded: tile {m}x{n} in warp tiles of {wm}x{wn} takes "
            f"{op.threads()} threads, {arch.name} allows {arch.threads}"
        )
    # k16 steps of both operands beside the accumulators: 4 and 2 registers a fragment.
    operands = (wm // 16 * 4 + wn // 8 * 2) * buffers
    check_registers(op, op.accumulator_registers() + operands, f"warp_tile {wm}x{wn}")
    per_block = op.accumulator_registers() * op.threads()
    if per_block > arch.registers:
        raise VerifyException(
            f"ResourceExceeded: the accumulators of tile {m}x{n} take {per_block} registers, "
            f"{arch.name} has {arch.registers}"
        )


def check_fma(op: ScheduleResources) -> None:
    """Threads that multiply f32 by themselves out of a ring of shared memory."""
    m, n, k = op.tile_sizes
    wm, wn = op.warp_tile_sizes
    *_, of_k = CONTRACT_UNITS["fma"]
    if op.pattern not in ("matmul", "conv"):
        raise VerifyException(
            f"fma multiplies matrices and windows of f32, and the plan is for "
            f"{op.pattern or 'nothing'}"
        )
    try:
        high, wide = fma_lanes(wm, wn)
    except ValueError as error:
        raise VerifyException(str(error)) from None
    if k % (2 * of_k):
        raise VerifyException(f"BK is {k}; fma takes a multiple of {2 * of_k}")
    if m % wm or n % wn:
        raise VerifyException(f"warp_tile {wm}x{wn} does not divide the tile {m}x{n}")
    if (buffers := op.integer("fragment_buffers")) not in (1, 2):
        raise VerifyException(f"fragment_buffers is 1 or 2, not {buffers}")
    if op.loader.data not in ("cp_async", "register"):
        raise VerifyException(
            f"fma is fed by cp_async or register, not by {op.loader.data}, which copies 16 bits"
        )
    if buffers == 2 and op.loader.data != "cp_async":
        raise VerifyException(
            "fma with fragment_buffers 2 reads operands that cp.async turns; load by cp_async, or "
            "make it 1"
        )
    if (parts := op.integer("split_k")) != 1 and not op.stores_sums:
        raise VerifyException(
            f"split_k is {parts}; with fma the sums of parts go through memory, by the way "
            f'"partial_sums" of algo_choice'
        )
    check_one_role(op)
    if op.threads() > op.target.threads:
        raise VerifyException(
            f"ResourceExceeded: tile {m}x{n} in warp tiles of {wm}x{wn} takes "
            f"{op.threads()} threads, {op.target.name} allows {op.target.threads}"
        )
    # Four steps of each line of an operand that is stored along k, or two of each of any, beside
    # the accumulators.
    operands = (wm // high + wn // wide) * (of_k if buffers == 1 else buffers)
    check_registers(op, op.accumulator_registers() + operands, f"warp_tile {wm}x{wn}")


def check_one_role(op: ScheduleResources) -> None:
    if op.integer("consumers") != 1 or op.flag("pingpong") or op.integers("registers"):
        raise VerifyException(
            "consumers, pingpong and registers belong to wgmma kernels; drop them"
        )


def check_no_mma(op: ScheduleResources) -> None:
    """Threads that compute alone: a warp tile is a warp's, and there is no ring."""
    m, n, _ = op.tile_sizes
    wm, wn = op.warp_tile_sizes
    for field, taken, there in (
        ("tensorize", op.tensorize.data, "empty"),
        (
            "loader",
            op.loader.data != "register" and not op.keeps_rows and op.pattern != "scans",
            "register",
        ),
        (
            "stages",
            op.integer("stages") != 1
            and not op.takes_turns
            and op.pattern not in ("scans", "sorts"),
            "1",
        ),
        ("fragment_buffers", op.integer("fragment_buffers") != 1, "1"),
        ("consumers", op.integer("consumers") != 1, "1"),
        ("pingpong", op.flag("pingpong"), "false"),
        ("registers", op.integers("registers"), "empty"),
        ("multicast", op.flag("multicast"), "false"),
        ("split_k", op.integer("split_k") != 1 and op.pattern not in ("loops", "rows"), "1"),
    ):
        if taken:
            raise VerifyException(
                f"{field} belongs to tensor-core kernels; with mma none it is {there}"
            )
    if m % wm or n % wn:
        raise VerifyException(f"warp_tile {wm}x{wn} does not divide the tile {m}x{n}")
    if wm * wn % op.target.warp:
        raise VerifyException(
            f"warp_tile {wm}x{wn} is {wm * wn} elements, no multiple of a warp's "
            f"{op.target.warp} threads"
        )
    if op.threads() > op.target.threads:
        raise VerifyException(
            f"ResourceExceeded: tile {m}x{n} in warp tiles of {wm}x{wn} takes "
            f"{op.threads()} threads, {op.target.name} allows {op.target.threads}"
        )
    check_registers(op, op.accumulator_registers(), f"warp_tile {wm}x{wn}")


def check_registers(op: ScheduleResources, needed: int, what: str) -> None:
    if needed > op.target.registers_thread:
        raise VerifyException(
            f"ResourceExceeded: {what} takes at least {needed} registers a thread, "
            f"{op.target.name} allows {op.target.registers_thread}; make it smaller"
        )


def check_loader(op: ScheduleResources) -> None:
    width = op.integer("vectorize")
    size = width * op.operand_bytes
    if width < 1 or width & (width - 1) or size > MAX_VECTOR_BYTES:
        raise VerifyException(
            f"vectorize is {width} elements, {size} bytes; a vector access is a power of two "
            f"of at most {MAX_VECTOR_BYTES} bytes"
        )
    if op.keeps_rows:
        # Of rows the plan says each tensor's own; wide vectors are several copies.
        size = min(width * op.kept_element(), max(CP_ASYNC_BYTES))
    if op.loader.data == "cp_async" and size not in CP_ASYNC_BYTES:
        raise VerifyException(
            f"cp.async copies 4, 8 or 16 bytes, vectorize {width} is {size} bytes; use the "
            "register loader"
        )
    if op.loader.data == "padded":
        if op.pattern != "matmul":
            raise VerifyException(
                f"the padded loader copies the operands of a product of matrices, and the plan is "
                f"for {op.pattern or 'nothing'}; use another loader"
            )
    elif op.loader.data == "flat":
        if op.pattern != "matmul" or op.mma.data != "wgmma":
            raise VerifyException(
                f"the flat loader brings rows of a product of matrices to wgmma, and the plan is "
                f"for {op.pattern or 'nothing'} by {op.mma.data}; use another loader"
            )
    elif op.gathers:
        if op.pattern not in ("matmul", "conv") or op.mma.data not in ("wgmma", "mma.sync"):
            raise VerifyException(
                f"the gather loader brings planes of pixels to tensor cores, and the plan is for "
                f"{op.pattern or 'nothing'} by {op.mma.data}; use another loader"
            )
        if any(op.integers("registers")):
            raise VerifyException(
                "threads of the producer load with the gather loader, and have as many registers "
                "as the others; leave registers out"
            )
    elif op.loader.data == "tma":
        if not op.target.tma:
            raise VerifyException(f"TMA needs sm_90a, the plan is for {op.arch.data}")
        if op.mma.data != "wgmma":
            raise VerifyException("the tma loader feeds wgmma; use cp_async with mma.sync")
    elif op.mma.data == "wgmma":
        raise VerifyException(f"wgmma is fed by the tma loader, not by {op.loader.data}")


def check_edges(op: ScheduleResources) -> None:
    for edge in map(record_of, op.local_edges.data):
        buffer = edge.get("buffer")
        if "from" not in edge or "to" not in edge or buffer not in ("reg", "smem_ring"):
            raise VerifyException(
                f"a local edge has from, to and a buffer, reg or smem_ring; got {edge}"
            )
        depth = edge.get("depth")
        if buffer == "smem_ring" and not (type(depth) is int and 2 <= depth <= 8):
            raise VerifyException(f"an smem_ring has a depth of 2 to 8, got {depth or 'none'}")


def check_shared(op: ScheduleResources) -> None:
    needed, limit = op.shared_bytes(), op.target.shared_bytes
    if needed > limit:
        m, n, k = op.tile_sizes
        raise VerifyException(
            f"ResourceExceeded: tile {m}x{n}x{k} with {op.integer('stages')} stages takes "
            f"{needed} bytes of shared memory, {op.arch.data} allows {limit}; lower stages "
            "or the tile"
        )


def _one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise VerifyException(f"{name} is {value!r}; it is one of {', '.join(allowed)}")
