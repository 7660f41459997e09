// RUN: polyc-opt %s | polyc-opt | filecheck %s

// Two kernels: a row's sum is computed once and read twice; the second output is another view of
// what the first kernel makes.
// CHECK:      region.graph @rows
// CHECK-NEXT:     ins(x: !region.memref<[M, N], f32, align 16> {role = "param"})
// CHECK-NEXT:     outs(y: !region.memref<[M, M], f32, align 16> from @rows_1::@y, z: !region.memref<[1, M], f32, align 16> from @rows_0::@s)
// CHECK-NEXT:     symbols [N, M]
// CHECK-NEXT:     assuming (M >= 1)
region.graph @rows
    ins(x: !region.memref<[M, N], f32, align 16> {role = "param"})
    outs(y: !region.memref<[M, M], f32, align 16> from @rows_1::@y, z: !region.memref<[1, M], f32, align 16> from @rows_0::@s)
    symbols [N, M]
    assuming (M >= 1)
// CHECK-NEXT: region.kernel @rows_0 iters [m: M]
// CHECK-NEXT:     ins(%x: !region.memref<[M, N], f32, align 16> {role = "param", from = @rows::@x})
region.kernel @rows_0 iters [m: M]
    ins(%x: !region.memref<[M, N], f32, align 16> {role = "param", from = @rows::@x})
    outs(s: !region.memref<[M], f32, align 16> gmem {boundary = "wanted at 2 points"})
    symbols [N, M] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 16> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce sum %0 over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @rows_1 iters [m: M, i1: M]
    ins(%s: !region.memref<[M], f32, align 16> {from = @rows_0::@s})
    outs(y: !region.memref<[M, M], f32, align 16> gmem)
    symbols [N, M] {
  %0 = region.read %s affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[m: M], f32>
  %1 = region.read %s affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 16> -> !region.val<[i1: M], f32>
  %2 = region.broadcast_in_dim %0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, i1: M], f32>
  %3 = region.broadcast_in_dim %1 dims [1] : !region.val<[i1: M], f32> -> !region.val<[m: M, i1: M], f32>
  %4 = region.binary sub %2, %3 : !region.val<[m: M, i1: M], f32>
  region.yield %4 : !region.val<[m: M, i1: M], f32>
}
