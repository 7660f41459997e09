// RUN: polyc-opt %s -p "region-distribute{classes=exact,reassociating,finite-only report=true}" 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p "region-distribute{classes=exact,reassociating,finite-only report=true}" 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: polyc-opt %s -p region-distribute | filecheck %s --check-prefix=DEFAULT

// The weights of the outer sum move into the inner one, as an FMA; then the two are one.
// CHECK-LABEL: region.kernel @weighted
// CHECK:         %2 = region.binary mul %0, %1 : !region.val<[m: M, j: J, k: K], f32>
// CHECK-NEXT:    %3 = region.reduce sum %2 over [j, k]
// CHECK-NEXT:    region.yield %3
// REMARK:      remark[finite-only]: mul moved into sum over [k]: 1073752064 operations in the place of 1085286400
// DEFAULT-LABEL: region.kernel @weighted
// DEFAULT:         region.reduce sum
// DEFAULT:         region.reduce sum
region.kernel @weighted iters [m: M] ins(%x: !region.memref<[M, J, K], f32, align 4>, %w: !region.memref<[J], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f32, align 4> -> !region.val<[m: M, j: J, k: K], f32>
  %1 = region.reduce sum %0 over [k] init 0.0 : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M, j: J], f32>
  %w0 = region.read %w affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[J], f32, align 4> -> !region.val<[j: J], f32>
  %c = region.broadcast_in_dim %w0 dims [1] : !region.val<[j: J], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.binary mul %1, %c : !region.val<[m: M, j: J], f32>
  %3 = region.reduce sum %2 over [j] init 0.0 : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  region.yield %3 : !region.val<[m: M], f32>
}

// A max with added terms: the additions inside would cost more than the exchange outside.
// CHECK-LABEL: region.kernel @dear
// CHECK:         region.reduce max
// CHECK:         region.binary add
// CHECK-NEXT:    region.reduce max
region.kernel @dear iters [m: M] ins(%x: !region.memref<[M, J, K], f32, align 4>, %w: !region.memref<[J], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f32, align 4> -> !region.val<[m: M, j: J, k: K], f32>
  %1 = region.reduce max %0 over [k] init -inf : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M, j: J], f32>
  %w0 = region.read %w affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[J], f32, align 4> -> !region.val<[j: J], f32>
  %c = region.broadcast_in_dim %w0 dims [1] : !region.val<[j: J], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.binary add %1, %c : !region.val<[m: M, j: J], f32>
  %3 = region.reduce max %2 over [j] init -inf : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  region.yield %3 : !region.val<[m: M], f32>
}

// Over 4 points they cost less.
// CHECK-LABEL: region.kernel @cheap
// CHECK:         %[[S:.*]] = region.binary add
// CHECK-NEXT:    region.reduce max %[[S]] over [j, k]
// REMARK:      remark[finite-only]: add moved into max over [k]
region.kernel @cheap iters [m: M] ins(%x: !region.memref<[M, J, 4], f32, align 4>, %w: !region.memref<[J], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1] -> (d0, d1, d2)> : !region.memref<[M, J, 4], f32, align 4> -> !region.val<[m: M, j: J, k: 4], f32>
  %1 = region.reduce max %0 over [k] init -inf : !region.val<[m: M, j: J, k: 4], f32> -> !region.val<[m: M, j: J], f32>
  %w0 = region.read %w affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[J], f32, align 4> -> !region.val<[j: J], f32>
  %c = region.broadcast_in_dim %w0 dims [1] : !region.val<[j: J], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.binary add %1, %c : !region.val<[m: M, j: J], f32>
  %3 = region.reduce max %2 over [j] init -inf : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  region.yield %3 : !region.val<[m: M], f32>
}
