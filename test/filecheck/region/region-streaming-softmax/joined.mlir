// RUN: polyc-opt %s -p region-streaming-softmax{report=true} 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p region-streaming-softmax{report=true} 2>/dev/null | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p region-streaming-softmax{report=true} 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK
// RUN: polyc-opt %s -p region-streaming-softmax{classes=exact} | filecheck %s --check-prefix=EXACT

// The chunk is what the kernel had; the sum of the smaller maximum is scaled by exp(2 * (m_i - m)).
// CHECK-LABEL: region.kernel @scaled
// CHECK:         %m, %l = region.reduce_together %0 over [n] chunk {
// CHECK-NEXT:    ^bb0(%[[X:.*]]: !region.val<[m: M, n: N], f32>):
// CHECK-NEXT:      %[[M:.*]] = region.reduce max %[[X]] over [n] init -inf
// CHECK:           %[[L:.*]] = region.reduce sum %{{.*}} over [n] init 0.0
// CHECK-NEXT:      region.state %[[M]], %[[L]]
// CHECK-NEXT:    } combine {
// CHECK-NEXT:    ^bb0(%[[M0:.*]]: !region.val<[m: M], f32>, %[[L0:.*]]: !region.val<[m: M], f32>, %[[M1:.*]]: !region.val<[m: M], f32>, %[[L1:.*]]: !region.val<[m: M], f32>):
// CHECK-NEXT:      %[[TOP:.*]] = region.binary max %[[M0]], %[[M1]]
// CHECK-NEXT:      %[[D0:.*]] = region.binary sub %[[M0]], %[[TOP]]
// CHECK-NEXT:      region.constant 2.0
// CHECK:           region.unary exp
// CHECK:           %[[SUM:.*]] = region.binary add
// CHECK-NEXT:      region.state %[[TOP]], %[[SUM]]
// CHECK-NEXT:    } : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>, !region.val<[m: M], f32>
// CHECK-NEXT:    %[[LOG:.*]] = region.unary log %l
// CHECK-NEXT:    region.binary add %m, %[[LOG]]
// REMARK:      remark[reassociating]: the max over [n] and the sum over [n] are one reduction over their product
// EXACT-LABEL: region.kernel @scaled
// EXACT-NOT:     region.reduce_together
region.kernel @scaled iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %c = region.constant 2.0 : !region.val<[], f32>
  %cb = region.broadcast_in_dim %c dims [] : !region.val<[], f32> -> !region.val<[m: M, n: N], f32>
  %s = region.binary mul %d, %cb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %s : !region.val<[m: M, n: N], f32>
  %l = region.reduce sum %e over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %g = region.unary log %l : !region.val<[m: M], f32>
  %h = region.binary add %m, %g : !region.val<[m: M], f32>
  region.yield %h : !region.val<[m: M], f32>
}

// What a chunk takes is defined before it.
// CHECK-LABEL: region.kernel @late
// CHECK:         %[[A:.*]] = region.unary abs %1
// CHECK-NEXT:    %m, %y = region.reduce_together %0, %[[A]] over [n] chunk {
// REMARK:      remark[finite-only]: the max over [n] and the sum over [n] are one reduction over their product
region.kernel @late iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %a = region.unary abs %1 : !region.val<[m: M, n: N], f32>
  %q = region.binary mul %a, %e : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %q over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}

// Weights that are divided before they are summed need the sum first: that one stays apart.
// CHECK-LABEL: region.kernel @normalised
// CHECK:         %m, %l = region.reduce_together %0 over [n] chunk {
// CHECK:         region.binary div
// CHECK-NEXT:    region.binary mul
// CHECK-NEXT:    %y = region.reduce sum
// REMARK:      remark[NonAssociativeTransform]: the sum over [n] does not join the max over [n]: its terms need the sum over [n], which is known at the end only; apply that to the sum
region.kernel @normalised iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>, %v: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.read %v affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %m = region.reduce max %0 over [n] init -inf : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %mb = region.broadcast_in_dim %m dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %d = region.binary sub %0, %mb : !region.val<[m: M, n: N], f32>
  %e = region.unary exp %d : !region.val<[m: M, n: N], f32>
  %l = region.reduce sum %e over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  %lb = region.broadcast_in_dim %l dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  %p = region.binary div %e, %lb : !region.val<[m: M, n: N], f32>
  %q = region.binary mul %p, %1 : !region.val<[m: M, n: N], f32>
  %y = region.reduce sum %q over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %y : !region.val<[m: M], f32>
}
