// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

// CHECK: the maps take (m, n, k) to (m, k) or (k, m) on the left
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (n, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: are not two matrices
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: the operands have 64 and 32 of k
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[32, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: the operands are of one type, not f16 and bf16
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], bf16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], bf16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: steps of f32 load neighbouring rows and columns of one k; store the operands [k, m] and [k, n]
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f32>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f32>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f32>, !gpu.shared<[64, 64], f32>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: a warp_tile is [rows, columns], both multiples of 16, not [32, 8]
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 8> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: a tile of 32x64 does not split into warp tiles of [64, 32]
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <64, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: 64 of k are steps 0 to 3, not 4
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 4 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: buffer 2 of 8 registers is outside the left operand's 16
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 2 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: buffer 1 of 8 registers is outside the right operand's 8
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<8xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 1 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xi32, #gpu<space register>>, memref<8xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: the left operand's buffers
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[32, 64], f16>
    %b = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ra = memref.alloca() : memref<16xf32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.load_operands step 0 %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %rb warp_tile <32, 32> : !gpu.shared<[32, 64], f16>, !gpu.shared<[64, 64], f16>, memref<16xf32, #gpu<space register>>, memref<16xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: operands are f16 or bf16, not f64
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %acc = gpu.fragment : !gpu.fragment<[32, 64], f32>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.multiply buffer 0 %ra, %rb into %acc warp_tile <32, 32> element f64 : memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: the accumulator is a matrix of f32, not !gpu.fragment<[32, 64], f16>
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %acc = gpu.fragment : !gpu.fragment<[32, 64], f16>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.multiply buffer 0 %ra, %rb into %acc warp_tile <32, 32> element f16 : memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>, !gpu.fragment<[32, 64], f16>
    gpu.return
  }
}

// -----

// CHECK: a tile of 32x64 does not split into warp tiles of [32, 48]
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %acc = gpu.fragment : !gpu.fragment<[32, 64], f32>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.multiply buffer 0 %ra, %rb into %acc warp_tile <32, 48> element f16 : memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: buffer 2 of 8 registers is outside the left operand's 16
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %acc = gpu.fragment : !gpu.fragment<[32, 64], f32>
    %ra = memref.alloca() : memref<16xi32, #gpu<space register>>
    %rb = memref.alloca() : memref<16xi32, #gpu<space register>>
    gpu.multiply buffer 2 %ra, %rb into %acc warp_tile <32, 32> element f16 : memref<16xi32, #gpu<space register>>, memref<16xi32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: the left operand's buffers is a memref of f32 registers, not memref<8xi32, #gpu<space register>>
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f32>
    %ra = memref.alloca() : memref<8xi32, #gpu<space register>>
    gpu.load_operands step 15 %a affine_map<(m, n, k) -> (k, m)>, %a affine_map<(m, n, k) -> (k, n)> to buffer 0 %ra, %ra warp_tile <64, 32> : !gpu.shared<[16, 64], f32>, !gpu.shared<[16, 64], f32>, memref<8xi32, #gpu<space register>>, memref<8xi32, #gpu<space register>>
    gpu.return
  }
}

// -----

// CHECK: 32 lanes of fma have four neighbouring rows and columns each of a warp_tile, and 16x16 does not split so; make it a multiple of 32x16, 16x32, 8x64 or 4x128
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %ra = memref.alloca() : memref<16xf32, #gpu<space register>>
    %acc = gpu.fragment : !gpu.fragment<[32, 64], f32>
    gpu.multiply buffer 0 %ra, %ra into %acc warp_tile <16, 16> element f32 : memref<16xf32, #gpu<space register>>, memref<16xf32, #gpu<space register>>, !gpu.fragment<[32, 64], f32>
    gpu.return
  }
}

// -----

// CHECK: steps of f32 load both operands; drop right
gpu.module @m arch "sm_80" symbols [K] {
  gpu.kernel @k() threads 64 {
    %w = gpu.shared_tile : !gpu.shared<[16, 64], f32, swizzle 0, pad 4>
    %rw = memref.alloca() : memref<16xf32, #gpu<space register>>
    gpu.load_operands right step 15 %w affine_map<(m, n, k) -> (k, m)>, %w affine_map<(m, n, k) -> (k, n)> to buffer 0 %rw, %rw warp_tile <64, 32> : !gpu.shared<[16, 64], f32, swizzle 0, pad 4>, !gpu.shared<[16, 64], f32, swizzle 0, pad 4>, memref<16xf32, #gpu<space register>>, memref<16xf32, #gpu<space register>>
    gpu.return
  }
}
