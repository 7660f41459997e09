"""softmax, RMSNorm and LayerNorm of rows: the twins of softmax.mlir, softmax_two_pass.mlir,
rms_norm.mlir and layer_norm.mlir.

A row is held by a warp, a block, a block's shared memory, that of all CTAs of the grid or of a
cluster, by its length, and each element is read once.  The three norms differ in what they reduce
and in what they write; how rows are held and walked is the same code.
"""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

from collections.abc import Callable
from typing import Any

import polyc.tile as T

M, N = T.sizes("M", "N")

CONSTANTS: dict[str, Callable[[], Any]] = {
    "zero": lambda: T.const(0),
    "one": lambda: T.const(1),
    "lowest": lambda: T.const(-T.inf, T.f32),
    "nothing": lambda: T.const(0.0, T.f32),
    "least": lambda: T.const(-3.40282347e38, T.f32),
    "log2e": lambda: T.const(1.44269502, T.f32),
    "unit": lambda: T.const(1.0, T.f32),
    "epsilon": lambda: T.const(1.0e-05, T.f32),
}


WIDTH = 8192
"""Columns of a CTA that shares its rows with others."""

MEMBERS = 256
"""CTAs that may share a row: each thread of a CTA reads what one of them told."""

TOLD = {"softmax": ("top", "sum"), "rms_norm": ("sum",), "layer_norm": ("mean", "sum")}
"""The statistics of a CTA's columns that it tells the others."""


