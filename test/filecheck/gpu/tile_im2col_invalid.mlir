// RUN: polyc-opt %s --split-input-file --verify-diagnostics --parsing-diagnostics | filecheck %s

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: an im2col copy is of one tap (row, column), or of whole windows of planes, and others are of none, not of 1 coordinates
    gpu.copy %X[%i, %i, %i, %i] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%i] : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: im2col copies a tile of pixels and channels of a tensor [N, H, W, C], not !gpu.shared<[64, 64], f16> of !gpu.global<[H, C], f16>
    gpu.copy %Y[%i, %i] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%i, %i] : !gpu.global<[H, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: im2col is of a load, whose axes it gives itself
    gpu.copy %x to %X[%i, %i, %i, %i] im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%i, %i] : !gpu.shared<[64, 64], f16>, !gpu.global<[N, H, W, C], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: im2col is followed by a #gpu.im2col
    gpu.copy %X[%i, %i, %i, %i] to %x im2col 3 tap [%i, %i] : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: a tile of rank 2 runs along 2 axes of the tensor, in their order and the last one (3) among them, not along [1, 2]
    gpu.copy %X[%i, %i, %i, %i] to %x axes <1, 2> : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: a tile of rank 2 runs along 2 axes of the tensor, in their order and the last one (3) among them, not along [3]
    gpu.copy %X[%i, %i, %i, %i] to %x axes <3> : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %f = gpu.fragment : !gpu.fragment<[64, 64], f16>
    // CHECK: axes are those of a tensor in global memory
    gpu.copy %f to %x axes <0, 1> : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 65], f16>
    // CHECK: threads load the pixels of planes; give the copy the loader "register", or "cp_async"
    gpu.copy %X[%i, %i, %i, %i] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%i, %i] planes loader "tma" : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 65], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 65], f16>
    // CHECK: 65 pixels of a tile are stored two by two or wider; make them even
    gpu.copy %X[%i, %i, %i, %i] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> tap [%i, %i] planes loader "register" : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 65], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: threads load whole windows of planes; give the copy a tap, or the loader "register"
    gpu.copy %X[%i, %i, %i, %i] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> planes loader "cp_async" : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}

// -----

gpu.module @m arch "sm_90a" symbols [N, H, W, C] {
  gpu.kernel @k(%X: !gpu.global<[N, H, W, C], f16> = tensor 0, %Y: !gpu.global<[H, C], f16> = tensor 1, %i: index = symbol N) threads 128 {
    %x = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    // CHECK: an im2col copy is of one tap (row, column), or of whole windows of planes, and others are of none, not of 0 coordinates
    gpu.copy %X[%i, %i, %i, %i] to %x im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]> loader "tma" : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[64, 64], f16>
    gpu.return
  }
}
