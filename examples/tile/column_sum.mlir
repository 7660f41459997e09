// y[j] = the sum of column j of X.  Every block adds up a band of 128 rows in registers, a thread
// its own columns, and adds the result to a workspace of zeros by atomics; a second kernel rounds
// it.  The order of the bands is not defined, and with it the last bits of a sum that is not exact.
//
//   polyc simulate examples/tile/column_sum.mlir --set M=300 --set N=1032

!matrix = !gpu.global<[M, N], f16>
!total = !gpu.global<[N], f32>
!half = !gpu.fragment<[8, 1024], f16>
!wide = !gpu.fragment<[8, 1024], f32>
!sum = !gpu.fragment<[1024], f32>

gpu.module @column_sum arch "sm_90a" symbols [M, N] {
  // 16 bytes of a row a thread.
  gpu.kernel @column_sum_bands(
      %X: !matrix = tensor 0, %T: !total = workspace "total",
      %M: index = symbol M, %N: index = symbol N)
      threads 128 blocks_per_sm 4 {
    %row, %column = gpu.tile_coordinates[%M, %N] tile <128, 1024> raster "row" 1
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %band = arith.constant 128 : index
    %nothing = arith.constant 0.0 : f32
    %half = gpu.fragment : !half
    %wide = gpu.fragment : !wide
    %sum = gpu.fragment : !sum
    gpu.fill %nothing, %sum : !sum
    scf.for %i = %zero to %band step %eight {
      %r = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%row, %i)
      gpu.copy %X[%r, %column] to %half : !matrix, !half
      gpu.map %half : !half origin []
          ins()
          outs(%wide : !wide affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        gpu.yield %f : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j)> into %sum accumulate : !wide, !sum
    }
    gpu.atomic "add" %sum to %T[%column] : !sum, !total
    gpu.return
  }
  // Columns of any number and alignment, one by one.
  gpu.kernel @column_sum_single(
      %X: !matrix = tensor 0, %T: !total = workspace "total",
      %M: index = symbol M, %N: index = symbol N)
      threads 128 {
    %row, %column = gpu.tile_coordinates[%M, %N] tile <128, 128> raster "row" 1
    %zero = arith.constant 0 : index
    %eight = arith.constant 8 : index
    %band = arith.constant 128 : index
    %nothing = arith.constant 0.0 : f32
    %half = gpu.fragment : !gpu.fragment<[8, 128], f16>
    %wide = gpu.fragment : !gpu.fragment<[8, 128], f32>
    %sum = gpu.fragment : !gpu.fragment<[128], f32>
    gpu.fill %nothing, %sum : !gpu.fragment<[128], f32>
    scf.for %i = %zero to %band step %eight {
      %r = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%row, %i)
      gpu.copy %X[%r, %column] to %half : !matrix, !gpu.fragment<[8, 128], f16>
      gpu.map %half : !gpu.fragment<[8, 128], f16> origin []
          ins()
          outs(%wide : !gpu.fragment<[8, 128], f32> affine_map<(i, j) -> (i, j)>) {
      ^bb0(%e: f16):
        %f = arith.extf %e : f16 to f32
        gpu.yield %f : f32
      }
      gpu.reduce sum %wide by affine_map<(i, j) -> (j)> into %sum accumulate
          : !gpu.fragment<[8, 128], f32>, !gpu.fragment<[128], f32>
    }
    gpu.atomic "add" %sum to %T[%column] : !gpu.fragment<[128], f32>, !total
    gpu.return
  }
  gpu.kernel @column_sum_round(
      %T: !total = workspace "total", %Y: !gpu.global<[N], f16> = tensor 1,
      %N: index = symbol N)
      threads 128 {
    %block = gpu.block_id
    %column = affine.apply affine_map<(d0) -> (d0 * 128)> (%block)
    %sum = gpu.fragment : !gpu.fragment<[128], f32>
    %half = gpu.fragment : !gpu.fragment<[128], f16>
    gpu.copy %T[%column] to %sum : !total, !gpu.fragment<[128], f32>
    gpu.map %sum : !gpu.fragment<[128], f32> origin []
        ins()
        outs(%half : !gpu.fragment<[128], f16> affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      %y = arith.truncf %e : f32 to f16
      gpu.yield %y : f16
    }
    gpu.copy %half to %Y[%column] : !gpu.fragment<[128], f16>, !gpu.global<[N], f16>
    gpu.return
  }
  gpu.dispatch (X: !matrix) -> (Y: !gpu.global<[N], f16>) {
    gpu.sequence @column_sum when (N mod 8 == 0) align [16, 2] {
      gpu.workspace "total" zeroed : !total
      gpu.launch @column_sum_bands grid [(M + 127) floordiv 128, (N + 1023) floordiv 1024]
      gpu.launch @column_sum_round grid [(N + 127) floordiv 128]
    }
    gpu.sequence @column_sum_any align [2, 2] {
      gpu.workspace "total" zeroed : !total
      gpu.launch @column_sum_single grid [(M + 127) floordiv 128, (N + 127) floordiv 128]
      gpu.launch @column_sum_round grid [(N + 127) floordiv 128]
    }
  }
}
