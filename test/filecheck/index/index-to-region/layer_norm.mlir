// RUN: polyc-opt %examples/layer_norm.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %examples/layer_norm.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// One kernel of two reductions; weight and bias are read over the column alone.

// CHECK:      region.kernel @layer_norm iters [m: M, n: N]
// CHECK-NEXT: ins(%X: !region.memref<[M, N], f16, align 16, noalias>, %gamma: !region.memref<[N], f16, align 16, noalias> {role = "param", storage = "const_pool"}, %beta: !region.memref<[N], f16, align 16, noalias> {role = "param", storage = "const_pool"})
// CHECK-NEXT: outs(Y: !region.memref<[M, N], f16, align 16, noalias> gmem) {
// CHECK-NEXT: %[[V0:[0-9]+]] = region.read %X affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f16, align 16, noalias> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT: %X_f32 = region.cast %[[V0]] : !region.val<[m: M, n: N], f16> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %acc = region.reduce sum %X_f32 over [n] init 0.0 acc f32 name "acc" : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = region.dim N : !region.val<[], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = region.broadcast_in_dim %[[V1]] dims [] : !region.val<[], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = region.binary div %acc, %[[V2]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = region.broadcast_in_dim %[[V3]] dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = region.binary sub %X_f32, %[[V4]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = region.binary mul %[[V5]], %[[V5]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %acc1 = region.reduce sum %[[V6]] over [n] init 0.0 acc f32 name "acc1" : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = region.dim N : !region.val<[], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = region.broadcast_in_dim %[[V7]] dims [] : !region.val<[], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V9:[0-9]+]] = region.binary div %acc1, %[[V8]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V10:[0-9]+]] = region.constant 1.0e-05 : !region.val<[], f32>
// CHECK-NEXT: %[[V11:[0-9]+]] = region.broadcast_in_dim %[[V10]] dims [] : !region.val<[], f32> -> !region.val<[m: M], f32>
// CHECK-NEXT: %[[V12:[0-9]+]] = region.binary add %[[V9]], %[[V11]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V13:[0-9]+]] = region.unary rsqrt %[[V12]] : !region.val<[m: M], f32>
// CHECK-NEXT: %[[V14:[0-9]+]] = region.broadcast_in_dim %[[V13]] dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V15:[0-9]+]] = region.binary mul %[[V5]], %[[V14]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V16:[0-9]+]] = region.read %gamma affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[N], f16, align 16, noalias> -> !region.val<[n: N], f16>
// CHECK-NEXT: %gamma_f32 = region.cast %[[V16]] : !region.val<[n: N], f16> -> !region.val<[n: N], f32>
// CHECK-NEXT: %[[V17:[0-9]+]] = region.broadcast_in_dim %gamma_f32 dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V18:[0-9]+]] = region.binary mul %[[V15]], %[[V17]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V19:[0-9]+]] = region.read %beta affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[N], f16, align 16, noalias> -> !region.val<[n: N], f16>
// CHECK-NEXT: %beta_f32 = region.cast %[[V19]] : !region.val<[n: N], f16> -> !region.val<[n: N], f32>
// CHECK-NEXT: %[[V20:[0-9]+]] = region.broadcast_in_dim %beta_f32 dims [1] : !region.val<[n: N], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V21:[0-9]+]] = region.binary add %[[V18]], %[[V20]] : !region.val<[m: M, n: N], f32>
// CHECK-NEXT: %[[V22:[0-9]+]] = region.cast %[[V21]] : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT: region.yield %[[V22]] : !region.val<[m: M, n: N], f16>
// CHECK-NOT:  index.value