class Rows:
    """A kernel over rows while it is written: its tensors, constants and fragments by name."""

    zero: Any
    one: Any
    lowest: Any
    nothing: Any
    least: Any
    log2e: Any
    unit: Any
    epsilon: Any
    half: Any
    wide: Any
    squares: Any
    weight: Any
    bias: Any
    part: Any
    new: Any
    most: Any
    top: Any
    sum: Any
    mean: Any
    all_tops: Any
    all_sums: Any
    all_means: Any
    columns: Any
    weighted: Any
    at: Any

    def __init__(self, op: str, tensors: list[T.Tensor], shape: tuple[int, int], vectors: bool):
        self.op, self.shape = op, shape
        self.X, self.Y = tensors[0], tensors[-1]
        self.weights = tensors[1:-1]
        self.vectors = vectors

    def constants(self, *names: str) -> None:
        for name in names:
            setattr(self, name, T.name(CONSTANTS[name](), name))

    def fragments(self, shape, kind, *names: str) -> None:
        for name in names:
            setattr(self, name, T.name(T.alloc_fragment(shape, kind), name))

    def row_length(self) -> None:
        whole = T.cast(N, T.i32)
        length = T.cast(whole, T.f32)
        self.length = length

    def column(self):
        """The element's column, or its vector's first: vectors are inside or outside whole."""
        at = T.tile_index(1)
        of = at
        if self.vectors:
            of = at // 8 * 8
        return of

    # Steps ---------------------------------------------------------------------------

    def widen(self, masked=None, start=None) -> None:
        """``half`` to ``wide``; what lies beyond the row becomes ``masked``."""
        half, wide = self.half, self.wide
        with T.parallel(half) as (i, j):
            e = half[i, j]
            f = T.cast(e, T.f32)
            if masked is None:
                wide[i, j] = f
            else:
                place = self.column()
                if start is not None:
                    place = T.add(place, start)
                inside = place < N
                v = T.select(inside, f, masked)
                wide[i, j] = v

    def invert_root(self) -> None:
        """``sum``, of squares, to 1 / sqrt(sum / N + epsilon)."""
        sum = self.sum
        with T.parallel(sum) as (i,):
            e = sum[i]
            v = e / self.length
            a = v + self.epsilon
            r = T.rsqrt(a)
            sum[i] = r

    def divide_mean(self, count) -> None:
        mean = self.mean
        with T.parallel(mean) as (i,):
            e = mean[i]
            m = e / count
            mean[i] = m

    def invert_sum(self) -> None:
        sum = self.sum
        with T.parallel(sum) as (i,):
            e = sum[i]
            r = self.unit / e
            sum[i] = r

    def load_weights(self, at, suffix: str = "") -> None:
        for tensor, name in zip(self.weights, ("weight", "bias"), strict=False):
            T.copy(tensor[at], getattr(self, name + suffix))

    # Rows in registers -----------------------------------------------------------------

    def in_registers(self) -> None:
        """A row, or four, in registers from its first read to its last write."""
        rows, _ = self.shape
        block = T.block_id()
        row = block
        if rows > 1:
            row = block * rows
        if self.op == "softmax":
            self.constants("zero", "lowest", "log2e", "unit")
        elif self.op == "rms_norm":
            self.constants("zero", "unit", "epsilon")
        else:
            self.constants("zero", "unit", "epsilon", "nothing")
        if self.op != "softmax":
            self.row_length()
        self.fragments(self.shape, T.f16, "half")
        self.fragments(self.shape, T.f32, "wide")
        statistics = {
            "softmax": ("top", "sum"),
            "rms_norm": ("sum",),
            "layer_norm": ("mean", "sum"),
        }
        self.fragments((rows,), T.f32, *statistics[self.op])
        T.copy(self.X[row, self.zero], self.half)
        getattr(self, f"{self.op}_in_registers")(row)

    def softmax_in_registers(self, row) -> None:
        half, wide, top, sum = self.half, self.wide, self.top, self.sum
        self.widen(masked=self.lowest)
        T.reduce("max", wide, top)
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            t = top[i]
            d = e - t
            l = d * self.log2e  # noqa: E741
            p = T.exp2(l, approximate=True)
            wide[i, j] = p
        T.reduce("sum", wide, sum)
        self.invert_sum()
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            r = sum[i]
            p = e * r
            y = T.cast(p, T.f16)
            half[i, j] = y
        T.copy(half, self.Y[row, self.zero])

    def rms_norm_in_registers(self, row) -> None:
        wide, sum = self.wide, self.sum
        (weight,) = self.weights
        self.fragments(self.shape, T.f32, "squares")
        squares = self.squares
        self.widen()
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            p = e * e
            squares[i, j] = p
        T.reduce("sum", squares, sum)
        self.invert_root()
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            r = sum[i]
            g = weight[j]
            n = e * r
            k = T.cast(g, T.f32)
            p = n * k
            y = T.cast(p, T.f16)
            self.Y[i + row, j] = y

    def layer_norm_in_registers(self, row) -> None:
        wide, mean, sum = self.wide, self.mean, self.sum
        weight, bias = self.weights
        self.fragments(self.shape, T.f32, "squares")
        squares = self.squares
        self.widen()
        T.reduce("sum", wide, mean)
        self.divide_mean(self.length)
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            m = mean[i]
            d = e - m
            place = self.column()
            inside = place < N
            c = T.select(inside, d, self.nothing)
            p = c * c
            wide[i, j] = d
            squares[i, j] = p
        T.reduce("sum", squares, sum)
        self.invert_root()
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            r = sum[i]
            g = weight[j]
            o = bias[j]
            n = e * r
            k = T.cast(g, T.f32)
            p = n * k
            z = T.cast(o, T.f32)
            a = p + z
            y = T.cast(a, T.f16)
            self.Y[i + row, j] = y

    # Rows in chunks: parts of the threads, then of the row --------------------------------

    def by_part(self, i, j):
        """The thread whose part of the statistics an element counts for."""
        return j // 8 if self.vectors else j % 256

    def chunk_constants(self) -> None:
        self.constants("zero", "one")
        if self.op == "softmax":
            self.constants("lowest", "least", "nothing", "log2e", "unit")
        else:
            self.constants("nothing", "epsilon")
            self.row_length()

    def chunk_fragments(self, parts: int, ahead: bool = False) -> None:
        width = self.shape[1]
        self.fragments(self.shape, T.f16, "half")
        self.fragments(self.shape, T.f32, "wide")
        self.fragments((parts,), T.f32, "part")
        names = ("weight", "bias")[: len(self.weights)]
        if self.op == "softmax":
            self.fragments((parts,), T.f32, "new", "most")
            self.fragments((1,), T.f32, "top", "sum")
        else:
            self.fragments((width,), T.f16, *names)
            self.fragments((1,), T.f32, *(("mean",) if self.op == "layer_norm" else ()), "sum")
        if ahead and names:
            self.fragments((width,), T.f16, *(f"{name}_next" for name in names))
            self.two = T.name(T.const(2), "two")

    def online(self, start) -> None:
        """Each part's maximum and sum over one more chunk."""
        wide, new, most, part = self.wide, self.new, self.most, self.part
        self.widen(self.lowest, start)
        T.reduce("max", wide, new, by=lambda i, j: self.by_part(i, j))
        with T.parallel(new) as (i,):
            e = new[i]
            o = most[i]
            q = part[i]
            n = T.max(e, o)
            d = o - n
            l = d * self.log2e  # noqa: E741
            f = T.exp2(l, approximate=True)
            t = q * f
            most[i] = n
            part[i] = t
        with T.parallel(wide) as (i, j):
            e = wide[i, j]
            z = most[self.by_part(i, j)]
            d = e - z
            l = d * self.log2e  # noqa: E741
            p = T.exp2(l, approximate=True)
            wide[i, j] = p
        self.add_parts()

    def add_parts(self) -> None:
        T.reduce("sum", self.wide, self.part, by=lambda i, j: self.by_part(i, j), accumulate=True)

    def square_sum(self, start) -> None:
        """The parts' sums of squares, of differences from the mean for LayerNorm."""
        half, wide = self.half, self.wide
        with T.parallel(half) as (i, j):
            e = half[i, j]
            if self.op == "layer_norm":
                m = self.mean[i]
                f = T.cast(e, T.f32)
                d = f - m
                of = self.column()
                place = T.add(of, start)
                inside = place < N
                c = T.select(inside, d, self.nothing)
                p = c * c
            else:
                f = T.cast(e, T.f32)
                p = f * f
            wide[i, j] = p
        self.add_parts()

    def settle(self, cluster: bool) -> None:
        """The parts' maxima and sums to the row's."""
        most, top, part = self.most, self.top, self.part
        T.reduce("max", most, top, by=lambda i: 0, cluster=cluster)
        with T.parallel(most) as (i,):
            e = most[i]
            t = top[0]
            q = part[i]
            d = e - t
            l = d * self.log2e  # noqa: E741
            f = T.exp2(l, approximate=True)
            n = q * f
            part[i] = n
        self.sum_of_parts(self.sum, cluster)

    def sum_of_parts(self, into, cluster: bool) -> None:
        T.reduce("sum", self.part, into, by=lambda i: 0, cluster=cluster)

    def statistics(
        self, load, loop, cluster: bool = False, before=lambda: None, told: bool = False
    ) -> None:
        """All passes over a row but the last: ``loop`` walks chunks, ``load`` gets one.

        What is ``told`` to others is of this CTA's columns alone, and not yet what rows are
        multiplied with.
        """

        def first(j) -> None:
            load(0)
            if self.op == "softmax":
                self.online(j)
            elif self.op == "rms_norm":
                self.square_sum(j)
            else:
                self.widen()
                self.add_parts()

        def second(j) -> None:
            load(1)
            self.square_sum(j)

        if self.op == "softmax":
            # Finite, so that nothing is subtracted from itself where a part has no element yet.
            T.fill(self.most, self.least)
        T.fill(self.part, self.nothing)
        loop(first, 0)
        if self.op == "softmax":
            self.settle(cluster)
            if not told:
                self.invert_sum()
            return
        if self.op == "layer_norm":
            self.sum_of_parts(self.mean, cluster)
            self.divide_mean(self.own if told else self.length)
            T.fill(self.part, self.nothing)
            loop(second, 1)
        before()
        self.sum_of_parts(self.sum, cluster)
        if not told:
            self.invert_root()

    def write(self, suffix: str = "") -> None:
        """The result of a chunk, in the place of ``half``."""
        half, sum = self.half, self.sum
        with T.parallel(half) as (i, j):
            e = half[i, j]
            if self.op == "softmax":
                t = self.top[i]
                r = sum[i]
                f = T.cast(e, T.f32)
                d = f - t
                l = d * self.log2e  # noqa: E741
                p = T.exp2(l, approximate=True)
                n = p * r
                y = T.cast(n, T.f16)
            else:
                if self.op == "layer_norm":
                    m = self.mean[i]
                r = sum[i]
                g = getattr(self, f"weight{suffix}")[j]
                if self.op == "layer_norm":
                    o = getattr(self, f"bias{suffix}")[j]
                f = T.cast(e, T.f32)
                if self.op == "layer_norm":
                    d = f - m
                    n = d * r
                else:
                    n = f * r
                k = T.cast(g, T.f32)
                p = n * k
                if self.op == "layer_norm":
                    z = T.cast(o, T.f32)
                    a = p + z
                    y = T.cast(a, T.f16)
                else:
                    y = T.cast(p, T.f16)
            half[i, j] = y

    def last_pass(self, chunks, place, load, store, ahead: bool, unroll: bool) -> None:
        """Writes ``chunks`` chunks; with ``ahead`` the weights come a chunk before their use."""
        if not ahead or not self.weights:
            with T.serial(self.zero, chunks, self.one, unroll=unroll) as i:
                j, slot = place(i, "")
                load(i, slot, "")
                self.load_weights(j)
                self.write()
                store(j)
            return
        with T.serial(self.zero, chunks, self.two, unroll=unroll) as i:
            for q, suffix, other in (("", "", "_next"), ("1", "_next", "")):
                at = i
                if q:
                    i1 = i + 1
                    at = i1
                j, slot = place(at, q)
                beyond = T.name(j + self.shape[1], f"ahead{q}")
                self.load_weights(beyond, other)
                load(at, slot, q)
                self.write(suffix)
                store(j)

    def from_memory(self, width: int) -> None:
        """A row a CTA, read again in every pass."""
        row = T.block_id()
        self.chunk_constants()
        step = T.const(width)
        self.chunk_fragments(256)

        def load(_) -> None:
            T.copy(self.X[row, self.at], self.half)

        def loop(function, _) -> None:
            with T.serial(self.zero, N, step) as j:
                self.at = j
                function(j)

        def last(j) -> None:
            load(2)
            self.load_weights(j)
            self.write()
            T.copy(self.half, self.Y[row, j])

        self.statistics(load, loop)
        loop(last, 2)

    def in_shared_memory(self, depth: int, threads: int) -> None:
        """A row a CTA that waits in shared memory; each thread reads what it copied itself."""
        width = self.shape[1]
        row = T.block_id()
        self.chunk_constants()
        chunks = T.const(depth)
        kept = T.alloc_shared(self.shape, T.f16, ring=depth)
        self.chunk_fragments(threads)

        def loop(function, _) -> None:
            with T.serial(self.zero, chunks, self.one, unroll=True) as i:
                j = i * width
                self.at = i
                function(j)

        loop(lambda j: T.copy(self.X[row, j], kept.slot(self.at), loader="cp_async"), 0)
        T.cp_async_commit()
        T.cp_async_wait(0)
        T.barrier()
        self.statistics(lambda _: T.copy(kept.slot(self.at), self.half), loop)
        self.last_pass(
            chunks,
            lambda i, q: (T.name(i * width, f"j{q}"), i),
            lambda i, slot, q: T.copy(kept.slot(slot), self.half),
            lambda j: T.copy(self.half, self.Y[row, j]),
            ahead=False,
            unroll=True,
        )

    def in_a_cluster(
        self, threads: int, chunks: int, depth: int, ahead: bool, unroll: tuple[int, ...]
    ) -> None:
        """A row a cluster of 16; the next row's first chunks come while this one's are written."""
        width = self.shape[1]
        block = T.block_id()
        grid = T.grid_size()
        rank = T.cluster_rank()
        self.chunk_constants()
        eight = T.const(chunks)
        deep = T.name(T.const(depth), "depth")
        first = block // 16
        step = grid // 16
        base = rank * (chunks * width)
        kept = T.alloc_shared(self.shape, T.f16, ring=depth)
        self.chunk_fragments(threads, ahead)
        # Fill the ring: chunk i is in this CTA's row of number i // chunks.
        with T.serial(self.zero, deep, self.one) as i:
            later = i // chunks
            rows = T.name(later * step, "ahead")
            source = T.name(T.add(first, rows), "from")
            j = i % chunks * width + base
            T.copy(self.X[source, j], kept.slot(i), loader="cp_async")
            T.cp_async_commit()
        walk = T.serial(first, M, step, carried=[self.zero])
        with walk as (row, done):

            def loop(function, which: int) -> None:
                with T.serial(self.zero, eight, self.one, unroll=bool(unroll[which])) as i:
                    j = i * width + base
                    slot = (i + done) % depth
                    self.at = slot
                    function(j)

            def load(which: int) -> None:
                if which == 0:
                    # The chunk came a whole ring of groups ago; every chunk closes one.
                    T.cp_async_wait(depth - 1)
                    T.cp_async_commit()
                T.copy(kept.slot(self.at), self.half)

            def before() -> None:
                if ahead:
                    self.load_weights(base)

            def again(i, slot, q: str) -> None:
                T.copy(kept.slot(slot), self.half)
                # What has been read makes room for the chunk that is a ring further on.
                later = T.name((i + depth) // chunks, f"later{q}")
                rows = T.name(later * step, f"rows{q}")
                source = T.name(T.add(row, rows), f"from{q}")
                column = T.name((i + depth) % chunks * width + base, f"column{q}")
                T.copy(self.X[source, column], kept.slot(slot), loader="cp_async")
                T.cp_async_commit()

            self.statistics(load, loop, True, before)
            self.last_pass(
                eight,
                lambda i, q: (
                    T.name(i * width + base, f"j{q}"),
                    T.name((i + done) % depth, f"slot{q}"),
                ),
                again,
                lambda j: T.copy(self.half, self.Y[row, j]),
                ahead=ahead,
                unroll=bool(unroll[2]),
            )
            following = done + chunks
            walk.carry(following)
        (end,) = walk.results
        T.cp_async_wait(0)

    # Rows of a whole grid ------------------------------------------------------------------

    def in_a_grid(self, depth: int, told: dict[str, T.Tensor], arrived: T.Tensor) -> None:
        """A row a team of CTAs, which tell each other the statistics of their columns.

        A row is written an iteration after they were told, so that few have to wait.
        """
        width = self.shape[1]
        parts = WIDTH // width
        block = T.block_id()
        grid = T.grid_size()
        self.chunk_constants()
        chunks = T.const(parts)
        deep = T.name(T.const(depth), "depth")
        members = (N + (WIDTH - 1)) // WIDTH
        member = T.remainder(block, members)
        team = T.divide(block, members)
        teams = T.divide(grid, members)
        base = member * WIDTH
        end = T.add(M, teams)
        kept = T.alloc_shared(self.shape, T.f16, ring=depth * parts)
        self.chunk_fragments(MEMBERS)
        self.fragments((MEMBERS,), T.f32, *(f"all_{name}s" for name in told))
        if self.op == "layer_norm":
            self.count_columns(members, member)
        # Fill the ring: its slots are rows of this CTA's columns.
        with T.serial(self.zero, deep, self.one) as r:
            ahead = r * teams
            source = T.name(T.add(team, ahead), "from")
            with T.serial(self.zero, chunks, self.one, unroll=True) as i:
                j = i * width + base
                slot = r * parts + i
                T.copy(self.X[source, j], kept.slot(slot), loader="cp_async")
            T.cp_async_commit()
        walk = T.serial(team, end, teams, carried=[self.zero])
        with walk as (row, turn):
            more = row < M
            with T.when(more):
                T.cp_async_wait(depth - 2)

                def loop(function, _) -> None:
                    with T.serial(self.zero, chunks, self.one, unroll=True) as i:
                        j = i * width + base
                        slot = turn % depth * parts + i
                        self.at = slot
                        function(j)

                self.statistics(lambda _: T.copy(kept.slot(self.at), self.half), loop, told=True)
                for name, tensor in told.items():
                    T.copy(getattr(self, name), tensor[row, member])
                T.grid_signal(arrived[row])
            follows = turn > self.zero
            with T.when(follows):
                before = T.subtract(row, teams)
                T.grid_wait(arrived[before], until=members)
                for name, tensor in told.items():
                    T.copy(tensor[before, self.zero], getattr(self, f"all_{name}s"))
                self.combine(members)
                later = teams * (depth - 1)
                source = T.name(T.add(row, later), "from")
                with T.serial(self.zero, chunks, self.one, unroll=True) as i:
                    j = i * width + base
                    slot = (turn + (depth - 1)) % depth * parts + i
                    T.copy(kept.slot(slot), self.half)
                    # What has been read makes room for the row that is a ring further on.
                    T.copy(self.X[source, j], kept.slot(slot), loader="cp_async")
                    self.load_weights(j)
                    self.write()
                    T.copy(self.half, self.Y[before, j])
                T.cp_async_commit()
            following = turn + 1
            walk.carry(following)
        (last,) = walk.results
        T.cp_async_wait(0)

    def count_columns(self, members, member) -> None:
        """How many columns each CTA of a team has: the last one what is left."""
        final = T.subtract(members, self.one)
        filled = final * WIDTH
        rest = T.subtract(N, filled)
        few = T.cast(rest, T.i32)
        fewer = T.cast(few, T.f32)
        full = T.const(float(WIDTH), T.f32)
        early = member < final
        own = T.select(early, full, fewer)
        self.own = own
        self.fragments((MEMBERS,), T.f32, "columns", "weighted")
        columns = self.columns
        with T.parallel(columns) as (i,):
            at = T.tile_index(0)
            before = at < final
            there = at < members
            least = T.select(there, fewer, self.nothing)
            n = T.select(before, full, least)
            columns[i] = n

    def combine(self, members) -> None:
        """What all CTAs of the team told, as the row's statistics."""
        sums, sum = self.all_sums, self.sum
        if self.op == "softmax":
            tops, top = self.all_tops, self.top
            with T.parallel(tops) as (i,):
                e = tops[i]
                at = T.tile_index(0)
                inside = at < members
                v = T.select(inside, e, self.least)
                tops[i] = v
            T.reduce("max", tops, top, by=lambda i: 0)
            with T.parallel(tops) as (i,):
                e = tops[i]
                t = top[0]
                q = sums[i]
                d = e - t
                l = d * self.log2e  # noqa: E741
                f = T.exp2(l, approximate=True)
                n = q * f
                sums[i] = n
        if self.op == "layer_norm":
            means, mean, columns = self.all_means, self.mean, self.columns
            with T.parallel(means) as (i,):
                e = means[i]
                n = columns[i]
                s = e * n
                self.weighted[i] = s
            T.reduce("sum", self.weighted, mean, by=lambda i: 0)
            self.divide_mean(self.length)
            # Each CTA's squares are about its own mean (Chan, Golub and LeVeque).
            with T.parallel(means) as (i,):
                e = means[i]
                m = mean[0]
                n = columns[i]
                q = sums[i]
                d = e - m
                s = d * d
                p = s * n
                a = q + p
                sums[i] = a
        T.reduce("sum", sums, sum, by=lambda i: 0)
        if self.op == "softmax":
            self.invert_sum()
        else:
            self.invert_root()


def in_a_grid(op: str, *tensors: T.Tensor) -> None:
    """A row a team of CTAs, of which as many run as the chip takes at once."""
    members = T.ceildiv(N, WIDTH)
    depth, blocks = (4, 3) if op == "layer_norm" else (3, 4)
    when, align = f"N mod 8 == 0, N <= {MEMBERS * WIDTH}", [16] * len(tensors)
    with T.sequence(f"{op}_grid", when=when, align=align):
        told = {name: T.workspace(f"{name}s", [M, members], T.f32) for name in TOLD[op]}
        arrived = T.workspace("arrived", [M], T.i32, zeroed=True)
        with T.kernel(
            f"{op}_grid",
            threads=MEMBERS,
            blocks_per_sm=blocks,
            grid=[M, members],
            persistent=True,
            cooperative=[members],
        ):
            Rows(op, list(tensors), (1, 8 * MEMBERS), True).in_a_grid(depth, told, arrived)


def kernels(op: str, *tensors: T.Tensor) -> None:
    """The kernels of one norm, from short rows to long ones."""
    listed = list(tensors)

    def kernel(name: str, threads: int, rows: int, longest: int | None, **options: Any) -> Any:
        return T.kernel(
            f"{op}_{name}",
            threads=threads,
            when="" if longest is None else f"N mod 8 == 0, N <= {longest}",
            align=[2 if longest is None else 16] * len(listed),
            grid=options.pop("grid", [T.ceildiv(M, rows)]),
            **options,
        )

    layer = op == "layer_norm"
    with kernel("warp", 128, 4, 1024, blocks_per_sm=5 if layer else 8):
        Rows(op, listed, (4, 1024), True).in_registers()
    with kernel("block", 256, 1, 4096, blocks_per_sm=5):
        Rows(op, listed, (1, 4096), True).in_registers()
    with kernel("wide", 256, 1, 8192, blocks_per_sm=3 if layer else 4):
        Rows(op, listed, (1, 8192), True).in_registers()
    threads, blocks = (512, 2) if op == "rms_norm" else (256, 3)
    with kernel("shared", threads, 1, 32768, blocks_per_sm=blocks):
        Rows(op, listed, (1, 8 * threads), True).in_shared_memory(4096 // threads, threads)
    in_a_grid(op, *tensors)
    threads, depth = {"softmax": (1024, 13), "rms_norm": (512, 26), "layer_norm": (1024, 10)}[op]
    with kernel("cluster", threads, 1, 1 << 20, cluster=16, grid=[16 * M], persistent=True):
        unroll = (0, 0, 1) if op == "softmax" else (1, 1, 1)
        Rows(op, listed, (1, 8 * threads), True).in_a_cluster(
            threads, 8192 // threads, depth, op == "rms_norm", unroll
        )
    with kernel("any", 256, 1, None):
        Rows(op, listed, (1, 1024), False).from_memory(1024)


@T.program(arch="sm_90a")
def softmax(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]) -> None:
    kernels("softmax", X, Y)


@T.program(arch="sm_90a")
def rms_norm(X: T.Tensor[M, N, T.f16], W: T.Tensor[N, T.f16], Y: T.Out[M, N, T.f16]) -> None:
    kernels("rms_norm", X, W, Y)


@T.program(arch="sm_90a")
def layer_norm(
    X: T.Tensor[M, N, T.f16],
    W: T.Tensor[N, T.f16],
    B: T.Tensor[N, T.f16],
    Y: T.Out[M, N, T.f16],
) -> None:
    kernels("layer_norm", X, W, B, Y)


@T.program(arch="sm_90a")
def softmax_two_pass(X: T.Tensor[M, N, T.f16], Y: T.Out[M, N, T.f16]) -> None:
    for name, width, vectors, when in (
        ("softmax_two_pass", 2048, True, "N mod 8 == 0"),
        ("softmax_two_pass_any", 1024, False, ""),
    ):
        align = [16, 16] if vectors else [2, 2]
        with T.kernel(name, threads=256, grid=[M], when=when, align=align):
            Rows("softmax", [X, Y], (1, width), vectors).from_memory(width)
