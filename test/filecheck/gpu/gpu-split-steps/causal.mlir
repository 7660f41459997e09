// RUN: polyc-opt %s -p gpu-split-steps | filecheck %s
// RUN: polyc-opt %s -p gpu-split-steps,gpu-split-steps | filecheck %s

// A mask that cuts the first steps alone: one loop with it, and one without.

gpu.module @m arch "sm_90a" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%q0: index = symbol M, %n: index = symbol N) threads 128 {
    %scores = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %none = arith.constant 0xFF800000 : f32
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    // CHECK: %[[FROM:[0-9]+]] = affine.apply affine_map<(d0, d1) -> ((d0 + ((d1 floordiv 64) * -1)))> (%n, %q0)
    // CHECK-NEXT: %[[FIRST:[0-9]+]] = arith.maxsi %0, %[[FROM]] : index
    // CHECK-NEXT: %clear = arith.minsi %[[FIRST]], %n : index
    // CHECK-NEXT: scf.for %i = %0 to %clear step %1 {
    // CHECK-NEXT:   gpu.fill %none, %scores
    // CHECK-NEXT: }
    // CHECK-NEXT: scf.for %i_1 = %clear to %n step %1 {
    // CHECK-NEXT: }
    scf.for %i = %0 to %n step %1 {
      %seen = affine.apply affine_map<(d0, d1, d2) -> (d2 + (d0 - d1) * 64)> (%i, %n, %q0)
      %cut = arith.cmpi slt, %seen, %0 : index
      scf.if %cut {
        gpu.fill %none, %scores : !gpu.fragment<[64, 64], f32>
      }
    }
    // CHECK-NEXT: gpu.return
    gpu.return
  }
}
