// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK-LABEL: region.kernel @integers iters [n: N]
region.kernel @integers iters [n: N] ins(%x: !region.memref<[N], ui32, align 4>) outs(y: !region.memref<[N], i64, align 8> gmem) {
  // CHECK: %0 = region.read %x affine_map<(d0)[s0] -> ((d0 + -1))> where affine_set<(d0)[s0] : ((d0 + -1) >= 0)> else 4294967295
  %0 = region.read %x affine_map<(d0)[s0] -> (d0 - 1)> where affine_set<(d0)[s0] : (d0 - 1 >= 0)> else 4294967295 : !region.memref<[N], ui32, align 4> -> !region.val<[n: N], ui32>
  // CHECK-NEXT: %1 = region.index affine_map<(d0)[s0] -> (((d0 * 2) + 1))> : !region.val<[n: N], ui32>
  %1 = region.index affine_map<(d0)[s0] -> (d0 * 2 + 1)> : !region.val<[n: N], ui32>
  // CHECK-NEXT: %2 = region.binary shr %0, %1 : !region.val<[n: N], ui32>
  %2 = region.binary shr %0, %1 : !region.val<[n: N], ui32>
  // CHECK-NEXT: %3 = region.reduce max %2 over [n] init 0 : !region.val<[n: N], ui32> -> !region.val<[], ui32>
  %3 = region.reduce max %2 over [n] init 0 : !region.val<[n: N], ui32> -> !region.val<[], ui32>
  // CHECK-NEXT: %4 = region.reduce min %2 over [n] init 4294967295 : !region.val<[n: N], ui32> -> !region.val<[], ui32>
  %4 = region.reduce min %2 over [n] init 4294967295 : !region.val<[n: N], ui32> -> !region.val<[], ui32>
  // CHECK-NEXT: %5 = region.dim N : !region.val<[], i64>
  %5 = region.dim N : !region.val<[], i64>
  %6 = region.cast %2 : !region.val<[n: N], ui32> -> !region.val<[n: N], i64>
  region.yield %6 : !region.val<[n: N], i64>
}
