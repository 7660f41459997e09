// RUN: polyc-opt %s | polyc-opt | filecheck %s
// RUN: polyc-opt %s --print-op-generic | polyc-opt | filecheck %s

// A convolution's operands: a tap's pixels, and a filter's taps picked from between two axes.
gpu.module @m arch "sm_90a" symbols [N, H, W, C, K] {
  // CHECK: gpu.kernel @k
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16, align 16> = tensor 0, %F: !gpu.global<[K, 9, C], f16, align 16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    %f = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %ring = gpu.ring consumers 2 : !gpu.ring<2>
    // CHECK: gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [1, 1]> tap [%i, %i] loader "tma" signal %ring : !gpu.ring<2> at %i {note} : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [1, 1]> tap [%i, %i] loader "tma" signal %ring : !gpu.ring<2> at %i {note} : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    // Padding at the image's end may differ from what is at its start; equal ones are said once.
    // CHECK-NEXT: im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [0, 1] to [1, 0], dilation [1, 1]> tap
    gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [0, 1] to [1, 0], dilation [1, 1]> tap [%i, %i] : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    // CHECK-NEXT: im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 0], dilation [1, 1]> tap
    gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 0] to [1, 0], dilation [1, 1]> tap [%i, %i] : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    // Of planes the tile has a row for each channel.
    // CHECK-NEXT: gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [1, 1], strides [1, 1], padding [0, 0], dilation [1, 1]> tap [%i, %i] planes loader "cp_async" signal %ring : !gpu.ring<2> at %i : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [1, 1], strides [1, 1], padding [0, 0], dilation [1, 1]> tap [%i, %i] planes loader "cp_async" signal %ring : !gpu.ring<2> at %i : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    // Without a tap it has one for each tap of each channel.
    // CHECK-NEXT: gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [1, 1]> planes loader "register" signal %ring : !gpu.ring<2> at %i : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    gpu.copy %X[%i, %i, %i, %i] to %x slot %i im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [1, 1]> planes loader "register" signal %ring : !gpu.ring<2> at %i : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 64], f16, swizzle 128, ring 2>
    // CHECK-NEXT: gpu.copy %F[%i, %i, %i] to %f axes <0, 2> : !gpu.global<[K, 9, C], f16, align 16>, !gpu.shared<[64, 64], f16>
    gpu.copy %F[%i, %i, %i] to %f axes <0, 2> : !gpu.global<[K, 9, C], f16, align 16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}
