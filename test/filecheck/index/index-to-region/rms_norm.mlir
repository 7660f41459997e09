// RUN: polyc-opt %examples/rms_norm.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %examples/rms_norm.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// One kernel of one reduction.

// CHECK:      region.kernel @rms_norm iters [m: M, n: N]
// CHECK-NEXT: ins(%X: !region.memref<[M, N], f16, align 16, noalias>, %gamma: !region.memref<[N], f16, align 16, noalias> {role = "param", storage = "const_pool"})
// CHECK-NEXT: outs(Y: !region.memref<[M, N], f16, align 16, noalias> gmem) {
// CHECK-NEXT: %[[V0:[0-9]+]] = region.read %X affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f16, align 16, noalias> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT: %X_f32 = region.cast %[[V0]] : !region.val<[m: M, n: N], f16> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = region.binary mul %X_f32, %X_f32 : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %acc = region.reduce sum %[[V1]] over [n] init 0.0 acc f32 name "acc" : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = region.dim N : !region.val<[], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = region.broadcast_in_dim %[[V2]] dims [] : !region.val<[], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = region.binary div %acc, %[[V3]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = region.constant 1.0e-06 : !region.val<[], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = region.broadcast_in_dim %[[V5]] dims [] : !region.val<[], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = region.binary add %[[V4]], %[[V6]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = region.unary rsqrt %[[V7]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V9:[0-9]+]] = region.broadcast_in_dim %[[V8]] dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V10:[0-9]+]] = region.binary mul %X_f32, %[[V9]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V11:[0-9]+]] = region.read %gamma affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[N], f16, align 16, noalias> -> !region.val<[n: N], f16>
// CHECK-NEXT: %gamma_f32 = region.cast %[[V11]] : !region.val<[n: N], f16> -> !region.val<[n: N], f32>
// CHECK-NEXT: %[[V12:[0-9]+]] = region.broadcast_in_dim %gamma_f32 dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V13:[0-9]+]] = region.binary mul %[[V10]], %[[V12]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V14:[0-9]+]] = region.cast %[[V13]] : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT: region.yield %[[V14]] : !region.val<[m: M, n: N], f16>
// CHECK-NOT:  index.value
