// RUN: polyc-opt %s -p gpu-bind-target | filecheck %s
// RUN: polyc-opt %s -p gpu-bind-target,gpu-bind-target | filecheck %s

// The limits of the architecture become an attribute, once.

// CHECK: gpu.module @old arch "sm_80" symbols [] attributes {target = {shared_bytes = 166912 : index, registers = 65536 : index, threads = 1024 : index}} {
gpu.module @old arch "sm_80" symbols [] {
  gpu.kernel @k() threads 128 {
    gpu.return
  }
}

// CHECK: gpu.module @new arch "sm_90a" symbols [] attributes {target = {shared_bytes = 232448 : index, registers = 65536 : index, threads = 1024 : index}} {
gpu.module @new arch "sm_90a" symbols [] {
  gpu.kernel @k() threads 128 {
    gpu.return
  }
}
