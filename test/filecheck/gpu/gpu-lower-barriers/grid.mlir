// RUN: polyc-opt %s -p gpu-lower-barriers | filecheck %s

// One thread adds once all of the scope have met; one thread reads, and then they meet.  In a role
// the scope is the role's, and its first thread is not the CTA's.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%n: !gpu.global<[M], i32> = workspace "arrived", %M: index = symbol M) threads 256 {
    %zero = arith.constant 0 : index
    // CHECK: gpu.barrier
    // CHECK-NEXT: %thread = gpu.thread_id
    // CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : index
    // CHECK-NEXT: scf.if %[[FIRST]] {
    // CHECK-NEXT: gpu.signal_global %n[%zero : index] : !gpu.global<[M], i32>
    // CHECK-NEXT: }
    gpu.grid_signal %n[%zero] : !gpu.global<[M], i32>
    gpu.roles consumers 1 registers [0, 0] producer {
      gpu.yield
    } consumer {
      // CHECK: scf.if
      // CHECK-NEXT: gpu.wait_global %n[%zero : index] until %M : !gpu.global<[M], i32>
      // CHECK-NEXT: }
      // CHECK-NEXT: gpu.named_barrier 1 threads 128
      gpu.grid_wait %n[%zero] until %M : !gpu.global<[M], i32>
      gpu.yield
    }
    // CHECK-NOT: gpu.grid
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.sequence @s align [4] {
      gpu.workspace "arrived" zeroed : !gpu.global<[M], i32>
      gpu.launch @k grid [M] cooperative
    }
  }
}
