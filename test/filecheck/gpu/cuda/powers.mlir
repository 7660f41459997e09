// RUN: polyc-opt %s -t cuda | filecheck %s

// Narrow integers have no room for a product in C's own type, which has a sign.
gpu.module @powers arch "sm_80" symbols [M] {
  gpu.kernel @each(%A: !gpu.global<[M], i16> = tensor 0, %B: !gpu.global<[M], i64> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %x = gpu.load_global %A[%c0 : index] : !gpu.global<[M], i16> -> i16
    %y = gpu.load_global %B[%c0 : index] : !gpu.global<[M], i64> -> i64
    %p = gpu.power %x, %x : i16
    %q = gpu.power %y, %y : i64
    gpu.store_global %p, %A[%c0 : index] : i16, !gpu.global<[M], i16>
    gpu.store_global %q, %B[%c0 : index] : i64, !gpu.global<[M], i64>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ u32 power_u32(u32 base, u32 exponent) {
// CHECK-NEXT: u32 found = 1;
// CHECK-NEXT: while (exponent != 0) {
// CHECK: __device__ __forceinline__ u64 power_u64(u64 base, u64 exponent) {
// CHECK: u16 p = (u16)power_u32((u32)x, (u32)x);
// CHECK-NEXT: i64 q = (i64)power_u64((u64)y, (u64)y);
