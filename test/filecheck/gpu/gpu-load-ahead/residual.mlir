// RUN: polyc-opt %s -p gpu-load-ahead | filecheck %s

// What 64 sums are added to comes by 32 registers at a time, of two numbers each, before what they
// divide; a loop without a function that branches stays.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M], f16, align 16> = tensor 0, %B: !gpu.global<[M], f32> = tensor 1, %s: i32 = symbol M) threads 128 {
    %low = arith.constant 0 : index
    %two = arith.constant 2 : index
    %count = arith.constant 128 : index
    %one = arith.constant 1.0 : f32
    %t = gpu.thread_id
    %acc = memref.alloca() : memref<128xf32, #gpu<space register>>
    // CHECK: scf.for %part = %{{.*}} to %{{.*}} step %[[span:.*]] {
    // CHECK-NEXT: %ahead = memref.alloca() : memref<32xi32, #gpu<space register>>
    // CHECK: scf.for %turn
    // CHECK-NEXT: %[[r:.*]] = affine.apply {{.*}} (%part, %turn)
    // CHECK-NEXT: affine.apply {{.*}} (%[[r]], %{{.*}})
    // CHECK: gpu.load_global %A
    // CHECK: memref.store %{{.*}}, %ahead
    // CHECK-NEXT: } {unroll}
    // CHECK: scf.for %turn
    // CHECK-NOT: gpu.load_global
    // CHECK: memref.load %ahead
    // CHECK: arith.divf
    // CHECK: } {unroll}
    // CHECK-NEXT: } {unroll}
    scf.for %r = %low to %count step %two {
      %x = memref.load %acc[%r] : memref<128xf32, #gpu<space register>>
      %p = affine.apply affine_map<(d0, d1) -> (d0 * 128 + d1)> (%r, %t)
      %i = arith.index_cast %p : index to i64
      %y = gpu.load_global %A[%i : i64] : !gpu.global<[M], f16, align 16> -> vector<2xf16>
      %y0 = gpu.unpack %y element 0 : vector<2xf16> -> f16
      %z = arith.extf %y0 : f16 to f32
      %w = arith.addf %x, %z : f32
      %d = arith.divf %one, %w : f32
      memref.store %d, %acc[%r] : memref<128xf32, #gpu<space register>>
    } {unroll}
    // CHECK: scf.for %q
    // CHECK-NEXT: memref.load %acc
    // CHECK-NEXT: affine.apply
    // CHECK-NEXT: arith.index_cast
    // CHECK-NEXT: gpu.load_global %B
    scf.for %q = %low to %count step %two {
      %x = memref.load %acc[%q] : memref<128xf32, #gpu<space register>>
      %p = affine.apply affine_map<(d0, d1) -> (d0 * 128 + d1)> (%q, %t)
      %i = arith.index_cast %p : index to i64
      %y = gpu.load_global %B[%i : i64] : !gpu.global<[M], f32> -> f32
      %w = arith.addf %x, %y : f32
      memref.store %w, %acc[%q] : memref<128xf32, #gpu<space register>>
    } {unroll}
    gpu.return
  }
}
