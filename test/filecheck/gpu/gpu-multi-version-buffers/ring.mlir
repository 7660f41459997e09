// RUN: polyc-opt %s -p gpu-multi-version-buffers | filecheck %s
// RUN: polyc-opt %s -p gpu-multi-version-buffers,gpu-multi-version-buffers | filecheck %s

// A tile that a pipeline fills becomes as many tiles as the pipeline has stages; iteration i
// works on slot i mod stages.  A tile that another loop filled stays one tile.

gpu.module @m arch "sm_80" symbols [M, K] {
  // CHECK-LABEL: gpu.kernel @k
  gpu.kernel @k(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 128, ring 3>
    // CHECK-NEXT: %b = gpu.shared_tile : !gpu.shared<[64, 16], f16>
    // CHECK-NEXT: %acc
    // CHECK-NEXT: gpu.pipeline %k, %i = to %M step 64 stages 3 {
    // CHECK-NEXT:   %slot = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%i)
    // CHECK-NEXT:   gpu.copy %A[%M, %k] to %a slot %slot loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16, swizzle 128, ring 3>
    // CHECK-NEXT:   gpu.contract %a slot %slot affine_map<(d0, d1, d2) -> (d0, d2)>, %b affine_map<(d0, d1, d2) -> (d2, d1)> into %acc mma "mma.sync" warp_tile <16, 16> stage 2 :
    // CHECK-NEXT: }
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 128>
    %b = gpu.shared_tile : !gpu.shared<[64, 16], f16>
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.pipeline %k, %i = to %M step 64 stages 3 {
      gpu.copy %A[%M, %k] to %a loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16, swizzle 128>
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> stage 2 : !gpu.shared<[16, 64], f16, swizzle 128>, !gpu.shared<[64, 16], f16>, !gpu.fragment<[16, 16], f32>
    }
    gpu.return
  }

  // What the loop takes out of such a tile, it takes out of the iteration's slot.
  // CHECK-LABEL: gpu.kernel @taken
  gpu.kernel @taken(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    // CHECK: gpu.pipeline %k, %i = to %M step 64 stages 3 {
    // CHECK-NEXT:   %slot = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%i)
    // CHECK-NEXT:   gpu.copy %A[%M, %k] to %a slot %slot
    // CHECK-NEXT:   gpu.copy %a slot %slot to %held :
    // CHECK-NEXT:   gpu.contract %held affine_map
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 128>
    %b = gpu.shared_tile : !gpu.shared<[64, 16], f16>
    %held = gpu.fragment : !gpu.fragment<[16, 64], f16>
    %acc = gpu.fragment : !gpu.fragment<[16, 16], f32>
    gpu.pipeline %k, %i = to %M step 64 stages 3 {
      gpu.copy %A[%M, %k] to %a loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16, swizzle 128>
      gpu.copy %a to %held : !gpu.shared<[16, 64], f16, swizzle 128>, !gpu.fragment<[16, 64], f16>
      gpu.contract %held affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (k, n)> into %acc mma "mma.sync" warp_tile <16, 16> stage 2 : !gpu.fragment<[16, 64], f16>, !gpu.shared<[64, 16], f16>, !gpu.fragment<[16, 16], f32>
    }
    gpu.return
  }

  // CHECK-LABEL: gpu.kernel @one_stage
  gpu.kernel @one_stage(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    // CHECK-NEXT: %a = gpu.shared_tile : !gpu.shared<[16, 64], f16>
    // CHECK-NEXT: gpu.pipeline %k, %i = to %M step 64 stages 1 {
    // CHECK-NEXT:   gpu.copy %A[%M, %k] to %a :
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16>
    gpu.pipeline %k, %i = to %M step 64 stages 1 {
      gpu.copy %A[%M, %k] to %a : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16>
    }
    gpu.return
  }

  // Two loops that fill one tile keep the same versions of it; a tile of one of them alone has slots
  // of its own, as its ring may count otherwise.
  // CHECK-LABEL: gpu.kernel @twice
  gpu.kernel @twice(%A: !gpu.global<[M, K], f16, align 16> = tensor 0, %M: index = symbol M) threads 32 {
    // CHECK: gpu.pipeline %k, %i = to %M step 64 stages 3 {
    // CHECK-NEXT:   %slot = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%i)
    // CHECK-NEXT:   gpu.copy %A[%M, %k] to %a slot %slot
    // CHECK: gpu.pipeline %l, %j = to %M step 64 stages 3 {
    // CHECK-DAG:   %[[A:slot[0-9_]*]] = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%j)
    // CHECK-DAG:   %[[B:slot[0-9_]*]] = affine.apply affine_map<(d0) -> ((d0 mod 3))> (%j)
    // CHECK:   gpu.copy %A[%M, %l] to %a slot %{{slot[0-9_]*}}
    // CHECK-NEXT:   gpu.copy %A[%l, %M] to %b slot %{{slot[0-9_]*}}
    %a = gpu.shared_tile : !gpu.shared<[16, 64], f16, swizzle 128>
    %b = gpu.shared_tile : !gpu.shared<[64, 16], f16>
    gpu.pipeline %k, %i = to %M step 64 stages 3 {
      gpu.copy %A[%M, %k] to %a loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16, swizzle 128>
    }
    gpu.pipeline %l, %j = to %M step 64 stages 3 {
      gpu.copy %A[%M, %l] to %a loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[16, 64], f16, swizzle 128>
      gpu.copy %A[%l, %M] to %b loader "cp_async" stage 0 : !gpu.global<[M, K], f16, align 16>, !gpu.shared<[64, 16], f16>
    }
    gpu.return
  }
}
