// RUN: polyc-opt %s -p gpu-group-functions | filecheck %s

// A sine of each of 16 sums is two turns of eight at once, and what is stored waits for the eighth;
// a division by a known number stays.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%s: i32 = symbol M) threads 128 {
    %low = arith.constant 0 : index
    %step = arith.constant 1 : index
    %count = arith.constant 16 : index
    %by = arith.constant 3.0 : f32
    %acc = memref.alloca() : memref<16xf32, #gpu<space register>>
    // CHECK: %[[eight:.*]] = arith.constant 8 : index
    // CHECK: scf.for %r = %{{.*}} to %{{.*}} step %[[eight]]
    // CHECK-COUNT-8: memref.load %acc
    // CHECK: %[[packed:.*]] = gpu.pack
    // CHECK-NEXT: %[[sines:.*]] = math.sin %[[packed]] : vector<8xf32>
    // CHECK-COUNT-8: gpu.unpack %[[sines]]
    // CHECK-COUNT-8: memref.store %{{.*}}, %acc
    // CHECK: } {unroll}
    scf.for %r = %low to %count step %step {
      %x = memref.load %acc[%r] : memref<16xf32, #gpu<space register>>
      %y = math.sin %x : f32
      memref.store %y, %acc[%r] : memref<16xf32, #gpu<space register>>
    } {unroll}
    // CHECK: arith.divf %{{.*}}, %by : f32
    scf.for %q = %low to %count step %step {
      %x = memref.load %acc[%q] : memref<16xf32, #gpu<space register>>
      %y = arith.divf %x, %by : f32
      memref.store %y, %acc[%q] : memref<16xf32, #gpu<space register>>
    } {unroll}
    %end = memref.load %acc[%low] : memref<16xf32, #gpu<space register>>
    gpu.store_shared %end, %s : f32
    gpu.return
  }
}
