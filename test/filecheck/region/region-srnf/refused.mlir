// RUN: polyc-opt %s -p region-srnf{report=true} 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p region-srnf{report=true} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// Each function stays under its reduction, and the remark says why (S6.5, S6.8).

// CHECK-LABEL: region.kernel @exp_sum
// CHECK:         region.unary exp
// CHECK-NEXT:    region.reduce sum
// REMARK:      refused.mlir:13:3: remark[NonAssociativeTransform]: sum(exp(x)) has no row: sum(exp(x)) is not exp(sum(x))
region.kernel @exp_sum iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, k: K], f32>
  %2 = region.reduce sum %1 over [k] init 0.0 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// K may be 0.
// CHECK-LABEL: region.kernel @exp_max
// CHECK:         region.unary exp
// CHECK-NEXT:    region.reduce max
// REMARK:      remark[NonAssociativeTransform]: max(exp(x)) needs a reduction that is never empty, since the function does not keep what an empty one gives
region.kernel @exp_max iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, k: K], f32>
  %2 = region.reduce max %1 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// max(sqrt) of -1 and 4 is NaN, not 2.
// CHECK-LABEL: region.kernel @sqrt_max
// CHECK:         region.unary sqrt
// CHECK-NEXT:    region.reduce max
// REMARK:      remark[NonAssociativeTransform]: max(sqrt(x)) needs an operand that is never negative, where the function is total and monotone
region.kernel @sqrt_max iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) assuming (K >= 1) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.unary sqrt %0 : !region.val<[m: M, k: K], f32>
  %2 = region.reduce max %1 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// The sum would accumulate in f16.
// CHECK-LABEL: region.kernel @cast_sum
// CHECK:         region.cast
// CHECK-NEXT:    region.reduce sum
// REMARK:      remark[NonAssociativeTransform]: sum(cast(x)) has no row: the sum would accumulate in the other type: 4096 ones summed in fp16 are 2048
region.kernel @cast_sum iters [m: M] ins(%x: !region.memref<[M, K], f16, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f16, align 4> -> !region.val<[m: M, k: K], f16>
  %1 = region.cast %0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %2 = region.reduce sum %1 over [k] init 0.0 acc f32 : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// The product is rounded to f16, and a max in f32 would not round it.
// CHECK-LABEL: region.kernel @accumulator
// CHECK:         region.binary mul
// CHECK-NEXT:    region.reduce max
// REMARK:      remark[NonAssociativeTransform]: max(mul(x, c)) needs an accumulator of the function's own type, since another one rounds elsewhere
region.kernel @accumulator iters [m: M] ins(%x: !region.memref<[M, K], f16, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f16, align 4> -> !region.val<[m: M, k: K], f16>
  %c = region.constant 0.1 : !region.val<[], f16>
  %cb = region.broadcast_in_dim %c dims [] : !region.val<[], f16> -> !region.val<[m: M, k: K], f16>
  %1 = region.binary mul %0, %cb : !region.val<[m: M, k: K], f16>
  %2 = region.reduce max %1 over [k] init -inf acc f32 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// max(x * s) is max(x) * s only where s is not negative; and 0 * inf is NaN.
// CHECK-LABEL: region.kernel @scale_max
// CHECK:         region.binary mul
// CHECK-NEXT:    region.reduce max
// REMARK:      remark[NonAssociativeTransform]: max(mul(x, c)) needs a finite constant above 0; or needs a finite constant below 0; or needs a factor that is never negative and a reduction that is never empty
region.kernel @scale_max iters [m: M] ins(%x: !region.memref<[M, K], f32, align 4>, %s: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %s0 = region.read %s affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %sb = region.broadcast_in_dim %s0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, k: K], f32>
  %1 = region.binary mul %0, %sb : !region.val<[m: M, k: K], f32>
  %2 = region.reduce max %1 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
}

// The exponentials are used again.
// CHECK-LABEL: region.kernel @shared
// CHECK:         region.unary neg
// CHECK-NEXT:    region.reduce max
// REMARK:      remark[NonAssociativeTransform]: the neg under max(neg(x)) has other uses, and would be computed twice
region.kernel @shared iters [m: M, k: K] ins(%x: !region.memref<[M, K], f32, align 4>) outs(y: !region.memref<[M, K], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f32, align 4> -> !region.val<[m: M, k: K], f32>
  %1 = region.unary neg %0 : !region.val<[m: M, k: K], f32>
  %2 = region.reduce max %1 over [k] init -inf : !region.val<[m: M, k: K], f32> -> !region.val<[m: M], f32>
  %3 = region.broadcast_in_dim %2 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, k: K], f32>
  %4 = region.binary sub %1, %3 : !region.val<[m: M, k: K], f32>
  region.yield %4 : !region.val<[m: M, k: K], f32>
}
