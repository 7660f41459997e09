// RUN: polyc-opt %s -p gpu-plan-shared-memory | filecheck %s
// RUN: polyc-opt %s -p gpu-plan-shared-memory,gpu-plan-shared-memory | filecheck %s

// The most aligned tiles first, barriers last, each at a multiple of its own alignment.

gpu.module @m arch "sm_80" symbols [] {
  // CHECK: gpu.kernel @k() threads 32 shared_bytes 11552 {
  gpu.kernel @k() threads 32 {
    // CHECK-NEXT: %full = gpu.mbarrier at 11520 : !gpu.mbarrier<4>
    %full = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK-NEXT: %bias = gpu.shared_tile at 11264 : !gpu.shared<[64], f32, swizzle 0>
    %bias = gpu.shared_tile : !gpu.shared<[64], f32, swizzle 0>
    // CHECK-NEXT: %b = gpu.shared_tile at 8192 : !gpu.shared<[16, 16], f16, swizzle 32, ring 6>
    %b = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32, ring 6>
    // CHECK-NEXT: %a = gpu.shared_tile at 0 : !gpu.shared<[16, 64], f16, swizzle 128, ring 4>
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 128, ring 4>
    gpu.return
  }
  // CHECK: gpu.kernel @nothing() threads 32 shared_bytes 0 {
  gpu.kernel @nothing() threads 32 {
    gpu.return
  }
}
