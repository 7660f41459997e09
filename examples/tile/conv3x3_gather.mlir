// A 3x3 convolution, NHWC, stride 1 and padding 1, as an implicit GEMM on tensor cores: for inputs
// that TMA cannot read, and for chips without it.
//
//   X: [N, H, W, C]    F: [K, taps, C], a filter as [K, R, S, C]    Y: [pixels, K], NHWC
//
// Every thread gathers the pixels of a tap: it knows where its pixels lie from the start, and each
// tap adds one offset for all; a pixel in the padding is not read and arrives as zeros.  The loader
// follows from how the channels are aligned: cp.async of 16 or 4 bytes, or single elements for an
// odd number of channels.  A block of channels ends with the tensor's channels, so that none is
// multiplied with the next tap's weights.  For another stride or padding change the attribute and
// the output's height and width, here H and W: where pixels are counted, and in the grid.

gpu.module @conv3x3_gather arch "sm_80" symbols [N, H, W, C, K] {
  gpu.kernel @conv3x3_cp_async16(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2, %N: index = symbol N,
      %H: index = symbol H, %W: index = symbol W, %C: index = symbol C, %K: index = symbol K)
      threads 256 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %m0, %k0 = gpu.tile_coordinates[%pixels, %K] tile <128, 128> raster "grouped" 8
    // The tile's first pixel: image n, row p, column q of the output.
    %line = arith.divui %m0, %W : index
    %before = arith.muli %line, %W : index
    %q = arith.subi %m0, %before : index
    %n = arith.divui %line, %H : index
    %above = arith.muli %n, %H : index
    %p = arith.subi %line, %above : index
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 128], f32>
    %x = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %f = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %blocks = affine.apply affine_map<(c) -> ((c + 31) floordiv 32)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    gpu.pipeline %step, %i = to %steps step 1 stages 3 {
      // Step i: tap (r, s) and a block of 32 channels from c on.
      %tap = arith.divui %i, %blocks : index
      %done = arith.muli %tap, %blocks : index
      %block = arith.subi %i, %done : index
      %c = affine.apply affine_map<(b) -> (b * 32)> (%block)
      %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
      %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
      gpu.copy %X[%n, %p, %q, %c] to %x
          im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
          tap [%r, %s] : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 32], f16>
      gpu.copy %F[%k0, %tap, %c] to %f axes <0, 2>
          : !gpu.global<[K, 9, C], f16>, !gpu.shared<[128, 32], f16>
      gpu.contract %x affine_map<(m, n, k) -> (m, k)>, %f affine_map<(m, n, k) -> (n, k)>
          into %acc mma "mma.sync" warp_tile <64, 32>
          : !gpu.shared<[128, 32], f16>, !gpu.shared<[128, 32], f16>, !gpu.fragment<[128, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %k0] ins()
        outs(%Y : !gpu.global<[N * H * W, K], f16> affine_map<(i, j)[m, k] -> (i + m, j + k)>) {
    ^bb0(%v: f32):
      %y = arith.truncf %v : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.kernel @conv3x3_cp_async4(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2, %N: index = symbol N,
      %H: index = symbol H, %W: index = symbol W, %C: index = symbol C, %K: index = symbol K)
      threads 256 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %m0, %k0 = gpu.tile_coordinates[%pixels, %K] tile <128, 128> raster "grouped" 8
    // The tile's first pixel: image n, row p, column q of the output.
    %line = arith.divui %m0, %W : index
    %before = arith.muli %line, %W : index
    %q = arith.subi %m0, %before : index
    %n = arith.divui %line, %H : index
    %above = arith.muli %n, %H : index
    %p = arith.subi %line, %above : index
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 128], f32>
    %x = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %f = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %blocks = affine.apply affine_map<(c) -> ((c + 31) floordiv 32)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    gpu.pipeline %step, %i = to %steps step 1 stages 3 {
      // Step i: tap (r, s) and a block of 32 channels from c on.
      %tap = arith.divui %i, %blocks : index
      %done = arith.muli %tap, %blocks : index
      %block = arith.subi %i, %done : index
      %c = affine.apply affine_map<(b) -> (b * 32)> (%block)
      %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
      %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
      gpu.copy %X[%n, %p, %q, %c] to %x
          im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
          tap [%r, %s] : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 32], f16>
      gpu.copy %F[%k0, %tap, %c] to %f axes <0, 2>
          : !gpu.global<[K, 9, C], f16>, !gpu.shared<[128, 32], f16>
      gpu.contract %x affine_map<(m, n, k) -> (m, k)>, %f affine_map<(m, n, k) -> (n, k)>
          into %acc mma "mma.sync" warp_tile <64, 32>
          : !gpu.shared<[128, 32], f16>, !gpu.shared<[128, 32], f16>, !gpu.fragment<[128, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %k0] ins()
        outs(%Y : !gpu.global<[N * H * W, K], f16> affine_map<(i, j)[m, k] -> (i + m, j + k)>) {
    ^bb0(%v: f32):
      %y = arith.truncf %v : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.kernel @conv3x3_scalar(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2, %N: index = symbol N,
      %H: index = symbol H, %W: index = symbol W, %C: index = symbol C, %K: index = symbol K)
      threads 256 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %m0, %k0 = gpu.tile_coordinates[%pixels, %K] tile <128, 128> raster "grouped" 8
    // The tile's first pixel: image n, row p, column q of the output.
    %line = arith.divui %m0, %W : index
    %before = arith.muli %line, %W : index
    %q = arith.subi %m0, %before : index
    %n = arith.divui %line, %H : index
    %above = arith.muli %n, %H : index
    %p = arith.subi %line, %above : index
    %zero = arith.constant 0.0 : f32
    %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[128, 128], f32>
    %x = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %f = gpu.shared_tile : !gpu.shared<[128, 32], f16>
    %blocks = affine.apply affine_map<(c) -> ((c + 31) floordiv 32)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    gpu.pipeline %step, %i = to %steps step 1 stages 2 {
      // Step i: tap (r, s) and a block of 32 channels from c on.
      %tap = arith.divui %i, %blocks : index
      %done = arith.muli %tap, %blocks : index
      %block = arith.subi %i, %done : index
      %c = affine.apply affine_map<(b) -> (b * 32)> (%block)
      %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
      %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
      gpu.copy %X[%n, %p, %q, %c] to %x
          im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
          tap [%r, %s] : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 32], f16>
      gpu.copy %F[%k0, %tap, %c] to %f axes <0, 2>
          : !gpu.global<[K, 9, C], f16>, !gpu.shared<[128, 32], f16>
      gpu.contract %x affine_map<(m, n, k) -> (m, k)>, %f affine_map<(m, n, k) -> (n, k)>
          into %acc mma "mma.sync" warp_tile <64, 32>
          : !gpu.shared<[128, 32], f16>, !gpu.shared<[128, 32], f16>, !gpu.fragment<[128, 128], f32>
    }
    gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [%m0, %k0] ins()
        outs(%Y : !gpu.global<[N * H * W, K], f16> affine_map<(i, j)[m, k] -> (i + m, j + k)>) {
    ^bb0(%v: f32):
      %y = arith.truncf %v : f32 to f16
      gpu.yield %y : f16
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N, H, W, C], f16>, F: !gpu.global<[K, 9, C], f16>)
      -> (Y: !gpu.global<[N * H * W, K], f16>) {
    gpu.launch @conv3x3_cp_async16 when (C mod 8 == 0, K mod 8 == 0) align [16, 16, 16]
        grid [(N * H * W + 127) floordiv 128, (K + 127) floordiv 128]
    gpu.launch @conv3x3_cp_async4 when (C mod 2 == 0, K mod 8 == 0) align [4, 4, 16]
        grid [(N * H * W + 127) floordiv 128, (K + 127) floordiv 128]
    gpu.launch @conv3x3_scalar align [2, 2, 2]
        grid [(N * H * W + 127) floordiv 128, (K + 127) floordiv 128]
  }
}
