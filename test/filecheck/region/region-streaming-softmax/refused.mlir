// RUN: polyc-opt %s -p region-streaming-softmax{report=true} 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p region-streaming-softmax{report=true} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

// None of these sums joins its maximum, and the remark says why (S6.10).
// CHECK-NOT: region.reduce_together

// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: its exponent is not x - max(x), of the x whose maximum it is
region.kernel @other_x iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %1, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %e over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// Weights would grow with the maximum.
// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: its exponent is scaled by -2.0, which is not positive and finite
region.kernel @negative iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %c = region.constant -2.0 : !region.val<[], f32>
  %cb = region.broadcast_in_dim %c dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %s = region.binary mul %d, %cb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %s : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %e over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: its exponent is scaled by inf, which is not positive and finite
region.kernel @infinite iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %c = region.constant inf : !region.val<[], f32>
  %cb = region.broadcast_in_dim %c dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %s = region.binary mul %cb, %d : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %s : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %e over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: both operands of its mul depend on the maximum
region.kernel @squares iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %p = region.binary mul %e, %e : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %p over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// A sum of x - max(x) is no sum of exponentials.
// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: it is a sum of something else than exponentials times values of their own
region.kernel @logs iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %d over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: it divides by exponentials
region.kernel @reciprocals iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %p = region.binary div %1, %e : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %p over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// A term that is 1 is not scaled as the maximum grows.
// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: it selects, and not between an exponential and 0 by a condition that is given
region.kernel @chosen iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %c = region.constant 1.0 : !region.val<[], f32>
  %cb = region.broadcast_in_dim %c dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %t = region.compare lt %1, %0 : !region.val<[m: M, n: N], f32>, !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], i1>
  %p = region.select %t, %e, %cb : !region.val<[m: M, n: N], i1>, !region.val<[m: M, n: N], f32>, !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %p over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// The maximum of a row, and sums down the columns.
// REMARK:      remark[NonAssociativeTransform]: the sum over [m] does not join the max over [n]: the two are over different axes
region.kernel @columns iters [n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[N], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %e over [m] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[n: N], f32>
  region.yield %y : !region.val<[n: N], f32>
}

// A state is scaled, which an f16 would round.
// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: one of them is of f16, and states are scaled in f32
region.kernel @narrow iters [m: M] ins(%x: !region.memref<[M, N], f16, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f16, align 4> -> !region.val<[m: M, n: N], f16>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f16> -> !region.val<[m: M], f16>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f16> -> !region.val<[m: M, n: N], f16>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f16>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f16>
  %y = region.reduce sum %e over [n] init 0.0 acc f32 : !region.val<[m: M, n: N], f16> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}
