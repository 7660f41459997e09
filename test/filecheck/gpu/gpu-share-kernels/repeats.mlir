// RUN: polyc-opt %s -p gpu-share-kernels | polyc-opt | filecheck %s
// RUN: polyc-opt %s -p gpu-share-kernels,gpu-share-kernels | filecheck %s

// What a launch leaves in a workspace stands there for the next one that would leave the same.
gpu.module @repeated arch "sm_90a" symbols [] {
  // CHECK: gpu.kernel @copy
  gpu.kernel @copy(%x: !gpu.global<[8], f32> = tensor 0, %y: !gpu.global<[8], f32> = workspace "a") threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  // CHECK-NOT: gpu.kernel @again
  gpu.kernel @again(%x: !gpu.global<[8], f32> = tensor 0, %y: !gpu.global<[8], f32> = workspace "b") threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  // CHECK: gpu.kernel @end
  gpu.kernel @end(%x: !gpu.global<[8], f32> = workspace "b", %y: !gpu.global<[8], f32> = tensor 2) threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[8], f32>) -> (Y: !gpu.global<[8], f32>, Z: !gpu.global<[8], f32>) {
    gpu.sequence @all align [4, 4, 4] {
      // CHECK: gpu.workspace "a"
      gpu.workspace "a" : !gpu.global<[8], f32>
      // CHECK-NOT: gpu.workspace "b"
      gpu.workspace "b" : !gpu.global<[8], f32>
      // CHECK: gpu.launch @copy grid [1]{{$}}
      gpu.launch @copy grid [1]
      // CHECK-NEXT: gpu.launch @end grid [1] rebinds [workspace "b" : workspace "a", tensor 2 : tensor 1]
      gpu.launch @end grid [1] rebinds [workspace "b" : workspace "a", tensor 2 : tensor 1]
      gpu.launch @again grid [1]
      // CHECK-NEXT: gpu.launch @end grid [1] rebinds [workspace "b" : workspace "a"]
      gpu.launch @end grid [1]
    }
  }
}

// Where it is written again before, nothing is left out.
gpu.module @written arch "sm_90a" symbols [] {
  gpu.kernel @copy(%x: !gpu.global<[8], f32> = tensor 0, %y: !gpu.global<[8], f32> = workspace "a") threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.kernel @change(%x: !gpu.global<[8], f32> = tensor 1, %y: !gpu.global<[8], f32> = workspace "a") threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.kernel @again(%x: !gpu.global<[8], f32> = tensor 0, %y: !gpu.global<[8], f32> = workspace "b") threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.kernel @end(%x: !gpu.global<[8], f32> = workspace "b", %y: !gpu.global<[8], f32> = tensor 2) threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[8], f32>, U: !gpu.global<[8], f32>) -> (Y: !gpu.global<[8], f32>) {
    gpu.sequence @all align [4, 4, 4] {
      // CHECK: gpu.workspace "a"
      gpu.workspace "a" : !gpu.global<[8], f32>
      // CHECK-NEXT: gpu.workspace "b"
      gpu.workspace "b" : !gpu.global<[8], f32>
      // CHECK-COUNT-4: gpu.launch
      gpu.launch @copy grid [1]
      gpu.launch @change grid [1]
      gpu.launch @again grid [1]
      gpu.launch @end grid [1]
    }
  }
}

// Results of the program are written by each launch that writes them.
gpu.module @results arch "sm_90a" symbols [] {
  gpu.kernel @copy(%x: !gpu.global<[8], f32> = tensor 0, %y: !gpu.global<[8], f32> = tensor 1) threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.kernel @again(%x: !gpu.global<[8], f32> = tensor 0, %y: !gpu.global<[8], f32> = tensor 2) threads 32 {
    %i = arith.constant 0 : index
    %v = gpu.load_global %x[%i : index] : !gpu.global<[8], f32> -> f32
    gpu.store_global %v, %y[%i : index] : f32, !gpu.global<[8], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[8], f32>) -> (Y: !gpu.global<[8], f32>, Z: !gpu.global<[8], f32>) {
    gpu.sequence @all align [4, 4, 4] {
      // CHECK: gpu.launch @copy grid [1]{{$}}
      gpu.launch @copy grid [1]
      // CHECK-NEXT: gpu.launch @copy grid [1] rebinds [tensor 1 : tensor 2]
      gpu.launch @again grid [1]
    }
  }
}
