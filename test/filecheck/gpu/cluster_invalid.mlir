// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK: a cluster has 1, 2, 4, 8 or 16 CTAs, not 3
  gpu.kernel @k(%i: index = symbol M) threads 32 cluster 3 {
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK: clusters need sm_90a, and the module is for sm_80
  gpu.kernel @k(%i: index = symbol M) threads 32 cluster 2 {
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %a = arith.constant 0 : i32
    // CHECK: a shared access moves 32 bytes; it can move 1, 2, 4, 8 or 16
    %x = gpu.load_cluster %a : vector<8xf32>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %a = arith.constant 0 : i32
    %x = arith.constant dense<0.0> : vector<8xf32>
    // CHECK: a shared access moves 32 bytes; it can move 1, 2, 4, 8 or 16
    gpu.store_cluster %x, %a : vector<8xf32>
    gpu.return
  }
}
