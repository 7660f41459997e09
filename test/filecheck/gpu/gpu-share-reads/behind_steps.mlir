// RUN: polyc-opt %s -p gpu-share-reads | filecheck %s
// RUN: polyc-opt %s -p gpu-share-reads,gpu-share-reads | filecheck %s

// What ends a tile: the factors of a thread's few rows are read once each, in front of it; a bias of columns, of
// which it has many, stays where it is read.

gpu.module @m arch "sm_80" symbols [N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(
      %A: !gpu.global<[64, N], f16> = tensor 0, %B: !gpu.global<[32, N], f16> = tensor 1,
      %bias: !gpu.global<[32], f32> = tensor 2, %factor: !gpu.global<[64], f32> = tensor 3,
      %O: !gpu.global<[64, 32], f32> = tensor 4, %N: index = symbol N) threads 128 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 32], f16>
    %s = gpu.fragment : !gpu.fragment<[64, 32], f32>
    gpu.fill %zero, %s : !gpu.fragment<[64, 32], f32>
    // CHECK: gpu.pipeline
    gpu.pipeline %k, %i = to %N step 32 stages 2 {
      gpu.copy %A[%c0, %k] to %a loader "register" : !gpu.global<[64, N], f16>, !gpu.shared<[64, 32], f16>
      gpu.copy %B[%c0, %k] to %b loader "register" : !gpu.global<[32, N], f16>, !gpu.shared<[32, 32], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
          into %s mma "mma.sync" warp_tile <16, 32>
          : !gpu.shared<[64, 32], f16>, !gpu.shared<[32, 32], f16>, !gpu.fragment<[64, 32], f32>
    }
    // CHECK: gpu.map [[FACTOR:%[a-z_0-9]+]] : !gpu.fragment<[64], f32> origin [] ins(%factor
    // CHECK: gpu.map %s
    // CHECK-SAME: ins(%bias : !gpu.global<[32], f32> affine_map<(d0, d1) -> (d1)>,
    // CHECK-SAME: [[FACTOR]] : !gpu.fragment<[64], f32> affine_map<(d0, d1) -> (d0)>)
    gpu.map %s : !gpu.fragment<[64, 32], f32> origin []
        ins(%bias : !gpu.global<[32], f32> affine_map<(i, j) -> (j)>,
            %factor : !gpu.global<[64], f32> affine_map<(i, j) -> (i)>)
        outs(%O : !gpu.global<[64, 32], f32> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%x: f32, %y: f32, %f: f32):
      %t = arith.mulf %x, %f : f32
      %u = arith.addf %t, %y : f32
      gpu.yield %u : f32
    }
    gpu.return
  }
}
