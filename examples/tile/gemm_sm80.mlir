// C = A · B on SM80 at any sizes.  cp.async copies run up to two steps ahead of the tensor cores, and
// with two fragment buffers ldmatrix loads the operands of the next 16 of k while these are
// multiplied, over the borders of stages too (gpu-double-buffer-fragments).  Slots, waits, barriers,
// swizzles and the predicates of the tails are inferred.
//
//   polyc run examples/tile/gemm_sm80.mlir --set M=200 --set N=264 --set K=136

gpu.module @gemm_sm80 arch "sm_80" symbols [M, K, N] {
  // Large outputs: eight warps, three stages of 48 KiB.
  gpu.kernel @gemm_sm80_256x128(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 256 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <256, 128> raster "grouped" 4
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[256, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[256, 128], f32>
    %a = gpu.shared_tile : !gpu.shared<[256, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 128], f16>
    gpu.pipeline %k0, %i = to %K step 64 stages 3 {
      gpu.copy %A[%m0, %k0] to %a loader "cp_async"
          : !gpu.global<[M, K], f16>, !gpu.shared<[256, 64], f16>
      gpu.copy %B[%k0, %n0] to %b loader "cp_async"
          : !gpu.global<[K, N], f16>, !gpu.shared<[64, 128], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "mma.sync" warp_tile <64, 64> fragment_buffers 2
          : !gpu.shared<[256, 64], f16>, !gpu.shared<[64, 128], f16>, !gpu.fragment<[256, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[256, 128], f32> origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // Outputs that would leave multiprocessors without a tile of the larger kernel.
  gpu.kernel @gemm_sm80_128x128(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 128> raster "grouped" 8
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 128], f32>
    %a = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 128], f16>
    gpu.pipeline %k0, %i = to %K step 64 stages 3 {
      gpu.copy %A[%m0, %k0] to %a loader "cp_async"
          : !gpu.global<[M, K], f16>, !gpu.shared<[128, 64], f16>
      gpu.copy %B[%k0, %n0] to %b loader "cp_async"
          : !gpu.global<[K, N], f16>, !gpu.shared<[64, 128], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "mma.sync" warp_tile <64, 64> fragment_buffers 2
          : !gpu.shared<[128, 64], f16>, !gpu.shared<[64, 128], f16>, !gpu.fragment<[128, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // Rows that are aligned to 4 bytes only: cp.async moves two elements at a time.
  gpu.kernel @gemm_sm80_even(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 128> raster "grouped" 8
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 128], f32>
    %a = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 128], f16>
    gpu.pipeline %k0, %i = to %K step 32 stages 3 {
      gpu.copy %A[%m0, %k0] to %a loader "cp_async"
          : !gpu.global<[M, K], f16>, !gpu.shared<[128, 32], f16>
      gpu.copy %B[%k0, %n0] to %b loader "cp_async"
          : !gpu.global<[K, N], f16>, !gpu.shared<[32, 128], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "mma.sync" warp_tile <64, 64>
          : !gpu.shared<[128, 32], f16>, !gpu.shared<[32, 128], f16>, !gpu.fragment<[128, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }

  // Rows of any length, through registers.
  gpu.kernel @gemm_sm80_any(
      %A: !gpu.global<[M, K], f16> = tensor 0, %B: !gpu.global<[K, N], f16> = tensor 1,
      %C: !gpu.global<[M, N], f16> = tensor 2,
      %M: index = symbol M, %K: index = symbol K, %N: index = symbol N) threads 128 {
    %m0, %n0 = gpu.tile_coordinates[%M, %N] tile <128, 128> raster "grouped" 8
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 128], f32>
    %a = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 128], f16>
    gpu.pipeline %k0, %i = to %K step 32 stages 2 {
      gpu.copy %A[%m0, %k0] to %a loader "register"
          : !gpu.global<[M, K], f16>, !gpu.shared<[128, 32], f16>
      gpu.copy %B[%k0, %n0] to %b loader "register"
          : !gpu.global<[K, N], f16>, !gpu.shared<[32, 128], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)>
          into %acc mma "mma.sync" warp_tile <64, 64>
          : !gpu.shared<[128, 32], f16>, !gpu.shared<[32, 128], f16>, !gpu.fragment<[128, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %n0] ins()
        outs(%C : !gpu.global<[M, N], f16> affine_map<(i, j)[m, n] -> (i + m, j + n)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M, K], f16>, B: !gpu.global<[K, N], f16>)
      -> (C: !gpu.global<[M, N], f16>) {
    // At least a tile for each of an A100's 108 multiprocessors.
    gpu.launch @gemm_sm80_256x128 when (K mod 8 == 0, N mod 8 == 0, M * N >= 3538944)
        align [16, 16, 16] grid [(M + 255) floordiv 256, (N + 127) floordiv 128]
    gpu.launch @gemm_sm80_128x128 when (K mod 8 == 0, N mod 8 == 0) align [16, 16, 16]
        grid [(M + 127) floordiv 128, (N + 127) floordiv 128]
    gpu.launch @gemm_sm80_even when (K mod 2 == 0, N mod 2 == 0) align [4, 4, 4]
        grid [(M + 127) floordiv 128, (N + 127) floordiv 128]
    gpu.launch @gemm_sm80_any align [2, 2, 2]
        grid [(M + 127) floordiv 128, (N + 127) floordiv 128]
  }
}
