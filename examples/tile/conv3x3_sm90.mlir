// A 3x3 convolution on SM90, NHWC, stride 1 and padding 1, as an implicit GEMM: Y = im2col(X) · F.
//
//   X: [N, H, W, C]    F: [K, taps, C], a filter as [K, R, S, C]    Y: [pixels, K], NHWC
//
// The reduction runs over the 9 taps and, in each, over blocks of 64 channels.  TMA reads the
// pixels of a tap as rows (im2col) and fills the padding with zeros; a block of channels ends with
// the tensor's, in X and in F, so that none meets the weights of the next tap.  A producer thread
// fills a ring of tiles, warpgroups of 64 rows each multiply, the kernels are persistent, and the
// result leaves through shared memory by TMA.  The kernels differ in their tile; the first one that
// takes a shape runs.

gpu.module @conv3x3_sm90 arch "sm_90a" symbols [N, H, W, C, K] {
  gpu.kernel @conv3x3_128x160(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2,
      %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C,
      %K: index = symbol K) threads 384 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %blocks = affine.apply affine_map<(c) -> ((c + 63) floordiv 64)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %x = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 5>
    %f = gpu.shared_tile : !gpu.shared<[160, 64], f16, ring 5>
    %y = gpu.shared_tile : !gpu.shared<[128, 160], f16>
    %ring = gpu.ring consumers 2 : !gpu.ring<5>
    gpu.roles consumers 2 registers [40, 232] single_thread producer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <128, 160> raster "grouped" 16 {
    //     The tile's first pixel: image n, row p, column q of the output.
        %line = arith.divui %m0, %W : index
        %before = arith.muli %line, %W : index
        %q = arith.subi %m0, %before : index
        %n = arith.divui %line, %H : index
        %above = arith.muli %n, %H : index
        %p = arith.subi %line, %above : index
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
    //       Step i: tap (r, s) and the block of channels from c on.
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 5)> (%it)
          %tap = arith.divui %i, %blocks : index
          %done = arith.muli %tap, %blocks : index
          %block = arith.subi %i, %done : index
          %c = affine.apply affine_map<(b) -> (b * 64)> (%block)
          %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
          %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
          gpu.ring_acquire %ring[%it] : !gpu.ring<5>
          gpu.copy %X[%n, %p, %q, %c] to %x slot %slot
              im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
              tap [%r, %s] loader "tma" signal %ring : !gpu.ring<5> at %it
              : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 64], f16, ring 5>
          gpu.copy %F[%k0, %tap, %c] to %f slot %slot axes <0, 2> loader "tma"
              signal %ring : !gpu.ring<5> at %it
              : !gpu.global<[K, 9, C], f16>, !gpu.shared<[160, 64], f16, ring 5>
        }
      }
      gpu.yield
    } consumer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <128, 160> raster "grouped" 16 {
        %acc = gpu.fragment : !gpu.fragment<[128, 160], f32>
        %0 = arith.constant 0.0 : f32
        gpu.fill %0, %acc : !gpu.fragment<[128, 160], f32>
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 5)> (%it)
          gpu.ring_wait %ring[%it] : !gpu.ring<5>
          gpu.contract %x slot %slot affine_map<(m, n, k) -> (m, k)>,
              %f slot %slot affine_map<(m, n, k) -> (n, k)>
              into %acc mma "wgmma" warp_tile <64, 160>
              : !gpu.shared<[128, 64], f16, ring 5>, !gpu.shared<[160, 64], f16, ring 5>,
                !gpu.fragment<[128, 160], f32>
          gpu.await pending 1
          %later = arith.cmpi sgt, %i, %zero : index
          scf.if %later {
            %previous = affine.apply affine_map<(i) -> (i - 1)> (%it)
            gpu.ring_release %ring[%previous] : !gpu.ring<5>
          }
        }
        gpu.await pending 0
        %last = affine.apply affine_map<(f)[s] -> (f + s - 1)> (%first)[%steps]
        gpu.ring_release %ring[%last] : !gpu.ring<5>
        %half = gpu.fragment : !gpu.fragment<[128, 160], f16>
        gpu.map %acc : !gpu.fragment<[128, 160], f32> origin [] ins()
            outs(%half : !gpu.fragment<[128, 160], f16> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%v: f32):
          %h = arith.truncf %v : f32 to f16
          gpu.yield %h : f16
        }
        gpu.copy %half to %y
            : !gpu.fragment<[128, 160], f16>, !gpu.shared<[128, 160], f16>
        gpu.copy %y to %Y[%m0, %k0] loader "tma"
            : !gpu.shared<[128, 160], f16>, !gpu.global<[N * H * W, K], f16>
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.kernel @conv3x3_128x256(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2,
      %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C,
      %K: index = symbol K) threads 384 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %blocks = affine.apply affine_map<(c) -> ((c + 63) floordiv 64)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %x = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 4>
    %f = gpu.shared_tile : !gpu.shared<[256, 64], f16, ring 4>
    %y = gpu.shared_tile : !gpu.shared<[128, 128], f16>
    %ring = gpu.ring consumers 2 : !gpu.ring<4>
    gpu.roles consumers 2 registers [40, 232] single_thread producer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <128, 256> raster "grouped" 16 {
        %line = arith.divui %m0, %W : index
        %before = arith.muli %line, %W : index
        %q = arith.subi %m0, %before : index
        %n = arith.divui %line, %H : index
        %above = arith.muli %n, %H : index
        %p = arith.subi %line, %above : index
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 4)> (%it)
          %tap = arith.divui %i, %blocks : index
          %done = arith.muli %tap, %blocks : index
          %block = arith.subi %i, %done : index
          %c = affine.apply affine_map<(b) -> (b * 64)> (%block)
          %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
          %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
          gpu.ring_acquire %ring[%it] : !gpu.ring<4>
          gpu.copy %X[%n, %p, %q, %c] to %x slot %slot
              im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
              tap [%r, %s] loader "tma" signal %ring : !gpu.ring<4> at %it
              : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 64], f16, ring 4>
          gpu.copy %F[%k0, %tap, %c] to %f slot %slot axes <0, 2> loader "tma"
              signal %ring : !gpu.ring<4> at %it
              : !gpu.global<[K, 9, C], f16>, !gpu.shared<[256, 64], f16, ring 4>
        }
      }
      gpu.yield
    } consumer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <128, 256> raster "grouped" 16 {
        %acc = gpu.fragment : !gpu.fragment<[128, 256], f32>
        %0 = arith.constant 0.0 : f32
        gpu.fill %0, %acc : !gpu.fragment<[128, 256], f32>
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 4)> (%it)
          gpu.ring_wait %ring[%it] : !gpu.ring<4>
          gpu.contract %x slot %slot affine_map<(m, n, k) -> (m, k)>,
              %f slot %slot affine_map<(m, n, k) -> (n, k)>
              into %acc mma "wgmma" warp_tile <64, 256>
              : !gpu.shared<[128, 64], f16, ring 4>, !gpu.shared<[256, 64], f16, ring 4>,
                !gpu.fragment<[128, 256], f32>
          gpu.await pending 1
          %later = arith.cmpi sgt, %i, %zero : index
          scf.if %later {
            %previous = affine.apply affine_map<(i) -> (i - 1)> (%it)
            gpu.ring_release %ring[%previous] : !gpu.ring<4>
          }
        }
        gpu.await pending 0
        %last = affine.apply affine_map<(f)[s] -> (f + s - 1)> (%first)[%steps]
        gpu.ring_release %ring[%last] : !gpu.ring<4>
        %half = gpu.fragment : !gpu.fragment<[128, 256], f16>
        gpu.map %acc : !gpu.fragment<[128, 256], f32> origin [] ins()
            outs(%half : !gpu.fragment<[128, 256], f16> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%v: f32):
          %h = arith.truncf %v : f32 to f16
          gpu.yield %h : f16
        }
        gpu.copy %half to %y window <0, 0>
            : !gpu.fragment<[128, 256], f16>, !gpu.shared<[128, 128], f16>
        gpu.copy %y to %Y[%m0, %k0] loader "tma"
            : !gpu.shared<[128, 128], f16>, !gpu.global<[N * H * W, K], f16>
        %k1 = affine.apply affine_map<(k) -> (k + 128)> (%k0)
        gpu.copy %half to %y window <0, 128>
            : !gpu.fragment<[128, 256], f16>, !gpu.shared<[128, 128], f16>
        gpu.copy %y to %Y[%m0, %k1] loader "tma"
            : !gpu.shared<[128, 128], f16>, !gpu.global<[N * H * W, K], f16>
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.kernel @conv3x3_192x128(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2,
      %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C,
      %K: index = symbol K) threads 512 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %blocks = affine.apply affine_map<(c) -> ((c + 63) floordiv 64)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %x = gpu.shared_tile : !gpu.shared<[192, 64], f16, ring 5>
    %f = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 5>
    %y = gpu.shared_tile : !gpu.shared<[192, 64], f16>
    %ring = gpu.ring consumers 3 : !gpu.ring<5>
    gpu.roles consumers 3 registers [32, 160] single_thread producer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <192, 128> raster "grouped" 16 {
        %line = arith.divui %m0, %W : index
        %before = arith.muli %line, %W : index
        %q = arith.subi %m0, %before : index
        %n = arith.divui %line, %H : index
        %above = arith.muli %n, %H : index
        %p = arith.subi %line, %above : index
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 5)> (%it)
          %tap = arith.divui %i, %blocks : index
          %done = arith.muli %tap, %blocks : index
          %block = arith.subi %i, %done : index
          %c = affine.apply affine_map<(b) -> (b * 64)> (%block)
          %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
          %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
          gpu.ring_acquire %ring[%it] : !gpu.ring<5>
          gpu.copy %X[%n, %p, %q, %c] to %x slot %slot
              im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
              tap [%r, %s] loader "tma" signal %ring : !gpu.ring<5> at %it
              : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[192, 64], f16, ring 5>
          gpu.copy %F[%k0, %tap, %c] to %f slot %slot axes <0, 2> loader "tma"
              signal %ring : !gpu.ring<5> at %it
              : !gpu.global<[K, 9, C], f16>, !gpu.shared<[128, 64], f16, ring 5>
        }
      }
      gpu.yield
    } consumer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <192, 128> raster "grouped" 16 {
        %acc = gpu.fragment : !gpu.fragment<[192, 128], f32>
        %0 = arith.constant 0.0 : f32
        gpu.fill %0, %acc : !gpu.fragment<[192, 128], f32>
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 5)> (%it)
          gpu.ring_wait %ring[%it] : !gpu.ring<5>
          gpu.contract %x slot %slot affine_map<(m, n, k) -> (m, k)>,
              %f slot %slot affine_map<(m, n, k) -> (n, k)>
              into %acc mma "wgmma" warp_tile <64, 128>
              : !gpu.shared<[192, 64], f16, ring 5>, !gpu.shared<[128, 64], f16, ring 5>,
                !gpu.fragment<[192, 128], f32>
          gpu.await pending 1
          %later = arith.cmpi sgt, %i, %zero : index
          scf.if %later {
            %previous = affine.apply affine_map<(i) -> (i - 1)> (%it)
            gpu.ring_release %ring[%previous] : !gpu.ring<5>
          }
        }
        gpu.await pending 0
        %last = affine.apply affine_map<(f)[s] -> (f + s - 1)> (%first)[%steps]
        gpu.ring_release %ring[%last] : !gpu.ring<5>
        %half = gpu.fragment : !gpu.fragment<[192, 128], f16>
        gpu.map %acc : !gpu.fragment<[192, 128], f32> origin [] ins()
            outs(%half : !gpu.fragment<[192, 128], f16> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%v: f32):
          %h = arith.truncf %v : f32 to f16
          gpu.yield %h : f16
        }
        gpu.copy %half to %y window <0, 0>
            : !gpu.fragment<[192, 128], f16>, !gpu.shared<[192, 64], f16>
        gpu.copy %y to %Y[%m0, %k0] loader "tma"
            : !gpu.shared<[192, 64], f16>, !gpu.global<[N * H * W, K], f16>
        %k1 = affine.apply affine_map<(k) -> (k + 64)> (%k0)
        gpu.copy %half to %y window <0, 64>
            : !gpu.fragment<[192, 128], f16>, !gpu.shared<[192, 64], f16>
        gpu.copy %y to %Y[%m0, %k1] loader "tma"
            : !gpu.shared<[192, 64], f16>, !gpu.global<[N * H * W, K], f16>
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.kernel @conv3x3_128x128(
      %X: !gpu.global<[N, H, W, C], f16> = tensor 0, %F: !gpu.global<[K, 9, C], f16> = tensor 1,
      %Y: !gpu.global<[N * H * W, K], f16> = tensor 2,
      %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C,
      %K: index = symbol K) threads 384 {
    %lines = arith.muli %N, %H : index
    %pixels = arith.muli %lines, %W : index
    %blocks = affine.apply affine_map<(c) -> ((c + 63) floordiv 64)> (%C)
    %steps = affine.apply affine_map<(b) -> (b * 9)> (%blocks)
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %x = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 6>
    %f = gpu.shared_tile : !gpu.shared<[128, 64], f16, ring 6>
    %y = gpu.shared_tile : !gpu.shared<[128, 128], f16>
    %ring = gpu.ring consumers 2 : !gpu.ring<6>
    gpu.roles consumers 2 registers [40, 232] single_thread producer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <128, 128> raster "grouped" 16 {
        %line = arith.divui %m0, %W : index
        %before = arith.muli %line, %W : index
        %q = arith.subi %m0, %before : index
        %n = arith.divui %line, %H : index
        %above = arith.muli %n, %H : index
        %p = arith.subi %line, %above : index
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 6)> (%it)
          %tap = arith.divui %i, %blocks : index
          %done = arith.muli %tap, %blocks : index
          %block = arith.subi %i, %done : index
          %c = affine.apply affine_map<(b) -> (b * 64)> (%block)
          %r = affine.apply affine_map<(t) -> (t floordiv 3)> (%tap)
          %s = affine.apply affine_map<(t) -> (t mod 3)> (%tap)
          gpu.ring_acquire %ring[%it] : !gpu.ring<6>
          gpu.copy %X[%n, %p, %q, %c] to %x slot %slot
              im2col #gpu.im2col<kernel [3, 3], strides [1, 1], padding [1, 1], dilation [1, 1]>
              tap [%r, %s] loader "tma" signal %ring : !gpu.ring<6> at %it
              : !gpu.global<[N, H, W, C], f16>, !gpu.shared<[128, 64], f16, ring 6>
          gpu.copy %F[%k0, %tap, %c] to %f slot %slot axes <0, 2> loader "tma"
              signal %ring : !gpu.ring<6> at %it
              : !gpu.global<[K, 9, C], f16>, !gpu.shared<[128, 64], f16, ring 6>
        }
      }
      gpu.yield
    } consumer {
      gpu.tile_loop (%m0, %k0, %t) = [%pixels, %K] tile <128, 128> raster "grouped" 16 {
        %acc = gpu.fragment : !gpu.fragment<[128, 128], f32>
        %0 = arith.constant 0.0 : f32
        gpu.fill %0, %acc : !gpu.fragment<[128, 128], f32>
        %first = arith.muli %t, %steps : index
        scf.for %i = %zero to %steps step %one {
          %it = arith.addi %first, %i : index
          %slot = affine.apply affine_map<(i) -> (i mod 6)> (%it)
          gpu.ring_wait %ring[%it] : !gpu.ring<6>
          gpu.contract %x slot %slot affine_map<(m, n, k) -> (m, k)>,
              %f slot %slot affine_map<(m, n, k) -> (n, k)>
              into %acc mma "wgmma" warp_tile <64, 128>
              : !gpu.shared<[128, 64], f16, ring 6>, !gpu.shared<[128, 64], f16, ring 6>,
                !gpu.fragment<[128, 128], f32>
          gpu.await pending 1
          %later = arith.cmpi sgt, %i, %zero : index
          scf.if %later {
            %previous = affine.apply affine_map<(i) -> (i - 1)> (%it)
            gpu.ring_release %ring[%previous] : !gpu.ring<6>
          }
        }
        gpu.await pending 0
        %last = affine.apply affine_map<(f)[s] -> (f + s - 1)> (%first)[%steps]
        gpu.ring_release %ring[%last] : !gpu.ring<6>
        %half = gpu.fragment : !gpu.fragment<[128, 128], f16>
        gpu.map %acc : !gpu.fragment<[128, 128], f32> origin [] ins()
            outs(%half : !gpu.fragment<[128, 128], f16> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%v: f32):
          %h = arith.truncf %v : f32 to f16
          gpu.yield %h : f16
        }
        gpu.copy %half to %y
            : !gpu.fragment<[128, 128], f16>, !gpu.shared<[128, 128], f16>
        gpu.copy %y to %Y[%m0, %k0] loader "tma"
            : !gpu.shared<[128, 128], f16>, !gpu.global<[N * H * W, K], f16>
      }
      gpu.yield
    }
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N, H, W, C], f16>, F: !gpu.global<[K, 9, C], f16>)
      -> (Y: !gpu.global<[N * H * W, K], f16>) {
    gpu.launch @conv3x3_128x160 when (C mod 8 == 0, C >= 1, K mod 8 == 0, K mod 160 == 0)
        align [16, 16, 16] grid [(N * H * W + 127) floordiv 128, (K + 159) floordiv 160] persistent
    gpu.launch @conv3x3_128x256 when (C mod 8 == 0, C >= 1, K mod 8 == 0, K mod 256 == 0, N * H * W >= 12800)
        align [16, 16, 16] grid [(N * H * W + 127) floordiv 128, (K + 255) floordiv 256] persistent
    gpu.launch @conv3x3_192x128 when (C mod 8 == 0, C >= 1, K mod 8 == 0, N * H * W >= 16384)
        align [16, 16, 16] grid [(N * H * W + 191) floordiv 192, (K + 127) floordiv 128] persistent
    gpu.launch @conv3x3_128x128 when (C mod 8 == 0, C >= 1, K mod 8 == 0)
        align [16, 16, 16] grid [(N * H * W + 127) floordiv 128, (K + 127) floordiv 128] persistent
  }
}
