// RUN: polyc-opt %s | polyc-opt | filecheck %s

// Convolutions: a tensor map over pixels, and a copy of one tap.
gpu.module @m arch "sm_90a" symbols [N, H] {
  // CHECK: gpu.kernel @every_op(%map: !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -2], upper [-1, -3], strides [2, 1]> = tensor_map 0, %i: index = symbol N)
  gpu.kernel @every_op(%map: !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -2], upper [-1, -3], strides [2, 1]> = tensor_map 0, %i: index = symbol N) threads 128 shared_bytes 16400 {
    %a = arith.constant 0 : i32
    %bars = gpu.mbarrier at 16384 : !gpu.mbarrier<2>
    // CHECK: gpu.prefetch_tensor_map %map : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -2], upper [-1, -3], strides [2, 1]>
    gpu.prefetch_tensor_map %map : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -2], upper [-1, -3], strides [2, 1]>
    // CHECK-NEXT: gpu.tma_load_im2col %map[%i, %i, %i, %i] offsets[%i, %i] to %a, %bars[%i] {note} : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -2], upper [-1, -3], strides [2, 1]>, !gpu.mbarrier<2>
    gpu.tma_load_im2col %map[%i, %i, %i, %i] offsets [%i, %i] to %a, %bars[%i] {note} : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -2], upper [-1, -3], strides [2, 1]>, !gpu.mbarrier<2>
    gpu.return
  }
  // CHECK: "test.op"() {g = #gpu.im2col<kernel [3, 5], strides [2, 1], padding [1, 2], dilation [1, 3]>}
  "test.op"() {g = #gpu.im2col<kernel [3, 5], strides [2, 1], padding [1, 2], dilation [1, 3]>} : () -> ()
}
