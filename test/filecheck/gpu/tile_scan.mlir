// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK: gpu.kernel @scans
  gpu.kernel @scans(%M: index = symbol M) threads 128 {
    %f = gpu.fragment : !gpu.fragment<[4, 256], f32>
    %c = gpu.fragment : !gpu.fragment<[4, 1], f32>
    // CHECK: gpu.scan sum %f axis 1 : !gpu.fragment<[4, 256], f32>
    gpu.scan sum %f axis 1 : !gpu.fragment<[4, 256], f32>
    // CHECK-NEXT: gpu.scan max %f axis 1 carry %c reverse exclusive {mine = 1 : i64} : !gpu.fragment<[4, 256], f32>, !gpu.fragment<[4, 1], f32>
    gpu.scan max %f axis 1 carry %c reverse exclusive {mine = 1 : i64} : !gpu.fragment<[4, 256], f32>, !gpu.fragment<[4, 1], f32>
    gpu.return
  }
}
