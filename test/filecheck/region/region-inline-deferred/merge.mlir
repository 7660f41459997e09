// RUN: polyc-opt %s -p region-inline-deferred | filecheck %s
// RUN: polyc-opt %s -p region-inline-deferred | polyc-opt -p region-inline-deferred | filecheck %s

// A matrix product and the kernel after it become one; the axes have the consumer's
// names, inputs stand once each, the value is rounded as before, the reduction names differ.
region.kernel @product iters [i0: M, i1: N] ins(%A: !region.memref<[M, N, K], f32, align 4>, %s: !region.memref<[N], f32, align 4>) outs(P: !region.memref<[M, N], f16, align 4> deferred) symbols [M, N, K] {
  %0 = region.read %A affine_map<(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)> : !region.memref<[M, N, K], f32, align 4> -> !region.val<[i0: M, i1: N, n: K], f32>
  %acc = region.reduce sum %0 over [n] init 0.0 name "acc" : !region.val<[i0: M, i1: N, n: K], f32> -> !region.val<[i0: M, i1: N], f32>
  %1 = region.cast %acc : !region.val<[i0: M, i1: N], f32> -> !region.val<[i0: M, i1: N], f16>
  region.yield %1 : !region.val<[i0: M, i1: N], f16>
}
region.kernel @epilogue iters [m: M, n: N] ins(%P: !region.memref<[M, N], f16, align 4> {from = @product::@P}, %s: !region.memref<[N], f32, align 4>) outs(C: !region.memref<[N, M], f32, align 4> gmem) symbols [M, N, K] assuming (M >= 1) {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1, s2] -> (d1, d0)> : !region.memref<[M, N], f16, align 4> -> !region.val<[n: N, m: M], f16>
  %1 = region.cast %0 : !region.val<[n: N, m: M], f16> -> !region.val<[n: N, m: M], f32>
  %2 = region.read %s affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.memref<[N], f32, align 4> -> !region.val<[n: N], f32>
  %acc = region.reduce max %2 over [n] init -inf name "acc" : !region.val<[n: N], f32> -> !region.val<[], f32>
  %3 = region.broadcast_in_dim %acc dims [] : !region.val<[], f32> -> !region.val<[n: N, m: M], f32>
  %4 = region.binary add %1, %3 : !region.val<[n: N, m: M], f32>
  region.yield %4 : !region.val<[n: N, m: M], f32>
}
// CHECK-NOT:   @product
// CHECK:       region.kernel @epilogue iters [m: M, n: N]
// CHECK-NEXT:    ins(%A: !region.memref<[M, N, K], f32, align 4>, %s: !region.memref<[N], f32, align 4>)
// CHECK-NEXT:    outs(C: !region.memref<[N, M], f32, align 4> gmem)
// CHECK-NEXT:    assuming (M >= 1) {
// CHECK-NEXT:    %0 = region.read %A {{.*}} -> !region.val<[m: M, n: N, r0: K], f32>
// CHECK-NEXT:    %acc = region.reduce sum %0 over [r0] init 0.0 name "acc1" : !region.val<[m: M, n: N, r0: K], f32> -> !region.val<[m: M, n: N], f32>
// CHECK-NEXT:    %1 = region.cast %acc : !region.val<[m: M, n: N], f32> -> !region.val<[m: M, n: N], f16>
// CHECK-NEXT:    %2 = region.transpose %1 perm [1, 0] : !region.val<[m: M, n: N], f16> -> !region.val<[n: N, m: M], f16>
// CHECK-NEXT:    %3 = region.cast %2
// CHECK:         %acc_1 = region.reduce max %{{.*}} over [n] init -inf name "acc"
// CHECK:         region.yield

// A chain of elementwise producers, each read at its own index, under a reduction too.
region.kernel @one iters [m: M] ins(%x: !region.memref<[M], f32, align 4>) outs(a: !region.memref<[M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.unary exp %0 : !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @two iters [m: M] ins(%a: !region.memref<[M], f32, align 4> {from = @one::@a}) outs(b: !region.memref<[M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %a affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.unary neg %0 : !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @three iters [n: N] ins(%b: !region.memref<[M], f32, align 4> {from = @two::@b}, %z: !region.memref<[N], f32, align 4>) outs(c: !region.memref<[N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %b affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[i5: M], f32>
  %1 = region.reduce max %0 over [i5] init -inf : !region.val<[i5: M], f32> -> !region.val<[], f32>
  %2 = region.broadcast_in_dim %1 dims [] : !region.val<[], f32> -> !region.val<[n: N], f32>
  region.yield %2 : !region.val<[n: N], f32>
}
// CHECK-NOT:   region.kernel @one
// CHECK-NOT:   region.kernel @two
// CHECK:       region.kernel @three iters [n: N]
// CHECK-NEXT:    ins(%x: !region.memref<[M], f32, align 4>, %z: !region.memref<[N], f32, align 4>)
// CHECK:         %0 = region.read %x {{.*}} -> !region.val<[i5: M], f32>
// CHECK-NEXT:    %1 = region.unary exp %0
// CHECK-NEXT:    %2 = region.unary neg %1
// CHECK-NEXT:    region.reduce max %2 over [i5]

// A producer of two reductions: the consumer has the name of the first for another size, and the
// name that it gets instead would be that of the second.
region.kernel @twice iters [m: M] ins(%x: !region.memref<[M, 8], f32, align 4>, %y: !region.memref<[M, 32], f32, align 4>) outs(t: !region.memref<[M], f32, align 4> deferred) symbols [M] {
  %0 = region.read %x affine_map<(d0, d1)[s0] -> (d0, d1)> : !region.memref<[M, 8], f32, align 4> -> !region.val<[m: M, r0: 8], f32>
  %1 = region.reduce sum %0 over [r0] init 0.0 : !region.val<[m: M, r0: 8], f32> -> !region.val<[m: M], f32>
  %2 = region.read %y affine_map<(d0, d1)[s0] -> (d0, d1)> : !region.memref<[M, 32], f32, align 4> -> !region.val<[m: M, r1: 32], f32>
  %3 = region.reduce sum %2 over [r1] init 0.0 : !region.val<[m: M, r1: 32], f32> -> !region.val<[m: M], f32>
  %4 = region.binary add %1, %3 : !region.val<[m: M], f32>
  region.yield %4 : !region.val<[m: M], f32>
}
region.kernel @rows iters [m: M] ins(%t: !region.memref<[M], f32, align 4> {from = @twice::@t}, %z: !region.memref<[M, 32], f32, align 4>) outs(c: !region.memref<[M], f32, align 4> gmem) symbols [M] {
  %0 = region.read %z affine_map<(d0, d1)[s0] -> (d0, d1)> : !region.memref<[M, 32], f32, align 4> -> !region.val<[m: M, r0: 32], f32>
  %1 = region.reduce sum %0 over [r0] init 0.0 : !region.val<[m: M, r0: 32], f32> -> !region.val<[m: M], f32>
  %2 = region.read %t affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %3 = region.binary add %1, %2 : !region.val<[m: M], f32>
  region.yield %3 : !region.val<[m: M], f32>
}
// CHECK-NOT:   region.kernel @twice
// CHECK:       region.kernel @rows iters [m: M]
// CHECK:         region.read %z {{.*}} -> !region.val<[m: M, r0: 32], f32>
// CHECK:         region.read %x {{.*}} -> !region.val<[m: M, r2: 8], f32>
// CHECK:         region.read %y {{.*}} -> !region.val<[m: M, r1: 32], f32>
// CHECK:         over [r1]
