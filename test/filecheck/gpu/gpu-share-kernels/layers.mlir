// RUN: polyc-opt %s -p gpu-share-kernels | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p gpu-share-kernels,gpu-share-kernels | filecheck %s

// Two layers of the same sizes are one kernel, which is launched on other memory the second time.
gpu.module @layers arch "sm_90a" symbols [M] {
  // CHECK: gpu.kernel @first
  gpu.kernel @first(%x: !gpu.global<[M, 8], f32> = tensor 0, %w: !gpu.global<[8], f32> = tensor 1, %y: !gpu.global<[M, 8], f32> = workspace "a") threads 32 {
    gpu.return
  }
  // CHECK-NOT: gpu.kernel @second
  gpu.kernel @second(%x: !gpu.global<[M, 8], f32> = workspace "a", %w: !gpu.global<[8], f32> = tensor 2, %y: !gpu.global<[M, 8], f32> = tensor 4) threads 32 {
    gpu.return
  }
  // Another size, one memory at two places, and other threads are other kernels.
  // CHECK: gpu.kernel @wide
  gpu.kernel @wide(%x: !gpu.global<[M, 8], f32> = tensor 0, %w: !gpu.global<[16], f32> = tensor 3, %y: !gpu.global<[M, 8], f32> = workspace "a") threads 32 {
    gpu.return
  }
  // CHECK: gpu.kernel @same
  gpu.kernel @same(%x: !gpu.global<[M, 8], f32> = workspace "a", %w: !gpu.global<[8], f32> = tensor 1, %y: !gpu.global<[M, 8], f32> = workspace "a") threads 32 {
    gpu.return
  }
  // CHECK: gpu.kernel @broad
  gpu.kernel @broad(%x: !gpu.global<[M, 8], f32> = tensor 0, %w: !gpu.global<[8], f32> = tensor 1, %y: !gpu.global<[M, 8], f32> = workspace "a") threads 64 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, 8], f32>, U: !gpu.global<[8], f32>, V: !gpu.global<[8], f32>, W: !gpu.global<[16], f32>) -> (Y: !gpu.global<[M, 8], f32>) {
    gpu.sequence @all align [16, 16, 16, 16, 16] {
      gpu.workspace "a" : !gpu.global<[M, 8], f32>
      // CHECK: gpu.launch @first grid [M]{{$}}
      gpu.launch @first grid [M]
      // CHECK-NEXT: gpu.launch @wide grid [M]{{$}}
      gpu.launch @wide grid [M]
      // CHECK-NEXT: gpu.launch @same grid [M]{{$}}
      gpu.launch @same grid [M]
      // CHECK-NEXT: gpu.launch @broad grid [M]{{$}}
      gpu.launch @broad grid [M]
      // CHECK-NEXT: gpu.launch @first grid [M] rebinds [tensor 0 : workspace "a", tensor 1 : tensor 2, workspace "a" : tensor 4]
      gpu.launch @second grid [M]
    }
  }
}

// What a tensor's address is a multiple of, another grid, and a variant of its own keep kernels apart.
gpu.module @apart arch "sm_90a" symbols [M] {
  // CHECK: gpu.kernel @one
  gpu.kernel @one(%x: !gpu.global<[M], f32> = tensor 0) threads 32 {
    gpu.return
  }
  // CHECK: gpu.kernel @unaligned
  gpu.kernel @unaligned(%x: !gpu.global<[M], f32> = tensor 1) threads 32 {
    gpu.return
  }
  // CHECK: gpu.kernel @fewer
  gpu.kernel @fewer(%x: !gpu.global<[M], f32> = tensor 0) threads 32 {
    gpu.return
  }
  // CHECK: gpu.kernel @other
  gpu.kernel @other(%x: !gpu.global<[M], f32> = tensor 0) threads 32 {
    gpu.return
  }
  // CHECK: gpu.kernel @variant
  gpu.kernel @variant(%x: !gpu.global<[M], f32> = tensor 0) threads 32 {
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M], f32>, Y: !gpu.global<[M], f32>) -> () {
    gpu.sequence @all align [16, 4] {
      gpu.launch @one grid [M]
      gpu.launch @unaligned grid [M]
      gpu.launch @fewer grid [1]
    }
    gpu.sequence @least when (M >= 2) align [16, 4] {
      gpu.launch @other grid [M]
    }
    gpu.launch @variant align [16, 4] grid [M]
  }
}
