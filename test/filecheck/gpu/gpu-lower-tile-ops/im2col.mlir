// RUN: polyc-opt %s -p gpu-lower-tile-ops | filecheck %s

// A tap of a convolution, by each loader; and a filter's tap picked from between two axes.

gpu.module @m arch "sm_90a" symbols [N, H, W, C, K] {
  // Output pixel (p, q) has the filter's base at (2p - 1, 2q - 1); the tap is 2 apart.
  // CHECK-LABEL: gpu.kernel @tma
  // CHECK-SAME: %X_map: !gpu.im2col_map<[128, 64], f16, swizzle 128, lower [-1, -1], upper [-3, -3], strides [2, 2]> = tensor_map 0
  // CHECK-SAME: %F_map: !gpu.tensor_map<[64, 1, 64], f16, swizzle 128> = tensor_map 1
  gpu.kernel @tma(%X: !gpu.global<[N, H, W, C], f16, align 16> = tensor 0, %F: !gpu.global<[K, 9, C], f16, align 16> = tensor 1, %n: index = symbol N, %p: index = symbol H, %q: index = symbol W, %c: index = symbol C, %r: index = symbol K) threads 32 {
    %full = gpu.mbarrier : !gpu.mbarrier<2>
    %x = gpu.shared_tile : !gpu.shared<[128, 128], f16, swizzle 128, ring 2>
    %f = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128>
    // CHECK: [[AT:%.*]] = gpu.shared_address %x[%r]
    // CHECK-NEXT: [[HEIGHT:%.*]] = affine.apply affine_map<(d0) -> (((d0 * 2) + -1))> (%p)
    // CHECK-NEXT: [[WIDTH:%.*]] = affine.apply affine_map<(d0) -> (((d0 * 2) + -1))> (%q)
    // CHECK-NEXT: %down = affine.apply affine_map<(d0) -> ((d0 * 2))> (%r)
    // CHECK-NEXT: %across = affine.apply affine_map<(d0) -> ((d0 * 2))> (%n)
    // CHECK-NEXT: gpu.tma_load_im2col %X_map[%n, [[HEIGHT]], [[WIDTH]], %c] offsets[%down, %across] to [[AT]], %full[%r]
    // CHECK-NEXT: [[PANEL:%.*]] = arith.constant 16384 : i32
    // CHECK-NEXT: [[NEXT:%.*]] = arith.addi [[AT]], [[PANEL]] : i32
    // CHECK-NEXT: [[CHANNEL:%.*]] = affine.apply affine_map<(d0) -> ((d0 + 64))> (%c)
    // CHECK-NEXT: gpu.tma_load_im2col %X_map[%n, [[HEIGHT]], [[WIDTH]], [[CHANNEL]]] offsets[%down, %across] to [[NEXT]], %full[%r]
    gpu.copy %X[%n, %p, %q, %c] to %x slot %r im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [2, 2]> tap [%r, %n] loader "tma" signal %full : !gpu.mbarrier<2> at %r : !gpu.global<[N, H, W, C], f16, align 16>, !gpu.shared<[128, 128], f16, swizzle 128, ring 2>
    // CHECK: gpu.tma_load %F_map[%n, %r, %c]
    gpu.copy %F[%n, %r, %c] to %f axes <0, 2> loader "tma" signal %full : !gpu.mbarrier<2> at %r : !gpu.global<[K, 9, C], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128>
    gpu.return
  }

  // 16 rows of 16 chunks of 4 bytes: 8 for each of 32 threads, at one offset of the tensor.
  // CHECK-LABEL: gpu.kernel @cp_async
  gpu.kernel @cp_async(%X: !gpu.global<[N, H, W, C], f16, align 4> = tensor 0, %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C) threads 32 {
    %x = gpu.shared_tile : !gpu.shared<[16, 32], f16, swizzle 64>
    // CHECK: %row = affine.apply affine_map<(d0) -> ((d0 floordiv 16))> (%thread)
    // CHECK: arith.floordivsi
    // CHECK: arith.floordivsi
    // CHECK: arith.select
    // CHECK: affine.apply affine_map<(d0) -> (((d0 + 224) floordiv 16))> (%thread)
    // CHECK: arith.floordivsi
    // CHECK: arith.cmpi ult
    // CHECK: arith.cmpi ult
    // CHECK-NOT: arith.floordivsi
    // CHECK: gpu.cp_async %{{.*}}, %X[%{{.*}} : i64] bytes 4 if %{{.*}} : !gpu.global<[N, H, W, C], f16, align 4>
    gpu.copy %X[%N, %H, %W, %C] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%H, %W] loader "cp_async" : !gpu.global<[N, H, W, C], f16, align 4>, !gpu.shared<[16, 32], f16, swizzle 64>
    gpu.return
  }

  // Pixels of planes, two a thread: 16 rows of 16 words, of which 32 threads have two rows at once.
  // CHECK-LABEL: gpu.kernel @planes
  gpu.kernel @planes(%X: !gpu.global<[N, 16, H, W], f16> = tensor 0, %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C) threads 32 {
    %x = gpu.shared_tile : !gpu.shared<[16, 32], f16, swizzle 64>
    // CHECK: affine.apply affine_map<(d0) -> ((d0 floordiv 16))> (%thread)
    // CHECK: affine.apply affine_map<(d0) -> (((d0 mod 16) * 2))> (%thread)
    // CHECK: arith.floordivsi
    // CHECK: [[INSIDE:%.*]] = arith.andi
    // CHECK: [[ONE:%.*]] = gpu.load_global %X[%{{.*}} : i64] if [[INSIDE]] : !gpu.global<[N, 16, H, W], f16> -> f16
    // CHECK-NEXT: [[OTHER:%.*]] = gpu.load_global %X[%{{.*}} : i64] if %{{.*}} : !gpu.global<[N, 16, H, W], f16> -> f16
    // CHECK-NEXT: [[BOTH:%.*]] = gpu.pack [[ONE]], [[OTHER]] : f16, f16 -> vector<2xf16>
    // CHECK: gpu.store_shared [[BOTH]],
    gpu.copy %X[%N, %C, %H, %W] to %x im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [1, 1]> tap [%H, %W] planes loader "register" : !gpu.global<[N, 16, H, W], f16>, !gpu.shared<[16, 32], f16, swizzle 64>
    gpu.return
  }

  // Points of whole windows: which plane, and which of nine taps, each thread knows of its rows.
  // CHECK-LABEL: gpu.kernel @windows
  gpu.kernel @windows(%X: !gpu.global<[N, 3, H, W], f16> = tensor 0, %N: index = symbol N, %H: index = symbol H, %W: index = symbol W) threads 32 {
    %x = gpu.shared_tile : !gpu.shared<[32, 32], f16, swizzle 64>
    %zero = arith.constant 0 : index
    // CHECK: [[ROW:%.*]] = affine.apply affine_map<(d0) -> ((d0 floordiv 16))> (%thread)
    // CHECK: [[PLANE:%.*]] = affine.apply affine_map<(d0, d1) -> (((d0 + d1) floordiv 9))> (%zero, [[ROW]])
    // CHECK: affine.apply affine_map<(d0, d1) -> ({{.*}}mod 9) floordiv 3{{.*}}> (%zero, [[ROW]])
    // CHECK: affine.apply affine_map<(d0, d1) -> ({{.*}}mod 3{{.*}}> (%zero, [[ROW]])
    // CHECK: arith.cmpi slt, [[PLANE]],
    // CHECK: gpu.load_global %X[%{{.*}} : i64] if %{{.*}} : !gpu.global<[N, 3, H, W], f16> -> f16
    // CHECK: affine.apply affine_map<(d0, d1) -> ((((d0 + d1) + 30) floordiv 9))> (%zero, [[ROW]])
    gpu.copy %X[%N, %zero, %H, %W] to %x im2col #gpu.im2col<kernel [3, 3], strides [2, 2], padding [1, 1], dilation [1, 1]> planes loader "register" : !gpu.global<[N, 3, H, W], f16>, !gpu.shared<[32, 32], f16, swizzle 64>
    gpu.return
  }

  // A row of 196 pixels of one tap, by 8 bytes.
  // CHECK-LABEL: gpu.kernel @rows
  gpu.kernel @rows(%X: !gpu.global<[N, C, 1, 196], f16, align 8> = tensor 0, %N: index = symbol N, %C: index = symbol C) threads 32 {
    %x = gpu.shared_tile : !gpu.shared<[16, 32], f16, swizzle 64>
    %zero = arith.constant 0 : index
    // CHECK: gpu.cp_async %{{.*}}, %X[%{{.*}} : i64] bytes 8 if %{{.*}} : !gpu.global<[N, C, 1, 196], f16, align 8>
    gpu.copy %X[%N, %C, %zero, %C] to %x im2col #gpu.im2col<kernel [1, 1], strides [1, 1], padding [0, 0], dilation [1, 1]> tap [%zero, %zero] planes loader "cp_async" : !gpu.global<[N, C, 1, 196], f16, align 8>, !gpu.shared<[16, 32], f16, swizzle 64>
    gpu.return
  }

  // CHECK-LABEL: gpu.kernel @register
  gpu.kernel @register(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C) threads 32 {
    %x = gpu.shared_tile : !gpu.shared<[16, 16], f16, swizzle 32>
    // CHECK: gpu.load_global %X[%{{.*}} : i64] if %{{.*}} : !gpu.global<[N, H, W, C], f16> -> f16
    // CHECK: [[CHUNK:%.*]] = gpu.pack {{.*}} -> vector<8xf16>
    // CHECK-NEXT: gpu.store_shared [[CHUNK]],
    gpu.copy %X[%N, %H, %W, %C] to %x im2col #gpu.im2col<kernel [1, 1], strides [1, 1], padding [0, 0], dilation [1, 1]> tap [%H, %W] loader "register" : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[16, 16], f16, swizzle 32>
    gpu.return
  }
}
