// RUN: polyc-opt %s -t cuda | filecheck %s

// A block of four words is ten rounds; a place has one of them.  Neighbours share blocks; where the
// first begins inside of one, that is known in the kernel alone.
gpu.module @random arch "sm_80" symbols [M] {
  gpu.kernel @each(%A: !gpu.global<[M], i64> = tensor 0, %B: !gpu.global<[M], i64> = tensor 1) threads 32 {
    %c0 = arith.constant 0 : index
    %seed = arith.constant 7 : i64
    %place = gpu.load_global %A[%c0 : index] : !gpu.global<[M], i64> -> i64
    %r = gpu.philox %place, %seed : i64
    %several = gpu.philox %r, %seed multiple 2 : vector<8xi64>
    %s = gpu.unpack %several element 5 : vector<8xi64> -> i64
    gpu.store_global %s, %B[%c0 : index] : i64, !gpu.global<[M], i64>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ i64 philox(i64 place, i64 seed) {
// CHECK: for (int round = 0; round < 10; ++round) {
// CHECK-NEXT: u64 first = (u64)c0 * 0xD2511F53u, third = (u64)c2 * 0xCD9E8D57u;
// CHECK: k0 += 0x9E3779B9u;
// CHECK-NEXT: k1 += 0xBB67AE85u;
// CHECK: __device__ __forceinline__ i64x8 philox_x8_by2(i64 place, i64 seed) {
// CHECK-NEXT: u64 pairs[12];
// CHECK: for (int i = 0; i < 10; ++i) pairs[i] = place & 2 ? pairs[i + 2] : pairs[i];
// CHECK-NEXT: i64x8 found;
// CHECK: i64 r = philox(place, 7ll);
// CHECK-NEXT: i64x8 several = philox_x8_by2(r, 7ll);
// CHECK-NEXT: i64 s = several.v[5];
