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

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: @c does not read it pointwise
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M, N], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M, N], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1 - 1)> where affine_set<(d0, d1)[s0, s1] : (d1 - 1 >= 0)> else 0.0 : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  region.yield %0 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: @c reads it at several indices
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M, n: M] ins(%x: !region.memref<[M, M], f32, align 4>) outs(P: !region.memref<[M, M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, M], f32, align 4> -> !region.val<[m: M, n: M], f32>
  %1 = region.unary exp %0 : !region.val<[m: M, n: M], f32>
  region.yield %1 : !region.val<[m: M, n: M], f32>
}
region.kernel @c iters [m: M, n: M] ins(%P: !region.memref<[M, M], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, M], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, M], f32, align 4> -> !region.val<[m: M, n: M], f32>
  %1 = region.read %P affine_map<(d0, d1)[s0, s1] -> (d1, d0)> : !region.memref<[M, M], f32, align 4> -> !region.val<[m: M, n: M], f32>
  %2 = region.binary add %0, %1 : !region.val<[m: M, n: M], f32>
  region.yield %2 : !region.val<[m: M, n: M], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: it is reduced, and @c reads it along [m: M, n: N] more than once
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce sum %0 over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @c iters [m: M, n: N] ins(%P: !region.memref<[M], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M, N], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.broadcast_in_dim %0 dims [0] : !region.val<[m: M], f32> -> !region.val<[m: M, n: N], f32>
  region.yield %1 : !region.val<[m: M, n: N], f32>
}

// -----

// WARN: warning[DeferredMaterialized]: @p::@P is stored in global memory: it is reduced, and @c reduces it again
// CHECK: outs(P: {{.*}} gmem)
// CHECK-NOT: deferred
region.kernel @p iters [m: M] ins(%x: !region.memref<[M, N], f32, align 4>) outs(P: !region.memref<[M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  %1 = region.reduce sum %0 over [n] init 0.0 : !region.val<[m: M, n: N], f32> -> !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @c iters [m: M] ins(%P: !region.memref<[M], f32, align 4> {from = @p::@P}) outs(yc: !region.memref<[M], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %P affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.reduce max %0 over [m] init -inf : !region.val<[m: M], f32> -> !region.val<[], f32>
  %2 = region.broadcast_in_dim %1 dims [] : !region.val<[], f32> -> !region.val<[m: M], f32>
  region.yield %2 : !region.val<[m: M], f32>
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
