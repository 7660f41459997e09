// RUN: polyc-opt %s -t cuda | filecheck %s

// A kernel says the size of its clusters, and one without clusters says nothing.
gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK: extern "C" __global__ void __cluster_dims__(16, 1, 1) __launch_bounds__(128, 1)
  // CHECK-NEXT: large(
  gpu.kernel @large(%M: index = symbol M) threads 128 cluster 16 {
    gpu.return
  }
  // CHECK: extern "C" __global__ void __launch_bounds__(128, 1)
  // CHECK-NEXT: alone(
  gpu.kernel @alone(%M: index = symbol M) threads 128 {
    gpu.return
  }
}
