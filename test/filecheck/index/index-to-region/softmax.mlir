// RUN: polyc-opt %examples/softmax.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %examples/softmax.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// One kernel: the maximum, the exponentials, their sum, the quotient.

// CHECK:      region.kernel @softmax iters [m: M, n: N]
// CHECK-NEXT: ins(%X: !region.memref<[M, N], f16, align 16, noalias>)
// CHECK-NEXT: outs(Y: !region.memref<[M, N], f16, align 16, noalias> gmem) {
// CHECK-NEXT: %[[V0:[0-9]+]] = region.read %X affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f16, align 16, noalias> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT: %X_f32 = region.cast %[[V0]] : !region.val<[m: M, n: N], f16> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %acc = region.reduce max %X_f32 over [n] init -inf acc f32 name "acc" : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = region.broadcast_in_dim %acc dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = region.binary sub %X_f32, %[[V1]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = region.unary exp %[[V2]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %acc1 = region.reduce sum %[[V3]] over [n] init 0.0 acc f32 name "acc1" : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = region.broadcast_in_dim %acc1 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = region.binary div %[[V3]], %[[V4]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = region.cast %[[V5]] : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT: region.yield %[[V6]] : !region.val<[m: M, n: N], f16>
// CHECK-NOT:  index.value
