// RUN: polyc-opt %s -t cuda | filecheck %s

// A launch that overlaps the one before: the kernel begins with the wait, and lets the next begin.
// CHECK: asm volatile("griddepcontrol.launch_dependents;"
// CHECK: asm volatile("griddepcontrol.wait;"
gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK: first(
  // CHECK-NEXT: let_next_launch_begin();
  // CHECK-NEXT: }
  gpu.kernel @first(%M: index = symbol M) threads 32 {
    gpu.return
  }
  // CHECK: second(
  // CHECK-NEXT: let_next_launch_begin();
  // CHECK-NEXT: wait_for_launch_before();
  // CHECK-NEXT: }
  gpu.kernel @second(%M: index = symbol M) threads 32 {
    gpu.return
  }
  // CHECK: last(
  // CHECK-NEXT: wait_for_launch_before();
  // CHECK-NEXT: }
  gpu.kernel @last(%M: index = symbol M) threads 32 {
    gpu.return
  }
  // CHECK: apart(
  // CHECK-NEXT: }
  gpu.kernel @apart(%M: index = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.sequence @s align [4] {
      gpu.launch @apart grid [M]
      gpu.launch @first grid [M]
      gpu.launch @second grid [M] overlapped
      gpu.launch @last grid [M] overlapped
    }
  }
}
