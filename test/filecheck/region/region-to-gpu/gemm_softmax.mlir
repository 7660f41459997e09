// RUN: polyc-opt %s -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-streaming-softmax,plan-select{arch=sm_90a},region-expand-together,region-to-gpu' | filecheck %s

// A softmax of a product, whose rows two CTAs of a cluster have together.  What is reduced, and what a
// later step needs of it, stays in registers; columns beyond the end count as nothing.

frontend.graph @gate(%x: !frontend.tensor<[M, K], f16>, %w: !frontend.tensor<[K, 200], f16>) -> (y: !frontend.tensor<[M, 200], f16>) {
  %0 = frontend.gemm %x, %w {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, 200], f16>) -> !frontend.tensor<[M, 200], f16>
  %1 = frontend.softmax %0 axes [1] : !frontend.tensor<[M, 200], f16>
  frontend.output %1 : !frontend.tensor<[M, 200], f16>
}

// CHECK:      gpu.kernel @gate_tma({{.*}}) threads 384 cluster 2 {
// CHECK:        %m0, [[N:%.*]] = gpu.tile_coordinates[%M, [[SIZE:%.*]]] tile <128, 256> raster "grouped" 16 cluster
// CHECK-NEXT:   %rank = gpu.cluster_rank
// CHECK-NEXT:   %i10 = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 128)))> ([[N]], %rank)
// CHECK:        gpu.copy %w[%k0, %i10] to %w_tile loader "tma"
// CHECK:        gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %i10] ins() outs([[TOP:%.*]] : !gpu.fragment<[128, 128], f32>
// CHECK:          [[IN:%.*]] = arith.cmpi slt, %{{.*}}, [[SIZE]] : index
// CHECK-NEXT:     arith.select [[IN]], %{{.*}}, %{{.*}} : f32
// CHECK:        gpu.reduce max [[TOP]] by affine_map<(d0, d1) -> (d0)> into %acc1 cluster
// CHECK:        gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %i10] ins(%acc1 : !gpu.fragment<[128], f32> affine_map<(d0, d1)[s0, s1] -> (d0)>) outs([[EXP:%.*]] : !gpu.fragment<[128, 128], f32>
// CHECK:          math.exp
// CHECK:        gpu.reduce sum [[EXP]] by affine_map<(d0, d1) -> (d0)> into %acc2 cluster
// CHECK-NEXT:   gpu.map [[EXP]] : !gpu.fragment<[128, 128], f32> origin [%m0, %i10] ins(%acc2
// CHECK-NOT:      math.exp
// CHECK:          arith.divf
// CHECK:      gpu.kernel @gate_cp_async({{.*}}) threads 256 {
// CHECK:        gpu.contract {{.*}} warp_tile <32, 64>
// CHECK:        gpu.reduce max %{{.*}} by affine_map<(d0, d1) -> (d0)> into %acc1 : !gpu.fragment<[64, 256], f32>
