// RUN: polyc-opt %examples/gemm_bias_relu.mlir -p lower-to-gpu{arch=sm_90a} | filecheck %s --check-prefix=NEW
// RUN: polyc-opt %examples/gemm_bias_relu.mlir -p lower-to-gpu{arch=sm_80} | filecheck %s --check-prefix=OLD

// From the graph to hardware ops in one pass: nothing of the layers above is left.

// NEW-NOT: {{(frontend|tiny|index|region|plan)\.[a-z]}}
// NEW: gpu.module @gemm_bias_relu arch "sm_90a" symbols [M, K, N]
// NEW: gpu.kernel @gemm_bias_relu_tma({{.*}}%A_map: !gpu.tensor_map<[128, 64], f16, swizzle 128> = tensor_map 0{{.*}}) threads 384 shared_bytes 229440
// NEW: gpu.mbarrier_init
// NEW: gpu.set_max_registers "decrease" 40
// NEW: gpu.tma_load
// NEW: gpu.set_max_registers "increase" 232
// NEW: gpu.mbarrier_wait %full
// NEW: gpu.wgmma_fence
// NEW: gpu.wgmma n 256
// NEW: gpu.wgmma_commit
// NEW: gpu.wgmma_wait 1
// NEW: gpu.mbarrier_arrive %empty
// NEW: gpu.wgmma_wait 0
// NEW: gpu.bulk_wait read 0
// NEW: gpu.stmatrix
// NEW: gpu.fence_proxy_async
// NEW: gpu.named_barrier 6
// NEW: gpu.tma_store
// NEW: gpu.bulk_commit
// NEW: gpu.dispatch
// NEW-NOT: {{(frontend|tiny|index|region|plan)\.[a-z]}}

// OLD-NOT: {{(frontend|tiny|index|region|plan)\.[a-z]}}
// OLD: gpu.module @gemm_bias_relu arch "sm_80" symbols [M, K, N]
// OLD: gpu.kernel @gemm_bias_relu_cp_async16_large({{.*}}) threads 256 shared_bytes 147456
// OLD: gpu.kernel @gemm_bias_relu_cp_async16({{.*}}) threads 128 shared_bytes 98304
// OLD: gpu.cp_async {{.*}} bytes 16 if
// OLD: gpu.cp_async_wait 1
// OLD: gpu.barrier
// OLD: gpu.ldmatrix
// OLD: gpu.mma_sync
// OLD: gpu.store_global
// OLD: gpu.dispatch
// OLD-NOT: {{(frontend|tiny|index|region|plan)\.[a-z]}}
