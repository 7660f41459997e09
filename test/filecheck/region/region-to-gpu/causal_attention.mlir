// RUN: polyc-opt %examples/causal_attention.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80},region-to-gpu' | filecheck %s

// The kernel of the specification's causal attention (S15.3) in tiles: the last queries first, over
// the keys that they see; masks where they cut a tile; weights from registers into the second product.

// CHECK: gpu.module @causal_attention arch "sm_80" symbols [B, H, M, N] {
// CHECK:        gpu.kernel @causal_attention_cp_async(%Q: !gpu.global<[B, H, M, 128], f16> = tensor 0, %K: !gpu.global<[B, H, N, 128], f16> = tensor 1, %V: !gpu.global<[B, H, N, 128], f16> = tensor 2, %O: !gpu.global<[B, H, M, 128], f16> = tensor 3, %B: index = symbol B, %H: index = symbol H, %M: index = symbol M, %N: index = symbol N) threads 128 {
// CHECK-NEXT:     %{{.*}} = arith.constant 0 : index
// CHECK-NEXT:     %none = arith.constant 0xff800000 : f32
// CHECK-NEXT:     %zero = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:     %block = gpu.block_id
// CHECK-NEXT:     %tiles = affine.apply affine_map<(d0) -> (((d0 + 63) floordiv 64))> (%M)
// CHECK-NEXT:     %part = arith.remui %block, %tiles : index
// CHECK-NEXT:     %{{.*}} = arith.divui %block, %tiles : index
// CHECK-NEXT:     %m0 = affine.apply affine_map<(d0, d1) -> ((((d1 * 64) + (d0 * -64)) + -64))> (%part, %tiles)
// CHECK-NEXT:     %h = arith.remui %{{.*}}, %H : index
// CHECK-NEXT:     %b = arith.divui %{{.*}}, %H : index
// CHECK-NEXT:     %{{.*}} = affine.apply affine_map<(d0) -> ((d0 + 64))> (%m0)
// CHECK-NEXT:     %n_count = arith.minsi %N, %{{.*}} : index
// CHECK-NEXT:     %Q_tile = gpu.shared_tile : !gpu.shared<[64, 128], f16>
// CHECK-NEXT:     %K_tile = gpu.shared_tile : !gpu.shared<[64, 128], f16>
// CHECK-NEXT:     %V_tile = gpu.shared_tile : !gpu.shared<[64, 128], f16>
// CHECK-NEXT:     %scores = gpu.fragment : !gpu.fragment<[64, 64], f32>
// CHECK-NEXT:     %weights = gpu.fragment : !gpu.fragment<[64, 64], f16>
// CHECK-NEXT:     %out = gpu.fragment : !gpu.fragment<[64, 128], f32>
// CHECK-NEXT:     %max = gpu.fragment : !gpu.fragment<[64], f32>
// CHECK-NEXT:     %was = gpu.fragment : !gpu.fragment<[64], f32>
// CHECK-NEXT:     %base = gpu.fragment : !gpu.fragment<[64], f32>
// CHECK-NEXT:     %alpha = gpu.fragment : !gpu.fragment<[64], f32>
// CHECK-NEXT:     %part_1 = gpu.fragment : !gpu.fragment<[64], f32>
// CHECK-NEXT:     %sums = gpu.fragment : !gpu.fragment<[64], f32>
// CHECK-NEXT:     %K_again = gpu.shared_tile : !gpu.shared<[32, 128], f16>
// CHECK-NEXT:     %V_again = gpu.shared_tile : !gpu.shared<[32, 128], f16>
// CHECK:          %{{.*}} = arith.cmpi sgt, %n_count, %{{.*}} : index
// CHECK-NEXT:     gpu.fill %zero, %out : !gpu.fragment<[64, 128], f32>
// CHECK-NEXT:     gpu.fill %zero, %sums : !gpu.fragment<[64], f32>
// CHECK-NEXT:     gpu.fill %none, %max : !gpu.fragment<[64], f32>
// CHECK-NEXT:     gpu.fill %none, %was : !gpu.fragment<[64], f32>
// CHECK-NEXT:     scf.if %{{.*}} {
// CHECK-NEXT:       gpu.copy %Q[%b, %h, %m0, %{{.*}}] to %Q_tile loader "cp_async" : !gpu.global<[B, H, M, 128], f16>, !gpu.shared<[64, 128], f16>
// CHECK-NEXT:     }
// CHECK-NEXT:     gpu.pipeline %n0, %i = to %n_count step 64 stages 2 {
// CHECK-NEXT:       gpu.copy %K[%b, %h, %n0, %{{.*}}] to %K_tile loader "cp_async" : !gpu.global<[B, H, N, 128], f16>, !gpu.shared<[64, 128], f16>
// CHECK-NEXT:       gpu.copy %V[%b, %h, %n0, %{{.*}}] to %V_tile loader "cp_async" : !gpu.global<[B, H, N, 128], f16>, !gpu.shared<[64, 128], f16>
// CHECK-NEXT:       gpu.contract %Q_tile affine_map<(d0, d1, d2) -> (d0, d2)>, %K_tile affine_map<(d0, d1, d2) -> (d1, d2)> into %scores clear mma "mma.sync" warp_tile <16, 64> : !gpu.shared<[64, 128], f16>, !gpu.shared<[64, 128], f16>, !gpu.fragment<[64, 64], f32>
// CHECK-NEXT:       %left = arith.subi %N, %n0 : index
// CHECK-NEXT:       %{{.*}} = arith.constant 64 : index
// CHECK-NEXT:       %{{.*}} = arith.cmpi slt, %left, %{{.*}} : index
// CHECK-NEXT:       %{{.*}} = affine.apply affine_map<(d0, d1) -> (((d0 + (d1 * -1)) + -63))> (%m0, %n0)
// CHECK-NEXT:       %{{.*}} = arith.cmpi slt, %{{.*}}, %{{.*}} : index
// CHECK-NEXT:       %cut = arith.ori %{{.*}}, %{{.*}} : i1
// CHECK-NEXT:       scf.if %cut {
// CHECK-NEXT:         %{{.*}} = affine.apply affine_map<(d0, d1) -> (((d0 + (d1 * -1)) + 1))> (%m0, %n0)
// CHECK-NEXT:         gpu.map %scores : !gpu.fragment<[64, 64], f32> origin [%b, %h, %m0, %n0] ins() outs(%scores : !gpu.fragment<[64, 64], f32> affine_map<(d0, d1)[s0, s1, s2, s3] -> (d0, d1)>) {
// CHECK-NEXT:         ^bb0(%acc: f32):
// CHECK-NEXT:           %r = gpu.tile_index 0
// CHECK-NEXT:           %{{.*}} = affine.apply affine_map<(d0, d1) -> ((d0 + d1))> (%r, %{{.*}})
// CHECK-NEXT:           %c = gpu.tile_index 1
// CHECK-NEXT:           %{{.*}} = arith.minsi %{{.*}}, %left : index
// CHECK-NEXT:           %{{.*}} = arith.cmpi slt, %c, %{{.*}} : index
// CHECK-NEXT:           %{{.*}} = arith.select %{{.*}}, %acc, %none : f32
// CHECK-NEXT:           gpu.yield %{{.*}} : f32
// CHECK-NEXT:         }
// CHECK-NEXT:       }
// CHECK-NEXT:       gpu.reduce max %scores by affine_map<(d0, d1) -> (d0)> into %max accumulate : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
// CHECK-NEXT:       gpu.map %max : !gpu.fragment<[64], f32> origin [] ins(%was : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>) outs(%base : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>, %alpha : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>, %was : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>) {
// CHECK-NEXT:       ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:         %{{.*}} = arith.cmpf oeq, %{{.*}}, %none : f32
// CHECK-NEXT:         %{{.*}} = arith.constant -0.127517432 : f32
// CHECK-NEXT:         %{{.*}} = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:         %base_1 = arith.select %{{.*}}, %zero, %{{.*}} : f32
// CHECK-NEXT:         %{{.*}} = arith.constant 0.127517432 : f32
// CHECK-NEXT:         %{{.*}} = math.fma %{{.*}}, %{{.*}}, %base_1 : f32
// CHECK-NEXT:         %{{.*}} = math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK-NEXT:         gpu.yield %base_1, %{{.*}}, %{{.*}} : f32, f32, f32
// CHECK-NEXT:       }
// CHECK-NEXT:       gpu.map %scores : !gpu.fragment<[64, 64], f32> origin [] ins(%base : !gpu.fragment<[64], f32> affine_map<(d0, d1) -> (d0)>) outs(%scores : !gpu.fragment<[64, 64], f32> affine_map<(d0, d1) -> (d0, d1)>) {
// CHECK-NEXT:       ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:         %{{.*}} = arith.constant 0.127517432 : f32
// CHECK-NEXT:         %{{.*}} = math.fma %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:         %{{.*}} = math.exp2 %{{.*}} fastmath<afn> : f32
// CHECK-NEXT:         gpu.yield %{{.*}} : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       gpu.reduce sum %scores by affine_map<(d0, d1) -> (d0)> into %part_1 : !gpu.fragment<[64, 64], f32>, !gpu.fragment<[64], f32>
// CHECK-NEXT:       gpu.map %sums : !gpu.fragment<[64], f32> origin [] ins(%part_1 : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>, %alpha : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>) outs(%sums : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>) {
// CHECK-NEXT:       ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:         %{{.*}} = math.fma %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:         gpu.yield %{{.*}} : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       gpu.map %out : !gpu.fragment<[64, 128], f32> origin [] ins(%alpha : !gpu.fragment<[64], f32> affine_map<(d0, d1) -> (d0)>) outs(%out : !gpu.fragment<[64, 128], f32> affine_map<(d0, d1) -> (d0, d1)>) {
// CHECK-NEXT:       ^bb0(%{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:         %{{.*}} = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:         gpu.yield %{{.*}} : f32
// CHECK-NEXT:       }
// CHECK-NEXT:       gpu.map %scores : !gpu.fragment<[64, 64], f32> origin [] ins() outs(%weights : !gpu.fragment<[64, 64], f16> affine_map<(d0, d1) -> (d0, d1)>) {
// CHECK-NEXT:       ^bb0(%{{.*}}: f32):
// CHECK-NEXT:         %{{.*}} = arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT:         gpu.yield %{{.*}} : f16
// CHECK-NEXT:       }
// CHECK-NEXT:       gpu.contract %weights affine_map<(d0, d1, d2) -> (d0, d2)>, %V_tile affine_map<(d0, d1, d2) -> (d2, d1)> into %out mma "mma.sync" warp_tile <16, 128> : !gpu.fragment<[64, 64], f16>, !gpu.shared<[64, 128], f16>, !gpu.fragment<[64, 128], f32>
// CHECK-NEXT:     }

