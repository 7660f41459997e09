// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: counters are i32, and !gpu.global<[M, 2], f32> is not; count in one that is
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], f32> = tensor 0, %M: index = symbol M) threads 64 {
    gpu.grid_signal %n[%M, %M] : !gpu.global<[M, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: counters are i32, and !gpu.global<[M, 2], f32> is not; count in one that is
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], f32> = tensor 0, %M: index = symbol M) threads 64 {
    gpu.grid_wait %n[%M, %M] until %M : !gpu.global<[M, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is accessed at 2 coordinates of type index, or at one i64 offset, not at (index)
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], i32> = tensor 0, %M: index = symbol M) threads 64 {
    gpu.grid_signal %n[%M] : !gpu.global<[M, 2], i32>
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is accessed at 2 coordinates of type index, or at one i64 offset, not at (index)
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], i32> = tensor 0, %M: index = symbol M) threads 64 {
    gpu.grid_wait %n[%M] until %M : !gpu.global<[M, 2], i32>
    gpu.return
  }
}

// -----

// CHECK: counters are i32, and !gpu.global<[M, 2], f32> is not; count in one that is
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], f32> = tensor 0, %M: index = symbol M) threads 64 {
    gpu.signal_global %n[%M, %M : index, index] : !gpu.global<[M, 2], f32>
    gpu.return
  }
}

// -----

// CHECK: a tensor of rank 2 is accessed at 2 coordinates of type index, or at one i64 offset, not at (index)
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%n: !gpu.global<[M, 2], i32> = tensor 0, %M: index = symbol M) threads 64 {
    gpu.wait_global %n[%M : index] until %M : !gpu.global<[M, 2], i32>
    gpu.return
  }
}

// -----

// CHECK: the group [K] of @k names K, which is none of [M]
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 64 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @k align [4] grid [M] persistent cooperative [K]
  }
}

// -----

// CHECK: only a persistent grid is cut to groups; @k is not persistent, so all of its CTAs belong together: say cooperative without a group
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 64 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @k align [4] grid [M] cooperative [M]
  }
}

// -----

// CHECK: @k runs in clusters of 2; a cooperative launch has none
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 64 cluster 2 {
    gpu.return
  }
  gpu.dispatch () -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @k align [4] grid [2 * M] cooperative
  }
}
