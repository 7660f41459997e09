"""What a ``plan.schedule`` takes of the hardware: threads, shared memory and registers (S8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import cast

from polyc.dialects.gpu.tile.compute import FMA_VECTOR
from polyc.dialects.plan import attention as plan_attention
from polyc.dialects.plan.fields import SPREAD_SUMS, Record, record_of
from polyc.dialects.plan.schedule import Schedule

OPERAND_BYTES = 2
"""Bytes of a tensor-core operand element: f16 and bf16 (S0.1)."""

SUM_BYTES = 4
"""Bytes of an accumulator's element."""

MBARRIER_BYTES = 8

RESERVED = 1024
"""Bytes of shared memory that each CTA takes beside its own."""

WARPGROUP = 128
"""Threads of a warpgroup."""

WGMMA_OWN = 26
"""Registers of a thread that ptxas asks for beside the accumulators of a wgmma: of 8 to 256 columns
30 to 154 in all, or it refuses the kernel (C7602).  Beside all that is held while wgmmas are under
way it asks for as many, or it lets each end before the next begins (C7512), and spills."""

WGMMA_LEFT = 4
"""The same of a left operand that lies in registers."""

SHARED_ALIGN = 1024
"""A 128-byte swizzle pattern repeats every 1024 bytes; tiles start there."""

AHEAD: Mapping[str, Sequence[str]] = {
    "listed": ("links", "order", "fill", "parts"),
    "last": ("places",),
    "atomic": ("updates",),
}
"""The kernels that run ahead of a scatter's own, by its way."""

PASS = ("counts", "sums", "moves")
"""The kernels of a pass of a sort."""


MAPPED = "passes_mapped"
"""A sort in passes, the last of which computes what is made of what it gives."""


def passes_of(count: int) -> list[str]:
    """Those of so many passes, in their order."""
    return [f"{name}_{number}" for number in range(count) for name in PASS]


CLUSTERED = (2, 4, 8)
"""CTAs of a cluster that may share the steps of a product's tile."""

SHARED_COLUMNS = 8
"""Columns of an accumulator that four threads of a warp hold together: the least share of a CTA."""

STAGED_PAD = 8
"""Elements that rows of f32 have between them on their way through shared memory."""

STAGED_COLUMNS = (128, 64)
"""Columns of the output that are stored at once, the most first: whole panels of a swizzle."""

LOOSE_COLUMNS = (32, 16, 8)
"""The same of rows that threads store: they go in whole numbers along rows of so many."""

TURNED_COLUMNS = (32, 16)
"""The same of what is turned on its way: whole blocks of 16 by 16."""

EXCHANGED = 1024
"""Bytes of shared memory that warps exchange what they have of reductions in, at most."""

KEPT_REGISTERS, KEPT_WIDE = 48, 64
"""Registers that a thread that walks over kept rows has at least: of one tensor of 16 bits, and of
several, wider ones, or rows that lie side by side, of which a thread has several."""

KEPT_SINGLE = 128
"""The same of one that copies single elements of a row, each to a place of its own."""

WALKED = 80
"""The same of blocks that walk over rows together, which have what is on its way in registers."""


