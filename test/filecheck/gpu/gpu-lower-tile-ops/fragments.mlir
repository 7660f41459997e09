// RUN: polyc-opt %s -p gpu-layout-inference,gpu-lower-tile-ops | filecheck %s

// A row a CTA: loads and stores of 8 halves, 8 registers a thread; a maximum goes from registers to
// lanes, from lanes to a scratch area, one element a warp, and from there to every thread.

gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @row(%X: !gpu.global<[M, N], f16, align 16> = tensor 0, %Y: !gpu.global<[1], f32> = tensor 1, %i: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %h = gpu.fragment : !gpu.fragment<[1, 1024], f16>
    %x = gpu.fragment : !gpu.fragment<[1, 1024], f32>
    %m = gpu.fragment : !gpu.fragment<[1], f32>
    // CHECK: [[X:%.*]] = gpu.load_global %X[{{.*}}] : !gpu.global<[M, N], f16, align 16> -> vector<8xf16>
    // CHECK-NEXT: gpu.unpack [[X]] element 0
    // CHECK: gpu.unpack [[X]] element 7
    // CHECK: } {unroll}
    gpu.copy %X[%i, %zero] to %h : !gpu.global<[M, N], f16, align 16>, !gpu.fragment<[1, 1024], f16>
    gpu.map %h : !gpu.fragment<[1, 1024], f16> origin [] ins() outs(%x : !gpu.fragment<[1, 1024], f32> affine_map<(i, j) -> (i, j)>) {
    ^bb0(%e: f16):
      %f = arith.extf %e : f16 to f32
      gpu.yield %f : f32
    }
    // CHECK-COUNT-7: arith.maximumf
    // CHECK: gpu.shuffle "xor" [[OWN:%.*]], [[ONE:%.*]] :
    // CHECK-NEXT: arith.maximumf [[OWN]],
    // CHECK-COUNT-4: gpu.shuffle "xor"
    // CHECK-NEXT: [[LANES:%.*]] = arith.maximumf
    // CHECK: %partials = gpu.shared_tile : !gpu.shared<[4, 1], f32, swizzle 0>
    // CHECK: scf.if
    // CHECK-NEXT: [[THERE:%.*]] = gpu.element_address %partials
    // CHECK-NEXT: gpu.store_shared [[LANES]], [[THERE]] : f32
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.barrier
    // CHECK: gpu.load_shared
    // CHECK-COUNT-2: gpu.shuffle "xor"
    // CHECK-NEXT: [[ALL:%.*]] = arith.maximumf
    // CHECK: memref.store [[ALL]], %m
    gpu.reduce max %x by affine_map<(i, j) -> (i)> into %m : !gpu.fragment<[1, 1024], f32>, !gpu.fragment<[1], f32>
    // CHECK: [[FIRST:%.*]] = arith.cmpi eq, %thread{{.*}} : index
    // CHECK-NEXT: scf.if [[FIRST]] {
    // CHECK: gpu.store_global {{.*}} : f32, !gpu.global<[1], f32>
    gpu.copy %m to %Y[%zero] : !gpu.fragment<[1], f32>, !gpu.global<[1], f32>
    gpu.return
  }
  gpu.kernel @add(%S: !gpu.global<[N], f32> = tensor 0) threads 128 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %f = gpu.fragment : !gpu.fragment<[64], f32>
    gpu.fill %one, %f : !gpu.fragment<[64], f32>
    // 64 elements, 128 threads: the first 64 add them.
    // CHECK: affine.apply affine_map<(d0) -> ((d0 floordiv 64))>
    // CHECK: scf.if
    // CHECK: gpu.atomic_global "add"
    gpu.atomic "add" %f to %S[%zero] : !gpu.fragment<[64], f32>, !gpu.global<[N], f32>
    gpu.return
  }
}
