// RUN: polyc-opt %s -p gpu-bind-target | filecheck %s
// RUN: polyc-opt %s -p gpu-bind-target,gpu-bind-target | filecheck %s

// The limits of the architecture become the module's target, once.

// CHECK: gpu.module @old arch "sm_80" symbols [] target <shared_bytes 166912, registers 65536, threads 1024> {
gpu.module @old arch "sm_80" symbols [] {
  gpu.kernel @k() threads 128 {
    gpu.return
  }
}

// CHECK: gpu.module @new arch "sm_90a" symbols [] target <shared_bytes 232448, registers 65536, threads 1024> {
gpu.module @new arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 128 {
    gpu.return
  }
}