def registers_at_launch(registers: int, consumers: int) -> int:
    """Registers of each thread of a CTA of a producer's warpgroup and its ``consumers``, which has
    so many ``registers`` of a multiprocessor."""
    return min(256, registers // (WARPGROUP * (1 + consumers)) // 8 * 8)


def register_split(registers: int, consumers: int, producer: int) -> list[int]:
    """Registers of a ``producer``'s thread of such a CTA and of a consumer's: what the one leaves
    the others share."""
    whole = registers_at_launch(registers, consumers) * (1 + consumers)
    return [producer, min(232, (whole - producer) // consumers // 8 * 8)]


def launch_registers(split: Sequence[int], consumers: int) -> int:
    """Registers that a CTA takes whose producer and consumers have so many a thread: a thread gets
    a multiple of 8 at launch, before the roles share them out."""
    groups = 1 + consumers
    each = -(-(split[0] + consumers * split[1]) // (8 * groups)) * 8
    return WARPGROUP * groups * each


class ScheduleResources(Schedule):
    """A schedule that counts its resources, those of attention with their own formulas."""

    def threads(self) -> int:
        """Threads of a block: the consumers' and, with wgmma, one producer warpgroup's."""
        if self.mma.data == "wgmma":
            return self.warpgroup_threads
        if plan_attention.is_attention(self):
            return plan_attention.threads(self)
        m, n, _ = self.tile_sizes
        wm, wn = self.warp_tile_sizes
        return self.target.warp * (m // wm) * (n // wn)

    @property
    def clusters_parts(self) -> bool:
        """Whether the CTAs of a cluster can have the parts of a product's or convolution's tile."""
        parts = self.integer("split_k")
        shares = self.tile_sizes[1] % (SHARED_COLUMNS * parts) == 0 and parts in CLUSTERED
        return shares and self.mma.data == "wgmma" and self.pattern in ("matmul", "conv")

    @property
    def stores_sums(self) -> bool:
        """Whether the sums of a tile's parts go through memory, where a second kernel adds them:
        those of a product, a convolution or loops that says so, and of attention.
        """
        parts, pattern = self.integer("split_k"), self.pattern
        summed = self.summed_way in record_of(self.algo_choice).values()
        return parts > 1 and (summed or self.spreads_sums or pattern == plan_attention.PATTERN)

    @property
    def spreads_sums(self) -> bool:
        """Whether ``split_k`` blocks of loops share all tiles: the parts of each are counted when
        the kernel runs."""
        return record_of(self.algo_choice).get("loops") == SPREAD_SUMS

    @property
    def weighed(self) -> bool:
        """Whether the model of time says if it is worth a kernel beside the others of its region:
        sums that go through memory, and tiles of attention that are made for few queries.
        """
        return self.stores_sums or self.of_few_queries

    @property
    def moves_boxes(self) -> bool:
        """Whether a block of loops brings a box of a tensor to shared memory, and writes that."""
        return record_of(self.algo_choice).get("loops") == "boxes"

    @property
    def is_flat(self) -> bool:
        """Whether a block of loops has points of all axes of the outputs, as if these were one."""
        return record_of(self.algo_choice).get("loops") == "flat"

    @property
    def turns_outputs(self) -> bool:
        """Whether a block of loops turns what it stores in shared memory."""
        return record_of(self.algo_choice).get("loops") == "turned"

    @property
    def slides_windows(self) -> bool:
        """Whether a thread of loops has neighbours, whose windows share what they read."""
        return record_of(self.algo_choice).get("loops") == "windows"

    @property
    def slides_lines(self) -> bool:
        """Whether a thread of loops has neighbours of a line, along which windows slide."""
        return record_of(self.algo_choice).get("loops") == "lines"

    @property
    def resamples_lines(self) -> bool:
        """Whether a thread of loops has neighbours of a line, and brings what they read."""
        return record_of(self.algo_choice).get("loops") == "resampled"

    @property
    def resamples_rows(self) -> bool:
        """Whether a thread of loops has several rows of a vector, and brings what they read."""
        return record_of(self.algo_choice).get("loops") == "resampled_rows"

    @property
    def sorts_in_passes(self) -> bool:
        """Whether blocks sort rows together, in passes over memory."""
        return record_of(self.algo_choice).get("sorts") in ("passes", MAPPED)

    @property
    def maps_sorted(self) -> bool:
        """Whether the last of these computes what is made of what is sorted."""
        return record_of(self.algo_choice).get("sorts") == MAPPED

    @property
    def of_few_queries(self) -> bool:
        """Whether it is a schedule of attention for few queries and many keys."""
        return plan_attention.of_few_queries(self)

    @property
    def kernel_names(self) -> list[str]:
        """The names of the kernels that the schedule becomes, in their order."""
        if ahead := AHEAD.get(str(record_of(self.algo_choice).get("scatters"))):
            return [*(f"{self.kernel_name}_{name}" for name in ahead), self.kernel_name]
        if self.sorts_in_passes:
            names = [f"{self.kernel_name}_{name}" for name in passes_of(self.integer("stages"))]
            return [*names[:-1], self.kernel_name]
        return [self.kernel_name, *([f"{self.kernel_name}_sum"] if self.stores_sums else [])]

    @property
    def cluster_blocks(self) -> int:
        """The blocks of a cluster: with neighbouring tiles, or parts of one."""
        apart = self.stores_sums or self.takes_turns
        parts = 1 if apart else self.integer("split_k")
        return prod(self.integers("cluster")) * parts

    @property
    def products(self) -> int:
        """How many products share a tile's rows: as many as ``tensorize`` names."""
        return max(1, len(self.tensorize.data.split(", ")))

    def ring_bytes(self) -> int:
        """Bytes of a block's ring of stages, with a full and an empty mbarrier of 8 bytes each."""
        if plan_attention.is_attention(self):
            return plan_attention.tile_bytes(self)
        if self.mma.data == "none":
            return 0
        m, n, k = self.tile_sizes
        stages = self.integer("stages")
        barriers = 16 * stages if self.brings == "tma" else 0
        if self.loads_lines:
            m, n = m + FMA_VECTOR, n + FMA_VECTOR  # Behind lines that are turned.
        return stages * (m * k + self.products * k * n) * self.operand_bytes + barriers

    @property
    def loads_lines(self) -> bool:
        """Whether threads that multiply by themselves load rows and columns of one k ahead: an
        operand that lies along k is then turned on its way to shared memory."""
        return self.mma.data == "fma" and self.integer("fragment_buffers") > 1

    @property
    def staged_tile(self) -> tuple[int, int] | None:
        """[rows, columns] of the output's part that a block stores at once through shared memory:
        a persistent one by TMA, and any by threads where rows may begin at any element, or where
        it is turned.

        It has its own shared memory, as the ring fills for the next tile meanwhile: as much of it
        as the ring leaves.  None where threads store from registers.
        """
        m, n, _ = self.tile_sizes
        exact = self.mma.data == "fma"
        if plan_attention.is_attention(self) or self.stores_sums or exact:
            return None
        by_tma = self.mma.data == "wgmma" and self.brings == "tma"
        room = self.target.shared_bytes - SHARED_ALIGN - self.ring_bytes()
        row = m * self.operand_bytes * self.tiles_at_once
        # Whole panels of a swizzle, by bytes: half as many columns of f32.
        panels = [w * OPERAND_BYTES // self.operand_bytes for w in STAGED_COLUMNS]
        if self.turns_stores:
            if self.tensor_float:
                return None
            n //= self.integer("split_k")
            widths = [w for w in (*panels, *TURNED_COLUMNS) if n % w == 0] or [n]
        elif not self.stores_lines:
            if self.pattern not in ("matmul", "conv") or not self.target.wgmma:
                return None
            n //= self.integer("split_k")
            widths = [w for w in (*panels, *LOOSE_COLUMNS) if n % w == 0] or [n]
            if self.mma.data == "mma.sync":
                # Warps lie beside each other: all of their columns are stored at once, or none.
                return (m, n) if widths[0] == n and row * n <= room else None
        elif by_tma and self.flag("persistent"):
            widths = [w for w in panels if n % w == 0] or [n]
        else:
            return None
        width = next((w for w in widths if row * (w + self.staged_pad) <= room), None)
        if width is None:
            # Products of 16 bits have room by their rule, and are refused without it.
            loose = self.tensor_float or self.pattern == "conv"
            return None if loose else (m, widths[-1])
        return m, width

    @property
    def staged_pad(self) -> int:
        """Elements that rows of ``staged_tile`` are longer by in shared memory, so that four of a
        fragment of f32, of which a warp stores eight elements each at once, lie in all banks: where
        threads take them from there.  TMA takes its own swizzle.
        """
        by_threads = not self.stores_lines and not self.turns_stores
        return STAGED_PAD if self.operand_bytes == SUM_BYTES and by_threads else 0

    @property
    def tiles_at_once(self) -> int:
        """Tiles of the output that a block has in hand: consumers that take turns have one each."""
        return self.integer("consumers") if self.flag("pingpong") else 1

    def staged_bytes(self) -> int:
        """Bytes of ``staged_tile``, whose elements are as wide as the operands'."""
        staged = self.staged_tile
        if staged is None:
            return 0
        return self.tiles_at_once * staged[0] * (staged[1] + self.staged_pad) * self.operand_bytes

    def turned_bytes(self) -> int:
        """Bytes of the tiles in which threads that compute alone turn tensors, of 4 an element at
        most, each line with a word more than its elements."""
        m, n, _ = self.tile_sizes
        if self.keeps_rows or self.pattern == "scans":
            return 0
        return len(self.cache) * n * (m + 1) * SUM_BYTES if self.mma.data == "none" else 0

    @property
    def keeps_rows(self) -> bool:
        """Whether a block keeps rows in shared memory, as many chunks as its tile is deep."""
        return record_of(self.algo_choice).get("rows") == "kept"

    @property
    def walks_rows(self) -> bool:
        """Whether blocks walk over rows in chunks, once for each reduction that needs another."""
        return record_of(self.algo_choice).get("rows") == "streaming"

    @property
    def takes_turns(self) -> bool:
        """Whether a block keeps one row after another, or its chunks of each: where several blocks
        share a row, they meet in memory, or are a cluster where the plan says so.  Or whether such
        blocks walk over their chunks again and again, which are too many to be kept."""
        several = self.walks_rows and self.integer("split_k") > 1
        return (self.keeps_rows or several) and self.flag("persistent")

    @property
    def meets_in_memory(self) -> bool:
        """Whether the blocks that share rows are no cluster (``cluster``), but any on the chip."""
        parts = self.integer("split_k")
        return self.takes_turns and parts > 1 and prod(self.integers("cluster")) == 1

    @property
    def blocks_kept(self) -> int:
        """Blocks of a multiprocessor that keep rows, or walk over them together, by their shared
        memory and by registers."""
        arch, threads = self.target, self.threads()
        memory = (arch.shared_bytes + RESERVED) // (self.kept_bytes() + EXCHANGED + RESERVED)
        wide = self.kept_bytes() > OPERAND_BYTES * self.integer("stages") * prod(self.tile_sizes)
        wide = wide or self.tile_sizes[0] > 1
        each = WALKED if self.walks_rows else KEPT_WIDE if wide else KEPT_REGISTERS
        if self.keeps_rows and self.integer("vectorize") == 1:
            each = KEPT_SINGLE
        registers = arch.registers // (threads * each)
        return max(1, min(memory, registers, arch.threads * 2 // threads))

    def kept_bytes(self) -> int:
        """Bytes of rows, or of a scan's tiles, that a block keeps in shared memory, of each tensor
        in ``cache``: of as many as there are stages, where it takes one after another."""
        if not self.keeps_rows and self.pattern != "scans":
            return 0
        entries = cast("list[Record]", self.fields()["cache"])
        rows = self.integer("stages") * prod(self.tile_sizes)
        return rows * sum(int(entry.get("bytes", 0)) for entry in entries)

    def kept_element(self) -> int:
        """Bytes of an element of the narrowest tensor whose rows are kept, or 2 where the plan
        names none."""
        entries = cast("list[Record]", self.fields()["cache"])
        return min((int(entry.get("bytes", 0)) for entry in entries), default=OPERAND_BYTES)

    def combined_bytes(self) -> int:
        """Bytes into which the blocks that share a tile's steps put their sums of it in f32, and
        an mbarrier for each product; 0 where no others do."""
        parts = self.integer("split_k")
        if parts == 1 or plan_attention.is_attention(self) or self.mma.data != "wgmma":
            return 0
        if self.stores_sums:
            return 0
        m, n, _ = self.tile_sizes
        return self.products * (m * n * SUM_BYTES + MBARRIER_BYTES)

    def shared_bytes(self) -> int:
        """What a block's shared memory takes at most: the ring, the output's part, what other
        blocks put in, what is turned or kept, and room to align them."""
        room = SHARED_ALIGN if self.brings == "tma" else 0
        parts = (self.ring_bytes(), self.staged_bytes(), self.combined_bytes(), self.turned_bytes())
        return self.kept_bytes() + sum(parts) + room

    @property
    def at_once(self) -> int:
        """CTAs of a multiprocessor that an attention's register split and shared memory leave room
        for; 1 without a split, and of other patterns, whose CTAs are bound to no number.
        """
        split = self.integers("registers")
        if not split or not plan_attention.is_attention(self):
            return 1
        chip, taken = self.target, launch_registers(split, self.integer("consumers"))
        room = (chip.shared_bytes + RESERVED) // (self.shared_bytes() + RESERVED)
        return max(1, min(chip.registers // taken, room))

    @property
    def registers_begun(self) -> int:
        """Registers of a thread of wgmma's blocks at launch, for which ptxas makes code: each of
        its instructions finds its operands in these, whatever the roles have later."""
        threads = self.warpgroup_threads * self.at_once
        return min(255, self.target.registers // threads // 8 * 8)

    def registers_multiplied(self) -> int:
        """Registers of a thread that its widest wgmma takes at least: of a product with both
        operands in shared memory, of attention with the weights in registers."""
        if plan_attention.is_attention(self):
            _, keys, _ = self.tile_sizes
            _, width = self.warp_tile_sizes
            return max(keys // 2, width // 2 + WGMMA_LEFT) + WGMMA_OWN
        return self.warp_tile_sizes[1] // 2 + WGMMA_OWN

    def registers_held(self) -> int:
        """Registers of a consumer's thread that it needs at least while wgmmas are under way: its
        accumulators, of attention also the weights of the step before, and what these leave."""
        held = self.accumulator_registers()
        if plan_attention.is_attention(self):
            held += plan_attention.weight_registers(self)
        return held + WGMMA_OWN

    def accumulator_registers(self) -> int:
        """32-bit registers of a thread that hold its accumulators."""
        if plan_attention.is_attention(self):
            return plan_attention.accumulator_registers(self)
        wm, wn = self.warp_tile_sizes
        return self.products * wm * wn // (128 if self.mma.data == "wgmma" else self.target.warp)
