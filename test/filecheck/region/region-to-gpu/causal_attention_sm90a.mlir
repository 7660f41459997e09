// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s
// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-to-gpu,gpu-bind-target,gpu-overlap-launches,gpu-assumptions,gpu-inline-lets,gpu-bind-ifs,gpu-pipeline-planning,gpu-cache-hints,gpu-partial-lanes,gpu-multi-version-buffers,gpu-warp-specialize,gpu-skew,gpu-turns,gpu-known-conditions,gpu-split-steps' | filecheck %s --check-prefix=MADE

// The kernel of the specification's causal attention (S15.3) for sm_90a, in tiles: one plain loop over
// the keys that a tile of queries sees, from the last to the first.  What passes make of it are a
// producer and two consumers in turns, with the scores of a step under way beside the values of the
// step before.

// CHECK: gpu.module @causal_attention arch "sm_90a" symbols [B, H, M, N] {
// CHECK: gpu.kernel @causal_attention_tma({{.*}}) threads 384 registers [40, 232] {

// Four heads side by side, each from the last queries to the first, and the keys that they see.
// CHECK: %group = arith.divui %block, %{{.*}} : index
// CHECK-NEXT: %rest = arith.remui %block, %{{.*}} : index
// CHECK-NEXT: affine.apply affine_map<(d0, d1) -> (((d0 * 4) + (d1 mod 4)))> (%group, %rest)
// CHECK-NEXT: %m0 = affine.apply affine_map<(d0, d1) -> ((((d1 * 128) + ((d0 floordiv 4) * -128)) + -128))> (%rest, %tiles)
// CHECK: affine.apply affine_map<(d0) -> ((d0 + 128))> (%m0)
// CHECK-NEXT: %n_count = arith.minsi %N, %{{.*}} : index
// CHECK: %some = arith.select
// CHECK: %Q_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16>
// CHECK-NEXT: %K_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16>
// CHECK-NEXT: %V_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16>
// CHECK: %sums = gpu.fragment : !gpu.fragment<[128], f32>

// CHECK: scf.if
// CHECK-NEXT: gpu.copy %Q[%b, %h, %m0, %{{.*}}] to %Q_tile loader "tma"
// CHECK-NEXT: %steps = affine.apply affine_map<(d0) -> (((d0 + 127) floordiv 128))> (%some)
// CHECK-NEXT: gpu.pipeline %{{.*}}, %i = to %some step 128 stages 2 {
// CHECK-NEXT: %n0 = affine.apply affine_map<(d0, d1) -> ((((d1 * 128) + (d0 * -128)) + -128))> (%i, %steps)
// CHECK-NEXT: gpu.copy %K[%b, %h, %n0, %{{.*}}] to %K_tile loader "tma"
// CHECK-NEXT: gpu.copy %V[%b, %h, %n0, %{{.*}}] to %V_tile loader "tma"
// CHECK-NEXT: gpu.contract %Q_tile {{.*}} into %scores clear mma "wgmma" warp_tile <64, 128>
// CHECK-NEXT: %left = arith.subi %N, %n0
// CHECK: %cut = arith.ori
// CHECK-NEXT: scf.if %cut {
// CHECK: gpu.map %scores {{.*}} origin [%b, %h, %m0, %n0]
// CHECK: gpu.reduce max %scores by affine_map<(d0, d1) -> (d0)> into %max accumulate
// CHECK: gpu.map %scores {{.*}} ins(%base
// CHECK: math.fma
// CHECK-NEXT: math.exp2 {{.*}} fastmath<afn>
// CHECK: gpu.reduce sum %scores by affine_map<(d0, d1) -> (d0)> into %part
// CHECK-NEXT: gpu.map %sums
// CHECK: scf.if
// CHECK-NEXT: gpu.map %out {{.*}} ins(%alpha
// CHECK: gpu.map %scores {{.*}} outs(%weights
// CHECK: gpu.contract %weights {{.*}} into %out mma "wgmma" warp_tile <64, 128>
// What is not finite is computed again (S0.6).
// CHECK: %again = gpu.any %wrong : !gpu.fragment<[128, 32], i1>
// CHECK-NEXT: scf.if %again {
// CHECK: gpu.copy %K[{{.*}}] to %K_again loader "cp_async"
// CHECK-NEXT: [[S:%.*]] = gpu.contract %Q_tile {{.*}} %K_again {{.*}} into %scores_again clear mma "wgmma" warp_tile <64, 32>
// CHECK-NEXT: gpu.await [[S]]
// CHECK: gpu.map %sums {{.*}} outs(%alpha
// CHECK: arith.divf
// CHECK: gpu.map %out {{.*}} ins(%sums {{.*}}, %alpha {{.*}}) outs(%O : {{.*}} affine_map<(d0, d1)[s0, s1, s2] -> (s0, s1, (d0 + s2), d1)>)
// CHECK: arith.truncf

