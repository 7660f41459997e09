// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// Arithmetic of floats that arith and math lack.
gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @floats(%i: index = symbol M) threads 32 {
    %x = arith.constant 5.500000e+00 : f32
    %y = arith.constant 2.000000e+00 : f32
    // CHECK: %r = gpu.fmod %x, %y : f32
    %r = gpu.fmod %x, %y : f32
    // CHECK: %e = gpu.erfc %x : f32
    %e = gpu.erfc %x : f32
    gpu.return
  }
}
