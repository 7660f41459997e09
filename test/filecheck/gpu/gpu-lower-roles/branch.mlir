// RUN: polyc-opt %s -p gpu-lower-roles | filecheck %s

// The last warpgroup produces.  setmaxnreg is for all of its threads, the rest for one of them
// where the roles say so.

gpu.module @m arch "sm_90a" symbols [] {
  // CHECK-LABEL: gpu.kernel @one
  gpu.kernel @one() threads 384 {
    // CHECK-NEXT: %thread = gpu.thread_id
    // CHECK-NEXT: [[GROUP:%.*]] = affine.apply affine_map<(d0) -> ((d0 floordiv 128))> (%thread)
    // CHECK-NEXT: %warpgroup = gpu.warp_uniform [[GROUP]]
    // CHECK-NEXT: [[LAST:%.*]] = arith.constant 2 : index
    // CHECK-NEXT: [[PRODUCES:%.*]] = arith.cmpi eq, %warpgroup, [[LAST]] : index
    // CHECK-NEXT: scf.if [[PRODUCES]] {
    // CHECK-NEXT:   gpu.set_max_registers "decrease" 40
    // CHECK-NEXT:   [[FIRST:%.*]] = arith.constant 256 : index
    // CHECK-NEXT:   [[ALONE:%.*]] = arith.cmpi eq, %thread, [[FIRST]] : index
    // CHECK-NEXT:   scf.if [[ALONE]] {
    // CHECK-NEXT:     gpu.fence_proxy_async
    // CHECK-NEXT:   }
    // CHECK-NEXT: } else {
    // CHECK-NEXT:   gpu.set_max_registers "increase" 232
    // CHECK-NEXT:   gpu.wgmma_fence
    // CHECK-NEXT: }
    // CHECK-NEXT: gpu.return
    gpu.roles consumers 2 registers [0, 0] single_thread producer {
      gpu.set_max_registers "decrease" 40
      gpu.fence_proxy_async
      gpu.yield
    } consumer {
      gpu.set_max_registers "increase" 232
      gpu.wgmma_fence
      gpu.yield
    }
    gpu.return
  }
  // CHECK-LABEL: gpu.kernel @all
  gpu.kernel @all() threads 256 {
    // CHECK: scf.if
    // CHECK-NEXT:   gpu.fence_proxy_async
    // CHECK-NEXT: } else {
    // CHECK-NEXT:   gpu.wgmma_fence
    // CHECK-NEXT: }
    gpu.roles consumers 1 registers [0, 0] producer {
      gpu.fence_proxy_async
      gpu.yield
    } consumer {
      gpu.wgmma_fence
      gpu.yield
    }
    gpu.return
  }
}