// What is not finite is computed again (S0.6): marks of it where keys are hidden, and the rest.
// CHECK-NEXT:     gpu.reduce sum %out by affine_map<(d0, d1) -> (d0, (d1 mod 32))> into %probe
// CHECK-NEXT:     gpu.map %probe : {{.*}} outs(%wrong : !gpu.fragment<[64, 32], i1>
// CHECK:          arith.cmpf uge
// CHECK:          %again = gpu.any %wrong : !gpu.fragment<[64, 32], i1>
// CHECK-NEXT:     scf.if %again {
// CHECK:            gpu.fill %zero, %out
// CHECK:            gpu.opaque
// CHECK:            scf.for
// CHECK:              scf.if %cut
// CHECK-NEXT:           gpu.copy %V[{{.*}}] to %loaded : !gpu.global<[B, H, N, 128], f16>, !gpu.fragment<[32, 64], f16>
// CHECK:                arith.cmpf uge
// CHECK:                gpu.copy %loaded to %V_again window <0, 0>
// CHECK:                gpu.copy %loaded to %V_again window <0, 64>
// CHECK-NEXT:           gpu.fill %zero, %scores_again
// CHECK:                gpu.map %scores_again {{.*}} outs(%weights_again
// CHECK:                gpu.contract %weights_again {{.*}} %V_again {{.*}} into %out mma "mma.sync" warp_tile <16, 128>
// CHECK:            gpu.map %out
// CHECK:              arith.constant 0x4B000000 : f32
// CHECK:            scf.for
// CHECK:                arith.cmpf ule
// CHECK:                gpu.contract %weights_again
// CHECK:            gpu.map %out
// CHECK:            gpu.map %max {{.*}} outs(%base
// CHECK:            scf.for
// CHECK:              gpu.copy %K[{{.*}}] to %K_again loader "cp_async"
// CHECK:              gpu.contract %Q_tile {{.*}} %K_again {{.*}} into %scores_again clear mma "mma.sync" warp_tile <16, 32>
// CHECK:              gpu.map %scores_again {{.*}} outs(%weights_again
// CHECK:              gpu.copy %V[{{.*}}] to %loaded
// CHECK:              scf.if %cut
// CHECK:              gpu.contract %weights_again {{.*}} %V_again {{.*}} into %out

