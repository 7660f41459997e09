// RUN: polyc-opt %s -p gpu-lower-shared-layout | filecheck %s

// The chunk of 16 bytes is XORed with the row; panels of 128 bytes lie one after another.

gpu.module @m arch "sm_80" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%s: index = symbol M, %r: index = symbol M, %c: index = symbol M) threads 32 {
    // CHECK-NEXT: %wide = gpu.shared_tile
    %wide = gpu.shared_tile : !gpu.shared<[64, 128], f16, swizzle 128>
    // CHECK-NEXT: %plain = gpu.shared_tile
    %plain = gpu.shared_tile : !gpu.shared<[64, 12], f16, swizzle 0>
    // CHECK-NEXT: [[BASE:%.*]] = gpu.shared_address %wide[%s]
    // CHECK-NEXT: [[LINE:%.*]] = affine.apply affine_map<(d0, d1) -> (((d0 * 128) + ((d1 floordiv 64) * 8192)))> (%r, %c)
    // CHECK-NEXT: [[BYTE:%.*]] = affine.apply affine_map<(d0) -> (((d0 mod 64) * 2))> (%c)
    // CHECK-NEXT: [[TWIST:%.*]] = affine.apply affine_map<(d0) -> {{.*}}> (%r)
    // CHECK-NEXT: [[IN:%.*]] = arith.xori [[BYTE]], [[TWIST]] : index
    // CHECK-NEXT: [[OFFSET:%.*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> ([[LINE]], [[IN]])
    // CHECK-NEXT: [[NARROW:%.*]] = arith.index_cast [[OFFSET]] : index to i32
    // CHECK-NEXT: arith.addi [[BASE]], [[NARROW]] : i32
    %a = gpu.element_address %wide[%s][%r, %c] : !gpu.shared<[64, 128], f16, swizzle 128>
    // CHECK-NOT: arith.xori
    %b = gpu.element_address %plain[%s][%r, %c] : !gpu.shared<[64, 12], f16, swizzle 0>
    // CHECK: gpu.return
    gpu.return
  }
}
