// RUN: polyc-opt %s -p gpu-share-reads | filecheck %s
// RUN: polyc-opt %s -p gpu-share-reads,gpu-share-reads | filecheck %s

// A bias of columns and a factor of rows on the products of each step: a thread reads the factors of its rows
// before the loop, and a step's biases behind the contract, once a column.  A matrix is read where it was.

gpu.module @m arch "sm_80" symbols [N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(
      %A: !gpu.global<[64, 32], f16> = tensor 0, %B: !gpu.global<[N, 32], f16> = tensor 1,
      %bias: !gpu.global<[N], f32> = tensor 2, %factor: !gpu.global<[64], f32> = tensor 3,
      %mask: !gpu.global<[64, N], f32> = tensor 4,
      %O: !gpu.global<[64], f32> = tensor 5, %N: index = symbol N) threads 128 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 32], f16>
    // CHECK-DAG: [[BIAS:%[a-z_0-9]+]] = gpu.fragment : !gpu.fragment<[32], f32>
    // CHECK-DAG: [[FACTOR:%[a-z_0-9]+]] = gpu.fragment : !gpu.fragment<[64], f32>
    %s = gpu.fragment : !gpu.fragment<[64, 32], f32>
    %l = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.fill %zero, %l : !gpu.fragment<[64], f32>
    gpu.copy %A[%c0, %c0] to %a loader "register" : !gpu.global<[64, 32], f16>, !gpu.shared<[64, 32], f16>
    // CHECK: gpu.map [[FACTOR]] : !gpu.fragment<[64], f32> origin [] ins(%factor
    // CHECK: gpu.pipeline
    gpu.pipeline %k, %i = to %N step 32 stages 2 {
      gpu.copy %B[%k, %c0] to %b loader "register"
          : !gpu.global<[N, 32], f16>, !gpu.shared<[32, 32], f16>
      // CHECK: gpu.contract
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
          into %s clear mma "mma.sync" warp_tile <16, 32>
          : !gpu.shared<[64, 32], f16>, !gpu.shared<[32, 32], f16>, !gpu.fragment<[64, 32], f32>
      // CHECK-NEXT: gpu.map [[BIAS]] : !gpu.fragment<[32], f32> origin [%k] ins(%bias
      // CHECK-SAME: affine_map<(d0)[s0] -> ((d0 + s0))>
      // CHECK: gpu.map %s
      // CHECK-SAME: ins([[BIAS]] : !gpu.fragment<[32], f32> affine_map<(d0, d1)[s0] -> (d1)>,
      // CHECK-SAME: [[FACTOR]] : !gpu.fragment<[64], f32> affine_map<(d0, d1)[s0] -> (d0)>,
      // CHECK-SAME: %mask : !gpu.global<[64, N], f32>
      gpu.map %s : !gpu.fragment<[64, 32], f32> origin [%k]
          ins(%bias : !gpu.global<[N], f32> affine_map<(i, j)[s] -> (j + s)>,
              %factor : !gpu.global<[64], f32> affine_map<(i, j)[s] -> (i)>,
              %mask : !gpu.global<[64, N], f32> affine_map<(i, j)[s] -> (i, j + s)>)
          outs(%s : !gpu.fragment<[64, 32], f32> affine_map<(i, j)[s] -> (i, j)>) {
      ^bb0(%x: f32, %y: f32, %f: f32, %w: f32):
        %t = arith.mulf %x, %f : f32
        %u = arith.addf %t, %y : f32
        %v = arith.addf %u, %w : f32
        gpu.yield %v : f32
      }
      gpu.reduce sum %s by affine_map<(i, j) -> (i)> into %l accumulate
          : !gpu.fragment<[64, 32], f32>, !gpu.fragment<[64], f32>
    }
    gpu.map %l : !gpu.fragment<[64], f32> origin [] ins()
        outs(%O : !gpu.global<[64], f32> affine_map<(i) -> (i)>) {
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
}
