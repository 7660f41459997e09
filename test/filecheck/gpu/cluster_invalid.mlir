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

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0, %i: index = symbol M) threads 32 {
    %a = arith.constant 0 : i32
    %bars = gpu.mbarrier at 0 : !gpu.mbarrier<1>
    // CHECK: a multicast is to the CTAs of a cluster, and the kernel's has one: give it a cluster
    gpu.tma_load %map[%i, %i] to %a, %bars[%i] multicast %a : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<1>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0, %i: index = symbol M) threads 32 cluster 2 {
    %a = arith.constant 0 : i32
    %bars = gpu.mbarrier at 0 : !gpu.mbarrier<1>
    %mask = arith.constant 4 : i32
    // CHECK: a mask of a cluster of 2 CTAs is 1 to 3, not 4
    gpu.tma_load %map[%i, %i] to %a, %bars[%i] multicast %mask : !gpu.tensor_map<[64, 64], f16, swizzle 128>, !gpu.mbarrier<1>
    gpu.return
  }
}
