// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK-LABEL: region.kernel @gathers iters [n: N, d: D]
region.kernel @gathers iters [n: N, d: D] ins(%x: !region.memref<[V, W, D], ui8, align 4>, %i: !region.memref<[N], i64, align 8>) outs(y: !region.memref<[N, D], ui8, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1, d2)[s0, s1, s2, s3] -> (d0, d1, d2)> : !region.memref<[V, W, D], ui8, align 4> -> !region.val<[v: V, w: W, d: D], ui8>
  %1 = region.read %i affine_map<(d0)[s0, s1, s2, s3] -> (d0)> : !region.memref<[N], i64, align 8> -> !region.val<[n: N], i64>
  // CHECK: %2 = region.gather %0 at [%1] along [v] clamp {note = "kept"} : !region.val<[v: V, w: W, d: D], ui8>, !region.val<[n: N], i64> -> !region.val<[n: N, w: W, d: D], ui8>
  %2 = region.gather %0 at [%1] along [v] clamp {note = "kept"} : !region.val<[v: V, w: W, d: D], ui8>, !region.val<[n: N], i64> -> !region.val<[n: N, w: W, d: D], ui8>
  // CHECK-NEXT: %3 = region.gather %0 at [%1, %1] along [w, v] fill 255 : !region.val<[v: V, w: W, d: D], ui8>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], ui8>
  %3 = region.gather %0 at [%1, %1] along [w, v] fill 255 : !region.val<[v: V, w: W, d: D], ui8>, !region.val<[n: N], i64>, !region.val<[n: N], i64> -> !region.val<[n: N, d: D], ui8>
  region.yield %3 : !region.val<[n: N, d: D], ui8>
}
