// RUN: polyc-opt %s -p gpu-partial-lanes | filecheck %s
// RUN: polyc-opt %s -p gpu-partial-lanes,gpu-partial-lanes | filecheck %s

// Row sums of A · Bᵀ over blocks of B, halved at each step: four lanes have a part of a row's sum each,
// and the parts are joined behind the loop.

gpu.module @m arch "sm_80" symbols [N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(
      %A: !gpu.global<[64, 32], f16> = tensor 0, %B: !gpu.global<[N, 32], f16> = tensor 1,
      %O: !gpu.global<[64], f32> = tensor 2, %N: index = symbol N) threads 128 {
    %c0 = arith.constant 0 : index
    %zero = arith.constant 0.0 : f32
    %a = gpu.shared_tile : !gpu.shared<[64, 32], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 32], f16>
    %s = gpu.fragment : !gpu.fragment<[64, 32], f32>
    // CHECK: %part = gpu.fragment : !gpu.fragment<[64, 4], f32>
    // CHECK-NEXT: %half = gpu.fragment : !gpu.fragment<[64], f32>
    // CHECK-NEXT: %l = gpu.fragment : !gpu.fragment<[64, 4], f32>
    // CHECK-NEXT: %total = gpu.fragment : !gpu.fragment<[64], f32>
    %part = gpu.fragment : !gpu.fragment<[64], f32>
    %half = gpu.fragment : !gpu.fragment<[64], f32>
    %l = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.fill %zero, %l : !gpu.fragment<[64], f32>
    gpu.pipeline %k, %i = to %N step 32 stages 2 {
      gpu.copy %B[%k, %c0] to %b loader "register"
          : !gpu.global<[N, 32], f16>, !gpu.shared<[32, 32], f16>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
          into %s clear mma "mma.sync" warp_tile <16, 32>
          : !gpu.shared<[64, 32], f16>, !gpu.shared<[32, 32], f16>, !gpu.fragment<[64, 32], f32>
      // CHECK: gpu.reduce sum %s by affine_map<(d0, d1) -> (d0, ((d1 floordiv 2) mod 4))> into %part
      gpu.reduce sum %s by affine_map<(i, j) -> (i)> into %part
          : !gpu.fragment<[64, 32], f32>, !gpu.fragment<[64], f32>
      // CHECK-NEXT: gpu.map %l : !gpu.fragment<[64, 4], f32> origin []
      // CHECK-SAME: ins(%part : !gpu.fragment<[64, 4], f32> affine_map<(d0, d1) -> (d0, d1)>, %half
      // CHECK-SAME: affine_map<(d0, d1) -> (d0)>) outs(%l
      gpu.map %l : !gpu.fragment<[64], f32> origin []
          ins(%part : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>,
              %half : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>)
          outs(%l : !gpu.fragment<[64], f32> affine_map<(i) -> (i)>) {
      ^bb0(%old: f32, %new: f32, %f: f32):
        %t = math.fma %old, %f, %new : f32
        gpu.yield %t : f32
      }
    }
    // CHECK: gpu.reduce sum %l by affine_map<(d0, d1) -> (d0)> into %total
    // CHECK-NEXT: gpu.map %total : !gpu.fragment<[64], f32>
    gpu.map %l : !gpu.fragment<[64], f32> origin [] ins()
        outs(%O : !gpu.global<[64], f32> affine_map<(i) -> (i)>) {
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
}
