// RUN: polyc-opt %s | polyc-opt | filecheck %s

// Shuffles, atomics, and the way from registers through shared memory to a tensor map.
gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @every_op(%C: !gpu.global<[M, N], f32> = tensor 0, %O: !gpu.global<[M], i32> = tensor 0, %map: !gpu.tensor_map<[64, 64], f16, swizzle 128> = tensor_map 1, %i: index = symbol M) threads 128 {
    %x = arith.constant 1.000000e+00 : f32
    %n = arith.constant 7 : i32
    %a = arith.constant 0 : i32
    %p = arith.constant true
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    // CHECK: %s = gpu.shuffle "xor" %x, %i : f32 -> f32
    %s = gpu.shuffle "xor" %x, %i : f32 -> f32
    // CHECK-NEXT: %rank, %count, %first = gpu.match_lanes %n bits 8
    %rank, %count, %first = gpu.match_lanes %n bits 8
    // CHECK-NEXT: %t = gpu.shuffle "index" %n, %i : i32 -> i32
    %t = gpu.shuffle "index" %n, %i : i32 -> i32
    // CHECK-NEXT: gpu.atomic_global "add" %s, %C[%i, %i : index, index] : f32, !gpu.global<[M, N], f32>
    gpu.atomic_global "add" %s, %C[%i, %i : index, index] : f32, !gpu.global<[M, N], f32>
    // CHECK-NEXT: gpu.atomic_global "add" %s, %C[%i, %i : index, index] if %p : f32, !gpu.global<[M, N], f32>
    gpu.atomic_global "add" %s, %C[%i, %i : index, index] if %p : f32, !gpu.global<[M, N], f32>
    // CHECK-NEXT: %was = gpu.exchange_global %n, %O[%i : index] : !gpu.global<[M], i32>
    %was = gpu.exchange_global %n, %O[%i : index] : !gpu.global<[M], i32>
    // CHECK-NEXT: %were = gpu.exchange_global %n, %O[%i : index] if %p : !gpu.global<[M], i32>
    %were = gpu.exchange_global %n, %O[%i : index] if %p : !gpu.global<[M], i32>
    // CHECK-NEXT: %others = gpu.exchange_global add %n, %O[%i : index] if %p : !gpu.global<[M], i32>
    %others = gpu.exchange_global add %n, %O[%i : index] if %p : !gpu.global<[M], i32>
    // CHECK-NEXT: gpu.atomic_shared "max" %t, %a : i32
    gpu.atomic_shared "max" %t, %a : i32
    // CHECK-NEXT: gpu.atomic_shared "umax" %t, %a : i32
    gpu.atomic_shared "umax" %t, %a : i32
    // CHECK-NEXT: %before = gpu.fetch_add_shared %t, %a : i32
    %before = gpu.fetch_add_shared %t, %a : i32
    // CHECK-NEXT: gpu.stmatrix %r[%i] to %a : memref<4xi32, #gpu<space register>>
    gpu.stmatrix %r[%i] to %a : memref<4xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.stmatrix transpose %r[%i] to %a : memref<4xi32, #gpu<space register>>
    gpu.stmatrix transpose %r[%i] to %a : memref<4xi32, #gpu<space register>>
    // CHECK-NEXT: gpu.tma_store %a to %map[%i, %i] : !gpu.tensor_map<[64, 64], f16, swizzle 128>
    gpu.tma_store %a to %map[%i, %i] : !gpu.tensor_map<[64, 64], f16, swizzle 128>
    // CHECK-NEXT: gpu.bulk_commit
    gpu.bulk_commit
    // CHECK-NEXT: gpu.bulk_wait read 1
    gpu.bulk_wait read 1
    // CHECK-NEXT: gpu.bulk_wait 0
    gpu.bulk_wait 0
    gpu.return
  }
}
