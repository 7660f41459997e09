// RUN: polyc-opt %s -p gpu-roll-maps | filecheck %s

// A loop over 256 registers with two functions of each is 64 registers of code, and four turns of
// that; what it stores takes the places of what it loads.  A shorter one stays.

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M], f32> = tensor 0, %s: i32 = symbol M) threads 32 {
    %low = arith.constant 0 : index
    %one = arith.constant 1 : index
    %count = arith.constant 256 : index
    %acc = memref.alloca() : memref<256xf32, #gpu<space register>>
    %out = memref.alloca() : memref<256xf32, #gpu<space register>>
    // CHECK: scf.for %part = %{{.*}} to %[[parts:.*]] step
    // CHECK-NEXT: %[[width:.*]] = arith.constant 64 : index
    // CHECK: scf.for %turn
    // CHECK-NEXT: memref.load %acc[%turn]
    // CHECK-NEXT: math.exp
    // CHECK-NEXT: math.tanh
    // CHECK-NEXT: memref.store %{{.*}}, %acc[%turn]
    // CHECK-NEXT: } {unroll}
    // CHECK-COUNT-3: {unroll}
    // CHECK-NEXT: }
    scf.for %r = %low to %count step %one {
      %x = memref.load %acc[%r] : memref<256xf32, #gpu<space register>>
      %e = math.exp %x : f32
      %t = math.tanh %e : f32
      memref.store %t, %out[%r] : memref<256xf32, #gpu<space register>>
    } {unroll}
    // CHECK: scf.for %q
    // CHECK-NEXT: memref.load %acc
    // CHECK-NEXT: memref.store
    // CHECK-NEXT: } {unroll}
    scf.for %q = %low to %count step %one {
      %y = memref.load %out[%q] : memref<256xf32, #gpu<space register>>
      memref.store %y, %out[%q] : memref<256xf32, #gpu<space register>>
    } {unroll}
    gpu.return
  }
}
