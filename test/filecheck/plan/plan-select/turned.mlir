// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes,plan-select | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region,region-merge-axes,plan-select,region-to-gpu | filecheck %s --check-prefix=GPU

// What lies innermost in X is the tile's row, and X goes through shared memory.
// CHECK: region.kernel @turn iters [n: N, hw: H * W, c: C]
// CHECK: plan.schedule @turn variant "vector" when (
// CHECK: tile = [64, 64, 1]
// CHECK: vectorize = 8
// CHECK: cache = [{"tensor" = "X", "where" = "smem", "at" = "{{.*}}.i", "pingpong" = false}]
// CHECK: plan.schedule @turn variant "scalar" {
// CHECK: tile = [64, 64, 1]
// CHECK: cache = [{"tensor" = "X"

// It is read along its own lines, which are those of the tile in shared memory, and a word of 4 bytes
// longer there; the other map reads it along the outputs' lines.
// GPU: gpu.kernel @turn_vector
// GPU: %X_turned = gpu.shared_tile : !gpu.shared<[64, 66], f16, swizzle 0>
// GPU: gpu.tile_loop
// GPU: gpu.map %[[HELD:[0-9]+]] : !gpu.fragment<[64, 64], f16, {{.*}} ins(%X :
// GPU: gpu.copy %[[HELD]] to %X_turned window <0, 0>
// GPU: gpu.map %out : {{.*}} ins(%X_turned : !gpu.shared<[64, 66], f16, swizzle 0> affine_map<(d0, d1)[s0, s1, s2] -> (d1, d0)>)
frontend.graph @turn(%X: !frontend.tensor<[N, C, H, W], f16>)
    -> (Y: !frontend.tensor<[N, H, W, C], f16>) {
  %0 = frontend.permute %X perm [0, 2, 3, 1]
      : !frontend.tensor<[N, C, H, W], f16> -> !frontend.tensor<[N, H, W, C], f16>
  frontend.output %0 : !frontend.tensor<[N, H, W, C], f16>
}
