// RUN: polyc-opt %s -p gpu-vectorize | filecheck %s

// Four iterations become one with a wide load and a wide store; what is computed in between
// stays scalar, except that a vector is rounded whole.

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M], f32, align 16> = tensor 0, %C: !gpu.global<[M], f16, align 8> = tensor 1) threads 32 {
    %t = gpu.thread_id
    %low = arith.constant 0 : index
    %one = arith.constant 1 : index
    %high = arith.constant 8 : index
    // CHECK: [[STEP:%.*]] = arith.constant 4 : index
    // CHECK-NEXT: scf.for %r = {{%.*}} to {{%.*}} step [[STEP]] {
    scf.for %r = %low to %high step %one {
      // CHECK: [[AT:%.*]] = affine.apply affine_map<(d0, d1) -> (((d0 * 8) + d1))> (%t, %r)
      %i = affine.apply affine_map<(t, r) -> (t * 8 + r)> (%t, %r)
      // CHECK: [[WIDE:%.*]] = gpu.load_global %A[[[AT]] : index] : !gpu.global<[M], f32, align 16> -> vector<4xf32>
      // CHECK-NEXT: gpu.unpack [[WIDE]] element 0 : vector<4xf32> -> f32
      // CHECK: gpu.unpack [[WIDE]] element 3 : vector<4xf32> -> f32
      %x = gpu.load_global %A[%i : index] : !gpu.global<[M], f32, align 16> -> f32
      // CHECK: arith.addf
      // CHECK: arith.addf
      // CHECK: arith.addf
      // CHECK: arith.addf
      %y = arith.addf %x, %x : f32
      // CHECK-NEXT: [[SUMS:%.*]] = gpu.pack {{.*}} : f32, f32, f32, f32 -> vector<4xf32>
      // CHECK-NEXT: [[ROUNDED:%.*]] = arith.truncf [[SUMS]] : vector<4xf32> to vector<4xf16>
      %h = arith.truncf %y : f32 to f16
      // CHECK-NEXT: gpu.store_global [[ROUNDED]], %C[[[AT]] : index] : vector<4xf16>, !gpu.global<[M], f16, align 8>
      gpu.store_global %h, %C[%i : index] : f16, !gpu.global<[M], f16, align 8>
    } {unroll}
    gpu.return
  }
}
