// RUN: polyc-opt %s -p gpu-layout-inference,gpu-lower-tile-ops | filecheck %s

// A left operand in registers is kept as words of two elements: the map that rounds to it packs
// them, and a contract takes four words every 16 of k.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k() threads 128 {
    %v = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    // CHECK-DAG: %s = memref.alloca() : memref<16xf32, #gpu<space register>>
    // CHECK-DAG: %p = memref.alloca() : memref<8xi32, #gpu<space register>>
    // CHECK-DAG: %o = memref.alloca() : memref<32xf32, #gpu<space register>>
    // CHECK-DAG: %m = memref.alloca() : memref<2xf32, #gpu<space register>>
    %s = gpu.fragment : !gpu.fragment<[64, 32], f32>
    %p = gpu.fragment : !gpu.fragment<[64, 32], f16>
    %o = gpu.fragment : !gpu.fragment<[64, 64], f32>
    %m = gpu.fragment : !gpu.fragment<[64], f32>
    %l = gpu.fragment : !gpu.fragment<[64, 4], f32>
    // Two parts a row, then the four lanes that share it, then the old value.
    // CHECK: %partial = memref.alloca() : memref<4xf32, #gpu<space register>>
    // CHECK: scf.for %r
    // CHECK: arith.maximumf
    // CHECK: gpu.shuffle "xor"
    // CHECK: gpu.shuffle "xor"
    // CHECK: memref.load %m
    // CHECK: arith.maximumf
    // CHECK: memref.store %{{.*}}, %m
    gpu.reduce max %s by affine_map<(i, j) -> (i)> into %m accumulate
        : !gpu.fragment<[64, 32], f32>, !gpu.fragment<[64], f32>
    // Four parts a row are a thread's own: nothing is exchanged.
    // CHECK-NOT: gpu.shuffle
    // CHECK: arith.addf
    // CHECK: scf.for %r
    // CHECK: gpu.pack
    // CHECK-NEXT: vector.bitcast {{.*}} : vector<2xf16> to vector<1xi32>
    // CHECK: memref.store %{{.*}}, %p
    gpu.reduce sum %s by affine_map<(i, j) -> (i, j floordiv 2 mod 4)> into %l
        : !gpu.fragment<[64, 32], f32>, !gpu.fragment<[64, 4], f32>
    gpu.map %s : !gpu.fragment<[64, 32], f32> origin [] ins()
        outs(%p : !gpu.fragment<[64, 32], f16> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%x: f32):
      %y = arith.truncf %x : f32 to f16
      gpu.yield %y : f16
    }
    // CHECK: %b = gpu.wgmma_descriptor
    // CHECK-NEXT: gpu.wgmma_registers n 64 %p from 0, %b plus 0 transpose_b, %o clear element f16
    // CHECK-NEXT: gpu.wgmma_registers n 64 %p from 4, %b plus 2048 transpose_b, %o element f16
    // CHECK-NEXT: gpu.await pending 0 ready %o : memref<32xf32, #gpu<space register>>
    gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %v affine_map<(m, n, k) -> (k, n)>
        into %o clear mma "wgmma" warp_tile <64, 64>
        : !gpu.fragment<[64, 32], f16>, !gpu.shared<[32, 64], f16>, !gpu.fragment<[64, 64], f32>
    gpu.await pending 0 ready %o : !gpu.fragment<[64, 64], f32>
    gpu.return
  }
}
