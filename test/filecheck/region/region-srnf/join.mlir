// RUN: polyc-opt %s -p region-srnf{report=true} 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p region-srnf{report=true} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: polyc-opt %s -p region-srnf{classes=exact} | filecheck %s --check-prefix=EXACT

// R0: two sums are one over both axes, in the order of the operand; with exact changes
// only they stay two.
// CHECK-LABEL: region.kernel @sums
// CHECK:         %1 = region.reduce sum %0 over [j, k] init 0.0 acc f32 name "outer" : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT:    region.yield %1
// REMARK:      remark[reassociating]: sum over [k] joined the one outside it
// EXACT-LABEL: region.kernel @sums
// EXACT:         region.reduce sum
// EXACT-NEXT:    region.reduce sum
region.kernel @sums iters [m: M] ins(%x: !region.memref<[M, J, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f32, align 4> -> !region.val<[m: M, j: J, k: K], f32>
  %1 = region.reduce sum %0 over [k] init 0.0 acc f32 name "inner" : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.reduce sum %1 over [j] init 0.0 name "outer" : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// R1 first, then R0: the negation between the two maxima leaves both.
// CHECK-LABEL: region.kernel @through
// CHECK:         %1 = region.reduce min %0 over [j, k] init inf
// CHECK-NEXT:    %2 = region.unary neg %1
// CHECK-NEXT:    region.yield %2
region.kernel @through iters [m: M] ins(%x: !region.memref<[M, J, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f32, align 4> -> !region.val<[m: M, j: J, k: K], f32>
  %1 = region.reduce min %0 over [k] init inf : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.unary neg %1 : !region.val<[m: M, j: J], f32>
  %3 = region.reduce max %2 over [j] init -inf : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  region.yield %3 : !region.val<[m: M], f32>
}

// R4: unlike reductions, an inner result with two uses, and unlike accumulators stay.
// CHECK-LABEL: region.kernel @unlike
// CHECK:         region.reduce sum
// CHECK-NEXT:    region.reduce max
// REMARK:      remark[NonAssociativeTransform]: a max of a sum is a barrier: unlike reductions do not join
region.kernel @unlike iters [m: M] ins(%x: !region.memref<[M, J, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f32, align 4> -> !region.val<[m: M, j: J, k: K], f32>
  %1 = region.reduce sum %0 over [k] init 0.0 acc f32 : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.reduce max %1 over [j] init -inf : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}
// CHECK-LABEL: region.kernel @accumulators
// CHECK:         region.reduce sum
// CHECK-NEXT:    region.reduce sum
// REMARK:      remark[NonAssociativeTransform]: the two accumulate in f16 and f32
region.kernel @accumulators iters [m: M] ins(%x: !region.memref<[M, J, K], f16, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f16, align 4> -> !region.val<[m: M, j: J, k: K], f16>
  %1 = region.reduce sum %0 over [k] init 0.0 acc f16 : !region.val<[m: M, j: J, k: K], f16> -> !region.val<[m: M, j: J], f16>
  %2 = region.reduce sum %1 over [j] init 0.0 acc f32 : !region.val<[m: M, j: J], f16> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}
// CHECK-LABEL: region.kernel @shared
// CHECK:         region.reduce sum
// CHECK-NEXT:    region.reduce sum
// REMARK:      remark[NonAssociativeTransform]: the inner result has other uses, and would be computed twice
region.kernel @shared iters [m: M, j: J] ins(%x: !region.memref<[M, J, K], f32, align 4>) outs(y: !region.memref<[M, J], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f32, align 4> -> !region.val<[m: M, j: J, k: K], f32>
  %1 = region.reduce sum %0 over [k] init 0.0 : !region.val<[m: M, j: J, k: K], f32> -> !region.val<[m: M, j: J], f32>
  %2 = region.reduce sum %1 over [j] init 0.0 : !region.val<[m: M, j: J], f32> -> !region.val<[m: M], f32>
  %3 = region.broadcast_in_dim %2 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, j: J], f32>
  %4 = region.binary div %1, %3 : !region.val<[m: M, j: J], f32>
  region.yield %4 : !region.val<[m: M, j: J], f32>
}

// A sum in f16 is as wrong as its order makes it: 64 sums of 64 ones are 4096, one sum is 2048.
// CHECK-LABEL: region.kernel @narrow
// CHECK:         region.reduce sum
// CHECK-NEXT:    region.reduce sum
// REMARK:      remark[NonAssociativeTransform]: a sum in f16 depends on its order by more than its last bits: 4096 ones are 2048 in f16, and 64 sums of 64 are not
region.kernel @narrow iters [m: M] ins(%x: !region.memref<[M, J, K], f16, align 4>) outs(y: !region.memref<[M], f16, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, J, K], f16, align 4> -> !region.val<[m: M, j: J, k: K], f16>
  %1 = region.reduce sum %0 over [k] init 0.0 acc f16 : !region.val<[m: M, j: J, k: K], f16> -> !region.val<[m: M, j: J], f16>
  %2 = region.reduce sum %1 over [j] init 0.0 acc f16 : !region.val<[m: M, j: J], f16> -> !region.val<[m: M], f16>
  region.yield %2 : !region.val<[m: M], f16>
}
