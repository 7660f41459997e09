// RUN: polyc-opt %s -p "region-distribute{classes=exact,reassociating,finite-only report=true}" 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p "region-distribute{classes=exact,reassociating,finite-only report=true}" 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: polyc-opt %s -p region-distribute | filecheck %s --check-prefix=DEFAULT

// sum(x + c) holds c once for each of the K points, none if K is 0.
// CHECK-LABEL: region.kernel @shift
// CHECK:         %1 = region.reduce sum %0 over [k]
// CHECK-NEXT:    %2 = region.dim K : !region.val<[], f32>
// CHECK-NEXT:    %3 = region.broadcast_in_dim %2
// CHECK-NEXT:    %4 = region.binary mul %s0, %3
// CHECK-NEXT:    %5 = region.binary add %1, %4
// CHECK-NEXT:    region.yield %5
// REMARK:      split.mlir:{{[0-9]+}}:3: remark[finite-only]: sum(add(x, y)) is split: 1060864 operations in the place of 2107392
// DEFAULT-LABEL: region.kernel @shift
// DEFAULT:         region.binary add
// DEFAULT-NEXT:    region.reduce sum
region.kernel @shift iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>, %s: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s0 = region.read %s affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %c = region.broadcast_in_dim %s0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, k: K], f32>
  %1 = region.binary add %0, %c : !region.val<[m: M, k: K], f32>
  %2 = region.reduce sum %1 over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// Under a mask c counts for the live points alone, and the mask has fewer axes than x.
// CHECK-LABEL: region.kernel @live
// CHECK:         region.select %{{.*}} : !region.val<[b: B, m: M, k: K], i1>
// CHECK-NEXT:    %[[X:.*]] = region.reduce sum %{{.*}} over [k] {{.*}} -> !region.val<[b: B, m: M], f32>
// CHECK:         region.select %in, %{{.*}} : !region.val<[m: M, k: K], i1>
// CHECK-NEXT:    %[[N:.*]] = region.reduce sum %{{.*}} over [k] {{.*}} -> !region.val<[m: M], f32>
// CHECK:         region.binary mul
// CHECK-NEXT:    region.binary sub %[[X]],
// REMARK:      remark[finite-only]: sum(sub(x, y)) is split
region.kernel @live iters [b: B, m: M] ins(%x: !region.memref<[B, M, K], f32, align 4>, %s: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[B, M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[B, M, K], f32, align 4> -> !region.val<[b: B, m: M, k: K], f32>
  %s0 = region.read %s affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %c = region.broadcast_in_dim %s0 dims [1] : !region.val<[m: M], f32> -> !region.val<[b: B, m: M, k: K], f32>
  %1 = region.binary sub %0, %c : !region.val<[b: B, m: M, k: K], f32>
  %in = region.inside affine_set<(d0, d1)[s0, s1, s2] : ((d0 + (d1 * -1)) >= 0)> : !region.val<[m: M, k: K], i1>
  %inb = region.broadcast_in_dim %in dims [1, 2] : !region.val<[m: M, k: K], i1> -> !region.val<[b: B, m: M, k: K], i1>
  %z = region.constant 0.0 : !region.val<[], f32>
  %zb = region.broadcast_in_dim %z dims [] : !region.val<[], f32> -> !region.val<[b: B, m: M, k: K], f32>
  %2 = region.select %inb, %1, %zb : !region.val<[b: B, m: M, k: K], i1>, !region.val<[b: B, m: M, k: K], f32>, !region.val<[b: B, m: M, k: K], f32> -> !region.val<[b: B, m: M, k: K], f32>
  %3 = region.reduce sum %2 over [k] init 0.0 : !region.val<[b: B, m: M, k: K], f32> -> !region.val<[b: B, m: M], f32>
  region.yield %3 : !region.val<[b: B, m: M], f32>
}

// Two reductions of whole values cost more than one of their sum, unless one is there anyway;
// a maximum splits exactly.
// CHECK-LABEL: region.kernel @whole
// CHECK:         region.binary add
// CHECK-NEXT:    region.reduce sum
// CHECK:         %top = region.reduce max %0 over [k]
// CHECK-NEXT:    region.reduce max %1 over [k]
// CHECK-NEXT:    region.binary max
// CHECK-NEXT:    region.yield
// REMARK:      remark[exact]: max(max(x, y)) is split
// DEFAULT-LABEL: region.kernel @whole
// DEFAULT:         %top = region.reduce max
// DEFAULT-NEXT:    region.reduce max
region.kernel @whole iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>, %s: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem, t: !region.memref<[M], f32, align 4> gmem, b: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.read %s affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %2 = region.binary add %0, %1 : !region.val<[m: M, k: K], f32>
  %sum = region.reduce sum %2 over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %top = region.reduce max %0 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %3 = region.binary max %0, %1 : !region.val<[m: M, k: K], f32>
  %both = region.reduce max %3 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %sum, %top, %both : !region.val<[m: M], f32>, !region.val<[m: M], f32>, !region.val<[m: M], f32>
}
