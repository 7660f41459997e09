// RUN: polyc-opt %s -p region-srnf | filecheck %s
// RUN: polyc-opt %s -p region-srnf,region-srnf | filecheck %s
// RUN: polyc-opt %s -p region-srnf{classes=exact,reassociating,finite-only} 2>/dev/null | filecheck %s --check-prefix=FINITE
// RUN: polyc-opt %s -p region-srnf{classes=exact,reassociating,finite-only} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// R3: what does not depend on k is computed over m and then repeated.  Moving the scale
// out of the sum is finite-only, happens on demand, and is then reported.
// CHECK-LABEL: region.kernel @scale
// CHECK:         %[[E:.*]] = region.unary exp %{{.*}} : !region.val<[m: M], f32>
// CHECK-NEXT:    %[[B:.*]] = region.broadcast_in_dim %[[E]] dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, k: K], f32>
// CHECK-NEXT:    %[[P:.*]] = region.binary mul %{{.*}}, %[[B]] : !region.val<[m: M, k: K], f32>
// CHECK-NEXT:    region.reduce sum %[[P]]
// FINITE-LABEL: region.kernel @scale
// FINITE:        %[[E:.*]] = region.unary exp %{{.*}} : !region.val<[m: M], f32>
// FINITE:        %acc = region.reduce sum %0 over [k]
// FINITE-NEXT:   %[[P:.*]] = region.binary mul %acc, %[[E]] : !region.val<[m: M], f32>
// FINITE-NEXT:   region.yield %[[P]]
// REMARK:      remark[finite-only]: mul moved out of sum(mul(x, c))
region.kernel @scale iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>, %s: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s0 = region.read %s affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %sb = region.broadcast_in_dim %s0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, k: K], f32>
  %e = region.unary exp %sb : !region.val<[m: M, k: K], f32>
  %1 = region.binary mul %0, %e : !region.val<[m: M, k: K], f32>
  %acc = region.reduce sum %1 over [k] init 0.0 name "acc" : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %acc : !region.val<[m: M], f32>
}

// Two vectors meet over [m, n], not over [m, k, n]; broadcasts of broadcasts are one.
// CHECK-LABEL: region.kernel @outer
// CHECK:         %[[A:.*]] = region.broadcast_in_dim %{{.*}} dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %[[B:.*]] = region.broadcast_in_dim %{{.*}} dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %[[C:.*]] = region.binary add %[[A]], %[[B]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %[[D:.*]] = region.broadcast_in_dim %[[C]] dims [0, 2] : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:    region.reduce sum %[[D]] over [k]
region.kernel @outer iters [m: M, n: N] ins(%a: !region.memref<[M], f32, align 4>, %b: !region.memref<[N], f32, align 4>) outs(y: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N, K] {
  %0 = region.read %a affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.read %b affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f32, align 4> -> !region.val<[n: N], f32>
  %2 = region.broadcast_in_dim %0 dims [1] : !region.val<[m: M], f32> -> !region.val<[k: K, m: M], f32>
  %3 = region.broadcast_in_dim %2 dims [1, 0] : !region.val<[k: K, m: M], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %4 = region.broadcast_in_dim %1 dims [2] : !region.val<[n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %5 = region.binary add %3, %4 : !region.val<[m: M, k: K, n: N], f32>
  %6 = region.reduce sum %5 over [k] init 0.0 : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  region.yield %6 : !region.val<[m: M, n: N], f32>
}

// A product of two operands that both depend on k is the contraction and stays.
// CHECK-LABEL: region.kernel @gemm
// CHECK:         region.binary mul %{{.*}}, %{{.*}} : !region.val<[m: M, k: K, n: N], f32>
// CHECK-NEXT:    region.reduce sum
region.kernel @gemm iters [m: M, n: N] ins(%a: !region.memref<[M, K], f32, align 4>, %b: !region.memref<[K, N], f32, align 4>) outs(y: !region.memref<[M, N], f32, align 4> gmem) {
  %0 = region.read %a affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.read %b affine_map<(d0, d1)[s0, s1, s2] -> (d0, d1)> : !region.memref<[K, N], f32, align 4> -> !region.val<[k: K, n: N], f32>
  %2 = region.broadcast_in_dim %0 dims [0, 1] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %3 = region.broadcast_in_dim %1 dims [1, 2] : !region.val<[k: K, n: N], f32> -> !region.val<[m: M, k: K, n: N], f32>
  %4 = region.binary mul %2, %3 : !region.val<[m: M, k: K, n: N], f32>
  %5 = region.reduce sum %4 over [k] init 0.0 : !region.val<[m: M, k: K, n: N], f32> -> !region.val<[m: M, n: N], f32>
  region.yield %5 : !region.val<[m: M, n: N], f32>
}
