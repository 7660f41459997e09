// RUN: polyc-opt %s -p gpu-coalesce-stores | filecheck %s

// Sixteen registers are four 8-column blocks of two rows: two groups, each of four words that
// the quad exchanges in two rounds before every lane stores eight columns.
gpu.module @m arch "sm_80" symbols [M, N] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%C: !gpu.global<[M, N], f16, align 16> = tensor 0, %M: index = symbol M, %N: index = symbol N) threads 32 {
    %t = gpu.thread_id
    %low = arith.constant 0 : index
    %two = arith.constant 2 : index
    %high = arith.constant 16 : index
    %acc = memref.alloca() : memref<16xf32, #gpu<space register>>
    // CHECK: %quad_lane = affine.apply affine_map<(d0) -> ((d0 mod 4))> (%t)
    // CHECK: [[GROUPS:%.*]] = arith.constant 2 : index
    // CHECK: scf.for %g = {{%.*}} to [[GROUPS]] step {{%.*}} {
    scf.for %r = %low to %high step %two {
      %next = affine.apply affine_map<(d0) -> (d0 + 1)> (%r)
      // CHECK-COUNT-4: arith.truncf
      %x = memref.load %acc[%r] : memref<16xf32, #gpu<space register>>
      %y = memref.load %acc[%next] : memref<16xf32, #gpu<space register>>
      %pair = gpu.pack %x, %y : f32, f32 -> vector<2xf32>
      %half = arith.truncf %pair : vector<2xf32> to vector<2xf16>
      // CHECK-COUNT-2: gpu.shuffle "xor" {{.*}}, [[NEAR:%.*]] : i32 -> i32
      // CHECK-COUNT-2: gpu.shuffle "xor" {{.*}}, [[FAR:%.*]] : i32 -> i32
      // CHECK: [[LINE:%.*]] = vector.bitcast {{.*}} : vector<4xi32> to vector<8xf16>
      // CHECK: gpu.store_global [[LINE]], %C[{{.*}} : index, index] if {{.*}} : vector<8xf16>, !gpu.global<[M, N], f16, align 16>
      // CHECK-NOT: vector<2xf16>, !gpu.global
      %i = affine.apply affine_map<(t, r) -> (t floordiv 4 + ((r floordiv 2) mod 2) * 8)> (%t, %r)
      %j = affine.apply affine_map<(t, r) -> ((r floordiv 4) * 8 + (t mod 4) * 2 + r mod 2)> (%t, %r)
      %in_rows = arith.cmpi slt, %i, %M : index
      %in_columns = arith.cmpi slt, %j, %N : index
      %inside = arith.andi %in_rows, %in_columns : i1
      gpu.store_global %half, %C[%i, %j : index, index] if %inside : vector<2xf16>, !gpu.global<[M, N], f16, align 16>
    } {unroll}
    gpu.return
  }
}
