// RUN: polyc-opt %s -t cuda | filecheck %s

// Carried values are variables that all take their next value at once.
gpu.module @control arch "sm_80" symbols [M] {
  gpu.kernel @every(%O: !gpu.global<[M], i32> = tensor 0, %n: index = symbol M, %m: i32 = symbol M, %p: i1 = symbol M) threads 32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %z = arith.constant 0 : i32
    %u = arith.constant 1 : i32
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    scf.for %k = %c0 to %c4 step %c1 {
      memref.store %z, %r[%k] : memref<4xi32, #gpu<space register>>
    } {unroll}
    %swap:2 = scf.for %k = %c0 to %n step %c4 iter_args(%a = %z, %b = %u) -> (i32, i32) {
      scf.yield %b, %a : i32, i32
    }
    %last, %unused, %count = scf.for %k = %z to %m step %u iter_args(%old = %z, %no = %u, %count = %z) -> (i32, i32, i32) : i32 {
      %dead = arith.addi %no, %k : i32
      %next = arith.addi %count, %swap#1 : i32
      scf.yield %count, %dead, %next : i32, i32, i32
    }
    %x, %y = scf.if %p -> (i32, i32) {
      %0 = arith.addi %last, %count : i32
      scf.yield %0, %last : i32, i32
    } else {
      scf.yield %swap#0, %count : i32, i32
    }
    scf.if %p {
      gpu.store_global %x, %O[%n : index] : i32, !gpu.global<[M], i32>
    }
    scf.for %k = %c0 to %c4 step %c1 {
      gpu.store_global %z, %O[%k : index] : i32, !gpu.global<[M], i32>
    } {rolled}
    scf.if %p {
      %w = memref.load %r[%c1] : memref<4xi32, #gpu<space register>>
      gpu.store_global %w, %O[%n : index] : i32, !gpu.global<[M], i32>
    } else {
      gpu.barrier
    }
    gpu.return
  }
}

// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: every(u32* __restrict__ O, int n, u32 m, bool p) {
// CHECK-NEXT:   u32 r[4];
// CHECK-NEXT:   #pragma unroll
// CHECK-NEXT:   for (int k = 0; k < 4; ++k) {
// CHECK-NEXT:     r[k] = 0u;
// CHECK-NEXT:   }
// CHECK-NEXT:   u32 a = 0u;
// CHECK-NEXT:   u32 b = 1u;
// CHECK-NEXT:   for (int k_1 = 0; k_1 < n; k_1 += 4) {
// CHECK-NEXT:     u32 old_a = a;
// CHECK-NEXT:     a = b;
// CHECK-NEXT:     b = old_a;
// CHECK-NEXT:   }
// CHECK-NEXT:   u32 old = 0u;
// CHECK-NEXT:   u32 count = 0u;
// CHECK-NEXT:   for (u32 k_2 = 0u; (int)k_2 < (int)m; ++k_2) {
// CHECK-NEXT:     u32 next = count + b;
// CHECK-NEXT:     old = count;
// CHECK-NEXT:     count = next;
// CHECK-NEXT:   }
// CHECK-NEXT:   u32 x;
// CHECK-NEXT:   if (p) {
// CHECK-NEXT:     u32 sum = old + count;
// CHECK-NEXT:     x = sum;
// CHECK-NEXT:   } else {
// CHECK-NEXT:     x = a;
// CHECK-NEXT:   }
// CHECK-NEXT:   if (p) {
// CHECK-NEXT:     store_global_u32(O + n, x);
// CHECK-NEXT:   }
// CHECK-NEXT:   #pragma unroll 1
// CHECK-NEXT:   for (int k_3 = 0; k_3 < 4; ++k_3) {
// CHECK-NEXT:     store_global_u32(O + k_3, 0u);
// CHECK-NEXT:   }
// CHECK-NEXT:   if (p) {
// CHECK-NEXT:     u32 w = r[1];
// CHECK-NEXT:     store_global_u32(O + n, w);
// CHECK-NEXT:   } else {
// CHECK-NEXT:     __syncthreads();
// CHECK-NEXT:   }
// CHECK-NEXT: }
