// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

gpu.module @m arch "sm_80" symbols [M] {
  gpu.kernel @powers(%i: index = symbol M) threads 32 {
    %x = arith.constant 3 : i8
    // CHECK: %r = gpu.power %x, %x : i8
    %r = gpu.power %x, %x : i8
    gpu.return
  }
}
