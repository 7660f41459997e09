// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: a reduction is sum, prod, max, min, not "mean"
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %y = gpu.fragment : !gpu.fragment<[64, 32], f32>
    gpu.reduce_scatter mean %x into %y : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 32], f32>
    gpu.return
  }
}

// -----

// CHECK: a reduction does not convert !gpu.fragment<[64, 128], f32> to !gpu.fragment<[64, 32], i32>
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %y = gpu.fragment : !gpu.fragment<[64, 32], i32>
    gpu.reduce_scatter sum %x into %y : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 32], i32>
    gpu.return
  }
}

// -----

// CHECK: parts of [64, 128] have its sizes, but for the last axis, which they divide; [64, 48] are no such part
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %y = gpu.fragment : !gpu.fragment<[64, 48], f32>
    gpu.reduce_scatter sum %x into %y : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[64, 48], f32>
    gpu.return
  }
}

// -----

// CHECK: parts of [64, 128] have its sizes, but for the last axis, which they divide; [32, 32] are no such part
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %y = gpu.fragment : !gpu.fragment<[32, 32], f32>
    gpu.reduce_scatter sum %x into %y : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[32, 32], f32>
    gpu.return
  }
}

// -----

// CHECK: parts of [64, 128] have its sizes, but for the last axis, which they divide; [32] are no such part
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[64, 128], f32>
    %y = gpu.fragment : !gpu.fragment<[32], f32>
    gpu.reduce_scatter sum %x into %y : !gpu.fragment<[64, 128], f32>, !gpu.fragment<[32], f32>
    gpu.return
  }
}

// -----

// CHECK: parts of [] have its sizes, but for the last axis, which they divide; [] are no such part
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[], f32>
    %y = gpu.fragment : !gpu.fragment<[], f32>
    gpu.reduce_scatter sum %x into %y : !gpu.fragment<[], f32>, !gpu.fragment<[], f32>
    gpu.return
  }
}

// -----

// CHECK: Expected 'into'
gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%M: index = symbol M) threads 128 cluster 4 {
    %x = gpu.fragment : !gpu.fragment<[64, 128], f32>
    gpu.reduce_scatter sum %x : !gpu.fragment<[64, 128], f32>
    gpu.return
  }
}
