// RUN: polyc-opt %examples/causal_attention.mlir -p lower-to-gpu{arch=sm_90a} | filecheck %s

// The specification's causal attention (S15.3), from the graph to hardware ops: TMA and mbarriers in
// the producer, wgmma on shared memory and on registers in the consumers.

// CHECK-NOT: {{(frontend|tiny|index|region|plan)\.[a-z]}}
// CHECK: gpu.module @causal_attention arch "sm_90a" symbols [B, H, M, N]
// CHECK: gpu.kernel @causal_attention_tma({{.*}}%Q_map: !gpu.tensor_map<[1, 1, 64, 64], f16, swizzle 128> = tensor_map 0, %K_map: !gpu.tensor_map<[1, 1, 128, 64], f16, swizzle 128> = tensor_map 1, %V_map: !gpu.tensor_map<[1, 1, 128, 64], f16, swizzle 128> = tensor_map 2) threads 384 shared_bytes 196688
// CHECK: gpu.mbarrier_init %full{{.*}} count 1
// CHECK: gpu.mbarrier_init %empty{{.*}} count 8
// CHECK: gpu.fence_mbarrier_init

// CHECK: gpu.set_max_registers "decrease" 40
// CHECK: gpu.mbarrier_expect %full[%{{.*}}] bytes 32768
// CHECK: gpu.tma_load %Q_map[%b, %h, %m0,
// CHECK: gpu.mbarrier_wait %empty_1[%slot]
// CHECK: gpu.mbarrier_expect %full_1[%slot] bytes 32768
// CHECK: gpu.tma_load %K_map[%b, %h, %n0,
// CHECK: gpu.tma_load %V_map[%b, %h, %n0,

// CHECK: gpu.set_max_registers "increase" 232
// CHECK: gpu.mbarrier_wait %full[
// CHECK: gpu.mbarrier_wait %full_1[
// CHECK: gpu.wgmma_fence
// CHECK-NEXT: gpu.wgmma n 128 %a plus 0, %{{.*}} plus 0, %scores{{.*}} clear element f16
// CHECK-COUNT-7: gpu.wgmma n 128
// CHECK-NEXT: gpu.wgmma_commit
// CHECK: gpu.wgmma_wait 0

// A step: scores and values are two groups, of which the older one is waited for.
// CHECK: gpu.named_barrier 9 plus %warpgroup threads 256
// CHECK: gpu.wgmma n 128 {{.*}} clear element f16
// CHECK: gpu.wgmma_commit
// CHECK: gpu.mbarrier_wait %full_2[
// CHECK: gpu.wgmma_registers n 128 %weights from 0, %{{.*}} plus 0 transpose_b, %out element f16
// CHECK: gpu.wgmma_commit
// CHECK-NEXT: gpu.named_barrier_arrive 9 plus %next threads 256
// CHECK-NEXT: gpu.wgmma_wait 1
// CHECK: gpu.mbarrier_arrive %empty_1[
// CHECK: gpu.shuffle "xor"
// CHECK: math.exp2 {{.*}} fastmath<afn>
// CHECK: gpu.wgmma_wait 0
// CHECK: gpu.mbarrier_arrive %empty_2[

// Sums that are not finite are computed again, by each warpgroup on its own (S0.6).
// CHECK: gpu.barrier_any %{{.*}} at 1 plus %warpgroup threads 128
// CHECK-NEXT: scf.if
// CHECK: gpu.opaque %block
// CHECK: gpu.wgmma_registers n 128 %weights_again
// CHECK: gpu.wgmma_registers n 128 %weights_again from 0
// CHECK: gpu.wgmma n 32
// CHECK: gpu.wgmma_registers n 128 %weights_again

// The output leaves by 16 bytes a thread.
// CHECK: gpu.store_global {{.*}} vector<8xf16>
// CHECK: gpu.dispatch
// CHECK-NOT: {{(frontend|tiny|index|region|plan)\.[a-z]}}
