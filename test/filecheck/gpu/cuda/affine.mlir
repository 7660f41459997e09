// RUN: polyc-opt %s -t cuda | filecheck %s

// floordiv, mod and ceildiv are exact for any sign; powers of two are shifts and masks, and what is
// never negative is divided as unsigned numbers.
gpu.module @affine arch "sm_80" symbols [M] {
  gpu.kernel @every(%O: !gpu.global<[M], i32> = tensor 0, %i: index = symbol M, %j: index = symbol M) threads 32 {
    %c3 = arith.constant 3 : index
    %0 = affine.apply affine_map<(d0) -> (d0 floordiv 32)>(%i)
    %1 = affine.apply affine_map<(d0) -> (d0 mod 32)>(%0)
    %2 = affine.apply affine_map<(d0) -> (d0 ceildiv 128)>(%1)
    %less = arith.subi %2, %j : index
    %3 = affine.apply affine_map<(d0) -> (d0 floordiv 3)>(%less)
    %4 = affine.apply affine_map<(d0) -> (d0 mod 3)>(%3)
    %5 = affine.apply affine_map<(d0) -> (d0 ceildiv 3)>(%4)
    %6 = affine.apply affine_map<(d0)[s0] -> ((d0 + s0 * 2) * 4 - 7)>(%5)[%j]
    %7 = affine.apply affine_map<(d0, d1) -> ((d0 floordiv 4) * 8 + d1 mod 8 - d0 * 3 - d1)>(%6, %j)
    %8 = affine.apply affine_map<(d0, d1) -> ((d0 mod 16) floordiv 4 + (d1 + 1) ceildiv 2)>(%7, %c3)
    %9 = affine.apply affine_map<(d0) -> (-d0)>(%8)
    %10 = affine.apply affine_map<(d0) -> ((d0 floordiv 1) * 2 + d0 mod 1 - 4)>(%9)
    %11 = arith.addi %9, %10 : index
    %12 = affine.apply affine_map<(d0)[s0] -> ((d0 * 2 + s0) floordiv 3 + d0 mod 5)>(%i)[%j]
    %13 = arith.addi %11, %12 : index
    %r = arith.index_cast %13 : index to i32
    gpu.store_global %r, %O[%i : index] : i32, !gpu.global<[M], i32>
    gpu.return
  }
}

// CHECK: __device__ __forceinline__ int floor_div(int a, int b) {
// CHECK-NEXT:   int q = a / b, r = a % b;
// CHECK-NEXT:   return q - (r != 0 && (r < 0) != (b < 0));
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ int floor_mod(int a, int b) {
// CHECK-NEXT:   int r = a % b;
// CHECK-NEXT:   return r != 0 && (r < 0) != (b < 0) ? r + b : r;
// CHECK-NEXT: }
// CHECK: __device__ __forceinline__ int ceil_div(int a, int b) {
// CHECK-NEXT:   int q = a / b, r = a % b;
// CHECK-NEXT:   return q + (r != 0 && (r < 0) == (b < 0));
// CHECK-NEXT: }
// CHECK: extern "C" __global__ void __launch_bounds__(32, 1)
// CHECK-NEXT: every(u32* __restrict__ O, int i, int j) {
// CHECK-NEXT:   int index = i >> 5;
// CHECK-NEXT:   int index_1 = index & 31;
// CHECK-NEXT:   int index_2 = (index_1 - 1 >> 7) + 1;
// CHECK-NEXT:   int less = index_2 - j;
// CHECK-NEXT:   int index_3 = floor_div(less, 3);
// CHECK-NEXT:   int index_4 = floor_mod(index_3, 3);
// CHECK-NEXT:   int index_5 = ceil_div(index_4, 3);
// CHECK-NEXT:   int index_6 = index_5 * 4 + j * 8 - 7;
// CHECK-NEXT:   int index_7 = (index_6 >> 2) * 8 + (j & 7) - index_6 * 3 - j;
// CHECK-NEXT:   int index_8 = ((index_7 & 15) >> 2) + (3 + 1 - 1 >> 1) + 1;
// CHECK-NEXT:   int index_9 = -index_8;
// CHECK-NEXT:   int index_10 = index_9 * 2 + 0 - 4;
// CHECK-NEXT:   int sum = index_9 + index_10;
// CHECK-NEXT:   int index_11 = (int)((u32)(i * 2 + j) / 3u) + (int)((u32)(i) % 5u);
// CHECK-NEXT:   int sum_1 = sum + index_11;
// CHECK-NEXT:   u32 r = (u32)sum_1;
// CHECK-NEXT:   store_global_u32(O + i, r);
// CHECK-NEXT: }