// CHECK:          gpu.map %sums : !gpu.fragment<[64], f32> origin [] ins() outs(%alpha : !gpu.fragment<[64], f32> affine_map<(d0) -> (d0)>) {
// CHECK-NEXT:     ^bb0(%{{.*}}: f32):
// CHECK-NEXT:       %{{.*}} = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:       %{{.*}} = arith.divf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:       gpu.yield %{{.*}} : f32
// CHECK-NEXT:     }
// CHECK-NEXT:     gpu.map %out : !gpu.fragment<[64, 128], f32> origin [%{{.*}}, %{{.*}}, %{{.*}}] ins(%sums : !gpu.fragment<[64], f32> affine_map<(d0, d1)[s0, s1, s2] -> (d0)>, %alpha : !gpu.fragment<[64], f32> affine_map<(d0, d1)[s0, s1, s2] -> (d0)>) outs(%O : !gpu.global<[B, H, M, 128], f16> affine_map<(d0, d1)[s0, s1, s2] -> (s0, s1, (d0 + s2), d1)>) {
// CHECK-NEXT:     ^bb0(%{{.*}}: f32, %{{.*}}: f32, %{{.*}}: f32):
// CHECK-NEXT:       %{{.*}} = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %{{.*}} = arith.cmpf oeq, %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:       %{{.*}} = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:       %{{.*}} = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:       %{{.*}} = arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:       %{{.*}} = arith.truncf %{{.*}} : f32 to f16
// CHECK-NEXT:       gpu.yield %{{.*}} : f16
// CHECK-NEXT:     }
// CHECK-NEXT:     gpu.return
// CHECK-NEXT:   }
// CHECK-NEXT:   gpu.dispatch (Q: !gpu.global<[B, H, M, 128], f16>, K: !gpu.global<[B, H, N, 128], f16>, V: !gpu.global<[B, H, N, 128], f16>) -> (O: !gpu.global<[B, H, M, 128], f16>) {
// CHECK:          gpu.launch @causal_attention_cp_async align [16, 16, 16, 16] grid [B, H, (M + 63) floordiv 64]
// CHECK-NEXT:   }
// CHECK-NEXT: }