// CHECK: gpu.launch @causal_attention_tma when (B >= 1, H >= 1, M >= 1, N >= 1) align [16, 16, 16, 16] grid [(B * H + 3) floordiv 4, (M + 127) floordiv 128, 4]
// CHECK-NEXT: gpu.launch @causal_attention_cp_async align

// MADE: gpu.kernel @causal_attention_tma({{.*}}) threads 384 {
// MADE: %Q_tile = gpu.shared_tile : !gpu.shared<[64, 128], f16, ring 2>
// MADE-NEXT: %K_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16, ring 2>
// MADE-NEXT: %V_tile = gpu.shared_tile : !gpu.shared<[128, 128], f16, ring 2>
// MADE: [[RQ:%ring[0-9_]*]] = gpu.ring consumers 2 : !gpu.ring<1>
// MADE-NEXT: [[RK:%ring[0-9_]*]] = gpu.ring consumers 2 : !gpu.ring<2>
// MADE-NEXT: [[RV:%ring[0-9_]*]] = gpu.ring consumers 2 : !gpu.ring<2>
// MADE: %turn = gpu.order_barrier : !gpu.order<2>
// MADE: gpu.roles consumers 2 independent registers [40, 232] single_thread producer {
// MADE: } consumer (%w) {
// MADE: gpu.ring_wait [[RQ]]
// MADE: gpu.ring_wait [[RK]]
// MADE: gpu.contract %Q_tile slot %w {{.*}} into %scores clear mma "wgmma" warp_tile <64, 128>
// MADE: gpu.await
// MADE-NEXT: gpu.ring_release [[RK]]
// MADE: scf.if %cut {

// With as many keys a step as queries a tile only the first step is cut, which isl finds.
// MADE: scf.for %{{.*}} to %iterations
// MADE: gpu.ring_wait [[RK]]
// MADE-NEXT: gpu.order_enter %turn[%w]
// MADE: [[S:%.*]] = gpu.contract %Q_tile slot %w {{.*}} into %scores clear
// MADE: gpu.ring_wait [[RV]]
// MADE: [[O:%.*]] = gpu.contract %weights {{.*}} into %out
// MADE-NEXT: gpu.order_leave %turn[%w]
// MADE: gpu.await [[S]]
// MADE-NEXT: gpu.ring_release [[RK]]
// MADE-NEXT: gpu.reduce max %scores
// MADE-NOT: scf.if
// MADE: gpu.reduce sum %scores by affine_map<(d0, d1) -> (d0, ((d1 floordiv 2) mod 4))> into %part
// MADE: gpu.await [[O]]
// MADE-NEXT: gpu.ring_release [[RV]]
// MADE-NEXT: gpu.map %out {{.*}} ins(%alpha
// MADE: gpu.map %scores {{.*}} outs(%weights

// The values of the last step, and the end.
// MADE: gpu.contract %weights {{.*}} into %out
// MADE: %again = gpu.any %wrong : !gpu.fragment<[64, 32], i1>
// MADE: gpu.copy %loaded to %V_again slot %w window <0, 64>
// MADE: gpu.contract %Q_tile slot %w {{.*}}, %K_again slot %w {{.*}} into %scores_again
// MADE: gpu.reduce sum %sums by affine_map<(d0, d1) -> (d0)> into %total
// MADE-NEXT: gpu.map %total {{.*}} outs(%alpha
