// RUN: polyc-opt %s -p gpu-known-conditions | filecheck %s
// RUN: polyc-opt %s -p gpu-known-conditions,gpu-known-conditions | filecheck %s

// Steps from the last one to the first, 64 wide, of which the first one stands alone: only there may
// something be missing from the tile.

gpu.module @m arch "sm_90a" symbols [N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%n: index = symbol N) threads 128 {
    %tail = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %whole = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %zero = arith.constant 0.0 : f32
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    %64 = arith.constant 64 : index
    %steps = affine.apply affine_map<(d0) -> ((d0 + 63) floordiv 64)> (%n)
    // CHECK: scf.if %some {
    // CHECK-NEXT: gpu.fill %zero, %tail
    // CHECK: scf.for %i
    // CHECK-NOT: scf.if
    // CHECK: gpu.fill %zero, %whole
    // CHECK-NOT: gpu.fill
    %some = arith.cmpi sgt, %n, %1 : index
    scf.if %some {
      gpu.fill %zero, %tail : !gpu.fragment<[64, 64], f32>
    }
    scf.for %i = %1 to %steps step %1 {
      %k = affine.apply affine_map<(d0, d1) -> ((d1 - d0 - 1) * 64)> (%i, %steps)
      %left = arith.subi %n, %k : index
      %short = arith.cmpi slt, %left, %64 : index
      scf.if %short {
        gpu.fill %zero, %tail : !gpu.fragment<[64, 64], f32>
      } else {
        gpu.fill %zero, %whole : !gpu.fragment<[64, 64], f32>
      }
    }
    // CHECK: gpu.return
    gpu.return
  }
}
