// RUN: polyc-opt %examples/conv_silu.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %examples/conv_silu.mlir -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// One kernel: the reads hold the pad as a guard with its own fill, the taps and channels are reduced,
// and SiLU follows on the accumulator.

// CHECK:      region.kernel @conv_silu iters [n: N, h: H, w: W, f: F]
// CHECK-NEXT: ins(%X: !region.memref<[N, H, W, C], f16, align 16, noalias>, %Wt: !region.memref<[F, 3, 3, C], f16, align 16, noalias> {role = "param", storage = "const_pool"})
// CHECK-NEXT: outs(Y: !region.memref<[N, H, W, F], f16, align 16, noalias> gmem) {
// CHECK-NEXT: %[[V0:[0-9]+]] = region.read %X affine_map<(d0, d1, d2, d3, d4, d5)[s0, s1, s2, s3, s4] -> (d0, ((d1 + d2) + -1), ((d3 + d4) + -1), d5)> where affine_set<(d0, d1, d2, d3, d4, d5)[s0, s1, s2, s3, s4] : ((((d1 * -1) + (d2 * -1)) + s1) >= 0, ((d1 + d2) + -1) >= 0, (((d3 * -1) + (d4 * -1)) + s2) >= 0, ((d3 + d4) + -1) >= 0)> else 0.0 : !region.memref<[N, H, W, C], f16, align 16, noalias> -> !region.val<[n: N, h: H, r0: 3, w: W, r1: 3, c: C], f16>
// CHECK-NEXT: %X_f32 = region.cast %[[V0]] : !region.val<[n: N, h: H, r0: 3, w: W, r1: 3, c: C], f16> -> !region.val<[n: N, h: H, r0: 3, w: W, r1: 3, c: C], f32>
// CHECK-NEXT: %[[V1:[0-9]+]] = region.read %Wt affine_map<(d0, d1, d2, d3)[s0, s1, s2, s3, s4] -> (d0, d1, d2, d3)> : !region.memref<[F, 3, 3, C], f16, align 16, noalias> -> !region.val<[f: F, r0: 3, r1: 3, c: C], f16>
// CHECK-NEXT: %Wt_f32 = region.cast %[[V1]] : !region.val<[f: F, r0: 3, r1: 3, c: C], f16> -> !region.val<[f: F, r0: 3, r1: 3, c: C], f32>
// CHECK-NEXT: %[[V2:[0-9]+]] = region.broadcast_in_dim %X_f32 dims [0, 1, 4, 2, 5, 6] : !region.val<[n: N, h: H, r0: 3, w: W, r1: 3, c: C], f32> -> !region.val<[n: N, h: H, w: W, f: F, r0: 3, r1: 3, c: C], f32>
// CHECK-NEXT: %[[V3:[0-9]+]] = region.broadcast_in_dim %Wt_f32 dims [3, 4, 5, 6] : !region.val<[f: F, r0: 3, r1: 3, c: C], f32> -> !region.val<[n: N, h: H, w: W, f: F, r0: 3, r1: 3, c: C], f32>
// CHECK-NEXT: %[[V4:[0-9]+]] = region.binary mul %[[V2]], %[[V3]] : !region.val<[n: N, h: H, w: W, f: F, r0: 3, r1: 3, c: C], f32>
// CHECK-NEXT: %acc = region.reduce sum %[[V4]] over [r0, r1, c] init 0.0 acc f32 name "acc" : !region.val<[n: N, h: H, w: W, f: F, r0: 3, r1: 3, c: C], f32> -> !region.val<[n: N, h: H, w: W, f: F], f32>
// CHECK-NEXT: %[[V5:[0-9]+]] = region.unary sigmoid %acc : !region.val<[n: N, h: H, w: W, f: F], f32>
// CHECK-NEXT: %[[V6:[0-9]+]] = region.binary mul %acc, %[[V5]] : !region.val<[n: N, h: H, w: W, f: F], f32>
// CHECK-NEXT: %[[V7:[0-9]+]] = region.cast %[[V6]] : !region.val<[n: N, h: H, w: W, f: F], f32> -> !region.val<[n: N, h: H, w: W, f: F], f16>
// CHECK-NEXT: region.yield %[[V7]] : !region.val<[n: N, h: H, w: W, f: F], f16>
// CHECK-NOT:  index.value
