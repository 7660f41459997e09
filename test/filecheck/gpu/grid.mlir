// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// CTAs that wait for each other: the ops of both levels, and the launches that run them at once.
gpu.module @m arch "sm_80" symbols [M, N] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], i32> = workspace "arrived", %M: index = symbol M) threads 64 blocks_per_sm 4 {
    %one = arith.constant 1 : index
    %offset = arith.constant 3 : i64
    // CHECK: gpu.grid_signal %n[%one, %one] : !gpu.global<[M, 2], i32>
    gpu.grid_signal %n[%one, %one] : !gpu.global<[M, 2], i32>
    // CHECK-NEXT: gpu.grid_wait %n[%one, %one] until %M : !gpu.global<[M, 2], i32>
    gpu.grid_wait %n[%one, %one] until %M : !gpu.global<[M, 2], i32>
    // CHECK-NEXT: gpu.signal_global %n[%one, %one : index, index] : !gpu.global<[M, 2], i32>
    gpu.signal_global %n[%one, %one : index, index] : !gpu.global<[M, 2], i32>
    // CHECK-NEXT: gpu.signal_global %n[%offset : i64] : !gpu.global<[M, 2], i32>
    gpu.signal_global %n[%offset : i64] : !gpu.global<[M, 2], i32>
    // CHECK-NEXT: gpu.wait_global %n[%offset : i64] until %M : !gpu.global<[M, 2], i32>
    gpu.wait_global %n[%offset : i64] until %M : !gpu.global<[M, 2], i32>
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    // CHECK: gpu.sequence @s
    gpu.sequence @s align [4] {
      gpu.workspace "arrived" zeroed : !gpu.global<[M, 2], i32>
      // CHECK: gpu.launch @k grid [M] cooperative
      // CHECK-NEXT: gpu.launch @k grid [M, N] persistent cooperative [(N + 7) floordiv 8]
      // CHECK-NEXT: gpu.launch @k grid [M, N] persistent cooperative
      // CHECK-NEXT: }
      gpu.launch @k grid [M] cooperative
      gpu.launch @k grid [M, N] persistent cooperative [(N + 7) floordiv 8]
      gpu.launch @k grid [M, N] persistent cooperative
    }
  }
}
