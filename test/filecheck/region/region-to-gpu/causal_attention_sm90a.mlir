// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-to-gpu,gpu-split-steps' | filecheck %s

// The kernel of the specification's causal attention (S15.3) for sm_90a, in tiles: a producer and
// two consumers in turns, the scores of a step under way with the values of the step before.

// CHECK: gpu.module @causal_attention arch "sm_90a" symbols [B, H, M, N] {
// CHECK-NEXT: gpu.kernel @causal_attention_tma({{.*}}) threads 384 {
// CHECK: %q = gpu.shared_tile : !gpu.shared<[64, 128], f16, ring 2>
// CHECK-NEXT: %k = gpu.shared_tile : !gpu.shared<[128, 128], f16, ring 2>
// CHECK-NEXT: %v = gpu.shared_tile : !gpu.shared<[128, 128], f16, ring 2>
// CHECK-NEXT: %rq = gpu.ring consumers 2 : !gpu.ring<1>
// CHECK-NEXT: %rk = gpu.ring consumers 2 : !gpu.ring<2>
// CHECK-NEXT: %rv = gpu.ring consumers 2 : !gpu.ring<2>
// CHECK-NEXT: %turn = gpu.order_barrier : !gpu.order<2>

// Four heads side by side, each from the last queries to the first, and the keys that they see.
// CHECK: %group = arith.divui %block, %{{.*}} : index
// CHECK-NEXT: %rest = arith.remui %block, %{{.*}} : index
// CHECK-NEXT: affine.apply affine_map<(d0, d1) -> (((d0 * 4) + (d1 mod 4)))> (%group, %rest)
// CHECK-NEXT: %q0 = affine.apply affine_map<(d0, d1) -> ((((d1 * 128) + ((d0 floordiv 4) * -128)) + -128))> (%rest, %tiles)
// CHECK: affine.apply affine_map<(d0) -> ((d0 + 128))> (%q0)
// CHECK-NEXT: arith.minsi %N, %{{.*}} : index
// CHECK: %some = arith.select
// CHECK-NEXT: %steps = affine.apply affine_map<(d0) -> (((d0 + 127) floordiv 128))> (%some)

// CHECK: gpu.roles consumers 2 independent registers [40, 232] single_thread producer {
// CHECK: gpu.ring_acquire %rq
// CHECK: gpu.copy %Q[%b, %h, %q0, %{{.*}}] to %q slot %{{.*}} loader "tma" signal %rq
// CHECK: gpu.copy %Q[%b, %h, %{{.*}}, %{{.*}}] to %q slot %{{.*}} loader "tma" signal %rq
// CHECK: scf.for %i =
// CHECK: gpu.ring_acquire %rk[%i]
// CHECK-NEXT: gpu.copy %K[%b, %h, %k0, %{{.*}}] to %k slot %slot loader "tma" signal %rk : !gpu.ring<2> at %i
// CHECK-NEXT: gpu.ring_acquire %rv[%i]
// CHECK-NEXT: gpu.copy %V[%b, %h, %k0, %{{.*}}] to %v slot %slot loader "tma" signal %rv : !gpu.ring<2> at %i

// CHECK: } consumer (%w) {
// CHECK: %row = affine.apply affine_map<(d0, d1) -> ((d0 + (d1 * 64)))> (%q0, %w)
// CHECK: gpu.ring_wait %rq
// CHECK-NEXT: gpu.ring_wait %rk
// CHECK: gpu.contract %q slot %w {{.*}} into %s clear mma "wgmma" warp_tile <64, 128>
// CHECK-NEXT: gpu.await
// CHECK-NEXT: gpu.ring_release %rk
// CHECK: %left = arith.subi %N
// CHECK: arith.cmpi slt, %c, %left : index
// CHECK: %clear = arith.minsi

// Steps that the mask may cut.
// CHECK: scf.for %i_1 = %{{.*}} to %clear
// CHECK: gpu.ring_wait %rk[%i_1]
// CHECK-NEXT: gpu.order_enter %turn[%w]
// CHECK: [[S:%.*]] = gpu.contract %q slot %w {{.*}} into %s clear mma "wgmma" warp_tile <64, 128>
// CHECK-NEXT: gpu.ring_wait %rv[%before]
// CHECK: [[O:%.*]] = gpu.contract %p {{.*}}, %v slot {{.*}} into %o mma "wgmma" warp_tile <64, 128>
// CHECK-NEXT: gpu.order_leave %turn[%w]
// CHECK-NEXT: gpu.await [[S]]
// CHECK-NEXT: gpu.ring_release %rk[%i_1]
// CHECK: gpu.map %s {{.*}} origin [%b, %h, %row, %k0_2]
// CHECK: arith.cmpi sge
// CHECK-NEXT: arith.select
// CHECK: gpu.reduce max %s by affine_map<(d0, d1) -> (d0)> into %m accumulate
// CHECK: gpu.map %s {{.*}} ins(%base
// CHECK: math.fma
// CHECK-NEXT: math.exp2 {{.*}} fastmath<afn>
// CHECK: gpu.reduce sum %s by affine_map<(d0, d1) -> (d0, ((d1 floordiv 2) mod 4))> into %part
// CHECK: gpu.await [[O]]
// CHECK-NEXT: gpu.ring_release %rv[%before]
// CHECK-NEXT: gpu.map %o {{.*}} ins(%alpha
// CHECK: gpu.map %s {{.*}} outs(%p

// Steps that it does not: after the products comes the maximum.
// CHECK: scf.for %i_2 = %clear to %steps
// CHECK: gpu.ring_release %rk[%i_2]
// CHECK-NEXT: gpu.reduce max %s
// CHECK: gpu.map %s {{.*}} outs(%p

// The values of the last step, and the end.
// CHECK: gpu.ring_release %rq
// CHECK-NEXT: gpu.ring_wait %rv
// CHECK: gpu.contract %p {{.*}} into %o mma "wgmma"
// CHECK: gpu.reduce sum %sums by affine_map<(d0, d1) -> (d0)> into %total
// CHECK-NEXT: gpu.map %total {{.*}} outs(%alpha
// CHECK: arith.divf
// CHECK: gpu.map %o {{.*}} ins(%total {{.*}}, %alpha {{.*}}) outs(%O : {{.*}} affine_map<(d0, d1)[s0, s1, s2] -> (s0, s1, (d0 + s2), d1)>)
// CHECK: arith.truncf

// CHECK: gpu.launch @causal_attention_tma when (B >= 1, H >= 1, M >= 1, N >= 1) align [16, 16, 16, 16] grid [(B * H + 3) floordiv 4, (M + 127) floordiv 128, 4]
// CHECK-NEXT: gpu.launch @causal_attention_cp_async align
