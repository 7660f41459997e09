// RUN: polyc-opt %examples/layer_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s --check-prefix=LN
// RUN: polyc-opt %examples/layer_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80},region-to-gpu' | polyc-opt | filecheck %s --check-prefix=LN
// RUN: polyc-opt %examples/rms_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-to-gpu' | filecheck %s --check-prefix=RMS
// RUN: polyc-opt %examples/rms_norm.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80},region-to-gpu' | polyc-opt | filecheck %s --check-prefix=RMS
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-expand-together,region-to-gpu' | filecheck %s --check-prefix=SOFT
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_90a},region-expand-together,region-to-gpu' | filecheck %s --check-prefix=SPLIT
// RUN: polyc-opt %examples/softmax.mlir -p 'frontend-to-tiny,tiny-to-index,index-to-region,region-srnf,region-inline-deferred,region-streaming-softmax,plan-select{arch=sm_80},region-expand-together,region-to-gpu' | polyc-opt | filecheck %s --check-prefix=SOFT

// A row a warp: X is copied once, reduced twice, and mapped into Y with what the columns have.
// LN-NOT:   region.
// LN:       gpu.kernel @layer_norm_warp({{.*}}) threads 128 blocks_per_sm 7 {
// LN:         %[[X:.*]] = gpu.fragment : !gpu.fragment<[4, 1024], f16>
// LN:         gpu.copy %X[%m0, %{{.*}}] to %[[X]]
// LN-NOT:     gpu.copy
// LN:         arith.select %{{.*}}, %X_f32, %{{.*}} : f32
// LN:         gpu.reduce sum %{{.*}} by affine_map<(d0, d1) -> (d0)> into %[[SUM:.*]] : !gpu.fragment<[4, 1024], f32>, !gpu.fragment<[4], f32>
// LN:         gpu.map %[[SUM]] : !gpu.fragment<[4], f32> {{.*}} outs(%[[MEAN:[0-9]+]] : !gpu.fragment<[4], f32>
// LN:         gpu.map %[[X]] : {{.*}} ins(%[[MEAN]] : !gpu.fragment<[4], f32> {{.*}} -> (d0)>)
// LN:         %[[D:.*]] = arith.subf
// LN-NEXT:    arith.mulf %[[D]], %[[D]] : f32
// LN:         gpu.reduce sum
// LN:         math.rsqrt
// LN:         gpu.map %[[X]] : {{.*}}, %gamma : !gpu.global<[N], f16> {{.*}} -> (d1)>, %beta : !gpu.global<[N], f16> {{.*}} outs(%Y : !gpu.global<[M, N], f16> {{.*}} -> ((s0 + d0), d1)>)
// LN:         gpu.return
// LN:       gpu.kernel @layer_norm_block({{.*}}) threads 256 {{.*}}{

// Rows of any length: each of two sums takes a walk of its own, and so does the output.
// LN:       gpu.kernel @layer_norm_any({{.*}}) threads 256 {{.*}}{
// LN:         gpu.fill
// LN:         scf.for %{{.*}} = %{{.*}} to %N step
// LN:           gpu.reduce sum %{{.*}} accumulate
// LN:         gpu.fill
// LN:         scf.for %{{.*}} = %{{.*}} to %N step
// LN:           gpu.reduce sum %{{.*}} accumulate
// LN:         scf.for %{{.*}} = %{{.*}} to %N step
// LN:           gpu.map {{.*}} outs(%Y : {{.*}} -> ((s0 + d0), (d1 + s1))>)
// LN:       gpu.launch @layer_norm_warp when (N mod 8 == 0, -N >= -1024) align [16, 16, 16, 16] grid [(M + 3) floordiv 4]
// LN:       gpu.launch @layer_norm_block_2048 when (N mod 8 == 0, -N >= -2048) align [16, 16, 16, 16] grid [M]
// LN:       gpu.launch @layer_norm_block_4096 when (N mod 8 == 0, -N >= -4096) align [16, 16, 16, 16] grid [M]
// LN-NEXT:  gpu.launch @layer_norm_block_6144 when (N mod 8 == 0, -N >= -6144) align [16, 16, 16, 16] grid [M]
// LN:       gpu.launch @layer_norm_block when (N mod 8 == 0, -N >= -8192) align [16, 16, 16, 16] grid [M]
// LN:       gpu.launch @layer_norm_chunks when (N mod 8 == 0) align [16, 16, 16, 16] grid [M]
// LN-NEXT:  gpu.launch @layer_norm_lanes_any when (-N >= -64) align [2, 2, 2, 2]
// LN:       gpu.launch @layer_norm_block_any when (-N >= -8192) align [2, 2, 2, 2] grid [M]
// LN-NEXT:  gpu.launch @layer_norm_any align [2, 2, 2, 2] grid [M]

