// RUN: polyc-opt %s -t cuda | filecheck %s

// Alone: the launch ahead is anybody's, and the next one may be the program's next call.
gpu.module @alone arch "sm_90a" symbols [M] {
  // CHECK: alone(
  // CHECK-NEXT: wait_for_launch_before();
  // CHECK-NEXT: let_next_launch_begin();
  // CHECK-NEXT: }
  gpu.kernel @alone(%M: index = symbol M) threads 32 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    gpu.launch @alone align [4] grid [M] overlapped
  }
}
