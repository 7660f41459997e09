// RUN: polyc-opt %examples/causal_attention.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %examples/causal_attention.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// One kernel: both products, with the softmax of the row between them.  The weights are rounded as
// the second product reads them, and a row with no key is 0.

// CHECK:      region.kernel @causal_attention iters [b: B, h: H, m: M, i3: 128]
// CHECK-NEXT: ins(%Q: !region.memref<[B, H, M, 128], f16, align 16, noalias>, %K: !region.memref<[B, H, N, 128], f16, align 16, noalias>, %V: !region.memref<[B, H, N, 128], f16, align 16, noalias>)
// CHECK-NEXT: outs(O: !region.memref<[B, H, M, 128], f16, align 16, noalias> gmem) {
// CHECK-NEXT: %[[V0:[0-9]+]] = region.read %Q affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2, d3)> : !region.memref<[B, H, M, 128], f16, align 16, noalias> -> !region.val<[b: B, h: H, m: M, r0: 128], f16>
// CHECK-NEXT: %Q_f32 = region.cast %[[V0]] : !region.val<[b: B, h: H, m: M, r0: 128], f16> -> !region.val<[b: B, h: H, m: M, r0: 128], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = region.read %K affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3] -> (d0, d1, d2, d3)> : !region.memref<[B, H, N, 128], f16, align 16, noalias> -> !region.val<[b: B, h: H, n: N, r0: 128], f16>
// CHECK-NEXT: %K_f32 = region.cast %[[V1]] : !region.val<[b: B, h: H, n: N, r0: 128], f16> -> !region.val<[b: B, h: H, n: N, r0: 128], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = region.broadcast_in_dim %Q_f32 dims [0, 1, 2, 4] : !region.val<[b: B, h: H, m: M, r0: 128], f32> -> !region.val<[b: B, h: H, m: M, n: N, r0: 128], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = region.broadcast_in_dim %K_f32 dims [0, 1, 3, 4] : !region.val<[b: B, h: H, n: N, r0: 128], f32> -> !region.val<[b: B, h: H, m: M, n: N, r0: 128], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = region.binary mul %[[V2]], %[[V3]] : !region.val<[b: B, h: H, m: M, n: N, r0: 128], f32>
// CHECK-NEXT: %acc = region.reduce sum %[[V4]] over [r0] init 0.0 acc f32 name "acc" : !region.val<[b: B, h: H, m: M, n: N, r0: 128], f32> -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = region.constant 0.088388346 : !region.val<[], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = region.broadcast_in_dim %[[V5]] dims [] : !region.val<[], f32> -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = region.binary mul %acc, %[[V6]] : !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V8:[0-9]+]] = region.inside affine_set<(d0, d1)[s0, s1, s2, s3] : ((d0 + (d1 * -1)) >= 0)> : !region.val<[m: M, n: N], i1>
// CHECK-NEXT: %[[V9:[0-9]+]] = region.constant -inf : !region.val<[], f32>
// CHECK-NEXT: %[[V10:[0-9]+]] = region.broadcast_in_dim %[[V8]] dims [2, 3] : !region.val<[m: M, n: N], i1> -> !region.val<[b: B, h: H, m: M, n: N], i1>
// CHECK-NEXT: %[[V11:[0-9]+]] = region.broadcast_in_dim %[[V9]] dims [] : !region.val<[], f32> -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V12:[0-9]+]] = region.select %[[V10]], %[[V7]], %[[V11]] : !region.val<[b: B, h: H, m: M, n: N], i1>, !region.val<[b: B, h: H, m: M, n: N], f32>, !region.val<[b: B, h: H, m: M, n: N], f32> -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %acc1 = region.reduce max %[[V12]] over [n] init -inf acc f32 name "acc1" : !region.val<[b: B, h: H, m: M, n: N], f32> -> !region.val<[b: B, h: H, m: M], f32>
// CHECK-NEXT: %[[V13:[0-9]+]] = region.constant -inf : !region.val<[], f32>
// CHECK-NEXT: %[[V14:[0-9]+]] = region.broadcast_in_dim %[[V13]] dims [] : !region.val<[], f32> -> !region.val<[b: B, h: H, m: M], f32>
// CHECK-NEXT: %[[V15:[0-9]+]] = region.compare eq %acc1, %[[V14]] : !region.val<[b: B, h: H, m: M], f32>, !region.val<[b: B, h: H, m: M], f32> -> !region.val<[b: B, h: H, m: M], i1>
// CHECK-NEXT: %[[V16:[0-9]+]] = region.constant 0.0 : !region.val<[], f32>
// CHECK-NEXT: %[[V17:[0-9]+]] = region.broadcast_in_dim %[[V16]] dims [] : !region.val<[], f32> -> !region.val<[b: B, h: H, m: M], f32>
// CHECK-NEXT: %[[V18:[0-9]+]] = region.select %[[V15]], %[[V17]], %acc1 : !region.val<[b: B, h: H, m: M], i1>, !region.val<[b: B, h: H, m: M], f32>, !region.val<[b: B, h: H, m: M], f32> -> !region.val<[b: B, h: H, m: M], f32>
// CHECK-NEXT: %[[V19:[0-9]+]] = region.broadcast_in_dim %[[V18]] dims [0, 1, 2] : !region.val<[b: B, h: H, m: M], f32> -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V20:[0-9]+]] = region.binary sub %[[V12]], %[[V19]] : !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V21:[0-9]+]] = region.unary exp %[[V20]] : !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %acc2 = region.reduce sum %[[V21]] over [n] init 0.0 acc f32 name "acc2" : !region.val<[b: B, h: H, m: M, n: N], f32> -> !region.val<[b: B, h: H, m: M], f32>
// CHECK-NEXT: %[[V22:[0-9]+]] = region.constant 0.0 : !region.val<[], f32>
// CHECK-NEXT: %[[V23:[0-9]+]] = region.broadcast_in_dim %[[V22]] dims [] : !region.val<[], f32> -> !region.val<[b: B, h: H, m: M], f32>
// CHECK-NEXT: %[[V24:[0-9]+]] = region.compare eq %acc2, %[[V23]] : !region.val<[b: B, h: H, m: M], f32>, !region.val<[b: B, h: H, m: M], f32> -> !region.val<[b: B, h: H, m: M], i1>
// CHECK-NEXT: %[[V25:[0-9]+]] = region.constant 0.0 : !region.val<[], f32>
// CHECK-NEXT: %[[V26:[0-9]+]] = region.cast %[[V21]] : !region.val<[b: B, h: H, m: M, n: N], f32> -> !region.val<[b: B, h: H, m: M, n: N], f16>
// CHECK-NEXT: %[[V27:[0-9]+]] = region.cast %[[V26]] : !region.val<[b: B, h: H, m: M, n: N], f16> -> !region.val<[b: B, h: H, m: M, n: N], f32>
// CHECK-NEXT: %[[V28:[0-9]+]] = region.read %V affine_map<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] -> (d0, d1, d2, d3)> where affine_set<(d0, d1, d2, d3, d4)[s0, s1, s2, s3] : (((d2 * -1) + d4) >= 0)> else 0.0 : !region.memref<[B, H, N, 128], f16, align 16, noalias> -> !region.val<[b: B, h: H, n: N, i3: 128, m: M], f16>
// CHECK-NEXT: %V_f32 = region.cast %[[V28]] : !region.val<[b: B, h: H, n: N, i3: 128, m: M], f16> -> !region.val<[b: B, h: H, n: N, i3: 128, m: M], f32>
// CHECK-NEXT: %[[V29:[0-9]+]] = region.broadcast_in_dim %[[V27]] dims [0, 1, 2, 3] : !region.val<[b: B, h: H, m: M, n: N], f32> -> !region.val<[b: B, h: H, m: M, n: N, i3: 128], f32>
// CHECK-NEXT: %[[V30:[0-9]+]] = region.transpose %V_f32 perm [0, 1, 4, 2, 3] : !region.val<[b: B, h: H, n: N, i3: 128, m: M], f32> -> !region.val<[b: B, h: H, m: M, n: N, i3: 128], f32>
// CHECK-NEXT: %[[V31:[0-9]+]] = region.binary mul %[[V29]], %[[V30]] : !region.val<[b: B, h: H, m: M, n: N, i3: 128], f32>
// CHECK-NEXT: %acc3 = region.reduce sum %[[V31]] over [n] init 0.0 acc f32 name "acc3" : !region.val<[b: B, h: H, m: M, n: N, i3: 128], f32> -> !region.val<[b: B, h: H, m: M, i3: 128], f32>
// CHECK-NEXT: %[[V32:[0-9]+]] = region.broadcast_in_dim %acc2 dims [0, 1, 2] : !region.val<[b: B, h: H, m: M], f32> -> !region.val<[b: B, h: H, m: M, i3: 128], f32>
// CHECK-NEXT: %[[V33:[0-9]+]] = region.binary div %acc3, %[[V32]] : !region.val<[b: B, h: H, m: M, i3: 128], f32>
// CHECK-NEXT: %[[V34:[0-9]+]] = region.broadcast_in_dim %[[V24]] dims [0, 1, 2] : !region.val<[b: B, h: H, m: M], i1> -> !region.val<[b: B, h: H, m: M, i3: 128], i1>
// CHECK-NEXT: %[[V35:[0-9]+]] = region.broadcast_in_dim %[[V25]] dims [] : !region.val<[], f32> -> !region.val<[b: B, h: H, m: M, i3: 128], f32>
// CHECK-NEXT: %[[V36:[0-9]+]] = region.select %[[V34]], %[[V35]], %[[V33]] : !region.val<[b: B, h: H, m: M, i3: 128], i1>, !region.val<[b: B, h: H, m: M, i3: 128], f32>, !region.val<[b: B, h: H, m: M, i3: 128], f32> -> !region.val<[b: B, h: H, m: M, i3: 128], f32>
// CHECK-NEXT: %[[V37:[0-9]+]] = region.cast %[[V36]] : !region.val<[b: B, h: H, m: M, i3: 128], f32> -> !region.val<[b: B, h: H, m: M, i3: 128], f16>
// CHECK-NEXT: region.yield %[[V37]] : !region.val<[b: B, h: H, m: M, i3: 128], f16>
// CHECK-NOT:  index.value
