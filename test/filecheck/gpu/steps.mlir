// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

gpu.module @m arch "sm_80" symbols [K] {
  // CHECK: gpu.kernel @k
  gpu.kernel @k(%K: index = symbol K) threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], bf16, ring 2>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], bf16>
    %acc = gpu.fragment : !gpu.fragment<[32, 64], f32>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    // CHECK: gpu.load_operands step 3 %a slot %K affine_map<(d0, d1, d2) -> (d0, d2)>, %b affine_map<(d0, d1, d2) -> (d1, d2)> to buffer 1 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], bf16, ring 2>, !gpu.shared<[64, 64], bf16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.load_operands step 3 %a slot %K affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)> to buffer 1 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], bf16, ring 2>, !gpu.shared<[64, 64], bf16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.load_operands step 0 %a affine_map<(d0, d1, d2) -> (d2, d0)>, %a slot %K affine_map<(d0, d1, d2) -> (d2, d1)> to buffer 0 %ra, %rb warp_tile <16, 16> {depth = 1 : index}
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (k, m)>, %a slot %K affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <16, 16> {depth = 1 : index} : !gpu.shared<[32, 64], bf16, ring 2>, !gpu.shared<[32, 64], bf16, ring 2>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.load_operands right step 1 %a affine_map<(d0, d1, d2) -> (d0, d2)>, %b affine_map<(d0, d1, d2) -> (d1, d2)> to buffer 0 %ra, %rb warp_tile <32, 32>
    gpu.load_operands right step 1 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], bf16, ring 2>, !gpu.shared<[64, 64], bf16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.multiply buffer 1 %ra, %rb into %acc warp_tile <32, 32> element bf16 : memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.multiply buffer 1 %ra, %rb into %acc warp_tile <32, 32> element bf16 : memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    %w = gpu.shared_tile : !gpu.shared<[16, 64], f32, swizzle 0, pad 4>
    %rw = memref.alloca() : memref<16xf32, #gpu<space register>>
    // CHECK: gpu.load_operands step 15 %w affine_map<(d0, d1, d2) -> (d2, d0)>, %w affine_map<(d0, d1, d2) -> (d2, d1)> to buffer 0 %rw, %rw warp_tile <64, 32> : !gpu.shared<[16, 64], f32, swizzle 0, pad 4>, !gpu.shared<[16, 64], f32, swizzle 0, pad 4>, memref<16xf32, #gpu<space register>>, memref<16xf32, #gpu<space register>>
    gpu.load_operands step 15 %w affine_map<(m, n, k) -> (k, m)>, %w affine_map<(m, n, k) -> (k, n)> to buffer 0 %rw, %rw warp_tile <64, 32> : !gpu.shared<[16, 64], f32, swizzle 0, pad 4>, !gpu.shared<[16, 64], f32, swizzle 0, pad 4>, memref<16xf32, #gpu<space register>>, memref<16xf32, #gpu<space register>>
    // CHECK-NEXT: gpu.multiply buffer 0 %rw, %rw into %acc warp_tile <32, 64> element f32 : memref<16xf32, #gpu<space register>>, memref<16xf32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.multiply buffer 0 %rw, %rw into %acc warp_tile <32, 64> element f32 : memref<16xf32, #gpu<space register>>, memref<16xf32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.return
  }
}
