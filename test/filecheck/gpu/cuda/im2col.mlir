// RUN: polyc-opt %s -t cuda | filecheck %s

// The TMA copy of a tap: innermost coordinate first, offsets in 16 bits.
gpu.module @im2col arch "sm_90a" symbols [N, H] {
  gpu.kernel @load(%map: !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -1], upper [-1, -1], strides [1, 1]> = tensor_map 0, %i: index = symbol N, %j: index = symbol H) threads 128 shared_bytes 16400 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[128, 64], f16, swizzle 128>
    %full = gpu.mbarrier at 16384 : !gpu.mbarrier<1>
    %address = gpu.shared_address %tile[%c0] : !gpu.shared<[128, 64], f16, swizzle 128>
    gpu.prefetch_tensor_map %map : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -1], upper [-1, -1], strides [1, 1]>
    gpu.tma_load_im2col %map[%i, %j, %c0, %c1] offsets [%c2, %c1] to %address, %full[%c0] : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -1], upper [-1, -1], strides [1, 1]>, !gpu.mbarrier<1>
    gpu.return
  }
}

// CHECK: struct __align__(64) TensorMap {
// CHECK: __device__ __forceinline__ void tma_load_im2col(u32 address, const TensorMap* map, u32 barrier, int c, int w, int h, int n, int s, int r) {
// CHECK-NEXT:   asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
// CHECK-NEXT:       :
// CHECK-NEXT:       : "r"(address), "l"(map), "r"(barrier), "r"(c), "r"(w), "r"(h), "r"(n), "h"((u16)s), "h"((u16)r)
// CHECK-NEXT:       : "memory");
// CHECK-NEXT: }
// CHECK: load(const __grid_constant__ TensorMap map, int i, int j) {
// CHECK: prefetch_tensor_map(&map);
// CHECK-NEXT: tma_load_im2col(address, &map, full, 1, 0, j, i, 1, 2);
