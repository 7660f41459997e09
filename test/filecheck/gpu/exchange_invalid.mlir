// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1.000000e+00 : f32
    // CHECK: a shuffle is xor, up, down, index, not "left"
    %s = gpu.shuffle "left" %x, %i : f32 -> f32
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    // CHECK: a shuffle moves one f32, i32 or i64, not index to index
    %s = gpu.shuffle "xor" %i, %i : index -> index
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%C: !gpu.global<[M], f32> = tensor 0, %i: index = symbol M) threads 32 {
    %x = arith.constant 1.000000e+00 : f32
    // CHECK: atomic max works on i32 (add also on f32), not f32
    gpu.atomic_global "max" %x, %C[%i : index] : f32, !gpu.global<[M], f32>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%C: !gpu.global<[M], i64> = tensor 0, %i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i64
    // CHECK: atomic max of global memory does not work on i64; add and umax do, of global memory
    gpu.atomic_global "max" %x, %C[%i : index] : i64, !gpu.global<[M], i64>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %n = arith.constant 1 : i32
    %x = arith.constant 1 : i64
    // CHECK: atomic add of shared memory does not work on i64; add and umax do, of global memory
    gpu.atomic_shared "add" %x, %n : i64
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %n = arith.constant 1 : i32
    // CHECK: an atomic is add, max, min, umax, not "exchange"
    gpu.atomic_shared "exchange" %n, %n : i32
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 0, %i: index = symbol M) threads 32 {
    %a = arith.constant 0 : i32
    // CHECK: a box of rank 2 starts at 2 coordinates, not 1
    gpu.tma_store %a to %map[%i] : !gpu.tensor_map<[64, 64], f16, swizzle 128>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    // CHECK: -1 groups cannot be pending
    gpu.bulk_wait -1
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %a = arith.constant 0 : i32
    %r = memref.alloca() : memref<4xf32, #gpu<space register>>
    // CHECK: the source of stmatrix is a memref of i32 registers, not memref<4xf32
    gpu.stmatrix %r[%i] to %a : memref<4xf32, #gpu<space register>>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%C: !gpu.global<[M], f32> = tensor 0, %i: index = symbol M) threads 32 {
    %n = arith.constant 1 : i32
    // CHECK: elements of !gpu.global<[M], f32> are f32, not i32
    %was = gpu.exchange_global %n, %C[%i : index] : !gpu.global<[M], f32>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%C: !gpu.global<[M], i32> = tensor 0, %i: index = symbol M) threads 32 {
    %n = arith.constant 1 : i32
    // CHECK: a tensor of rank 1 is accessed at 1 coordinates of type index, or at one i64 offset, not at (index, index)
    %was = gpu.exchange_global %n, %C[%i, %i : index, index] : !gpu.global<[M], i32>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [M] {
  gpu.kernel @k(%i: index = symbol M) threads 32 {
    %x = arith.constant 1 : i32
    // CHECK: lanes match in 1 to 32 bits, not in 33
    %rank, %count, %first = gpu.match_lanes %x bits 33
    gpu.return
  }
}
