// RUN: polyc-opt %s -p region-inline-deferred --split-input-file | filecheck %s

// A value without reductions is computed wherever it is wanted: shifted, under a guard.
// CHECK-NOT:   @p
// CHECK:       region.kernel @c
// CHECK:         %[[X:[a-z0-9_]+]] = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, (d1 + -1))> where affine_set<(d0, d1)[s0, s1] : ((d1 + -1) >= 0)> else 0.0
// CHECK-NEXT:    %[[E:[a-z0-9_]+]] = region.unary exp %[[X]]
// CHECK:         region.inside affine_set<(d0)[s0, s1] : ((d0 + -1) >= 0)> : !region.val<[n: N], i1>
// CHECK:         region.select %{{.*}}, %[[E]], %{{.*}}
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

// At two indices it is computed twice.
// CHECK-NOT:   @p
// CHECK:       region.kernel @c
// CHECK:         region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)>
// CHECK-NEXT:    region.unary exp
// CHECK-NEXT:    region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : {{.*}} -> !region.val<[n: M, m: M], f32>
// CHECK-NEXT:    region.unary exp
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

// A row's sum is computed once for the row, and repeated along it.
// CHECK-NOT:   @p
// CHECK:       region.kernel @c iters [m: M, n: N]
// CHECK:         %[[S:[a-z0-9_]+]] = region.reduce sum %{{.*}} over [n] {{.*}} -> !region.val<[m: M], f32>
// CHECK-NEXT:    region.broadcast_in_dim %[[S]] dims [0]
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

// A sum that is reduced again.
// CHECK-NOT:   @p
// CHECK:       region.kernel @c iters [m: M]
// CHECK:         %[[S:[a-z0-9_]+]] = region.reduce sum %{{.*}} over [n] {{.*}} -> !region.val<[m: M], f32>
// CHECK-NEXT:    region.reduce max %[[S]] over [m]
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

// The graph of two kernels becomes its one kernel, with the graph's signature.
// CHECK-NOT:   region.graph
// CHECK:       region.kernel @g iters [m: M]
// CHECK-NEXT:      ins(%x: !region.memref<[M], f32, align 4> {role = "param"}, %unused: !region.memref<[N], f32, align 4>)
// CHECK-NEXT:      outs(y: !region.memref<[M], f32, align 4> gmem)
region.graph @g ins(x: !region.memref<[M], f32, align 4> {role = "param"}, unused: !region.memref<[N], f32, align 4>) outs(y: !region.memref<[M], f32, align 4> from @g_1::@y)
region.kernel @g_0 iters [m: M] ins(%x: !region.memref<[M], f32, align 4> {role = "param", from = @g::@x}) outs(v: !region.memref<[M], f32, align 4> deferred) symbols [M, N] {
  %0 = region.read %x affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  %1 = region.unary exp %0 : !region.val<[m: M], f32>
  region.yield %1 : !region.val<[m: M], f32>
}
region.kernel @g_1 iters [m: M] ins(%v: !region.memref<[M], f32, align 4> {from = @g_0::@v}) outs(y: !region.memref<[M], f32, align 4> gmem) symbols [M, N] {
  %0 = region.read %v affine_map<(d0)[s0, s1] -> (d0)> : !region.memref<[M], f32, align 4> -> !region.val<[m: M], f32>
  region.yield %0 : !region.val<[m: M], f32>
}
