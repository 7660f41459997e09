// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | filecheck %s
// RUN: polyc-opt %s -p frontend-to-tiny,tiny-to-index,index-to-region | polyc-opt | filecheck %s

// What updates are made of and what follows are in the scatter's kernel.  An update falls to a point
// where its index is the place on the axis.

// CHECK: region.kernel @rows iters [v: V, d: D]
// CHECK-NEXT: ins(%x: {{.*}}, %i: {{.*}}, %u: {{.*}})
// CHECK-NEXT: outs(C: !region.memref<[V, D], f16, align 16, noalias> gmem)
// CHECK: %1 = region.read %u {{.*}} -> !region.val<[n: N, d: D], f16>
// CHECK-NEXT: %u_f32 = region.cast %1
// CHECK-NEXT: %2 = region.unary exp %u_f32 : !region.val<[n: N, d: D], f32>
// CHECK-NEXT: %3 = region.read %i affine_map<(d0)[s0, s1, s2] -> (d0)> : {{.*}} -> !region.val<[n: N], i64>
// CHECK-NEXT: %4 = region.index affine_map<(d0)[s0, s1, s2] -> (d0)> : !region.val<[v: V], i64>
// CHECK-NEXT: %5 = region.scatter add %x_f32, %2 where [%3 is %4] over [n] : !region.val<[v: V, d: D], f32>, !region.val<[n: N, d: D], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, d: D], f32>
// CHECK: region.binary max %5
// CHECK-NEXT: region.cast
// CHECK-NEXT: region.yield
frontend.graph @rows(%x: !frontend.tensor<[V, D], f16>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f16> {
  %0 = frontend.elementwise exp %u : !frontend.tensor<[N, D], f16>
  %1 = frontend.scatter add %x, %i, %0 axis 0 : (!frontend.tensor<[V, D], f16>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f16>
  %2 = frontend.elementwise relu %1 : !frontend.tensor<[V, D], f16>
  frontend.output %2 : !frontend.tensor<[V, D], f16>
}

// What is reduced before is stored, as the kernel of a scatter reduces nothing.

// CHECK: region.kernel @reduced_0 iters [n: N]
// CHECK: outs(v0: {{.*}} gmem {boundary = "it is reduced, and a scatter reads it, whose kernel reduces nothing"})
// CHECK: region.reduce sum
// CHECK: region.kernel @reduced_1 iters [v: V]
// CHECK: %1 = region.read %v0 {{.*}} -> !region.val<[n: N], f32>
// CHECK: region.scatter add %0, %1 where [%2 is %3] over [n] : {{.*}} -> !region.val<[v: V], f32>
frontend.graph @reduced(%x: !frontend.tensor<[V], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V], f32> {
  %0 = frontend.reduce sum %u axes [1] : !frontend.tensor<[N, D], f32> -> !frontend.tensor<[N], f32>
  %1 = frontend.scatter add %x, %i, %0 axis 0 : (!frontend.tensor<[V], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N], f32>) -> !frontend.tensor<[V], f32>
  frontend.output %1 : !frontend.tensor<[V], f32>
}

// So is a scatter that something reduces.

// CHECK: region.kernel @after_0 iters [v: V, d: D]
// CHECK: outs(v0: {{.*}} gmem {boundary = "it is scattered, by a kernel that reduces nothing and scatters nothing else"})
// CHECK: region.scatter add
// CHECK-NEXT: region.yield
// CHECK: region.kernel @after_1 iters [v: V]
// CHECK: region.read %v0
// CHECK-NEXT: region.reduce sum
frontend.graph @after(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V], f32> {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  %1 = frontend.reduce sum %0 axes [1] : !frontend.tensor<[V, D], f32> -> !frontend.tensor<[V], f32>
  frontend.output %1 : !frontend.tensor<[V], f32>
}

// Or scatters into again.

// CHECK: region.kernel @twice_0 iters [v: V, d: D]
// CHECK: outs(v0: {{.*}} gmem {boundary = "it is scattered, by a kernel that reduces nothing and scatters nothing else"})
// CHECK: region.scatter add
// CHECK-NEXT: region.yield
// CHECK: region.kernel @twice_1 iters [v: V, d: D]
// CHECK: %0 = region.read %v0
// CHECK: region.scatter set %0
frontend.graph @twice(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32> {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  %1 = frontend.scatter set %0, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  frontend.output %1 : !frontend.tensor<[V, D], f32>
}

// Or reads at indices.

// CHECK: region.kernel @gathered_0 iters [v: V, d: D]
// CHECK: outs(v0: {{.*}} gmem {boundary = "it is scattered, and a gather reads it where its data says"})
// CHECK: region.scatter add
// CHECK: region.kernel @gathered_1 iters [m: M, d: D]
// CHECK: %0 = region.read %v0 {{.*}} -> !region.val<[g0: V, d: D], f32>
// CHECK: region.gather %0
frontend.graph @gathered(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>, %j: !frontend.tensor<[M], i64>) -> !frontend.tensor<[M, D], f32> {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  %1 = frontend.gather %0, %j axis 0 clamp : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[M], i64>) -> !frontend.tensor<[M, D], f32>
  frontend.output %1 : !frontend.tensor<[M, D], f32>
}

// Movements of it are not: its place is what they make of the point.

// CHECK: region.kernel @moved iters [d: D, i1: V - 1]
// CHECK: %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2] -> ((d0 + 1), d1)> : {{.*}} -> !region.val<[i1: V - 1, d: D], f32>
// CHECK: %3 = region.index affine_map<(d0)[s0, s1, s2] -> ((d0 + 1))> : !region.val<[i1: V - 1], i64>
// CHECK-NEXT: %4 = region.scatter add %0, %1 where [%2 is %3] over [n] : {{.*}} -> !region.val<[i1: V - 1, d: D], f32>
// CHECK-NEXT: region.transpose %4 perm [1, 0]
frontend.graph @moved(%x: !frontend.tensor<[V, D], f32>, %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[D, V - 1], f32> assuming (V >= 1) {
  %0 = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f32>, !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f32>) -> !frontend.tensor<[V, D], f32>
  %1 = frontend.slice %0 [1:V, 0:D] : !frontend.tensor<[V, D], f32> -> !frontend.tensor<[V - 1, D], f32>
  %2 = frontend.permute %1 perm [1, 0] : !frontend.tensor<[V - 1, D], f32> -> !frontend.tensor<[D, V - 1], f32>
  frontend.output %2 : !frontend.tensor<[D, V - 1], f32>
}

// Where an index is of each element, it is compared along the other axes' own points.

// CHECK: region.kernel @elements iters [a: A, b: B]
// CHECK: region.scatter max %0, %1 where [%2 is %3] over [j] : !region.val<[a: A, b: B], f32>, !region.val<[a: A, j: J], f32>, !region.val<[a: A, j: J], i32>, !region.val<[b: B], i64> -> !region.val<[a: A, b: B], f32>
frontend.graph @elements(%x: !frontend.tensor<[A, B], f32>, %i: !frontend.tensor<[A, J], i32>, %u: !frontend.tensor<[A, J], f32>) -> !frontend.tensor<[A, B], f32> {
  %0 = frontend.scatter_elements max %x, %i, %u axis 1 : (!frontend.tensor<[A, B], f32>, !frontend.tensor<[A, J], i32>, !frontend.tensor<[A, J], f32>) -> !frontend.tensor<[A, B], f32>
  frontend.output %0 : !frontend.tensor<[A, B], f32>
}

// Updates at tuples fall where all indices are the places.

// CHECK: region.kernel @tuples iters [a: A, b: B, c: C]
// CHECK: %2 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0, 0)> : {{.*}} -> !region.val<[i: I], i32>
// CHECK-NEXT: %3 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0, 1)> : {{.*}} -> !region.val<[i: I], i32>
// CHECK: region.scatter min %0, %6 where [%2 is %4, %3 is %5] over [i, r0] : {{.*}} -> !region.val<[a: A, b: B, c: C], f32>
frontend.graph @tuples(%x: !frontend.tensor<[A, B, C], f32>, %i: !frontend.tensor<[I, 2], i32>, %u: !frontend.tensor<[I, C], f32>) -> !frontend.tensor<[A, B, C], f32> {
  %0 = frontend.scatter_nd min %x, %i, %u batch 0 : (!frontend.tensor<[A, B, C], f32>, !frontend.tensor<[I, 2], i32>, !frontend.tensor<[I, C], f32>) -> !frontend.tensor<[A, B, C], f32>
  frontend.output %0 : !frontend.tensor<[A, B, C], f32>
}
