// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK-LABEL: region.kernel @leaves iters [m: M, n: N]
region.kernel @leaves iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M, N], f32, align 4> gmem) {
  // CHECK: %0 = region.dim M * N : !region.val<[], f32>
  %0 = region.dim M * N : !region.val<[], f32>
  // CHECK-NEXT: %1 = region.broadcast_in_dim %0 dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %1 = region.broadcast_in_dim %0 dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  // CHECK-NEXT: %2 = region.inside affine_set<(d0, d1)[s0, s1] : ((d0 + (d1 * -1)) >= 0)> : !region.val<[m: M, n: N], i1>
  %2 = region.inside affine_set<(d0, d1)[s0, s1] : (d0 + d1 * -1 >= 0)> : !region.val<[m: M, n: N], i1>
  // CHECK-NEXT: %3 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)>
  %3 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %4 = region.select %2, %3, %1 : !region.val<[m: M, n: N], i1>, !region.val<[m: M, n: N], f32>, !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f32>
  region.yield %4 : !region.val<[m: M, n: N], f32>
}
