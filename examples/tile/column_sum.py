"""The sum of each column by bands of 128 rows and atomics: the twin of column_sum.mlir."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false

import polyc.tile as T

M, N = T.sizes("M", "N")

BAND = 128


def add_bands(X: T.Tensor, total: T.Tensor, width: int) -> None:
    """Add a band of ``width`` columns up in registers, and to ``total``."""
    row, column = T.tile_coordinates(M, N, tile=(BAND, width), raster="row", group=1)
    zero = T.const(0)
    eight = T.const(8)
    band = T.const(BAND)
    nothing = T.const(0.0, T.f32)
    half = T.alloc_fragment((8, width), T.f16)
    wide = T.alloc_fragment((8, width), T.f32)
    sum = T.alloc_fragment((width,), T.f32)
    T.fill(sum, nothing)
    with T.serial(zero, band, eight) as i:
        r = row + i
        T.copy(X[r, column], half)
        with T.parallel(half) as (i, j):
            e = half[i, j]
            f = T.cast(e, T.f32)
            wide[i, j] = f
        T.reduce("sum", wide, sum, axis=0, accumulate=True)
    T.atomic("add", sum, total[column])


@T.program(arch="sm_90a")
def column_sum(X: T.Tensor[M, N, T.f16], Y: T.Out[N, T.f16]) -> None:
    rounding = [T.ceildiv(N, 128)]
    with T.sequence("column_sum", when="N mod 8 == 0", align=[16, 2]):
        total = T.workspace("total", (N,), T.f32, zeroed=True)
        arguments = {"X": X, "T": total, "M": M, "N": N}
        with T.kernel(
            "column_sum_bands",
            threads=128,
            blocks_per_sm=4,
            grid=[T.ceildiv(M, BAND), T.ceildiv(N, 1024)],
            binds=arguments,
        ):
            add_bands(X, total, 1024)
        # Columns of any number and alignment, for the other sequence.
        with T.kernel("column_sum_single", threads=128, binds=arguments) as single:
            add_bands(X, total, 128)
        with T.kernel(
            "column_sum_round",
            threads=128,
            grid=rounding,
            binds={"T": total, "Y": Y, "N": N},
        ) as rounded:
            block = T.block_id()
            column = block * 128
            sum = T.alloc_fragment((128,), T.f32)
            half = T.alloc_fragment((128,), T.f16)
            T.copy(total[column], sum)
            with T.parallel(sum) as (i,):
                e = sum[i]
                y = T.cast(e, T.f16)
                half[i] = y
            T.copy(half, Y[column])
    with T.sequence("column_sum_any", align=[2, 2]):
        T.workspace("total", (N,), T.f32, zeroed=True)
        T.launch(single, grid=[T.ceildiv(M, BAND), T.ceildiv(N, 128)])
        T.launch(rounded, grid=rounding)
