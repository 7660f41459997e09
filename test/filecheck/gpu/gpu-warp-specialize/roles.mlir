// RUN: polyc-opt %s -p gpu-warp-specialize | filecheck %s

// Copies go to the producer, the contract and what works on fragments to the consumers; a ring
// carries the flow between them.  A slot is released an iteration after its contract began.

gpu.module @m arch "sm_90a" symbols [M, K] {
  // CHECK-LABEL: gpu.kernel @k
  // CHECK-NOT: registers
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M, %K: index = symbol K) threads 256 registers [40, 232] {
    // CHECK: %zero = arith.constant
    %zero = arith.constant 0.0 : f32
    // CHECK-NEXT: %a = gpu.shared_tile
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 3>
    %acc = gpu.fragment : !gpu.fragment<[64, 64], f32>
    gpu.fill %zero, %acc : !gpu.fragment<[64, 64], f32>
    // CHECK-NEXT: %ring = gpu.ring consumers 1 : !gpu.ring<3>
    // CHECK-NEXT: %iterations = affine.apply affine_map<(d0) -> (((d0 + 63) floordiv 64))> (%K)
    // CHECK-NEXT: gpu.roles consumers 1 registers [40, 232] single_thread producer {
    // CHECK:        scf.for %i = %{{.*}} to %iterations step %{{.*}} {
    // CHECK-NEXT:     gpu.ring_acquire %ring[%i] : !gpu.ring<3>
    // CHECK-NEXT:     %k = affine.apply affine_map<(d0) -> ((d0 * 64))> (%i)
    // CHECK-NEXT:     %slot = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%i)
    // CHECK-NEXT:     gpu.copy %A[%M, %k] to %a slot %slot loader "tma" signal %ring : !gpu.ring<3> at %i
    // CHECK-NEXT:   }
    // CHECK-NEXT:   gpu.yield
    // CHECK-NEXT: } consumer {
    // CHECK-NEXT:   %acc = gpu.fragment
    // CHECK-NEXT:   gpu.fill %zero, %acc
    // CHECK:        scf.for %i_1 = %{{.*}} to %iterations step %{{.*}} {
    // CHECK-NEXT:     gpu.ring_wait %ring[%i_1] : !gpu.ring<3>
    // CHECK:          gpu.contract %a slot %{{.*}} into %acc
    // CHECK-NEXT:     gpu.await pending 1
    // CHECK:          scf.if
    // CHECK-NEXT:       %previous = affine.apply affine_map<(d0) -> ((d0 + -1))> (%i_1)
    // CHECK-NEXT:       gpu.ring_release %ring[%previous] : !gpu.ring<3>
    // CHECK-NEXT:     }
    // CHECK-NEXT:   }
    // CHECK-NEXT:   gpu.await pending 0
    // CHECK-NEXT:   gpu.map %acc
    gpu.pipeline %k, %i = to %K step 64 stages 3 {
      %slot = affine.apply affine_map<(i) -> (i mod 3)> (%i)
      gpu.copy %A[%M, %k] to %a slot %slot loader "tma" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 3>
      gpu.contract %a slot %slot affine_map<(m, n, k) -> (m, k)>, %a slot %slot affine_map<(m, n, k) -> (k, n)> into %acc mma "wgmma" warp_tile <64, 64> : !gpu.shared<[64, 64], f16, swizzle 128, ring 3>, !gpu.shared<[64, 64], f16, swizzle 128, ring 3>, !gpu.fragment<[64, 64], f32>
    }
    gpu.map %acc : !gpu.fragment<[64, 64], f32> origin [] ins() outs() {
    ^bb0(%x : f32):
      gpu.yield
    }
    gpu.return
  }

  // Threads that copy themselves take no roles.
  // CHECK-LABEL: gpu.kernel @cp_async
  // CHECK-NOT: gpu.roles
  // CHECK: gpu.pipeline
  gpu.kernel @cp_async(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M, %K: index = symbol K) threads 32 {
    %a = gpu.shared_tile : !gpu.shared<[16, 16], f16, ring 3>
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.pipeline %k, %i = to %K step 16 stages 3 {
      %slot = affine.apply affine_map<(i) -> (i mod 3)> (%i)
      gpu.copy %A[%M, %k] to %a slot %slot loader "cp_async" : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 16], f16, ring 3>
      gpu.contract %a slot %slot affine_map<(m, n, k) -> (m, k)>, %a slot %slot affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> : !gpu.shared<[16, 16], f16, ring 3>, !gpu.shared<[16, 16], f16, ring 3>, !gpu.fragment<[16, 16], f32>
    }
    gpu.return
  }
}
