// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_90a" symbols [N] {
  gpu.kernel @k(%map: !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [0, 0], upper [0, 0], strides [1, 1]> = tensor_map 0, %i: index = symbol N) threads 32 {
    %a = arith.constant 0 : i32
    %bars = gpu.mbarrier at 0 : !gpu.mbarrier<1>
    // CHECK: an im2col copy is at 4 coordinates (image, row, column, channel) and 2 offsets (row, column), not at 3 and 2
    gpu.tma_load_im2col %map[%i, %i, %i] offsets [%i, %i] to %a, %bars[%i] : !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [0, 0], upper [0, 0], strides [1, 1]>, !gpu.mbarrier<1>
    gpu.return
  }
}

// -----

// CHECK: the box of an im2col map (pixels, channels) is 2 numbers, not 3
"test.op"() {t = !gpu.im2col_map<[1, 128, 64], f16, swizzle 128, lower [0, 0], upper [0, 0], strides [1, 1]>} : () -> ()

// -----

// CHECK: lower (height, width) is 2 numbers, not 1
"test.op"() {t = !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [0], upper [0, 0], strides [1, 1]>} : () -> ()

// -----

// CHECK: an im2col copy has 1 to 1024 pixels and 1 to 256 channels, not 2048 and 64
"test.op"() {t = !gpu.im2col_map<[2048, 64], f16, swizzle 128, lower [0, 0], upper [0, 0], strides [1, 1]>} : () -> ()

// -----

// CHECK: a TMA swizzle is 0, 32, 64 or 128 bytes, not 48
"test.op"() {t = !gpu.im2col_map<[128, 64], f16, swizzle 48, lower [0, 0], upper [0, 0], strides [1, 1]>} : () -> ()

// -----

// CHECK: the channels of a pixel are 256 bytes; they must be a multiple of 16 and at most the swizzle's 128
"test.op"() {t = !gpu.im2col_map<[128, 128], f16, swizzle 128, lower [0, 0], upper [0, 0], strides [1, 1]>} : () -> ()

// -----

// CHECK: corners of a bounding box are -128 to 127, not [0, -129]
"test.op"() {t = !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [0, -129], upper [0, 0], strides [1, 1]>} : () -> ()

// -----

// CHECK: TMA strides are 1 to 8, not [9, 1]
"test.op"() {t = !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [0, 0], upper [0, 0], strides [9, 1]>} : () -> ()

// -----

// CHECK: padding is two numbers of at least 0, not [-1, 0]
"test.op"() {g = #gpu.im2col<kernel [3, 3], strides [1, 1], padding [-1, 0], dilation [1, 1]>} : () -> ()

// -----

// CHECK: kernel is two numbers of at least 1, not [0, 3]
"test.op"() {g = #gpu.im2col<kernel [0, 3], strides [1, 1], padding [1, 0], dilation [1, 1]>} : () -> ()
