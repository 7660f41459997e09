// RUN: polyc-opt %s -p gpu-merge-ifs | filecheck %s

// Three branches on one condition, with pure ops between, are one; a barrier keeps them apart, and
// so does another condition.

gpu.module @m arch "sm_90a" symbols [M] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%x: !gpu.global<[M], f32> = tensor 0, %M: index = symbol M) threads 128 {
    %zero = arith.constant 0 : index
    %v = arith.constant 1.0 : f32
    %thread = gpu.thread_id
    %first = arith.cmpi eq, %thread, %zero : index
    %other = arith.cmpi eq, %thread, %M : index
    // CHECK:      %next = affine.apply
    // CHECK-NEXT: scf.if %first {
    // CHECK-NEXT:   gpu.store_global %v, %x[%zero : index]
    // CHECK-NEXT:   gpu.store_global %v, %x[%next : index]
    // CHECK-NEXT:   gpu.store_global %v, %x[%M : index]
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.barrier
    // CHECK-NEXT: scf.if %first {
    // CHECK-NEXT:   gpu.store_global %v, %x[%zero : index]
    // CHECK-NEXT: }
    // CHECK-NEXT: scf.if %other {
    scf.if %first {
      gpu.store_global %v, %x[%zero : index] : f32, !gpu.global<[M], f32>
    }
    %next = affine.apply affine_map<(d0) -> (d0 + 1)> (%M)
    scf.if %first {
      gpu.store_global %v, %x[%next : index] : f32, !gpu.global<[M], f32>
    }
    scf.if %first {
      gpu.store_global %v, %x[%M : index] : f32, !gpu.global<[M], f32>
    }
    gpu.barrier
    scf.if %first {
      gpu.store_global %v, %x[%zero : index] : f32, !gpu.global<[M], f32>
    }
    scf.if %other {
      gpu.store_global %v, %x[%zero : index] : f32, !gpu.global<[M], f32>
    }
    gpu.return
  }
}
