// RUN: polyc-opt %s -p gpu-lower-barriers | filecheck %s

// Each participant waits at a barrier of its own, at which the one before arrives; the last one
// arrives for number 0 before all turns.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k() threads 512 {
    // CHECK: %warpgroup = gpu.warp_uniform
    // CHECK: %[[LAST:.*]] = arith.cmpi eq, %warpgroup, %{{.*}} : index
    // CHECK-NEXT: scf.if %[[LAST]] {
    // CHECK-NEXT: gpu.named_barrier_arrive 9 threads 256
    // CHECK-NEXT: }
    %turn = gpu.order_barrier : !gpu.order<3>
    // The next one's barriers come after.
    // CHECK: gpu.named_barrier_arrive 12 threads 256
    %other = gpu.order_barrier : !gpu.order<3>
    gpu.roles consumers 3 independent registers [0, 0] producer {
      gpu.yield
    } consumer (%w) {
      // CHECK: gpu.named_barrier 9 plus %w threads 256 paces
      // CHECK-NEXT: %next = affine.apply affine_map<(d0) -> (((d0 + 1) mod 3))> (%w)
      // CHECK-NEXT: gpu.named_barrier_arrive 9 plus %next threads 256
      // CHECK-NEXT: gpu.named_barrier 12 plus %w threads 256 paces
      // CHECK-NOT: gpu.order
      gpu.order_enter %turn[%w] : !gpu.order<3>
      gpu.order_leave %turn[%w] : !gpu.order<3>
      gpu.order_enter %other[%w] : !gpu.order<3>
      gpu.yield
    }
    gpu.return
  }
}
