// RUN: polyc-opt %s -p gpu-share-reads,gpu-prefetch-reads | filecheck %s
// RUN: polyc-opt %s -p gpu-share-reads,gpu-prefetch-reads,gpu-prefetch-reads | filecheck %s

// A bias of columns, which has a fragment of its own, and a mask of rows and columns, which gets one: the first step's
// are read in front of the pipeline, and each step's while the one before it goes on.

gpu.module @m arch "sm_80" symbols [N] {
  gpu.kernel @k(
      %A: !gpu.global<[64, 32], f16> = tensor 0, %B: !gpu.global<[N, 32], f16> = tensor 1,
      %bias: !gpu.global<[N], f32> = tensor 2, %factor: !gpu.global<[64], f32> = tensor 3,
      %mask: !gpu.global<[64, N], f32> = tensor 4,
      %O: !gpu.global<[64], f32> = tensor 5, %N: index = symbol N) threads 128 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 32], f16>
    %s = gpu.fragment : !gpu.fragment<[64, 32], f32>
    %l = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.fill %zero, %l : !gpu.fragment<[64], f32>
    gpu.copy %A[%c0, %c0] to %a loader "register" : !gpu.global<[64, 32], f16>, !gpu.shared<[64, 32], f16>
    // CHECK: gpu.map [[BIAS:%[a-z_0-9]+]] : !gpu.fragment<[32], f32> origin [{{.*}}] ins(%bias
    // CHECK: gpu.map [[MASK:%[a-z_0-9]+]] : !gpu.fragment<[64, 32], f32> origin [{{.*}}] ins(%mask
    // CHECK: gpu.pipeline %k
    gpu.pipeline %k, %i = to %N step 32 stages 2 {
      gpu.copy %B[%k, %c0] to %b loader "register"
          : !gpu.global<[N, 32], f16>, !gpu.shared<[32, 32], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
          into %s clear mma "mma.sync" warp_tile <16, 32>
          : !gpu.shared<[64, 32], f16>, !gpu.shared<[32, 32], f16>, !gpu.fragment<[64, 32], f32>
      // CHECK: gpu.map %s
      // CHECK-SAME: [[BIAS]] : !gpu.fragment<[32], f32> affine_map<(d0, d1)[s0] -> (d1)>
      // CHECK-SAME: [[MASK]] : !gpu.fragment<[64, 32], f32> affine_map<(d0, d1)[s0] -> (d0, d1)>)
      // CHECK-DAG: [[NEXT:%[a-z_0-9]+]] = affine.apply affine_map<(d0) -> ((d0 + 32))> (%k)
      // CHECK-DAG: gpu.map [[BIAS]] : !gpu.fragment<[32], f32> origin
      // CHECK-DAG: gpu.map [[MASK]] : !gpu.fragment<[64, 32], f32> origin
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
