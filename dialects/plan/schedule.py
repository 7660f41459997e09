"""The fields of a ``plan.schedule``, for what reads them below the op itself (S8.1)."""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def

from polyc.dialects.common.arch import ARCHS, Arch
from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.plan.fields import (
    FIELDS,
    IN_PARTS,
    MERGED_ROWS,
    PRECISION_OF,
    SUMMED,
    TURNED_STORE,
    Record,
    Value,
    from_attr,
    ints_of,
    record_of,
)


class Schedule(IRDLOperation):
    """The fields of a ``plan.schedule`` (S8.1).

    ``region``          the ``region.kernel`` that it schedules
    ``variant``         the variant's name, unique among the region's schedules
    ``when``            facts about the symbols under which the variant may run (S9.3)
    ``arch``            ``sm_80`` or ``sm_90a``
    ``tensorize``       the name of the reduction that runs on the tensor cores; empty for none;
                        several, with a comma and a space between, share one operand's tiles.
                        In attention it names the scores; the product with V comes along
    ``mma``             ``wgmma``, ``mma.sync``, or ``none`` for threads that compute alone
    ``loader``          how operands come in: ``tma``, ``cp_async`` or ``register``; or ``padded``,
                        where launches before the kernel copy them to rows of whole panels, and
                        TMA (mma.sync: cp.async of 16 bytes) brings those; or ``flat``,
                        where TMA takes the rows of one operand that a step has as one, or
                        ``gather``, where threads, of the producer if there is one, load one
                        operand along its rows, which are planes of pixels, and TMA or cp.async
                        brings the other; ``gather_async``, where threads do so by cp.async
    ``tile``            [BM, BN, BK], the elements that one block computes at a step; of attention
                        queries, keys and features; of rows that are kept, how many chunks BK are
    ``stages``          depth of the shared-memory ring, 2 to 8; 1 where there is none; of a
                        chain of scans how many tiles a block has begun at once; of a
                        sort in passes how many these are
    ``warp_tile``       [WM, WN] of one warp (mma.sync) or consumer warpgroup (wgmma); of attention
                        queries and features of V
    ``fragment_buffers``  steps over k whose operands a thread of mma.sync holds: 1, or 2 to load
                        one step ahead
    ``consumers``       consumer warpgroups of a wgmma kernel; 1 for mma.sync
    ``pingpong``        each consumer has a tile of its own; else they share one
    ``registers``       registers of a thread of [producer, consumer]; empty: no split
    ``cluster``         [m, n] tiles that the blocks of a cluster take together; ``multicast``
                        shares loads in it
    ``raster``          order of the tiles: ``row``, ``column``, ``grouped`` by ``group`` rows, and
                        of persistent kernels ``shorter``, ``hilbert`` (``gpu.tile_loop``)
    ``split_k``         blocks that share one tile's reduction, the keys of a tile of attention, or
                        the chunks of one row, at most where a team's sizes are open
    ``persistent``      blocks loop over tiles
    ``vectorize``       elements of one global access, along ``vectorize_axis``
    ``bind``            axis to hardware index, such as ``m.o`` to ``block.y``
    ``cache``           tensors kept in shared memory: tensor, where, at, pingpong
    ``predicate_tail``  axes whose last tile is guarded
    ``epilogue``        what is applied to the accumulator, in order
    ``layout_hints``    swizzles and output strides
    ``algo_choice``     the algorithm of each contraction
    ``local_edges``     values handed on by ``reg`` or ``smem_ring`` (with its depth)
    ``notes``           what the compiler gave up to fit the resources (S8.2)
    """

    region = prop_def(SymbolRefAttr)
    variant = prop_def(StringAttr)
    when = prop_def(AssumptionsAttr)
    arch = prop_def(StringAttr)
    tensorize = prop_def(StringAttr)
    mma = prop_def(StringAttr)
    loader = prop_def(StringAttr)
    tile = prop_def(DenseArrayBase)
    stages = prop_def(IntegerAttr)
    warp_tile = prop_def(DenseArrayBase)
    fragment_buffers = prop_def(IntegerAttr)
    consumers = prop_def(IntegerAttr)
    pingpong = prop_def(BoolAttr)
    registers = prop_def(DenseArrayBase)
    cluster = prop_def(DenseArrayBase)
    multicast = prop_def(BoolAttr)
    raster = prop_def(StringAttr)
    group = prop_def(IntegerAttr)
    split_k = prop_def(IntegerAttr)
    persistent = prop_def(BoolAttr)
    vectorize = prop_def(IntegerAttr)
    vectorize_axis = prop_def(StringAttr)
    bind = prop_def(DictionaryAttr)
    cache = prop_def(ArrayAttr[DictionaryAttr])
    predicate_tail = prop_def(ArrayAttr[StringAttr])
    epilogue = prop_def(ArrayAttr[StringAttr])
    layout_hints = prop_def(DictionaryAttr)
    algo_choice = prop_def(DictionaryAttr)
    local_edges = prop_def(ArrayAttr[DictionaryAttr])
    notes = opt_prop_def(ArrayAttr[StringAttr])

    def fields(self) -> dict[str, Value]:
        """Every field's plain value, in the order of ``FIELDS``."""
        return {
            f.name: from_attr(self.properties[f.name]) for f in FIELDS if f.name in self.properties
        }

    def integer(self, name: str) -> int:
        """The value of an integer field."""
        return cast("IntegerAttr", self.properties[name]).value.data

    def integers(self, name: str) -> tuple[int, ...]:
        """The values of a field that lists integers."""
        return ints_of(cast("DenseArrayBase[IntegerType]", self.properties[name]))

    def flag(self, name: str) -> bool:
        """The value of a boolean field."""
        return bool(self.integer(name))

    @property
    def target(self) -> Arch:
        """The architecture's limits."""
        return ARCHS[self.arch.data]

    @property
    def warpgroup_threads(self) -> int:
        """Threads of a block of wgmma: a producer warpgroup's and the consumers'."""
        return 128 * (1 + self.integer("consumers"))

    @property
    def pattern(self) -> str | None:
        """What ``algo_choice`` says that the region is; None where it does not name one thing."""
        named = list(self.algo_choice.data)
        return named[0] if len(named) == 1 else None

    @property
    def gathers(self) -> bool:
        """Whether threads load one operand along its rows, by registers or by cp.async."""
        return self.loader.data in ("gather", "gather_async")

    @property
    def brings(self) -> str:
        """How tiles come to shared memory: by ``tma``, ``cp_async`` or ``register``."""
        if self.loader.data == "flat":
            return "tma"
        if self.loader.data != "padded" and not self.gathers:
            return self.loader.data
        return "tma" if self.mma.data == "wgmma" else "cp_async"

    @property
    def tensor_float(self) -> str | None:
        """The precision of products of f32 on tensor cores, ``tf32`` or ``f32x3``; None of
        others."""
        choice = record_of(self.algo_choice)
        return PRECISION_OF.get(str(choice.get("matmul", choice.get("conv"))))

    @property
    def whole_way(self) -> str:
        """The way of a product or a convolution each of whose tiles is one block's."""
        return self.tensor_float or ("tiled" if self.pattern == "matmul" else "implicit_gemm")

    @property
    def summed_way(self) -> str:
        """The way of what it multiplies whose parts are added by a second kernel."""
        return SUMMED if self.tensor_float is None else IN_PARTS[self.tensor_float]

    @property
    def merges_rows(self) -> bool:
        """Whether rows of a tile go on in the next matrix of a batch, or the next image, and are
        columns of what is stored."""
        return MERGED_ROWS in record_of(self.algo_choice).values()

    @property
    def turns_stores(self) -> bool:
        """Whether rows of a tile are columns of what is stored, merged or of one matrix."""
        return self.merges_rows or TURNED_STORE in record_of(self.algo_choice).values()

    @property
    def operand_bytes(self) -> int:
        """Bytes of an element of a product's operands: tensor cores take 16 bits but where a
        precision of f32 is theirs, threads f32."""
        return 4 if self.mma.data == "fma" or self.tensor_float else 2

    @property
    def widest(self) -> int:
        """Elements that its addresses are multiples of at most, as wide accesses of them are.

        An operand that ``padded`` need not copy is brought as copies are, by 16 bytes, and so is
        that which ``gather`` leaves to TMA.
        """
        wide = 16 // self.operand_bytes
        return wide if self.loader.data == "padded" or self.gathers else self.integer("vectorize")

    @property
    def stores_lines(self) -> bool:
        """Whether rows of its outputs are whole vectors of 16 bytes, as TMA stores them.

        What copies operands, a convolution, a product of f32, and what is turned may have others:
        ``vectorize`` says it.
        """
        always = self.loader.data == "tma" and self.pattern != "conv"
        always = always and not self.turns_stores and self.tensor_float is None
        return always or self.integer("vectorize") * self.operand_bytes == 16

    @property
    def cached(self) -> list[str]:
        """The tensors that are kept in shared memory."""
        return [
            cast(str, entry["tensor"]) for entry in cast("list[Record]", self.fields()["cache"])
        ]

    @property
    def kernel_name(self) -> str:
        """The name of the kernel that the schedule becomes."""
        return f"{self.region.string_value()}_{self.variant.data}"

    @property
    def tile_sizes(self) -> tuple[int, int, int]:
        """BM, BN, BK in elements."""
        m, n, k = self.integers("tile")
        return m, n, k

    @property
    def warp_tile_sizes(self) -> tuple[int, int]:
        """WM, WN in elements."""
        m, n = self.integers("warp_tile")
        return m, n
