// RUN: polyc-opt %s -t cuda | filecheck %s

// A block of four words is ten rounds; a place has one of them.
gpu.module @random arch "sm_80" symbols [M] {
  gpu.kernel @one(%A: !gpu.global<[M], i64> = tensor 0, %B: !gpu.global<[M], i64> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %seed = arith.constant 7 : i64
    %place = gpu.load_global %A[%c0 : index] : !gpu.global<[M], i64> -> i64
    %r = gpu.philox %place, %seed : i64
    gpu.store_global %r, %B[%c0 : index] : i64, !gpu.global<[M], i64>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ i64 philox(i64 place, i64 seed) {
// CHECK: for (int round = 0; round < 10; ++round) {
// CHECK-NEXT: u64 first = (u64)c0 * 0xD2511F53u, third = (u64)c2 * 0xCD9E8D57u;
// CHECK: k0 += 0x9E3779B9u;
// CHECK-NEXT: k1 += 0xBB67AE85u;
// CHECK: i64 r = philox(place, 7ll);
