// RUN: polyc-opt %s -p gpu-layout-inference | filecheck %s

// What no instruction places gets rows of vectors: the tile a row a warp, the row's statistic with
// its warp, the weights where they are used.

gpu.module @m arch "sm_80" symbols [M, N] {
  gpu.kernel @rows(%X: !gpu.global<[M, N], f16, align 16> = tensor 0, %W: !gpu.global<[N], f16, align 16> = tensor 1) threads 128 {
    // CHECK: %h = gpu.fragment : !gpu.fragment<[4, 1024], f16, #gpu.fragment_layout<threads 128, registers 32, affine_map<(d0, d1) -> ((d0 floordiv 32), ((((d0 mod 32) * 8) + ((d1 floordiv 8) * 256)) + (d1 mod 8)))>>>
    // CHECK-NEXT: %w = gpu.fragment : !gpu.fragment<[1024], f16, #gpu.fragment_layout<threads 128, registers 32, affine_map<(d0, d1) -> ((((d0 mod 32) * 8) + (((d1 floordiv 8) * 256) + (d1 mod 8))))>>>
    // CHECK-NEXT: %s = gpu.fragment : !gpu.fragment<[4], f16, #gpu.fragment_layout<threads 128, registers 1, affine_map<(d0, d1) -> ((d0 floordiv 32))>>>
    // CHECK-NEXT: %t = gpu.shared_tile : !gpu.shared<[4, 1024], f16, swizzle 0>
    %h = gpu.fragment : !gpu.fragment<[4, 1024], f16>
    %w = gpu.fragment : !gpu.fragment<[1024], f16>
    %s = gpu.fragment : !gpu.fragment<[4], f16>
    %t = gpu.shared_tile : !gpu.shared<[4, 1024], f16>
    %zero = arith.constant 0 : index
    gpu.copy %X[%zero, %zero] to %h : !gpu.global<[M, N], f16, align 16>, !gpu.fragment<[4, 1024], f16>
    gpu.copy %W[%zero] to %w : !gpu.global<[N], f16, align 16>, !gpu.fragment<[1024], f16>
    gpu.reduce max %h by affine_map<(i, j) -> (i)> into %s : !gpu.fragment<[4, 1024], f16>, !gpu.fragment<[4], f16>
    gpu.map %h : !gpu.fragment<[4, 1024], f16> origin [] ins(%w : !gpu.fragment<[1024], f16> affine_map<(i, j) -> (j)>) outs(%h : !gpu.fragment<[4, 1024], f16> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%x : f16, %weight : f16):
      gpu.yield %weight : f16
    }
    gpu.copy %h to %t : !gpu.fragment<[4, 1024], f16>, !gpu.shared<[4, 1024], f16>
    gpu.return
  }
}
