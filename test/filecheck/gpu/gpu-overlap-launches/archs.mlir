// RUN: polyc-opt %s -p gpu-overlap-launches | filecheck %s
// RUN: polyc-opt %s -p gpu-overlap-launches,gpu-overlap-launches | filecheck %s

// For sm_90a every launch overlaps what is ahead of it, in a sequence or alone.
gpu.module @new arch "sm_90a" symbols [M] {
  gpu.kernel @k() threads 128 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    // CHECK: gpu.launch @k grid [M] overlapped
    // CHECK: gpu.launch @k grid [2] overlapped
    gpu.sequence @s when (M >= 2) align [4] {
      gpu.launch @k grid [M]
      gpu.launch @k grid [2] overlapped
    }
    // CHECK: gpu.launch @k align [4] grid [M] persistent overlapped
    gpu.launch @k align [4] grid [M] persistent
    // CTAs that must all find room at once keep the chip to themselves.
    // CHECK: gpu.launch @k align [4] grid [4] cooperative{{$}}
    gpu.launch @k align [4] grid [4] cooperative
  }
}

// sm_80 has no such thing.
gpu.module @old arch "sm_80" symbols [M] {
  gpu.kernel @k() threads 128 {
    gpu.return
  }
  gpu.dispatch (A: !gpu.global<[M], f32>) -> () {
    // CHECK: gpu.launch @k align [4] grid [M]{{$}}
    gpu.launch @k align [4] grid [M]
  }
}
