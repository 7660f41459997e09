// RUN: polyc-opt %s -p gpu-lower-barriers | filecheck %s

// A ring is two arrays of mbarriers.  The producer waits for "empty" with the parity of the use
// before, so that the first waits pass; consumers free a slot with one arrival a warp.

gpu.module @m arch "sm_90a" symbols [M, K] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M, %i: index = symbol K) threads 256 {
    // CHECK: %full = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK-NEXT: %empty = gpu.mbarrier : !gpu.mbarrier<4>
    // CHECK: scf.if
    // CHECK: gpu.mbarrier_init %full[%s] count 1
    // CHECK-NEXT: gpu.mbarrier_init %empty[%s] count 4
    // CHECK: gpu.fence_mbarrier_init
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.barrier
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 4>
    %ring = gpu.ring consumers 1 : !gpu.ring<4>
    // CHECK: %slot = affine.apply affine_map<(d0) -> ((d0 mod 4))> (%i)
    // CHECK-NEXT: %parity = affine.apply affine_map<(d0) -> ((((d0 floordiv 4) + 1) mod 2))> (%i)
    // CHECK-NEXT: gpu.mbarrier_wait %empty[%slot] parity %parity
    // CHECK-NEXT: gpu.mbarrier_expect %full[%slot] bytes 8192
    gpu.ring_acquire %ring[%i] : !gpu.ring<4>
    // CHECK: gpu.copy %A[%M, %M] to %a loader "tma" signal %full : !gpu.mbarrier<4> at %slot
    gpu.copy %A[%M, %M] to %a loader "tma" signal %ring : !gpu.ring<4> at %i : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 4>
    // CHECK: %parity_1 = affine.apply affine_map<(d0) -> (((d0 floordiv 4) mod 2))> (%i)
    // CHECK-NEXT: gpu.mbarrier_wait %full[%{{.*}}] parity %parity_1
    gpu.ring_wait %ring[%i] : !gpu.ring<4>
    // CHECK: %lane = affine.apply affine_map<(d0) -> ((d0 mod 32))>
    // CHECK: scf.if
    // CHECK-NEXT: gpu.mbarrier_arrive %empty
    gpu.ring_release %ring[%i] : !gpu.ring<4>
    // CHECK-NOT: gpu.ring
    gpu.return
  }
}
