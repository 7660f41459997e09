// RUN: polyc-opt %s -p gpu-check-rings | filecheck %s

// A ring that one role fills and the other empties passes, and nothing changes.

// CHECK-LABEL: gpu.kernel @k
gpu.module @m arch "sm_90a" symbols [M, K] {
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M, %K: index = symbol K) threads 256 {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    // CHECK: %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
    %a = gpu.shared_tile : !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
    // CHECK-NEXT: %ring = gpu.ring consumers 1 : !gpu.ring<2>
    %ring = gpu.ring consumers 1 : !gpu.ring<2>
    // CHECK-NEXT: gpu.roles consumers 1 registers [24, 240] single_thread producer {
    gpu.roles consumers 1 registers [24, 240] single_thread producer {
      // CHECK-NEXT: scf.for
      scf.for %i = %zero to %K step %one {
        // CHECK-NEXT: gpu.ring_acquire
        gpu.ring_acquire %ring[%i] : !gpu.ring<2>
        // CHECK-NEXT: gpu.copy
        gpu.copy %A[%zero, %i] to %a loader "tma" signal %ring : !gpu.ring<2> at %i : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 64], f16, swizzle 128, ring 2>
      }
      gpu.yield
    } consumer {
      // CHECK: scf.for
      scf.for %i = %zero to %K step %one {
        // CHECK-NEXT: gpu.ring_wait
        gpu.ring_wait %ring[%i] : !gpu.ring<2>
        // CHECK-NEXT: gpu.ring_release
        gpu.ring_release %ring[%i] : !gpu.ring<2>
      }
      gpu.yield
    }
    gpu.return
  }
}
