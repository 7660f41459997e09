// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s --check-prefix=SM90
// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80},region-to-gpu' | filecheck %s --check-prefix=SM80

// Heads of 40 features that follow one another in the rows of Q, K and V, four of Q to one of K and V:
// a kernel reads each tensor with the heads as a dimension, so that a tile of 64 features ends with
// zeros and not with the next head.
frontend.graph @heads(
    %Q: !frontend.tensor<[B, M, 320 * H], f16>, %K: !frontend.tensor<[B, N, 80 * H], f16>,
    %V: !frontend.tensor<[B, N, 80 * H], f16>) -> (O: !frontend.tensor<[B, 8 * H, M, 40], f16>) {
  %0 = frontend.reshape %Q : !frontend.tensor<[B, M, 320 * H], f16> -> !frontend.tensor<[B, M, 8 * H, 40], f16>
  %1 = frontend.permute %0 perm [0, 2, 1, 3] : !frontend.tensor<[B, M, 8 * H, 40], f16> -> !frontend.tensor<[B, 8 * H, M, 40], f16>
  %2 = frontend.reshape %K : !frontend.tensor<[B, N, 80 * H], f16> -> !frontend.tensor<[B, N, 2 * H, 40], f16>
  %3 = frontend.permute %2 perm [0, 2, 1, 3] : !frontend.tensor<[B, N, 2 * H, 40], f16> -> !frontend.tensor<[B, 2 * H, N, 40], f16>
  %4 = frontend.reshape %V : !frontend.tensor<[B, N, 80 * H], f16> -> !frontend.tensor<[B, N, 2 * H, 40], f16>
  %5 = frontend.permute %4 perm [0, 2, 1, 3] : !frontend.tensor<[B, N, 2 * H, 40], f16> -> !frontend.tensor<[B, 2 * H, N, 40], f16>
  %6 = frontend.attention %1, %3, %5 {acc = f32}
      : (!frontend.tensor<[B, 8 * H, M, 40], f16>, !frontend.tensor<[B, 2 * H, N, 40], f16>, !frontend.tensor<[B, 2 * H, N, 40], f16>) -> !frontend.tensor<[B, 8 * H, M, 40], f16>
  frontend.output %6 : !frontend.tensor<[B, 8 * H, M, 40], f16>
}

// SM90: gpu.kernel @heads_tma(%Q: !gpu.global<[B, M, 8 * H, 40], f16> = tensor 0, %K: !gpu.global<[B, N, 2 * H, 40], f16> = tensor 1, %V: !gpu.global<[B, N, 2 * H, 40], f16> = tensor 2, %O: !gpu.global<[B, 8 * H, M, 40], f16> = tensor 3
// SM90: [[ZERO:%.*]] = arith.constant 0 : index
// SM90: %Q_tile = gpu.shared_tile : !gpu.shared<[192, 64], f16, ring 2>
// SM90-NEXT: %K_tile = gpu.shared_tile : !gpu.shared<[128, 64], f16>
// SM90-NEXT: %V_tile = gpu.shared_tile : !gpu.shared<[128, 64], f16>
// SM90: %out = gpu.fragment : !gpu.fragment<[192, 64], f32>
// SM90: gpu.copy %Q[%b, %q0, %i1, [[ZERO]]] to %Q_tile axes <1, 3> loader "tma"
// SM90: [[KV:%.*]] = affine.apply affine_map<(d0) -> ((d0 floordiv 4))> (%i1)
// SM90-NEXT: gpu.copy %K[%b, %n0, [[KV]], [[ZERO]]] to %K_tile axes <1, 3> loader "tma"
// SM90: gpu.copy %V[%b, %n0, {{%.*}}, [[ZERO]]] to %V_tile axes <1, 3> loader "tma"
// SM90: gpu.contract %weights {{.*}}, %V_tile {{.*}} into %out mma "wgmma" warp_tile <64, 64>
// SM90: gpu.map %out {{.*}} outs(%O : !gpu.global<[B, 8 * H, M, 40], f16>

// SM80: gpu.kernel @heads_cp_async(%Q: !gpu.global<[B, M, 8 * H, 40], f16> = tensor 0
// SM80: %Q_tile = gpu.shared_tile : !gpu.shared<[128, 64], f16>
// SM80: gpu.copy %Q[%b, %m0, %i1, {{%.*}}] to %Q_tile axes <1, 3> loader "cp_async"
// SM80: gpu.copy %K[%b, %n0, {{%.*}}] to %K_tile axes <1, 3> loader "cp_async"
// SM80: gpu.contract %weights {{.*}}, %V_tile {{.*}} into %out mma "mma.sync" warp_tile <32, 64>
// SM80: gpu.map %out {{.*}} outs(%O : !gpu.global<[B, 8 * H, M, 40], f16>
// SM80-NOT: gpu.kernel