// The squares are in no fragment after their sum, and X is copied once.
// RMS:      gpu.kernel @rms_norm_warp
// RMS:        gpu.copy %X
// RMS-NOT:    gpu.copy
// RMS:        arith.mulf %X_f32, %X_f32 : f32
// RMS:        gpu.reduce sum
// RMS:        math.rsqrt
// RMS:        gpu.map {{.*}} outs(%Y
// RMS:      gpu.kernel @rms_norm_block_2048(
// RMS:      gpu.kernel @rms_norm_block_4096(
// RMS:      gpu.kernel @rms_norm_block(
// RMS:      gpu.kernel @rms_norm_chunks
// RMS:      gpu.kernel @rms_norm_any

// What a block holds is the exponentials: the map that writes divides them.
// SOFT:     gpu.kernel @softmax_block(
// SOFT:       gpu.copy %X
// SOFT:       gpu.reduce max %{{.*}} into %[[MAX:.*]] :
// SOFT:       math.exp
// SOFT:       gpu.reduce sum %[[E:.*]] by {{.*}} into %[[SUM:.*]] :
// SOFT-NOT:   math.exp
// SOFT:       gpu.map %[[E]] : {{.*}} ins(%[[SUM]] : {{.*}} outs(%Y
// SOFT:         arith.divf

// The blocks of a cluster take chunks in turn, tell each other their states, and combine all.
// SPLIT:    gpu.kernel @softmax_chunks_split8({{.*}}) threads 512 cluster 8 {
// SPLIT:      %m0 = affine.apply affine_map<(d0) -> ((d0 floordiv 8))> (%block)
// SPLIT:      %rank = gpu.cluster_rank
// SPLIT:      %[[FIRST:.*]] = affine.apply affine_map<(d0) -> ((d0 * 8192))> (%rank)
// SPLIT:      %[[STEP:.*]] = arith.constant 65536 : index
// SPLIT:      scf.for %{{.*}} = %[[FIRST]] to %N step %[[STEP]] {
// SPLIT:        gpu.reduce max %{{.*}} : !gpu.fragment<[1, 8192], f32>, !gpu.fragment<[1], f32>
// SPLIT:        gpu.reduce sum %{{.*}} : !gpu.fragment<[1, 8192], f32>, !gpu.fragment<[1], f32>
// SPLIT:      gpu.reduce max %{{.*}} cluster : !gpu.fragment<[8], f32
// SPLIT:      gpu.reduce max %{{.*}} into %[[SUMS:.*]] cluster : !gpu.fragment<[8], f32
// SPLIT-COUNT-7: arith.maximumf
// SPLIT-NOT:  arith.maximumf
// SPLIT:      scf.for
// SPLIT-NOT:  cluster
// SPLIT:        gpu.map {{.*}} outs(%Y
// SPLIT:    gpu.launch @softmax_chunks_split8 when (N mod 8 == 0, -M >= -66, N >= 65536) align [16, 16] grid [8 * M]

// A chunk's maximum and sum are combined with those of the chunks before it.
// SOFT:     gpu.kernel @softmax_chunks(
// SOFT:       scf.for
// SOFT:         gpu.reduce max %{{.*}} into %[[NEW:.*]] :
// SOFT:         gpu.reduce sum %{{.*}} into %[[MORE:.*]] :
// SOFT:         gpu.map %[[TOP:.*]] : !gpu.fragment<[1], f32> {{.*}} ins(%[[NEW]] : {{.*}}, %[[TOTAL:.*]] : {{.*}}, %[[MORE]] : {{.*}}) outs(%[[TOP]] : {{.*}}, %[[TOTAL]] :
// SOFT:           arith.maximumf
// SOFT:       scf.for
// SOFT:         gpu.map {{.*}} outs(%Y
