// RUN: polyc-opt %s -p \
// RUN:   gpu-assumptions,gpu-pipeline-planning,gpu-multi-version-buffers,gpu-warp-specialize \
// RUN:   | filecheck %s

// Two pipelines that follow one another get roles together.  Both fill the tile of keys: its ring
// counts on from the first to the second, whose other tile has a ring of its own.

// CHECK: %[[Q:ring[0-9_]*]] = gpu.ring consumers 2 : !gpu.ring<1>
// CHECK-NEXT: %[[K:ring[0-9_]*]] = gpu.ring consumers 2 : !gpu.ring<2>
// CHECK-NEXT: %[[V:ring[0-9_]*]] = gpu.ring consumers 2 : !gpu.ring<2>
// CHECK: gpu.roles consumers 2 registers [0, 0] single_thread producer {
// CHECK: gpu.ring_acquire %[[Q]]
// CHECK: scf.for %i = {{.*}} to %iterations
// CHECK: gpu.ring_acquire %[[K]][%i]
// CHECK-NOT: %[[V]]
// CHECK: scf.for %[[I:i[0-9_]*]] = {{.*}} to %iterations
// CHECK-NEXT: %[[N:number[0-9_]*]] = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%iterations, %[[I]])
// CHECK: gpu.ring_acquire %[[K]][%[[N]]]
// CHECK: gpu.ring_acquire %[[V]][%[[I]]]
// CHECK: consumer {
// CHECK: gpu.ring_wait %[[Q]]
// CHECK: scf.for
// CHECK: gpu.ring_wait %[[K]]
// CHECK: gpu.await
// CHECK-NEXT: gpu.ring_release %[[K]]
// CHECK: scf.for
// CHECK: gpu.ring_wait %[[K]]
// CHECK: gpu.ring_release %[[K]]
// CHECK: gpu.ring_wait %[[V]]
// CHECK: gpu.ring_release %[[V]]
// CHECK: gpu.ring_release %[[Q]]

gpu.module @m arch "sm_90a" symbols [M, N] {
  gpu.kernel @k(
      %Q: !gpu.global<[M, 64], f16> = tensor 0, %K: !gpu.global<[N, 64], f16> = tensor 1,
      %V: !gpu.global<[N, 64], f16> = tensor 2, %O: !gpu.global<[M, 64], f32> = tensor 3,
      %M: index = symbol M, %N: index = symbol N) threads 384 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %some = arith.cmpi sgt, %N, %c0 : index
    %q = gpu.shared_tile : !gpu.shared<[128, 64], f16>
    %kt = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %vt = gpu.shared_tile : !gpu.shared<[64, 64], f16>
    %s = gpu.fragment : !gpu.fragment<[128, 64], f32>
    %p = gpu.fragment : !gpu.fragment<[128, 64], f16>
    %o = gpu.fragment : !gpu.fragment<[128, 64], f32>
    %block = gpu.block_id
    %row = affine.apply affine_map<(b) -> (b * 128)> (%block)
    gpu.fill %zero, %o : !gpu.fragment<[128, 64], f32>
    scf.if %some {
      gpu.copy %Q[%row, %c0] to %q loader "tma"
          : !gpu.global<[M, 64], f16>, !gpu.shared<[128, 64], f16>
      gpu.pipeline %l, %j = to %N step 64 stages 2 {
        gpu.copy %K[%l, %c0] to %kt loader "tma"
            : !gpu.global<[N, 64], f16>, !gpu.shared<[64, 64], f16>
        gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %kt affine_map<(m, n, k) -> (n, k)>
            into %s clear mma "wgmma" warp_tile <64, 64>
            : !gpu.shared<[128, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[128, 64], f32>
        gpu.map %s : !gpu.fragment<[128, 64], f32> origin [] ins()
            outs(%s : !gpu.fragment<[128, 64], f32> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32):
          gpu.yield %x : f32
        }
      }
      gpu.pipeline %k, %i = to %N step 64 stages 2 {
        gpu.copy %K[%k, %c0] to %kt loader "tma"
            : !gpu.global<[N, 64], f16>, !gpu.shared<[64, 64], f16>
        gpu.copy %V[%k, %c0] to %vt loader "tma"
            : !gpu.global<[N, 64], f16>, !gpu.shared<[64, 64], f16>
        gpu.contract %q affine_map<(m, n, k) -> (m, k)>, %kt affine_map<(m, n, k) -> (n, k)>
            into %s clear mma "wgmma" warp_tile <64, 64>
            : !gpu.shared<[128, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[128, 64], f32>
        gpu.map %s : !gpu.fragment<[128, 64], f32> origin [] ins()
            outs(%p : !gpu.fragment<[128, 64], f16> affine_map<(i, j) -> (i, j)>) {
        ^bb0(%x: f32):
          %y = arith.truncf %x : f32 to f16
          gpu.yield %y : f16
        }
        gpu.contract %p affine_map<(m, n, k) -> (m, k)>, %vt affine_map<(m, n, k) -> (k, n)>
            into %o mma "wgmma" warp_tile <64, 64>
            : !gpu.fragment<[128, 64], f16>, !gpu.shared<[64, 64], f16>, !gpu.fragment<[128, 64], f32>
      }
    }
    gpu.map %o : !gpu.fragment<[128, 64], f32> origin [%row] ins()
        outs(%O : !gpu.global<[M, 64], f32> affine_map<(i, j)[r] -> (i + r, j)>) {
    ^bb0(%x: f32):
      gpu.yield %x : f32
    }
    gpu.return
  }
  gpu.dispatch (Q: !gpu.global<[M, 64], f16>, K: !gpu.global<[N, 64], f16>,
      V: !gpu.global<[N, 64], f16>)
      -> (O: !gpu.global<[M, 64], f32>) {
    gpu.launch @k when (M >= 1) align [16, 16, 16, 16] grid [(M + 127) floordiv 128]
  }
}
