// RUN: polyc-opt %s -p region-inline-deferred --split-input-file 2>/dev/null | filecheck %s
// RUN: polyc-opt %s -p region-inline-deferred --split-input-file 2>&1 >/dev/null | filecheck %s --check-prefix=WARN

// What is not merged is stored in global memory, and a warning says why (S6.1).
// CHECK-NOT: deferred

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: no kernel reads it
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: 2 inputs read it, and one may
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}
region.kernel @d iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}) outs(yd: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: @c stands before the kernel that it reads from
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: the kernels have the symbols [M, N] and [N, M]
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, N], f32, align 4> gmem) symbols [N, M] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: it is !region.memref<[M, N], f32, align 4> and is read as !region.memref<[M, N], f16, align 4>
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f16, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, N], f16, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f16, align 4> -> !region.val<[m: M, n: N], f16>
  region.yield %0 : !region.val<[m: M, n: N], f16>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: input x is another tensor in @c
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}, %x: !region.memref<[N], f32, align 4>) outs(yc: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: it is reduced, and @c reads it at 2 indices
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce sum %0 over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @c iters [m: M, i1: M] ins(%P: !region.memref<[M], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, M], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.read %P affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[i1: M], f32>
  %2 = region.broadcast_in_dim %0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, i1: M], f32>
  %3 = region.broadcast_in_dim %1 dims [1] : !region.val<[i1: M], f32> -> !region.val<[m: M, i1: M], f32>
  %4 = region.binary add %2, %3 : !region.val<[m: M, i1: M], f32>
  region.yield %4 : !region.val<[m: M, i1: M], f32>
}

// -----

// Windows of a reduced value overlap: isl gives two points that want one element.
// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: it is reduced, and in @c element [{{[0-9]+}}] is wanted at [i0 = {{[0-9]+}}, r0 = {{[0-9]+}}] and at [i0 = {{[0-9]+}}, r0 = {{[0-9]+}}]
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M], f32, align 4> deferred) symbols [M, N] assuming (M >= 3) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce sum %0 over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @c iters [i0: M - 2] ins(%P: !region.memref<[M], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M - 2], f32, align 4> gmem) symbols [M, N] assuming (M >= 3) {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0 + d1)> : !region.memref<[M], f32, align 4> -> !region.val<[i0: M - 2, r0: 3], f32>
  %1 = region.reduce sum %0 over [r0] init 0.0 : !region.val<[i0: M - 2, r0: 3], f32> -> !region.val<[i0: M - 2], f32>
  region.yield %1 : !region.val<[i0: M - 2], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: @c has an output of the name x
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}) outs(x: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @g_0::@v is stored in global memory: it is an output of @g
// CHECK: region.graph @g
// CHECK: outs(v: {{.*}} gmem)
// CHECK-NOT: deferred
region.graph @g ins(x: !region.memref<[M], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> from @g_1::@y, z: !region.memref<[M], f32, align 4> from @g_0::@v)
region.kernel @g_0 iters [m: M] ins(%x: !region.memref<[M], f32, align 4> {from = @g::@x}) outs(v: !region.memref<[M], f32, align 4> deferred) {
  %0 = region.read %x affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}
region.kernel @g_1 iters [m: M] ins(%v: !region.memref<[M], f32, align 4> {from = @g_0::@v}) outs(y: !region.memref<[M], f32, align 4> gmem) {
  %0 = region.read %v affine_map<(d0)[s0] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.unary exp %0 : !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
