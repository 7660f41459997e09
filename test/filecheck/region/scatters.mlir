// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK-LABEL: region.kernel @scatters iters [v: V, w: W]
region.kernel @scatters iters [v: V, w: W] ins(%x: !region.memref<[V, W], f32, align 4>, %u: !region.memref<[N, W], f32, align 4>, %i: !region.memref<[N], i64, align 8>, %a: !region.memref<[A, B], f32, align 4>) outs(y: !region.memref<[V, W], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1, s2, s3, s4] -> (d0, d1)> : !region.memref<[V, W], f32, align 4> -> !region.val<[v: V, w: W], f32>
  %1 = region.read %u affine_map<(d0, d1)[s0, s1, s2, s3, s4] -> (d0, d1)> : !region.memref<[N, W], f32, align 4> -> !region.val<[n: N, w: W], f32>
  %2 = region.read %i affine_map<(d0)[s0, s1, s2, s3, s4] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  %3 = region.index affine_map<(d0)[s0, s1, s2, s3, s4] -> (d0)> : !region.val<[v: V], i64>
  %4 = region.index affine_map<(d0)[s0, s1, s2, s3, s4] -> (d0)> : !region.val<[w: W], i64>
  %5 = region.read %a affine_map<(d0, d1)[s0, s1, s2, s3, s4] -> (d0, d1)> : !region.memref<[A, B], f32, align 4> -> !region.val<[a: A, b: B], f32>
  %6 = region.index affine_map<(d0)[s0, s1, s2, s3, s4] -> (d0)> : !region.val<[a: A], i64>
  // CHECK: %7 = region.scatter add %0, %1 where [%2 is %3] over [n] {note = "kept"} : !region.val<[v: V, w: W], f32>, !region.val<[n: N, w: W], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, w: W], f32>
  %7 = region.scatter add %0, %1 where [%2 is %3] over [n] {note = "kept"} : !region.val<[v: V, w: W], f32>, !region.val<[n: N, w: W], f32>, !region.val<[n: N], i64>, !region.val<[v: V], i64> -> !region.val<[v: V, w: W], f32>
  // CHECK-NEXT: %8 = region.scatter set %7, %5 where [%6 is %3, %6 is %4] over [b, a] : !region.val<[v: V, w: W], f32>, !region.val<[a: A, b: B], f32>, !region.val<[a: A], i64>, !region.val<[a: A], i64>, !region.val<[v: V], i64>, !region.val<[w: W], i64> -> !region.val<[v: V, w: W], f32>
  %8 = region.scatter set %7, %5 where [%6 is %3, %6 is %4] over [b, a] : !region.val<[v: V, w: W], f32>, !region.val<[a: A, b: B], f32>, !region.val<[a: A], i64>, !region.val<[a: A], i64>, !region.val<[v: V], i64>, !region.val<[w: W], i64> -> !region.val<[v: V, w: W], f32>
  region.yield %8 : !region.val<[v: V, w: W], f32>
}
