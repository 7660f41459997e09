// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CHECK-LABEL: region.kernel @scans iters [m: M, n: N]
region.kernel @scans iters [m: M, n: N] ins(%x: !region.memref<[M, N], f32, align 4>) outs(y: !region.memref<[M, N], f32, align 4> gmem, z: !region.memref<[M, N], f32, align 4> gmem) {
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, N], f32, align 4> -> !region.val<[m: M, n: N], f32>
  // CHECK: %1 = region.scan sum %0 along n : !region.val<[m: M, n: N], f32>
  %1 = region.scan sum %0 along n : !region.val<[m: M, n: N], f32>
  // CHECK-NEXT: %2 = region.scan max %1 along m reverse exclusive {note = "kept"} : !region.val<[m: M, n: N], f32>
  %2 = region.scan max %1 along m reverse exclusive {note = "kept"} : !region.val<[m: M, n: N], f32>
  region.yield %1, %2 : !region.val<[m: M, n: N], f32>, !region.val<[m: M, n: N], f32>
}
