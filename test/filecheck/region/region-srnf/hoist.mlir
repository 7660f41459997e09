// RUN: polyc-opt %s -p region-srnf | filecheck %s
// RUN: polyc-opt %s -p region-srnf,region-srnf | filecheck %s
// RUN: polyc-opt %s -p region-srnf{report=true} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// R1: a negation leaves the max, which becomes a min; the reduction keeps its name.
region.kernel @neg iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.unary neg %0 : !region.val<[m: M, k: K], f32>
  %acc = region.reduce max %1 over [k] init -inf name "acc" : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %acc : !region.val<[m: M], f32>
}
// CHECK:       region.kernel @neg
// CHECK:         %0 = region.read
// CHECK-NEXT:    %acc = region.reduce min %0 over [k] init inf name "acc" : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT:    %1 = region.unary neg %acc : !region.val<[m: M], f32>
// CHECK-NEXT:    region.yield %1
// REMARK:      hoist.mlir:9:3: remark[exact]: neg moved out of max(neg(x))

// The bound and the scale are constants, broadcast over what is left; 2.0 is positive.
region.kernel @chain iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %c = region.constant 2.0 : !region.val<[], f32>
  %cb = region.broadcast_in_dim %c dims [] : !region.val<[], f32> -> !region.val<[m: M, k: K], f32>
  %1 = region.binary min %0, %cb : !region.val<[m: M, k: K], f32>
  %2 = region.binary mul %cb, %1 : !region.val<[m: M, k: K], f32>
  %acc = region.reduce max %2 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %acc : !region.val<[m: M], f32>
}
// CHECK:       region.kernel @chain
// CHECK:         %c = region.constant 2.0
// CHECK:         %acc = region.reduce max %0 over [k] init -inf
// CHECK:         %{{.*}} = region.binary min %acc, %{{.*}} : !region.val<[m: M], f32>
// CHECK:         %{{.*}} = region.binary mul %{{.*}}, %{{.*}} : !region.val<[m: M], f32>
// CHECK-NEXT:    region.yield

// exp keeps nothing of an empty max (it gives 0, not -inf): K >= 1 is what allows it.
region.kernel @exp iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) assuming (K >= 1) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, k: K], f32>
  %acc = region.reduce max %1 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %acc : !region.val<[m: M], f32>
}
// CHECK:       region.kernel @exp
// CHECK:         %acc = region.reduce max %0 over [k]
// CHECK-NEXT:    %1 = region.unary exp %acc
// REMARK:      remark[reassociating]: exp moved out of max(exp(x))

// A root of squares: the operand is never negative.
region.kernel @sqrt iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.binary mul %0, %0 : !region.val<[m: M, k: K], f32>
  %2 = region.unary sqrt %1 : !region.val<[m: M, k: K], f32>
  %acc = region.reduce min %2 over [k] init inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %acc : !region.val<[m: M], f32>
}
// CHECK:       region.kernel @sqrt
// CHECK:         %acc = region.reduce min %1 over [k]
// CHECK-NEXT:    %2 = region.unary sqrt %acc

// A max does not round, so the cast may come after it; it is then of one value.
region.kernel @cast iters [m: M] ins(%x: !region.memref<[M, K], f16, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f16, align 4> -> !region.val<[m: M, k: K], f16>
  %1 = region.cast %0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %acc = region.reduce max %1 over [k] init -inf acc f32 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %acc : !region.val<[m: M], f32>
}
// CHECK:       region.kernel @cast
// CHECK:         %acc = region.reduce max %0 over [k] init -inf : !region.val<[m: M, k: K], f16> -> !region.val<[m: M], f16>
// CHECK-NEXT:    %1 = region.cast %acc
