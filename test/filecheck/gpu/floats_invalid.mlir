// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1.0 : f16
    // CHECK: error{{.*}}f16
    %s = "gpu.fmod"(%x, %x) : (f16, f16) -> f32
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1.0 : f16
    // CHECK: error{{.*}}f16
    %s = "gpu.erfc"(%x) : (f16) -> f32
    gpu.return
  }
}
